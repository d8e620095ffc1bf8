"""Tensors whose memory is a file: read and written through the page cache, shared between processes."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeAlias

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import open_regular
from tensorclass.td import shapes

from . import readahead
from .shared_memory import share

Place: TypeAlias = "tuple[int, int]"  #: the device and the number of a file
Filename: TypeAlias = "str | os.PathLike[str]"

#: how a file is mapped: what is written goes to the file, or (copy on write) stays in this process
MODES = ("r+", "r")

_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]
_subclass: Callable[[Any, Tensor], Any] = Tensor._make_subclass
_C: Any = torch._C
_BY_HANDLE = os.path.isdir("/proc/self/fd")  #: whether an open file has a path
_getitem: Callable[[Tensor, Any], Tensor] = Tensor.__getitem__
_select: Callable[[Tensor, int, Tensor], Tensor] = torch.index_select


class FileThere(FileExistsError, RuntimeError):
    """A file is there already, and may not be written over."""


class MemoryMappedTensor(Tensor):
    """A tensor whose memory is a file, or (without the name of one) memory that processes share.

    Nothing is read before values are used, and what is written goes to the file. Indices of integers, slices, ``None``
    and ``...`` give tensors in the same file, as do ``unbind``, ``split`` and ``chunk``; what other operations give is
    a plain tensor. A pickle has the name of the file, not what is in it: sending one to another process costs next to
    nothing.

    Args:
        source: the values, which are copied; ``None`` with a ``handler``.
        handler: memory that processes share: the ``handler`` of another one.
        dtype: of the values, with a ``handler``.
        shape: of all values; with a ``source`` as many as it has.
        index: which part of them this is.
        device: ``None`` or the CPU.
        filename: the file, which must not be there yet; without one the memory is shared between processes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = MemoryMappedTensor(torch.arange(4).view(2, 2), filename=folder + "/rows.memmap")
    ...     rows[1] = 7
    ...     again = MemoryMappedTensor.from_filename(rows.filename, torch.int64, [2, 2])
    >>> again
    MemoryMappedTensor([[0, 1],
                        [7, 7]])
    """

    # results of operations are plain tensors, and cost what those cost
    __torch_function__: Any = _C._disabled_torch_function_impl

    _never_moves = True  #: ``share_memory_`` raises, or changes nothing
    _filename: str | None
    _mode: str
    _parent: Size  #: the shape of all that the file holds
    _index: Any  #: what part of it this is
    _place: Place | None  #: of a whole file: which one it is, whatever is at its path by now

    def __new__(
        cls,
        source: Tensor | torch.UntypedStorage | None,
        *,
        handler: torch.UntypedStorage | None = None,
        dtype: torch.dtype | None = None,
        shape: Sequence[int] | None = None,
        index: Any = None,
        device: torch.device | str | None = None,
        filename: Filename | None = None,
    ) -> Self:
        """A tensor of the values of another one, or on memory that is shared already; see the class."""
        _check_device("MemoryMappedTensor", device)
        if source is not None and handler is not None:
            raise TypeError("MemoryMappedTensor: expected a source or a handler, and not both")
        memory = source if handler is None else handler
        if isinstance(memory, torch.UntypedStorage):
            return cls.from_storage(memory, shape=shape, dtype=dtype, index=index, filename=filename)
        if not isinstance(memory, Tensor) or dtype is not None:
            raise TypeError(
                "MemoryMappedTensor: expected a tensor, whose dtype the file has, or memory with a dtype and a shape; "
                f"got {type(memory).__name__}{'' if dtype is None else f' and {dtype}'}. from_filename opens a file"
            )
        new = cls.from_tensor(memory, filename=filename, shape=shape)
        return new if index is None else new._at(index)

    def __init__(
        self,
        source: Tensor | torch.UntypedStorage | None,
        *,
        handler: torch.UntypedStorage | None = None,
        dtype: torch.dtype | None = None,
        shape: Sequence[int] | None = None,
        index: Any = None,
        device: torch.device | str | None = None,
        filename: Filename | None = None,
    ) -> None:
        """What the arguments are stands at the class."""

    @classmethod
    def _of(
        cls,
        tensor: Tensor,
        filename: str | None,
        mode: str,
        parent: Size,
        index: Any = None,
        place: Place | None = None,
    ) -> Self:
        """A tensor that lies in a file, with what is known of the file."""
        new: Any = _subclass(cls, tensor)
        new._filename = filename
        new._mode = mode
        new._parent = parent
        new._index = index
        new._place = place
        return new  # type: ignore[no-any-return]

    # -- making one ---------------------------------------------------------------------------------------------------

    @classmethod
    def from_filename(
        cls,
        filename: Filename,
        dtype: torch.dtype,
        shape: Sequence[int],
        index: Any = None,
        mode: str | None = None,
    ) -> Self:
        """The tensor in a file of raw values, in the byte order of this machine, without a header.

        Args:
            filename: the file.
            dtype: of the values.
            shape: of what the file holds. What follows in a longer file is left alone.
            index: which part of it; of rows at an index tensor or a mask there is a plain copy.
            mode: ``"r+"`` writes to the file what is written to the tensor, ``"r"`` keeps it in this process. By
                default the first, where the file may be written.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is too short.
        """
        if mode not in (None, *MODES):
            raise ValueError(f"from_filename: expected mode to be 'r', 'r+' or None, got {mode!r}")
        if not isinstance(dtype, torch.dtype):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"from_filename: expected dtype to be a torch.dtype, got {dtype!r}")
        path, size = _path(filename), shape_of(shape)
        whole, mode, place = map_file(path, dtype, size, mode)
        new = cls._of(whole, path, mode, size, place=place)
        return new if index is None else new._at(index)

    @classmethod
    def from_tensor(
        cls,
        input: Tensor,
        *,
        filename: Filename | None = None,
        existsok: bool = False,
        copy_existing: bool = False,
        copy_data: bool = True,
        shape: Sequence[int] | None = None,
    ) -> Self:
        """A file with the values of a tensor.

        Args:
            input: the tensor; one that is expanded is written row by row, not held in memory.
            filename: the file; without one the memory is shared between processes, and gone with the last of them.
            existsok: write over a file that is there already.
            copy_existing: take a tensor that lies in another file already; otherwise that is an error.
            copy_data: write the values. Otherwise the file has zeros, and takes no space until it is written.
            shape: another shape of as many values.

        Raises:
            FileExistsError: the file is there, and ``existsok`` is not. It is a RuntimeError, too.
            RuntimeError: the tensor lies in another file, and ``copy_existing`` is not; or it wants a gradient.
        """
        if not isinstance(input, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"from_tensor: expected a tensor, got {type(input).__name__}; torch.as_tensor makes one")
        if input.requires_grad:
            raise RuntimeError("from_tensor: files have no gradients; take tensor.detach()")
        if input.layout is not torch.strided or input.is_nested or input.is_quantized:
            raise TypeError(
                f"from_tensor: files hold dense tensors, got one of the layout {input.layout} and of {input.dtype}; "
                "a folder of a collection holds jagged tensors, too"
            )
        if isinstance(input, MemoryMappedTensor):
            same = input._filename == (None if filename is None else _path(filename))
            if same and input._index is None and shape is None:
                return input  # type: ignore[return-value]
            if filename is not None and input._filename is not None and not copy_existing:
                raise RuntimeError(
                    f"from_tensor: the tensor lies in the file {input._filename} already; copy_existing=True copies it "
                    "to another one"
                )
        size = input.shape if shape is None else shape_of(shape)
        if size.numel() != input.numel():
            raise ValueError(f"from_tensor: the shape {list(size)} does not fit {input.numel()} values")
        if not copy_data:
            return cls._allocated(size, input.dtype, filename, existsok)
        values = input if shape is None else input.reshape(size)
        if filename is None:
            new = cls._allocated(size, input.dtype, None, existsok)
            Tensor.copy_(new, values)
            return new
        return cls._allocated(size, input.dtype, filename, existsok, values)

    @classmethod
    def from_storage(
        cls,
        storage: torch.UntypedStorage,
        *,
        shape: Sequence[int] | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        index: Any = None,
        filename: Filename | None = None,
    ) -> Self:
        """A tensor on memory that is mapped, or shared, already.

        Args:
            storage: the memory.
            shape: of all that it holds; one dimension by default.
            dtype: of the values; torch's default by default.
            device: ``None`` or the CPU, where all files are mapped.
            index: which part of it.
            filename: the file that it is; without one the memory must be shared.
        """
        _check_device("from_storage", device)
        dtype = dtype or torch.get_default_dtype()
        flat = torch.empty(0, dtype=dtype, device="cpu").set_(storage)
        size = flat.shape if shape is None else shape_of(shape)
        if size.numel() > flat.numel():
            raise ValueError(f"from_storage: {flat.numel()} values of {dtype} do not fill the shape {list(size)}")
        if filename is None and not storage.is_shared():
            raise ValueError("from_storage: expected the name of the file, or memory that processes share")
        path = None if filename is None else _path(filename)
        new = cls._of(flat[: size.numel()].view(size), path, "r+", size)
        return new if index is None else new._at(index)

    @classmethod
    def from_handler(
        cls, handler: torch.UntypedStorage, dtype: torch.dtype, shape: Sequence[int], index: Any = None
    ) -> Self:
        """A tensor on memory that processes share: the ``handler`` of another one.

        Args:
            handler: the memory.
            dtype: of the values.
            shape: of all that it holds.
            index: which part of it.
        """
        return cls.from_storage(handler, shape=shape, dtype=dtype, index=index)

    @classmethod
    def empty(
        cls,
        *size: Any,
        dtype: torch.dtype | None = None,
        filename: Filename | None = None,
        existsok: bool = False,
        device: torch.device | str | None = None,
    ) -> Self:
        """A file for a tensor, as ``torch.empty``. It holds zeros, and takes space only where it is written.

        Args:
            size: the shape, as ints or a sequence.
            dtype: torch's default by default.
            filename: the file; without one the memory is shared between processes.
            existsok: write over a file that is there already; otherwise it must not be.
            device: ``None`` or the CPU.

        >>> MemoryMappedTensor.empty(2, 3, dtype=torch.int64).shape
        torch.Size([2, 3])
        """
        _check_device("empty", device)
        return cls._allocated(_size(size), dtype or torch.get_default_dtype(), filename, existsok)

    @classmethod
    def zeros(
        cls,
        *size: Any,
        dtype: torch.dtype | None = None,
        filename: Filename | None = None,
        existsok: bool = False,
        device: torch.device | str | None = None,
    ) -> Self:
        """A file of zeros, as ``torch.zeros``; see :meth:`empty`."""
        _check_device("zeros", device)
        return cls._allocated(_size(size), dtype or torch.get_default_dtype(), filename, existsok)

    @classmethod
    def ones(
        cls,
        *size: Any,
        dtype: torch.dtype | None = None,
        filename: Filename | None = None,
        existsok: bool = False,
        device: torch.device | str | None = None,
    ) -> Self:
        """A file of ones, as ``torch.ones``; see :meth:`empty`."""
        _check_device("ones", device)
        dtype = dtype or torch.get_default_dtype()
        return cls.full(_size(size), fill_value=1, dtype=dtype, filename=filename, existsok=existsok)

    @classmethod
    def full(
        cls,
        *size: Any,
        fill_value: Any = None,
        dtype: torch.dtype | None = None,
        filename: Filename | None = None,
        existsok: bool = False,
        device: torch.device | str | None = None,
    ) -> Self:
        """A file of one number, as ``torch.full(size, fill_value)``; see :meth:`empty`."""
        _check_device("full", device)
        if fill_value is None:
            if len(size) < 2:
                raise TypeError(f"full: expected a shape and a number to fill it with, got {size}")
            *size, fill_value = size  # type: ignore[assignment]
        number = torch.full((), fill_value, dtype=dtype, device="cpu")
        return cls.from_tensor(number.expand(_size(size)), filename=filename, existsok=existsok)

    @classmethod
    def empty_like(cls, input: Tensor, *, filename: Filename | None = None) -> Self:
        """A file for a tensor of the shape and dtype of another one; see :meth:`empty`."""
        return cls._allocated(input.shape, input.dtype, filename, False)

    @classmethod
    def zeros_like(cls, input: Tensor, *, filename: Filename | None = None) -> Self:
        """A file of zeros, of the shape and dtype of a tensor."""
        return cls._allocated(input.shape, input.dtype, filename, False)

    @classmethod
    def ones_like(cls, input: Tensor, *, filename: Filename | None = None) -> Self:
        """A file of ones, of the shape and dtype of a tensor."""
        return cls.full_like(input, 1, filename=filename)

    @classmethod
    def full_like(cls, input: Tensor, fill_value: Any, *, filename: Filename | None = None) -> Self:
        """A file of one number, of the shape and dtype of a tensor."""
        return cls.full(input.shape, fill_value, dtype=input.dtype, filename=filename)

    @classmethod
    def _allocated(
        cls,
        size: Size,
        dtype: torch.dtype,
        filename: Filename | None,
        existsok: bool,
        values: Tensor | None = None,
    ) -> Self:
        """A new file of values, by default zeros; or zeros in shared memory."""
        if filename is None:
            memory = torch.zeros(size, dtype=dtype, device="cpu")
            if memory.numel():
                share(memory)
            return cls._of(memory, None, "r+", size)
        path = _path(filename)
        with uninterrupted() as section, _created(path, existsok) as file:
            if values is None:
                os.ftruncate(file, size.numel() * dtype.itemsize)
            else:
                with section.interruptible():
                    write_values(file, values)
            whole = map_open_file(file, dtype, size, "r+")
            info = os.fstat(file)
        return cls._of(whole, path, "r+", size, place=(info.st_dev, info.st_ino))

    # -- what is known of the file ------------------------------------------------------------------------------------

    @property
    def filename(self) -> str:
        """The file, as an absolute path.

        Raises:
            RuntimeError: the tensor lies in shared memory without a name.
        """
        if self._filename is None:
            raise RuntimeError("the tensor lies in shared memory, which has no file name")
        return self._filename

    @filename.setter
    def filename(self, value: Filename) -> None:
        raise RuntimeError(
            "a tensor stays in its file, or in memory; from_tensor(tensor, filename=...) copies it to a file"
        )

    @property
    def handler(self) -> torch.UntypedStorage:
        """The memory, which :meth:`from_handler` takes."""
        return self.untyped_storage()

    @property
    def index(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The index that gave this part of the file; ``None`` for all of it.

        Of a part of a part a list of the indices, one after the other.
        """
        return self._index

    @property
    def parent_shape(self) -> Size:
        """The shape of all that the file holds."""
        return self._parent

    def is_shared(self) -> bool:
        """Whether other processes see what is written: always, but for files that are only read."""
        return self._mode == "r+"

    def is_in_file(self) -> bool:
        """Whether what is written goes to a file."""
        return self._filename is not None and self._mode == "r+"

    def share_memory_(self) -> Self:
        """The tensor: what is written to it reaches other processes by its file, or by the memory that it lies in.

        Raises:
            RuntimeError: the file is only read, so that what is written stays in this process.
        """
        if self._mode != "r+":
            raise RuntimeError(
                f"share_memory_: {self._filename} is only read; what is written stays in this process: clone it"
            )
        return self

    # -- parts of it --------------------------------------------------------------------------------------------------

    def _part(self, tensor: Tensor, index: Any) -> Any:
        before = self._index
        if index is None:
            index = (None,)  # no index at all is all of the file
        if before is not None:
            index = [*before, index] if type(before) is list else [before, index]
        return self._of(tensor, self._filename, self._mode, self._parent, index)

    def _at(self, index: Any) -> Any:
        if index.__class__ is Tensor and self._filename is not None and self.nbytes > readahead.limit():
            readahead.want(self, index)
        found = _getitem(self, index)
        # inference mode knows of no views
        same = found.untyped_storage()._cdata == self.untyped_storage()._cdata
        return self._part(found, index) if same else found

    def __getitem__(self, index: Any) -> Tensor:
        """Views lie in the same file; the rows at an index tensor or a mask are copied, as for any tensor."""
        if type(index) is Tensor and index.ndim == 1 and index.dtype is torch.int64 and self.is_contiguous():
            if self._filename is not None and self.nbytes > readahead.limit():
                readahead.want(self, index)
            try:
                return _select(self, 0, index)  # half the time of an index, where no position is negative
            except (IndexError, RuntimeError):
                return _getitem(self, index)
        return self._at(index)  # type: ignore[no-any-return]

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The slices along a dimension, in the same file."""
        lead = (slice(None),) * (dim if dim >= 0 else dim + self.ndim)
        return tuple([self._part(part, (*lead, at)) for at, part in enumerate(Tensor.unbind(self, dim))])

    def split(self, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Consecutive parts along a dimension, in the same file."""
        return self._consecutive(Tensor.split(self, split_size, dim), dim)  # type: ignore[no-untyped-call]

    def split_with_sizes(self, split_sizes: Sequence[int | torch.SymInt], dim: int = 0) -> tuple[Tensor, ...]:
        """Consecutive parts of sizes given along a dimension, in the same file."""
        return self._consecutive(Tensor.split_with_sizes(self, split_sizes, dim), dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """As many consecutive parts along a dimension, in the same file."""
        return self._consecutive(Tensor.chunk(self, chunks, dim), dim)

    def _consecutive(self, parts: Sequence[Tensor], dim: int) -> tuple[Tensor, ...]:
        dim = dim if dim >= 0 else dim + self.ndim
        lead, start, found = (slice(None),) * dim, 0, list[Tensor]()
        for part in parts:
            stop = start + part.shape[dim]
            found.append(self._part(part, (*lead, slice(start, stop))))
            start = stop
        return tuple(found)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        if tensor_contents is not None:
            return f"{type(self).__name__}({tensor_contents})"
        shown = repr(self.as_subclass(Tensor)).removeprefix("tensor")
        return type(self).__name__ + shown.replace("\n", "\n" + " " * (len(type(self).__name__) - len("tensor")))

    def detach(self) -> Tensor:
        """The same, in the same file: parameters are made of it."""
        return self._of(Tensor.detach(self), self._filename, self._mode, self._parent, self._index, self._place)

    # -- copies and pickles -------------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._filename is None:
            return _rebuilt_shared, (self.as_subclass(Tensor), self._parent, self._index)
        layout = (tuple(self.shape), self.stride(), self.storage_offset())
        return _rebuilt, (self._filename, self.dtype, tuple(self._parent), self._mode, layout, self._index)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A plain tensor: a copy in memory is no file."""
        copied: Tensor = memo.setdefault(id(self), self.as_subclass(Tensor).clone())
        return copied


#: the name that it had in older programs
MemmapTensor = MemoryMappedTensor


def _rebuilt(
    filename: str, dtype: torch.dtype, parent: tuple[int, ...], mode: str, layout: tuple[Any, ...], index: Any
) -> MemoryMappedTensor:
    whole = MemoryMappedTensor.from_filename(filename, dtype, parent, mode=mode)
    return whole if index is None else whole._of(whole.as_strided(*layout), filename, mode, whole._parent, index)


def _rebuilt_shared(tensor: Tensor, parent: Size, index: Any) -> MemoryMappedTensor:
    return MemoryMappedTensor._of(tensor, None, "r+", parent, index)


# -- files ------------------------------------------------------------------------------------------------------------


def map_file(
    path: str, dtype: torch.dtype, size: Size, mode: str | None, folder: int | None = None
) -> tuple[Tensor, str, Place]:
    """The values in a file, the mode that it could be opened in, and which file it is.

    Args:
        path: the file; below ``folder``, where this is the descriptor of an open directory.
        dtype: of the values.
        size: their shape.
        mode: ``None`` takes ``"r+"`` where the file may be written and else ``"r"``.
        folder: where the file is. Symbolic links are not followed there.
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
    """The values in an open file, which may be closed afterwards."""
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
    if _BY_HANDLE:  # keeps no file open, of which a process may have some 1,000 only
        flat = torch.from_file(f"/proc/self/fd/{file}", mode == "r+", count, dtype=dtype, device="cpu")
    else:
        access = mmap.ACCESS_WRITE if mode == "r+" else mmap.ACCESS_COPY
        memory = mmap.mmap(file, count * dtype.itemsize, access=access)
        flat = _frombuffer(memory, dtype=dtype)  # keeps the map alive, and closes it at its end
    return flat if len(size) == 1 else flat.view(*size) if size else flat.view(size)  # a Size takes long to pass


@contextmanager
def _created(path: str, existsok: bool) -> Generator[int, None, None]:
    """A new open file, which is gone again where the block raises.

    One that is written over keeps its place until all is written, and its values for those who have mapped it.
    """
    if existsok:
        from tensorclass.support.atomic import whole_path

        with whole_path(path) as draft, _created(str(draft), False) as file:
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
            if os.path.samestat(os.lstat(path), os.fstat(file)):  # another writer may have put its own file there
                os.unlink(path)
        raise
    finally:
        os.close(file)


def pieces(tensor: Tensor) -> Iterator[memoryview]:
    """The bytes of a tensor in C order; those of one that does not lie so are copied piece by piece."""
    value = tensor.detach()
    if value.is_contiguous() and value.device.type == "cpu" and not value.is_conj() and not value.is_neg():
        # one value may have any stride
        flat = value.as_strided((value.numel(),), (1,))
        yield memoryview(flat.view(torch.uint8).numpy())  # type: ignore[arg-type]
    elif value.ndim == 0 or value.numel() * value.element_size() <= _PIECE:
        yield from pieces(value.cpu().resolve_conj().resolve_neg().contiguous())
    else:
        rows = max(1, _PIECE * len(value) // (value.numel() * value.element_size()))
        for start in range(0, len(value), rows):
            yield from pieces(value[start : start + rows] if rows > 1 else value[start])


#: how many bytes are copied at a time, where the values do not lie one behind the other
_PIECE = 2**24


def write_values(file: int, tensor: Tensor, advance: Callable[[int], object] | None = None) -> None:
    """Writes the values of a tensor in C order to an open file.

    They are written and not copied to a memory map, so that a full disk is an error and no signal.

    Args:
        file: the file.
        tensor: the values.
        advance: told how many bytes are written, each time.
    """
    for rest in pieces(tensor):
        while rest:
            count = os.write(file, rest if advance is None else rest[:_PIECE])
            rest = rest[count:]
            if advance is not None:
                advance(count)


def _path(filename: Filename) -> str:
    return os.path.abspath(os.fspath(filename))


def _size(size: tuple[Any, ...]) -> Size:
    return shape_of(size[0] if len(size) == 1 else size)


def shape_of(shape: Any) -> Size:
    """The shape of a tensor from what users write: an int, or a sequence of ints.

    >>> shape_of(3), shape_of([3, 4])
    (torch.Size([3]), torch.Size([3, 4]))
    """
    try:
        size = shapes.as_size(shape)
    except TypeError:
        raise TypeError(f"expected a shape, as an int or a sequence of ints, got {shape!r}") from None
    if any(length < 0 for length in size):
        raise RuntimeError(f"expected a shape without negative sizes, got {list(size)}")
    return size


def _check_device(what: str, device: torch.device | str | None) -> None:
    if device is not None and torch.device(device).type != "cpu":
        raise RuntimeError(f"{what}: files are mapped to the memory of the CPU, not to {device}")
