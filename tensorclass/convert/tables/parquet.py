"""Parquet files, whole and in batches, and back."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from tensorclass.convert.conversion_steps import C
from tensorclass.support.extras import require
from tensorclass.td.base import TensorCollection
from tensorclass.td.delegated.arguments import TableSource, Target

from .file_requests import flat_table
from .file_sources import EXTRA, TableFile, naming_file, sorted_options, written_file
from .partitioned_files import PartitionedReader
from .row_batches import Batches, iterate_file, read_file

METHODS_OF = "TableFiles"
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


def from_parquet(cls: type[C], path: TableSource, **kwargs: Any) -> C:
    """Read a Parquet file: one value per column, with the number of rows as batch size.

    Columns are converted as by :meth:`from_arrow`, and ``from_parquet`` restores what :meth:`to_parquet` wrote. The
    columns are looked up before any data is read.

    Args:
        path: the file; a list or a pattern of files with the same columns, or a folder of them; or an open file.
        FileKwargs: auto_batch_size, batch_dims, device, batch_size, separator, dtype
        PartitionedReader: columns
        FileKwargs: rename, nulls, strict
        kwargs: options of ``pyarrow.parquet.ParquetFile`` and its ``read``, such as ``use_threads``.

    Raises:
        FileKwargs: ImportError, OSError, ValueError, ConversionError, TypeError

    Example:
        >>> import os, tempfile, torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.zeros(4, 3), "name": ["a", "b", "c", "d"]}, [4])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data.to_parquet(os.path.join(folder, "data.parquet"))
        ...     back = TensorDict.from_parquet(os.path.join(folder, "data.parquet"))
        >>> back["x"].shape, back["name"][1]
        (torch.Size([4, 3]), 'b')
    """
    return read_file(ParquetReader, cls, "from_parquet", path, {"memory_map": True, **kwargs})


def iter_parquet(cls: type[C], path: TableSource, *, batch_size: int, **kwargs: Any) -> Batches[C]:
    """Iterate over the rows of a Parquet file in batches. The file can be larger than memory.

    Args:
        path: the files, as in :meth:`from_parquet`.
        FileStreamKwargs: batch_size, drop_last, device, separator, dtype
        PartitionedReader: columns
        FileStreamKwargs: rename, nulls, strict, progress, pbar, kwargs

    Returns:
        FileStreamKwargs

    Raises:
        FileStreamKwargs: ConversionError, OSError, ValueError, TypeError, ImportError

    Example:
        >>> import io
        >>> from tensorclass import TensorDict
        >>> file = io.BytesIO()
        >>> TensorDict({"x": [1, 2, 3]}, [3]).to_parquet(file)
        >>> _ = file.seek(0)
        >>> [batch["x"].tolist() for batch in TensorDict.iter_parquet(file, batch_size=2)]
        [[1, 2], [3]]
    """
    # reading ahead would read whole files
    bounded = {"pre_buffer": False, "buffer_size": _BUFFER, **kwargs}
    return iterate_file(ParquetReader, cls, "iter_parquet", path, batch_size, bounded)


def to_parquet(data: TensorCollection, path: Target, *, separator: str | None = None, **kwargs: Any) -> None:
    """Write a Parquet file with one row per item of the batch.

    Nested collections become structs, further dimensions tensors of a fixed shape, ragged rows lists, as in
    :meth:`to_arrow`. The file is written completely or not at all: if writing fails, the previous file stays.

    Args:
        written_file: path
        separator: gives nested values columns of their own, with joined names.
        kwargs: options of ``pyarrow.parquet.write_table``: ``compression``, ``row_group_size``, ...

    Raises:
        written_file: ImportError, OSError, ValueError, ConversionError, TypeError

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = TensorDict({"x": torch.zeros(2, 3), "point": {"y": torch.ones(2)}}, [2])
        ...     data.to_parquet(folder + "/rows.parquet", separator=".", compression="zstd")
        ...     list(TensorDict.from_parquet(folder + "/rows.parquet").keys())
        ['x', 'point.y']
    """
    parquet: Any = require("pyarrow.parquet", EXTRA, "to_parquet")
    known = {*inspect.signature(parquet.write_table).parameters, *inspect.signature(parquet.ParquetWriter).parameters}
    known -= {"table", "where", "filesystem", "schema", "kwargs", "options"}
    given = sorted_options("to_parquet", {"write": known}, kwargs, _OTHER_NAMES)["write"]
    table = flat_table(data, separator)
    with written_file("to_parquet", path) as file:
        parquet.write_table(table, file, **given)


class ParquetReader(PartitionedReader[C]):
    """Reads Parquet files with the same columns one after another."""

    SUFFIXES: tuple[str, ...] = (".parquet", ".pq")
    OTHER_NAMES: Mapping[str, str] = _OTHER_NAMES

    def _options(self, path: Any, own: dict[str, Any]) -> dict[str, Iterable[str]]:
        names = {*inspect.signature(self._library("pyarrow.parquet").ParquetFile.__init__).parameters}
        names -= {"self", "source", "metadata", "common_metadata", "filesystem"}
        return {"file": names, "read": ("use_threads", "use_pandas_metadata")}

    @contextmanager
    def _opened(self, file: TableFile) -> Generator[Any, None, None]:
        options = self.given["file"]
        with naming_file(self.request.what, file), ExitStack() as stack:
            source = file.opened
            if source is not None:
                source.seek(file.start)
            else:  # not left to ParquetFile: a file that it refuses would stay open until the next garbage collection
                opens = self.pa.memory_map if options.get("memory_map") else self.pa.OSFile
                source = stack.enter_context(opens(file.name))
            yield stack.enter_context(self._library("pyarrow.parquet").ParquetFile(source, **options))

    def _describe_file(self, opened: Any) -> tuple[int | None, Any]:
        return opened.metadata.num_rows, opened.schema_arrow

    def _whole(self, opened: Any) -> Any:
        return opened.read(columns=self._columns, **self.given["read"])

    def _batches(self, opened: Any, rows: int) -> Iterable[Any]:
        return opened.iter_batches(rows, columns=self._columns, **self.given["read"])  # type: ignore[no-any-return]
