"""Types of the values that users may give for a declared column. Only type checkers read this module."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias

from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar

from .column import Column
from .ragged import Ragged
from .text import Text

T = TypeVar("T", default=Any)


class ArrowArray(Protocol):
    """An array of Arrow, or of a library that exports one: pyarrow, polars, pandas, nanoarrow."""

    def __arrow_c_array__(self, requested_schema: Any = ...) -> Any: ...


class ArrowStream(Protocol):
    """A chunked array of Arrow, or of a library that exports one."""

    def __arrow_c_stream__(self, requested_schema: Any = ...) -> Any: ...


ArrowRows: TypeAlias = ArrowArray | ArrowStream

#: strings, nested for each batch dimension; one string for all rows
TextRows: TypeAlias = Text | str | ArrowRows | Iterable[str | None] | Iterable[Iterable[str | None]]

Number: TypeAlias = complex | None
# levels are written out: with a recursive alias, checkers would accept strings, which are sequences of strings
RowItem: TypeAlias = Number | Iterable[Number | Iterable[Number | Iterable[Number]]]
#: rows of numbers, each a sequence, an array, or a tensor; or one row
RaggedRows: TypeAlias = Ragged[Any] | Tensor | ArrowRows | NDArray[Any] | Iterable[RowItem | Tensor | NDArray[Any]]

#: objects, one for each row; or the object of one row
ColumnRows: TypeAlias = Column[T] | Iterable[T] | T
