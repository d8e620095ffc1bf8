"""Write files and folders atomically: all of them or nothing.

A draft is written beside the target under another name, and renamed when it is complete. If the process is killed, the
draft is left; the next write to the same target removes it.

Code that Ctrl-C may reach makes the block uninterrupted, except for the writing. Otherwise there is an instant at the
end of the block in which an interrupt leaves the draft until the traceback is dropped::

    with uninterrupted() as section, whole_file(path) as file, section.interruptible():
        file.write(text)

Links are followed: the file or folder that a link leads to is replaced or made. A file that replaces another gets its
mode and, if permitted, its owner and group; a new one gets those of ``open()`` and ``os.mkdir()``.
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

from tensorclass.support.folder_locks import FolderLock
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable

try:
    import fcntl
except ImportError:  # not Unix
    fcntl = None  # type: ignore[assignment]

T = TypeVar("T")


def whole_file(path: str | os.PathLike[str], *, follow: bool = True) -> AbstractContextManager[IO[bytes]]:
    """Open a file for writing bytes that appears at ``path`` at the end of the block, when it is complete and on disk.

    If the block raises, the draft is removed and an old file at ``path`` stays.

    Args:
        path: the target.
        follow: if the target is a link, write to the file that it leads to; otherwise replace the link.

    Raises:
        IsADirectoryError: the target is a folder.
        OSError: the target is a pipe, a device, or a link that leads to itself; or it cannot be written.

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
    """Do the same as :func:`whole_file` for code that opens the file itself: give the path of the draft to be made.

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
    """Give a new folder that appears at ``path`` at the end of the block.

    If ``path`` is a folder already, each new file replaces the old file of its name atomically, and other files stay.
    Missing parent folders are made.

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
    """Give a new folder that replaces the one at ``path``, with all its content, in one step at the end of the block.

    Readers of ``path`` see the complete old folder or the complete new one. If the block raises or the process is
    killed, the old one stays. Files of the old folder that shall stay must be linked or moved by the block or by
    ``finish``. Missing parent folders are made. Files with the name of an old file get its mode.

    If the system cannot exchange two folders in one step, there is an instant without a folder (:func:`is_swapped`).

    Writers of one folder take turns: the new folder waits until no other writer changes the old one.

    Args:
        path: the folder.
        folder_lock: the lock of the folder, of a caller that holds it already or keeps it after the block.
        finish: called with the draft when the old folder, if there is one, is locked.

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
    """Call :meth:`FolderLock.acquire`; wait if the folder is missing for an instant (:func:`is_swapped`)."""
    end = time.monotonic() + 1.0
    while not folder_lock.acquire(path):
        # The last: it was put back since.
        if time.monotonic() > end or not (is_swapped(path) or os.path.exists(path)):
            return False
        time.sleep(0.001)
        _remove_dead_drafts(_resolve_links(path))  # restores the old folder of a process that was killed
    return True


def exchange(draft: Path, path: Path) -> None:
    """Replace a folder by another one of the same file system, in one step if the system can do that.

    Otherwise the old one is moved beside the draft first, where :func:`_remove_dead_drafts` finds it.
    """
    if _renameat2 is not None and not _renameat2(_HERE, bytes(draft), _HERE, bytes(path), _EXCHANGE):
        return
    old_folder = _old_folder_path(str(draft))
    os.rename(path, old_folder)
    try:
        os.rename(draft, path)
    except BaseException:
        with suppress(OSError):  # if this fails, the end of the draft or the next writer restores it
            os.rename(old_folder, path)
        raise


def is_swapped(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is missing because the system cannot exchange two folders in one step.

    Either the new one is about to appear, or the process that moved the old one has died; then the next writer restores
    the old one.
    """
    target = os.path.realpath(path) if os.path.islink(path) else os.path.abspath(path)
    name = os.path.basename(target)
    asides = [_old_folder_path(os.path.join(folder, name)) for folder in _draft_folders(target)]
    return any(map(_may_be_there, asides)) and not os.path.exists(target)


def _may_be_there(path: str) -> bool:
    try:
        os.lstat(path)
    except PermissionError:  # a draft of another user
        return True
    except OSError:
        return False
    return True


# -- drafts -----------------------------------------------------------------------------------------------------------
# A draft is in a folder of its own beside the target: ".NAME.NUMBER.tmp", which other users cannot enter. Its writer
# holds a lock on that folder as long as it lives. A folder that is not locked was left by a process that was killed,
# and is removed when the next draft is made. The holder of the lock may delete the folder; so a writer that has made
# and locked a folder must check that it was not deleted in between.


#: the number of draft folders that are checked for dead writers
_SWEPT = 8


class _Draft:
    """A draft and its locked folder."""

    __slots__ = ("file", "folder", "folder_lock", "lock", "path", "pid", "target")

    def __init__(self, target: str, given: str | os.PathLike[str]) -> None:
        self.target = target
        self.pid = os.getpid()
        self.file: IO[bytes] | None = None  #: the open draft
        self.folder_lock: FolderLock | None = None  #: released with the draft
        self.folder, self.lock = _locked_folder(target, given)
        self.path: str = os.path.join(self.folder, os.path.basename(target))  #: of the draft

    def discard(self) -> None:
        """Remove the folder and its content, and release the lock. The next writer removes what cannot be removed."""
        try:
            if self.file is not None:
                with suppress(OSError, ValueError):  # the file is removed anyway; a block may have detached it
                    self.file.close()
            # a process that was forked meanwhile must not remove the draft of its parent
            if self.pid == os.getpid():
                _remove(self.folder, self.target)
        finally:
            lock, self.lock = self.lock, None
            if lock is not None:
                with suppress(OSError):
                    os.close(lock)
            if self.folder_lock is not None:
                self.folder_lock.release()


def _remove(folder: str, target: str) -> None:
    """Remove the folder of a draft. The next writer removes what cannot be removed."""
    try:
        os.rmdir(folder)  # the common case: it is empty
    except OSError:
        if _restore_old_folder(os.path.join(folder, os.path.basename(target)), target):
            with suppress(OSError):  # from closing a handle
                shutil.rmtree(folder, ignore_errors=True)


def _restore_old_folder(draft: str, target: str) -> bool:
    """Move an old folder beside a draft back to the target, if that is free. Return ``False`` if that fails."""
    old_folder = _old_folder_path(draft)
    try:
        os.lstat(old_folder)
        if not os.path.lexists(target):
            os.rename(old_folder, target)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _discard_at_end(draft: _Draft) -> Generator[None, None, None]:
    """Discard a draft when this generator is closed or dropped. Unlike ``__del__``, it does nothing after its end."""
    try:
        yield
    finally:
        with uninterrupted():
            draft.discard()


class _Whole(AbstractContextManager[T]):
    """A context that makes a draft at its start and renames it to the target at its end."""

    _draft: _Draft | None = None
    _cleanup: Generator[None, None, None] | None = None  #: removes the draft when it ends or is dropped

    def __init__(self, path: str | os.PathLike[str], follow: bool = True) -> None:
        self._given = path
        self._follow = follow

    @abstractmethod
    def _check_target(self, target: str) -> None:
        """Raise if the target cannot be replaced."""

    @abstractmethod
    def _open_draft(self, draft: _Draft) -> T:
        """Make the draft; return the value for the block."""

    @abstractmethod
    def _commit(self, draft: _Draft) -> None:
        """Rename the draft to the target."""

    def __enter__(self) -> T:
        try:
            with uninterrupted():
                target = _resolve_links(self._given) if self._follow else os.path.abspath(self._given)
                self._check_target(target)
                self._draft = _Draft(target, self._given)
                self._cleanup = _discard_at_end(self._draft)
                next(self._cleanup)
                opened = self._open_draft(self._draft)
            return opened
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
            if self._cleanup is not None:  # an interrupt came before the inner block
                self._end()

    def _end(self) -> None:
        """Remove the draft if it is still there."""
        with uninterrupted():
            kept, self._cleanup = self._cleanup, None
            self._draft = None
            if kept is not None:
                kept.close()

    def _raise_as_given(self, error: BaseException | None) -> None:
        """Raise an error of the draft as one of the target."""
        draft = self._draft
        if draft is None or not isinstance(error, OSError) or error.errno is None:
            return
        if error.filename is None or str(error.filename).startswith(draft.folder):
            raise _error_of_target(Path(self._given), error) from error


class _WholeFile(_Whole[IO[bytes]]):
    def _check_target(self, target: str) -> None:
        _check_file(target, self._given)

    def _open_draft(self, draft: _Draft) -> IO[bytes]:
        mode = 0o600 if os.path.lexists(draft.target) else 0o666
        opener = functools.partial(os.open, mode=mode)
        draft.file = open(draft.path, "xb", opener=opener)  # noqa: SIM115  # closed with the draft
        return draft.file

    def _commit(self, draft: _Draft) -> None:
        file = draft.file
        assert file is not None
        file.flush()
        os.fsync(file.fileno())
        file.close()
        _copy_metadata(draft.path, draft.target)
        os.replace(draft.path, draft.target)


class _WholePath(_Whole[Path]):
    def _check_target(self, target: str) -> None:
        _check_file(target, self._given)

    def _open_draft(self, draft: _Draft) -> Path:
        return Path(draft.path)

    def _commit(self, draft: _Draft) -> None:
        if not _copy_metadata(draft.path, draft.target):  # the writer may have made it private
            _set_mode(draft.path, _mode_of_new_file(draft.path))
        os.replace(draft.path, draft.target)


class _WholeFolder(_Whole[Path]):
    def _check_target(self, target: str) -> None:
        _check_folder(target, self._given)
        _make_parents(target, self._given)

    def _open_draft(self, draft: _Draft) -> Path:
        os.mkdir(draft.path)
        return Path(draft.path)

    def _commit(self, draft: _Draft) -> None:
        _copy_metadata(draft.path, draft.target, deep=True)
        try:
            os.rename(draft.path, draft.target)  # also over an empty folder
        except OSError:
            if not os.path.isdir(draft.target):
                raise
            for name in sorted(os.listdir(draft.path)):
                os.replace(os.path.join(draft.path, name), os.path.join(draft.target, name))


class _SwappedFolder(_Whole[Path]):
    def __init__(
        self, path: str | os.PathLike[str], folder_lock: FolderLock | None, finish: Callable[[Path], None] | None
    ) -> None:
        super().__init__(path)
        self._own = FolderLock() if folder_lock is None else None
        self._folder_lock = folder_lock or self._own or FolderLock()
        self._finish = finish

    def _check_target(self, target: str) -> None:
        _check_folder(target, self._given)
        if os.path.isdir(target) and _contains_working_directory(target):
            raise OSError(
                errno.EBUSY,
                "the folder is or contains the working directory, which cannot be replaced; write to a folder in it",
                os.path.abspath(self._given),
            )
        _make_parents(target, self._given)
        self._folder_lock.share_above(target)

    def _open_draft(self, draft: _Draft) -> Path:
        draft.folder_lock = self._own
        os.mkdir(draft.path)
        return Path(draft.path)

    def _commit(self, draft: _Draft) -> None:
        self._folder_lock.acquire_new(draft.path)  # held until the old folder is removed
        while True:
            if acquire_folder(self._folder_lock, draft.target):
                if self._finish is not None:
                    self._finish(Path(draft.path))
                _copy_metadata(draft.path, draft.target, deep=True)
                exchange(Path(draft.path), Path(draft.target))  # the draft is then the old one, and is removed
                return
            try:
                os.rename(draft.path, draft.target)
                return
            except OSError:
                if not os.path.isdir(draft.target):
                    raise  # otherwise another process has made the folder meanwhile

    def _end(self) -> None:
        with uninterrupted():
            super()._end()
            if self._own is not None:
                self._own.release()  # no draft was made


# -- targets ----------------------------------------------------------------------------------------------------------


def _resolve_links(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of the target, with a link followed."""
    if not os.path.islink(path):
        return os.path.abspath(path)
    target = os.path.realpath(path)
    if os.path.islink(target):
        raise OSError(errno.ELOOP, "can't be written: the link leads to itself", str(path))
    return target


def _check_file(target: str, given: str | os.PathLike[str]) -> None:
    try:
        mode = os.lstat(target).st_mode  # a link only where it is to be replaced: others are resolved
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _error_of_target(Path(given), error) from None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file to write to, found a folder", str(given))
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise OSError(
            errno.EINVAL, "expected a file to write to, found a pipe or a device, which cannot be replaced", str(given)
        )


def _check_folder(target: str, given: str | os.PathLike[str]) -> None:
    if os.path.exists(target) and not os.path.isdir(target):
        raise NotADirectoryError(f"{printable(os.path.abspath(given))}: expected a folder to write to, found a file")


def _make_parents(target: str, given: str | os.PathLike[str]) -> None:
    parent = os.path.dirname(target)
    if os.path.isdir(parent):
        return
    try:
        os.makedirs(parent, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(
            errno.ENOTDIR, f"expected a folder, {error.filename} is a file", os.path.abspath(given)
        ) from None


def _contains_working_directory(path: str) -> bool:
    target, here = os.path.realpath(path), os.path.realpath(os.curdir)
    return os.path.commonpath((target, here)) == target


# -- modes ------------------------------------------------------------------------------------------------------------


def _copy_metadata(draft: str, target: str, deep: bool = False) -> bool:
    """Give a draft the mode, owner and group of the target. Return ``False`` if that is missing or of another type.

    Args:
        draft: a file or a folder.
        target: the path that it replaces.
        deep: for a folder: do the same for its content.
    """
    try:
        old = os.lstat(target)
    except FileNotFoundError:
        return False
    new = os.lstat(draft)
    if stat.S_IFMT(new.st_mode) != stat.S_IFMT(old.st_mode):
        return False
    _copy_mode_and_owner(draft, new, old)
    if deep:
        _copy_metadata_below(draft, target)
    return True


def _copy_metadata_below(draft: str, target: str) -> None:
    with os.scandir(draft) as found:
        entries = list(found)
    for entry in entries:
        name = f"{target}{os.sep}{entry.name}"
        try:
            old = os.lstat(name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        new = entry.stat(follow_symlinks=False)
        if stat.S_IFMT(new.st_mode) == stat.S_IFMT(old.st_mode) and not stat.S_ISLNK(new.st_mode):
            _copy_mode_and_owner(entry.path, new, old)
            if stat.S_ISDIR(new.st_mode):
                _copy_metadata_below(entry.path, name)


def _copy_mode_and_owner(path: str, new: os.stat_result, old: os.stat_result) -> None:
    mode = stat.S_IMODE(old.st_mode)
    if not stat.S_ISDIR(old.st_mode):
        mode &= 0o777  # without setuid and setgid, which a write removes too
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        if (
            not _set_owner(path, old.st_uid, old.st_gid)
            and not _set_owner(path, -1, old.st_gid)
            and new.st_gid != old.st_gid
        ):
            mode &= ~0o2070 | (mode & 0o007) << 3  # another group gets the rights of all users
        new = os.lstat(path)
    if stat.S_IMODE(new.st_mode) != mode:
        os.chmod(path, mode)


def _set_owner(path: str, user: int, group: int) -> bool:
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


def _mode_of_new_file(draft: str) -> int:
    """Return the mode that ``open()`` gives to a new file, by making one: reading the umask would mean setting it."""
    folder, name = os.path.split(draft)
    other = os.path.join(folder, ".mode" if name != ".mode" else ".other")
    handle = os.open(other, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    try:
        return stat.S_IMODE(os.fstat(handle).st_mode)
    finally:
        with suppress(OSError):  # the file is removed with the draft
            os.close(handle)


# -- folders of drafts ------------------------------------------------------------------------------------------------


def _draft_folders(target: str) -> list[str]:
    """Return the first folders that drafts of a target use."""
    begin = _draft_prefix(target)
    return [f"{begin}{number}.tmp" for number in range(_SWEPT)]


def _draft_prefix(target: str) -> str:
    parent, name = os.path.split(target)
    return os.path.join(parent, f".{name if _is_short(name) else _digest(name)}.")


def _digest(name: str) -> str:
    return hashlib.sha256(os.fsencode(name)).hexdigest()


def _old_folder_path(draft: str) -> str:
    """Return the path beside a draft to which the old folder is moved while the new one replaces it."""
    parent, name = os.path.split(draft)
    return os.path.join(parent, f"{name if _is_short(name) else ''}.old")


def _is_short(name: str) -> bool:
    return len(name) <= _LONGEST // 4 or len(os.fsencode(name)) <= _LONGEST


_LONGEST = 240  #: bytes of a name: file systems allow 255


def _locked_folder(target: str, given: str | os.PathLike[str]) -> tuple[str, int | None]:
    """Make and lock a folder for a draft; delete the folders of dead writers.

    The lock is ``None`` if the file system has none. Then nothing is deleted.

    Args:
        target: the path that the draft will get.
        given: the target as the caller named it, for errors.
    """
    _remove_dead_drafts(target)
    begin, number = _draft_prefix(target), 0
    while True:
        folder = f"{begin}{number}.tmp"
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            number += 1
            continue
        except OSError as error:
            raise _error_of_target(Path(given), error) from None
        try:
            lock = _lock(folder)
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                return folder, None  # a file system without locks
            with suppress(OSError):
                os.rmdir(folder)
            raise _error_of_target(Path(given), error) from None
        if lock is not None:
            return folder, lock


#: errors that do not tell whether a file system has locks
_EXHAUSTED = (errno.EIO, errno.ENOSPC, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def _remove_dead_drafts(target: str) -> None:
    """Delete the drafts of a target whose writers are dead; restore an old folder that one has moved away."""
    for folder in _draft_folders(target):
        if not os.access(folder, os.F_OK):
            continue
        try:
            lock = _lock(folder)
        except OSError:
            continue
        if lock is None:
            continue
        try:
            _remove(folder, target)
        finally:
            with suppress(OSError):
                os.close(lock)


def _lock(folder: str) -> int | None:
    """Lock a folder; return its descriptor, or ``None`` if another process has the lock or the folder is removed.

    Raises:
        OSError: the file system has no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "this system has no file locks")
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
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


def _error_of_target(path: Path, error: OSError) -> OSError:
    """Return an error of a draft as one of the target."""
    return OSError(error.errno, f"can't be written: {error.strerror}", str(path))
