"""Logs of inspect_ai: ``.eval``, a zip archive with a member for each sample, and ``.json``, one document.

An archive holds ``header.json`` once the run has ended (``_journal/start.json`` before), ``samples/ID_epoch_N.json``
and, of a scored run, ``reductions.json``. A sample has ``scores``: for each scorer a ``value``, which is a number, true
or false, a letter (C correct, I incorrect, P partially correct, N no answer), or a dictionary or list of these.
Source: https://inspect.aisi.org.uk/eval-logs.html and https://inspect.aisi.org.uk/scorers.html.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

from typing_extensions import TypedDict

from tensorclass.scores.limits import finite_number
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.growing_columns import prompt_id, shown
from tensorclass.scores.readers.json_document import parsed, read_document
from tensorclass.scores.readers.lines import OnProgress
from tensorclass.scores.readers.lm_eval_results import short_text
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Published, Run
from tensorclass.scores.readers.zip_members import ZipMembers
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "InspectReader", "value_of"]

_Shape = TypeVar("_Shape")

_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


class _Score(TypedDict, total=False):
    value: object


class _Sample(TypedDict, total=False):
    id: int | str
    epoch: int
    scores: dict[str, _Score] | None
    score: _Score | None
    metadata: dict[str, object] | None
    error: object
    model_usage: dict[str, dict[str, object]] | None
    total_time: float | None


class _Texts(TypedDict, total=False):
    id: int | str
    epoch: int
    input: object
    target: object
    output: dict[str, object] | None


class _Dataset(TypedDict, total=False):
    name: str | None
    samples: int | None
    sample_ids: list[int | str] | None


class _Config(TypedDict, total=False):
    epochs: int | None
    limit: int | list[int] | None
    seed: int | None


class _Eval(TypedDict, total=False):
    task: str
    model: str
    task_version: int | str
    task_args: dict[str, object]
    dataset: _Dataset | None
    config: _Config | None
    scorers: list[dict[str, object]] | None
    model_generate_config: dict[str, object] | None


class _Plan(TypedDict, total=False):
    steps: list[dict[str, object]] | None
    config: dict[str, object] | None


class _MetricValue(TypedDict, total=False):
    value: object


class _ScorerResults(TypedDict, total=False):
    name: str
    scorer: str
    reducer: str | None
    metrics: dict[str, _MetricValue]


class _Results(TypedDict, total=False):
    total_samples: int | None
    scores: list[_ScorerResults]


class _ReducedSample(TypedDict, total=False):
    sample_id: int | str | None
    value: object


class _Reduction(TypedDict, total=False):
    scorer: str
    reducer: str | None
    samples: list[_ReducedSample]


class _Header(TypedDict, total=False):
    status: str
    eval: _Eval
    plan: _Plan | None
    results: _Results | None
    reductions: list[_Reduction] | None
    invalidated: bool


class _Log(_Header, total=False):
    samples: list[_Sample] | None


class _LogOfTexts(TypedDict, total=False):
    samples: list[_Texts] | None


class InspectReader(Reader):
    """Reads logs of inspect_ai."""

    name: str = "inspect_ai"
    description = "a log of inspect_ai (.eval, or .json with version, status, eval, ...)"

    def recognises(self, head: FileHead) -> bool:
        if head.is_zip:
            return head.name.endswith(".eval") or b"_journal/start.json" in head.start or b"header.json" in head.start
        return {"status", "eval"} <= head.keys or _DOCUMENT.match(head.start) is not None

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_options(head, options, self.name, roles=("group", "cluster"))
        with _opened(head, options.on_progress(head.path)) as log:
            return [_run(log, head, options)]


READER = InspectReader()

_DOCUMENT = re.compile(rb'\s*\{\s*("version"\s*:\s*\d+\s*,\s*)?"status"\s*:\s*"(success|error|started|cancelled)"')


_STATES_ONLY = (
    "a log of inspect_ai that holds no samples, so there is nothing to compute or compare; run the evaluation with "
    "--log-samples (the default)"
)


@dataclass
class _OpenLog:
    """A log whose samples are read one by one."""

    header: _Header
    samples: Iterator[_Sample]


@contextmanager
def _opened(head: FileHead, on_progress: OnProgress | None) -> Generator[_OpenLog, None, None]:
    path, name = head.location, str(head.path)
    if not head.is_zip:
        log = read_document(path, _Log, name)
        yield _OpenLog(log, iter(log.get("samples") or ()))
        return
    with ZipMembers.of(path, name) as members:
        header = _header(members, name)
        if "reductions.json" in members:
            header["reductions"] = parsed(members.read("reductions.json"), list[_Reduction], f"{name}/reductions.json")
        yield _OpenLog(header, _members(members, name, _Sample, on_progress))


def _header(members: ZipMembers, name: str) -> _Header:
    if "header.json" in members:
        return parsed(members.read("header.json"), _Header, f"{name}/header.json")
    if "_journal/start.json" in members:  # the run has not ended
        header = parsed(members.read("_journal/start.json"), _Header, f"{name}/_journal/start.json")
        header["status"] = "started"
        return header
    raise ScoreFileError(name, None, "a zip archive without header.json; expected a log of inspect_ai")


def _members(
    members: ZipMembers, name: str, shape: type[_Shape], on_progress: OnProgress | None = None
) -> Iterator[_Shape]:
    for member in members.names("samples/", ".json"):
        yield parsed(members.read(member), shape, f"{name}/{member}")
        if on_progress is not None:
            on_progress(members.end_of(member))


def _run(log: _OpenLog, head: FileHead, options: ReadOptions) -> Run:
    path = str(head.path)
    header = log.header
    evaluation = header.get("eval") or {}
    task = evaluation.get("task")
    gathered = GatheredScores(head)
    reduced = _reduced(header)
    first_rows: set[str] = set()
    failed = 0
    unreadable: dict[str, list[object]] = {}
    group, cluster = options.columns.get("group"), options.columns.get("cluster")
    for sample in log.samples:
        document = _document(sample, path)
        values = _values(sample, unreadable)
        if document not in first_rows:  # a reduced value counts once for all epochs of a sample
            first_rows.add(document)
            values.update(reduced.get(document, {}))
        failed += sample.get("error") is not None
        gathered.add(document, values, labels=sample.get("metadata") or {}, task=task, usage=_usage(sample))
    if not gathered.rows:
        raise ScoreFileError(path, None, f"{_STATES_ONLY}{_said(header)}")
    if not gathered.metrics():
        problem = f"{gathered.rows} samples, none of them scored: there is nothing to aggregate"
        raise ScoreFileError(path, None, f"{problem}; score the log with `inspect score` first")
    notes: list[str] = []
    status = header.get("status", "success")
    if status != "success":
        notes.append(f"the run's status is {status!r}: the figures are of the {gathered.rows} samples that it logged")
    if header.get("invalidated"):
        notes.append("the log is marked as invalidated")
    if failed:
        notes.append(f"{failed} of {gathered.rows} samples ended with an error; one without a score isn't counted")
    for name, examples in unreadable.items():
        notes.append(f"{name}: {len(examples)} values are no scores, such as {shown(examples[0])}; they aren't counted")
    published, left_out = _published(header, gathered.metrics())
    return gathered.run(
        READER.name,
        options.family,
        notes=tuple(notes),
        model=evaluation.get("model"),
        task=task,
        published=published,
        published_in="the log itself",
        may_differ=True,
        left_out=tuple(left_out),
        texts=partial(_texts, head.path, head.is_zip),
        groups=None if group is None else (group,),
        cluster=cluster,
        conditions=_conditions(header),
        expected=_expected(header),
    )


def _conditions(header: _Header) -> dict[str, str]:
    """The conditions of the run, as the spec of the evaluation says."""
    evaluation, plan = header.get("eval") or {}, header.get("plan") or {}
    solvers = [(step.get("solver"), step.get("params")) for step in plan.get("steps") or ()]
    scorers = [(scorer.get("name"), scorer.get("options")) for scorer in evaluation.get("scorers") or ()]
    said: dict[str, object] = {
        "version": evaluation.get("task_version"),
        "task_args": evaluation.get("task_args") if "task_args" in evaluation else None,
        "dataset": (evaluation.get("dataset") or {}).get("name"),
        "solver": solvers or None,
        "scorer": scorers or None,
    }
    sampling = {**(plan.get("config") or {}), **(evaluation.get("model_generate_config") or {})}
    said.update((name, sampling.get(name)) for name in ("temperature", "max_tokens", "top_p", "reasoning_effort"))
    said["seed"] = sampling.get("seed", (evaluation.get("config") or {}).get("seed"))
    return {name: short_text(value) for name, value in said.items() if value is not None}


def _expected(header: _Header) -> int | None:
    """The number of samples that the run was to log, with their epochs; None if the log doesn't say."""
    total = (header.get("results") or {}).get("total_samples")
    if total:
        return total
    evaluation = header.get("eval") or {}
    dataset, config = evaluation.get("dataset") or {}, evaluation.get("config") or {}
    numbers, limit = dataset.get("sample_ids"), config.get("limit")
    samples = len(numbers) if numbers else dataset.get("samples")
    if samples is None or isinstance(limit, list):
        return None
    return min(samples, limit or samples) * (config.get("epochs") or 1)


def _said(header: _Header) -> str:
    """The status of a run and the figures that its log states, for the error of a log without samples."""
    scores = (header.get("results") or {}).get("scores", ())
    figures = [
        f"{scorer.get('name', '')} {key} {value:g}"
        for scorer in scores
        for key, metric in (scorer.get("metrics") or {}).items()
        if (value := finite_number(metric.get("value"))) is not None
    ]
    stated = f"; the log states {', '.join(figures)}" if figures else ""
    return f"; its status is {header.get('status', 'unknown')!r}{stated}"


def _document(sample: _Sample | _Texts, path: str) -> str:
    number = sample.get("id")
    if number is None:
        raise ScoreFileError(path, None, "id: expected in each sample of a log of inspect_ai, but one lacks it")
    return f"sample {number}"


def _values(sample: _Sample, unreadable: dict[str, list[object]]) -> dict[str, float | None]:
    """The scores of a sample by name. What is no score is None, and added to ``unreadable``."""
    values: dict[str, float | None] = {}
    single = sample.get("score")  # of logs of version 1
    scores = sample.get("scores") or ({} if single is None else {"score": single})
    for scorer, score in scores.items():
        for name, value in _flat(scorer, score.get("value")):
            try:
                values[name] = value_of(value)
            except ValueError:
                values[name] = None
                unreadable.setdefault(name, []).append(value)
    return values


def _flat(name: str, value: object) -> Iterator[tuple[str, object]]:
    """The values of a score with their names: a dictionary's by its keys, a list's by their positions."""
    if isinstance(value, dict):
        for key, one in cast("dict[str, object]", value).items():
            yield f"{name}/{key}", one
    elif isinstance(value, list):
        for place, one in enumerate(cast("list[object]", value)):
            yield f"{name}/{place}", one
    else:
        yield name, value


def value_of(value: object) -> float | None:
    """Convert a value of a score to a number, as inspect_ai does before it aggregates.

    Args:
        value: a number, true or false, a letter (C, I, P or N), yes or no, or a number as text.

    Returns:
        The number; None if the value is null or NaN, which inspect_ai writes for a sample that isn't scored.

    Raises:
        ValueError: the value is no score.

    Example:
        >>> value_of("C"), value_of("P"), value_of("I"), value_of(True), value_of("0.25")
        (1.0, 0.5, 0.0, 1.0, 0.25)
    """
    if value is None:
        return None
    if isinstance(value, str):
        letter = _LETTERS.get(value, _LETTERS.get(value.lower()))
        value = float(value) if letter is None else letter
    if not isinstance(value, (bool, int, float)):
        raise ValueError(f"expected a number or a letter, got {shown(value)}")
    try:
        return None if value != value else float(value)
    except OverflowError:
        raise ValueError(f"expected a number, got one that is too large: {shown(value)}") from None


def _usage(sample: _Sample) -> dict[str, object]:
    """The tokens, the cost and the time that a sample took, of all models that it called."""
    usage = [one for one in (sample.get("model_usage") or {}).values() if one]
    found: dict[str, object] = {"seconds": sample.get("total_time")}
    for name, key in (("tokens", "total_tokens"), ("cost", "total_cost")):
        amounts = [finite_number(one.get(key)) for one in usage]
        known = [amount for amount in amounts if amount is not None]
        found[name] = sum(known) if known else None
    return found


def _reduced(header: _Header) -> dict[str, dict[str, float | None]]:
    """Values of several epochs that the run reduced to one otherwise than by the mean, by document and name."""
    found: dict[str, dict[str, float | None]] = {}
    for reduction in header.get("reductions") or ():
        reducer = reduction.get("reducer")
        if reducer is None or reducer == "mean":  # the mean is what repeats of a prompt are pooled to
            continue
        for sample in reduction.get("samples", ()):
            values = found.setdefault(f"sample {sample.get('sample_id')}", {})
            for name, value in _flat(reduction.get("scorer", ""), sample.get("value")):
                with suppress(ValueError):
                    values[f"{name}/{reducer}"] = value_of(value)
    return found


def _published(header: _Header, metrics: Sequence[str]) -> tuple[dict[str, Published], list[str]]:
    """The figures that the log itself states, and sentences on those that are of no metric of the record."""
    published: dict[str, Published] = {}
    left_out: list[str] = []
    results = header.get("results") or {}
    for scorer in results.get("scores", ()):
        name = _published_name(scorer, metrics)
        values = {
            key.rpartition("/")[2]: value
            for key, metric in scorer.get("metrics", {}).items()
            if (value := finite_number(metric.get("value"))) is not None
        }
        mean = next((values.pop(key) for key in ("accuracy", "mean") if key in values), None)
        if mean is not None and name in metrics:
            published[name] = Published(mean, values.pop("stderr", None))
        left_out.extend(f"{name}: the log states {key} {value:g}" for key, value in values.items())
    return published, left_out


def _published_name(scorer: _ScorerResults, metrics: Sequence[str]) -> str:
    name, own = scorer.get("name", ""), scorer.get("scorer", "")
    if name != own and f"{own}/{name}" in metrics:  # a key of a dictionary of values
        name = f"{own}/{name}"
    reducer = scorer.get("reducer")
    return name if reducer is None or reducer == "mean" else f"{name}/{reducer}"


def _texts(path: Path, is_zip: bool) -> Iterator[PromptText]:
    """The texts of a log's samples, read again."""
    name = str(path)
    if is_zip:
        with ZipMembers.of(path, name) as members:
            for sample in _members(members, name, _Texts):
                yield _text(sample, name)
    else:
        for sample in read_document(path, _LogOfTexts, name).get("samples") or ():
            yield _text(sample, name)


def _text(sample: _Texts, name: str) -> PromptText:
    target = sample.get("target")
    return PromptText(
        prompt_id(_document(sample, name)),
        _plain(sample.get("input")) or "",
        _response(sample.get("output") or {}),
        "\n".join(map(str, cast("list[object]", target))) if isinstance(target, list) else _plain(target),
    )


def _response(output: Mapping[str, object]) -> str | None:
    completion = output.get("completion")
    if isinstance(completion, str):
        return completion
    choices = output.get("choices")
    first = cast("list[object]", choices)[0] if isinstance(choices, list) and choices else None
    message = cast("dict[str, object]", first).get("message") if isinstance(first, dict) else None
    return _plain(message)


def _plain(value: object) -> str | None:
    """The text of a message, of a list of messages, or of a list of pieces of content."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list):
        texts = [_plain(one) for one in cast("list[object]", value)]
        return "\n\n".join(text for text in texts if text)
    if isinstance(value, dict):
        held = cast("dict[str, object]", value)
        content = held.get("content", held.get("text"))
        return _plain(content)
    return str(value)
