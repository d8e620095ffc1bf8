"""Collections in ``torch.utils.data``: as a dataset, as samples, and as batches.

A collection with a batch dimension is a dataset of its rows. ``__getitems__`` gives the rows of a batch with one index
operation, so that there is nothing left to collate; samples of another dataset are stacked. torch's default collation
does both, since :class:`TensorCollection` stands in its table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data._utils import collate as _collating

from .base import TensorCollection
from .combining import stack
from .keys import NestedKey, unravel_key_to_tuple
from .tensordict import TensorDict

Path = tuple[str, ...]

_torch: Any = _collating  # it has no types that checkers know
_nested_tensor: Any = torch.nested.nested_tensor  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def collate(
    batch: Any,
    *,
    pad_keys: Mapping[NestedKey, float] | None = None,
    nested_keys: Sequence[NestedKey] | None = None,
    mask_key: NestedKey | None = None,
) -> Any:
    """One batch of a list of samples: ``DataLoader(dataset, collate_fn=collate)``.

    Without options this is what ``DataLoader`` does by default, but that tuples stay tuples: collections are stacked,
    tuples and dicts of them go entry by entry, tensors and numbers become tensors. The options are for values whose
    first dimension has another length in each sample: ``collate_fn=partial(collate, pad_keys={"tokens": 0})``.

    Args:
        batch: the samples in a list. What is no list is a batch already, and comes back as it is.
        pad_keys: the values to pad at their end to the longest of the batch, with the number that fills them up.
        nested_keys: the values to keep in their lengths, as jagged nested tensors.
        mask_key: where to put masks, a boolean tensor ``[samples, length]`` for each of ``pad_keys``, ``True`` where
            the value is the sample's own.

    Raises:
        KeyError: a sample has no value under one of the keys.
        ValueError: the options do not fit together, or a padded dimension is a batch dimension of the samples.

    >>> from tensorclass import TensorDict
    >>> samples = [TensorDict({"x": torch.ones(length)}) for length in (1, 3)]
    >>> collate(samples, pad_keys={"x": 0}, mask_key="own").to_dict()["x"]
    tensor([[1., 0., 0.],
            [1., 1., 1.]])
    """
    samples = batch
    if not isinstance(batch, list):
        return samples
    padding = {unravel_key_to_tuple(key): value for key, value in (pad_keys or {}).items()}
    jagged = [unravel_key_to_tuple(key) for key in nested_keys or ()]
    if both := [".".join(path) for path in jagged if path in padding]:
        raise ValueError(f"collate: {both} stand in pad_keys and in nested_keys; give each key once")
    if mask_key is not None and not padding:
        raise ValueError(f"collate: mask_key={mask_key!r} needs pad_keys: masks tell what of them is padding")
    if not samples:
        return samples
    functions: dict[Any, Any] = {**_torch.default_collate_fn_map, tuple: _each_entry}
    if padding or jagged:
        mask = None if mask_key is None else unravel_key_to_tuple(mask_key)
        functions[TensorCollection] = functools.partial(_collated, padding=padding, jagged=jagged, mask=mask)
    return _torch.collate(samples, collate_fn_map=functions)


def _each_entry(samples: Sequence[Any], *, collate_fn_map: Any) -> Any:
    """Tuples entry by entry, to a tuple; torch gives a list."""
    parts: list[Any] = [
        _torch.collate(list(column), collate_fn_map=collate_fn_map) for column in zip(*samples, strict=True)
    ]
    kind: Any = samples[0].__class__
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)


def _batch(samples: Any, *, collate_fn_map: Any = None) -> Any:
    """The entry of torch's table: a batch that is one already, or samples to stack, lazily where they differ."""
    return samples if isinstance(samples, TensorCollection) else samples[0].maybe_dense_stack(samples)


_torch.default_collate_fn_map[TensorCollection] = _batch


def _collated(
    samples: Any, *, padding: dict[Path, float], jagged: list[Path], mask: Path | None, collate_fn_map: Any = None
) -> Any:
    """The stack of samples whose values under some keys are put together in another way."""
    if isinstance(samples, TensorCollection):
        return samples
    rows: list[Any] = []
    columns: dict[Path, list[Tensor]] = {path: [] for path in (*padding, *jagged)}
    for position, sample in enumerate(samples):
        if mask is not None and mask in sample:
            raise ValueError(f"collate: mask_key={'.'.join(mask)!r} is a key of sample {position}; give another one")
        row = sample._shallow()
        for path, column in columns.items():
            column.append(_popped(row, path, position))
        rows.append(row)
    batch = _stacked(rows)
    masks: dict[NestedKey, Tensor] = {}
    for path, column in columns.items():
        name = ".".join(path)
        try:
            if path in padding:
                values = torch.nn.utils.rnn.pad_sequence(column, batch_first=True, padding_value=padding[path])
            else:
                values = _nested_tensor(column, layout=torch.jagged)
        except RuntimeError as error:
            shapes = [list(value.shape) for value in column]
            raise RuntimeError(
                f"collate: {name}: only the first dimension may have another length in each sample, the shapes are "
                f"{shapes} ({error})"
            ) from None
        holder, model = _holder(batch, path), _holder(samples[0], path)
        store: Any = holder._store
        if holder._store.__class__ is not dict:  # its other values differ in shape: it is a lazy stack
            if path in jagged:
                raise ValueError(
                    f"collate: {name}: other values beside it differ in shape, so that they stack lazily and a nested "
                    "tensor cannot stand among them; name them in pad_keys or nested_keys too"
                )
            holder.set(path[-1], values)
        else:
            store[path[-1]] = values
            for key in list(model._store):  # in the order that the samples have
                if key in store:
                    store[key] = store.pop(key)
        if path in padding:
            lengths = torch.tensor([len(value) for value in column], device=values.device)
            masks[path] = torch.arange(values.shape[1], device=values.device) < lengths.unsqueeze(1)
    if mask is not None:
        batch.set(mask, TensorDict(masks, batch.batch_size))
    return batch


def _stacked(rows: list[Any]) -> Any:
    """The rows stacked; a level whose values differ in shape becomes a lazy stack, those above it do not."""
    first = rows[0]
    try:
        return stack(rows)
    except RuntimeError:
        columns = {key: [row._store.get(key) for row in rows] for key in first._store}
        tensors = [column for column in columns.values() if isinstance(column[0], Tensor)]
        alike = all(row._store.keys() == columns.keys() for row in rows) and all(
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
    """Takes a value whose first dimension is not that of its batch out of a sample."""
    name = ".".join(path)
    if path not in row:
        raise KeyError(f"collate: sample {position} has no value under {name!r}; its keys are {_keys(row)}")
    holder = _holder(row, path)
    if holder._batch_size:
        raise ValueError(
            f"collate: {name}: its first dimension is a batch dimension of sample {position}, of batch size "
            f"{list(holder._batch_size)}; give samples without batch dimensions"
        )
    value = holder._store.pop(path[-1])
    if not isinstance(value, Tensor) or not value.ndim:
        kind = "a number" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise RuntimeError(f"collate: {name}: expected a tensor with a first dimension, sample {position} has {kind}")
    return value


def _keys(row: TensorCollection) -> list[str]:
    return [".".join(unravel_key_to_tuple(key)) for key in row.keys(True, True)]


def _holder(data: Any, path: Path) -> Any:
    """The collection that holds the value at a nested key."""
    for name in path[:-1]:
        data = data._store[name]
    return data
