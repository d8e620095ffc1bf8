"""Not running modules whose results are there already."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from typing_extensions import Self

from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import NestedKey, unravel_key_list

from .modes import Mode, ModeSetting

F = TypeVar("F", bound=Callable[..., Any])

#: whether all modules are skipped whose results are there, or those that write these keys only
Skipped: TypeAlias = "bool | list[NestedKey]"


SKIPPING: Mode[Skipped] = Mode(False)


def skip_existing() -> Skipped:
    """Whether modules are skipped whose results are there already, or the keys of which: :class:`set_skip_existing`."""
    return SKIPPING.current()


def skips(data: TensorCollection, in_keys: Sequence[NestedKey], out_keys: Sequence[NestedKey]) -> bool:
    """Whether a module with these keys has nothing to do: what it writes is there, and is not what it reads."""
    mode = SKIPPING.current()
    if mode is False or not out_keys:
        return False
    if mode is not True and any(key not in mode for key in out_keys):
        return False
    there = data.keys(True)
    return all(key in there and key not in in_keys for key in out_keys)


class set_skip_existing(ModeSetting[Skipped]):
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
            self.mode: Skipped | None = mode  # type: ignore[assignment]
        elif isinstance(given, (str, list, tuple)):
            self.mode = [*unravel_key_list([mode] if isinstance(mode, str) else mode)]
        else:
            raise TypeError(f"set_skip_existing: expected True, False, None or a list of keys, got {given!r}")
        self.in_key_attr: str = in_key_attr
        self.out_key_attr: str = out_key_attr
        self._begin(thread_local)

    def _mode_and_value(self) -> tuple[Mode[Skipped], Skipped]:
        if self.mode is None:
            raise RuntimeError(
                "set_skip_existing(None) is a decorator, which follows the blocks around a call; a block needs a mode"
            )
        return SKIPPING, self.mode

    def clone(self) -> Self:
        """Another one with this mode."""
        return type(self)(self.mode, self.in_key_attr, self.out_key_attr, thread_local=self.thread_local)

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def skipping(module: Any, *args: Any, **kwargs: Any) -> Any:
            data = args[0] if args else next(iter(kwargs.values()), None)
            with self.clone() if self.mode is not None else contextlib.nullcontext():
                keys = (getattr(module, self.in_key_attr), getattr(module, self.out_key_attr))
                if isinstance(data, TensorCollection) and skips(data, *keys):
                    return data
                return function(module, *args, **kwargs)

        return skipping  # type: ignore[return-value]
