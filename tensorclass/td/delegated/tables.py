"""Methods for tables of pandas, Arrow and polars."""

from __future__ import annotations

from collections.abc import Sequence
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
    @delegated("tensorclass.convert.pandas")
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
        nulls: Nulls = "default",
        mask_key: NestedKey | None = None,
        strict: bool = True,
    ) -> Self:
        """A collection from a ``pandas.DataFrame``: a value for each column, with the number of rows as batch size.

        Numbers and booleans become tensors, also those of nullable, Arrow-backed, sparse and categorical columns; times
        nanoseconds since 1970 (``int64``). Rows that are lists or arrays of numbers become further dimensions where
        they are of one shape, and jagged tensors where they differ in length; rows that are dicts with the same keys
        nested collections; text and the rest objects. A record has the last word: a field that holds objects gets the
        rows as they are, one that holds a tensor gets numbers or is an error. The index is left out;
        ``dataframe.reset_index()`` makes columns of it.

        Args:
            dataframe: the table. Columns on several levels are nested keys.
            auto_batch_size: find the batch size out instead.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: of all tensors; by default that of the column.
            copy: ``None`` shares memory with the table where it has the numbers as torch needs them: writing to one
                shows in the other, and in all tables that pandas made of it. ``False`` does that, too, and makes a
                column that needs a copy an error.
            nulls: what stands for missing values. ``"default"``: the default of the field, broadcast; ``None`` where
                the field allows it and holds objects; else an error. Where no field is declared: nan in a column of
                doubles, ``None`` among booleans and objects. ``"raise"``: an error, also for nan. ``"fill"``: 0,
                ``False``, nan, ``None``. ``"mask"``: these, and a collection with ``True`` for each row with a value,
                for the columns where values are missing.
            mask_key: the key of that collection; ``"_mask"`` by default.
            strict: whether columns that are no fields of a record are an error; else they are left out, with a warning.

        Raises:
            ImportError: pandas is not installed.
            TypeError: ``dataframe`` is no table of pandas.
            ConversionError: columns are not what the fields take; it lists all of them.

        >>> import pandas
        >>> from tensorclass import TensorDict
        >>> table = pandas.DataFrame({"name": ["a", "b"], "point.x": [1.0, 2.0], "rgb": [[1, 2, 3], [4, 5, 6]]})
        >>> data = TensorDict.from_pandas(table, separator=".")
        >>> data[1].to_dict()
        {'name': 'b', 'point': {'x': tensor(2., dtype=torch.float64)}, 'rgb': tensor([4, 5, 6])}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.arrow")
    def from_arrow(
        cls,
        table: Any,
        *,
        copy: bool | None = None,
        nulls: Nulls = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        ragged: Ragged = "jagged",
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Self:
        """A collection from a table (or record batch) of Arrow: a value for each column, the rows as batch size.

        Columns of numbers share memory with the table where they are one chunk without nulls; Arrow takes its memory
        for unchanging, so copy before writing. Structs become nested collections, lists of numbers of one length
        further dimensions, other lists of numbers jagged tensors; text, times and the rest non-tensor data. A field of
        a record gets what it declares: times and decimal numbers as a tensor (nanoseconds, doubles), or numbers as
        objects.

        Args:
            table: a ``pyarrow.Table``, or another object with Arrow columns: of polars, pandas, duckdb, ....
            copy: ``True`` always copies, ``False`` never: a column of numbers that needs it is an error. By default
                those are copied that need it.
            nulls: what stands for them. ``"default"``: the default of the record's field (``None`` where the field
                takes it); an error where there is none, as always for a :class:`TensorDict`. ``"raise"``: an error.
                ``"fill"``: 0, ``False``, nan, an empty list or ``None``. ``"mask"`` does that, and adds a collection
                with ``True`` where a value was given, for the columns that have nulls.
            mask_key: the key of that collection; ``"_mask"`` by default.
            device: where the values go.
            columns: the names of the columns that are read; all by default.
            ragged: what becomes of lists of numbers of several lengths: ``"jagged"`` tensors, ``"lazy"``: the result is
                a lazy stack of rows, ``"raise"``: an error. Where torch has no jagged tensor, for lists in lists of
                several lengths, a :class:`TensorDict` gets objects, and a field that takes a tensor is an error.
            auto_batch_size: find the batch size out: the leading dimensions that all values share.
            batch_dims: how many dimensions it has at most, when it is found out.
            batch_size: another batch size, such as ``[rows, 3]`` for columns with lists of 3.
            strict: whether columns that are no fields of a record are an error; otherwise they are left out, with a
                warning. A :class:`TensorDict` takes all.

        Raises:
            ImportError: pyarrow is not installed.
            ConversionError: there are nulls, a column cannot be read (without a copy), columns are missing, unexpected
                or do not fit their fields; it lists all of them.

        >>> import pyarrow
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_arrow(pyarrow.table({"x": [[1, 2], [3, 4]], "name": ["a", "b"]})).to_dict()
        {'x': tensor([[1, 2],
                [3, 4]]), 'name': ['a', 'b']}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.polars")
    def from_polars(
        cls,
        frame: polars.DataFrame | polars.LazyFrame | polars.Series,
        *,
        copy: bool | None = None,
        nulls: Nulls = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        ragged: Ragged = "jagged",
        separator: str | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        batch_size: BatchSize = None,
        strict: bool = True,
    ) -> Self:
        """A collection from a table of polars, through Arrow, whose memory polars has: see :meth:`from_arrow`.

        Numbers share memory with the frame where they are one chunk without nulls; polars takes it for unchanging, so
        copy before writing. Arrays and lists become further dimensions or jagged tensors, structs nested collections,
        text, categories and members of enumerations non-tensor data, of which each is made once.

        Args:
            frame: a ``polars.DataFrame``, a ``LazyFrame`` (it is collected, of the ``columns`` alone where they are
                given), or a ``Series`` of structs.
            copy: ``True`` always copies, ``False`` never.
            nulls: what stands for them, as in :meth:`from_arrow`. A nan is a number.
            mask_key: the key of the masks; ``"_mask"`` by default.
            device: where the values go.
            columns: the names of the columns that are read; all by default.
            ragged: what becomes of lists of numbers of several lengths.
            separator: splits the names of columns into nested keys.
            auto_batch_size: find the batch size out: the leading dimensions that all values share.
            batch_dims: how many dimensions it has at most, when it is found out.
            batch_size: another batch size.
            strict: whether columns that are no fields of a record are an error; otherwise they are left out, with a
                warning. A :class:`TensorDict` takes all.

        Raises:
            ImportError: polars or pyarrow is not installed.
            ConversionError: there are nulls, a column cannot be read (without a copy), columns are missing, unexpected
                or do not fit their fields; it lists all of them.

        >>> import polars
        >>> from tensorclass import TensorDict
        >>> frame = polars.DataFrame({"x": [[1, 2], [3, 4]], "name": ["a", "b"]})
        >>> TensorDict.from_polars(frame).to_dict()
        {'x': tensor([[1, 2],
                [3, 4]]), 'name': ['a', 'b']}
        """
        ...

    # -- out ----------------------------------------------------------------------------------------------------------

    @delegated("tensorclass.convert.pandas")
    def to_pandas(self: Tables, *, separator: str | None = None, copy: bool = True) -> Any:
        """A ``pandas.DataFrame`` with a row for each item of the batch, which has one dimension.

        Tensors of one dimension keep their dtype; further dimensions and jagged tensors are columns with an array in
        each row. Text and other objects are what pandas makes of them; numbers beside ``None`` stay objects.

        Args:
            separator: joins nested keys to the names of columns; needed where there are some.
            copy: ``False`` shares memory with the table: writing to the tensors shows in it.

        Raises:
            ImportError: pandas is not installed.
            ValueError: there is not one batch dimension, or nested keys lack a separator.
            TypeError: a tensor has a dtype that numpy does not have.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"a": [1, 2], "n": {"b": [[3, 4], [5, 6]]}}, [2]).to_pandas(separator=".")
           a     n.b
        0  1  [3, 4]
        1  2  [5, 6]
        """
        ...

    @delegated("tensorclass.convert.arrow")
    def to_arrow(self: Tables, *, schema: Any = None) -> Any:
        """A ``pyarrow.Table`` with a row for each item of the first batch dimension.

        Further dimensions become columns of tensors of a fixed shape (of text: lists), nested collections structs,
        jagged tensors and rows of different shapes lists, ``None`` null. Memory is shared where Arrow can. What Arrow
        has no type for is noted in the metadata of the column, so that :meth:`from_arrow` gives it back: dtypes such
        as ``bfloat16`` (written as ``float``) and complex ones (as pairs), that one object stands for all rows, that
        numbers are objects, more batch dimensions.

        Args:
            schema: a ``pyarrow.Schema``: the columns with their types, for instance dictionaries for text that repeats.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: there is no batch dimension.
            ConversionError: values that cannot be columns (of the type in the schema); it lists all of them.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"x": [[1, 2], [3, 4]], "name": ["a", "b"]}, [2]).to_arrow().to_pylist()
        [{'x': [1, 2], 'name': 'a'}, {'x': [3, 4], 'name': 'b'}]
        """
        ...

    @delegated("tensorclass.convert.polars")
    def to_polars(self: Tables) -> polars.DataFrame:
        """A ``polars.DataFrame`` with a row for each item of the first batch dimension.

        Further dimensions become arrays (lists, for text and for items without numbers), nested collections structs,
        jagged tensors and rows of different shapes lists. Memory is shared where polars can. ``bfloat16`` is written
        as ``Float32``, complex numbers as pairs.

        Raises:
            ImportError: polars or pyarrow is not installed.
            ValueError: there is no batch dimension.
            ConversionError: values that cannot be columns; it lists all of them.

        >>> from tensorclass import TensorDict
        >>> TensorDict({"x": [[1, 2], [3, 4]], "name": ["a", "b"]}, [2]).to_polars().rows()
        [([1, 2], 'a'), ([3, 4], 'b')]
        """
        ...
