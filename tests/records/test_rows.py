"""Rows of a record are written by index."""

from typing import Any

import pytest
import torch

import tensorclass as tc
from tensorclass import TensorDict
from tests.records.classes import Decorated, Point, nested, point


def test_rows_are_written_from_a_record() -> None:
    record = nested()
    record[0] = Decorated(torch.tensor(5.0), Point(torch.tensor(6.0), tag="row"))
    assert (record.x.tolist(), record.point.x.tolist(), record.point.tag) == ([5, 0], [6, 1], ["row", "t"])


def test_rows_are_written_from_a_mapping_as_the_fields_say() -> None:
    record = nested()
    record[0] = {"x": 5, "point": {"tag": "row"}}
    record[1:] = {("point", "x"): [7.0], ("point", "tag"): ["rows"]}
    assert (record.x.tolist(), record.point.x.tolist(), record.point.tag) == ([5, 0], [0, 7], ["row", "rows"])


def test_writing_a_row_of_an_optional_field_allocates_it() -> None:
    record = point()
    record[1] = {"y": 3.0}
    assert record.y.tolist() == [0, 3]


def test_records_are_filled_row_by_row() -> None:
    record = nested().empty()
    for i in range(2):
        record[i] = Decorated(torch.tensor(float(i)), Point(torch.tensor(i), tag=str(i)))
    assert (type(record.point), record.x.tolist(), record.point.tag) == (Point, [0, 1], ["0", "1"])


@pytest.mark.parametrize(
    "row, message",
    [
        ({"tag": 3}, r"Point\.tag: expected str, got int 3"),
        ({"tag": None}, r"Point\.tag: expected str, got NoneType None"),
        ({"y": "text"}, r"Point\.y: expected Tensor \| None, got str 'text'"),
        (TensorDict({"tag": tc.NonTensorData(3)}), r"Point\.tag: expected str, got int 3"),
        (TensorDict({"y": tc.NonTensorData("text")}), r"Point\.y: expected Tensor \| None, got str 'text'"),
        (TensorDict({"y": TensorDict({})}), r"Point\.y: expected Tensor \| None, got TensorDict"),
    ],
    ids=["text", "None", "tensor", "TensorDict with an object", "object for a tensor", "nested for a tensor"],
)
def test_rows_that_do_not_fit_leave_the_record_unchanged(row: Any, message: str) -> None:
    record = point()
    for index in (0, slice(None)):
        with pytest.raises(TypeError, match=message):
            record[index] = row
    assert (record.x.tolist(), record.y, record.tag) == ([0, 1], None, "t")


def test_rows_of_a_nested_record_are_checked() -> None:
    record = nested()
    for row in ({"point": {"tag": 3}}, TensorDict({"point": {"tag": tc.NonTensorData(3)}})):
        with pytest.raises(TypeError, match=r"Point\.tag: expected str, got int 3"):
            record[0] = row


def test_rows_with_a_key_that_is_no_field_are_refused() -> None:
    record = point()
    for row in ({"unknown": 1.0}, TensorDict({"unknown": 1.0})):
        with pytest.raises(AttributeError, match="Point has no field 'unknown'"):
            record[0] = row


def test_rows_of_a_text_are_written_by_key() -> None:
    record = nested()
    record.set_at_(("point", "tag"), "row", 0)
    assert record.point.tag == ["row", "t"]
    with pytest.raises(TypeError, match=r"Point\.tag: expected str, got int 3"):
        record.set_at_(("point", "tag"), 3, 0)
