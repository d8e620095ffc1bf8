"""Arrow's own files (Feather, IPC), read without a copy, whole and in batches; and back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from tensorclass.interrupts import uninterrupted
from tensorclass.td.base import TensorCollection

from .extras import require
from .parts import PartsReader
from .sources import EXTRA, File, Options, files, reading, writing
from .streams import Batches
from .tabular import Asked, flattened
from .tree import C

SUFFIXES = (".arrow", ".feather", ".ipc")
_OTHERS = {
    "compression_level": "pyarrow.Codec(name, level) as compression",
    "version": "nothing: it is the current one",
}
#: how a file begins that says at its end what is in it; one without is a stream
_MAGIC = b"ARROW1"


def from_feather(
    cls: type[C],
    path: Any,
    asked: Asked,
    columns: Sequence[str] | None,
    memory_map: bool,
    options: Mapping[str, Any],
) -> C:
    """See :meth:`TensorDict.from_feather`."""
    reader = FeatherReader(cls, path, asked, columns, memory_map, options)
    return reader.asked.collection(cls, reader.table())


def iter_feather(
    cls: type[C],
    path: Any,
    asked: Asked,
    columns: Sequence[str] | None,
    memory_map: bool,
    batch_size: int,
    drop_last: bool,
    progress: bool | None,
    options: Mapping[str, Any],
) -> Batches[C]:
    """See :meth:`TensorDict.iter_feather`."""
    reader = FeatherReader(cls, path, asked, columns, memory_map, options)
    return Batches(reader, batch_size, drop_last, progress)


def to_feather(
    data: TensorCollection, path: Any, separator: str | None, compression: Any, options: Mapping[str, Any]
) -> None:
    """See :meth:`TensorDict.to_feather`."""
    what = "to_feather"
    pa = require("pyarrow", EXTRA, what)
    names = [name for name in dir(pa.ipc.IpcWriteOptions) if not name.startswith("_") and name != "compression"]
    given = Options(what, {"write": names}, _OTHERS).sorted(options)["write"]
    write = pa.ipc.IpcWriteOptions(compression=compression, **given)
    table = flattened(data, separator)
    with (
        uninterrupted() as section,
        writing(what, path) as file,
        reading(what, File(str(path))),
        section.interruptible(),
        pa.ipc.new_file(file, table.schema, options=write) as writer,
    ):
        writer.write_table(table)


class FeatherReader(PartsReader[C]):
    """Parts of a table in files of Arrow, read one behind the other."""

    def __init__(
        self,
        cls: type[C],
        path: Any,
        asked: Asked,
        columns: Sequence[str] | None,
        memory_map: bool,
        options: Mapping[str, Any],
    ) -> None:
        pa: Any = require("pyarrow", EXTRA, asked.what)
        names = [name for name in dir(pa.ipc.IpcReadOptions) if not name.startswith("_") and name != "included_fields"]
        self._options = Options(asked.what, {"read": names}, _OTHERS).sorted(options)["read"]
        self._memory_map = memory_map
        self._of(cls, asked, files(asked.what, path, SUFFIXES))
        self._look(columns)

    @contextmanager
    def _opened(self, file: File, whole: bool = False) -> Generator[Any, None, None]:
        pa: Any = require("pyarrow", EXTRA, self.asked.what)
        options = pa.ipc.IpcReadOptions(**self._options)
        with reading(self.asked.what, file):
            if file.opened is None and self._memory_map:
                source: Any = _mapped(pa, file.name)
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

    def _head(self, opened: Any) -> tuple[int | None, Any]:
        count = getattr(opened, "count_rows", None)
        return (None if count is None else count()), opened.schema

    def table(self) -> Any:
        pa = require("pyarrow", EXTRA, self.asked.what)
        tables: list[Any] = []
        for file in self.files:
            with self._opened(file) as opened:
                tables.append(self._same(pa, opened.read_all(), file))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def tables(self, rows: int) -> Generator[Any, None, None]:
        pa = require("pyarrow", EXTRA, self.asked.what)
        for file in self.files:
            with self._opened(file) as opened:
                for batch in _batches(opened):
                    yield self._same(pa, pa.Table.from_batches([batch]), file)


def _batches(opened: Any) -> Iterator[Any]:
    """The batches in an open file, or in a stream."""
    if hasattr(opened, "num_record_batches"):
        return (opened.get_batch(position) for position in range(opened.num_record_batches))
    return iter(opened)


def _mapped(pa: Any, name: str) -> Any:
    """The bytes of a file, of which only those that are used are read.

    They can be written to, as tensors are: that changes memory of this process, and never the file.
    """
    size = os.path.getsize(name)
    if not size:
        return pa.py_buffer(b"")
    of_file: Any = torch.UntypedStorage.from_file  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    storage = of_file(name, False, size)
    return pa.py_buffer(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())
