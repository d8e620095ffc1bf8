"""Tensors that lie one behind the other in one piece of memory: moved by one transfer, pickled once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Size, Tensor

ALIGN = 8  #: where a tensor begins is a multiple of it, or of the size of its items
_LOOSE = 64  #: how many bytes for each tensor may be unused

#: dtype, shape and first byte of a part of the memory
Place: TypeAlias = "tuple[torch.dtype, Size, int]"


class Flat(NamedTuple):
    """One piece of memory, and where the tensors are in it."""

    memory: Tensor  #: of bytes
    places: list[Place]

    def parts(self) -> list[Tensor]:
        """The tensors."""
        return [view(self.memory, *place) for place in self.places]


def view(memory: Tensor, dtype: torch.dtype, shape: Sequence[int], start: int) -> Tensor:
    """A tensor in a piece of memory of bytes."""
    size = Size(shape)
    count = size.numel()
    if not count:
        return torch.empty(size, dtype=dtype, device=memory.device)
    flat = memory[start : start + count * dtype.itemsize]
    if (memory.storage_offset() + start) % dtype.itemsize:
        flat = flat.clone()  # another program has put it where its dtype cannot lie
    flat = flat if dtype is torch.uint8 else flat.view(dtype)
    return flat.view(*size) if size else flat.view(size)  # a Size takes long to pass


def is_sharded(leaf: Tensor) -> bool:
    """Whether a tensor is a ``DTensor``. Torch's module is not imported for it: it takes long."""
    module: Any = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(leaf, module.DTensor)


#: what to do with one where its values are read
WHOLE = "a DTensor, of which each process has a part; take whole values, full_tensor(), or this process's, to_local()"


def parts_of(leaf: Tensor) -> tuple[Tensor, ...]:
    """What lies in memory of a tensor: a jagged one is two."""
    if leaf.is_nested and leaf.layout == torch.jagged:
        ragged: Any = leaf
        return ragged.values(), ragged.offsets()
    return (leaf,)


def joined(leaf: Tensor, parts: Iterator[Tensor]) -> Tensor:
    """A tensor like another one, of the parts in memory."""
    if leaf.is_nested and leaf.layout == torch.jagged:
        ragged: Any = torch.nested.nested_tensor_from_jagged(next(parts), next(parts))
        return ragged  # type: ignore[no-any-return]
    return next(parts)


def places_of(parts: Iterable[Tensor]) -> tuple[list[Place], int]:
    """Where parts go, and how many bytes they take together."""
    end, places = 0, list[Place]()
    for part in parts:
        start = -(-end // max(ALIGN, part.dtype.itemsize)) * max(ALIGN, part.dtype.itemsize) if part.numel() else end
        places.append((part.dtype, part.shape, start))
        end = start + part.numel() * part.dtype.itemsize
    return places, -(-end // ALIGN) * ALIGN


def flat_of(leaves: Iterable[Tensor]) -> Flat | None:
    """The memory that tensors fill one behind the other; ``None`` where they do not.

    What tells is the tensors alone: nothing is written down that could become untrue. The first two tell in most cases.
    """
    memory: Any = None
    places: list[Place] = []
    end = 0
    for leaf in leaves:
        if leaf.__class__ is not Tensor and not leaf.is_nested:
            return None
        for part in parts_of(leaf):
            if part.layout != torch.strided or part.requires_grad or part.is_conj() or part.is_neg():
                return None
            size = part.dtype.itemsize
            if part.numel():
                storage = part.untyped_storage()
                if memory is None:
                    memory = storage
                start = int(part.storage_offset()) * size
                if storage._cdata != memory._cdata or start < end or not part.is_contiguous():
                    return None
                end = start + part.numel() * size
                places.append((part.dtype, part.shape, start))
            else:
                places.append((part.dtype, part.shape, 0))
    if memory is None or memory.nbytes() - end > _LOOSE:
        return None
    used = sum(shape.numel() * dtype.itemsize for dtype, shape, _ in places)
    if end - used > _LOOSE * len(places):
        return None
    return Flat(torch.empty(0, dtype=torch.uint8, device=memory.device).set_(memory), places)


def with_parts(data: Any, parts: Iterable[Tensor]) -> Any:
    """A collection like another one, of the parts of its tensors in memory."""
    found = iter(parts)
    return data._with_leaves(iter([joined(leaf, found) for leaf in data._leaves()]))


def moved_at_once(data: Any, device: torch.device, non_blocking: bool) -> Any:
    """A collection whose tensors are on another device by one transfer; itself where its tensors do not allow that."""
    first = next(iter(data._leaves()), None)
    if first is None or first.device == device:
        return data
    flat = flat_of(data._leaves())
    if flat is None or len(flat.places) < 2:
        return data
    there = Flat(flat.memory.to(device, non_blocking=non_blocking), flat.places)
    return with_parts(data, there.parts())


Copy: TypeAlias = "Callable[[], None]"


def gathered(parts: Sequence[Tensor], memory: Tensor, places: Sequence[Place]) -> list[Copy]:
    """What copies parts to their places in a piece of memory."""

    def copy(part: Tensor, place: Place) -> Copy:
        return lambda: _copy(part, view(memory, *place))

    return [copy(part, place) for part, place in zip(parts, places, strict=True) if part.numel()]


def _copy(part: Tensor, place: Tensor) -> None:
    with torch.no_grad():
        place.copy_(part.detach())
