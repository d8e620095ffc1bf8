"""The prompts that two runs score differently."""

from __future__ import annotations

import pytest
import torch

from tensorclass import field
from tensorclass.scores import (
    ExactMatchScoreData,
    IFEvalScoreData,
    Mean,
    MultipleChoiceScoreData,
    ScoreData,
    compare,
    metric,
    ragged,
)
from tensorclass.scores.changed_prompts import ChangedPrompt, changed_prompts, prompt_figures


def exact_match(values: list[float], ids: list[int] | None = None) -> ExactMatchScoreData:
    return ExactMatchScoreData(
        torch.tensor(values), prompt_id=None if ids is None else torch.tensor(ids), batch_size=[len(values)]
    )


def test_prompts_are_paired_by_id_and_rows_are_those_of_each_run() -> None:
    a, b = exact_match([1, 0, 0], [7, 8, 9]), exact_match([1, 1, 0], [9, 7, 8])
    assert list(changed_prompts(a, b, "exact_match")) == [ChangedPrompt(2, 0, 0.0, 1.0)]


def test_the_numbers_are_those_of_mcnemars_test() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (exact_match(torch.rand(200, generator=generator).round().tolist()) for _ in range(2))
    found, tested = changed_prompts(a, b, "exact_match"), compare(a, b)["exact_match"]
    assert tested.only_a is not None
    assert tested.only_b is not None
    assert (found.falls, found.rises) == (int(tested.only_a), int(tested.only_b))
    assert len(found) == found.falls + found.rises
    assert found.compared == 200


def test_repeats_of_a_prompt_are_one_prompt_at_its_first_row() -> None:
    a, b = exact_match([0, 0, 1, 1], [5, 4, 5, 4]), exact_match([1, 1, 0, 1], [4, 5, 5, 5])
    # 5: 1/2 beside 2/3; 4: 1/2 beside 1
    found = list(changed_prompts(a, b, "exact_match"))
    assert [(one.row_a, one.row_b) for one in found] == [(1, 0), (0, 1)]
    assert [(one.a, one.b) for one in found] == [(0.5, 1.0), (0.5, pytest.approx(2 / 3))]


def test_prompts_that_one_run_does_not_score_are_not_compared() -> None:
    nan = float("nan")
    found = changed_prompts(exact_match([1, nan, 0]), exact_match([0, 1, nan]), "exact_match")
    assert found.compared == 1
    assert [one.row_a for one in found] == [0]


def test_the_largest_differences_come_first() -> None:
    a = IFEvalScoreData(None, ragged([[False] * 4, [True, True], [False]]), None, None, batch_size=[3])
    b = IFEvalScoreData(None, ragged([[True] + [False] * 3, [True, False], [True]]), None, None, batch_size=[3])
    assert [one.row_a for one in changed_prompts(a, b, "inst_level_strict_acc")] == [2, 1, 0]


def test_figures_of_other_units_have_their_own_values() -> None:
    class Timed(ScoreData):
        latency: torch.Tensor | None = field(default=None, metadata=metric(Mean(unit="ms")))

    a, b = (Timed(torch.tensor(values), batch_size=[2]) for values in ([10.0, 20.0], [10.0, 35.0]))
    found = changed_prompts(a, b, "latency")
    assert (found.unit, found.rises, found.falls) == ("ms", 1, 0)
    assert next(iter(found)).b == 35.0


def test_a_figure_that_a_run_lacks_is_named_with_those_it_has() -> None:
    with pytest.raises(ValueError, match=r"a: expected the figure 'f1', got exact_match"):
        changed_prompts(exact_match([1]), exact_match([0]), "f1")


def test_the_default_figure_is_the_first_that_scores_prompts_in_both_runs() -> None:
    a = MultipleChoiceScoreData(acc=torch.tensor([1.0, 0]), acc_norm=torch.tensor([0.0, 0]), batch_size=[2])
    b = MultipleChoiceScoreData(acc_norm=torch.tensor([1.0, 0]), batch_size=[2])
    assert prompt_figures(a, b) == ["acc_norm"]
    assert changed_prompts(a, b).figure == "acc_norm"
    with pytest.raises(ValueError, match=r"a mean over prompts in both runs, got acc, acc_norm and exact_match"):
        changed_prompts(a, exact_match([1, 0]))
