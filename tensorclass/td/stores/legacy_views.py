"""Views of a collection that write through to it: what shape operations return in the legacy mode of old releases.

The mode is :class:`~tensorclass.td.legacy.set_lazy_legacy`. Nothing here is reached without it: :func:`install` puts
functions in front of the methods that the mode is about when it is turned on for the first time.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from torch.compiler import is_dynamo_compiling

from tensorclass.td.collection import is_tree
from tensorclass.td.context import NOTHING, PERMUTED, RESIZED
from tensorclass.td.hidden_members import with_members
from tensorclass.td.inherited_members import replace_member
from tensorclass.td.operations import OPERATIONS
from tensorclass.td.permute_and_flip import Permuting
from tensorclass.td.shape_operations import Shaping

from .lazy.lazy_shapes import LazyShaping
from .store_classes import OnSource, OnStore, SourceKeys, on_new_store

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection
    from tensorclass.td.collection import Store


class ViewedValues(SourceKeys):
    """The store: the values of a source in another shape.

    Reading a key views the value of the source. Writing a key sets it in the source, in the shape of the source.

    Args:
        source: the collection.
        forward: the operation on a mapping with some values of the source.
        result: of the operation on the source, which knows its inverse.
    """

    __slots__ = ("forward", "inverse")

    def __init__(self, source: TensorCollection, forward: Callable[[Store], Store], result: TensorCollection) -> None:
        super().__init__(source)
        self.forward: Callable[[Store], Store] = forward
        _, inverse, _, *args = result._context
        ndim = len(result._batch_size)
        self.inverse: Callable[[Any, Any], Any] = lambda new, old: inverse.value(new, old, source, ndim, *args)

    def __getitem__(self, key: str) -> Any:
        value: Any = self.source._store[key]
        viewed: Any = self.forward({key: value})[key]
        if not is_tree(value):
            return viewed
        below: Any = value
        return _through(below, lambda store: self.forward({key: below._same(store)})[key]._store, viewed)  # type: ignore[union-attr]

    def __setitem__(self, key: str, value: Any) -> None:
        if is_tree(value):
            value = value._densified() if isinstance(value, OnStore) else value
        self.source._set(key, self.inverse(value, self.source._find((key,))))


class LegacyView(OnSource):
    """Methods of a view that writes through. Keys and locks are those of its source."""

    __slots__ = ()

    if TYPE_CHECKING:
        _store: ViewedValues  # pyright: ignore[reportIncompatibleVariableOverride]  # no other store comes here

    def __reduce__(self) -> Any:
        return self._densified().__reduce__()

    # -- locks: the source's ------------------------------------------------------------------------------------------

    def _check_unlocked(self) -> None:
        self._store.source._check_unlocked()

    @property
    def is_locked(self) -> bool:
        return with_members(self._store.source).is_locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        with_members(self._store.source).is_locked = value

    def lock_(self) -> Any:
        with_members(self._store.source).lock_()
        return self

    def unlock_(self) -> Any:
        with_members(self._store.source).unlock_()
        return self

    # -- what a view cannot change ------------------------------------------------------------------------------------

    def _done(self, result: Any, inplace: bool) -> Any:
        return self._refuse() if inplace else result

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "a view of the legacy mode has the batch size, the names and the device of its source, and no tensors of "
            "its own: change the source, or a copy, .clone()"
        )


for _name in (
    "_check_batch_size", "_take_batch_size", "_set_names", "_set_device", "_clear_device", "_assign",
    "requires_grad_", "detach_", "share_memory_", "pin_memory_", "memmap_",
):  # fmt: skip
    setattr(LegacyView, _name, LegacyView._refuse)


def _through(source: Any, forward: Callable[[Store], Store], result: Any) -> Any:
    """Return a view on ``source`` with the batch size, device and names of the plain result of an operation."""
    return on_new_store(
        LegacyView, source.__class__, ViewedValues(source, forward, result), result._batch_size, result._device,
        result._names,
    )  # fmt: skip


# -- installation -----------------------------------------------------------------------------------------------------


def _in_front_of(plain: Callable[..., Any], is_on: Callable[[], bool | None]) -> Callable[..., Any]:
    """Make a method that returns a view in the legacy mode where users call it; the package gets plain results.

    Args:
        plain: the method without the mode.
        is_on: whether the mode is on; a function, since torch.compile refuses bound methods in closures.
    """

    @functools.wraps(plain)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = plain(self, *args, **kwargs)
        if is_dynamo_compiling() or not is_on() or not self._is_tree() or _is_called_by_the_package():
            return result
        undo = getattr(result, "_context", NOTHING)[1]
        if result is self or undo not in (RESIZED, PERMUTED):  # a view as another dtype
            return result
        return _through(self, lambda store: plain(self._same(store), *args, **kwargs)._store, result)

    method._asks = True  # type: ignore[attr-defined]  # for the mode
    return method


def _is_called_by_the_package() -> bool:
    """Return whether the caller of a method is code of this package other than the functions of torch."""
    module: str = sys._getframe(2).f_globals.get("__name__", "")
    return module.startswith("tensorclass.") and module != "tensorclass.td.torch_functions"


def install(is_on: Callable[[], bool | None]) -> None:
    """Let methods whose results can be views ask for the mode. Until then they do not, so that nobody pays for it."""
    if hasattr(Shaping.view, "_asks"):
        return
    for family in (Shaping, Permuting, LazyShaping):
        for row in OPERATIONS:
            if row.legacy_view and row.name in vars(family):
                # calls of the package go through: nested collections need not be asked
                wrapper = _in_front_of(vars(family)[row.name], is_on)
                replace_member(family, row.name, wrapper, calls_nested=False)
