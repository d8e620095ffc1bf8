"""Parquet files, whole and in batches, and back."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from tensorclass.convert.conversion_options import BatchSize, NullMode
from tensorclass.convert.conversion_steps import C
from tensorclass.support.extras import require
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import class_name
from tensorclass.support.progress import progress_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike

from .file_requests import FileRequest, flat_table
from .file_sources import EXTRA, PyarrowOptions, TableFile, naming_file, open_for_writing, table_files
from .partitioned_files import PartitionedReader
from .row_batches import Batches

SUFFIXES = (".parquet", ".pq")

#: names of options in other libraries, and what to use instead
_OTHER_NAMES = {
    "filters": "pyarrow.parquet.read_table(path, filters=...) and from_arrow",
    "engine": "nothing: pyarrow does the work",
    "n_rows": "iter_parquet",
    "index": "nothing: there is no index",
    "partition_cols": "pyarrow.parquet.write_to_dataset(data.to_arrow(), ...)",
}
#: buffer for each column in bytes, for reading in batches
_BUFFER = 1 << 20


def from_parquet(
    cls: type[C],
    path: Any,
    *,
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    device: DeviceLike | None = None,
    batch_size: BatchSize = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    nulls: NullMode = "default",
    strict: bool = True,
    **kwargs: Any,
) -> C:
    """See :meth:`TensorDict.from_parquet`."""
    request = FileRequest.of(
        f"{class_name(cls)}.from_parquet", auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
        batch_size=batch_size, separator=separator, dtype=dtype, rename=rename, nulls=nulls, strict=strict,
    )  # fmt: skip
    reader = ParquetReader(cls, path, request, columns, {"memory_map": True, **kwargs})
    return reader.request.collection(cls, reader.table())


def iter_parquet(
    cls: type[C],
    path: Any,
    *,
    batch_size: int,
    drop_last: bool = False,
    device: DeviceLike | None = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    columns: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    nulls: NullMode = "default",
    strict: bool = True,
    progress: bool | None = None,
    pbar: bool | None = None,
    **kwargs: Any,
) -> Batches[C]:
    """See :meth:`TensorDict.iter_parquet`."""
    progress = progress_of("iter_parquet", progress, pbar)
    what = f"{class_name(cls)}.iter_parquet"
    request = FileRequest.of(
        what, device=device, separator=separator, dtype=dtype, rename=rename, nulls=nulls, strict=strict
    )
    # reading ahead would read whole files
    bounded = {"pre_buffer": False, "buffer_size": _BUFFER, **kwargs}
    return Batches(ParquetReader(cls, path, request, columns, bounded), batch_size, drop_last, progress)


def to_parquet(data: TensorCollection, path: Any, *, separator: str | None = None, **kwargs: Any) -> None:
    """See :meth:`TensorDict.to_parquet`."""
    what = "to_parquet"
    parquet: Any = require("pyarrow.parquet", EXTRA, what)
    known = {*inspect.signature(parquet.write_table).parameters, *inspect.signature(parquet.ParquetWriter).parameters}
    known -= {"table", "where", "filesystem", "schema", "kwargs", "options"}
    given = PyarrowOptions(what, {"write": known}, _OTHER_NAMES).sorted(kwargs)["write"]
    table = flat_table(data, separator)
    with (
        uninterrupted() as section,
        open_for_writing(what, path) as file,
        naming_file(what, TableFile(str(path))),
        section.interruptible(),
    ):
        parquet.write_table(table, file, **given)


class ParquetReader(PartitionedReader[C]):
    """Reads Parquet files with the same columns one after another."""

    def __init__(
        self,
        cls: type[C],
        path: Any,
        request: FileRequest,
        columns: Sequence[str] | None,
        pyarrow_options: Mapping[str, Any],
    ) -> None:
        what = request.what
        parquet: Any = require("pyarrow.parquet", EXTRA, what)
        own = {*inspect.signature(parquet.ParquetFile.__init__).parameters}
        own -= {"self", "source", "metadata", "common_metadata", "filesystem"}
        sorted_ = PyarrowOptions(
            what, {"file": own, "read": ("use_threads", "use_pandas_metadata")}, _OTHER_NAMES
        ).sorted(pyarrow_options)
        self._file_options, self._read_options = sorted_["file"], sorted_["read"]
        self._set_files(cls, request, table_files(what, path, SUFFIXES))
        self._infer_schema(columns)

    @contextmanager
    def _opened(self, file: TableFile) -> Generator[Any, None, None]:
        pa = require("pyarrow", EXTRA, self.request.what)
        parquet: Any = require("pyarrow.parquet", EXTRA, self.request.what)
        with naming_file(self.request.what, file), ExitStack() as stack:
            source = file.opened
            if source is not None:
                source.seek(file.start)
            else:  # not left to ParquetFile: a file that it refuses would stay open until the next garbage collection
                mapped = self._file_options.get("memory_map")
                source = stack.enter_context(pa.memory_map(file.name) if mapped else pa.OSFile(file.name))
            yield stack.enter_context(parquet.ParquetFile(source, **self._file_options))

    def _describe_file(self, opened: Any) -> tuple[int | None, Any]:
        return opened.metadata.num_rows, opened.schema_arrow

    def table(self) -> Any:
        pa = require("pyarrow", EXTRA, self.request.what)
        tables: list[Any] = []
        for file in self.files:
            with self._opened(file) as opened:
                tables.append(self._align(pa, opened.read(columns=self._columns, **self._read_options), file))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def tables(self, rows: int) -> Generator[Any, None, None]:
        pa = require("pyarrow", EXTRA, self.request.what)
        for file in self.files:
            with self._opened(file) as opened:
                for batch in opened.iter_batches(rows, columns=self._columns, **self._read_options):
                    yield self._align(pa, pa.Table.from_batches([batch]), file)
