"""Methods for data sets of Hugging Face and Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import Self

from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.keys import NestedKey

from .arguments import BatchSize, Nulls, Ragged
from .declaration import delegated


class Datasets(Collection):
    """``from_x``, ``iter_x`` and ``to_x`` of data sets: Hugging Face, Ray."""

    __slots__ = ()

    @classmethod
    @delegated("tensorclass.convert.tables.huggingface")
    def from_huggingface(
        cls,
        dataset: Any,
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
        """Convert a ``datasets.Dataset``: one value per column, with the number of rows as batch size.

        The rows are those that the dataset shows after ``select``, ``shuffle`` and ``filter``, the columns those of its
        format, in the types that are stored. Columns are read as :meth:`from_arrow` reads them, and ``Array2D`` and its
        kin as tensors of their shape. Class labels become numbers; a field of text gets their names.

        Args:
            dataset: a ``datasets.Dataset``.
            copy: ``True`` always copies. ``False`` raises for a column of numbers that needs a copy. By default columns
                are copied where needed.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            mask_key: the key of the collection of masks; ``"_mask"`` by default.
            device: where the values are moved; by default the CPU.
            columns: the names of the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            ragged: what becomes of lists of numbers of different lengths, as in :meth:`from_arrow`.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            batch_size: another batch size, such as ``[rows, 3]`` for columns with lists of 3.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.

        Returns:
            A collection of this class. Columns of numbers share memory with the dataset, or its file, if they are one
            chunk without nulls and no rows were selected. Copy before you write.

        Raises:
            ImportError: datasets is not installed.
            TypeError: ``dataset`` is a dict of splits, is streamed, or has a transform.
            ConversionError: columns do not fit their fields, or hold data that is decoded when it is read (images,
                sounds).

        Example:
            >>> import datasets
            >>> from tensorclass import TensorDict
            >>> dataset = datasets.Dataset.from_dict({"x": [1.0, 2.0, 3.0], "text": ["a", "b", "c"]})
            >>> TensorDict.from_huggingface(dataset.select([2, 0])).to_dict()
            {'x': tensor([3., 1.], dtype=torch.float64), 'text': ['c', 'a']}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.huggingface")
    def iter_huggingface(
        cls,
        dataset: Any,
        *,
        batch_size: int,
        drop_last: bool = False,
        nulls: Nulls = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        ragged: Ragged = "column",
        strict: bool = True,
    ) -> Iterator[Self]:
        """Iterate over a ``datasets.Dataset`` or ``IterableDataset`` in batches. It can be larger than memory.

        Args:
            dataset: the dataset.
            batch_size: the number of rows per batch. The last batch can have fewer.
            drop_last: drop a last batch with fewer rows.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            mask_key: the key of the collection of masks; ``"_mask"`` by default.
            device: where the values are moved; by default the CPU.
            columns: the names of the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            ragged: what becomes of lists of numbers of different lengths in a batch, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.

        Returns:
            An iterator of collections of this class.

        Example:
            >>> import datasets
            >>> from tensorclass import TensorDict
            >>> dataset = datasets.Dataset.from_dict({"x": [1, 2, 3]})
            >>> [batch["x"].tolist() for batch in TensorDict.iter_huggingface(dataset, batch_size=2)]
            [[1, 2], [3]]
        """
        ...

    @delegated("tensorclass.convert.tables.huggingface")
    def to_huggingface(self: Datasets, *, features: Any = None) -> Any:
        """Return a ``datasets.Dataset`` with one row per item of the batch.

        Further dimensions become lists of a fixed length, nested collections structs, ragged rows lists.

        Args:
            features: the ``datasets.Features`` of the dataset, such as ``ClassLabel``; by default they follow from the
                types of the values.

        Returns:
            A dataset in memory, which shares memory with the tensors where Arrow can.

        Raises:
            ImportError: datasets is not installed.
            ValueError: there is no batch dimension, or the features do not fit the columns.
            ConversionError: a value has a dtype that Arrow does not have.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"x": [1, 2], "text": ["a", "b"]}, [2]).to_huggingface()[1]
            {'x': 2, 'text': 'b'}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.ray_dataset")
    def from_ray_dataset(
        cls,
        dataset: Any,
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
        """Convert a ``ray.data.Dataset``: one value per column, with the number of rows as batch size.

        The dataset is executed, and all of it comes to this process; use :meth:`iter_ray_dataset` if it is larger than
        memory. Columns are read as :meth:`from_arrow` reads them, and tensors in Ray's own type as tensors of their
        shape. Ray returns blocks in the order in which they complete, unless
        ``ray.data.DataContext.get_current().execution_options.preserve_order`` is set.

        Args:
            dataset: a ``ray.data.Dataset``.
            copy: ``True`` always copies. ``False`` raises for a column of numbers that needs a copy. By default columns
                are copied where needed.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            mask_key: the key of the collection of masks; ``"_mask"`` by default.
            device: where the values are moved; by default the CPU.
            columns: the names of the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            ragged: what becomes of lists of numbers of different lengths, as in :meth:`from_arrow`.
            auto_batch_size: infer the batch size from the leading dimensions that all values share.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            batch_size: another batch size, such as ``[rows, 3]`` for columns with lists of 3.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.

        Returns:
            A collection of this class. On Linux the numbers of a dataset of one block are not copied; pages of the
            object store become private copies when they are written. Several blocks are joined, which copies.

        Raises:
            ImportError: ray is not installed (the extra ``ray``).
            TypeError: ``dataset`` is not a ``ray.data.Dataset``.
            ConversionError: columns do not fit their fields.

        Example:
            >>> import ray.data
            >>> from tensorclass import TensorDict
            >>> dataset = ray.data.from_items([{"x": 1.0, "text": "a"}, {"x": 2.0, "text": "b"}])
            >>> TensorDict.from_ray_dataset(dataset).to_dict()
            {'x': tensor([1., 2.], dtype=torch.float64), 'text': ['a', 'b']}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.tables.ray_dataset")
    def iter_ray_dataset(
        cls,
        dataset: Any,
        *,
        batch_size: int,
        drop_last: bool = False,
        prefetch: int = 1,
        nulls: Nulls = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        ragged: Ragged = "column",
        strict: bool = True,
    ) -> Iterator[Self]:
        """Iterate over a ``ray.data.Dataset`` in batches while it is still executed. It can be larger than memory.

        Args:
            dataset: a ``ray.data.Dataset``.
            batch_size: the number of rows per batch. The last batch can have fewer.
            drop_last: drop a last batch with fewer rows.
            prefetch: the number of batches that are fetched ahead.
            nulls: what becomes of nulls, as in :meth:`from_arrow`.
            mask_key: the key of the collection of masks; ``"_mask"`` by default.
            device: where the values are moved; by default the CPU.
            columns: the names of the columns to read; all by default.
            rename: new names of columns, ``{"column": "field"}``, before they are looked up as fields; none by default.
            ragged: what becomes of lists of numbers of different lengths in a batch, as in :meth:`from_arrow`.
            strict: with ``False``, drop columns that are not fields of a record, and warn about them.

        Returns:
            An iterator of collections of this class.

        Raises:
            ImportError: ray is not installed (the extra ``ray``).
            TypeError: ``dataset`` is not a ``ray.data.Dataset``.
            ValueError: ``batch_size`` is not a positive number.
            ConversionError: columns do not fit their fields.

        Example:
            >>> import ray.data
            >>> from tensorclass import TensorDict
            >>> dataset = ray.data.range(3)
            >>> [batch["id"].tolist() for batch in TensorDict.iter_ray_dataset(dataset, batch_size=2)]
            [[0, 1], [2]]
        """
        ...

    @delegated("tensorclass.convert.tables.ray_dataset")
    def to_ray_dataset(self: Datasets, *, blocks: int | None = None) -> Any:
        """Return a ``ray.data.Dataset`` with one row per item of the batch.

        Further dimensions become Arrow's tensors of a fixed shape, nested collections structs, ragged rows lists;
        see :meth:`to_arrow`. :func:`tensorclass.distributed.ray.map_batches` runs functions from record to record on
        the dataset.

        Args:
            blocks: the number of blocks that the rows are split into, each of which Ray gives to one task; 1 by
                default.

        Raises:
            ImportError: ray is not installed (the extra ``ray``).
            ValueError: there is no batch dimension.
            ConversionError: a value has a dtype that Arrow does not have.

        Example:
            >>> import ray, torch
            >>> from tensorclass import TensorDict
            >>> dataset = TensorDict({"x": torch.arange(4), "text": "a"}, [4]).to_ray_dataset()
            >>> dataset.take(2)
            [{'x': 0, 'text': 'a'}, {'x': 1, 'text': 'a'}]
        """
        ...
