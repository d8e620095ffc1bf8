"""Runs sorted into tasks and models, and one figure of each of them, prompt by prompt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.comparison import ComparedFigures, pair
from tensorclass.scores.identity import prompt_keys, task_of_rows
from tensorclass.scores.logged_scores import LoggedScoreData
from tensorclass.scores.readers import Run
from tensorclass.scores.repeated_runs import RepeatedTally
from tensorclass.scores.run_figures import run_figures, with_seed_level
from tensorclass.scores.tally import Sample, Tally

__all__ = ["Figure", "GridTask", "model_of", "run_grid", "runs_by_task", "task_figures"]

Figure: TypeAlias = Tally | Sample | RepeatedTally
"""The contributions of the prompts of a model to one figure."""


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
    """One figure of each model on one task, over the prompts of which all models have a verdict.

    Attributes:
        task: the task.
        figure: the name of the figure.
        unit: its unit.
        higher_is_better: whether a larger figure is better.
        tallies: by model, the tally of these prompts in the same order: seed by seed of runs with seeds, or the sample
            of a figure that is no ratio of sums.
        missing: by model, how many prompts of the task have no verdict of it.
        prompts: the number of prompts that some model holds.
        notes: notes on the prompts, in sentences.
    """

    task: str
    figure: str
    unit: str
    higher_is_better: bool
    tallies: Mapping[str, Figure]
    missing: Mapping[str, int]
    prompts: int
    notes: tuple[str, ...] = field(default=())


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
        ValueError: some of the runs have ids of prompts and others don't, or no prompt has a verdict in all runs.
    """
    runs = dict(zip(models, with_seed_level(*models.values()), strict=True))
    keyed = zip(runs.items(), _keys(task, runs), strict=True)
    rows = {model: run_figures(run, keys, cluster) for (model, run), keys in keyed}
    found = {model: one.found.figures for model, one in rows.items()}
    names = next(iter(found.values())) if metric is None else [metric]
    name = next((name for name in names if _is_shared(name, found.values())), None)
    if name is None:
        return None
    directions = [run.higher_is_better[name] for run in models.values() if name in run.higher_is_better]
    places, every = _common_prompts(task, rows, {model: own[name] for model, own in found.items()})
    own = {model: found[model][name].at(at) for model, at in places.items()}
    counted = {model: rows[model].prompts - int(found[model][name].lacks.sum()) for model in models}
    missing = {model: every - count for model, count in counted.items()}
    notes: list[str] = []
    if any(missing.values()):
        held = ", ".join(f"{count} of {model}" for model, count in missing.items() if count)
        common = len(next(iter(places.values())))
        notes.append(f"{task}: figures are over {common} of {every} prompts, of which all models have a verdict")
        notes[-1] += f"; missing are {held}"
    return GridTask(
        task=task,
        figure=name,
        unit=next(iter(own.values())).unit,
        higher_is_better=directions[0] if directions else True,
        tallies=own,
        missing=missing,
        prompts=every,
        notes=tuple(notes),
    )


def _is_shared(name: str, found: Iterable[Mapping[str, Figure]]) -> bool:
    """Return whether all runs have a figure, and of one type: tallies or samples."""
    return len({type(one.get(name)) for one in found} | {type(None)}) == 2 and all(name in one for one in found)


def _common_prompts(
    task: str, rows: Mapping[str, ComparedFigures], figures: Mapping[str, Figure]
) -> tuple[dict[str, NDArray[np.int64]], int]:
    """The positions in each run of the prompts that have a verdict in all, and the number of prompts of any run."""
    (first, of_first), *others = rows.items()
    for other, of_other in others:
        try:
            pair(of_first.keys, of_other.keys, of_first.prompts, of_other.prompts)
        except ValueError as error:
            raise ValueError(f"{task}: {first} and {other}: {error}") from None
    has_verdict = {model: ~one.lacks for model, one in figures.items()}
    scored = {model: own for model, own in has_verdict.items() if own.any()} or has_verdict
    every = of_first.prompts
    if of_first.keys is None:
        common = np.flatnonzero(np.all(list(scored.values()), axis=0))
        places = dict.fromkeys(rows, common)
    else:
        keys = {model: one.keys for model, one in rows.items() if one.keys is not None}
        every = len(np.unique(np.concatenate(list(keys.values()))))
        common = np.unique(np.concatenate(list(keys.values())))
        for model, own in keys.items():
            common = np.intersect1d(common, own[scored[model]] if model in scored else own)
        order = {model: np.argsort(own, kind="stable") for model, own in keys.items()}
        places = {model: order[model][np.searchsorted(own[order[model]], common)] for model, own in keys.items()}
    if not len(common) and any(own.any() for own in scored.values()):
        raise ValueError(f"{task}: no prompt has a verdict of all models; leave some of the models out")
    return places, every


def _keys(task: str, models: Mapping[str, Run]) -> list[NDArray[np.int64] | None]:
    """Numbers for the prompts of the rows of each run, which the runs share."""
    with_ids = [model for model, run in models.items() if run.scores.prompt_id is not None]
    if with_ids and len(with_ids) < len(models):
        without = next(model for model in models if model not in with_ids)
        raise ValueError(f"{task}: prompt_id: expected in all runs or in none, got None in that of {without}")
    # Runs that don't all say the task of their rows are paired by the document alone.
    codes = [task_of_rows(run.scores)[0] for run in models.values()]
    says_task = all(one.size and one.min() >= 0 for one in codes)
    for model, run in models.items():
        if len(run.scores.batch_size) != 1:
            got = list(run.scores.batch_size)
            raise ValueError(f"{model}: expected one batch dimension, which holds the prompts, got {got}")
    return [
        prompt_keys(run.scores if says_task else run.scores.replace(prompt_task=None, task_names=None))
        for run in models.values()
    ]


def _said_task(run: Run) -> str | None:
    if run.task is not None:
        return run.task
    codes, names = task_of_rows(run.scores)
    held = np.unique(codes)
    return names[int(held[0])] if len(held) == 1 and held[0] >= 0 else None


def _family(run: Run) -> type:
    """The class of the scores; one for all classes that are made for the metrics of a log."""
    return LoggedScoreData if isinstance(run.scores, LoggedScoreData) else type(run.scores)
