"""Trees of tensors alone: dicts, tuples and rows in which nothing has to be converted.

They are the most common input, so each is built in one pass. A tree with anything else, or with a mistake, gives
``None``: then the steps of :mod:`~tensorclass.convert.conversion_steps` convert it, or say what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Size, Tensor

from tensorclass.records.record import TensorClass
from tensorclass.td import shapes
from tensorclass.td.hidden_members import member_values
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import are_tensors_of, have_plain_keys, is_strided_nested, strided_nested

from .conversion_targets import VALUE_ERRORS, entries


def given_size(options: Mapping[str, Any]) -> Size | None:
    """Return the batch size that the keyword arguments of a conversion give; ``None`` if they ask for anything else."""
    if not options:
        return Size()
    return shapes.as_size(options["batch_size"]) if [*options] == ["batch_size"] else None


def of_tensors(source: dict[Any, Any], size: Size | None, batch_dims: int | None = None) -> TensorDict | None:
    """Convert a dict of tensors, of such dicts and tuples.

    Args:
        source: the dict.
        size: the batch size; ``None`` infers it.
        batch_dims: largest number of inferred batch dimensions.
    """
    store: dict[str, Any] = {}
    if size and are_tensors_of(source, size):
        store = source.copy()
    else:
        ndim = 0 if size is None else len(size)
        for key, value in source.items():
            if type(key) is not str:
                return None
            if type(value) is Tensor:
                if value.is_nested and is_strided_nested(value):
                    raise strided_nested(key)
                if ndim and value.shape[:ndim] != size:
                    return None
                store[key] = value
            else:
                below: Any = entries(value) if isinstance(value, tuple) else value
                inner = of_tensors(below, size, batch_dims) if type(below) is dict else None  # pyright: ignore[reportUnknownArgumentType]
                if inner is None:
                    return None
                store[key] = inner
    if size is None or not store:
        if not store or (batch_dims is not None and batch_dims < 0):
            return None
        size = shapes.common([value.shape for value in member_values(store.values())], batch_dims)
    return TensorDict._on_store(store, size)


def record_of_tensors(cls: type[TensorClass], source: dict[Any, Any], size: Size | None) -> TensorClass | None:
    """Convert a dict of tensors, and of such dicts for nested collections, to a record.

    Args:
        cls: the class of the record.
        source: the dict.
        size: the batch size; ``None`` if it is not given.
    """
    specs = cls._specs
    if not cls._takes_fields or source.keys() != specs.keys() or (size is None and cls._item_ranks):
        return None
    values = source
    for key, value in source.items():
        if type(value) is dict:
            held: Any = specs[key].stored_class
            below: Any = value  # pyright: ignore[reportUnknownVariableType]
            made: Any = None
            if held is TensorDict:
                made = of_tensors(below, size or Size())
            elif held is not None and issubclass(held, TensorClass) and not held._item_ranks:
                made = record_of_tensors(held, below, size)
            if made is None:
                return None
            values = source.copy() if values is source else values
            values[key] = made
        elif type(value) is not Tensor:
            return None
    try:
        return cls(**values, batch_size=size)
    except VALUE_ERRORS:
        return None


def of_rows(rows: Sequence[Any], size: Size) -> TensorDict | None:
    """Stack rows: dicts of tensors with the same keys and shapes, and of such dicts.

    Args:
        rows: the rows, at least one.
        size: the batch size, beginning with the number of rows.
    """
    store: dict[str, Any] = {}
    first = rows[0]
    if {*map(type, rows)} != {dict} or not have_plain_keys(first):
        return None
    keys = first.keys()
    for row in rows:
        if row.keys() != keys:
            return None
    for key in first:
        items = [row[key] for row in rows]
        kinds = {*map(type, items)}
        if kinds == {dict}:
            column: Any = of_rows(items, size)
        elif kinds == {Tensor}:
            try:
                column = torch.stack(items)
            except RuntimeError:  # their shapes differ, or one has none
                return None
        else:
            return None
        if column is None or column.shape[: len(size)] != size:
            return None
        store[key] = column
    return TensorDict._on_store(store, size)
