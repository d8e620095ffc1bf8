"""Collections in ``torch.utils.data``: as a dataset, as samples, and as batches.

A collection with a batch dimension is a dataset of its rows. ``__getitems__`` gives the rows of a batch with one index
operation, so that nothing is left to collate. Samples of other datasets are stacked. torch's default collation does
both: :class:`Collection` is registered in its table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, overload

import torch
from torch import Tensor
from torch.utils.data._utils import collate as _collating

from tensorclass.support.exact_types import DICT
from tensorclass.support.printable import type_name

from . import registry
from .base import TensorCollection
from .collection import Collection
from .columns.buffer_column import BufferColumn
from .columns.ragged import Ragged as RaggedColumn
from .hidden_members import with_members
from .keys import NestedKey, dotted, unravel_key_to_tuple
from .stack_and_cat import stack
from .tensordict import TensorDict

Path = tuple[str, ...]
C = TypeVar("C", bound=TensorCollection)

# to type checkers, a dict with string keys is not a Mapping[NestedKey, ...]
Numbers: TypeAlias = "Mapping[str, float] | Mapping[NestedKey, float]"
Keys: TypeAlias = "Mapping[str, NestedKey] | Mapping[NestedKey, NestedKey]"

_torch: Any = _collating  # untyped
_nested_tensor: Any = torch.nested.nested_tensor  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


@overload
def collate(
    batch: list[C],
    *,
    pad_keys: Numbers | None = None,
    nested_keys: Sequence[NestedKey] | None = None,
    mask_key: NestedKey | Keys | None = None,
    padding_side: Literal["right", "left"] = "right",
) -> C: ...
@overload
def collate(
    batch: Any,
    *,
    pad_keys: Numbers | None = None,
    nested_keys: Sequence[NestedKey] | None = None,
    mask_key: NestedKey | Keys | None = None,
    padding_side: Literal["right", "left"] = "right",
) -> Any: ...
def collate(
    batch: Any,
    *,
    pad_keys: Numbers | None = None,
    nested_keys: Sequence[NestedKey] | None = None,
    mask_key: NestedKey | Keys | None = None,
    padding_side: Literal["right", "left"] = "right",
) -> Any:
    """Collate a list of samples to a batch: ``DataLoader(dataset, collate_fn=collate)``.

    Without options it does what ``DataLoader`` does by default, except that tuples stay tuples: collections are
    stacked, tuples and dicts are collated entry by entry, tensors and numbers become tensors. The options are for
    values whose first dimension differs in length between samples:
    ``collate_fn=partial(collate, pad_keys={"tokens": 0})``.

    Args:
        batch: list of samples. Anything else is a batch already, and is returned unchanged.
        pad_keys: keys of values to pad to the longest of the batch, with the number to pad with.
        nested_keys: keys of values to keep in their lengths, as jagged nested tensors.
        mask_key: key of the masks: boolean tensors ``[samples, length]``, true at values that are not padding. One key
            is for a collection with a mask for each of ``pad_keys`` (or for the mask itself, if it is a field of a
            record that holds a tensor). A mapping gives the key of each mask: ``{"tokens": "mask"}``.
        padding_side: ``"right"`` (default) pads after the values, ``"left"`` before them.

    Returns:
        The batch.

    Raises:
        KeyError: a sample has no value under one of the keys.
        ValueError: options contradict each other, or a padded dimension is a batch dimension of the samples.
        RuntimeError: values differ in dtype, or in a dimension other than the first.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, collate
        >>> samples = [TensorDict({"x": torch.ones(length)}) for length in (1, 3)]
        >>> collate(samples, pad_keys={"x": 0}, mask_key={"x": "own"})["own"]
        tensor([[ True, False, False],
                [ True,  True,  True]])
    """
    samples = batch
    if not isinstance(batch, list):
        return samples
    ragged = Ragged.of(pad_keys, nested_keys, mask_key, padding_side)
    if not samples:
        return samples
    functions: dict[Any, Any] = {**_torch.default_collate_fn_map, tuple: _each_entry}
    if ragged.padding or ragged.jagged:
        functions[Collection] = functools.partial(_collated, ragged=ragged)
    return _torch.collate(samples, collate_fn_map=functions)


class Ragged(NamedTuple):
    """Checked options of :func:`collate` for values whose length differs between samples."""

    padding: dict[Path, float]
    jagged: list[Path]
    masks: dict[Path, Path]  #: by padded value
    together: Path | None  #: the collection of all masks
    side: str

    @staticmethod
    def of(
        pad_keys: Numbers | None,
        nested_keys: Sequence[NestedKey] | None,
        mask_key: NestedKey | Keys | None,
        side: str,
    ) -> Ragged:
        given: Any = pad_keys or {}
        if not isinstance(given, Mapping):
            raise TypeError(
                f"collate: pad_keys: expected the number to pad with for each key, got {given!r}; "
                "give pad_keys={key: 0}"
            )
        padding = {unravel_key_to_tuple(key): value for key, value in (pad_keys or {}).items()}
        jagged = [unravel_key_to_tuple(key) for key in nested_keys or ()]
        if both := [dotted(path) for path in jagged if path in padding]:
            raise ValueError(f"collate: {both} are in pad_keys and in nested_keys; give each key once")
        if mask_key is not None and not padding:
            raise ValueError(f"collate: mask_key={mask_key!r} needs pad_keys, whose padding the masks tell from values")
        if side not in ("right", "left"):
            raise ValueError(f"collate: expected padding_side to be 'right' or 'left', got {side!r}")
        if side == "left" and not padding:
            raise ValueError("collate: padding_side='left' needs pad_keys, whose values it pads")
        if isinstance(mask_key, Mapping):
            masks = {unravel_key_to_tuple(key): unravel_key_to_tuple(mask) for key, mask in mask_key.items()}
            if unknown := [dotted(path) for path in masks if path not in padding]:
                raise ValueError(
                    f"collate: mask_key names {unknown}, which are not padded; pad_keys are {[*map(dotted, padding)]}"
                )
            if len(set(masks.values())) < len(masks):
                raise ValueError(f"collate: mask_key={mask_key!r}: each mask needs a key of its own")
            return Ragged(padding, jagged, masks, None, side)
        if mask_key is None:
            return Ragged(padding, jagged, {}, None, side)
        together = unravel_key_to_tuple(mask_key)
        return Ragged(padding, jagged, {path: (*together, *path) for path in padding}, together, side)

    def join(self, column: list[Tensor], path: Path) -> tuple[Tensor, Tensor | None]:
        """Join values of different lengths; return them, and the mask of values that are not padding if they are
        padded.

        Raises:
            RuntimeError: they differ in dtype, or in a dimension other than the first.
        """
        dtype = column[0].dtype
        for position, value in enumerate(column):
            if value.dtype != dtype:
                raise RuntimeError(
                    f"collate: {dotted(path)}: expected the dtype {dtype} that sample 0 has, sample {position} has "
                    f"{value.dtype}; convert it first"
                )
        try:
            if path not in self.padding:
                return _nested_tensor(column, layout=torch.jagged), None
            values = torch.nn.utils.rnn.pad_sequence(
                column, batch_first=True, padding_value=self.padding[path], padding_side=self.side
            )
        except RuntimeError as error:
            shapes = [list(value.shape) for value in column]
            raise RuntimeError(
                f"collate: {dotted(path)}: only the first dimension may differ in length between samples, got the "
                f"shapes {shapes} ({error})"
            ) from None
        lengths = torch.tensor([len(value) for value in column], device=values.device)
        positions = torch.arange(values.shape[1], device=values.device)
        mask = positions < lengths.unsqueeze(1)
        return values, mask.flip(1) if self.side == "left" else mask

    def masks_by_key(self, masks: dict[Path, Tensor], holds_tensor: bool) -> dict[Path, Tensor]:
        """Return masks by the keys under which they are collated.

        Args:
            masks: masks of all padded values, by the keys of the values.
            holds_tensor: whether the one key for all masks is a field for a tensor, not for a collection.

        Raises:
            ValueError: the field takes one tensor, and there are several masks.
        """
        if self.together is None or not holds_tensor:
            return {self.masks[path]: mask for path, mask in masks.items() if path in self.masks}
        if len(masks) > 1:
            raise ValueError(
                f"collate: {dotted(self.together)}: the field holds one tensor, and there are masks of "
                f"{[*map(dotted, masks)]}; give each one a field, mask_key={{key: field, ...}}"
            )
        return dict.fromkeys([self.together], *masks.values())


def _each_entry(samples: Sequence[Any], *, collate_fn_map: Any) -> Any:
    """Collate tuples entry by entry to a tuple; torch makes a list."""
    columns: list[Any] = [
        _torch.collate(list(column), collate_fn_map=collate_fn_map) for column in zip(*samples, strict=True)
    ]
    cls: Any = samples[0].__class__
    return cls(*columns) if hasattr(cls, "_fields") else cls(columns)


def _batch(samples: Any, *, collate_fn_map: Any = None) -> Any:
    """The entry in torch's table: return a batch unchanged; stack samples, lazily if they differ in shape."""
    if isinstance(samples, Collection):
        return samples
    if isinstance(samples[0], BufferColumn):
        return stack(samples)
    return with_members(samples[0]).maybe_dense_stack(samples)


_torch.default_collate_fn_map[Collection] = _batch


def _collated(samples: Any, *, ragged: Ragged, collate_fn_map: Any = None) -> Any:
    """Stack samples, except the values that are padded or nested."""
    if isinstance(samples, Collection):
        return samples
    rows: list[Any] = []
    columns: dict[Path, list[Tensor]] = {path: [] for path in (*ragged.padding, *ragged.jagged)}
    taken = [ragged.together] if ragged.together else [*ragged.masks.values()]
    for position, sample in enumerate(samples):
        for path in taken:
            if path in sample and sample.get(path) is not None:
                raise ValueError(f"collate: mask_key='{dotted(path)}' is a key of sample {position}; give another one")
        row = sample._shallow()
        for path, column in columns.items():
            column.append(_popped(row, path, position))
        rows.append(row)
    batch = _stacked(rows)
    masks: dict[Path, Tensor] = {}
    for path, column in columns.items():
        values, mask = ragged.join(column, path)
        _put(batch, samples[0], path, values, is_jagged=mask is None)
        if mask is not None:
            masks[path] = mask
    together = ragged.together
    if together is None or _is_tensor_field(batch, together):
        for path, mask in ragged.masks_by_key(masks, together is not None).items():
            batch.set(path, mask)
    else:
        own: dict[Any, Tensor] = dict(masks)
        batch.set(together, TensorDict(own, batch.batch_size))
    return batch


def _put(batch: Any, sample: Any, path: Path, values: Tensor, *, is_jagged: bool) -> None:
    """Set a value of a batch, in the order of keys that the samples have."""
    holder, model = _holder(batch, path), _holder(sample, path)
    store: Any = holder._store
    if type(store) is not DICT:  # a lazy stack, because other values differ in shape
        if is_jagged:
            raise ValueError(
                f"collate: {dotted(path)}: other values beside it differ in shape and are stacked lazily, and a lazy "
                "stack cannot hold a nested tensor; name them in pad_keys or nested_keys too"
            )
        holder.set(path[-1], values)
        return
    store[path[-1]] = values
    for key in list(model._store):  # in the order that the samples have
        if key in store:
            store[key] = store.pop(key)


def _is_tensor_field(batch: Any, path: Path) -> bool:
    """Return whether the key is a field of a record that is declared to hold a tensor."""
    holder = batch._find(path[:-1])
    return isinstance(holder, TensorCollection) and holder._holds_tensor(path[-1])


def _stacked(rows: list[Any]) -> Any:
    """Stack rows. A level whose values differ in shape becomes a lazy stack; the levels above do not."""
    first = rows[0]
    try:
        return stack(rows)
    except RecursionError:
        raise
    except RuntimeError:
        stores = [row._now() for row in rows]
        columns = {key: [store.get(key) for store in stores] for key in stores[0]}
        tensors = [column for column in columns.values() if isinstance(column[0], Tensor)]
        alike = all(store.keys() == columns.keys() for store in stores) and all(
            isinstance(value, Tensor) and value.shape == column[0].shape for column in tensors for value in column
        )
        if not alike or not first._is_tree():
            return first.lazy_stack(rows)
        store = {
            key: torch.stack(column) if isinstance(column[0], Tensor) else _stacked(column)
            for key, column in columns.items()
        }
        return first._like(store, torch.Size((len(rows), *first._batch_size)))


def _popped(row: Any, path: Path, position: int) -> Tensor:
    """Remove and return a value of a sample whose first dimension is not a batch dimension."""
    name = dotted(path)
    if path not in row:
        keys = [".".join(unravel_key_to_tuple(key)) for key in row.keys(True, True)]
        raise KeyError(f"collate: sample {position} has no value under '{name}'; its keys are {keys}")
    holder = _holder(row, path)
    if holder._batch_size:
        raise ValueError(
            f"collate: {name}: its first dimension is a batch dimension of sample {position}, of batch size "
            f"{list(holder._batch_size)}; give samples without batch dimensions"
        )
    value = holder._store.pop(path[-1])
    kind = type_name(value)
    if isinstance(value, RaggedColumn) and not isinstance(holder, registry.TensorDict):
        raise ValueError(
            f"collate: pad_keys or nested_keys names {name!r}, which {type_name(holder)} declares as Ragged: its "
            f"rows keep their lengths. Leave it out, and pad the batch: batch.{name}.to_padded()"
        )
    if isinstance(value, RaggedColumn) and not value._batch_size:
        value = value.tensor()
    if not isinstance(value, Tensor) or not value.ndim:
        got = "a number" if isinstance(value, Tensor) else f"a {kind}"
        raise RuntimeError(f"collate: {name}: expected a tensor with a first dimension, sample {position} has {got}")
    return value


def _holder(data: Any, path: Path) -> Any:
    """Return the collection that holds the value at a nested key."""
    for name in path[:-1]:
        data = data._store[name]
    return data
