"""Results files of lm-evaluation-harness: what the harness itself says about the runs whose samples it logged.

``results_<date>.json`` stands beside ``samples_<task>_<date>.jsonl`` of the same date. It names the model, and for each
task the figures (``"acc,none"`` and ``"acc_stderr,none"`` for the metric ``acc`` of the filter ``none``), the number of
documents, how each metric is aggregated and whether higher is better; and the groups with their tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from tensorclass.scores.limits import finite_number
from tensorclass.scores.readers.json_document import json_of_file
from tensorclass.scores.readers.run import Published, task_name
from tensorclass.scores.readers.unpacked_file import opened, read_whole
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["HarnessResults", "logs_beside", "results_beside", "short_text"]

_DATE: Final = re.compile(r"_(\d{4}-\d\d-\d\d(?:T[\d.:-]*\d)?)(?:\.jsonl?)?(?:\.(?:gz|bz2|zst))?$")
_MEANS: Final = (None, "mean", "nanmean")
_SEEDS: Final = ("random_seed", "numpy_seed", "torch_seed", "fewshot_seed")


def results_beside(log: Path) -> list[Path]:
    """The results files of the date of a sample log, in its folder.

    Example:
        >>> results_beside(Path("nowhere/samples_arc_2026-01-31.jsonl"))
        []
    """
    date = _DATE.search(log.name)
    if date is None or task_name(log) is None or not log.parent.is_dir():
        return []
    return sorted(path for path in log.parent.glob("results*.json") if path.name.endswith(f"{date[1]}.json"))


def short_text(value: object) -> str:
    """A text, or something else, as a condition: in full if it is short, else its start and a hash of it.

    Example:
        >>> short_text(None), short_text("chatml"), short_text(["a" * 100])
        ('none', 'chatml', "['aaaaaaaaaaaaaaaaaaaa... (dd4e1582)")
    """
    text = "none" if value is None or value == "" else str(value)
    if len(text) <= 24:
        return text
    return f"{text[:22]}... ({sha256(text.encode('utf-8', 'replace')).hexdigest()[:8]})"


def logs_beside(results: Path) -> list[Path]:
    """The sample logs of the date of a results file, in its folder; none if the file has another name.

    Example:
        >>> logs_beside(Path("nowhere/results_2026-01-31.json"))
        []
    """
    date = _DATE.search(results.name)
    if date is None or not results.name.startswith("results") or not results.parent.is_dir():
        return []
    found = (_DATE.search(path.name) for path in results.parent.glob("samples_*"))
    return sorted(results.parent / one.string for one in found if one is not None and one[1] == date[1])


@dataclass(frozen=True, eq=False)
class HarnessResults:
    """A results file.

    Args:
        path: the file.
    """

    path: Path

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The document.

        Raises:
            ScoreFileError: the file can't be read, or is another one.
        """
        name = str(self.path)
        try:
            state = self.path.stat()
        except OSError as error:
            raise ScoreFileError(name, None, f"can't be read: {error.strerror or error}") from None
        return _document(self.path.absolute(), name, state.st_size, state.st_mtime_ns)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks with figures; groups are among them."""
        return tuple(self.content["results"])

    @property
    def model(self) -> str | None:
        """The model's name."""
        name = self.content.get("model_name")
        if isinstance(name, str) and name:
            return name
        arguments = _mapping(self.content.get("config")).get("model_args")
        if isinstance(arguments, str):
            parts = (part.partition("=") for part in arguments.split(","))
            arguments = {key: value for key, _, value in parts}
        named = _mapping(arguments)
        name = named.get("pretrained", named.get("model"))
        return name if isinstance(name, str) and name else None

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """The groups, and the tasks in each of them, also those of groups within it."""
        children = {
            name: tuple(map(str, cast("list[object]", tasks)))
            for name, tasks in _mapping(self.content.get("group_subtasks")).items()
            if isinstance(tasks, list) and tasks
        }
        return {name: tuple(dict.fromkeys(_leaf_tasks(name, children, ()))) for name in children}

    def figures(self, task: str, filter: str | None) -> dict[str, Published]:
        """The figures of a task and a filter, by the name of the metric."""
        found: dict[str, Published] = {}
        own = _mapping(self.content["results"].get(task))
        for key, value in own.items():
            name, comma, of = key.partition(",")
            number = finite_number(value)
            if (comma and of != (filter or "none")) or name.endswith("_stderr") or number is None:
                continue
            if comma or f"{name}_stderr" in own:
                found[name] = Published(number, finite_number(own.get(f"{name}_stderr{comma}{of}")))
        return found

    def higher_is_better(self, task: str) -> dict[str, bool]:
        """Return whether a larger value is better, by the name of the metric."""
        own = _mapping(_mapping(self.content.get("higher_is_better")).get(task))
        return {name: value for name, value in own.items() if isinstance(value, bool)}

    def documents(self, task: str) -> int | None:
        """The number of documents that the figures of a task are of."""
        count = _mapping(_mapping(self.content.get("n-samples")).get(task)).get("effective")
        return count if isinstance(count, int) else None

    def conditions(self, task: str) -> dict[str, str]:
        """The conditions of the run of a task: what the file says of prompts, versions and sampling."""
        content, config = self.content, _mapping(self.content.get("config"))
        task_config = _mapping(_mapping(content.get("configs")).get(task))
        sampling = _mapping(task_config.get("generation_kwargs"))
        said: dict[str, object] = {
            "version": _mapping(content.get("versions")).get(task),
            "n_shot": _mapping(content.get("n-shot")).get(task),
            "fewshot_as_multiturn": content.get("fewshot_as_multiturn", config.get("fewshot_as_multiturn")),
            "output_type": task_config.get("output_type"),
            "temperature": sampling.get("temperature"),
            "max_tokens": sampling.get("max_gen_toks"),
            "seed": _seed(config),
            "harness": content.get("lm_eval_version", content.get("git_hash")),
        }
        found = {name: str(value) for name, value in said.items() if value is not None}
        for name, key in (("chat_template", "chat_template"), ("system_prompt", "system_instruction")):
            if key in content or f"{key}_sha" in content:
                found[name] = short_text(content.get(f"{key}_sha") or content.get(key))
        return found

    def is_mean(self, task: str, metric: str) -> bool:
        """Return whether the figure of a metric is the mean over documents; True if the file doesn't say."""
        listed = _mapping(_mapping(self.content.get("configs")).get(task)).get("metric_list")
        for one in cast("list[object]", listed) if isinstance(listed, list) else ():
            if _mapping(one).get("metric") == metric:
                return _mapping(one).get("aggregation") in _MEANS
        return True


@lru_cache(maxsize=4)  # the logs of a run have one results file, which is long if the tasks are many
def _document(path: Path, name: str, size: int, changed: int) -> Mapping[str, Any]:
    """Parse a results file that has this size and was changed at this time."""
    with opened(path, name) as (stream, _):
        content = read_whole(stream, name)
    found = json_of_file(content, name)
    if not isinstance(found, dict) or not isinstance(cast("dict[str, Any]", found).get("results"), dict):
        raise ScoreFileError(name, None, "expected a results file of lm-evaluation-harness, with the key 'results'")
    return cast("dict[str, Any]", found)


def _leaf_tasks(name: str, children: Mapping[str, tuple[str, ...]], above: tuple[str, ...]) -> Iterable[str]:
    if name in above:  # a group that holds itself
        return
    for child in children.get(name, ()):
        if child in children:
            yield from _leaf_tasks(child, children, (*above, name))
        else:
            yield child


def _seed(config: Mapping[str, Any]) -> str | None:
    """The seeds of a run as ``lm_eval --seed`` takes them: one number, or one of each kind."""
    seeds = [str(config[name]) for name in _SEEDS if config.get(name) is not None]
    return ",".join(seeds if len(set(seeds)) > 1 else seeds[:1]) or None


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
