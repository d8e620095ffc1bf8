"""Any object, through the converter for its type."""

from __future__ import annotations

from typing import Any, cast

from typing_extensions import Unpack

from tensorclass.records.record import TensorClass
from tensorclass.support.printable import class_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.value_checks import as_tensor

from .conversion_options import ConversionKwargs, ConversionOptions
from .conversion_steps import C, build, from_entries, nested_object_column, with_metadata, with_metadata_of
from .conversion_targets import entries
from .converter_registry import converter_of, describe_source
from .python.list import from_list

METHODS_OF = "PythonObjects"


def from_any(cls: type[C], obj: Any, **kwargs: Unpack[ConversionKwargs]) -> Any:
    """Convert an object that contains others: a mapping, a tuple, a structured array, a table or an instance.

    Instances are those of dataclasses and attrs classes, and pydantic models. The objects inside are converted too.
    A list of numbers becomes a tensor, any other list a column of objects. A record converts only the fields that
    are declared as collections; every other field takes its object unchanged.

    Args:
        obj: the object. A collection is returned unchanged. A :class:`TensorDict` also returns objects that contain no
            others unchanged.
        auto_batch_size: infer the batch size, at every level, from the leading dimensions that all values share.
        ConversionKwargs: batch_dims, device, batch_size
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
    options = ConversionOptions.of(f"{class_name(cls)}.from_any", **kwargs)
    is_record = issubclass(cls, TensorClass)
    if isinstance(obj, TensorCollection):
        if is_record and not isinstance(obj, cls):
            names = None if options.auto or options.batch_size is not None else obj._names
            return build(cls, dict(obj._store), with_metadata_of(obj, options)._replace(names=names))
        unchanged = not options.auto and options.batch_size is None and options.device is None
        return obj if unchanged else with_metadata(obj._shallow(), options)
    converter = converter_of(obj)
    if converter is None and entries(obj) is not None:
        return from_entries(cls, obj, options)
    if converter is not None and converter.package == "tensordict":  # its batch size is part of it
        return getattr(cls, converter.method)(obj, **kwargs)
    if converter is not None:
        made = getattr(cls, converter.method)(obj, device=options.device, strict=options.strict)
        return made if not options.auto and options.batch_size is None else with_metadata(made, options)
    given: Any = obj  # keeps its type below, where checkers would narrow that of obj
    rows = cast("list[object]", obj) if isinstance(obj, list) else None
    if is_record and rows is not None:
        return from_list(cls, rows, **kwargs)
    if is_record:
        raise TypeError(
            f"{class_name(cls)}.from_any: expected something with entries for the fields {list(cls._specs)}: a "  # type: ignore[attr-defined]
            "mapping, a dataclass, a named tuple, a structured array, a table, or a list of those; got "
            f"{describe_source(given)}"
        )
    if rows is not None:
        tensor = as_tensor(rows, options.device)
        return nested_object_column(rows) if tensor is None else tensor
    return given
