"""A collection in a notebook: the short form, whose fields unfold to samples, histograms and pictures.

The HTML has no scripts and refers to no other files. Colours follow the notebook's, light or dark. It has less than
100 KB whatever the collection is: details that have no room are left out.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorclass.support.printable import printable, type_name
from tensorclass.td.collection import Collection

from .field_previews import FirstRows
from .html_charts import histogram, is_image, png_uri, svg_histogram
from .number_previews import is_readable, number_writer, numbers_text
from .print_options import OPTIONS
from .short_form import Line, content_text, facts_of, head_facts, plan
from .text_previews import cut

if TYPE_CHECKING:
    from .representations import Printing

_MOST_BYTES = 96_000
_CONTENT, _SAMPLE = 80, 200  #: characters of a line, and of a sample
_SAMPLES, _PICTURES = 5, 6
#: rows that are read of a value in a file
_READ_ROWS = 256

_STYLE = (
    "<style>"
    ".tc-repr{font:13px/1.5 var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace);color:inherit}"
    ".tc-repr details>div{margin-left:1.6em}"
    ".tc-repr summary{cursor:pointer}"
    ".tc-repr .tc-leaf{padding-left:1.05em}"
    ".tc-repr .tc-n,.tc-repr .tc-t{display:inline-block;white-space:pre}"
    ".tc-repr .tc-t,.tc-repr small{opacity:.65}"
    ".tc-repr .tc-c{white-space:pre-wrap}"
    ".tc-repr .tc-more{border-left:2px solid rgba(128,128,128,.4);padding:.2em .8em;margin:.2em 0 .4em .3em}"
    ".tc-repr svg,.tc-repr img{vertical-align:middle;margin:.2em .3em .2em 0}"
    ".tc-repr img{image-rendering:pixelated;border:1px solid rgba(128,128,128,.4);height:48px;width:auto}"
    "</style>"
)


class _Room:
    """The bytes that are left."""

    def __init__(self, size: int) -> None:
        self.size = size

    def take(self, text: str) -> str:
        """Return the text if there is room for it, else nothing."""
        size = len(text.encode())
        if size > self.size:
            return ""
        self.size -= size
        return text


def html_text(data: Printing) -> str:
    """Return a collection as HTML."""
    facts = facts_of(data)
    lines = plan(data, facts, OPTIONS.everywhere["max_lines"] - 1)
    head = f"<b>{_text(type_name(data))}</b> <small>{_text(', '.join(head_facts(data, facts)))}</small>"
    rows = [_row_start(lines, number) for number in range(len(lines))]
    room = _Room(_MOST_BYTES - len(_STYLE) - sum(len(row.encode()) + 60 for row in rows) - len(head.encode()))
    body = _rows(lines, rows, 0, len(lines), room)
    return f'<div class="tc-repr">{_STYLE}<details open=""><summary>{head}</summary><div>{body}</div></details></div>'


def _text(text: str) -> str:
    return html.escape(printable(text))


def _row_start(lines: list[Line], number: int) -> str:
    line = lines[number]
    if line.preview is None:
        return f"<small>{_text(cut(line.name, _CONTENT))}</small>"
    beside = [other for other in lines if other.group == line.group and other.preview is not None]
    names = max(len(other.name) for other in beside)
    types = max(len(other.type) for other in beside)
    content = content_text(lines, number, _CONTENT)
    return (
        f'<span class="tc-n">{_text(line.name.ljust(names + 2))}</span>'
        f'<span class="tc-t">{_text(line.type.ljust(types + 2))}</span><span class="tc-c">{_text(content)}</span>'
    )


def _rows(lines: list[Line], rows: list[str], start: int, stop: int, room: _Room) -> str:
    parts: list[str] = []
    number = start
    while number < stop:
        line, row = lines[number], rows[number]
        end = number + 1
        while end < stop and lines[end].depth > line.depth:
            end += 1
        if end > number + 1:
            below = _rows(lines, rows, number + 1, end, room)
            parts.append(f'<details open=""><summary>{row}</summary><div>{below}</div></details>')
        elif more := room.take(_details(line, room.size)):
            parts.append(f"<details><summary>{row}</summary>{more}</details>")
        else:
            parts.append(f'<div class="tc-leaf">{row}</div>')
        number = end
    return "".join(parts)


def _details(line: Line, size: int) -> str:
    if line.preview is None or line.preview.nested is not None or line.value is None or size < 2_000:
        return ""
    try:
        found = _numbers(line.value, line.ndim) if _is_tensor(line.value) else _leaf(line.value)
    except Exception:  # a dtype without the operation, a file that was closed
        return ""
    return f'<div class="tc-more">{found}</div>' if found else ""


def _is_tensor(value: Any) -> bool:
    return isinstance(value.outline if isinstance(value, FirstRows) else value, Tensor)


def _leaf(value: Any) -> str:
    rows = value.read(_SAMPLES) if isinstance(value, FirstRows) else value
    if not isinstance(rows, Collection):
        return ""
    shown: Any = rows
    return _list(shown._row_texts(_SAMPLES, _SAMPLE))


def _list(texts: list[str]) -> str:
    return "".join(f"<div><small>{number}</small> {_text(text)}</div>" for number, text in enumerate(texts))


def _numbers(value: Any, ndim: int) -> str:
    note = ""
    if isinstance(value, FirstRows):
        outline, value = value.outline, value.read(_READ_ROWS)
        if not isinstance(value, Tensor):
            return ""
        if value.shape != outline.shape:
            note = f" (from the first {len(value)} rows)"
    if not is_readable(value) or not value.numel():
        return ""
    pictures = _pictures(value, ndim) if is_image(value.shape[ndim:], value.dtype) else ""
    chart = ""
    if not value.dtype.is_complex and value.numel() > 1 and (found := histogram(value)) is not None:
        write = number_writer([found.mean, found.std], torch.float64)
        ends = number_writer([found.low, found.high], value.dtype)
        low, high = (ends(end) if value.is_floating_point() else f"{end:.0f}" for end in (found.low, found.high))
        facts = f"min {low}, max {high}, mean {write(found.mean)}, std {write(found.std)}"
        if found.total < value.numel():
            note = note or f" (from {found.total} of {value.numel()} numbers)"
        missing = f", {found.not_finite} not finite" if found.not_finite else ""
        chart = f"<div>{svg_histogram(found)}<small>{facts}{missing}{note}</small></div>"
    samples = ""
    if ndim and value.ndim == ndim + 1 and not pictures:
        rows = value.reshape(-1, value.shape[-1]) if value.is_contiguous() else value[(0,) * (ndim - 1)]
        samples = _list([numbers_text(row, 1, _CONTENT) for row in rows[:_SAMPLES]])
    return pictures + chart + samples


def _pictures(value: Tensor, ndim: int) -> str:
    images = value[(0,) * (ndim - 1)] if ndim else value.unsqueeze(0)
    shown = [f'<img src="{png_uri(image)}" alt="" />' for image in images[:_PICTURES]]
    return f"<div>{''.join(shown)}</div>"
