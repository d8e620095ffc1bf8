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
from typing import Any, cast

import torch

from tensorclass.support.extras import require
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import content_of, reading_regular
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.delegated.arguments import Nulls
from tensorclass.td.keys import unravel_key_to_tuple
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
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
    #: ends of file names
    suffixes: tuple[str, ...] = ()

    def __init_subclass__(cls, *, format: str = "", suffixes: tuple[str, ...] = ()) -> None:
        cls.name, cls.suffixes = format, suffixes

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        """Return whether the file is of this format. ``start`` has its first bytes; none for a folder."""

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
        raise NotImplementedError

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

    def verify(self) -> None:
        if self.checksums() is False:
            super().verify()
        else:
            self._load(True)

    def _notes(self) -> str:
        """Return the text of the metadata, in which checksums have their key."""
        return ""

    def checksums(self) -> bool | None:
        return '"crc32": [' in self._notes() or '"crc32":[' in self._notes()


def _class_of(described: object) -> str | None:
    """Return the class that a node of a file's metadata names."""
    named = as_dict(as_dict(described).get("class"))
    return f"{named['module']}.{named['name']}" if {"module", "name"} <= set(named) else None


def as_dict(value: object) -> dict[str, Any]:
    """Return a value of a JSON document if it is an object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class MemoryMapFolder(CollectionFile, format="memmap"):
    """A folder of memory maps."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return path.is_dir() and (path / "meta.json").is_file()

    def _load(self, verify: bool) -> Any:
        return TensorDict.load_memmap(self.path, verify=verify)

    def _texts(self) -> dict[str, str]:
        return {str(file): content_of(file).decode() for file in self.path.rglob("meta.json")}

    def _notes(self) -> str:
        return "".join(self._texts().values())

    def class_name(self) -> str | None:
        return _class_of(json.loads(content_of(self.path / "meta.json")).get("_tensorclass"))


class MemoryMapArchive(MemoryMapFolder, format="archive", suffixes=(".tdz", ".zip", ".td.zip")):
    """A zip archive of a folder of memory maps."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        from tensorclass.storage import is_memmap_archive

        return start.startswith(b"PK") and is_memmap_archive(path)

    def _texts(self) -> dict[str, str]:
        with zipfile.ZipFile(self.path) as archive:
            names = [name for name in archive.namelist() if name.rsplit("/", 1)[-1] == "meta.json"]
            return {name: archive.read(name).decode() for name in names}

    def class_name(self) -> str | None:
        texts = self._texts()
        return _class_of(json.loads(texts[min(texts, key=len)]).get("_tensorclass"))


class SafetensorsFile(CollectionFile, format="safetensors", suffixes=(".safetensors",)):
    """A safetensors file, of this package or of others."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return len(start) > 9 and start[8:9] == b"{" and struct.unpack("<Q", start[:8])[0] <= path.stat().st_size

    def _load(self, verify: bool) -> Any:
        return TensorDict.load_safetensors(self.path, verify=verify)

    def _metadata(self) -> dict[str, str]:
        with reading_regular(self.path) as file:
            (size,) = struct.unpack("<Q", file.read(8))
            found: dict[str, str] = json.loads(file.read(size)).get("__metadata__", {})
            return found

    def _notes(self) -> str:
        return self._metadata().get("tensorclass", "")

    def class_name(self) -> str | None:
        return _class_of(json.loads(self._notes() or "{}").get("tree"))


class ConsolidatedFile(CollectionFile, format="consolidated", suffixes=(".td", ".tensordict")):
    """A file that ``consolidate`` wrote."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        if path.suffix in cls.suffixes or not path.is_file():
            return path.is_file()
        with reading_regular(path) as file:
            file.seek(max(0, path.stat().st_size - 9))
            return file.read(1) == b"}"

    def _load(self, verify: bool) -> Any:
        return TensorDict.from_consolidated(self.path)

    def checksums(self) -> bool | None:
        return None

    def class_name(self) -> str | None:
        from tensorclass.storage.consolidated_file import read_tree

        return _class_of(read_tree(self.path))


class _ArrayFile(CollectionFile, metaclass=ABCMeta):
    """A file or folder whose values are read when they are asked for, and which has to be closed."""

    def close(self) -> None:
        self.data.close()

    def verify(self) -> None:
        if self.checksums():
            self._load(True).close()
        else:
            super().verify()


class HDF5File(_ArrayFile, format="h5", suffixes=(".h5", ".hdf5", ".hdf")):
    """An HDF5 file, of this package or of others."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return start.startswith(b"\x89HDF\r\n\x1a\n")

    def _load(self, verify: bool) -> Any:
        return TensorDict.from_h5(self.path, verify=verify)

    def checksums(self) -> bool | None:
        def has_checksum(_: str, item: Any) -> bool | None:
            return any("crc32" in str(value) for value in item.attrs.values()) or None

        with require("h5py", "", "HDF5").File(self.path) as file:
            return bool(file.visititems(has_checksum))

    def class_name(self) -> str | None:
        with require("h5py", "", "HDF5").File(self.path) as file:
            text = file.attrs.get("tensorclass")
        return None if text is None else _class_of(json.loads(bytes(text) if isinstance(text, bytes) else str(text)))


class ZarrFolder(_ArrayFile, format="zarr", suffixes=(".zarr",)):
    """A zarr folder, of this package or of others."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return path.is_dir() and ((path / "zarr.json").is_file() or (path / ".zgroup").is_file())

    def _load(self, verify: bool) -> Any:
        return TensorDict.from_zarr(self.path, verify=verify)

    def checksums(self) -> bool | None:
        return any(b"crc32" in content_of(file) for file in self.path.rglob("zarr.json"))

    def class_name(self) -> str | None:
        file = self.path / "zarr.json"
        known = as_dict(json.loads(content_of(file))) if file.is_file() else {}
        return _class_of(as_dict(known.get("attributes")).get("tensorclass"))


class TorchFile(CollectionFile, format="torch", suffixes=(".pt", ".pth")):
    """A file of ``torch.save`` that holds a collection, or a dict of tensors. Nothing of it is run."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return path.suffix in cls.suffixes and start.startswith(b"PK")

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

    def checksums(self) -> bool | None:
        return None


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
        raise NotImplementedError

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


class ParquetFile(TableFile, format="parquet", suffixes=(".parquet", ".pq")):
    """A Parquet file."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return start.startswith(b"PAR1")

    def _batches(self, rows: int) -> Iterator[Any]:
        return iter(TensorDict.iter_parquet(self.path, batch_size=rows, nulls=self._nulls, progress=False))

    def rows(self) -> int | None:
        parquet = require("pyarrow.parquet", "arrow", f"reading {self.path.name}")
        return int(parquet.read_metadata(self.path).num_rows)


class ArrowFile(TableFile, format="arrow", suffixes=(".feather", ".arrow", ".ipc")):
    """A Feather file: Arrow's table on a disk."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return start.startswith(b"ARROW1")

    def _batches(self, rows: int) -> Iterator[Any]:
        return iter(TensorDict.iter_feather(self.path, batch_size=rows, nulls=self._nulls))


class CSVFile(TableFile, format="csv", suffixes=(".csv", ".csv.gz", ".tsv")):
    """A CSV file with names in its first line."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return path.name.endswith(cls.suffixes)

    def _batches(self, rows: int) -> Iterator[Any]:
        return iter(TensorDict.iter_csv(self.path, batch_size=rows, nulls=self._nulls, progress=False))


class JSONLinesFile(TableFile, format="jsonl", suffixes=(".jsonl", ".ndjson", ".json", ".jsonl.gz")):
    """A file with one JSON object on each line."""

    @classmethod
    def recognises(cls, path: Path, start: bytes) -> bool:
        return path.name.endswith(cls.suffixes) and not path.is_dir()

    def __init__(self, path: Path, nulls: Nulls = "mask") -> None:
        super().__init__(path, nulls)
        self._types: dict[tuple[str, ...], Any] = {}

    def _batches(self, rows: int) -> Iterator[Any]:
        return iter(TensorDict.iter_json(self.path, batch_size=rows, nulls=self._nulls))

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


#: in the order in which a file is compared with them
FORMATS: tuple[type[DataFile], ...] = (
    ZarrFolder,
    MemoryMapFolder,
    MemoryMapArchive,
    TorchFile,
    HDF5File,
    ParquetFile,
    ArrowFile,
    SafetensorsFile,
    CSVFile,
    JSONLinesFile,
    ConsolidatedFile,
)


def format_of(path: Path) -> type[DataFile]:
    """Return the format of a file, found in its content.

    Raises:
        FileNotFoundError: there is no such file.
        UnknownFormat: the file is of no known format.
    """
    if not path.exists():
        raise FileNotFoundError(2, os.strerror(2), str(path))
    start = b""
    if not path.is_dir():
        with reading_regular(path) as file:
            start = file.read(64)
    for one in FORMATS:
        if (path.is_dir() or start or one is CSVFile) and one.recognises(path, start):
            return one
    raise UnknownFormat(
        f"{path}: an unknown format; known are {', '.join(one.name for one in FORMATS)}"
        + ("; the file is empty" if not start and not path.is_dir() else "")
    )


@contextmanager
def opened(path: Path, nulls: Nulls = "mask") -> Generator[DataFile, None, None]:
    """Open a file of any format, and close it at the end of the block.

    Args:
        path: the file.
        nulls: what becomes of nulls of tables.
    """
    found = format_of(path)
    with closing(found(path, nulls) if issubclass(found, TableFile) else found(path)) as file:
        yield file
