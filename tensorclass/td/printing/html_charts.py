"""Pictures inside of HTML: histograms as SVG, images as PNG. Both are texts without references to other files."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tensorclass.td.leaves.object_codes import to_lists
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor

_BINS, _BAR, _HEIGHT = 24, 10, 44
#: numbers that a histogram is made of at most
_COUNTED, _COUNTED_IN_FILE = 1 << 20, 1 << 16
_PIXELS = 48  #: the longest edge of a picture


class Histogram(NamedTuple):
    """Counts of numbers in intervals of one width."""

    counts: list[int]
    low: float
    high: float
    mean: float
    std: float
    total: int  #: numbers that were looked at
    not_finite: int
    edges: tuple[float, float]  #: the ends of the first and the last interval


def histogram(values: Tensor) -> Histogram | None:
    """Count the numbers of a tensor on its device; of a large tensor, every n-th of them.

    Args:
        values: a readable tensor of any shape; integers, floating point or booleans.

    Returns:
        The counts; ``None`` if there are no finite numbers.

    >>> histogram(torch.tensor([0, 0, 1, 3])).counts
    [2, 1, 0, 1]
    """
    numbers = _some(values.detach())
    total = numbers.numel()
    is_whole = not numbers.dtype.is_floating_point
    numbers = numbers.to(torch.float64 if numbers.device.type == "cpu" else torch.float32)
    numbers = numbers[numbers.isfinite()]
    if not numbers.numel():
        return None
    low, high = numbers.min().item(), numbers.max().item()
    bins = int(high - low) + 1 if is_whole and high - low < _BINS else _BINS
    edges = (low - 0.5, high + 0.5) if is_whole else (low, high)
    counts = torch.histc(numbers, bins, *edges) if edges[0] < edges[1] else torch.tensor([numbers.numel()])
    std = numbers.std().item() if numbers.numel() > 1 else 0.0
    return Histogram(
        [int(count) for count in to_lists(counts)], low, high, numbers.mean().item(), std, total,
        total - numbers.numel(), edges,
    )  # fmt: skip


def _some(values: Tensor) -> Tensor:
    count = values.numel()
    if isinstance(values, MemoryMappedTensor) and count > _COUNTED_IN_FILE:
        return _first(values, _COUNTED_IN_FILE)
    if count <= _COUNTED:
        return values.reshape(-1)
    if values.is_contiguous():
        return values.view(-1)[:: -(-count // _COUNTED)]
    return _first(values, _COUNTED)


def _first(values: Tensor, count: int) -> Tensor:
    """Return about the first ``count`` numbers, without a look at others."""
    while values.ndim > 1:
        row = values[0].numel()
        if row <= count:
            return values[: max(count // max(row, 1), 1)].reshape(-1)
        values = values[0]
    return values[:count]


def svg_histogram(found: Histogram) -> str:
    """Return bars as SVG in the colour of the text around it.

    >>> svg_histogram(histogram(torch.arange(3)))[:60]
    '<svg width="30" height="44" viewBox="0 0 30 44" role="img"><'
    """
    width, top = len(found.counts) * _BAR, max(found.counts) or 1
    bars: list[str] = []
    for number, count in enumerate(found.counts):
        height = max(round(count / top * _HEIGHT, 1), 1.0) if count else 0.0
        bars.append(
            f'<rect x="{number * _BAR}" y="{_HEIGHT - height:g}" width="{_BAR - 1}" height="{height:g}">'
            f"<title>{count}</title></rect>"
        )
    head = f'<svg width="{width}" height="{_HEIGHT}" viewBox="0 0 {width} {_HEIGHT}" role="img">'
    return f'{head}<g fill="#5b9bd5">{"".join(bars)}</g></svg>'


def is_image(shape: Any, dtype: torch.dtype) -> bool:
    """Return whether items of a shape and a dtype look like images: ``[1 or 3, height, width]``.

    >>> is_image((3, 32, 32), torch.uint8), is_image((3, 32, 32), torch.int64), is_image((4, 32, 32), torch.uint8)
    (True, False, False)
    """
    return (
        len(shape) == 3
        and shape[0] in (1, 3)
        and all(isinstance(size, int) and size >= 8 for size in shape[1:])
        and (dtype is torch.uint8 or dtype.is_floating_point)
    )


def png_uri(image: Tensor) -> str:
    """Return an image as a ``data:`` URI, shrunk to at most 48 pixels along an edge.

    Args:
        image: ``[1 or 3, height, width]``; ``uint8``, or floating point, of which values outside of [0, 1] are scaled
            to this range.

    >>> png_uri(torch.zeros(3, 8, 8))[:30]
    'data:image/png;base64,iVBORw0K'
    """
    step = max(-(-max(image.shape[1:]) // _PIXELS), 1)
    small = image.detach()[:, ::step, ::step].cpu()
    if small.dtype is not torch.uint8:
        small = small.to(torch.float32).nan_to_num(0.0, 0.0, 0.0)
        low, high = small.min().item(), small.max().item()
        if low < 0 or high > 1:
            small = (small - low) / max(high - low, 1e-12)
        small = (small * 255).round().to(torch.uint8)
    channels, height, width = small.shape
    rows = bytes(to_lists(small.permute(1, 2, 0).reshape(-1)))
    stride = width * channels
    lines = b"".join(b"\0" + rows[start : start + stride] for start in range(0, height * stride, stride))
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    png = (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(lines, 9)) + _chunk(b"IEND", b"")
    )
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
