"""The results as records: one aggregated figure, and one difference between two runs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from typing_extensions import TypedDict, Unpack

from tensorclass import TensorClass
from tensorclass.scores.bootstrap import bootstrap_difference, bootstrap_interval
from tensorclass.scores.intervals import Interval, interval_of_ratio
from tensorclass.scores.limits import ROUNDING, is_never_negative, is_on_a_scale
from tensorclass.scores.paired import McNemar, PairedDifference, agreeing_ends, mcnemar, paired_difference
from tensorclass.scores.power import detectable_difference
from tensorclass.scores.tally import Sample, Tally
from tensorclass.support.printable import type_name

__all__ = [
    "Difference",
    "Estimate",
    "IntervalKwargs",
    "bounded_ends",
    "check_same_clusters",
    "compared",
    "counted",
    "difference_of",
    "estimate",
    "estimate_difference",
    "estimate_of",
    "show",
    "show_interval",
]


class IntervalKwargs(TypedDict):
    """Settings of intervals and tests.

    Attributes:
        seed: of what is drawn at random.
        resamples: the number of draws; None for the default.
        confidence: the level of the intervals, 0.95 for 95 %.
    """

    seed: int
    resamples: int | None
    confidence: float


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
        interval: ``"adjusted t"``, ``"t"``, ``"crossed t"``, ``"bootstrap"``, ``"BCa"``, ``"bias-corrected t"``,
            ``"normal"`` (averages over tasks of figures that are no ratio of sums) or ``"none"``.
        unit: ``"%"`` for a fraction that is shown in percent, else the unit of ``value``.
        reason: why there is no interval; empty where there is one.
        clusters: int64, the clusters that hold those prompts, where the interval is over clusters; else None.
        missing: int64, the verdicts that should be there and are not: they are not counted.

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
    clusters: Tensor | None = None
    missing: Tensor | None = None


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
        prompts: int64, how many of the prompts that both hold count for this figure: those with a verdict in both runs.
        only_a: int64, prompts that only the first run got right; None where McNemar's test doesn't apply (a prompt
            has more than one verdict, or verdicts other than 0 and 1).
        only_b: int64, prompts that only the second got right; None likewise.
        mcnemar_p: float64, the exact two-sided p-value of McNemar's test; None likewise.
        unit: ``"%"`` for fractions, else the unit of the figures.
        prompts_a: int64, how many of the prompts count in the first run.
        prompts_b: int64, how many count in the second.
        interval: ``"adjusted t"``, ``"t"``, ``"crossed t"``, ``"BCa"``, ``"normal"`` or ``"none"``.
        test: ``"exact"``; ``"sampled"`` where the p-value is counted among drawn ways to flip; ``"bound"`` where it is
            smaller than these can show, and bounded from above; ``"t"`` where repeats are a level of their own;
            ``"normal"`` of averages of figures that are no ratio of sums; ``"none"``.
        reason: why there is no interval; empty where there is one.
        detectable: float64, the smallest true difference that so many prompts show with a chance of 80 %, at the level
            of 5 % (:func:`~tensorclass.scores.detectable_difference`); NaN where there is no standard error.
        clusters: int64, the clusters that hold those prompts, where interval and test are over clusters; else None.
        missing_a: int64, the prompts that both hold, left out since their verdict in the first run is missing.
        missing_b: int64, likewise in the second run.

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
    clusters: Tensor | None = None
    missing_a: Tensor | None = None
    missing_b: Tensor | None = None


def estimate(part: Tally | Sample, *, interval: str = "auto", **settings: Unpack[IntervalKwargs]) -> Estimate:
    """Compute a figure of one run, with its interval; over clusters, where there are any."""
    if isinstance(part, Sample):
        found = bootstrap_interval(
            part.figure,
            part.columns,
            part.unit_of_row,
            name=part.name,
            biased=part.biased,
            fewest=part.fewest(settings["confidence"]),
            **settings,
        )
        count, prompts, clusters = float(len(part.prompt)), part.held, part.held_clusters
    else:
        units = part.by_cluster()
        is_share = part.unit == "%"
        found = interval_of_ratio(
            units.numerator, units.denominator, name=part.name, interval=interval, share=is_share, **settings
        )
        found = bounded_ends(found, part)
        count, prompts = float(part.denominator.sum()), part.prompts
        clusters = None if part.cluster is None else units.prompts
    return estimate_of(found, count=count, prompts=prompts, unit=part.unit, clusters=clusters, missing=part.missed)


def bounded_ends(found: Interval, *parts: Tally) -> Interval:
    """The interval of a figure, or of the mean of several, within what the metric can be.

    Metrics that are never negative end at 0. Those of the scale 0 to 1 or 0 to 100, such as BLEU, also end at 1, or at
    100 if a value is above 1.
    """
    low, high = found.low, found.high
    if parts and all(part.unit != "%" and is_never_negative(part.name) for part in parts):
        if all((part.numerator >= 0).all() for part in parts):
            low = max(low, 0.0) if low == low else low
        tops = [_top(part) for part in parts]
        if None not in tops:
            high = min(high, max(top for top in tops if top is not None)) if high == high else high
    return found._replace(low=low, high=high)


def _top(part: Tally) -> float | None:
    """The end of the metric's scale; None if it has none."""
    if not is_on_a_scale(part.name):
        return None
    for top in (1.0, 100.0):
        if (part.numerator <= top * (1 + ROUNDING) * part.denominator).all():
            return top
    return None


def estimate_of(
    found: Interval, *, count: float, prompts: int, unit: str, clusters: int | None = None, missing: int = 0
) -> Estimate:
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
        reason=_reason(found.reason, clusters),
        clusters=None if clusters is None else _count(clusters),
        missing=_count(missing),
        batch_size=[],
    )


def estimate_difference(a: Tally | Sample, b: Tally | Sample, **settings: Unpack[IntervalKwargs]) -> Difference:
    """Compute the difference of a figure between two runs, whose prompts are in the same order.

    Prompts whose verdict is missing in one of the runs are left out of both.

    Raises:
        ValueError: the figure is a ratio of sums in one run alone, or prompts have other clusters in the second run.
    """
    lacks_a, lacks_b = a.lacks, b.lacks
    both = np.flatnonzero(~(lacks_a | lacks_b))
    lacking = int(lacks_a.sum()), int(lacks_b.sum())
    if isinstance(a, Tally) and isinstance(b, Tally):
        return _tally_difference(a.at(both), b.at(both), lacking, **settings)
    if isinstance(a, Sample) and isinstance(b, Sample):
        return _sample_difference(a.at(both), b.at(both), lacking, **settings)
    raise ValueError(f"expected the same metric in both runs, got {type_name(a)} and {type_name(b)}")


def _tally_difference(a: Tally, b: Tally, lacking: tuple[int, int], **settings: Unpack[IntervalKwargs]) -> Difference:
    check_same_clusters(a, b)
    held = (a.denominator > 0) | (b.denominator > 0)
    units_a, units_b = a.by_cluster(), b.by_cluster()
    found = paired_difference(
        units_a.numerator,
        units_a.denominator,
        units_b.numerator,
        units_b.denominator,
        name=a.name,
        share=a.unit == "%",
        clusters=a.cluster is not None,
        **settings,
    )
    confidence = settings["confidence"]
    if a.cluster is not None:  # McNemar's test is for prompts that are independent of each other
        clusters = found.prompts
        found = found._replace(prompts=int(held.sum()), prompts_a=a.prompts, prompts_b=b.prompts)
        return difference_of(found, a.unit, clusters=clusters, lacking=lacking, confidence=confidence)
    sides = (a.numerator[held], a.denominator[held]), (b.numerator[held], b.denominator[held])
    test = None
    if held.any() and all(((above == 0) | (above == 1)).all() and (below == 1).all() for above, below in sides):
        test = mcnemar(sides[0][0] == 1, sides[1][0] == 1)
    return difference_of(found, a.unit, test, lacking=lacking, confidence=confidence)


def _sample_difference(
    a: Sample, b: Sample, lacking: tuple[int, int], **settings: Unpack[IntervalKwargs]
) -> Difference:
    check_same_clusters(a, b)
    found = bootstrap_difference(
        a.figure,
        [np.concatenate(both) for both in zip(a.columns, b.columns, strict=True)],
        np.repeat([False, True], [len(a.prompt), len(b.prompt)]),
        np.concatenate([a.unit_of_row, b.unit_of_row]),
        name=a.name,
        **settings,
    )
    one, p_value = found.difference, found.p_value
    either = np.union1d(a.prompt, b.prompt)
    numbers = len(either), a.held, b.held
    test = "none" if p_value != p_value else "sampled"
    return difference_of(
        PairedDifference(
            found.a, found.b, one.value, one.low, one.high, p_value, *numbers, one.method, test, one.reason, one.stderr
        ),
        a.unit,
        clusters=None if a.cluster is None else len(np.unique(a.cluster[either])),
        lacking=lacking,
        confidence=settings["confidence"],
    )


def difference_of(
    found: PairedDifference,
    unit: str,
    test: McNemar | None = None,
    clusters: int | None = None,
    *,
    lacking: tuple[int, int] = (0, 0),
    confidence: float,
) -> Difference:
    """The record of a difference, whose interval agrees with its p-value; ``test`` where McNemar's test applies."""
    low, high = agreeing_ends(found.value, found.low, found.high, found.p_value, confidence)
    if unit == "%":
        low, high = max(low, -1.0), min(high, 1.0)
    return Difference(
        a=_number(found.a),
        b=_number(found.b),
        value=_number(found.value),
        low=_number(low),
        high=_number(high),
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
        reason=_reason(found.reason, clusters),
        detectable=_number(detectable_difference(found.stderr)),
        clusters=None if clusters is None else _count(clusters),
        missing_a=_count(lacking[0]),
        missing_b=_count(lacking[1]),
        batch_size=[],
    )


def check_same_clusters(a: Tally | Sample, b: Tally | Sample) -> None:
    """Raise unless prompts that are paired have the same cluster in both runs."""
    if a.cluster is None and b.cluster is None:
        return
    if a.cluster is None or b.cluster is None:
        raise ValueError(f"{a.name}: expected clusters in both runs or in none, got them in one")
    apart = np.flatnonzero(a.cluster != b.cluster)
    if len(apart):
        raise ValueError(
            f"{a.name}: expected the same cluster for a prompt in both runs, got others for {len(apart)} of "
            f"{len(a.cluster)} prompts"
        )


def show_interval(low: float | Tensor, high: float | Tensor, unit: str, *, sign: bool = False) -> str:
    """An interval as text, in the digits of :func:`show`; ``-`` where there is none.

    Example:
        >>> show_interval(0.25, 0.5, "%"), show_interval(float("nan"), float("nan"), "%")
        ('[25.00, 50.00]', '-')
    """
    return "-" if bool(low != low) else f"[{show(low, unit, sign=sign)}, {show(high, unit, sign=sign)}]"


def show(value: float | Tensor, unit: str, *, sign: bool = False) -> str:
    """A figure as text without its unit: percent with two digits after the point, other units with four digits.

    Example:
        >>> show(0.8, "%"), show(0.05, "%", sign=True), show(12.3456, "tokens"), show(float("nan"), "%")
        ('80.00', '+5.00', '12.35', '-')
    """
    number, plus = float(value), "+" if sign else ""
    if number != number:
        return "-"
    return f"{100 * number:{plus}.2f}" if unit == "%" else f"{number:{plus}.4g}"


def counted(one: Estimate) -> str:
    """Describe the units that a figure of one run counts: ``161 in 100 prompts in 20 clusters``."""
    count, prompts = float(one.count), int(one.prompts)
    within = "" if one.clusters is None else f" in {int(one.clusters)} clusters"
    return f"{prompts} prompts{within}" if count == prompts else f"{count:.10g} in {prompts} prompts{within}"


def compared(one: Difference) -> str:
    """Describe the prompts that a difference is about: ``100``, or ``10 / 1000`` where the runs count others.

    Prompts whose verdict is missing in a run are told as well: ``90 (10 + 0 missing)``.
    """
    prompts, own = int(one.prompts), (one.prompts_a, one.prompts_b)
    a, b = (prompts if count is None else int(count) for count in own)
    missing = [0 if count is None else int(count) for count in (one.missing_a, one.missing_b)]
    text = f"{prompts}" if a == b == prompts else f"{a} / {b}"
    return f"{text} ({missing[0]} + {missing[1]} missing)" if any(missing) else text


def _reason(reason: str, clusters: int | None) -> str:
    """Why there is no interval, in the words of clusters where these are what varies."""
    return reason if clusters is None else reason.replace("prompt", "cluster")


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _count(value: int) -> Tensor:
    return torch.tensor(value, dtype=torch.int64)
