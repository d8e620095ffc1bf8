"""``MemoryMappedTensor.zeros`` and its variants: files that are filled with one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.td import shapes

from .mapped_files import Filename


class FilledTensors:
    """Methods that make a memory-mapped tensor as ``torch.zeros`` and the like make a tensor."""

    if TYPE_CHECKING:

        @classmethod
        def _allocated(cls, size: Size, dtype: torch.dtype, filename: Filename | None, existsok: bool) -> Self: ...
        @classmethod
        def from_tensor(cls, input: Tensor, *, filename: Filename | None = ..., existsok: bool = ...) -> Self: ...

    @classmethod
    def empty(
        cls,
        *size: Any,
        dtype: torch.dtype | None = None,
        filename: Filename | None = None,
        existsok: bool = False,
        device: torch.device | str | None = None,
        shape: Sequence[int] | int | None = None,
    ) -> Self:
        """Create a file for a tensor, as ``torch.empty``. It holds zeros, and takes space only where it is written.

        Args:
            size: the shape, as ints or one sequence of ints.
            dtype: dtype of the values. Default: torch's default dtype.
            filename: path of the new file. Default: shared memory without a name.
            existsok: overwrite an existing file.
            device: ``None`` or the CPU.
            shape: the shape by its name, in place of ``size``.

        Raises:
            FileExistsError: the file exists, and ``existsok`` is not set.
            RuntimeError: ``device`` is not the CPU.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.empty(2, 3, dtype=torch.int64).shape
            torch.Size([2, 3])
        """
        check_device("empty", device)
        return cls._allocated(_size(size, shape), dtype or torch.get_default_dtype(), filename, existsok)

    @classmethod
    def zeros(
        cls,
        *size: Any,
        dtype: torch.dtype | None = None,
        filename: Filename | None = None,
        existsok: bool = False,
        device: torch.device | str | None = None,
        shape: Sequence[int] | int | None = None,
    ) -> Self:
        """Create a file of zeros, as ``torch.zeros``. It takes space only where it is written.

        Args:
            size: the shape, as ints or one sequence of ints.
            dtype: dtype of the values. Default: torch's default dtype.
            filename: path of the new file. Default: shared memory without a name.
            existsok: overwrite an existing file.
            device: ``None`` or the CPU.
            shape: the shape by its name, in place of ``size``.

        Raises:
            FileExistsError: the file exists, and ``existsok`` is not set.
            RuntimeError: ``device`` is not the CPU.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.zeros(2)
            MemoryMappedTensor([0., 0.])
        """
        check_device("zeros", device)
        return cls._allocated(_size(size, shape), dtype or torch.get_default_dtype(), filename, existsok)

    @classmethod
    def ones(
        cls,
        *size: Any,
        dtype: torch.dtype | None = None,
        filename: Filename | None = None,
        existsok: bool = False,
        device: torch.device | str | None = None,
        shape: Sequence[int] | int | None = None,
    ) -> Self:
        """Create a file of ones, as ``torch.ones``.

        Args:
            size: the shape, as ints or one sequence of ints.
            dtype: dtype of the values. Default: torch's default dtype.
            filename: path of the new file. Default: shared memory without a name.
            existsok: overwrite an existing file.
            device: ``None`` or the CPU.
            shape: the shape by its name, in place of ``size``.

        Raises:
            FileExistsError: the file exists, and ``existsok`` is not set.
            RuntimeError: ``device`` is not the CPU.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.ones(2)
            MemoryMappedTensor([1., 1.])
        """
        check_device("ones", device)
        dtype = dtype or torch.get_default_dtype()
        return cls.full(_size(size, shape), fill_value=1, dtype=dtype, filename=filename, existsok=existsok)

    @classmethod
    def full(
        cls,
        *size: Any,
        fill_value: Any = None,
        dtype: torch.dtype | None = None,
        filename: Filename | None = None,
        existsok: bool = False,
        device: torch.device | str | None = None,
        shape: Sequence[int] | int | None = None,
    ) -> Self:
        """Create a file filled with one number, as ``torch.full``.

        Args:
            size: the shape, as ints or one sequence of ints.
            fill_value: the number. May also be the last positional argument.
            dtype: dtype of the values. Default: as ``torch.full`` infers it from ``fill_value``.
            filename: path of the new file. Default: shared memory without a name.
            existsok: overwrite an existing file.
            device: ``None`` or the CPU.
            shape: the shape by its name, in place of ``size``.

        Raises:
            FileExistsError: the file exists, and ``existsok`` is not set.
            RuntimeError: ``device`` is not the CPU.
            TypeError: the number is missing.

        Example:
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.full([2], 7)
            MemoryMappedTensor([7, 7])
        """
        check_device("full", device)
        if fill_value is None:
            if len(size) < 2:
                raise TypeError(f"full: expected a shape and a number to fill it with, got {size}")
            *size, fill_value = size  # type: ignore[assignment]
        number = torch.full((), fill_value, dtype=dtype, device="cpu")
        return cls.from_tensor(number.expand(_size(size, shape)), filename=filename, existsok=existsok)

    @classmethod
    def empty_like(cls, input: Tensor, *, filename: Filename | None = None) -> Self:
        """Create a file for a tensor of the shape and dtype of another one. It holds zeros.

        Args:
            input: tensor with the shape and the dtype.
            filename: path of the new file. Default: shared memory without a name.

        Raises:
            FileExistsError: the file exists.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.empty_like(torch.ones(2, 3)).shape
            torch.Size([2, 3])
        """
        return cls._allocated(input.shape, input.dtype, filename, False)

    @classmethod
    def zeros_like(cls, input: Tensor, *, filename: Filename | None = None) -> Self:
        """Create a file of zeros, of the shape and dtype of a tensor.

        Args:
            input: tensor with the shape and the dtype.
            filename: path of the new file. Default: shared memory without a name.

        Raises:
            FileExistsError: the file exists.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.zeros_like(torch.ones(2))
            MemoryMappedTensor([0., 0.])
        """
        return cls._allocated(input.shape, input.dtype, filename, False)

    @classmethod
    def ones_like(cls, input: Tensor, *, filename: Filename | None = None) -> Self:
        """Create a file of ones, of the shape and dtype of a tensor.

        Args:
            input: tensor with the shape and the dtype.
            filename: path of the new file. Default: shared memory without a name.

        Raises:
            FileExistsError: the file exists.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.ones_like(torch.zeros(2))
            MemoryMappedTensor([1., 1.])
        """
        return cls.full_like(input, 1, filename=filename)

    @classmethod
    def full_like(cls, input: Tensor, fill_value: Any, *, filename: Filename | None = None) -> Self:
        """Create a file filled with one number, of the shape and dtype of a tensor.

        Args:
            input: tensor with the shape and the dtype.
            fill_value: the number.
            filename: path of the new file. Default: shared memory without a name.

        Raises:
            FileExistsError: the file exists.

        Example:
            >>> import torch
            >>> from tensorclass import MemoryMappedTensor
            >>> MemoryMappedTensor.full_like(torch.zeros(2), 7)
            MemoryMappedTensor([7., 7.])
        """
        return cls.full(input.shape, fill_value, dtype=input.dtype, filename=filename)


def _size(size: tuple[Any, ...], shape: Any) -> Size:
    """Return the shape that is given by position, or by its name."""
    if shape is None:
        return as_shape(size[0] if len(size) == 1 else size)
    if size:
        raise TypeError(f"expected the shape by position or as shape=, got both: {size} and shape={shape}")
    return as_shape(shape)


def as_shape(shape: Any) -> Size:
    """Return the shape of a tensor, given as an int or a sequence of ints.

    Raises:
        TypeError: ``shape`` is something else.
        RuntimeError: a size is negative.

    >>> as_shape(3), as_shape([3, 4])
    (torch.Size([3]), torch.Size([3, 4]))
    """
    try:
        size = shapes.as_size(shape)
    except TypeError:
        raise TypeError(f"expected a shape, as an int or a sequence of ints, got {shape!r}") from None
    if any(length < 0 for length in size):
        raise RuntimeError(f"expected a shape without negative sizes, got {list(size)}")
    return size


def check_device(what: str, device: torch.device | str | None) -> None:
    """Raise if a device is not the CPU."""
    if device is not None and torch.device(device).type != "cpu":
        raise RuntimeError(f"{what}: files are mapped to the memory of the CPU, not to {device}")
