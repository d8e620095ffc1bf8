"""Lists that write back to the collection they came from."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import LinkedList, NonTensorData, NonTensorStack, TensorClass, TensorDict


def column() -> TensorDict:
    return TensorDict({"text": ["a", "b", "c"]}, [3])


def table() -> TensorDict:
    return TensorDict({"text": [["a", "b"], ["c", "d"]]}, [2, 2])


def test_reading_a_column_gives_a_list() -> None:
    texts = column()["text"]
    assert texts == ["a", "b", "c"]
    assert isinstance(texts, list)
    assert repr(texts) == "['a', 'b', 'c']"
    assert all(isinstance(row, LinkedList) for row in table()["text"])
    assert type(column().get_non_tensor("text")) is LinkedList


@pytest.mark.parametrize(
    "index, value, expected",
    [
        (0, "new", ["new", "b", "c"]),
        (-1, "new", ["a", "b", "new"]),
        (slice(1, None), ["x", "y"], ["a", "x", "y"]),
        (slice(None, None, 2), ("x", "y"), ["x", "b", "y"]),
        (0, None, [None, "b", "c"]),
        (0, 1, [1, "b", "c"]),
        (0, {"x": 1}, [{"x": 1}, "b", "c"]),
        (0, ["x", "y"], [["x", "y"], "b", "c"]),
    ],
)
@pytest.mark.parametrize("locked", [False, True])
def test_assigning_items_writes_them(index: Any, value: Any, expected: list[Any], locked: bool) -> None:
    data = column()
    if locked:
        data.lock_()
    texts = data["text"]
    texts[index] = value
    assert texts == data["text"] == expected


def test_inner_lists_write_too() -> None:
    data = table()
    texts = data["text"]
    texts[1][0] = "new"
    assert texts == data["text"] == [["a", "b"], ["new", "d"]]
    texts[0] = ["x", "y"]
    texts[0][1] = "z"
    assert texts == data["text"] == [["x", "z"], ["new", "d"]]
    texts[1] = "both"
    assert texts == data["text"] == [["x", "z"], ["both", "both"]]


@pytest.mark.parametrize("index, value", [(3, "x"), (slice(0, 2), ["x"]), (slice(0, 2), ["x", "y", "z"])])
def test_what_does_not_fit_changes_neither(index: Any, value: Any) -> None:
    data = column()
    texts = data["text"]
    with pytest.raises((IndexError, ValueError)):
        texts[index] = value
    assert texts == data["text"] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "change",
    [
        lambda texts: texts.append("x"),
        lambda texts: texts.extend(["x"]),
        lambda texts: texts.insert(0, "x"),
        lambda texts: texts.pop(),
        lambda texts: texts.remove("a"),
        lambda texts: texts.clear(),
        lambda texts: texts.reverse(),
        lambda texts: texts.sort(reverse=True),
        lambda texts: texts.__delitem__(0),
        lambda texts: texts.__iadd__(["x"]),
        lambda texts: texts.__imul__(2),
    ],
)
def test_what_moves_items_changes_the_list_only_from_then_on(change: Callable[[Any], Any]) -> None:
    data = column()
    texts, plain = data["text"], ["a", "b", "c"]
    change(texts)
    change(plain)
    assert texts == plain
    texts[:1] = ["new"]
    assert data["text"] == ["a", "b", "c"]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda texts: pickle.loads(pickle.dumps(texts))])
def test_a_copy_is_linked_to_nothing(copied: Callable[[Any], Any]) -> None:
    data = table()
    texts = copied(data["text"])
    assert type(texts) is LinkedList
    texts[0][0] = "new"
    assert data["text"][0][0] == "a"


def test_tolist_gives_plain_lists() -> None:
    texts = table()["text"].tolist()
    assert type(texts) is type(texts[0]) is list
    assert type(NonTensorStack("a").tolist()) is list
    assert type(NonTensorStack("a").tolist(as_linked_list=True)) is LinkedList
    assert type(column().to_dict()["text"]) is list


def test_a_list_of_one_object_writes_too() -> None:
    one = NonTensorData("a", batch_size=[2])
    one.tolist(as_linked_list=True)[0] = "b"
    assert one.tolist() == ["b", "a"]


def test_a_list_by_itself_is_a_list() -> None:
    texts = LinkedList(["a"])
    texts[0] = "b"
    assert texts == ["b"]


def test_the_list_of_a_collection_writes_rows() -> None:
    data = TensorDict({"a": torch.zeros(2), "text": ["x", "y"]}, [2])
    rows = data.tolist(as_linked_list=True)
    rows[0] = {"a": torch.tensor(1.0), "text": "new"}
    assert data["a"].tolist() == [1, 0]
    assert data["text"] == ["new", "y"]


class Note(TensorClass, stack_objects=True):
    text: str


@pytest.mark.parametrize("read", [lambda note: note.text, lambda note: note["text"]], ids=["field", "key"])
def test_the_list_of_a_field_takes_what_the_field_takes(read: Callable[[Any], Any]) -> None:
    note = Note(text=["a", "b"], batch_size=[2])  # type: ignore[arg-type]
    texts = read(note)
    for index, value in ((0, 1), (slice(None), ["x", 2])):
        with pytest.raises(TypeError, match=r"Note\.text: expected str, got int"):
            texts[index] = value
    texts[1:] = ["new"]
    assert texts == note.text == ["a", "new"]
    table = Note(text=[["a", "b"], ["c", "d"]], batch_size=[2, 2])  # type: ignore[arg-type]
    rows = read(table)
    rows[0] = ["x", "y"]
    with pytest.raises(TypeError, match=r"Note\.text"):
        rows[0][1] = 1
    assert table.text == [["x", "y"], ["c", "d"]]
