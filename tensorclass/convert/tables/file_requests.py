"""Requests for files of tables, and what their readers and writers share, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from typing_extensions import Unpack

from tensorclass.convert.conversion_options import (
    ConversionKwargs,
    ConversionOptions,
    NullMode,
    TableOptions,
    table_call_options,
)
from tensorclass.convert.conversion_steps import C, build
from tensorclass.td.base import TensorCollection
from tensorclass.td.columns.ragged import Ragged

from .arrow import column_values, input_columns, read_table, to_arrow, with_rows
from .column_names import flattened


class FileRequest(NamedTuple):
    """The checked options of ``from_x`` or ``iter_x`` for files."""

    #: the call, for messages: ``"Sample.from_csv"``
    what: str
    options: ConversionOptions
    table_options: TableOptions

    @classmethod
    def of(
        cls,
        what: str,
        *,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        nulls: NullMode = "default",
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        **kwargs: Unpack[ConversionKwargs],
    ) -> FileRequest:
        """Check the options of ``from_x`` or ``iter_x``."""
        options, table_options = table_call_options(
            what, separator=separator, dtype=dtype, nulls=nulls, columns=columns, rename=rename, **kwargs
        )
        return cls(what, options, table_options)

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
        if isinstance(value, (Tensor, Ragged))
        else _cast(cast("dict[str, Any]", value), dtype)
        if isinstance(value, dict)
        else value
        for key, value in values.items()
    }
