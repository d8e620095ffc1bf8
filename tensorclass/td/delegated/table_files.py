"""Methods for files of tables: Parquet, CSV, JSON, Feather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike

from .arguments import BatchSize, Nulls, Source, Target
from .declaration import delegated

if TYPE_CHECKING:
    from tensorclass.convert.streams import Batches


class TableFiles(Collection):
    """``from_x``, ``iter_x`` and ``to_x`` of files of tables: Parquet, CSV, JSON, Feather."""

    __slots__ = ()

    # -- parquet -------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.parquet")
    def from_parquet(
        cls,
        path: Source,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        columns: Sequence[str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        **kwargs: Any,
    ) -> Self:
        """A collection from a Parquet file: a value for each column, the rows as batch size.

        Columns become values as those of :meth:`from_arrow` do, and ``from_parquet`` gives what :meth:`to_parquet` has
        written. Which columns there are is looked up before any data is read.

        Args:
            path: the file; a list or pattern of files with the same columns, or a folder of them; or an open file.
            auto_batch_size: find the batch size out instead.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: of all tensors; by default that of the column.
            columns: those that are read; all by default, for a record those of its fields. A column of a struct
                is named behind it: ``"point.x"``.
            nulls: what becomes of nulls, as for :meth:`from_arrow`.
            strict: whether a column that is no field of the record is an error; otherwise it is left out, with a
                warning.
            kwargs: options of ``pyarrow.parquet.ParquetFile`` and its ``read``, such as ``use_threads``.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: there is no such file, or it cannot be read.
            ValueError: it is not a Parquet file, or broken; the message says where.
            ConversionError: columns are missing, are no fields, or are not what fields take. All of them are listed.
            TypeError: an option that does not exist.

        >>> import os, tempfile
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.zeros(4, 3), "name": ["a", "b", "c", "d"]}, [4])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data.to_parquet(os.path.join(folder, "data.parquet"))
        ...     back = TensorDict.from_parquet(os.path.join(folder, "data.parquet"))
        >>> back["x"].shape, back[1]["name"]
        (torch.Size([4, 3]), 'b')
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.parquet")
    def iter_parquet(
        cls,
        path: Source,
        *,
        batch_size: int,
        drop_last: bool = False,
        device: DeviceLike | None = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        columns: Sequence[str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        progress: bool | None = None,
        **kwargs: Any,
    ) -> Batches[Self]:
        """The rows of a Parquet file, batch by batch; the file can be larger than memory.

        What is given can be iterated over again and again, also by a ``DataLoader`` with workers
        (``DataLoader(batches, batch_size=None, num_workers=2)``); see :class:`tensorclass.convert.streams.Batches`.

        Args:
            path: as for :meth:`from_parquet`, and so are the arguments that are not listed here.
            batch_size: how many rows a batch has; the last one can be shorter.
            drop_last: leave that one out.
            progress: show a progress bar; by default where stderr is a terminal and tqdm is installed.

        Raises:
            ConversionError: columns are missing, or are no fields. What is wrong with values is raised when one comes
                to them.
            OSError, ValueError, TypeError, ImportError: as :meth:`from_parquet`.
        """
        ...

    @delegated("tensorclass.convert.parquet")
    def to_parquet(
        self: TableFiles,
        path: Target,
        *,
        separator: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a Parquet file with a row for each item of the batch.

        Nested collections become structs, further dimensions tensors of a fixed shape, jagged tensors lists, as in
        :meth:`to_arrow`.
        The file is written whole or not at all: where writing fails, what was there before stays.

        Args:
            path: where to; or an open file.
            separator: gives nested values columns of their own, with joined names.
            kwargs: options of ``pyarrow.parquet.write_table``: ``compression``, ``row_group_size``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: the file cannot be written.
            ValueError: there is not one batch dimension.
            ConversionError: the file cannot hold some of the values. All of them are listed.
            TypeError: an option that does not exist, or a dtype or object for which there is no type.
        """
        ...

    # -- csv -----------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.csv")
    def from_csv(
        cls,
        path: Source,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        **kwargs: Any,
    ) -> Self:
        """A collection from a CSV file: a value for each column, the rows as batch size.

        The fields of a record say how text is read: ``Int[Tensor, ""]`` as whole numbers, ``str`` as text, also where
        it looks like a number. Other columns are whole numbers, doubles or booleans where all of their cells are, and
        text otherwise, also dates. An empty cell is a null; in a column of text it is an empty text, unless its field
        has a default or takes ``None``.

        Args:
            path: the file, also a compressed one (``"table.csv.gz"``); a list or pattern of files with the same
                columns; or an open file.
            auto_batch_size: find the batch size out instead.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: of all tensors; by default that of the column.
            nulls: what becomes of nulls, as for :meth:`from_arrow`.
            strict: whether a column that is no field of the record is an error; otherwise it is left out, with a
                warning.
            kwargs: options of pyarrow's ``ReadOptions``, ``ParseOptions`` and ``ConvertOptions``: ``delimiter``,
                ``column_names``, ``include_columns``, ``column_types``, ``null_values``, ``block_size``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: there is no such file, or it cannot be read.
            ValueError: it is not a CSV file, or broken; the message says where.
            ConversionError: columns are missing, are no fields, or are not what fields take. All of them are listed.
            TypeError: an option that does not exist.

        >>> import io
        >>> from tensorclass import TensorClass
        >>> class Pet(TensorClass):
        ...     name: str
        ...     age: torch.Tensor
        >>> Pet.from_csv(io.BytesIO(b"name,age\\n007,3\\nRex,9\\n"))[0].name
        '007'
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.csv")
    def iter_csv(
        cls,
        path: Source,
        *,
        batch_size: int,
        drop_last: bool = False,
        device: DeviceLike | None = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        progress: bool | None = None,
        **kwargs: Any,
    ) -> Batches[Self]:
        """The rows of a CSV file, batch by batch; the file can be larger than memory.

        What is given can be iterated over again and again, also by a ``DataLoader`` with workers
        (``DataLoader(batches, batch_size=None, num_workers=2)``); see :class:`tensorclass.convert.streams.Batches`.

        Args:
            path: as for :meth:`from_csv`, and so are the arguments that are not listed here.
            batch_size: how many rows a batch has; the last one can be shorter.
            drop_last: leave that one out.
            progress: show a progress bar; by default where stderr is a terminal and tqdm is installed.

        Raises:
            ConversionError: columns are missing, or are no fields. What is wrong with values is raised when one comes
                to them.
            OSError, ValueError, TypeError, ImportError: as :meth:`from_csv`.
        """
        ...

    @delegated("tensorclass.convert.csv")
    def to_csv(
        self: TableFiles,
        path: Target,
        *,
        separator: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a CSV file with a row for each item of the batch.

        Each value has one number, time or text a row. Numbers are written so that reading gives the same ones.
        The file is written whole or not at all: where writing fails, what was there before stays.

        Args:
            path: where to; or an open file.
            separator: joins nested keys to the names of columns; needed where there are some.
            kwargs: options of ``pyarrow.csv.WriteOptions``: ``delimiter``, ``include_header``, ``quoting_style``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: the file cannot be written.
            ValueError: there is not one batch dimension.
            ConversionError: the file cannot hold some of the values. All of them are listed.
            TypeError: an option that does not exist, or a dtype or object for which there is no type.
        """
        ...

    # -- json ----------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.json")
    def from_json(
        cls,
        path: Source,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        lines: bool | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        **kwargs: Any,
    ) -> Self:
        """A collection from a JSON file: a value for each column, the rows as batch size.

        The file has an array of objects, one a row, or an object with a list for each column. Objects in them become
        nested collections, lists of numbers of one length further dimensions. The fields of a record say how numbers
        are read, and which text is a date or time; other text stays text.

        Args:
            path: the file, also a compressed one (``"rows.json.gz"``); a list or pattern of files with the same
                columns; or an open file.
            auto_batch_size: find the batch size out instead.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: of all tensors; by default that of the column.
            lines: a row in each line, instead of an array of rows; by default where the name of the file ends in
                ``.jsonl`` or ``.ndjson`` (also with ``.gz`` behind it).
            nulls: what becomes of nulls, as for :meth:`from_arrow`.
            strict: whether a column that is no field of the record is an error; otherwise it is left out, with a
                warning.
            kwargs: for a row in each line options of pyarrow's ``ReadOptions`` and ``ParseOptions``: ``block_size``,
                ``explicit_schema``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: there is no such file, or it cannot be read.
            ValueError: it is not a JSON file, or broken; the message says where.
            ConversionError: columns are missing, are no fields, or are not what fields take. All of them are listed.
            TypeError: an option that does not exist.

        >>> import io
        >>> from tensorclass import TensorDict
        >>> TensorDict.from_json(io.BytesIO(b'[{"a": 1, "n": {"b": [2, 3]}}]'))["n", "b"]
        tensor([[2, 3]])
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.json")
    def iter_json(
        cls,
        path: Source,
        *,
        batch_size: int,
        drop_last: bool = False,
        device: DeviceLike | None = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        lines: bool | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        progress: bool | None = None,
        **kwargs: Any,
    ) -> Batches[Self]:
        """The rows of a JSON file, batch by batch; the file can be larger than memory.

        What is given can be iterated over again and again, also by a ``DataLoader`` with workers
        (``DataLoader(batches, batch_size=None, num_workers=2)``); see :class:`tensorclass.convert.streams.Batches`.

        Args:
            path: as for :meth:`from_json`, and so are the arguments that are not listed here.
            batch_size: how many rows a batch has; the last one can be shorter.
            drop_last: leave that one out.
            progress: show a progress bar; by default where stderr is a terminal and tqdm is installed.

        Raises:
            ConversionError: columns are missing, or are no fields. What is wrong with values is raised when one comes
                to them.
            OSError, ValueError, TypeError, ImportError: as :meth:`from_json`.
        """
        ...

    @delegated("tensorclass.convert.json")
    def to_json(
        self: TableFiles,
        path: Target,
        *,
        separator: str | None = None,
        lines: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a JSON file with a row for each item of the batch.

        Nested collections become objects, further dimensions lists. Numbers are written so that reading gives the same
        ones, nan and infinities as ``NaN`` and ``Infinity``, which Python, pandas and pyarrow read; dates and times as
        text (ISO 8601).
        The file is written whole or not at all: where writing fails, what was there before stays.

        Args:
            path: where to; or an open file.
            separator: gives nested values keys of their own, with joined names.
            lines: write a row in each line, instead of an array of rows; by default as for :meth:`from_json`.
            kwargs: options of ``json.JSONEncoder``: ``indent``, ``default``, ``allow_nan``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: the file cannot be written.
            ValueError: there is not one batch dimension.
            ConversionError: the file cannot hold some of the values. All of them are listed.
            TypeError: an option that does not exist, or a dtype or object for which there is no type.
        """
        ...

    # -- feather -------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.feather")
    def from_feather(
        cls,
        path: Source,
        *,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
        device: DeviceLike | None = None,
        batch_size: BatchSize = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        columns: Sequence[str] | None = None,
        memory_map: bool = True,
        nulls: Nulls = "default",
        strict: bool = True,
        **kwargs: Any,
    ) -> Self:
        """A collection from a Feather file, one of Arrow's own (IPC): a value for each column, the rows as batch size.

        Columns become values as those of :meth:`from_arrow` do, and ``from_feather`` gives what :meth:`to_feather` has
        written, sharing the memory of the file, which so can be larger than what is free.

        Args:
            path: the file; a list or pattern of files with the same columns, or a folder of them; or an open file.
            auto_batch_size: find the batch size out instead.
            batch_dims: how many dimensions it has at most, when it is found out.
            device: where the values go.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: of all tensors; by default that of the column.
            columns: those that are read; all by default, for a record those of its fields. A column of a struct
                is named behind it: ``"point.x"``.
            memory_map: read only what is used, when it is used, and share the memory: no copy is made of numbers in
                files that are not compressed. Tensors can be written to, which does not change the file; who writes to
                the file in place, though, changes the tensors.
            nulls: what becomes of nulls, as for :meth:`from_arrow`.
            strict: whether a column that is no field of the record is an error; otherwise it is left out, with a
                warning.
            kwargs: options of ``pyarrow.ipc.IpcReadOptions``, such as ``ensure_alignment``.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: there is no such file, or it cannot be read.
            ValueError: it is not a Feather file, one of Arrow's own (IPC), or broken; the message says where.
            ConversionError: columns are missing, are no fields, or are not what fields take. All of them are listed.
            TypeError: an option that does not exist.
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.feather")
    def iter_feather(
        cls,
        path: Source,
        *,
        batch_size: int,
        drop_last: bool = False,
        device: DeviceLike | None = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        columns: Sequence[str] | None = None,
        memory_map: bool = True,
        nulls: Nulls = "default",
        strict: bool = True,
        progress: bool | None = None,
        **kwargs: Any,
    ) -> Batches[Self]:
        """The rows of a Feather file, one of Arrow's own (IPC), batch by batch; the file can be larger than memory.

        What is given can be iterated over again and again, also by a ``DataLoader`` with workers
        (``DataLoader(batches, batch_size=None, num_workers=2)``); see :class:`tensorclass.convert.streams.Batches`.

        Args:
            path: as for :meth:`from_feather`, and so are the arguments that are not listed here.
            batch_size: how many rows a batch has; the last one can be shorter.
            drop_last: leave that one out.
            progress: show a progress bar; by default where stderr is a terminal and tqdm is installed.

        Raises:
            ConversionError: columns are missing, or are no fields. What is wrong with values is raised when one comes
                to them.
            OSError, ValueError, TypeError, ImportError: as :meth:`from_feather`.
        """
        ...

    @delegated("tensorclass.convert.feather")
    def to_feather(
        self: TableFiles,
        path: Target,
        *,
        separator: str | None = None,
        compression: Literal["lz4", "zstd"] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a Feather file, one of Arrow's own (IPC) with a row for each item of the batch.

        Nested collections become structs, further dimensions tensors of a fixed shape, jagged tensors lists, as in
        :meth:`to_arrow`.
        The file is written whole or not at all: where writing fails, what was there before stays.

        Args:
            path: where to; or an open file.
            separator: gives nested values columns of their own, with joined names.
            compression: makes the file smaller; it cannot be read without a copy then.
            kwargs: options of ``pyarrow.ipc.IpcWriteOptions``.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: the file cannot be written.
            ValueError: there is not one batch dimension.
            ConversionError: the file cannot hold some of the values. All of them are listed.
            TypeError: an option that does not exist, or a dtype or object for which there is no type.
        """
        ...
