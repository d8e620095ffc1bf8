"""Lazy stacks: what is theirs alone. What they share with other collections is in test_lazy_stack_operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree

import tensorclass
from tensorclass import (
    LazyStackedTensorDict,
    NonTensorData,
    TensorClass,
    TensorDict,
    dense_stack_tds,
    lazy_stack,
    maybe_dense_stack,
)

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def part(value: float = 0.0, **more: Any) -> TensorDict:
    value = float(value)
    return TensorDict({"a": torch.full((3, 2), value), "n": {"b": torch.full((3,), value)}, **more}, [3])


def even(dim: int = 0) -> Any:
    return lazy_stack([part(0), part(1)], dim)


def uneven() -> Any:
    """Parts whose keys and shapes behind the batch differ."""
    return lazy_stack(
        [
            TensorDict({"a": torch.zeros(3, 2), "x": torch.zeros(3)}, [3]),
            TensorDict({"a": torch.ones(3, 5), "y": torch.zeros(3)}, [3]),
        ]
    )


def ragged() -> Any:
    """Parts whose batch sizes differ."""
    return lazy_stack([TensorDict({"a": torch.zeros(3, 2)}, [3]), TensorDict({"a": torch.ones(4, 2)}, [4])])


# -- making one -------------------------------------------------------------------------------------------------------


def test_nothing_is_copied() -> None:
    parts = [part(), part()]
    lazy = lazy_stack(parts)
    assert lazy.tensordicts[0] is parts[0]
    assert lazy[1] is parts[1]
    assert lazy.unbind(0)[0] is parts[0]
    lazy[0]["a"].fill_(5)
    assert (lazy["a"][0] == 5).all()


@pytest.mark.parametrize("dim, size", [(0, (2, 3)), (1, (3, 2)), (-1, (3, 2)), (-2, (2, 3))])
def test_the_new_dimension(dim: int, size: tuple[int, int]) -> None:
    lazy = lazy_stack([part(), part()], dim)
    assert isinstance(lazy, LazyStackedTensorDict)
    assert lazy.batch_size == size
    assert lazy.stack_dim == size.index(2)
    assert lazy["a"].shape == (*size, 2)
    assert lazy["n", "b"].shape == size


def test_different_batch_sizes_show_as_minus_one() -> None:
    assert ragged().batch_size == (2, -1)
    assert ragged().numel() == 7
    with pytest.raises(RuntimeError, match="same batch size"):
        lazy_stack(ragged().tensordicts, strict_shape=True)


@pytest.mark.parametrize(
    "items, dim, error, what",
    [
        ([], 0, RuntimeError, "at least one"),
        ([part(), 3], 0, TypeError, "item 1 is a int"),
        ([part(), TensorDict({}, [3, 1])], 0, RuntimeError, "item 1"),
        ([part()], 2, RuntimeError, "got 2"),
        ([TensorDict({}, [3], names=["x"]), TensorDict({}, [3], names=["y"])], 0, ValueError, "names"),
    ],
)
def test_what_cannot_be_stacked(items: Any, dim: int, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        lazy_stack(items, dim)


def test_names_and_device() -> None:
    lazy = lazy_stack([part(), part()], stack_dim_name="env", device="cpu")
    assert lazy.names == ["env", None]
    assert lazy.device == lazy[0].device == torch.device("cpu")
    assert lazy["n"].names == ["env", None]
    lazy.names = ["e", "t"]
    assert lazy[0].names == ["t"]


def test_the_constructor() -> None:
    lazy = LazyStackedTensorDict(part(), part(1), stack_dim=1, names=["x", "y"])
    assert lazy.names == ["x", "y"]
    assert LazyStackedTensorDict().batch_size == (0,)
    with pytest.raises(RuntimeError, match="make the batch size"):
        LazyStackedTensorDict(part(), batch_size=[4, 3])


def test_out() -> None:
    out = even()
    result = lazy_stack([part(5), part(6)], out=out)
    assert result is out
    assert (out[0]["a"] == 5).all()


def test_maybe_dense_stack_is_dense_where_it_can_be() -> None:
    assert type(maybe_dense_stack([part(), part()])) is TensorDict
    assert isinstance(maybe_dense_stack([part(), part(x=torch.zeros(3))]), LazyStackedTensorDict)
    with pytest.raises(RuntimeError, match="'x'"):
        maybe_dense_stack([part(), part(x=torch.zeros(3))], strict=True)


def test_dense_stack_tds() -> None:
    assert type(dense_stack_tds(even(1))) is TensorDict
    assert dense_stack_tds(even(1)).batch_size == (3, 2)
    assert isinstance(dense_stack_tds(uneven()), LazyStackedTensorDict)
    with pytest.raises(ValueError, match="dim"):
        dense_stack_tds([part(), part()])


def test_from_mappings() -> None:
    assert LazyStackedTensorDict.from_list([{"a": 1}, {"a": 2}])["a"].tolist() == [1, 2]
    assert LazyStackedTensorDict.from_dict({"0": {"a": 1}, "1": {"a": 2}})["a"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LazyStackedTensorDict.from_list([{"a": torch.zeros(2)}], batch_size=[7, 2]),
        lambda: LazyStackedTensorDict.from_list([{"a": torch.zeros(2)}], batch_size=[]),
        lambda: LazyStackedTensorDict.from_list([], batch_size=[3]),
        lambda: LazyStackedTensorDict.from_list([TensorDict({"a": torch.zeros(2)}, [2])], batch_size=[1, 3]),
        lambda: LazyStackedTensorDict.from_dict([{"a": torch.zeros(2)}] * 3, batch_size=[2, 4], stack_dim=1),
        lambda: LazyStackedTensorDict.from_dict([{"a": torch.zeros(2)}], batch_size=[]),
    ],
)
def test_a_batch_size_that_does_not_fit_the_parts_is_an_error(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()


def test_a_batch_size_has_the_number_of_parts_at_the_stack_dimension() -> None:
    parts = [{"a": torch.zeros(2, 5)}] * 3
    assert LazyStackedTensorDict.from_list(parts, batch_size=[3, 2]).batch_size == torch.Size([3, 2])
    assert LazyStackedTensorDict.from_dict(parts, batch_size=[2, 3], stack_dim=1).batch_size == torch.Size([2, 3])
    assert LazyStackedTensorDict.from_dict(parts, batch_size=[2, 3], stack_dim=-1).batch_size == torch.Size([2, 3])


# -- keys and shapes that differ --------------------------------------------------------------------------------------


def test_only_the_common_keys_are_there() -> None:
    lazy = uneven()
    assert list(lazy.keys()) == list(lazy.valid_keys()) == ["a"]
    assert "x" not in lazy
    assert lazy.get("x") is None
    with pytest.raises(KeyError, match="'x' not found"):
        lazy["x"]
    assert "x" in lazy[0]


def test_values_of_different_shapes_are_read_in_a_form() -> None:
    lazy = uneven()
    with pytest.raises(RuntimeError, match="as_padded_tensor"):
        lazy["a"]
    assert [tuple(value.shape) for value in lazy.get("a", as_list=True)] == [(3, 2), (3, 5)]
    padded = lazy.get("a", as_padded_tensor=True, padding_value=9)
    assert padded.shape == (2, 3, 5)
    assert (padded[0, :, 2:] == 9).all()
    left = lazy.get("a", as_padded_tensor=True, padding_side="left", padding_value=9)
    assert (left[0, :, :3] == 9).all()
    assert ragged().get("a", as_nested_tensor=True).layout is torch.jagged
    assert ragged().get("a", as_nested_tensor=True, layout=torch.strided).layout is torch.strided
    assert ragged().get_nestedtensor("a").layout is torch.strided
    assert lazy.get("missing", 7, as_list=True) == 7


@pytest.mark.parametrize("form", [{"as_lists": True}, {"as_list": True, "as_padded_tensor": True}])
def test_forms_that_are_none(form: Any) -> None:
    with pytest.raises((TypeError, RuntimeError), match="as_"):
        uneven().get("a", **form)


def test_a_form_is_for_lazy_stacks() -> None:
    with pytest.raises(TypeError, match="are for values of different shapes in a lazy stack"):
        part().get("a", as_list=True)
    assert len(TensorDict({"lazy": uneven()}, [2, 3]).get(("lazy", "a"), as_list=True)) == 2


def test_the_form_of_a_stack() -> None:
    lazy = lazy_stack(uneven().tensordicts, as_padded_tensor=True)
    assert lazy["a"].shape == (2, 3, 5)
    assert lazy.select("a")["a"].shape == (2, 3, 5)
    with pytest.raises(TypeError, match="unknown arguments"):
        lazy_stack([part()], padded=True)


def test_densify() -> None:
    assert type(even().densify()) is TensorDict
    dense = uneven().densify()
    assert dense["a"].is_nested
    assert ragged().densify(layout=torch.jagged)["a"].layout is torch.jagged
    assert TensorDict({"lazy": even()}, [2, 3]).densify()["lazy"].__class__ is TensorDict


def test_to_padded_tensor() -> None:
    data = ragged().to_padded_tensor(padding=5, mask_key="mask")
    assert data.batch_size == (2, 4)
    assert data["mask"].tolist() == [[True, True, True, False], [True] * 4]
    assert (data["a"][0, 3] == 5).all()
    for layout in (torch.strided, torch.jagged):
        again = ragged().densify(layout=layout).to_padded_tensor(padding=5, mask_key="mask")
        assert again.batch_size == (2, 4)
        assert torch.equal(again["a"], data["a"])
        assert torch.equal(again["mask"], data["mask"])
    assert uneven().to_padded_tensor()["a"].shape == (2, 3, 5)
    with pytest.raises(RuntimeError, match="nothing to tell"):
        uneven().to_padded_tensor(mask_key="mask")


@pytest.mark.parametrize(
    "operate",
    [
        lambda data: data + 1,
        lambda data: data * data,
        lambda data: data.apply(lambda x: x + 1),
        lambda data: data.to(torch.float64),
        lambda data: data.clone(),
        lambda data: data.unsqueeze(0),
        lambda data: data.permute(1, 0),
        lambda data: data[:1],
        lambda data: data[torch.tensor([1, 0])],
        lambda data: data.select("a"),
        lambda data: torch.zeros_like(data),
        lambda data: data.flatten_keys(),
        lambda data: data == data,
        lambda data: torch.stack([data, data]),
        lambda data: torch.cat([data, data]),
        lambda data: data.where(torch.tensor([[True], [False]]), data),
    ],
)
@pytest.mark.parametrize("make", [even, uneven, ragged])
def test_what_stays_lazy(operate: Any, make: Any) -> None:
    data = make()
    result = operate(data)
    assert isinstance(result, LazyStackedTensorDict)


def test_items_of_different_parts_repeat() -> None:
    assert uneven().repeat_interleave(2, 0).batch_size == (4, 3)
    assert uneven().repeat_interleave(torch.tensor([2, 1]), 0).batch_size == (3, 3)
    assert uneven().repeat_interleave(2, 1)[0]["x"].shape == (6,)


@pytest.mark.parametrize("make", [uneven, ragged])
def test_reshape_of_different_parts_gives_their_rows(make: Any) -> None:
    data = make()
    rows = data.reshape(-1)
    assert rows.batch_size == (data.numel(),)
    assert rows[3]["a"].sum() == data[1][0]["a"].sum()
    assert "x" in rows[0] or make is ragged


def test_masks_pick_rows_of_different_parts() -> None:
    mask = torch.tensor([[True, False, True], [False, False, True]])
    rows = uneven()[mask]
    assert rows.batch_size == (3,)
    assert [tuple(row["a"].shape) for row in rows] == [(2,), (2,), (5,)]


def test_view_never_copies() -> None:
    data = even()
    data.view(-1).zero_()
    assert data["a"].sum() == 0


def test_reductions_need_values_of_one_shape() -> None:
    assert type(even().sum(0)) is TensorDict
    with pytest.raises(RuntimeError, match="a: cannot stack"):
        uneven().sum(0)
    assert uneven().all() is False
    assert (uneven() == uneven()).all()


# -- writing ----------------------------------------------------------------------------------------------------------


def test_writes_go_to_the_parts() -> None:
    data = even()
    first, second = data.tensordicts
    data["c"] = torch.arange(6.0).reshape(2, 3)
    assert second["c"].tolist() == [3, 4, 5]
    data["n", "d"] = torch.ones(2, 3)
    assert first["n", "d"].tolist() == [1, 1, 1]
    data["text"] = ["x", "y"]
    assert (first["text"], second["text"]) == (["x"] * 3, ["y"] * 3) or (first["text"], second["text"]) == ("x", "y")
    del data["c"]
    assert "c" not in first
    assert "c" not in second
    data.update({"a": torch.ones(2, 3, 2)})
    assert first["a"].sum() == 6
    data.rename_key_("a", "z")
    assert "z" in second


def test_in_place_operations_reach_nested_stacks() -> None:
    outer = TensorDict({"x": even(), "y": torch.ones(2, 3)}, [2, 3])
    outer.add_(1)
    assert outer["x", "a"].mean() == 1.5
    outer.zero_()
    outer.fill_(("x", "a"), 3)
    assert outer["x"][0]["a"].sum() == 18
    outer.set_at_(("x", "a"), 0, 1)
    assert outer["x"][1]["a"].sum() == 0
    outer[0] = outer[1]
    assert outer["x"][0]["a"].sum() == 0


@pytest.mark.parametrize("index", [(0, True), (True, 1), ([1, 1],)])
def test_rows_are_written_to_parts_without_dimensions(index: Any) -> None:
    parts = [TensorDict({"a": torch.tensor(float(i))}) for i in range(2)]
    lazy, dense = lazy_stack(parts), torch.stack(parts)
    rows = torch.stack([TensorDict({"a": torch.tensor(5.0 + i)}) for i in range(dense[index].batch_size[0])])
    lazy[index] = rows
    dense[index] = rows
    assert lazy["a"].tolist() == dense["a"].tolist()


def test_rows_reach_a_nested_stack_of_more_dimensions() -> None:
    outer = TensorDict({"x": even(), "y": torch.ones(2)}, [2])
    outer[0] = {"x": {"a": torch.full((3, 2), 7.0)}}
    outer[torch.tensor([1])] = {"x": {"n": {"b": torch.full((1, 3), 8.0)}}}
    assert (outer["x"][0]["a"] == 7).all()
    assert (outer["x"][1]["n", "b"] == 8).all()
    with pytest.raises(RuntimeError):
        outer[0] = {"x": {"a": torch.zeros(3, 5)}, "y": torch.zeros(())}
    assert outer["y"].sum() == 2


def test_state_dicts_are_loaded_into_the_parts() -> None:
    outer = TensorDict({"x": even()}, [2, 3])
    outer.load_state_dict({key: torch.full_like(value, 5) for key, value in outer.state_dict().items()})
    assert (outer["x"][0]["a"] == 5).all()
    assert (outer["x"][1]["n", "b"] == 5).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.float32])
def test_a_tensor_over_the_parts_promotes_dtypes_as_one_with_dimensions_does(dtype: torch.dtype) -> None:
    data = lazy_stack([TensorDict({"a": torch.ones(2), "b": torch.ones(2).int()}) for _ in range(2)])
    factor = torch.tensor([2, 3], dtype=dtype)
    outer = TensorDict({"x": data, "y": torch.ones(2)}, [2])
    for result, expected in (
        (data * factor, data.contiguous() * factor),
        ((outer * factor)["x"], data.contiguous() * factor),
    ):
        for key in ("a", "b"):
            assert result[key].dtype == expected[key].dtype
            assert torch.equal(result[key], expected[key])


def test_ragged_values_are_written_one_a_part() -> None:
    data = ragged()
    data["list"] = [torch.zeros(3), torch.ones(4)]
    data["nested"] = torch.nested.nested_tensor([torch.zeros(3, 2), torch.ones(4, 2)])
    data["sub"] = {"x": [torch.zeros(3), torch.ones(4)]}
    data["text"] = "same"
    assert data[1]["nested"].shape == (4, 2)
    assert data[1]["sub", "x"].shape == (4,)
    assert data[0]["text"] == "same"
    with pytest.raises(RuntimeError, match="wrong"):
        data["wrong"] = torch.zeros(2, 3)
    assert "wrong" not in data[0]


def test_a_failed_write_changes_nothing() -> None:
    data = even()
    data.tensordicts[1]["a"] = torch.zeros(3, 7)
    with pytest.raises(RuntimeError):
        data.set_("a", torch.ones(2, 3, 2))
    assert data[0]["a"].sum() == 0
    with pytest.raises(RuntimeError):
        data.update_({"n": {"b": torch.ones(2, 3)}, "a": torch.ones(2, 3, 2)})
    assert data[0]["n", "b"].sum() == 0
    with pytest.raises(RuntimeError):
        data[:, 0] = {"n": {"b": torch.ones(2)}, "a": torch.ones(2, 2)}
    assert data[0]["n", "b"].sum() == 0
    with pytest.raises(RuntimeError):
        data.update({"new": torch.ones(2, 3), "n": torch.zeros(7)})
    assert "new" not in data[0]


def test_hooks() -> None:
    data = LazyStackedTensorDict(part(), part(), hook_in=lambda value: value + 1, hook_out=lambda value: value * 10)
    data["c"] = torch.zeros(2, 3)
    assert (data[0]["c"] == 1).all()
    assert (data["c"] == 10).all()


# -- parts ------------------------------------------------------------------------------------------------------------


def test_append_insert_extend() -> None:
    data = even()
    data.append(part(2))
    data.insert(0, part(-1))
    data.extend([part(3), part(4)])
    data.extend(even())
    assert data.batch_size == (8, 3)
    assert data["a"][:, 0, 0].tolist() == [-1, 0, 1, 2, 3, 4, 0, 1]


@pytest.mark.parametrize("what, error", [(TensorDict({}, [4]), ValueError), (3, TypeError)])
def test_parts_that_do_not_fit(what: Any, error: type[Exception]) -> None:
    data = even()
    with pytest.raises(error):
        data.append(what)
    with pytest.raises((error, RuntimeError)):
        data.extend([part(), what])
    assert data.batch_size == (2, 3)
    assert len(data.tensordicts) == 2


def test_a_locked_stack_keeps_its_parts_and_keys() -> None:
    data = even().lock_()
    assert data[0].is_locked
    assert data["n"].is_locked
    for change in (lambda: data.append(part()), lambda: data.set("c", torch.zeros(2, 3)), lambda: data.pop("a")):
        with pytest.raises(RuntimeError, match="locked"):
            change()
    with pytest.raises(RuntimeError, match="part of a locked"):
        data[0].unlock_()
    data.set_("a", torch.ones(2, 3, 2))
    with data.unlock_():
        data["c"] = torch.zeros(2, 3)
    assert data.is_locked
    assert data[0].is_locked


def test_what_with_undoes() -> None:
    for operate in (lambda d: d.view(-1), lambda d: d.unsqueeze(0), lambda d: d.permute(1, 0), lambda d: d.reshape(6)):
        data = even()
        with operate(data) as other:
            other["new"] = torch.ones(other.batch_size)
            other["a"] += 1
            del other["n"]
        assert data["new"].shape == (2, 3)
        assert data["a"].mean() == 1.5
        assert "n" not in data[0]


@pytest.mark.parametrize("more", [TensorDict({}, [3, 1]), TensorDict({}, [2]), TensorDict({}, [3], names=["x"])])
def test_a_part_that_does_not_fit_is_not_added(more: TensorDict) -> None:
    rows = even()
    for add in (rows.append, lambda part: rows.insert(0, part), lambda part: rows.extend([rows[0], part])):
        with pytest.raises(ValueError, match=r"the batch size|names"):
            add(more)
        assert rows.batch_size == (2, 3)


def test_a_tensor_over_the_batch_meets_nested_lazy_stacks_row_by_row() -> None:
    inner = TensorDict({"a": torch.arange(6.0).reshape(2, 3), "m": {"b": torch.arange(4.0).reshape(2, 2, 1)}}, [2])
    inner.set("m", inner["m"].to_lazystack())
    data = TensorDict({"n": inner, "lazy": inner.clone().to_lazystack(), "x": torch.ones(2)}, [2])
    factor = torch.tensor([2.0, 3.0])
    for result in (data * factor, data.mul(factor), data.clone().mul_(factor)):
        for key in (("n", "a"), ("n", "m", "b"), ("lazy", "a"), ("lazy", "m", "b"), "x"):
            assert torch.equal(result[key], data[key] * factor.reshape(2, *[1] * (data[key].ndim - 1)))


@pytest.mark.parametrize("more", [(), (1,)])
def test_a_block_on_a_view_of_rows_writes_back(more: tuple[int, ...]) -> None:
    data = TensorDict({"a": torch.zeros(2, *more)}, [2, *more]).to_lazystack()
    with data.view(-1) as rows:
        rows["x"] = torch.ones(2)
    assert data["x"].shape == (2, *more)
    with pytest.raises(RuntimeError, match="locked"), data.lock_().view(-1) as rows:
        rows["y"] = torch.ones(2)


def test_a_dimension_without_positions_is_no_lazy_stack() -> None:
    with pytest.raises(RuntimeError, match="has size 0"):
        TensorDict({"a": torch.zeros(0)}, [0]).to_lazystack()


def test_nested_parts_with_other_numbers_of_batch_dimensions() -> None:
    for names in (None, ["x"]):
        rows = lazy_stack([TensorDict({"n": n}) for n in (TensorDict({}, [2], names=names), TensorDict({}))])
        with pytest.raises(RuntimeError, match="as many batch dimensions"):
            rows["n"]


def test_to_lazystack() -> None:
    data = part().to_lazystack()
    assert data.batch_size == (3,)
    assert data.to_lazystack(0) is data
    assert even().to_lazystack(1).stack_dim == 1
    with pytest.raises(IndexError):
        TensorDict({}).to_lazystack()


def test_the_batch_size_can_follow_that_of_the_parts() -> None:
    data = even()
    data.batch_size = [2]
    assert data[0].batch_size == ()
    for wrong in ([], [3], [2, 4]):
        with pytest.raises(RuntimeError, match="batch_size"):
            data.batch_size = wrong
    assert data.batch_size == (2,)


# -- with torch -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_dim", [0, 1])
def test_vmap(in_dim: int) -> None:
    result = torch.vmap(lambda data: data + data["a"].sum(), in_dims=in_dim)(even())
    expected = torch.vmap(lambda data: data + data["a"].sum(), in_dims=in_dim)(even().contiguous())
    assert result.batch_size == expected.batch_size
    assert torch.equal(result["a"], expected["a"])


def test_vmap_of_parts_that_differ_maps_each() -> None:
    parts = [TensorDict({"a": torch.rand(2, n)}, [2]) for n in (3, 4)]
    result = torch.vmap(lambda data: data)(lazy_stack(parts, 1))
    assert result.batch_size == (2, 2)
    for part, own in zip(result.unbind(1), parts, strict=True):
        assert torch.equal(part["a"], own["a"])


def test_pytrees() -> None:
    assert torch.equal(_pytree.tree_map(lambda x: x + 1, even())["a"], even()["a"] + 1)
    mapped = _pytree.tree_map(lambda x: x + 1, uneven())
    assert mapped[1]["a"].shape == (3, 5)
    assert (mapped[1]["a"] == 2).all()


def test_compile() -> None:
    @torch.compile(fullgraph=True, backend="eager")
    def step(first: Any, second: Any) -> Any:
        data = lazy_stack([first, second])
        return data["a"] + 1, (data + 1)["a"], data[0]["a"]

    for result, expected in zip(step(part(), part(1)), (even()["a"] + 1, even()["a"] + 1, part()["a"]), strict=True):
        assert torch.equal(result, expected)


# -- records ----------------------------------------------------------------------------------------------------------


class Item(TensorClass, stack_objects=True):
    tokens: Tensor
    name: str
    weight: Tensor | None = None


def item(count: int) -> Item:
    return Item(torch.full((count,), float(count)), f"item {count}")


def test_records_of_different_lengths() -> None:
    items = Item.lazy_stack([item(2), item(3)])
    assert isinstance(items, Item)
    assert items.name == ["item 2", "item 3"]
    assert items.weight is None
    assert items.get("tokens", as_padded_tensor=True).shape == (2, 3)
    assert type(items[1]) is Item
    with pytest.raises(RuntimeError, match="as_list"):
        items.tokens
    items.weight = torch.ones(2)
    assert items[0].weight == 1
    items.name = ["x", "y"]
    assert items[1].name == "y"
    items.append(item(4))
    assert items.name == ["x", "y", "item 4"]
    with pytest.raises(TypeError, match="records of the class Item"):
        items.append(TensorDict({"tokens": torch.zeros(1), "name": "z"}))
    assert (items + 1)[0].tokens.tolist() == [3, 3]
    assert isinstance(torch.stack([items, items]), Item)


class Outer(TensorClass):
    inner: Item
    count: Tensor


def test_a_leaf_that_cannot_hold_a_key_is_told_before_a_value_that_does_not_fit() -> None:
    for source in ({("a", "x"): 1}, {"z": torch.zeros(2, 3), ("z", "x"): 1}):
        data = even()
        with pytest.raises(KeyError, match="is a leaf"):
            data.update(source)
        assert list(data.keys()) == ["a", "n"]
    assert even().update({("z", "x"): torch.ones(2, 3), "z": torch.zeros(2, 3)})["z"].shape == (2, 3)


def test_nested_records_are_updated() -> None:
    data = Outer.lazy_stack([Outer(item(2), torch.zeros(())), Outer(item(3), torch.zeros(()))])
    data.update({"inner": {"name": ["x", "y"], "weight": torch.ones(2)}, "count": torch.tensor([1.0, 2.0])})
    assert data[1].inner.name == "y"
    assert data[0].inner.weight == 1
    data.update({("inner", "weight"): torch.zeros(2)})
    assert data[0].inner.weight == 0
    assert data[1].count == 2
    with pytest.raises(AttributeError, match="no field"):
        data.update({"inner": {"unknown": torch.ones(2)}})
    data.update(Outer.lazy_stack([data[0].clone(), data[1].clone()]))


def test_mappings_of_keys_that_are_new() -> None:
    data = even()
    data.update({"m": {"x": torch.ones(2, 3)}, ("k", "l"): torch.zeros(2, 3)})
    assert data[0]["m", "x"].sum() == 3
    assert data[1]["k", "l"].shape == (3,)
    other = ragged()
    other.update({"m": {"x": [torch.ones(3), torch.ones(4)]}})
    assert other[1]["m", "x"].shape == (4,)


def test_a_frozen_record_stays_frozen() -> None:
    class Frozen(TensorClass, frozen=True):
        a: Tensor

    data = Frozen.lazy_stack([Frozen(torch.zeros(2)), Frozen(torch.ones(2))])
    with pytest.raises(Exception, match=r"frozen|locked|cannot"):
        data.a = torch.zeros(2, 2)
    with pytest.raises(Exception, match=r"frozen|locked|cannot"):
        data.set("a", torch.zeros(2, 2))
    assert data.a.sum() == 2


def test_a_dense_record_and_a_lazy_one_stack() -> None:
    lazy = Item.lazy_stack([item(2), item(2)])
    dense = tensorclass.stack([item(2), item(2)])
    assert tensorclass.stack([lazy, dense]).tokens.shape == (2, 2, 2)
    assert tensorclass.stack([dense, lazy]).tokens.shape == (2, 2, 2)
    assert tensorclass.cat([lazy, dense]).tokens.shape == (4, 2)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_padding_and_its_mask(counts: list[int]) -> None:
    data = lazy_stack([TensorDict({"a": torch.ones(count)}, [count]) for count in counts])
    if len(set(counts)) == 1:
        return
    padded = data.to_padded_tensor(mask_key="mask")
    assert padded["mask"].sum(-1).tolist() == counts
    assert torch.equal(padded["a"].bool(), padded["mask"])


def test_objects_are_stacked() -> None:
    data = lazy_stack([TensorDict({"t": "a"}), TensorDict({"t": "b"})])
    assert data["t"] == ["a", "b"]
    assert isinstance(data.get("t")[0], NonTensorData)
    assert ragged().set("t", "a")["t"] == ["a", "a"]


# -- new ones without values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty", "new_full"])
@pytest.mark.parametrize("size", [(2, 3), (5, 3), (4,), (0,)])
def test_empty_lazy_makes_a_lazy_stack_of_parts_without_values(name: str, size: tuple[int, ...]) -> None:
    fill = (size, 1) if name == "new_full" else size
    new = getattr(even(), name)(*fill, empty_lazy=True)
    assert (type(new), tuple(new.batch_size), new.stack_dim) == (LazyStackedTensorDict, size, 0)
    assert [list(part.keys(True)) for part in new.tensordicts] == [["n"]] * size[0]
    assert type(getattr(even(), name)(*fill)) is TensorDict


def test_it_is_filled_part_by_part() -> None:
    new = uneven().new_zeros(0, empty_lazy=True)
    new.append(TensorDict({"a": torch.ones(2)}))
    assert new["a"].tolist() == [[1, 1]]


def test_it_is_so_too_where_a_lazy_stack_is_nested_or_a_record() -> None:
    class Row(TensorClass):
        a: Tensor

    rows = Row.lazy_stack([Row(torch.zeros(2)), Row(torch.zeros(3))])
    outer = TensorDict({"rows": rows, "x": torch.ones(2)}, [2])
    new = outer.new_zeros(3, empty_lazy=True)
    assert isinstance(new["rows"], Row)
    assert (new["rows"].batch_size, new["rows"].stack_dim, new["x"].tolist()) == ((3,), 0, [0, 0, 0])


@pytest.mark.parity
@pytest.mark.parametrize("size", [(2, 3), (5, 3), (4,), ()])
@pytest.mark.parametrize("dim", [0, 1])
def test_empty_lazy_is_what_it_is_in_the_peer(size: tuple[int, ...], dim: int) -> None:
    import tensordict

    def seen(library: Any) -> Any:
        part = library.TensorDict({"a": torch.zeros(3, 2), "n": {"b": torch.zeros(3)}}, batch_size=[3])
        new = library.lazy_stack([part, part.clone()], dim).new_zeros(*size, empty_lazy=True)
        parts = getattr(new, "tensordicts", [])
        return (
            type(new).__name__, list(new.batch_size), sorted(map(str, new.keys(True))), len(parts),
            [sorted(map(str, part.keys(True))) for part in parts], [list(part.batch_size) for part in parts],
        )  # fmt: skip

    assert seen(tensorclass) == seen(tensordict)


# -- the class methods ------------------------------------------------------------------------------------------------

CLASS_CALLS: dict[str, Any] = {
    "items": lambda m: m.LazyStackedTensorDict.lazy_stack(items=rows(m)),
    "named": lambda m: m.LazyStackedTensorDict.lazy_stack(rows(m), stack_dim_name="x"),
    "strict shape": lambda m: m.LazyStackedTensorDict.lazy_stack(rows(m), strict_shape=True),
    "maybe dense": lambda m: m.LazyStackedTensorDict.maybe_dense_stack(items=rows(m)),
    "dense": lambda m: m.LazyStackedTensorDict.maybe_dense_stack(rows(m)[:1] * 2, 0, None, False),
    "from_list": lambda m: m.LazyStackedTensorDict.from_list(ROWS),
    "from_list, sized": lambda m: m.LazyStackedTensorDict.from_list(ROWS, auto_batch_size=True),
    "from_list, named": lambda m: m.LazyStackedTensorDict.from_list(ROWS, names=["x"]),
    "from_list, empty": lambda m: m.LazyStackedTensorDict.from_list([]),
    "from_dict": lambda m: m.LazyStackedTensorDict.from_dict(ROWS),
    "from_dict, sized": lambda m: m.LazyStackedTensorDict.from_dict(ROWS, auto_batch_size=True, stack_dim=1),
    "from_dict, named": lambda m: m.LazyStackedTensorDict.from_dict(ROWS, stack_dim_name="x"),
    "from_dict, mapping": lambda m: m.LazyStackedTensorDict.from_dict(dict(zip("01", ROWS, strict=True))),
    "from_dict, empty": lambda m: m.LazyStackedTensorDict.from_dict([]),
}
ROWS = [{"a": torch.zeros(3)}, {"a": torch.ones(3), "b": torch.ones(3)}]


def rows(library: Any) -> Any:
    return [library.TensorDict({"a": torch.zeros(2)}), library.TensorDict({"a": torch.zeros(3)})]


@pytest.mark.parity
@pytest.mark.parametrize("call", CLASS_CALLS.values(), ids=list(CLASS_CALLS))
def test_a_class_method_does_what_that_of_the_peer_does(call: Any) -> None:
    import tensordict

    def seen(library: Any) -> Any:
        result = call(library)
        return type(result).__name__, list(result.batch_size), sorted(result.keys()), list(result.names)

    assert seen(tensorclass) == seen(tensordict)


def test_values_can_be_read_in_the_form_that_the_class_method_is_given() -> None:
    lazy: Any = LazyStackedTensorDict.lazy_stack(items=rows(tensorclass), as_padded_tensor=True, padding_value=2)
    assert lazy["a"].tolist() == [[0, 0, 2], [0, 0, 0]]


def test_integers_and_none_select_parts_without_stacking_values() -> None:
    stack = lazy_stack([TensorDict({"a": torch.ones(size)}) for size in (3, 5, 2)])
    assert stack[-1]["a"].shape == (2,)
    assert [row["a"].shape[0] for row in stack[None][0].unbind(0)] == [3, 5, 2]
    with pytest.raises(IndexError):
        stack[-4]
