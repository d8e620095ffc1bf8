"""Fields that hold text and other objects."""

import pytest
import torch

from tests.records.classes import Point, point


def test_a_text_belongs_to_every_row() -> None:
    assert point(tag="a")[1].tag == "a"


def test_a_list_with_one_text_for_each_row() -> None:
    record = point(tag=["a", "b"])
    assert record.tag == ["a", "b"]
    assert (record[0].tag, record[1].tag) == ("a", "b")


def test_a_list_of_another_length_is_no_text() -> None:
    with pytest.raises(TypeError, match=r"Point\.tag: expected str, got list"):
        point(tag=["a", "b", "c"])


def test_different_texts_are_stacked() -> None:
    assert torch.stack([Point(torch.zeros(()), tag="a"), Point(torch.zeros(()), tag="b")]).tag == ["a", "b"]


def test_a_comparison_gives_a_tensor_for_a_text_field() -> None:
    same = point(tag=["a", "b"]) == point(tag=["a", "c"])
    assert same.tag.tolist() == [True, False]
