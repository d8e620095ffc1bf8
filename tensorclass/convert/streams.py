"""Files larger than memory: batches of rows, one after another."""

from __future__ import annotations

import abc
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Generic, TypeVar

from torch.utils.data import IterableDataset, get_worker_info

from tensorclass.printable import printable
from tensorclass.progress import bar
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection

from .extras import require
from .sources import EXTRA, File
from .tabular import Asked
from .tree import C

T = TypeVar("T", bound=Collection)

#: so many rows are made tensors at once where batches are smaller, and then divided
_BLOCK = 8192


class Reader(abc.ABC, Generic[C]):
    """The tables in some files of one format, read one behind the other. It can be sent to another process."""

    cls: type[C]
    asked: Asked
    files: list[File]
    #: how messages call them
    name: str
    #: how many rows there are, where the files say it
    rows: int | None = None

    def _of(self, cls: type[C], asked: Asked, given: list[File]) -> None:
        """Notes what is read."""
        self.cls, self.files = cls, given
        self.name = given[0].name if len(given) == 1 else f"{given[0]} and {len(given) - 1} more"
        self.asked = asked.of_file(self.name)

    @abc.abstractmethod
    def table(self) -> Any:
        """All of it as a table of Arrow."""

    @abc.abstractmethod
    def tables(self, rows: int) -> Iterator[Any]:
        """All of it as tables of one schema, each with some rows: mostly ``rows``, as far as the format can.

        No file stays open when the iterator is closed.
        """

    def __getstate__(self) -> dict[str, Any]:
        for file in self.files:
            if file.opened is not None:
                raise TypeError(
                    f"{self.asked.what}: {printable(file)} is an open file, which other processes do not have"
                )
        return dict(self.__dict__)


class Batches(IterableDataset[T]):
    """Batches of rows of a file, made while one iterates over them, as often as one does.

    All batches have the same number of rows, but for the last one. What was read before is not kept, so that files can
    be larger than memory; files are open only while an iterator is.

    It is a dataset for ``DataLoader(batches, batch_size=None, num_workers=2)``, which gives the same batches in the
    same order, each made by one of the workers. ``len()`` is the number of batches, where the files tell how many rows
    they have: Parquet and Feather do.
    """

    def __init__(self, reader: Reader[Any], size: int, drop_last: bool, progress: bool | None) -> None:
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError(f"{reader.asked.what}: expected a batch_size of at least 1, got {size!r}")
        self._reader, self._size, self._drop_last, self._progress = reader, size, drop_last, progress
        reader.asked.plan.problems.warn()

    def __len__(self) -> int:
        rows = self._reader.rows
        if rows is None:
            raise TypeError(f"{self._reader.asked.what}: how many rows there are is known when all have been read")
        return rows // self._size if self._drop_last else -(-rows // self._size)

    def __iter__(self) -> Iterator[T]:
        worker: Any = get_worker_info()
        which, of = (0, 1) if worker is None else (worker.id, worker.num_workers)
        shown = self._progress if worker is None or self._progress else False
        reader = self._reader
        with bar(reader.rows, reader.name, unit="row", progress=shown) as rows:
            for batch in self._made(which, of):
                yield batch
                rows.advance(len(batch))

    def _made(self, which: int, of: int) -> Generator[T, None, None]:
        """Every batch of which the position is ``which`` among ``of``."""
        size, reader = self._size, self._reader
        pa = require("pyarrow", EXTRA, reader.asked.what)
        together = 1 if of > 1 else max(1, _BLOCK // size)
        tables = reader.tables(max(size, _BLOCK))
        position = 0
        for table in _of_size(pa, tables, size * together):
            if together > 1 and any(_varies(pa, field.type) for field in table.schema):
                parts: Iterable[Any] = [table.slice(start, size) for start in range(0, table.num_rows, size)]
            else:
                parts = (table,)
            for part in parts:
                if position % of == which and not (self._drop_last and part.num_rows < size):
                    made: Any = reader.asked.again().collection(reader.cls, part)
                    if part.num_rows <= size:
                        yield made
                    else:
                        several: Any = TensorCollection.split(made, size)
                        yield from several[:-1] if self._drop_last and len(several[-1]) < size else several
                position += 1


def _of_size(pa: Any, tables: Iterable[Any], size: int) -> Generator[Any, None, None]:
    """The rows of tables in tables of a size, the last one shorter."""
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


def _varies(pa: Any, kind: Any) -> bool:
    """Whether a column of this type can be of another shape in each batch: lists of different lengths."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _varies(pa, kind.storage_type)
    if types.is_struct(kind):
        return any(_varies(pa, kind.field(position).type) for position in range(kind.num_fields))
    if types.is_fixed_size_list(kind):
        return _varies(pa, kind.value_type)
    return bool(types.is_nested(kind))
