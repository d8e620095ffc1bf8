"""Dataclasses: instances become collections, classes become record classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tensorclass.record import TensorClass
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike

from .instances import from_instance, to_instance, to_record
from .kinds import DATACLASS
from .tree import BatchSize, C

if TYPE_CHECKING:
    from .record_class import Recording

D = TypeVar("D")


def from_dataclass(
    cls: type[C],
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
    """See :meth:`TensorDict.from_dataclass`."""
    options: Any = {
        "auto_batch_size": auto_batch_size, "batch_dims": batch_dims, "device": device, "batch_size": batch_size,
        "strict": strict,
    }  # fmt: skip
    if as_tensorclass:
        if dest_cls is None and issubclass(cls, TensorClass) and not isinstance(dataclass, type):
            dest_cls = cls
        return to_record(DATACLASS, dataclass, dest_cls=dest_cls, **options)
    if dest_cls is not None:
        raise ValueError(
            f"from_dataclass: dest_cls says what a record is made of, and needs as_tensorclass=True; or call "
            f"{dest_cls.__name__}.from_dataclass"
        )
    return from_instance(DATACLASS, cls, dataclass, more="; as_tensorclass=True takes a class", **options)


def to_dataclass(data: TensorCollection, dest_cls: type[D]) -> D:
    """See :meth:`TensorDict.to_dataclass`."""
    return to_instance(DATACLASS, data, dest_cls)  # type: ignore[no-any-return]


def _record_class(
    obj: Any,
    *,
    dest_cls: type[Any] | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: BatchSize = None,
    frozen: bool = False,
    autocast: bool = False,
    nocast: bool = False,
    inplace: bool = False,
    shadow: bool = False,
    tensor_only: bool = False,
    device: DeviceLike | None = None,
    strict: bool = True,
) -> Any:
    """A record class of a dataclass, or a record of an instance of one.

    The class derives from the dataclass and from :class:`TensorClass`: fields, defaults, methods and bases stay, and a
    record is an instance of the dataclass. (One that is frozen or has slots cannot be a base: a copy of it is, and the
    record is no instance of it.) Fields that hold dataclasses hold records, and so do those that hold classes of attrs
    or models of pydantic. The record class of a dataclass derives from those of its bases. Of one dataclass (and one
    set of options) there is one record class, however often it is asked for. A record can be pickled where the
    dataclass could.

    ``__post_init__`` runs when a record is made by the constructor. The record of an instance has the values that the
    instance has: it ran already.

    Args:
        obj: the dataclass, or an instance of one.
        dest_cls: for an instance: the class of the record, instead of the one that is made.
        auto_batch_size: for an instance: find the batch size out.
        batch_dims: for an instance: how many dimensions the batch size has at most, when it is found out.
        batch_size: for an instance: the batch size; none by default.
        frozen: an option of the class, as are the following; the record of a frozen dataclass is frozen anyway.
        autocast: convert values to the type of the annotation.
        nocast: take only tensors for tensor fields.
        inplace: not supported: a class cannot become another one.
        shadow: allow fields with the name of a method of records.
        tensor_only: every field holds a tensor.
        device: for an instance: the device of the record.
        strict: for an instance, with ``dest_cls``: ``False`` leaves fields out that the record has not.

    Raises:
        TypeError: ``obj`` is no dataclass, nor an instance of one.

    >>> import dataclasses, torch
    >>> from tensorclass import from_dataclass
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: Any
    ...     label: str = "a"
    ...
    ...     def doubled(self):
    ...         return 2 * self.x
    >>> point = from_dataclass(Point(torch.ones(3)), batch_size=[3])
    >>> point[:2].doubled(), point.label, isinstance(point, Point)
    (tensor([2., 2.]), 'a', True)
    >>> type(point) is from_dataclass(Point)
    True
    """
    if inplace:
        raise TypeError("from_dataclass: inplace=True is not supported: write @tensorclass over the class instead")
    return to_record(
        DATACLASS, obj, dest_cls=dest_cls, auto_batch_size=auto_batch_size, batch_dims=batch_dims,
        batch_size=batch_size, device=device, strict=strict, frozen=frozen, autocast=autocast, nocast=nocast,
        shadow=shadow, tensor_only=tensor_only,
    )  # fmt: skip


_record_class.__name__ = _record_class.__qualname__ = "from_dataclass"  # as the package exports it
record_class: Recording = _record_class
