"""Decide how objects and lists are stored: as one object for the batch, or as an object for each row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Size

from tensorclass.td import registry, shapes
from tensorclass.td.collection import Collection
from tensorclass.td.modes import LIST_TO_STACK
from tensorclass.td.shapes import Names
from tensorclass.td.stack_and_cat import stack

from .nontensor import NonTensorData, NonTensorStack, stack_of
from .object_codes import codes_row_by_row, flatten_lists


def non_tensor(value: Any, batch_size: Size, device: torch.device | None, names: Names) -> Any:
    """Return the stored form of an object.

    A list with one object for each row of the batch becomes a stack; nested lists give an object for each position of
    several dimensions. A list of collections is stacked. Anything else is one object for the whole batch.
    :class:`set_list_to_stack` changes this.
    """
    given: Any = value
    if isinstance(value, list) and (column := as_column(given, batch_size)) is not None:
        return column
    shapes.check_size(batch_size)
    return NonTensorData(value, batch_size=batch_size, device=device, names=names)


def as_column(value: list[Any], batch_size: Size) -> Any:
    """Return a list as a stack or a stacked collection; ``None`` if it is one object."""
    mode = LIST_TO_STACK.current()
    if mode is False:
        return None
    if value and all(isinstance(item, Collection) for item in value):
        if mode or (batch_size and len(value) == batch_size[0]):
            return stack(value)
        return None
    if mode:
        return NonTensorStack.from_list(value)
    flat, lengths = flatten_lists(value, len(batch_size))
    depth = 0
    while depth < len(lengths) and lengths[depth] == batch_size[depth]:
        depth += 1
    if not depth or not flat:
        return None
    if depth < len(lengths):
        flat, lengths = flatten_lists(value, depth)
    codes = codes_row_by_row(Size(lengths)).reshape(*lengths, *(1,) * (len(batch_size) - depth))
    return stack_of(tuple(flat), codes.expand(batch_size), None, None)


registry.register(non_tensor)
