"""The interval and the p-value of a difference agree, whatever the methods: it excludes 0 exactly where p is below."""

from __future__ import annotations

import itertools
from math import isnan

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from tensorclass import field
from tensorclass.scores import MacroF1, Mean, Quantile, Ratio, Run, ScoreData, compare, leaderboard, metric
from tensorclass.scores.paired import agreeing_ends, is_significant, paired_difference
from tensorclass.scores.seeds import joined

Numbers = NDArray[np.float64]


class EveryScoreData(ScoreData):
    """A figure for each method of intervals and tests."""

    right: Tensor | None = None
    answers: Tensor | None = field(default=None, metadata=metric(Ratio("accuracy", {"answers": 1}, {"asked": 1})))
    asked: Tensor | None = field(default=None, metadata=metric())
    partial: Tensor | None = None
    tokens: Tensor | None = field(default=None, metadata=metric(Mean(unit="tokens")))
    predicted: Tensor | None = field(
        default=None, metadata=metric(MacroF1(target="target", name="macro_f1"), Quantile(0.5, unit="s"))
    )
    target: Tensor | None = field(default=None, metadata=metric())
    passage: Tensor | None = field(default=None, metadata=metric())


def drawn(rng: np.random.Generator, prompts: int, shift: float, shared: Numbers) -> EveryScoreData:
    """A run whose figures are better by a shift."""
    own = 0.5 * shared + 0.5 * rng.random(prompts) + shift
    asked = rng.integers(1, 6, prompts)
    target = (np.arange(prompts) % 2).astype(np.float64)
    columns = (
        (own > 0.5).astype(np.float64),
        rng.binomial(asked, np.clip(own, 0, 1)),
        asked,
        np.clip(np.round(own * 4) / 4, 0, 1),
        np.exp(4 + own + 0.3 * rng.standard_normal(prompts)),
        np.where(rng.random(prompts) < np.clip(own, 0, 1), target, 1 - target),
        target,
        np.arange(prompts) // 3,
    )
    ids = torch.arange(prompts)
    return EveryScoreData(*map(torch.as_tensor, columns), prompt_id=ids, batch_size=[prompts])


def agrees(low: float, high: float, p_value: float, confidence: float) -> bool:
    return isnan(low) or isnan(p_value) or (low > 0 or high < 0) == (p_value <= (1 - confidence) * (1 + 1e-9))


SETTINGS = {
    "prompts": {},
    "clusters": {"cluster": "passage"},
}


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
@given(seed=st.integers(0, 2**32), prompts=st.integers(3, 60), shift=st.floats(-0.3, 0.3), level=st.floats(0.5, 0.99))
@settings(max_examples=25, deadline=None)
def test_a_comparison_agrees(options: dict[str, str], seed: int, prompts: int, shift: float, level: float) -> None:
    rng = np.random.default_rng(seed)
    shared = rng.random(prompts)
    a, b = drawn(rng, prompts, 0, shared), drawn(rng, prompts, shift, shared)
    for name, one in compare(a, b, confidence=level, resamples=200, **options).items():
        assert agrees(float(one.low), float(one.high), float(one.p_value), level), (name, one)
        assert isnan(float(one.low)) or one.low <= one.value <= one.high


@given(seed=st.integers(0, 2**32), prompts=st.integers(3, 60), shift=st.floats(-0.3, 0.3), level=st.floats(0.5, 0.99))
@settings(max_examples=8, deadline=None)
def test_a_leaderboard_agrees_with_and_without_seeds(seed: int, prompts: int, shift: float, level: float) -> None:
    rng = np.random.default_rng(seed)
    runs: dict[bool, list[Run]] = {True: [], False: []}
    for task, model in itertools.product(("arc", "piqa"), "ABC"):
        shared = np.random.default_rng(len(task)).random(prompts)
        own = [
            Run(model, drawn(rng, prompts, shift * (model == "B"), shared), (), "memory", task=task) for _ in range(3)
        ]
        runs[False].append(own[0])
        runs[True].append(joined(own, ("seed1", "seed2", "seed3")))
    for with_seeds, correction, figure in itertools.product(
        (True, False), ("holm", "bh", "none"), ("right", "accuracy", "tokens", "macro_f1")
    ):
        if with_seeds and figure == "macro_f1":
            continue
        board = leaderboard(runs[with_seeds], metric=figure, correction=correction, confidence=level, resamples=200)
        for one in board.differences:
            own = one.difference
            assert agrees(float(own.low), float(own.high), float(own.p_value), level), (figure, one)
            assert agrees(one.low_adjusted, one.high_adjusted, one.p_adjusted, level), (figure, correction, one)


def columns(differences: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Two runs whose values differ so."""
    one = np.ones(len(differences))
    return np.zeros(len(differences)), one, differences, one


def test_the_exact_test_decides_where_the_t_interval_is_narrower() -> None:
    found = paired_difference(*columns(np.array([5.0, 5.1, 5.2])), share=False)
    assert (found.low > 0, found.p_value) == (True, 0.25)
    assert agreeing_ends(found.value, found.low, found.high, found.p_value, 0.95)[0] < 0


def test_an_end_moves_to_where_the_test_puts_it() -> None:
    narrow = agreeing_ends(0.125, 0.002, 0.24, 0.053, 0.95)
    assert narrow[0] < 0
    assert narrow[1] == 0.24
    low, _ = agreeing_ends(0.125, -0.01, 0.24, 0.041, 0.95)
    assert 0 < low < 0.01
    assert agreeing_ends(-0.125, -0.24, 0.01, 0.041, 0.95)[1] < 0


@pytest.mark.parametrize("p_value", [0.0, 0.05, 1.0, float("nan")])
def test_extreme_p_values_have_finite_ends(p_value: float) -> None:
    for low in (-0.1, 0.01):
        ends = agreeing_ends(0.2, low, 0.4, p_value, 0.95)
        assert all(np.isfinite(ends))
        assert isnan(p_value) or (ends[0] > 0) == is_significant(p_value, 0.95)


def test_of_clusters_it_is_the_t_interval_with_one_less_than_their_number() -> None:
    """Forty passages of ten questions: by hand, +8.5 with a standard error of 1.774, [+4.91, +12.09]."""
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(5)
    of_passage = np.round(rng.normal(0.085, 0.1122, 40) * 10) / 10
    a = np.full((40, 10), 0.3)
    b = a + of_passage[:, None]
    passages = torch.arange(40).repeat_interleave(10)

    class Read(ScoreData):
        acc: Tensor | None = None
        passage: Tensor | None = field(default=None, metadata=metric())

    one, other = (
        Read(torch.as_tensor(np.clip(side, 0, 1).ravel()), passages, prompt_id=torch.arange(400), batch_size=[400])
        for side in (a, b)
    )
    found = compare(one, other, cluster="passage")["acc"]
    each = (other.acc - one.acc).reshape(40, 10).mean(1).numpy()  # type: ignore[operator]
    low, high = stats.t.interval(0.95, 39, each.mean(), stats.sem(each))
    assert (found.low.item(), found.high.item()) == (pytest.approx(low, abs=1e-9), pytest.approx(high, abs=1e-9))
    assert found.interval == "t"
    assert found.p_value < 0.05


def test_clusters_that_agree_have_an_interval_all_the_same() -> None:
    class Read(ScoreData):
        acc: Tensor | None = None
        passage: Tensor | None = field(default=None, metadata=metric())

    same = Read(torch.ones(12), torch.arange(12) // 3, batch_size=[12])
    one = compare(same, same, cluster="passage")["acc"]
    assert one.low < 0 < one.high
