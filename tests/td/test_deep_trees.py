"""Trees deeper than the stack of Python, and stores that hold themselves: a RecursionError, or a result."""

from __future__ import annotations

import copy
import gc
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import torch

import tensorclass
from tensorclass import TensorDict, lazy_stack, maybe_dense_stack
from tests.native_code import native_code
from tests.tree_operations import OPERATIONS

LEVELS = 60_000

MORE: dict[str, Callable[[Any, Any], Any]] = {
    "repr": lambda d, e: repr(d),
    "html": lambda d, e: d._repr_html_(),
    "deepcopy": lambda d, e: copy.deepcopy(d),
    "lock_": lambda d, e: d.lock_(),
    "unlock_": lambda d, e: d.unlock_(),
    "keys by class": lambda d, e: list(d.keys(True, True, is_leaf=lambda cls: False)),
    "sorted keys": lambda d, e: list(d.keys(True, True, sort=True)),
    "a deep key": lambda d, e: d.get(("s",) * LEVELS, None),
    "select a deep key": lambda d, e: d.select(("s",) * (LEVELS // 2)),
    "setting it in another": lambda d, e: TensorDict({"below": d}, [4]),
    "setting its batch size": lambda d, e: setattr(TensorDict({"below": d}), "batch_size", [4, 3]),
    "names": lambda d, e: d.refine_names("time"),
    "assert_close": lambda d, e: tensorclass.assert_close(d, e),
    "backward": lambda d, e: d.backward(),
    "maybe_dense_stack": lambda d, e: maybe_dense_stack([d, e]),
    "keys of a lazy stack": lambda d, e: list(lazy_stack([d, e]).keys(True, True)),
    "repr of a lazy stack": lambda d, e: repr(lazy_stack([d, e])),
    "to_lazystack": lambda d, e: d.to_lazystack(),
    "rows": lambda d, e: list(d.get_sub_tensordict(0).keys(True, True)),
    "auto_batch_size_": lambda d, e: d.auto_batch_size_(),
    "bytes": lambda d, e: d.bytes(),
    "unflatten_keys": lambda d, e: d.unflatten_keys("."),
    "to_arrow": lambda d, e: d.to_arrow(),
}


def deep() -> TensorDict:
    """A tree that was made from the inside out, each level put into the next without the checks of an assignment."""
    data = TensorDict({"a": torch.zeros(4, 3)}, [4])
    for _ in range(LEVELS):
        level = TensorDict({}, [4])
        level._store["s"] = data
        data = level
    data["a"] = torch.ones(4, 3)
    return data


def endless() -> TensorDict:
    """A collection whose store holds the collection itself."""
    data = TensorDict({"a": torch.zeros(4, 3)}, [4])
    data._store["s"] = data
    return data


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise if the block takes longer."""

    def late(*_: Any) -> None:
        raise TimeoutError(f"not through after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def python_alone() -> Iterator[None]:
    with native_code(False):
        yield


@pytest.fixture(scope="module")
def deep_trees() -> tuple[TensorDict, TensorDict]:
    return deep(), deep()


@pytest.mark.parametrize("name", [*OPERATIONS, *MORE])
@pytest.mark.parametrize("kind", ["deep", "endless"])
def test_an_operation_gives_a_result_or_a_recursion_error(
    kind: str, name: str, deep_trees: tuple[TensorDict, TensorDict]
) -> None:
    d, e = deep_trees if kind == "deep" else (endless(), endless())
    with within(60), suppress(RecursionError):
        {**OPERATIONS, **MORE}[name](d, e)
    d._lock = None


def test_a_deep_tree_is_freed() -> None:
    data: Any = deep()
    del data
    gc.collect()


def test_files_refuse_deep_trees(deep_trees: tuple[TensorDict, TensorDict], tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="nested deeper than"):
        deep_trees[0].memmap(tmp_path / "deep")
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    "call",
    [
        lambda d, e: torch.stack([d, e]),
        lambda d, e: torch.cat([d, e]),
        lambda d, e: d + e,
        lambda d, e: d.update_(e),
        lambda d, e: d[torch.tensor([7])],
        lambda d, e: d.split([7]),
        lambda d, e: d.where(torch.tensor([True] * 4), e),
    ],
)
def test_an_error_below_is_found_once_and_not_at_each_level(call: Callable[[Any, Any], Any]) -> None:
    def tree(width: int) -> TensorDict:
        data = TensorDict({"a": torch.zeros(4, width)}, [4])
        for _ in range(100):
            data = TensorDict({"s": data}, [4])
        return data

    with within(20), pytest.raises((RuntimeError, IndexError)) as info:
        call(tree(3), tree(5))
    assert not isinstance(info.value, RecursionError)


def test_an_error_of_stack_names_the_nested_key_once() -> None:
    trees = [
        TensorDict({"s": TensorDict({"t": TensorDict({"a": torch.zeros(4, width)}, [4])}, [4])}, [4])
        for width in (3, 5)
    ]
    with pytest.raises(RuntimeError, match=r"^stack: s: t: a: stack expects each tensor to be equal size"):
        torch.stack(trees)
    with pytest.raises(RuntimeError, match=r"^cat: s: t: a: Sizes of tensors must match"):
        torch.cat(trees)
