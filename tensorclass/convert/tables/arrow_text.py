"""Text columns that stay in Arrow's memory until Python strings are needed: reading a file makes no string for each
row.
"""

from __future__ import annotations

from typing import Any

from tensorclass.td.leaves.object_codes import Deferred

from .arrow_numbers import compute

#: number of rows examined to decide whether a column repeats few texts
HEAD = 4096


class ArrowText(Deferred):
    """The text of a column without nulls, in the memory of the table."""

    __slots__ = ("_pa", "column")

    kind: type | None = str

    def __init__(self, pa: Any, column: Any) -> None:
        super().__init__()
        self._pa = pa
        #: a ``pyarrow.Array`` or ``ChunkedArray``
        self.column: Any = column.chunk(0) if getattr(column, "num_chunks", 0) == 1 else column

    def __len__(self) -> int:
        return len(self.column)

    def _one(self, position: int) -> str:
        return self.column[position].as_py()  # type: ignore[no-any-return]

    def _all(self) -> tuple[str, ...]:
        if repeats(self._pa, self.column):
            column = self.column.dictionary_encode()
            chunks = column.chunks if isinstance(column, self._pa.ChunkedArray) else [column]
            return tuple([
                text for chunk in chunks
                for text in map(chunk.dictionary.to_pylist().__getitem__, chunk.indices.to_numpy().tolist())
            ])  # fmt: skip
        return tuple(self.column.to_numpy(zero_copy_only=False).tolist())


def is_text(pa: Any, arrow_type: Any) -> bool:
    """Return whether a type is text in a layout for which Arrow has all functions."""
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))


def repeats(pa: Any, column: Any) -> bool:
    """Return whether a text column seems to repeat few values, which are then made once."""
    if not (is_text(pa, column.type) or pa.types.is_binary(column.type)) or len(column) < 64:
        return False
    head = column.slice(0, HEAD)
    return bool(2 * compute(pa).count_distinct(head).as_py() < len(head))
