"""Copies, casts, moves, reductions and ``where``: native code gives what the Python code gives, bit by bit."""

from typing import Any

import pytest
import torch

from tensorclass import TensorClass, TensorDict
from tensorclass.td import native
from tests.native_comparison import outcome


class Row(TensorClass):
    x: torch.Tensor
    count: torch.Tensor


def build(dtype: torch.dtype = torch.float32) -> Any:
    values = torch.linspace(-3, 9, 24).to(dtype)
    row = Row(x=values.view(4, 6)[:, ::2], count=torch.arange(4), batch_size=[4])
    inner = TensorDict({"row": row, "plane": values.view(4, 2, 3).mT, "mask": torch.arange(4) > 1}, [4])
    return TensorDict({"a": values[:4].clone(), "inner": inner, "column": torch.ones(4, 1)}, [4])


OPERATIONS: dict[str, Any] = {
    "clone": lambda x: x.clone(),
    "detach": lambda x: x.detach(),
    "contiguous": lambda x: x.contiguous(),
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "zeros_like with a dtype": lambda x: torch.zeros_like(x, dtype=torch.int8),
    "double": lambda x: x.double(),
    "float": lambda x: x.float(),
    "half": lambda x: x.half(),
    "int": lambda x: x.int(),
    "bool": lambda x: x.bool(),
    "to(float64)": lambda x: x.to(torch.float64),
    "to(int32)": lambda x: x.to(torch.int32),
    "to(float64) of a record": lambda x: x["inner", "row"].to(torch.float64),
    "double of a record": lambda x: x["inner", "row"].double(),
    'to("cpu")': lambda x: x.to("cpu"),
    'to("cpu") of a record': lambda x: x["inner", "row"].to("cpu"),
    'to("cpu") twice': lambda x: x["inner", "row"].to("cpu").to(torch.device("cpu")),
    "to(nothing known)": lambda x: x.to("nowhere"),
    "where": lambda x: x.where(torch.arange(4) > 1, x.clone()),
    "where, another dtype": lambda x: x.where(torch.arange(4) > 1, x.double()),
    "where, one row": lambda x: x.where(torch.tensor([True]), x.clone()),
    "torch.where": lambda x: torch.where(torch.arange(4) % 2 == 0, x, x.clone()),
    "where, other keys": lambda x: x.where(torch.arange(4) > 1, x.exclude("a")),
}
for _name in ("sum", "nansum", "mean", "nanmean", "amax", "amin", "all", "any", "logsumexp"):
    for _dim in (0, -1, 1, None, (0,)):
        OPERATIONS[f"{_name}({_dim})"] = lambda x, name=_name, dim=_dim: getattr(x, name)(dim)
        OPERATIONS[f"{_name}({_dim}) of floats"] = lambda x, name=_name, dim=_dim: getattr(
            x.exclude(("inner", "row", "count"), ("inner", "mask")), name
        )(dim, True)


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_gives_the_same(name: str) -> None:
    for dtype in (torch.float32, torch.float64, torch.int64, torch.complex64):

        def make(dtype: torch.dtype = dtype) -> Any:
            return build(dtype)

        assert outcome(make, OPERATIONS[name], True) == outcome(make, OPERATIONS[name], False), dtype


def test_gradients_pass() -> None:
    for operation in (
        lambda x: x.clone(),
        lambda x: x.double(),
        lambda x: x.mean(0),
        lambda x: x.sum(0),
        lambda x: x.where(torch.arange(3) > 0, x * 2),
    ):
        found = []
        for on in (True, False):
            data = TensorDict({"a": torch.ones(3), "n": {"b": torch.ones(3, 2)}}, [3]).requires_grad_()
            before, native.ON = native.ON, on and native.ON
            try:
                result = operation(data)
            finally:
                native.ON = before
            (result.double()["a"].sum() + result.double()["n", "b"].sum()).backward()
            found.append((data.grad["a"].tolist(), data.grad["n", "b"].tolist()))
        assert found[0] == found[1]


def test_a_copy_shares_no_memory_and_a_detached_one_does() -> None:
    data = build()
    copied, detached = data.clone(), data.detach()
    data["a"].zero_()
    assert copied["a"][0] == -3
    assert detached["a"][0] == 0
    assert data.contiguous()["a"] is data["a"]
