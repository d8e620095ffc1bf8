"""Runs sorted into tasks and models, and one figure of each of them, prompt by prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.comparison import pair
from tensorclass.scores.identity import prompt_keys, task_of_rows
from tensorclass.scores.logged_scores import LoggedScoreData
from tensorclass.scores.readers import Run
from tensorclass.scores.score_arrays import RecordRows, RunRows, Tallies, tallies
from tensorclass.scores.tally import Sample, Tally

__all__ = ["GridTask", "model_of", "run_grid", "runs_by_task", "task_figures"]


def model_of(run: Run) -> str:
    """The model of a run: what its file says, else the run's name without the task.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.ones(1), batch_size=[1])
        >>> model_of(Run("llama/gsm8k", scores, (), "lm-eval", task="gsm8k"))
        'llama'
    """
    if run.model is not None:
        return run.model
    name = run.name
    return name.removesuffix(f"/{run.task}") if run.task is not None else name


def run_grid(runs: Sequence[Run]) -> dict[str, dict[str, Run]]:
    """Sort runs into tasks, as :func:`runs_by_task`, and the runs of each task into models.

    Args:
        runs: the runs, in any order.

    Returns:
        By task, in the order of first occurrence, the run of each model.

    Raises:
        ValueError: there is no run, or two runs are of the same model and task.
    """
    if not runs:
        raise ValueError("runs: expected at least one run, got none")
    grid: dict[str, dict[str, Run]] = {}
    for task, own in runs_by_task(runs).items():
        models = grid.setdefault(task, {})
        for one in own:
            model = model_of(one)
            if model in models:
                files = (", ".join(run.files) or repr(run.name) for run in (models[model], one))
                raise ValueError(
                    f"expected one run of each model on a task, got two of {model!r} on {task!r}: "
                    f"{' and '.join(files)}; leave one out, or put them in folders of their own"
                )
            models[model] = one
    return grid


def runs_by_task(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Sort runs into tasks, in the order of first occurrence.

    A run that doesn't say its task is put with the other runs of its family if those are of one task; otherwise its
    family is taken for the task.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.ones(1), batch_size=[1])
        >>> found = runs_by_task([Run("a", scores, (), "lm-eval", task="gsm8k"), Run("b", scores, (), "lm-eval")])
        >>> {task: [run.name for run in runs] for task, runs in found.items()}
        {'gsm8k': ['a', 'b']}
    """
    tasks_of_family: dict[type, set[str]] = {}
    for one in runs:
        if (task := _said_task(one)) is not None:
            tasks_of_family.setdefault(_family(one), set()).add(task)
    found: dict[str, list[Run]] = {}
    for one in runs:
        task = _said_task(one)
        if task is None:
            family = _family(one)
            of_family = tasks_of_family.get(family, set())
            unknown = "unknown task" if family is LoggedScoreData else family.__name__.removesuffix("ScoreData")
            task = next(iter(of_family)) if len(of_family) == 1 else unknown
        found.setdefault(task, []).append(one)
    return found


@dataclass(frozen=True, eq=False)
class GridTask:
    """One figure of each model on one task.

    Attributes:
        task: the task.
        figure: the name of the figure.
        unit: its unit.
        higher_is_better: whether a larger figure is better.
        tallies: by model, its tally, or its sample of a figure that is no ratio of sums.
        rows: the rows of each model, with numbers of prompts that the models share.
        notes: notes on the prompts, in sentences.
    """

    task: str
    figure: str
    unit: str
    higher_is_better: bool
    tallies: Mapping[str, Tally] | Mapping[str, Sample]
    rows: Mapping[str, RunRows]
    notes: tuple[str, ...] = field(default=())

    def places(self, a: str, b: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions in two models' tallies of the prompts that both hold, in the same order.

        Raises:
            ValueError: they hold no prompt in common.
        """
        first, second = self.rows[a], self.rows[b]
        try:
            return pair(first.keys, second.keys, first.prompts, second.prompts)
        except ValueError as error:
            raise ValueError(f"{self.task}: {a} and {b}: {error}") from None


def task_figures(
    task: str, models: Mapping[str, Run], metric: str | None, cluster: str | None = None
) -> GridTask | None:
    """Take one figure of each model on a task.

    Args:
        task: the task.
        models: the run of each model.
        metric: the figure; by default the first one that all these runs have.
        cluster: the field that says which prompts belong together.

    Returns:
        The figure of each model; None if some run doesn't have it.

    Raises:
        ValueError: some of the runs have ids of prompts and others don't.
    """
    rows = _rows(task, models)
    found = {model: tallies(one, cluster=cluster) for model, one in rows.items()}
    names = next(iter(found.values())).figures if metric is None else [metric]
    name = next((name for name in names if _is_shared(name, found.values())), None)
    if name is None:
        return None
    own = {model: of for model, one in found.items() if (of := one.figures.get(name)) is not None}
    directions = [run.higher_is_better[name] for run in models.values() if name in run.higher_is_better]
    notes: list[str] = []
    numbers = {model: one.prompts for model, one in rows.items()}
    if len(set(numbers.values())) > 1:
        held = ", ".join(f"{number} of {model}" for model, number in numbers.items())
        notes.append(f"{task}: models have different prompts ({held}); differences are over those that both hold")
    return GridTask(
        task=task,
        figure=name,
        unit=next(iter(own.values())).unit,
        higher_is_better=directions[0] if directions else True,
        tallies=cast("Mapping[str, Tally] | Mapping[str, Sample]", own),
        rows=rows,
        notes=tuple(notes),
    )


def _is_shared(name: str, found: Iterable[Tallies]) -> bool:
    """Return whether all runs have a figure, and of one type: tallies or samples."""
    types = {type(one.figures.get(name)) for one in found}
    return types in ({Tally}, {Sample})


def _rows(task: str, models: Mapping[str, Run]) -> dict[str, RunRows]:
    """The rows of each run, with numbers of prompts that runs share."""
    with_ids = [model for model, run in models.items() if run.scores.prompt_id is not None]
    if with_ids and len(with_ids) < len(models):
        without = next(model for model in models if model not in with_ids)
        raise ValueError(f"{task}: prompt_id: expected in all runs or in none, got None in that of {without}")
    # Runs that don't all say the task of their rows are paired by the document alone.
    codes = [task_of_rows(run.scores)[0] for run in models.values()]
    says_task = all(one.size and one.min() >= 0 for one in codes)
    rows: dict[str, RunRows] = {}
    for model, run in models.items():
        if len(run.scores.batch_size) != 1:
            got = list(run.scores.batch_size)
            raise ValueError(f"{model}: expected one batch dimension, which holds the prompts, got {got}")
        keys = prompt_keys(run.scores if says_task else run.scores.replace(prompt_task=None, task_names=None))
        (rows[model],) = RecordRows(run.scores, -1, keys).each()
    return rows


def _said_task(run: Run) -> str | None:
    if run.task is not None:
        return run.task
    codes, names = task_of_rows(run.scores)
    held = np.unique(codes)
    return names[int(held[0])] if len(held) == 1 and held[0] >= 0 else None


def _family(run: Run) -> type:
    """The class of the scores; one for all classes that are made for the metrics of a log."""
    return LoggedScoreData if isinstance(run.scores, LoggedScoreData) else type(run.scores)
