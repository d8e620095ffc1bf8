"""Packed tensors: on memory that no plain tensor can have, used as plain tensors are."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tensorclass.td.leaves.packed_tensor import PackedTensor, as_packed_tensor

DTYPE = np.dtype([("flag", "u1"), ("x", "f8"), ("m", "f4", (2,)), ("i", "i8"), ("z", "c16"), ("h", "f2"), ("w", "u4")])
NUMBERS = ("x", "m", "i", "z", "h", "w")


def structures() -> Any:
    """Twelve structures of 47 bytes, in three columns, with different numbers."""
    array = np.zeros((4, 3), DTYPE)
    for position, name in enumerate(NUMBERS):
        array[name] = np.arange(array[name].size).reshape(array[name].shape) + position
    return array


def plain(array: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array))


READS: dict[str, Callable[[Tensor], Any]] = {
    "arithmetic": lambda t: t * t + 1,
    "a plain operand in front": lambda t: torch.ones(t.shape, dtype=t.dtype) + t,
    "sum": lambda t: t.to(torch.complex128).sum(0),
    "comparison": lambda t: t == t.clone(),
    "mask": lambda t: t[t != 0],
    "rows": lambda t: t[torch.tensor([2, 0])],
    "stack": lambda t: torch.stack([t, t]),
    "cat": lambda t: torch.cat([t, t.clone()], 1),
    "foreach": lambda t: torch._foreach_add([t, t[0]], 1),
    "where": lambda t: torch.where(t != 0, t, t),
    "vmap": lambda t: torch.vmap(lambda row: row + row)(t),
    "conj": lambda t: t.conj() * 1,
    "reshape": lambda t: t.reshape(-1),
    "flip": lambda t: t.flip(0),
    "to": lambda t: t.to(torch.float64) if not t.is_complex() else t.real,
    "tolist": lambda t: t.tolist(),
    "item": lambda t: t.flatten()[-1].item(),
    "text": lambda t: (repr(t), f"{t.flatten()[3]}", str(t[0])),
    "array": lambda t: np.asarray(t).tolist(),
    "pickle": lambda t: pickle.loads(pickle.dumps(t)),
    "deepcopy": copy.deepcopy,
    "clone": torch.clone,
    "contiguous": lambda t: t.contiguous(),
    "zeros_like": lambda t: torch.zeros_like(t),
    "shape": lambda t: (t.shape, t.dtype, t.ndim, t.numel(), t.element_size(), t.device),
}

VIEWS: dict[str, Callable[[Tensor], Any]] = {
    "int": lambda t: t[1],
    "slice": lambda t: t[1:3, ::2],
    "ellipsis": lambda t: t[..., -1],
    "None": lambda t: t[None],
    "view": lambda t: t.view(2, 2, *t.shape[1:]),
    "view with an open size": lambda t: t.view(-1, *t.shape[2:]),
    "view without items": lambda t: t[:0].view(5, 0, 1),
    "unflatten": lambda t: t.unflatten(0, (2, 2)),
    "permute": lambda t: t.movedim(0, -1),
    "transpose": lambda t: t.transpose(-1, -2),
    "unsqueeze": lambda t: t.unsqueeze(-1),
    "squeeze": lambda t: t[:1].squeeze(),
    "expand": lambda t: t.expand(2, *t.shape),
    "unbind": lambda t: t.unbind(1),
    "split": lambda t: t.split([1, 3]),
    "chunk": lambda t: t.chunk(2, -1),
    "narrow": lambda t: t.narrow(0, 1, 2),
    "diagonal": lambda t: t.diagonal(),
    "unfold": lambda t: t.unfold(0, 2, 1),
    "detach": lambda t: t.detach(),
    "data": lambda t: t.data,
    "another dtype": lambda t: t.view(torch.int64) if t.dtype == torch.float64 else t,
    "iteration": list,
}

WRITES: dict[str, Callable[[Tensor], Any]] = {
    "a number": lambda t: t.__setitem__(0, 7),
    "a mask": lambda t: t.__setitem__(t == 3, 8),
    "rows": lambda t: t.__setitem__(torch.tensor([0, 2]), t[1].clone()),
    "mul_": lambda t: t.mul_(2),
    "add_ with itself": lambda t: t.add_(t),
    "a view": lambda t: t[1:].transpose(0, 1).fill_(5),
    "copy_": lambda t: t.copy_(t.clone() * 2),
    "foreach": lambda t: torch._foreach_add_([t[0], t[1:]], 1),
    "zero_": lambda t: t.zero_(),
    "index_add_": lambda t: t.index_add_(0, torch.tensor([1]), t[:1].clone()),
    "out": lambda t: torch.add(t.clone(), 1, out=t),
    "+=": lambda t: t.__iadd__(1),
}


def values(result: Any) -> Any:
    """A result as plain data, with shapes and dtypes."""
    if isinstance(result, Tensor):
        return result.dtype, tuple(result.shape), result.detach().clone().tolist()
    return [values(part) for part in result] if isinstance(result, (list, tuple)) else result


def outcome(function: Callable[[Tensor], Any], tensor: Tensor) -> Any:
    """A result, or the class of an error of torch, which lacks some operations for a dtype."""
    try:
        return values(function(tensor))
    except (RuntimeError, NotImplementedError, AttributeError) as error:  # the last: pickles of uint32
        return type(error)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("function", [*READS.values(), *VIEWS.values()], ids=[*READS, *VIEWS])
def test_what_is_read_is_what_a_plain_tensor_gives(name: str, function: Callable[[Tensor], Any]) -> None:
    array = structures()
    tensor = as_packed_tensor(array[name])
    assert isinstance(tensor, PackedTensor)
    assert outcome(function, tensor) == outcome(function, plain(array[name]))
    assert (array == structures()).all()


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("function", WRITES.values(), ids=WRITES)
def test_what_is_written_arrives_in_the_array(name: str, function: Callable[[Tensor], Any]) -> None:
    array, expected = structures(), plain(structures()[name])
    assert outcome(function, as_packed_tensor(array[name])) == outcome(function, expected)
    assert np.array_equal(array[name], expected.numpy())
    others = [other for other in array.dtype.names if other != name]
    assert (array[others] == structures()[others]).all()


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_on_the_same_memory(name: str) -> None:
    array = structures()
    result = VIEWS[name](as_packed_tensor(array["x"]))
    parts = result if isinstance(result, (list, tuple)) else [result]
    assert {type(part) for part in parts} == {PackedTensor}
    assert all(np.shares_memory(part.numpy(), array) for part in parts if part.numel())
    if name not in ("expand", "unfold"):  # torch does not write where an item is several times
        for part in parts:
            part.fill_(99)
        assert (array["x"] != structures()["x"]).sum() == sum(part.numel() for part in parts)


@pytest.mark.parametrize("offset", range(16))
def test_complex_doubles_lie_anywhere(offset: int) -> None:
    memory = np.zeros(100, np.uint8)
    memory = memory[-memory.ctypes.data % 16 :]
    array: Any = np.ndarray(4, np.complex128, memory.data, offset)
    tensor = as_packed_tensor(array)
    tensor += 2
    assert (array.tolist(), (tensor * 2).tolist()) == ([2] * 4, [4] * 4)
    assert isinstance(tensor, PackedTensor) == (offset != 0)


def test_one_item_or_none_is_a_plain_tensor() -> None:
    array = structures()
    one = as_packed_tensor(array[2:3, 1]["x"])
    one.fill_(99)
    assert (type(one), array["x"][2, 1]) == (Tensor, 99)
    assert type(as_packed_tensor(array["x"][:0])) is Tensor


def test_its_array_is_the_one_it_was_made_of() -> None:
    array = structures()
    back = as_packed_tensor(array["m"])[1:].transpose(0, 1).numpy()
    assert np.shares_memory(back, array)
    assert np.array_equal(back, array["m"][1:].swapaxes(0, 1))


def test_gradients_are_plain() -> None:
    tensor = as_packed_tensor(structures()["x"]).requires_grad_()
    (tensor * tensor).sum().backward()
    assert tensor.grad is not None
    assert (type(tensor.grad), tensor.grad.tolist()) == (Tensor, (2 * tensor.detach()).tolist())
    with pytest.raises(RuntimeError, match="call detach"):
        tensor.numpy()


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized:UserWarning")  # torch 2.15
@pytest.mark.parametrize(
    "function, what",
    [
        (lambda t: t.unsqueeze_(0), "a packed tensor cannot be reshaped in place"),
        (lambda t: t.share_memory_(), "call clone"),
        (lambda t: torch.from_dlpack(t), "call clone"),
        (lambda t: t.view(torch.int32), "whose size differs; call clone"),
        (lambda t: t.view(-1, 5), "shape"),
        (lambda t: t.transpose(0, 1).view(-1), "view"),
        (lambda t: torch.add(torch.zeros(5, dtype=torch.float64), 1, out=t), "cannot change its shape"),
    ],
)
def test_what_it_cannot_be_is_an_error_that_changes_nothing(function: Callable[[Any], Any], what: str) -> None:
    array = structures()
    with pytest.raises((RuntimeError, BufferError), match=what):
        function(as_packed_tensor(array["x"]))
    assert (array == structures()).all()


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_index_out_of_range_is_an_error() -> None:
    with pytest.raises(IndexError):
        as_packed_tensor(structures()["x"])[9]
    with pytest.raises(IndexError, match="Dimension out of range"):
        as_packed_tensor(structures()["x"]).unbind(3)
