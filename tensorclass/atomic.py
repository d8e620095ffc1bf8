"""Files and folders that are written as a whole or not at all.

The draft stands beside its place under another name until it is whole. What a killed process leaves of that goes when
something is written to the same place again.

Whoever writes under Ctrl-C adds a window in which it comes at once. Without it there is an instant, at the end of the
block, in which an interrupt leaves the draft until the traceback is dropped::

    with uninterrupted() as section, whole_file(path) as file, section.interruptible():
        file.write(text)

A link is followed: the file or folder that it leads to is replaced, or made. What is replaced leaves its mode, and
where that is permitted its owner and group; what is new has those that ``open()`` and ``os.mkdir()`` give.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import shutil
import stat
import sys
import time
from abc import abstractmethod
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, TypeVar

from tensorclass.folder_locks import FolderLock
from tensorclass.interrupts import uninterrupted
from tensorclass.printable import printable

try:
    import fcntl
except ImportError:  # it is none of Unix
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")


def whole_file(path: str | os.PathLike[str], *, follow: bool = True) -> AbstractContextManager[IO[bytes]]:
    """A file to write to that takes its name only when all is written and on disk.

    It is written beside its place under another name. Where the block raises, that is removed, and what stood at
    ``path`` stays.

    Args:
        path: the place.
        follow: write to what a link there leads to; otherwise the link is replaced.

    Raises:
        IsADirectoryError: there is a folder.
        OSError: there is a pipe, a device, or a link that leads to itself; or it cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_file(f"{folder}/result.json") as file:
        ...         _ = file.write(b"{}")
        ...     os.listdir(folder)
        ['result.json']
    """
    return _WholeFile(path, follow)


def whole_path(path: str | os.PathLike[str]) -> AbstractContextManager[Path]:
    """:func:`whole_file` for writers that open the file themselves: the path of the draft, which is not there yet.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole_path(f"{folder}/result.json") as draft:
        ...         _ = draft.write_text("{}")
        ...     os.listdir(folder)
        ['result.json']
    """
    return _WholePath(path)


def whole_folder(path: str | os.PathLike[str]) -> AbstractContextManager[Path]:
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
    return _WholeFolder(path)


def swapped_folder(
    path: str | os.PathLike[str], folder_lock: FolderLock | None = None, finish: Callable[[Path], None] | None = None
) -> AbstractContextManager[Path]:
    """A folder to write to that takes the place of the one at ``path``, of all that is in it, in one step.

    Whoever opens ``path`` sees the old folder or the new one, whole; where the block raises or the process is killed,
    the old one stays. What the old folder had and the block does not want must be moved by the block (hard links do).
    Missing parent folders are made. Files that have the name of an old one get its mode.

    Where the system cannot exchange two folders in one step, there is an instant without any (:func:`is_swapped`).

    Writers of one folder take turns: the new folder takes its place when no other writer is at work in the old one.

    Args:
        path: the folder.
        folder_lock: that of a writer who has it already, or has more to do in it.
        finish: called with the draft when it has the lock and there is an old folder: what is taken from that.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     for text in ("old", "new"):
        ...         with swapped_folder(f"{parent}/results") as folder:
        ...             _ = (folder / text).write_text(text)
        ...     os.listdir(parent), os.listdir(f"{parent}/results")
        (['results'], ['new'])
    """
    return _SwappedFolder(path, folder_lock, finish)


def acquire_folder(folder_lock: FolderLock, path: str | os.PathLike[str]) -> bool:
    """:meth:`FolderLock.acquire`, also where a folder is set aside for an instant (:func:`is_swapped`)."""
    end = time.monotonic() + 1.0
    while not folder_lock.acquire(path):
        if not is_swapped(path) or time.monotonic() > end:
            return False
        time.sleep(0.001)
        _sweep(_followed(path))  # puts back the one of a process that was killed
    return True


def exchange(draft: Path, path: Path) -> None:
    """Puts a folder in the place of another one of the same file system, in one step where the system has that.

    Otherwise the old one is set aside for an instant: beside the draft, where :func:`_sweep` finds it.
    """
    if _renameat2 is not None and not _renameat2(_HERE, bytes(draft), _HERE, bytes(path), _EXCHANGE):
        return
    aside = _aside(str(draft))
    os.rename(path, aside)
    try:
        os.rename(draft, path)
    except BaseException:
        with suppress(OSError):  # then it is put back with the draft's end, or by the next writer
            os.rename(aside, path)
        raise


def is_swapped(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is missing because the system cannot exchange two folders in one step.

    It was set aside a moment ago and the new one is about to come, or the process that did it has died since; then the
    next writer puts the old one back.
    """
    place = os.path.realpath(path) if os.path.islink(path) else os.path.abspath(path)
    name = os.path.basename(place)
    asides = [_aside(os.path.join(folder, name)) for folder in _folders_of_drafts(place)]
    return any(map(_may_be_there, asides)) and not os.path.exists(place)


def _may_be_there(path: str) -> bool:
    try:
        os.lstat(path)
    except PermissionError:  # drafts of other users are theirs
        return True
    except OSError:
        return False
    return True


# -- drafts -----------------------------------------------------------------------------------------------------------
# A draft stands in a folder of its own beside the place that it will take: ".NAME.NUMBER.tmp", which nobody else may
# enter. Its writer holds a lock on that folder for as long as it lives; a folder that is not locked was left by a
# process that was killed, and goes when the next draft is made. Whoever has the lock may delete the folder; whoever
# makes one must see, once it has the lock, that it was not deleted before.


#: how many drafts are looked at for what other processes have left
_SWEPT = 8


class _Draft:
    """The folder of a draft, locked."""

    __slots__ = ("file", "folder", "folder_lock", "lock", "path", "pid", "place")

    def __init__(self, place: str, given: str | os.PathLike[str]) -> None:
        self.place = place
        self.pid = os.getpid()
        self.file: IO[bytes] | None = None  #: the draft, where it is open
        self.folder_lock: FolderLock | None = None  #: that ends with the draft
        self.folder, self.lock = _locked_folder(place, given)
        self.path: str = os.path.join(self.folder, os.path.basename(place))  #: which is not there yet

    def discard(self) -> None:
        """Remove whatever is in the folder, and the lock. What cannot be removed is left for the next writer."""
        try:
            if self.file is not None:
                with suppress(OSError, ValueError):  # what could not be written goes anyway; a block may detach it
                    self.file.close()
            # in a process that was forked meanwhile, the draft is that of the other one
            if self.pid == os.getpid():
                _remove(self.folder, self.place)
        finally:
            lock, self.lock = self.lock, None
            if lock is not None:
                with suppress(OSError):
                    os.close(lock)
            if self.folder_lock is not None:
                self.folder_lock.release()


def _remove(folder: str, place: str) -> None:
    """Remove the folder of a draft. What cannot be removed is left for the next writer."""
    try:
        os.rmdir(folder)  # most are empty
    except OSError:
        if _put_back(os.path.join(folder, os.path.basename(place)), place):
            with suppress(OSError):  # of a handle that it closes
                shutil.rmtree(folder, ignore_errors=True)


def _put_back(draft: str, place: str) -> bool:
    """Put a folder that stands aside beside a draft in its place, if that is free. ``False`` if it cannot be done."""
    aside = _aside(draft)
    try:
        os.lstat(aside)
        if not os.path.lexists(place):
            os.rename(aside, place)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _kept(draft: _Draft) -> Generator[None, None, None]:
    """Keep a draft until this is closed, or dropped: no other finalizer runs where there is nothing left to do."""
    try:
        yield
    finally:
        with uninterrupted():
            draft.discard()


class _Whole(AbstractContextManager[T]):
    """A draft, made at the begin of a block, that takes its place at the end."""

    _draft: _Draft | None = None
    _kept: Generator[None, None, None] | None = None  #: removes the draft when it ends, or nobody has it any more

    def __init__(self, path: str | os.PathLike[str], follow: bool = True) -> None:
        self._given = path
        self._follow = follow

    @abstractmethod
    def _checked(self, place: str) -> None:
        """Raise an error where something else stands at the place."""

    @abstractmethod
    def _made(self, draft: _Draft) -> T:
        """Return the value that the block gets."""

    @abstractmethod
    def _commit(self, draft: _Draft) -> None:
        """Put the draft in its place."""

    def __enter__(self) -> T:
        try:
            with uninterrupted():
                place = _followed(self._given) if self._follow else os.path.abspath(self._given)
                self._checked(place)
                self._draft = _Draft(place, self._given)
                self._kept = _kept(self._draft)
                next(self._kept)
                made = self._made(self._draft)
            return made
        except BaseException as error:
            try:
                self._raise_as_given(error)
            finally:
                self._end()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with uninterrupted():
                try:
                    if error is None and self._draft is not None:
                        self._commit(self._draft)
                    else:
                        self._raise_as_given(error)
                except OSError as failed:
                    self._raise_as_given(failed)
                    raise
                finally:
                    self._end()
        finally:
            if self._kept is not None:  # an interrupt came before all of that
                self._end()

    def _end(self) -> None:
        """Remove what is left of the draft."""
        with uninterrupted():
            kept, self._kept = self._kept, None
            self._draft = None
            if kept is not None:
                kept.close()

    def _raise_as_given(self, error: BaseException | None) -> None:
        """Raise an error of the draft as one of the file that was asked for."""
        draft = self._draft
        if draft is None or not isinstance(error, OSError) or error.errno is None:
            return
        if error.filename is None or str(error.filename).startswith(draft.folder):
            raise _of(Path(self._given), error) from error


class _WholeFile(_Whole[IO[bytes]]):
    def _checked(self, place: str) -> None:
        _check_file(place, self._given, self._follow)

    def _made(self, draft: _Draft) -> IO[bytes]:
        mode = 0o600 if os.path.lexists(draft.place) else 0o666
        opener = functools.partial(os.open, mode=mode)
        draft.file = open(draft.path, "xb", opener=opener)  # noqa: SIM115  # closed with the draft
        return draft.file

    def _commit(self, draft: _Draft) -> None:
        file = draft.file
        assert file is not None
        file.flush()
        os.fsync(file.fileno())
        file.close()
        _as_before(draft.path, draft.place)
        os.replace(draft.path, draft.place)


class _WholePath(_Whole[Path]):
    def _checked(self, place: str) -> None:
        _check_file(place, self._given, self._follow)

    def _made(self, draft: _Draft) -> Path:
        return Path(draft.path)

    def _commit(self, draft: _Draft) -> None:
        if not _as_before(draft.path, draft.place):  # a writer may keep others out
            _set_mode(draft.path, _mode_of_new(draft.folder))
        os.replace(draft.path, draft.place)


class _WholeFolder(_Whole[Path]):
    def _checked(self, place: str) -> None:
        _check_folder(place, self._given)
        _make_above(place, self._given)

    def _made(self, draft: _Draft) -> Path:
        os.mkdir(draft.path)
        return Path(draft.path)

    def _commit(self, draft: _Draft) -> None:
        _as_before(draft.path, draft.place, deep=True)
        try:
            os.rename(draft.path, draft.place)  # also over an empty folder
        except OSError:
            if not os.path.isdir(draft.place):
                raise
            for name in sorted(os.listdir(draft.path)):
                os.replace(os.path.join(draft.path, name), os.path.join(draft.place, name))


class _SwappedFolder(_Whole[Path]):
    def __init__(
        self, path: str | os.PathLike[str], folder_lock: FolderLock | None, finish: Callable[[Path], None] | None
    ) -> None:
        super().__init__(path)
        self._own = FolderLock() if folder_lock is None else None
        self._folder_lock = folder_lock or self._own or FolderLock()
        self._finish = finish

    def _checked(self, place: str) -> None:
        _check_folder(place, self._given)
        if os.path.isdir(place) and _holds_working_directory(place):
            raise OSError(
                errno.EBUSY,
                "the working directory is there, which cannot be replaced; write to a folder in it",
                os.path.abspath(self._given),
            )
        _make_above(place, self._given)
        self._folder_lock.share_above(place)

    def _made(self, draft: _Draft) -> Path:
        draft.folder_lock = self._own
        os.mkdir(draft.path)
        return Path(draft.path)

    def _commit(self, draft: _Draft) -> None:
        self._folder_lock.acquire_new(draft.path)  # until the old one is gone
        while True:
            if acquire_folder(self._folder_lock, draft.place):
                if self._finish is not None:
                    self._finish(Path(draft.path))
                _as_before(draft.path, draft.place, deep=True)
                exchange(Path(draft.path), Path(draft.place))  # then the draft is the old one, and goes
                return
            try:
                os.rename(draft.path, draft.place)
                return
            except OSError:
                if not os.path.isdir(draft.place):
                    raise  # otherwise another process has written one meanwhile

    def _end(self) -> None:
        with uninterrupted():
            super()._end()
            if self._own is not None:
                self._own.release()  # no draft was made


# -- places -----------------------------------------------------------------------------------------------------------


def _followed(path: str | os.PathLike[str]) -> str:
    """The place that is written to: where a link leads."""
    if not os.path.islink(path):
        return os.path.abspath(path)
    place = os.path.realpath(path)
    if os.path.islink(place):
        raise OSError(errno.ELOOP, "can't be written: the link leads to itself", str(path))
    return place


def _check_file(place: str, given: str | os.PathLike[str], follow: bool) -> None:
    try:
        mode = os.stat(place, follow_symlinks=follow).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _of(Path(given), error) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file to write to, found a folder", str(given))
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise OSError(
            errno.EINVAL, "expected a file to write to, found a pipe or a device, which cannot be replaced", str(given)
        )


def _check_folder(place: str, given: str | os.PathLike[str]) -> None:
    if os.path.exists(place) and not os.path.isdir(place):
        raise NotADirectoryError(f"{printable(os.path.abspath(given))}: expected a folder to write to, found a file")


def _make_above(place: str, given: str | os.PathLike[str]) -> None:
    parent = os.path.dirname(place)
    if os.path.isdir(parent):
        return
    try:
        os.makedirs(parent, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(
            errno.ENOTDIR, f"expected a folder, {error.filename} is a file", os.path.abspath(given)
        ) from None


def _holds_working_directory(path: str) -> bool:
    place, here = os.path.realpath(path), os.path.realpath(os.curdir)
    return os.path.commonpath((place, here)) == place


# -- modes ------------------------------------------------------------------------------------------------------------


def _as_before(draft: str, place: str, deep: bool = False) -> bool:
    """Give a draft mode, owner and group of what it replaces; ``False`` where there is nothing, or no such thing.

    Args:
        draft: a file or a folder.
        place: where it goes.
        deep: for a folder: do so for what is in it, too.
    """
    try:
        old = os.lstat(place)
    except FileNotFoundError:
        return False
    new = os.lstat(draft)
    if stat.S_IFMT(new.st_mode) != stat.S_IFMT(old.st_mode):
        return False
    _take_over(draft, new, old)
    if deep:
        _take_over_below(draft, place)
    return True


def _take_over_below(draft: str, place: str) -> None:
    with os.scandir(draft) as found:
        entries = list(found)
    for entry in entries:
        name = f"{place}{os.sep}{entry.name}"
        try:
            old = os.lstat(name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        new = entry.stat(follow_symlinks=False)
        if stat.S_IFMT(new.st_mode) == stat.S_IFMT(old.st_mode) and not stat.S_ISLNK(new.st_mode):
            _take_over(entry.path, new, old)
            if stat.S_ISDIR(new.st_mode):
                _take_over_below(entry.path, name)


def _take_over(path: str, new: os.stat_result, old: os.stat_result) -> None:
    mode = stat.S_IMODE(old.st_mode)
    if not stat.S_ISDIR(old.st_mode):
        mode &= 0o777  # whoever writes to a file takes away that it runs as its owner
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        if not _owned(path, old.st_uid, old.st_gid) and not _owned(path, -1, old.st_gid) and new.st_gid != old.st_gid:
            mode &= ~0o2070 | (mode & 0o007) << 3  # of another group: it may do what all may
        new = os.lstat(path)
    if stat.S_IMODE(new.st_mode) != mode:
        os.chmod(path, mode)


def _owned(path: str, user: int, group: int) -> bool:
    """Give a file to a user and a group; return False if that is not permitted."""
    try:
        os.chown(path, user, group)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOTSUP, errno.ENOSYS):
            raise
        return False
    return True


def _set_mode(path: str, mode: int) -> None:
    if stat.S_IMODE(os.lstat(path).st_mode) != mode:
        os.chmod(path, mode)


def _mode_of_new(folder: str) -> int:
    """The mode that ``open()`` gives to a new file: that of one. The umask can only be read by setting it."""
    handle = os.open(
        os.path.join(folder, ".mode"), os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0), 0o666
    )
    try:
        return stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        with suppress(OSError):  # it goes with the draft
            os.close(handle)


# -- folders of drafts ------------------------------------------------------------------------------------------------


def _folders_of_drafts(place: str) -> list[str]:
    """The folders that drafts of a place take first."""
    begin = _begin_of_draft(place)
    return [f"{begin}{number}.tmp" for number in range(_SWEPT)]


def _begin_of_draft(place: str) -> str:
    parent, name = os.path.split(place)
    return os.path.join(parent, f".{name if _is_short(name) else _digest(name)}.")


def _digest(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()


def _aside(draft: str) -> str:
    """Return the path of the old folder while the new one takes its place."""
    parent, name = os.path.split(draft)
    return os.path.join(parent, f"{name if _is_short(name) else ''}.old")


def _is_short(name: str) -> bool:
    return len(name) <= _LONGEST // 4 or len(os.fsencode(name)) <= _LONGEST


_LONGEST = 240  #: bytes of a name: file systems take 255


def _locked_folder(place: str, given: str | os.PathLike[str]) -> tuple[str, int | None]:
    """A new folder for a draft, and the lock on it; the folders of dead writers are deleted.

    Without a lock where the system has none: then nothing is deleted.

    Args:
        place: where the draft goes.
        given: how errors call that.
    """
    _sweep(place)
    begin, number = _begin_of_draft(place), 0
    while True:
        folder = f"{begin}{number}.tmp"
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            raise _of(Path(given), error) from None
        try:
            lock = _lock(folder)
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                return folder, None  # a file system without locks
            with suppress(OSError):
                os.rmdir(folder)
            raise _of(Path(given), error) from None
        if lock is not None:
            return folder, lock


#: errors that say nothing of whether a file system has locks
_EXHAUSTED = (errno.EIO, errno.ENOSPC, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def _sweep(place: str) -> None:
    """Deletes the drafts of a place whose writers are dead; a folder that one has set aside is put back."""
    for folder in _folders_of_drafts(place):
        if not os.access(folder, os.F_OK):
            continue
        try:
            lock = _lock(folder)
        except OSError:
            continue
        if lock is None:
            continue
        try:
            _remove(folder, place)
        finally:
            with suppress(OSError):
                os.close(lock)


def _lock(folder: str) -> int | None:
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
        with suppress(OSError):
            os.close(handle)
        raise
    with suppress(OSError):
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
