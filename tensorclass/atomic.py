"""Files and folders that are written as a whole or not at all.

What is written stands beside its place under another name until it is whole. What a killed process leaves of that goes
when something is written to the same place again.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # it is none of Unix
    fcntl = None  # type: ignore[assignment]


@contextmanager
def whole_file(path: str | Path) -> Generator[IO[bytes], None, None]:
    """A file to write to that takes its name only when all is written and on disk.

    It is written beside its place under another name. Where the block raises, that is removed, and what stood at
    ``path`` stays.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_file(f"{folder}/result.json") as file:
        ...         _ = file.write(b"{}")
        ...     os.listdir(folder)
        ['result.json']
    """
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write to, found a folder", str(place))
    with _draft(place) as draft:
        with open(draft, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, place)


@contextmanager
def whole_path(path: str | os.PathLike[str]) -> Generator[Path, None, None]:
    """:func:`whole_file` for writers that open the file themselves: the path of the draft, which is not there yet.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_path(f"{folder}/result.json") as draft:
        ...         _ = draft.write_text("{}")
        ...     os.listdir(folder)
        ['result.json']
    """
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(errno.EISDIR, "expected a file to write to, found a folder", str(place))
    with _draft(place) as draft:
        yield draft
        os.chmod(draft, 0o666 & ~_umask())  # a writer may keep others out
        os.replace(draft, place)


@contextmanager
def whole_folder(path: str | Path) -> Generator[Path, None, None]:
    """A folder to write to that takes its place only when all is written.

    It is filled beside its place under another name and then renamed. Where ``path`` is a folder already, the files
    written replace those of the same name, each as a whole, and others stay. Missing parent folders are made.

    Example:
        >>> import tempfile
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
    with _draft(path) as draft:
        os.mkdir(draft)
        yield draft
        try:
            os.rename(draft, path)  # also over an empty folder
        except OSError:
            if not path.is_dir():
                raise
            for file in sorted(draft.iterdir()):
                os.replace(file, path / file.name)


@contextmanager
def swapped_folder(path: str | Path) -> Generator[Path, None, None]:
    """A folder to write to that takes the place of the one at ``path``, of all that is in it, in one step.

    Whoever opens ``path`` sees the old folder or the new one, whole; where the block raises or the process is killed,
    the old one stays. What the old folder had and the block does not want must be moved by the block (hard links do).
    Missing parent folders are made.

    Where the system cannot exchange two folders in one step, there is an instant without any (:func:`is_swapped`).

    Example:
        >>> import tempfile
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
    if path.is_dir() and _holds_working_directory(path):
        raise OSError(
            errno.EBUSY, "the working directory is there, which cannot be replaced; write to a folder in it", str(path)
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, f"expected a folder, {error.filename} is a file", str(path)) from None
    with _draft(path) as draft:
        os.mkdir(draft)
        yield draft
        if path.is_dir():
            shutil.copymode(path, draft)
            exchange(draft, path)  # then the draft is the old one, and goes
        else:
            try:
                os.rename(draft, path)
            except OSError:
                if not path.is_dir():
                    raise
                exchange(draft, path)  # another process has written one meanwhile


def _holds_working_directory(path: Path) -> bool:
    place, here = os.path.realpath(path), os.path.realpath(os.curdir)
    return os.path.commonpath((place, here)) == place


def exchange(draft: Path, path: Path) -> None:
    """Puts a folder in the place of another one of the same file system, in one step where the system has that.

    Otherwise the old one is set aside for an instant: beside the draft, where :func:`_sweep` finds it.
    """
    if _renameat2 is not None and not _renameat2(_HERE, bytes(draft), _HERE, bytes(path), _EXCHANGE):
        return
    aside = _aside(draft)
    os.rename(path, aside)
    try:
        os.rename(draft, path)
    except BaseException:
        os.rename(aside, path)
        raise


def _aside(draft: Path) -> Path:
    """Where the old folder is while the new one takes its place."""
    return draft.with_name(draft.name + ".old")


def is_swapped(path: str | Path) -> bool:
    """Whether a folder is missing because the system cannot exchange two folders in one step.

    It was set aside a moment ago and the new one is about to come, or the process that did it has died since; then the
    next writer puts the old one back.
    """
    place = Path(path).absolute()
    drafts = [_folder_of_draft(place, number) / place.name for number in range(_SWEPT)]
    return any(_aside(draft).exists() for draft in drafts) and not place.exists()


# -- drafts -----------------------------------------------------------------------------------------------------------
# A draft stands in a folder of its own beside the place that it will take: ".NAME.NUMBER.tmp". Its writer holds a lock
# on that folder for as long as it lives; a folder that is not locked was left by a process that was killed, and goes
# when the next draft is made. Whoever has the lock may delete the folder; whoever makes one must see, once it has the
# lock, that it was not deleted before.


#: how many drafts are looked at for what other processes have left
_SWEPT = 8


@contextmanager
def _draft(place: Path) -> Generator[Path, None, None]:
    """The path of a draft, which is not there yet; whatever is in its folder at the end goes."""
    folder, lock = _locked_folder(place.absolute())
    try:
        yield folder / place.name
    except OSError as error:
        if error.errno is None or (error.filename is not None and not str(error.filename).startswith(str(folder))):
            raise
        raise _of(place, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _folder_of_draft(place: Path, number: int) -> Path:
    return place.with_name(f".{place.name}.{number}.tmp")


def _locked_folder(place: Path) -> tuple[Path, int | None]:
    """A new folder for a draft, and the lock on it; the folders of dead writers are deleted.

    Without a lock where the system has none: then nothing is deleted.
    """
    _sweep(place)
    number = 0
    while True:
        folder = _folder_of_draft(place, number)
        try:
            os.mkdir(folder)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            raise _of(place, error) from None
        try:
            lock = _lock(folder)
        except OSError:
            return folder, None  # a file system without locks
        if lock is not None:
            return folder, lock


def _sweep(place: Path) -> None:
    """Deletes the drafts of a place whose writers are dead; a folder that one has set aside is put back."""
    for number in range(_SWEPT):
        folder = _folder_of_draft(place, number)
        if not os.path.lexists(folder):
            continue
        try:
            lock = _lock(folder)
        except OSError:
            continue
        if lock is None:
            continue
        try:
            aside = _aside(folder / place.name)
            if os.path.lexists(aside) and not os.path.lexists(place):
                os.rename(aside, place)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _lock(folder: Path) -> int | None:
    """The lock on a folder; ``None`` where another process has it, or the folder is gone.

    Raises:
        OSError: there are no locks here.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "there are no locks")
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), os.lstat(folder)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


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
