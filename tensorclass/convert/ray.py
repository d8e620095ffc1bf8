"""Datasets of Ray: their blocks are tables of Arrow, with a type of Ray's own for tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.keys import NestedKey

from .arrow import read_table, reading_of, to_arrow
from .arrow_numbers import Nulls, Ragged
from .extras import require
from .readers import described
from .tree import BatchSize, C, plan

_EXTRA = "ray"


def from_ray_dataset(
    cls: type[C],
    dataset: Any,
    *,
    copy: bool | None = None,
    nulls: Nulls = "default",
    mask_key: NestedKey | None = None,
    device: DeviceLike | None = None,
    columns: Sequence[str] | None = None,
    ragged: Ragged = "jagged",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: BatchSize = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_ray_dataset`."""
    what = f"{cls.__name__}.from_ray_dataset"
    # elsewhere there is no way to look at the object store without being able to change it
    reading = reading_of(what, nulls, copy if sys.platform.startswith("linux") else True, ragged, mask_key)
    asked = plan(what, auto_batch_size, batch_dims, batch_size, device, strict=strict)
    check_dataset(dataset, what)
    ray = require("ray", _EXTRA, "from_ray_dataset")
    blocks: list[Any] = ray.get(dataset.to_arrow_refs())
    return read_table(cls, joined([as_plain(block) for block in blocks]), asked, reading, columns=columns)


def iter_ray_dataset(
    cls: type[C],
    dataset: Any,
    *,
    batch_size: int,
    drop_last: bool = False,
    prefetch: int = 1,
    nulls: Nulls = "default",
    mask_key: NestedKey | None = None,
    device: DeviceLike | None = None,
    columns: Sequence[str] | None = None,
    ragged: Ragged = "jagged",
    strict: bool = True,
) -> Iterator[C]:
    """See :meth:`TensorDict.iter_ray_dataset`."""
    what = f"{cls.__name__}.iter_ray_dataset"
    reading = reading_of(what, nulls, None if sys.platform.startswith("linux") else True, ragged, mask_key)
    check_dataset(dataset, what)
    if type(batch_size) is not int or batch_size < 1:
        raise ValueError(f"{what}: batch_size: expected a number of rows, at least 1, got {batch_size!r}")
    tables = dataset.iter_batches(
        batch_size=batch_size, batch_format="pyarrow", drop_last=drop_last, prefetch_batches=prefetch
    )
    return (
        read_table(cls, as_plain(table), plan(what, None, None, None, device, strict=strict), reading, columns=columns)
        for table in tables
    )


def to_ray_dataset(data: TensorCollection, *, blocks: int | None = None) -> Any:
    """See :meth:`TensorDict.to_ray_dataset`."""
    library = require("ray.data", _EXTRA, "to_ray_dataset")
    if not isinstance(data, TensorCollection):
        raise TypeError(f"to_ray_dataset: expected a collection, got a {type(data).__name__}")
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
    """A table whose tensors are Arrow's own, where they are all of one shape; nothing is copied."""
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
    """One table with the rows of several."""
    pa = require("pyarrow", _EXTRA, "from_ray_dataset")
    if not tables:
        return pa.table({})
    filled = [table for table in tables if table.num_rows] or tables[:1]
    return pa.concat_tables(filled, promote_options="permissive") if len(filled) > 1 else filled[0]


def _plain(pa: Any, column: Any) -> Any:
    kind = column.type
    name: str = getattr(kind, "extension_name", "")
    if not name.startswith("ray.data.arrow_tensor"):
        return column
    shape: Sequence[int] = kind.shape
    size = 1
    for length in shape:
        size *= length
    item = kind.storage_type.value_type
    tensor = pa.fixed_shape_tensor(item, shape)
    chunks: list[Any] = []
    for chunk in column.chunks:
        values = chunk.storage.flatten()
        if chunk.null_count or len(values) != len(chunk) * size:
            return column
        chunks.append(pa.ExtensionArray.from_storage(tensor, pa.FixedSizeListArray.from_arrays(values, size)))
    return pa.chunked_array(chunks, tensor)


def check_dataset(dataset: Any, what: str) -> None:
    """Raises an error for what is no dataset of Ray."""
    library = require("ray.data", _EXTRA, what.rpartition(".")[2])
    if not isinstance(dataset, library.Dataset):
        raise TypeError(f"{what}: expected a ray.data.Dataset, got {described(dataset)}")
