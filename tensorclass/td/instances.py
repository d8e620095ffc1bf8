"""In and out: collections from instances of dataclasses, attrs classes and models of pydantic, and back.

As in ``converting.py``, the converters themselves are :mod:`tensorclass.convert`, and imported when they are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

from typing_extensions import Self

from .collection import Collection, DeviceLike
from .converting import _target

D = TypeVar("D")
BatchSize: TypeAlias = Sequence[int] | int | None


class Instances(Collection):
    """``from_x`` and ``to_x`` of classes of fields."""

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
        """A collection from an instance of a dataclass, and of those in its fields.

        Args:
            dataclass: the instance. A field that was never set has no entry.
            dest_cls: with ``as_tensorclass``: the class of the record, instead of one made from the dataclass.
            auto_batch_size: find the batch size out.
            batch_dims: how many dimensions it has at most, when it is found out.
            as_tensorclass: make a record of it, or a record class of a dataclass: :func:`tensorclass.from_dataclass`.
            device: where the values go.
            batch_size: the batch size; none by default.
            strict: for a record: ``False`` leaves fields out that the record has not, and warns of them.

        Raises:
            TypeError: ``dataclass`` is no instance of a dataclass.

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
        from tensorclass.convert import from_dataclass

        return from_dataclass(
            _target(cls), dataclass, dest_cls=dest_cls, auto_batch_size=auto_batch_size, batch_dims=batch_dims,
            as_tensorclass=as_tensorclass, device=device, batch_size=batch_size, strict=strict,
        )  # fmt: skip

    @classmethod
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
        """A collection from an instance of a class of attrs, and of those in its fields.

        The keys are the names of the attributes (``_x``), not those of the constructor's arguments. The function
        :func:`tensorclass.from_attrs` takes a class, too.

        Args:
            instance: the instance. A field that was never set has no entry.
            auto_batch_size: find the batch size out.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: the batch size; none by default.
            strict: for a record: ``False`` leaves fields out that the record has not, and warns of them.

        Raises:
            ImportError: attrs is not installed.
            TypeError: ``instance`` is no instance of a class of attrs.

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
        from tensorclass.convert import from_attrs

        return from_attrs(  # type: ignore[no-any-return]
            _target(cls), instance, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
            batch_size=batch_size, strict=strict,
        )  # fmt: skip

    @classmethod
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
        """A collection from a model of pydantic (or a dataclass of pydantic), and from those in its fields.

        The keys are the names of the fields, not their aliases; values that are no fields (``extra="allow"``) have
        entries, computed fields and private attributes have none. The function :func:`tensorclass.from_pydantic` takes
        a class, too.

        Args:
            model: the model.
            auto_batch_size: find the batch size out.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: the batch size; none by default.
            strict: for a record: ``False`` leaves fields out that the record has not, and warns of them.

        Raises:
            ImportError: pydantic is not installed.
            TypeError: ``model`` is no model.

        >>> from pydantic import BaseModel
        >>> from tensorclass import TensorDict
        >>> class Point(BaseModel):
        ...     x: float
        ...     label: str = "a"
        >>> data = TensorDict.from_pydantic(Point(x=0.5))
        >>> data["x"], data.to_pydantic(Point)
        (tensor(0.5000), Point(x=0.5, label='a'))
        """
        from tensorclass.convert import from_pydantic

        return from_pydantic(  # type: ignore[no-any-return]
            _target(cls), model, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
            batch_size=batch_size, strict=strict,
        )  # fmt: skip

    # -- out ----------------------------------------------------------------------------------------------------------

    def to_dataclass(self: Instances, dest_cls: type[D]) -> D:
        """An instance of a dataclass with the values in its fields, made by its constructor.

        Values become what the annotations say: nested collections instances of the classes named there, dicts or
        tuples; tensors with one number ``int``, ``float``, ``bool`` or ``complex`` (unless they require a gradient),
        others lists or arrays. What is annotated as a tensor, or not at all, stays what it is. Of the rows of a batch
        ``[row.to_dataclass(Point) for row in data]`` makes instances.

        Args:
            dest_cls: the dataclass. Its fields without default need a key; an ``InitVar`` takes the key of its name.

        Raises:
            TypeError: keys are missing, or are no fields; all of them are listed.
        """
        from tensorclass.convert import to_dataclass

        return to_dataclass(self, dest_cls)  # type: ignore[arg-type]

    def to_attrs(self: Instances, dest_cls: type[D]) -> D:
        """An instance of a class of attrs, as :meth:`to_dataclass`; its converters and validators run.

        Raises:
            ImportError: attrs is not installed.
            TypeError: keys are missing, or are no fields; all of them are listed.
        """
        from tensorclass.convert import to_attrs

        return to_attrs(self, dest_cls)  # type: ignore[arg-type]

    def to_pydantic(self: Instances, dest_cls: type[D]) -> D:
        """A model (or dataclass) of pydantic, as :meth:`to_dataclass`; pydantic validates the values.

        Raises:
            ImportError: pydantic is not installed.
            TypeError: keys are missing, or are no fields (a model with ``extra="allow"`` takes them); all are listed.
            pydantic.ValidationError: values are not what the model takes.
        """
        from tensorclass.convert import to_pydantic

        return to_pydantic(self, dest_cls)  # type: ignore[arg-type]
