"""Files of raw values: create, write and map them."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import torch
from torch import Size, Tensor

from tensorclass.support.printable import printable
from tensorclass.support.regular_files import open_regular

FileIdentity: TypeAlias = "tuple[int, int]"  #: device and inode of a file
Filename: TypeAlias = "str | os.PathLike[str]"

_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]
_BY_HANDLE = os.path.isdir("/proc/self/fd")  #: an open file can be opened again by a path


class FileThere(FileExistsError, RuntimeError):
    """The file exists already, and overwriting it was not allowed."""


def map_file(
    path: str, dtype: torch.dtype, size: Size, mode: str | None, folder: int | None = None
) -> tuple[Tensor, str, FileIdentity]:
    """Map a file of raw values.

    Args:
        path: path of the file, relative to ``folder`` if this is given.
        dtype: dtype of the values.
        size: shape of the values.
        mode: ``"r+"`` or ``"r"``. ``None`` takes ``"r+"`` if the file is writable, else ``"r"``.
        folder: descriptor of an open directory, below which symbolic links are not followed.

    Returns:
        The values, the mode in which the file was opened, and the device and inode of the file.

    Raises:
        PermissionError: the file does not allow ``mode``.
        ValueError: the file is too short, or is not a regular file.
    """
    try:
        file = open_regular(path, os.O_RDONLY if mode == "r" else os.O_RDWR, folder=folder)
    except PermissionError:
        if mode is not None:
            raise
        file = open_regular(path, folder=folder)
        mode = "r"
    try:
        mode = mode or "r+"
        info = os.fstat(file)
        return map_open_file(file, dtype, size, mode), mode, (info.st_dev, info.st_ino)
    except ValueError as error:
        raise ValueError(f"{printable(path)}: {error}") from None
    finally:
        os.close(file)


def map_open_file(file: int, dtype: torch.dtype, size: Size, mode: str) -> Tensor:
    """Map an open file of raw values. The file may be closed afterwards.

    Args:
        file: descriptor of the file.
        dtype: dtype of the values.
        size: shape of the values.
        mode: ``"r+"`` writes to the file, ``"r"`` keeps writes in this process.

    Raises:
        ValueError: the file is too short, or is not a regular file.
    """
    count = 1
    for length in size:
        count *= length
    info = os.fstat(file)
    if not stat.S_ISREG(info.st_mode):
        raise ValueError("it is no regular file")
    if info.st_size < count * dtype.itemsize:
        raise ValueError(
            f"expected {count * dtype.itemsize} bytes, for the shape {list(size)} of {dtype}; it has {info.st_size}"
        )
    if not count:
        return torch.empty(size, dtype=dtype, device="cpu")
    flat: Tensor
    if _BY_HANDLE:  # keeps no file open: a process may have only some 1,000
        flat = torch.from_file(f"/proc/self/fd/{file}", mode == "r+", count, dtype=dtype, device="cpu")
    else:
        access = mmap.ACCESS_WRITE if mode == "r+" else mmap.ACCESS_COPY
        memory = mmap.mmap(file, count * dtype.itemsize, access=access)
        flat = _frombuffer(memory, dtype=dtype)  # keeps the map alive, and closes it when the tensor is freed
    return flat if len(size) == 1 else flat.view(*size) if size else flat.view(size)  # passing a Size to view() is slow


@contextmanager
def created_file(path: str, existsok: bool) -> Generator[int, None, None]:
    """Open a new file for the block. If the block raises, the file is removed.

    With ``existsok``, an existing file is replaced only after the new one is complete. Processes that mapped the old
    file keep its values.
    """
    if existsok:
        from tensorclass.support.atomic import whole_path

        with whole_path(path) as draft, created_file(str(draft), False) as file:
            yield file
        return
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        raise FileThere(
            f"the file {printable(path)} is there already; existsok=True writes over it, from_filename opens it"
        ) from None
    try:
        yield file
    except BaseException:
        with suppress(OSError):
            if os.path.samestat(os.lstat(path), os.fstat(file)):  # another writer may have created its own file here
                os.unlink(path)
        raise
    finally:
        os.close(file)


def pieces(tensor: Tensor) -> Iterator[memoryview]:
    """Yield the bytes of a tensor in C order. A tensor in another memory layout is copied piece by piece."""
    value = tensor.detach()
    if value.is_contiguous() and value.device.type == "cpu" and not value.is_conj() and not value.is_neg():
        # a contiguous tensor may have any stride in a dimension of size 1
        flat = value.as_strided((value.numel(),), (1,))
        yield memoryview(flat.view(torch.uint8).numpy())  # type: ignore[arg-type]
    elif value.ndim == 0 or value.numel() * value.element_size() <= _PIECE:
        yield from pieces(value.cpu().resolve_conj().resolve_neg().contiguous())
    else:
        rows = max(1, _PIECE * len(value) // (value.numel() * value.element_size()))
        for start in range(0, len(value), rows):
            yield from pieces(value[start : start + rows] if rows > 1 else value[start])


#: bytes copied at a time from a tensor that is not contiguous
_PIECE = 2**24


def write_values(file: int, tensor: Tensor, advance: Callable[[int], object] | None = None) -> None:
    """Write the values of a tensor in C order to an open file.

    On a full disk, ``write`` raises an error. Copying to a memory map would end the process by a signal.

    Args:
        file: descriptor of the file.
        tensor: the values.
        advance: called after each write with the number of bytes written. Default: no calls.
    """
    for rest in pieces(tensor):
        while rest:
            count = os.write(file, rest if advance is None else rest[:_PIECE])
            rest = rest[count:]
            if advance is not None:
                advance(count)
