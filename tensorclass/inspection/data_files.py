"""The formats of files: recognise one, open it, read its rows in pieces."""

from __future__ import annotations

import json
import os
import struct
import zipfile
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch

from tensorclass.storage.common.file_paths import loader_of
from tensorclass.storage.common.unimported_classes import described_class, keep_class_names
from tensorclass.storage.hdf5_zarr.persistent_tensordict import PersistentTensorDict
from tensorclass.support.extras import require
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import content_of, reading_regular
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.delegated.arguments import Nulls
from tensorclass.td.keys import unravel_key_to_tuple
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.stores.store_classes import dense_class
from tensorclass.td.tensordict import TensorDict

#: rows that are read at once
CHUNK = 65_536


class UnknownFormat(ValueError):
    """A file of no known format."""


class DataFile(ABC):
    """A file or folder with rows.

    Args:
        path: the file.
    """

    #: the format, as ``--to`` takes it
    name: str = ""
    #: the method that loads it, as :func:`.loader_of` finds it in the content
    loader: str = ""
    #: ends of file names
    suffixes: tuple[str, ...] = ()
    is_folder: bool = False

    def __init_subclass__(
        cls, *, format: str = "", loader: str = "", suffixes: tuple[str, ...] = (), is_folder: bool = False
    ) -> None:
        cls.name, cls.loader, cls.suffixes, cls.is_folder = format, loader, suffixes, is_folder

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def rows(self) -> int | None:
        """Return the number of rows; ``None`` if there is no batch dimension."""

    @abstractmethod
    def first(self, count: int) -> Any:
        """Return the first rows as a collection."""

    @abstractmethod
    def pieces(self, rows: int) -> Iterator[Any]:
        """Yield all rows as collections of at most so many."""

    def class_name(self) -> str | None:
        """Return the record class that the file names."""
        return None

    def checksums(self) -> bool | None:
        """Return whether there are checksums of the values; ``None`` if the format has none of its own."""
        return None

    def verify(self) -> None:
        """Read all values, and compare them with their checksums, if there are any.

        Raises:
            ValueError: the file is damaged.
        """
        for _ in self.pieces(CHUNK):
            pass

    def close(self) -> None:  # noqa: B027  (most files are closed after each read)
        """Close what is open."""


class CollectionFile(DataFile, metaclass=ABCMeta):
    """A file of this package: it is opened as a collection, which reads its values when they are asked for."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.data: Any = self._load(False)

    def _load(self, verify: bool) -> Any:
        return getattr(TensorDict, self.loader)(self.path, verify=verify)

    def rows(self) -> int | None:
        size = self.data._batch_size
        return size[0] if size else None

    def first(self, count: int) -> Any:
        return self.data[:count] if self.data._batch_size else self.data

    def pieces(self, rows: int) -> Iterator[Any]:
        total = self.rows()
        if total is None:
            yield self.data
            return
        for start in range(0, max(total, 1), rows):
            yield self.data[start : start + rows]

    def class_name(self) -> str | None:
        cls: Any = dense_class(self.data.__class__)
        named = described_class(cls) or {}
        return f"{named['module']}.{named['name']}" if {"module", "name"} <= named.keys() else None

    def verify(self) -> None:
        if self.checksums() is False:
            super().verify()
        else:
            self.close()
            self.data = self._load(True)

    def close(self) -> None:
        if isinstance(self.data, PersistentTensorDict):
            self.data.close()


class MemoryMapFolder(CollectionFile, format="memmap", loader="load_memmap", is_folder=True):
    """A folder of memory maps."""

    def checksums(self) -> bool | None:
        return any(map(_has_checksums, map(content_of, self.path.rglob("meta.json"))))


def _has_checksums(metadata: bytes) -> bool:
    """Return whether JSON of this package has checksums of values, which are lists."""
    return b'"crc32": [' in metadata or b'"crc32":[' in metadata


class MemoryMapArchive(CollectionFile, format="archive", loader="load_memmap", suffixes=(".tdz", ".zip", ".td.zip")):
    """A zip archive of a folder of memory maps."""

    def checksums(self) -> bool | None:
        with zipfile.ZipFile(self.path) as archive:
            names = [name for name in archive.namelist() if name.rsplit("/", 1)[-1] == "meta.json"]
            return any(map(_has_checksums, map(archive.read, names)))


class SafetensorsFile(CollectionFile, format="safetensors", loader="load_safetensors", suffixes=(".safetensors",)):
    """A safetensors file, of this package or of others."""

    def checksums(self) -> bool | None:
        with reading_regular(self.path) as file:
            (size,) = struct.unpack("<Q", file.read(8))
            metadata: dict[str, str] = json.loads(file.read(size)).get("__metadata__", {})
        return _has_checksums(metadata.get("tensorclass", "").encode())


class ConsolidatedFile(
    CollectionFile, format="consolidated", loader="from_consolidated", suffixes=(".td", ".tensordict")
):
    """A file that ``consolidate`` wrote."""

    def _load(self, verify: bool) -> Any:
        return TensorDict.from_consolidated(self.path)


class HDF5File(CollectionFile, format="h5", loader="from_h5", suffixes=(".h5", ".hdf5", ".hdf")):
    """An HDF5 file, of this package or of others."""

    def checksums(self) -> bool | None:
        def has_checksum(_: str, item: Any) -> bool | None:
            return any("crc32" in str(value) for value in item.attrs.values()) or None

        with require("h5py", "", "HDF5").File(self.path) as file:
            return bool(file.visititems(has_checksum))


class ZarrFolder(CollectionFile, format="zarr", loader="from_zarr", is_folder=True, suffixes=(".zarr",)):
    """A zarr folder, of this package or of others."""

    def checksums(self) -> bool | None:
        return any(b"crc32" in content_of(file) for file in self.path.rglob("zarr.json"))


class TorchFile(CollectionFile, format="torch", loader="torch.load", suffixes=(".pt", ".pth")):
    """A file of ``torch.save`` that holds a collection, or a dict of tensors. Nothing of it is run."""

    def _load(self, verify: bool) -> Any:
        try:
            found: Any = torch.load(self.path, weights_only=True, map_location="cpu")
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnknownFormat(
                f"{self.path}: torch.load(weights_only=True) refuses it; a record in it can be loaded by a program "
                f"that imports the module of its class ({printable(reason)})"
            ) from None
        return TensorDict.from_any(found)


class TableFile(DataFile, metaclass=ABCMeta):
    """A file of a table, which pyarrow reads.

    Args:
        path: the file.
        nulls: what becomes of nulls, as ``from_arrow`` takes it. By default a mask says where they were.
    """

    def __init__(self, path: Path, nulls: Nulls = "mask") -> None:
        super().__init__(path)
        self._nulls: Nulls = nulls

    def _batches(self, rows: int) -> Iterator[Any]:
        read = getattr(TensorDict, self.loader.replace("from_", "iter_"))
        return iter(read(self.path, batch_size=rows, nulls=self._nulls, progress=False))

    def first(self, count: int) -> Any:
        with closing(_generator(self._batches(max(count, 1)))) as batches:
            first = next(batches, None)
        return TensorDict({}, [0]) if first is None else first[:count]

    def pieces(self, rows: int) -> Iterator[Any]:
        return self._batches(rows)

    def rows(self) -> int | None:
        return sum(len(piece) for piece in self._batches(CHUNK))


def _generator(batches: Iterator[Any]) -> Generator[Any, None, None]:
    yield from batches


class ParquetFile(TableFile, format="parquet", loader="from_parquet", suffixes=(".parquet", ".pq")):
    """A Parquet file."""

    def rows(self) -> int | None:
        parquet = require("pyarrow.parquet", "arrow", f"reading {self.path.name}")
        try:
            return int(parquet.read_metadata(self.path).num_rows)
        except ValueError as error:
            raise ValueError(f"{self.path}: {error}") from None


class ArrowFile(TableFile, format="arrow", loader="from_feather", suffixes=(".feather", ".arrow", ".ipc")):
    """A Feather file: Arrow's table on a disk."""


class CSVFile(TableFile, format="csv", loader="from_csv", suffixes=(".csv", ".csv.gz", ".tsv")):
    """A CSV file with names in its first line."""


class JSONLinesFile(
    TableFile, format="jsonl", loader="from_json", suffixes=(".jsonl", ".ndjson", ".json", ".jsonl.gz")
):
    """A file with one JSON object on each line."""

    def __init__(self, path: Path, nulls: Nulls = "mask") -> None:
        super().__init__(path, nulls)
        self._types: dict[tuple[str, ...], Any] = {}

    def rows(self) -> int | None:
        count = 0
        for piece in self._batches(CHUNK):
            count += len(piece)
            _note_types(self._types, piece)
        return count

    def pieces(self, rows: int) -> Iterator[Any]:
        for piece in self._batches(rows):  # which types the values have depends on the rows of a piece
            _note_types(self._types, piece)
            yield _of_types(self._types, piece)


def _note_types(types: dict[tuple[str, ...], Any], data: Any) -> None:
    """Note the types that hold all values seen: a promoted dtype, or Ragged for lists of different lengths."""
    for path, leaf in data._named_leaves():
        known = types.get(path, leaf.dtype)
        types[path] = known if known is Ragged else torch.promote_types(known, leaf.dtype)
    for key, value in data.items(True, True):
        path = unravel_key_to_tuple(key)
        if content_kind(value) is Content.RAGGED:
            types[path] = Ragged


def _of_types(types: dict[tuple[str, ...], Any], data: Any) -> Any:
    """Return a piece whose values have the noted types."""
    for key, value in list(data.items(True, True)):
        path = unravel_key_to_tuple(key)
        wanted = types.get(path)
        if wanted is Ragged and isinstance(value, torch.Tensor):
            data[key] = Ragged.from_list(list(value))
        elif isinstance(value, torch.Tensor) and isinstance(wanted, torch.dtype):
            data[key] = value.to(wanted)
    return data


#: the formats, in the order of their table in the guide
FORMATS: tuple[type[DataFile], ...] = (
    ZarrFolder, MemoryMapFolder, MemoryMapArchive, TorchFile, HDF5File, ParquetFile, ArrowFile, SafetensorsFile,
    CSVFile, JSONLinesFile, ConsolidatedFile,
)  # fmt: skip


def format_of(path: Path) -> type[DataFile]:
    """Return the format of a file, found in its content, or else by the end of its name.

    Raises:
        FileNotFoundError: there is no such file.
        UnknownFormat: the file is of no known format.
    """
    if not path.exists():
        raise FileNotFoundError(2, os.strerror(2), str(path))
    is_folder, is_empty = path.is_dir(), False
    if not is_folder:
        with reading_regular(path) as file:
            is_empty = not file.read(1)
    loader = loader_of(str(path))
    for one in FORMATS:
        is_meant = one.loader == loader if loader is not None else path.name.endswith(one.suffixes)
        if is_meant and one.is_folder is is_folder and (not is_empty or one is CSVFile):
            return one
    raise UnknownFormat(
        f"{path}: an unknown format; known are {', '.join(one.name for one in FORMATS)}"
        + ("; the file is empty" if is_empty else "")
    )


@contextmanager
def opened(path: Path, nulls: Nulls = "mask") -> Generator[DataFile, None, None]:
    """Open a file of any format, and close it at the end of the block.

    Args:
        path: the file.
        nulls: what becomes of nulls of tables.
    """
    found = format_of(path)
    with keep_class_names(), closing(found(path, nulls) if issubclass(found, TableFile) else found(path)) as file:
        yield file
