"""Not running modules whose results are there already."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from typing_extensions import Self

from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import NestedKey, unravel_key_list

F = TypeVar("F", bound=Callable[..., Any])

#: whether all modules are skipped whose results are there, or those that write these keys only
Mode: TypeAlias = "bool | list[NestedKey]"


class Skipping:
    """What the mode is: for the whole program, or for a thread and task of its own."""

    __slots__ = ("_count", "_everywhere", "_guard", "_here", "active")

    def __init__(self) -> None:
        self.active: bool = False  # whether somebody set a mode: all that a call asks where nobody did
        self._count = 0  # of the blocks that are open somewhere
        self._everywhere: tuple[Mode, ...] = (False,)  # of the blocks for all threads, the innermost last
        self._here: ContextVar[tuple[Mode, ...]] = ContextVar("skip_existing", default=())
        self._guard = threading.Lock()

    def read(self) -> Mode:
        """The mode of the innermost block, for this thread before for all."""
        return (self._here.get() or self._everywhere)[-1] if self.active else False

    def enter(self, mode: Mode, thread_local: bool) -> None:
        with self._guard:
            self._count += 1
            self.active = True
            if not thread_local:
                self._everywhere = (*self._everywhere, mode)
        if thread_local:
            self._here.set((*self._here.get(), mode))

    def leave(self, thread_local: bool) -> None:
        with self._guard:
            self._count -= 1
            self.active = self._count > 0
            if not thread_local:
                self._everywhere = self._everywhere[:-1]
        if thread_local:
            self._here.set(self._here.get()[:-1])


SKIPPING = Skipping()


def skip_existing() -> Mode:
    """Whether modules are skipped whose results are there already, or the keys of which: :class:`set_skip_existing`."""
    return SKIPPING.read()


def skips(data: TensorCollection, in_keys: Sequence[NestedKey], out_keys: Sequence[NestedKey]) -> bool:
    """Whether a module with these keys has nothing to do: what it writes is there, and is not what it reads."""
    mode = SKIPPING.read()
    if mode is False or not out_keys:
        return False
    if mode is not True and any(key not in mode for key in out_keys):
        return False
    there = data.keys(True)
    return all(key in there and key not in in_keys for key in out_keys)


class set_skip_existing:
    """Sets whether modules are skipped whose results are there already.

    A module is skipped when all its ``out_keys`` are in the collection, and none of them is one of its ``in_keys``. As
    a context manager it holds for the modules of this package. As a decorator of the ``forward`` of a user's module it
    lets that be skipped; with ``None``, where a block around the call says so.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> from tensorclass.nn import TensorDictModule
    >>> module = TensorDictModule(torch.exp, "x", "y")
    >>> with set_skip_existing(True):
    ...     module(TensorDict(x=1.0, y=2.0))["y"]
    tensor(2.)

    Args:
        mode: ``True``, ``False``, or the keys that can be kept: a module is skipped that writes no others.
        in_key_attr: the attribute with the keys that a decorated method reads.
        out_key_attr: the attribute with those that it writes.
        thread_local: a block holds for its own thread and task only.
    """

    def __init__(
        self,
        mode: bool | Sequence[NestedKey] | None = True,
        in_key_attr: str = "in_keys",
        out_key_attr: str = "out_keys",
        *,
        thread_local: bool = False,
    ) -> None:
        given: object = mode
        if mode is None or isinstance(mode, bool):
            self.mode: Mode | None = mode
        elif isinstance(given, (str, list, tuple)):
            self.mode = [*unravel_key_list([mode] if isinstance(mode, str) else mode)]
        else:
            raise TypeError(f"set_skip_existing: expected True, False, None or a list of keys, got {given!r}")
        self.in_key_attr: str = in_key_attr
        self.out_key_attr: str = out_key_attr
        self.thread_local: bool = thread_local

    def __enter__(self) -> Self:
        if self.mode is None:
            raise RuntimeError(
                "set_skip_existing(None) is a decorator, which follows the blocks around a call; a block needs a mode"
            )
        SKIPPING.enter(self.mode, self.thread_local)
        return self

    def __exit__(self, *exc: object) -> None:
        SKIPPING.leave(self.thread_local)

    def clone(self) -> Self:
        """Another one with this mode."""
        return type(self)(self.mode, self.in_key_attr, self.out_key_attr, thread_local=self.thread_local)

    def __call__(self, func: F, /) -> F:
        @functools.wraps(func)
        def skipping(module: Any, *args: Any, **kwargs: Any) -> Any:
            data = args[0] if args else next(iter(kwargs.values()), None)
            with self.clone() if self.mode is not None else contextlib.nullcontext():
                keys = (getattr(module, self.in_key_attr), getattr(module, self.out_key_attr))
                if isinstance(data, TensorCollection) and skips(data, *keys):
                    return data
                return func(module, *args, **kwargs)

        return skipping  # type: ignore[return-value]
