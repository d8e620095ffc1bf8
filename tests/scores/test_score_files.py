from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tensorclass.scores import ExactMatchScoreData, IFEvalScoreData, ScoreData, load_scores, ragged, save_scores


def ifeval(name: str) -> IFEvalScoreData:
    return IFEvalScoreData(
        torch.tensor([True, False]),
        ragged([[1], [1, 0]]),
        None,
        None,
        prompt_id=torch.tensor([1, 2]),
        instruction_id=torch.tensor([[0, -1], [1, 0]]),
        instruction_types=("a", name),
        batch_size=[2],
    )


def test_saved_scores_come_back(tmp_path: Path) -> None:
    save_scores(ifeval("b"), tmp_path / "scores.pt")
    assert os.listdir(tmp_path) == ["scores.pt"]
    back = load_scores(tmp_path / "scores.pt")
    assert type(back) is IFEvalScoreData
    assert back.prompt_level_strict_acc.tolist() == [True, False]
    assert back.instruction_types == ("a", "b")
    assert back.inst_level_loose_acc is None
    assert back.aggregate().to_dict() == ifeval("b").aggregate().to_dict()


def test_scores_with_several_vocabularies_are_saved_with_one(tmp_path: Path) -> None:
    both = torch.stack([ifeval("b"), ifeval("c")])
    save_scores(both, tmp_path / "scores.pt")
    back = load_scores(tmp_path / "scores.pt")
    assert back.batch_size == (2, 2)
    assert back.instruction_types == ("a", "b", "c")
    assert back.aggregate().to_dict() == both.aggregate().to_dict()


class NotedScoreData(ScoreData):
    acc: Tensor | None
    note: object = None


def test_a_family_of_ones_own_is_loaded_by_its_class(tmp_path: Path) -> None:
    path = tmp_path / "scores.pt"
    save_scores(NotedScoreData(torch.ones(2), note="x", batch_size=[2]), path)
    assert load_scores(path, NotedScoreData).note == "x"
    with pytest.raises(
        ValueError, match=r"holds NotedScoreData, which is not of this package.*load_scores\(path, NotedScoreData\)"
    ):
        load_scores(path)
    with pytest.raises(ValueError, match="expected ExactMatchScoreData, got NotedScoreData"):
        load_scores(path, ExactMatchScoreData)


def test_what_a_file_cannot_hold_safely_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"note: expected a tensor, None, text, a number.*got set"):
        save_scores(NotedScoreData(torch.ones(2), note={1}, batch_size=[2]), tmp_path / "scores.pt")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"])
def test_another_kind_of_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "scores.pt").write_bytes(content)
    with pytest.raises(ValueError, match="expected a file written by save_scores"):
        load_scores(tmp_path / "scores.pt")
    torch.save({"a": 1}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="expected a file written by save_scores"):
        load_scores(tmp_path / "other.pt")


def test_the_error_for_another_file_does_not_advise_to_run_its_code(tmp_path: Path) -> None:
    torch.save(ExactMatchScoreData(torch.ones(1), batch_size=[1]), tmp_path / "pickled.pt")
    with pytest.raises(ValueError, match="expected a file written by save_scores") as caught:
        load_scores(tmp_path / "pickled.pt")
    assert "weights_only" not in "".join(traceback.format_exception(caught.value))


def test_a_place_that_cannot_be_written_to_is_named_as_it_was_given(tmp_path: Path) -> None:
    scores = ExactMatchScoreData(torch.ones(1), batch_size=[1])
    with pytest.raises(FileNotFoundError, match=r"can't be written") as caught:
        save_scores(scores, tmp_path / "nowhere" / "scores.pt")
    assert caught.value.filename == str(tmp_path / "nowhere" / "scores.pt")
    with pytest.raises(IsADirectoryError, match="expected a file to write to, found a folder"):
        save_scores(scores, tmp_path)
