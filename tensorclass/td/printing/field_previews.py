"""A line about a value: its type, what it shares with other values, and some of its content."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import torch
from torch import Size, Tensor
from torch.nn import Parameter

from tensorclass.support.printable import type_name
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.object_codes import flatten_lists, to_lists
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tensorclass.td.value_checks import is_strided_nested

from .long_form import dtype_name, is_shared_tensor, shows_fields, sizes_text
from .number_previews import first_numbers_text, is_readable, list_text, number_writer, numbers_text
from .print_options import OPTIONS
from .text_previews import ROWS, cut, cut_middle, listed, object_text, one_line

if TYPE_CHECKING:
    from .representations import Printing

#: makes the text of a value for a number of columns
Content: TypeAlias = Callable[[int], str]


class Preview(NamedTuple):
    """One value on a line."""

    type: str
    content: Content
    marks: tuple[str, ...] = ()
    device: torch.device | None = None
    nested: Printing | None = None  #: a collection, whose fields are lines of their own


class FirstRows(NamedTuple):
    """A value that is not read as a whole, such as an array in a file: its outline, and its first rows on request."""

    outline: Any  #: a value of the dtype, and of the shape unless ``sizes`` has it; its elements are not shown
    read: Callable[[int], Any]  #: makes the first rows; a list of them if they differ in shape
    sizes: tuple[Any, ...] | None = None  #: the shape, with ``*`` where rows differ
    device: torch.device | None = None  #: where the rows are; default: that of the outline


class Unshown(NamedTuple):
    """Stands for a value that cannot be read."""

    error: Exception

    def text(self, width: int) -> str:
        """Return why, on one line. What is wrong comes last in messages, after the path of a file."""
        return cut_middle(f"<cannot be read: {type_name(self.error)}: {one_line(self.error)}>", width)


def no_content(width: int) -> str:
    """Return the text of a value of which nothing is shown."""
    return ""


def preview(value: Any, ndim: int, marks: tuple[str, ...] | None = None) -> Preview:
    """Return what a line says of a value.

    Args:
        value: a value of a collection, :class:`FirstRows`, :class:`Unshown`, or ``None``.
        ndim: the number of batch dimensions of the collection.
        marks: those of a tensor, if they are known.
    """
    if isinstance(value, Tensor):
        type_text = tensor_type(value, () if is_strided_nested(value) else value.shape, ndim)
        marks = tensor_marks(value) if marks is None else marks
        return Preview(type_text, _content(value, ndim), marks, value.device)
    if isinstance(value, FirstRows):
        return _first_rows_preview(value, ndim)
    if isinstance(value, Unshown):
        return Preview("?", value.text)
    if value is None:
        return Preview("None", no_content)
    if isinstance(value, Collection):
        shown: Any = value
        if not shown._is_tree():
            text = shown._type_for_repr()

            def of_leaf(width: int) -> str:
                return str(shown._content_for_repr(width, ndim))

            return Preview(text, of_leaf, (), shown._device_for_repr())
        if shows_fields(shown):
            more, names = shown._batch_size[ndim:], shown._names
            text = type_name(shown) + (sizes_text(more) if more else "")
            if names is not None and any(names[ndim:]):
                text += f" names={list(names)}"
            return Preview(text, no_content, shown._marks_for_repr(), None, shown)

    def of_object(width: int) -> str:  # a record class can have a repr of its own
        return cut(one_line(repr(value)), width) if isinstance(value, Collection) else object_text(value, width)

    return Preview(type_name(value), of_object)


def tensor_type(value: Tensor, sizes: Any, ndim: int) -> str:
    """Return dtype and shape of an item."""
    dtype = dtype_name(value.dtype) if OPTIONS.everywhere["show_dtype"] else ""
    if is_strided_nested(value):
        return dtype + "[*]"
    rest = sizes[ndim:]
    if value.is_nested:
        rest = [size if isinstance(size, int) else "*" for size in rest]
    return dtype + sizes_text(rest) if rest or not dtype else dtype


def tensor_marks(value: Tensor) -> tuple[str, ...]:
    """Return what is special about a tensor."""
    cls = value.__class__
    if cls is Tensor:
        marks: tuple[str, ...] = ("requires grad",) if value.requires_grad else ()
    elif isinstance(value, MemoryMappedTensor):
        return ("memory-mapped",)
    elif isinstance(value, Parameter):
        marks = ("parameter",) if value.requires_grad else ("parameter without grad",)
    else:
        marks = (type_name(value),)
    if value.layout is not torch.strided:
        marks += (str(value.layout).removeprefix("torch.").replace("_", " "),)
    elif value.device.type == "cpu" and is_shared_tensor(value):
        marks += ("shared memory",)
    return marks


def _content(value: Tensor, ndim: int) -> Content:
    if value.is_nested and value.layout is torch.jagged:
        return lambda width: _jagged_text(value, width)
    if value.layout is torch.sparse_coo:
        return lambda width: f"{value._nnz()} values"
    return lambda width: numbers_text(value, ndim, width)


def _jagged_text(value: Tensor, width: int) -> str:
    jagged: Any = value
    try:
        items, offsets = jagged.values(), jagged.offsets()
        if not is_readable(items) or not is_readable(offsets) or items.ndim != 1:
            return ""
        starts = offsets[: ROWS + 1].tolist()
        lengths = [end - start for start, end in pairwise(starts)]
        if jagged.lengths() is not None:
            lengths = jagged.lengths()[:ROWS].tolist()
        return rows_text(items, [*zip(starts, lengths, strict=False)], len(offsets) - 1, width)
    except Exception:
        return ""


def rows_text(items: Tensor, spans: list[tuple[int, int]], count: int, width: int) -> str:
    """Return rows of a buffer of numbers as a list.

    Args:
        items: the buffer.
        spans: start and length of the first rows; the length of a row without a value is negative.
        count: the number of rows.
        width: columns.

    >>> rows_text(torch.arange(9), [(0, 2), (2, -1), (2, 7)], 3, 60)
    '[[0, 1], None, [2, 3, 4, 5, 6, 7, ...]]'
    """
    return listed(row_texts(items, spans, width), count, width)


def row_texts(items: Tensor, spans: list[tuple[int, int]], width: int) -> list[str]:
    """Return the texts of rows of a buffer of numbers, of each the first items.

    >>> row_texts(torch.arange(9), [(0, 2), (2, -1), (2, 7)], 60)
    ['[0, 1]', 'None', '[2, 3, 4, 5, 6, 7, ...]']
    """
    items = items.detach()
    read: list[Any] = [
        to_lists(items[start : start + min(length, ROWS)]) if length >= 0 else None for start, length in spans
    ]
    write = number_writer([number for row in read if row for number in flatten_lists(row)[0]], items.dtype)
    return [
        "None" if row is None else listed([list_text(number, write) for number in row], max(length, 0), width)
        for row, (_, length) in zip(read, spans, strict=True)
    ]


def _first_rows_preview(value: FirstRows, ndim: int) -> Preview:
    outline = value.outline
    if isinstance(outline, Tensor):
        sizes = outline.shape if value.sizes is None else value.sizes

        def text(width: int) -> str:
            rows = value.read(ROWS)
            if not isinstance(rows, Tensor):
                texts = [numbers_text(row, 0, width) for row in rows]
                return listed(texts, sizes[0], width) if all(texts) else ""
            return numbers_text(rows, ndim, width) if rows.shape == tuple(sizes) else first_numbers_text(rows, width)

        return Preview(tensor_type(outline, sizes, ndim), text, (), value.device or outline.device)
    shown = preview(outline, ndim)

    def of_rows(width: int) -> str:
        return str(value.read(ROWS)._content_for_repr(width, ndim, count=outline._batch_size[0]))

    return shown._replace(content=of_rows)


def shape_of_rows(shapes: list[Size]) -> tuple[Any, ...]:
    """Return a shape with ``*`` for the sizes that differ.

    >>> shape_of_rows([Size([2, 3]), Size([4, 3])]), shape_of_rows([Size([2]), Size([])])
    (('*', 3), ('*',))
    """
    if len({len(shape) for shape in shapes}) > 1:
        return ("*",)
    return tuple([sizes[0] if len({*sizes}) == 1 else "*" for sizes in zip(*shapes, strict=True)])
