"""Figures and differences of models on tasks, and of their averages over tasks, with the same settings."""

from __future__ import annotations

from collections.abc import Sequence
from math import hypot, nan
from statistics import NormalDist

import numpy as np
from typing_extensions import Unpack

from tensorclass.scores.estimate import (
    Difference,
    Estimate,
    IntervalKwargs,
    difference_of,
    estimate,
    estimate_difference,
    estimate_of,
)
from tensorclass.scores.intervals import NOTHING, Interval, Sums
from tensorclass.scores.paired import PairedDifference
from tensorclass.scores.run_grid import GridTask
from tensorclass.scores.stratified import PairedTask, average_difference, average_interval
from tensorclass.scores.tally import Tally

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
        return estimate(task.tallies[model], **self._settings)

    def task_difference(self, task: GridTask, a: str, b: str) -> Difference:
        """The difference of two models on a task."""
        at_a, at_b = task.places(a, b)
        return estimate_difference(task.tallies[a].at(at_a), task.tallies[b].at(at_b), **self._settings)

    def macro(self, model: str) -> Estimate:
        """The mean of a model's figures over the averaged tasks."""
        return self._average(model, self._weights)

    def micro(self, model: str) -> Estimate:
        """The mean in which a task weighs as much as it counts."""
        counts = [self._count(task, model) for task in self._averaged]
        total = sum(counts)
        return self._average(model, [count / total if total else 0.0 for count in counts])

    def difference(self, a: str, b: str) -> Difference:
        """The difference of two models' means over the averaged tasks."""
        if len(self._averaged) == 1:
            return self.task_difference(self._averaged[0], a, b)
        paired: list[PairedTask] = []
        for task in self._averaged:
            one, other = task.tallies[a], task.tallies[b]
            if not isinstance(one, Tally) or not isinstance(other, Tally):
                return self._combined_difference(a, b)
            at_a, at_b = task.places(a, b)
            paired.append(PairedTask(_sums(one.at(at_a)), _sums(other.at(at_b))))
        found = average_difference(paired, self._weights, name="macro", share=self._unit == "%", **self._settings)
        return difference_of(found, self._unit)

    def _average(self, model: str, weights: Sequence[float]) -> Estimate:
        if len(self._averaged) == 1:
            return self.figure(self._averaged[0], model)
        own = [task.tallies[model] for task in self._averaged]
        sums = [_sums(one) for one in own if isinstance(one, Tally)]
        if len(sums) == len(own):
            confidence = self._settings["confidence"]
            found = average_interval(sums, weights, confidence=confidence, share=self._unit == "%")
            prompts = sum(one.prompts for one in own if isinstance(one, Tally))
            count = sum(self._count(task, model) for task in self._averaged)
            return estimate_of(found, count=count, prompts=prompts, unit=self._unit)
        each = [self.figure(task, model) for task in self._averaged]
        value = sum(weight * float(one.value) for weight, one in zip(weights, each, strict=True))
        stderr = hypot(*(weight * float(one.stderr) for weight, one in zip(weights, each, strict=True)))
        return estimate_of(
            self._normal(value, stderr),
            count=sum(float(one.count) for one in each),
            prompts=sum(int(one.prompts) for one in each),
            unit=self._unit,
        )

    def _combined_difference(self, a: str, b: str) -> Difference:
        each = [self.task_difference(task, a, b) for task in self._averaged]
        weight = self._weights[0]
        value_a, value_b = (weight * sum(float(getattr(one, run)) for one in each) for run in ("a", "b"))
        stderr = weight * hypot(*(float(one.stderr) for one in each))
        value = value_b - value_a
        found = self._normal(value, stderr)
        p_value, test = nan, "none"
        if stderr == stderr and value == value:
            p_value = 1.0 if value == 0 else 2 * NormalDist().cdf(-abs(value) / stderr) if stderr else 0.0
            test = "normal"
        prompts, prompts_a, prompts_b = (
            sum(int(one.prompts if (number := getattr(one, name)) is None else number) for one in each)
            for name in ("prompts", "prompts_a", "prompts_b")
        )
        numbers, ends = (prompts, prompts_a, prompts_b), (found.low, found.high)
        paired = PairedDifference(
            value_a, value_b, value, *ends, p_value, *numbers, found.method, test, found.reason, stderr
        )
        return difference_of(paired, self._unit)

    def _normal(self, value: float, stderr: float) -> Interval:
        if value != value or stderr != stderr:
            return Interval(value, nan, nan, "none", NOTHING)
        half = NormalDist().inv_cdf(0.5 + self._settings["confidence"] / 2) * stderr
        return Interval(value, value - half, value + half, "normal", stderr=stderr)

    def _count(self, task: GridTask, model: str) -> float:
        own = task.tallies[model]
        return float(np.sum(own.denominator)) if isinstance(own, Tally) else float(len(own.prompt))


def _sums(tally: Tally) -> Sums:
    units = tally.by_cluster()
    return Sums(units.numerator, units.denominator)
