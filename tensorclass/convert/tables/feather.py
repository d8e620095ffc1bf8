"""Arrow's own files (Feather, IPC), read without a copy, whole and in batches; and back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

SUFFIXES = (".arrow", ".feather", ".ipc")
_OTHER_NAMES = {
    "compression_level": "pyarrow.Codec(name, level) as compression",
    "version": "nothing: it is the current one",
}
#: first bytes of the file format, which has its index at the end; other files are streams
_MAGIC = b"ARROW1"


def from_feather(
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
    memory_map: bool = True,
    rename: Mapping[str, str] | None = None,
    nulls: NullMode = "default",
    strict: bool = True,
    **kwargs: Any,
) -> C:
    """See :meth:`TensorDict.from_feather`."""
    request = FileRequest.of(
        f"{class_name(cls)}.from_feather", auto_batch_size=auto_batch_size, batch_dims=batch_dims, device=device,
        batch_size=batch_size, separator=separator, dtype=dtype, rename=rename, nulls=nulls, strict=strict,
    )  # fmt: skip
    reader = FeatherReader(cls, path, request, columns, memory_map, kwargs)
    return reader.request.collection(cls, reader.table())


def iter_feather(
    cls: type[C],
    path: Any,
    *,
    batch_size: int,
    drop_last: bool = False,
    device: DeviceLike | None = None,
    separator: str | None = None,
    dtype: torch.dtype | None = None,
    columns: Sequence[str] | None = None,
    memory_map: bool = True,
    rename: Mapping[str, str] | None = None,
    nulls: NullMode = "default",
    strict: bool = True,
    progress: bool | None = None,
    pbar: bool | None = None,
    **kwargs: Any,
) -> Batches[C]:
    """See :meth:`TensorDict.iter_feather`."""
    progress = progress_of("iter_feather", progress, pbar)
    what = f"{class_name(cls)}.iter_feather"
    request = FileRequest.of(
        what, device=device, separator=separator, dtype=dtype, rename=rename, nulls=nulls, strict=strict
    )
    return Batches(FeatherReader(cls, path, request, columns, memory_map, kwargs), batch_size, drop_last, progress)


def to_feather(
    data: TensorCollection, path: Any, *, separator: str | None = None, compression: Any = None, **kwargs: Any
) -> None:
    """See :meth:`TensorDict.to_feather`."""
    what = "to_feather"
    pa = require("pyarrow", EXTRA, what)
    names = [name for name in dir(pa.ipc.IpcWriteOptions) if not name.startswith("_") and name != "compression"]
    given = PyarrowOptions(what, {"write": names}, _OTHER_NAMES).sorted(kwargs)["write"]
    write = pa.ipc.IpcWriteOptions(compression=compression, **given)
    table = flat_table(data, separator)
    with (
        uninterrupted() as section,
        open_for_writing(what, path) as file,
        naming_file(what, TableFile(str(path))),
        section.interruptible(),
        pa.ipc.new_file(file, table.schema, options=write) as writer,
    ):
        writer.write_table(table)


class FeatherReader(PartitionedReader[C]):
    """Reads Arrow files with the same columns one after another."""

    def __init__(
        self,
        cls: type[C],
        path: Any,
        request: FileRequest,
        columns: Sequence[str] | None,
        memory_map: bool,
        pyarrow_options: Mapping[str, Any],
    ) -> None:
        pa: Any = require("pyarrow", EXTRA, request.what)
        names = [name for name in dir(pa.ipc.IpcReadOptions) if not name.startswith("_") and name != "included_fields"]
        self._pyarrow_options = PyarrowOptions(request.what, {"read": names}, _OTHER_NAMES).sorted(pyarrow_options)[
            "read"
        ]
        self._memory_map = memory_map
        self._set_files(cls, request, table_files(request.what, path, SUFFIXES))
        self._infer_schema(columns)

    @contextmanager
    def _opened(self, file: TableFile, whole: bool = False) -> Generator[Any, None, None]:
        pa: Any = require("pyarrow", EXTRA, self.request.what)
        options = pa.ipc.IpcReadOptions(**self._pyarrow_options)
        with naming_file(self.request.what, file):
            if file.opened is None and self._memory_map:
                source: Any = _map_file(pa, file.name)
                opens = pa.ipc.open_file if source[: len(_MAGIC)].to_pybytes() == _MAGIC else pa.ipc.open_stream
                with opens(source, options=options) as opened:
                    yield opened
                return
            with contextlib.ExitStack() as stack:
                source = file.opened or stack.enter_context(pa.OSFile(file.name))
                source.seek(file.start)
                begin = source.read(len(_MAGIC))
                source.seek(file.start)
                opens = pa.ipc.open_file if begin == _MAGIC else pa.ipc.open_stream
                yield stack.enter_context(opens(source, options=options))

    def _describe_file(self, opened: Any) -> tuple[int | None, Any]:
        count = getattr(opened, "count_rows", None)
        return (None if count is None else count()), opened.schema

    def table(self) -> Any:
        pa = require("pyarrow", EXTRA, self.request.what)
        tables: list[Any] = []
        for file in self.files:
            with self._opened(file) as opened:
                tables.append(self._align(pa, opened.read_all(), file))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def tables(self, rows: int) -> Generator[Any, None, None]:
        pa = require("pyarrow", EXTRA, self.request.what)
        for file in self.files:
            with self._opened(file) as opened:
                for batch in _batches(opened):
                    yield self._align(pa, pa.Table.from_batches([batch]), file)


def _batches(opened: Any) -> Iterator[Any]:
    """Return the batches of an open file or stream."""
    if hasattr(opened, "num_record_batches"):
        return (opened.get_batch(position) for position in range(opened.num_record_batches))
    return iter(opened)


def _map_file(pa: Any, name: str) -> Any:
    """Map a file into memory, so that only pages in use are read.

    The mapping is private: tensors on it can be written to, and the file never changes.
    """
    size = os.path.getsize(name)
    if not size:
        return pa.py_buffer(b"")
    of_file: Any = torch.UntypedStorage.from_file  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    storage = of_file(name, False, size)
    return pa.py_buffer(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())
