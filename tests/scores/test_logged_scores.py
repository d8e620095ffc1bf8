from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

from tensorclass.scores import compare, load_scores, save_scores
from tensorclass.scores.logged_scores import LoggedScoreData, family_of, field_names

METRICS = (("pass@1", "%"), ("latency", "s"))


def scores() -> LoggedScoreData:
    family = family_of(METRICS, ("subject", "level"), ("subject",))
    return family(
        pass_1=torch.tensor([1.0, 0.0, 1.0]),
        latency=torch.tensor([0.5, 0.75, 4.0]),
        subject=torch.tensor([0, 1, 0]),
        names_of_subject=("law", "art"),
        level=torch.tensor([0, 0, -1]),
        names_of_level=("easy",),
        batch_size=[3],
    )


def test_figures_have_the_names_and_units_of_the_log() -> None:
    report = scores().aggregate()
    assert {name: (round(one.value.item(), 4), one.unit) for name, one in report.items()} == {
        "pass@1": (0.6667, "%"),
        "latency": (1.75, "s"),
    }


def test_groups_are_those_of_the_labels_that_were_asked_for() -> None:
    assert set(scores().aggregate().groups["pass@1"]) == {"law", "art"}


def test_groups_of_several_labels_name_their_label() -> None:
    family = family_of(METRICS[:1], ("subject", "level"), ("subject", "level"))
    held = scores()
    report = family(held.pass_1, held.subject, ("law", "art"), held.level, ("easy",), batch_size=[3]).aggregate()
    assert {name: one.value.item() for name, one in report.groups["pass@1"].items()} == {
        "subject: law": 1.0,
        "subject: art": 0.0,
        "level: easy": 0.5,
    }


def test_arguments_that_are_left_out_are_those_of_the_default() -> None:
    assert family_of(METRICS) is family_of(METRICS, (), (), None)


def test_figures_are_over_the_clusters_that_the_family_declares() -> None:
    family = family_of(METRICS[:1], ("passage",), cluster="passage")
    figure = family(torch.tensor([1.0, 1, 0, 0]), torch.tensor([0, 0, 1, 1]), ("a", "b"), batch_size=[4]).aggregate()
    assert (figure["pass@1"].clusters.item(), figure["pass@1"].prompts.item()) == (2, 4)


def test_figures_that_are_no_means_are_over_clusters_as_well() -> None:
    family = family_of((("f1", "%", "macro_f1"), ("bits", "bits", "bits")), ("passage",), cluster="passage")
    fields = field_names(["f1", "f1 target", "bits", "bits units"], ["passage"])
    columns = ([1.0, 0, 1, 0], [1.0, 1, 0, 0], [-1.0, -2, -3, -4], [1.0, 2, 1, 2])
    values = dict(zip(list(fields.values())[:4], map(torch.tensor, columns), strict=True))
    report = family(
        **values, passage=torch.tensor([0, 0, 1, 1]), names_of_passage=("a", "b"), batch_size=[4]
    ).aggregate()
    assert [one.clusters.item() for one in report.values()] == [2, 2]


def test_the_same_declaration_gives_the_same_class_so_that_records_stack() -> None:
    assert torch.stack([scores(), scores()]).aggregate()["latency"].value.tolist() == [1.75, 1.75]


@pytest.mark.parametrize("name", ["mean", "values", "class", "prompt_id", "logged_metrics", "names", "1st", "@", "é"])
def test_any_name_of_a_metric_has_a_field(name: str) -> None:
    (field,) = field_names([name]).values()
    report = family_of(((name, "%"),))(**{field: torch.ones(2)}, batch_size=[2]).aggregate()
    assert report[name].value.item() == 1.0


def test_names_that_differ_in_signs_only_have_fields_of_their_own() -> None:
    assert len(set(field_names(["pass@1", "pass_1", "pass^1"], ["pass 1"]).values())) == 4


def test_a_name_given_twice_is_an_error() -> None:
    with pytest.raises(ValueError, match="f1: expected a different name for each metric and label, got it twice"):
        family_of((("f1", "%"),), ("f1",))


def test_a_group_that_is_no_label_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"groups: expected labels \(subject\), got 'topic'"):
        family_of(METRICS, ("subject",), ("topic",))


def test_pickled_records_keep_their_class_and_figures() -> None:
    for held in (scores(), torch.stack([scores(), scores()])):
        again = pickle.loads(pickle.dumps(held))
        assert type(again) is type(held)
        assert again.aggregate().to_dict() == held.aggregate().to_dict()


def test_saved_records_are_loaded_without_their_class(tmp_path: Path) -> None:
    save_scores(scores(), tmp_path / "scores.pt")
    again = load_scores(tmp_path / "scores.pt")
    assert type(again) is type(scores())
    assert again.aggregate().to_dict() == scores().aggregate().to_dict()


def test_runs_with_other_metrics_are_compared_by_those_that_both_hold() -> None:
    other = family_of((("latency", "s"), ("f1", "%")))(torch.tensor([1.0, 1.0, 1.0]), torch.ones(3), batch_size=[3])
    assert {name: one.value.item() for name, one in compare(scores(), other).items()} == {"latency": -0.75}


def test_runs_without_a_common_metric_are_an_error() -> None:
    other = family_of((("f1", "%"),))(torch.ones(3), batch_size=[3])
    with pytest.raises(ValueError, match="expected a metric that both runs have, got pass@1, latency and f1"):
        compare(scores(), other)
