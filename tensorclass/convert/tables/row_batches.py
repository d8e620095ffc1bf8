"""Tables larger than memory, read as batches of rows."""

from __future__ import annotations

import abc
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

from torch.utils.data import IterableDataset, get_worker_info

from tensorclass.convert.conversion_steps import C
from tensorclass.support.extras import require
from tensorclass.support.printable import printable
from tensorclass.support.progress import bar
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection

from .column_names import Path, check_renamed, key_of_columns, note_name, note_two_columns, split_name
from .file_requests import FileRequest
from .file_sources import EXTRA, TableFile

T = TypeVar("T", bound=Collection)

#: number of rows converted at once, to be split into smaller batches
_BLOCK = 8192


class TableReader(abc.ABC, Generic[C]):
    """Reads files of one format one after another. It can be sent to other processes."""

    cls: type[C]
    request: FileRequest
    files: list[TableFile]
    #: their name in messages
    name: str
    #: number of rows, if the files store it
    rows: int | None = None

    def _set_files(self, cls: type[C], request: FileRequest, given: list[TableFile]) -> None:
        """Set the files to read."""
        self.cls, self.files = cls, given
        self.name = given[0].name if len(given) == 1 else f"{given[0]} and {len(given) - 1} more"
        self.request = request.of_file(self.name)

    def path(self, column: str, *below: str) -> Path:
        """Return the key for the values of a column, or of a field in a column of structs."""
        options = self.request.table_options
        return key_of_columns(self.cls, [*split_name(column, options.separator, options.rename), *below])

    def paths(self, columns: Iterable[tuple[str, ...]]) -> dict[tuple[str, ...], Path]:
        """Return the key of each column. Columns of structs are given with the names of their fields.

        Notes columns that have the same key, names in ``rename`` that no column has, and the names for messages.
        """
        problems, names = self.request.options.problems, list(columns)
        check_renamed([column for column, *_ in names], self.request.table_options.rename, problems)
        seen: dict[Path, str] = {}
        made: dict[tuple[str, ...], Path] = {}
        for column in names:
            path = made[column] = self.path(*column)
            name = ".".join(column)
            if seen.setdefault(path, name) != name:
                note_two_columns(problems, path, seen[path], name)
            else:
                note_name(problems, path, column[-1])
        return made

    @abc.abstractmethod
    def table(self) -> Any:
        """Read everything as one Arrow table."""

    @abc.abstractmethod
    def tables(self, rows: int) -> Iterator[Any]:
        """Yield everything as tables of one schema, with about ``rows`` rows each, as far as the format allows.

        Closing the iterator closes all files.
        """

    def __getstate__(self) -> dict[str, Any]:
        for file in self.files:
            if file.opened is not None:
                raise TypeError(
                    f"{self.request.what}: {printable(file)} is an open file, which other processes do not have"
                )
        return dict(self.__dict__)


class Batches(IterableDataset[T]):
    """An iterable over batches of rows of files. Each iteration reads the files again.

    All batches have the same number of rows, except the last. Rows that were read are not kept, so files can be larger
    than memory. Files are open only during an iteration.

    It is a data set for ``DataLoader(batches, batch_size=None, num_workers=2)``, which yields the same batches in the
    same order; each is made by one worker. ``len()`` is the number of batches, for formats that store their number of
    rows: Parquet and Feather.
    """

    def __init__(self, reader: TableReader[Any], size: int, drop_last: bool, progress: bool | None) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{reader.request.what}: expected a batch_size of at least 1, got {size!r}")
        self._reader, self._size, self._drop_last, self._progress = reader, size, drop_last, progress
        reader.request.options.problems.warn()

    def __len__(self) -> int:
        rows = self._reader.rows
        if rows is None:
            raise TypeError(f"{self._reader.request.what}: how many rows there are is known when all have been read")
        return rows // self._size if self._drop_last else -(-rows // self._size)

    def __iter__(self) -> Iterator[T]:
        worker: Any = get_worker_info()
        which, of = (0, 1) if worker is None else (worker.id, worker.num_workers)
        shown = self._progress if worker is None or self._progress else False
        reader = self._reader
        with bar(reader.rows, reader.name, unit="row", progress=shown) as rows:
            for batch in self._batches(which, of):
                yield batch
                rows.advance(len(batch))

    def _batches(self, which: int, of: int) -> Generator[T, None, None]:
        """Yield the batches with ``position % of == which``."""
        size, reader = self._size, self._reader
        pa = require("pyarrow", EXTRA, reader.request.what)
        together = 1 if of > 1 else max(1, _BLOCK // size)
        tables = reader.tables(max(size, _BLOCK))
        position = 0
        for table in _regroup(pa, tables, size * together):
            if together > 1 and any(_has_ragged_lists(pa, field.type) for field in table.schema):
                parts: Iterable[Any] = [table.slice(start, size) for start in range(0, table.num_rows, size)]
            else:
                parts = (table,)
            for part in parts:
                if position % of == which and not (self._drop_last and part.num_rows < size):
                    made: Any = reader.request.of_batch().collection(reader.cls, part)
                    if part.num_rows <= size:
                        yield made
                    else:
                        several: Any = TensorCollection.split(made, size)
                        yield from several[:-1] if self._drop_last and len(several[-1]) < size else several
                position += 1


def _regroup(pa: Any, tables: Iterable[Any], size: int) -> Generator[Any, None, None]:
    """Regroup the rows of tables to tables of one size; the last may be shorter."""
    parts: list[Any] = []
    have = 0
    for table in tables:
        start = 0
        while have + table.num_rows - start >= size:
            taken = size - have
            parts.append(table.slice(start, taken))
            yield pa.concat_tables(parts)
            parts, have, start = [], 0, start + taken
        if start < table.num_rows:
            parts.append(table.slice(start))
            have += table.num_rows - start
    if parts:
        yield pa.concat_tables(parts)


def _has_ragged_lists(pa: Any, arrow_type: Any) -> bool:
    """Return whether columns of this type can have a different shape in each batch: lists of different lengths."""
    types = pa.types
    if isinstance(arrow_type, pa.BaseExtensionType):
        return _has_ragged_lists(pa, arrow_type.storage_type)
    if types.is_struct(arrow_type):
        return any(_has_ragged_lists(pa, arrow_type.field(position).type) for position in range(arrow_type.num_fields))
    if types.is_fixed_size_list(arrow_type):
        return _has_ragged_lists(pa, arrow_type.value_type)
    return bool(types.is_nested(arrow_type))
