"""Methods for files of tables: Parquet, CSV, JSON, Feather."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike

from .arguments import BatchSize, Nulls, Source, Target
from .declaration import delegated

if TYPE_CHECKING:
    from tensorclass.convert.tables.row_batches import Batches


class TableFiles(Collection):
    """``from_x``, ``iter_x`` and ``to_x`` of files of tables: Parquet, CSV, JSON, Feather."""

    __slots__ = ()

    # -- parquet -------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.tables.parquet")
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
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Read a Parquet file: one value per column, with the number of rows as batch size.

        Columns are converted as by :meth:`from_arrow`, and ``from_parquet`` restores what :meth:`to_parquet` wrote. The
        columns are looked up before any data is read.

        Args:
            path: the file; a list or a pattern of files with the same columns, or a folder of them; or an open file.
            auto_batch_size: infer the batch size instead of taking the number of rows.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default the CPU.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            columns: the columns to read; by default all, for a record those of its fields. A field of a struct is named
                after it: ``"point.x"``.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            kwargs: options of ``pyarrow.parquet.ParquetFile`` and its ``read``, such as ``use_threads``.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: a file does not exist or cannot be read.
            ValueError: a file is not a Parquet file, or is damaged. The message says where.
            ConversionError: columns are missing, unexpected, or do not fit their fields. Lists all of them.
            TypeError: an option does not exist.

        Example:
            >>> import os, tempfile, torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.zeros(4, 3), "name": ["a", "b", "c", "d"]}, [4])
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data.to_parquet(os.path.join(folder, "data.parquet"))
            ...     back = TensorDict.from_parquet(os.path.join(folder, "data.parquet"))
            >>> back["x"].shape, back["name"][1]
            (torch.Size([4, 3]), 'b')
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.parquet")
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
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        progress: bool | None = None,
        pbar: bool | None = None,
        **kwargs: Any,
    ) -> Batches[Self]:
        """Iterate over the rows of a Parquet file in batches. The file can be larger than memory.

        Args:
            path: the files, as in :meth:`from_parquet`.
            batch_size: the number of rows per batch. The last batch can have fewer.
            drop_last: drop a last batch with fewer rows.
            device: where the values are moved; by default the CPU.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            columns: the columns to read; by default all, for a record those of its fields. A field of a struct is named
                after it: ``"point.x"``.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            progress: show a progress bar; by default if stderr is a terminal and tqdm is installed.
            pbar: another name of ``progress``.
            kwargs: options, as in :meth:`from_parquet`.

        Returns:
            An iterable of collections of this class: see :class:`tensorclass.convert.tables.row_batches.Batches`. It
            can be iterated over repeatedly, also by the workers of ``DataLoader(batches, batch_size=None,
            num_workers=2)``.

        Raises:
            ConversionError: columns are missing or unexpected. Values that do not fit raise when their batch is read.
            OSError, ValueError, TypeError, ImportError: as in :meth:`from_parquet`.

        Example:
            >>> import io
            >>> from tensorclass import TensorDict
            >>> file = io.BytesIO()
            >>> TensorDict({"x": [1, 2, 3]}, [3]).to_parquet(file)
            >>> _ = file.seek(0)
            >>> [batch["x"].tolist() for batch in TensorDict.iter_parquet(file, batch_size=2)]
            [[1, 2], [3]]
        """
        ...

    @delegated("tensorclass.convert.tables.parquet")
    def to_parquet(
        self: TableFiles,
        path: Target,
        *,
        separator: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a Parquet file with one row per item of the batch.

        Nested collections become structs, further dimensions tensors of a fixed shape, ragged rows lists, as in
        :meth:`to_arrow`. The file is written completely or not at all: if writing fails, the previous file stays.

        Args:
            path: the file, or a file that is open for writing bytes.
            separator: gives nested values columns of their own, with joined names.
            kwargs: options of ``pyarrow.parquet.write_table``: ``compression``, ``row_group_size``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: the file cannot be written.
            ValueError: the batch does not have exactly one dimension.
            ConversionError: the file cannot hold some of the values. Lists all of them.
            TypeError: an option does not exist, or there is no type for a dtype or an object.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = TensorDict({"x": torch.zeros(2, 3), "point": {"y": torch.ones(2)}}, [2])
            ...     data.to_parquet(folder + "/rows.parquet", separator=".", compression="zstd")
            ...     list(TensorDict.from_parquet(folder + "/rows.parquet").keys())
            ['x', 'point.y']
        """
        ...

    # -- csv -----------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.tables.csv")
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
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Read a CSV file: one value per column, with the number of rows as batch size.

        The fields of a record decide how text is read: ``Int[Tensor, ""]`` as integers, ``str`` as text, even if it
        looks like a number. Other columns become integers, doubles or booleans if all of their cells can, and text
        otherwise, including dates. An empty cell is a null. In a column of text it is the empty text, unless its field
        has a default or allows ``None``.

        Args:
            path: the file, possibly compressed (``"table.csv.gz"``); a list or a pattern of files with the same
                columns; or an open file.
            auto_batch_size: infer the batch size instead of taking the number of rows.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default the CPU.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            columns: the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            kwargs: options of pyarrow's ``ReadOptions``, ``ParseOptions`` and ``ConvertOptions``: ``delimiter``,
                ``column_names``, ``include_columns``, ``column_types``, ``null_values``, ``block_size``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: a file does not exist or cannot be read.
            ValueError: a file is not a CSV file, or is damaged. The message says where.
            ConversionError: columns are missing, unexpected, or do not fit their fields. Lists all of them.
            TypeError: an option does not exist.

        Example:
            >>> import io, torch
            >>> from tensorclass import TensorClass, Text
            >>> class Pet(TensorClass):
            ...     name: Text
            ...     age: torch.Tensor
            >>> Pet.from_csv(io.BytesIO(b"name,age\\n007,3\\nRex,9\\n")).name[0]
            '007'
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.csv")
    def iter_csv(
        cls,
        path: Source,
        *,
        batch_size: int,
        drop_last: bool = False,
        device: DeviceLike | None = None,
        separator: str | None = None,
        dtype: torch.dtype | None = None,
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        progress: bool | None = None,
        pbar: bool | None = None,
        **kwargs: Any,
    ) -> Batches[Self]:
        """Iterate over the rows of a CSV file in batches. The file can be larger than memory.

        Args:
            path: the files, as in :meth:`from_csv`.
            batch_size: the number of rows per batch. The last batch can have fewer.
            drop_last: drop a last batch with fewer rows.
            device: where the values are moved; by default the CPU.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            columns: the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            progress: show a progress bar; by default if stderr is a terminal and tqdm is installed.
            pbar: another name of ``progress``.
            kwargs: options, as in :meth:`from_csv`.

        Returns:
            An iterable of collections of this class: see :class:`tensorclass.convert.tables.row_batches.Batches`. It
            can be iterated over repeatedly, also by the workers of ``DataLoader(batches, batch_size=None,
            num_workers=2)``.

        Raises:
            ConversionError: columns are missing or unexpected. Values that do not fit raise when their batch is read.
            OSError, ValueError, TypeError, ImportError: as in :meth:`from_csv`.

        Example:
            >>> import io
            >>> from tensorclass import TensorDict
            >>> file = io.BytesIO()
            >>> TensorDict({"x": [1, 2, 3]}, [3]).to_csv(file)
            >>> _ = file.seek(0)
            >>> [batch["x"].tolist() for batch in TensorDict.iter_csv(file, batch_size=2)]
            [[1, 2], [3]]
        """
        ...

    @delegated("tensorclass.convert.tables.csv")
    def to_csv(
        self: TableFiles,
        path: Target,
        *,
        separator: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a CSV file with one row per item of the batch.

        Each value has one number, time or text per row. Numbers are written so that reading restores them exactly. The
        file is written completely or not at all: if writing fails, the previous file stays.

        Args:
            path: the file, or a file that is open for writing bytes.
            separator: joins nested keys to the names of columns. Required if there are nested keys.
            kwargs: options of ``pyarrow.csv.WriteOptions``: ``delimiter``, ``include_header``, ``quoting_style``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: the file cannot be written.
            ValueError: the batch does not have exactly one dimension.
            ConversionError: the file cannot hold some of the values. Lists all of them.
            TypeError: an option does not exist, or there is no type for a dtype or an object.

        Example:
            >>> import io
            >>> from tensorclass import TensorDict
            >>> file = io.BytesIO()
            >>> TensorDict({"name": ["Rex", "Fido"], "age": [9, 3]}, [2]).to_csv(file)
            >>> file.getvalue().decode().split()
            ['"name","age"', '"Rex",9', '"Fido",3']
        """
        ...

    # -- json ----------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.tables.json")
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
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Read a JSON file: one value per column, with the number of rows as batch size.

        The file has an array of objects, one per row, or an object with a list per column. Objects inside them become
        nested collections, lists of numbers of one length further dimensions. The fields of a record decide how numbers
        are read, and which text is a date or a time; other text stays text.

        Args:
            path: the file, possibly compressed (``"rows.json.gz"``); a list or a pattern of files with the same
                columns; or an open file.
            auto_batch_size: infer the batch size instead of taking the number of rows.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default the CPU.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            lines: the file has one row per line instead of an array of rows. By default this is so if its name ends in
                ``.jsonl`` or ``.ndjson``, possibly with ``.gz``.
            columns: the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            kwargs: with one row per line, options of pyarrow's ``ReadOptions`` and ``ParseOptions``: ``block_size``,
                ``explicit_schema``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: a file does not exist or cannot be read.
            ValueError: a file is not a JSON file, or is damaged. The message says where.
            ConversionError: columns are missing, unexpected, or do not fit their fields. Lists all of them.
            TypeError: an option does not exist.

        Example:
            >>> import io
            >>> from tensorclass import TensorDict
            >>> TensorDict.from_json(io.BytesIO(b'[{"a": 1, "n": {"b": [2, 3]}}]'))["n", "b"]
            tensor([[2, 3]])
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.json")
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
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        progress: bool | None = None,
        pbar: bool | None = None,
        **kwargs: Any,
    ) -> Batches[Self]:
        """Iterate over the rows of a JSON file in batches. The file can be larger than memory.

        Args:
            path: the files, as in :meth:`from_json`.
            batch_size: the number of rows per batch. The last batch can have fewer.
            drop_last: drop a last batch with fewer rows.
            device: where the values are moved; by default the CPU.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            lines: the file has one row per line instead of an array of rows, as in :meth:`from_json`.
            columns: the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            progress: show a progress bar; by default if stderr is a terminal and tqdm is installed.
            pbar: another name of ``progress``.
            kwargs: options, as in :meth:`from_json`.

        Returns:
            An iterable of collections of this class: see :class:`tensorclass.convert.tables.row_batches.Batches`. It
            can be iterated over repeatedly, also by the workers of ``DataLoader(batches, batch_size=None,
            num_workers=2)``.

        Raises:
            ConversionError: columns are missing or unexpected. Values that do not fit raise when their batch is read.
            OSError, ValueError, TypeError, ImportError: as in :meth:`from_json`.

        Example:
            >>> import io
            >>> from tensorclass import TensorDict
            >>> file = io.BytesIO()
            >>> TensorDict({"x": [1, 2, 3]}, [3]).to_json(file)
            >>> _ = file.seek(0)
            >>> [batch["x"].tolist() for batch in TensorDict.iter_json(file, batch_size=2)]
            [[1, 2], [3]]
        """
        ...

    @delegated("tensorclass.convert.tables.json")
    def to_json(
        self: TableFiles,
        path: Target,
        *,
        separator: str | None = None,
        lines: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a JSON file with one row per item of the batch.

        Nested collections become objects, further dimensions lists. Numbers are written so that reading restores them
        exactly; nan and infinities as ``NaN`` and ``Infinity``, which Python, pandas and pyarrow read; dates and times
        as text (ISO 8601). The file is written completely or not at all: if writing fails, the previous file stays.

        Args:
            path: the file, or a file that is open for writing bytes.
            separator: gives nested values keys of their own, with joined names.
            lines: write one row per line instead of an array of rows; by default as in :meth:`from_json`.
            kwargs: options of ``json.JSONEncoder``: ``indent``, ``default``, ``allow_nan``, ...

        Raises:
            ImportError: pyarrow is not installed.
            OSError: the file cannot be written.
            ValueError: the batch does not have exactly one dimension.
            ConversionError: the file cannot hold some of the values. Lists all of them.
            TypeError: an option does not exist, or there is no type for a dtype or an object.

        Example:
            >>> import io
            >>> from tensorclass import TensorDict
            >>> file = io.BytesIO()
            >>> TensorDict({"x": [1, 2]}, [2]).to_json(file, lines=True)
            >>> file.getvalue().decode().split()
            ['{"x":1}', '{"x":2}']
        """
        ...

    # -- feather -------------------------------------------------------------------------------------------------------

    @classmethod
    @delegated("tensorclass.convert.tables.feather")
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
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Read a Feather file (Arrow's IPC format): one value per column, with the number of rows as batch size.

        Columns are converted as by :meth:`from_arrow`, and ``from_feather`` restores what :meth:`to_feather` wrote. It
        shares the memory of the file, which can therefore be larger than free memory.

        Args:
            path: the file; a list or a pattern of files with the same columns, or a folder of them; or an open file.
            auto_batch_size: infer the batch size instead of taking the number of rows.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            device: where the values are moved; by default the CPU.
            batch_size: another batch size.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            columns: the columns to read; by default all, for a record those of its fields. A field of a struct is named
                after it: ``"point.x"``.
            memory_map: read data when it is used, and share the memory of the file. Numbers in files that are not
                compressed are not copied. Writes to the tensors do not change the file, but a program that writes to
                the file in place changes the tensors.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            kwargs: options of ``pyarrow.ipc.IpcReadOptions``, such as ``ensure_alignment``.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: a file does not exist or cannot be read.
            ValueError: a file is not a Feather file, or is damaged. The message says where.
            ConversionError: columns are missing, unexpected, or do not fit their fields. Lists all of them.
            TypeError: an option does not exist.

        Example:
            >>> import os, tempfile
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     TensorDict({"x": [1, 2]}, [2]).to_feather(os.path.join(folder, "rows.feather"))
            ...     TensorDict.from_feather(os.path.join(folder, "rows.feather"))["x"]
            tensor([1, 2])
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.feather")
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
        rename: Mapping[str, str] | None = None,
        nulls: Nulls = "default",
        strict: bool = True,
        progress: bool | None = None,
        pbar: bool | None = None,
        **kwargs: Any,
    ) -> Batches[Self]:
        """Iterate over the rows of a Feather file in batches. The file can be larger than memory.

        Args:
            path: the files, as in :meth:`from_feather`.
            batch_size: the number of rows per batch. The last batch can have fewer.
            drop_last: drop a last batch with fewer rows.
            device: where the values are moved; by default the CPU.
            separator: splits the names of columns into nested keys.
            dtype: the dtype of all tensors; by default that of each column.
            columns: the columns to read; by default all, for a record those of its fields. A field of a struct is named
                after it: ``"point.x"``.
            memory_map: read data when it is used, and share the memory of the file, as in :meth:`from_feather`.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.
            progress: show a progress bar; by default if stderr is a terminal and tqdm is installed.
            pbar: another name of ``progress``.
            kwargs: options, as in :meth:`from_feather`.

        Returns:
            An iterable of collections of this class: see :class:`tensorclass.convert.tables.row_batches.Batches`. It
            can be iterated over repeatedly, also by the workers of ``DataLoader(batches, batch_size=None,
            num_workers=2)``.

        Raises:
            ConversionError: columns are missing or unexpected. Values that do not fit raise when their batch is read.
            OSError, ValueError, TypeError, ImportError: as in :meth:`from_feather`.

        Example:
            >>> import io
            >>> from tensorclass import TensorDict
            >>> file = io.BytesIO()
            >>> TensorDict({"x": [1, 2, 3]}, [3]).to_feather(file)
            >>> _ = file.seek(0)
            >>> [batch["x"].tolist() for batch in TensorDict.iter_feather(file, batch_size=2)]
            [[1, 2], [3]]
        """
        ...

    @delegated("tensorclass.convert.tables.feather")
    def to_feather(
        self: TableFiles,
        path: Target,
        *,
        separator: str | None = None,
        compression: Literal["lz4", "zstd"] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a Feather file (Arrow's IPC format) with one row per item of the batch.

        Nested collections become structs, further dimensions tensors of a fixed shape, ragged rows lists, as in
        :meth:`to_arrow`. The file is written completely or not at all: if writing fails, the previous file stays.

        Args:
            path: the file, or a file that is open for writing bytes.
            separator: gives nested values columns of their own, with joined names.
            compression: makes the file smaller. A compressed file cannot be read without a copy.
            kwargs: options of ``pyarrow.ipc.IpcWriteOptions``.

        Raises:
            ImportError: pyarrow is not installed.
            OSError: the file cannot be written.
            ValueError: the batch does not have exactly one dimension.
            ConversionError: the file cannot hold some of the values. Lists all of them.
            TypeError: an option does not exist, or there is no type for a dtype or an object.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = TensorDict({"x": torch.zeros(2, 3), "name": ["a", "b"]}, [2])
            ...     data.to_feather(folder + "/rows.feather", compression="zstd")
            ...     TensorDict.from_feather(folder + "/rows.feather")["name"][1]
            'b'
        """
        ...
