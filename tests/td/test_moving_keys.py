"""Another thread moves the keys of a collection while an operation reads them: each value stays under its own key.

Threads are simulated: a tracer removes and sets the keys of all levels at one line of the package, as a switch of
threads there would let another thread do. Each operation runs once for each of its lines. Its result is whole, or an
error.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import tensorclass
from tensorclass import TensorDict, lazy_stack, merge_tensordicts
from tests.native_code import native_code

PACKAGE = str(Path(tensorclass.__file__).parent)
#: at most so many lines of an operation are tried, at equal distances
LINES = 150
#: enough moves that a dict of these sizes is written anew, so that a loop over it could end early
MOVES = 5

ROWS, MASK = torch.tensor([0, 2]), torch.tensor([True, False, True, False])


def data(scale: float = 1.0) -> TensorDict:
    values = {key: torch.full((4, 3), scale * number) for number, key in enumerate("abcd", 1)}
    nested = {key: torch.full((4, 2), scale * number) for number, key in enumerate("xyz", 5)}
    return TensorDict({**values, "n": TensorDict(nested, [4])}, [4])


def stores(*given: Any) -> list[dict[str, Any]]:
    return [store for one in given for store in (one._store, one._store["n"]._store)]


def in_place(change: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(d: Any, e: Any) -> Any:
        change(d, e)
        return d

    return call


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "exp": lambda d, e: d.exp(),
    "erf": lambda d, e: d.erf(),
    "sqrt_": in_place(lambda d, e: d.sqrt_()),
    "add": lambda d, e: d + e,
    "add a number": lambda d, e: d + 1,
    "add a tensor": lambda d, e: d + torch.arange(4.0),
    "add a default": lambda d, e: d.add(e, default=1.0),
    "add_": in_place(lambda d, e: d.add_(e)),
    "add_ a tensor": in_place(lambda d, e: d.add_(torch.arange(4.0))),
    "eq": lambda d, e: d == e,
    "maximum": lambda d, e: d.maximum(e),
    "lerp": lambda d, e: d.lerp(e, 0.5),
    "addcmul": lambda d, e: d.addcmul(e, e),
    "mse_loss": lambda d, e: torch.nn.functional.mse_loss(d, e, reduction="none"),
    "masked_fill": lambda d, e: d.masked_fill(MASK, 9.0),
    "sum": lambda d, e: d.sum(0),
    "mean": lambda d, e: d.mean(),
    "all": lambda d, e: (d > 1).all(0),
    "reshape": lambda d, e: d.reshape(2, 2),
    "unsqueeze": lambda d, e: d.unsqueeze(0),
    "expand": lambda d, e: d.expand(2, 4),
    "split": lambda d, e: d.split([1, 3]),
    "unbind": lambda d, e: d.unbind(0),
    "flip": lambda d, e: d.flip(0),
    "gather": lambda d, e: d.gather(0, ROWS),
    "row": lambda d, e: d[0],
    "rows": lambda d, e: d[ROWS],
    "range": lambda d, e: d[1:3],
    "mask": lambda d, e: d[MASK],
    "write a row": in_place(lambda d, e: d.__setitem__(0, e[0])),
    "write rows": in_place(lambda d, e: d.__setitem__(ROWS, e[ROWS])),
    "write a number": in_place(lambda d, e: d.__setitem__(0, 7)),
    "stack": lambda d, e: torch.stack([d, e]),
    "cat": lambda d, e: torch.cat([d, e]),
    "where": lambda d, e: d.where(MASK, e),
    "lazy_stack": lambda d, e: lazy_stack([d, e]).contiguous(),
    "add to a lazy stack": lambda d, e: (lazy_stack([d, e]) + 1).contiguous(),
    "merge": lambda d, e: merge_tensordicts(d, e, callback_exist=torch.add),
    "clone": lambda d, e: d.clone(),
    "to": lambda d, e: d.to(torch.float64),
    "contiguous": lambda d, e: d.contiguous(),
    "detach": lambda d, e: d.detach(),
    "apply": lambda d, e: d.apply(torch.add, e),
    "apply in threads": lambda d, e: d.apply(torch.add, e, num_threads=1),
    "attrs in threads": lambda d, e: d.attrs(num_threads=2).get(("n", "x")).tgt_shape,
    "named_apply": lambda d, e: d.named_apply(lambda name, value: value + 1),
    "update": in_place(lambda d, e: d.update(e)),
    "update_": in_place(lambda d, e: d.update_(e)),
    "copy_at_": in_place(lambda d, e: d.copy_at_(e[1:3], slice(1, 3))),
    "flatten_keys": lambda d, e: d.flatten_keys("."),
    "to_dict": lambda d, e: d.to_dict(),
    "keys": lambda d, e: sorted(map(str, d.keys(True, True))),
    "items": lambda d, e: dict(d.items(True, True)),
    "to_namedtuple": lambda d, e: d.exclude("n").to_namedtuple()._asdict(),
    "pickle": lambda d, e: pickle.loads(pickle.dumps(d)),
    "state_dict": lambda d, e: dict(d.state_dict()),
    "consolidate": lambda d, e: d.consolidate(),
    "share_memory": lambda d, e: d.memmap(),
    "zeros_like": lambda d, e: torch.zeros_like(d),
    "tree_map": lambda d, e: pytree.tree_map(torch.neg, d),
    "vmap": lambda d, e: torch.vmap(torch.add)(d, e),
    "grad": lambda d, e: torch.autograd.grad((d.requires_grad_() * e).sum(), d),
    "pad_sequence": lambda d, e: tensorclass.pad_sequence([d, e]),
    "join": lambda d, e: d.set("k", torch.arange(4)).join(e.set("k", torch.arange(4)), on="k"),
}


def plain(value: Any) -> Any:
    """Values by key, in an order that does not depend on that of the keys."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, TensorDict):
        return {key: plain(value.get(key)) for key in sorted(value.keys())}
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value, key=str)}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


class Mover:
    """A tracer that moves keys at the nth line of the package."""

    def __init__(self, stores: list[dict[str, Any]], at: int) -> None:
        self.stores, self.at, self.lines, self.where = stores, at, 0, ""

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self.local if frame.f_code.co_filename.startswith(PACKAGE) else None

    def local(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            if self.lines == self.at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                for store in self.stores:
                    for _ in range(MOVES):
                        key = next(iter(store))
                        store[key] = store.pop(key)
            self.lines += 1
        return self.local


def moved(operation: Callable[[Any, Any], Any], at: int) -> tuple[Mover, Any]:
    """Run an operation whose keys move at one of its lines, and return its result, or the error."""
    d, e = data(), data(10.0)
    mover = Mover(stores(d, e), at)
    before = sys.gettrace()
    sys.settrace(mover)
    try:
        return mover, operation(d, e)
    except (RuntimeError, KeyError) as error:
        return mover, error
    finally:
        sys.settrace(before)


@pytest.fixture(autouse=True)
def python_alone() -> Iterator[None]:
    with native_code(False):
        yield


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_stay_under_their_keys(name: str) -> None:
    operation = OPERATIONS[name]
    expected = plain(operation(data(), data(10.0)))
    lines = moved(operation, -1)[0].lines
    assert lines
    for at in range(0, lines, lines // LINES + 1):
        mover, result = moved(operation, at)
        if not isinstance(result, Exception):
            assert plain(result) == expected, mover.where


def test_the_keys_of_an_operand_that_are_gone_are_an_error() -> None:
    d, e = data(), data()
    del e["a"]
    e["f"] = e["b"]
    with pytest.raises(KeyError, match=r"only the first has \['a'\], only the second has \['f'\]"):
        d + e
