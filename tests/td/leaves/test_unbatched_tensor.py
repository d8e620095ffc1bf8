"""A tensor without batch dimensions stays what it is under operations on shapes, and takes part in those on numbers."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import tensorclass
from tensorclass import (
    NonTensorData,
    Ragged,
    TensorClass,
    TensorDict,
    UnbatchedTensor,
    is_non_tensor,
    lazy_stack,
    stack,
)
from tests import strategies as draw
from tests.checks import assert_consistent
from tests.operations import SHAPE_OPERATIONS
from tests.samples import Unchanged

VALUES = torch.arange(3.0)


def sample(library: Any = tensorclass, size: tuple[int, ...] = (4,)) -> Any:
    """Rows of numbers with one tensor for all of them, also on a lower level."""
    values = {"x": torch.ones(*size, 2), "u": library.UnbatchedTensor(VALUES.clone())}
    nested = library.TensorDict({"v": library.UnbatchedTensor(VALUES.clone() + 1)}, batch_size=size)
    return library.TensorDict({**values, "n": nested}, batch_size=size)


def held(data: Any, key: Any = "u") -> Tensor:
    """The tensor, and a check of what holds it."""
    holder = data.get(key)
    assert type(holder) is UnbatchedTensor
    assert holder.batch_size == data.batch_size
    return holder.data


# -- in a collection --------------------------------------------------------------------------------------------------


def test_a_key_gives_the_tensor_and_get_the_holder() -> None:
    data = sample()
    assert torch.equal(data["u"], VALUES)
    assert type(data["u"]) is Tensor
    assert type(data.get("u")) is UnbatchedTensor
    assert data.get("u").data is data["u"]
    assert data.get("u").batch_size == (4,)
    assert data.get("u").dtype is torch.float32
    assert data.get(("n", "v")).device == torch.device("cpu")
    assert not is_non_tensor(data.get("u"))


def test_it_is_a_leaf() -> None:
    data = sample()
    assert list(data.keys(True, True)) == ["x", "u", ("n", "v")]
    assert [key for key, _ in data.items(True, True, sort=True)] == [("n", "v"), "u", "x"]
    assert "u" in data.keys(leaves_only=True)
    assert not TensorDict({"u": UnbatchedTensor(VALUES)}, [4]).is_empty()
    assert data.bytes() == 4 * (8 + 3 + 3)
    assert data.param_count() == 14
    assert list(data.state_dict()) == ["x", "u", "n.v"]
    assert data.non_tensor_items() == ()
    assert list(data.filter_non_tensor_data().keys(True, True)) == ["x", "u", ("n", "v")]


@pytest.mark.parametrize("name", SHAPE_OPERATIONS)
@settings(max_examples=20)
@given(st.data())
def test_operations_on_shapes_keep_the_tensor(name: str, data: st.DataObject) -> None:
    size = data.draw(draw.shapes(min_dims=1))
    names = data.draw(draw.names_or_none(len(size)))
    arguments = data.draw(SHAPE_OPERATIONS[name](size))
    values = {"x": torch.zeros(size), "u": UnbatchedTensor(VALUES)}
    source = TensorDict(values, size, names=names)
    plain = source.exclude("u")
    try:
        expected = getattr(plain, name)(*arguments)
    except Exception as error:
        with pytest.raises(type(error)):
            getattr(source, name)(*arguments)
        return
    result = getattr(source, name)(*arguments)
    for part, like in zip(*((r if isinstance(r, tuple) else (r,)) for r in (result, expected)), strict=True):
        assert part.batch_size == like.batch_size
        assert part.names == like.names
        assert torch.equal(held(part), VALUES)
        assert_consistent(part)


@given(draw.shapes(), st.data())
def test_an_index_keeps_the_tensor(size: tuple[int, ...], data: st.DataObject) -> None:
    index = data.draw(draw.indices(size))
    source = TensorDict({"x": torch.zeros(size), "u": UnbatchedTensor(VALUES)}, size)
    try:
        expected = source.exclude("u")[index].batch_size
    except IndexError:
        with pytest.raises(IndexError):
            source[index]
        return
    assert source[index].batch_size == expected
    assert held(source[index]) is source["u"]


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "+": lambda x: x + 1,
    "number -": lambda x: 2 - x,
    "*": lambda x: x * x,
    "** reversed": lambda x: 2**x,
    "tensor without dimensions": lambda x: x * torch.tensor(3.0),
    "abs": lambda x: (-x).abs(),
    "exp": lambda x: x.exp(),
    "square": lambda x: x.square(),
    "maximum": lambda x: x.maximum(x + 1),
    "clamp": lambda x: x.clamp(0.5, 1.5),
    "lerp": lambda x: x.lerp(x + 1, 0.5),
    "addcmul": lambda x: x.addcmul(x, x),
    "==": lambda x: x == x,
    "<": lambda x: x < 1,
    "isnan": lambda x: x.isnan(),
    "add_": lambda x: x.clone().add_(1),
    "add_ of another": lambda x: x.clone().add_(x),
    "+=": lambda x: x.clone().__iadd__(1),
    "zero_": lambda x: x.clone().zero_(),
    "double": lambda x: x.double(),
    "to": lambda x: x.to(torch.float64),
    "type": lambda x: x.type(torch.int64),
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "zeros_like": lambda x: torch.zeros_like(x),
    "torch.add": lambda x: torch.add(x, 1),
    "torch.sqrt": lambda x: torch.sqrt(x),
}


@pytest.mark.parametrize("operation", NUMBERS.values(), ids=NUMBERS)
def test_operations_on_numbers_act_on_the_tensor(operation: Callable[[Any], Any]) -> None:
    data = sample()
    result = operation(data)
    for source in (data["u"], data["n", "v"]):
        alone = operation(UnbatchedTensor(source))
        assert type(alone) is UnbatchedTensor
        assert torch.equal(alone.data, operation(source))
        assert alone.data.dtype is operation(source).dtype
    assert torch.equal(held(result), operation(data["u"]))
    assert torch.equal(held(result["n"], "v"), operation(data["n", "v"]))
    assert torch.equal(data["u"], VALUES)


KEPT: dict[str, Callable[[Any], Any]] = {
    "sum": lambda data: data.sum(0),
    "sum of all": lambda data: data.sum(),
    "mean": lambda data: data.mean(0, keepdim=True),
    "max": lambda data: data.max(0)[0],
    "cumsum": lambda data: data.cumsum(0),
    "softmax": lambda data: data.softmax(0),
    "quantile": lambda data: data.quantile(0.5, 0),
    "new_empty batch": lambda data: data.expand(2, 4),
    "shallow copy": lambda data: data.clone(False),
    "select": lambda data: data.select("u", ("n", "v")),
    "stack": lambda data: torch.stack([data, data]),
    "stack of equal ones": lambda data: torch.stack([data, data.clone()], -1),
    "cat": lambda data: torch.cat([data, data.clone()]),
    "where": lambda data: data.where(torch.tensor([True, False, True, False]), data.clone()),
    "lazy stack": lambda data: lazy_stack([data, data]),
}


@pytest.mark.parametrize("operation", KEPT.values(), ids=KEPT)
def test_what_moves_or_reduces_rows_keeps_the_tensor(operation: Callable[[Any], Any]) -> None:
    result = operation(sample())
    assert torch.equal(held(result), VALUES)
    assert torch.equal(held(result["n"], "v"), VALUES + 1)
    assert_consistent(result)


def test_copies_are_copies() -> None:
    data = sample()
    for other in (data.clone(), copy.deepcopy(data), pickle.loads(pickle.dumps(data)), data.to_tensordict()):
        assert held(other) is not data["u"]
        assert torch.equal(held(other), VALUES)
    assert held(data.copy()) is data["u"]
    assert held(data[:2]) is data["u"]


def test_different_tensors_get_the_batch_dimensions_when_they_are_combined() -> None:
    one, other = sample(), sample() + 1
    stacked = stack([one, other], 1)
    assert type(stacked.get("u")) is Tensor
    assert stacked["u"].shape == (4, 2, 3)
    assert torch.equal(stacked["u"][:, 1], (VALUES + 1).expand(4, 3))
    joined = torch.cat([one, other[:1]])
    assert torch.equal(joined["u"], torch.cat([VALUES.expand(4, 3), VALUES[None] + 1]))
    chosen = one.where(torch.tensor([True, False, False, False]), other)
    assert torch.equal(chosen["u"][:, 0], torch.tensor([0.0, 1.0, 1.0, 1.0]))
    filled = one.masked_fill(torch.tensor([True, False, False, False]), 9.0)
    assert torch.equal(filled["u"][:, 0], torch.tensor([9.0, 0.0, 0.0, 0.0]))
    for result in (stacked, joined, chosen, filled):
        assert_consistent(result)


def test_tensors_with_gradients_are_one_only_when_they_are_the_same_tensor() -> None:
    one, other = (UnbatchedTensor(torch.ones(3, requires_grad=True)) for _ in range(2))
    assert type(torch.stack([one, one])) is UnbatchedTensor
    result: Any = torch.stack([one, other])
    result.sum().backward()
    assert other.data.grad is not None


def test_what_would_make_rows_differ_is_an_error() -> None:
    data = sample()
    changes: list[Callable[[], Any]] = [
        lambda: data + torch.ones(4),
        lambda: data.add_(torch.ones(4)),
        lambda: data.maximum(torch.ones(4)),
        lambda: data < torch.ones(4),
        lambda: data["n"].masked_fill_(torch.tensor([True, False, False, False]), 1.0),
        lambda: data.set_at_("u", 1.0, 0),
        lambda: data.get("u").__setitem__(0, 1.0),
    ]
    with Unchanged(data):
        for change in changes:
            with pytest.raises(RuntimeError, match="same for every row"):
                change()


def test_a_tree_and_an_unbatched_tensor_do_not_meet() -> None:
    data = sample()
    with pytest.raises((TypeError, RuntimeError)):
        data + TensorDict({"x": torch.ones(4, 2), "u": {"a": 1}, "n": data["n"]}, [])
    with pytest.raises(RuntimeError, match="u"):
        stack([data, data.copy().set("u", NonTensorData("text", batch_size=[4]))])


# -- writing ----------------------------------------------------------------------------------------------------------


def test_it_is_written_as_a_whole() -> None:
    data = sample()
    tensor = data["u"]
    data.set_("u", UnbatchedTensor(VALUES + 1))
    assert tensor.tolist() == [1, 2, 3]
    data.update_({"u": UnbatchedTensor(VALUES + 2)})
    assert tensor.tolist() == [2, 3, 4]
    data[0] = {"x": torch.zeros(2), "u": UnbatchedTensor(VALUES + 3)}
    assert tensor.tolist() == [3, 4, 5]
    data.fill_("u", 7.0)
    assert tensor.tolist() == [7, 7, 7]
    data[...] = 8
    assert data["u"] is tensor
    assert tensor.tolist() == [8, 8, 8]
    data[0] = 1
    data[1:] = torch.zeros(2)
    assert tensor.tolist() == [8, 8, 8]
    data.load_state_dict((data + 1).state_dict())
    assert tensor.tolist() == [9, 9, 9]
    data.update({"u": UnbatchedTensor(VALUES)})
    assert data["u"] is not tensor
    data["u"] = torch.zeros(4)
    assert type(data.get("u")) is Tensor


def test_what_does_not_fit_is_an_error() -> None:
    data = sample()
    with Unchanged(data):
        with pytest.raises(RuntimeError, match="u"):
            data.set("u", torch.zeros(3))
        with pytest.raises(RuntimeError, match="u"):
            data[0] = {"x": torch.zeros(2), "u": UnbatchedTensor(torch.zeros(5))}
        with pytest.raises(RuntimeError, match="u"):
            data[0] = {"x": torch.zeros(2), "u": "text"}
        with pytest.raises(TypeError):
            data.set_("u", NonTensorData("text"))
    for value in ("text", {"a": 1}, TensorDict({})):
        with pytest.raises(TypeError, match="expected a tensor"):
            UnbatchedTensor(value)


def test_a_new_key_of_a_row_is_the_tensor_for_all() -> None:
    data = TensorDict({"x": torch.zeros(4)}, [4])
    data[1] = {"x": 1.0, "u": UnbatchedTensor(VALUES)}
    assert torch.equal(held(data), VALUES)


def test_apply_is_called_with_the_tensor() -> None:
    data = sample()
    shapes: dict[Any, Any] = {}
    result = data.named_apply(lambda key, x: (shapes.setdefault(key, x.shape), x + 1)[1], nested_keys=True)
    assert shapes == {"x": (4, 2), "u": (3,), ("n", "v"): (3,)} or shapes[("u",)] == (3,)
    assert torch.equal(held(result), VALUES + 1)
    assert torch.equal(held(data.apply(lambda x: x * 2)), VALUES * 2)
    assert torch.equal(held(data.apply(lambda x, y: x + y, data)), VALUES * 2)
    assert held(data.apply(lambda x: x, batch_size=[])).shape == (3,)
    assert "u" not in data.apply(lambda x: x if x.ndim > 1 else None)
    data.apply_(lambda x: x + 1)
    assert torch.equal(data["u"], VALUES + 1)


def test_its_batch_size_and_device_follow_the_collection() -> None:
    data = TensorDict({"x": torch.zeros(4, 3), "u": UnbatchedTensor(VALUES, batch_size=[7])}, [4], names=["rows"])
    assert data.get("u").names == ["rows"]
    data.batch_size = [4, 3]
    assert held(data).shape == (3,)
    data.batch_size = []
    assert data["u"].shape == (3,)
    assert data.auto_batch_size_().batch_size == (4, 3)
    assert held(data.to("meta")).is_meta
    assert data.clear_device_().get("u").device == torch.device("cpu")
    assert TensorDict({"u": UnbatchedTensor(VALUES)}, [4], "meta").get("u").device == torch.device("meta")


def test_gradients_reach_it() -> None:
    data = TensorDict({"u": UnbatchedTensor(VALUES.clone())}, [4]).requires_grad_()
    (data["u"] * 2).sum().backward()
    assert data.grad is not None
    assert torch.equal(held(data.grad), torch.full((3,), 2.0))


def test_dicts_and_numbers_hold_it() -> None:
    data = TensorDict({"u": UnbatchedTensor(VALUES)}, [4])
    again = TensorDict.from_dict(data.to_dict(), batch_size=[4])
    assert torch.equal(held(again), VALUES)
    assert data.to_dict(convert_tensors=True) == {"u": [0.0, 1.0, 2.0]}
    assert data.numpy()["u"].tolist() == [0.0, 1.0, 2.0]
    tensorclass.assert_close(data, again)
    with pytest.raises(AssertionError):
        tensorclass.assert_close(data, data + 1)


# -- alone ------------------------------------------------------------------------------------------------------------


def test_the_holder_by_itself() -> None:
    holder = UnbatchedTensor([1.0, 2.0])
    assert holder.batch_size == ()
    assert holder.data.tolist() == holder.tolist() == [1, 2]
    assert UnbatchedTensor(holder, batch_size=[2]).batch_size == (2,)
    assert UnbatchedTensor(VALUES, device="meta").device == torch.device("meta")
    assert "shape=torch.Size([2])" in repr(holder)
    holder.data = VALUES
    assert holder.numpy().tolist() == [0, 1, 2]


# -- records ----------------------------------------------------------------------------------------------------------


class Scaled(TensorClass):
    x: Tensor
    scale: UnbatchedTensor


def test_a_record_has_fields_of_this_type() -> None:
    record = Scaled(torch.ones(4, 2), UnbatchedTensor(VALUES), batch_size=[4])
    assert record.scale.batch_size == (4,)
    assert record[0].scale.data is record.scale.data
    assert torch.equal(record["scale"], VALUES)
    assert type(torch.stack([record, record])) is Scaled
    assert (record + 1).scale.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="scale"):
        Scaled(torch.ones(4, 2), torch.ones(4), batch_size=[4])  # type: ignore[arg-type]


# -- transforms -------------------------------------------------------------------------------------------------------


def test_a_pytree_has_it_as_a_leaf() -> None:
    data = sample()
    leaves = torch.utils._pytree.tree_leaves(data)
    assert [tuple(leaf.shape) for leaf in leaves] == [(4, 2), (3,), (3,)]
    mapped = torch.utils._pytree.tree_map(lambda x: x + 1, data)
    assert torch.equal(held(mapped), VALUES + 1)
    assert mapped.batch_size == (4,)
    first = torch.utils._pytree.tree_map(lambda x: x[:2], data)
    assert first.batch_size == (2,)
    assert held(first).shape == held(first["n"], "v").shape == (2,)


def test_vmap_over_the_rows_does_not_map_over_it() -> None:
    data = TensorDict({"x": torch.arange(3.0), "u": UnbatchedTensor(VALUES)}, [3])
    result = torch.vmap(lambda row: row["x"] + row["u"].sum())(data)
    assert torch.equal(result, torch.arange(3.0) + 3)


def test_compiled_code_takes_it() -> None:
    def step(data: Any) -> Any:
        row = (data * 2)[1:].reshape(3, 1)
        row["n"].add_(1)
        return row, torch.stack([data, data])

    expected = step(sample())
    got = torch.compile(step, fullgraph=True, backend="eager")(sample())
    for result, like in zip(got, expected, strict=True):
        assert result.batch_size == like.batch_size
        assert torch.equal(held(result), held(like))
        assert torch.equal(held(result["n"], "v"), held(like["n"], "v"))


# -- as in the peer ---------------------------------------------------------------------------------------------------

SHARED = {name: NUMBERS[name] for name in ("+", "*", "abs", "==", "add_", "zero_", "double", "clone", "zeros_like")}
SHARED |= {name: KEPT[name] for name in ("sum", "sum of all", "stack", "stack of equal ones", "cat", "shallow copy")}
SHARED |= {
    "index": lambda data: data[0],
    "mask": lambda data: data[torch.tensor([True, False, True, False])],
    "reshape": lambda data: data.reshape(2, 2),
    "expand": lambda data: data.expand(2, 4),
    "unsqueeze": lambda data: data.unsqueeze(0),
    "split": lambda data: data.split(2)[1],
    "unbind": lambda data: data.unbind(0)[0],
    "apply": lambda data: data.apply(lambda x: x + 1),
    "tree_map": lambda data: torch.utils._pytree.tree_map(lambda x: x * 2, data),
}


@pytest.mark.parity
@pytest.mark.parametrize("operation", SHARED.values(), ids=SHARED)
def test_the_peer_gives_the_same(operation: Callable[[Any], Any]) -> None:
    ours = operation(sample())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it keeps the first of several tensors, and says so
        theirs = operation(sample(tensordict))
    assert torch.equal(held(ours), theirs["u"].as_subclass(Tensor))
    assert torch.equal(held(ours["n"], "v"), theirs["n"]["v"].as_subclass(Tensor))
    assert type(theirs.get("u")) is tensordict.UnbatchedTensor


@pytest.mark.parametrize("canonical", [False, True])
def test_a_holder_becomes_contiguous_in_place(canonical: bool) -> None:
    holder = UnbatchedTensor(torch.arange(6).reshape(2, 3).T, batch_size=[4])
    result = holder.contiguous(canonical=canonical)
    assert (result.data.is_contiguous(), holder.data.is_contiguous()) == (True, False)
    assert holder.contiguous(canonical=canonical, inplace=True) is holder
    assert holder.data.is_contiguous()


def test_a_holder_is_cast_where_the_filter_says_so() -> None:
    holder = UnbatchedTensor(VALUES)
    assert holder.type(torch.float64, cast_filter=lambda key, value: value.ndim == 1).data.dtype is torch.float64
    assert holder.type(torch.float64, cast_filter=lambda key, value: value.ndim == 0).data.dtype is torch.float32


@pytest.mark.parametrize("name", ["torch.DoubleTensor", torch.DoubleTensor])
def test_a_type_of_torch_is_taken_beside_tensors(name: Any) -> None:
    data = TensorDict({"shared": UnbatchedTensor(torch.ones(2)), "rows": Ragged([[1], [2]]), "x": torch.ones(2)}, [2])
    cast = data.type(name)
    assert {cast.get(key).dtype for key in ("shared", "rows", "x")} == {torch.float64}


@pytest.mark.parametrize("holder", [UnbatchedTensor(VALUES, batch_size=[4]), NonTensorData("a", batch_size=[4])])
def test_what_is_one_for_all_rows_is_gathered_in_place_and_into_another(holder: Any) -> None:
    index = torch.zeros(2, dtype=torch.long)
    out = holder.clone()[:2]
    assert holder.gather(0, index, out=out) is out
    again = holder.clone()
    assert again.gather(0, index, inplace=True) is again
    assert again.batch_size == (2,)
    with pytest.raises(RuntimeError, match="locked"):
        holder.clone().lock_().gather(0, index, inplace=True)


def test_vmap_does_not_map_over_a_tensor_of_another_size() -> None:
    data = TensorDict({"x": torch.arange(4.0), "u": UnbatchedTensor(torch.ones(3))}, [4], names=["row"])
    total = torch.vmap(lambda row: row["x"] + row["u"].sum())(data)
    assert total.tolist() == [3, 4, 5, 6]
    doubled = torch.vmap(lambda row: row * 2)(data)
    assert doubled.get("u").batch_size == (4,)
    assert doubled["u"].tolist() == [2, 2, 2]
    both = torch.vmap(lambda row, all_rows: row["x"] + all_rows["u"].sum(), in_dims=(0, None))(data, data)
    assert both.tolist() == [3, 4, 5, 6]


def test_a_tensor_that_a_vmap_made_different_for_each_row_has_the_batch() -> None:
    data = TensorDict({"x": torch.arange(2.0), "u": UnbatchedTensor(torch.ones(3))}, [2])
    result = torch.vmap(lambda row: row.apply(lambda value: value * row["x"]))(data)
    assert result["u"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert result.batch_size == (2,)


def test_a_holder_is_a_number_an_index_and_an_array() -> None:
    number = UnbatchedTensor(torch.tensor(2), batch_size=[4])
    assert (bool(number), int(number), float(number), complex(number)) == (True, 2, 2.0, 2 + 0j)
    assert "abc"[number] == "c"
    assert torch.arange(5)[UnbatchedTensor(torch.tensor([1, 3]))].tolist() == [1, 3]
    assert np.asarray(number) == 2
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(UnbatchedTensor(torch.ones(2)))


def test_functions_that_collections_do_not_have_take_the_tensor() -> None:
    weight = UnbatchedTensor(torch.tensor([1.0, 2.0]), batch_size=[4])
    rows = torch.ones(3, 2)
    assert torch.nn.functional.linear(rows, weight).tolist() == [3, 3, 3]
    assert (rows @ weight).tolist() == [3, 3, 3]
    assert weight @ weight == 5
    assert torch.equal(weight, weight)
    with pytest.raises(TypeError, match="not defined"):
        torch.equal(weight, TensorDict())
