"""Histograms of the fields of a collection, with matplotlib."""

from __future__ import annotations

import functools
import io
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorclass.support.extras import require
from tensorclass.support.printable import plot_label
from tensorclass.td.keys import NestedKey, dotted
from tensorclass.td.leaves.content import Content
from tensorclass.td.leaves.leaf import content_kind
from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.printing.html_charts import Histogram, histogram
from tensorclass.td.printing.number_previews import is_readable

from .key_codes import as_keys, key_columns, leaf_keys

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tensorclass.td.base import TensorCollection

METHODS_OF = "Looks"

_COLUMNS, _WIDTH, _HEIGHT = 3, 3.2, 2.2  #: of the figure; inches for each histogram


def plot(self: TensorCollection, keys: list[NestedKey] | NestedKey | None = None) -> Figure:
    """Draw a histogram of the numbers of each field.

    Needs matplotlib, the extra ``plot``.

    Args:
        keys: a key or a list of keys. Default: all whose values are real numbers, also of nested collections.

    Returns:
        The figure, which ``savefig`` writes, and which notebooks show.

    Raises:
        ImportError: matplotlib is not installed.
        KeyError: there is no such key.
        ValueError: a key has no real numbers.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> figure = TensorDict({"x": torch.randn(100), "y": torch.rand(100)}, [100]).plot()
        >>> [axes.get_title() for axes in figure.axes]
        ['x', 'y']
    """
    figures: Any = require("matplotlib.figure", "plot", "plot")
    chosen = leaf_keys(self) if keys is None else as_keys(keys)
    counted = {dotted(key): _histogram(one) for key, one in _columns(self, chosen)}
    found = {key: one for key, one in counted.items() if one is not None}
    if keys is not None and (without := [key for key in counted if key not in found]):
        raise ValueError(f"plot: expected keys of real numbers, got {without}")
    if not found:
        raise ValueError(f"plot: no value has real numbers; the keys are {list(counted)}")
    columns = min(_COLUMNS, len(found))
    rows = -(-len(found) // columns)
    figure: Any = figures.Figure(figsize=(_WIDTH * columns, _HEIGHT * rows), layout="constrained")
    figure._repr_png_ = functools.partial(_png, figure)
    for number, (key, one) in enumerate(found.items(), 1):
        _draw(figure.add_subplot(rows, columns, number), key, one)
    shown: Figure = figure
    return shown


def _png(figure: Any) -> bytes:
    """Return the picture that notebooks show. Theirs of figures is only there after ``%matplotlib inline``."""
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def _columns(data: TensorCollection, keys: list[tuple[str, ...]]) -> list[tuple[tuple[str, ...], Any]]:
    if not data._batch_size:
        return [(key, data._find(key)) for key in keys]
    return list(zip(keys, key_columns("plot", data, keys) if keys else [], strict=True))


def _histogram(value: Any) -> Histogram | None:
    if content_kind(value) is Content.TENSOR:
        value = value._wrapped_tensor()
    while content_kind(value) is Content.RAGGED:
        value = value.compact().values
    if not isinstance(value, Tensor) or value.is_complex():
        return None
    if value.is_nested:
        value = value.values()
    return histogram(value) if is_readable(value) and value.numel() else None


def _draw(axes: Any, key: str, found: Histogram) -> None:
    edges: list[float] = to_lists(torch.linspace(*_ends(found), len(found.counts) + 1, dtype=torch.float64))
    axes.stairs(found.counts, edges, fill=True)
    axes.set_title(plot_label(key), fontsize="medium")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _ends(found: Histogram) -> tuple[float, float]:
    return found.edges if found.edges[0] < found.edges[1] else (found.low - 0.5, found.high + 0.5)
