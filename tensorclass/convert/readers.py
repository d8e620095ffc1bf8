"""Which converter reads an object: tables that :func:`from_any` and nested values are looked up in.

Nothing is imported for the question: an object of a package can only be there where the package has been imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .kinds import PLAIN


def _is_anything(_: Any) -> bool:
    return True


class Reader(NamedTuple):
    """Objects that have a converter of their own: those of classes of a package."""

    package: str
    classes: tuple[str, ...]
    #: the method of collections that reads them; takes ``device`` and ``strict``
    method: str
    #: which of them
    takes: Callable[[Any], bool] = _is_anything


def _is_structured(array: Any) -> bool:
    return array.dtype.names is not None


#: one line for each kind of object that is read whole
READERS: tuple[Reader, ...] = (
    Reader("numpy", ("ndarray", "void"), "from_struct_array", _is_structured),
    Reader("pandas", ("DataFrame",), "from_pandas"),
    Reader("pyarrow", ("Table", "RecordBatch"), "from_arrow"),
    Reader("polars", ("DataFrame", "LazyFrame"), "from_polars"),
    Reader("datasets", ("Dataset",), "from_huggingface"),
)


def reader_of(obj: object) -> Reader | None:
    """The line for an object that has a converter of its own; ``None`` for others.

    >>> import numpy
    >>> reader_of(numpy.zeros(2, [("a", "i4")])).method
    'from_struct_array'
    """
    if type(obj) in PLAIN:
        return None
    for reader in READERS:
        package: Any = sys.modules.get(reader.package)
        if package is not None:
            classes = tuple([getattr(package, name) for name in reader.classes])
            if isinstance(obj, classes) and reader.takes(obj):
                return reader
    return None


def described(obj: object) -> str:
    """What was given in place of something else, for messages, and the converter that takes it.

    >>> import numpy
    >>> described(3), described(numpy.zeros(2, [("a", "i4")]))
    ('a int', 'a numpy.ndarray, which from_struct_array takes')
    """
    reader, name = reader_of(obj), type(obj).__name__
    if reader is not None:
        return f"a {reader.package}.{name}, which {reader.method} takes"
    if isinstance(obj, os.PathLike) or (isinstance(obj, str) and "\n" not in obj):
        return f"a {name}; files are read by from_parquet, from_csv, from_json and from_feather"
    if isinstance(obj, Mapping):
        return f"a {name}, which from_dict takes"
    return f"a {name}, which from_list takes" if isinstance(obj, list) else f"a {name}"


def is_struct_array(obj: object) -> bool:
    """Whether an object is a numpy array (or a single item) of a structured dtype."""
    reader = reader_of(obj)
    return reader is not None and reader.package == "numpy"


def is_dataframe(obj: object) -> bool:
    """Whether an object is a table of pandas."""
    reader = reader_of(obj)
    return reader is not None and reader.package == "pandas"
