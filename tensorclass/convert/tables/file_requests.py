"""Requests for files of tables, and what their readers and writers share, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from typing_extensions import TypedDict

from tensorclass.convert.conversion_options import ConversionKwargs, ConversionOptions, TableOptions
from tensorclass.convert.conversion_steps import C, build
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike
from tensorclass.td.delegated.arguments import Nulls
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind

from .arrow import column_values, input_columns, read_table, to_arrow, with_rows
from .column_names import flattened


class FileKwargs(ConversionKwargs, total=False):
    """Keyword arguments of every ``from_x`` of files of tables; others are options of the library that reads them.

    Args:
        auto_batch_size: infer the batch size instead of taking the number of rows.
        ConversionKwargs: batch_dims
        batch_size: another batch size.
        separator: splits the names of columns into nested keys.
        dtype: the dtype of all tensors; by default that of each column.
        columns: the columns to read; all by default.
        TableKwargs: device, rename, strict
        nulls: what becomes of nulls, as in :meth:`from_arrow`.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: a file does not exist or cannot be read.
        ValueError: a file has another format, or is damaged. The message says where.
        ConversionError: columns are missing, unexpected, or do not fit their fields. Lists all of them.
        TypeError: an option does not exist.
    """

    separator: str | None
    dtype: torch.dtype | None
    columns: Sequence[str] | None
    rename: Mapping[str, str] | None
    nulls: Nulls


class FileStreamKwargs(TypedDict, total=False):
    """Keyword arguments of every ``iter_x`` of files of tables, beside the options of the library that reads them.

    Args:
        StreamKwargs: batch_size, drop_last
        FileKwargs: device, separator, dtype, columns, rename, nulls, strict
        progress: show a progress bar; by default if stderr is a terminal and tqdm is installed.
        pbar: another name of ``progress``.
        kwargs: options, as in :meth:`from_{x}`.

    Returns:
        An iterable of collections of this class: see :class:`tensorclass.convert.tables.row_batches.Batches`. It can be
        iterated over repeatedly, also by the workers of ``DataLoader(batches, batch_size=None, num_workers=2)``.

    Raises:
        ConversionError: columns are missing or unexpected. Values that do not fit raise when their batch is read.
        OSError, ValueError, TypeError, ImportError: as in :meth:`from_{x}`.
    """

    drop_last: bool
    device: DeviceLike | None
    separator: str | None
    dtype: torch.dtype | None
    columns: Sequence[str] | None
    rename: Mapping[str, str] | None
    nulls: Nulls
    strict: bool
    progress: bool | None
    pbar: bool | None


def pop_keywords(keywords: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Pop the keywords of a ``TypedDict`` from ``given``, and return them."""
    return {name: given.pop(name) for name in keywords.__optional_keys__ if name in given}


class FileRequest(NamedTuple):
    """The checked options of ``from_x`` or ``iter_x`` for files."""

    #: the call, for messages: ``"Sample.from_csv"``
    what: str
    options: ConversionOptions
    table_options: TableOptions

    def of_file(self, name: str) -> FileRequest:
        """Return the request for one file, named in messages, with problems of its own."""
        return self._replace(options=self.options.renamed(f"{self.what}: {name}"))

    def of_batch(self) -> FileRequest:
        """Return the request for one batch of rows, with problems of its own."""
        return self._replace(options=self.options.renamed(self.options.what))

    def collection(self, cls: type[C], table: Any) -> C:
        """Convert an Arrow table.

        Raises:
            ConversionError: columns are missing, or do not fit the class. Lists all of them.
        """
        dtype = self.table_options.dtype
        if dtype is None:
            return read_table(cls, table, self.options, self.table_options)
        options = with_rows(self.options, torch.Size((table.num_rows,)))
        values = column_values(cls, input_columns(table, options.what), options, self.table_options)
        return build(cls, _cast(values, dtype), options)  # type: ignore[no-any-return]


def flat_table(data: TensorCollection, separator: str | None) -> Any:
    """Return an Arrow table of a collection. A separator joins the keys of nested values to column names."""
    return to_arrow(data if separator is None else flattened(data, separator))


def check_rows(data: TensorCollection, what: str) -> None:
    """Raise unless a collection has exactly one batch dimension, the rows."""
    if data.batch_dims != 1:
        raise ValueError(
            f"{what}: expected one batch dimension, the rows; got the batch size {list(data.batch_size)}. reshape(-1) "
            "makes one of several"
        )


def _cast(values: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    return {
        key: value.to(dtype)
        if isinstance(value, Tensor) or content_kind(value) is Content.RAGGED
        else _cast(cast("dict[str, Any]", value), dtype)
        if isinstance(value, dict)
        else value
        for key, value in values.items()
    }
