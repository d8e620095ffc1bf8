"""The results as records: one aggregated figure, and one difference between two runs."""

from __future__ import annotations

import torch
from torch import Tensor

from tensorclass import TensorClass
from tensorclass.scores.intervals import Interval, interval_of_ratio
from tensorclass.scores.metrics import Tally
from tensorclass.scores.paired import McNemar, PairedDifference, mcnemar, paired_difference
from tensorclass.scores.power import detectable_difference

__all__ = [
    "Difference",
    "Estimate",
    "compared",
    "counted",
    "difference_of",
    "estimate",
    "estimate_difference",
    "estimate_of",
    "show",
    "show_interval",
]


class Estimate(TensorClass, stack_objects=True):
    """One aggregated figure with its confidence interval.

    The batch dimensions are those of the runs: none for one run, ``[models]`` after stacking models.

    Attributes:
        value: float64; a fraction 0..1 where ``unit`` is ``"%"``. NaN where nothing was counted.
        low: float64, lower end of the interval. NaN where there is none, for the ``reason`` given.
        high: float64, upper end.
        stderr: float64, the standard error of ``value``; NaN where fewer than two prompts count.
        count: float64, the units counted: verdicts (instructions at the instruction level), or what the figure divides
            by.
        prompts: int64, the prompts that hold at least one of them.
        interval: ``"adjusted t"``, ``"t"``, ``"bootstrap"`` or ``"none"``.
        unit: ``"%"`` for a fraction that is shown in percent, else the unit of ``value``.
        reason: why there is no interval; empty where there is one.

    Example:
        >>> import torch
        >>> from tensorclass.scores import Estimate
        >>> one = Estimate(*torch.tensor([0.8, 0.7, 0.9, 0.05, 100, 100]).double(), "t", "%", batch_size=[])
        >>> f"{one.value:.1%}"
        '80.0%'
    """

    value: Tensor
    low: Tensor
    high: Tensor
    stderr: Tensor
    count: Tensor
    prompts: Tensor
    interval: str
    unit: str
    reason: str = ""


class Difference(TensorClass, stack_objects=True):
    """The difference between two runs in one figure, over the prompts that both hold.

    Attributes:
        a: float64, the figure of the first run on these prompts, as ``aggregate()`` gives it.
        b: float64, the figure of the second run.
        value: float64, ``b - a``: above 0 where the second run is better. A difference of fractions 0..1 where
            ``unit`` is ``"%"``.
        low: float64, lower end of the interval. NaN where there is none, for the ``reason`` given.
        high: float64, upper end.
        stderr: float64, the standard error of ``value``; NaN where fewer than two prompts count.
        p_value: float64, two-sided, of the sign-flip test; NaN where one run counts nothing.
        prompts: int64, how many of the prompts that both hold count for this figure, in either run.
        only_a: int64, prompts that only the first run got right; None where McNemar's test doesn't apply (a prompt
            has more than one verdict, or verdicts other than 0 and 1).
        only_b: int64, prompts that only the second got right; None likewise.
        mcnemar_p: float64, the exact two-sided p-value of McNemar's test; None likewise.
        unit: ``"%"`` for fractions, else the unit of the figures.
        prompts_a: int64, how many of the prompts count in the first run.
        prompts_b: int64, how many count in the second.
        interval: ``"adjusted t"``, ``"t"`` or ``"none"``.
        test: ``"exact"``; ``"sampled"`` where the p-value is counted among drawn ways to flip; ``"none"``.
        reason: why there is no interval; empty where there is one.
        detectable: float64, the smallest true difference that so many prompts show with a chance of 80 %, at the level
            of 5 % (:func:`~tensorclass.scores.detectable_difference`); NaN where there is no standard error.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, compare
        >>> a = ExactMatchScoreData(torch.tensor([1.0, 0.0, 0.0, 0.0]), batch_size=[4])
        >>> b = ExactMatchScoreData(torch.tensor([1.0, 1.0, 0.0, 0.0]), batch_size=[4])
        >>> one = compare(a, b)["exact_match"]
        >>> one.a.item(), one.b.item(), one.value.item(), one.only_b.item()
        (0.25, 0.5, 0.25, 1)
    """

    a: Tensor
    b: Tensor
    value: Tensor
    low: Tensor
    high: Tensor
    stderr: Tensor
    p_value: Tensor
    prompts: Tensor
    only_a: Tensor | None
    only_b: Tensor | None
    mcnemar_p: Tensor | None
    unit: str
    prompts_a: Tensor | None = None
    prompts_b: Tensor | None = None
    interval: str = "none"
    test: str = "none"
    reason: str = ""
    detectable: Tensor | None = None


def estimate(tally: Tally, *, seed: int, resamples: int | None, confidence: float, interval: str) -> Estimate:
    """Compute the figure of one run, with its interval, from a tally."""
    found = interval_of_ratio(
        tally.numerator,
        tally.denominator,
        name=tally.name,
        seed=seed,
        resamples=resamples,
        confidence=confidence,
        interval=interval,
        share=tally.unit == "%",
    )
    return estimate_of(
        found,
        count=float(tally.denominator.sum()),
        prompts=int((tally.denominator > 0).sum()),
        unit=tally.unit,
    )


def estimate_of(found: Interval, *, count: float, prompts: int, unit: str) -> Estimate:
    """The record of a figure with its interval."""
    return Estimate(
        value=_number(found.value),
        low=_number(found.low),
        high=_number(found.high),
        stderr=_number(found.stderr),
        count=_number(count),
        prompts=_count(prompts),
        interval=found.method,
        unit=unit,
        reason=found.reason,
        batch_size=[],
    )


def estimate_difference(a: Tally, b: Tally, *, seed: int, resamples: int | None, confidence: float) -> Difference:
    """Compute the difference of a figure between two runs, from tallies with the prompts in the same order."""
    found = paired_difference(
        a.numerator,
        a.denominator,
        b.numerator,
        b.denominator,
        name=a.name,
        seed=seed,
        resamples=resamples,
        confidence=confidence,
        share=a.unit == "%",
    )
    held = (a.denominator > 0) | (b.denominator > 0)
    sides = (a.numerator[held], a.denominator[held]), (b.numerator[held], b.denominator[held])
    test = None
    if held.any() and all(((above == 0) | (above == 1)).all() and (below == 1).all() for above, below in sides):
        test = mcnemar(sides[0][0] == 1, sides[1][0] == 1)
    return difference_of(found, a.unit, test)


def difference_of(found: PairedDifference, unit: str, test: McNemar | None = None) -> Difference:
    """The record of a difference; ``test`` where McNemar's test applies."""
    return Difference(
        a=_number(found.a),
        b=_number(found.b),
        value=_number(found.value),
        low=_number(found.low),
        high=_number(found.high),
        stderr=_number(found.stderr),
        p_value=_number(found.p_value),
        prompts=_count(found.prompts),
        only_a=None if test is None else _count(test.only_a),
        only_b=None if test is None else _count(test.only_b),
        mcnemar_p=None if test is None else _number(test.p_value),
        unit=unit,
        prompts_a=_count(found.prompts_a),
        prompts_b=_count(found.prompts_b),
        interval=found.method,
        test=found.test,
        reason=found.reason,
        detectable=_number(detectable_difference(found.stderr)),
        batch_size=[],
    )


def show_interval(low: float, high: float, unit: str, *, sign: bool = False) -> str:
    """An interval as text, in the digits of :func:`show`; ``-`` where there is none.

    Example:
        >>> show_interval(0.25, 0.5, "%"), show_interval(float("nan"), float("nan"), "%")
        ('[25.00, 50.00]', '-')
    """
    return "-" if low != low else f"[{show(low, unit, sign=sign)}, {show(high, unit, sign=sign)}]"


def show(value: float, unit: str, *, sign: bool = False) -> str:
    """A figure as text without its unit: percent with two digits after the point, other units with four digits.

    Example:
        >>> show(0.8, "%"), show(0.05, "%", sign=True), show(12.3456, "tokens"), show(float("nan"), "%")
        ('80.00', '+5.00', '12.35', '-')
    """
    if value != value:
        return "-"
    plus = "+" if sign else ""
    return f"{100 * value:{plus}.2f}" if unit == "%" else f"{value:{plus}.4g}"


def counted(one: Estimate) -> str:
    """Describe the units that a figure of one run counts: ``161 in 100 prompts``."""
    count, prompts = float(one.count), int(one.prompts)
    return f"{prompts} prompts" if count == prompts else f"{count:.10g} in {prompts} prompts"


def compared(one: Difference) -> str:
    """Describe the prompts that a difference is about: ``100``, or ``10 / 1000`` where the runs count others."""
    prompts, own = int(one.prompts), (one.prompts_a, one.prompts_b)
    a, b = (prompts if count is None else int(count) for count in own)
    return f"{prompts}" if a == b == prompts else f"{a} / {b}"


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _count(value: int) -> Tensor:
    return torch.tensor(value, dtype=torch.int64)
