from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
import torch

from tensorclass.scores import BattleScoreData, BradleyTerry, compare
from tensorclass.scores.bradley_terry import strengths, wins_of

NAMES = ("alpha", "beta", "gamma", "delta")


def battles(seed: int, rows: int = 300, ties: float = 0.0, **more: Any) -> BattleScoreData:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, rows)
    second = (first + rng.integers(1, 4, rows)) % 4
    strength = np.array([0.8, 0.3, -0.2, -0.9])
    outcome = (rng.random(rows) < 1 / (1 + np.exp(strength[second] - strength[first]))) * 1.0
    outcome[rng.random(rows) < ties] = 0.5
    columns = (torch.as_tensor(first), torch.as_tensor(second), torch.as_tensor(outcome))
    return BattleScoreData(*columns, models=NAMES, batch_size=[rows], **more)


def test_ratings_are_those_of_a_logistic_regression() -> None:
    scores = battles(0)
    design = np.zeros((300, 4))
    design[np.arange(300), scores.model_a] += 1
    design[np.arange(300), scores.model_b] -= 1
    fit = sm.Logit(scores.outcome.numpy(), design[:, 1:]).fit(disp=False)  # the first model has strength 0
    expected = np.append(0, fit.params)
    expected = 1000 + 400 / np.log(10) * (expected - expected.mean())
    found = scores.aggregate().groups["elo"]
    assert [found[name].value.item() for name in NAMES] == pytest.approx(expected.tolist(), abs=1e-6)
    # The standard error of a difference of two strengths, against that of their ratings.
    centred = np.eye(4) - 0.25
    covariance = centred[:, 1:] @ fit.cov_params() @ centred[:, 1:].T
    errors = 400 / np.log(10) * np.sqrt(np.diag(covariance))
    assert [found[name].stderr.item() for name in NAMES] == pytest.approx(errors.tolist(), rel=0.12)
    assert all(one.low < one.value < one.high for one in found.values())


def test_a_tie_is_half_a_win_of_each() -> None:
    tied = wins_of(np.zeros(2), np.ones(2), np.array([0.5, 0.5]), np.ones((1, 2)), np.arange(2.0))
    once = wins_of(np.zeros(2), np.ones(2), np.array([1.0, 0.0]), np.ones((1, 2)), np.arange(2.0))
    np.testing.assert_array_equal(tied, once)
    assert battles(1, ties=0.3).aggregate().groups["elo"]["alpha"].value > 1000


def test_a_model_that_never_lost_has_no_rating() -> None:
    wins = np.array([[0.0, 3, 2], [0, 0, 1], [0, 1, 0]])
    assert np.isnan(strengths(wins)).all()
    assert not np.isnan(strengths(wins + np.eye(3)[::-1] * [[1], [0], [1]])).any()
    scores = BattleScoreData(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.ones(2), models=NAMES, batch_size=[2])
    found = scores.aggregate().groups["elo"]
    assert list(found) == ["alpha", "beta"]
    assert found["alpha"].reason == "the figure is not defined for these rows"


def test_many_resamples_are_rated_at_once() -> None:
    rng = np.random.default_rng(2)
    wins = rng.integers(1, 9, (5, 4, 4)) * (1.0 - np.eye(4))
    every = strengths(wins)
    np.testing.assert_allclose(every.sum(-1), 0, atol=1e-9)
    for one, own in zip(wins, every, strict=True):
        np.testing.assert_allclose(strengths(one), own, atol=1e-9)
        chance = 1 / (1 + np.exp(own[None, :] - own[:, None]))
        # At the maximum, expected wins are the observed ones.
        np.testing.assert_allclose(((one + one.T) * chance).sum(1), one.sum(1), atol=1e-8)


def test_win_rates_are_against_the_other_models() -> None:
    rates = battles(3).aggregate(metrics={"model_a": BradleyTerry("model_b", "outcome", name="rate", scale="win_rate")})
    values = [rates.groups["rate"][name].value.item() for name in NAMES]
    assert values == sorted(values, reverse=True)
    assert np.mean(values) == pytest.approx(0.5)


def test_ratings_do_not_depend_on_codes_or_order_and_compare() -> None:
    a = battles(4, 120)
    turned = BattleScoreData(3 - a.model_b, 3 - a.model_a, 1 - a.outcome, models=NAMES[::-1], batch_size=[120])
    expected, found = a.aggregate().groups["elo"], turned.aggregate().groups["elo"]
    for name in NAMES:
        assert found[name].value.item() == pytest.approx(expected[name].value.item())
    assert compare(a, turned).groups["elo"]["beta"].p_value == 1.0


def test_impossible_battles_are_errors() -> None:
    one = torch.tensor([1])
    with pytest.raises(ValueError, match="outcome: expected fractions from 0 to 1"):
        BattleScoreData(0 * one, one, 2.0 * one, models=NAMES, batch_size=[1]).aggregate()
    with pytest.raises(ValueError, match="scale: expected 'elo' or 'win_rate', got 'rank'"):
        BradleyTerry("model_b", "outcome", scale="rank")
