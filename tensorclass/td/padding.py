"""Pad batch dimensions, and pad and stack sequences of different lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name

from . import registry
from .collection import Collection
from .hidden_members import with_members
from .keys import FlatKey, NestedKey, dotted, missing_key, unravel_key, unravel_key_to_tuple
from .leaves.object_codes import to_lists

if TYPE_CHECKING:
    from .base import TensorCollection
    from .collection import Store

    Pairs = Sequence[tuple[int, int]]

T = TypeVar("T", bound="TensorCollection")

_pad = torch.nn.functional.pad


class Padding(Collection):
    """The method ``pad``."""

    __slots__ = ()

    def pad(self, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True) -> Self:
        """Pad the batch dimensions with a constant.

        Args:
            pad_size: number of new items before and after each batch dimension, from the first dimension on:
                ``[before 0, after 0, before 1, ...]``. Negative numbers cut items off.
            value: value of the new items. Non-tensor data is ``None`` there. Default: 0.
            inplace: replace the values of this collection one by one, and return it. Default: ``False``.
            safe: check the sizes before anything is changed. Default: ``True``.

        Returns:
            A collection with new tensors, or this one.

        Raises:
            RuntimeError: ``pad_size`` has an odd length, is longer than twice the number of batch dimensions, or cuts
                off more than there is; the collection is locked and ``inplace`` is true.
            TypeError: a :class:`Column` whose objects cannot be ``None`` would get new rows.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.ones(2)}, [2]).pad([0, 1], value=7)["a"]
            tensor([1., 1., 7.])
        """
        batch_size = self._batch_size
        ndim = len(batch_size)
        if len(pad_size) % 2 or len(pad_size) > 2 * ndim:
            raise RuntimeError(
                f"pad: expected two numbers for each of at most {ndim} batch dimensions, got {list(pad_size)}"
            )
        pairs = list(zip(pad_size[::2], pad_size[1::2], strict=True))
        size = _padded_size(batch_size, pairs)
        if safe and any(entry < 0 for entry in size):
            raise RuntimeError(
                f"pad: {list(pad_size)} cuts off more than there is in the batch size {list(batch_size)}"
            )
        if not inplace:
            return self._padded(pairs, value)
        self._check_unlocked()
        self._check_padding(pairs)
        self._pad_in_place(pairs, value)
        return self

    def _check_padding(self, pairs: Pairs) -> None:
        """Raise if a value cannot get new rows."""
        for item in self._now().values():
            if isinstance(item, Padding):
                item._check_padding(pairs)

    def _padded(self, pairs: Pairs, value: float) -> Self:
        size, names = _padded_size(self._batch_size, pairs), self._names
        store = {key: _pad_value(item, pairs, value) for key, item in self._now().items()}
        return self._like(store, size, names)

    def _pad_in_place(self, pairs: Pairs, value: float) -> None:
        for key, item in list(self._now().items()):
            if isinstance(item, Padding) and item._is_tree():
                item._pad_in_place(pairs, value)
            else:
                self._store[key] = _pad_value(item, pairs, value)
        self._batch_size = _padded_size(self._batch_size, pairs)


def _pad_value(item: Any, pairs: Pairs, value: float) -> Any:
    if isinstance(item, Padding):
        return item._padded(pairs, value)
    flat = [0, 0] * (item.ndim - len(pairs))
    for pair in reversed(pairs):
        flat += pair
    return _pad(item, flat, value=value)


def _padded_size(size: Size, pairs: Pairs) -> Size:
    new = list(size)
    for dim, (before, behind) in enumerate(pairs):
        new[dim] += before + behind
    return Size(new)


def pad(tensordict: T, pad_size: Sequence[int], value: float = 0.0, inplace: bool = False, safe: bool = True) -> T:
    """Pad the batch dimensions of a collection.

    Args:
        tensordict: the collection.
        pad_size: see :meth:`TensorDict.pad`, as for the other arguments.
        value: value of the new items. Default: 0.
        inplace: replace the values of the collection, and return it. Default: ``False``.
        safe: check the sizes before anything is changed. Default: ``True``.

    Returns:
        A collection with new tensors, or ``tensordict`` if ``inplace`` is set.

    Raises:
        RuntimeError: ``pad_size`` does not fit the batch dimensions; see :meth:`TensorDict.pad`.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, pad
        >>> pad(TensorDict({"a": torch.ones(2)}, [2]), [0, 1], value=7)["a"]
        tensor([1., 1., 7.])
    """
    return with_members(tensordict).pad(pad_size, value, inplace, safe)


# -- sequences ---------------------------------------------------------------------------------------------------------


def pad_sequence(
    list_of_tensordicts: Sequence[T],
    pad_dim: int = 0,
    padding_value: float | Mapping[NestedKey, float] = 0.0,
    out: T | None = None,
    return_mask: bool | NestedKey = False,
    padding_side: str = "right",
) -> T:
    """Pad collections whose values differ in length along one dimension to the longest, and stack them.

    Args:
        list_of_tensordicts: one or more collections with the same keys.
        pad_dim: dimension of the values to pad; a negative one counts from the end of each value. If it is a batch
            dimension, the result has the greatest length in its batch size. Default: 0.
        padding_value: value of the new items: one number, or numbers by key for some of the tensors (0 for the others).
            Non-tensor data is ``None`` there. Default: 0.
        out: collection of the result's batch size that the result is written to, in place for keys that it has.
        return_mask: ``True`` adds a nested collection of masks under the key ``"masks"``; a key adds it there. A mask
            is true at items that are not padding. It has the shape of the batch, and after it the padded dimension
            if that is not a batch dimension. Default: ``False``.
        padding_side: ``"right"`` (default) adds new items after, ``"left"`` before.

    Returns:
        A collection whose first batch dimension counts the items of the list.

    Raises:
        RuntimeError: the list is empty; keys, or shapes beside ``pad_dim``, differ; ``return_mask`` is used with
            records, which have no field for masks.
        KeyError: ``padding_value`` has a key that is not the key of a tensor.
        TypeError: a :class:`Column` whose objects cannot be ``None`` would get new rows.
        ValueError: ``padding_side`` is neither.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, pad_sequence
        >>> rows = [TensorDict({"a": torch.ones(n)}, [n]) for n in (3, 1)]
        >>> data = pad_sequence(rows, return_mask=True)
        >>> data["a"].tolist(), data["masks", "a"].tolist()
        ([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0]], [[True, True, True], [True, False, False]])
    """
    items = list(list_of_tensordicts)
    if not items:
        raise RuntimeError("pad_sequence: expected at least one collection, got an empty list")
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side: expected 'left' or 'right', got {padding_side!r}")
    first = items[0]
    if not isinstance(first, Collection):
        raise TypeError(
            f"pad_sequence: expected a list of collections, got a {type_name(first)} in it; "
            "torch.nn.utils.rnn.pad_sequence takes tensors"
        )
    if pad_dim < 0 and len(ends := {leaf.ndim + pad_dim for leaf in first._leaves()}) == 1:
        pad_dim = ends.pop()
    if return_mask is not False and not isinstance(first, registry.TensorDict):
        raise RuntimeError(
            f"pad_sequence: a {type_name(first)} has no field for the masks of return_mask={return_mask!r}; pad "
            "[record.to_tensordict() for record in records] instead"
        )
    fill: dict[FlatKey, float] = {}
    if isinstance(padding_value, Mapping):
        fill = {unravel_key(key): number for key, number in padding_value.items()}
        names = [unravel_key(path) for path, _ in first._named_leaves()]
        if unknown := [key for key in fill if key not in names]:
            message = f"padding_value: expected some of the keys of tensors, {names}, got {unknown}"
            raise missing_key(message, unknown, names)
    pads = _Padder(pad_dim, padding_side == "left", 0.0 if isinstance(padding_value, Mapping) else padding_value, fill)
    if isinstance(first, Collection) and not first._is_tree():  # a list of non-tensor data
        result, masks = pads.stack(items, ("data",)), None
    else:
        result, masks = pads.join(items, ())
    if return_mask is not False:
        path = ("masks",) if return_mask is True else unravel_key_to_tuple(return_mask)
        result._set_nested(path, masks)
    if out is None:
        return result  # type: ignore[no-any-return]
    from .stack_and_cat import _write_out

    return _write_out(result, out)  # type: ignore[no-any-return]


class _Padder:
    """Pads and stacks the values of collections, level by level."""

    def __init__(self, dim: int, left: bool, default: float, fill: Mapping[FlatKey, float]) -> None:
        self.dim, self.left, self.default, self.fill = dim, left, default, fill

    def join(self, items: Sequence[Any], path: tuple[str, ...]) -> tuple[Any, Any]:
        """Return the padded and stacked collection, and its masks."""
        first = items[0]
        where = f"pad_sequence: {dotted(path)}: " if path else "pad_sequence: "
        for position, item in enumerate(items):
            if not isinstance(item, Collection) or item._store.keys() != first._store.keys():
                got = list(item._store) if isinstance(item, Collection) else type_name(item)
                raise RuntimeError(
                    f"{where}all collections need the same keys; item 0 has {list(first._store)}, item {position} {got}"
                )
        size = Size((len(items), *self.longest([item._batch_size for item in items], self.dim, where)))
        store: Store = {}
        masks: Store = {}
        for key, value in first._now().items():
            here = (*path, key)
            values: list[Any] = [item._store[key] for item in items]
            if isinstance(value, Collection) and value._is_tree():
                store[key], masks[key] = self.join(values, here)
            else:
                store[key] = self.stack(values, here)
                if isinstance(value, Tensor):
                    masks[key] = self.mask(values, store[key], size)
        return first._like(store, size), registry.TensorDict._of(first, {})._like(masks, size)

    def longest(self, sizes: Sequence[Size], dim: int, where: str) -> Size:
        """Return the smallest size that holds all. They may differ in the padded dimension only."""
        new = list(sizes[0])
        if 0 <= dim < len(new):
            new[dim] = max([size[dim] for size in sizes if len(size) > dim])
        for position, size in enumerate(sizes):
            if len(size) != len(new) or any(a != b for d, (a, b) in enumerate(zip(size, new, strict=True)) if d != dim):
                raise RuntimeError(
                    f"{where}shapes may differ in dimension {dim} only; item 0 has {list(sizes[0])}, item {position} "
                    f"has {list(size)}"
                )
        return Size(new)

    def stack(self, values: Sequence[Any], path: tuple[str, ...]) -> Any:
        where = f"pad_sequence: {dotted(path)}: "
        objects = isinstance(values[0], Collection)
        dim = self.dim if self.dim >= 0 else self.dim + values[0].ndim
        if not 0 <= dim < values[0].ndim and not objects:
            raise RuntimeError(f"{where}there is no dimension {self.dim} in a tensor of shape {list(values[0].shape)}")
        if any(isinstance(value, Collection) != objects for value in values):
            raise RuntimeError(f"{where}some of the values are tensors and some are not")
        size = self.longest([value.shape for value in values], dim, where)
        if dim >= len(size):
            return torch.stack(list(values))
        number = self.fill.get(unravel_key(path), self.default)
        padded: list[Any] = []
        for value in values:
            more = size[dim] - value.shape[dim]
            pairs = [(0, 0)] * dim + [(more, 0) if self.left else (0, more)]
            try:
                padded.append(_pad_value(value, pairs, number) if more else value)
            except TypeError as error:
                raise TypeError(f"{where}{error}") from None
        return torch.stack(padded)

    def mask(self, values: Sequence[Tensor], stacked: Any, batch_size: Size) -> Tensor:
        """Return the mask of items that are not padding, over the batch and the padded dimension."""
        dim = self.dim if self.dim >= 0 else self.dim + values[0].ndim
        count = stacked.shape[dim + 1]
        positions = torch.arange(count, device=stacked.device)
        lengths = torch.tensor([value.shape[dim] for value in values], device=stacked.device).unsqueeze(-1)
        inside = positions >= count - lengths if self.left else positions < lengths
        ndim = len(batch_size) - 1
        if dim >= ndim:
            dim, batch_size = ndim, Size((*batch_size, count))
        inside = inside.reshape(len(values), *(1,) * dim, count, *(1,) * (len(batch_size) - dim - 2))
        return inside.expand(batch_size).contiguous()


def unpad_sequence(
    padded: TensorCollection, mask: TensorCollection | Tensor | None = None, *, pad_dim: int = 0
) -> TensorCollection:
    """Cut the items of a padded batch to their own lengths: the inverse of :func:`pad_sequence` with masks.

    Args:
        padded: collection whose first batch dimension counts the items.
        mask: true at items that are not padding: a boolean tensor ``[items, length]`` for all values, or a collection
            with a mask for each, as :func:`pad_sequence` makes it. Default: the collection under ``"masks"``, which
            the result then lacks.
        pad_dim: padded dimension of the values of each item, counted from the front. Default: 0.

    Returns:
        A lazy stack of the items. Their tensors are views of those in ``padded``.

    Raises:
        ValueError: there is no mask, it does not fit, or it marks positions of an item that are not consecutive.
        KeyError: the collection of masks lacks a mask.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, pad_sequence, unpad_sequence
        >>> rows = [TensorDict({"a": torch.ones(n)}, [n]) for n in (3, 1)]
        >>> unpad_sequence(pad_sequence(rows, return_mask=True))[1]["a"]
        tensor([1.])
    """
    if not padded._batch_size:
        raise ValueError("unpad_sequence: the first batch dimension counts the items, and there is none")
    source: Any = padded
    if mask is None:
        given: Any = padded._store.get("masks")
        if given is None:
            raise ValueError("unpad_sequence: give mask=, or pad with pad_sequence(..., return_mask=True)")
        mask, source = given, with_members(padded).exclude("masks")
    if isinstance(mask, Tensor) and (mask.ndim != 2 or len(mask) != len(padded)):
        raise ValueError(f"unpad_sequence: expected a mask of shape [{len(padded)}, length], got {list(mask.shape)}")
    runs = _MaskRuns(len(padded), pad_dim)
    runs.find(source, mask, ())
    parts: list[Any] = [runs.cut(source, number, ()) for number in range(len(padded))]
    result: TensorCollection = registry.lazy_stack(parts)
    return result


class _MaskRuns:
    """First position and length of each item in the padded values, by key."""

    def __init__(self, count: int, dim: int) -> None:
        self.count, self.dim = count, dim
        self.of: dict[tuple[str, ...], list[tuple[int, int]]] = {}

    def find(self, source: Any, mask: Any, path: tuple[str, ...]) -> None:
        for key, value in source._now().items():
            here = (*path, key)
            below = mask
            if isinstance(mask, Collection):
                below = mask._store.get(key)
            if isinstance(value, Collection):
                if value._is_tree():
                    if below is None:
                        below = mask._same({})  # if there are values below, they lack a mask
                    self.find(value, below, here)
            elif not isinstance(below, Tensor):
                raise KeyError(f"unpad_sequence: there is no mask for {'.'.join(here)!r}")
            else:
                self.of[here] = self.runs(below, here)
        # a batch dimension that was padded is the same in all values
        if self.dim < len(source._batch_size) - 1:
            own = [runs for key, runs in self.of.items() if key[: len(path)] == path]
            if own and any(runs != own[0] for runs in own):
                raise ValueError("unpad_sequence: the masks of values that share the padded batch dimension differ")
            if own:
                self.of[path] = own[0]

    def runs(self, mask: Tensor, path: tuple[str, ...]) -> list[tuple[int, int]]:
        # along the other dimensions of a mask, all entries of an item are equal
        at = min(self.dim + 1, mask.ndim - 1)
        if not mask.shape[at]:
            return [(0, 0)] * self.count
        marked = mask.movedim(at, 1).reshape(self.count, mask.shape[at], -1).any(-1)
        lengths = to_lists(marked.sum(-1))
        first = to_lists(marked.int().argmax(-1))
        last = to_lists(marked.shape[1] - marked.flip(1).int().argmax(-1))
        for number, (start, length, stop) in enumerate(zip(first, lengths, last, strict=True)):
            if length and stop - start != length:
                raise ValueError(
                    f"unpad_sequence: {dotted(path)}: expected consecutive positions in the mask of item {number}, "
                    f"got {length} of the {stop - start} from {start} on"
                )
        return [(start if length else 0, length) for start, length in zip(first, lengths, strict=True)]

    def cut(self, source: Any, number: int, path: tuple[str, ...]) -> Any:
        size = source._batch_size[1:]
        run = self.of.get(path)
        if run is not None:
            size = Size((*size[: self.dim], run[number][1], *size[self.dim + 1 :]))
        store: Store = {}
        for key, value in source._now().items():
            here, entry = (*path, key), value
            if isinstance(value, Collection) and value._is_tree():
                store[key] = self.cut(value, number, here)
            else:
                item, own = entry[number], self.of.get(here, run)
                store[key] = item if own is None else item.narrow(self.dim, *own[number])
        return source._like(store, size)
