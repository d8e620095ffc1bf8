"""Datasets of Ray: their blocks are Arrow tables, with Ray's own type for tensors."""

from __future__ import annotations

import math
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
from tensorclass.support.printable import class_name
from tensorclass.td.base import TensorCollection

from .arrow import check_has_rows, read_table, to_arrow
from .arrow_extensions import of_one_shape

METHODS_OF = "Datasets"

_EXTRA = "ray"


def from_ray_dataset(cls: type[C], dataset: Any, **kwargs: Unpack[TableKwargs]) -> C:
    """Convert a ``ray.data.Dataset``: one value per column, with the number of rows as batch size.

    The dataset is executed, and all of it comes to this process; use :meth:`iter_ray_dataset` if it is larger than
    memory. Columns are read as :meth:`from_arrow` reads them, and tensors in Ray's own type as tensors of their
    shape. Ray returns blocks in the order in which they complete, unless
    ``ray.data.DataContext.get_current().execution_options.preserve_order`` is set.

    Args:
        dataset: a ``ray.data.Dataset``.
        TableKwargs: copy, nulls, mask_key, device, columns, rename, ragged, auto_batch_size, batch_dims, batch_size,
            strict

    Returns:
        A collection of this class. On Linux the numbers of a dataset of one block are not copied; pages of the object
        store become private copies when they are written. Several blocks are joined, which copies.

    Raises:
        ImportError: ray is not installed (the extra ``ray``).
        TypeError: ``dataset`` is not a ``ray.data.Dataset``.
        ConversionError: columns do not fit their fields.

    Example:
        >>> import ray.data
        >>> from tensorclass import TensorDict
        >>> dataset = ray.data.from_items([{"x": 1.0, "text": "a"}, {"x": 2.0, "text": "b"}])
        >>> TensorDict.from_ray_dataset(dataset).to_dict()
        {'x': tensor([1., 2.], dtype=torch.float64), 'text': ['a', 'b']}
    """
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
    """Iterate over a ``ray.data.Dataset`` in batches while it is still executed. It can be larger than memory.

    Args:
        dataset: a ``ray.data.Dataset``.
        StreamKwargs: batch_size, drop_last
        prefetch: the number of batches that are fetched ahead.
        StreamKwargs: nulls, mask_key, device, columns, rename, ragged, strict

    Returns:
        StreamKwargs

    Raises:
        ImportError: ray is not installed (the extra ``ray``).
        TypeError: ``dataset`` is not a ``ray.data.Dataset``.
        ValueError: ``batch_size`` is not a positive number.
        ConversionError: columns do not fit their fields.

    Example:
        >>> import ray.data
        >>> from tensorclass import TensorDict
        >>> dataset = ray.data.range(3)
        >>> [batch["id"].tolist() for batch in TensorDict.iter_ray_dataset(dataset, batch_size=2)]
        [[0, 1], [2]]
    """
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
    """Return a ``ray.data.Dataset`` with one row per item of the batch.

    Further dimensions become Arrow's tensors of a fixed shape, nested collections structs, ragged rows lists;
    see :meth:`to_arrow`. :func:`tensorclass.distributed.ray.map_batches` runs functions from record to record on
    the dataset.

    Args:
        blocks: the number of blocks that the rows are split into, each of which Ray gives to one task; 1 by default.

    Raises:
        ImportError: ray is not installed (the extra ``ray``).
        ValueError: there is no batch dimension.
        ConversionError: a value has a dtype that Arrow does not have.

    Example:
        >>> import ray, torch
        >>> from tensorclass import TensorDict
        >>> dataset = TensorDict({"x": torch.arange(4), "text": "a"}, [4]).to_ray_dataset()
        >>> dataset.take(2)
        [{'x': 0, 'text': 'a'}, {'x': 1, 'text': 'a'}]
    """
    library = require("ray.data", _EXTRA, "to_ray_dataset")
    check_has_rows(data, "to_ray_dataset")
    if blocks is not None and blocks < 1:
        raise ValueError(f"to_ray_dataset: expected blocks to be at least 1, got {blocks}")
    return library.from_arrow(to_arrow(data), override_num_blocks=blocks)


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
    chunks: list[Any] = []
    for chunk in column.chunks:
        values = chunk.storage.flatten()
        if chunk.null_count or len(values) != len(chunk) * math.prod(shape):
            return column
        chunks.append(of_one_shape(pa, values, shape))
    return pa.chunked_array(chunks, pa.fixed_shape_tensor(arrow_type.storage_type.value_type, shape))


def check_dataset(dataset: Any, what: str) -> None:
    """Raise unless an object is a dataset of Ray."""
    library = require("ray.data", _EXTRA, what.rpartition(".")[2])
    if not isinstance(dataset, library.Dataset):
        raise TypeError(f"{what}: expected a ray.data.Dataset, got {describe_source(dataset)}")
