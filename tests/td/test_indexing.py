"""Reading and writing by index does on every value what torch does on a tensor of the shape of the batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from functorch.dim import dims
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import NonTensorData, NonTensorStack, TensorDict, lazy_stack, stack
from tests import strategies as draw
from tests.checks import (
    assert_consistent,
    assert_equal,
    assert_taken,
    leaf_pairs,
    objects,
    outcome,
    positions,
    shares_memory,
)


def as_torch(index: Any) -> Any:
    """An index with lists, ranges and arrays as tensors; torch itself reads a nested list as a tuple, deprecated."""
    if isinstance(index, tuple):
        return tuple(as_torch(item) for item in index)
    if isinstance(index, (list, range)):
        return torch.tensor(list(index)) if len(index) else torch.zeros(0, dtype=torch.long)
    if isinstance(index, Tensor) and index.dtype is torch.uint8:
        return index.bool()  # torch still takes it for a mask, with a warning
    return torch.as_tensor(index) if isinstance(index, np.ndarray) else index


def sample(batch_size: tuple[int, ...] = (4, 3), names: list[str | None] | None = None) -> TensorDict:
    """A leaf with and without feature dimensions, a nested collection with a longer batch size, and objects."""
    nested = draw.Tree({"c": draw.Leaf((2,)), "note": draw.Text("note")}, more=(5,))
    entries = {"a": draw.Leaf((2,)), "b": draw.Leaf(dtype=torch.int64), "nested": nested}
    return draw.Tree({**entries, "text": draw.Text(), "column": draw.Column()}).build(batch_size, names)


# -- reading ----------------------------------------------------------------------------------------------------------


@given(draw.trees(), draw.shapes(), st.data())
def test_an_index_takes_the_items_that_it_takes_from_a_tensor(
    tree: draw.Tree, batch_size: tuple[int, ...], data: st.DataObject
) -> None:
    source = tree.build(batch_size)
    index = data.draw(draw.indices(batch_size))
    expected = outcome(lambda: positions(batch_size)[as_torch(index)])
    if isinstance(expected, Exception):
        with pytest.raises(type(expected)):
            source[index]
    else:
        assert_taken(source[index], source, expected)


INDICES: dict[str, Any] = {
    "an int": 1,
    "a negative int": -1,
    "a numpy int": np.int32(2),
    "a tensor that holds an int": torch.tensor(-1),
    "an array that holds an int": np.array(1),
    "a slice": slice(1, 3),
    "a slice with a step": slice(None, None, 2),
    "a slice that goes beyond the end": slice(2, 100),
    "a slice of nothing": slice(3, 1),
    "a slice of numpy ints": slice(np.int64(1), np.int64(3)),
    "an ellipsis": ...,
    "an ellipsis in front": (..., 0),
    "an ellipsis in the middle": (0, ..., 0),
    "an ellipsis for nothing": (0, ..., slice(1, 2)),
    "None": None,
    "None behind a slice": (slice(None), None),
    "None behind an ellipsis": (..., None),
    "True": True,
    "False": False,
    "a tensor that holds a bool": torch.tensor(True),
    "an empty tuple": (),
    "a list": [0, -1, 2],
    "an empty list": [],
    "a list of bools": [True, False, True, False],
    "a nested list": [[0, 1], [2, 3]],
    "a list of numpy ints": [np.int64(0), np.int64(2)],
    "a tuple in a tuple": ((0, 1),),
    "a range": range(1, 4, 2),
    "a range in reverse": range(3, -1, -1),
    "an empty range": range(0),
    "an array": np.array([[0, 1, 3]]),
    "an array of bools": np.array([True, False, False, True]),
    "an array of bools over two dimensions": np.eye(4, 3) > 0,
    "a tensor": torch.tensor([3, 0]),
    "a tensor of int32": torch.tensor([3, 0], dtype=torch.int32),
    "a tensor of three dimensions": torch.zeros(2, 1, 2, dtype=torch.long),
    "a mask": torch.tensor([True, False, True, True]),
    "a mask over two dimensions": torch.eye(4, 3) > 0,
    "a mask of nothing": torch.zeros(4, dtype=torch.bool),
    "a mask of the second dimension": (slice(None), torch.tensor([True, False, True])),
    "a mask of uint8": torch.tensor([1, 0, 0, 1], dtype=torch.uint8),
    "a mask beside an int": (torch.tensor([True, False, True, True]), 1),
    "an int beside a mask": (1, torch.tensor([True, False, True])),
    "two tensors": (torch.tensor([0, 1]), torch.tensor([2, 0])),
    "two tensors that broadcast": (torch.tensor([[0], [1]]), torch.tensor([2, 0])),
    "two tensors around None": (torch.tensor([0, 1]), None, torch.tensor([2, 0])),
    "a tensor beside an int": (torch.tensor([0, 1]), 0),
    "a tensor beside True": (True, torch.tensor([0, 1])),
}  # fmt: skip


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_reading_with(index: Any) -> None:
    source = sample()
    assert_taken(source[index], source, positions((4, 3))[as_torch(index)])


@pytest.mark.parametrize("flag", [np.bool_(True), np.bool_(False)])
def test_a_numpy_bool_is_a_bool(flag: np.bool_) -> None:
    source = sample()
    assert_taken(source[flag], source, positions((4, 3))[bool(flag)])


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_an_empty_collection_is_indexed_by_its_batch_size_with(index: Any) -> None:
    empty = TensorDict({}, [4, 3])
    assert_taken(empty[index], empty, positions((4, 3))[as_torch(index)])


@given(draw.shapes(), st.data())
def test_a_key_gives_what_an_index_makes_of_its_value(batch_size: tuple[int, ...], data: st.DataObject) -> None:
    leaf = draw.Leaf((2,)).tensor(batch_size)
    index = data.draw(draw.indices(batch_size))
    expected = outcome(lambda: leaf[(*as_torch(index if isinstance(index, tuple) else (index,)), ...)])
    if not isinstance(expected, Exception) and not (isinstance(index, tuple) and ... in [i for i in index if i is ...]):
        assert torch.equal(TensorDict({"a": leaf}, batch_size)[index]["a"], expected)


WRONG: dict[str, Any] = {
    "too many ints": (0, 0, 0),
    "too many slices": (slice(None),) * 3,
    "too many behind an ellipsis": (..., 0, 0, 0),
    "too many beside None": (None, 0, 0, None, 0),
    "a mask of too many dimensions": torch.ones(4, 3, 2, dtype=torch.bool),
    "an int beyond the end": 4,
    "an int before the start": -5,
    "an int beyond the end of the second dimension": (0, 3),
    "a tensor beyond the end": torch.tensor([0, 4]),
    "a tensor that holds an int beyond the end": torch.tensor(4),
    "a list before the start": [0, -5],
    "a mask of another shape": torch.ones(3, dtype=torch.bool),
    "a mask of another shape in the second dimension": (0, torch.ones(4, dtype=torch.bool)),
    "tensors that do not broadcast": (torch.tensor([0, 1]), torch.tensor([0, 1, 2])),
    "a float": 1.0,
    "a tensor of floats": torch.tensor([0.0, 1.0]),
    "an array of floats": np.array([0.0]),
    "a list of floats": [0.0],
    "a list of slices": [slice(0, 1)],
    "a ragged list": [[0], [0, 1]],
    "a list of strings": ["a"],
    "a tensor of int16": torch.tensor([0, 1], dtype=torch.int16),
    "a dict": {},
    "an object": object(),
    "two ellipses": (..., ...),
}


@pytest.mark.parametrize("index", WRONG.values(), ids=WRONG)
def test_an_index_error_is_raised_for(index: Any) -> None:
    with pytest.raises(IndexError):
        sample()[index]


# the positions in a tensor are looked at by the values only
KNOWN_BY_SHAPE = {
    name: index for name, index in WRONG.items() if name not in ("a tensor beyond the end", "a list before the start")
}


@pytest.mark.parametrize("index", KNOWN_BY_SHAPE.values(), ids=KNOWN_BY_SHAPE)
def test_an_index_that_a_collection_refuses_an_empty_one_refuses_too(index: Any) -> None:
    with pytest.raises(IndexError):
        TensorDict({}, [4, 3])[index]


def test_a_tuple_that_begins_with_a_key_is_a_nested_key() -> None:
    with pytest.raises(TypeError, match="a key is a string"):
        sample()["a", 0]


def test_the_error_for_too_many_indices_names_the_batch_size() -> None:
    with pytest.raises(IndexError, match=r"too many indices: 3 of them for the batch size \[4, 3\]"):
        sample()[0, 0, 0]


def test_an_index_made_for_another_batch_size_is_refused() -> None:
    # the batch size of a lazy stack can change between the search of a mask and its use
    data = TensorDict({"a": torch.zeros(4, 3, 2)}, batch_size=[4])
    rows = torch.tensor([0, 1])
    with pytest.raises(IndexError, match=r"too many indices: 2 of them for the batch size \[4\]"):
        data._index_prepared((rows, rows))
    assert data._index_prepared((rows, None)).batch_size == (2, 1)


def test_a_mask_of_another_shape_is_named_with_the_dimensions_that_it_indexes() -> None:
    with pytest.raises(IndexError, match=r"the shape of the mask \[3\] does not match the batch dimensions \[4\]"):
        sample()[torch.ones(3, dtype=torch.bool)]


def test_a_slice_with_a_negative_step_is_a_value_error_as_in_torch() -> None:
    with pytest.raises(ValueError, match="step"):
        sample()[::-1]


def test_a_collection_without_batch_dimensions_has_no_items() -> None:
    with pytest.raises(IndexError):
        TensorDict({"a": torch.zeros(3)})[0]


def test_a_batch_dimension_is_not_left_for_a_feature_dimension() -> None:
    with pytest.raises(IndexError):
        TensorDict({"a": torch.zeros(3, 4)}, [3])[0, 0]


@pytest.mark.parametrize("index", [0, slice(1, 3), (slice(None), 0), None, (..., None), True, ()], ids=repr)
def test_memory_is_shared_when_torch_shares_it(index: Any) -> None:
    source = sample()
    where = positions((4, 3))
    for got, leaf in leaf_pairs(source[index], source):
        assert shares_memory(got, leaf) == shares_memory(where[index], where)


@pytest.mark.parametrize("index", [[0, 1], torch.tensor([0]), torch.ones(4, dtype=torch.bool), (0, [0, 1])], ids=repr)
def test_items_taken_by_position_are_copies(index: Any) -> None:
    source = sample()
    assert not any(shares_memory(got, leaf) for got, leaf in leaf_pairs(source[index], source))


def test_an_index_gives_another_collection_on_the_same_values() -> None:
    source = TensorDict({"a": torch.zeros(3)}, [3])
    for index in (slice(None), (), (...,)):
        part = source[index]
        part["b"] = torch.ones(3)
        assert "b" not in source


def test_the_index_of_a_locked_collection_gives_one_that_is_not_locked() -> None:
    source = sample().lock_()
    for index in (0, slice(0, 2), [0, 1], None):
        assert not source[index].is_locked
        assert not source[index]["nested"].is_locked


def test_gradients_flow_through_an_index() -> None:
    leaf = torch.ones(4, 2, requires_grad=True)
    TensorDict({"a": leaf}, [4])[[0, 0, 2]]["a"].sum().backward()
    assert leaf.grad is not None
    assert leaf.grad[:, 0].tolist() == [2.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    "index, names",
    [
        (0, ["y"]),
        (slice(0, 2), ["x", "y"]),
        ((slice(None), 0), ["x"]),
        (None, [None, "x", "y"]),
        (..., ["x", "y"]),
        ((..., None), ["x", "y", None]),
        ([0, 1], ["x", "y"]),
        ((slice(None), [0, 1]), ["x", "y"]),
        (torch.tensor([True, False, True, False]), ["x", "y"]),
        (torch.ones(4, 3, dtype=torch.bool), [None]),
        ([[0, 1]], [None, None, "y"]),
        (torch.tensor(0), ["y"]),
        (([0, 1], [0, 1]), [None]),
        (True, [None, "x", "y"]),
    ],
    ids=repr,
)
def test_the_names_after_an_index(index: Any, names: list[str | None]) -> None:
    result = sample(names=["x", "y"])[index]
    assert result.names == names
    assert_consistent(result)


@pytest.mark.parametrize(
    "index", [[2, 0], torch.tensor([2, 0]), slice(1, 3), torch.tensor([True, False, True])], ids=str
)
def test_rows_are_taken_from_jagged_tensors(index: Any) -> None:
    rows = [torch.arange(n) for n in (2, 1, 3)]
    ragged = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    source = TensorDict({"a": ragged, "n": {"b": torch.arange(3)}}, [3])
    taken = source[index]
    assert taken.batch_size == (2,)
    for row, place in zip(taken["a"].unbind(), taken["n", "b"].tolist(), strict=True):
        assert torch.equal(row, rows[place])
    assert taken["n", "b"].tolist() == torch.arange(3)[index].tolist()


# -- first-class dimensions -------------------------------------------------------------------------------------------


def test_a_first_class_dimension_stands_for_a_dimension_of_every_value() -> None:
    source, d0 = TensorDict({"a": torch.rand(4, 3), "n": {"b": torch.rand(4, 3, 2)}}, [4, 3], names=["x", "y"]), dims()
    bound = source[:, d0]
    assert bound.batch_size == bound["n"].batch_size == (4,)
    assert bound.names == bound["n"].names == ["x"]
    for key in ("a", ("n", "b")):
        assert torch.equal(bound[key].order(d0), source[key].transpose(0, 1))


def test_rows_are_written_at_a_first_class_dimension() -> None:
    target, d0 = TensorDict({"a": torch.zeros(4, 3), "n": {"b": torch.zeros(4, 3)}}, [4, 3]), dims()
    target[:, d0] = target[:, d0] + 1
    assert target["a"].eq(1).all()
    assert target["n", "b"].eq(1).all()
    with pytest.raises(RuntimeError, match=r"expected the batch size \[3\], got \[4\]"):
        target[d0] = target[:, d0]
    with pytest.raises(KeyError, match="new"):
        target[:, d0] = TensorDict({"new": torch.zeros(4)}, [4])


# -- rows one by one --------------------------------------------------------------------------------------------------


@given(draw.trees(), draw.shapes(min_dims=1))
def test_iterating_gives_the_rows(tree: draw.Tree, batch_size: tuple[int, ...]) -> None:
    source = tree.build(batch_size)
    rows = list(source)
    assert len(rows) == len(source) == batch_size[0]
    for row, where in zip(rows, positions(batch_size), strict=True):
        assert_taken(row, source, where)


def test_there_are_no_rows_to_iterate_over_without_batch_dimensions() -> None:
    with pytest.raises(TypeError, match=r"has no rows to iterate over; iterate over its entries with .keys\(\)"):
        iter(TensorDict({"a": 1}))


def test_a_data_loader_gives_batches_of_rows() -> None:
    source = TensorDict({"a": torch.arange(5), "text": "t"}, [5])
    batches = list(DataLoader(source, batch_size=2, collate_fn=lambda batch: batch))  # type: ignore[arg-type]
    assert [batch["a"].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]


def test_get_at_gives_the_item_of_a_key() -> None:
    source = sample()
    assert torch.equal(source.get_at("a", (0, 1)), source["a"][0, 1])
    assert torch.equal(source.get_at(("nested", "c"), -1), source["nested", "c"][-1])


def test_get_at_gives_the_default_for_a_missing_key() -> None:
    assert sample().get_at("missing", 0) is None
    assert sample().get_at("missing", 0, 5) == 5


# -- writing ----------------------------------------------------------------------------------------------------------


def written(batch_size: tuple[int, ...], index: Any, where: Tensor) -> Tensor:
    """The positions after writing new ones, counted from 1000, at an index."""
    result = positions(batch_size)
    result[as_torch(index)] = 1000 + positions(where.shape)
    return result


def writable(index: Any) -> bool:
    """Whether each position is written at most once: which of two comes last, torch leaves open."""
    return index.numel() == index.unique().numel()


def assert_written(result: Any, before: Any, rows: Any, where: Tensor, ndim: int) -> None:
    """The result holds rows where the positions say 1000 and more, and what was before elsewhere."""
    count = math.prod(before.batch_size[:ndim])
    own, new = where.clamp(max=max(count - 1, 0)), (where - 1000).clamp(min=0)
    for key, value in before.items():
        got = result.get(key)
        row = rows.get(key)
        rest = value.shape[ndim:]
        is_new = (where >= 1000).reshape(where.shape + (1,) * len(rest))
        if isinstance(value, Tensor):
            expected = torch.where(is_new, row.reshape(-1, *rest)[new], value.reshape(count, *rest)[own])
            assert torch.equal(got, expected), key
        elif isinstance(value, TensorDict):
            assert_written(got, value, row, where, ndim)
        else:
            each = math.prod(rest)
            for i, at in enumerate(where.flatten().tolist()):
                source, start = (objects(row), at - 1000) if at >= 1000 else (objects(value), at)
                assert objects(got)[i * each : (i + 1) * each] == source[start * each : (start + 1) * each], key


@given(draw.trees(), draw.shapes(min_size=1), st.data())
def test_writing_rows_changes_the_items_at_the_index_and_no_others(
    tree: draw.Tree, batch_size: tuple[int, ...], data: st.DataObject
) -> None:
    target = tree.build(batch_size)
    index = data.draw(draw.indices(batch_size))
    where = outcome(lambda: positions(batch_size)[as_torch(index)])
    if isinstance(where, Exception) or not where.numel() or not writable(where):
        return
    rows = tree.build(tuple(where.shape))
    before = target.clone()
    target[index] = rows
    assert target.batch_size == before.batch_size
    assert_consistent(target)
    assert_written(target, before, rows, written(batch_size, index, where), len(batch_size))


ONCE = {name: index for name, index in INDICES.items() if writable(positions((4, 3))[as_torch(index)])}


@pytest.mark.parametrize("index", ONCE.values(), ids=ONCE)
def test_writing_what_was_read_with(index: Any) -> None:
    source = sample()
    target = source.clone()
    for leaf in target.values(True, True):
        leaf.zero_()  # type: ignore[union-attr]
    target[index] = source[index]
    for got, leaf in leaf_pairs(target[index], source[index]):
        assert torch.equal(got, leaf)


@pytest.mark.parametrize("index", ONCE.values(), ids=ONCE)
def test_writing_a_mapping_is_writing_a_collection_of_it(index: Any) -> None:
    by_mapping, by_collection = sample(), sample()
    rows = sample()[index] + 100
    by_collection[index] = rows
    by_mapping[index] = {key: rows.get(key) for key in rows.keys()}  # noqa: SIM118
    assert_equal(by_mapping, by_collection)


@pytest.mark.parametrize("index", ONCE.values(), ids=ONCE)
def test_writing_a_number_writes_it_to_every_tensor(index: Any) -> None:
    target = sample()
    before = {key: leaf.clone() for key, leaf in target.items(True, True)}
    where = torch.zeros(4, 3, dtype=torch.bool)
    where[as_torch(index)] = True
    target[index] = -1
    for key, leaf in before.items():
        at = where.reshape(4, 3, *[1] * (leaf.ndim - 2))
        assert torch.equal(target[key], torch.where(at, -1, leaf))


def test_writing_a_tensor_broadcasts_it_to_every_value() -> None:
    target = TensorDict({"a": torch.zeros(4, 2), "b": torch.zeros(4, 3, 2)}, [4])
    target[1:3] = torch.tensor([1.0, 2.0])
    assert target["a"][1:3].tolist() == [[1.0, 2.0]] * 2
    assert target["b"][1:3].tolist() == [[[1.0, 2.0]] * 3] * 2
    assert not target["a"][[0, 3]].any()


def test_writing_a_tensor_of_the_items_and_their_features() -> None:
    target = TensorDict({"a": torch.zeros(4, 2), "b": torch.zeros(4, 3, 2)}, [4])
    rows = torch.arange(12.0).view(2, 3, 2)
    target.select("b")[1:3] = rows
    target.select("a")[[0, 3]] = rows[:, 0]
    assert torch.equal(target["b"][1:3], rows)
    assert torch.equal(target["a"][[0, 3]], rows[:, 0])


def test_rows_are_written_in_place() -> None:
    target = sample()
    before = dict(target.items(True, True))
    target[0] = sample()[1]
    assert all(target[key] is leaf for key, leaf in before.items())


def test_rows_are_written_into_a_locked_collection() -> None:
    target = sample().lock_()
    target[0] = target[1]
    assert torch.equal(target["a"][0], target["a"][1])


def test_rows_may_lack_keys_which_stay_as_they_are() -> None:
    target = sample()
    target[0] = {"b": torch.full((3,), -1)}
    assert target["b"][0].tolist() == [-1, -1, -1]
    assert torch.equal(target["a"], sample()["a"])


def test_a_value_is_cast_to_the_dtype_that_is_there() -> None:
    target = TensorDict({"a": torch.zeros(3)}, [3])
    target[1] = {"a": torch.tensor(7, dtype=torch.int64)}
    assert target["a"].dtype == torch.float32
    assert target["a"].tolist() == [0.0, 7.0, 0.0]


def test_a_row_broadcasts_behind_the_batch_dimensions() -> None:
    target = TensorDict({"a": torch.zeros(3, 2, 4)}, [3])
    target[:2] = TensorDict({"a": torch.tensor([[[1.0]], [[2.0]]])}, [2])
    assert target["a"][:, 0, 0].tolist() == [1.0, 2.0, 0.0]


@pytest.mark.parametrize("size", [(), (3,), (1,), (1, 3), (2, 1)], ids=repr)
def test_rows_are_expanded_to_the_items_that_they_are_written_to(size: tuple[int, ...]) -> None:
    target, other = sample(), sample()
    rows = draw.Tree({"a": draw.Leaf((2,), start=100)}).build(size)
    target[1:3] = rows
    other[1:3] = rows.expand(2, 3)
    assert_equal(target, other)


@pytest.mark.parametrize("value", [[1, 2], (1, 2), np.array([1.0, 2.0])], ids=repr)
def test_writing_a_list_or_an_array_writes_the_tensor_of_it(value: Any) -> None:
    target = TensorDict({"a": torch.zeros(4, 2)}, [4])
    target[1] = value
    assert target["a"].tolist() == [[0, 0], [1, 2], [0, 0], [0, 0]]


def test_a_number_leaves_objects_alone() -> None:
    target = TensorDict({"a": torch.zeros(2), "text": "t"}, [2])
    target[0] = 1
    assert target["text"] == "t"


@pytest.mark.parametrize("value", ["text", None, object()])
def test_an_object_cannot_be_written_by_index(value: object) -> None:
    with pytest.raises(TypeError, match="expected a collection, a mapping, a number or a tensor"):
        sample()[0] = value


def test_a_part_of_a_part_writes_into_the_whole() -> None:
    target = sample()
    target[1:3][0] = target[0]
    assert torch.equal(target["a"][1], target["a"][0])


@pytest.mark.parametrize("name", ["column", "text"])
def test_writing_another_object_into_some_rows_leaves_the_others(name: str) -> None:
    target = TensorDict({"a": torch.zeros(3), "text": "old"}, [3])
    if name == "column":
        target = stack([TensorDict({"a": torch.tensor(0.0), "text": text}) for text in ("old", "older", "old")])
    before = objects(target.get("text"))
    target[1] = {"a": 1.0, "text": "new"}
    assert target["text"] == [before[0], "new", before[2]]
    assert target["a"].tolist() == [0.0, 1.0, 0.0]


# -- writing into a collection that has no keys yet --------------------------------------------------------------------


@given(draw.trees(min_leaves=1), st.integers(1, 4), draw.shapes(max_dims=2, min_size=1, max_size=2), st.data())
def test_rows_written_one_by_one_in_any_order_into_an_empty_collection_make_the_stack(
    tree: draw.Tree, count: int, rest: tuple[int, ...], data: st.DataObject
) -> None:
    expected = tree.build((count, *rest))
    target = TensorDict({}, [count, *rest])
    for i in data.draw(st.permutations(range(count))):
        target[i] = expected[i]
    assert_equal(target, expected)


def test_a_row_may_come_before_the_first_with_other_keys() -> None:
    target = TensorDict({}, [3])
    target[2] = {"a": torch.ones(2)}
    target[0] = {"b": torch.tensor(5)}
    assert target["a"].tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    assert target["b"].tolist() == [5, 0, 0]


def test_rows_that_were_not_written_are_zeros_and_none() -> None:
    target = TensorDict({}, [3])
    target[1] = TensorDict({"a": torch.ones(2), "n": {"text": "hello", "b": torch.ones(())}})
    assert target["a"].tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert target["n", "text"] == [None, "hello", None]
    assert target["n", "b"].tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("index", [slice(1, 3), [0, 2], torch.tensor([True, False, True, False]), range(2)], ids=repr)
def test_several_rows_are_written_into_an_empty_collection(index: Any) -> None:
    target = TensorDict({}, [4])
    rows = TensorDict({"a": torch.tensor([1.0, 2.0]), "text": "t"}, [2])
    target[index] = rows
    assert torch.equal(target[index]["a"], rows["a"])
    assert target["a"].sum() == 3
    assert target[index]["text"] in ("t", ["t", "t"])


def test_a_value_is_allocated_on_the_device_of_the_collection() -> None:
    target = TensorDict({}, [3], device="cpu")
    target[0] = {"a": 1.0}
    assert target["a"].device == torch.device("cpu")
    assert_consistent(target)


def test_a_new_key_cannot_be_written_into_a_locked_collection() -> None:
    target = TensorDict({"a": torch.zeros(3)}, [3]).lock_()
    with pytest.raises(RuntimeError, match="locked"):
        target[0] = {"a": 1.0, "b": 1.0}
    assert list(target.keys()) == ["a"]
    assert target["a"].tolist() == [0.0, 0.0, 0.0]


def test_a_new_key_cannot_be_written_below_a_locked_collection() -> None:
    target = TensorDict({"n": {"a": torch.zeros(3)}}, [3]).lock_()
    with pytest.raises(RuntimeError, match="locked"):
        target[0] = {"n": {"b": 1.0}}
    assert list(target.keys(True, True)) == [("n", "a")]


# -- what does not fit -------------------------------------------------------------------------------------------------


def unchanged(target: TensorDict, write: Callable[[TensorDict], None], error: type[Exception]) -> str:
    """The message of a write that is refused; the target is as before."""
    before, keys = target.clone(), list(target.keys(True))
    with pytest.raises(error) as caught:
        write(target)
    assert list(target.keys(True)) == keys
    assert_equal(target, before)
    return str(caught.value)


def put(index: Any, rows: Any) -> Callable[[TensorDict], None]:
    def write(target: TensorDict) -> None:
        target[index] = rows

    return write


def test_rows_of_another_batch_size_are_refused_with_both_sizes() -> None:
    message = unchanged(sample(), put(slice(0, 2), sample()[:3]), RuntimeError)
    assert "the indexed batch size is [2, 3], the batch size of the rows is [3, 3]" in message


@pytest.mark.parametrize("shape", [(4,), (3,), (2, 2), (2, 1, 2), (1, 2), ()], ids=repr)
def test_a_value_of_another_shape_is_refused_before_anything_is_written(shape: tuple[int, ...]) -> None:
    # "first" fits: it must not be written either
    target = TensorDict({"first": torch.zeros(5), "n": {"bad": torch.zeros(5, 2)}}, [5])
    rows = TensorDict({"first": torch.ones(2), "n": {"bad": torch.ones(2, *shape)}}, [2])
    assert "n.bad" in unchanged(target, put(slice(0, 2), rows), RuntimeError)


def test_a_row_with_fewer_dimensions_is_not_taken_for_a_row_of_features() -> None:
    # two rows of one number each, where two rows of two numbers are: aligned from the right they would be transposed
    target = TensorDict({"a": torch.zeros(3, 2)}, [3])
    rows = TensorDict({"a": torch.tensor([1.0, 2.0])}, [2])
    assert "a" in unchanged(target, put(slice(0, 2), rows), RuntimeError)


@pytest.mark.parametrize(
    "old, new",
    [
        (torch.zeros(3), {"x": torch.zeros(())}),
        ({"x": torch.zeros(3)}, torch.zeros(())),
        (torch.zeros(3), "text"),
        ("text", torch.zeros(())),
        ({"x": torch.zeros(3)}, "text"),
        ("text", {"x": torch.zeros(())}),
        ({}, "text"),
    ],
    ids=["leaf and collection", "collection and leaf", "leaf and object", "object and leaf", "collection and object",
         "object and collection", "empty collection and object"],
)  # fmt: skip
def test_a_row_of_another_kind_is_refused_before_anything_is_written(old: Any, new: Any) -> None:
    target = TensorDict({"first": torch.zeros(3), "bad": old}, [3])
    message = unchanged(target, put(0, TensorDict({"first": torch.ones(()), "bad": new})), RuntimeError)
    assert "bad" in message


def test_a_tensor_that_does_not_fit_one_value_is_written_to_none() -> None:
    target = TensorDict({"first": torch.zeros(3, 2), "bad": torch.zeros(3, 5)}, [3])
    assert "bad" in unchanged(target, put(0, torch.ones(2)), RuntimeError)
    assert "n.bad" in unchanged(TensorDict({"n": target}, [3]), put(0, torch.ones(2)), RuntimeError)


@pytest.mark.parametrize("rest", [(2,), (2, 2)], ids=str)
def test_rows_taken_by_position_that_do_not_fit_one_value_are_written_to_none(rest: tuple[int, ...]) -> None:
    target = TensorDict({"first": torch.zeros(3), "bad": torch.zeros(3, *rest)}, [3])
    rows = TensorDict({"first": torch.ones(2), "bad": torch.ones(2, *rest[:-1], 5)}, [2])
    assert "bad" in unchanged(target, put([0, 2], rows), RuntimeError)
    assert "bad" in unchanged(target.select("bad"), put([0, 2], rows.select("bad")), RuntimeError)


@pytest.mark.parametrize("size", [(), (3, 2), (3, 2, 2)], ids=str)
def test_rows_whose_tensors_fit_by_chance_are_taken_by_their_batch_size(size: tuple[int, ...]) -> None:
    target = TensorDict({"a": torch.zeros(4, 3, 2, 2)}, [4, 3])
    unchanged(target, put(0, TensorDict({"a": torch.ones(3, 2, 2)}, size)), RuntimeError)


@pytest.mark.parametrize("index", [0, [0]], ids=str)
def test_rows_without_data_are_not_written(index: Any) -> None:
    target = TensorDict({"n": {"a": torch.zeros(3)}}, [3])
    message = unchanged(target, put(index, target[index].to("meta")), RuntimeError)
    assert message.startswith("n.a: cannot write rows without data, on the device meta, into a tensor on cpu")


def test_an_object_that_holds_the_collection_is_not_written_into_it() -> None:
    target = TensorDict({"a": torch.zeros(3)}, [3])
    with pytest.raises(ValueError, match="cannot be, or be below, one of its own values"):
        target[0] = {"itself": NonTensorData(target)}
    assert list(target.keys()) == ["a"]


def test_objects_in_files_of_a_lazy_stack_can_be_written_only_as_they_are(tmp_path: Path) -> None:
    texts = [["a", "b"], ["c", "d"]]
    parts = [TensorDict({"a": torch.zeros(2), "text": NonTensorStack(*text)}, [2]) for text in texts]
    lazy = lazy_stack([part.memmap_(tmp_path / str(i)) for i, part in enumerate(parts)])
    lazy[:, 0] = {"a": torch.ones(2), "text": NonTensorStack("a", "c")}
    with pytest.raises(RuntimeError, match="text: the objects and columns of a memory-mapped collection cannot"):
        lazy[:, 0] = {"a": torch.zeros(2), "text": NonTensorStack("a", "x")}
    assert lazy["a"].tolist() == [[1, 0], [1, 0]]


@pytest.mark.parametrize(
    "index", [3, -4, [0, 3], torch.tensor([0, -4]), (0, 0), torch.ones(2, dtype=torch.bool)], ids=repr
)
def test_nothing_is_written_at_an_index_out_of_range(index: Any) -> None:
    target = TensorDict({"a": torch.zeros(3)}, [3])
    rows = TensorDict({"new": torch.ones(2), "a": torch.ones(2)}, [2])
    unchanged(target, put(index, rows if isinstance(index, (list, Tensor)) else rows[0]), IndexError)


@pytest.mark.parametrize("index", [3, [0, 3], torch.tensor([-4])], ids=repr)
def test_no_number_is_written_at_an_index_out_of_range(index: Any) -> None:
    unchanged(TensorDict({"a": torch.zeros(3)}, [3]), put(index, 1), IndexError)


def test_a_nested_row_with_a_shorter_batch_size_is_written_as_its_values_are() -> None:
    target = TensorDict({"n": TensorDict({}, [3, 2])}, [3])
    target[0] = TensorDict({"n": TensorDict({"a": torch.ones(2, 4)}, [])})
    assert target["n", "a"].shape == (3, 2, 4)
    assert target["n", "a"][0].all()


def test_an_object_can_be_written_by_index_into_non_tensor_data() -> None:
    data = NonTensorData("a", batch_size=[3])
    data[1] = "b"
    assert data.tolist() == ["a", "b", "a"]


@pytest.mark.parametrize("index", [slice(2), [0, 1], torch.tensor([True, True, False])], ids=["slice", "list", "mask"])
def test_rows_of_another_dtype_are_cast_for_every_kind_of_index(index: Any) -> None:
    data = TensorDict({"a": torch.zeros(3), "b": torch.zeros(3)}, [3])
    data[index] = TensorDict({"a": torch.ones(2), "b": torch.ones(2, dtype=torch.int64)}, [2])
    assert data["a"].tolist() == data["b"].tolist() == [1.0, 1.0, 0.0]
    assert data["b"].dtype is torch.float32


def test_no_rows_can_be_asked_for() -> None:
    assert TensorDict({"a": torch.zeros(4, 2)}, [4]).__getitems__([])["a"].shape == (0, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.uint16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("rows", [[2, 0, 2], [-1, 1], []], ids=str)
def test_rows_at_positions_are_those_of_each_tensor(dtype: torch.dtype, rows: list[int]) -> None:
    value = torch.arange(12).view(4, 3).to(dtype)
    data = TensorDict({"x": value, "y": value.mT.contiguous().mT, "n": {"z": value[:, 0]}}, [4])
    index = torch.tensor(rows, dtype=torch.int64)
    found = data[index]
    assert found.batch_size == (len(rows),)
    for key in ("x", "y", ("n", "z")):
        assert torch.equal(found[key].view(torch.uint8), data[key][index].view(torch.uint8))
        assert found[key].dtype is dtype


def test_rows_at_positions_pass_gradients_on() -> None:
    value = torch.ones(3, 2, requires_grad=True)
    TensorDict({"x": value}, [3])[torch.tensor([0, 0, 2])]["x"].sum().backward()
    assert value.grad is not None
    assert value.grad.tolist() == [[2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize("rows", [[0, 3], [-4]], ids=str)
def test_rows_at_positions_that_are_not_there_are_an_error(rows: list[int]) -> None:
    with pytest.raises(IndexError, match=r"out of bounds|out of range"):
        TensorDict({"x": torch.ones(3, 2)}, [3])[torch.tensor(rows)]


def test_objects_in_files_are_not_written_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    data = TensorDict(x=torch.zeros(2), name=NonTensorStack("a", "b"), batch_size=[2]).memmap_(tmp_path)
    with pytest.raises(RuntimeError) as caught:
        data[0] = TensorDict(x=torch.ones(()), name=NonTensorData("c"), batch_size=[])
    assert str(caught.value) == (
        "name: the objects and columns of a memory-mapped collection cannot be written in place, because its files "
        "hold their rows one after the other. Append rows with other objects (append_memmap), save a new collection "
        "(memmap), or use a tensor of numbers instead. Nothing was written"
    )
    assert data["x"].tolist() == [0, 0]
