"""How often a decision is wrong: ``python -m tests.scores.simulate_decisions``.

Data sets of two or three models are drawn, in which no model is better, and ranked as ``tensorclass scores`` does. A
data set in which a difference is found names a wrong winner. Then the chance to find a true difference of 5 points is
compared with the one that ``scores power`` says. In each data set, the interval of every difference has to exclude 0
exactly where its p-value is significant. Exit code 1 says that a promise doesn't hold, by more than chance allows.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tensorclass import field
from tensorclass.scores import Mean, PairedDesign, Ratio, Run, ScoreData, leaderboard, metric
from tensorclass.scores.missing_verdicts import MissingVerdictsError, settle_missing
from tensorclass.scores.seeds import joined

Numbers = NDArray[np.float64]

LEVEL = 0.055
"""The largest share of data sets that may name a wrong winner."""

CHANCE = 3.0
"""Standard errors of a simulated share that count as chance."""

PROMPTS = 1000
DIFFERENCE = 0.05


class DecidedScoreData(ScoreData):
    """Verdicts of prompts in passages."""

    acc: Tensor | None = None
    passage: Tensor | None = field(default=None, metadata=metric())


class AnswersScoreData(ScoreData):
    """Right parts of answers of several parts."""

    right: Tensor | None = field(default=None, metadata=metric(Ratio("accuracy", {"right": 1}, {"parts": 1})))
    parts: Tensor | None = field(default=None, metadata=metric())


class TokensScoreData(ScoreData):
    """Numbers of tokens."""

    tokens: Tensor | None = field(default=None, metadata=metric(Mean(unit="tokens")))


@dataclass(frozen=True)
class Outcome:
    """What came of the data sets of a scenario.

    Attributes:
        name: the scenario.
        data_sets: how many were drawn.
        winners: in how many a winner was named.
        refused: in how many the comparison was refused.
        contradictions: differences whose interval contradicts the p-value.
        expected: the share of winners that is expected; None where no model is better.
    """

    name: str
    data_sets: int
    winners: int
    refused: int
    contradictions: int
    expected: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the promises hold, but for chance."""
        share, bound = self.winners / self.data_sets, LEVEL if self.expected is None else self.expected
        chance = CHANCE * sqrt(bound * (1 - bound) / self.data_sets)
        if self.contradictions:
            return False
        return share <= bound + chance if self.expected is None else abs(share - bound) <= 0.03 + chance

    def __str__(self) -> str:
        shares = [f"{100 * count / self.data_sets:6.2f} %" for count in (self.winners, self.refused)]
        bound = f"at most {100 * LEVEL:.1f} %" if self.expected is None else f"power says {100 * self.expected:.1f} %"
        verdict = "" if self.holds else "  FAILS"
        return (
            f"{self.name:44} {shares[0]}  ({bound})  refused {shares[1]}  contradictions {self.contradictions}{verdict}"
        )


def run_of(model: str, scores: ScoreData, task: str = "task") -> Run:
    """A run in memory, its prompts numbered."""
    scores = scores.replace(prompt_id=torch.arange(len(scores)))
    return Run(f"{model}/{task}", scores, (), "memory", model=model, task=task)


def verdicts(model: str, right: Numbers, task: str = "task", passage: Numbers | None = None) -> Run:
    """A run of verdicts, NaN where they are missing."""
    groups = None if passage is None else torch.as_tensor(passage)
    scores = DecidedScoreData(torch.as_tensor(right, dtype=torch.float32), groups, batch_size=[len(right)])
    return run_of(model, scores, task)


def drawn(rng: np.random.Generator, chances: Numbers) -> Numbers:
    """Verdicts with these chances to be right."""
    return (rng.random(len(chances)) < chances).astype(np.float64)


def hardness(rng: np.random.Generator, prompts: int) -> Numbers:
    """The chance of each prompt to be answered."""
    return rng.beta(1.5, 1.0, prompts)


def complete(rng: np.random.Generator) -> list[Run]:
    """Two equal models."""
    chances = hardness(rng, 200)
    return [verdicts(model, drawn(rng, chances)) for model in "AB"]


def missing_at_random(rng: np.random.Generator) -> list[Run]:
    """Two equal models; of each, one verdict in ten is missing."""
    runs = complete(rng)
    for run in runs:
        assert run.scores.acc is not None
        run.scores.acc[torch.as_tensor(rng.random(len(run.scores)) < 0.1)] = float("nan")
    return runs


def missing_if_wrong(rng: np.random.Generator) -> list[Run]:
    """Two equal models; of one, three in ten wrong answers are missing, as those of a grader that times out."""
    runs = complete(rng)
    right = runs[1].scores.acc
    assert right is not None
    right[(right == 0) & torch.as_tensor(rng.random(len(right)) < 0.3)] = float("nan")
    return runs


def prompts_missing(rng: np.random.Generator) -> list[Run]:
    """Two equal models, one of which has not answered the last, hard prompts."""
    chances = np.sort(hardness(rng, 200))[::-1]
    a, b = (verdicts(model, drawn(rng, chances)) for model in "AB")
    return [a, Run(b.name, b.scores[:150], (), "memory", model="B", task=b.task)]


def seeds(shift: float) -> Callable[[np.random.Generator], list[Run]]:
    """Two equal models of three seeds, each of which shifts all prompts."""

    def of(rng: np.random.Generator) -> list[Run]:
        chances = hardness(rng, 400)
        runs: list[Run] = []
        for model in "AB":
            own = [
                verdicts(model, drawn(rng, np.clip(chances + shift * rng.standard_normal(), 0, 1))) for _ in range(3)
            ]
            runs.append(joined(own, ("seed1", "seed2", "seed3")))
        return runs

    return of


def clusters(rng: np.random.Generator) -> list[Run]:
    """Two equal models on passages of 2 to 200 prompts, which each model understands or not."""
    sizes = np.exp(rng.uniform(np.log(2), np.log(200), 30)).astype(int)
    passage = np.repeat(np.arange(len(sizes)), sizes)
    own = (np.clip(0.6 + 0.25 * rng.standard_normal(len(sizes)), 0, 1) for _ in range(2))
    return [
        verdicts(model, drawn(rng, chances[passage]), passage=passage) for model, chances in zip("AB", own, strict=True)
    ]


def ties(rng: np.random.Generator) -> list[Run]:
    """Two equal models whose answers are right, half right or wrong."""
    chances = hardness(rng, 200)
    return [verdicts(model, (drawn(rng, chances) + drawn(rng, chances)) / 2) for model in "AB"]


def lengths(rng: np.random.Generator) -> list[Run]:
    """Two equal models whose answers have 1 to 20 parts, other numbers in each run."""
    chances = hardness(rng, 200)
    runs: list[Run] = []
    for model in "AB":
        parts = np.exp(rng.uniform(0, np.log(20), len(chances))).astype(int)
        right = rng.binomial(parts, chances)
        runs.append(
            run_of(model, AnswersScoreData(torch.as_tensor(right), torch.as_tensor(parts), batch_size=[len(parts)]))
        )
    return runs


def tokens(rng: np.random.Generator) -> list[Run]:
    """Two models that write equally much, with skewed numbers of tokens."""
    size = np.exp(rng.normal(5, 1, 100))
    draws = (size * np.exp(rng.normal(0, 0.5, 100)) for _ in range(2))
    return [
        run_of(model, TokensScoreData(torch.as_tensor(one), batch_size=[100]))
        for model, one in zip("AB", draws, strict=True)
    ]


def three_models_two_tasks(rng: np.random.Generator) -> list[Run]:
    """Three equal models on two tasks."""
    of_task = {task: hardness(rng, 150) for task in ("arc", "piqa")}
    return [verdicts(model, drawn(rng, chances), task) for model in "ABC" for task, chances in of_task.items()]


def better(rng: np.random.Generator) -> list[Run]:
    """A model that is better by 5 points, on prompts that both find as hard."""
    rate, shared = 0.6, rng.random(PROMPTS) < 0.5
    both = rng.random(PROMPTS)
    draws = (np.where(shared, both, rng.random(PROMPTS)) for _ in range(2))
    return [
        verdicts(model, (own < chance).astype(np.float64))
        for model, own, chance in zip("AB", draws, (rate, rate + DIFFERENCE), strict=True)
    ]


def power() -> float:
    """The chance that ``scores power`` gives for the data sets of :func:`better`."""
    rate, other = 0.6, 0.6 + DIFFERENCE
    covariance = 0.5 * (rate - rate * other)  # half of the prompts have one draw for both models
    correlation = covariance / sqrt(rate * (1 - rate) * other * (1 - other))
    design = PairedDesign.of_rates(rate, other, correlation=correlation)
    shown = design.detectable(PROMPTS, power=0.5)  # at the power of a half, the difference is z standard errors
    normal = NormalDist()
    z = normal.inv_cdf(0.975)
    return normal.cdf(DIFFERENCE / (shown / z) - z)


EQUAL: Sequence[tuple[str, Callable[[np.random.Generator], list[Run]], dict[str, str]]] = (
    ("equal models", complete, {}),
    ("missing at random, refused by default", missing_at_random, {}),
    ("missing at random, dropped", missing_at_random, {"missing": "drop"}),
    ("missing if wrong, refused by default", missing_if_wrong, {}),
    ("missing if wrong, counted as wrong", missing_if_wrong, {"missing": "wrong"}),
    ("hard prompts not there, dropped", prompts_missing, {"missing": "drop"}),
    ("3 seeds, shifts of 2 points", seeds(0.02), {}),
    ("3 seeds, shifts of 4 points", seeds(0.04), {}),
    ("clusters of 2 to 200 prompts", clusters, {"cluster": "passage"}),
    ("ties", ties, {}),
    ("unequal lengths", lengths, {}),
    ("tokens, skewed", tokens, {}),
    ("three models, two tasks, Holm", three_models_two_tasks, {}),
)
"""Scenarios in which no model is better: their names, draws and options."""


def outcomes(data_sets: int, seed: int = 0, prefix: str = "") -> Iterator[Outcome]:
    """Draw the data sets of each scenario, and decide.

    Args:
        data_sets: how many for each.
        seed: of the draws.
        prefix: of the names of the scenarios to draw.
    """
    for place, (name, draw, options) in enumerate(EQUAL):
        if name.startswith(prefix):
            yield _outcome(name, draw, options, data_sets, np.random.default_rng([seed, place]))
    name = "5 points better at n = 1,000"
    if name.startswith(prefix):
        yield _outcome(name, better, {}, data_sets, np.random.default_rng([seed, 99]), power())


def _outcome(
    name: str,
    draw: Callable[[np.random.Generator], list[Run]],
    options: dict[str, str],
    data_sets: int,
    rng: np.random.Generator,
    expected: float | None = None,
) -> Outcome:
    winners = refused = contradictions = 0
    for _ in range(data_sets):
        try:
            runs = settle_missing(draw(rng), options.get("missing", "error"))
        except MissingVerdictsError:
            refused += 1
            continue
        # The same ways to flip in all data sets would shift all of their p-values alike.
        seed = int(rng.integers(2**31))
        board = leaderboard(runs, cluster=options.get("cluster"), resamples=2000, seed=seed)
        macro = [one for one in board.differences if one.task == "macro"]
        winners += any(one.p_adjusted < 0.05 for one in macro)
        for one in board.differences:
            pairs = [(float(one.difference.low), float(one.difference.high), float(one.difference.p_value))]
            pairs.append((one.low_adjusted, one.high_adjusted, one.p_adjusted))
            contradictions += sum((low > 0 or high < 0) != (p < 0.05) for low, high, p in pairs if low == low)
    return Outcome(name, data_sets, winners, refused, contradictions, expected)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.scores.simulate_decisions", description=__doc__)
    parser.add_argument("--data-sets", type=int, default=1000, metavar="N", help="of each scenario (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (default: 0)")
    parser.add_argument("--scenario", default="", metavar="NAME", help="only scenarios whose name begins so")
    given = parser.parse_args(arguments)
    all_hold = True
    for outcome in outcomes(given.data_sets, given.seed, given.scenario):
        print(outcome, flush=True)
        all_hold = all_hold and outcome.holds
    return 0 if all_hold else 1


if __name__ == "__main__":
    sys.exit(main())
