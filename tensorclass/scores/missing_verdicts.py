"""Verdicts that are missing: counted, and refused, taken for wrong or left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorclass import cat
from tensorclass.scores.align import align
from tensorclass.scores.identity import prompt_keys
from tensorclass.scores.metrics import Mean, declared_metrics
from tensorclass.scores.readers import PromptText, Run
from tensorclass.scores.repeated_runs import RepeatedTally
from tensorclass.scores.run_figures import run_figures
from tensorclass.scores.run_grid import runs_by_task
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.tally import Sample, Tally

__all__ = ["MISSING", "MissingVerdictsError", "settle_missing"]

_NONE: Final = np.zeros(0, dtype=np.int64)

MISSING: Final = ("error", "wrong", "drop")
"""The rules for missing verdicts."""


class MissingVerdictsError(ValueError):
    """More verdicts are missing than may be."""


def settle_missing(
    runs: Sequence[Run], how: str = "error", most: float = 0.01, *, is_compared: bool = True, metric: str | None = None
) -> list[Run]:
    """Find the verdicts that are missing: null or NaN in a row, and prompts that other runs of the task have.

    Args:
        runs: the runs, also of several tasks.
        how: ``"error"`` raises if more than ``most`` are missing; ``"wrong"`` counts them as wrong answers; ``"drop"``
            leaves them out, of both runs where two are compared.
        most: the share that may be missing.
        is_compared: whether prompts are missing that only other runs of the task have.
        metric: the figure to look at; by default all.

    Returns:
        The runs, with notes on what is missing; with ``"wrong"`` also with the verdicts.

    Raises:
        MissingVerdictsError: more are missing.
        ValueError: a missing verdict can't be counted as wrong.

    Example:
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> verdicts = torch.tensor([1.0, float("nan"), 0.0, 1.0])
        >>> run = Run("a", ExactMatchScoreData(verdicts, batch_size=[4]), (), "memory", task="arc")
        >>> (counted,) = settle_missing([run], "wrong")
        >>> counted.scores.exact_match.tolist(), counted.notes
        ([1.0, 0.0, 0.0, 1.0], ('1 of 4 verdicts of exact_match is missing (25.00 %), and counted as wrong',))
    """
    if how not in MISSING:
        raise ValueError(f"missing: expected {', '.join(map(repr, MISSING))}, got {how!r}")
    result = {id(run): run for run in runs}
    for task, own in runs_by_task(runs).items():
        keys = [prompt_keys(run.scores) for run in own]
        known = [one for one in keys if one is not None]
        union = np.unique(np.concatenate(known)) if is_compared and len(known) == len(own) > 1 else None
        figures = [_figures(run) for run in own]
        counted = {name for found in figures for name, one in found.items() if _count(one)}
        for run, of_run, found in zip(own, keys, figures, strict=True):
            lacking = np.setdiff1d(union, of_run) if union is not None and of_run is not None else _NONE
            if of_run is not None and len(lacking) and not np.isin(of_run, _others(of_run, known)).any():
                lacking = _NONE  # runs that share no prompt are of other documents, which comparing them says
            absent = max(len(lacking), (run.expected or 0) - len(run.scores))
            gaps = [gap for gap in _gaps(run, found, absent) if gap.figure in counted and metric in (None, gap.figure)]
            worst = max((gap.share for gap in gaps), default=0.0)
            if how == "error" and worst > most:
                gap = next(gap for gap in gaps if gap.share == worst)
                where = f"{run.name}, {task}"
                raise MissingVerdictsError(
                    f"{where}: {gap}, more than --max-missing {100 * most:g}%; --missing wrong counts them as wrong, "
                    "--missing drop leaves them out (of the other runs as well), or leave the run out"
                )
            if gaps:
                verb = "and counted as wrong" if how == "wrong" else "and left out"
                filled = run
                if how == "wrong":
                    filled = _filled(run, {gap.figure for gap in gaps})
                    if absent > len(lacking):
                        problem = f"--missing wrong: {run.name}: {absent} prompts are missing, of which the other runs"
                        raise ValueError(f"{problem} hold {len(lacking)}; use --missing drop")
                    if absent:
                        filled = _extended(filled, [other for other in own if other is not run], lacking)
                result[id(run)] = dataclasses.replace(filled, notes=(*run.notes, *_sentences(gaps, verb)))
    return [result[id(run)] for run in runs]


def _others(own: NDArray[np.int64], known: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The prompts of the other runs."""
    return np.concatenate([keys for keys in known if keys is not own])


@dataclasses.dataclass(frozen=True)
class _Gap:
    """Missing verdicts of a figure: ``null`` in rows, and rows that are not there."""

    figure: str
    nulls: int
    absent: int
    total: int

    @property
    def share(self) -> float:
        return (self.nulls + self.absent) / self.total

    def __str__(self) -> str:
        return self.of(self.figure)

    def of(self, figures: str) -> str:
        count = self.nulls + self.absent
        verb = "is" if count == 1 else "are"
        rows = f", {self.absent} of them whole prompts" if self.absent else ""
        return f"{count} of {self.total} verdicts of {figures} {verb} missing{rows} ({100 * self.share:.2f} %)"


def _sentences(gaps: Sequence[_Gap], verb: str) -> Iterator[str]:
    """A sentence for each number of missing verdicts."""
    alike: dict[tuple[int, int, int], list[_Gap]] = {}
    for gap in gaps:
        alike.setdefault((gap.nulls, gap.absent, gap.total), []).append(gap)
    for own in alike.values():
        yield f"{own[0].of(', '.join(gap.figure for gap in own))}, {verb}"


def _figures(run: Run) -> Mapping[str, Tally | Sample]:
    found = run_figures(run, prompt_keys(run.scores)).found.figures
    return {name: one.pooled if isinstance(one, RepeatedTally) else one for name, one in found.items()}


def _count(one: Tally | Sample) -> float:
    return float(one.held if isinstance(one, Sample) else one.denominator.sum())


def _gaps(run: Run, found: Mapping[str, Tally | Sample], absent: int = 0) -> Iterator[_Gap]:
    """The figures of a run that lack verdicts."""
    rows = len(run.scores)
    for name, one in found.items():
        nulls = one.missed
        total = rows if isinstance(one, Tally) else one.prompts
        if isinstance(one, Tally) and nulls and len(one.denominator) < rows and one.denominator.max(initial=0) == 1:
            # A value that stands for all repeats of its prompt stands in one of its rows.
            nulls, total = int(one.lacks.sum()), len(one.denominator)
        if nulls or absent:
            yield _Gap(name, nulls, absent, total + absent)


def _filled(run: Run, figures: set[str]) -> Run:
    """The run with wrong answers for missing verdicts."""
    changed: dict[str, Tensor] = {}
    done: set[str] = set()
    for field, name in _means(run.scores):
        values = getattr(run.scores, field)
        if name in figures and isinstance(values, Tensor) and values.is_floating_point():
            wrong = 0.0 if run.higher_is_better.get(name, True) else 1.0
            lacking = torch.isnan(values).flatten(1).all(1) if values.ndim > 1 else torch.isnan(values)
            values = values.clone()
            (values.flatten(1)[:, 0] if values.ndim > 1 else values)[lacking] = wrong
            changed[field] = values
        done.add(name)
    others = [gap.figure for gap in _gaps(run, _figures(run)) if gap.figure in figures - done]
    if others:
        raise ValueError(f"--missing wrong: {run.name}: {', '.join(others)} is no share of right answers; use drop")
    return dataclasses.replace(run, scores=run.scores.replace(**changed)) if changed else run


def _means(scores: ScoreData) -> Iterator[tuple[str, str]]:
    """The fields whose figure is a mean of shares, and the names of the figures."""
    for field in dataclasses.fields(scores):
        declared = declared_metrics(field.metadata)
        for one in (Mean(),) if declared is None else declared:
            if isinstance(one, Mean) and one.unit == "%":
                yield field.name, one.name or field.name


def _extended(run: Run, others: Sequence[Run], lacking: NDArray[np.int64]) -> Run:
    """The run with wrong answers on prompts that only other runs have."""
    means = dict(_means(run.scores))
    pieces = [run.scores]
    for other in others:
        held = prompt_keys(other.scores)
        if held is None or not len(lacking):
            continue
        keys, places = np.unique(held, return_index=True)
        places = places[np.isin(keys, lacking)]
        lacking = np.setdiff1d(lacking, held)
        if len(places):
            piece = other.scores[torch.as_tensor(places)]
            if type(piece) is not type(run.scores):
                raise ValueError(f"--missing wrong: {run.name} and {other.name} have other metrics; use --missing drop")
            pieces.append(piece.replace(**_wrong(piece, means, run.higher_is_better)))
    scores = cat(align(*pieces))
    numbers = scores.prompt_id
    ids = [] if numbers is None else [int(number) for number in numbers[len(run.scores) :]]
    texts = None if run.texts is None else partial(_texts_of, run.texts, ids)
    return dataclasses.replace(run, scores=scores, texts=texts, prompt_hashes=None)


def _texts_of(texts: Callable[[], Iterator[PromptText]], others: Sequence[int]) -> Iterator[PromptText]:
    """The texts of a run, and none of the prompts that it lacked."""
    yield from texts()
    for number in others:
        yield PromptText(number, "", None)


def _wrong(scores: ScoreData, means: Mapping[str, str], higher: Mapping[str, bool]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for field, name in means.items():
        values = getattr(scores, field)
        if isinstance(values, Tensor):
            wrong = torch.full_like(values, 0.0 if higher.get(name, True) else 1.0)
            found[field] = torch.where(torch.isnan(values), values, wrong) if values.is_floating_point() else wrong
    return found
