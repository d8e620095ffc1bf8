"""Dataclasses, classes of attrs and models of pydantic: instances become collections, classes become record classes.

All three have the same functions: ``from_x`` and ``to_x``, the methods of collections, and ``record_from_x``, which the
package exports as the function ``from_x``. Adapters know the differences between the libraries (``kinds.py``);
``instances.py`` does the conversion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from typing_extensions import Unpack

from tensorclass.convert.conversion_options import ConversionKwargs
from tensorclass.convert.conversion_steps import C
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.delegated.arguments import BatchSize

from .class_adapters import ATTRS, DATACLASS, PYDANTIC, ClassAdapter
from .instance_values import from_instance, to_instance, to_record

if TYPE_CHECKING:
    from tensorclass.td.collection import DeviceLike

    from .record_class import RecordFunction

METHODS_OF = "ClassInstances"

D = TypeVar("D")


# -- methods of collections -------------------------------------------------------------------------------------------


@overload
def from_dataclass(
    cls: type[C],
    dataclass: object,
    *,
    dest_cls: None = ...,
    as_tensorclass: Literal[False] = ...,
    **kwargs: Unpack[ConversionKwargs],
) -> C: ...
@overload
def from_dataclass(
    cls: type[C],
    dataclass: object,
    *,
    dest_cls: type[D],
    as_tensorclass: Literal[True],
    **kwargs: Unpack[ConversionKwargs],
) -> D: ...
@overload
def from_dataclass(
    cls: type[C], dataclass: object, *, dest_cls: None = ..., as_tensorclass: bool, **kwargs: Unpack[ConversionKwargs]
) -> Any: ...
def from_dataclass(
    cls: type[C],
    dataclass: Any,
    *,
    dest_cls: type[Any] | None = None,
    as_tensorclass: bool = False,
    **kwargs: Unpack[ConversionKwargs],
) -> Any:
    """Convert an instance of a dataclass, and instances in its fields, to a collection.

    Args:
        dataclass: the instance. A field that was never set has no entry.
        dest_cls: with ``as_tensorclass``, the record class to use instead of one made from the dataclass.
        ConversionKwargs: auto_batch_size, batch_dims
        as_tensorclass: return a record; for a dataclass itself a record class, as :func:`tensorclass.from_dataclass`
            does. Default: ``False``.
        ConversionKwargs: device, batch_size, strict

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
    if as_tensorclass:
        if dest_cls is None and issubclass(cls, TensorClass) and not isinstance(dataclass, type):
            dest_cls = cls
        return to_record(DATACLASS, dataclass, {}, dest_cls=dest_cls, **kwargs)
    if dest_cls is not None:
        raise ValueError(
            "from_dataclass: dest_cls is the class of a record, and needs as_tensorclass=True; or call "
            f"{class_name(dest_cls)}.from_dataclass"
        )
    return from_instance(DATACLASS, cls, dataclass, **kwargs)


def from_attrs(cls: type[C], instance: object, **kwargs: Unpack[ConversionKwargs]) -> C:
    """Convert an instance of an attrs class, and instances in its fields, to a collection.

    The keys are the names of the attributes (``_x``), not of the constructor's arguments. The function
    :func:`tensorclass.from_attrs` also takes a class.

    Args:
        instance: the instance. A field that was never set has no entry.
        ConversionKwargs: auto_batch_size, batch_dims, device, batch_size, strict

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
    return from_instance(ATTRS, cls, instance, **kwargs)


def from_pydantic(cls: type[C], model: object, **kwargs: Unpack[ConversionKwargs]) -> C:
    """Convert a pydantic model (or pydantic dataclass), and models in its fields, to a collection.

    The keys are the names of the fields, not their aliases. Extra values (``extra="allow"``) get entries; computed
    fields and private attributes do not. The function :func:`tensorclass.from_pydantic` also takes a class.

    Args:
        model: the model.
        ConversionKwargs: auto_batch_size, batch_dims, device, batch_size, strict

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
    return from_instance(PYDANTIC, cls, model, **kwargs)


def to_dataclass(data: TensorCollection, dest_cls: type[D]) -> D:
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
    return to_instance(DATACLASS, data, dest_cls)  # type: ignore[no-any-return]


def to_attrs(data: TensorCollection, dest_cls: type[D]) -> D:
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
    return to_instance(ATTRS, data, dest_cls)  # type: ignore[no-any-return]


def to_pydantic(data: TensorCollection, dest_cls: type[D]) -> D:
    """Convert to a pydantic model (or dataclass), as :meth:`to_dataclass` does. Pydantic validates the values.

    Args:
        dest_cls: the class. Each of its fields without default needs a key.

    Returns:
        An instance of ``dest_cls``. Tensors in it are shared.

    Raises:
        ImportError: pydantic is not installed.
        TypeError: keys are missing, or are not fields (unless ``extra="allow"`` is set). The message lists all of them.
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
    return to_instance(PYDANTIC, data, dest_cls)  # type: ignore[no-any-return]


# -- functions of the package -----------------------------------------------------------------------------------------


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
    class_options = {
        "frozen": frozen, "autocast": autocast, "nocast": nocast, "shadow": shadow, "tensor_only": tensor_only,
    }  # fmt: skip
    return to_record(
        DATACLASS, obj, class_options, dest_cls=dest_cls, auto_batch_size=auto_batch_size, batch_dims=batch_dims,
        batch_size=batch_size, device=device, strict=strict,
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
        class_options = {
            "frozen": frozen, "autocast": autocast, "nocast": nocast, "shadow": shadow, "tensor_only": tensor_only,
        }  # fmt: skip
        return to_record(
            adapter, obj, class_options, dest_cls=dest_cls, auto_batch_size=auto_batch_size, batch_dims=batch_dims,
            batch_size=batch_size, device=device, strict=strict,
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
