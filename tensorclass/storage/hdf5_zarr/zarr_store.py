"""The store through which zarr reads and writes a folder. It opens only regular files in the folder and below it.

Each folder on the path of a file is opened through the handle of its parent, and no link is followed, so that nothing
can change between check and use. The outermost folder is held open: if another one takes its path, that one is not
written to.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import stat
import threading
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from tensorclass.storage.common.collection_tree import FileError
from tensorclass.storage.memmap.folder_layout import LONGEST
from tensorclass.storage.memmap.open_folders import close_quietly
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.regular_files import NotRegular, file_type, open_regular

if TYPE_CHECKING:
    from zarr.abc.store import ByteRequest, Store
    from zarr.core.buffer import Buffer, BufferPrototype
else:
    try:
        from zarr.abc.store import Store
    except ImportError:  # the backend has required the library before it makes a store
        Store = object

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_METADATA = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


class HeldFolder:
    """An open folder. It stays the same folder if its path is taken by another one."""

    def __init__(self, path: str) -> None:
        self.path: str = path
        self.handle: int = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        # a finalizer, since __del__ may run when the module os is gone
        self._end: Callable[[], object] = weakref.finalize(self, os.close, self.handle)
        self._lock = threading.Lock()
        self._users = 0
        self._is_closed = False

    def close(self) -> None:
        """Close the folder as soon as no thread of the library uses it. Later use raises."""
        with self._lock:
            self._is_closed = True
            is_free = not self._users
        if is_free:
            self._end()

    @contextmanager
    def used(self) -> Generator[int, None, None]:
        """Give the descriptor for a block, in which it is not closed: its number could become that of another file."""
        with self._lock:
            if self._is_closed:
                raise FileNotFoundError(errno.ENOENT, "the store is closed", self.path)  # zarr may read on
            self._users += 1
        try:
            yield self.handle
        finally:
            with self._lock:
                self._users -= 1
                is_last = self._is_closed and not self._users
            if is_last:
                self._end()

    def is_there(self) -> bool:
        """Return whether the folder is still at its path."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self.handle))
        except FileNotFoundError:
            return False


class FolderStore(Store):
    """The files of a folder by their relative paths."""

    def __init__(self, held: HeldFolder, *, read_only: bool = False) -> None:
        super().__init__(read_only=read_only)
        self.held: HeldFolder = held
        self.root: Path = Path(held.path)
        self._lock = threading.Lock()
        self._writing = 0  #: the number of files that are being written
        self._abandoned: tuple[str, ...] = ()  #: prefixes of paths that must not be written to any more

    def with_read_only(self, read_only: bool = False) -> Self:
        return type(self)(self.held, read_only=read_only)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FolderStore) and self.held is other.held and self.read_only == other.read_only

    def __hash__(self) -> int:
        return hash((id(self.held), self.read_only))

    def __str__(self) -> str:
        return f"file://{self.root.as_posix()}"

    def __repr__(self) -> str:
        return f"FolderStore('{self}')"

    # -- files --------------------------------------------------------------------------------------------------------

    def read(self, key: str, byte_range: ByteRequest | None = None) -> bytes | None:
        """Return the content of a file; ``None`` if there is none.

        Raises:
            FileError: the file, or a folder on its path, is a link, a pipe, a device or a socket.
        """
        *parents, name = self._parts(key)
        with uninterrupted():
            try:
                with self._folder(parents) as folder:
                    handle = open_regular(name, folder=folder, shown=self._shown(key))
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None
            except NotRegular as error:
                raise FileError(str(error)) from None
            with os.fdopen(handle, "rb") as file:
                size = os.fstat(handle).st_size
                if name in _METADATA and size > LONGEST:
                    raise FileError(f"{self._shown(key)}: it is longer than {LONGEST} bytes")
                start, stop = _span(byte_range, size)
                file.seek(start)
                return file.read() if stop is None else file.read(max(0, stop - start))

    def write(self, key: str, value: Any, exclusive: bool = False) -> None:
        """Write a file, all of it or nothing; make the folders on its path.

        Args:
            key: its path in the folder.
            value: its bytes.
            exclusive: raise if the file exists.

        Raises:
            FileError: the path is not that of a file, or goes through something that is not a folder.
            FileExistsError: the file exists, and ``exclusive`` is set.
        """
        *parents, name = self._parts(key)
        with self._counted(key), self._folder(parents, make=True) as folder:
            mode = self._mode(folder, name)
            if mode is not None and not stat.S_ISREG(mode):
                raise FileError(f"{self._shown(key)}: expected a file to write to, found {file_type(mode)}")
            draft = f"{name.split('.')[0]}.{uuid.uuid4().hex}.partial"
            try:
                with os.fdopen(os.open(draft, _DRAFT, 0o666, dir_fd=folder), "wb") as file:
                    file.write(value)
                if exclusive:
                    os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
                    os.unlink(draft, dir_fd=folder)
                else:
                    os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=folder)
                raise

    @contextmanager
    def _counted(self, key: str) -> Generator[None, None, None]:
        with self._lock:
            if key.startswith(self._abandoned):
                raise OSError(errno.ECANCELED, os.strerror(errno.ECANCELED), self._shown(key))
            self._writing += 1
        try:
            yield
        finally:
            with self._lock:
                self._writing -= 1

    def abandon(self, key: str) -> None:
        """Remove a folder that could not be written, and refuse later writes to it.

        If one file cannot be written, zarr writes the others in threads of its own, and does not wait for them.
        """
        with self._lock:
            self._abandoned = (*self._abandoned, f"{key}/")
        while self._writing:
            time.sleep(0.001)
        self.remove(key)

    def remove(self, key: str) -> None:
        """Remove a file, a folder with its content, or a link, but not its target."""
        parts = self._parts(key)
        if not parts:
            with self._folder(()) as folder:
                for name in os.listdir(folder):
                    _remove(folder, name)
            return
        with suppress(FileNotFoundError, NotADirectoryError), self._folder(parts[:-1]) as folder:
            _remove(folder, parts[-1])

    def move(self, key: str, to: str) -> None:
        """Move a file or a folder to a free path."""
        *parents, name = self._parts(key)
        *others, new = self._parts(to)
        with self._folder(parents) as folder, self._folder(others) as target:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=target)

    def has_file(self, key: str) -> bool:
        """Return whether there is a file."""
        *parents, name = self._parts(key) or [""]
        with suppress(FileNotFoundError, NotADirectoryError), self._folder(parents) as folder:
            mode = self._mode(folder, name) if name else stat.S_IFDIR
            if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                raise FileError(f"{self._shown(key)}: expected a file, found {file_type(mode)}, which is not opened")
            return mode is not None and stat.S_ISREG(mode)
        return False

    def names(self, key: str) -> set[str]:
        """Return the names in a folder.

        Raises:
            FileError: one of them is a link, a pipe, a device or a socket.
            FileNotFoundError: there is no such folder.
        """
        with self._folder(self._parts(key)) as folder:
            found = set(os.listdir(folder))
            for name in found:
                mode = self._mode(folder, name)
                if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    followed = "link, which is not followed" if stat.S_ISLNK(mode) else f"{file_type(mode)[2:]}"
                    raise FileError(f"{self._shown(f'{key}/{name}')}: it is a {followed}")
            return found

    def count(self, key: str, most: int) -> int:
        """Count the files in a folder and below it; stop after ``most`` and one."""
        return sum(1 for _ in itertools.islice(self._files_below(key), most + 1))

    def size(self, key: str) -> int:
        """Return the total size in bytes of the files in a folder and below it."""
        return sum(info.st_size for info in self._files_below(key))

    def _files_below(self, key: str) -> Iterator[os.stat_result]:
        """Yield what the system says of each file in a folder and below it."""
        left = [key]
        while left:
            path, found = left.pop(), dict[str, os.stat_result]()
            with suppress(FileNotFoundError, NotADirectoryError), self._folder(self._parts(path)) as folder:
                for name in os.listdir(folder):
                    with suppress(FileNotFoundError):
                        found[name] = os.stat(name, dir_fd=folder, follow_symlinks=False)
            left += [f"{path}/{name}" for name, info in found.items() if stat.S_ISDIR(info.st_mode)]
            yield from [info for info in found.values() if stat.S_ISREG(info.st_mode)]

    def _parts(self, key: str) -> list[str]:
        parts = [part for part in key.split("/") if part]
        if "\0" in key or "." in parts or ".." in parts:
            raise FileError(f"{self.root}: {ascii(key)[:80]} is not a path in this folder")
        return parts

    def _shown(self, key: str) -> str:
        return os.path.join(self.root, *[part for part in key.split("/") if part])

    def _mode(self, folder: int, name: str) -> int | None:
        try:
            return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return None

    @contextmanager
    def _folder(self, parts: Iterable[str], make: bool = False) -> Generator[int, None, None]:
        """Give the descriptor of a folder for a block; interrupts wait for its end."""
        with uninterrupted(), self.held.used() as root:
            handle, path = root, self.root
            try:
                for part in parts:
                    path = path / part
                    above, handle = handle, self._open_subfolder(handle, part, path, make)
                    if above != root:
                        close_quietly(above)
                yield handle
            finally:
                if handle != root:
                    close_quietly(handle)

    def _open_subfolder(self, folder: int, name: str, path: Path, make: bool) -> int:
        try:
            try:
                return os.open(name, _FOLDER, dir_fd=folder)
            except FileNotFoundError:
                if not make:
                    raise
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            return os.open(name, _FOLDER, dir_fd=folder)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EMLINK):
                raise
            mode = self._mode(folder, name)
            if mode is None or stat.S_ISREG(mode):
                raise
            followed = ", which is not followed" if stat.S_ISLNK(mode) else ""
            raise FileError(f"{path}: expected a folder, found {file_type(mode)}{followed}") from None

    # -- the interface of zarr ----------------------------------------------------------------------------------------

    @property
    def supports_writes(self) -> bool:
        return True

    @property
    def supports_deletes(self) -> bool:
        return True

    @property
    def supports_listing(self) -> bool:
        return True

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        if prototype is None:
            from zarr.core.buffer.core import default_buffer_prototype

            prototype = default_buffer_prototype()
        content = await asyncio.to_thread(self.read, key, byte_range)
        kind: Any = prototype.buffer
        return None if content is None else kind.from_bytes(content)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        return [await self.get(key, prototype, wanted) for key, wanted in key_ranges]

    async def exists(self, key: str) -> bool:
        return await asyncio.to_thread(self.has_file, key)

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await asyncio.to_thread(self.write, key, value.as_numpy_array())

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable()
        with suppress(FileExistsError):
            await asyncio.to_thread(self.write, key, value.as_numpy_array(), True)

    async def delete(self, key: str) -> None:
        self._check_writable()
        await asyncio.to_thread(self.remove, key)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        await asyncio.to_thread(self.remove, prefix)

    async def getsize(self, key: str) -> int:
        *parents, name = self._parts(key)
        with self._folder(parents) as folder:
            return os.stat(name, dir_fd=folder, follow_symlinks=False).st_size

    def list(self) -> AsyncIterator[str]:
        return self.list_prefix("")

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        with suppress(FileNotFoundError, NotADirectoryError):
            with self._folder(self._parts(prefix)) as folder:
                found = os.listdir(folder)
            for name in found:
                yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        left = [prefix.strip("/")]
        while left:
            path = left.pop()
            async for name in self.list_dir(path):
                inner = f"{path}/{name}" if path else name
                if self.has_file(inner):
                    yield inner
                else:
                    left.append(inner)


def _span(byte_range: Any, size: int) -> tuple[int, int | None]:
    """Return the first byte and the end of a range of zarr."""
    if byte_range is None:
        return 0, None
    if hasattr(byte_range, "suffix"):
        return max(0, size - byte_range.suffix), None
    if hasattr(byte_range, "offset"):
        return byte_range.offset, None
    return byte_range.start, byte_range.end


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise
    else:
        return
    handle = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for inner in os.listdir(handle):
            _remove(handle, inner)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=folder)
