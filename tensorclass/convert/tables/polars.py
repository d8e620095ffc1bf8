"""Tables of polars: a column is a value, a row an item of the batch. Arrow reads their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from tensorclass.convert.conversion_options import TableKwargs, table_call_options
from tensorclass.convert.conversion_steps import C
from tensorclass.convert.converter_registry import describe_source
from tensorclass.support.extras import require
from tensorclass.support.printable import class_name
from tensorclass.td.base import TensorCollection

from .arrow import read_columns, written_columns
from .arrow_reading import InputColumn, ObjectColumn
from .column_reader import UnreadableColumn

if TYPE_CHECKING:
    import polars

METHODS_OF = "Tables"

_EXTRA = "polars"


class PolarsKwargs(TableKwargs, total=False):
    """Keyword arguments of ``from_polars``.

    Args:
        FileKwargs: separator
    """

    separator: str | None


def from_polars(
    cls: type[C], frame: polars.DataFrame | polars.LazyFrame | polars.Series, **kwargs: Unpack[PolarsKwargs]
) -> C:
    """Convert a polars table through Arrow, whose memory layout polars uses. See :meth:`from_arrow`.

    Arrays become further dimensions, lists :class:`Ragged`, structs nested collections. Text, categories and
    members of enumerations become :class:`Text`.

    Args:
        frame: a ``polars.DataFrame``, a ``LazyFrame`` (which is collected, only with ``columns`` if they are given), or
            a ``Series`` of structs.
        copy: ``True`` always copies, ``False`` raises where a copy is needed; by default columns are copied where
            needed.
        nulls: what becomes of nulls, as in :meth:`from_arrow`. A nan is a number.
        TableKwargs: mask_key, device, columns, rename, ragged
        PolarsKwargs: separator
        TableKwargs: auto_batch_size, batch_dims
        batch_size: another batch size.
        strict: with ``False``, drop columns that are not fields of a record, and warn about them. A :class:`TensorDict`
            takes all columns.

    Returns:
        A collection of this class. Columns of numbers share memory with the frame if they are one chunk without nulls.
        polars assumes that its memory never changes, so copy before you write.

    Raises:
        ImportError: polars or pyarrow is not installed.
        ConversionError: there are nulls, a column cannot be read (without a copy), or columns are missing, unexpected
            or do not fit their fields. Lists everything that is wrong.

    Example:
        >>> import polars
        >>> from tensorclass import TensorDict
        >>> frame = polars.DataFrame({"x": [1, 2], "name": ["a", "b"]})
        >>> TensorDict.from_polars(frame).to_dict()
        {'x': tensor([1, 2]), 'name': ['a', 'b']}
    """
    what = f"{class_name(cls)}.from_polars"
    options, table_options = table_call_options(what, **kwargs)
    pl, pa = require("polars", _EXTRA, "from_polars"), require("pyarrow", _EXTRA, "from_polars")
    data = _collected(pl, frame, table_options.columns, what)
    given: dict[str, InputColumn] = {}
    for series in data.get_columns():
        if series.dtype == pl.Object:
            given[series.name] = InputColumn(ObjectColumn(series.to_list()))
            continue
        try:
            given[series.name] = InputColumn(pa.chunked_array(series))
        except pa.ArrowInvalid as error:
            given[series.name] = InputColumn(UnreadableColumn("a dtype that Arrow has", f"{series.dtype}", str(error)))
    return read_columns(cls, given, data.height, options, table_options)


def to_polars(data: TensorCollection) -> polars.DataFrame:
    """Return a ``polars.DataFrame`` with one row per item of the first batch dimension.

    Further dimensions become arrays (lists for text and for items without numbers), nested collections structs,
    jagged tensors and rows of different shapes lists. ``bfloat16`` is written as ``Float32``, complex numbers as
    pairs.

    Returns:
        A frame that shares memory with the tensors where polars can.

    Raises:
        ImportError: polars or pyarrow is not installed.
        ValueError: there is no batch dimension.
        ConversionError: values cannot be columns. Lists all of them.

    Example:
        >>> from tensorclass import TensorDict
        >>> TensorDict({"x": [[1, 2], [3, 4]], "name": ["a", "b"]}, [2]).to_polars().rows()
        [([1, 2], 'a'), ([3, 4], 'b')]
    """
    pl, pa = require("polars", _EXTRA, "to_polars"), require("pyarrow", _EXTRA, "to_polars")
    arrays, fields = written_columns(pa, data, "to_polars", plain=True)
    table = pa.table(arrays, names=[field.name for field in fields])
    made: polars.DataFrame = pl.from_arrow(table, rechunk=False)
    return made


def _collected(pl: Any, frame: Any, columns: Sequence[str] | None, what: str) -> polars.DataFrame:
    """Collect the frame; a lazy frame collects only the requested columns."""
    data: polars.DataFrame
    if isinstance(frame, pl.LazyFrame):
        known: set[str] = set(frame.collect_schema().names())
        chosen = None if columns is None else [name for name in columns if name in known]
        data = (frame if chosen is None else frame.select(chosen)).collect()
    elif isinstance(frame, pl.Series) and frame.dtype == pl.Struct:
        data = frame.struct.unnest()
    elif isinstance(frame, pl.DataFrame):
        data = frame
    else:
        got = f"a Series of {frame.dtype}" if isinstance(frame, pl.Series) else describe_source(frame)
        raise TypeError(f"{what}: expected a polars.DataFrame, a LazyFrame or a Series of structs, got {got}")
    return data
