from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import field
from tensorclass.scores import (
    ExactMatchScoreData,
    IFEvalScoreData,
    Mean,
    Metric,
    MultipleChoiceScoreData,
    PassAtK,
    PassAtKScoreData,
    PreferenceScoreData,
    Ratio,
    ScoreData,
    Tally,
    codes,
    metric,
    ragged,
)
from tensorclass.scores.intervals import share_interval
from tensorclass.scores.score_arrays import RecordRows

verdict_lists = st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=25)


def ifeval(rows: list[list[bool]], types: list[list[int]] | None = None, names: Any = None) -> IFEvalScoreData:
    padding = [] if types is None else [[*row, -1, -1, -1][:3] for row in types]
    return IFEvalScoreData(
        torch.tensor([all(row) for row in rows]),
        ragged(rows, width=3),
        None,
        None,
        instruction_id=None if types is None else torch.tensor(padding),
        instruction_types=names,
        batch_size=[len(rows)],
    )


@given(verdict_lists)
def test_instructions_are_pooled_and_padding_never_counts(rows: list[list[bool]]) -> None:
    report = ifeval(rows).aggregate(resamples=20)
    pooled = [verdict for row in rows for verdict in row]
    one = report["inst_level_strict_acc"]
    assert one.value.item() == pytest.approx(np.mean(pooled))
    assert (one.count.item(), one.prompts.item()) == (len(pooled), len(rows))
    assert report["prompt_level_strict_acc"].value.item() == pytest.approx(np.mean([all(row) for row in rows]))


def test_a_field_that_is_none_has_no_figure() -> None:
    assert list(ifeval([[True]]).aggregate()) == ["prompt_level_strict_acc", "inst_level_strict_acc"]


def test_a_bool_tensor_has_no_padding() -> None:
    scores = IFEvalScoreData(None, torch.tensor([[True, False], [True, True]]), None, None, batch_size=[2])
    assert scores.aggregate()["inst_level_strict_acc"].count.item() == 4


def test_nan_at_the_prompt_level_is_not_counted() -> None:
    scores = ExactMatchScoreData(torch.tensor([1.0, float("nan"), 0.0]), batch_size=[3])
    one = scores.aggregate()["exact_match"]
    assert (one.value.item(), one.count.item(), one.prompts.item()) == (0.5, 2.0, 2)


def test_shares_have_the_adjusted_interval_and_a_bootstrap_where_it_is_asked_for() -> None:
    report = ifeval([[True, False], [True], [True, True, True], [False]]).aggregate()
    low, high = share_interval(np.array([0.0, 1.0, 1.0, 0.0]), np.ones(4))
    assert report["prompt_level_strict_acc"].low.item() == pytest.approx(float(low))
    assert report["prompt_level_strict_acc"].high.item() == pytest.approx(float(high))
    assert {one.interval for one in report.values()} == {"adjusted t"}
    assert ifeval([[True], [False]]).aggregate(interval="bootstrap")["prompt_level_strict_acc"].interval == "bootstrap"


def test_a_confidence_level_widens_the_interval() -> None:
    scores = ifeval([[True, False], [True], [False, False, True], [True, True]] * 5)
    narrow, wide = (scores.aggregate(confidence=level)["inst_level_strict_acc"] for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_nothing_to_count_gives_no_figure_but_a_place_for_it() -> None:
    one = ExactMatchScoreData(torch.zeros(0), batch_size=[0]).aggregate()["exact_match"]
    assert one.value.isnan()
    assert one.low.isnan()
    assert (one.count.item(), one.interval) == (0.0, "none")


@given(verdict_lists, st.data())
def test_groups_count_each_instruction_with_its_type(rows: list[list[bool]], data: st.DataObject) -> None:
    types = [[data.draw(st.integers(0, 3)) for _ in row] for row in rows]
    report = ifeval(rows, types, ("a", "b", "c", "d")).aggregate(resamples=10)
    found = report.groups["inst_level_strict_acc"]
    both = zip(rows, types, strict=True)
    pairs = [("abcd"[kind], verdict) for row, own in both for verdict, kind in zip(row, own, strict=True)]
    assert list(found) == sorted({name for name, _ in pairs})
    for name, one in found.items():
        own = [verdict for kind, verdict in pairs if kind == name]
        holders = sum(name in ["abcd"[kind] for kind in kinds] for kinds in types)
        assert one.value.item() == pytest.approx(np.mean(own))
        assert (one.count.item(), one.prompts.item()) == (len(own), holders)


def test_groups_survive_vocabularies_that_differ_from_record_to_record() -> None:
    first = ifeval([[True], [False, True]], [[0], [1, 0]], ("a", "b"))
    second = ifeval([[True], [False, False]], [[0], [0, 1]], ("b", "c"))
    found = torch.cat([first, second]).aggregate().groups["inst_level_strict_acc"]
    assert {name: (one.value.item(), one.count.item()) for name, one in found.items()} == {
        "a": (1.0, 2.0),
        "b": (pytest.approx(1 / 3), 3.0),
        "c": (0.0, 1.0),
    }
    stacked = torch.stack([first, second]).aggregate().groups["inst_level_strict_acc"]
    assert stacked["a"].count.tolist() == [2.0, 0.0]
    assert stacked["b"].value.tolist() == [0.0, 0.5]


def test_groups_are_there_without_names() -> None:
    found = ifeval([[True], [False, True]], [[4], [1, 4]]).aggregate().groups["inst_level_strict_acc"]
    assert {name: one.value.item() for name, one in found.items()} == {"1": 0.0, "4": 1.0}


def test_a_group_may_hold_for_a_whole_prompt() -> None:
    class SubjectScoreData(ScoreData):
        acc: Tensor | None = field(metadata=metric(Mean(by="subject_id")))
        subject_id: Tensor | None = field(default=None, kw_only=True, metadata=codes("subjects"))
        subjects: tuple[str, ...] | None = field(default=None, kw_only=True)

    acc = ragged([[1, 0], [1], [0, 0, 0]])
    scores = SubjectScoreData(acc, subject_id=torch.tensor([1, 1, 0]), subjects=("law", "art"), batch_size=[3])
    found = scores.aggregate().groups["acc"]
    assert found["art"].value.item() == pytest.approx(2 / 3)
    assert found["law"].count.item() == 3


def test_groups_of_another_shape_are_an_error() -> None:
    scores = IFEvalScoreData(
        None, ragged([[1, 0]]), None, None, instruction_id=torch.zeros(1, 3, dtype=torch.long), batch_size=[1]
    )
    with pytest.raises(ValueError, match=r"instruction_id: expected shape \[1, 2\]"):
        scores.aggregate()


def test_leading_batch_dimensions_stay() -> None:
    first, second = ifeval([[True], [False, True]]), ifeval([[False], [False, False]])
    report = torch.stack([first, second]).aggregate()
    assert report.batch_size == (2,)
    one = report["inst_level_strict_acc"]
    assert one.batch_size == (2,)
    alone = [scores.aggregate()["inst_level_strict_acc"] for scores in (first, second)]
    for name in ("value", "low", "high", "count", "prompts"):
        assert getattr(one, name).tolist() == [getattr(each, name).item() for each in alone]


def test_repeats_of_a_prompt_are_pooled_within_it() -> None:
    first, second = ifeval([[True], [False, True]]), ifeval([[False], [False, False]])
    pooled = torch.stack([first, second]).aggregate(dim=(0, 1))["inst_level_strict_acc"]
    side_by_side = ifeval([[True, False], [False, True, False, False]][:0] or [[True, False]])
    assert pooled.value.item() == pytest.approx(2 / 6)
    assert (pooled.count.item(), pooled.prompts.item()) == (6.0, 2)
    assert side_by_side.aggregate()["inst_level_strict_acc"].prompts.item() == 1


def test_any_batch_dimension_may_hold_the_prompts() -> None:
    stacked = torch.stack([ifeval([[True], [False]]), ifeval([[False], [False]])], dim=1)
    assert stacked.aggregate(dim=0)["prompt_level_strict_acc"].value.tolist() == [0.5, 0.0]
    assert stacked.aggregate(dim=-2)["prompt_level_strict_acc"].value.tolist() == [0.5, 0.0]


@pytest.mark.parametrize("dim", [1, -2, (), (0, 0), (0, -1)])
def test_a_dimension_that_is_not_there_is_an_error(dim: Any) -> None:
    with pytest.raises(ValueError, match="dim: expected"):
        ifeval([[True]]).aggregate(dim=dim)


def test_a_record_without_batch_dimension_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"score\[i:i \+ 1\]"):
        ifeval([[True], [False]])[0].aggregate()


def test_an_infinite_score_is_an_error_that_names_field_and_position() -> None:
    scores = ExactMatchScoreData(torch.tensor([0.0, float("inf")]), batch_size=[2])
    with pytest.raises(ValueError, match=r"exact_match: expected finite numbers.*\[1\]"):
        scores.aggregate()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8])
def test_every_real_dtype_aggregates(dtype: torch.dtype) -> None:
    scores = ExactMatchScoreData(torch.tensor([1, 0, 1, 1]).to(dtype), batch_size=[4])
    assert scores.aggregate()["exact_match"].value.item() == 0.75


def test_scores_that_require_grad_aggregate() -> None:
    scores = ExactMatchScoreData(torch.ones(3, requires_grad=True), batch_size=[3])
    assert scores.aggregate()["exact_match"].value.item() == 1.0


def test_multiple_choice_and_exact_match_are_means() -> None:
    report = MultipleChoiceScoreData(
        torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.5, 1.0, 0.0]), batch_size=[3]
    ).aggregate()
    assert report["acc"].value.item() == pytest.approx(1 / 3)
    assert report["acc_norm"].value.item() == pytest.approx(0.5)
    assert [report[name].interval for name in ("acc", "acc_norm")] == ["adjusted t", "adjusted t"]


def test_pass_at_k_counts_the_problems_with_enough_samples() -> None:
    scores = PassAtKScoreData(torch.tensor([10, 5, 1]), torch.tensor([5, 0, 1]), batch_size=[3])
    report = scores.aggregate()
    assert list(report) == ["pass@1", "pass@5", "pass@10"]
    assert report["pass@1"].value.item() == pytest.approx((0.5 + 0 + 1) / 3)
    assert report["pass@5"].value.item() == pytest.approx((1 - 1 / 252 + 0) / 2)
    assert report["pass@10"].prompts.item() == 1
    other = scores.aggregate(metrics={"num_correct": PassAtK("num_samples", ks=(2,))})
    assert list(other) == ["pass@2"]


def test_pass_at_k_without_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="num_samples: expected"):
        PassAtKScoreData(None, torch.tensor([1]), batch_size=[1]).aggregate()


def test_preferences_are_shares_of_judgements() -> None:
    wins = torch.tensor([[1.0, 0.0, 1.0], [0.0, float("nan"), 0.0]])
    ties = torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    losses = torch.tensor([[0.0, 0.0, 0.0], [1.0, float("nan"), 1.0]])
    report = PreferenceScoreData(wins, ties, losses, batch_size=[2]).aggregate()
    figures = {name: (one.value.item(), one.count.item()) for name, one in report.items()}
    assert figures == {
        "win_rate": (0.4, 5.0),
        "preference": (0.5, 5.0),
        "tie_rate": (0.2, 5.0),
        "loss_rate": (0.4, 5.0),
    }
    without_ties = PreferenceScoreData(wins, None, losses, batch_size=[2]).aggregate()
    assert list(without_ties) == ["win_rate", "preference", "loss_rate"]
    assert without_ties["win_rate"].value.item() == 0.5


def test_a_family_is_its_declarations() -> None:
    class RetrievalScoreData(ScoreData):
        """Plain fields are means; a field may have several metrics, a unit, or none."""

        recall: Tensor | None
        true_positive: Tensor | None = field(
            default=None,
            metadata=metric(
                Ratio("precision", {"true_positive": 1}, {"true_positive": 1, "false_positive": 1}),
                Mean(name="hits", unit="hits"),
            ),
        )
        false_positive: Tensor | None = field(default=None, metadata=metric())
        note: str = ""
        version: ClassVar[int] = 1

    scores = RetrievalScoreData(
        torch.tensor([1.0, 0.5]), torch.tensor([3, 1]), torch.tensor([1, 3]), note="x", batch_size=[2]
    )
    report = scores.aggregate()
    assert {name: (one.value.item(), one.unit) for name, one in report.items()} == {
        "recall": (0.75, "%"),
        "precision": (0.5, "%"),
        "hits": (2.0, "hits"),
    }
    assert report["hits"].interval == "t"


def test_a_family_inherits_metrics_and_adds_its_own() -> None:
    class StyledScoreData(IFEvalScoreData):
        style: Tensor | None = field(default=None, kw_only=True)

    scores = StyledScoreData(torch.tensor([True]), None, None, None, style=torch.tensor([0.5]), batch_size=[1])
    assert list(scores.aggregate()) == ["prompt_level_strict_acc", "style"]


def test_a_metric_of_ones_own_gives_its_tallies() -> None:
    @dataclass(frozen=True)
    class Above(Metric):
        threshold: float

        def tallies(self, field: str, rows: Any) -> list[Tally]:
            values = rows.numbers(field)
            if values is None:
                return []
            return [Tally(f"above_{self.threshold:g}", (values > self.threshold).astype(float), np.ones(len(values)))]

    class QualityScoreData(ScoreData):
        quality: Tensor | None = field(metadata=metric(Above(0.5), Mean()))

    report = QualityScoreData(torch.tensor([0.2, 0.6, 0.9, 0.5]), batch_size=[4]).aggregate()
    assert report["above_0.5"].value.item() == 0.5
    assert report["quality"].value.item() == pytest.approx(0.55)


def test_two_metrics_of_one_name_are_an_error() -> None:
    class TwiceScoreData(ScoreData):
        a: Tensor | None = field(metadata=metric(Mean(name="x")))
        b: Tensor | None = field(metadata=metric(Mean(name="x")))

    with pytest.raises(ValueError, match="two metrics are named 'x'"):
        TwiceScoreData(torch.ones(2), torch.ones(2), batch_size=[2]).aggregate()


def test_metrics_for_a_field_that_is_not_there_are_an_error() -> None:
    with pytest.raises(ValueError, match="expected fields of IFEvalScoreData, got 'accuracy'"):
        ifeval([[True]]).aggregate(metrics={"accuracy": Mean()})


def test_what_is_no_metric_is_an_error() -> None:
    with pytest.raises(TypeError, match="expected metrics, such as Mean\\(\\), got 'mean'"):
        metric("mean")  # type: ignore[arg-type]
    for wrong in ("mean", ["mean"]):
        with pytest.raises(TypeError, match="expected metrics, such as Mean"):
            ifeval([[True]]).aggregate(metrics={"prompt_level_strict_acc": wrong})  # type: ignore[dict-item]


def test_a_metric_that_reads_a_field_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ValueError, match="nothing: expected a field of IFEvalScoreData"):
        ifeval([[True]]).aggregate(metrics={"prompt_level_strict_acc": Ratio("x", {"nothing": 1}, {"prompt_id": 1})})


def test_a_figure_that_is_not_there_is_an_error_that_lists_those_that_are() -> None:
    with pytest.raises(KeyError, match="prompt_level_strict_acc, inst_level_strict_acc"):
        ifeval([[True]]).aggregate()["accuracy"]


def test_a_report_prints_what_it_holds() -> None:
    text = str(torch.stack([ifeval([[True], [False, True]])] * 2).aggregate())
    assert "run [1]" in text
    assert "inst_level_strict_acc    66.67 %" in text
    assert "3 in 2 prompts" in text


def test_a_report_as_plain_values_holds_no_nan() -> None:
    import json

    report = ifeval([[True, False]], [[0, 1]], ("a", "b")).aggregate(
        metrics={"prompt_level_strict_acc": Mean(unit="x")}
    )
    plain = report.to_dict()
    json.dumps(plain, allow_nan=False)
    figures = {one["name"]: one for one in plain["metrics"]}
    one = figures["prompt_level_strict_acc"]
    assert (one["low"], one["reason"]) == (None, "a single prompt has no variance to measure")
    assert (figures["inst_level_strict_acc"]["count"], figures["inst_level_strict_acc"]["reason"]) == (2, None)
    assert [one["name"] for one in plain["groups"]["inst_level_strict_acc"]] == ["a", "b"]


def test_fields_of_families_are_none_by_default() -> None:
    scores = IFEvalScoreData(prompt_level_strict_acc=torch.tensor([True, False]), batch_size=[2])
    assert list(scores.aggregate()) == ["prompt_level_strict_acc"]
    assert list(PreferenceScoreData(losses=torch.ones(2), batch_size=[2]).aggregate()) == ["loss_rate"]
    assert list(ExactMatchScoreData(batch_size=[2]).aggregate()) == []


def test_categories_pool_the_values_of_their_groups() -> None:
    scores = IFEvalScoreData(
        inst_level_strict_acc=ragged([[1, 0, 1], [0]]),
        instruction_id=torch.tensor([[0, 1, 2], [1, -1, -1]]),
        instruction_types=("keywords:existence", "keywords:frequency", "custom"),
        batch_size=[2],
    )
    groups = scores.aggregate().groups["inst_level_strict_acc"]
    assert {name: (one.value.item(), one.count.item(), one.prompts.item()) for name, one in groups.items()} == {
        "custom": (1.0, 1.0, 1),
        "keywords": (pytest.approx(1 / 3), 3.0, 2),
        "keywords:existence": (1.0, 1.0, 1),
        "keywords:frequency": (0.0, 2.0, 2),
    }


def test_what_was_read_of_a_record_goes_with_the_call() -> None:
    record = ExactMatchScoreData(exact_match=torch.tensor([True, False, True]), batch_size=[3])
    gc.collect()
    gc.disable()
    try:
        rows = RecordRows(record, -1)
        assert rows.numbers("exact_match") is rows.numbers("exact_match")
        gone = weakref.ref(rows)
        del rows
        assert gone() is None  # not only when the collector runs, which does not count numpy's memory
    finally:
        gc.enable()
