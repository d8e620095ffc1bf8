"""Instances of dataclasses, classes of attrs and models of pydantic.

Adapters know the differences between the libraries (``class_adapters.py``); ``instance_values.py`` does the conversion.
The functions ``from_x`` of the package, which make record classes, too, are in ``record_functions.py``.
"""

from __future__ import annotations

from typing import Any, Literal, TypeVar, overload

from typing_extensions import Unpack

from tensorclass.convert.conversion_options import ConversionKwargs
from tensorclass.convert.conversion_steps import C
from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name
from tensorclass.td.base import TensorCollection

from .class_adapters import ATTRS, DATACLASS, PYDANTIC
from .instance_values import from_instance, to_instance, to_record

METHODS_OF = "ClassInstances"

D = TypeVar("D")


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
        return to_record(DATACLASS, dataclass, dest_cls=dest_cls, **kwargs)
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
