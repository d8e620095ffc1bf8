"""Parquet files, whole and in batches, and back."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tensorclass.interrupts import uninterrupted
from tensorclass.td.base import TensorCollection

from .extras import require
from .parts import PartsReader
from .sources import EXTRA, File, Options, files, reading, writing
from .streams import Batches
from .tabular import Asked, flattened
from .tree import C

SUFFIXES = (".parquet", ".pq")

#: what is an option in other libraries, and what to use here
_OTHERS = {
    "filters": "pyarrow.parquet.read_table(path, filters=...) and from_arrow",
    "engine": "nothing: pyarrow does the work",
    "n_rows": "iter_parquet",
    "index": "nothing: there is no index",
    "partition_cols": "pyarrow.parquet.write_to_dataset(data.to_arrow(), ...)",
}
#: so many bytes of a column are read at once where a file is read in batches
_BUFFER = 1 << 20


def from_parquet(cls: type[C], path: Any, asked: Asked, columns: Sequence[str] | None, options: Mapping[str, Any]) -> C:
    """See :meth:`TensorDict.from_parquet`."""
    reader = ParquetReader(cls, path, asked, columns, {"memory_map": True, **options})
    return reader.asked.collection(cls, reader.table())


def iter_parquet(
    cls: type[C],
    path: Any,
    asked: Asked,
    columns: Sequence[str] | None,
    batch_size: int,
    drop_last: bool,
    progress: bool | None,
    options: Mapping[str, Any],
) -> Batches[C]:
    """See :meth:`TensorDict.iter_parquet`."""
    # what is read ahead would be whole files
    bounded = {"pre_buffer": False, "buffer_size": _BUFFER, **options}
    return Batches(ParquetReader(cls, path, asked, columns, bounded), batch_size, drop_last, progress)


def to_parquet(data: TensorCollection, path: Any, separator: str | None, options: Mapping[str, Any]) -> None:
    """See :meth:`TensorDict.to_parquet`."""
    what = "to_parquet"
    parquet: Any = require("pyarrow.parquet", EXTRA, what)
    known = {*inspect.signature(parquet.write_table).parameters, *inspect.signature(parquet.ParquetWriter).parameters}
    known -= {"table", "where", "filesystem", "schema", "kwargs", "options"}
    given = Options(what, {"write": known}, _OTHERS).sorted(options)["write"]
    table = flattened(data, separator)
    with (
        uninterrupted() as section,
        writing(what, path) as file,
        reading(what, File(str(path))),
        section.interruptible(),
    ):
        parquet.write_table(table, file, **given)


class ParquetReader(PartsReader[C]):
    """Parts of a table in Parquet files, read one behind the other."""

    def __init__(
        self, cls: type[C], path: Any, asked: Asked, columns: Sequence[str] | None, options: Mapping[str, Any]
    ) -> None:
        what = asked.what
        parquet: Any = require("pyarrow.parquet", EXTRA, what)
        own = {*inspect.signature(parquet.ParquetFile.__init__).parameters}
        own -= {"self", "source", "metadata", "common_metadata", "filesystem"}
        sorted_ = Options(what, {"file": own, "read": ("use_threads", "use_pandas_metadata")}, _OTHERS).sorted(options)
        self._file_options, self._read_options = sorted_["file"], sorted_["read"]
        self._of(cls, asked, files(what, path, SUFFIXES))
        self._look(columns)

    @contextmanager
    def _opened(self, file: File) -> Generator[Any, None, None]:
        parquet: Any = require("pyarrow.parquet", EXTRA, self.asked.what)
        with reading(self.asked.what, file):
            if file.opened is not None:
                file.opened.seek(file.start)
            with parquet.ParquetFile(file.opened or file.name, **self._file_options) as opened:
                yield opened

    def _head(self, opened: Any) -> tuple[int | None, Any]:
        return opened.metadata.num_rows, opened.schema_arrow

    def table(self) -> Any:
        pa = require("pyarrow", EXTRA, self.asked.what)
        tables: list[Any] = []
        for file in self.files:
            with self._opened(file) as opened:
                tables.append(self._same(pa, opened.read(columns=self._columns, **self._read_options), file))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def tables(self, rows: int) -> Generator[Any, None, None]:
        pa = require("pyarrow", EXTRA, self.asked.what)
        for file in self.files:
            with self._opened(file) as opened:
                for batch in opened.iter_batches(rows, columns=self._columns, **self._read_options):
                    yield self._same(pa, pa.Table.from_batches([batch]), file)
