"""Skip modules whose results are already in the collection."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import NestedKey, unravel_key_list
from tensorclass.td.modes import Mode, ProgramSetting

F = TypeVar("F", bound=Callable[..., Any])

#: skip all modules whose results are present, or only those that write no other keys than these
Skipped: TypeAlias = "bool | list[NestedKey]"


SKIPPING: Mode[Skipped] = Mode("skip_existing", False)


def skip_existing() -> Skipped:
    """Return the mode that :class:`set_skip_existing` sets: a bool, or the keys whose modules are skipped.

    Example:
        >>> from tensorclass.nn import set_skip_existing, skip_existing
        >>> skip_existing()
        False
        >>> with set_skip_existing(["y"]):
        ...     skip_existing()
        ['y']
    """
    return SKIPPING.current()


def skips(data: TensorCollection, in_keys: Sequence[NestedKey], out_keys: Sequence[NestedKey]) -> bool:
    """Return whether to skip a module: its ``out_keys`` are all present, and none of them is also an input."""
    mode = SKIPPING.current()
    if mode is False or not out_keys:
        return False
    if mode is not True and any(key not in mode for key in out_keys):
        return False
    there = data.keys(True)
    return all(key in there and key not in in_keys for key in out_keys)


class set_skip_existing(ProgramSetting[Skipped]):
    """Skip modules whose results are already in the collection.

    A module is skipped if all its ``out_keys`` are in the collection and none of them is one of its ``in_keys``. As a
    context manager this holds for the modules of this package. As a decorator it lets the ``forward`` of a user's
    module be skipped; with ``mode=None`` only if a block around the call says so.

    Args:
        mode: ``True``, ``False``, or a list of keys: only modules that write no other keys are skipped. ``None`` is for
            decorators.
        in_key_attr: the attribute of a decorated method's object that holds the keys it reads.
        out_key_attr: the attribute that holds the keys it writes.
        thread_local: limit a block to its own thread.

    Raises:
        TypeError: ``mode`` is something else.
        RuntimeError: a block is opened with ``mode=None``.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import TensorDictModule, set_skip_existing
        >>> module = TensorDictModule(torch.exp, "x", "y")
        >>> with set_skip_existing(True):
        ...     module(TensorDict(x=1.0, y=2.0))["y"]
        tensor(2.)
    """

    def __init__(
        self,
        mode: bool | Sequence[NestedKey] | None = True,
        in_key_attr: str = "in_keys",
        out_key_attr: str = "out_keys",
        *,
        thread_local: bool = False,
    ) -> None:
        super().__init__(thread_local)
        given: object = mode
        if mode is None or isinstance(mode, bool):
            self.mode: Skipped | None = mode
        elif isinstance(given, (str, list, tuple)):
            self.mode = [*unravel_key_list([mode] if isinstance(mode, str) else mode)]
        else:
            raise TypeError(f"set_skip_existing: expected True, False, None or a list of keys, got {given!r}")
        self.in_key_attr: str = in_key_attr
        self.out_key_attr: str = out_key_attr

    def _mode_and_value(self) -> tuple[Mode[Skipped], Skipped]:
        if self.mode is None:
            raise RuntimeError(
                "set_skip_existing(None) is a decorator, which follows the blocks around a call; a block needs a mode"
            )
        return SKIPPING, self.mode

    def __call__(self, function: F) -> F:
        """Decorate a method that takes a collection, so that it can be skipped."""

        @functools.wraps(function)
        def skipping(module: Any, *args: Any, **kwargs: Any) -> Any:
            data = args[0] if args else next(iter(kwargs.values()), None)
            with self.clone() if self.mode is not None else contextlib.nullcontext():
                keys = (getattr(module, self.in_key_attr), getattr(module, self.out_key_attr))
                if isinstance(data, TensorCollection) and skips(data, *keys):
                    return data
                return function(module, *args, **kwargs)

        return skipping  # type: ignore[return-value]
