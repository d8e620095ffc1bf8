from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
import torch
from numpy.typing import NDArray

from tensorclass.scores import AlpacaEvalScoreData, compare, instruction_difficulties, length_controlled_win_rate
from tensorclass.scores.length_control import weighted_length_control

Numbers = NDArray[np.float64]


def logistic(values: Numbers) -> Numbers:
    return np.asarray(1 / (1 + np.exp(-values)))


def drawn(theta: float, phi: float, gamma: Numbers, seed: int) -> tuple[Numbers, Numbers]:
    """Preferences and length differences drawn from the model of the paper."""
    generator = np.random.default_rng(seed)
    longer = generator.normal(200, 400, len(gamma))
    chance = logistic(theta + phi * np.tanh(longer / longer.std()) + gamma)
    return (generator.random(len(gamma)) < chance).astype(float), longer


def test_the_fit_is_that_of_statsmodels_as_the_penalty_vanishes() -> None:
    won, longer = drawn(0.5, 1.0, np.zeros(500), seed=1)
    fitted = sm.Logit(won, sm.add_constant(np.tanh(longer / longer.std()))).fit(disp=False)
    assert length_controlled_win_rate(won, longer, penalty=1e-9) == pytest.approx(
        float(logistic(fitted.params[0])), abs=1e-7
    )


def test_the_rate_of_equal_lengths_is_recovered() -> None:
    won, longer = drawn(0.2, 1.5, np.zeros(20_000), seed=2)
    assert won.mean() > 0.63
    assert length_controlled_win_rate(won, longer) == pytest.approx(logistic(np.array(0.2)), abs=0.015)


def test_a_weight_of_two_counts_a_prompt_twice() -> None:
    won, longer = drawn(0.5, 1.0, np.zeros(60), seed=3)
    gamma = np.random.default_rng(4).normal(size=60)
    counts = np.random.default_rng(5).integers(0, 3, (4, 60))
    found = weighted_length_control([won, longer, gamma], counts.astype(float), penalty=1.0)
    for own, rate in zip(counts, found, strict=True):
        rows = np.repeat(np.arange(60), own)
        assert rate == pytest.approx(length_controlled_win_rate(won[rows], longer[rows], gamma[rows]), abs=1e-8)


def test_the_standard_error_is_the_spread_of_samples_of_prompts() -> None:
    rates = [length_controlled_win_rate(*drawn(0.5, 1.0, np.zeros(200), seed=seed)) for seed in range(300)]
    won, longer = drawn(0.5, 1.0, np.zeros(200), seed=3)
    scores = AlpacaEvalScoreData(torch.as_tensor(won), torch.as_tensor(longer), batch_size=[200])
    figure = scores.aggregate()["length_adjusted_win_rate"]
    assert figure.stderr.item() == pytest.approx(np.std(rates), rel=0.15)
    assert figure.low < figure.value < figure.high


def test_runs_are_compared_on_the_prompts_that_both_judge() -> None:
    won, longer = map(torch.as_tensor, drawn(1.5, 1.0, np.zeros(100), seed=8))
    ids = torch.arange(100)
    a = AlpacaEvalScoreData(won[:80], longer[:80], prompt_id=ids[:80], batch_size=[80])
    b = AlpacaEvalScoreData(1 - won[20:], longer[20:] + 9, prompt_id=ids[20:], batch_size=[80])
    found = compare(a, b)["length_adjusted_win_rate"]
    assert found.a.item() == pytest.approx(length_controlled_win_rate(won[20:80], longer[20:80]))
    assert found.prompts.item() == 60
    assert found.p_value.item() < 0.05


def test_difficulties_enter_the_regression() -> None:
    won, longer = drawn(0.5, 1.0, np.zeros(100), seed=9)
    gamma = np.linspace(-2, 2, 100)
    scores = AlpacaEvalScoreData(*map(torch.as_tensor, (won, longer, gamma)), batch_size=[100])
    figure = scores.aggregate()["length_controlled_win_rate"]
    assert figure.value.item() == pytest.approx(length_controlled_win_rate(won, longer, gamma))


def test_swapping_model_and_baseline_swaps_the_rate() -> None:
    won, longer = drawn(0.5, 1.0, np.zeros(200), seed=5)
    assert length_controlled_win_rate(1 - won, -longer) == pytest.approx(1 - length_controlled_win_rate(won, longer))


def test_answers_of_equal_length_leave_the_win_rate_as_it_is() -> None:
    assert length_controlled_win_rate([1, 0, 1, 1], [0, 0, 0, 0]) == pytest.approx(0.75)


@pytest.mark.parametrize("won", [0.0, 1.0])
def test_a_model_that_wins_always_or_never_has_a_rate(won: float) -> None:
    assert length_controlled_win_rate([won] * 5, [1, 2, -3, 4, 0]) == pytest.approx(won, abs=1e-6)


def test_prompts_without_judgement_do_not_count() -> None:
    won, longer = drawn(0.5, 1.0, np.zeros(50), seed=6)
    more = np.append(won, np.nan), np.append(longer, 1e6)
    assert length_controlled_win_rate(*more) == length_controlled_win_rate(won, longer)
    assert np.isnan(length_controlled_win_rate([np.nan], [1.0]))


def test_difficulties_are_recovered_from_many_models() -> None:
    generator = np.random.default_rng(7)
    gamma = generator.normal(0, 1.5, 300)
    drawn_of = [drawn(theta, 1.0, gamma, seed) for seed, theta in enumerate(generator.normal(0.5, 1.0, 25), start=10)]
    found = instruction_difficulties([won for won, _ in drawn_of], [longer for _, longer in drawn_of])
    assert np.corrcoef(found, gamma)[0, 1] > 0.9


def test_a_prompt_without_judgements_has_no_difficulty() -> None:
    won = [[1.0, 0.0, np.nan], [1.0, 1.0, np.nan]]
    assert instruction_difficulties(won, [[1.0, 2.0, 3.0], [3.0, 1.0, 2.0]])[2] == 0.0


def test_bad_arguments_are_errors() -> None:
    with pytest.raises(ValueError, match=r"length_differences: expected the shape of preferences, \[2\], got \[3\]"):
        length_controlled_win_rate([1, 0], [1, 2, 3])
    with pytest.raises(ValueError, match="penalty: expected a number above 0, got 0"):
        length_controlled_win_rate([1, 0], [1, 2], penalty=0)
    with pytest.raises(ValueError, match=r"expected \[models, prompts\] with at least two models, got shape \[1, 2\]"):
        instruction_difficulties([[1, 0]], [[1, 2]])
