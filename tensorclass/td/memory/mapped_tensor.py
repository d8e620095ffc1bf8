"""Tensors on memory-mapped files, read and written through the page cache and shared between processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import type_name

from . import readahead
from .filled_tensors import FilledTensors, as_shape, check_device
from .mapped_files import FileIdentity, Filename, created_file, map_file, map_open_file, write_values
from .shared_memory import share

#: modes of a memory map: "r+" writes to the file, "r" keeps writes in this process (copy on write)
MODES = ("r+", "r")

_subclass: Callable[[Any, Tensor], Any] = Tensor._make_subclass
_C: Any = torch._C
_getitem: Callable[[Tensor, Any], Tensor] = Tensor.__getitem__
_select: Callable[[Tensor, int, Tensor], Tensor] = torch.index_select


class MemoryMappedTensor(FilledTensors, Tensor):
    """A tensor on a memory-mapped file or, without a file name, on memory shared between processes.

    Values are read from the file when they are used, and writes go to the file. Indexing with integers, slices,
    ``None`` and ``...`` gives views in the same file, as do ``unbind``, ``split`` and ``chunk``. Other operations
    return plain tensors. A pickle holds the name of the file instead of the values, so sending the tensor to another
    process costs next to nothing.

    Args:
        source: values to copy. ``None`` if ``handler`` is given.
        handler: shared memory, the ``handler`` of another memory-mapped tensor.
        dtype: dtype of the values in ``handler``. Default: torch's default dtype.
        shape: shape of all values. With a tensor as ``source``, it must have as many elements.
        index: index of the part to view. Default: all values.
        device: ``None`` or the CPU.
        filename: path of the new file, which must not exist; with ``handler``, path of the file that it maps. Default:
            shared memory without a name.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import MemoryMappedTensor
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = MemoryMappedTensor(torch.arange(4).view(2, 2), filename=folder + "/rows.memmap")
        ...     rows[1] = 7
        ...     again = MemoryMappedTensor.from_filename(rows.filename, torch.int64, [2, 2])
        >>> again
        MemoryMappedTensor([[0, 1],
                            [7, 7]])
    """

    # operations return plain tensors, at the cost of plain tensors
    __torch_function__: Any = _C._disabled_torch_function_impl

    _never_moves = True  #: ``share_memory_`` never moves the values
    _filename: str | None
    _mode: str
    _parent: Size  #: shape of all values in the file
    _index: Any  #: index of this part of the file; ``None`` for the whole file
    #: of a whole file: its identity, even after another file replaced it at the path
    _file_identity: FileIdentity | None

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
        """Copy a tensor to a file or to shared memory, or view memory that is shared already. See the class."""
        check_device("MemoryMappedTensor", device)
        if source is not None and handler is not None:
            raise TypeError("MemoryMappedTensor: expected a source or a handler, and not both")
        memory = source if handler is None else handler
        if isinstance(memory, torch.UntypedStorage):
            return cls.from_storage(memory, shape=shape, dtype=dtype, index=index, filename=filename)
        if not isinstance(memory, Tensor) or dtype is not None:
            raise TypeError(
                "MemoryMappedTensor: expected a tensor, whose dtype the file has, or memory with a dtype and a shape; "
                f"got {type_name(memory)}{'' if dtype is None else f' and {dtype}'}. from_filename opens a file"
            )
        new = cls.from_tensor(memory, filename=filename, shape=shape)
        return new if index is None else new._indexed(index)

    @classmethod
    def _of(
        cls,
        tensor: Tensor,
        filename: str | None,
        mode: str,
        parent: Size,
        index: Any = None,
        identity: FileIdentity | None = None,
    ) -> Self:
        """Wrap a tensor that lies in a file, with the attributes of the file."""
        new: Any = _subclass(cls, tensor)
        new._filename = filename
        new._mode = mode
        new._parent = parent
        new._index = index
        new._file_identity = identity
        return new  # type: ignore[no-any-return]

    # -- constructors -------------------------------------------------------------------------------------------------

    @classmethod
    def from_filename(
        cls,
        filename: Filename,
        dtype: torch.dtype,
        shape: Sequence[int],
        index: Any = None,
        mode: str | None = None,
    ) -> Self:
        """Map a file of raw values, in the byte order of this machine, without a header.

        Args:
            filename: path of the file.
            dtype: dtype of the values.
            shape: shape of all values in the file. Further bytes of a longer file are ignored.
            index: index of the part to view. An index tensor or a mask gives a copy in a plain tensor.
            mode: ``"r+"`` writes to the file, ``"r"`` keeps writes in this process. Default: ``"r+"`` if the file is
                writable, else ``"r"``.

        Returns:
            A tensor on the file. Nothing is read yet.

        Raises:
            FileNotFoundError: there is no such file.
            PermissionError: the file does not allow ``mode``.
            TypeError: ``dtype`` is not a ``torch.dtype``.
            ValueError: the file is too short, is not a regular file, or ``mode`` is unknown.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import MemoryMappedTensor
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     rows = MemoryMappedTensor.from_tensor(torch.arange(4), filename=folder + "/rows.memmap")
            ...     MemoryMappedTensor.from_filename(rows.filename, torch.int64, [2, 2])
            MemoryMappedTensor([[0, 1],
                                [2, 3]])
        """
        if mode not in (None, *MODES):
            raise ValueError(f"from_filename: expected mode to be 'r', 'r+' or None, got {mode!r}")
        if not isinstance(dtype, torch.dtype):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"from_filename: expected dtype to be a torch.dtype, got {dtype!r}")
        path, size = _path(filename), as_shape(shape)
        whole, mode, identity = map_file(path, dtype, size, mode)
        new = cls._of(whole, path, mode, size, identity=identity)
        return new if index is None else new._indexed(index)

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
        """Copy a tensor to a new file, or to shared memory.

        Args:
            input: a dense tensor. An expanded tensor is written piece by piece, so the whole is never in memory.
            filename: path of the new file. Default: shared memory without a name, freed with its last user.
            existsok: overwrite an existing file.
            copy_existing: allow an ``input`` that lies in another file.
            copy_data: copy the values. ``False`` gives zeros, and the file takes no space until it is written.
            shape: new shape, with as many elements as ``input``. Default: the shape of ``input``.

        Returns:
            A tensor on the new memory. ``input`` itself if it is all of this file already.

        Raises:
            FileExistsError: the file exists, and ``existsok`` is not set. Also a ``RuntimeError``.
            RuntimeError: ``input`` requires a gradient, or it lies in another file and ``copy_existing`` is not set.
            TypeError: ``input`` is not a dense tensor.
            ValueError: ``shape`` has another number of elements.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.from_tensor(torch.arange(4), shape=[2, 2])
            MemoryMappedTensor([[0, 1],
                                [2, 3]])
        """
        if not isinstance(input, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"from_tensor: expected a tensor, got {type_name(input)}; torch.as_tensor makes one")
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
        size = input.shape if shape is None else as_shape(shape)
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
        """View memory that is mapped or shared already.

        Args:
            storage: the memory.
            shape: shape of all values. Default: one dimension.
            dtype: dtype of the values. Default: torch's default dtype.
            device: ``None`` or the CPU.
            index: index of the part to view. Default: all values.
            filename: path of the mapped file. Default: ``storage`` is shared memory without a name.

        Returns:
            A tensor that shares the memory.

        Raises:
            RuntimeError: ``device`` is not the CPU.
            ValueError: the memory is too small for ``shape``, or it is neither shared nor has a ``filename``.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> rows = MemoryMappedTensor.zeros(2, 2)
            >>> flat = MemoryMappedTensor.from_storage(rows.untyped_storage())
            >>> flat[3] = 1
            >>> rows
            MemoryMappedTensor([[0., 0.],
                                [0., 1.]])
        """
        check_device("from_storage", device)
        dtype = dtype or torch.get_default_dtype()
        flat = torch.empty(0, dtype=dtype, device="cpu").set_(storage)
        size = flat.shape if shape is None else as_shape(shape)
        if size.numel() > flat.numel():
            raise ValueError(f"from_storage: {flat.numel()} values of {dtype} do not fill the shape {list(size)}")
        if filename is None and not storage.is_shared():
            raise ValueError("from_storage: expected the name of the file, or memory that processes share")
        path = None if filename is None else _path(filename)
        new = cls._of(flat[: size.numel()].view(size), path, "r+", size)
        return new if index is None else new._indexed(index)

    @classmethod
    def from_handler(
        cls, handler: torch.UntypedStorage, dtype: torch.dtype, shape: Sequence[int], index: Any = None
    ) -> Self:
        """View shared memory, the ``handler`` of another memory-mapped tensor.

        Args:
            handler: the memory.
            dtype: dtype of the values.
            shape: shape of all values.
            index: index of the part to view. Default: all values.

        Returns:
            A tensor that shares the memory.

        Raises:
            ValueError: the memory is too small for ``shape``, or is not shared.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> rows = MemoryMappedTensor.ones(4)
            >>> MemoryMappedTensor.from_handler(rows.handler, rows.dtype, [2, 2])
            MemoryMappedTensor([[1., 1.],
                                [1., 1.]])
        """
        return cls.from_storage(handler, shape=shape, dtype=dtype, index=index)

    @classmethod
    def _allocated(
        cls,
        size: Size,
        dtype: torch.dtype,
        filename: Filename | None,
        existsok: bool,
        values: Tensor | None = None,
    ) -> Self:
        """Create a file of ``values``, by default zeros. Without a file name, create zeros in shared memory."""
        if filename is None:
            memory = torch.zeros(size, dtype=dtype, device="cpu")
            if memory.numel():
                share(memory)
            return cls._of(memory, None, "r+", size)
        path = _path(filename)
        with uninterrupted() as section, created_file(path, existsok) as file:
            if values is None:
                os.ftruncate(file, size.numel() * dtype.itemsize)
            else:
                with section.interruptible():
                    write_values(file, values)
            whole = map_open_file(file, dtype, size, "r+")
            info = os.fstat(file)
        return cls._of(whole, path, "r+", size, identity=(info.st_dev, info.st_ino))

    # -- attributes of the file ---------------------------------------------------------------------------------------

    @property
    def filename(self) -> str:
        """Absolute path of the file.

        Raises:
            RuntimeError: the tensor lies in shared memory without a name.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import MemoryMappedTensor
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     tensor = MemoryMappedTensor.from_tensor(torch.zeros(3), filename=folder + "/x.memmap")
            ...     str(tensor.filename) == folder + "/x.memmap"
            True
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
        """The underlying memory. :meth:`from_handler` makes a tensor of it.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> tensor = MemoryMappedTensor.from_tensor(torch.zeros(3))
            >>> again = MemoryMappedTensor.from_handler(tensor.handler, torch.float32, [3], None)
            >>> again[0] = 1.0
            >>> tensor
            MemoryMappedTensor([1., 0., 0.])
        """
        return self.untyped_storage()

    @property
    def index(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Index of this part of the file. ``None`` for the whole file.

        After several indexing operations, a list of the indices, in the order applied.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> tensor = MemoryMappedTensor.from_tensor(torch.zeros(3))
            >>> tensor.index, tensor[1:].index
            (None, slice(1, None, None))
        """
        return self._index

    @property
    def parent_shape(self) -> Size:
        """Shape of all values in the file.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.from_tensor(torch.zeros(3, 4))[1:].parent_shape
            torch.Size([3, 4])
        """
        return self._parent

    def is_shared(self) -> bool:
        """Return whether other processes see writes to the tensor. ``False`` only for a file mapped with mode ``"r"``.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.zeros(2).is_shared()
            True
        """
        return self._mode == "r+"

    def is_in_file(self) -> bool:
        """Return whether writes to the tensor go to a file.

        Returns:
            ``False`` in shared memory without a name, and for a file mapped with mode ``"r"``.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.zeros(2).is_in_file()
            False
        """
        return self._filename is not None and self._mode == "r+"

    def share_memory_(self) -> Self:
        """Return the tensor itself, whose memory is shared between processes already.

        Raises:
            RuntimeError: the file was mapped with mode ``"r"``, so writes stay in this process.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> rows = MemoryMappedTensor.zeros(2)
            >>> rows.share_memory_() is rows
            True
        """
        if self._mode != "r+":
            raise RuntimeError(
                f"share_memory_: what is written stays in this process, since {self._filename} is only read; "
                "clone the tensor"
            )
        return self

    # -- views --------------------------------------------------------------------------------------------------------

    def _part(self, tensor: Tensor, index: Any) -> Any:
        before = self._index
        if index is None:
            index = (None,)  # None as _index means the whole file
        if before is not None:
            index = [*before, index] if type(before) is list else [before, index]
        return self._of(tensor, self._filename, self._mode, self._parent, index)

    def _indexed(self, index: Any) -> Any:
        if index.__class__ is Tensor and self._filename is not None and self.nbytes > readahead.limit():
            readahead.want(self, index)
        found = _getitem(self, index)
        # compare storages, since inference mode does not track views
        same = found.untyped_storage()._cdata == self.untyped_storage()._cdata
        return self._part(found, index) if same else found

    def __getitem__(self, index: Any) -> Tensor:
        """Return a view in the same file. An index tensor or a mask gives a copy, as for any tensor."""
        if type(index) is Tensor and index.ndim == 1 and index.dtype is torch.int64 and self.is_contiguous():
            if self._filename is not None and self.nbytes > readahead.limit():
                readahead.want(self, index)
            try:
                return _select(self, 0, index)  # takes half the time of indexing, but rejects negative positions
            except (IndexError, RuntimeError):
                return _getitem(self, index)
        return self._indexed(index)  # type: ignore[no-any-return]

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """Return the slices along a dimension, as views in the same file.

        Args:
            dim: the dimension. Default: 0.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> [row.tolist() for row in MemoryMappedTensor.ones(2, 3).unbind()]
            [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
        """
        lead = (slice(None),) * (dim if dim >= 0 else dim + self.ndim)
        return tuple([self._part(part, (*lead, at)) for at, part in enumerate(Tensor.unbind(self, dim))])

    def split(self, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Split along a dimension into consecutive views in the same file.

        Args:
            split_size: length of each view, the last may be shorter; or a sequence of all lengths.
            dim: dimension to split. Default: the first.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> [len(part) for part in MemoryMappedTensor.zeros(5).split(2)]
            [2, 2, 1]
        """
        return self._consecutive(Tensor.split(self, split_size, dim), dim)  # type: ignore[no-untyped-call]

    def split_with_sizes(self, split_sizes: Sequence[int | torch.SymInt], dim: int = 0) -> tuple[Tensor, ...]:
        """Split along a dimension into consecutive views of given lengths, in the same file.

        Args:
            split_sizes: lengths of the views. Their sum must be the size of the dimension.
            dim: dimension to split. Default: the first.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> [len(part) for part in MemoryMappedTensor.zeros(5).split_with_sizes([1, 4])]
            [1, 4]
        """
        return self._consecutive(Tensor.split_with_sizes(self, split_sizes, dim), dim)

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """Split along a dimension into a number of consecutive views, in the same file.

        Args:
            chunks: number of views, at most. As in ``torch.chunk``, there may be fewer.
            dim: dimension to split. Default: the first.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> [len(part) for part in MemoryMappedTensor.zeros(5).chunk(2)]
            [3, 2]
        """
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
            return f"{type_name(self)}({tensor_contents})"
        shown = repr(self.as_subclass(Tensor)).removeprefix("tensor")
        return type_name(self) + shown.replace("\n", "\n" + " " * (len(type_name(self)) - len("tensor")))

    def detach(self) -> Tensor:
        """Return a detached view of the same file. ``nn.Parameter`` builds on this.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> type(MemoryMappedTensor.zeros(2).detach()).__name__
            'MemoryMappedTensor'
        """
        return self._of(Tensor.detach(self), self._filename, self._mode, self._parent, self._index, self._file_identity)

    # -- copies and pickles -------------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self._filename is None:
            return _rebuilt_shared, (self.as_subclass(Tensor), self._parent, self._index)
        layout = (tuple(self.shape), self.stride(), self.storage_offset())
        return _rebuilt, (self._filename, self.dtype, tuple(self._parent), self._mode, layout, self._index)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Return a plain tensor, since the copy is in memory and not in a file."""
        copied: Tensor = memo.setdefault(id(self), self.as_subclass(Tensor).clone())
        return copied


#: name of the class in older programs
MemmapTensor = MemoryMappedTensor


def _rebuilt(
    filename: str, dtype: torch.dtype, parent: tuple[int, ...], mode: str, layout: tuple[Any, ...], index: Any
) -> MemoryMappedTensor:
    whole = MemoryMappedTensor.from_filename(filename, dtype, parent, mode=mode)
    return whole if index is None else whole._of(whole.as_strided(*layout), filename, mode, whole._parent, index)


def _rebuilt_shared(tensor: Tensor, parent: Size, index: Any) -> MemoryMappedTensor:
    return MemoryMappedTensor._of(tensor, None, "r+", parent, index)


def _path(filename: Filename) -> str:
    return os.path.abspath(os.fspath(filename))
