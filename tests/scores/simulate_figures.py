"""Coverage of intervals of figures that are no ratio of sums, over clusters, and with seeds as a level of their own.

    python -m tests.scores.simulate_figures --data-sets 400

prints a line for each kind of figure and number of prompts: how often the 95 % interval of a figure and that of a
difference hold the truth, and how often the p-value lies below 0.05 where the runs don't differ. The truth is the
figure of a very large sample, or known. Two runs are of the same skill on the same prompts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.bootstrap import WeightedFigure, bootstrap_difference, bootstrap_interval
from tensorclass.scores.bradley_terry import strengths, wins_of
from tensorclass.scores.crossed import crossed_difference, crossed_interval
from tensorclass.scores.intervals import interval_of_ratio
from tensorclass.scores.paired import paired_difference
from tensorclass.scores.row_figures import (
    auroc,
    expected_calibration_error,
    macro_f1,
    matthews,
    perplexity,
    quantile,
)
from tensorclass.scores.row_metrics import CalibrationError, Quantile
from tensorclass.scores.tally import Tally

Numbers = NDArray[np.float64]
Columns = tuple[Numbers, ...]

PROMPTS = (10, 30, 100, 300)
_LARGE = 400_000
_RESAMPLES = 500


@dataclass(frozen=True)
class Found:
    """An interval, that of a difference of two runs that don't differ, and its p-value."""

    low: float
    high: float
    below: float
    above: float
    p_value: float


@dataclass(frozen=True)
class Kind:
    """A kind of figure: its truth, and what is found in a data set of so many prompts."""

    name: str
    truth: float
    look: Callable[[np.random.Generator, int], Found]


def of_rows(
    name: str,
    figure: WeightedFigure,
    draw: Callable[[np.random.Generator, int], tuple[Columns, Columns]],
    biased: bool = False,
    fewest: int = 2,
) -> Kind:
    """A figure of rows, one a prompt, of which two runs are drawn."""
    large = draw(np.random.default_rng(123), _LARGE)
    truth = float(np.mean([figure(columns, np.ones((1, _LARGE)))[0] for columns in large]))

    def look(rng: np.random.Generator, prompts: int) -> Found:
        a, b = draw(rng, prompts)
        seed, unit = int(rng.integers(2**31)), np.arange(prompts)
        one = bootstrap_interval(figure, a, unit, seed=seed, resamples=_RESAMPLES, biased=biased, fewest=fewest)
        both = [np.concatenate(pair) for pair in zip(a, b, strict=True)]
        found = bootstrap_difference(
            figure, both, np.arange(2 * prompts) >= prompts, np.tile(unit, 2), seed=seed, resamples=_RESAMPLES
        )
        return Found(one.low, one.high, found.difference.low, found.difference.high, found.p_value)

    return Kind(name, truth, look)


def classes(rng: np.random.Generator, prompts: int) -> tuple[Columns, Columns]:
    """Three classes, of which one is rare, and prompts that are hard or easy for both runs."""
    target = rng.choice(3, prompts, p=[0.5, 0.35, 0.15]) * 1.0
    easy = rng.beta(2, 1, prompts)
    runs = [np.where(rng.random(prompts) < easy, target, rng.integers(0, 3, prompts)) for _ in range(2)]
    return (runs[0], target), (runs[1], target)


def confidences(rng: np.random.Generator, prompts: int) -> tuple[Columns, Columns]:
    """Confidences that are a little too high."""
    sure = rng.beta(3, 1.5, prompts)
    runs = []
    for _ in range(2):
        own = np.clip(sure + 0.1 * rng.normal(size=prompts), 0.01, 0.99)
        runs.append((own, (rng.random(prompts) < 0.8 * own + 0.05) * 1.0))
    return runs[0], runs[1]


def likelihoods(rng: np.random.Generator, prompts: int) -> tuple[Columns, Columns]:
    """Texts of different lengths, hard and easy."""
    tokens = np.ceil(rng.lognormal(4, 0.7, prompts))
    hard = 2 + 0.5 * rng.normal(size=prompts)
    runs = [-tokens * np.maximum(hard + 0.2 * rng.normal(size=prompts), 0.1) for _ in range(2)]
    return (runs[0], tokens), (runs[1], tokens)


def latencies(rng: np.random.Generator, prompts: int) -> tuple[Columns, Columns]:
    """Skewed values."""
    hard = rng.normal(size=prompts)
    runs = [np.exp(0.7 * hard + 0.5 * rng.normal(size=prompts)) for _ in range(2)]
    return (runs[0],), (runs[1],)


def battles(rng: np.random.Generator, prompts: int) -> tuple[Columns, Columns]:
    """Four models; ten comparisons are too few to rate them."""
    strength = np.array([0.6, 0.2, -0.2, -0.6])
    first = rng.integers(0, 4, prompts)
    second = (first + rng.integers(1, 4, prompts)) % 4
    chance = 1 / (1 + np.exp(strength[second] - strength[first]))
    runs = [(first * 1.0, second * 1.0, (rng.random(prompts) < chance) * 1.0) for _ in range(2)]
    return runs[0], runs[1]


def rating(columns: Sequence[Numbers], weights: Numbers) -> Numbers:
    found: Numbers = strengths(wins_of(columns[0], columns[1], columns[2], weights, np.arange(4.0)))[..., 0]
    return found


def clusters() -> Kind:
    """Verdicts in passages of one to nine questions; the number of prompts is that of passages."""

    def look(rng: np.random.Generator, prompts: int) -> Found:
        sizes = rng.integers(1, 10, prompts)
        cluster = np.repeat(np.arange(prompts), sizes)
        easy = rng.beta(2, 1, prompts)[cluster]
        runs = [
            Tally("acc", (rng.random(len(easy)) < easy) * 1.0, np.ones(len(easy)), cluster=cluster).by_cluster()
            for _ in range(2)
        ]
        one = interval_of_ratio(runs[0].numerator, runs[0].denominator)
        found = paired_difference(
            runs[0].numerator, runs[0].denominator, runs[1].numerator, runs[1].denominator, resamples=_RESAMPLES
        )
        return Found(one.low, one.high, found.low, found.high, found.p_value)

    return Kind("clusters", 2 / 3, look)


def seeds(number: int, spread: float) -> Kind:
    """Verdicts of so many seeds, each of which shifts all prompts."""

    def look(rng: np.random.Generator, prompts: int) -> Found:
        hard = 1.5 * rng.normal(size=prompts)
        runs = []
        for _ in range(2):
            shift = spread * rng.normal(size=(number, 1))
            runs.append((rng.random((number, prompts)) < 1 / (1 + np.exp(hard + shift))) * 1.0)
        every = np.ones((number, prompts))
        one = crossed_interval(runs[0], every)
        found = crossed_difference(runs[0], every, runs[1], every)
        return Found(one.low, one.high, found.low, found.high, found.p_value)

    return Kind(f"{number} seeds, spread {spread:g}", 0.5, look)


def kinds() -> list[Kind]:
    """All kinds."""
    return [
        clusters(),
        seeds(3, 0.0),
        seeds(3, 0.4),
        seeds(10, 0.4),
        of_rows("macro-F1", lambda columns, weights: macro_f1(columns[0], columns[1], weights), classes),
        of_rows("MCC", lambda columns, weights: matthews(columns[0], columns[1], weights), classes),
        of_rows("AUROC", lambda columns, weights: auroc(columns[0], columns[1], weights), confidences),
        of_rows(
            "calibration error",
            lambda columns, weights: expected_calibration_error(columns[0], columns[1], weights, bins=15),
            confidences,
            biased=True,
            fewest=CalibrationError("correct").fewest_prompts(0.95),
        ),
        of_rows("perplexity", lambda columns, weights: perplexity(columns[0], columns[1], weights), likelihoods),
        of_rows("median", lambda columns, weights: quantile(columns[0], weights, share=0.5), latencies),
        of_rows(
            "90th percentile",
            lambda columns, weights: quantile(columns[0], weights, share=0.9),
            latencies,
            fewest=Quantile(0.9).fewest_prompts(0.95),
        ),
        of_rows("Elo", rating, battles),
    ]


@dataclass(frozen=True)
class Line:
    """What holds of one kind at one number of prompts; NaN where no data set has an interval.

    Attributes:
        intervals: the share of data sets that have an interval.
    """

    kind: str
    prompts: int
    coverage: float
    paired_coverage: float
    level: float
    intervals: float

    def __str__(self) -> str:
        cover, paired, level, held = (
            "-" if one != one else f"{100 * one:.1f}"
            for one in (self.coverage, self.paired_coverage, self.level, self.intervals)
        )
        return f"{self.kind:20} {self.prompts:5} {cover:>7} {paired:>7} {level:>7} {held:>7}"


def line_of(kind: Kind, prompts: int, data_sets: int, seed: int = 0) -> Line:
    """Look at so many data sets."""
    rng = np.random.default_rng([seed, prompts])
    found = [kind.look(rng, prompts) for _ in range(data_sets)]

    def mean(values: list[bool]) -> float:
        return float(np.mean(values)) if values else float("nan")

    held = [one for one in found if one.low == one.low]
    return Line(
        kind.name,
        prompts,
        mean([one.low <= kind.truth <= one.high for one in held]),
        mean([one.below <= 0 <= one.above for one in found if one.below == one.below]),
        mean([one.p_value < 0.05 for one in found if one.p_value == one.p_value]),
        len(held) / data_sets,
    )


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description="Coverage of intervals that are no ratio of sums.")
    parser.add_argument("--data-sets", type=int, default=400, help="data sets of each line")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", metavar="KIND", help="the kinds to look at, as the first column has them")
    arguments = parser.parse_args()
    started = time.process_time()
    print(f"{'kind':20} {'n':>5} {'cover':>7} {'paired':>7} {'p<.05':>7} {'held':>7}")
    for kind in (one for one in kinds() if not arguments.only or one.name in arguments.only):
        for prompts in PROMPTS:
            print(line_of(kind, prompts, arguments.data_sets, arguments.seed), flush=True)
    print(f"{time.process_time() - started:.0f} s of one core")


if __name__ == "__main__":
    main()
