"""Metrics that are no ratio of sums, in records: aggregated, compared, by clusters and with repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass import field
from tensorclass.scores import (
    AUROC,
    F1,
    CalibrationScoreData,
    ClassificationScoreData,
    ExactMatchScoreData,
    MacroF1,
    Perplexity,
    PerplexityScoreData,
    Quantile,
    ScoreData,
    Statistic,
    codes,
    compare,
    metric,
)


def classified(seed: int, rows: int = 80, **more: Any) -> ClassificationScoreData:
    target = np.random.default_rng(7).integers(0, 3, rows)
    rng = np.random.default_rng(seed)
    predicted = np.where(rng.random(rows) < 0.6, target, rng.integers(0, 3, rows))
    return ClassificationScoreData(torch.as_tensor(predicted), torch.as_tensor(target), batch_size=[rows], **more)


def test_figures_come_in_the_order_of_the_fields_with_intervals() -> None:
    report = classified(1).aggregate()
    assert list(report) == ["accuracy", "macro_f1", "mcc"]
    assert [one.interval for one in report.values()] == ["adjusted t", "BCa", "BCa"]
    for one in report.values():
        assert one.low < one.value < one.high
        assert 0.03 < one.stderr < 0.1
        assert one.prompts == 80
    # The accuracy and the macro-F1 of three balanced classes vary alike.
    assert report["macro_f1"].stderr.item() == pytest.approx(report["accuracy"].stderr.item(), rel=0.15)


def test_the_same_rows_in_another_order_give_the_same_figures() -> None:
    scores = classified(1, prompt_id=torch.arange(80))
    order = torch.randperm(80, generator=torch.Generator().manual_seed(0))
    assert scores[order].aggregate().to_dict() == scores.aggregate().to_dict()
    other = classified(2, prompt_id=torch.arange(80))
    assert compare(scores[order], other).to_dict() == compare(scores, other).to_dict()


def test_runs_are_compared_prompt_by_prompt() -> None:
    a, b = classified(1), classified(2)
    predicted = torch.where(torch.arange(80) % 2 == 0, b.target, b.predicted)
    better = ClassificationScoreData(predicted, b.target, batch_size=[80])
    found = compare(a, better)["macro_f1"]
    assert found.value.item() == pytest.approx(
        better.aggregate()["macro_f1"].value.item() - a.aggregate()["macro_f1"].value.item()
    )
    assert found.low > 0
    assert found.p_value < 0.05
    assert found.test == "sampled"
    assert found.mcnemar_p is None
    assert found.detectable > found.stderr
    assert compare(a, a)["macro_f1"].p_value == 1.0


def test_repeats_belong_to_their_prompt() -> None:
    scores = classified(1, prompt_id=torch.arange(80))
    alone = scores.aggregate()["macro_f1"]
    for repeated in (torch.cat([scores] * 4).aggregate(), torch.stack([scores] * 4).aggregate(dim=(0, 1))):
        one = repeated["macro_f1"]
        assert one.value.item() == pytest.approx(alone.value.item())
        assert one.stderr.item() == pytest.approx(alone.stderr.item(), rel=0.1)
        assert (one.prompts.item(), one.count.item()) == (80, 320)


def test_clusters_are_drawn_whole() -> None:
    class Grouped(ClassificationScoreData):
        document: Tensor | None = field(default=None, metadata=metric())

    scores = classified(1)
    documents = torch.arange(80) // 8
    grouped = Grouped(scores.predicted, scores.target, documents, batch_size=[80])
    found = grouped.aggregate(cluster="document")["macro_f1"]
    assert (found.clusters.item(), found.prompts.item()) == (10, 80)
    pooled = Grouped(scores.predicted, scores.target, documents, prompt_id=documents, batch_size=[80])
    assert found.stderr.item() == pooled.aggregate()["macro_f1"].stderr.item()
    assert compare(grouped, grouped, cluster="document")["mcc"].clusters.item() == 10


def test_names_are_labels_whatever_their_codes() -> None:
    class Named(ScoreData):
        answer: Tensor | None = field(
            default=None, metadata={**codes("answers"), **metric(F1("gold", positive="yes"), MacroF1("gold"))}
        )
        gold: Tensor | None = field(default=None, metadata=codes("golds"))
        answers: tuple[str, ...] | None = field(default=None, kw_only=True)
        golds: tuple[str, ...] | None = field(default=None, kw_only=True)

    gold = torch.tensor([0, 0, 1, 1, -1])
    a = Named(torch.tensor([0, 1, 1, 1, 0]), gold, answers=("yes", "no"), golds=("yes", "no"), batch_size=[5])
    b = Named(torch.tensor([1, 0, 0, 0, 1]), gold, answers=("no", "yes"), golds=("yes", "no"), batch_size=[5])
    assert a.aggregate().to_dict() == b.aggregate().to_dict()
    assert a.aggregate()["f1"].value.item() == pytest.approx(2 / 3)
    assert a.aggregate()["macro_f1"].count.item() == 4
    assert compare(a, b)["macro_f1"].value.item() == 0.0


def test_a_function_of_the_rows_is_a_metric() -> None:
    def spread(values: np.ndarray, lengths: np.ndarray) -> float:
        return float(np.corrcoef(values, lengths)[0, 1])

    class Own(ScoreData):
        score: Tensor | None = field(
            default=None, metadata=metric(Statistic("correlation", spread, others=("length",), unit=""))
        )
        length: Tensor | None = field(default=None, metadata=metric())

    rng = np.random.default_rng(0)
    length = rng.normal(size=60)
    runs = [
        Own(torch.as_tensor(length * weight + rng.normal(size=60)), torch.as_tensor(length), batch_size=[60])
        for weight in (0.2, 2.0)
    ]
    found = runs[1].aggregate(resamples=300)["correlation"]
    assert found.value.item() == pytest.approx(np.corrcoef(runs[1].score, length)[0, 1])
    assert 0.6 < found.low < found.value < found.high < 1
    assert compare(*runs, resamples=300)["correlation"].p_value < 0.02
    assert torch.stack(runs).aggregate(resamples=50)["correlation"].batch_size == (2,)


def test_missing_values_do_not_count() -> None:
    scores = CalibrationScoreData(
        torch.tensor([0.9, float("nan"), 0.2, 0.6]), torch.tensor([1.0, 1.0, 0.0, float("nan")]), batch_size=[4]
    )
    report = scores.aggregate()
    assert {name: one.count.item() for name, one in report.items()} == {"auroc": 2, "ece": 2, "accuracy": 3}
    assert list(CalibrationScoreData(batch_size=[4]).aggregate()) == []
    with pytest.raises(ValueError, match="correct: expected values for auroc, got None"):
        CalibrationScoreData(torch.ones(2), batch_size=[2]).aggregate()


def test_values_of_a_prompt_are_rows() -> None:
    scores = ExactMatchScoreData(torch.tensor([[0.1, 0.2], [0.3, float("nan")]]), batch_size=[2])
    found = scores.aggregate(metrics={"exact_match": Quantile(0.5)})["exact_match_p50"]
    assert found.value.item() == pytest.approx(0.2)
    assert (found.count.item(), found.prompts.item()) == (3, 2)


def test_perplexities_pool_their_units() -> None:
    generator = torch.Generator().manual_seed(0)
    units = torch.randint(5, 50, (40,), generator=generator)
    scores = PerplexityScoreData(-2.5 * units + torch.randn(40, generator=generator), units, batch_size=[40])
    found = scores.aggregate()["perplexity"]
    assert found.value.item() == pytest.approx(float(torch.exp(-scores.log_likelihood.sum() / units.sum())), rel=1e-5)
    assert found.low < found.value < found.high


@pytest.mark.parametrize(
    "scores, error",
    [
        (CalibrationScoreData(torch.tensor([90.0]), torch.ones(1), batch_size=[1]), "confidence: expected fractions"),
        (
            PerplexityScoreData(torch.ones(1), torch.tensor([-1]), batch_size=[1]),
            "units: expected counts of at least 0",
        ),
        (
            ClassificationScoreData(torch.ones(1), batch_size=[1]),
            "target: expected a class for each value of predicted",
        ),
    ],
)
def test_impossible_rows_are_errors(scores: ScoreData, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        scores.aggregate()


def test_metrics_say_what_is_wrong_with_them() -> None:
    with pytest.raises(ValueError, match="share: expected a fraction from 0 to 1"):
        Quantile(50)
    scores = CalibrationScoreData(torch.ones(2), torch.ones(2), batch_size=[2])
    with pytest.raises(ValueError, match="two metrics are named 'auroc'"):
        scores.aggregate(metrics={"confidence": [AUROC("correct"), AUROC("correct")]})
    wide = PerplexityScoreData(-torch.ones(2), torch.ones(2, 3), batch_size=[2])
    with pytest.raises(ValueError, match=r"units: expected shape \[2\] or its leading dimensions"):
        wide.aggregate(metrics={"log_likelihood": Perplexity("units")})


def test_a_figure_that_is_not_defined_says_so() -> None:
    scores = CalibrationScoreData(torch.tensor([0.3, 0.4]), torch.ones(2), batch_size=[2])
    found = scores.aggregate()["auroc"]
    assert found.value.isnan()
    assert found.reason == "the figure is not defined for these rows"


def test_a_far_quantile_of_few_values_has_no_interval() -> None:
    for count, there in ((28, False), (29, True)):
        scores = ExactMatchScoreData(torch.arange(count) / count, batch_size=[count])
        found = scores.aggregate(metrics={"exact_match": Quantile(0.9)})["exact_match_p90"]
        assert found.value.item() == pytest.approx(0.9 * (count - 1) / count, rel=1e-6)
        assert found.stderr > 0
        assert bool(found.low == found.low) is there
    assert Quantile(1.0).fewest_prompts(0.95) > 10**9
    few = ExactMatchScoreData(torch.arange(10) / 10, batch_size=[10])
    found = few.aggregate(metrics={"exact_match": Quantile(0.9)})["exact_match_p90"]
    assert found.reason == "an interval at this level needs at least 29 prompts"
