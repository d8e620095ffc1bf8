"""Extension types of Arrow: which are read, and a search for the others in a schema.

A library can register a Python class for the name of an extension type, and that class then makes the values of the
column: ``ray.data.arrow_pickled_object`` loads a pickle for each. A file can name any type. So the types are checked,
at every depth, before a value is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from .column_reader import UnreadableColumn

#: prefixes of types of other libraries that are read as their storage: numbers or JSON
_KNOWN = (
    "ray.data.arrow_tensor", "ray.data.arrow_variable_shaped_tensor", "pandas.period", "pandas.interval",
    "datasets.features.features.Array",
)  # fmt: skip
_MODULE = "pyarrow.lib"  #: module of Arrow's own types, which no Python code belongs to
_SHOWN = "a type of Arrow's own, or one that is known here"


def check_extensions(pa: Any, arrow_type: Any) -> None:
    """Check a type and all types nested in it.

    Raises:
        UnreadableColumn: there is an extension type whose values would be made by the code of another library.
    """
    for where, found in _extensions(pa, arrow_type):
        name: str = found.extension_name
        if type(found).__module__ == _MODULE or name.startswith(_KNOWN):
            continue
        place = f"in {where}, " if where else ""
        raise UnreadableColumn(
            _SHOWN,
            f"{place}the extension type {name[:80]!r}, whose values the code of another library makes "
            f"({type(found).__module__})",
            "cast the column to its storage before it is given, or leave it out",
        )


def of_one_shape(pa: Any, items: Any, shape: Sequence[int]) -> Any:
    """Return the items of arrays of one shape, one array after the other, as Arrow's tensors on the same memory."""
    rows = pa.FixedSizeListArray.from_arrays(items, math.prod(shape))
    return pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(items.type, shape), rows)


def _extensions(pa: Any, arrow_type: Any) -> Iterator[tuple[str, Any]]:
    """Yield each extension type in a type with its location: ``""`` for the type itself."""
    todo: list[tuple[str, Any]] = [("", arrow_type)]
    while todo:
        where, one = todo.pop()
        if isinstance(one, pa.BaseExtensionType):
            yield where, one
            todo.append((where, one.storage_type))
        else:
            todo.extend((where + step, inner) for step, inner in _inner(pa, one))


def _inner(pa: Any, arrow_type: Any) -> list[tuple[str, Any]]:
    """Return the types nested directly in a type, each with its label in messages."""
    types = pa.types
    if types.is_dictionary(arrow_type) or types.is_run_end_encoded(arrow_type):
        return [("", arrow_type.value_type)]
    if types.is_map(arrow_type):
        return [("{keys}", arrow_type.key_type), ("{values}", arrow_type.item_type)]
    if types.is_struct(arrow_type) or types.is_union(arrow_type):
        fields = [arrow_type.field(position) for position in range(arrow_type.num_fields)]
        return [(f".{field.name}", field.type) for field in fields]
    return [("[]", arrow_type.value_type)] if types.is_nested(arrow_type) else []
