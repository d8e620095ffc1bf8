"""Repeats as a level of their own: shares of variance and intervals that cover other seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
import torch
from scipy import stats
from statsmodels.stats.anova import anova_lm
from torch import Tensor

from tensorclass import field
from tensorclass.scores import (
    ExactMatchScoreData,
    IFEvalScoreData,
    Mean,
    Quantile,
    ScoreData,
    compare,
    metric,
    ragged,
)
from tensorclass.scores.crossed import crossed_difference, crossed_interval, crossed_variance


class TokenScoreData(ScoreData):
    tokens: Tensor | None = field(default=None, metadata=metric(Mean(unit="tokens")))


def cells(seed: int, repeats: int, prompts: int, of_repeats: float = 0.5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shift = of_repeats * rng.normal(size=(repeats, 1))
    return 10 + shift + rng.normal(size=prompts) + 0.7 * rng.normal(size=(repeats, prompts))


def tokens(values: np.ndarray, **more: Any) -> TokenScoreData:
    return TokenScoreData(torch.as_tensor(values), batch_size=list(values.shape), **more)


def test_components_are_those_of_the_analysis_of_variance() -> None:
    values = cells(0, 4, 12)
    repeat, prompt = np.indices(values.shape)
    table = pd.DataFrame({"y": values.ravel(), "repeat": repeat.ravel(), "prompt": prompt.ravel()})
    squares = anova_lm(smf.ols("y ~ C(repeat) + C(prompt)", table).fit())
    mean = squares["sum_sq"] / squares["df"]
    rest = mean["Residual"]
    expected = (mean["C(prompt)"] - rest) / 4, (mean["C(repeat)"] - rest) / 12, rest
    found = tokens(values).variance_components(dim=(0, 1))["tokens"]
    assert (found.prompts.item(), found.repeats.item(), found.rest.item()) == pytest.approx(expected)
    assert (found.num_prompts.item(), found.num_repeats.item()) == (12, 4)
    assert sum(share.item() for share in found.shares().values()) == pytest.approx(1)
    variance = (mean["C(prompt)"] + mean["C(repeat)"] - rest) / values.size
    one = tokens(values).aggregate(dim=(0, 1), repeats="random")["tokens"]
    assert one.stderr.item() == pytest.approx(np.sqrt(variance))
    assert (one.interval, one.value.item()) == ("crossed t", pytest.approx(values.mean()))


def test_without_a_shift_of_repeats_they_are_pooled() -> None:
    values = np.random.default_rng(1).random((3, 20)).round()
    values -= values.mean(1, keepdims=True) - values.mean()  # every repeat has the same mean
    scores = tokens(values)
    pooled, random = (scores.aggregate(dim=(0, 1), repeats=how)["tokens"] for how in ("pooled", "random"))
    for name in ("value", "low", "high", "stderr"):
        assert getattr(random, name).item() == pytest.approx(getattr(pooled, name).item()), name
    assert scores.variance_components(dim=(0, 1))["tokens"].repeats == 0


def test_repeats_that_shift_all_prompts_are_what_varies() -> None:
    shift = np.array([0.2, 0.5, 0.9, 0.4])
    values = np.repeat(shift[:, None], 500, axis=1) + 1e-3 * np.random.default_rng(2).normal(size=(4, 500))
    found = tokens(values).aggregate(dim=(0, 1), repeats="random")["tokens"]
    # 500 prompts count for nothing: it is the t interval of four numbers.
    expected = stats.t.interval(0.95, 3, shift.mean(), stats.sem(shift))
    assert (found.low.item(), found.high.item()) == pytest.approx(expected, rel=1e-2)


def test_a_difference_of_two_runs_with_seeds_is_tested_over_both() -> None:
    a, b = cells(3, 3, 40), cells(4, 5, 40)
    b = b - cells(4, 5, 40, 0)[0] + cells(3, 3, 40, 0)[0]  # nearly the same prompts
    found = compare(tokens(a), tokens(b), dim=(0, 1), repeats="random")["tokens"]
    assert found.value.item() == pytest.approx(b.mean() - a.mean())
    assert found.test == "t"
    assert found.low < found.value < found.high
    assert (found.p_value < 0.05) == bool(found.low > 0 or found.high < 0)
    parts = crossed_variance(a, np.ones(a.shape)), crossed_variance(b, np.ones(b.shape))
    paired = stats.sem(b.mean(0) - a.mean(0)) ** 2
    assert found.stderr.item() == pytest.approx(np.sqrt(paired + parts[0].seeds + parts[1].seeds))
    swapped = compare(tokens(b), tokens(a), dim=(0, 1), repeats="random")["tokens"]
    assert swapped.p_value.item() == pytest.approx(found.p_value.item())
    assert swapped.low.item() == pytest.approx(-found.high.item())


def test_models_with_seeds_compare_along_their_dimension() -> None:
    values = np.stack([cells(5, 4, 30), cells(6, 4, 30), cells(7, 4, 30)])
    ids = torch.arange(30).expand(3, 4, 30)
    models = TokenScoreData(torch.as_tensor(values), prompt_id=ids, batch_size=[3, 4, 30])
    found = compare(models[:1], models, dim=(1, 2), repeats="random")
    assert found.batch_size == (3,)
    assert found["tokens"].p_value[0].item() == pytest.approx(1.0)
    alone = compare(models[0], models[2], dim=(0, 1), repeats="random")["tokens"]
    assert found["tokens"].low[2].item() == pytest.approx(alone.low.item())
    last = models.permute(2, 0, 1).contiguous().aggregate(dim=(2, 0), repeats="random")["tokens"]
    torch.testing.assert_close(last.low, models.aggregate(dim=(1, 2), repeats="random")["tokens"].low)
    assert models.variance_components(dim=(1, 2))["tokens"].batch_size == (3,)


def test_prompts_of_repeats_are_matched_by_their_ids() -> None:
    values, ids = cells(8, 3, 20), torch.arange(20).repeat(3, 1)
    scores = tokens(values, prompt_id=ids)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    shuffled = torch.stack([scores[0], scores[1][order], scores[2]])
    found, expected = (one.aggregate(dim=(0, 1), repeats="random")["tokens"] for one in (shuffled, scores))
    assert found.low.item() == pytest.approx(expected.low.item())
    with pytest.raises(ValueError, match="prompt_id: expected the same prompts in all repeats"):
        tokens(values, prompt_id=ids + torch.tensor([[0], [1], [0]])).aggregate(dim=(0, 1), repeats="random")


def test_instructions_groups_and_clusters_go_with_their_prompts() -> None:
    class Passages(IFEvalScoreData):
        passage: Tensor | None = field(default=None, kw_only=True, metadata=metric())

    verdicts = [ragged([[1, 0], [1], [0, 0], [1]]), ragged([[1, 1], [1], [0, 0], [0]], width=2)]
    each = [
        Passages(
            inst_level_strict_acc=one,
            instruction_id=torch.tensor([[0, 1], [0, -1], [1, 1], [0, -1]]),
            instruction_types=("a:x", "b:y"),
            passage=torch.tensor([0, 0, 1, 2]),
            batch_size=[4],
        )
        for one in verdicts
    ]
    seeds = torch.stack(each)
    report = seeds.aggregate(dim=(0, 1), repeats="random", cluster="passage")
    one = report["inst_level_strict_acc"]
    assert one.value.item() == 0.5
    assert (one.count.item(), one.prompts.item(), one.clusters.item()) == (12, 4, 3)
    assert set(report.groups["inst_level_strict_acc"]) == {"a", "a:x", "b", "b:y"}
    assert report.groups["inst_level_strict_acc"]["b:y"].value.item() == pytest.approx(1 / 6)


def test_there_is_no_interval_without_variance() -> None:
    one = np.ones((3, 1))
    assert crossed_interval(one, one, share=False).reason.startswith("a single prompt")
    assert crossed_interval(np.ones((3, 4)), np.ones((3, 4)), share=False).reason.startswith("all prompts agree")
    assert crossed_interval(0 * one, 0 * one).reason == "nothing was counted"
    assert crossed_interval(np.ones((3, 4)), np.ones((3, 4))).method == "crossed t"  # of a share there is one
    same = crossed_difference(np.ones((3, 4)), np.ones((3, 4)), np.ones((2, 4)), np.ones((2, 4)), share=False)
    assert (same.p_value, same.method, same.stderr) == (1.0, "none", 0.0)
    assert np.isnan(crossed_difference(one, one, one, 0 * one).value)


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"dim": -1}, r"dim: expected the dimensions of the repeats before that of the prompts, such as"),
        ({"dim": (0, 2)}, "at least two repeats, since they are a level of their own, got 1"),
        ({"dim": (1, 2), "interval": "bootstrap"}, "interval: expected 'auto', since repeats='random'"),
        ({"dim": (1, 2), "metrics": {"exact_match": Quantile(0.5)}}, "exact_match_p50: expected a ratio of sums"),
        ({"dim": (1, 2), "repeats": "nested"}, "repeats: expected 'pooled' or 'random', got 'nested'"),
    ],
)
def test_what_is_no_level_of_repeats_is_an_error(arguments: dict[str, Any], error: str) -> None:
    scores = ExactMatchScoreData(torch.ones(1, 3, 4), batch_size=[1, 3, 4])
    with pytest.raises(ValueError, match=error):
        scores.aggregate(**{"repeats": "random", **arguments})
