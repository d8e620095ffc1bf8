"""Results files that hold figures only: of lm-evaluation-harness without sample logs, lighteval, bigcode's harness.

``results`` maps each task to its figures (``acc``, ``acc_stderr``, or ``acc,none``); bigcode-evaluation-harness has the
tasks beside ``config``. A run has one row, the figure itself, without an interval: nothing can be tested. Source: the
files of lm-evaluation-harness 0.2 to 0.4, https://huggingface.co/docs/lighteval/saving-and-reading-results, and
https://github.com/bigcode-project/bigcode-evaluation-harness#readme.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tensorclass.scores.limits import finite_number
from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.json_document import read_document
from tensorclass.scores.readers.lm_eval_results import HarnessResults
from tensorclass.scores.readers.metric_units import unit_of
from tensorclass.scores.readers.reader_registry import Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.row_log import mapping
from tensorclass.scores.readers.run import Run, run_name
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "StatedFiguresReader"]

_ABOUT: Final = frozenset(("versions", "config", "configs", "config_general", "n-shot", "higher_is_better"))
_BIGCODE: Final = re.compile(rb'"pass@\d+"\s*:')
_NOTE: Final = (
    "figures only, as the file states them, one row each: without sample logs there are no intervals and no tests"
)
_NO_FIGURE: Final = re.compile(r".*_stderr|alias|samples|name|sample_len")


class StatedFiguresReader(Reader):
    """Reads results files without sample logs."""

    name: str = "figures only"
    description = "a results file with figures only (results by task, config)"
    figures_only = True

    def recognises(self, head: FileHead) -> bool:
        if "results" in head.keys:
            return bool(_ABOUT & head.keys)
        return "config" in head.keys and _BIGCODE.search(head.start) is not None

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_options(head, options, self.name)
        document = read_document(head.location, dict[str, object], str(head.path))
        better: Mapping[str, object] = mapping(document.get("higher_is_better"))
        runs: list[Run] = []
        for task, figures in _tasks(document, head).items():
            gathered = GatheredScores(head)
            gathered.add(f"figures of {task}", figures, task=task)
            run = gathered.run(
                self.name,
                options.family,
                kinds={name: _kind(name, value) for name, value in figures.items()},
                name=f"{run_name(head.path)}/{task}",
                model=_model(document, head),
                task=task,
                notes=(_NOTE,),
                higher_is_better={
                    name: one for name, one in mapping(better.get(task)).items() if isinstance(one, bool)
                },
            )
            runs.append(run)
        return runs


READER = StatedFiguresReader()


def _kind(name: str, value: float) -> str:
    return "stated_share" if unit_of(name.rpartition("/")[2], np.array([value])) == "%" else "stated"


def _tasks(document: Mapping[str, Any], head: FileHead) -> dict[str, dict[str, float]]:
    """The figures by task, without those of groups of tasks."""
    results = mapping(document.get("results", {key: one for key, one in document.items() if key != "config"}))
    groups = {*mapping(document.get("groups")), *mapping(document.get("group_subtasks")), "all"}
    subtasks = mapping(document.get("group_subtasks"))
    groups -= {task for task in groups if task != "all" and subtasks and not subtasks.get(task)}
    found = {task: _figures(own) for task, own in results.items()}
    tasks = {task: own for task, own in found.items() if own}
    tasks = {task: own for task, own in tasks.items() if task not in groups} or tasks
    if not tasks:
        raise ScoreFileError(str(head.path), None, "results: expected the figures of at least one task, got none")
    return tasks


def _figures(own: object) -> dict[str, float]:
    """The figures of a task; of the same metric with several filters, the first has its name."""
    found: dict[str, float] = {}
    for key, value in mapping(own).items():
        name, _, filter = key.partition(",")
        figure = finite_number(value)
        if figure is not None and not _NO_FIGURE.fullmatch(name):
            found[name if name not in found else f"{filter}/{name}"] = figure
    return found


def _model(document: Mapping[str, Any], head: FileHead) -> str | None:
    config = mapping(document.get("config"))
    stated = mapping(document.get("config_general")).get("model_name", config.get("model"))
    if "results" in document and "config_general" not in document:
        stated = HarnessResults(head.location).model or head.path.absolute().parent.name
    return stated if isinstance(stated, str) and stated else None
