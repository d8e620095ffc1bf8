from __future__ import annotations

import numpy as np
import pytest
import torch
from statsmodels.stats.power import NormalIndPower

from tensorclass.scores import ExactMatchScoreData, PairedDesign, compare, detectable_difference


@pytest.mark.parametrize("power, level", [(0.8, 0.05), (0.9, 0.01), (0.7, 0.1)])
def test_sizes_are_those_of_statsmodels(power: float, level: float) -> None:
    design = PairedDesign(between=0.3)
    one_sample = NormalIndPower(ddof=0)  # ratio 0: one sample of paired differences
    effect = one_sample.solve_power(None, nobs1=400, alpha=level, power=power, ratio=0)
    # statsmodels counts the far tail of the test, too, which matters for a power near the level alone.
    assert design.detectable(400, power=power, level=level) == pytest.approx(effect * np.sqrt(0.3), rel=1e-4)
    needed = one_sample.solve_power(0.04 / np.sqrt(0.3), nobs1=None, alpha=level, power=power, ratio=0)
    assert design.prompts_needed(0.04, power=power, level=level) == pytest.approx(np.ceil(needed), abs=1)


@pytest.mark.parametrize("difference", [0.5, 0.03, -0.011])
@pytest.mark.parametrize("design", [PairedDesign(0.2), PairedDesign(0.1, 0.3), PairedDesign(0.1, 0.3, 1e-6)])
def test_as_many_as_needed_show_the_difference_and_one_less_does_not(design: PairedDesign, difference: float) -> None:
    prompts = design.prompts_needed(difference, repeats=2)
    assert prompts is not None
    assert design.detectable(prompts, repeats=2) <= abs(difference) * (1 + 1e-9)
    assert prompts == 1 or design.detectable(prompts - 1, repeats=2) > abs(difference)
    repeats = design.repeats_needed(difference, prompts=prompts)
    assert repeats is not None
    assert repeats <= 2
    assert design.detectable(prompts, repeats=repeats) <= abs(difference) * (1 + 1e-9)


def test_no_number_of_prompts_makes_up_for_seeds_and_no_number_of_repeats_for_prompts() -> None:
    design = PairedDesign(between=0.2, within=0.1, seeds=0.001)
    assert design.prompts_needed(0.01) is None
    assert design.prompts_needed(0.01, repeats=1000) is not None
    assert design.repeats_needed(0.01, prompts=100) is None
    assert design.repeats_needed(0.01, prompts=100_000) is not None


def test_the_predicted_standard_error_is_that_of_the_comparison() -> None:
    rng = np.random.default_rng(0)
    both = rng.random(2000) < 0.5
    verdicts = [np.where(rng.random(2000) < 0.7, both, rng.random(2000) < 0.5) for _ in range(2)]
    runs = [ExactMatchScoreData(torch.as_tensor(own), batch_size=[2000]) for own in verdicts]
    difference = compare(*runs)["exact_match"]
    assert PairedDesign.of_difference(difference).stderr(2000) == pytest.approx(difference.stderr.item())
    expected = PairedDesign.of_rates(0.5, correlation=0.49).stderr(2000)
    assert difference.stderr.item() == pytest.approx(expected, rel=0.05)
    assert difference.detectable.item() == pytest.approx(detectable_difference(difference.stderr.item()))


@pytest.mark.parametrize(
    "call, error",
    [
        (lambda: PairedDesign(-1.0), "between: expected a variance of at least 0, got -1.0"),
        (lambda: PairedDesign.of_rates(1.5), "rate_a: expected a fraction from 0 to 1, got 1.5"),
        (lambda: PairedDesign.of_rates(0.5, correlation=2), "correlation: expected a number from -1 to 1, got 2"),
        (lambda: PairedDesign(1.0).stderr(0), "prompts: expected at least 1, got 0"),
        (lambda: PairedDesign(1.0).prompts_needed(0.0), "difference: expected a difference other than 0"),
        (lambda: detectable_difference(0.1, power=1.0), "power: expected a fraction above level / 2 = 0.025"),
        (lambda: detectable_difference(0.1, level=0.0), "level: expected a fraction between 0 and 1"),
    ],
)
def test_impossible_arguments_are_errors(call: object, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        call()  # type: ignore[operator]
