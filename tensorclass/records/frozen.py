"""Members that the options ``frozen`` and ``cast_filter`` put into a record class."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Size

from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection

#: value of the slot ``_context`` while ``__post_init__`` runs: it may set the fields of a frozen record
IN_POST_INIT: Any = ((), None)


def _size_property(doc: str) -> property:
    """Return the batch size as a property of frozen classes."""

    def read(self: Any) -> Size:
        size: Size = self._batch_size
        return size

    def write(self: Any, batch_size: Any) -> None:
        self._check_unlocked()
        self._set_batch_size(batch_size)

    return property(read, write, doc=doc)


class _Frozen:
    """Members of frozen classes. They are copied into each, so that other classes do not pay for them."""

    def _check_unlocked(self: Any) -> None:
        if getattr(self, "_context", None) is not IN_POST_INIT:
            raise dataclasses.FrozenInstanceError(
                f"{type_name(self)} is frozen: its fields and its batch size cannot be set, replaced or removed; "
                f"make a changed one with dataclasses.replace or .replace(...)"
            )

    def _set_nested(self: Any, path: Any, item: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if not inplace:
            self._check_unlocked()
        TensorCollection._set_nested(self, path, item, inplace, non_blocking)

    def _merge(self: Any, source: Any, wanted: Any, clone: bool, inplace: bool, *args: Any) -> None:
        if not inplace:
            self._check_unlocked()
        TensorCollection._merge(self, source, wanted, clone, inplace, *args)

    def unlock_(self: Any) -> Any:
        """Raise an error: the class is frozen."""
        self._check_unlocked()

    batch_size = _size_property("The leading dimensions that all values share. It cannot be set: the class is frozen.")
    shape = _size_property(
        "The batch size, under the name that it has for tensors. It cannot be set: the class is frozen."
    )

    @property
    def is_locked(self: Any) -> bool:
        """``True``: the class is frozen."""
        return True

    @is_locked.setter
    def is_locked(self: Any, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self._check_unlocked()


class _WithCastFilter:
    """Members of classes that have a ``cast_filter``."""

    def type(self: Any, dst_type: torch.dtype, *, cast_filter: Any = None) -> Any:
        """Cast the tensors to a dtype, except those that a filter leaves out.

        Args:
            dst_type: the dtype.
            cast_filter: a function of key (a tuple) and tensor that returns whether to cast the tensor; by default
                the one of the class.
        """
        return TensorCollection.type(self, dst_type, cast_filter=cast_filter or self._cast_filter)

    def _to(self: Any, device: Any, dtype: torch.dtype | None, *args: Any) -> Any:
        cast = self if dtype is None else self._filtered_cast(dtype, self._cast_filter, ())
        return TensorCollection._to(cast, device, None, *args)


FROZEN_MEMBERS = {name: member for name, member in vars(_Frozen).items() if not name.startswith("__")}
CAST_FILTER_MEMBERS = {name: member for name, member in vars(_WithCastFilter).items() if not name.startswith("__")}
