"""The engine's view of records whose fields hide members of collections.

A field can have the name of a member: ``record.values`` is then the field. So the engine
does not ask a record that it was given for its members: it reads ``_batch_size`` and the like, and calls methods of
:func:`with_members`. Where it treats tensors and collections alike, it takes the values from :func:`member_items` or
:func:`member_values`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection as Sized
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from torch import Size, Tensor

from .collection import Collection

if TYPE_CHECKING:
    from collections.abc import ItemsView

    import torch

    from .collection import Store, Value

V = TypeVar("V")

#: whether a class hides members; as long as none does, values are not looked at
_classes_hide = False


def hide_member(cls: type[Collection], name: str, member: Any) -> None:
    """Note that a field of a class hides a member.

    Args:
        cls: the class.
        name: name of the field and of the member.
        member: the member, as it is in the ``__dict__`` of its class.
    """
    global _classes_hide
    _classes_hide = True
    cls._hidden_members = {**(cls._hidden_members or {}), name: member}


def member_items(store: Store) -> ItemsView[str, Value]:
    """Return the items of a store. Values have the members of tensors and collections, whatever fields hide."""
    if not _classes_hide:
        return store.items()
    for value in store.values():  # other collections pay one look at each value for the classes that hide members
        if value.__class__ is not Tensor and isinstance(value, Collection) and value._hidden_members:
            return {key: with_members(value) for key, value in store.items()}.items()
    return store.items()


def member_values(values: Sized[V]) -> Sized[V]:
    """Return values with the members of tensors and collections, whatever fields hide."""
    if _classes_hide:
        for value in values:
            if value.__class__ is not Tensor and isinstance(value, Collection) and value._hidden_members:
                return [with_members(value) for value in values]
    return values


def with_members(value: V) -> V:
    """Return a value, or its :class:`Members` if fields hide some."""
    if isinstance(value, Collection) and value._hidden_members:
        return Members(value)  # type: ignore[return-value]
    return value


class Members:
    """The members of a record, some of which fields hide."""

    __slots__ = ("_record",)

    def __init__(self, record: Collection) -> None:
        self._record: Collection = record

    # the properties that the engine reads of tensors and collections alike

    @property
    def shape(self) -> Size:
        return self._record._batch_size

    @property
    def ndim(self) -> int:
        return len(self._record._batch_size)

    @property
    def device(self) -> torch.device | None:
        return self._record._device

    def __getattr__(self, name: str) -> Any:
        """Return another member: a property's value, or a method."""
        if name == "_record":  # torch.compile asks before it is set
            raise AttributeError(name)
        record = self._record
        hidden = (record._hidden_members or {}).get(name)
        if hidden is None:
            return getattr(record, name)
        if isinstance(hidden, FunctionType):  # torch.compile cannot trace __get__ of a function
            return functools.partial(hidden, record)
        return hidden.__get__(record, type(record))
