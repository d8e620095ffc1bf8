"""Methods for dicts, tuples, lists, pytrees and structured arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike

from .arguments import BatchSize
from .declaration import delegated

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
D = TypeVar("D")


class PythonObjects(Collection):
    """``from_x`` and ``to_x`` of Python objects and of numpy's structured arrays."""

    __slots__ = ()

    # -- python objects -----------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.any")
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
        ...

    @classmethod
    @delegated("tensorclass.convert.dict")
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
        ...

    @delegated("tensorclass.convert.dict")
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
        ...

    @classmethod
    @delegated("tensorclass.convert.namedtuple")
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
        ...

    @classmethod
    @delegated("tensorclass.convert.tuple")
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
        ...

    @classmethod
    @delegated("tensorclass.convert.list")
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
        ...

    @classmethod
    @delegated("tensorclass.convert.pytree")
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
        ...

    # -- arrays -------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.struct_array")
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
        ...

    # -- out ----------------------------------------------------------------------------------------------------------

    @overload
    def to_namedtuple(self: PythonObjects, dest_cls: None = None) -> Any: ...
    @overload
    def to_namedtuple(self: PythonObjects, dest_cls: type[D]) -> D: ...
    @delegated("tensorclass.convert.namedtuple")
    def to_namedtuple(self: PythonObjects, dest_cls: type[Any] | None = None) -> Any:
        """A named tuple of the values, nested collections becoming named tuples too.

        Args:
            dest_cls: its class; where its annotations name further ones, those are taken for the nested collections.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": 1, "b": {"c": "text"}}).to_namedtuple()
        TensorDict(a=tensor(1), b=TensorDict(c='text'))
        """
        ...

    @delegated("tensorclass.convert.tuple")
    def to_tuple(self: PythonObjects) -> tuple[Any, ...]:
        """A tuple of the values, nested collections becoming tuples too: the other half of :meth:`from_tuple`.

        Keys that are positions say where their values stand; others give them in the order of the keys, and a record in
        the order of its fields, with ``None`` for those without a value. Tensors are not copied.

        >>> from tensorclass import TensorDict
        >>> TensorDict.from_tuple((1, ("text", 2.5))).to_tuple()
        (tensor(1), ('text', tensor(2.5000)))
        """
        ...

    @delegated("tensorclass.convert.pytree")
    def to_pytree(self: PythonObjects) -> Any:
        """The tree of which :meth:`from_pytree` made this; a collection that was not made so is a leaf, and stays.

        Numbers come back as numbers and arrays as arrays, with the values and dtypes that they have by now, while they
        can be some: on another device, with a gradient, and (numbers) with batch dimensions they are tensors. A record
        gives a dict of its fields, in which records and trees in fields that are declared so are given back, too.

        Raises:
            ValueError: rows are trees of different kinds, which :meth:`unbind` tells apart; an entry is missing that a
                named tuple needs; a class is not registered any more.
        """
        ...

    @delegated("tensorclass.convert.struct_array")
    def to_struct_array(self: PythonObjects, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """A numpy array of a structured dtype with the shape of the batch: a copy of the values.

        Args:
            dtype: its dtype, for instance that of the array from which this was made; by default that of the values,
                text as long as the longest, objects of several kinds as objects.

        Raises:
            TypeError: a value has a dtype that numpy does not have.
        """
        ...
