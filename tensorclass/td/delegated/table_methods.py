"""Methods for tables of pandas, Arrow and polars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.keys import NestedKey

from .arguments import BatchSize, Nulls, Ragged
from .declaration import delegated

if TYPE_CHECKING:
    import polars


class Tables(Collection):
    """``from_x`` and ``to_x`` of tables: pandas, Arrow, polars."""

    __slots__ = ()

    # -- in -----------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.tables.pandas")
    def from_pandas(
        cls,
        dataframe: Any,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        copy: bool | None = True,
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        mask_key: NestedKey | None = None,
        strict: bool = True,
    ) -> Self:
        """Convert a ``pandas.DataFrame``: one value per column, with the number of rows as batch size.

        Numbers and booleans become tensors, also from nullable, Arrow-backed, sparse and categorical columns. Times
        become nanoseconds since 1970 (``int64``). Rows that are lists or arrays of numbers become further dimensions if
        they have one shape, and :class:`Ragged` if they differ in length. Rows that are dicts with the same keys become
        nested collections, text :class:`Text`, lists of strings a :class:`Column`, everything else objects. The fields
        of a record decide: a field of objects gets the rows unchanged; a field of a tensor gets numbers (a jagged
        tensor for rows that differ in length) or raises. The index is dropped;
        ``dataframe.reset_index()`` turns it into columns.

        Args:
            dataframe: the table. Columns on several levels are nested keys.
            auto_batch_size: infer the batch size instead of taking the number of rows.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default the CPU.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            copy: ``None`` shares memory with the table where its numbers have the form that torch needs: a write to one
                shows in the other, and in all tables that pandas derived from it. ``False`` also shares, and raises for
                a column that needs a copy. ``True`` copies.
            columns: the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of missing values. ``"default"``: the default of the field, broadcast; ``None`` if the
                field allows it and holds objects; otherwise an error. Without declared fields, nan in columns of
                doubles and ``None`` among booleans and objects. ``"raise"``: an error, also for nan. ``"fill"``: 0,
                ``False``, nan or ``None``. ``"mask"``: as ``"fill"``, plus a collection of masks for the columns with
                missing values, ``True`` where a row has a value.
            mask_key: the key of the collection of masks; ``"_mask"`` by default.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.

        Raises:
            ImportError: pandas is not installed.
            TypeError: ``dataframe`` is not a ``pandas.DataFrame``.
            ConversionError: columns do not fit their fields. Lists all of them.

        Example:
            >>> import pandas
            >>> from tensorclass import TensorDict
            >>> table = pandas.DataFrame({"name": ["a", "b"], "point.x": [1.0, 2.0], "rgb": [[1, 2, 3], [4, 5, 6]]})
            >>> data = TensorDict.from_pandas(table, separator=".")
            >>> data[1].to_dict()
            {'name': 'b', 'point': {'x': tensor(2., dtype=torch.float64)}, 'rgb': tensor([4, 5, 6])}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.arrow")
    def from_arrow(
        cls,
        table: Any,
        *,
        copy: bool | None = None,
        nulls: Nulls = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        ragged: Ragged = "column",
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Self:
        """Convert an Arrow table or record batch: one value per column, with the number of rows as batch size.

        Structs become nested collections, strings :class:`Text`, lists of numbers :class:`Ragged`, lists of a fixed
        size further dimensions, lists of strings a :class:`Column`. Times and everything else become non-tensor data. A
        field of a record gets what it declares: lists as a tensor (jagged if their lengths differ), times and decimal
        numbers as a tensor (nanoseconds, doubles), or numbers as objects.

        Args:
            table: a ``pyarrow.Table``, or another object with Arrow columns, of polars, pandas, duckdb, ....
            copy: ``True`` always copies. ``False`` raises for a column of numbers that needs a copy. By default columns
                are copied where needed.
            nulls: what becomes of nulls. ``"default"``: the default of the record's field, or ``None`` if the field
                allows it; otherwise an error. In a :class:`TensorDict`, strings and lists that are null are rows
                without a value, and null numbers are an error. ``"raise"``: an error. ``"fill"``: 0, ``False``, nan, an
                empty list or ``None``. ``"mask"``: as ``"fill"``, plus a collection of masks for
                the columns with nulls, ``True`` where a row has a value.
            mask_key: the key of the collection of masks; ``"_mask"`` by default.
            device: where the values are moved; by default the CPU.
            columns: the names of the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            ragged: what becomes of lists of numbers whose field declares no column. ``"column"``: :class:`Ragged`; a
                field that takes a tensor gets it as with ``"jagged"``. ``"jagged"``: a tensor if they have one length,
                otherwise a jagged tensor. ``"lazy"``: the result is a lazy stack of rows. ``"raise"``: an error if
                their lengths differ. Torch has no jagged tensor for lists in lists of different lengths: with
                ``"jagged"``, a :class:`TensorDict` gets objects, and a field that takes a tensor raises.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            batch_size: another batch size, such as ``[rows, 3]`` for columns with lists of 3.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them. A
                :class:`TensorDict` takes all columns.

        Returns:
            A collection of this class. Columns of numbers share memory with the table if they are one chunk without
            nulls. Arrow assumes that its memory never changes, so copy before you write.

        Raises:
            ImportError: pyarrow is not installed.
            ConversionError: there are nulls, a column cannot be read (without a copy), or columns are missing,
                unexpected or do not fit their fields. Lists everything that is wrong.

        Example:
            >>> import pyarrow
            >>> from tensorclass import TensorDict
            >>> TensorDict.from_arrow(pyarrow.table({"x": [1, 2], "name": ["a", "b"]})).to_dict()
            {'x': tensor([1, 2]), 'name': ['a', 'b']}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.polars")
    def from_polars(
        cls,
        frame: polars.DataFrame | polars.LazyFrame | polars.Series,
        *,
        copy: bool | None = None,
        nulls: Nulls = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        ragged: Ragged = "column",
        separator: str | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Self:
        """Convert a polars table through Arrow, whose memory layout polars uses. See :meth:`from_arrow`.

        Arrays become further dimensions, lists :class:`Ragged`, structs nested collections. Text, categories and
        members of enumerations become :class:`Text`.

        Args:
            frame: a ``polars.DataFrame``, a ``LazyFrame`` (which is collected, only with ``columns`` if they are
                given), or a ``Series`` of structs.
            copy: ``True`` always copies, ``False`` raises where a copy is needed; by default columns are copied where
                needed.
            nulls: what becomes of nulls, as in :meth:`from_arrow`. A nan is a number.
            mask_key: the key of the collection of masks; ``"_mask"`` by default.
            device: where the values are moved; by default the CPU.
            columns: the names of the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            ragged: what becomes of lists of numbers of different lengths, as in :meth:`from_arrow`.
            separator: splits the names of columns into nested keys.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            batch_size: another batch size.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them. A
                :class:`TensorDict` takes all columns.

        Returns:
            A collection of this class. Columns of numbers share memory with the frame if they are one chunk without
            nulls. polars assumes that its memory never changes, so copy before you write.

        Raises:
            ImportError: polars or pyarrow is not installed.
            ConversionError: there are nulls, a column cannot be read (without a copy), or columns are missing,
                unexpected or do not fit their fields. Lists everything that is wrong.

        Example:
            >>> import polars
            >>> from tensorclass import TensorDict
            >>> frame = polars.DataFrame({"x": [1, 2], "name": ["a", "b"]})
            >>> TensorDict.from_polars(frame).to_dict()
            {'x': tensor([1, 2]), 'name': ['a', 'b']}
        """
        ...

    # -- out ----------------------------------------------------------------------------------------------------------

    @delegated("tensorclass.convert.tables.pandas")
    def to_pandas(self: Tables, *, separator: str | None = None, copy: bool = True) -> Any:
        """Return a ``pandas.DataFrame`` with one row per item of the batch, which has one dimension.

        Tensors of one dimension keep their dtype. Further dimensions, ragged rows and jagged tensors become columns
        with an array per row. Text and other objects become what pandas makes of them; numbers beside ``None`` stay
        objects.

        Args:
            separator: joins nested keys to the names of columns. Required if there are nested keys.
            copy: ``False`` shares memory with the table: writes to the tensors show in it.

        Raises:
            ImportError: pandas is not installed.
            ValueError: the batch does not have exactly one dimension, or nested keys lack a separator.
            TypeError: a tensor has a dtype that numpy does not have.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": [1, 2], "n": {"b": [[3, 4], [5, 6]]}}, [2]).to_pandas(separator=".")
               a     n.b
            0  1  [3, 4]
            1  2  [5, 6]
        """
        ...

    @delegated("tensorclass.convert.tables.arrow")
    def to_arrow(self: Tables, *, schema: Any = None) -> Any:
        """Return a ``pyarrow.Table`` with one row per item of the first batch dimension.

        Further dimensions become columns of tensors of a fixed shape (for text: lists), nested collections structs,
        ragged rows, jagged tensors and rows of different shapes lists, :class:`Text` strings, ``None`` null. Strings
        and lists are large ones only if they need 64-bit offsets. The metadata of a column notes what Arrow has no type
        for, so that :meth:`from_arrow` restores it: dtypes such as ``bfloat16`` (written as ``float``) and
        complex ones (as pairs), one object that stands for all rows, numbers that are objects, further batch
        dimensions.

        Args:
            schema: a ``pyarrow.Schema``: the columns with their types, for instance dictionaries for text that repeats.

        Returns:
            A table that shares memory with the tensors where Arrow can.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: there is no batch dimension.
            ConversionError: values cannot be columns (of the types in the schema). Lists all of them.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"x": [[1, 2], [3, 4]], "name": ["a", "b"]}, [2]).to_arrow().to_pylist()
            [{'x': [1, 2], 'name': 'a'}, {'x': [3, 4], 'name': 'b'}]
        """
        ...

    @delegated("tensorclass.convert.tables.polars")
    def to_polars(self: Tables) -> polars.DataFrame:
        """Return a ``polars.DataFrame`` with one row per item of the first batch dimension.

        Further dimensions become arrays (lists for text and for items without numbers), nested collections structs,
        jagged tensors and rows of different shapes lists. ``bfloat16`` is written as ``Float32``, complex numbers as
        pairs.

        Returns:
            A frame that shares memory with the tensors where polars can.

        Raises:
            ImportError: polars or pyarrow is not installed.
            ValueError: there is no batch dimension.
            ConversionError: values cannot be columns. Lists all of them.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"x": [[1, 2], [3, 4]], "name": ["a", "b"]}, [2]).to_polars().rows()
            [([1, 2], 'a'), ([3, 4], 'b')]
        """
        ...
