"""Objects that are no tensors live in a collection and follow its batch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass import (
    Column,
    MetaData,
    NonTensorData,
    NonTensorStack,
    TensorCollection,
    TensorDict,
    cat,
    is_non_tensor,
    lazy_stack,
    pad,
    pad_sequence,
    stack,
)
from tensorclass.td.leaves import nontensor
from tests import strategies as draw
from tests.checks import assert_taken, objects, outcome, positions

Size = tuple[int, ...]


class Thing:
    """An object that is equal to itself only."""


class Grumpy:
    """An object that cannot be compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise ValueError("no comparison")


THING = Thing()
ARRAY = np.array(["a", "b"])
OBJECTS: dict[str, Any] = {
    "text": "text",
    "an empty text": "",
    "bytes": b"bytes",
    "None": None,
    "a dict": {"a": [1]},
    "a list in a set": frozenset({(1, 2)}),
    "a tuple of texts": ("a", "b"),
    "a class": Thing,
    "an object": THING,
    "a function": len,
    "an array of texts": ARRAY,
    "an array of objects": np.array([None, {}], dtype=object),
    "an ellipsis": ...,
}
any_object = pytest.mark.parametrize("value", OBJECTS.values(), ids=OBJECTS)

#: the object, or one for each position
holders = draw.texts | draw.columns


def held(entry: draw.Text | draw.Column, batch_size: Size) -> Any:
    """Non-tensor data as a collection holds it."""
    return draw.Tree({"it": entry}).build(batch_size).get("it")


# -- coming in and going out -------------------------------------------------------------------------------------------


@any_object
def test_an_object_comes_out_as_it_went_in(value: Any) -> None:
    data = TensorDict({}, [3]).set_non_tensor("key", value)
    assert data["key"] is value
    assert data.get("key").data is value
    assert data.get("key").batch_size == (3,)


@pytest.mark.parametrize("name", [name for name in OBJECTS if name != "a dict"])
def test_what_is_no_tensor_and_no_mapping_is_written_as_an_object(name: str) -> None:
    data = TensorDict({"key": OBJECTS[name]}, [3])
    data["other"] = OBJECTS[name]
    assert data["key"] is OBJECTS[name]
    assert data["other"] is OBJECTS[name]


def test_a_list_with_an_object_for_each_row_is_taken_apart() -> None:
    data = TensorDict({"text": ["a", "b", "c"], "mixed": [1, "b", None]}, [3])
    assert isinstance(data.get("text"), NonTensorStack)
    assert data[1]["text"] == "b"
    assert data[::2]["mixed"] == [1, None]


@given(draw.columns, draw.shapes(min_dims=1, min_size=1))
def test_nested_lists_as_deep_as_the_batch_go_in_as_they_come_out(column: draw.Column, batch_size: Size) -> None:
    nested = column.nested(batch_size)
    data = TensorDict({"it": nested}, batch_size)
    assert data["it"] == nested
    assert data.get("it").batch_size == batch_size


def test_a_list_of_objects_for_rows_belongs_to_every_position_of_its_row() -> None:
    assert TensorDict({"text": ["a", "b"]}, [2, 3])["text"] == [["a"] * 3, ["b"] * 3]


def test_a_list_in_a_collection_without_batch_dimensions_is_one_object() -> None:
    texts = ["a", "b"]
    assert TensorDict({"text": texts})["text"] is texts


def test_non_tensor_data_is_known_as_such() -> None:
    data = TensorDict({"text": "a", "column": ["a", "b"], "a": torch.zeros(2), "n": {}}, [2])
    assert {key: is_non_tensor(data.get(key)) for key in data.keys()} == {  # noqa: SIM118
        "text": True,
        "column": True,
        "a": False,
        "n": False,
    }
    assert data.is_non_tensor("column")
    assert not is_non_tensor("text")


def test_holders_are_made_directly_too() -> None:
    assert NonTensorData("a", batch_size=[2], names=["x"]).names == ["x"]
    assert NonTensorData(NonTensorData("a")).data == "a"
    assert NonTensorStack("a", None, "a").tolist() == ["a", None, "a"]
    assert NonTensorStack(NonTensorData("a", batch_size=[2]), NonTensorData("b", batch_size=[2])).batch_size == (2, 2)
    assert NonTensorStack.from_list([["a", "b"], ["c", "d"]]).tolist() == [["a", "b"], ["c", "d"]]


def test_a_stack_of_nothing_is_empty() -> None:
    assert NonTensorStack().batch_size == NonTensorStack.from_list([]).batch_size == (0,)
    assert NonTensorStack.from_list([[], []]).batch_size == (2, 0)
    assert NonTensorStack().tolist() == []


@given(holders, draw.shapes())
def test_tolist_is_nested_as_deep_as_the_batch(entry: Any, batch_size: Size) -> None:
    data = held(entry, batch_size)
    expected = np.empty(batch_size, dtype=object)
    for place, value in zip(np.ndindex(batch_size), objects(data), strict=True):
        expected[place] = [value]
    assert data.tolist() == _unwrapped(expected.tolist(), len(batch_size))


def _unwrapped(nested: Any, depth: int) -> Any:
    return [_unwrapped(item, depth - 1) for item in nested] if depth else nested[0]


def test_data_of_a_stack_is_the_object_that_is_at_all_positions() -> None:
    assert NonTensorStack("a", "a").data == NonTensorStack.from_list([["a"], ["a"]]).data == "a"
    assert NonTensorStack("a", "b", "b")[1:].data == "b"
    for column in (NonTensorStack("a", "b"), NonTensorStack()):
        with pytest.raises(AttributeError, match="the objects of this stack differ"):
            column.data


def test_data_of_a_stack_can_be_set_at_all_positions() -> None:
    column = NonTensorStack("a", "b")
    column.data = "c"
    assert column.tolist() == ["c", "c"]
    column.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        column.data = "d"


def test_data_of_one_object_can_be_set_unless_it_is_locked() -> None:
    data = TensorDict({"text": "a"}, [2])
    data.get("text").data = "b"
    assert data["text"] == "b"
    data.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        data.get("text").data = "c"


def test_it_has_no_keys() -> None:
    for data in (NonTensorData("a", batch_size=[2]), NonTensorStack("a", "b")):
        assert list(data.keys()) == list(data.values()) == list(data.items()) == []
        assert not data.is_empty()
        assert "a" not in data


def test_it_is_no_tensor_among_the_leaves() -> None:
    data = TensorDict({"n": {"text": "a", "column": ["a", "b"]}, "a": torch.zeros(2)}, [2])
    assert list(data.keys(True, True)) == ["a"]
    assert list(data.keys(True)) == ["n", ("n", "text"), ("n", "column"), "a"]


def test_its_repr_shows_the_object() -> None:
    assert (
        repr(NonTensorData("a", batch_size=[2])) == "NonTensorData(data='a', batch_size=torch.Size([2]), device=None)"
    )
    assert repr(NonTensorStack("a", 1)) == "NonTensorStack(['a', 1], batch_size=torch.Size([2]), device=None)"


# -- it follows the batch ----------------------------------------------------------------------------------------------


@given(holders, draw.shapes(), st.data())
def test_an_index_takes_the_objects_at_its_positions(entry: Any, batch_size: Size, data: st.DataObject) -> None:
    index = data.draw(draw.prepared_indices(batch_size))
    expected = outcome(lambda: positions(batch_size)[index])
    source = held(entry, batch_size)
    if isinstance(expected, Exception):
        with pytest.raises(type(expected)):
            source[index]
    else:
        result = source[index]
        assert result.batch_size == expected.shape
        assert objects(result) == [objects(source)[i] for i in expected.flatten().tolist()]


# the other operations move it as they move a nested collection: test_shape_operations draws it among the values


def test_the_one_object_at_a_position_is_one_object() -> None:
    column = NonTensorStack("a", "b")
    for part in (column[0], column[:1].squeeze(0), column[:1].reshape(()), column.unbind(0)[0], next(iter(column))):
        assert type(part) is NonTensorData
        assert part.data == "a"


def test_a_stack_stays_one_when_what_is_left_in_it_is_the_same() -> None:
    # so that a column of a batch is a list whatever its batch holds
    column = NonTensorStack("a", "b", "a")
    assert column[::2].tolist() == ["a", "a"]
    assert TensorDict({"text": column}, [3])[::2]["text"] == ["a", "a"]
    assert TensorDict({"text": column}, [3])[:0]["text"] == []


def test_names_follow_the_batch() -> None:
    data = TensorDict({"text": "a", "column": ["a", "b"]}, [2], names=["x"])
    for key in ("text", "column"):
        assert data.get(key).names == ["x"]
        assert data.unsqueeze(0).get(key).names == [None, "x"]
        assert stack([data, data], 1).get(key).names == ["x", None]
        assert cat([data, data]).get(key).names == ["x"]


@given(holders, draw.shapes(min_dims=1, min_size=1), st.data())
def test_a_reduction_leaves_an_object_that_was_there(entry: Any, batch_size: Size, data: st.DataObject) -> None:
    tree = draw.Tree({"it": entry, "a": draw.Leaf()})
    source = tree.build(batch_size)
    dim = data.draw(draw.dims(len(batch_size)))
    keepdim = data.draw(st.booleans())
    result = source.sum(dim, keepdim=keepdim)
    assert result.get("it").batch_size == result["a"].shape
    assert all(obj in objects(source.get("it")) for obj in objects(result.get("it")))


@pytest.mark.parametrize("keepdim", [False, True])
def test_a_reduction_over_no_rows_leaves_an_object(keepdim: bool) -> None:
    source = TensorDict({"text": "a", "a": torch.zeros(0), "column": NonTensorStack("a", "b")[:0]}, [0])
    result = source.sum(0, keepdim=keepdim)
    assert result["text"] == "a"
    assert result.get("column").batch_size == result["a"].shape


def test_numbers_leave_objects_alone() -> None:
    data = TensorDict({"text": "a", "column": ["a", "b"], "a": torch.ones(2)}, [2])
    for result in (data + 1, data * data, -data, data.exp(), data.apply(lambda x: x + 1), data.zero_(), data.float()):
        assert result["text"] == "a"
        assert result["column"] == ["a", "b"]


# -- several made one --------------------------------------------------------------------------------------------------


@any_object
def test_the_same_object_stays_one_object(value: Any) -> None:
    result = stack([NonTensorData(value), NonTensorData(value)])
    assert type(result) is NonTensorData
    assert result.batch_size == (2,)
    assert result.data is value


@pytest.mark.parametrize("make", [lambda: "text" + str(1), lambda: {"a": [1]}, lambda: (1, "a")])
def test_equal_objects_count_as_the_same(make: Callable[[], Any]) -> None:
    assert type(stack([NonTensorData(make()), NonTensorData(make())])) is NonTensorData


@pytest.mark.parametrize(
    "first, second",
    [("a", "b"), (1, True), (1, 1.0), (0, False), ("a", b"a"), (None, ""), ({"a": 1}, {"a": 2}), (Thing(), Thing())],
)
def test_different_objects_are_kept_apart(first: Any, second: Any) -> None:
    values = [first, second, first]
    for result in (
        stack([NonTensorData(value) for value in values]),
        cat([NonTensorData(value, batch_size=[1]) for value in values]),
        NonTensorStack(*values),
    ):
        assert type(result) is NonTensorStack
        assert all(got is expected for got, expected in zip(result.tolist(), values, strict=True))
    assert NonTensorData(first) != second
    assert not (NonTensorData(first) == NonTensorData(second)).any()


def test_eq_and_ne_take_the_default_that_they_take_for_other_values() -> None:
    data, other = NonTensorData("a", batch_size=[2]), NonTensorStack("a", "b")
    assert data.eq(other, default=0.0).tolist() == [True, False]
    assert data.ne(other, default=0.0).tolist() == [False, True]
    assert data.eq.__name__ == "eq"


@pytest.mark.parametrize("values", [(Grumpy(), Grumpy()), (np.array([1, 2]), np.array([1, 2]))], ids=["error", "array"])
def test_objects_whose_comparison_has_no_plain_answer_are_kept_apart(values: tuple[Any, Any]) -> None:
    result = NonTensorStack(*values, values[0])
    for got, expected in zip(result.tolist(), [*values, values[0]], strict=True):
        assert got is expected


@given(st.lists(holders, min_size=1, max_size=3), draw.shapes(), st.data())
def test_a_stack_holds_the_objects_of_its_items(entries: list[Any], batch_size: Size, data: st.DataObject) -> None:
    items = [held(entry, batch_size) for entry in entries]
    dim = data.draw(st.integers(-len(batch_size) - 1, len(batch_size)))
    for part, item in zip(stack(items, dim).unbind(dim), items, strict=True):
        assert objects(part) == objects(item)


@pytest.mark.parametrize("combine", [stack, cat])
def test_batch_sizes_that_do_not_fit_are_refused(combine: Any) -> None:
    items = [NonTensorData("a", batch_size=[2, size]) for size in (3, 4)]
    for second in ("a", "b"):
        items[1].data = second
        with pytest.raises(RuntimeError, match=r"item 0 has \[2, 3\], item 1 has \[2, 4\]"):
            combine(items)


@pytest.mark.parametrize("combine", [stack, cat])
def test_non_tensor_data_and_a_collection_are_not_combined(combine: Any) -> None:
    with pytest.raises(RuntimeError, match="item 0 is a NonTensorData, item 1 a TensorDict"):
        combine([NonTensorData("a", batch_size=[2]), TensorDict({}, [2])])


def test_one_object_is_made_a_stack_on_demand() -> None:
    one = NonTensorData("a", batch_size=[2], names=["x"])
    result = one.maybe_to_stack()
    assert type(result) is NonTensorStack
    assert result.tolist() == ["a", "a"]
    assert result.names == ["x"]
    assert result.maybe_to_stack() is result
    assert NonTensorStack.from_nontensordata(one).tolist() == ["a", "a"]


def test_one_object_without_batch_dimensions_is_no_stack() -> None:
    one = NonTensorData("a")
    assert one.maybe_to_stack() is one


# -- writing -----------------------------------------------------------------------------------------------------------


@given(holders, holders, draw.shapes(min_dims=1, min_size=1), st.data())
def test_writing_rows_replaces_the_objects_at_the_index_and_no_others(
    entry: Any, other: Any, batch_size: Size, data: st.DataObject
) -> None:
    index = data.draw(draw.prepared_indices(batch_size))
    where = outcome(lambda: positions(batch_size)[index])
    if isinstance(where, Exception) or where.numel() != where.unique().numel():
        return
    target, rows = held(entry, batch_size), held(other, tuple(where.shape))
    expected = objects(target)
    for place, value in zip(where.flatten().tolist(), objects(rows), strict=True):
        expected[place] = value
    target[index] = rows
    assert objects(target) == expected


def test_an_object_is_written_to_each_position_of_an_index() -> None:
    data = NonTensorData("a", batch_size=[3])
    data[1:] = "b"
    assert data.tolist() == ["a", "b", "b"]


def test_writing_the_object_that_is_there_leaves_one_object() -> None:
    data = TensorDict({"text": "a"}, [3])
    data[1] = {"text": "a"}
    assert data["text"] == "a"


def test_a_part_does_not_change_when_the_whole_is_written() -> None:
    data = TensorDict({"text": ["a", "b", "c"]}, [3])
    part, copied = data[:2], data.clone()
    data[0] = {"text": "new"}
    assert data["text"] == ["new", "b", "c"]
    assert part["text"] == copied[:2]["text"] == ["a", "b"]


@pytest.mark.parametrize("old", ["a", ["a", "b"]], ids=repr)
@pytest.mark.parametrize("new", ["new", ["x", "y"]], ids=repr)
@pytest.mark.parametrize(
    "write",
    [
        lambda data, new: data.__setitem__("text", new),
        lambda data, new: data.set("text", new),
        lambda data, new: data.update({"text": new}),
    ],
    ids=["setitem", "set", "update"],
)
def test_an_object_is_replaced(old: Any, new: Any, write: Callable[[Any, Any], Any]) -> None:
    data = TensorDict({"text": old, "a": torch.zeros(2)}, [2])
    holder = data.get("text")
    write(data, new)
    assert data["text"] == new
    assert data.get("text").batch_size == (2,)
    assert holder.tolist() == (old if isinstance(old, list) else [old] * 2)


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "set_": lambda data, new: data.set_("text", new),
    "set": lambda data, new: data.set("text", new, inplace=True),
    "update": lambda data, new: data.update({"text": new}, inplace=True),
    "update_": lambda data, new: data.update_({"text": new}),
    "copy_": lambda data, new: data.copy_(TensorDict({"text": new, "a": torch.zeros(2)}, [2])),
    "update itself": lambda data, new: data.get("text").update(holding(new), inplace=True),
    "update_ itself": lambda data, new: data.get("text").update_(holding(new)),
    "copy_ itself": lambda data, new: data.get("text").copy_(holding(new)),
}
in_place = pytest.mark.parametrize("write", IN_PLACE.values(), ids=IN_PLACE)


def holding(value: Any) -> Any:
    return NonTensorData(value, batch_size=[2]) if isinstance(value, str) else NonTensorStack(*value)


@pytest.mark.parametrize("locked", [False, True])
@pytest.mark.parametrize("old", ["a", ["a", "b"]], ids=repr)
@pytest.mark.parametrize("new", ["new", ["x", "y"]], ids=repr)
@in_place
def test_writing_in_place_reaches_all_that_have_the_holder(old: Any, new: Any, write: Any, locked: bool) -> None:
    data = TensorDict({"text": old, "a": torch.zeros(2)}, [2])
    other = TensorDict({"x": data.get("text")}, [2])
    if locked:
        data.lock_()
    write(data, new)
    expected = ["new", "new"] if new == "new" and isinstance(old, list) else new
    assert data["text"] == other["x"] == expected
    assert data.get("text").batch_size == (2,)


@pytest.mark.parametrize("name", ["set_", "set", "update", "update_"])
def test_what_is_written_in_place_does_not_follow_its_source(name: str) -> None:
    source = holding("new")
    data = TensorDict({"text": "a"}, [2])
    IN_PLACE[name](data, source)
    source.data = "changed"
    assert data["text"] == "new"


@pytest.mark.parametrize(
    "write", [lambda d: d.set_("text", "b"), lambda d: d.update_({"text": "b"})], ids=["set_", "update_"]
)
def test_writing_in_place_works_where_it_is_locked(write: Callable[[Any], Any]) -> None:
    data = TensorDict({"text": "a"}, [2]).lock_()
    write(data)
    assert data["text"] == "b"


@pytest.mark.parametrize(
    "write", [lambda d: d.set("text", "b"), lambda d: d.get("text").update("b")], ids=["set", "update"]
)
def test_it_cannot_be_replaced_where_it_is_locked(write: Callable[[Any], Any]) -> None:
    data = TensorDict({"text": "a"}, [2]).lock_()
    with pytest.raises(RuntimeError, match="locked"):
        write(data)
    assert data["text"] == "a"


def test_one_object_takes_the_batch_size_of_its_owner() -> None:
    data = TensorDict({"text": NonTensorData("a"), "more": NonTensorData("b", batch_size=[7])}, [2])
    assert data.get("text").batch_size == data.get("more").batch_size == (2,)


def test_a_stack_of_another_batch_size_is_refused_with_its_key() -> None:
    with pytest.raises(RuntimeError, match=r"text: .*\[3\].*\[2\]"):
        TensorDict({"text": NonTensorStack("a", "b")}, [3])


def test_the_batch_size_of_one_object_follows_that_of_its_owner() -> None:
    data = TensorDict({"a": torch.zeros(2, 3), "text": "t"}, [2])
    data.batch_size = [2, 3]
    assert data.get("text").batch_size == (2, 3)
    data.batch_size = []
    assert data[()]["text"] == "t"


def test_a_batch_size_that_a_stack_does_not_have_is_refused() -> None:
    data = TensorDict({"a": torch.zeros(2, 3), "text": ["a", "b"]}, [2])
    with pytest.raises(RuntimeError, match="text"):
        data.batch_size = [2, 3]
    assert data.batch_size == (2,)


# -- comparison --------------------------------------------------------------------------------------------------------


@given(holders, holders, draw.shapes())
def test_objects_are_compared_position_by_position(entry: Any, other: Any, batch_size: Size) -> None:
    one, two = held(entry, batch_size), held(other, batch_size)
    same = [type(a) is type(b) and a == b for a, b in zip(objects(one), objects(two), strict=True)]
    assert (one == two).flatten().tolist() == same
    assert (one != two).flatten().tolist() == [not equal for equal in same]
    assert (one == two).shape == (one != two).shape == batch_size


def test_a_stack_is_compared_with_an_object() -> None:
    assert (NonTensorStack("a", "b") == "a").tolist() == [True, False]
    assert (NonTensorStack("a", "b") != "a").tolist() == [False, True]
    assert (NonTensorStack(None, 1) == None).tolist() == [True, False]  # noqa: E711


def test_collections_that_differ_in_an_object_are_not_all_equal() -> None:
    one, two, three = (TensorDict({"a": torch.zeros(2), "text": text}, [2]) for text in ("x", "x", "y"))
    assert (one == two).all()
    assert not (one == three).all()
    assert (one != three).any()


# -- copies ------------------------------------------------------------------------------------------------------------


def owners(data: Any) -> TensorDict:
    return TensorDict({"it": data, "a": torch.zeros(data.batch_size)}, data.batch_size)


@given(holders, draw.shapes())
def test_a_pickle_brings_the_objects_back(entry: Any, batch_size: Size) -> None:
    source = owners(held(entry, batch_size))
    result = pickle.loads(pickle.dumps(source))
    assert_taken(result, source, positions(batch_size))
    assert type(result.get("it")) is type(source.get("it"))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda data: data.clone(), lambda data: data.update({}).clone()])
@pytest.mark.parametrize("value", [{"a": [1]}, [{"a": [1]}, {"b": 1}]], ids=repr)
def test_a_clone_has_copies_of_the_objects(copied: Callable[[Any], Any], value: Any) -> None:
    source = TensorDict({}, [2])
    source.set_non_tensor("it", value) if isinstance(value, dict) else source.set("it", value)
    result = copied(source)
    assert result["it"] == value
    for got, obj in zip(objects(result.get("it")), objects(source.get("it")), strict=True):
        assert got is not obj


@pytest.mark.parametrize(
    "copied",
    [copy.copy, lambda data: data.copy(), lambda data: data.clone(recurse=False), lambda data: data.to_tensordict()],
)
@pytest.mark.parametrize("value", [{}, [{}, {"b": 1}]], ids=repr)
def test_a_shallow_copy_has_the_objects_themselves(copied: Callable[[Any], Any], value: Any) -> None:
    source = TensorDict({}, [2])
    source.set_non_tensor("it", value) if isinstance(value, dict) else source.set("it", value)
    result = copied(source)
    assert result.get("it") is not source.get("it")
    for got, obj in zip(objects(result.get("it")), objects(source.get("it")), strict=True):
        assert got is obj


def test_a_deep_copy_has_copies_of_the_objects() -> None:
    value: dict[str, Any] = {"a": [1]}
    source = TensorDict({}, [2]).set_non_tensor("it", value)
    result = copy.deepcopy(source)
    assert result["it"] == value
    assert result["it"] is not value


def test_a_deep_copy_keeps_what_is_one_object_one_object() -> None:
    shared = NonTensorData({"a": 1})
    first, second = copy.deepcopy([shared, shared])
    assert first is second
    thing = Thing()
    data = copy.deepcopy(TensorDict({"a": thing, "b": thing}))
    assert data["a"] is data["b"]


def test_an_object_that_refers_to_its_holder_is_copied_with_it() -> None:
    thing: Any = Thing()
    holder = thing.holder = NonTensorData(thing)
    copied = copy.deepcopy(holder)
    assert copied.data is not thing
    assert copied.data.holder is copied


@pytest.mark.parametrize("value", ["a", ["a", "b"]], ids=repr)
def test_moving_a_collection_moves_no_object(value: Any) -> None:
    source = TensorDict({"text": value, "a": torch.zeros(2)}, [2])
    result = source.to("meta")
    assert result["text"] == value
    assert result.get("text").device == result.device == torch.device("meta")
    assert result[:1]["text"] == (value if value == "a" else ["a"])
    assert source.get("text").device is None


def test_a_dtype_is_none_of_its_business() -> None:
    data = TensorDict({"column": ["a", "b"], "a": torch.zeros(2)}, [2])
    assert data.to(torch.float64)["column"] == ["a", "b"]


def test_it_is_a_collection_of_its_own_kind() -> None:
    assert issubclass(NonTensorData, TensorCollection)
    assert not isinstance(NonTensorData("a"), TensorDict)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_indices_on_an_accelerator_reach_the_objects_in_main_memory() -> None:
    data = TensorDict({"text": ["a", "b", "c"], "a": torch.zeros(3)}, [3]).to("cuda")
    index, mask = torch.tensor([2, 0], device="cuda"), torch.tensor([True, False, True], device="cuda")
    assert data[index]["text"] == ["c", "a"]
    assert data[mask]["text"] == ["a", "c"]
    assert data.gather(0, index)["text"] == ["c", "a"]
    assert torch.where(mask, data, data.flip(0))["text"] == ["a", "b", "c"]  # type: ignore[call-overload]
    data[index] = {"text": "new"}
    assert data["text"] == ["new", "b", "new"]


# -- results hold their own --------------------------------------------------------------------------------------------

RESULTS: dict[str, Callable[[Any], Any]] = {
    "+": lambda data: data + 1,
    "abs": lambda data: data.abs(),
    "==": lambda data: (data == data, data)[1].clone(False),
    "where": lambda data: torch.where(torch.tensor([True, False]), data, 0),  # type: ignore[call-overload]
    "clamp": lambda data: data.clamp(0, 1),
    "apply": lambda data: data.apply(lambda x: x + 1),
    "to": lambda data: data.to(torch.float64),
    "float": lambda data: data.double(),
    "detach": lambda data: data.detach(),
    "zeros_like": torch.zeros_like,
    "sum": lambda data: data.sum(0, keepdim=True),
    "cumsum": lambda data: data.cumsum(0),
    "index": lambda data: data[:],
    "clone": lambda data: data.clone(),
    "shallow clone": lambda data: data.clone(False),
    "to_tensordict": lambda data: data.to_tensordict(),
    "reshape": lambda data: data.reshape(2, 1),
    "stack": lambda data: stack([data, data]),
    "cat": lambda data: cat([data, data]),
    "gather": lambda data: data.gather(0, torch.tensor([0, 1])),
}


@pytest.mark.parametrize("text", ["old", ["a", "b"]], ids=repr)
@pytest.mark.parametrize("operation", RESULTS.values(), ids=RESULTS)
def test_a_result_does_not_change_when_its_source_is_written(operation: Callable[[Any], Any], text: Any) -> None:
    data = TensorDict({"a": torch.ones(2), "text": text}, [2])
    result = operation(data)
    before = result["text"]
    data.get("text").data = "new"
    data.set_("text", "newer")
    data[0] = {"text": "newest"}
    assert result["text"] == before


def test_what_works_in_place_keeps_the_holder() -> None:
    data = TensorDict({"a": torch.ones(2), "text": "old"}, [2])
    holder = data.get("text")
    data += 1
    for result in (data.zero_(), data.add_(1), data.apply_(lambda x: x)):
        assert result.get("text") is holder


# -- metadata ----------------------------------------------------------------------------------------------------------


def test_metadata_is_one_object_for_the_batch() -> None:
    config = {"lr": 1}
    data = TensorDict({"config": MetaData(config), "a": torch.zeros(2)}, [2])
    assert data["config"] is config
    for result in (data[0], data[:1], data.unsqueeze(0), data.expand(3, 2), data + 1, data.reshape(2, 1), data.sum(0)):
        assert type(result.get("config")) is MetaData
        assert result.get("config").batch_size == result.batch_size
        assert result["config"] is config
    assert repr(MetaData("a")) == "MetaData(data='a', batch_size=torch.Size([]), device=None)"
    assert is_non_tensor(MetaData("a"))
    assert MetaData(MetaData("a", batch_size=[2])).data == NonTensorData(MetaData("a")).data == "a"


@pytest.mark.parametrize("combine", [stack, cat])
def test_metadata_is_combined_by_identity(combine: Any) -> None:
    one, same, equal = (MetaData({"lr": 1}, batch_size=[2]) for _ in range(3))
    same.data = one.data
    assert type(combine([one, same])) is MetaData
    assert combine([one, same]).data is one.data
    assert type(combine([one, equal])) is NonTensorStack
    assert combine([one, equal]).tolist() == combine([equal, one]).tolist() == combine([one, same]).tolist()
    assert type(combine([one, NonTensorData(one.data, batch_size=[2])])) is NonTensorStack


def test_a_clone_of_metadata_is_about_something_else() -> None:
    one = MetaData({"lr": 1})
    assert type(stack([one, one.clone()])) is NonTensorStack
    assert type(stack([one, one.clone(False)])) is MetaData


def test_metadata_stays_metadata_when_it_is_written_in_place() -> None:
    data = TensorDict({"config": MetaData("a")}, [2])
    data.set_("config", "b")
    data.update_({"config": NonTensorData("c")})
    assert type(data.get("config")) is MetaData
    assert data["config"] == "c"
    data[0] = {"config": "d"}
    assert data["config"] == ["d", "c"]


def test_metadata_of_a_class_takes_only_its_instances() -> None:
    assert MetaData[int] is MetaData[int]
    assert issubclass(MetaData[int], MetaData)
    assert MetaData[int].__name__ == "MetaData[int]"
    one = MetaData[int](1, batch_size=[2])
    assert MetaData[int, str]("a").data == "a"
    with pytest.raises(TypeError, match=r"MetaData\[int\]: expected an instance of int, got str 'a'"):
        MetaData[int]("a")
    with pytest.raises(TypeError, match="expected an instance of int"):
        one.data = "a"
    with pytest.raises(TypeError, match="expected an instance of int"):
        TensorDict({"it": one}, [2]).set_("it", "a")
    with pytest.raises(TypeError):
        MetaData["x"]
    assert one.data == 1
    for copied in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), one.clone(), one[0], stack([one, one])):
        assert type(copied) is MetaData[int]
        assert copied.data == 1


# -- holders by themselves ---------------------------------------------------------------------------------------------


def test_a_program_can_keep_more_with_an_object() -> None:
    data = NonTensorData("a", {"from": "here"}, batch_size=[2])
    for result in (data, data[0], data.clone(), data.reshape(2, 1), pickle.loads(pickle.dumps(data))):
        assert result._metadata == {"from": "here"}
    assert NonTensorData("a")._metadata is None
    with pytest.raises(ValueError, match="can only be True"):
        NonTensorData("a", None, False)


def test_a_stack_is_made_along_any_dimension() -> None:
    items = [NonTensorData("a", batch_size=[2]), NonTensorStack("b", "c")]
    assert NonTensorStack(*items).tolist() == [["a", "a"], ["b", "c"]]
    assert NonTensorStack(*items, stack_dim=1).tolist() == [["a", "b"], ["a", "c"]]
    assert NonTensorStack(*items, stack_dim=-1, stack_dim_name="x").names == [None, "x"]
    assert NonTensorStack("a", "b", names=["x"], batch_size=[2]).names == ["x"]
    assert NonTensorStack.from_list([NonTensorData("a"), "b"]).tolist() == ["a", "b"]
    with pytest.raises(RuntimeError, match=r"expected the batch size \[3\], the items have \[2\]"):
        NonTensorStack("a", "b", batch_size=[3])
    with pytest.raises(RuntimeError, match=r"item 0 has \[2\], item 1 has \[\]"):
        NonTensorStack(items[0], "b")


def test_lists_of_different_lengths_are_objects() -> None:
    assert NonTensorStack.from_list([["a"], ["b", "c"]]).batch_size == (2,)
    assert NonTensorStack.from_list([["a"], "b"]).tolist() == [["a"], "b"]


def test_a_stack_grows_in_place() -> None:
    column = NonTensorStack("a", "b")
    column.append("c")
    column.insert(0, NonTensorData("x"))
    column.insert(-1, None)
    column.extend(["y", "z"])
    assert column.tolist() == ["x", "a", "b", None, "c", "y", "z"]
    assert column.batch_size == (7,)
    table = NonTensorStack.from_list([["a", "b"]])
    table.append("c")
    table.append(NonTensorStack("d", "e"))
    assert table.tolist() == [["a", "b"], ["c", "c"], ["d", "e"]]
    with pytest.raises(RuntimeError, match=r"expected the batch size \[2\] of a row, got \[\]"):
        table.append(NonTensorData("f"))
    column.lock_()
    with pytest.raises(RuntimeError, match="locked"):
        column.append("q")


def test_the_batch_size_of_a_stack_is_what_it_holds() -> None:
    column = NonTensorStack("a", "b")
    column.batch_size = [2]
    for size in ([], [3], [2, 1]):
        with pytest.raises(RuntimeError, match="does not fit this stack"):
            column.batch_size = size


def test_the_object_answers_for_the_key_data() -> None:
    one, several = NonTensorData("a", batch_size=[2]), NonTensorStack("a", "b")
    assert one.get("data") == "a"
    assert one.get("other", 1) == 1
    assert several.get("data") is None
    for holder in (one, several):
        holder.set("data", "z")
        assert holder.tolist() == ["z", "z"]
        for write in (lambda h: h.set("x", 1), lambda h: h.set_("data", 1), lambda h: h.set(("data", "x"), 1)):
            with pytest.raises(KeyError, match="has no keys"):
                write(holder)
        assert type(holder.select("x", strict=False)) is type(holder.exclude("x")) is type(holder)
    one.set("data", None)
    assert one.data is None


def test_an_update_takes_no_keys() -> None:
    data = NonTensorData("a")
    assert data.update(None) is data
    assert data.data == "a"
    value = {"b": [1]}
    assert data.update(NonTensorData(value), clone=True).data == value
    assert data.data is not value
    for options in ({"keys_to_update": ["a"]}, {"a": 1}, {"update_batch_size": True}):
        with pytest.raises(ValueError, match="update"):
            data.update("b", **options)


def test_a_row_does_not_carry_the_column_along() -> None:
    column = NonTensorStack(*[f"a long text {i}" for i in range(10_000)])
    assert len(pickle.dumps(column[:2])) < 1000
    assert pickle.loads(pickle.dumps(column[:2])).tolist() == column[:2].tolist()
    target = NonTensorStack("a", "b")
    for i in range(100):
        target[0] = column[i]
    assert len(target._objects) < 50
    assert len(cat([column[i : i + 1] for i in range(3)])._objects) < 50


def test_lazy_stacks_of_objects_hold_them_row_by_row() -> None:
    assert lazy_stack([NonTensorData("a"), NonTensorData("b")]).tolist() == ["a", "b"]
    column = NonTensorStack("a", "b")
    assert column.to_lazystack() is column


def test_padding_is_none() -> None:
    column = NonTensorStack("a", "b")
    assert pad_sequence([column, column[:1]]).tolist() == [["a", "b"], ["a", None]]
    data = TensorDict({"text": column, "a": torch.ones(2)}, [2])
    assert pad_sequence([data, data[:1]])["text"] == [["a", "b"], ["a", None]]
    assert pad(data, [1, 0])["text"] == [None, "a", "b"]


def test_what_holds_objects_already_is_set_as_it_is() -> None:
    data = TensorDict({}, [2])
    data.set_non_tensor("column", NonTensorStack("a", "b"))
    data.set_non_tensor("about", MetaData("c"))
    data.set_non_tensor(("deep", "list"), ["a", "b"])
    assert data["column"] == ["a", "b"]
    assert type(data.get("about")) is MetaData
    assert data.get("about").batch_size == (2,)
    assert data[0]["deep", "list"] == ["a", "b"]


# -- as records and lazy stacks have it -------------------------------------------------------------------------------


def test_the_parts_of_a_stack_stacked_are_the_stack() -> None:
    texts = NonTensorStack.from_list([["a", "b"], ["c", "d"]])
    assert [part.tolist() for part in texts.tensordicts] == [["a", "b"], ["c", "d"]]
    assert NonTensorStack(*texts.tensordicts, stack_dim=texts.stack_dim).tolist() == texts.tolist()


@pytest.mark.parity
@pytest.mark.parametrize(
    "call",
    [
        lambda m, n: n.from_tensordict(m.TensorDict({"data": "q"}, batch_size=[2])).tolist(),
        lambda m, n: n.from_tensordict(m.TensorDict({}, batch_size=[2]), {"data": 3}).tolist(),
        lambda m, n: n.from_tensordict(m.TensorDict({})).data,
        lambda m, n: m.NonTensorStack("a", "b").stack_dim,
        lambda m, n: [part.data for part in m.NonTensorStack("a", "b").tensordicts],
    ],
)
def test_an_object_has_of_a_record_what_it_has_in_the_peer(call: Any) -> None:
    import tensordict

    import tensorclass

    assert call(tensorclass, tensorclass.NonTensorData) == call(tensordict, tensordict.NonTensorData)


def test_from_tensordict_takes_one_key_of_a_collection() -> None:
    with pytest.raises(ValueError, match=r"the only key is 'data'; unexpected: \['z'\]"):
        NonTensorData.from_tensordict(TensorDict({"z": 1}))
    with pytest.raises(TypeError, match="expected a collection, got a dict"):
        NonTensorData.from_tensordict({"data": "a"})
    assert NonTensorData.from_tensordict({"data": "a"}, safe=False).data == "a"


@pytest.mark.parametrize("make", [lambda items: NonTensorStack(*items), Column], ids=["stack", "column"])
def test_extend_joins_once_and_adds_all_rows_or_none(make: Any, monkeypatch: Any) -> None:
    rows = make([["a"], ["b"]])
    joined: list[int] = []
    real = nontensor.join_objects
    monkeypatch.setattr(
        nontensor, "join_objects", lambda items, join: (joined.append(len(items)), real(items, join))[1]
    )
    rows.extend([number] for number in range(1000))
    assert len(joined) == 1
    assert rows.tolist() == [["a"], ["b"], *([number] for number in range(1000))]
    rows.extend([])
    rows.extend([NonTensorData(["c"]), ["d"]])
    assert rows[1000:].tolist() == [[998], [999], ["c"], ["d"]]
    with pytest.raises(RuntimeError, match=r"extend: expected the batch size \[\] of a row, got \[2\]"):
        rows.extend([["e"], NonTensorData("f", batch_size=[2])])
    assert len(rows) == 1004


def test_extend_adds_rows_of_more_dimensions() -> None:
    rows = NonTensorStack.from_list([["a", "b"]])
    rows.extend(["c", NonTensorStack("d", "e")])
    rows.extend(["f"])
    assert rows.tolist() == [["a", "b"], ["c", "c"], ["d", "e"], ["f", "f"]]
