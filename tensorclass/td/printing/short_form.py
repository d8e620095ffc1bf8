"""The short form of ``repr``: a line for each field with some of its values, in a bounded number of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from tensorclass.support.printable import printable, type_name
from tensorclass.td.collection import Collection

from .field_previews import Preview, Unshown, preview, tensor_marks
from .number_previews import number_style
from .print_options import OPTIONS
from .text_previews import cut, cut_middle

if TYPE_CHECKING:
    from .representations import Printing

_INDENT = 2
_NAME, _TYPE = 32, 40  #: the most columns of names and types
_WALKED = 2_000  #: tensors that are counted at most
_TORCHS_LINEWIDTH = 80
_CPU = torch.device("cpu")
#: keys that a reader of the form (see :mod:`~tensorclass.td.repr_parser`) takes as they are; others are in quotes
_PLAIN_KEY = re.compile(r"[^\s:'\"(){}\[\].<](?:[^:'\"(){}\[\]\\]*[^\s:'\"(){}\[\].\\])?")


class Line(NamedTuple):
    """One line of a field."""

    depth: int
    name: str
    type: str
    preview: Preview | None  #: ``None``: the line counts fields that are not shown
    group: int  #: lines of one collection, which are aligned
    value: Any = None  #: the value that the line shows, as :func:`~.field_previews.preview` takes it
    ndim: int = 0  #: batch dimensions of the collection


class Facts(NamedTuple):
    """The properties that the tensors of a collection have in common."""

    nbytes: int | None
    is_partial: bool
    devices: frozenset[torch.device]
    marks: tuple[str, ...]
    marks_of: dict[int, tuple[Tensor, tuple[str, ...]]]  #: tensors under their ids, each with all its marks


def short_text(data: Printing) -> str:
    """Return the short form of a collection."""
    options = OPTIONS.everywhere
    width = line_width()
    facts = facts_of(data)
    head = cut(headline(data, facts), width)
    lines = plan(data, facts, options["max_lines"] - 1)
    return "\n".join([head, *_aligned(lines, width)])


def line_width() -> int:
    """Return the width of lines: the option ``max_width``, or less if torch's ``linewidth`` was set to less."""
    most: int = OPTIONS.everywhere["max_width"]
    torchs = number_style().linewidth
    return most if torchs == _TORCHS_LINEWIDTH else max(min(most, torchs), 40)


# -- the head ---------------------------------------------------------------------------------------------------------


def facts_of(data: Printing) -> Facts:
    """Count the tensors of a collection. Nothing is read, and a limited number of values is looked at."""
    nbytes: int | None = 0
    devices: set[torch.device] = set()
    marks_of: dict[int, tuple[Tensor, tuple[str, ...]]] = {}
    common: set[str] | None = None
    is_partial = False
    try:
        leaves = list(islice(_values_below(data), _WALKED + 1))
        is_partial = len(leaves) > _WALKED
        for leaf in leaves:
            if leaf is None:
                continue
            devices.add(leaf.device)
            marks = tensor_marks(leaf)
            marks_of[id(leaf)] = leaf, marks
            if common is None:
                common = {*marks}
            elif common:
                common.intersection_update(marks)
            nbytes = _added(nbytes, leaf)
    except Exception:
        nbytes = None
    return Facts(nbytes, is_partial, frozenset(devices), tuple(sorted(common or ())), marks_of)


def _values_below(data: Printing) -> Iterator[Tensor | None]:
    """Yield the tensors of a collection, and ``None`` for each nested one, so that callers can limit the walk."""
    pending: list[Iterator[Any]] = [iter(data._values_for_repr())]
    while pending:
        for value in pending[-1]:
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, Collection):
                yield None
                below: Any = value
                pending.append(iter(below._values_for_repr()))
                break
        else:
            pending.pop()


def _added(total: int | None, leaf: Tensor) -> int | None:
    if leaf.is_nested:
        return None
    size: Any = leaf._nnz() if leaf.layout is torch.sparse_coo else leaf.numel()
    # a symbolic size stays a symbol
    return total + size * leaf.element_size() if total is not None and isinstance(size, int) else None


def headline(data: Printing, facts: Facts) -> str:
    """Return the first line: class, batch size, and what all fields have in common."""
    return f"{type_name(data)}({', '.join(head_facts(data, facts))})"


def head_facts(data: Printing, facts: Facts) -> list[str]:
    """Return the facts of the first line."""
    shown, found = OPTIONS.everywhere, list[str]()
    if shown["show_batch_size"]:
        found.append(f"batch_size={list(data._batch_size)}")
    if data._names is not None:
        found.append(f"names={list(data._names)}")
    marks = [*data._marks_for_repr(), *facts.marks]
    if shown["show_device"]:
        if data._device is not None:
            found.append(f"device={data._device}")
        elif len(facts.devices) == 1:
            found.append(f"on {next(iter(facts.devices))}")
    if facts.nbytes:
        found.append(f"{'> ' * facts.is_partial}{bytes_text(facts.nbytes)}")
    return found + marks


def bytes_text(nbytes: int) -> str:
    """Return a number of bytes.

    >>> bytes_text(48), bytes_text(3_200), bytes_text(1_234_567_890)
    ('48 bytes', '3.2 kB', '1.2 GB')
    """
    if nbytes < 1000:
        return f"{nbytes} bytes"
    size, units = nbytes / 1000, iter(("kB", "MB", "GB"))
    unit = next(units)
    while size >= 999.95 and unit != "TB":
        size, unit = size / 1000, next(units, "TB")
    return f"{size:.1f} {unit}"


# -- the fields -------------------------------------------------------------------------------------------------------


def plan(data: Printing, facts: Facts, budget: int) -> list[Line]:
    """Choose the fields that are shown. Nested collections share the lines that fields leave."""
    return _Plan(data, facts).lines_of(data, 0, budget) if budget > 0 else []


class _Plan:
    def __init__(self, data: Printing, facts: Facts) -> None:
        self.facts = facts
        self.common: set[str] = {*facts.marks, *data._marks_for_repr()}
        alone = next(iter(facts.devices)) if len(facts.devices) == 1 else _CPU
        self.device: torch.device = data._device or alone
        self.groups = 0

    def lines_of(self, owner: Printing, depth: int, budget: int) -> list[Line]:
        self.groups += 1
        group, ndim = self.groups, len(owner._batch_size)
        names = owner._names_for_repr()
        kept = names if len(names) <= budget else names[: budget - 1]
        lines: list[Line] = []
        for name in kept:
            value, one = _shown(owner, name, ndim, self.facts)
            lines.append(Line(depth, key_text(name), self._type_text(one), one, group, value, ndim))
        left = budget - len(kept)
        if len(kept) < len(names):
            left -= 1
            rest = names[len(kept) :]
            some = ", ".join(map(key_text, rest[:20]))
            lines.append(Line(depth, f"... {len(rest)} more: {some}", "", None, group))
        nested = [line.preview.nested for line in lines if line.preview is not None and line.preview.nested is not None]
        return self._with_nested(lines, len(nested), depth, left) if nested else lines

    def _with_nested(self, lines: list[Line], nested: int, depth: int, left: int) -> list[Line]:
        found: list[Line] = []
        for line in lines:
            found.append(line)
            if line.preview is not None and line.preview.nested is not None:
                share, nested = left // nested, nested - 1
                below = self.lines_of(line.preview.nested, depth + 1, share) if share else []
                left -= len(below)
                found += below
        return found

    def _type_text(self, one: Preview) -> str:
        text = one.type
        if one.device is not None and one.device != self.device:
            text += f" @{one.device}"
        for mark in one.marks:
            if mark not in self.common:
                text += f" {mark}"
        return cut(text, _TYPE)


def _shown(owner: Printing, name: str, ndim: int, facts: Facts) -> tuple[Any, Preview]:
    """Return a value and its preview; that of the error if there is one."""
    try:
        value = owner._value_for_repr(name)
        known = facts.marks_of.get(id(value))
        return value, preview(value, ndim, known and known[1])
    except Exception as error:
        return Unshown(error), preview(Unshown(error), ndim)


def key_text(key: str) -> str:
    """Return a key, in quotes if it has characters that the form uses.

    >>> key_text("first name"), key_text("a: b")
    ('first name', "'a: b'")
    """
    if key.isascii() and key.isidentifier() and len(key) <= _NAME:
        return key
    text = printable(key)
    if _PLAIN_KEY.fullmatch(text) and "  " not in text:
        return cut_middle(text, _NAME)
    return cut_middle(printable(repr(key)), _NAME)


def content_text(lines: list[Line], number: int, width: int) -> str:
    """Return the content of a value on ``width`` columns; why it cannot be shown, if it cannot.

    Of a nested collection, return the keys, unless lines below show them.
    """
    shown = lines[number].preview
    assert shown is not None
    if shown.nested is None:
        try:
            return cut(shown.content(width), width)
        except Exception as error:
            return Unshown(error).text(width)
    if number + 1 < len(lines) and lines[number + 1].depth > lines[number].depth:
        return ""
    names = shown.nested._names_for_repr()
    more = ", ..." if len(names) > 20 else ""
    return cut(f"{{{', '.join(map(key_text, names[:20]))}{more}}}", width)


def _aligned(lines: list[Line], width: int) -> list[str]:
    names: dict[int, int] = {}
    types: dict[int, int] = {}
    for line in lines:
        if line.preview is not None:
            names[line.group] = max(names.get(line.group, 0), len(line.name))
            if line.preview.nested is None:
                types[line.group] = max(types.get(line.group, 0), len(line.type))
    shown: list[str] = []
    for number, line in enumerate(lines):
        start = " " * (_INDENT * (line.depth + 1))
        if line.preview is None:
            shown.append(cut(start + line.name, width))
            continue
        start += f"{line.name}:".ljust(names[line.group] + 2)
        start += line.type.ljust(types[line.group] if line.preview.nested is None else 0) + "  "
        content = content_text(lines, number, width - len(start))
        shown.append(cut((start + content).rstrip(), width))
    return shown
