"""Methods for data sets of Hugging Face and Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
    @delegated("tensorclass.convert.huggingface")
    def from_huggingface(
        cls,
        dataset: Any,
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
        """A collection from a ``datasets.Dataset``: a value for each column, with the number of rows as batch size.

        The rows are those that the dataset shows, after ``select``, ``shuffle`` and ``filter``; the columns those of
        its format, in the types that are stored. Columns of numbers share memory with the dataset, also with its
        file, where they are one chunk without nulls and no rows were selected; copy before writing. They are
        read as those of Arrow are (see :meth:`from_arrow`), and ``Array2D`` and its kin as tensors of their shape.
        Labels of classes are numbers; a field that holds text gets their names.

        Args:
            dataset: a ``datasets.Dataset``.
            copy: ``True`` always copies, ``False`` never: a column of numbers that needs it is an error.
            nulls: as for :meth:`from_arrow`, and so are ``mask_key`` and ``ragged``.
            mask_key: the key of the masks.
            device: where the values go.
            columns: the names of the columns that are read; all by default.
            ragged: what becomes of lists of numbers of several lengths.
            auto_batch_size: find the batch size out: the leading dimensions that all values share.
            batch_dims: how many dimensions it has at most, when it is found out.
            batch_size: another batch size, such as ``[rows, 3]`` for columns with lists of 3.
            strict: whether columns that are no fields of a record are an error; else they are left out, with a warning.

        Raises:
            ImportError: datasets is not installed.
            TypeError: ``dataset`` is a dict of splits, streamed, or has a transform.
            ConversionError: columns do not fit their fields, or hold what is decoded when it is read (images, sounds).

        >>> import datasets
        >>> from tensorclass import TensorDict
        >>> dataset = datasets.Dataset.from_dict({"x": [1.0, 2.0, 3.0], "text": ["a", "b", "c"]})
        >>> TensorDict.from_huggingface(dataset.select([2, 0])).to_dict()
        {'x': tensor([3., 1.], dtype=torch.float64), 'text': ['c', 'a']}
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.huggingface")
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
        ragged: Ragged = "jagged",
        strict: bool = True,
    ) -> Iterator[Self]:
        """The rows of a ``datasets.Dataset`` or ``IterableDataset``, batch by batch; it can be larger than memory.

        Args:
            dataset: the dataset.
            batch_size: how many rows a batch has; the last one can be shorter.
            drop_last: leave that one out.
            nulls: as for :meth:`from_huggingface`, and so are the others.
            mask_key: the key of the masks.
            device: where the values go.
            columns: the names of the columns that are read; all by default.
            ragged: what becomes of lists of numbers of several lengths in a batch.
            strict: whether columns that are no fields of a record are an error.
        """
        ...

    @delegated("tensorclass.convert.huggingface")
    def to_huggingface(self: Datasets, *, features: Any = None) -> Any:
        """A ``datasets.Dataset`` with a row for each item of the batch, in memory that is shared where Arrow can.

        Further dimensions become lists of a fixed length, nested collections structs, jagged tensors lists.

        Args:
            features: the ``datasets.Features`` of the dataset, such as ``ClassLabel``; by default what the types of the
                values say.

        Raises:
            ImportError: datasets is not installed.
            ValueError: there is no batch dimension, or the features are not those of the columns.
            ConversionError: a value has a dtype that Arrow does not have.
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.ray")
    def from_ray_dataset(
        cls,
        dataset: Any,
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
        """A collection from a ``ray.data.Dataset``: a value for each column, with the number of rows as batch size.

        The dataset is run, and all of it comes to this process; :meth:`iter_ray_dataset` takes batches of one that is
        larger than memory. Columns are read as those of Arrow are (see :meth:`from_arrow`), and tensors in Ray's own
        type as tensors of their shape. On Linux the numbers of a dataset of one block are not copied: pages of the
        object store that are written become copies, and nobody else sees it. Several blocks are joined.

        Ray gives blocks in the order in which they are done, as long as
        ``ray.data.DataContext.get_current().execution_options.preserve_order`` is not set.

        Args:
            dataset: a ``ray.data.Dataset``.
            copy: ``True`` always copies, ``False`` never: a column of numbers that needs it is an error.
            nulls: as for :meth:`from_arrow`, and so are ``mask_key`` and ``ragged``.
            mask_key: the key of the masks.
            device: where the values go.
            columns: the names of the columns that are read; all by default.
            ragged: what becomes of lists of numbers of several lengths.
            auto_batch_size: find the batch size out: the leading dimensions that all values share.
            batch_dims: how many dimensions it has at most, when it is found out.
            batch_size: another batch size, such as ``[rows, 3]`` for columns with lists of 3.
            strict: whether columns that are no fields of a record are an error; else they are left out, with a warning.

        Raises:
            ImportError: Ray is not installed: the extra ``ray``.
            TypeError: ``dataset`` is something else.
            ConversionError: columns do not fit their fields.
        """
        ...

    @classmethod
    @delegated("tensorclass.convert.ray")
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
        ragged: Ragged = "jagged",
        strict: bool = True,
    ) -> Iterator[Self]:
        """The rows of a ``ray.data.Dataset``, batch by batch, while it is still running; it can be larger than memory.

        Args:
            dataset: the dataset.
            batch_size: how many rows a batch has; the last one can be shorter.
            drop_last: leave that one out.
            prefetch: how many batches are fetched ahead.
            nulls: as for :meth:`from_ray_dataset`, and so are the others.
            mask_key: the key of the masks.
            device: where the values go.
            columns: the names of the columns that are read; all by default.
            ragged: what becomes of lists of numbers of several lengths in a batch.
            strict: whether columns that are no fields of a record are an error.
        """
        ...

    @delegated("tensorclass.convert.ray")
    def to_ray_dataset(self: Datasets, *, blocks: int | None = None) -> Any:
        """A ``ray.data.Dataset`` with a row for each item of the batch.

        Further dimensions are Arrow's tensors of a fixed shape, nested collections structs, jagged tensors lists; see
        :meth:`to_arrow`. :func:`tensorclass.distributed.ray.map_batches` runs functions from record to record on it.

        Args:
            blocks: into how many parts the rows go, which Ray hands to as many tasks; by default one.

        Raises:
            ImportError: Ray is not installed: the extra ``ray``.
            ValueError: there is no batch dimension.
            ConversionError: a value has a dtype that Arrow does not have.
        """
        ...
