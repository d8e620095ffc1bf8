"""Operations on the buffer of a consolidated collection: one call for all of its tensors.

:func:`mark` records where the tensors of a collection lie in their buffer. :func:`buffer_of` returns the buffer for
as long as they are there. It compares the tensors with the mark at each call, since they can be replaced, resized, set
to other memory or made to require a gradient by code that does not update the mark. An outdated mark is removed. Values
that are written in place are written to the buffer, so the mark stays valid. It does not keep the buffer alive.

Methods that take a few microseconds look for a mark only if the collection is locked, as ``consolidate`` returns it.
Reading the lock takes some nanoseconds, so other collections do not pay.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tensorclass.support.exact_types import DICT

from . import registry
from .collection import Collection
from .memory.buffer_layout import BufferLayout
from .memory.consolidated_buffer import FlatBuffer, flat_of, is_transformed, spans_of, with_buffers
from .tracing import kernels_run, knows_addresses

_foreach_copy: Any = torch._foreach_copy_  # pyright: ignore[reportPrivateImportUsage]
_pointer: Any = Tensor.data_ptr

#: devices on which a call for each tensor takes no longer than to find the buffer and to make tensors of the result
_QUICK = frozenset(("cpu",))


class BufferMark(NamedTuple):
    """The positions of the tensors of a collection."""

    layout: BufferLayout
    pointers: list[int]  #: the addresses of the tensors
    pays: bool  #: whether an operation on the buffer takes less time than one for each tensor


class FoundBuffer(NamedTuple):
    """The buffer of a collection."""

    layout: BufferLayout
    memory: Tensor  #: of one dimension, with the dtype of the layout


def _known_mark(data: Any) -> BufferMark | None:
    """Return the mark of a collection, which may be outdated. Compiled code has no addresses, and gets ``None``."""
    return getattr(data, "_buffer", None) if knows_addresses() else None


def mark(data: Any, layout: BufferLayout | None = None) -> Any:
    """Remember where the tensors of a collection lie in their buffer, if they lie in one, and return the collection.

    Args:
        data: the collection.
        layout: where its tensors are known to lie. Default: found out from their addresses.
    """
    leaves = list(data._leaves_and_buffers())
    if layout is None:
        flat = flat_of(leaves)
        if flat is None or len(flat.spans) < 2:
            return data
        layout = BufferLayout(flat.spans, flat.memory.numel())
    return mark_positions(data, layout, leaves) if layout.fits(leaves) else data


def mark_positions(data: Any, layout: BufferLayout, leaves: list[Tensor]) -> Any:
    """Mark a collection whose tensors, in order, are known to lie in a buffer of a layout, and return it."""
    if leaves and leaves[0].__class__ is Tensor and not leaves[0].is_meta:  # tensors without memory have no address
        data._buffer = BufferMark(layout, [*map(_pointer, leaves)], leaves[0].device.type not in _QUICK)
    return data


def buffer_of(data: Any, *methods: str, columns: bool = False) -> FoundBuffer | None:
    """Return the buffer of a marked collection, or ``None`` if it has no mark or its tensors are elsewhere.

    Args:
        data: the collection.
        methods: methods that are called for the whole tree. If the class of a nested collection overrides one, it has
            to be called, so ``None`` is returned; likewise for values other than tensors and trees. Default: the
            values of the tree do not matter.
        columns: columns may be among the values. Default: ``False``.
    """
    known: BufferMark | None = _known_mark(data)
    if known is None or is_transformed():
        return None
    leaves: list[Tensor] = []
    if not methods:
        leaves += data._leaves_and_buffers()
    elif not _collect(data, methods, columns, leaves):
        return None
    if known.layout.fits(leaves) and [*map(_pointer, leaves)] == known.pointers:
        memory = known.layout.whole(leaves)
        if memory is not None:
            return FoundBuffer(known.layout, memory)
    del data._buffer
    return None


def _collect(data: Any, methods: tuple[str, ...], columns: bool, leaves: list[Tensor]) -> bool:
    """Collect the tensors of a tree. Return ``False`` for a tree with values of other classes."""
    if type(data._store) is not DICT:
        return False
    for value in data._now().values():
        if value.__class__ is Tensor:
            leaves.append(value)
        elif not isinstance(value, Collection):
            return False
        elif not value._is_tree():
            if not columns or not value._named_columns():  # type: ignore[attr-defined]
                return False
            leaves += value._leaves_and_buffers()
        elif not _inherits(value.__class__, methods) or not _collect(value, methods, columns, leaves):
            return False
    return True


def _inherits(cls: type, methods: tuple[str, ...]) -> bool:
    """Return whether a class has the methods of collections, and no others under their names."""
    return all(getattr(cls, name) is getattr(registry.TensorDict, name) for name in methods)


def dense_tensors(data: Any) -> list[Tensor] | None:
    """Return the tensors of a tree in order; ``None`` if it has other values, or tensors that are not dense."""
    leaves: list[Tensor] = []
    if not data._is_tree() or not _collect(data, (), False, leaves):
        return None
    return leaves if all(leaf.layout is torch.strided and not leaf.is_nested for leaf in leaves) else None


def on_buffer(data: Any, layout: BufferLayout, memory: Tensor) -> Any:
    """Return a collection of the structure of ``data`` whose tensors lie in another buffer, and mark it."""
    tensors = layout.tensors_in(memory)
    return mark_positions(data._with_leaves_and_buffers(iter(tensors)), layout, tensors)


def _have_same_layout(own: BufferMark | None, other: BufferMark | None, ours: Any, theirs: Any) -> bool:
    """Return whether two collections have marks of the same layout, and the same keys in the same order."""
    if own is None or other is None:
        return False
    same = own.layout is other.layout or (
        own.layout.size == other.layout.size and own.layout.spans == other.layout.spans
    )
    return same and _have_same_keys(ours, theirs)


def _have_same_keys(ours: Any, theirs: Any) -> bool:
    if [*ours._store] != [*theirs._store]:
        return False
    for key, value in ours._now().items():
        if isinstance(value, Collection):
            other = theirs._store[key]
            if not isinstance(other, Collection) or not _have_same_keys(value, other):
                return False
    return True


def cloned(data: Any) -> Any:
    """Return a copy of a consolidated collection with a buffer of its own; ``None`` if there is none.

    Tensors on a CPU are copied one by one, which is faster.
    """
    known: BufferMark | None = _known_mark(data)
    if known is None or not known.pays or (found := buffer_of(data, "clone", columns=True)) is None:
        return None
    return on_buffer(data, found.layout, found.memory.clone())


def moved(data: Any, device: torch.device, non_blocking: bool) -> Any:
    """Move a consolidated collection to another device by one transfer.

    The memory of the tensors decides whether it is one, with or without a mark: a transfer takes longer than to look.

    Args:
        data: a collection.
        device: the target device.
        non_blocking: do not wait for the transfer.

    Returns:
        The moved collection. ``data`` itself if it is on the device already, has fewer than two buffers or is not
        consolidated.
    """
    first = next(iter(data._leaves_and_buffers()), None)
    if first is None or first.device == device or not knows_addresses():
        return data
    found = None if getattr(data, "_buffer", None) is None else buffer_of(data)
    if found is not None:
        return on_buffer(data, found.layout, found.memory.to(device, non_blocking=non_blocking))
    flat = flat_of(data._leaves_and_buffers())
    if flat is None or len(flat.spans) < 2:
        return data
    there = FlatBuffer(flat.memory.to(device, non_blocking=non_blocking), flat.spans)
    return with_buffers(data, there.parts())


def hand_over(data: Any, other: Any) -> None:
    """Give the mark of a collection, if it has one, to another one of the same tensors."""
    known = _known_mark(data)
    if known is not None:
        other._buffer = known


def cast(data: Any, dtype: torch.dtype, integers: bool, *methods: str) -> Any:
    """Cast a consolidated collection whose tensors have one dtype by one call; ``None`` for other collections.

    Args:
        data: the collection.
        dtype: another dtype than that of the tensors.
        integers: whether integers and booleans are cast to floating and complex dtypes.
        methods: the methods that cast a nested collection.
    """
    known: BufferMark | None = _known_mark(data)
    if known is None or not known.pays:
        return None
    layout = known.layout
    if not layout.is_uniform or layout.dtype is dtype:
        return None
    if _is_inexact(dtype) and not (integers or _is_inexact(layout.dtype)):
        return None
    if (found := buffer_of(data, *methods)) is None:
        return None
    return on_buffer(data, found.layout.with_dtype(dtype), found.memory.to(dtype))


def _is_inexact(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def pinned(data: Any) -> Any:
    """Copy all tensors and columns of a collection into one page-locked buffer, from which one transfer takes them.

    Returns:
        ``None`` if there are fewer than two tensors, or one is not dense, not in main memory or requires a gradient.
    """
    tensors = list(data._leaves_and_buffers())
    if len(tensors) < 2 or not kernels_run() or not all(map(_is_dense, tensors)):
        return None
    spans, size = spans_of(tensors)
    memory = page_locked(size)
    if memory is None:
        return None
    targets = FlatBuffer(memory, spans).parts()
    _foreach_copy(targets, tensors)
    return data._with_leaves_and_buffers(iter(targets))


def page_locked(size: int) -> Tensor | None:
    """Return page-locked memory for a buffer; ``None`` if torch has no accelerator."""
    if not torch.accelerator.is_available():
        return None
    return torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)


def _is_dense(tensor: Tensor) -> bool:
    return (
        tensor.__class__ is Tensor and tensor.is_cpu and tensor.layout is torch.strided and not tensor.requires_grad
        and not tensor.is_quantized and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()
    )  # fmt: skip


_COMPARISONS: frozenset[Any] = frozenset(
    (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, operator.eq, operator.ne)
)


def compared(function: Any, ours: Any, theirs: Any) -> Any:
    """Compare two consolidated collections of one dtype by one call; ``None`` for other collections.

    Args:
        function: a function of two tensors. ``None`` is returned if it is no comparison.
        ours: a collection.
        theirs: another collection.
    """
    known: BufferMark | None = _known_mark(ours)
    if known is None or not known.pays or function not in _COMPARISONS or not known.layout.is_uniform:
        return None
    if not _have_same_layout(known, _known_mark(theirs), ours, theirs):
        return None
    if (pair := _on_one_device(ours, theirs, "__eq__", "_pairwise")) is None:
        return None
    return on_buffer(ours, known.layout.with_dtype(torch.bool), function(*pair))


def _on_one_device(ours: Any, theirs: Any, *methods: str) -> tuple[Tensor, Tensor] | None:
    """Return the buffers of two marked collections; ``None`` if one has none, or they are on different devices."""
    own, other = buffer_of(ours, *methods), buffer_of(theirs, *methods)
    if own is None or other is None or own.memory.device != other.memory.device:
        return None
    return own.memory, other.memory


def are_all_true(data: Any) -> bool | None:
    """Return ``True`` if all elements of a marked collection are; ``None`` if that is not known.

    What lies between the tensors may be false, so a buffer tells nothing if it has a false element.
    """
    if getattr(data, "_buffer", None) is None or not knows_addresses():  # what most calls are
        return None
    found = buffer_of(data, "_reduce")
    return True if found is not None and found.layout.is_uniform and bool(found.memory.all()) else None


def are_identical(ours: Any, theirs: Any) -> bool:
    """Return whether all values of two consolidated collections are known to have the same bits."""
    if not _have_same_layout(_known_mark(ours), _known_mark(theirs), ours, theirs):
        return False
    pair = _on_one_device(ours, theirs, "_pairwise")
    return pair is not None and torch.equal(pair[0].view(torch.uint8), pair[1].view(torch.uint8))
