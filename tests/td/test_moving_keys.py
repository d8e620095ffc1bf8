"""Another thread moves the keys of a collection while an operation reads them: each value stays under its own key.

Threads are simulated: a tracer removes and sets the keys of all levels at one line of the package, as a switch of
threads there would let another thread do. Each operation runs once for each of its lines. Its result is whole, or an
error.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import TensorDict
from tests.native_code import native_code
from tests.tree_operations import OPERATIONS

PACKAGE = str(Path(tensorclass.__file__).parent)
#: at most so many lines of an operation are tried, at equal distances
LINES = 150
#: enough moves that a dict of these sizes is written anew, so that a loop over it could end early
MOVES = 5


def data(scale: float = 1.0) -> TensorDict:
    values = {key: torch.full((4, 3), scale * number) for number, key in enumerate("abcd", 1)}
    nested = {key: torch.full((4, 2), scale * number) for number, key in enumerate("xyz", 5)}
    return TensorDict({**values, "n": TensorDict(nested, [4])}, [4])


def stores(*given: Any) -> list[dict[str, Any]]:
    return [store for one in given for store in (one._store, one._store["n"]._store)]


def plain(value: Any) -> Any:
    """Values by key, in an order that does not depend on that of the keys."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, TensorDict):
        return {key: plain(value.get(key)) for key in sorted(value.keys())}
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value, key=str)}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def move(store: dict[str, Any]) -> None:
    for _ in range(MOVES):
        key = next(iter(store))
        store[key] = store.pop(key)


class Mover:
    """A tracer that moves keys at the nth line of the package."""

    def __init__(self, stores: list[dict[str, Any]], at: int, change: Callable[[dict[str, Any]], Any] = move) -> None:
        self.stores, self.at, self.lines, self.where, self.change = stores, at, 0, "", change

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self.local if frame.f_code.co_filename.startswith(PACKAGE) else None

    def local(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            if self.lines == self.at:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                for store in self.stores:
                    self.change(store)
            self.lines += 1
        return self.local


def moved(
    operation: Callable[[Any, Any], Any], at: int, change: Callable[[dict[str, Any]], Any] = move
) -> tuple[Mover, Any]:
    """Run an operation whose keys move at one of its lines, and return its result, or the error."""
    d, e = data(), data(10.0)
    mover = Mover(stores(d, e), at, change)
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


def test_pop_of_a_key_that_is_gone_gives_the_default() -> None:
    def operation(d: Any, e: Any) -> Any:
        return d.pop("a", "gone")

    lines = moved(operation, -1)[0].lines
    found = [moved(operation, at, lambda store: store.pop("a", None))[1] for at in range(lines)]
    assert any(one == "gone" for one in found if isinstance(one, str))
    assert all(isinstance(one, (str, Tensor)) for one in found), found


def test_two_threads_that_move_keys_beside_an_addition() -> None:
    d, stop = TensorDict({key: torch.full((4,), float(number)) for number, key in enumerate("abcdef")}, [4]), False

    def mover(keys: str) -> None:
        while not stop:
            for key in keys:
                d[key] = d.pop(key)

    before = sys.getswitchinterval()
    threads = [threading.Thread(target=mover, args=(keys,)) for keys in ("abc", "def")]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(2000):
            with suppress(RuntimeError, KeyError):
                for key, value in list((d + 1).items()):
                    assert value[0] == "abcdef".index(key) + 1
    finally:
        stop = True
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)


def test_two_threads_that_unlock_one_collection() -> None:
    lines = 0
    for at in range(100):
        d, lines = data().lock_(), 0

        def at_line(frame: FrameType, event: str, argument: object) -> Any:
            nonlocal lines
            if event == "line":
                if lines == at:  # noqa: B023  (called in this round)
                    d.unlock_()  # noqa: B023  (called in this round)
                lines += 1
            return at_line

        def at_call(frame: FrameType, event: str, argument: object) -> Any:
            return at_line if frame.f_code.co_filename.endswith("locking.py") else None

        with native_code(False):
            sys.settrace(at_call)
            try:
                d.unlock_()
            finally:
                sys.settrace(None)
        assert not d.is_locked
        assert not d["n"].is_locked
    assert 10 < lines < 100
