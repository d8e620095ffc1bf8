"""Datasets of Ray: their blocks are Arrow tables, with Ray's own type for tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import Unpack

from tensorclass.convert.conversion_options import (
    ConversionOptions,
    StreamKwargs,
    TableKwargs,
    TableOptions,
    table_call_options,
)
from tensorclass.convert.conversion_steps import C
from tensorclass.convert.converter_registry import describe_source
from tensorclass.support.extras import require
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection

from .arrow import read_table, to_arrow

_EXTRA = "ray"


def from_ray_dataset(
    cls: type[C],
    dataset: Any,
    **kwargs: Unpack[TableKwargs],
) -> C:
    """See :meth:`TensorDict.from_ray_dataset`."""
    what = f"{class_name(cls)}.from_ray_dataset"
    options, table_options = _call_options(what, **kwargs)
    check_dataset(dataset, what)
    ray = require("ray", _EXTRA, "from_ray_dataset")
    blocks: list[Any] = ray.get(dataset.to_arrow_refs())
    return read_table(cls, joined([as_plain(block) for block in blocks]), options, table_options)


def iter_ray_dataset(
    cls: type[C],
    dataset: Any,
    *,
    batch_size: int,
    drop_last: bool = False,
    prefetch: int = 1,
    **kwargs: Unpack[StreamKwargs],
) -> Iterator[C]:
    """See :meth:`TensorDict.iter_ray_dataset`."""
    what = f"{class_name(cls)}.iter_ray_dataset"
    options, table_options = _call_options(what, **kwargs)
    check_dataset(dataset, what)
    if type(batch_size) is not int or batch_size < 1:
        raise ValueError(f"{what}: batch_size: expected a number of rows, at least 1, got {batch_size!r}")
    tables = dataset.iter_batches(
        batch_size=batch_size, batch_format="pyarrow", drop_last=drop_last, prefetch_batches=prefetch
    )
    return (read_table(cls, as_plain(table), options.renamed(what), table_options) for table in tables)


def _call_options(what: str, **kwargs: Unpack[TableKwargs]) -> tuple[ConversionOptions, TableOptions]:
    """Check the options. Memory of the object store must be copied outside Linux."""
    options, table_options = table_call_options(what, **kwargs)
    if not sys.platform.startswith("linux"):  # only there can the object store be read without being written to
        table_options = table_options._replace(copy=True)
    return options, table_options


def to_ray_dataset(data: TensorCollection, *, blocks: int | None = None) -> Any:
    """See :meth:`TensorDict.to_ray_dataset`."""
    library = require("ray.data", _EXTRA, "to_ray_dataset")
    if not isinstance(data, TensorCollection):
        raise TypeError(f"to_ray_dataset: expected a collection, got a {type_name(data)}")
    if blocks is not None and blocks < 1:
        raise ValueError(f"to_ray_dataset: expected blocks to be at least 1, got {blocks}")
    if not data.batch_dims:
        raise ValueError(
            "to_ray_dataset: expected a batch dimension, the rows; got the batch size []. unsqueeze(0) makes one"
        )
    table = to_arrow(data)
    return library.from_arrow(table, override_num_blocks=blocks)


# -- for functions on batches -----------------------------------------------------------------------------------------


def as_plain(table: Any) -> Any:
    """Convert Ray's tensor columns of one shape to Arrow's type, without a copy."""
    pa = require("pyarrow", _EXTRA, "from_ray_dataset")
    arrays = [_plain(pa, column) for column in table.columns]
    if all(one is other for one, other in zip(arrays, table.columns, strict=True)) or not arrays:
        return table
    fields = [
        field.with_type(array.type) if array.type != field.type else field
        for field, array in zip(table.schema, arrays, strict=True)
    ]
    return pa.table(arrays, schema=pa.schema(fields, metadata=table.schema.metadata))


def joined(tables: Sequence[Any]) -> Any:
    """Concatenate tables."""
    pa = require("pyarrow", _EXTRA, "from_ray_dataset")
    if not tables:
        return pa.table({})
    fill_rows = [table for table in tables if table.num_rows] or tables[:1]
    return pa.concat_tables(fill_rows, promote_options="permissive") if len(fill_rows) > 1 else fill_rows[0]


def _plain(pa: Any, column: Any) -> Any:
    arrow_type = column.type
    name: str = getattr(arrow_type, "extension_name", "")
    if not name.startswith("ray.data.arrow_tensor"):
        return column
    shape: Sequence[int] = arrow_type.shape
    size = 1
    for length in shape:
        size *= length
    item = arrow_type.storage_type.value_type
    tensor = pa.fixed_shape_tensor(item, shape)
    chunks: list[Any] = []
    for chunk in column.chunks:
        values = chunk.storage.flatten()
        if chunk.null_count or len(values) != len(chunk) * size:
            return column
        chunks.append(pa.ExtensionArray.from_storage(tensor, pa.FixedSizeListArray.from_arrays(values, size)))
    return pa.chunked_array(chunks, tensor)


def check_dataset(dataset: Any, what: str) -> None:
    """Raise unless an object is a dataset of Ray."""
    library = require("ray.data", _EXTRA, what.rpartition(".")[2])
    if not isinstance(dataset, library.Dataset):
        raise TypeError(f"{what}: expected a ray.data.Dataset, got {describe_source(dataset)}")
