"""Where the small tensors of a form go in a message, and which are so large that they go as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import torch
from torch import Size, Tensor

from .layout import Part
from .staging import LARGE, Staging

Form: TypeAlias = "tuple[torch.dtype, Size]"


class Places:
    """The tensors of one form in a message.

    Args:
        forms: dtype and shape of each.
        alone: large ones are no part of it.

    Attributes:
        small: which ones are put one behind the other.
        alone: which ones go as they are.
        size: how many bytes the small ones take.
    """

    __slots__ = ("_places", "_reads", "alone", "forms", "size", "small")

    def __init__(self, forms: Iterable[Form], alone: bool = True) -> None:
        self.forms: tuple[Form, ...] = tuple(forms)
        self.alone: list[int] = []
        self.small: list[int] = []
        self._reads: list[tuple[torch.dtype, Sequence[int], Sequence[int], int]] = []
        end = 0
        for at, (dtype, shape) in enumerate(self.forms):
            length = shape.numel() * dtype.itemsize
            if alone and length >= LARGE:
                self.alone.append(at)
                continue
            self.small.append(at)
            self._reads.append((dtype, shape, strides_of(shape), end // dtype.itemsize))
            end += -(-length // 16) * 16  # as Staging has it
        self.size: int = end

    def staging(self, head: int, device: torch.device) -> Staging:
        """Memory for a message, with some bytes in front."""
        return Staging(head, [self.forms[at] for at in self.small], device)

    def views(self, memory: Tensor) -> list[Tensor]:
        """The small tensors in a piece of memory of bytes, which begins at a multiple of 16."""
        typed: dict[torch.dtype, tuple[Tensor, int]] = {}
        found: list[Tensor] = []
        if not self.size:
            return [torch.empty(shape, dtype=dtype, device=memory.device) for dtype, shape, _, _ in self._reads]
        for dtype, shape, strides, start in self._reads:
            if dtype not in typed:
                whole = memory[: self.size].view(dtype)
                typed[dtype] = whole, int(whole.storage_offset())
            whole, first = typed[dtype]
            found.append(whole.as_strided(shape, strides, first + start))
        return found

    def whole(self, small: Iterable[Tensor], alone: Iterable[Tensor]) -> list[Tensor]:
        """All tensors in their order, of the small and the large ones."""
        smalls, alones, large = iter(small), iter(alone), set(self.alone)
        return [next(alones) if at in large else next(smalls) for at in range(len(self.forms))]


def places_of(parts: Iterable[Part], alone: bool = True) -> Places:
    """Where the tensors of a layout go."""
    return Places([(part.dtype, part.shape) for part in parts], alone)


def strides_of(shape: Sequence[int]) -> list[int]:
    """The strides of a tensor whose items lie one behind the other.

    >>> strides_of([2, 3, 4])
    [12, 4, 1]
    """
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]
