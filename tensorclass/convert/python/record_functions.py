"""The functions ``from_dataclass``, ``from_attrs`` and ``from_pydantic`` of the package: record classes and records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorclass.td.delegated.arguments import BatchSize

from .class_adapters import ATTRS, DATACLASS, PYDANTIC, ClassAdapter
from .instance_values import to_record

if TYPE_CHECKING:
    from tensorclass.td.collection import DeviceLike

    from .record_class import RecordFunction


def _record_from_dataclass(
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
    """Return the record class of a dataclass, or the record of an instance.

    The class derives from the dataclass and from :class:`TensorClass`: it keeps fields, defaults, methods and bases,
    and its records are instances of the dataclass. (A frozen dataclass, or one with slots, cannot be a base: a copy of
    it is, and records are not its instances.) Fields that hold dataclasses, classes of attrs or models of pydantic hold
    records. The record class derives from the record classes of the bases. One dataclass has one record class for each
    set of options. A record can be pickled if the dataclass can.

    The constructor of the record class runs ``__post_init__``. The record of an instance has the values of the
    instance, for which it ran already.

    Args:
        obj: the dataclass, or an instance.
        dest_cls: class of the record of an instance; by default the one of its dataclass.
        auto_batch_size: infer the batch size of the record.
        batch_dims: largest number of inferred batch dimensions.
        batch_size: batch size of the record; none by default.
        frozen: option of the class, as are the next ones. Always set for a frozen dataclass.
        autocast: convert values to the type of the annotation.
        nocast: take only tensors for tensor fields.
        inplace: not supported: a class cannot become another one.
        shadow: allow fields called ``device``, ``names`` or ``shape``.
        tensor_only: every field holds a tensor.
        device: device of the record.
        strict: ``False`` leaves out fields that ``dest_cls`` does not have.

    Returns:
        A record class or a record. Tensors of the record are those of the instance.

    Raises:
        TypeError: ``obj`` is neither a dataclass nor an instance of one.

    Example:
        >>> import dataclasses, torch
        >>> from typing import Any
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
        DATACLASS, obj, dest_cls=dest_cls, frozen=frozen, autocast=autocast, nocast=nocast, shadow=shadow,
        tensor_only=tensor_only, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size,
        device=device, strict=strict,
    )  # fmt: skip


def _record_function(adapter: ClassAdapter, doc: str) -> RecordFunction:
    """Make the function ``from_x`` of the package for a library other than ``dataclasses``."""

    def record_from(
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
        return to_record(
            adapter, obj, dest_cls=dest_cls, frozen=frozen, autocast=autocast, nocast=nocast, shadow=shadow,
            tensor_only=tensor_only, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size,
            device=device, strict=strict,
        )  # fmt: skip

    record_from.__doc__ = doc
    record_from.__name__ = record_from.__qualname__ = f"from_{adapter.name}"  # as the package exports it
    return record_from


_record_from_dataclass.__name__ = _record_from_dataclass.__qualname__ = "from_dataclass"  # as the package exports it
record_from_dataclass: RecordFunction = _record_from_dataclass

#: sections of the docstrings of ``from_attrs`` and ``from_pydantic``
_ARGUMENTS = """
    Args:
        obj: the class, or an instance.
        dest_cls: class of the record of an instance; by default the one of its class.
        auto_batch_size: infer the batch size of the record. Default: ``False``.
        batch_dims: largest number of inferred batch dimensions; unlimited by default.
        batch_size: batch size of the record; none by default.
        frozen: option of the record class, as are the next four: see :class:`tensorclass.TensorClass`.
        autocast: convert values to the type of the annotation. Default: ``False``.
        nocast: take only tensors for tensor fields. Default: ``False``.
        shadow: allow fields called ``device``, ``names`` or ``shape``. Default: ``False``.
        tensor_only: every field holds a tensor. Default: ``False``.
        device: device of the record; by default values stay where they are.
        strict: ``False`` leaves out fields that ``dest_cls`` does not have. Default: ``True``.

    Returns:
        A record class or a record. Tensors of the record are those of the instance.
"""

record_from_attrs: RecordFunction = _record_function(
    ATTRS,
    f"""Return the record class of a class of attrs, or the record of an instance.

    The class keeps fields (under the names of the attributes, not of the constructor's arguments), defaults, methods
    and bases. The record class of a frozen class is frozen. Records are not instances of the class.

    The constructor of the record class runs ``__attrs_post_init__``. Validators and converters are about one instance,
    not about a batch: :meth:`TensorDict.to_attrs` runs them, records do not. A default that attrs computes from other
    fields of an instance raises if a record needs it.
{_ARGUMENTS}
    Raises:
        ImportError: attrs is not installed.
        TypeError: ``obj`` is neither a class of attrs nor an instance of one.

    Example:
        >>> import attrs, torch
        >>> from typing import Any
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
    """,
)

record_from_pydantic: RecordFunction = _record_function(
    PYDANTIC,
    f"""Return the record class of a model (or dataclass) of pydantic, or the record of an instance.

    The class keeps fields (under their names, not their aliases; by keyword only), defaults, methods, properties and
    bases. The record class of a frozen model is frozen. Records are not instances of the model.

    Validators, ``model_post_init`` and private attributes are about one model, not about a batch:
    :meth:`TensorDict.to_pydantic` runs them, records do not, but check their own fields. A default that pydantic
    computes from other values raises if a record needs it.
{_ARGUMENTS}
    Raises:
        ImportError: pydantic is not installed.
        TypeError: ``obj`` is neither a model nor an instance of one.

    Example:
        >>> import torch
        >>> from pydantic import BaseModel
        >>> from typing import Any
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
    """,
)
