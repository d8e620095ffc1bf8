"""Clusters: prompts that are not independent of each other, such as questions on the same passage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
import torch
from torch import Tensor

from tensorclass import field
from tensorclass.scores import ExactMatchScoreData, Mean, ScoreData, Tally, codes, compare, metric


class PassageScoreData(ScoreData):
    acc: Tensor | None = None
    passage: Tensor | None = field(default=None, kw_only=True, metadata=metric())


class NamedScoreData(ScoreData):
    acc: Tensor | None = field(default=None, metadata=metric(Mean(cluster="passage_id")))
    passage_id: Tensor | None = field(default=None, kw_only=True, metadata=codes("passages"))
    passages: tuple[str, ...] | None = field(default=None, kw_only=True)


def run(seed: int, prompts: int = 60, **more: Any) -> PassageScoreData:
    """Scores in which a passage makes its questions easy or hard, for every run alike."""
    passage = np.random.default_rng(99).integers(0, 12, prompts)
    level = np.random.default_rng(98).random(12)
    values = np.random.default_rng(seed).random(prompts) < level[passage]
    return PassageScoreData(torch.as_tensor(values), passage=torch.as_tensor(passage), batch_size=[prompts], **more)


def test_standard_errors_over_clusters_are_those_of_statsmodels() -> None:
    a, b = run(1), run(2)
    groups = a.passage.numpy()

    def fitted(values: np.ndarray) -> float:
        fit = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": groups})
        return float(fit.bse[0])

    values_a, values_b = a.acc.double().numpy(), b.acc.double().numpy()
    assert a.aggregate(cluster="passage")["acc"].stderr.item() == pytest.approx(fitted(values_a), rel=1e-10)
    found = compare(a, b, cluster="passage")["acc"]
    assert found.stderr.item() == pytest.approx(fitted(values_b - values_a), rel=1e-10)


def test_the_interval_over_clusters_is_the_one_over_prompts_that_hold_all_of_them() -> None:
    scores = run(1)
    found = scores.aggregate(cluster="passage")["acc"]
    verdicts = torch.full((12, 60), float("nan"))
    for row, (passage, verdict) in enumerate(zip(scores.passage.tolist(), scores.acc.tolist(), strict=True)):
        verdicts[passage, row] = verdict
    same = ExactMatchScoreData(verdicts, batch_size=[12]).aggregate()["exact_match"]
    assert (found.low.item(), found.high.item()) == (same.low.item(), same.high.item())
    assert (found.prompts.item(), found.clusters.item(), found.count.item()) == (60, 12, 60)
    alone = scores.aggregate()["acc"]
    assert alone.clusters is None
    assert found.value.item() == alone.value.item()
    assert found.high - found.low > 1.5 * (alone.high - alone.low)


def test_the_test_swaps_all_of_a_cluster_at_once() -> None:
    passage = torch.arange(5).repeat_interleave(8)
    a = PassageScoreData(torch.zeros(40), passage=passage, batch_size=[40])
    b = PassageScoreData(torch.ones(40), passage=passage, batch_size=[40])
    found = compare(a, b, cluster="passage")["acc"]
    assert found.p_value.item() == 2 ** (1 - 5)  # not 2 ** (1 - 40)
    assert (found.prompts.item(), found.prompts_a.item(), found.clusters.item()) == (40, 40, 5)
    assert found.mcnemar_p is None
    assert "40 prompts in 5 clusters" in str(compare(a, b, cluster="passage"))
    assert "40 prompts in 5 clusters" in str(a.aggregate(cluster="passage"))


def test_clusters_do_not_depend_on_the_order_of_the_rows() -> None:
    scores = run(3)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    shuffled = scores[order].aggregate(cluster="passage", interval="bootstrap")
    assert shuffled.to_dict() == scores.aggregate(cluster="passage", interval="bootstrap").to_dict()


def test_clusters_of_names_are_the_same_whatever_their_codes() -> None:
    ids = torch.arange(4)
    a = NamedScoreData(
        torch.tensor([1.0, 0, 1, 0]),
        passage_id=torch.tensor([0, 0, 1, 1]),
        passages=("sea", "sky"),
        prompt_id=ids,
        batch_size=[4],
    )
    b = NamedScoreData(
        torch.tensor([0.0, 0, 1, 1]),
        passage_id=torch.tensor([0, 0, 1, 1]),
        passages=("sky", "sea"),
        prompt_id=ids.flip(0),
        batch_size=[4],
    )
    assert a.aggregate()["acc"].clusters.item() == 2
    assert compare(a, b)["acc"].clusters.item() == 2
    with pytest.raises(ValueError, match="expected the same cluster for a prompt in both runs, got others for 4 of 4"):
        compare(
            a,
            NamedScoreData(b.acc, passage_id=b.passage_id, passages=a.passages, prompt_id=b.prompt_id, batch_size=[4]),
        )


def test_a_prompt_without_a_cluster_is_one_of_its_own() -> None:
    scores = NamedScoreData(
        torch.tensor([1.0, 0, 1, 0, 1]),
        passage_id=torch.tensor([0, -1, 0, -1, -1]),
        passages=("sea",),
        batch_size=[5],
    )
    assert scores.aggregate()["acc"].clusters.item() == 4
    assert torch.stack([scores, scores]).aggregate()["acc"].clusters.tolist() == [4, 4]


def test_repeats_of_a_prompt_are_of_its_cluster() -> None:
    one = run(4, prompt_id=torch.arange(60))
    repeated = torch.cat([one, one])
    found = repeated.aggregate(cluster="passage")["acc"]
    assert (found.prompts.item(), found.clusters.item()) == (60, 12)
    assert found.stderr.item() == pytest.approx(one.aggregate(cluster="passage")["acc"].stderr.item())
    stacked = torch.stack([one, one]).aggregate(dim=(0, 1), cluster="passage")["acc"]
    assert stacked.stderr.item() == pytest.approx(found.stderr.item())
    repeated.passage[60:] += 1
    with pytest.raises(ValueError, match="one cluster for all rows of a prompt, got several in rows 0 and 60"):
        repeated.aggregate(cluster="passage")


def test_groups_and_their_clusters() -> None:
    class Both(NamedScoreData):
        acc: Tensor | None = field(default=None, metadata=metric(Mean(by="subject", cluster="passage_id")))
        subject: Tensor | None = field(default=None, kw_only=True, metadata=metric())

    scores = Both(
        torch.tensor([1.0, 0, 1, 0]),
        passage_id=torch.tensor([0, 0, 1, 2]),
        passages=("a", "b", "c"),
        subject=torch.tensor([0, 0, 0, 1]),
        batch_size=[4],
    )
    groups = scores.aggregate().groups["acc"]
    assert {name: one.clusters.item() for name, one in groups.items()} == {"0": 2, "1": 1}
    assert groups["1"].stderr.isnan()


def test_a_single_cluster_has_no_interval_of_a_figure_without_bounds() -> None:
    class Tokens(PassageScoreData):
        acc: Tensor | None = field(default=None, metadata=metric(Mean(unit="tokens")))

    found = Tokens(torch.tensor([3.0, 4.0]), passage=torch.tensor([1, 1]), batch_size=[2]).aggregate(cluster="passage")
    assert found["acc"].reason == "a single cluster has no variance to measure"


def test_clusters_that_cross_tasks_are_an_error() -> None:
    scores = run(5, prompt_task=torch.arange(60) % 2, task_names=("reading", "listening"))
    with pytest.raises(
        ValueError, match=r"passage: expected clusters of one task each, .* in 'reading' and in 'listening'"
    ):
        scores.aggregate(cluster="passage")


@pytest.mark.parametrize(
    "passage, error",
    [
        (None, "passage: expected the cluster of each prompt, as a code or another integer, got None"),
        (torch.zeros(60), "passage: expected one integer a prompt"),
        (torch.zeros(60, 2, dtype=torch.int64), "passage: expected one integer a prompt"),
    ],
)
def test_what_is_no_cluster_is_an_error(passage: Tensor | None, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        PassageScoreData(torch.zeros(60), passage=passage, batch_size=[60]).aggregate(cluster="passage")
    with pytest.raises(ValueError, match="pasage: expected a field of PassageScoreData"):
        run(1).aggregate(cluster="pasage")


def test_contributions_of_a_cluster_are_summed() -> None:
    tally = Tally("acc", np.array([1.0, 2.0, 4.0]), np.ones(3), cluster=np.array([5, -1, 5])).by_cluster()
    assert (tally.numerator.tolist(), tally.denominator.tolist(), tally.cluster) == ([2.0, 5.0], [1.0, 2.0], None)
