"""A string for each row, as UTF-8 in one buffer of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td import native, shapes
from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.columns import spans as span_functions
from tensorclass.td.delegated.engine_functions import text_from_arrow
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.content import Content, register_kind
from tensorclass.td.leaves.nontensor_base import NonTensorDataBase
from tensorclass.td.leaves.object_codes import flatten_lists, nest_lists, to_lists
from tensorclass.td.safe_unpickling import allow_class
from tensorclass.td.value_checks import is_array

from .buffer_column import SPANS, BufferColumn
from .column_repr import text_rows
from .utf8_rows import (
    check_rows,
    count_characters,
    decode_row,
    decode_rows,
    encode_rows,
    equal_rows,
    rows_equal_to,
    rows_that_contain,
    rows_with_end,
)  # fmt: skip

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tensorclass.td.indexing import Index

    from .column_inputs import TextRows


class UniqueText(NamedTuple):
    """The result of :meth:`Text.unique`.

    Args:
        values: the distinct strings, sorted.
        codes: the position of each row's string in ``values``, ``int64[*batch]``.

    Example:
        >>> from tensorclass import Text
        >>> Text(["b", "a", "b"]).unique().codes
        tensor([1, 0, 1])
    """

    values: Text
    codes: Tensor


class Text(BufferColumn):
    """A string for each row of a batch, whatever the strings are.

    It is a value of a collection like a tensor. The strings lie as UTF-8 in one buffer of bytes; indices and shape
    operations act on the position of each row, and share the buffer. ``text[3]`` and iteration give ``str``; every
    other index gives a Text. A row can have no string (``None``).

    Args:
        data: a sequence of strings and ``None``, nested for several batch dimensions; one string, for one row; an array
            of strings; or the buffer, ``uint8[bytes]``, if ``spans`` is given.
        spans: start and length in bytes of each row, ``int64[*batch, 2]``; the length -1 marks a row without a string.
        device: of the buffer. Default: that of the data.
        names: a name or ``None`` for each batch dimension.

    Raises:
        TypeError: an item is not a string. The message names the row.
        ValueError: the bytes of a row lie outside of the buffer or are not UTF-8.

    Example:
        >>> from tensorclass import Text
        >>> text = Text(["yes", "no", "yes"])
        >>> text[1], text[1:].tolist(), text == "yes"
        ('no', ['no', 'yes'], tensor([ True, False,  True]))
    """

    __slots__ = ()
    if TYPE_CHECKING:
        _items: Tensor  # pyright: ignore[reportIncompatibleVariableOverride]  # bytes are never ragged

        def _packed(self) -> tuple[Tensor, Tensor]: ...

    _CONTENT = Content.TEXT
    _KIND = "Text"
    _row_reader = "str()"
    _keeps_items = True
    _new_length = span_functions.MISSING_LENGTH
    _row_width = 30
    _CONTENT_HINT = "; read its strings with tolist()"

    if TYPE_CHECKING:
        # Checkers ask a field for these, as for any descriptor: constructors and assignments take what people have.
        def __get__(self, record: object, owner: Any = None) -> Self: ...
        def __set__(self, record: Any, value: TextRows | None) -> None: ...

    def __init__(
        self,
        data: Any,
        spans: Tensor | None = None,
        *,
        device: DeviceLike | None = None,
        names: Sequence[str | None] | None = None,
    ) -> None:
        if spans is None:
            text = as_text(data)
            buffer, own, is_compact = text._items, text._spans(), text._is_compact
        else:
            if not isinstance(data, Tensor) or data.dtype is not torch.uint8 or data.ndim != 1:
                raise TypeError(f"Text: expected the buffer as a tensor uint8[bytes], got {_described(data)}")
            span_functions.check(spans, len(data), "Text")
            buffer, own, is_compact = data, spans.to(data.device), False
        if device is not None:
            buffer, own = buffer.to(device), own.to(device)
        self._begin_over(buffer, own, shapes.as_names(names, own.ndim - 1), is_compact)
        if spans is not None:
            self.check_encoding()

    @classmethod
    def from_list(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, strings: Iterable[Any], *, device: DeviceLike | None = None
    ) -> Self:
        """Make a column from strings and ``None``, in lists that are nested once for each batch dimension.

        Args:
            strings: the strings.
            device: of the buffer. Default: the CPU.

        Raises:
            TypeError: an item is not a string. The message names the row.

        Example:
            >>> from tensorclass import Text
            >>> Text.from_list(["a", None]).tolist()
            ['a', None]
        """
        listed = list(strings)
        size = Size((len(listed),))
        if listed and isinstance(listed[0], (list, tuple)):
            flat, lengths = flatten_lists(listed)
            listed, size = list(flat), Size(lengths)
        buffer, spans = encode_rows(listed)
        made = cls._of(buffer, spans if len(size) == 1 else spans.reshape((*size, 2)), compact=True)
        return made if device is None else made._to_device(torch.device(device), False)

    # -- reading ------------------------------------------------------------------------------------------------------

    @overload  # type: ignore[override]
    def __getitem__(self, index: int) -> str: ...  # type: ignore[overload-overlap]  # an int is an Index, too
    @overload
    def __getitem__(self, index: Index) -> Self: ...
    def __getitem__(self, index: Any) -> Any:
        """Return the string of one row, or a Text of several.

        An index that leaves no batch dimension gives the ``str`` (or ``None`` for a row without one).
        """
        rows = self._index_value(index)
        return rows._string(index) if not rows._batch_size and self._batch_size else rows

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Iterate over the strings of a batch with one dimension, else over the rows of the first."""
        rows: Any = self._strings() if len(self._batch_size) == 1 else super().__iter__()
        return iter(rows)

    def _string(self, index: object = None) -> str | None:
        """Return the string of one row. ``index``: that of the row in a batch, for the error message."""
        start, length = to_lists(self._spans())
        if length < 0:
            return None
        return decode_row(
            bytes(self._items[start : start + length].cpu().numpy()), "this row" if index is None else f"row {index}"
        )

    def item(self) -> str | None:
        """Return the string of one row.

        Raises:
            ValueError: this is a batch of rows.

        Example:
            >>> from tensorclass import Text
            >>> Text("a").item()
            'a'
        """
        if self._batch_size:
            raise ValueError(f"item(): expected one row, got the batch size {list(self._batch_size)}; use tolist()")
        return self._string()

    def __str__(self) -> str:
        """Return the string of one row; the representation of a batch of rows."""
        return repr(self) if getattr(self, "_batch_size", True) else str(self._string())  # unset: half-constructed

    def tolist(self, **options: Any) -> Any:
        """Return the strings in nested lists, ``None`` for rows without one.

        Without batch dimensions, return the string of the one row.

        Args:
            options: those of the method of collections. They have no effect on strings.

        Raises:
            ValueError: the bytes of a row are not UTF-8. The message names the row.

        Example:
            >>> from tensorclass import Text
            >>> Text([["a", "b"], ["c", None]]).tolist()
            [['a', 'b'], ['c', None]]
        """
        if not self._batch_size:
            return self._string()
        return nest_lists(self._strings(), self._batch_size)

    def _strings(self) -> list[str | None]:
        """Return the strings of all rows in flat order."""
        return decode_rows(*self._packed())

    def _unwrapped(self) -> Any:
        return self.tolist()

    def check_encoding(self) -> None:
        """Raise if the bytes of a row are not UTF-8.

        Raises:
            ValueError: the message names the row.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "é"]).check_encoding()
        """
        if not self._spans().is_meta and self.numel():
            check_rows(*self._packed())

    def numpy(self) -> NDArray[np.object_]:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the strings as an array of objects over the batch, ``None`` for rows without one.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "b"]).numpy()
            array(['a', 'b'], dtype=object)
        """
        array: Any = np.empty(self.numel(), dtype=object)
        array[:] = self._strings()
        shaped: NDArray[np.object_] = array.reshape(self._batch_size)
        return shaped

    def _as_array(self, dtype: Any = None) -> NDArray[Any]:
        return self.numpy()

    def to_dict(self, **options: Any) -> Any:
        """Return the strings in nested lists; see :meth:`tolist`.

        Args:
            options: those of the method of collections. They have no effect on strings.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a"]).to_dict()
            ['a']
        """
        return self.tolist()

    @property
    def lengths(self) -> Tensor:
        """The number of characters of each row, ``int64[*batch]``, as ``len`` counts them; 0 without a string.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "éé"]).lengths
            tensor([1, 2])
        """
        return count_characters(*self._packed())

    @property
    def byte_lengths(self) -> Tensor:
        """The number of bytes of each row, ``int64[*batch]``; 0 for rows without a string.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "é"]).byte_lengths
            tensor([1, 2])
        """
        return span_functions.counts_of(self._spans())

    @property
    def values(self) -> Tensor:
        """The buffer, ``uint8[bytes]``, shared with the columns that it was indexed from.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "bc"]).values
            tensor([97, 98, 99], dtype=torch.uint8)
        """
        return self._items

    def _row_texts(self, count: int, width: int) -> list[str]:
        return text_rows(self, count, width)

    # -- comparison ---------------------------------------------------------------------------------------------------

    def _equals(self, other: Text | str | None) -> Tensor:
        if other is None:
            return self.missing
        if isinstance(other, str):
            return rows_equal_to(self._items, self._spans(), _encoded(other, "=="))
        size: Size = shapes.broadcast(self._batch_size, other._batch_size)
        return equal_rows((self._items, self._spans()), (other._items, other._spans()), size)

    def _first_difference(self, other: Any) -> str | None:
        different = ~self._equals(other)
        if not bool(different.any()):
            return None
        ours, theirs = self._index_value(different)[0], other._index_value(different)[0]
        return f"the texts of row {span_functions.first_row(different)} differ: {ours!r:.80} and {theirs!r:.80}"

    def _comparand(self, other: Any) -> Text | str | None:
        """Return a value in a form that is compared with the rows; raise ``TypeError`` if there is none."""
        rows: Any = other
        if other is None or isinstance(other, (str, Text)):
            return other
        if isinstance(other, (list, tuple, np.ndarray)):
            return as_text(other)
        if isinstance(other, Collection):
            return as_text(rows.tolist())
        raise TypeError(f"expected a string, a Text, strings or None to compare with a Text, got {_described(other)}")

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return where rows equal a string, or the rows of another Text: ``bool[*batch]``. No row equals a number."""
        if isinstance(other, _NUMBERS):
            return torch.zeros(self._batch_size, dtype=torch.bool, device=self._device)
        is_comparable = other is None or isinstance(other, (str, list, tuple, np.ndarray, Collection))
        return self._equals(self._comparand(other)) if is_comparable else NotImplemented

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return where rows differ from a string, or from the rows of another Text: ``bool[*batch]``."""
        equal: Any = self.__eq__(other)
        return equal if equal is NotImplemented else ~equal

    __hash__ = None  # type: ignore[assignment]

    def eq(  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # a mask, without keys
        self, other: Any, *, default: Any = None
    ) -> Tensor:
        """Return where rows equal a string, or the rows of another Text: ``bool[*batch]``.

        Args:
            other: a string, a Text, a list of strings, or ``None`` for rows without a string.
            default: has no effect here.

        Raises:
            TypeError: ``other`` is none of these.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "b"]).eq("a")
            tensor([ True, False])
        """
        return self._equals(self._comparand(other))

    def ne(  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]  # a mask, without keys
        self, other: Any, *, default: Any = None
    ) -> Tensor:
        """Return where rows differ from a string, or from the rows of another Text: ``bool[*batch]``.

        Args:
            other: a string, a Text, a list of strings, or ``None`` for rows without a string.
            default: has no effect here.

        Raises:
            TypeError: ``other`` is none of these.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "b"]).ne("a")
            tensor([False,  True])
        """
        return ~self.eq(other)

    def __contains__(self, item: object) -> bool:
        if not self._batch_size:
            self._no_rows()
        return (item is None or isinstance(item, str)) and bool(self._equals(item).any())

    def isin(self, strings: Iterable[str | None]) -> Tensor:
        """Return where a row is one of some strings: ``bool[*batch]``.

        Args:
            strings: the strings. ``None`` stands for rows without one.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "b", "c"]).isin(["a", "c"])
            tensor([ True, False,  True])
        """
        wanted = [strings] if isinstance(strings, str) else list(strings)
        for item in wanted:
            if item is not None:
                _encoded(item, "isin")
        if len(wanted) <= 16:
            result = torch.zeros(self._batch_size, dtype=torch.bool, device=self._device)
            for item in wanted:
                result |= self._equals(item)
            return result
        known = set(wanted)
        found = [item in known for item in self._strings()]
        return torch.tensor(found, device=self._device).reshape(self._batch_size)

    def startswith(self, prefix: str) -> Tensor:
        """Return where a row begins with a string: ``bool[*batch]``; false for rows without a string.

        Args:
            prefix: the string.

        Example:
            >>> from tensorclass import Text
            >>> Text(["yes", "no"]).startswith("y")
            tensor([ True, False])
        """
        return rows_with_end(self._items, self._spans(), _encoded(prefix, "startswith"), at_start=True)

    def endswith(self, suffix: str) -> Tensor:
        """Return where a row ends with a string: ``bool[*batch]``; false for rows without a string.

        Args:
            suffix: the string.

        Example:
            >>> from tensorclass import Text
            >>> Text(["yes", "no"]).endswith("o")
            tensor([False,  True])
        """
        return rows_with_end(self._items, self._spans(), _encoded(suffix, "endswith"), at_start=False)

    def contains(self, string: str) -> Tensor:
        """Return where a row contains a string: ``bool[*batch]``; false for rows without a string.

        Args:
            string: the string.

        Example:
            >>> from tensorclass import Text
            >>> Text(["yes", "no"]).contains("e")
            tensor([ True, False])
        """
        items, spans = self._packed()
        return rows_that_contain(items, spans, _encoded(string, "contains"))

    # -- order and values ---------------------------------------------------------------------------------------------

    def argsort(self, *, descending: bool = False) -> Tensor:
        """Return the positions that sort the rows of a batch with one dimension, ``int64[batch]``.

        Rows are compared by code points, as Python compares strings. Equal rows keep their order; rows without a string
        come last.

        Args:
            descending: largest first. Default: ``False``.

        Example:
            >>> from tensorclass import Text
            >>> Text(["b", "a"]).argsort()
            tensor([1, 0])
        """
        self._check_flat("argsort")
        strings = self._strings()
        present = [row for row, item in enumerate(strings) if item is not None]
        absent = [row for row, item in enumerate(strings) if item is None]
        order = sorted(present, key=lambda row: strings[row] or "", reverse=descending)
        return torch.tensor(order + absent, dtype=torch.int64, device=self._device)

    def sort(self, *, descending: bool = False) -> tuple[Self, Tensor]:
        """Sort the rows of a batch with one dimension; see :meth:`argsort`.

        Args:
            descending: largest first. Default: ``False``.

        Returns:
            The sorted rows, which share the buffer, and the positions that they had, ``int64[batch]``.

        Example:
            >>> from tensorclass import Text
            >>> rows, order = Text(["b", "a"]).sort()
            >>> rows.tolist(), order
            (['a', 'b'], tensor([1, 0]))
        """
        order = self.argsort(descending=descending)
        return self._index_value(order), order

    def unique(self) -> UniqueText:
        """Return the distinct strings, sorted, and the code of each row.

        Returns:
            ``values``, a Text of the distinct strings (``None`` last, if a row has no string), and ``codes``,
            ``int64[*batch]``, with ``values[codes]`` equal to this column.

        Example:
            >>> from tensorclass import Text
            >>> values, codes = Text(["b", "a", "b"]).unique()
            >>> values.tolist(), codes
            (['a', 'b'], tensor([1, 0, 1]))
        """
        strings = self._strings()
        distinct = sorted({item for item in strings if item is not None})
        order: dict[str | None, int] = {item: code for code, item in enumerate(distinct)}
        values: list[str | None] = list(distinct)
        if None in set(strings):
            order[None] = len(values)
            values.append(None)
        codes = torch.tensor([order[item] for item in strings], dtype=torch.int64, device=self._device)
        return UniqueText(type(self).from_list(values, device=self._device), codes.reshape(self._batch_size))

    def map(self, function: Callable[[str], str]) -> Self:
        """Call a function with each string, and return its results as a Text. Rows without a string stay so.

        Args:
            function: takes and returns a string, or returns ``None``.

        Raises:
            TypeError: the function returned something else. The message names the row.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a", "b"]).map(str.upper).tolist()
            ['A', 'B']
        """
        strings = [None if item is None else function(item) for item in self._strings()]
        made = type(self).from_list(strings, device=self._device)
        return self._of(made._items, made._spans().reshape((*self._batch_size, 2)), self._names, compact=True)

    # -- a leaf without numbers ---------------------------------------------------------------------------------------

    def _on_numbers(
        self, operation: Callable[..., Any], in_place: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        raise TypeError(
            f"{operation.__name__}: a Text is compared with strings by == and !=; map() changes its strings"
        )

    def detach(self) -> Self:
        """Return another holder of the same memory: text has no gradients.

        Example:
            >>> from tensorclass import Text
            >>> Text(["a"]).detach().tolist()
            ['a']
        """
        return self._shallow()

    def type(self, dst_type: torch.dtype, *, cast_filter: Any = None) -> Self:
        """Return the same strings: text has no dtype.

        Args:
            dst_type: has no effect here.
            cast_filter: has no effect here.

        Example:
            >>> import torch
            >>> from tensorclass import Text
            >>> Text(["a"]).type(torch.float32).tolist()
            ['a']
        """
        return self._shallow()

    def _without_value(self, batch_size: Size) -> Self:
        absent = torch.tensor([0, span_functions.MISSING_LENGTH], device=self._spans().device)
        return self._of(self._items, absent.expand((*batch_size, 2)).clone())

    # -- rows that are written ----------------------------------------------------------------------------------------

    def _as_rows_of(self, value: Any, batch_size: Size) -> Any:
        rows = value if isinstance(value, Text) else as_text(value)
        if rows._device != self._device:
            rows = rows.to(self._device)
        return rows if rows._batch_size == batch_size else rows.expand(batch_size)

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        try:
            rows = self._of_objects(rows)
        except TypeError as error:
            raise TypeError(f"{dotted(path)}: {error}; nothing was written") from None
        super()._check_rows(rows, ndim, row_ndim, path)

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Self:
        return super()._write_checked(index, self._of_objects(rows), ndim, row_ndim)

    def _of_objects(self, rows: Collection) -> Collection:
        """Return rows that are written; strings in a stack of objects, as lists become in a collection, as text."""
        return self._as_rows_of(rows, rows._batch_size) if isinstance(rows, NonTensorDataBase) else rows

    def _check_same_kind(self, other: object, what: str, end: str = "") -> None:
        if not isinstance(other, Text):
            raise RuntimeError(f"{what} a Text and a {type_name(other)}{end}")


# -- making ----------------------------------------------------------------------------------------------------------


def as_text(data: Any) -> Text:
    """Make a :class:`Text` from what people have: strings, lists, arrays, Arrow's string arrays.

    Args:
        data: a Text; one string or ``None``, for one row; strings and ``None`` in (nested) lists or stacks of objects;
            an array of strings; a string array of Arrow.

    Raises:
        TypeError: the data is none of these, or an item is not a string.

    Example:
        >>> from tensorclass import Text
        >>> as_text("a").batch_size, as_text(["a", "b"]).batch_size
        (torch.Size([]), torch.Size([2]))
    """
    if isinstance(data, Text):
        return data
    if isinstance(data, NonTensorDataBase):
        return as_text(data.tolist())
    if data is None or isinstance(data, str):
        one: Text = Text.from_list([data])._index_value(0)
        return one
    given: Any = data
    if is_array(data):
        if data.dtype.kind not in "UOT" and data.size:
            raise TypeError(f"Text: expected strings, got an array of dtype {data.dtype}")
        made = Text.from_list(data.ravel().tolist())
        return made.reshape(data.shape) if data.ndim != 1 else made
    if hasattr(data, "__arrow_c_array__") or hasattr(data, "__arrow_c_stream__"):
        return text_from_arrow(data)
    if isinstance(data, (bytes, dict, Tensor)) or not hasattr(data, "__iter__"):
        raise TypeError(f"Text: expected strings, got {_described(given)}")
    return Text.from_list(data)


def _encoded(string: object, what: str) -> bytes:
    """Return a string as UTF-8, of which half of a surrogate pair is no part: no row has it.

    Raises:
        TypeError: it is not a string.
    """
    if not isinstance(string, str):
        raise TypeError(f"{what}: expected a string, got {_described(string)}")
    return string.encode("utf-8", "surrogatepass")


_NUMBERS = (int, float, complex, Tensor)  # a collection is compared with them, value by value


def _described(data: object) -> str:
    return f"a tensor {data.dtype}{list(data.shape)}" if isinstance(data, Tensor) else f"a {type_name(data)}"


allow_class(Text)
register_kind(Text)
native.tell("bind_column", Text, SPANS, True)
