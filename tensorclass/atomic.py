"""Files and folders that are written as a whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def whole_file(path: str | Path) -> Generator[IO[bytes], None, None]:
    """A file to write to that takes its name only when all is written and on disk.

    It is written beside its place under another name. Where the block raises, that is removed, and what stood at
    ``path`` stays.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_file(f"{folder}/result.json") as file:
        ...         _ = file.write(b"{}")
        ...     os.listdir(folder)
        ['result.json']
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write to, found a folder", str(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.absolute().parent)
    except OSError as error:
        raise _of(path, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp keeps others out
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def whole_path(path: str | os.PathLike[str]) -> Generator[Path, None, None]:
    """:func:`whole_file` for writers that open the file themselves: the path of the draft, which is not there yet.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_path(f"{folder}/result.json") as draft:
        ...         _ = draft.write_text("{}")
        ...     os.listdir(folder)
        ['result.json']
    """
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write to, found a folder", str(place))
    try:
        folder = tempfile.mkdtemp(prefix=f".{place.name}.", suffix=".tmp", dir=place.absolute().parent)
    except OSError as error:
        raise _of(place, error) from None
    draft = Path(folder) / place.name
    try:
        yield draft
        os.chmod(draft, 0o666 & ~_umask())  # a writer may keep others out
        os.replace(draft, place)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def whole_folder(path: str | Path) -> Generator[Path, None, None]:
    """A folder to write to that takes its place only when all is written.

    It is filled beside its place under another name and then renamed. Where ``path`` is a folder already, the files
    written replace those of the same name, each as a whole, and others stay. Missing parent folders are made.

    Example:
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     with whole_folder(f"{parent}/results") as folder:
        ...         _ = (folder / "scores.json").write_text("{}")
        ...     os.listdir(parent), os.listdir(f"{parent}/results")
        (['results'], ['scores.json'])
    """
    path = Path(path).absolute()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path}: expected a folder to write to, found a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    except OSError as error:
        raise _of(path, error) from None
    try:
        yield draft
        os.chmod(draft, 0o777 & ~_umask())
        try:
            os.rename(draft, path)  # also over an empty folder
        except OSError:
            if not path.is_dir():
                raise
            for file in sorted(draft.iterdir()):
                os.replace(file, path / file.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def swapped_folder(path: str | Path) -> Generator[Path, None, None]:
    """A folder to write to that takes the place of the one at ``path``, of all that is in it, in one step.

    Whoever opens ``path`` sees the old folder or the new one, whole; where the block raises or the process is killed,
    the old one stays. What the old folder had and the block does not want must be moved by the block (hard links do).
    Missing parent folders are made.

    Where the system cannot exchange two folders in one step, there is an instant without any.

    Example:
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     for text in ("old", "new"):
        ...         with swapped_folder(f"{parent}/results") as folder:
        ...             _ = (folder / text).write_text(text)
        ...     os.listdir(parent), os.listdir(f"{parent}/results")
        (['results'], ['new'])
    """
    path = Path(path).absolute()
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"{path}: expected a folder to write to, found a file")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent))
    except OSError as error:
        raise _of(path, error) from None
    try:
        yield draft
        if path.is_dir():
            shutil.copymode(path, draft)
            exchange(draft, path)  # then the draft is the old one, and goes
        else:
            os.chmod(draft, 0o777 & ~_umask())
            try:
                os.rename(draft, path)
            except OSError:
                if not path.is_dir():
                    raise
                exchange(draft, path)  # another process has written one meanwhile
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def exchange(one: Path, other: Path) -> None:
    """Two folders of one file system in each other's place, in one step where the system has that."""
    if _renameat2 is not None and not _renameat2(_HERE, bytes(one), _HERE, bytes(other), _EXCHANGE):
        return
    aside = one.with_name(one.name + ".old")
    os.rename(other, aside)
    try:
        os.rename(one, other)
    except BaseException:
        os.rename(aside, other)
        raise
    os.rename(aside, one)


_HERE = -100  # AT_FDCWD of Linux: paths are relative to the working directory
_EXCHANGE = 2  # RENAME_EXCHANGE
_renameat2: Callable[..., int] | None = (
    getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
)


def _of(path: Path, error: OSError) -> OSError:
    """The error as one of the file that was asked for, not of the draft beside it."""
    return OSError(error.errno, f"can't be written: {error.strerror}", str(path))


def _umask() -> int:
    """The bits that the user keeps from new files; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
