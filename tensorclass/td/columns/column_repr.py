"""Bounded descriptions of columns: batch size, and the beginning of a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorclass.td.leaves.object_codes import to_lists

from . import spans as span_functions

if TYPE_CHECKING:
    from .ragged import Ragged
    from .text import Text

_SHOWN_ROWS, _SHOWN_ITEMS, _SHOWN_CHARACTERS = 6, 8, 60


def describe_ragged(column: Ragged[Any]) -> str:
    """Return batch size, dtype and device, and the first items of a few rows."""
    size = column.batch_size
    head = (
        f"{type(column).__name__}(batch_size={list(size)}, items={column.dtype}{list(column.item_shape)}, "
        f"device={column.device}"
    )
    items, spans = column.values, column.spans
    if not span_functions.has_values(spans) or not isinstance(items, Tensor) or len(size) != 1:
        return head + ")"
    rows: list[str] = []
    for start, length in to_lists(spans[:_SHOWN_ROWS]):
        if length < 0:
            rows.append("None")
            continue
        first = ", ".join(map(str, to_lists(items[start : start + min(length, _SHOWN_ITEMS)])))
        rows.append(f"[{first}, ... {length} items]" if length > _SHOWN_ITEMS else f"[{first}]")
    more = [f"... {size[0]} rows"] if size[0] > _SHOWN_ROWS else []
    return head + ",\n  [" + ",\n   ".join(rows + more) + "])"


def describe_text(text: Text) -> str:
    """Return batch size and device, and the first characters of a few rows."""
    size = text.batch_size
    head = f"{type(text).__name__}(batch_size={list(size)}, device={text.device}"
    if len(size) > 1 or not span_functions.has_values(text.spans):
        return head + ")"
    spans = text.spans[:_SHOWN_ROWS] if size else text.spans.unsqueeze(0)
    spans = torch.stack((spans[..., 0], spans[..., 1].clamp(max=4 * _SHOWN_CHARACTERS)), -1)
    rows: list[str] = []
    for start, length in to_lists(spans):
        if length < 0:
            rows.append("None")
            continue
        string = bytes(text.values[start : start + length].cpu().numpy()).decode("utf-8", "ignore")
        is_cut = len(string) > _SHOWN_CHARACTERS or length == 4 * _SHOWN_CHARACTERS
        rows.append(repr(string[:_SHOWN_CHARACTERS]) + ("..." if is_cut else ""))
    if size and size[0] > _SHOWN_ROWS:
        rows.append(f"... {size[0]} rows")
    return head + ",\n  [" + ",\n   ".join(rows) + "])"
