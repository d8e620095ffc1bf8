"""Collections made one: stack, cat and where, each value by itself as torch does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass
from tensorclass import (
    NonTensorData,
    Ragged,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    cat,
    lazy_stack,
    merge_tensordicts,
    stack,
    where,
)
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal, objects

Size = tuple[int, ...]


@st.composite
def alike(data: Callable[..., Any], tree: draw.Tree, count: int) -> list[draw.Tree]:
    """Trees with the keys, shapes and dtypes of one, and other values."""

    def other(entry: Any, by: int) -> Any:
        if isinstance(entry, draw.Leaf):
            return draw.Leaf(entry.rest, entry.dtype, entry.start + 100 * by)
        if isinstance(entry, draw.Tree):
            return draw.Tree({key: other(value, by) for key, value in entry.entries.items()}, entry.more)
        return data(st.just(entry) | draw.texts | draw.columns)

    return [tree, *(other(tree, by) for by in range(1, count))]


def each_value(combine: Callable[[Sequence[Any]], Any], items: Sequence[Any]) -> dict[Any, Any]:
    """What torch makes of the tensors under each key, and of the objects at each position."""
    first = items[0]
    keys = [key for key, value in first.items(True) if not isinstance(value, TensorDict)]
    return {key: _combined(combine, [item.get(key) for item in items]) for key in keys}


def _combined(combine: Callable[[Sequence[Any]], Any], values: list[Any]) -> Any:
    if isinstance(values[0], Tensor):
        return combine(values)
    table = [obj for value in values for obj in objects(value)]
    places, start = [], 0
    for value in values:
        places.append(torch.arange(start, start + value.numel()).reshape(value.batch_size))
        start += value.numel()
    return [table[i] for i in combine(places).flatten().tolist()]


def assert_values(result: Any, expected: dict[Any, Any]) -> None:
    assert_consistent(result)
    keys = [key for key, value in result.items(True) if not isinstance(value, TensorDict)]
    assert keys == list(expected)
    for key, value in expected.items():
        got = result.get(key)
        if isinstance(value, Tensor):
            assert got.dtype == value.dtype, key
            assert torch.equal(got, value), key
        else:
            assert objects(got) == value, key


# -- stack -------------------------------------------------------------------------------------------------------------


@given(draw.trees(), draw.shapes(), st.integers(1, 3), st.data())
def test_a_stack_holds_the_stacks_of_the_values(tree: draw.Tree, size: Size, count: int, data: st.DataObject) -> None:
    items = [other.build(size) for other in data.draw(alike(tree, count))]
    dim = data.draw(st.integers(-len(size) - 1, len(size)))
    result = stack(items, dim)
    at = dim % (len(size) + 1)  # a nested collection, and a leaf, have dimensions behind
    assert result.batch_size == (*size[:at], count, *size[at:])
    assert_values(result, each_value(lambda values: torch.stack(list(values), at), items))


@given(draw.trees(), draw.shapes(), st.integers(1, 3), st.data())
def test_unbinding_a_stack_gives_the_items_back(tree: draw.Tree, size: Size, count: int, data: st.DataObject) -> None:
    items = [other.build(size) for other in data.draw(alike(tree, count))]
    dim = data.draw(st.integers(-len(size) - 1, len(size)))
    for part, item in zip(stack(items, dim).unbind(dim), items, strict=True):
        assert_equal(part, item)


@pytest.mark.parametrize("dim", [3, -4])
def test_a_dim_of_stack_out_of_range_is_an_index_error_as_in_torch(dim: int) -> None:
    with pytest.raises(IndexError, match="dim"):
        stack([TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3])] * 2, dim)


def test_the_keys_come_in_the_order_of_the_first() -> None:
    rows = [TensorDict({"a": 1, "b": 2}), TensorDict({"b": 4, "a": 3})]
    result = stack(rows)
    assert list(result.keys()) == ["a", "b"]
    assert result["a"].tolist() == [1, 3]


def test_a_stack_is_on_the_device_of_the_first() -> None:
    on, off = TensorDict({"a": 1}, device="cpu"), TensorDict({"a": 1})
    assert stack([on, off]).device == torch.device("cpu")
    assert stack([off, on]).device is None


# -- cat ---------------------------------------------------------------------------------------------------------------


@given(draw.trees(), draw.shapes(min_dims=1), st.integers(1, 3), st.data())
def test_a_cat_holds_the_cats_of_the_values(tree: draw.Tree, size: Size, count: int, data: st.DataObject) -> None:
    dim = data.draw(draw.dims(len(size)))
    at = dim % len(size)
    sizes = [(*size[:at], data.draw(st.integers(0, 3)), *size[at + 1 :]) for _ in range(count)]
    items = [other.build(own) for other, own in zip(data.draw(alike(tree, count)), sizes, strict=True)]
    result = cat(items, dim)
    assert result.batch_size == (*size[:at], sum(own[at] for own in sizes), *size[at + 1 :])
    assert_values(result, each_value(lambda values: torch.cat(list(values), at), items))


@given(draw.trees(), draw.shapes(min_dims=1), st.data())
def test_a_cat_of_the_parts_is_the_whole(tree: draw.Tree, size: Size, data: st.DataObject) -> None:
    dim = data.draw(draw.dims(len(size)))
    whole = tree.build(size, data.draw(draw.names_or_none(len(size))))
    assert_equal(cat(whole.split(2, dim), dim), whole)


@pytest.mark.parametrize("dim", [2, -3])
def test_a_dim_of_cat_out_of_range_is_refused_with_the_batch_size(dim: int) -> None:
    with pytest.raises(RuntimeError, match=r"cat: batch dimension out of range.*the batch size is \[2, 3\]"):
        cat([TensorDict({"a": torch.zeros(2, 3, 4)}, [2, 3])] * 2, dim)


def test_there_is_nothing_to_join_along_without_batch_dimensions() -> None:
    with pytest.raises(RuntimeError, match="there are no batch dimensions; give batch_size= when"):
        cat([TensorDict({"a": torch.zeros(3)})] * 2)


# -- what both have in common ------------------------------------------------------------------------------------------

both = pytest.mark.parametrize("combine", [stack, cat])


def sample(size: Sequence[int] = (2,), **values: Any) -> TensorDict:
    return TensorDict({"a": torch.zeros(*size, 3), **values}, size)


@both
@pytest.mark.parametrize("spelling", [list, tuple, iter])
def test_any_iterable_is_combined(combine: Any, spelling: Any) -> None:
    assert combine(spelling([sample(), sample()])).numel() == 4


@both
def test_torch_the_package_and_the_class_do_the_same(combine: Any) -> None:
    items = [sample(), sample()]
    expected = combine(items)
    name = combine.__name__
    for function in (getattr(torch, name), getattr(tensorclass, name), getattr(TensorDict, name)):
        assert_equal(function(items), expected)
        assert_equal(function(items, dim=0), expected)
        assert_equal(function(items, -1), combine(items, -1))


def test_torch_cat_has_its_other_names() -> None:
    items = [sample(), sample()]
    for function in (torch.concat, torch.concatenate):
        assert_equal(function(items), cat(items))  # type: ignore[arg-type]


@both
def test_an_empty_sequence_is_refused(combine: Any) -> None:
    with pytest.raises(RuntimeError, match=f"^{combine.__name__}: expected at least one collection, got an empty"):
        combine([])


@both
@pytest.mark.parametrize("position", [0, 1])
def test_an_item_that_is_no_collection_is_named(combine: Any, position: int) -> None:
    items: list[Any] = [sample(), sample()]
    items[position] = torch.zeros(2)
    with pytest.raises(TypeError, match=f"expected collections only, item {position} is a Tensor"):
        combine(items)


@both
def test_an_item_that_is_no_collection_is_named_before_keys_that_differ(combine: Any) -> None:
    items: list[Any] = [sample(), sample(b=torch.zeros(2)), torch.zeros(2)]
    with pytest.raises(TypeError, match="expected collections only, item 2 is a Tensor"):
        combine(items)


@both
def test_missing_and_further_keys_are_named_with_their_item(combine: Any) -> None:
    with pytest.raises(RuntimeError, match=r"item 1 lacks \['a'\] and has \['b'\] beyond those of item 0"):
        combine([sample(), TensorDict({"b": torch.zeros(2)}, [2])])
    with pytest.raises(RuntimeError, match=r"item 2 has \['b'\] beyond those of item 0"):
        combine([sample(), sample(), sample(b=torch.zeros(2))])


@both
def test_the_keys_of_nested_collections_are_named_with_their_place(combine: Any) -> None:
    with pytest.raises(RuntimeError, match=r"n: all collections need the same keys; item 1 lacks \['x'\]$"):
        combine([sample(n={"x": torch.zeros(2)}), sample(n={})])


def test_another_batch_size_is_named_with_its_item() -> None:
    with pytest.raises(RuntimeError, match=r"^stack: .* same batch size; item 0 has \[2\], item 1 has \[3\]"):
        stack([sample((2,)), sample((3,))])
    with pytest.raises(
        RuntimeError, match=r"same batch size but for dimension 0; item 0 has \[2, 3\], item 1 has \[2, 4\]"
    ):
        cat([sample((2, 3)), sample((2, 4))])
    with pytest.raises(RuntimeError, match=r"item 0 has \[2, 3\], item 1 has \[2\]"):
        cat([sample((2, 3)), sample((2,))])


@pytest.mark.parametrize("dim", [0, 1])
def test_the_size_along_the_dimension_of_a_cat_does_not_count(dim: int) -> None:
    size = [3, 3]
    size[dim] = 5
    with pytest.raises(RuntimeError, match=r"^cat: a: .* in dimension"):
        cat([sample((3, 3)), TensorDict({"a": torch.zeros(*size, 1)}, size)], dim)


@both
def test_batch_sizes_are_compared_without_values_too(combine: Any) -> None:
    with pytest.raises(RuntimeError, match=r"item 0 has \[2, 3\], item 1 has \[2, 4\]"):
        combine([TensorDict({}, [2, 3]), TensorDict({}, [2, 4])])


@both
@pytest.mark.parametrize("other", [sample((2, 4)), sample((2, 3), b=torch.zeros(2, 3)), TensorDict({"a": {}}, [2, 3])])
def test_an_error_says_once_what_does_not_fit(combine: Any, other: TensorDict) -> None:
    with pytest.raises(RuntimeError) as caught:
        combine([sample((2, 3)), other])
    assert caught.value.__suppress_context__


@both
def test_values_of_different_lengths_come_with_what_takes_them(combine: Any) -> None:
    rows = [TensorDict({"a": torch.zeros(2, n)}, [2]) for n in (3, 4)]
    with pytest.raises(RuntimeError, match=r"a: .*; pad_sequence pads rows of different lengths"):
        combine(rows)


@both
def test_an_error_in_the_code_of_a_tensor_subclass_is_raised_as_it_is(combine: Any) -> None:
    class Faulty(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func in (torch.stack, torch.cat):
                raise AttributeError("no such attribute")
            return super().__torch_function__(func, types, args, kwargs or {})

    data = TensorDict({"a": torch.zeros(2).as_subclass(Faulty)}, [2])
    with pytest.raises(AttributeError, match="no such attribute"):
        combine([data, data])


@both
@pytest.mark.parametrize("nested", [False, True])
def test_a_value_of_another_shape_is_named_with_its_key(combine: Any, nested: bool) -> None:
    items: list[Any] = [{"fits": torch.zeros(2), "bad": torch.zeros(2, n)} for n in (3, 4)]
    if nested:
        items = [{"n": item} for item in items]
    with pytest.raises(RuntimeError, match=f"{combine.__name__}: {'n: bad' if nested else 'bad'}: .*3.*4"):
        combine([TensorDict(item, [2]) for item in items])


KINDS: dict[str, Any] = {
    "tensor": torch.zeros(2),
    "collection": {"x": torch.zeros(2)},
    "empty collection": {},
    "object": "text",
}


@both
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
@pytest.mark.parametrize("names", [None, ["x"]])
def test_values_of_different_kinds_are_named_with_their_key(combine: Any, first: str, second: str, names: Any) -> None:
    items = [TensorDict({"value": KINDS[kind]}, [2], names=names) for kind in (first, second)]
    if first == second:
        combine(items)
    else:
        with pytest.raises(RuntimeError, match=f"{combine.__name__}: value: "):
            combine(items)


@both
@pytest.mark.parametrize(
    "other", [UnbatchedTensor(torch.zeros(2)), TensorDict({}, [2])], ids=lambda v: type(v).__name__
)
def test_an_object_and_a_value_of_another_kind_are_named_by_their_classes(combine: Any, other: Any) -> None:
    kinds = rf"item 0 is a NonTensorData, item 1 a {type(other).__name__}$"
    with pytest.raises(RuntimeError, match=f"^{combine.__name__}: v: {kinds}"):
        combine([sample(v="text"), sample(v=other)])
    with pytest.raises(RuntimeError, match=rf"^{combine.__name__}: item 0 is a NonTensorData, item 1 a TensorDict$"):
        combine([NonTensorData("text", batch_size=[2]), sample()])


class One(TensorClass):
    a: Tensor


class Two(TensorClass):
    a: Tensor


@both
def test_records_of_two_classes_are_refused_and_fit_into_a_tensordict(combine: Any) -> None:
    one, two = (kind(torch.zeros(2, 3), batch_size=[2]) for kind in (One, Two))
    for other in (two, sample(), sample((3, 2))):
        with pytest.raises(
            TypeError, match=f"{combine.__name__}: .* class One only; item 1 is a {type(other).__name__}"
        ):
            combine([one, other])
    assert type(combine([one, one])) is One
    assert type(combine([sample(), two])) is TensorDict


@both
def test_equal_objects_stay_one_object(combine: Any) -> None:
    result = combine([sample(text="same"), sample(text="same")])
    assert isinstance(result.get("text"), NonTensorData)
    assert result["text"] == "same"


def test_different_objects_are_kept_for_each_position() -> None:
    items = [sample(text="one"), sample(text="two")]
    assert stack(items)["text"] == [["one", "one"], ["two", "two"]]
    assert stack(items, 1)["text"] == [["one", "two"], ["one", "two"]]
    assert cat(items)["text"] == ["one", "one", "two", "two"]


@pytest.mark.parametrize(
    "names, stacked", [(["x", "x"], "x"), (["x", "y"], None), (["x", None], None), ([None, "x"], None)], ids=repr
)
def test_a_stack_has_the_dimension_names_of_all_and_cat_those_of_the_first(names: Any, stacked: str | None) -> None:
    items = [
        TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2), "t": "t"}}, [2], names=[name]) for name in names
    ]
    assert stack(items).names == [None, stacked]
    assert cat(items).names == [names[0]]
    for result in (stack(items), cat(items)):
        assert_consistent(result)


@both
def test_gradients_flow_to_every_item(combine: Any) -> None:
    leaves = [torch.ones(2, requires_grad=True) for _ in range(2)]
    (combine([TensorDict({"a": leaf}, [2]) for leaf in leaves])["a"].flatten() * torch.arange(4)).sum().backward()
    assert [leaf.grad.tolist() for leaf in leaves] == [[0, 1], [2, 3]]  # type: ignore[union-attr]


# -- rows of different lengths -----------------------------------------------------------------------------------------


def jagged(*lengths: int) -> TensorDict:
    """A row of counted numbers for each length."""
    rows = [torch.arange(length) for length in lengths]
    return TensorDict({"a": torch.nested.as_nested_tensor(rows, layout=torch.jagged)}, [len(lengths)], names=["x"])


def test_a_cat_of_jagged_tensors_has_the_rows_of_all() -> None:
    result = cat([jagged(2, 1), jagged(3)])
    assert result.batch_size == (3,)
    assert [row.tolist() for row in result["a"].unbind()] == [[0, 1], [0], [0, 1, 2]]


def test_padding_gives_the_shorter_rows_a_value() -> None:
    data = TensorDict({"n": jagged(2, 1), "b": torch.ones(2)}, [2], names=["x"])
    padded = data.to_padded_tensor(-1)
    assert padded["n", "a"].tolist() == [[0, 1], [0, -1]]
    assert padded["b"] is data["b"]
    assert padded.names == ["x"]
    assert data.to_padded_tensor()["n", "a"].tolist() == [[0, 1], [0, 0]]


def test_a_mask_says_where_ragged_rows_are_not_padded() -> None:
    padded = TensorDict({"a": Ragged([[5, 6], [7]])}, [2]).to_padded_tensor(mask_key=("m", "mask"))
    assert padded["a"].tolist() == [[5, 6], [7, 0]]
    assert padded["m", "mask"].tolist() == [[True, True], [True, False]]


def test_one_mask_is_for_ragged_rows_of_the_same_lengths() -> None:
    data = TensorDict({"a": Ragged([[5, 6], [7]]), "b": Ragged([[1, 2], [3]])}, [2])
    assert data.to_padded_tensor(mask_key="mask")["mask"].tolist() == [[True, True], [True, False]]
    data["b"] = Ragged([[1], [2, 3]])
    with pytest.raises(RuntimeError, match=r"one mask cannot mark the items of \['a', 'b'\]"):
        data.to_padded_tensor(mask_key="mask")


def test_a_mask_says_where_a_batch_of_rows_of_different_lengths_is_not_padded() -> None:
    rows = lazy_stack([TensorDict({"a": torch.ones(length)}, [length]) for length in (2, 1)])
    padded = rows.densify().to_padded_tensor(mask_key="mask")
    assert padded.batch_size == (2, 2)
    assert padded["mask"].tolist() == [[True, True], [True, False]]


def test_the_lazy_stacks_below_are_densified() -> None:
    lazy = lazy_stack([TensorDict({"a": torch.arange(length)}) for length in (2, 1)])
    data = TensorDict({"lazy": lazy, "b": torch.ones(2)}, [2], names=["x"])
    dense = data.densify()
    assert type(dense["lazy"]) is TensorDict
    assert dense["lazy", "a"].layout is torch.jagged
    assert dense["b"] is data["b"]
    assert dense.names == ["x"]


def test_a_lazy_stack_of_the_slices_along_a_dimension() -> None:
    data = TensorDict({"a": torch.arange(6).view(2, 3)}, [2, 3], names=["x", "y"])
    for dim in (0, 1, -1):
        lazy: Any = data.to_lazystack(dim)
        assert lazy.stack_dim == dim % 2
        assert lazy.names == ["x", "y"]
        assert torch.equal(lazy["a"], data["a"])
        assert lazy.tensordicts[0]["a"].data_ptr() == data["a"].data_ptr()
    assert data.to_lazystack().stack_dim == 0  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match=r"to_lazystack: dimension 1 of \[3, 0\] has size 0"):
        TensorDict({}, [3, 0]).to_lazystack(-1)


@pytest.mark.parametrize("stacked", [TensorDict.lazy_stack, TensorDict.maybe_dense_stack, TensorDict.stack])
def test_methods_that_stack_take_a_dimension_and_out(stacked: Callable[..., Any]) -> None:
    rows = [TensorDict({"a": torch.arange(3) + i}, [3]) for i in range(2)]
    assert torch.equal(stacked(rows)["a"], torch.stack([row["a"] for row in rows]))
    assert torch.equal(stacked(rows, 1)["a"], torch.stack([row["a"] for row in rows], 1))
    out = TensorDict({"a": torch.zeros(2, 3, dtype=torch.int64)}, [2, 3])
    assert stacked(rows, out=out) is out
    assert out["a"].tolist() == [[0, 1, 2], [1, 2, 3]]


def test_methods_that_stack_lazily_take_the_options_of_lazy_stack() -> None:
    rows = [TensorDict({"a": torch.zeros(length)}) for length in (2, 1)]
    for stacked in (TensorDict.lazy_stack, TensorDict.maybe_dense_stack):
        assert stacked(rows, stack_dim_name="time").names == ["time"]


def test_no_mask_marks_a_batch_of_one_size() -> None:
    with pytest.raises(RuntimeError, match="mask_key: a mask marks padded elements of the batch, and no batch dim"):
        jagged(2, 1).to_padded_tensor(mask_key="mask")


# -- out ---------------------------------------------------------------------------------------------------------------

SIZE_OF = {stack: (2, 2), cat: (4,), where: (2,)}


def combined(combine: Any, **kwargs: Any) -> Any:
    """Ones and twos in two items, combined."""
    items = [
        TensorDict({"a": torch.full((2, 3), value), "n": {"b": torch.full((2,), value)}, "text": text}, [2])
        for value, text in ((1.0, "one"), (2.0, "two"))
    ]
    return where(torch.tensor([True, False]), *items, **kwargs) if combine is where else combine(items, **kwargs)


def zeros_for(combine: Any) -> TensorDict:
    size = SIZE_OF[combine]
    return TensorDict({"a": torch.zeros(*size, 3), "n": {"b": torch.zeros(size)}, "text": None}, size)


all_three = pytest.mark.parametrize("combine", [stack, cat, where])


@all_three
@pytest.mark.parametrize("lock", [False, True])
def test_out_gets_the_result_in_place(combine: Any, lock: bool) -> None:
    out = zeros_for(combine)
    leaves = dict(out.items(True, True))
    if lock:
        out.lock_()
    assert combined(combine, out=out) is out
    assert all(out[key] is leaf for key, leaf in leaves.items())
    assert_equal(out, combined(combine))


@all_three
def test_out_gets_the_keys_that_it_lacks(combine: Any) -> None:
    out = TensorDict({}, SIZE_OF[combine])
    assert_equal(combined(combine, out=out), combined(combine))


@all_three
def test_out_keeps_the_keys_that_the_result_lacks(combine: Any) -> None:
    out = zeros_for(combine)
    out["more"] = torch.ones(SIZE_OF[combine])
    assert combined(combine, out=out)["more"].all()


@all_three
def test_out_of_another_batch_size_is_refused(combine: Any) -> None:
    with pytest.raises(RuntimeError, match=r"out: expected the batch size of the result, .*, got \[7\]"):
        combined(combine, out=TensorDict({}, [7]))


# -- where -------------------------------------------------------------------------------------------------------------


@given(draw.trees(), draw.shapes(), st.data())
def test_where_takes_each_item_from_one_side(tree: draw.Tree, size: Size, data: st.DataObject) -> None:
    one, two = (other.build(size) for other in data.draw(alike(tree, 2)))
    depth = data.draw(st.integers(0, len(size)))
    condition = torch.as_tensor(data.draw(draw.masks(size[:depth])), dtype=torch.bool)

    def choose(values: Sequence[Tensor]) -> Tensor:
        return torch.where(condition.reshape(size[:depth] + (1,) * (values[0].ndim - depth)), values[0], values[1])

    result = where(condition, one, two)
    assert result.batch_size == size
    assert_values(result, each_value(choose, [one, two]))


CONDITION = torch.tensor([True, False, True])


@pytest.mark.parametrize("other", [0, 0.0, torch.tensor(0.0), torch.zeros(3), torch.zeros(1)], ids=repr)
def test_where_takes_a_number_or_a_tensor_over_the_batch_for_all_values(other: Any) -> None:
    data = TensorDict({"a": torch.ones(3, 2), "n": {"b": torch.ones(3)}, "text": "t"}, [3])
    result = where(CONDITION, data, other)
    assert result["a"].tolist() == [[1, 1], [0, 0], [1, 1]]
    assert result["n", "b"].tolist() == [1, 0, 1]
    assert result["text"] == "t"


@pytest.mark.parametrize("number", [0, torch.zeros(3)], ids=repr)
def test_where_takes_the_collection_on_either_side(number: Any) -> None:
    data = TensorDict({"a": torch.ones(3, 2), "text": "t"}, [3])
    assert_equal(where(CONDITION, number, data), where(~CONDITION, data, number))


def test_where_needs_a_collection() -> None:
    with pytest.raises(TypeError, match="where: expected at least one collection, got int, float"):
        where(CONDITION, 1, 2.0)


def test_where_writes_into_out_whichever_side_is_the_collection() -> None:
    out = TensorDict({"a": torch.zeros(3)}, [3])
    assert where(CONDITION, 5, TensorDict({"a": torch.ones(3)}, [3]), out=out) is out
    assert out["a"].tolist() == [5, 1, 5]


def test_out_of_where_can_take_over_the_batch_size() -> None:
    data, out = TensorDict({"a": torch.ones(3)}, [3]), TensorDict({"a": torch.ones(2, 4)}, [2])
    assert data.where(CONDITION, 0, out=out, update_batch_size=True) is out
    assert_equal(out, data.where(CONDITION, 0))
    kept = out["a"].zero_()
    assert data.where(CONDITION, 2, out=out, update_batch_size=True)["a"] is kept
    assert kept.tolist() == [1, 2, 1]


def test_torch_the_package_and_the_method_do_the_same_where() -> None:
    one, two = TensorDict({"a": torch.ones(3)}, [3], names=["x"]), TensorDict({"a": torch.zeros(3)}, [3])
    expected = where(CONDITION, one, two)
    assert expected.names == ["x"]
    assert_equal(torch.where(CONDITION, one, two), expected)  # type: ignore[call-overload]
    assert_equal(one.where(CONDITION, two), expected)


def test_a_key_that_only_one_side_has_is_a_key_error_that_names_it() -> None:
    one, two = TensorDict({"n": {"a": torch.ones(3)}}, [3]), TensorDict({"n": {}}, [3])
    with pytest.raises(KeyError, match=r"'n\.a' is missing in the other collection"):
        where(CONDITION, one, two)
    with pytest.raises(KeyError, match=r"'n\.a' is missing in the first collection"):
        where(CONDITION, two, one)


def test_a_key_that_only_one_side_has_is_padded() -> None:
    one = TensorDict({"a": torch.ones(3), "n": {"c": torch.ones(3)}}, [3])
    two = TensorDict({"b": torch.zeros(3), "n": {"d": torch.zeros(3)}}, [3])
    result = where(CONDITION, one, two, pad=7)
    assert {key: result[key].tolist() for key in result.keys(True, True)} == {
        "a": [1, 7, 1],
        ("n", "c"): [1, 7, 1],
        ("n", "d"): [7, 0, 7],
        "b": [7, 0, 7],
    }


@pytest.mark.parametrize("shape", [(2,), (4,), (1, 3), (2, 3)], ids=repr)
def test_a_condition_that_does_not_fit_the_batch_is_refused_with_the_key(shape: Size) -> None:
    data = TensorDict({"a": torch.ones(3)}, [3])
    with pytest.raises(RuntimeError, match="where: a: "):
        where(torch.ones(shape, dtype=torch.bool), data, 0)


def test_a_condition_over_feature_dimensions_cannot_choose_objects() -> None:
    one, two = (TensorDict({"text": text}, [3]) for text in "ab")
    with pytest.raises(RuntimeError, match="where: text: "):
        where(torch.ones(3, 2, dtype=torch.bool), one, two)


def test_a_value_that_does_not_fit_the_other_is_named_with_its_key() -> None:
    one, two = (TensorDict({"n": {"a": torch.ones(3, n)}}, [3]) for n in (2, 4))
    with pytest.raises(RuntimeError, match=r"where: n\.a: "):
        where(CONDITION, one, two)


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_where_does_not_choose_between_values_of_different_kinds(first: str, second: str) -> None:
    one, two = (TensorDict({"value": KINDS[kind]}, [2]) for kind in (first, second))
    if first != second and {first, second} != {"collection", "empty collection"}:
        with pytest.raises(RuntimeError, match="where: value: cannot choose between"):
            where(torch.tensor([True, False]), one, two)


@pytest.mark.parametrize("condition", [torch.ones(3), torch.ones(3, dtype=torch.long)], ids=repr)
def test_a_condition_that_is_not_boolean_is_refused(condition: Tensor) -> None:
    with pytest.raises(RuntimeError, match="boolean"):
        where(condition, TensorDict({"a": torch.ones(3)}, [3]), 0)


def test_a_condition_that_is_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a boolean tensor as the condition, got a bool"):
        where(True, TensorDict({"a": torch.ones(3)}, [3]), 0)  # type: ignore[arg-type]


def test_rows_of_a_named_batch_stack_to_one_with_as_many_names_as_dimensions() -> None:
    row = TensorDict({"a": torch.zeros(1), "text": "x"}, [1], names=["time"])[0]
    stacked = torch.stack([row, row])
    assert stacked.names == stacked.get("text").names == [None]


def test_padding_has_the_dtype_of_the_value_for_which_it_stands() -> None:
    full = TensorDict({"a": torch.ones(2), "n": {"b": torch.ones(2, dtype=torch.bool)}}, [2])
    part, keep = full.select("a"), torch.tensor([True, False])
    assert full.where(keep, part, pad=0)["n", "b"].tolist() == [True, False]
    assert part.where(keep, full, pad=0)["n", "b"].tolist() == [False, True]
    assert full.where(keep, part, pad=0)["n", "b"].dtype is torch.bool


# -- merge_tensordicts -------------------------------------------------------------------------------------------------


def parts() -> list[TensorDict]:
    """Collections with a key that all have, keys that some have, and an object."""
    return [
        TensorDict({"all": torch.ones(2), "n": {"all": torch.ones(2)}, "text": "one"}, [2], names=["x"]),
        TensorDict({"all": torch.full((2,), 2.0), "n": {"all": torch.full((2,), 2.0), "two": torch.ones(2)}}, [2]),
        TensorDict({"all": torch.full((2,), 4.0), "n": {"all": torch.full((2,), 4.0)}, "text": "three"}, [2]),
    ]


def test_a_merge_has_the_keys_of_all_and_the_values_of_the_first_that_has_them() -> None:
    one, two, three = parts()
    merged = merge_tensordicts(one, two, three)
    assert sorted(map(str, merged.keys(True))) == sorted(map(str, ["all", "n", ("n", "all"), ("n", "two"), "text"]))
    assert merged["all"] is one["all"]
    assert merged["n", "all"] is one["n", "all"]
    assert merged["n", "two"] is two["n", "two"]
    assert merged["text"] == "one"
    assert merged.names == ["x"]
    assert "two" not in one["n"]


def test_a_callback_merges_the_values_of_a_tensor_that_all_have() -> None:
    merged = merge_tensordicts(*parts(), callback_exist=lambda *values: values[0] + 10 * values[1] + 100 * values[2])
    assert merged["all"].tolist() == merged["n", "all"].tolist() == [421, 421]
    assert merged["n", "two"].tolist() == [1, 1]
    assert merged["text"] == "one"


@pytest.mark.parametrize("key", ["all", ("n", "all"), ("n", ("all",))], ids=repr)
def test_callbacks_are_given_by_key(key: Any) -> None:
    merged = merge_tensordicts(*parts(), callback_exist={key: lambda *values: sum(values)})
    sums = [merged[name].tolist() for name in ("all", ("n", "all"))]
    assert sums == ([[7, 7], [1, 1]] if key == "all" else [[1, 1], [7, 7]])


def test_what_cannot_be_merged_is_named() -> None:
    one, leaf = parts()[0], TensorDict({"n": {"all": {}}})
    with pytest.raises(RuntimeError, match="merge_tensordicts: expected at least two collections, got 1"):
        merge_tensordicts(one)
    with pytest.raises(TypeError, match="merge_tensordicts: expected collections, got a dict"):
        merge_tensordicts(one, {})  # type: ignore[type-var]
    for pair in ((one, leaf), (leaf, one)):
        with pytest.raises(TypeError, match=r"merge_tensordicts: 'n\.all' is a nested collection in some"):
            merge_tensordicts(*pair)
