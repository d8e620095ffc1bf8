"""The bases of leaves that are not tensors: values without keys that behave like one tensor over the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, KeysView, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeGuard

import torch
from torch import Size, Tensor
from torch.compiler import is_dynamo_compiling
from typing_extensions import Self

from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import class_name, type_name
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection, ValueOperations
from tensorclass.td.collection import Collection, call_on_value
from tensorclass.td.first_class_dims import BoundIndex, is_bound_item
from tensorclass.td.inherited_members import copy_inherited
from tensorclass.td.keys import unravel_key_to_tuple
from tensorclass.td.operations import OPERATIONS
from tensorclass.td.pointwise import Pointwise
from tensorclass.td.reductions import Reductions
from tensorclass.td.stack_and_cat import _shared_names

from .content import Content
from .object_codes import codes_row_by_row, flatten_lists

if TYPE_CHECKING:
    from tensorclass.td.collection import Store
    from tensorclass.td.columns.buffer_column import BufferColumn
    from tensorclass.td.keys import NestedKey
    from tensorclass.td.shapes import Names


class Leaf(ValueOperations):
    """Base of values that are neither tensors nor trees, such as text or a tensor that all rows share.

    A leaf has a batch size, names, a device and a lock, but no keys. Its store is its own business: it holds at most
    tensors over the batch, on which shape operations and indices act, under names that no user sees. The rest of the
    content is in slots, which ``_like`` of the subclass hands on.

    A subclass says what it holds (``_CONTENT``, ``_leaves``, ``_wrapped_tensor``, ``_identity``), how
    several are joined (``_stack``, ``_cat``, ``_where``), how rows are written (``_check_rows``, ``_write_checked``,
    ``_copy``) and what operations on numbers do (``_on_numbers``, by default nothing).
    """

    __slots__ = ()

    #: the end of the error for a key: where the content is
    _CONTENT_HINT: ClassVar[str] = ""
    _has_numbers = False
    #: how to read one row, for messages
    _row_reader: ClassVar[str] = ".tolist()"

    def _same(self, store: Store) -> Self:
        return self._like(store, self._batch_size, self._names)

    # -- what it holds, for files, messages, tables and operations on rows --------------------------------------------

    _CONTENT: ClassVar[Content] = Content.OBJECTS
    #: whether it is the same object or tensor for all rows
    _is_uniform: ClassVar[bool] = False
    #: the name of its class in files, by ``register_kind``; ``None``: they hold what it holds, and not its class
    _KIND: ClassVar[str | None] = None

    def _coded_objects(self) -> tuple[Sequence[Any], Tensor]:
        """Return its rows as objects, and int64 codes over the batch, which index them."""
        rows: Any = self
        return tuple(flatten_lists(rows.tolist(), len(self._batch_size))[0]), codes_row_by_row(self._batch_size)

    @classmethod
    def _from_objects(cls, objects: Sequence[Any], codes: Tensor, device: torch.device | None) -> Any:
        """Return the leaf of objects and codes: the inverse of :meth:`_coded_objects`."""
        raise NotImplementedError(f"{class_name(cls)} cannot be made of objects: it needs _from_objects")

    def _with_objects(self, objects: Sequence[Any], codes: Tensor) -> Any:
        """Return a leaf like this one with other objects and codes. Raise a ``TypeError`` if an object does not fit."""
        return self._from_objects(objects, codes, self._device)

    def _take_objects(self, new: Any) -> None:
        """Take over the objects of a checked leaf of :meth:`_with_objects`, in place."""
        self._copy(new)

    def _stands_in_file(self) -> bool:
        """Return whether its content is in a file that other processes read."""
        return False

    def _holds(self, index: tuple[Any, ...], rows: Any) -> bool:
        """Return whether the content at an index equals ``rows``: writing them to a file would change nothing."""
        return False

    # -- walks of a tree end here -------------------------------------------------------------------------------------

    def _is_tree(self) -> bool:
        return False

    def _walk_into(self, *args: Any, **kwargs: Any) -> None:
        pass

    # -- no tensors of the user's, whatever the store holds -----------------------------------------------------------

    def _leaves(self) -> Iterator[Tensor]:
        return iter(())

    def _captured(self, leaves: list[Tensor]) -> Self:
        leaves.extend(self._leaves())
        return self

    def _with_leaves(self, leaves: Iterator[Tensor]) -> Self:
        return self._shallow()

    def _named_leaves(self) -> list[tuple[tuple[str, ...], Tensor]]:
        return []

    def _put_leaves(self, leaves: Iterator[Tensor]) -> None:
        pass

    def _leaves_and_buffers(self) -> Iterator[Tensor]:
        yield from self._leaves()

    def _bytes(self) -> int:
        return sum(leaf.numel() * leaf.element_size() for leaf in self._leaves())

    def _with_leaves_and_buffers(self, buffers: Iterator[Tensor]) -> Self:
        return self._with_leaves(buffers)

    def _compacted(self) -> Self:
        return self

    def _trimmed(self) -> Self:
        """Return the value; rows that are few of those that it keeps in memory, without the others."""
        return self

    def _named_columns(self) -> list[tuple[tuple[str, ...], Any]]:
        return []

    def _state_leaves(self) -> list[tuple[tuple[str, ...], Tensor]]:
        """Return the tensors for a state dict, with the names that follow the key of this leaf."""
        return self._named_leaves()

    # -- no keys ------------------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """Return ``False``: a leaf is never empty.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").is_empty()
            False
        """
        return False

    def __contains__(self, item: object) -> bool:
        raise TypeError(f"`in` is not defined for a {type_name(self)}; compare it: (data == item).any()")

    # -- arrays -------------------------------------------------------------------------------------------------------

    def _one_tensor(self) -> Tensor:
        raise TypeError(f"a {type_name(self)} is no tensor{self._CONTENT_HINT}")

    def _no_rows_message(self) -> str:
        return f"this {type_name(self)} is one row, not a batch of rows; take its content with {self._row_reader}"

    def _no_rows(self) -> NoReturn:
        raise TypeError(self._no_rows_message())

    def __iter__(self) -> Iterator[Self]:
        return super().__iter__() if self._batch_size else self._no_rows()

    def _get_key(self, key: NestedKey) -> Any:
        raise self._key_error(unravel_key_to_tuple(key))

    def get(self, key: NestedKey, default: Any = None, **forms: Any) -> Any:
        """Return ``default``: a leaf has no keys.

        Args:
            key: the key.
            default: the result. Default: ``None``.
            forms: ignored.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> NonTensorStack("a", "b").get("x", 0)
            0
        """
        return default

    def _key_error(self, key: NestedKey) -> KeyError:
        return KeyError(f"key {key!r} not found: this {type_name(self)} has no keys{self._CONTENT_HINT}")

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        self._set_nested((key,), value, inplace, non_blocking)

    def _set_nested(self, path: tuple[str, ...], item: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        raise self._key_error(path)

    def to_tensordict(self, *, retain_none: bool | None = None) -> Any:
        """Return a copy: the form of this leaf in ``to_tensordict`` of a collection.

        Args:
            retain_none: has no effect here.

        Example:
            >>> from tensorclass import Ragged
            >>> Ragged([[1, 2], [3]]).to_tensordict().tolist()
            [[1, 2], [3]]
        """
        return self.clone()

    def _index_bound(self, index: tuple[Any, ...], plain: tuple[Any, ...]) -> Any:
        raise BoundIndex(next(filter(is_bound_item, index)))

    # -- writing ------------------------------------------------------------------------------------------------------

    def _become(self, source: Any) -> None:
        """Take over the content of another leaf of this batch size, in place: all of it or none."""
        if is_dynamo_compiling():  # it cannot trace signal handlers, which run between lines of Python alone
            self._take_content(source)
            return
        with uninterrupted():
            self._take_content(source)

    def _take_content(self, source: Any) -> None:
        """Set the slots of the content to those of another leaf."""
        raise NotImplementedError

    def _write_views(self, index: tuple[Any, ...], rows: Collection) -> bool:
        return False  # equal codes or spans in two leaves can mean different content

    def _copy(self, source: Any, non_blocking: bool = False) -> Any:
        """Write the content of another leaf of this batch size in place. Return the leaf to store from now on."""
        raise NotImplementedError

    def _resized(self, batch_size: Size) -> Any:
        """Return the same content in another batch size."""
        raise NotImplementedError

    def _show_content(self, new: Any, dim: int, level: int, count: int) -> None:
        """Set content of ``new``, the result outside of a vmap, that differs between rows. Called by ``vmapping``."""

    # -- combining ----------------------------------------------------------------------------------------------------

    def _check_joinable(self, kind: type, items: list[Any], dim: int | None) -> None:
        """Raise unless all items are leaves of a class and have this batch size, apart from dimension ``dim``."""
        size = self._batch_size if dim is None else shapes.with_size(self._batch_size, dim, 0)
        for item in items:
            if isinstance(item, kind):
                given: Size = item._batch_size  # type: ignore[attr-defined]
                if given == size or (
                    dim is not None and len(given) == len(size) and shapes.with_size(given, dim, 0) == size
                ):
                    continue
            self._cannot_combine("stack" if dim is None else "cat", items, dim)

    def _names_stacked(self, items: list[Any], dim: int) -> Names:
        return self._names and shapes.names_inserted(_shared_names(items), dim)

    # -- numbers ------------------------------------------------------------------------------------------------------

    def _on_numbers(
        self, operation: Callable[..., Any], in_place: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of a point-wise operation, a function of :class:`Pointwise`, on this leaf alone.

        The default raises. Operations on a collection do not come here: they leave leaves without numbers as they are.
        """
        raise self._no_numbers(operation.__name__)

    def _no_numbers(self, name: str) -> TypeError:
        return TypeError(f"{name} is not defined for a {type_name(self)}{self._CONTENT_HINT}")

    def _with_default(self, function: Callable[..., Any], other: Collection, default: Any) -> Any:
        return call_on_value(function, self, other)

    def _cumulative(self, name: str, dim: int) -> Any:
        """Return the result of the cumulative operation ``name``, such as ``cumsum``, along a batch dimension."""
        return self._shallow()

    def _values_and_indices(self, name: str, args: tuple[Any, ...], size: Size, names: Names) -> Any:
        """Return the reduced leaf twice, as values and indices: without numbers there is no index of a maximum."""
        result = self._reduce(getattr, args[0], args[1], {}) if len(args) == 2 else self._shallow()
        return result, result._shallow()

    def type(self, *args: Any, **kwargs: Any) -> Self:
        """Return the same content in a new holder: a leaf without numbers has no dtype.

        Args:
            args: ignored.
            kwargs: ignored.

        Example:
            >>> import torch
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").type(torch.float64).data
            'a'
        """
        return self._shallow()

    def _to(
        self,
        device: torch.device | None,
        dtype: torch.dtype | None,
        non_blocking: bool,
        copy: bool,
        memory_format: torch.memory_format | None,
        numbers: bool = True,
    ) -> Self:
        return self._shallow() if device is None else self._to_device(device, non_blocking)

    def _unchanged(self, *args: Any, **kwargs: Any) -> Self:
        """Return the result of an operation on tensors: the same content."""
        return self._shallow()

    _filtered_cast = _each = _plain = _unchanged

    def _fill(self, item: Any, value: Any) -> None:
        pass

    def _viewed(self, dtype: torch.dtype, batch_size: Size | None = None) -> Any:
        return self._in_size(self._shallow(), batch_size)

    def _in_size(self, viewed: Any, batch_size: Size | None) -> Any:
        """Return a view of this leaf as another dtype. Raise if it has rows and is asked for in another batch size."""
        if batch_size is None or batch_size == viewed._batch_size:
            return viewed
        raise RuntimeError(
            f"view: a {type_name(self)} has rows over the batch size {list(self._batch_size)}, which do not fit "
            f"{list(batch_size)}; leave it out first, with .exclude(key)"
        )

    def _under(self, shape: Size) -> Self:
        return self.expand(shape + self._batch_size)


def _number_method(name: str, operation: Callable[..., Any], in_place: bool) -> Callable[..., Any]:
    def method(self: Leaf, *args: Any, **kwargs: Any) -> Any:
        return self._on_numbers(operation, in_place, args, kwargs)

    return _named(method, name, operation)


def _reduction(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Leaf, *args: Any, **kwargs: Any) -> Any:
        if not self._has_numbers:  # in a collection, _reduce() chooses a row
            raise self._no_numbers(name)
        return operation(self, *args, **kwargs)

    return _named(method, name, operation)


def _along_dim(name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Leaf, dim: int, dtype: torch.dtype | None = None) -> Any:
        if not self._has_numbers:
            raise self._no_numbers(name)
        return self._cumulative(name, shapes.wrap_dim(dim, len(self._batch_size)))

    return _named(method, name, operation)


def _named(method: Any, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
    """Give a method of leaves name, docstring and signature of the operation on collections."""
    method.__name__, method.__qualname__, method.__doc__ = name, f"Leaf.{name}", operation.__doc__
    method.__wrapped__ = operation
    return method  # type: ignore[no-any-return]


for _row in OPERATIONS:
    if _row.kind == "pointwise":
        for _name, _in_place in _row.methods.items():
            setattr(Leaf, _name, _number_method(_name, getattr(Pointwise, _name), _in_place))
    elif _row.kind in ("reduction", "along"):
        _make = _reduction if _row.kind == "reduction" else _along_dim
        setattr(Leaf, _row.name, _make(_row.name, getattr(Reductions, _row.name)))


class FullLeaf(Leaf, TensorCollection):
    """A leaf with all methods of collections, which users of the peer may call on its non-tensor data.

    The base of the leaves that the peer has, too. A new leaf is based on :class:`Leaf`.
    """

    __slots__ = ()

    def keys(self, *args: Any, **kwargs: Any) -> Any:
        """Return an empty view: a leaf has no keys.

        Args:
            args: ignored.
            kwargs: ignored.

        Example:
            >>> from tensorclass import NonTensorData
            >>> list(NonTensorData("a").keys())
            []
        """
        keys: KeysView[str] = dict[str, Any]().keys()
        return keys

    def values(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Return an empty iterator: a leaf has no keys.

        Args:
            args: ignored.
            kwargs: ignored.

        Example:
            >>> from tensorclass import NonTensorData
            >>> list(NonTensorData("a").values())
            []
        """
        return iter(())

    def items(self, *args: Any, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
        """Return an empty iterator: a leaf has no keys.

        Args:
            args: ignored.
            kwargs: ignored.

        Example:
            >>> from tensorclass import NonTensorData
            >>> list(NonTensorData("a").items())
            []
        """
        return iter(())

    def __contains__(self, key: object) -> bool:
        return False

    def _merges(self, source: object) -> bool:
        return False

    def _keys_into(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _items_into(self, *args: Any, **kwargs: Any) -> None:
        pass

    def _selected(self, tree: Any, strict: bool) -> Store:
        if strict and tree:
            raise self._key_error(next(iter(tree)))
        return self._shallow()._store

    def _excluded(self, tree: Any) -> Store:
        return self._shallow()._store

    @property
    def sorted_keys(self) -> list[str]:
        """An empty list: a leaf has no keys.

        Example:
            >>> from tensorclass import NonTensorData
            >>> NonTensorData("a").sorted_keys
            []
        """
        return []

    def _set_(self, key: str, value: Any, non_blocking: bool = False) -> None:
        raise self._key_error(key)

    def popitem(self) -> Any:
        """Raise: a leaf has no keys.

        Raises:
            KeyError: always.
            RuntimeError: the leaf is locked.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> NonTensorStack("a", "b").popitem()
            Traceback (most recent call last):
                ...
            KeyError: 'popitem: this NonTensorStack has no keys'
        """
        self._check_unlocked()
        raise KeyError(f"popitem: this {type_name(self)} has no keys")

    def clear(self) -> Self:
        """Return this leaf: it has no keys to remove.

        Raises:
            RuntimeError: the leaf is locked.

        Example:
            >>> from tensorclass import NonTensorStack
            >>> NonTensorStack("a", "b").clear().tolist()
            ['a', 'b']
        """
        self._check_unlocked()
        return self


class RowByRow(Leaf):
    """Base of :class:`NonTensorStack`, :class:`Text` and :class:`Ragged`: a row or an object for each position."""

    __slots__ = ()

    #: the word for the content of one position in messages
    _ROW: ClassVar[str] = "a row"

    def _called(self) -> str:
        """Return what messages call this leaf."""
        return f"this {type_name(self)}"

    def _misfit(self, size: Size, called: str) -> RuntimeError:
        return RuntimeError(
            f"batch_size: {list(size)} does not fit {called}, which holds {self._ROW} for each position of "
            f"{list(self._batch_size)}. Nothing was changed"
        )

    def _set_batch_size(self, batch_size: Sequence[int] | int) -> None:
        size = shapes.as_size(batch_size)
        if size != self._batch_size:
            raise self._misfit(size, self._called())

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        if self._batch_size[: len(size)] != size:
            raise self._misfit(size, repr(".".join(path) or self._called()))

    def _take_batch_size(self, size: Size) -> None:
        pass

    def _resized(self, batch_size: Size) -> Any:
        if self._batch_size == batch_size:
            return self
        more = self.ndim - len(batch_size)
        return self.expand(batch_size) if more <= 0 else self._index_value((0,) * more)

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdim: bool, kwargs: dict[str, Any]) -> Any:
        """Return the first row along the reduced dimensions; a row without a value if the batch is empty."""
        if isinstance(dim, str):
            return self._shallow()
        dims = tuple(range(self.ndim)) if dim is None else shapes.wrap_dims(dim, self.ndim)
        if 0 in self._batch_size:
            absent = self._without_value(shapes.reduced(self._batch_size, dims, keepdim))
            absent._names = shapes.names_reduced(self._names, dims, keepdim)
            return absent
        result: Any = self._shallow()
        for d in sorted(dims, reverse=True):
            result = result.narrow(d, 0, 1) if keepdim else result._index_prepared((slice(None),) * d + (0,))
        return result

    def _without_value(self, batch_size: Size) -> Any:
        """Return rows that have no value, of a batch size."""
        raise NotImplementedError


class Uniform(Leaf):
    """Base of :class:`NonTensorData` and :class:`UnbatchedTensor`: one object or tensor, which fits any batch size."""

    __slots__ = ()

    _is_uniform = True

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        pass

    def _resized(self, batch_size: Size) -> Self:
        return self._like({}, batch_size)

    def _padded(self, pairs: Sequence[tuple[int, int]], value: float) -> Any:
        size = list(self._batch_size)
        for dim, (before, behind) in enumerate(pairs):
            size[dim] += before + behind
        return self._like({}, Size(size), self._names)

    def _stacked_as_one(self, items: list[Any], dim: int) -> Self:
        """Return the same content for the rows of several leaves that are stacked."""
        return self._like({}, shapes.inserted(self._batch_size, dim, len(items)), self._names_stacked(items, dim))

    def _joined_as_one(self, items: list[Any], dim: int) -> Self:
        """Return the same content for the rows of several leaves that are concatenated."""
        total = sum(item._batch_size[dim] for item in items)
        return self._like({}, shapes.with_size(self._batch_size, dim, total), self._names)

    def _index_bound(self, index: tuple[Any, ...], plain: tuple[Any, ...]) -> Any:
        return self._index_prepared(plain)

    def _in_size(self, viewed: Any, batch_size: Size | None) -> Any:
        return viewed if batch_size is None else viewed._resized(batch_size)

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdim: bool, kwargs: dict[str, Any]) -> Self:
        if isinstance(dim, str):
            return self._shallow()
        dims = tuple(range(self.ndim)) if dim is None else shapes.wrap_dims(dim, self.ndim)
        size = shapes.reduced(self._batch_size, dims, keepdim)
        return self._like({}, size, shapes.names_reduced(self._names, dims, keepdim))


copy_inherited(FullLeaf)  # first: members of TensorCollection precede those that a Leaf inherits
copy_inherited(Leaf)


# -- what code above the engine asks of a value ------------------------------------------------------------------------


def content_kind(value: object) -> Content | None:
    """Return the kind of content of a value; ``None`` for tensors, and for objects that no collection holds."""
    return value._CONTENT if isinstance(value, Collection) else None


def holds_objects(value: object) -> TypeGuard[Leaf]:
    """Return whether a value is a leaf that holds objects: one for all rows, or one for each."""
    return isinstance(value, Collection) and value._CONTENT is Content.OBJECTS


def has_spans(value: object) -> TypeGuard[BufferColumn]:
    """Return whether a value is a column whose rows are spans of a buffer: text, or ragged rows."""
    return isinstance(value, Collection) and value._CONTENT.has_spans
