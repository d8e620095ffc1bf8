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
    @delegated("tensorclass.convert.any_object")
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
        """Convert an object that contains others: a mapping, a tuple, a structured array, a table or an instance.

        Instances are those of dataclasses and attrs classes, and pydantic models. The objects inside are converted too.
        A list of numbers becomes a tensor, any other list a column of objects. A record converts only the fields that
        are declared as collections; every other field takes its object unchanged.

        Args:
            obj: the object. A collection is returned unchanged. A :class:`TensorDict` also returns objects that contain
                no others unchanged.
            auto_batch_size: infer the batch size, at every level, from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default they stay where they are.
            batch_size: the batch size; ``[]`` by default.
            strict: with ``False``, drop keys that are not fields of a record, at every level, and warn about them. By
                default they are an error.

        Returns:
            A collection of this class. Its tensors share memory with those of the object.

        Raises:
            ConversionError: the object does not fit the fields of a record, or the batch size. Lists everything that is
                wrong.

        Example:
            >>> from tensorclass import TensorDict
            >>> data = TensorDict.from_any({"x": (1, [2, 3]), "y": "text"})
            >>> data["x", "1"], data["y"]
            (tensor([2, 3]), 'text')
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.python.dict")
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
        """Convert a mapping, which may be nested. See :meth:`from_any` for how values are converted.

        Args:
            input_dict: the values. Keys are strings, or tuples of strings for nested values.
            auto_batch_size: infer the batch size; by default only if ``batch_dims`` is given.
            batch_size: the batch size; ``[]`` by default.
            device: where the values are moved; by default they stay where they are.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            names: a name or ``None`` for each batch dimension.
            strict: with ``False``, drop keys that are not fields of a record, at every level, and warn about them.

        Returns:
            A collection of this class. Its tensors share memory with those of the mapping.

        Raises:
            ConversionError: values do not fit the fields of a record, or the batch size. Lists everything that is
                wrong.
            KeyError: a key is neither a string nor a tuple of strings.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict.from_dict({"a": torch.zeros(3, 4), "b": torch.zeros(3)}, auto_batch_size=True).batch_size
            torch.Size([3])
        """
        ...

    @delegated("tensorclass.convert.python.dict")
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
        """Convert a mapping to a collection that has records of the same classes where this one has records.

        The values and metadata of this collection are ignored. See :meth:`from_dict` for the arguments.

        Args:
            input_dict: the values.
            auto_batch_size: infer the batch size; by default only if ``batch_dims`` is given.
            batch_size: the batch size; ``[]`` by default.
            device: where the values are moved.
            batch_dims: the largest number of dimensions of an inferred batch size.
            names: a name or ``None`` for each batch dimension.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.

        Example:
            >>> import torch
            >>> from tensorclass import TensorClass, TensorDict
            >>> class Point(TensorClass):
            ...     x: torch.Tensor
            >>> data = TensorDict({"point": Point(x=torch.zeros(()))})
            >>> type(data.from_dict_instance({"point": {"x": 1.0}})["point"]).__name__
            'Point'
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.python.namedtuple")
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
        """Convert a named tuple, and the named tuples inside it.

        Args:
            named_tuple: the named tuple. Its field names become the keys.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default they stay where they are.
            batch_size: the batch size; ``[]`` by default.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.

        Example:
            >>> from typing import NamedTuple
            >>> from tensorclass import TensorDict
            >>> class Point(NamedTuple):
            ...     x: float
            ...     y: float
            >>> TensorDict.from_namedtuple(Point(1.0, 2.0)).to_namedtuple(Point)
            Point(x=1.0, y=2.0)
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.python.tuple")
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
        """Convert a tuple: its items get the keys ``"0"``, ``"1"``, ..., or those of a record's fields in their order.

        Args:
            obj: the tuple, or another sequence.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default they stay where they are.
            batch_size: the batch size; ``[]`` by default.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.

        Example:
            >>> from tensorclass import TensorDict
            >>> sorted(TensorDict.from_tuple((1, 2, 3)).keys())
            ['0', '1', '2']
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.python.list")
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
        """Convert a list with one mapping, dataclass, tuple or collection per row.

        Args:
            input: the rows.
            auto_batch_size: infer the batch size of the rows. The result has the number of rows in front of it.
            batch_size: the batch size of the result, which begins with the number of rows.
            device: where the values are moved; by default they stay where they are.
            batch_dims: the largest number of dimensions of an inferred batch size of the result; unlimited by default.
            names: a name or ``None`` for each batch dimension of the result.
            lazy: ``True`` makes a lazy stack, ``False`` stacks the values. By default they are stacked if possible.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict.from_list([{"a": 1, "t": "x"}, {"a": 2, "t": "y"}]).to_dict()
            {'a': tensor([1, 2]), 't': ['x', 'y']}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.python.pytree_converter")
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
        """Convert a pytree and remember its structure, which :meth:`to_pytree` restores.

        Every node becomes a :class:`TensorDict`: lists, tuples, named tuples, dicts with any keys, deques, and classes
        that are registered with ``torch.utils._pytree`` or optree. Numbers and arrays become tensors, collections stay
        unchanged, other leaves become non-tensor data. The type of each node is stored beside the values, under the key
        ``"_pytree_type"``. A tree that is a single leaf gives the value itself: a number gives a tensor.

        Args:
            pytree: the tree.
            batch_size: the batch size; ``[]`` by default.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default they stay where they are.
            namespace: a namespace of optree's registry, in addition to the global one.
            strict: with ``False``, drop keys that are not fields of a record, and warn about them.

        Example:
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
    @delegated("tensorclass.convert.tables.struct_array")
    def from_struct_array(
        cls,
        struct_array: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        copy: bool | None = None,
        rename: Mapping[str, str] | None = None,
        strict: bool = True,
    ) -> Self:
        """Convert a numpy array of a structured dtype. The shape of the array is the batch size.

        Numbers share memory with the array: a write to one shows in the other. If the fields are packed so that a plain
        tensor cannot be laid over them (``[("a", "u1"), ("b", "f8")]``: the items of ``b`` are 9 bytes apart), they
        become packed tensors, which work as any other but compute more slowly. Numbers are copied if they have another
        byte order, negative strides, or belong to a read-only array. Sub-arrays become further dimensions, nested
        dtypes nested collections. Other items (text, bytes, times, objects) become non-tensor data.

        Args:
            struct_array: the array.
            auto_batch_size: infer the batch size instead of taking the shape of the array.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default the CPU.
            batch_size: another batch size: leading dimensions of the array.
            copy: ``True`` copies all numbers into plain tensors. ``False`` raises where a copy is needed. By default
                numbers are copied where needed.
            rename: new names of fields of the array, ``{"name": "field"}``, before they are looked up; none by default.
            strict: with ``False``, drop fields of the array that are not fields of a record, and warn about them.

        Raises:
            TypeError: the array is not structured, or some of its values are masked.
            ConversionError: a dtype does not exist in torch (long double), ``copy=False`` and a copy is needed, or
                fields are missing or do not fit the record. Lists everything that is wrong.

        Example:
            >>> import numpy as np
            >>> from tensorclass import TensorDict
            >>> pets = np.array([("Rex", 9), ("Fido", 3)], dtype=[("name", "U10"), ("age", "i4")])
            >>> data = TensorDict.from_struct_array(pets)
            >>> pets["age"] += 1
            >>> data["name"].tolist(), data["age"]
            (['Rex', 'Fido'], tensor([10,  4], dtype=torch.int32))
        """
        ...

    # -- out ----------------------------------------------------------------------------------------------------------

    @overload
    def to_namedtuple(self: PythonObjects, dest_cls: None = None) -> Any: ...
    @overload
    def to_namedtuple(self: PythonObjects, dest_cls: type[D]) -> D: ...
    @delegated("tensorclass.convert.python.namedtuple")
    def to_namedtuple(self: PythonObjects, dest_cls: type[Any] | None = None) -> Any:
        """Return the values as a named tuple. Nested collections become named tuples too.

        Args:
            dest_cls: the class of the named tuple. If its annotations name further classes, the nested collections get
                those. By default a class is made with the name of the collection's class.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1, "b": {"c": "text"}}).to_namedtuple()
            TensorDict(a=tensor(1), b=TensorDict(c='text'))
        """
        ...

    @classmethod
    @delegated("tensorclass.compat.bridge")
    def from_pytorch_tensordict(
        cls,
        source: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Any:
        """Take over a collection of PyTorch's ``tensordict`` package. Tensors are shared.

        Lazy stacks, non-tensor data, parameters, names, locks and files of memory maps stay what they are. A record of
        that package becomes one of a class with the same fields, made once; called on a record class, it becomes a
        record of this class. :meth:`from_any` does the same.

        Args:
            source: the collection or record.
            auto_batch_size: infer the batch size, at every level, from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default they stay where they are.
            batch_size: the batch size; by default that of the source.
            strict: with ``False``, drop keys that are not fields of a record, at every level, and warn about them. By
                default they are an error.

        Returns:
            A collection of the same kind, or a record of this class. Writes in place are seen in both; keys that are
            set later in one of them are not.

        Raises:
            TypeError: the source is no collection of ``tensordict``, or reads from a file of HDF5 or zarr.
            ConversionError: the source does not fit the fields of a record. Lists everything that is wrong.

        Example:
            >>> import torch
            >>> import tensordict
            >>> from tensorclass import TensorClass
            >>> class Step(TensorClass):
            ...     reward: torch.Tensor
            >>> theirs = tensordict.TensorDict({"reward": torch.zeros(3)}, [3])
            >>> step = Step.from_pytorch_tensordict(theirs)
            >>> step.reward += 1
            >>> theirs["reward"], step.batch_size
            (tensor([1., 1., 1.]), torch.Size([3]))
        """
        ...

    @delegated("tensorclass.compat.bridge")
    def to_pytorch_tensordict(self: PythonObjects, *, untyped: bool = False) -> Any:
        """Return a collection of PyTorch's ``tensordict`` package, for libraries that ask for one. Tensors are shared.

        Lazy stacks, non-tensor data, parameters, names, locks and files of memory maps stay what they are. A record
        becomes a ``tensordict.tensorclass`` with the same fields, made once for each class. Rows of :class:`Text` and
        :class:`Column` become a stack of objects, :class:`Ragged` becomes torch's jagged tensor.

        Args:
            untyped: records become a ``tensordict.TensorDict``, to which modules can add keys that the class does not
                declare. Default: ``False``.

        Returns:
            The collection. :meth:`from_pytorch_tensordict` and :meth:`from_any` are the way back.

        Raises:
            TypeError: the collection, or one in it, reads from a file of HDF5 or zarr.
            ImportError: ``tensordict`` is not installed.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"a": torch.zeros(3)}, [3], names=["time"])
            >>> theirs = data.to_pytorch_tensordict()
            >>> type(theirs).__module__.split(".")[0], theirs.names, theirs["a"] is data["a"]
            ('tensordict', ['time'], True)
        """
        ...

    @delegated("tensorclass.convert.python.tuple")
    def to_tuple(self: PythonObjects) -> tuple[Any, ...]:
        """Return the values as a tuple. Nested collections become tuples too. The inverse of :meth:`from_tuple`.

        Keys that are numbers (``"0"``, ``"1"``, ...) give the positions of their values. Otherwise the order is that of
        the keys, or of a record's fields, with ``None`` for fields without a value.

        Returns:
            A tuple of the same tensors: nothing is copied.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict.from_tuple((1, ("text", 2.5))).to_tuple()
            (tensor(1), ('text', tensor(2.5000)))
        """
        ...

    @delegated("tensorclass.convert.python.pytree_converter")
    def to_pytree(self: PythonObjects) -> Any:
        """Return the tree from which :meth:`from_pytree` made this collection.

        A collection that does not come from :meth:`from_pytree` is a leaf and is returned unchanged. Numbers and arrays
        come back as numbers and arrays, with their current values and dtypes. They stay tensors if they are on another
        device or require a gradient, and numbers also if they have batch dimensions. A record gives a dict of its
        fields. Records and trees in fields that are declared so are restored as well.

        Raises:
            ValueError: the rows are trees of different structures (:meth:`unbind` separates them), an entry that a
                named tuple needs is missing, or a class is no longer registered.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict.from_pytree([1, (2.5, "text")]).to_pytree()
            [1, (2.5, 'text')]
        """
        ...

    @delegated("tensorclass.convert.tables.struct_array")
    def to_struct_array(self: PythonObjects, dtype: DTypeLike | None = None) -> NDArray[Any]:
        """Return a copy of the values as a numpy array of a structured dtype. Its shape is the batch size.

        Args:
            dtype: the dtype, for instance that of the array from which the collection was made. By default it follows
                from the values: text gets the length of the longest, objects of different types get the dtype
                ``object``.

        Raises:
            TypeError: a value has a dtype that numpy does not have.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"name": ["Rex", "Fido"], "age": [9, 3]}, [2]).to_struct_array()["age"].tolist()
            [9, 3]
        """
        ...
