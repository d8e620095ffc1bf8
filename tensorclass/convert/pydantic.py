"""Models of pydantic: instances become collections, classes become record classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike

from .extras import require
from .instances import from_instance, to_instance, to_record
from .kinds import PYDANTIC
from .tree import BatchSize, C

if TYPE_CHECKING:
    from .record_class import Recording

D = TypeVar("D")


def from_pydantic(
    cls: type[C],
    model: object,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_pydantic`."""
    require("pydantic", "pydantic", "from_pydantic")
    return from_instance(
        PYDANTIC, cls, model, auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
        batch_size=batch_size, strict=strict, more="; the function tensorclass.from_pydantic takes a class",
    )  # fmt: skip


def to_pydantic(data: TensorCollection, dest_cls: type[D]) -> D:
    """See :meth:`TensorDict.to_pydantic`."""
    require("pydantic", "pydantic", "to_pydantic")
    return to_instance(PYDANTIC, data, dest_cls)  # type: ignore[no-any-return]


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
    """A record class of a model of pydantic (or of a dataclass of pydantic), or a record of an instance of one.

    Fields (under their names, not under aliases; by keyword only), defaults, methods, properties and bases stay, as in
    :func:`tensorclass.from_dataclass`, which has the arguments; the record of a frozen model is frozen. A record is no
    instance of the model.

    What pydantic does when it makes a model is about one model, not about a batch: validators, ``model_post_init``
    and private attributes. It happens where :meth:`TensorDict.to_pydantic` makes a model, and not in records, which
    check their own fields. A default that is computed from other values is an error where a record needs it.

    Raises:
        ImportError: pydantic is not installed.
        TypeError: ``obj`` is no model, nor an instance of one.

    >>> import torch
    >>> from pydantic import BaseModel
    >>> from tensorclass import from_pydantic
    >>> class Point(BaseModel, arbitrary_types_allowed=True):
    ...     x: Any
    ...     label: str = "a"
    ...
    ...     def doubled(self):
    ...         return 2 * self.x
    >>> points = from_pydantic(Point)(x=torch.ones(3), batch_size=[3])
    >>> points[:2].doubled(), points.label
    (tensor([2., 2.]), 'a')
    """
    require("pydantic", "pydantic", "from_pydantic")
    return to_record(
        PYDANTIC, obj, dest_cls=dest_cls, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size,
        device=device, strict=strict, frozen=frozen, autocast=autocast, nocast=nocast, shadow=shadow,
        tensor_only=tensor_only,
    )  # fmt: skip


_record_class.__name__ = _record_class.__qualname__ = "from_pydantic"  # as the package exports it
record_class: Recording = _record_class
