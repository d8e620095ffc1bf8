"""Figures and differences of models on tasks, and of their averages over tasks, with the same settings."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, nan
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import Unpack

from tensorclass.scores.crossed import crossed_average, crossed_average_difference
from tensorclass.scores.estimate import (
    Difference,
    Estimate,
    IntervalKwargs,
    bounded_ends,
    difference_of,
    estimate,
    estimate_difference,
    estimate_of,
)
from tensorclass.scores.intervals import NOTHING, Interval, Sums
from tensorclass.scores.paired import PairedDifference
from tensorclass.scores.repeated_runs import RepeatedTally
from tensorclass.scores.run_grid import Figure, GridTask
from tensorclass.scores.stratified import PairedTask, average_difference, average_interval
from tensorclass.scores.tally import Sample, Tally

__all__ = ["GridFigures"]


class GridFigures:
    """Computes figures and differences.

    Averages of ratios of sums come from the prompts of the tasks (:mod:`tensorclass.scores.stratified`). If a task has
    another figure (macro-F1, perplexity), they come from the standard errors of the tasks, with normal intervals and
    tests.

    Args:
        averaged: the tasks to average over, of one unit.
        settings: of intervals and tests.
    """

    def __init__(self, averaged: Sequence[GridTask], **settings: Unpack[IntervalKwargs]) -> None:
        self._averaged = averaged
        self._unit = averaged[0].unit
        self._settings = settings
        self._weights = [1 / len(averaged)] * len(averaged)

    def figure(self, task: GridTask, model: str) -> Estimate:
        """The figure of a model on a task."""
        own = task.tallies[model]
        if isinstance(own, RepeatedTally):
            found = own.estimate(confidence=self._settings["confidence"])
        else:
            found = estimate(own, **self._settings)
        return found.replace(missing=torch.tensor(task.missing[model]))

    def task_difference(self, task: GridTask, a: str, b: str, confidence: float | None = None) -> Difference:
        """The difference of two models on a task; at another confidence if one is given."""
        one, other = task.tallies[a], task.tallies[b]
        if isinstance(one, RepeatedTally) and isinstance(other, RepeatedTally):
            found = one.difference(other, confidence=confidence or self._settings["confidence"])
        else:
            assert not isinstance(one, RepeatedTally)
            assert not isinstance(other, RepeatedTally)
            found = estimate_difference(one, other, **self._at(confidence))
        return found.replace(missing_a=torch.tensor(task.missing[a]), missing_b=torch.tensor(task.missing[b]))

    def macro(self, model: str) -> Estimate:
        """The mean of a model's figures over the averaged tasks."""
        return self._average(model, self._weights)

    def micro(self, model: str) -> Estimate:
        """The mean in which a task weighs as much as it counts."""
        counts = [self._count(task, model) for task in self._averaged]
        total = sum(counts)
        return self._average(model, [count / total if total else 0.0 for count in counts])

    def difference(self, a: str, b: str, confidence: float | None = None) -> Difference:
        """The difference of two models' means over the averaged tasks; at another confidence if one is given."""
        if len(self._averaged) == 1:
            return self.task_difference(self._averaged[0], a, b, confidence)
        settings = self._at(confidence)
        level = settings["confidence"]
        ours, theirs = ([task.tallies[model] for task in self._averaged] for model in (a, b))
        if any(isinstance(one, Sample) for one in (*ours, *theirs)):
            found = self._combined_difference(a, b, level)
        elif any(isinstance(one, RepeatedTally) for one in (*ours, *theirs)):
            cells = [(_cells(one), _cells(other)) for one, other in zip(ours, theirs, strict=True)]
            found = crossed_average_difference(cells, self._weights, confidence=level)
        else:
            paired = [PairedTask(_sums(one), _sums(other)) for one, other in zip(ours, theirs, strict=True)]
            clusters = any(_clusters(one) is not None for one in ours)
            found = average_difference(
                paired, self._weights, name="macro", share=self._unit == "%", clusters=clusters, **settings
            )
        lacking = self._missing(a), self._missing(b)
        return difference_of(found, self._unit, lacking=lacking, confidence=level)

    def _at(self, confidence: float | None) -> IntervalKwargs:
        return self._settings if confidence is None else {**self._settings, "confidence": confidence}

    def _missing(self, model: str) -> int:
        return sum(task.missing[model] for task in self._averaged)

    def _average(self, model: str, weights: Sequence[float]) -> Estimate:
        if len(self._averaged) == 1:
            return self.figure(self._averaged[0], model)
        own = [task.tallies[model] for task in self._averaged]
        if not any(isinstance(one, Sample) for one in own):
            confidence = self._settings["confidence"]
            if any(isinstance(one, RepeatedTally) for one in own):
                cells = [_cells(one) for one in own]
                found = crossed_average(cells, weights, confidence=confidence, share=self._unit == "%")
            else:
                sums = [_sums(one) for one in own]
                found = average_interval(sums, weights, confidence=confidence, share=self._unit == "%")
            found = bounded_ends(found, *map(pooled_tally, own))
            prompts = sum(pooled_tally(one).prompts for one in own)
            count = sum(self._count(task, model) for task in self._averaged)
            return estimate_of(found, count=count, prompts=prompts, unit=self._unit, missing=self._missing(model))
        each = [self.figure(task, model) for task in self._averaged]
        value = sum(weight * float(one.value) for weight, one in zip(weights, each, strict=True))
        stderr = hypot(*(weight * float(one.stderr) for weight, one in zip(weights, each, strict=True)))
        return estimate_of(
            self._normal(value, stderr),
            count=sum(float(one.count) for one in each),
            prompts=sum(int(one.prompts) for one in each),
            unit=self._unit,
            missing=self._missing(model),
        )

    def _combined_difference(self, a: str, b: str, confidence: float) -> PairedDifference:
        each = [self.task_difference(task, a, b) for task in self._averaged]
        weight = self._weights[0]
        value_a, value_b = (weight * sum(float(getattr(one, run)) for one in each) for run in ("a", "b"))
        stderr = weight * hypot(*(float(one.stderr) for one in each))
        value = value_b - value_a
        found = self._normal(value, stderr, confidence)
        p_value, test = nan, "none"
        if stderr == stderr and value == value:
            p_value = 1.0 if value == 0 else 2 * NormalDist().cdf(-abs(value) / stderr) if stderr else 0.0
            test = "normal"
        prompts, prompts_a, prompts_b = (
            sum(int(one.prompts if (number := getattr(one, name)) is None else number) for one in each)
            for name in ("prompts", "prompts_a", "prompts_b")
        )
        numbers, ends = (prompts, prompts_a, prompts_b), (found.low, found.high)
        return PairedDifference(
            value_a, value_b, value, *ends, p_value, *numbers, found.method, test, found.reason, stderr
        )

    def _normal(self, value: float, stderr: float, confidence: float | None = None) -> Interval:
        if value != value or stderr != stderr:
            return Interval(value, nan, nan, "none", NOTHING)
        half = NormalDist().inv_cdf(0.5 + (confidence or self._settings["confidence"]) / 2) * stderr
        return Interval(value, value - half, value + half, "normal", stderr=stderr)

    def _count(self, task: GridTask, model: str) -> float:
        own = task.tallies[model]
        return float(len(own.prompt)) if isinstance(own, Sample) else float(np.sum(pooled_tally(own).denominator))


def pooled_tally(one: Figure) -> Tally:
    """The tally of a ratio of sums, its seeds pooled within their prompts."""
    assert not isinstance(one, Sample)
    return one.pooled if isinstance(one, RepeatedTally) else one


def _clusters(one: Figure) -> NDArray[np.int64] | None:
    return pooled_tally(one).cluster


def _sums(one: Figure) -> Sums:
    units = pooled_tally(one).by_cluster()
    return Sums(units.numerator, units.denominator)


def _cells(one: Figure) -> Sums:
    """The sums ``[seeds, prompts]``; of a run without seeds, one row."""
    if isinstance(one, RepeatedTally):
        return Sums(*one.cells())
    above, below = _sums(one)
    return Sums(above[None, :], below[None, :])
