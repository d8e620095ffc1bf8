"""In and out: datasets of Hugging Face."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from typing_extensions import Self

from .collection import Collection, DeviceLike
from .converting import BatchSize, _target
from .keys import NestedKey


class HuggingFace(Collection):
    """``from_huggingface``, ``iter_huggingface`` and ``to_huggingface``."""

    __slots__ = ()

    @classmethod
    def from_huggingface(
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
        from tensorclass.convert import from_huggingface

        return from_huggingface(  # type: ignore[no-any-return]
            _target(cls), dataset, copy=copy, nulls=nulls, mask_key=mask_key, device=device, columns=columns,
            ragged=ragged, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size, strict=strict,
        )  # fmt: skip

    @classmethod
    def iter_huggingface(
        cls,
        dataset: Any,
        *,
        batch_size: int,
        drop_last: bool = False,
        nulls: Literal["default", "raise", "fill", "mask"] = "default",
        mask_key: NestedKey | None = None,
        device: DeviceLike | None = None,
        columns: Sequence[str] | None = None,
        ragged: Literal["jagged", "lazy", "raise"] = "jagged",
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
        from tensorclass.convert import iter_huggingface

        return iter_huggingface(
            _target(cls), dataset, batch_size=batch_size, drop_last=drop_last, nulls=nulls, mask_key=mask_key,
            device=device, columns=columns, ragged=ragged, strict=strict,
        )  # fmt: skip

    def to_huggingface(self: HuggingFace, *, features: Any = None) -> Any:
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
        from tensorclass.convert import to_huggingface

        return to_huggingface(self, features=features)  # type: ignore[arg-type]
