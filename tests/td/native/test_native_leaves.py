"""Objects, text and ragged rows: native code gives what the Python code gives, and its errors."""

import gc
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    MetaData,
    NonTensorData,
    NonTensorStack,
    Ragged,
    TensorClass,
    TensorDict,
    Text,
    set_capture_non_tensor_stack,
)
from tensorclass.td.columns.utf8_rows import EncodingError, encode_rows
from tensorclass.td.leaves.linked_list import LinkedList
from tests.native_code import in_both_modes

STRINGS = ["plain", "", None, "naïve 漢字", "🙂", "last"]


class Note(TensorClass["stack_objects"]):
    score: Tensor
    text: str


def state(leaf: Any) -> Any:
    """All that makes up a leaf or a collection."""
    if isinstance(leaf, Tensor):
        return leaf.tolist(), leaf.shape, leaf.dtype
    if isinstance(leaf, (tuple, list)):
        return type(leaf), [state(item) for item in leaf]
    if not isinstance(leaf, (NonTensorData, NonTensorStack, Text, Ragged, TensorDict, TensorClass)):
        return leaf
    extra = {name: getattr(leaf, name, None) for name in ("_objects", "_metadata", "_is_compact", "_room", "_lock")}
    content = leaf.tolist() if not isinstance(leaf, (TensorDict, TensorClass)) else None
    store = {key: state(value) for key, value in leaf._store.items()}
    return type(leaf), store, leaf.batch_size, type(leaf.batch_size), leaf.device, leaf.names, extra, content


def collection(names: list[str] | None = None) -> TensorDict:
    return TensorDict(
        {
            "x": torch.arange(6),
            "text": Text(STRINGS),
            "rows": Ragged([[1, 2], [], [3], [4, 5, 6], [7], [8]]),
            "one": NonTensorData("same", {"about": 1}),
            "each": NonTensorStack(*"abcdef"),
            "below": {"text": Text(STRINGS[::-1])},
        },
        [6],
        names=names,
    )


INDICES: dict[str, Any] = {
    "int": 3,
    "negative int": -1,
    "slice": slice(1, 5, 2),
    "empty slice": slice(4, 1),
    "negative slice": slice(-3, None),
    "new dimension": (None, 2),
    "ellipsis": (..., slice(2)),
    "positions": torch.tensor([5, 0, 0]),
    "negative positions": torch.tensor([-1, 2]),
    "positions in two dimensions": torch.tensor([[0, 1], [4, 5]]),
    "no positions": torch.empty(0, dtype=torch.int64),
    "mask": torch.tensor([True, False, True, False, False, True]),
    "list": [1, 3],
    "out of range": 6,
    "position out of range": torch.tensor([0, 6]),
}


@pytest.mark.parametrize("names", [None, ["time"]])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_an_index_gives_the_same_leaves(index: Any, names: list[str] | None) -> None:
    data = collection(names)
    compiled, python = in_both_modes(lambda: state(data[index]))
    assert compiled == python


@pytest.mark.parametrize("key", ["text", "rows"])
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES.keys())
def test_an_index_of_a_column_gives_the_same(index: Any, key: str) -> None:
    column = collection().get(key)
    compiled, python = in_both_modes(lambda: state(column._index_value(index)))
    assert compiled == python
    compiled, python = in_both_modes(lambda: state(column[::2][index if index != 6 else 3]))
    assert compiled == python


def test_rows_of_an_index_share_the_buffer() -> None:
    data = collection()
    for rows in in_both_modes(lambda: data[2:]):
        assert rows.get("text").values is data.get("text").values
        assert rows.get("rows").values is data.get("rows").values
        assert rows.get("one")._objects is data.get("one")._objects
        rows["text"][0] = "new"  # goes behind the buffer, which the source does not see
    assert data.get("text").tolist() == STRINGS


def test_columns_of_two_dimensions_are_indexed_the_same() -> None:
    text = Text([["a", "é"], ["", None]])
    data = TensorDict({"text": text, "x": torch.zeros(2, 2), "o": NonTensorStack(*"ab").expand(2, 2)}, [2])
    for index in (0, slice(1), (1, 1), (slice(None), 0), (..., 0), torch.tensor([1]), torch.tensor([True, False])):
        compiled, python = in_both_modes(lambda index=index: state(data[index]))
        assert compiled == python
        compiled, python = in_both_modes(lambda index=index: state(text[index]))
        assert compiled == python


@pytest.mark.parametrize(
    "strings",
    [STRINGS, [], [""], [None], ["a\0b", "c"], ["é" * 300], ["a", "\ud800"], ["a", 1], [b"a"]],
    ids=["all", "none", "empty", "missing", "null character", "long", "surrogate", "number", "bytes"],
)
def test_strings_are_encoded_the_same(strings: list[Any]) -> None:
    compiled, python = in_both_modes(lambda: state(encode_rows(strings)))
    assert compiled == python


def test_strings_are_read_back() -> None:
    text = Text(STRINGS)
    rows = {"all": text, "views": text[::2], "reversed": text.flip(0), "permuted": text[torch.tensor([5, 3, 3])]}
    for column in rows.values():
        compiled, python = in_both_modes(lambda column=column: (column.tolist(), list(column)))
        assert compiled == python
    assert text.flip(0).tolist() == STRINGS[::-1]
    for row in range(-7, 7):
        compiled, python = in_both_modes(lambda row=row: text[row])
        assert compiled == python
    square = Text([STRINGS[:3], STRINGS[3:]])
    compiled, python = in_both_modes(lambda: (square.tolist(), square.transpose(0, 1).tolist(), square[1, 0]))
    assert compiled == python
    assert compiled[0] == [STRINGS[:3], STRINGS[3:]]


def test_bytes_that_are_no_text_raise_the_same_errors() -> None:
    text = Text._of(torch.tensor([97, 0xFF, 98], dtype=torch.uint8), torch.tensor([[0, 1], [1, 1], [2, 1]]))
    for call in (lambda: text.tolist(), lambda: text[1], lambda: text[-2], lambda: list(text)):
        compiled, python = in_both_modes(call)
        assert compiled == python
        assert compiled[0] is EncodingError
    compiled, python = in_both_modes(lambda: text[2])
    assert compiled == python == "b"


def test_text_that_is_no_plain_memory_is_left_to_python() -> None:
    every_other = Text._of(torch.tensor([97, 0, 98, 0], dtype=torch.uint8)[::2], torch.tensor([[0, 1], [1, 1]]))
    compiled, python = in_both_modes(lambda: (every_other.tolist(), every_other[1]))
    assert compiled == python
    assert compiled == (["a", "b"], "b")
    meta = Text(["a"]).to("meta")
    compiled, python = in_both_modes(lambda: meta[:1].batch_size)
    assert compiled == python == (1,)


def test_rows_are_pickled_the_same() -> None:
    data = collection()
    compiled, python = in_both_modes(lambda: state(pickle.loads(pickle.dumps(data[1:3]))))
    assert compiled == python


# -- lists of objects -------------------------------------------------------------------------------------------------


def links(items: Any) -> Any:
    """What a linked list is made of."""
    if not isinstance(items, LinkedList):
        return items
    return list(map(links, items)), items._depth, items._place, items._check, type(items._td)


def stacks() -> dict[str, NonTensorStack]:
    square = torch.stack([NonTensorData(word, batch_size=[3]) for word in ("a", "b")])
    return {
        "line": NonTensorStack(*"abc"),
        "same at each position": square,
        "transposed": square.transpose(0, 1),
        "three dimensions": square.unsqueeze(1),
        "rows": square[:, 1:],
        "without rows": square[:0],
        "no positions in a row": square[:, :0],
        "objects": NonTensorStack({"a": 1}, None, (1, 2)),
    }


@pytest.mark.parametrize("name", stacks())
def test_objects_are_read_as_the_same_lists(name: str) -> None:
    stack = stacks()[name]
    data = TensorDict({"o": stack}, stack.batch_size)
    compiled, python = in_both_modes(lambda: links(data["o"]))
    assert compiled == python
    gc.collect()
    assert data["o"].tolist() == stack.tolist()


def test_lists_write_back_and_check_items() -> None:
    def written() -> Any:
        notes = torch.stack([Note(score=torch.ones(2), text=word, batch_size=[2]) for word in ("a", "b")])
        lists: Any = notes.text
        lists[0][1] = "c"
        with pytest.raises(TypeError, match="text"):
            lists[1][0] = 5
        lists[1] = ["d", "e"]
        lists.append("not linked from here on")
        return notes.text.tolist(), list(map(links, lists[0]))

    compiled, python = in_both_modes(written)
    assert compiled == python
    assert compiled[0] == [["a", "c"], ["d", "e"]]


def test_a_stack_is_unbound_the_same() -> None:
    for stack in stacks().values():
        for dim in range(-1, stack.ndim + 1):
            compiled, python = in_both_modes(lambda stack=stack, dim=dim: state(stack.unbind(dim)))
            assert compiled == python


OBJECTS: dict[str, list[Any]] = {
    "equal": ["a", "".join(["a"]), "a"],
    "different": ["a", "b", "a"],
    "numbers": [1, 1, 1],
    "of several classes": [1, True, "1"],
    "missing": [None, None],
    "no plain equality": [torch.zeros(2), torch.zeros(2)],
    "surrogates": ["\ud800", "\ud800x"],
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("captures", [True, False])
def test_objects_are_stacked_the_same(name: str, captures: bool) -> None:
    for size in ([], [2], [2, 0]):
        items = [
            TensorDict({"o": NonTensorData(item, batch_size=size), "x": torch.ones(size)}, size)
            for item in OBJECTS[name]
        ]
        for dim in range(-1, len(size) + 1):

            def stacked(items: Any = items, dim: int = dim) -> Any:
                with set_capture_non_tensor_stack(captures):
                    made = torch.stack(items, dim)
                leaf: Any = made._store["o"]
                return type(leaf), leaf._batch_size, leaf._device, leaf._names, leaf._metadata, repr(leaf.tolist())

            native_result, python = in_both_modes(stacked)
            assert native_result == python


def test_objects_of_other_classes_and_sizes_are_stacked_the_same() -> None:
    config = {"a": 1}
    for leaves in (
        [MetaData(config), MetaData(config)],
        [MetaData("a"), NonTensorData("a")],
        [NonTensorData("a"), NonTensorData("a", {"about": 1})],
        [NonTensorData("a", batch_size=[2]), NonTensorData("a", batch_size=[3])],
        [NonTensorStack("a", "b"), NonTensorStack("a", "c")],
    ):
        items = [TensorDict({"o": leaf}) for leaf in leaves]
        native_result, python = in_both_modes(lambda items=items: state(torch.stack(items)))
        assert native_result == python


def test_one_object_is_held_the_same() -> None:
    def held() -> Any:
        made = NonTensorData._of_rows("a", torch.Size([2]), torch.device("cpu"), ("time",))
        meta = MetaData._of_rows({"a": 1}, torch.Size([]))
        return state(made), state(meta), made._lock

    native_result, python = in_both_modes(held)
    assert native_result == python
    assert native_result[1][0] is MetaData
