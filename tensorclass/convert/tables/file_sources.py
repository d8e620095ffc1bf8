"""Locate and open the files of a table: a path, several, a pattern, a folder of parts, an open file."""

from __future__ import annotations

import errno
import glob
import io
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from tensorclass.support.atomic import whole_file
from tensorclass.support.extras import require
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.nearest import nearest
from tensorclass.support.printable import printable, type_name
from tensorclass.support.regular_files import NotRegular, check_regular
from tensorclass.td.base import TensorCollection

EXTRA = "arrow"

#: codec by file suffix
_CODECS = {".gz": "gzip", ".bz2": "bz2", ".lz4": "lz4", ".zst": "zstd"}


class TableFile(NamedTuple):
    """A file to read."""

    #: its name in messages
    name: str
    #: the open file, if one was given
    opened: IO[bytes] | None = None
    #: offset of the table in it
    start: int = 0
    #: values in folder names: ``{"year": "2024"}`` for ``data/year=2024/a.parquet``
    folder_values: Mapping[str, str] = {}

    def __str__(self) -> str:
        return self.name


def table_files(what: str, path: Any, suffixes: tuple[str, ...] = ()) -> list[TableFile]:
    """List the files of a path, in order.

    Args:
        what: the call, for messages: ``"from_csv"``.
        path: a path, a pattern (``"part-*.csv"``), an open file, or a list of paths.
        suffixes: suffixes of files to read from a folder; without any, a folder raises.

    Raises:
        FileNotFoundError: the file does not exist, or nothing fits the pattern.
        IsADirectoryError: the path is a folder, and ``suffixes`` is empty.
        TypeError: ``path`` is something else.
    """
    if isinstance(path, (list, tuple)):
        several = [file for one in cast("Sequence[Any]", path) for file in table_files(what, one, suffixes)]
        if not several:
            raise ValueError(f"{what}: expected a path, got an empty list of them")
        return several
    if isinstance(path, io.TextIOBase):
        raise TypeError(f"{what}: expected a file that is open for bytes, got one for text; open it with mode 'rb'")
    if hasattr(path, "read"):
        return [_open_file(path)]
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{what}: expected a path, a list of paths or an open file, got a {type_name(path)}")
    name: str = os.path.expanduser(os.fspath(cast("str | os.PathLike[str]", path)))
    if not isinstance(name, str):
        raise TypeError(f"{what}: expected a path that is text, got {name!r}")
    if os.path.isdir(name):
        return _files_in_folder(what, name, suffixes)
    if not os.path.exists(name):
        found = sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else []
        if not found:
            message = "nothing fits the pattern" if glob.has_magic(name) else os.strerror(errno.ENOENT)
            raise FileNotFoundError(errno.ENOENT, f"{what}: {message}", name)
        return [file for one in found for file in table_files(what, glob.escape(one), suffixes)]
    _check_regular(what, name)
    return [TableFile(name)]


def _check_regular(what: str, name: str) -> None:
    """Raise unless a file can be read more than once: its head is read first, which a pipe does not allow."""
    try:
        check_regular(name)
    except NotRegular as error:
        raise ValueError(f"{what}: {error}; open it, and give the open file") from None


def _open_file(file: Any) -> TableFile:
    name = str(getattr(file, "name", f"<{type_name(file)}>"))
    if not (hasattr(file, "seekable") and file.seekable()):  # the head is read first, so the file must be seekable
        file = io.BytesIO(file.read())
    return TableFile(name, file, file.tell())


def _files_in_folder(what: str, folder: str, suffixes: tuple[str, ...]) -> list[TableFile]:
    """List the files of a folder and its subfolders."""
    if not suffixes:
        raise IsADirectoryError(
            errno.EISDIR, f"{what}: expected a file, got a folder; give a pattern for those in it", folder
        )
    found: list[TableFile] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        inside = Path(place).relative_to(folder).parts
        folder_values = dict(one.split("=", 1) for one in inside if "=" in one)
        found += [
            TableFile(os.path.join(place, name), folder_values=folder_values)
            for name in sorted(names)
            if name.endswith(suffixes) and not name.startswith((".", "_"))
        ]
    for file in found:
        _check_regular(what, file.name)
    if not found:
        raise FileNotFoundError(errno.ENOENT, f"{what}: there is no {' or '.join(suffixes)} file in the folder", folder)
    return found


@contextmanager
def naming_file(
    what: str, file: TableFile, failed: Callable[[Exception], str | None] | None = None
) -> Generator[None, None, None]:
    """Add the name of a file to errors that are raised inside.

    Args:
        what: the call, for messages.
        file: the file.
        failed: locates an error in the file, and describes it.
    """
    pa = require("pyarrow", EXTRA, what)
    try:
        yield
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(f"{what}: {printable(file)}: {error}") from error
    except (pa.ArrowException, UnicodeEncodeError) as error:  # half of a surrogate pair, which JSON can write
        found = failed(error) if failed is not None and isinstance(error, Exception) else None
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{what}: {printable(file)}: {found or error}") from error


@contextmanager
def byte_stream(what: str, file: TableFile) -> Generator[Any, None, None]:
    """Open a file for pyarrow; decompress it if its name says so (``"table.csv.gz"``)."""
    pa = require("pyarrow", EXTRA, what)
    if file.opened is not None:  # its owner closes it
        file.opened.seek(file.start)
        yield file.opened
        return
    with pa.input_stream(file.name, compression="detect") as stream:
        yield stream


@contextmanager
def open_for_writing(what: str, path: Any, compressed: bool = False) -> Generator[IO[bytes], None, None]:
    """Open a file for writing: a path gets the whole file or stays unchanged.

    Args:
        what: the call, for messages.
        path: a path or an open file.
        compressed: compress if the name says so (``"table.csv.gz"``).

    Raises:
        OSError: the file cannot be written.
    """
    if isinstance(path, io.TextIOBase):
        raise TypeError(f"{what}: expected a file that is open for bytes, got one for text; open it with mode 'wb'")
    if hasattr(path, "write"):
        yield path
        return
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{what}: expected a path or an open file, got a {type_name(path)}")
    name: str = os.path.expanduser(os.fspath(cast("str | os.PathLike[str]", path)))
    with whole_file(name) as file:
        codec = _CODECS.get(os.path.splitext(name)[1]) if compressed else None
        if codec is None:
            yield file
            return
        pa = require("pyarrow", EXTRA, what)
        with pa.CompressedOutputStream(pa.PythonFile(_UnclosedFile(file), "wb"), codec) as stream:
            yield stream


@contextmanager
def written_file(what: str, path: Any, compressed: bool = False) -> Generator[IO[bytes], None, None]:
    """Open a file for a writer of Arrow; errors name the file. An interrupt waits until the file is whole again.

    Args:
        path: the file, or a file that is open for writing bytes.

    Raises:
        ImportError: pyarrow is not installed.
        OSError: the file cannot be written.
        ValueError: the batch does not have exactly one dimension.
        ConversionError: the file cannot hold some of the values. Lists all of them.
        TypeError: an option does not exist, or there is no type for a dtype or an object.
    """
    with (
        uninterrupted() as section,
        open_for_writing(what, path, compressed) as file,
        naming_file(what, TableFile(str(path))),
        section.interruptible(),
    ):
        yield file


class _UnclosedFile(io.RawIOBase):
    """A file that stays open when its writer is closed."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)


def sorted_options(
    what: str,
    groups: Mapping[str, Iterable[str]],
    given: Mapping[str, Any],
    others: Mapping[str, str] = {},
    of: str = "pyarrow",
) -> dict[str, dict[str, Any]]:
    """Group the options that are given for the readers or writers of a library.

    Args:
        what: the call, for messages: ``"from_csv"``.
        groups: the names of options, by group.
        given: the options.
        others: names in other libraries, with the name here or what to do.
        of: the library that has the options, for messages.

    Raises:
        TypeError: a name is not an option.
    """
    names = {group: [*own] for group, own in groups.items()}
    known = {name for own in names.values() for name in own}
    unknown = [name for name in given if name not in known]
    if unknown:
        own = _own_arguments(what)
        meant = [name if name in others else nearest(name, [*own, *known, *others]) or "" for name in unknown]
        hints = [f"; for {name} use {others[name]}" for name in meant if name in others]
        near = [name for name in meant if name and name not in others]
        if near:
            hints.append(f". Did you mean: {', '.join(map(repr, near))}?")
        hint = "".join(hints) or f". Those of {of} are: {', '.join(sorted(known)) or 'none here'}"
        raise TypeError(f"{what}: there are no options {', '.join([*map(repr, unknown)])}{hint}")
    return {group: {name: given[name] for name in own if name in given} for group, own in names.items()}


def _own_arguments(what: str) -> list[str]:
    """Return the keywords that a method declares itself."""
    method = getattr(TensorCollection, what.rpartition(".")[2])
    return [name for name, one in signature(method).parameters.items() if one.kind is one.KEYWORD_ONLY]


def public_names(options: Any, *without: str) -> list[str]:
    """Return the names of the options in a class of options."""
    return [name for name in dir(options) if not name.startswith("_") and name not in without]
