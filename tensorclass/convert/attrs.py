"""Classes of attrs: instances become collections, classes become record classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike

from .extras import require
from .instances import from_instance, to_instance, to_record
from .kinds import ATTRS
from .tree import BatchSize, C

if TYPE_CHECKING:
    from .record_class import Recording

D = TypeVar("D")


def from_attrs(
    cls: type[C],
    instance: object,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_attrs`."""
    require("attrs", "attrs", "from_attrs")
    return from_instance(
        ATTRS, cls, instance, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
        batch_size=batch_size, strict=strict, more="; the function tensorclass.from_attrs takes a class",
    )  # fmt: skip


def to_attrs(data: TensorCollection, dest_cls: type[D]) -> D:
    """See :meth:`TensorDict.to_attrs`."""
    require("attrs", "attrs", "to_attrs")
    return to_instance(ATTRS, data, dest_cls)  # type: ignore[no-any-return]


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
    shadow: bool = False,
    tensor_only: bool = False,
    device: DeviceLike | None = None,
    strict: bool = True,
) -> Any:
    """A record class of a class of attrs, or a record of an instance of one.

    Fields (under the names of the attributes, not of the constructor's arguments), defaults, methods and bases stay, as
    in :func:`tensorclass.from_dataclass`, which has the arguments; the record of a frozen class is frozen. A record is
    no instance of the class.

    ``__attrs_post_init__`` runs when a record is made by the constructor. Validators and converters are about one
    instance, not about a batch: they run where :meth:`TensorDict.to_attrs` makes an instance, and not in records. A
    default that is computed from other fields of an instance is an error where a record needs it.

    Raises:
        ImportError: attrs is not installed.
        TypeError: ``obj`` is no class of attrs, nor an instance of one.

    >>> import attrs, torch
    >>> from tensorclass import from_attrs
    >>> @attrs.define
    ... class Point:
    ...     x: Any
    ...     label: str = "a"
    ...
    ...     def doubled(self):
    ...         return 2 * self.x
    >>> points = from_attrs(Point)(torch.ones(3), batch_size=[3])
    >>> points[:2].doubled(), points.label
    (tensor([2., 2.]), 'a')
    """
    require("attrs", "attrs", "from_attrs")
    return to_record(
        ATTRS, obj, dest_cls=dest_cls, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size,
        device=device, strict=strict, frozen=frozen, autocast=autocast, nocast=nocast, shadow=shadow,
        tensor_only=tensor_only,
    )  # fmt: skip


_record_class.__name__ = _record_class.__qualname__ = "from_attrs"  # as the package exports it
record_class: Recording = _record_class
