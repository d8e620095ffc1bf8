"""stack, cat and the keys of lazy stacks in native code do what they do in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from tensorclass import NonTensorData, TensorClass, TensorDict, lazy_stack
from tensorclass.td import native
from tests.native_and_python import assert_same, state
from tests.native_code import functions


class Step(TensorClass):
    image: Tensor
    reward: Tensor


class Pair(TensorClass):
    before: Step
    after: Step
    note: str = "same"


def _rows(seed: int, rows: int = 2, **kwargs: Any) -> TensorDict:
    generator = torch.Generator().manual_seed(seed)
    return TensorDict(
        {
            "a": torch.rand(rows, 3, generator=generator),
            "b": torch.arange(rows) + seed,
            "c": {"d": torch.rand(rows, 1, 2, generator=generator), "e": torch.rand(rows, generator=generator) > 0.5},
        },
        [rows],
        **kwargs,
    )


def _step(seed: int) -> Step:
    return Step(torch.full((2, 3), float(seed)), torch.arange(2), batch_size=[2])


def _changed(name: str, value: Any) -> Callable[[], list[Any]]:
    def make() -> list[Any]:
        items = [_rows(0), _rows(1)]
        items[1]._store[name] = value
        return items

    return make


def _view_of_leaf() -> Tensor:
    return torch.rand(4, 3, requires_grad=True)[1:3]


ITEMS: dict[str, Callable[[], list[Any]]] = {
    "flat and nested": lambda: [_rows(seed) for seed in range(3)],
    "one": lambda: [_rows(0)],
    "records": lambda: [_step(0), _step(1)],
    "nested records": lambda: [Pair(_step(i), _step(i + 1), batch_size=[2]) for i in range(2)],
    "different notes": lambda: [Pair(_step(i), _step(i + 1), note=str(i), batch_size=[2]) for i in range(2)],
    "texts": lambda: [TensorDict({"s": str(i), "a": torch.ones(2)}, [2]) for i in range(2)],
    "other order of keys": lambda: [_rows(0), _rows(1).select("c", "b", "a")],
    "other length": lambda: [_rows(0), _rows(1, 4), _rows(2, 0)],
    "devices": lambda: [_rows(0, device="cpu"), _rows(1)],
    "names": lambda: [_rows(0, names=["x"]), _rows(1, names=["x"])],
    "names of the first": lambda: [_rows(0, names=["x"]), _rows(1)],
    "names of the second": lambda: [_rows(0), _rows(1, names=["x"])],
    "empty": lambda: [TensorDict({}, [2]), TensorDict({}, [2])],
    "locked": lambda: [_rows(0).lock_(), _rows(1).lock_()],
    "in one piece": lambda: [_rows(0).consolidate(), _rows(1).consolidate()],
    "dtypes": _changed("a", torch.ones(2, 3, dtype=torch.float64)),
    "requires grad": _changed("a", torch.ones(2, 3, requires_grad=True)),
    "view of a leaf": _changed("a", _view_of_leaf()),
    "transposed": _changed("a", torch.rand(3, 2).T),
    "expanded": _changed("a", torch.rand(3).expand(2, 3)),
    "large": lambda: [TensorDict({"a": torch.full((2, 40_000), float(i))}, [2]) for i in range(2)],
    "complex and conjugated": lambda: [TensorDict({"a": torch.tensor([1 + 2j, 3j]).conj()}, [2]) for _ in range(2)],
    "parameter": _changed("a", torch.nn.Parameter(torch.ones(2, 3))),
    "other device": _changed("a", torch.ones(2, 3, device="meta")),
    "lazy below": lambda: [TensorDict({"l": lazy_stack([_rows(i), _rows(i + 1)], 1)}, [2]) for i in range(2)],
    "sparse": lambda: [TensorDict({"a": torch.eye(2).to_sparse()}, [2]) for _ in range(2)],
    # errors
    "other shape": _changed("a", torch.ones(2, 4)),
    "other class below": _changed("c", _step(0)),
    "tensor for a collection": _changed("c", torch.ones(2)),
    "object for a tensor": _changed("a", NonTensorData("text", batch_size=[2])),
    "missing key": lambda: [_rows(0), _rows(1).exclude("b")],
    "another key": lambda: [_rows(0), TensorDict({"x": torch.ones(2)}, [2])],
    "record among others": lambda: [_step(0), TensorDict({"image": torch.ones(2, 3), "reward": torch.ones(2)}, [2])],
    "tensor among others": lambda: [_rows(0), torch.ones(2)],
    "number among others": lambda: [_rows(0), 3],
    "nothing": list,
}


@pytest.mark.parametrize("join", [torch.stack, torch.cat])
@pytest.mark.parametrize("name", [*ITEMS])
def test_collections_are_joined_as_in_python(name: str, join: Callable[..., Any]) -> None:
    def make() -> tuple[Any, ...]:
        torch.manual_seed(0)
        return tuple(ITEMS[name]())

    if name == "nothing":
        join = getattr(TensorDict, join.__name__)
    for dim in (0, 1, -1, 2):
        assert_same(make, lambda *items, dim=dim: join([*items], dim), dim)


@pytest.mark.parametrize("join", [torch.stack, torch.cat])
def test_modes_and_transforms_see_joins(join: Callable[..., Any]) -> None:
    def make() -> tuple[Any, ...]:
        return _rows(0), _rows(1)

    assert_same(make, lambda one, two: torch.vmap(lambda a, b: join([a[None], b[None]]))(one, two))
    assert_same(make, lambda one, two: torch.vmap(lambda a: join([a[None], two[:1]]))(one))
    with torch.inference_mode():
        assert_same(make, lambda one, two: join([one, two]))
    with torch.no_grad():
        assert_same(make, lambda one, two: join([one, two]))
    with FakeTensorMode(allow_non_fake_inputs=True):
        joined = join([TensorDict({"a": torch.ones(2)}, [2]), TensorDict({"a": torch.ones(2)}, [2])])
    assert type(joined["a"]).__name__ == "FakeTensor"


def test_results_of_joins_have_no_share_in_their_sources() -> None:
    one, two = _rows(0), _rows(1)
    joined = torch.cat([one, two])
    before = state(joined)
    one.zero_()
    two.zero_()
    assert state(joined) == before


def test_derivatives_pass_through_joins() -> None:
    inputs = [torch.ones(3, requires_grad=True), torch.ones(3)]
    stacked = torch.stack([TensorDict({"a": value}) for value in inputs])
    (stacked["a"] * torch.tensor([[2.0], [5.0]])).sum().backward()
    assert inputs[0].grad is not None
    assert inputs[0].grad.tolist() == [2.0] * 3
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.full((2,), 7.0))
        joined = torch.cat([TensorDict({"a": dual}, [2]), TensorDict({"a": torch.ones(2)}, [2])])
        tangent = torch.autograd.forward_ad.unpack_dual(joined["a"]).tangent
        assert tangent is not None
        assert tangent.tolist() == [7.0, 7.0, 0.0, 0.0]


@pytest.mark.skipif(not native.ON, reason="native code is off")
@pytest.mark.parametrize("name", ["flat and nested", "nested records", "texts", "requires grad", "dtypes", "large"])
def test_native_code_takes_the_usual_joins(name: str) -> None:
    assert functions()["stack"](ITEMS[name](), 0) is not None
    assert functions()["cat"](ITEMS[name](), -1) is not None
