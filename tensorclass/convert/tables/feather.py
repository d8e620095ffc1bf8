"""Arrow's own files (Feather, IPC), read without a copy, whole and in batches; and back."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Literal

import torch

from tensorclass.convert.conversion_steps import C
from tensorclass.support.extras import require
from tensorclass.td.base import TensorCollection
from tensorclass.td.delegated.arguments import TableSource, Target

from .file_requests import flat_table
from .file_sources import EXTRA, TableFile, naming_file, public_names, sorted_options, written_file
from .partitioned_files import PartitionedReader
from .row_batches import Batches, iterate_file, read_file

METHODS_OF = "TableFiles"
#: names of options in other libraries, and what to use instead
_OTHER_NAMES = {
    "compression_level": "pyarrow.Codec(name, level) as compression",
    "version": "nothing: it is the current one",
}
#: first bytes of the file format, which has its index at the end; other files are streams
_MAGIC = b"ARROW1"


def from_feather(cls: type[C], path: TableSource, *, memory_map: bool = True, **kwargs: Any) -> C:
    """Read a Feather file (Arrow's IPC format): one value per column, with the number of rows as batch size.

    Columns are converted as by :meth:`from_arrow`, and ``from_feather`` restores what :meth:`to_feather` wrote. It
    shares the memory of the file, which can therefore be larger than free memory.

    Args:
        path: the file; a list or a pattern of files with the same columns, or a folder of them; or an open file.
        FileKwargs: auto_batch_size, batch_dims, device, batch_size, separator, dtype
        PartitionedReader: columns
        memory_map: read data when it is used, and share the memory of the file. Numbers in files that are not
            compressed are not copied. Writes to the tensors do not change the file, but a program that writes to the
            file in place changes the tensors.
        FileKwargs: rename, nulls, strict
        kwargs: options of ``pyarrow.ipc.IpcReadOptions``, such as ``ensure_alignment``.

    Raises:
        FileKwargs: ImportError, OSError, ValueError, ConversionError, TypeError

    Example:
        >>> import os, tempfile
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TensorDict({"x": [1, 2]}, [2]).to_feather(os.path.join(folder, "rows.feather"))
        ...     TensorDict.from_feather(os.path.join(folder, "rows.feather"))["x"]
        tensor([1, 2])
    """
    return read_file(FeatherReader, cls, "from_feather", path, {"memory_map": memory_map, **kwargs})


def iter_feather(
    cls: type[C], path: TableSource, *, batch_size: int, memory_map: bool = True, **kwargs: Any
) -> Batches[C]:
    """Iterate over the rows of a Feather file in batches. The file can be larger than memory.

    Args:
        path: the files, as in :meth:`from_feather`.
        FileStreamKwargs: batch_size, drop_last, device, separator, dtype
        PartitionedReader: columns
        memory_map: read data when it is used, and share the memory of the file, as in :meth:`from_feather`.
        FileStreamKwargs: rename, nulls, strict, progress, pbar, kwargs

    Returns:
        FileStreamKwargs

    Raises:
        FileStreamKwargs: ConversionError, OSError, ValueError, TypeError, ImportError

    Example:
        >>> import io
        >>> from tensorclass import TensorDict
        >>> file = io.BytesIO()
        >>> TensorDict({"x": [1, 2, 3]}, [3]).to_feather(file)
        >>> _ = file.seek(0)
        >>> [batch["x"].tolist() for batch in TensorDict.iter_feather(file, batch_size=2)]
        [[1, 2], [3]]
    """
    return iterate_file(FeatherReader, cls, "iter_feather", path, batch_size, {"memory_map": memory_map, **kwargs})


def to_feather(
    data: TensorCollection,
    path: Target,
    *,
    separator: str | None = None,
    compression: Literal["lz4", "zstd"] | None = None,
    **kwargs: Any,
) -> None:
    """Write a Feather file (Arrow's IPC format) with one row per item of the batch.

    Nested collections become structs, further dimensions tensors of a fixed shape, ragged rows lists, as in
    :meth:`to_arrow`. The file is written completely or not at all: if writing fails, the previous file stays.

    Args:
        written_file: path
        separator: gives nested values columns of their own, with joined names.
        compression: makes the file smaller. A compressed file cannot be read without a copy.
        kwargs: options of ``pyarrow.ipc.IpcWriteOptions``.

    Raises:
        written_file: ImportError, OSError, ValueError, ConversionError, TypeError

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = TensorDict({"x": torch.zeros(2, 3), "name": ["a", "b"]}, [2])
        ...     data.to_feather(folder + "/rows.feather", compression="zstd")
        ...     TensorDict.from_feather(folder + "/rows.feather")["name"][1]
        'b'
    """
    ipc = require("pyarrow", EXTRA, "to_feather").ipc
    names = public_names(ipc.IpcWriteOptions, "compression")
    given = sorted_options("to_feather", {"write": names}, kwargs, _OTHER_NAMES)["write"]
    options = ipc.IpcWriteOptions(compression=compression, **given)
    table = flat_table(data, separator)
    with written_file("to_feather", path) as file, ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table)


class FeatherReader(PartitionedReader[C]):
    """Reads Arrow files with the same columns one after another."""

    SUFFIXES: tuple[str, ...] = (".arrow", ".feather", ".ipc")
    OTHER_NAMES: Mapping[str, str] = _OTHER_NAMES

    def _options(self, path: Any, own: dict[str, Any]) -> dict[str, Iterable[str]]:
        self._memory_map = own.pop("memory_map")
        return {"read": public_names(self.pa.ipc.IpcReadOptions, "included_fields")}

    @contextmanager
    def _opened(self, file: TableFile) -> Generator[Any, None, None]:
        ipc: Any = self.pa.ipc
        with naming_file(self.request.what, file), ExitStack() as stack:
            if file.opened is None and self._memory_map:
                source: Any = _map_file(self.pa, file.name)
                begin = source[: len(_MAGIC)].to_pybytes()
            else:
                source = file.opened or stack.enter_context(self.pa.OSFile(file.name))
                source.seek(file.start)
                begin = source.read(len(_MAGIC))
                source.seek(file.start)
            opens = ipc.open_file if begin == _MAGIC else ipc.open_stream
            yield stack.enter_context(opens(source, options=ipc.IpcReadOptions(**self.given["read"])))

    def _describe_file(self, opened: Any) -> tuple[int | None, Any]:
        count = getattr(opened, "count_rows", None)
        return (None if count is None else count()), opened.schema

    def _whole(self, opened: Any) -> Any:
        return opened.read_all()

    def _batches(self, opened: Any, rows: int) -> Iterable[Any]:
        if hasattr(opened, "num_record_batches"):
            yield from map(opened.get_batch, range(opened.num_record_batches))
        else:  # a stream
            yield from opened


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
