"""Statistics of each field: what :meth:`TensorDict.summary` returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorclass.records.record import TensorClass
from tensorclass.support.printable import type_name
from tensorclass.td.columns.text import Text
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.printing.number_previews import is_readable, number_writer
from tensorclass.td.printing.print_options import OPTIONS
from tensorclass.td.printing.short_form import line_width
from tensorclass.td.printing.text_previews import cut, cut_middle, width_of

from .key_codes import leaf_keys

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

METHODS_OF = "Looks"

#: the quantiles, under the names of their fields
_QUANTILES = {"q25": 0.25, "median": 0.5, "q75": 0.75}
_FIGURES = ("mean", "std", "min", *_QUANTILES, "max")
_UNKNOWN = -1
_NAME = 12  #: the minimum width of names, in characters
_MOST_COUNTED = 1 << 16  #: integers whose range is at most this long are counted instead of sorted


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
    """Return statistics of each field: count, nulls, unique values, mean, standard deviation, extremes, quartiles.

    Returns:
        A record with a row for each field, also of nested collections. It prints as a table.

    Raises:
        ValueError: a tensor has no values, such as one on the device ``meta``.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, Text
        >>> data = TensorDict({"x": torch.arange(5), "text": Text(["a", "b", "a", None, "b"])}, [5])
        >>> data.summary()
        key   dtype  count  nulls  unique  mean     std  min  q25  median  q75  max
        x     int64      5      0       5   2.0  1.5811  0.0  1.0     2.0  3.0  4.0
        text  Text       4      1       2     -       -    -    -       -    -    -
    """
    keys = leaf_keys(self)
    found = [_statistics(dotted(key), self._find(key)) for key in keys]
    counts = {name: [getattr(one, name) for one in found] for name in ("count", "nulls", "unique")}
    figures = torch.tensor([one.figures for one in found], dtype=torch.float64).reshape(len(found), len(_FIGURES))
    columns: dict[str, Any] = {
        "key": Text([dotted(key) for key in keys]),
        "dtype": Text([one.dtype for one in found]),
        **{name: torch.tensor(values, dtype=torch.int64) for name, values in counts.items()},
        **dict(zip(_FIGURES, figures.unbind(1), strict=True)),
    }
    return Summary(**columns, batch_size=[len(found)])


def _statistics(key: str, value: Any) -> _Statistics:
    content = content_kind(value)
    if content is Content.TENSOR:
        value = value._wrapped_tensor()
    if isinstance(value, Tensor):
        return _of_numbers(key, value, str(value.dtype).removeprefix("torch."), None)
    name: str = type_name(value) if content is None else value._type_for_repr()
    if content is Content.RAGGED:
        items: Any = value
        while not isinstance(items, Tensor):
            items = items._packed()[0]
        return _of_numbers(key, items, name, int(value.missing.count_nonzero()))
    if content is Content.TEXT:
        missing = int(value.missing.count_nonzero())
        rows: Any = value.reshape(-1)
        strings = rows[~rows.missing]
        return _Statistics(name, len(strings), missing, len(strings.unique().values) if len(strings) else 0)
    if content is Content.OBJECTS and value._is_uniform:
        is_none = value._unwrapped() is None
        count = value._batch_size.numel()
        return _Statistics(name, 0 if is_none else count, count if is_none else 0, 0 if is_none else 1)
    if content is Content.OBJECTS:
        held, codes = value._coded_objects()
        objects = [held[code] for code in to_lists(codes.reshape(-1))]
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
    numbers = numbers.to(torch.uint8) if numbers.dtype is torch.bool else _sortable(numbers)
    counts = _counts(numbers)
    unique, figures = _of_sorted(numbers.sort().values) if counts is None else _of_counts(*counts)
    return _Statistics(dtype, len(numbers), missing, unique, figures)


def _counts(numbers: Tensor) -> tuple[int, Tensor] | None:
    """Count how often each integer occurs, from the least to the greatest: much faster than to sort.

    Returns:
        The least integer, and the counts, ``int64[greatest - least + 1]``. ``None`` for numbers that are not integers,
        and for integers that are far apart.
    """
    if numbers.is_floating_point() or numbers.device.type not in ("cpu", "cuda"):
        return None
    least, greatest = (int(one) for one in numbers.aminmax())
    if greatest - least >= min(_MOST_COUNTED, 256 + len(numbers)):
        return None
    if numbers.dtype is torch.uint8:  # counted without a copy
        return least, numbers.bincount()[least:]
    wide = numbers.to(torch.int32) if numbers.dtype.itemsize < 4 else numbers
    return least, (wide - least).bincount()


def _of_counts(least: int, counts: Tensor) -> tuple[int, tuple[float, ...]]:
    """Return the number of different integers, and their figures."""
    counts = counts.cpu()
    numbers = torch.arange(len(counts), dtype=torch.float64)
    total = int(counts.sum())
    mean = (numbers * counts).sum().item() / total
    squares = ((numbers - mean).square() * counts).sum().item()
    std = (squares / (total - 1)) ** 0.5 if total > 1 else float("nan")
    ends = counts.cumsum(0)

    def at(place: int) -> float:
        return float(least + int(torch.searchsorted(ends, place, right=True)))

    quantiles = [_quantile(at, total, share) for share in _QUANTILES.values()]
    return int(counts.count_nonzero()), (least + mean, std, at(0), *quantiles, at(total - 1))


def _of_sorted(ordered: Tensor) -> tuple[int, tuple[float, ...]]:
    """Return the number of different numbers, and their figures."""
    unique = 1 + int((ordered[1:] != ordered[:-1]).count_nonzero())
    doubles = _as_doubles(ordered)
    std = doubles.std().item() if len(doubles) > 1 else float("nan")

    def at(place: int) -> float:
        return doubles[place].item()

    quantiles = [_quantile(at, len(doubles), share) for share in _QUANTILES.values()]
    return unique, (doubles.mean().item(), std, at(0), *quantiles, at(-1))


def _sortable(numbers: Tensor) -> Tensor:
    """Return numbers in a dtype that torch sorts."""
    if numbers.dtype.itemsize == 1 and numbers.is_floating_point():
        return numbers.float()
    if numbers.dtype in (torch.uint16, torch.uint32):
        return numbers.to(torch.int64)
    return numbers.double() if numbers.dtype is torch.uint64 else numbers


def _as_doubles(numbers: Tensor) -> Tensor:
    return numbers if numbers.device.type == "mps" else numbers.to(torch.float64)


def _quantile(at: Callable[[int], float], count: int, share: float) -> float:
    """Return a quantile of sorted numbers, interpolated linearly: definition 7 of Hyndman and Fan (1996).

    Args:
        at: returns the number at a position of the sorted numbers.
        count: how many numbers there are.
        share: the share of numbers below the quantile.
    """
    place = share * (count - 1)
    low = int(place)
    below = at(low)
    above = at(min(low + 1, count - 1))
    return below if below == above else below + (above - below) * (place - low)


# -- as a table -------------------------------------------------------------------------------------------------------


def _table(store: Any, rows: int) -> str:
    """Return the table. Columns that do not fit into a line follow below, in blocks that each begin with the keys."""
    shown = _shown(rows, 1)
    columns = [_cells(name, value[:shown]) for name, value in store.items()]
    blocks = _blocks(columns)
    if len(blocks) > 1:
        shown = _shown(rows, len(blocks))
        blocks = [[column[: shown + 1] for column in block] for block in blocks]
    lines = [line for block in blocks for line in _lines(block)]
    more = [f"... {rows - shown} more fields"] if shown < rows else []
    return "\n".join([cut(line, line_width()) for line in lines + more])


def _shown(rows: int, blocks: int) -> int:
    """Return the number of rows that are shown, so that a table of some blocks has at most ``max_lines``."""
    most: int = OPTIONS.everywhere["max_lines"]
    return rows if blocks * (rows + 1) <= most else min(rows, max((most - 1) // blocks - 1, 1))


def _cells(name: str, value: Any) -> list[str]:
    """Return a column of the table: its name, and the text of each row."""
    if content_kind(value) is Content.TEXT:
        return [name, *[text or "" for text in value.tolist()]]
    return [name, *map(_writer(value), value.tolist())]


def _blocks(columns: list[list[str]]) -> list[list[list[str]]]:
    """Divide columns into blocks that fit into lines. Each begins with the first column, the keys.

    Long keys lose their middle, but stay distinct.
    """
    keys, *others = columns
    widths = [2 + max(map(width_of, column)) for column in others]
    longest = max(map(width_of, keys))
    most = max(min(longest, line_width() - max(widths)), min(_NAME, longest))
    least = next((room for room in range(min(_NAME, most), most) if _are_different(keys, room)), most)
    blocks: list[list[list[str]]] = [[]]
    used = [0]
    for column, width in zip(others, widths, strict=True):
        if blocks[-1] and least + used[-1] + width > line_width():
            blocks.append([])
            used.append(0)
        blocks[-1].append(column)
        used[-1] += width
    room = max(line_width() - max(used), least)
    keys = [cut_middle(key, room) for key in keys]
    return [[keys, *block] for block in blocks]


def _are_different(keys: list[str], room: int) -> bool:
    """Return whether names stay distinct when they are cut to ``room`` characters."""
    return len({cut_middle(key, room) for key in keys}) == len(set(keys))


def _lines(columns: list[list[str]]) -> list[str]:
    widths = [max(map(width_of, column)) for column in columns]
    texts = [column[0] in ("key", "dtype") for column in columns]
    return [
        "  ".join(
            cell + " " * (width - width_of(cell)) if is_text else " " * (width - width_of(cell)) + cell
            for cell, width, is_text in zip(row, widths, texts, strict=True)
        ).rstrip()
        for row in zip(*columns, strict=True)
    ]


def _writer(value: Tensor) -> Callable[[Any], str]:
    """Return a function that writes the cells of a column: a dash where a statistic is not known."""
    if not value.is_floating_point():
        return lambda number: "-" if number < 0 else str(number)

    def write(number: float) -> str:
        return "-" if number != number else number_writer([number], torch.float64)(number)

    return write
