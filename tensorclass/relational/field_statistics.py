"""Statistics of each field: what :meth:`TensorDict.summary` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from tensorclass.records.record import TensorClass
from tensorclass.td.collection import Collection
from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.columns.ragged import Ragged
from tensorclass.td.columns.text import Text
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.nontensor import NonTensorData
from tensorclass.td.leaves.nontensor_base import NonTensorDataBase
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.leaves.unbatched_tensor import UnbatchedTensor
from tensorclass.td.printing.number_previews import is_readable, number_writer
from tensorclass.td.printing.print_options import OPTIONS
from tensorclass.td.printing.short_form import line_width
from tensorclass.td.printing.text_previews import cut, width_of

from .key_codes import leaf_keys

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

#: the quantiles, under the names of their fields
_QUANTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}
_FIGURES = ("mean", "std", "min", *_QUANTILES, "max")
_UNKNOWN = -1
_NAME = 12  #: the least columns of names


class Summary(TensorClass):
    """Statistics of the fields of a collection, a row for each. Printed as a table.

    The statistics of a field of several numbers a row, such as an image or a :class:`Ragged`, are those of all its
    numbers. Those of booleans are of 0 and 1. ``nan`` stands for statistics that a field does not have, such as the
    mean of text.

    Attributes:
        key: the name of the field, with dots between those of nested fields.
        dtype: its dtype or class.
        count: how many values there are, ``int64``: nulls are not counted.
        nulls: how many values are missing, ``int64``: ``nan``, rows of columns without a value, ``None``.
        unique: how many different values there are, ``int64``; -1 if that is not known.
        mean: mean, ``float64``.
        std: standard deviation, ``float64``, with n - 1 in the denominator.
        min: minimum, ``float64``.
        q25: first quartile, ``float64``; quantiles are interpolated linearly.
        median: median, ``float64``.
        q75: third quartile, ``float64``.
        max: maximum, ``float64``.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> summary = TensorDict({"x": torch.tensor([1.0, 2.0, 6.0, float("nan")])}, [4]).summary()
        >>> summary
        key  dtype    count  nulls  unique  mean     std  min  q25  median  q75  max
        x    float32      3      1       3   3.0  2.6458  1.0  1.5     2.0  4.0  6.0
        >>> summary.median
        tensor([2.], dtype=torch.float64)
    """

    key: Text
    dtype: Text  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    count: Tensor
    nulls: Tensor
    unique: Tensor  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    mean: Tensor  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    std: Tensor  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    min: Tensor  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    q25: Tensor
    median: Tensor  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    q75: Tensor
    max: Tensor  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]

    def __repr__(self) -> str:
        store: Any = self._store
        if len(self._batch_size) != 1 or store.keys() < {"key", "dtype", "count", *_FIGURES}:
            return super().__repr__()
        return _table(store, self._batch_size[0])

    def _repr_html_(self) -> None:
        """Return ``None``: notebooks show the table, too."""


@dataclass(frozen=True)
class _Statistics:
    dtype: str
    count: int
    nulls: int
    unique: int
    figures: Sequence[float] = (float("nan"),) * len(_FIGURES)


def summary(self: TensorCollection) -> Summary:
    """See :meth:`TensorDict.summary`."""
    keys = leaf_keys(self)
    found = [_statistics(dotted(key), self._find(key), len(self._batch_size)) for key in keys]

    def column(values: Sequence[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64)

    figures = torch.tensor([one.figures for one in found], dtype=torch.float64).reshape(len(found), len(_FIGURES))
    return Summary(
        key=Text([dotted(key) for key in keys]),
        dtype=Text([one.dtype for one in found]),
        count=column([one.count for one in found]),
        nulls=column([one.nulls for one in found]),
        unique=column([one.unique for one in found]),
        mean=figures[:, 0],
        std=figures[:, 1],
        min=figures[:, 2],
        q25=figures[:, 3],
        median=figures[:, 4],
        q75=figures[:, 5],
        max=figures[:, 6],
        batch_size=[len(found)],
    )


def _statistics(key: str, value: Any, ndim: int) -> _Statistics:
    if isinstance(value, UnbatchedTensor):
        value = value.data
    if isinstance(value, Tensor):
        return _of_numbers(key, value, str(value.dtype).removeprefix("torch."), None)
    if isinstance(value, Ragged):
        missing = int(value.missing.count_nonzero())
        items = cast("Tensor | BufferColumn", value)
        while isinstance(items, BufferColumn):
            items = cast("Tensor | BufferColumn", items._packed()[0])
        return _of_numbers(key, items, value._type_for_repr(), missing)
    leaf: Any = value
    name: str = leaf._type_for_repr() if isinstance(value, Collection) else type(leaf).__name__
    if isinstance(value, Text):
        missing = int(value.missing.count_nonzero())
        rows: Any = value.reshape(-1)
        strings = rows[~rows.missing]
        return _Statistics(name, len(strings), missing, len(strings.unique().values) if len(strings) else 0)
    if isinstance(value, NonTensorData):
        is_none = value._objects[0] is None
        count = value._batch_size.numel()
        return _Statistics(name, 0 if is_none else count, count if is_none else 0, 0 if is_none else 1)
    if isinstance(value, NonTensorDataBase):
        objects = [value._objects[code] for code in to_lists(value._codes().reshape(-1))]
        there = [one for one in objects if one is not None]
        return _Statistics(name, len(there), len(objects) - len(there), _different(there))
    return _Statistics(name, _UNKNOWN, _UNKNOWN, _UNKNOWN)


def _different(objects: list[Any]) -> int:
    try:
        return len(set(objects))
    except TypeError:  # lists and dicts have no hash
        return _UNKNOWN


def _of_numbers(key: str, value: Tensor, dtype: str, nulls: int | None) -> _Statistics:
    if value.is_nested:
        nested: Any = value
        return _of_numbers(
            key, nested.values() if value.layout is torch.jagged else nested.to_padded_tensor(0), dtype, 0
        )
    if value.layout is not torch.strided:
        value = value.to_dense()
    if not is_readable(value):
        raise ValueError(f"summary: {key}: a tensor with values is expected, got one on {value.device} without any")
    numbers = value.detach().reshape(-1)
    if numbers.is_complex():
        there = numbers[~numbers.isnan()]
        return _Statistics(dtype, len(there), len(numbers) - len(there) if nulls is None else nulls, _UNKNOWN)
    whole = len(numbers)
    if numbers.is_floating_point():
        numbers = numbers[~numbers.isnan()]
    missing = whole - len(numbers) if nulls is None else nulls
    if not len(numbers):
        return _Statistics(dtype, 0, missing, 0)
    ordered = (numbers.to(torch.uint8) if numbers.dtype is torch.bool else _sortable(numbers)).sort().values
    unique = 1 + int((ordered[1:] != ordered[:-1]).count_nonzero())
    doubles = _as_doubles(ordered)
    std = doubles.std().item() if len(doubles) > 1 else float("nan")
    quantiles = [_quantile(doubles, share) for share in _QUANTILES.values()]
    figures = (doubles.mean().item(), std, doubles[0].item(), *quantiles, doubles[-1].item())
    return _Statistics(dtype, len(numbers), missing, unique, figures)


def _sortable(numbers: Tensor) -> Tensor:
    """Return numbers in a dtype that torch sorts."""
    if numbers.dtype.itemsize == 1 and numbers.is_floating_point():
        return numbers.float()
    if numbers.dtype in (torch.uint16, torch.uint32):
        return numbers.to(torch.int64)
    return numbers.double() if numbers.dtype is torch.uint64 else numbers


def _as_doubles(numbers: Tensor) -> Tensor:
    return numbers if numbers.device.type == "mps" else numbers.to(torch.float64)


def _quantile(ordered: Tensor, share: float) -> float:
    """Return a quantile of sorted numbers, interpolated linearly: definition 7 of Hyndman and Fan (1996)."""
    place = share * (len(ordered) - 1)
    low = int(place)
    below = ordered[low].item()
    above = ordered[min(low + 1, len(ordered) - 1)].item()
    return below if below == above else below + (above - below) * (place - low)


# -- as a table -------------------------------------------------------------------------------------------------------


def _table(store: Any, rows: int) -> str:
    options = OPTIONS.everywhere
    shown = min(rows, options["max_lines"] - 1 if rows < options["max_lines"] else options["max_lines"] - 2)
    columns: list[list[str]] = []
    for name, value in store.items():
        if isinstance(value, Text):
            columns.append([name, *[text or "" for text in value[:shown].tolist()]])
        else:
            columns.append([name, *map(_writer(value), value[:shown].tolist())])
    widths = [max(map(width_of, column)) for column in columns]
    room = line_width() - sum(widths[1:]) - 2 * len(widths[1:])
    columns[0] = [cut(name, max(room, _NAME)) for name in columns[0]]
    widths[0] = max(map(width_of, columns[0]))
    lines = [
        "  ".join(
            cell + " " * (width - width_of(cell)) if number < 2 else " " * (width - width_of(cell)) + cell
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in zip(*columns, strict=True)
    ]
    more = [f"... {rows - shown} more fields"] if shown < rows else []
    return "\n".join([cut(line, line_width()) for line in lines + more])


def _writer(value: Tensor) -> Callable[[Any], str]:
    """Return a function that writes the cells of a column: a dash where a statistic is not known."""
    if not value.is_floating_point():
        return lambda number: "-" if number < 0 else str(number)

    def write(number: float) -> str:
        return "-" if number != number else number_writer([number], torch.float64)(number)

    return write
