"""Tables of polars: a column is a value, a row an item of the batch. They go through Arrow, whose memory polars has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.keys import NestedKey

from .arrow import read_columns, reading_of
from .arrow_numbers import Nulls, Ragged, Unreadable
from .arrow_reading import Given, Objects
from .arrow_writing import ColumnWriter
from .extras import require
from .problems import Problems
from .readers import described
from .tree import BatchSize, C, plan

if TYPE_CHECKING:
    import polars

_EXTRA = "polars"


def from_polars(
    cls: type[C],
    frame: polars.DataFrame | polars.LazyFrame | polars.Series,
    *,
    copy: bool | None = None,
    nulls: Nulls = "default",
    mask_key: NestedKey | None = None,
    device: DeviceLike | None = None,
    columns: Sequence[str] | None = None,
    ragged: Ragged = "jagged",
    separator: str | None = None,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_polars`."""
    what = f"{cls.__name__}.from_polars"
    reading = reading_of(what, nulls, copy, ragged, mask_key)
    asked = plan(what, auto_batch_size, batch_dims, batch_size, device, strict=strict)
    pl, pa = require("polars", _EXTRA, "from_polars"), require("pyarrow", _EXTRA, "from_polars")
    data = _collected(pl, frame, columns, what)
    given: dict[str, Given] = {}
    for series in data.get_columns():
        if series.dtype == pl.Object:
            given[series.name] = Given(Objects(series.to_list()))
            continue
        try:
            given[series.name] = Given(pa.chunked_array(series))
        except pa.ArrowInvalid as error:
            given[series.name] = Given(Unreadable("a dtype that Arrow has", f"{series.dtype}", str(error)))
    return read_columns(cls, given, data.height, asked, reading, columns=columns, separator=separator)


def to_polars(data: TensorCollection) -> polars.DataFrame:
    """See :meth:`TensorDict.to_polars`."""
    pl, pa = require("polars", _EXTRA, "to_polars"), require("pyarrow", _EXTRA, "to_polars")
    if not isinstance(data, TensorCollection):
        raise TypeError(f"to_polars: expected a collection, got a {type(data).__name__}")
    if not data.batch_dims:
        raise ValueError(
            "to_polars: expected a batch dimension, the rows; got the batch size []; unsqueeze(0) adds one"
        )
    problems = Problems(f"{type(data).__name__}.to_polars")
    arrays, fields = ColumnWriter(pa, problems, plain=True).columns(data, (), None)
    problems.check()
    table = pa.table(arrays, names=[field.name for field in fields])
    made: polars.DataFrame = pl.from_arrow(table, rechunk=False)
    return made


def _collected(pl: Any, frame: Any, columns: Sequence[str] | None, what: str) -> polars.DataFrame:
    """A frame of polars with its values; of a lazy one, only the columns that are asked for."""
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
        kind = f"a Series of {frame.dtype}" if isinstance(frame, pl.Series) else described(frame)
        raise TypeError(f"{what}: expected a polars.DataFrame, a LazyFrame or a Series of structs, got {kind}")
    return data
