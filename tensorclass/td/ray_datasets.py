"""In and out: datasets of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from typing_extensions import Self

from .collection import Collection, DeviceLike
from .converting import BatchSize, _target
from .keys import NestedKey


class RayDatasets(Collection):
    """``from_ray_dataset``, ``iter_ray_dataset`` and ``to_ray_dataset``."""

    __slots__ = ()

    @classmethod
    def from_ray_dataset(
        cls,
        dataset: Any,
        *,
        copy: bool | None = None,
        nulls: Literal["default", "raise", "fill", "mask"] = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        ragged: Literal["jagged", "lazy", "raise"] = "jagged",
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
        from tensorclass.convert import from_ray_dataset

        return from_ray_dataset(  # type: ignore[no-any-return]
            _target(cls), dataset, copy=copy, nulls=nulls, mask_key=mask_key, device=device, columns=columns,
            ragged=ragged, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size, strict=strict,
        )  # fmt: skip

    @classmethod
    def iter_ray_dataset(
        cls,
        dataset: Any,
        *,
        batch_size: int,
        drop_last: bool = False,
        prefetch: int = 1,
        nulls: Literal["default", "raise", "fill", "mask"] = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        ragged: Literal["jagged", "lazy", "raise"] = "jagged",
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
        from tensorclass.convert import iter_ray_dataset

        return iter_ray_dataset(
            _target(cls), dataset, batch_size=batch_size, drop_last=drop_last, prefetch=prefetch, nulls=nulls,
            mask_key=mask_key, device=device, columns=columns, ragged=ragged, strict=strict,
        )  # fmt: skip

    def to_ray_dataset(self: RayDatasets, *, blocks: int | None = None) -> Any:
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
        from tensorclass.convert import to_ray_dataset

        return to_ray_dataset(self, blocks=blocks)  # type: ignore[arg-type]
