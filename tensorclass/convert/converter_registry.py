"""Registry of types with a converter of their own, for :func:`from_any` and nested values.

A lookup imports nothing: an object of a package exists only if the package has been imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tensorclass.support.printable import type_name

from .python.class_adapters import PLAIN


class ConverterEntry(NamedTuple):
    """Types of a package, and the method that converts them."""

    package: str
    #: names of the types; none if only ``takes`` decides
    classes: tuple[str, ...]
    #: class method of collections; takes ``device`` and ``strict``
    method: str
    #: which instances it takes; ``None``: all
    takes: Callable[[Any], bool] | None = None


def _is_any_collection(obj: Any) -> bool:
    """Return whether an object is a collection of ``tensordict``. Its records have no common base class."""
    package: Any = sys.modules["tensordict"]
    return bool(package.is_tensor_collection(obj))


def _is_structured(array: Any) -> bool:
    return array.dtype.names is not None


#: one line for each type
CONVERTERS: tuple[ConverterEntry, ...] = (
    ConverterEntry("numpy", ("ndarray", "void"), "from_struct_array", _is_structured),
    ConverterEntry("pandas", ("DataFrame",), "from_pandas"),
    ConverterEntry("pyarrow", ("Table", "RecordBatch"), "from_arrow"),
    ConverterEntry("polars", ("DataFrame", "LazyFrame"), "from_polars"),
    ConverterEntry("datasets", ("Dataset",), "from_huggingface"),
    ConverterEntry("tensordict", (), "from_pytorch_tensordict", _is_any_collection),
)


#: types of Python's own, for which no package is asked
_OF_PYTHON = frozenset((*PLAIN, dict, tuple))


def converter_of(obj: object) -> ConverterEntry | None:
    """Look up the converter of an object; ``None`` without one.

    >>> import numpy
    >>> converter_of(numpy.zeros(2, [("a", "i4")])).method
    'from_struct_array'
    """
    if type(obj) in _OF_PYTHON:
        return None
    for entry in CONVERTERS:
        package: Any = sys.modules.get(entry.package)
        if package is not None:
            classes = tuple([getattr(package, name) for name in entry.classes]) or object
            if isinstance(obj, classes) and (entry.takes is None or entry.takes(obj)):
                return entry
    return None


def describe_source(obj: object) -> str:
    """Describe an unexpected object for a message, with the converter that takes it.

    >>> import numpy
    >>> describe_source(3), describe_source(numpy.zeros(2, [("a", "i4")]))
    ('a int', 'a numpy.ndarray, which from_struct_array takes')
    """
    entry, name = converter_of(obj), type_name(obj)
    if entry is not None:
        return f"a {entry.package}.{name}, which {entry.method} takes"
    if isinstance(obj, os.PathLike) or (isinstance(obj, str) and "\n" not in obj):
        return f"a {name}; files are read by from_parquet, from_csv, from_json and from_feather"
    if isinstance(obj, Mapping):
        return f"a {name}, which from_dict takes"
    return f"a {name}, which from_list takes" if isinstance(obj, list) else f"a {name}"


def is_dataframe(obj: object) -> bool:
    """Return whether an object is a table of pandas."""
    entry = converter_of(obj)
    return entry is not None and entry.package == "pandas"
