"""Methods for instances of dataclasses, attrs classes and pydantic models."""

from __future__ import annotations

from typing import Any, Literal, TypeVar, overload

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike

from .arguments import BatchSize
from .declaration import delegated

D = TypeVar("D")


class ClassInstances(Collection):
    """``from_x`` and ``to_x`` of dataclasses, classes of attrs and models of pydantic."""

    __slots__ = ()

    # -- in -----------------------------------------------------------------------------------------------------------

    @overload
    @classmethod
    def from_dataclass(
        cls,
        dataclass: object,
        *,
        dest_cls: None = ...,
        auto_batch_size: bool = ...,
        batch_dims: int | None = ...,
        as_tensorclass: Literal[False] = ...,
        device: DeviceLike | None = ...,
        batch_size: BatchSize = ...,
        strict: bool = ...,
    ) -> Self: ...
    @overload
    @classmethod
    def from_dataclass(
        cls,
        dataclass: object,
        *,
        dest_cls: type[D],
        auto_batch_size: bool = ...,
        batch_dims: int | None = ...,
        as_tensorclass: Literal[True],
        device: DeviceLike | None = ...,
        batch_size: BatchSize = ...,
        strict: bool = ...,
    ) -> D: ...
    @overload
    @classmethod
    def from_dataclass(
        cls,
        dataclass: object,
        *,
        dest_cls: None = ...,
        auto_batch_size: bool = ...,
        batch_dims: int | None = ...,
        as_tensorclass: bool,
        device: DeviceLike | None = ...,
        batch_size: BatchSize = ...,
        strict: bool = ...,
    ) -> Any: ...
    @classmethod
    @delegated("tensorclass.convert.python.dataclass")
    def from_dataclass(
        cls,
        dataclass: Any,
        *,
        dest_cls: type[Any] | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        as_tensorclass: bool = False,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Any:
        """Convert an instance of a dataclass, and instances in its fields, to a collection.

        Args:
            dataclass: the instance. A field that was never set has no entry.
            dest_cls: with ``as_tensorclass``, the record class to use instead of one made from the dataclass.
            auto_batch_size: set the batch size to the leading dimensions that all values share. Default: ``False``.
            batch_dims: the maximum number of these dimensions. Default: as many as are shared.
            as_tensorclass: return a record; for a dataclass itself a record class, as
                :func:`tensorclass.from_dataclass` does. Default: ``False``.
            device: the device of the values. Default: unchanged.
            batch_size: the batch size. Default: none.
            strict: for a record, raise if it lacks a field; ``False`` leaves such fields out, with a warning. Default:
                ``True``.

        Returns:
            A collection of this class; a record if ``as_tensorclass`` is set. Tensors are shared.

        Raises:
            TypeError: ``dataclass`` is not an instance of a dataclass.

        Example:
            >>> import dataclasses
            >>> from tensorclass import TensorDict
            >>> @dataclasses.dataclass
            ... class Point:
            ...     x: float
            ...     label: str = "a"
            >>> data = TensorDict.from_dataclass(Point(0.5))
            >>> data["x"], data.to_dataclass(Point)
            (tensor(0.5000), Point(x=0.5, label='a'))
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.python.dataclass")
    def from_attrs(
        cls,
        instance: object,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Self:
        """Convert an instance of an attrs class, and instances in its fields, to a collection.

        The keys are the names of the attributes (``_x``), not of the constructor's arguments. The function
        :func:`tensorclass.from_attrs` also takes a class.

        Args:
            instance: the instance. A field that was never set has no entry.
            auto_batch_size: set the batch size to the leading dimensions that all values share. Default: ``False``.
            batch_dims: the maximum number of these dimensions. Default: as many as are shared.
            device: the device of the values. Default: unchanged.
            batch_size: the batch size. Default: none.
            strict: for a record, raise if it lacks a field; ``False`` leaves such fields out, with a warning. Default:
                ``True``.

        Returns:
            A collection of this class. Tensors are shared.

        Raises:
            ImportError: attrs is not installed.
            TypeError: ``instance`` is not an instance of an attrs class.

        Example:
            >>> import attrs
            >>> from tensorclass import TensorDict
            >>> @attrs.define
            ... class Point:
            ...     x: float
            ...     label: str = "a"
            >>> data = TensorDict.from_attrs(Point(0.5))
            >>> data["x"], data.to_attrs(Point)
            (tensor(0.5000), Point(x=0.5, label='a'))
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.python.dataclass")
    def from_pydantic(
        cls,
        model: object,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Self:
        """Convert a pydantic model (or pydantic dataclass), and models in its fields, to a collection.

        The keys are the names of the fields, not their aliases. Extra values (``extra="allow"``) get entries; computed
        fields and private attributes do not. The function :func:`tensorclass.from_pydantic` also takes a class.

        Args:
            model: the model.
            auto_batch_size: set the batch size to the leading dimensions that all values share. Default: ``False``.
            batch_dims: the maximum number of these dimensions. Default: as many as are shared.
            device: the device of the values. Default: unchanged.
            batch_size: the batch size. Default: none.
            strict: for a record, raise if it lacks a field; ``False`` leaves such fields out, with a warning. Default:
                ``True``.

        Returns:
            A collection of this class. Tensors are shared.

        Raises:
            ImportError: pydantic is not installed.
            TypeError: ``model`` is not a pydantic model.

        Example:
            >>> from pydantic import BaseModel
            >>> from tensorclass import TensorDict
            >>> class Point(BaseModel):
            ...     x: float
            ...     label: str = "a"
            >>> data = TensorDict.from_pydantic(Point(x=0.5))
            >>> data["x"], data.to_pydantic(Point)
            (tensor(0.5000), Point(x=0.5, label='a'))
        """
        ...

    # -- out ----------------------------------------------------------------------------------------------------------

    @delegated("tensorclass.convert.python.dataclass")
    def to_dataclass(self: ClassInstances, dest_cls: type[D]) -> D:
        """Convert to an instance of a dataclass, made by its constructor.

        Values are converted as the annotations say: nested collections to instances of the annotated class, to dicts or
        to tuples; tensors with one element to ``int``, ``float``, ``bool`` or ``complex`` (unless they require
        gradients), others to lists or arrays. Fields annotated as tensors, or not at all, get the value itself. To
        convert each row of a batch use ``[row.to_dataclass(Point) for row in data]``.

        Args:
            dest_cls: the dataclass. Each of its fields without default needs a key; an ``InitVar`` takes the key of its
                name.

        Returns:
            An instance of ``dest_cls``. Tensors in it are shared.

        Raises:
            TypeError: keys are missing, or are not fields. The message lists all of them.

        Example:
            >>> import dataclasses
            >>> from tensorclass import TensorDict
            >>> @dataclasses.dataclass
            ... class Point:
            ...     x: float
            ...     label: str = "a"
            >>> TensorDict({"x": 0.5}).to_dataclass(Point)
            Point(x=0.5, label='a')
        """
        ...

    @delegated("tensorclass.convert.python.dataclass")
    def to_attrs(self: ClassInstances, dest_cls: type[D]) -> D:
        """Convert to an instance of an attrs class, as :meth:`to_dataclass` does. Its converters and validators run.

        Args:
            dest_cls: the class. Each of its fields without default needs a key.

        Returns:
            An instance of ``dest_cls``. Tensors in it are shared.

        Raises:
            ImportError: attrs is not installed.
            TypeError: keys are missing, or are not fields. The message lists all of them.

        Example:
            >>> import attrs
            >>> from tensorclass import TensorDict
            >>> @attrs.define
            ... class Point:
            ...     x: float
            ...     label: str = "a"
            >>> TensorDict({"x": 0.5}).to_attrs(Point)
            Point(x=0.5, label='a')
        """
        ...

    @delegated("tensorclass.convert.python.dataclass")
    def to_pydantic(self: ClassInstances, dest_cls: type[D]) -> D:
        """Convert to a pydantic model (or dataclass), as :meth:`to_dataclass` does. Pydantic validates the values.

        Args:
            dest_cls: the class. Each of its fields without default needs a key.

        Returns:
            An instance of ``dest_cls``. Tensors in it are shared.

        Raises:
            ImportError: pydantic is not installed.
            TypeError: keys are missing, or are not fields (unless ``extra="allow"`` is set). The message lists all of
                them.
            pydantic.ValidationError: pydantic rejects a value.

        Example:
            >>> from pydantic import BaseModel
            >>> from tensorclass import TensorDict
            >>> class Point(BaseModel):
            ...     x: float
            ...     label: str = "a"
            >>> TensorDict({"x": 0.5}).to_pydantic(Point)
            Point(x=0.5, label='a')
        """
        ...
