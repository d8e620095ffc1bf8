"""The protocol of stores: what a store must answer, and what it may answer itself for speed.

A store is two classes.

- :class:`StoreMapping` holds the values: a mapping from strings to tensors and collections. It is the ``_store`` of a
  collection. A plain ``dict`` is one.
- :class:`StoreMethods` are methods of collections on this store, which :func:`~tensorclass.td.stores.on_store` puts in
  front of the methods of a collection class. A method that is not overridden runs over the items of the mapping and
  gives a collection on a plain ``dict``. A plain ``dict`` needs no such class.

The names of :class:`StoreMethods` are private: they are for stores in this package. A user's mapping needs only what
:class:`StoreMapping` says; ``TensorDict.from_store`` makes a collection of it.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, Protocol, runtime_checkable

from torch import Size, Tensor
from typing_extensions import Self


@runtime_checkable
class StoreMapping(Protocol):
    """A mapping from keys to values that can be written: what every store must answer.

    Keys are strings without further meaning. The order of iteration is the order of keys in the collection. A value is
    a tensor, or a collection for nested keys and non-tensor data, with the batch size in front of its shape. All
    methods after the first five come with ``collections.abc.MutableMapping``.
    """

    def __getitem__(self, key: str, /) -> Any:
        """Return a value. It may be a copy, if the methods of the store derive from :class:`WrittenBack`.

        A nested collection must be the same object, or one on the same data, at each read.

        Raises:
            KeyError: the key does not exist.
        """

    def __setitem__(self, key: str, value: Any, /) -> None:
        """Write a value under a present or a new key. It is checked already."""

    def __delitem__(self, key: str, /) -> None:
        """Remove a key.

        Raises:
            KeyError: the key does not exist.
        """

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys. The order is the same each time unless keys are written or removed."""
        ...

    def __len__(self) -> int:
        """Return the number of keys."""
        ...

    def __contains__(self, key: object, /) -> bool:
        """Return whether a key exists, without reading its value."""
        ...

    def get(self, key: str, default: Any = None, /) -> Any:
        """Return a value, or the default if the key does not exist."""

    def keys(self) -> KeysView[str]:
        """Return a view of the keys."""
        ...

    def values(self) -> ValuesView[Any]:
        """Return a view of the values. Iterating reads each value once."""
        ...

    def items(self) -> ItemsView[str, Any]:
        """Return a view of keys and values. Iterating reads each value once."""
        ...

    def update(self, other: Mapping[str, Any], /) -> None:
        """Write several values."""

    def clear(self) -> None:
        """Remove all keys."""


class StoreMethods(Protocol):
    """Methods of collections on a store.

    ``OnStore`` answers all of them but :meth:`_take`; a store overrides those that it can answer faster, or must answer
    in its own way. Any other method of a collection can be overridden too: a lazy stack answers shape operations.
    """

    # -- results ------------------------------------------------------------------------------------------------------

    def _like(self, store: Any, batch_size: Size, names: Any = None) -> Any:
        """Return a collection on ``store``, by default a plain ``dict``, of the class that has no other store."""

    def _densified(self) -> Self:
        """Return a collection on plain dicts at every level."""
        ...

    # -- required if values that are read may be copies (``WrittenBack``) ----------------------------------------------

    def _take(self, values: Any, objects: bool = True) -> None:
        """Write the values of a collection on a plain ``dict``; ``objects=False``: only tensors have changed.

        Every operation in place ends here. ``WrittenBack`` leaves it to the store.
        """

    def _read(self, keys: Iterable[str]) -> Any:
        """Return a collection on a plain ``dict`` with some of the values."""

    def _apart(self, values: Any) -> Any:
        """Return values that can be changed before it is known whether all changes fit."""

    # -- for speed: the tree ------------------------------------------------------------------------------------------

    def _nodes(self) -> Sequence[Any]:
        """Return the collections one level below, which locks, names and devices reach next."""
        ...

    def _beside(self) -> Sequence[Any]:
        """Return collections that this one refers to other than as values, such as its source."""
        ...

    def _holds_values(self) -> bool:
        """Return ``False`` if components hold the values: names, devices and locks go to :meth:`_nodes`."""
        ...

    def _leaves(self) -> Iterator[Tensor]:
        """Yield all tensors, depth first. A store with components yields theirs, without stacking them."""
        ...

    def _with_leaves(self, leaves: Iterator[Tensor]) -> Self:
        """Return the same tree with other tensors, in the order of :meth:`_leaves`."""
        ...

    def _put_leaves(self, leaves: Iterator[Tensor]) -> None:
        """Take back tensors that :meth:`_leaves` yielded, after writes into them."""

    def _aligned_parts(self, operand: Any) -> Any:
        """Return pairs of a component and its share of an operand; ``None`` if there are no components."""

    # -- for speed: keys and rows -------------------------------------------------------------------------------------

    def _set_(self, key: str, value: Any, non_blocking: bool = False) -> None:
        """Write into the value of a present key, in place."""

    def _set_at(self, key: str, value: Any, index: Any) -> None:
        """Write rows of one value."""

    def _write_views(self, index: tuple[Any, ...], rows: Any) -> bool:
        """Write rows into views of the values; return whether that was possible."""
        ...

    def _write_checked(self, index: tuple[Any, ...], rows: Any, ndim: int, row_ndim: int) -> Any:
        """Write rows that are known to fit."""

    def _fill(self, item: Any, value: Any) -> None:
        """Write one number to rows of all tensors."""


#: methods of :class:`StoreMethods` that only stores have whose values may be copies
WRITTEN_BACK: frozenset[str] = frozenset(("_take", "_read", "_apart"))
