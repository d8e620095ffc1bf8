"""A lazy stack does what the stack of its parts does: every operation, on values, keys and rows."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import TensorClass, TensorCollection, TensorDict, is_non_tensor, lazy_stack, stack
from tests import strategies as draw
from tests.calls import CALLS, INTEGER, SIZE
from tests.operations import SHAPE_OPERATIONS


class Inner(TensorClass):
    value: Tensor


class Sample(TensorClass):
    image: Tensor
    label: Tensor
    text: str
    inner: Inner
    spare: Tensor | None = None


def sample(number: int, integer: bool = False) -> Sample:
    torch.manual_seed(number)
    size = (3,)
    image, label, value = torch.randn(*size, 4), torch.randn(size), torch.randn(*size, 2)
    if integer:
        image, label, value = (tensor.mul(10).int() for tensor in (image, label, value))
    return Sample(image, label, "text", Inner(value, batch_size=size), batch_size=size)


def assert_same(result: Any, expected: Any) -> None:
    """The same values, batch sizes and names, whatever they stand on."""
    if isinstance(expected, TensorCollection):
        assert isinstance(result, TensorCollection)
        assert result.batch_size == expected.batch_size
        assert result.names == expected.names
        assert result.device == expected.device
        assert set(result.keys()) == set(expected.keys())
        if is_non_tensor(expected):
            assert result.tolist() == expected.tolist()
            return
        for key in expected.keys():  # noqa: SIM118 (the keys are a view, the collection iterates over rows)
            assert_same(result.get(key), expected.get(key))
    elif isinstance(expected, Tensor):
        assert isinstance(result, Tensor)
        assert result.dtype == expected.dtype
        assert torch.equal(result.nan_to_num(), expected.nan_to_num())
    elif isinstance(expected, (tuple, list)):
        assert len(result) == len(expected)
        for a, b in zip(result, expected, strict=True):
            assert_same(a, b)
    elif isinstance(expected, dict):
        assert result.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(result[key], value)
    else:
        assert result == expected


#: random numbers, memory that nobody wrote, and what only makes sense on the class
UNLIKE = {
    "torch.empty_like", "torch.rand_like", "new_empty", "from_dict", "fromkeys", "from_tensordict", "grad",
    "complex32",  # torch can compare nothing of this dtype
}  # fmt: skip


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", [name for name in CALLS if name not in UNLIKE])
def test_an_operation_gives_what_it_gives_on_the_dense_stack(name: str, dim: int) -> None:
    shape = SIZE if dim == 0 else SIZE[::-1]
    parts = [sample(i, name in INTEGER) for i in range(2)]
    assert lazy_stack(parts, dim).batch_size == shape
    if dim == 1:  # the calls are for [2, 3]: a stack along dimension 1 of three parts of [2]
        parts = [sample(i, name in INTEGER)[:2].clone() for i in range(3)]
    lazy, dense = lazy_stack(parts, dim), stack(parts, dim)
    assert lazy.batch_size == SIZE
    torch.manual_seed(0)
    expected = outcome(lambda: CALLS[name](dense))
    torch.manual_seed(0)
    result = outcome(lambda: CALLS[name](lazy))
    if isinstance(expected, Exception):
        assert type(result) is type(expected)
        return
    assert_same(result, expected)
    assert_same(lazy, dense)  # what an operation in place has done
    assert isinstance(lazy, Sample)


@pytest.mark.parametrize("name", SHAPE_OPERATIONS)
@settings(max_examples=settings().max_examples // 4)
@given(data=st.data())
def test_shape_operations(name: str, data: Any) -> None:
    size = data.draw(draw.shapes(min_dims=1, max_dims=3))
    dim = data.draw(st.integers(0, len(size) - 1))
    if not size[dim]:
        size = (*size[:dim], 2, *size[dim + 1 :])
    tree = data.draw(draw.trees())
    names = data.draw(draw.names_or_none(len(size)))
    dense = tree.build(size, names)
    lazy = dense.to_lazystack(dim)
    arguments = data.draw(SHAPE_OPERATIONS[name](size))
    assert_same(lazy, dense)
    expected = outcome(lambda: getattr(dense, name)(*arguments))
    result = outcome(lambda: getattr(lazy, name)(*arguments))
    if isinstance(expected, Exception):
        assert isinstance(result, type(expected)) or isinstance(expected, type(result)), (result, expected)
    else:
        assert_same(result, expected)


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return error


@st.composite
def stacks(data: Callable[..., Any]) -> tuple[Any, Any, tuple[int, ...]]:
    size = data(draw.shapes(min_dims=1, max_dims=3, min_size=1))
    dim = data(st.integers(0, len(size) - 1))
    dense = data(draw.trees()).build(size, data(draw.names_or_none(len(size))))
    lazy = dense.clone().to_lazystack(dim)
    return lazy, dense, size


@given(st.data())
def test_reading_rows(data: Any) -> None:
    lazy, dense, size = data.draw(stacks())
    index = data.draw(draw.indices(size))
    expected, result = outcome(lambda: dense[index]), outcome(lambda: lazy[index])
    if isinstance(expected, Exception):
        assert isinstance(result, type(expected)), (result, expected)
    else:
        assert_same(result, expected)


@given(st.data())
def test_writing_rows(data: Any) -> None:
    lazy, dense, size = data.draw(stacks())
    index = data.draw(draw.indices(size))
    value: Any = data.draw(st.sampled_from(["rows", "number", "tensor"]))
    if value == "rows":
        rows = outcome(lambda: dense.clone()[index])
        if isinstance(rows, Exception):
            return
        value = rows.apply(lambda x: x.new_ones(x.shape))
    else:
        value = 1 if value == "number" else torch.ones(())
    positions = outcome(lambda: torch.arange(dense.numel()).reshape(size)[index])
    if isinstance(positions, Exception):
        return  # an index of tensors that do not fit together; a collection without tensors does not try it
    if positions.numel() != positions.unique().numel():
        return  # which of the rows for one place stays is not known
    expected = outcome(lambda: dense.__setitem__(index, value))
    result = outcome(lambda: lazy.__setitem__(index, value))
    if "dtypes match" in f"{expected} {result}":
        return  # torch converts numbers for some kinds of indices alone; a part may be written by another kind
    assert (result is None) == (expected is None), (result, expected)
    assert_same(lazy, dense)


@given(st.data())
def test_writing_and_removing_keys(data: Any) -> None:
    lazy, dense, size = data.draw(stacks())
    for _ in range(data.draw(st.integers(1, 4))):
        key = data.draw(st.sampled_from(["a", "b", ("n", "a"), ("n", "m", "a")]))
        value = data.draw(
            st.sampled_from(
                [torch.ones(*size, 2), torch.zeros(size), torch.zeros(5), "text", {"x": torch.ones(size)}, 3, None]
            )
        )
        action = data.draw(st.sampled_from(["set", "set_", "update", "pop", "del_", "rename_key_", "update_"]))

        def act(target: Any, action: str = action, key: Any = key, value: Any = value) -> Any:
            if action in ("set", "set_"):
                return getattr(target, action)(key, value)
            if action in ("update", "update_"):
                return getattr(target, action)({key: value})
            if action == "rename_key_":
                return target.rename_key_(key, "renamed")
            return getattr(target, action)(key)

        expected, result = outcome(lambda: act(dense)), outcome(lambda: act(lazy))
        if isinstance(expected, Exception):
            assert isinstance(result, Exception)
            assert isinstance(result, type(expected)) or isinstance(expected, type(result)), (result, expected)
        assert_same(lazy, dense)


@given(st.data())
def test_copies(data: Any) -> None:
    lazy, dense, _ = data.draw(stacks())
    for other in (copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy)), copy.copy(lazy), lazy.clone()):
        assert type(other) is type(lazy)
        assert other.stack_dim == lazy.stack_dim
        assert_same(other, dense)


def test_a_lazy_stack_of_records_is_a_record() -> None:
    lazy = Sample.lazy_stack([sample(0), sample(1)])
    assert isinstance(lazy, Sample)
    assert type(lazy).__name__ == "Sample"
    assert lazy.image.shape == (2, 3, 4)
    assert isinstance(lazy.inner, Inner)
    assert lazy.text == "text"
    assert isinstance(lazy[0], Sample)
    lazy.image = torch.zeros(2, 3, 4)
    assert lazy[1].image.sum() == 0
    assert isinstance(lazy.to_tensordict(), TensorDict)
    with pytest.raises(AttributeError):
        lazy.set("unknown", 1)


class Quantized(TensorClass, shadow=True):
    int8: Tensor


def test_a_field_named_as_a_cast_is_the_field() -> None:
    data = lazy_stack([Quantized(torch.full((2,), i), batch_size=[2]) for i in range(3)])
    assert torch.equal(data.int8, torch.tensor([[0, 0], [1, 1], [2, 2]]))
    assert data.double().int8.dtype is torch.int64  # records cast no integers
