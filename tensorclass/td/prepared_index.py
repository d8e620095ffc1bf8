"""Normalize an index, so that it applies to every value of a collection, whatever dimensions the value has."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Size, Tensor

from tensorclass.support.printable import printable, type_name

from . import first_class_dims, shapes
from .collection import functorch
from .tracing import has_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

_POSITIONS = frozenset((torch.int64, torch.int32))
#: dtypes of masks; a mask consumes as many dimensions as it has
_MASKS = frozenset((torch.bool, torch.uint8))
_DTYPES_OF_MASKS = frozenset((*_MASKS, np.dtype("bool"), np.dtype("uint8")))

_is_wrapped: Callable[[Tensor], bool] = functorch.is_functorch_wrapped_tensor  # true inside vmap, grad, ...


def _is_read(index: Tensor) -> bool:
    """Return whether Python reads the values of an index: of one on the CPU that nothing traces or transforms."""
    return has_values(index) and index.is_cpu and not _is_wrapped(index)


def prepare_index(index: Any, batch_size: Size, keep_masks: bool = False, writing: bool = False) -> tuple[Any, ...]:
    """Normalize an index so that it applies to every value, whatever dimensions a value has after the batch size.

    Sequences and arrays become tensors, and masks become the positions of their true elements, unless ``keep_masks`` is
    set: otherwise each value would search the mask again. An ellipsis is expanded to the batch dimensions that it
    stands for. With ``writing``, positions are checked: see :func:`_check_positions`.

    Raises:
        IndexError: the index has more dimensions than the batch, or a mask has another shape than the batch.
    """
    given: object = index
    kind = type(given)
    if kind is not tuple:
        if kind is Tensor and index.dtype is torch.int64 and batch_size:
            if writing:
                _check_positions((index,), batch_size)
            return (index,)
        if (kind is int or kind is slice) and batch_size:
            return (index,)
        if index is Ellipsis:
            return ()
        index = (index,)
    out: list[Any] = []
    consumed = 0
    ellipsis = -1
    masks = positions = False
    item: object
    for item in index:
        kind = type(item)
        if kind is int or kind is slice:
            consumed += 1
        elif item is None or kind is bool:
            pass
        elif item is Ellipsis:
            if ellipsis >= 0:
                raise IndexError("an index can only have a single ellipsis ('...')")
            ellipsis = len(out)
            continue
        else:
            item = item if kind is Tensor else _as_index(item)
            if not isinstance(item, Tensor):
                consumed += 0 if isinstance(item, bool) else 1
            elif item.dtype in _POSITIONS:
                consumed += 1
                positions = True
            elif item.dtype in _MASKS:
                masks = True
                consumed += item.ndim
            elif item.ndim or item.dtype.is_floating_point or item.dtype.is_complex:
                raise IndexError(f"tensors used as indices must be int64, int32 or bool, got {item.dtype}")
            else:  # torch accepts a scalar of any integer dtype
                consumed += 1
        out.append(item)
    if consumed > len(batch_size):
        raise IndexError(shapes.too_many_indices(consumed, batch_size))
    if ellipsis >= 0:
        out[ellipsis:ellipsis] = [slice(None)] * (len(batch_size) - consumed)
    if writing and positions:
        _check_positions(out, batch_size)
    return tuple(_without_masks(out, batch_size, keep_masks)) if masks else tuple(out)


def _as_index(item: Any) -> Any:
    if isinstance(item, Tensor):
        return item
    if isinstance(item, np.ndarray):
        return torch.as_tensor(item)
    if isinstance(item, range):
        return torch.arange(item.start, item.stop, item.step)
    given = item
    if isinstance(item, (list, tuple)):
        try:
            return torch.as_tensor(given) if len(given) else torch.empty(0, dtype=torch.long)
        except (TypeError, ValueError, RuntimeError) as error:  # ragged, or not of numbers
            raise _no_index(item, error) from None
    if isinstance(item, np.bool_):
        return bool(given)
    if isinstance(item, torch.SymInt):
        return item
    if first_class_dims.is_bound(item):
        raise first_class_dims.BoundIndex(item)
    try:
        return operator.index(item)
    except TypeError as error:
        raise _no_index(item, error) from None


def _no_index(item: Any, reason: Exception) -> IndexError:
    """Return the error for an object that is not an index."""
    if first_class_dims.is_bound_item(item):  # several that split one dimension
        return first_class_dims.BoundIndex(item)
    if callable(item):
        return IndexError("a function is no index; .filter(function) returns the rows for which it is true")
    keys: Any = item if item.__class__ is list else []
    if keys and all(isinstance(key, str) for key in keys):
        shown = ", ".join([repr(key) for key in keys])
        return IndexError(f"a list of keys is no index; .select({shown}) returns a collection of some keys")
    return IndexError(
        "a collection is indexed by keys, or by ints, slices, None, ..., bools, and sequences, arrays or tensors of "
        f"ints or bools; got {item!r} ({type_name(item)}): {printable(reason)}"
    )


def _without_masks(items: list[Any], batch_size: Size, keep: bool) -> Iterator[Any]:
    """Yield the items, with masks replaced by the positions of their true elements. Raise if a mask does not fit."""
    dim = 0
    for item in items:
        if isinstance(item, Tensor) and item.dtype in (torch.bool, torch.uint8):
            if item.shape != batch_size[dim : dim + item.ndim]:
                raise IndexError(
                    f"the shape of the mask {list(item.shape)} does not match the batch dimensions "
                    f"{list(batch_size[dim : dim + item.ndim])} that it indexes"
                )
            dim += item.ndim
            if keep:
                yield item if item.dtype is torch.bool else item.bool()
            elif item.ndim:
                yield from _positions_of(item)
            else:
                yield bool(item)
        else:
            dim += 0 if item is None or isinstance(item, bool) else 1
            yield item


#: masks of at least so many elements are searched by numpy, which is 10 to 60 times as fast as torch on the CPU
_LARGE_MASK = 2000


def _positions_of(mask: Tensor) -> Sequence[Tensor]:
    """Return the positions of the true elements of a mask, a tensor for each dimension."""
    if type(mask) is Tensor and mask.numel() >= _LARGE_MASK and _is_read(mask):
        try:
            array: NDArray[Any] = mask.numpy()
        except RuntimeError:  # torch stands in for it
            pass
        else:
            return [torch.as_tensor(positions) for positions in array.nonzero()]
    return mask.nonzero(as_tuple=True)


def _check_positions(index: Sequence[Any], batch_size: Size) -> None:
    """Raise if a position is out of range. Torch would raise only after writing the rows before it.

    Positions on other devices are not checked, since that would need a transfer.
    """
    dim = 0
    low: int
    high: int
    for item in index:
        if type(item) is int or type(item) is slice:
            dim += 1
        elif type(item) is Tensor and item.ndim:
            size = batch_size[dim]
            if item.dtype in _POSITIONS and _is_read(item) and (count := item.numel()):
                if count <= 64 and item.ndim == 1:  # faster one by one
                    positions: Any = item.tolist()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
                    low, high = min(positions), max(positions)
                else:
                    low, high = (int(bound) for bound in item.aminmax())
                if low < -size or high >= size:
                    wrong = low if low < -size else high
                    raise IndexError(f"index {wrong} is out of bounds for batch dimension {dim} with size {size}")
            dim += item.ndim if item.dtype in _MASKS else 1
        elif item is not None and not isinstance(item, bool):
            dim += 1


def convert_ellipsis_to_idx(idx: Any, batch_size: Sequence[int]) -> Any:
    """Replace ``...`` in an index by full slices.

    Args:
        idx: an index; one without ``...`` is returned unchanged.
        batch_size: batch size of the indexed collection.

    Raises:
        RuntimeError: there are two ``...``, or more indices than dimensions.

    Example:
        >>> from tensorclass.utils import convert_ellipsis_to_idx
        >>> convert_ellipsis_to_idx((..., 0), [3, 4, 5])
        (slice(None, None, None), slice(None, None, None), 0)
    """
    given: Any = idx
    items: tuple[Any, ...] = given if isinstance(idx, tuple) else (idx,)
    positions = [position for position, item in enumerate(items) if item is Ellipsis]
    if not positions:
        return given
    if len(positions) > 1:
        raise RuntimeError("an index can hold one ... only")
    used = 0
    for item in items:
        if item is not None and item is not Ellipsis and not isinstance(item, bool):
            used += item.ndim if getattr(item, "dtype", None) in _DTYPES_OF_MASKS else 1
    rest = len(batch_size) - used
    if rest < 0:
        raise RuntimeError(f"too many indices: {used} for {len(batch_size)} dimensions")
    return (*items[: positions[0]], *(slice(None),) * rest, *items[positions[0] + 1 :])
