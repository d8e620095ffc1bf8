"""Check the paths that users give, and recognize the format of a file to name its loader in errors."""

from __future__ import annotations

import errno
import os
import re
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorclass.support.help_links import help_link
from tensorclass.support.printable import type_name
from tensorclass.support.regular_files import NotRegular, reading_regular
from tensorclass.td.collection import Collection
from tensorclass.td.memory.mapped_files import Filename

from .collection_tree import FileError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def path_of(path: Filename, what: str, writes: bool = False) -> str:
    """Check a path; return it as an absolute one.

    Args:
        path: the path.
        what: the caller, for errors.
        writes: whether the caller writes to the path.

    Raises:
        TypeError: it is not a path.
        ValueError: it is empty, has a null character, or is a URL such as ``s3://...``.
        FileNotFoundError: the caller writes to it, and it begins with ``~``, which is not a folder here.
    """
    try:
        given: Any = os.fspath(path)
    except TypeError:
        given = path
    if not isinstance(given, str):
        hint = f"; the collection comes first: {what}(data, path)" if isinstance(given, Collection) else ""
        raise TypeError(f"{what}: expected a path, as a str or a pathlib.Path, got {type_name(given)}{hint}")
    if not given:
        raise ValueError(f"{what}: the path is empty")
    if "\0" in given:
        raise ValueError(f"{what}: the path {given!r} has a null character in it")
    if _URL.match(given):
        raise ValueError(f"{what}: expected a path of this system, got the URL {given!r}; copy the file yourself")
    first = Path(given).parts[:1]
    if writes and first and first[0].startswith("~") and not os.path.lexists(first[0]):
        raise FileNotFoundError(
            f"{what}: there is no folder {first[0]!r} here; Path({given!r}).expanduser() gives a path in a home folder"
        )
    return os.path.abspath(given)


def check_folder_name(path: str, what: str) -> None:
    """Raise if a new folder would have the name of a file in another format, such as ``record.pt``.

    A folder that is there already can be replaced.

    Raises:
        ValueError: it would.
    """
    suffix = os.path.splitext(path)[1].lower()
    writer = _WRITERS.get(suffix)
    if writer is not None and not os.path.isdir(path):
        raise ValueError(
            f"{what}: {path}: it writes a folder of memory maps, or with the suffix .tdz an archive, and no {suffix} "
            f"file. To write that, call {writer.format(os.path.basename(path))}; for a folder, leave the suffix out"
        )


#: the call that writes files of each suffix; ``{}`` is the name of the file
_WRITERS = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".pkl", ".pickle"), "torch.save(data, {!r})"),
    **dict.fromkeys((".safetensors", ".st"), "data.to_safetensors({!r})"),
    **dict.fromkeys((".h5", ".hdf5"), "data.to_h5({!r})"),
    ".zarr": "data.to_zarr({!r})",
    **dict.fromkeys((".parquet", ".pq"), "data.to_parquet({!r})"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "data.to_feather({!r})"),
    **dict.fromkeys((".csv", ".tsv"), "data.to_csv({!r})"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "data.to_json({!r})"),
    ".npy": "numpy.save({!r}, data.to_struct_array())",
    ".npz": "numpy.savez({!r}, data.to_struct_array())",
    ".zip": "data.memmap({!r}, archive=True)",
}


@contextmanager
def loading(path: str, *own: str) -> Generator[None, None, None]:
    """Add to errors about a file of another format the name of the method that loads it.

    Args:
        path: the file, or the folder.
        own: the methods that load the expected format.
    """
    try:
        yield
    except NotRegular as error:
        raise FileError(str(error)) from None
    except (FileError, FileNotFoundError, IsADirectoryError) as error:
        method = loader_of(path)
        if method is None or method in own:
            if isinstance(error, IsADirectoryError):
                raise FileError(f"{path}: expected a file, found a folder") from None
            raise
        error_class = type(error) if isinstance(error, FileNotFoundError) else FileError
        raise error_class(f"{error}; {method}() loads it{help_link('other-formats')}") from None


def loader_of(path: str) -> str | None:
    """Return the name of the method that loads a file or folder; ``None`` if its format is unknown."""
    if os.path.isdir(path):
        return next((method for name, method in _IN_FOLDERS.items() if os.path.isfile(os.path.join(path, name))), None)
    try:
        with reading_regular(path) as file:
            begin = file.read(9)
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 9))
            end = file.read(9)
            last_text = size - 8 - int.from_bytes(end[1:], "little")  # JSON at the end of a consolidated file
            file.seek(max(0, last_text))
            is_consolidated = last_text >= 0 and file.read(1) + end[:1] == b"{}"
    except (OSError, ValueError, OverflowError):
        return None
    if begin.startswith(b"PK\3\4"):
        names = names_in_zip(path)
        if "meta.json" in names:
            return "load_memmap"
        return "torch.load" if any(name.endswith("/data.pkl") for name in names) else None
    if is_consolidated:
        return "from_consolidated"
    if len(begin) == 9 and begin[8:] == b"{" and int.from_bytes(begin[:8], "little") <= size - 8:
        return "load_safetensors"
    by_suffix = _SUFFIXES.get(os.path.splitext(path)[1].lower())
    return next((method for magic, method in _BEGINNINGS.items() if begin.startswith(magic)), by_suffix)


def names_in_zip(path: Filename) -> list[str]:
    """Return the names of the members of a ZIP file; none for any other or damaged file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return []


_IN_FOLDERS = {"meta.json": "load_memmap", "zarr.json": "from_zarr", ".zgroup": "from_zarr"}
#: formats of text, which have no mark
_SUFFIXES = {
    **dict.fromkeys((".csv", ".tsv"), "from_csv"),
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "from_json"),
}
_BEGINNINGS = {b"\x89HDF\r\n\x1a\n": "from_h5", b"PAR1": "from_parquet", b"ARROW1": "from_feather"}


def check_parent(path: str) -> None:
    """Raise if the folder of a path does not exist.

    Raises:
        FileNotFoundError: it does not exist.
        NotADirectoryError: it, or a folder above it, is a file.
    """
    parent = os.path.dirname(path)
    if os.path.isdir(parent):
        return
    found = next(folder for folder in Path(parent, "x").parents if os.path.lexists(folder))
    if not os.path.isdir(found):
        raise NotADirectoryError(errno.ENOTDIR, f"expected a folder, {found} is a file", path)
    raise FileNotFoundError(errno.ENOENT, f"there is no folder {parent}; make it first", path)
