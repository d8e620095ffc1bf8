"""Tables larger than memory, read as batches of rows."""

from __future__ import annotations

import abc
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from torch.utils.data import IterableDataset, get_worker_info

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_options import table_call_options
from tensorclass.convert.conversion_steps import C
from tensorclass.support.extras import require
from tensorclass.support.printable import class_name, printable
from tensorclass.support.progress import bar, progress_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection

from .column_names import Path, check_renamed, key_of_columns, note_name, note_two_columns, split_name
from .file_columns import is_beyond_int64
from .file_requests import FileKwargs, FileRequest, FileStreamKwargs, pop_keywords
from .file_sources import EXTRA, TableFile, sorted_options, table_files

T = TypeVar("T", bound=Collection)

#: number of rows converted at once, to be split into smaller batches
_BLOCK = 8192


class TableReader(abc.ABC, Generic[C]):
    """Reads files of one format one after another. It can be sent to other processes.

    Making it reads the names of the columns, and chooses those to read. So wrong columns raise before any data is read.

    Args:
        cls: class of the results.
        path: the files.
        request: the checked options.
        own: arguments of the format, and options of the library that reads it.
    """

    #: suffixes of files that are read from a folder; without any, a folder raises
    SUFFIXES: tuple[str, ...] = ()
    #: names of options in other libraries, and what to use instead
    OTHER_NAMES: Mapping[str, str] = {}

    #: number of rows, if the files store it
    rows: int | None = None

    def __init__(self, cls: type[C], path: Any, request: FileRequest, own: dict[str, Any]) -> None:
        self.cls: type[C] = cls
        self.request: FileRequest = request
        groups = self._options(path, own)
        #: options of the library, by group
        self.given: dict[str, dict[str, Any]] = sorted_options(request.what, groups, own, self.OTHER_NAMES)
        self.files: list[TableFile] = table_files(request.what, path, self.SUFFIXES)
        #: name of the files in messages
        self.name: str = str(self.files[0])
        if len(self.files) > 1:
            self.name += f" and {len(self.files) - 1} more"
        self.request = request.of_file(self.name)
        self._infer_schema()

    @property
    def pa(self) -> Any:
        """The module pyarrow."""
        return self._library("pyarrow")

    def _library(self, name: str) -> Any:
        return require(name, EXTRA, self.request.what)

    @abc.abstractmethod
    def _options(self, path: Any, own: dict[str, Any]) -> dict[str, Iterable[str]]:
        """Return the names of the library's options, by group. Takes the format's own arguments from ``own``."""

    @abc.abstractmethod
    def _infer_schema(self) -> None:
        """Choose the columns and their types."""

    def _chosen_columns(self) -> Sequence[str] | None:
        """Take the argument ``columns`` out of the request: the reader reads no others."""
        request, options = self.request, self.request.table_options
        self.request = request._replace(table_options=options._replace(columns=None))
        return options.columns

    def _check_names(self, names: Sequence[str]) -> None:
        """Raise if columns have the same name."""
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"{self.request.what}: {self.files[0]}: several columns have the names {twice}")

    def _concatenated(self, tables: list[Any], hint: str = "") -> Any:
        """Concatenate the tables of all files, and promote types: integers in one file, doubles in the next."""
        if len(tables) == 1:
            return tables[0]
        with self._naming_types(hint):
            return self.pa.concat_tables(tables, promote_options="permissive")

    @contextmanager
    def _naming_types(self, hint: str = "") -> Generator[None, None, None]:
        """Say of an error that the types of columns differ."""
        try:
            yield
        except (self.pa.ArrowInvalid, self.pa.ArrowTypeError) as error:
            what = f"{self.request.what}: the columns of {len(self.files)} files have different types"
            raise ValueError(f"{what}: {error}{hint}") from None

    def _beyond_int64(self, table: Any, known: Container[str]) -> list[str]:
        """Return the columns of doubles that may hold integers beyond int64, if the doubles are not asked for."""
        dtype = self.request.table_options.dtype
        if dtype is not None and dtype.is_floating_point:
            return []
        double = self.pa.float64()
        doubles = [one.name for one in table.schema if one.type == double and one.name not in known]
        return [name for name in doubles if is_beyond_int64(table.column(name))]

    def _as_uint64(
        self, columns: Mapping[str, Sequence[Any]], fits: Callable[[Any], bool], hint: str, place: str = ""
    ) -> dict[str, Any]:
        """Return the type for columns of integers of which some are beyond int64.

        Raises:
            ConversionError: not all values fit uint64.
        """
        problems = Problems(self.request.options.what)
        for name, items in columns.items():
            outside = next((item for item in items if not fits(item)), None)
            if outside is not None:
                got = f"{outside}{place}"
                problems.add(self.path(name), "integers from 0 to 2**64 - 1", got, hint.format(name=name))
        problems.check()
        return dict.fromkeys(columns, self.pa.uint64())

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


def read_file(reader: type[TableReader[Any]], cls: type[C], name: str, path: Any, given: dict[str, Any]) -> C:
    """Read files at once: the work of ``from_x``, with the keywords that it was given."""
    made = _reader(reader, cls, name, path, pop_keywords(FileKwargs, given), given)
    return made.request.collection(cls, made.table())


def iterate_file(
    reader: type[TableReader[Any]], cls: type[C], name: str, path: Any, batch_size: int, given: dict[str, Any]
) -> Batches[C]:
    """Read files in batches: the work of ``iter_x``, with the keywords that it was given."""
    options = pop_keywords(FileStreamKwargs, given)
    progress = progress_of(name, options.pop("progress", None), options.pop("pbar", None))
    drop_last = options.pop("drop_last", False)
    return Batches(_reader(reader, cls, name, path, options, given), batch_size, drop_last, progress)


def _reader(
    reader: type[TableReader[Any]], cls: type[C], name: str, path: Any, options: dict[str, Any], own: dict[str, Any]
) -> TableReader[C]:
    what = f"{class_name(cls)}.{name}"
    return reader(cls, path, FileRequest(what, *table_call_options(what, **options)), own)


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
        return any(_has_ragged_lists(pa, field.type) for field in arrow_type)
    if types.is_fixed_size_list(arrow_type):
        return _has_ragged_lists(pa, arrow_type.value_type)
    return bool(types.is_nested(arrow_type))
