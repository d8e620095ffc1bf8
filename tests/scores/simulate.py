"""Coverage of intervals and levels of tests, counted exactly where they can be and simulated elsewhere.

    python -m tests.scores.simulate --comparisons 100000

prints a line for each kind of figure, number of prompts and rate: how often the 95 % interval of a figure and that of a
difference hold the truth, how often the p-value lies below 0.05 where the runs don't differ, and how wide the intervals
are on average. It ends with the worst of each, and with exit code 1 where one misses its limit by more than chance
allows. The limits: intervals cover at least 93 %, and at most 5.5 % of the p-values lie below 0.05.

Brackets are beyond what a method can promise, and have no limit: intervals of skewed figures without bounds, and
p-values of runs with equal figures whose prompts have other spreads or other denominators.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lgamma, nan, sqrt

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.intervals import share_interval, t_interval
from tensorclass.scores.paired import (
    difference_interval,
    mcnemar_p_value,
    paired_difference,
    share_difference_interval,
)

Numbers = NDArray[np.float64]
Outcomes = tuple[Numbers, Numbers, Numbers, Numbers]

COVERAGE = 0.93
LEVEL = 0.055
PROMPTS = (3, 5, 10, 30, 100, 300, 1000)
RATES = (0.01, 0.1, 0.5, 0.9, 0.99)

_ERRORS = 4.0  # standard errors that a simulated share may lie beyond its limit; there are over a thousand of them
_RESAMPLES = 999
_NUMBERS = 2_000_000  # held at a time


# --- data sets ------------------------------------------------------------------------------------------------------


def skills(rng: np.random.Generator, shape: tuple[int, int], rate: float, likeness: float) -> Numbers:
    """How likely each prompt is solved: Beta, with the rate as mean and the likeness of its verdicts as correlation."""
    spread = (1 - likeness) / likeness
    return rng.beta(rate * spread, (1 - rate) * spread, shape)


def moved(skill: Numbers, by: float, rate: float) -> tuple[Numbers, float]:
    """The skills of a second run on the same prompts, and its rate: nearer to the farther end."""
    return ((1 - by) * skill + by, rate + by * (1 - rate)) if rate < 0.5 else ((1 - by) * skill, (1 - by) * rate)


def verdicts(
    rng: np.random.Generator, sizes: Callable[[tuple[int, int]], tuple[Numbers, Numbers]], a: Numbers, b: Numbers
) -> Outcomes:
    below_a, below_b = sizes((a.shape[0], a.shape[1]))
    above_a, above_b = (rng.binomial(below.astype(np.int64), skill) for below, skill in ((below_a, a), (below_b, b)))
    return above_a.astype(np.float64), below_a, above_b.astype(np.float64), below_b


def pooled(rng: np.random.Generator, a: Numbers, b: Numbers) -> Outcomes:
    """One to three instructions a prompt, the same in both runs."""
    sizes = np.asarray(rng.integers(1, 4, a.shape), dtype=np.float64)
    return verdicts(rng, lambda _: (sizes, sizes), a, b)


def uneven(rng: np.random.Generator, a: Numbers, b: Numbers) -> Outcomes:
    """Ten instructions in every fifth prompt, one in the others."""
    sizes = np.asarray(np.where(rng.random(a.shape) < 0.2, 10, 1), dtype=np.float64)
    return verdicts(rng, lambda _: (sizes, sizes), a, b)


def precision(rng: np.random.Generator, a: Numbers, b: Numbers) -> Outcomes:
    """Found and right of found, with a number of its own in each run and prompt, often none."""
    return verdicts(rng, lambda shape: (rng.poisson(1.0, shape) * 1.0, rng.poisson(1.0, shape) * 1.0), a, b)


def other_denominators(rng: np.random.Generator, a: Numbers, b: Numbers) -> Outcomes:
    """As before, of runs that find much and little."""
    return verdicts(rng, lambda shape: (rng.poisson(0.3, shape) * 1.0, rng.poisson(2.0, shape) * 1.0), a, b)


def repeats(rng: np.random.Generator, a: Numbers, b: Numbers) -> Outcomes:
    """Five seeds of each prompt."""
    return verdicts(rng, lambda shape: (np.full(shape, 5.0), np.full(shape, 5.0)), a, b)


def fractions(rng: np.random.Generator, a: Numbers, b: Numbers) -> Outcomes:
    """The share of five samples that are right, as one score a prompt."""
    above_a, _, above_b, _ = repeats(rng, a, b)
    return above_a / 5, np.ones(a.shape), above_b / 5, np.ones(a.shape)


def preferences(rng: np.random.Generator, a: Numbers, b: Numbers) -> Outcomes:
    """One judgement a prompt: a win counts 1, a tie, most of those that could be one, a half."""

    def judged(skill: Numbers) -> Numbers:
        ties = 1.2 * np.minimum(skill, 1 - skill)
        drawn = rng.random(skill.shape)
        return np.where(drawn < ties, 0.5, (drawn < ties / 2 + skill).astype(np.float64))

    one = np.ones(a.shape)
    return judged(a), one, judged(b), one


@dataclass(frozen=True)
class Kind:
    """A kind of figure.

    Attributes:
        name: as the table has it.
        draw: makes data sets from the skills of two runs.
        likeness: the correlation of verdicts on one prompt.
        exchangeable: whether runs of the same skills give outcomes that could be each other's.
    """

    name: str
    draw: Callable[[np.random.Generator, Numbers, Numbers], Outcomes]
    likeness: float
    exchangeable: bool = True


KINDS = (
    Kind("pooled verdicts", pooled, 0.3),
    Kind("uneven prompts", uneven, 0.5),
    Kind("ratio", precision, 0.3),
    Kind("preference", preferences, 0.3),
    Kind("five repeats", repeats, 0.8),
    Kind("fractions", fractions, 0.5),
    Kind("other denominators", other_denominators, 0.3, exchangeable=False),
)


# --- results --------------------------------------------------------------------------------------------------------


@dataclass
class Line:
    """Coverage, level and widths of one kind of figure at one number of prompts and one rate; NaN where not looked at.

    Attributes:
        intervals: how many data sets the coverages are shares of; 0 where they are exact.
        tests: how many the level is a share of; 0 where it is exact.
        limited: whether the limits hold for the coverages.
    """

    kind: str
    prompts: int
    rate: float
    coverage: float
    paired_coverage: float
    level: float
    width: float
    paired_width: float
    intervals: int = 0
    tests: int = 0
    limited: bool = True
    level_limited: bool = True

    def misses(self) -> list[str]:
        """What misses its limit by more than chance allows."""

        def error(share: float, count: int) -> float:
            return _ERRORS * sqrt(share * (1 - share) / count) if count else 1e-9

        least, most = COVERAGE - error(COVERAGE, self.intervals), LEVEL + error(LEVEL, self.tests)
        found = [
            f"{name} {100 * share:.2f} %"
            for name, share in (("coverage", self.coverage), ("coverage of the difference", self.paired_coverage))
            if self.limited and share < least
        ]
        return found + ([f"p < 0.05 in {100 * self.level:.2f} %"] if self.level_limited and self.level > most else [])

    def __str__(self) -> str:
        cover, paired = (_percent(share, self.limited) for share in (self.coverage, self.paired_coverage))
        return (
            f"{self.kind:18} {self.prompts:5} {self.rate:5g} {cover:>8} {paired:>8} "
            f"{_percent(self.level, self.level_limited):>7} {self.width:8.3f} {self.paired_width:8.3f}"
        )


HEAD = f"{'kind':18} {'n':>5} {'rate':>5} {'cover':>8} {'paired':>8} {'p<.05':>7} {'width':>8} {'paired':>8}"


def _percent(share: float, limited: bool, unit: str = "") -> str:
    text = "-" if share != share else f"{100 * share:.2f}{unit}"
    return text if limited else f"({text})"


# --- counted exactly ------------------------------------------------------------------------------------------------


def exact(prompts: Sequence[int], rates: Sequence[float]) -> list[Line]:
    """One verdict of 0 or 1 a prompt: all outcomes, weighted by their chances.

    The paired columns are the worst over twelve ways to share differing prompts between the runs, among them the rate
    as the chance to differ.
    """
    lines: list[Line] = []
    for count in prompts:
        right = np.arange(count + 1.0)
        low, high = share_interval(
            np.array([1.0, 0.0]) + 0 * right[:, None],
            np.ones((count + 1, 2)),
            counts=np.stack([right, count - right], axis=1),
        )
        pairs = _Pairs(count)
        for rate in rates:
            chances = _binomial(count, rate)
            covered = float(chances @ ((low <= rate) & (rate <= high)))
            width = float(chances @ (high - low))
            differ = min(rate, 1 - rate)
            shares = [(part * differ, (1 - part) * differ) for part in (0.0, 0.1, 0.3, 0.5)]
            shares += [(part * (1 - differ), (1 - part) * (1 - differ)) for part in (0.0, 0.1, 0.3, 0.5)]
            shares += [(0.0, rare / (count + 4)) for rare in (2.5, 4.4, 6.0, 7.5)]
            looked = [pairs.coverage(*both) for both in shares]
            lines.append(
                Line(
                    "verdicts, exact",
                    count,
                    rate,
                    covered,
                    min(one for one, _ in looked),
                    max(pairs.level(2 * differ * (1 - differ)), pairs.level(differ)),
                    width,
                    looked[3][1],
                )
            )
    return lines


class _Pairs:
    """All outcomes of two runs with one verdict a prompt: how many only the one, and only the other, has right."""

    def __init__(self, count: int) -> None:
        self.count = count
        only_a, only_b = np.meshgrid(np.arange(count + 1.0), np.arange(count + 1.0), indexing="ij")
        possible = only_a + only_b <= count
        self.only_a, self.only_b = only_a[possible], only_b[possible]
        rest = count - self.only_a - self.only_b
        kinds = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
        above = np.broadcast_to(kinds, (len(rest), 3, 2))
        self.low, self.high = share_difference_interval(
            above[..., 0],
            np.ones((len(rest), 3)),
            above[..., 1],
            np.ones((len(rest), 3)),
            counts=np.stack([self.only_a, self.only_b, rest], axis=1),
        )
        factorials = _log_factorials(count)
        places = self.only_a.astype(np.int64), self.only_b.astype(np.int64), rest.astype(np.int64)
        self.ways = factorials[count] - sum(factorials[place] for place in places)
        self.rest = rest

    def coverage(self, a: float, b: float) -> tuple[float, float]:
        """How often the interval covers, and its mean width, with these chances to be right in one run only."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = self.ways + sum(
                np.where(number > 0, number * np.log(chance), 0.0)
                for number, chance in ((self.only_a, a), (self.only_b, b), (self.rest, 1 - a - b))
            )
        chances = np.exp(logs)
        covers = (self.low <= b - a) & (b - a <= self.high)
        return float(chances @ covers), float(chances @ (self.high - self.low))

    def level(self, differ: float) -> float:
        """How often the p-value lies below 0.05 where prompts differ with this chance, either way alike."""
        total, tail = 0.0, 0
        for differing, chance in enumerate(_binomial(self.count, differ).tolist()):
            # The largest number of the rarer side that is still significant only grows with the number differing.
            while mcnemar_p_value(tail, max(differing - tail, tail)) < 0.05 and 2 * tail < differing:
                tail += 1
            total += chance * min(1.0, 2 * float(_binomial(differing, 0.5)[:tail].sum()))
        return total


def _log_factorials(count: int) -> Numbers:
    return np.array([lgamma(one + 1.0) for one in range(count + 1)])


def _binomial(count: int, chance: float) -> Numbers:
    factorials, right = _log_factorials(count), np.arange(count + 1)
    ways = factorials[count] - factorials - factorials[::-1]
    return np.asarray(np.exp(ways + right * np.log(chance) + (count - right) * np.log1p(-chance)), dtype=np.float64)


# --- simulated ------------------------------------------------------------------------------------------------------


def simulated(kind: Kind, prompts: int, rate: float, intervals: int, tests: int, rng: np.random.Generator) -> Line:
    """One line from so many data sets: for half of those for intervals the runs differ, for those for tests never."""
    covered = paired = held = paired_held = 0
    width = paired_width = 0.0
    step = max(1, _NUMBERS // prompts)
    parts = [min(step, intervals - first) for first in range(0, intervals, step)]
    for place, size in enumerate(part for whole in parts for part in (whole // 2, whole - whole // 2)):
        a = skills(rng, (size, prompts), rate, kind.likeness)
        b, other = moved(a, 0.3, rate) if place % 2 else (a, rate)
        rows = kind.draw(rng, a, b)
        counts = (rows[1].sum(-1) > 0), (rows[3].sum(-1) > 0)
        low, high = (end[counts[0]] for end in share_interval(rows[0], rows[1]))
        covered, held = covered + int(((low <= rate) & (rate <= high)).sum()), held + len(low)
        width += float((high - low).sum())
        low, high = (end[counts[0] & counts[1]] for end in share_difference_interval(*rows))
        truth = other - rate
        paired, paired_held = paired + int(((low <= truth) & (truth <= high)).sum()), paired_held + len(low)
        paired_width += float((high - low).sum())
    a = skills(rng, (tests, prompts), rate, kind.likeness)
    level = share_below(kind.draw(rng, a, a), rng)
    return Line(
        kind.name,
        prompts,
        rate,
        covered / held,
        paired / paired_held,
        level,
        width / held,
        paired_width / paired_held,
        intervals,
        tests,
        level_limited=kind.exchangeable,
    )


def share_below(rows: Outcomes, rng: np.random.Generator) -> float:
    """The share of data sets, a row each, whose p-value lies below 0.05."""
    seeds = rng.integers(0, 2**31, len(rows[0])).tolist()
    above_a, below_a, above_b, below_b = rows
    found = [
        paired_difference(xa, na, xb, nb, seed=seed, resamples=_RESAMPLES).p_value
        for xa, na, xb, nb, seed in zip(above_a, below_a, above_b, below_b, seeds, strict=True)
    ]
    return float(np.mean(np.array(found) < 0.05))


def beyond(prompts: int, intervals: int, tests: int, rng: np.random.Generator) -> list[Line]:
    """Data sets for which no method holds its level at every size: shown, and limited only where one can promise."""
    lines: list[Line] = []
    one = np.ones((intervals, prompts))
    for name, sigma in (("tokens, normal", 0.0), ("tokens, skewed", 1.0)):

        def tokens(size: int, spread: float = sigma) -> Numbers:
            hard = rng.normal(size=(size, prompts))
            drawn = (hard + rng.normal(size=(size, prompts))) / sqrt(2)
            return np.exp(spread * drawn) if spread else drawn + 10

        truth = float(np.exp(sigma**2 / 2)) if sigma else 10.0
        a, b = tokens(intervals), tokens(intervals)
        low, high = t_interval(a, one)
        below, above = difference_interval(a, one, b, one)
        small = min(tests, 200) if prompts > 100 else tests
        level = share_below((tokens(small), one[:small], tokens(small), one[:small]), rng)
        lines.append(
            Line(
                name,
                prompts,
                truth,
                float(np.mean((low <= truth) & (truth <= high))),
                float(np.mean((below <= 0) & (above >= 0))),
                level,
                float(np.mean(high - low)),
                float(np.mean(above - below)),
                intervals,
                small,
                limited=not sigma,
            )
        )
    for rate in (0.1, 0.5):
        # The first run solves a prompt or not, the second solves each in part: equal figures, other spreads.
        right = (rng.random((tests, prompts)) < rate).astype(np.float64)
        part = rng.beta(10 * rate, 10 * (1 - rate), (tests, prompts)).round(2)
        level = share_below((right, np.ones(right.shape), part, np.ones(right.shape)), rng)
        lines.append(
            Line(
                "other spreads",
                prompts,
                rate,
                nan,
                nan,
                level,
                nan,
                nan,
                0,
                tests,
                level_limited=False,
            )
        )
    return lines


def lines_of(
    comparisons: int, seed: int = 0, prompts: Sequence[int] = PROMPTS, rates: Sequence[float] = RATES
) -> list[Line]:
    """All lines; the comparisons are shared out over kinds, numbers of prompts and rates."""
    rng = np.random.default_rng(seed)
    tests = max(1, comparisons // (len(KINDS) * len(prompts) * len(rates)))
    found = exact(prompts, rates)
    for kind in KINDS:
        for count in prompts:
            intervals = max(2, (20 if count < 300 else 8) * tests)
            found += [simulated(kind, count, rate, intervals, tests, rng) for rate in rates]
    for count in prompts:
        found += beyond(count, 4 * tests, tests, rng)
    return found


def worst(lines: Sequence[Line]) -> list[str]:
    """A table in Markdown with a row for each kind: its least coverages, its highest level, and where they are."""

    def place(line: Line) -> str:
        at = f"{line.rate:g}" if "tokens" not in line.kind else "-"
        return f"{line.prompts}, {at}"

    found = [
        "| figure | interval covers at least | n, rate | difference | n, rate | p < 0.05 at most | n, rate | in all |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(line.kind for line in lines):
        own = [line for line in lines if line.kind == kind]
        cells = [kind]
        for share in ("coverage", "paired_coverage"):
            known = [line for line in own if getattr(line, share) == getattr(line, share)]
            if known:
                least = min(known, key=lambda line: float(getattr(line, share)))
                cells += [_percent(getattr(least, share), least.limited, " %"), place(least)]
            else:
                cells += ["-", "-"]
        most = max(own, key=lambda line: line.level)
        tests = sum(line.tests for line in own)
        mean = sum(line.level * line.tests for line in own) / tests if tests else float("nan")
        cells += [_percent(most.level, most.level_limited, " %"), place(most)]
        cells.append(_percent(mean, most.level_limited, " %") if tests else "-")
        found.append(f"| {' | '.join(cells)} |")
    return found


def missed(lines: Sequence[Line]) -> list[str]:
    """Each line that misses a limit by more than chance allows, and each kind whose tests do together."""
    found = [
        f"{one.kind}, n={one.prompts}, rate {one.rate:g}: {', '.join(one.misses())}" for one in lines if one.misses()
    ]
    for kind in dict.fromkeys(line.kind for line in lines):
        own = [line for line in lines if line.kind == kind and line.tests and line.level_limited]
        tests = sum(line.tests for line in own)
        share = sum(line.level * line.tests for line in own) / tests if tests else 0.0
        if tests and share > LEVEL + _ERRORS * sqrt(LEVEL * (1 - LEVEL) / tests):
            found.append(f"{kind}: p < 0.05 in {100 * share:.2f} % overall")
    return found


def main() -> int:
    """Print the lines, the worst of each kind, and what misses its limit."""
    parser = argparse.ArgumentParser(description="Coverage of intervals and levels of tests.")
    parser.add_argument("--comparisons", type=int, default=100_000, help="simulated comparisons of two runs")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    started = time.process_time()
    lines = lines_of(arguments.comparisons, arguments.seed)
    print(
        "95 % intervals: cover, width; paired: those of differences; p<.05: share of p-values where runs don't differ."
    )
    print(HEAD, *lines, "", "The worst:", *worst(lines), sep="\n")
    wrong = missed(lines)
    tests, intervals = sum(line.tests for line in lines), sum(line.intervals for line in lines)
    print(f"\n{tests} p-values, {2 * intervals} intervals, {time.process_time() - started:.0f} s of one core")
    print(*[f"MISSED: {one}" for one in wrong] or ["Nothing misses its limit."], sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
