from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores import ExactMatchScoreData, IFEvalScoreData, MultipleChoiceScoreData, compare, ragged
from tensorclass.scores.comparison import pair


def exact(values: list[float], ids: list[int] | None = None) -> ExactMatchScoreData:
    return ExactMatchScoreData(
        torch.tensor(values), prompt_id=None if ids is None else torch.tensor(ids), batch_size=[len(values)]
    )


def test_the_difference_is_how_far_the_second_run_is_ahead() -> None:
    found = compare(exact([1.0, 0.0, 0.0, 0.0]), exact([1.0, 1.0, 1.0, 0.0]))
    one = found["exact_match"]
    assert (one.a.item(), one.b.item(), one.value.item()) == (0.25, 0.75, 0.5)
    assert (one.only_a.item(), one.only_b.item(), one.mcnemar_p.item()) == (0, 2, 0.5)
    assert found.prompts == 4


def test_prompts_are_paired_by_id_whatever_their_order() -> None:
    a = exact([1.0, 0.0, 1.0, 0.0], [4, 3, 2, 1])
    b = exact([0.0, 0.0, 1.0], [3, 4, 9])
    found = compare(a, b)
    assert (found.prompts, found.only_a, found.only_b) == (2, 2, 1)
    one = found["exact_match"]
    assert (one.a.item(), one.b.item()) == (0.5, 0.0)


@given(st.lists(st.integers(-3, 3), max_size=12), st.lists(st.integers(-3, 3), max_size=12))
def test_prompts_that_both_hold_are_compared_however_often_each_holds_them(ids_a: list[int], ids_b: list[int]) -> None:
    # A prompt's value tells its id and its run, so that what is paired can be told by the figures.
    a, b = exact([(one + 3) / 12 for one in ids_a], ids_a), exact([(one + 3) / 6 for one in ids_b], ids_b)
    shared = set(ids_a) & set(ids_b)
    if not shared:
        with pytest.raises(ValueError, match="expected prompts that both runs hold"):
            compare(a, b)
        return
    found = compare(a, b, resamples=20)
    assert (found.prompts, found.only_a, found.only_b) == (
        len(shared),
        len(set(ids_a) - shared),
        len(set(ids_b) - shared),
    )
    for run, ids, value in ((a, ids_a, found["exact_match"].a), (b, ids_b, found["exact_match"].b)):
        held = run[torch.tensor([one in shared for one in ids])].aggregate(resamples=20)
        assert value.item() == pytest.approx(held["exact_match"].value.item())


def test_pairs_stand_where_their_keys_do() -> None:
    place_a, place_b = pair(np.array([5, 6, 9]), np.array([7, 9, 5]), 3, 3)
    assert sorted(zip(place_a.tolist(), place_b.tolist(), strict=True)) == [(0, 2), (2, 1)]


def test_a_shuffled_run_compares_as_before() -> None:
    ids = list(range(30))
    generator = torch.Generator().manual_seed(0)
    a, b = (
        ExactMatchScoreData(torch.rand(30, generator=generator).round(), prompt_id=torch.tensor(ids), batch_size=[30])
        for _ in range(2)
    )
    order = torch.randperm(30, generator=generator)
    first, second = compare(a, b)["exact_match"], compare(a[order], b.flip(0))["exact_match"]
    for name in ("a", "b", "value", "low", "high", "p_value", "mcnemar_p"):
        assert getattr(first, name) == getattr(second, name)


def test_mcnemars_test_is_for_one_verdict_of_each_prompt() -> None:
    scores = IFEvalScoreData(torch.tensor([True, False]), ragged([[1, 1], [0]]), None, None, batch_size=[2])
    found = compare(scores, scores)
    assert found["prompt_level_strict_acc"].mcnemar_p.item() == 1.0
    assert found["inst_level_strict_acc"].mcnemar_p is None
    assert compare(exact([0.5, 1.0]), exact([1.0, 1.0]))["exact_match"].mcnemar_p is None


def test_types_that_both_runs_hold_are_compared() -> None:
    def record(rows: list[list[int]], names: tuple[str, ...]) -> IFEvalScoreData:
        return IFEvalScoreData(
            None, ragged(rows), None, None,
            instruction_id=torch.tensor([[0, 1], [1, -1]]), instruction_types=names, batch_size=[2],
        )  # fmt: skip

    groups = compare(record([[1, 0], [1]], ("a", "b")), record([[1, 1], [1]], ("a", "b"))).groups
    assert {name: one.value.item() for name, one in groups["inst_level_strict_acc"].items()} == {"a": 0.0, "b": 0.5}
    other = compare(record([[1, 0], [1]], ("a", "b")), record([[1, 1], [1]], ("c", "b"))).groups
    assert list(other["inst_level_strict_acc"]) == ["b"]


def test_a_metric_of_one_run_only_is_left_out() -> None:
    a = MultipleChoiceScoreData(torch.ones(2), torch.ones(2), batch_size=[2])
    b = MultipleChoiceScoreData(torch.ones(2), batch_size=[2])
    assert list(compare(a, b)) == ["acc"]


def test_runs_that_cannot_be_compared_are_errors() -> None:
    with pytest.raises(TypeError, match="ExactMatchScoreData and MultipleChoiceScoreData"):
        compare(exact([1.0]), MultipleChoiceScoreData(torch.ones(1), batch_size=[1]))
    with pytest.raises(TypeError, match=r"b: expected the scores of a run.*got str"):
        compare(exact([1.0]), "llama3.jsonl")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="got 1 and 2"):
        compare(exact([1.0]), exact([1.0, 0.0]))
    with pytest.raises(ValueError, match="prompt_id: expected in both runs or in none"):
        compare(exact([1.0], [1]), exact([1.0]))
    two, three = (ExactMatchScoreData(torch.ones(runs, 1), batch_size=[runs, 1]) for runs in (2, 3))
    with pytest.raises(ValueError, match=r"of the same size or of size 1, got \[2\] and \[3\] beside"):
        compare(two, three)


def test_a_comparison_prints_and_serialises() -> None:
    found = compare(exact([1.0, 0.0, 0.0]), exact([1.0, 1.0, 0.0]))
    assert "33.33 -> 66.67 %  +33.33" in str(found)
    assert "McNemar p = 1" in str(found)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["metrics"][0]["mcnemar"] == {"only_a": 0, "only_b": 1, "p_value": 1.0}
    assert plain["metrics"][0]["difference"] == pytest.approx(1 / 3)


def test_stacked_runs_compare_along_their_dimensions() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(3, 20, generator=generator).round()
    values[2, 0] = 0.5  # McNemar's test doesn't apply to this run
    models = ExactMatchScoreData(values, prompt_id=torch.arange(20).expand(3, 20), batch_size=[3, 20])
    found = compare(models[:1], models)
    assert found.batch_size == (3,)
    one = found["exact_match"]
    assert one.batch_size == (3,)
    assert one.mcnemar_p is None
    for number in range(3):
        alone = compare(models[0], models[number])["exact_match"]
        for name in ("a", "b", "value", "low", "high", "stderr", "p_value", "prompts", "detectable"):
            assert getattr(one, name)[number].item() == pytest.approx(getattr(alone, name).item(), nan_ok=True), name
    assert "runs [2]" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["metrics"][0]["interval"] == "adjusted t"
    every = compare(models[:, None], models[None])["exact_match"]
    assert every.batch_size == (3, 3)
    torch.testing.assert_close(every.value, -every.value.T)
    torch.testing.assert_close(every.value[0], one.value)


def test_repeats_are_pooled_within_their_prompts() -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = (ExactMatchScoreData(torch.rand(4, 15, generator=generator).round(), batch_size=[4, 15]) for _ in range(2))
    found = compare(a, b, dim=(0, 1))["exact_match"]
    means = [ExactMatchScoreData(run.exact_match.mean(0), batch_size=[15]) for run in (a, b)]
    alone = compare(*means)["exact_match"]
    for name in ("a", "b", "value", "low", "high", "p_value"):
        assert getattr(found, name).item() == pytest.approx(getattr(alone, name).item(), abs=1e-6), name
