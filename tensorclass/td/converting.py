"""In and out: collections from Python objects and arrays, and back. ``tables.py`` has those of tables.

The converters themselves are :mod:`tensorclass.convert`, a file a format. They know records, which the engine does not;
so they are imported when they are called, and these methods only name them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

import torch
from typing_extensions import Self

from tensorclass.printable import printable

from .collection import Collection, DeviceLike
from .linked import LinkedList
from .objects import listed

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

D = TypeVar("D")
BatchSize: TypeAlias = Sequence[int] | int | None


class Converting(Collection):
    """``from_x`` and ``to_x`` of Python objects and arrays."""

    __slots__ = ()

    # -- python objects -----------------------------------------------------------------------------------------------

    @classmethod
    def from_any(
        cls,
        obj: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Any:
        """A collection of any object that has parts: mappings, (named) tuples, structured arrays, tables, instances.

        Instances are those of dataclasses, of classes of attrs, and models of pydantic.

        What is inside is converted too. A list of numbers is a tensor, another list a column of objects. A record
        converts only what its fields declare to be collections; each other field takes the object that is given.

        Args:
            obj: the object. A collection stays what it is; so does, for a :class:`TensorDict`, what has no parts.
            auto_batch_size: find the batch size out: the leading dimensions that all values share, at every level.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: the batch size; none by default.
            strict: ``False`` leaves keys out that are no fields of a record, at every level, and warns of them.

        Raises:
            ConversionError: the object does not fit the fields of a record, or the batch size: all that is wrong.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict.from_any({"x": (1, [2, 3]), "y": "text"})
        >>> data["x", "1"], data["y"]
        (tensor([2, 3]), 'text')
        """
        from tensorclass.convert import from_any

        return from_any(
            _target(cls), obj, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
            batch_size=batch_size, strict=strict,
        )  # fmt: skip

    @classmethod
    def from_dict(
        cls,
        input_dict: Mapping[Any, Any] | Collection,
        *,
        auto_batch_size: bool | None = None,
        batch_size: BatchSize = None,
        device: DeviceLike | None = None,
        batch_dims: int | None = None,
        names: Sequence[str | None] | None = None,
        strict: bool = True,
    ) -> Self:
        """A collection from a (nested) mapping; see :meth:`from_any` for what becomes of its values.

        Args:
            input_dict: the values; keys are strings, or tuples of strings for nested ones.
            auto_batch_size: find the batch size out; by default only where ``batch_dims`` is given.
            batch_size: the batch size; none by default.
            device: where the values go.
            batch_dims: how many dimensions the batch size has at most, when it is found out.
            names: of the batch dimensions.
            strict: ``False`` leaves keys out that are no fields of a record, at every level, and warns of them.

        Raises:
            ConversionError: values do not fit the fields of a record, or the batch size: all that is wrong.
            KeyError: a key is neither a string nor a tuple of strings.

        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_dict({"a": torch.zeros(3, 4), "b": torch.zeros(3)}, auto_batch_size=True).batch_size
        torch.Size([3])
        """
        from tensorclass.convert import from_dict

        return from_dict(  # type: ignore[no-any-return]
            _target(cls), input_dict, auto_batch_size=auto_batch_size, batch_size=batch_size, device=device,
            batch_dims=batch_dims, names=names, strict=strict,
        )  # fmt: skip

    def from_dict_instance(
        self,
        input_dict: Mapping[Any, Any] | Collection,
        *,
        auto_batch_size: bool | None = None,
        batch_size: BatchSize = None,
        device: DeviceLike | None = None,
        batch_dims: int | None = None,
        names: Sequence[str | None] | None = None,
        strict: bool = True,
    ) -> Self:
        """:meth:`from_dict` for a collection like this one: where this one has a record, there will be such a record.

        The arguments are those of :meth:`from_dict`; values and metadata of this collection play no part.
        """
        from tensorclass.convert import from_dict_instance

        return from_dict_instance(  # type: ignore[no-any-return]
            self, input_dict, auto_batch_size=auto_batch_size, batch_size=batch_size, device=device,  # type: ignore[arg-type]
            batch_dims=batch_dims, names=names, strict=strict,
        )  # fmt: skip

    @classmethod
    def from_namedtuple(
        cls,
        named_tuple: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Self:
        """A collection from a named tuple, and from those in it; see :meth:`from_any` for the arguments.

        >>> from typing import NamedTuple
        >>> from tensorclass import TensorDict
        >>> class Point(NamedTuple):
        ...     x: float
        ...     y: float
        >>> TensorDict.from_namedtuple(Point(1.0, 2.0)).to_namedtuple(Point)
        Point(x=tensor(1.), y=tensor(2.))
        """
        from tensorclass.convert import from_namedtuple

        return from_namedtuple(  # type: ignore[no-any-return]
            _target(cls), named_tuple, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
            batch_size=batch_size, strict=strict,
        )  # fmt: skip

    @classmethod
    def from_tuple(
        cls,
        obj: Sequence[Any],
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Self:
        """A collection with the items of a tuple under ``"0"``, ``"1"``, ...; a record takes them in order.

        See :meth:`from_any` for the arguments.

        >>> from tensorclass import TensorDict
        >>> sorted(TensorDict.from_tuple((1, 2, 3)).keys())
        ['0', '1', '2']
        """
        from tensorclass.convert import from_tuple

        return from_tuple(  # type: ignore[no-any-return]
            _target(cls), obj, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
            batch_size=batch_size, strict=strict,
        )  # fmt: skip

    @classmethod
    def from_list(
        cls,
        input: Sequence[Any],
        *,
        auto_batch_size: bool | None = None,
        batch_size: BatchSize = None,
        device: DeviceLike | None = None,
        batch_dims: int | None = None,
        names: Sequence[str | None] | None = None,
        lazy: bool | None = None,
        strict: bool = True,
    ) -> Self:
        """A collection from a list with a mapping (dataclass, tuple, collection) for each row.

        Args:
            input: the rows.
            auto_batch_size: find the batch size of the rows out; the result has their number in front.
            batch_size: of the result; begins with the number of rows.
            device: where the values go.
            batch_dims: how many dimensions the batch size of the result has at most, when it is found out.
            names: of the batch dimensions of the result.
            lazy: ``True`` makes a lazy stack, ``False`` stacks the values; by default they are stacked if they can be.
            strict: as for :meth:`from_dict`.

        >>> from tensorclass import TensorDict
        >>> TensorDict.from_list([{"a": 1, "t": "x"}, {"a": 2, "t": "y"}]).to_dict()
        {'a': tensor([1, 2]), 't': ['x', 'y']}
        """
        from tensorclass.convert import from_list

        return from_list(  # type: ignore[no-any-return]
            _target(cls), input, auto_batch_size=auto_batch_size, batch_size=batch_size, device=device,
            batch_dims=batch_dims, names=names, lazy=lazy, strict=strict,
        )  # fmt: skip

    @classmethod
    def from_pytree(
        cls,
        pytree: Any,
        *,
        batch_size: BatchSize = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        namespace: str = "",
        strict: bool = True,
    ) -> Any:
        """A collection that keeps the structure of a tree of lists, tuples, dicts: :meth:`to_pytree` gives it back.

        Each node becomes a :class:`TensorDict`: a list, a tuple, a named tuple, a dict with any keys, a deque, and what
        is registered with ``torch.utils._pytree`` or with optree. Its leaves are the values: numbers and arrays as
        tensors, other objects as non-tensor data, collections as they are. What each of them was is remembered beside
        them, under the key ``"_pytree_type"``. A single leaf has nothing around it: a number gives a tensor.

        Args:
            pytree: the tree.
            batch_size: the batch size; none by default.
            auto_batch_size: find the batch size out.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            namespace: of optree's registry, in addition to what is registered for all.
            strict: whether keys that are no fields of a record are an error; otherwise they are left out, with a
                warning.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict.from_pytree([1, {"a": (2.5, None), 3: "text"}])
        >>> data.to_pytree()
        [1, {'a': (2.5, None), 3: 'text'}]
        >>> (data * 2).to_pytree()
        [2, {'a': (5.0, None), 3: 'text'}]
        """
        from tensorclass.convert import from_pytree

        return from_pytree(
            _target(cls), pytree, batch_size=batch_size, auto_batch_size=auto_batch_size, batch_dims=batch_dims,
            device=device, namespace=namespace, strict=strict,
        )  # fmt: skip

    # -- arrays -------------------------------------------------------------------------------------------------------

    @classmethod
    def from_struct_array(
        cls,
        struct_array: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        copy: bool | None = None,
        strict: bool = True,
    ) -> Self:
        """A collection from a numpy array of a structured dtype; the shape of the array is the batch size.

        Numbers share their memory with the array: writing to one shows in the other. Where the fields are packed so
        that no plain tensor can lie on them (``[("a", "u1"), ("b", "f8")]``: the items of ``b`` are 9 bytes apart),
        they are packed tensors, which are used as every other, but slower to compute with. Numbers in another byte
        order, of a read-only array, or of one with negative strides are copied. Sub-arrays are further dimensions,
        nested dtypes nested collections; other items (text, bytes, times, objects) are non-tensor data.

        Args:
            struct_array: the array.
            auto_batch_size: find the batch size out instead.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: another batch size; the leading dimensions of the array.
            copy: ``True`` copies all numbers, to plain tensors; with ``False`` it is an error where that is needed.
            strict: whether fields of the array that the record does not have are an error; otherwise they are left
                out, with a warning.

        Raises:
            TypeError: this is no structured array, or some of its values are masked.
            ConversionError: dtypes that torch does not have (long doubles), numbers that ``copy=False`` cannot have,
                fields that are missing or not what the record takes. It lists all of them.

        >>> import numpy as np
        >>> from tensorclass import TensorDict
        >>> pets = np.array([("Rex", 9), ("Fido", 3)], dtype=[("name", "U10"), ("age", "i4")])
        >>> data = TensorDict.from_struct_array(pets)
        >>> pets["age"] += 1
        >>> data["name"], data["age"]
        (['Rex', 'Fido'], tensor([10,  4], dtype=torch.int32))
        """
        from tensorclass.convert import from_struct_array

        return from_struct_array(  # type: ignore[no-any-return]
            _target(cls), struct_array, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
            batch_size=batch_size, copy=copy, strict=strict,
        )  # fmt: skip

    # -- out ----------------------------------------------------------------------------------------------------------

    @overload
    def to_namedtuple(self: Converting, dest_cls: None = None) -> Any: ...
    @overload
    def to_namedtuple(self: Converting, dest_cls: type[D]) -> D: ...
    def to_namedtuple(self: Converting, dest_cls: type[Any] | None = None) -> Any:
        """A named tuple of the values, nested collections becoming named tuples too.

        Args:
            dest_cls: its class; where its annotations name further ones, those are taken for the nested collections.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": 1, "b": {"c": "text"}}).to_namedtuple()
        TensorDict(a=tensor(1), b=TensorDict(c='text'))
        """
        from tensorclass.convert import to_namedtuple

        return to_namedtuple(self, dest_cls)  # type: ignore[arg-type]

    def to_tuple(self: Converting) -> tuple[Any, ...]:
        """A tuple of the values, nested collections becoming tuples too: the other half of :meth:`from_tuple`.

        Keys that are positions say where their values stand; others give them in the order of the keys, and a record in
        the order of its fields, with ``None`` for those without a value. Tensors are not copied.

        >>> from tensorclass import TensorDict
        >>> TensorDict.from_tuple((1, ("text", 2.5))).to_tuple()
        (tensor(1), ('text', tensor(2.5000)))
        """
        from tensorclass.convert import to_tuple

        return to_tuple(self)  # type: ignore[arg-type]

    def to_pytree(self: Converting) -> Any:
        """The tree of which :meth:`from_pytree` made this; a collection that was not made so is a leaf, and stays.

        Numbers come back as numbers and arrays as arrays, with the values and dtypes that they have by now, while they
        can be some: on another device, with a gradient, and (numbers) with batch dimensions they are tensors. A record
        gives a dict of its fields, in which records and trees in fields that are declared so are given back, too.

        Raises:
            ValueError: rows are trees of different kinds, which :meth:`unbind` tells apart; an entry is missing that a
                named tuple needs; a class is not registered any more.
        """
        from tensorclass.convert import to_pytree

        return to_pytree(self)  # type: ignore[arg-type]

    def to_struct_array(self: Converting, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """A numpy array of a structured dtype with the shape of the batch: a copy of the values.

        Args:
            dtype: its dtype, for instance that of the array from which this was made; by default that of the values,
                text as long as the longest, objects of several kinds as objects.

        Raises:
            TypeError: a value has a dtype that numpy does not have.
        """
        from tensorclass.convert import to_struct_array

        return to_struct_array(self, dtype)  # type: ignore[arg-type, no-any-return]

    # -- plain dicts and lists ----------------------------------------------------------------------------------------

    def to_dict(
        self: Converting,
        *,
        retain_none: bool = True,
        convert_tensors: bool | Literal["numpy"] = False,
        tolist_first: bool = False,
    ) -> dict[str, Any]:
        """A plain dict, nested collections becoming dicts, non-tensor data its objects.

        Args:
            retain_none: keep entries that are ``None``.
            convert_tensors: ``True`` makes tensors (nested lists of) numbers, ``"numpy"`` arrays.
            tolist_first: give nested collections and objects row by row, as :meth:`tolist` does.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": 1, "b": {"c": "text"}}).to_dict(convert_tensors=True)
        {'a': 1, 'b': {'c': 'text'}}
        """
        result: dict[str, Any] = {}
        items: Any = self._items_for_export(retain_none)
        copied = self._store.__class__ is dict and self._TAKES_ANY_KEY
        if copied:
            items = self._store.items()
            result.update(self._store)
        for key, value in items:
            entry: Any
            if type(value) is torch.Tensor and not convert_tensors:
                if not copied:
                    result[key] = value
                continue
            if isinstance(value, Converting):
                rows = tolist_first and value.batch_dims
                if value._held() is not None:
                    entry = value.to_dict(convert_tensors=convert_tensors)
                elif not value._is_tree():
                    entry = value.tolist() if rows else value._unwrapped()  # type: ignore[attr-defined]
                    if not retain_none and value._unwrapped() is None:  # type: ignore[attr-defined]
                        result.pop(key, None)
                        continue
                elif rows:
                    entry = value.tolist(convert_tensors=convert_tensors, tolist_first=True)
                else:
                    entry = value.to_dict(
                        retain_none=retain_none, convert_tensors=convert_tensors, tolist_first=tolist_first
                    )
            elif convert_tensors == "numpy":
                entry = _array(key, value)
            else:
                entry = listed(value) if convert_tensors else value
            result[key] = entry
        return result

    def numpy(self) -> dict[str, Any]:
        """A plain dict of numpy arrays, which share memory with tensors on the CPU; objects stay what they are.

        Raises:
            RuntimeError: a tensor requires a gradient, which would be lost; see :meth:`detach`.
            TypeError: a tensor has a dtype that numpy does not have.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": [1, 2], "b": {"c": "text"}}).numpy()
        {'a': array([1, 2]), 'b': {'c': 'text'}}
        """
        return {
            key: value.numpy() if isinstance(value, Converting) else _array(key, value)
            for key, value in self._store.items()
        }

    def tolist(
        self,
        *,
        convert_nodes: bool = True,
        convert_tensors: bool | Literal["numpy"] = False,
        tolist_first: bool = False,
        as_linked_list: bool = False,
    ) -> Any:
        """One dict a row, in lists as deep as the batch has dimensions.

        Args:
            convert_nodes: make dicts of the rows; otherwise they stay collections.
            convert_tensors: as for :meth:`to_dict`.
            tolist_first: as for :meth:`to_dict`.
            as_linked_list: give a :class:`LinkedList`, which writes here the rows that are assigned to it.

        Raises:
            TypeError: tensors are to be converted in rows that stay collections.
        """
        if convert_tensors and not convert_nodes:
            raise TypeError("tolist: convert_tensors needs convert_nodes=True: rows that stay collections hold tensors")
        if not self._batch_size:
            if not convert_nodes:
                return self
            return self.to_dict(convert_tensors=convert_tensors, tolist_first=tolist_first)
        options: Any = {
            "convert_nodes": convert_nodes, "convert_tensors": convert_tensors, "tolist_first": tolist_first,
        }  # fmt: skip
        rows = [row.tolist(**options) for row in self.unbind(0)]
        return LinkedList(rows, td=self, depth=self.batch_dims) if as_linked_list else rows

    def _write_items(self, index: tuple[Any, ...], value: Any, depth: int) -> None:
        """Writes what is assigned to items of a linked list: a row, or lists of rows for ``depth`` dimensions."""
        if not depth:
            self[index] = value  # type: ignore[index]
            return
        *before, last = index
        if not isinstance(last, slice):
            before, last = list(index), slice(None)
        places = range(self._batch_size[len(before)])[last]
        rows: Any = value
        if not isinstance(value, list) or len(rows) != len(places):
            raise ValueError(f"expected a list of {len(places)} rows; nothing was written")
        for place, row in zip(places, rows, strict=True):
            self._write_items((*before, place), row, depth - 1)

    if TYPE_CHECKING:
        _TAKES_ANY_KEY: bool

        def _items_for_export(self, retain_none: bool) -> Any: ...
        def unbind(self, dim: int = 0) -> tuple[Self, ...]: ...


def _target(cls: type[Any]) -> type[Any]:
    """A class of collections, as the converters take it."""
    return cls


def _array(key: str, value: torch.Tensor) -> Any:
    if value.requires_grad:
        raise RuntimeError(
            f"{printable(key)}: the tensor requires a gradient, which an array cannot have; call detach() first"
        )
    if value.is_meta:
        raise TypeError(f"{printable(key)}: the device meta has no numbers; to_empty(device='cpu') gives it some")
    if value.is_nested or value.layout != torch.strided:
        raise TypeError(
            f"{printable(key)}: expected a strided tensor, got a ragged or sparse one; to_padded_tensor() makes a "
            "rectangle of a ragged one, to_dense() of a sparse one"
        )
    if value.is_conj() or value.is_neg():
        value = value.resolve_conj().resolve_neg()
    try:
        return value.cpu().numpy()
    except TypeError:
        raise TypeError(
            f"{printable(key)}: numpy does not have the dtype {value.dtype}; convert it first, for instance with "
            f".to({torch.float32})"
        ) from None
