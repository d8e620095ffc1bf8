"""A table of text, before it is drawn: headings, cells, and what a layout may do with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tensorclass.support.printable import printable

__all__ = ["Sheet", "SheetColumn", "SheetRow"]


@dataclass(frozen=True)
class SheetColumn:
    """A column.

    Attributes:
        heading: its name.
        is_label: whether its cells name the row: they stand left and may be folded. Other cells are numbers: they stand
            right and keep their width.
        is_merged: whether a cell that repeats the one above it is left blank.
    """

    heading: str
    is_label: bool = False
    is_merged: bool = False


@dataclass(frozen=True)
class SheetRow:
    """A row.

    Attributes:
        cells: one for each column.
        styles: by column, ``"good"``, ``"bad"`` or ``"dim"``.
    """

    cells: tuple[str, ...]
    styles: dict[int, str] = field(default_factory=dict[int, str])


@dataclass
class Sheet:
    """A table of text. Control characters in cells and headings are shown as escapes.

    Attributes:
        title: stands above it.
        columns: label columns first, then numbers.
        rows: the rows.
        caption: stands below it.

    Example:
        >>> sheet = Sheet("Scores, %", [SheetColumn("model", is_label=True), SheetColumn("acc")])
        >>> sheet.add("gpt", "71.00")
        >>> sheet.rows[0].cells
        ('gpt', '71.00')
    """

    title: str
    columns: Sequence[SheetColumn]
    rows: list[SheetRow] = field(default_factory=list[SheetRow])
    caption: str = ""

    def __post_init__(self) -> None:
        self.title, self.caption = printable(self.title), printable(self.caption)
        self.columns = [replace(column, heading=printable(column.heading)) for column in self.columns]

    @property
    def labels(self) -> int:
        """The number of label columns."""
        return sum(column.is_label for column in self.columns)

    def add(self, *cells: str, styles: dict[int, str] | None = None) -> None:
        """Add a row: a cell for each column, and the styles of some of them."""
        if len(cells) != len(self.columns):
            raise ValueError(f"cells: expected one for each of {len(self.columns)} columns, got {len(cells)}")
        self.rows.append(SheetRow(tuple(map(printable, cells)), styles or {}))

    def part(self, columns: Sequence[int]) -> Sheet:
        """The sheet with some of its columns."""
        place = {old: new for new, old in enumerate(columns)}
        rows = [
            SheetRow(
                tuple(row.cells[one] for one in columns),
                {place[one]: style for one, style in row.styles.items() if one in place},
            )
            for row in self.rows
        ]
        return Sheet(self.title, [self.columns[one] for one in columns], rows, self.caption)

    def turned(self) -> Sheet:
        """The sheet with a row for each column of numbers, and a column for each row."""
        headings = [" / ".join(cell for cell in row.cells[: self.labels] if cell) for row in self.rows]
        rows = [
            SheetRow(
                (self.columns[place].heading, *(row.cells[place] for row in self.rows)),
                {number + 1: row.styles[place] for number, row in enumerate(self.rows) if place in row.styles},
            )
            for place in range(self.labels, len(self.columns))
        ]
        label = " / ".join(column.heading for column in self.columns[: self.labels])
        columns = [SheetColumn(label, is_label=True), *map(SheetColumn, headings)]
        return Sheet(self.title, columns, rows, self.caption)
