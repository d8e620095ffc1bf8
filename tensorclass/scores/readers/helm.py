"""Results of HELM: a folder a run, with ``per_instance_stats.json``, ``stats.json`` and ``run_spec.json``.

``per_instance_stats.json`` is an array with an entry for each instance, train trial and perturbation, each with its
``stats``: a name, the split, and the sum and count of the values. Source: the files of crfm-helm 0.5,
https://crfm-helm.readthedocs.io.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

from typing_extensions import TypedDict

from tensorclass.scores.logged_kinds import fields_of_kind
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.growing_columns import prompt_id
from tensorclass.scores.readers.json_document import document_beside, file_beside, read_document
from tensorclass.scores.readers.lm_eval_results import short_text
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Published, Run
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "HelmReader"]

_ROWS: Final = "per_instance_stats.json"
_BOOKKEEPING: Final = re.compile(
    r"num_.*|training_.*|inference_.*|batch_size|finish_reason_.*|prompt_truncated|max_prob|logprob|estimated_.*"
)
"""Statistics that HELM keeps of every run and that are no scores: counts of tokens, costs, reasons to stop."""

_OF_LANGUAGE_MODELS: Final = ("perplexity", "bits_per_byte", "logprob_per_byte")
"""Figures of ``stats.json`` that HELM makes of the sums of ``logprob``, ``num_perplexity_tokens`` and ``num_bytes``."""

_KINDS: Final = {"perplexity": "perplexity", "bits_per_byte": "bits"}
_UNITS: Final = {"perplexity": "num_perplexity_tokens", "bits_per_byte": "num_bytes"}


class _Perturbation(TypedDict, total=False):
    name: str
    computed_on: str


class _Name(TypedDict, total=False):
    name: str
    split: str | None
    sub_split: str | None
    perturbation: _Perturbation | None


_PROMPT_FORMAT: Final = (
    *("global_prefix", "global_suffix", "input_prefix", "input_suffix", "reference_prefix", "reference_suffix"),
    *("output_prefix", "output_suffix", "instance_prefix"),
)


class _Stat(TypedDict, total=False):
    name: _Name
    count: float
    sum: float
    mean: float | None


class _Instance(TypedDict, total=False):
    instance_id: str
    train_trial_index: int
    perturbation: _Perturbation | None
    stats: list[_Stat]


class _RunSpec(TypedDict, total=False):
    name: str
    adapter_spec: dict[str, object]
    scenario_spec: dict[str, object]
    metric_specs: list[dict[str, object]]


class _Request(TypedDict, total=False):
    prompt: str


class _Completion(TypedDict, total=False):
    text: str


class _Result(TypedDict, total=False):
    completions: list[_Completion]


class _InstanceId(TypedDict, total=False):
    id: str


class _RequestState(TypedDict, total=False):
    instance: _InstanceId
    request: _Request
    result: _Result | None


class _ScenarioState(TypedDict, total=False):
    request_states: list[_RequestState]


class HelmReader(Reader):
    """Reads results of HELM."""

    name: str = "helm"
    description = "per_instance_stats.json of HELM (instance_id, train_trial_index, stats)"
    companions: Sequence[str] = (
        "run_spec.json",
        "scenario.json",
        "scenario_state.json",
        "instances.json",
        "display_*.json",
    )

    def recognises(self, head: FileHead) -> bool:
        row = head.first_row
        if row is None:
            return False
        return ("instance_id" in row and "stats" in row) or _is_summary(row)

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_options(head, options, self.name, roles=("filter",))
        if head.first_row is None or not _is_summary(head.first_row):
            return [_read(head, options)]
        instances = file_beside(head.path, _ROWS)
        if instances is not None:
            return [_read(FileHead.of(instances), options)]
        raise ScoreFileError(str(head.path), None, f"stats.json of HELM holds figures only; expected {_ROWS} beside it")


READER = HelmReader()


def _is_summary(row: Mapping[str, object]) -> bool:
    return isinstance(row.get("name"), dict) and "count" in row and "sum_squared" in row


def _wanted_split(splits: Mapping[str, int], asked: str | None, path: str) -> str:
    """The split to read. Perturbed instances are a split of their own."""
    if asked is not None and asked not in splits:
        raise ScoreFileError(path, None, f"filter: expected one of {', '.join(map(repr, splits))}, got {asked!r}")
    plain = [name for name in splits if "/" not in name]
    return asked or ("test" if "test" in plain else (plain or list(splits))[0])


def _read(head: FileHead, options: ReadOptions) -> Run:
    path = str(head.path)
    instances = read_document(head.location, list[_Instance], path)
    if not instances:
        raise ScoreFileError(path, None, "no instances; expected an array with one entry for each of them")
    splits = Counter(map(_split, instances))
    wanted = _wanted_split(splits, options.filter_of(None), path)
    spec = document_beside(head.path, "run_spec.json", _RunSpec)
    run_name = "" if spec is None else spec[1].get("name", "")
    task = _without_model(run_name) or None
    chosen = [instance for instance in instances if _split(instance) == wanted]
    ignored = {name: None for instance in chosen for name in _sums(instance) if _BOOKKEEPING.fullmatch(name)}
    kinds: Mapping[str, str] = {}
    gathered = _gathered(head, chosen, _means, task)
    if not gathered.metrics():  # of a scenario that has nothing but the likelihood of texts
        gathered, kinds = _gathered(head, chosen, _likelihoods, task), _KINDS
    held = gathered.metrics()
    if not held:
        problem = f"{gathered.rows} instances without a score: there is nothing to aggregate"
        raise ScoreFileError(path, None, f"{problem}; HELM logs {', '.join(ignored) or 'nothing'} of them")
    summary = document_beside(head.path, "stats.json", list[_Stat])
    published = _published([] if summary is None else summary[1], wanted)
    counted = published.get("num_instances")
    notes: list[str] = []
    if len(splits) > 1:
        others = ", ".join(repr(name) for name in splits if name != wanted)
        notes.append(f"instances of the split {wanted!r} are read; left out {others}")
    left_out = [
        f"{name} is {figure.value:g} in stats.json; {_why_left_out(name)}"
        for name, figure in published.items()
        if name not in held and not _BOOKKEEPING.fullmatch(name)
    ]
    return gathered.run(
        READER.name,
        options.family,
        kinds=kinds,
        name=head.path.absolute().parent.name or head.name,
        beside=[found[0] for found in (spec, summary) if found is not None],
        filter=wanted,
        filters=dict(splits),
        ignored=tuple(ignored),
        notes=tuple(notes),
        model=None if spec is None else cast("str | None", spec[1].get("adapter_spec", {}).get("model")),
        task=task,
        published={name: figure for name, figure in published.items() if name in held},
        published_in="stats.json",
        may_differ=bool(kinds),
        left_out=tuple(left_out),
        texts=_texts_of(head, wanted),
        conditions={} if spec is None else _conditions(spec[1]),
        expected=None if counted is None else round(counted.value) or None,
    )


def _conditions(spec: _RunSpec) -> dict[str, str]:
    """The conditions of the run, as its spec says."""
    adapter = spec.get("adapter_spec", {})
    said = {
        "n_shot": adapter.get("max_train_instances"),
        "method": adapter.get("method"),
        "instructions": adapter.get("instructions"),
        "prompt_format": [adapter.get(name) for name in _PROMPT_FORMAT] if adapter else None,
        "scenario": spec.get("scenario_spec"),
        "metric": spec.get("metric_specs"),
        "temperature": adapter.get("temperature"),
        "max_tokens": adapter.get("max_tokens"),
        "seed": adapter.get("random"),
    }
    return {name: short_text(value) for name, value in said.items() if value is not None}


def _gathered(
    head: FileHead, instances: list[_Instance], values: Callable[[_Instance], dict[str, float]], task: str | None
) -> GatheredScores:
    gathered = GatheredScores(head)
    for instance in instances:
        gathered.add(_document(instance, str(head.path)), values(instance), task=task, usage=_usage(instance))
    return gathered


def _sums(instance: _Instance) -> dict[str, tuple[float, float]]:
    """The sum and the count of each statistic."""
    return {
        stat.get("name", {}).get("name", ""): (stat.get("sum", 0.0), stat.get("count", 0))
        for stat in instance.get("stats", ())
    }


def _usage(instance: _Instance) -> dict[str, object]:
    """The tokens of a prompt and of its completions, and the time that they took."""
    means = {name: total / count for name, (total, count) in _sums(instance).items() if count > 0}
    tokens = [means[name] for name in ("num_prompt_tokens", "num_output_tokens") if name in means]
    return {"tokens": sum(tokens) if tokens else None, "seconds": means.get("inference_runtime")}


def _means(instance: _Instance) -> dict[str, float]:
    """The statistics that are scores."""
    sums = {name: own for name, own in _sums(instance).items() if not _BOOKKEEPING.fullmatch(name)}
    return {name: total / count for name, (total, count) in sums.items() if count > 0}


def _likelihoods(instance: _Instance) -> dict[str, float]:
    """The log-likelihood of a text and the number of its units, for each figure of language models."""
    sums = _sums(instance)
    found: dict[str, float] = {}
    for figure, kind in _KINDS.items():
        own, units = fields_of_kind(figure, kind)
        if "logprob" in sums and _UNITS[figure] in sums:
            found[own], found[units] = sums["logprob"][0], sums[_UNITS[figure]][0]
    return found


def _why_left_out(name: str) -> str:
    if name in _OF_LANGUAGE_MODELS:
        return "it is made of log-likelihoods, which are read for scenarios without other scores only"
    return f"{_ROWS} doesn't hold what it is made of"


def _split(instance: _Instance) -> str:
    """The split of an instance, ``test``; that of a perturbed one with the perturbation: ``test/robustness``."""
    split = next((stat["name"].get("split") for stat in instance.get("stats", ()) if "name" in stat), None) or "test"
    perturbation = instance.get("perturbation")
    return split if perturbation is None else f"{split}/{perturbation.get('name', '')}"


def _document(instance: _Instance, path: str) -> str:
    if "instance_id" not in instance:
        raise ScoreFileError(path, None, "instance_id: expected in each entry, but one lacks it")
    return f"instance {instance['instance_id']}"


def _without_model(name: str) -> str:
    """The scenario of a run's name, ``bbq:subject=all,model=openai_gpt-4o`` without the model."""
    scenario, _, arguments = name.partition(":")
    kept = [one for one in arguments.split(",") if one and not one.startswith(("model=", "model_deployment="))]
    return f"{scenario}:{','.join(kept)}" if kept else scenario


def _published(stats: list[_Stat], wanted: str) -> dict[str, Published]:
    split, _, perturbation = wanted.partition("/")
    found: dict[str, Published] = {}
    for stat in stats:
        name = stat.get("name", {})
        perturbed = name.get("perturbation")
        if name.get("split") != split or name.get("sub_split") is not None:
            continue
        if perturbation != ("" if perturbed is None else perturbed.get("name", "")):
            continue
        if perturbed is not None and perturbed.get("computed_on") != "perturbed":
            continue
        mean = stat.get("mean")
        if stat.get("count", 0) > 0 and mean is not None:
            found[name.get("name", "")] = Published(mean)
    return found


def _texts_of(head: FileHead, wanted: str) -> partial[Iterator[PromptText]] | None:
    if "/" in wanted:
        return None
    states = file_beside(head.path, "scenario_state.json")
    return None if states is None else partial(_texts, head.path, states, wanted)


def _texts(path: Path, states: Path, wanted: str) -> Iterator[PromptText]:
    """The texts of the rows, from the file of requests."""
    found: dict[str, tuple[str, str | None]] = {}
    for state in read_document(states, _ScenarioState).get("request_states", ()):
        completions = (state.get("result") or {}).get("completions") or [{}]
        number = state.get("instance", {}).get("id", "")
        found.setdefault(number, (state.get("request", {}).get("prompt", ""), completions[0].get("text")))
    for instance in read_document(path, list[_Instance]):
        if _split(instance) == wanted:
            prompt, response = found.get(instance.get("instance_id", ""), ("", None))
            yield PromptText(prompt_id(_document(instance, str(path))), prompt, response)
