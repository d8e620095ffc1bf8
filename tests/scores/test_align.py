from __future__ import annotations

import pytest
import torch

from tensorclass.scores import ExactMatchScoreData, IFEvalScoreData, align, ragged


def record(rows: list[list[int]], types: list[list[int]], names: tuple[str, ...]) -> IFEvalScoreData:
    return IFEvalScoreData(
        torch.tensor([all(row) for row in rows]),
        ragged(rows),
        None,
        None,
        instruction_id=torch.tensor(types, dtype=torch.int32),
        instruction_types=names,
        batch_size=[len(rows)],
    )


def test_aligned_records_concatenate_and_keep_their_figures() -> None:
    short = record([[1], [0]], [[0], [1]], ("a", "b"))
    long = record([[1, 1, 0]], [[0, 1, 1]], ("c", "a"))
    aligned = align(short, long)
    assert {one.inst_level_strict_acc.shape[1] for one in aligned} == {3}
    assert {one.instruction_types for one in aligned} == {("a", "b", "c")}
    both = torch.cat(aligned)
    assert both.instruction_types == ("a", "b", "c")
    assert both.instruction_id.tolist() == [[0, -1, -1], [1, -1, -1], [2, 0, 0]]
    found = both.aggregate().groups["inst_level_strict_acc"]
    assert {name: (one.value.item(), one.count.item()) for name, one in found.items()} == {
        "a": (pytest.approx(2 / 3), 3.0),
        "b": (0.0, 1.0),
        "c": (1.0, 1.0),
    }


def test_one_record_with_many_vocabularies_gets_one() -> None:
    first, second = record([[1]], [[0]], ("a",)), record([[0]], [[0]], ("b",))
    (one,) = align(torch.cat([first, second]))
    assert one.instruction_types == ("a", "b")
    assert one.instruction_id.tolist() == [[0], [1]]


def test_bools_and_numbers_meet_as_numbers() -> None:
    bools, numbers = (
        ExactMatchScoreData(torch.tensor([True]), batch_size=[1]),
        ExactMatchScoreData(torch.tensor([0.5]), batch_size=[1]),
    )
    assert torch.cat(align(bools, numbers)).exact_match.tolist() == [1.0, 0.5]


def test_bool_verdicts_of_another_width_become_numbers_with_padding() -> None:
    narrow = IFEvalScoreData(None, torch.tensor([[True]]), None, None, batch_size=[1])
    wide = IFEvalScoreData(None, torch.tensor([[True, False]]), None, None, batch_size=[1])
    both = torch.cat(align(narrow, wide))
    assert both.aggregate()["inst_level_strict_acc"].count.item() == 3


def test_records_of_different_classes_are_an_error() -> None:
    with pytest.raises(TypeError, match="one class, got ExactMatchScoreData, IFEvalScoreData"):
        align(ExactMatchScoreData(None, batch_size=[1]), IFEvalScoreData(None, None, None, None, batch_size=[1]))


def test_what_is_no_record_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"one an argument: align\(a, b\); got list"):
        align([ExactMatchScoreData(None, batch_size=[1])])  # type: ignore[type-var]


def test_a_field_that_only_some_hold_is_an_error() -> None:
    with pytest.raises(ValueError, match="exact_match: expected a tensor in each record or in none"):
        align(ExactMatchScoreData(torch.ones(1), batch_size=[1]), ExactMatchScoreData(None, batch_size=[1]))


def test_no_records_align_to_none() -> None:
    assert align() == []
