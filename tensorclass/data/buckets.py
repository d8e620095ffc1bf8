"""Batches of rows of similar length, so that little of a padded batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils.data import Sampler

from tensorclass.td.columns.buffer_column import BufferColumn
from tensorclass.td.leaves.leaf import has_spans
from tensorclass.td.leaves.object_codes import to_lists


class BucketBatchSampler(Sampler[list[int]]):
    """A sampler of batches whose rows have similar lengths: ``DataLoader(dataset, batch_sampler=...)``.

    Each epoch shuffles the rows, cuts them into buckets, sorts each bucket by length, cuts the buckets into batches and
    shuffles the batches. So rows of all lengths are mixed over an epoch, and a padded batch has little padding.

    Args:
        lengths: the length of each row: integers ``[rows]``, or a column of one batch dimension.
        batch_size: the largest number of rows of a batch. Default: no limit.
        max_items: the largest number of items of a padded batch: rows times the longest of them. Default: no limit.
        shuffle: ``False`` sorts all rows by length, and gives the shortest first. Default: ``True``.
        generator: source of the order. Default: torch's default generator.
        drop_last: leave out the last batch of an epoch if it could take more rows. Default: ``False``.
        bucket_rows: the number of rows of a bucket. Fewer mix better, more pad less. Default: 100 batches.

    Raises:
        ValueError: neither limit is given, a limit is not positive, or one row is longer than ``max_items``.
        TypeError: the lengths are not integers of one dimension.

    Example:
        >>> from tensorclass import BucketBatchSampler
        >>> list(BucketBatchSampler([5, 1, 9, 2], batch_size=2, shuffle=False))
        [[1, 3], [0, 2]]
        >>> import torch
        >>> from tensorclass import DataLoader, Ragged, TensorClass
        >>> class Prompt(TensorClass):
        ...     tokens: Ragged
        >>> data = Prompt(Ragged([[1], [2, 3, 4], [5], [6, 7, 8]]), batch_size=[4])
        >>> sampler = BucketBatchSampler(data.tokens, max_items=6, generator=torch.Generator().manual_seed(0))
        >>> sorted(batch.tokens.lengths.tolist() for batch in DataLoader(data, batch_sampler=sampler))
        [[1, 1], [3, 3]]
    """

    def __init__(
        self,
        lengths: Tensor | Sequence[int] | BufferColumn,
        batch_size: int | None = None,
        *,
        max_items: int | None = None,
        shuffle: bool = True,
        generator: Generator | None = None,
        drop_last: bool = False,
        bucket_rows: int | None = None,
    ) -> None:
        if batch_size is None and max_items is None:
            raise ValueError("BucketBatchSampler: give batch_size=, max_items=, or both")
        for name, limit in (("batch_size", batch_size), ("max_items", max_items), ("bucket_rows", bucket_rows)):
            if limit is not None and limit < 1:
                raise ValueError(f"BucketBatchSampler: {name}: expected a positive number, got {limit}")
        given: Any = lengths.lengths if has_spans(lengths) else lengths
        own = torch.as_tensor(given, dtype=None if len(given) else torch.int64).cpu()
        if own.ndim != 1 or own.is_floating_point() or own.is_complex() or own.dtype is torch.bool:
            raise TypeError(
                f"BucketBatchSampler: lengths: expected integers of one dimension, got {own.dtype} of shape "
                f"{list(own.shape)}"
            )
        if max_items is not None and len(own) and int(own.max()) > max_items:
            row = int(own.argmax())
            raise ValueError(
                f"BucketBatchSampler: row {row} has {int(own[row])} items, more than max_items={max_items}; truncate "
                "the rows, or leave it out"
            )
        #: the length of each row, ``int64[rows]``
        self.lengths: Tensor = own.to(torch.int64)
        self.batch_size: int | None = batch_size
        self.max_items: int | None = max_items
        self.shuffle: bool = shuffle
        self.generator: Generator | None = generator
        self.drop_last: bool = drop_last
        if bucket_rows is None:
            longest = max(int(own.max()), 1) if len(own) else 1
            rows = batch_size if max_items is None else min(batch_size or len(own) or 1, max(max_items // longest, 1))
            bucket_rows = 100 * (rows or 1)
        #: the number of rows of a bucket
        self.bucket_rows: int = bucket_rows if batch_size is None else -(-bucket_rows // batch_size) * batch_size
        self._seed: int | None = None  #: of the epoch that is next, or that is being resumed
        self._batches: list[list[int]] | None = None  #: of that seed
        self._position: int = 0  #: batches that the running epoch has given
        self._start: int = 0  #: first batch of the next epoch, after load_state_dict

    def __iter__(self) -> Iterator[list[int]]:
        """Iterate over the batches of the next epoch: lists of row numbers."""
        batches, seed, start = self._planned(), self._seed, self._start
        self._start = 0
        for position in range(start, len(batches)):
            self._seed, self._batches, self._position = seed, batches, position + 1
            yield batches[position]
        self._seed = self._batches = None
        self._position = 0

    def __len__(self) -> int:
        """Return the number of batches of the running epoch, or of the next one.

        With ``max_items`` it can differ between epochs, because other rows come together.
        """
        return len(self._planned())

    def state_dict(self) -> dict[str, int]:
        """Return the state from which :meth:`load_state_dict` continues the running epoch.

        Returns:
            ``seed``, the seed of the order of this epoch, and ``position``, the number of batches that were given. A
            loader with workers asks for batches ahead of those that it has yielded.

        Example:
            >>> from tensorclass import BucketBatchSampler
            >>> sampler = BucketBatchSampler([1, 2, 3], batch_size=1)
            >>> epoch = iter(sampler)
            >>> first = next(epoch)
            >>> sampler.state_dict()["position"]
            1
        """
        self._planned()
        return {"seed": self._seed or 0, "position": max(self._position, self._start)}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Let the next epoch continue where :meth:`state_dict` was called.

        Args:
            state_dict: the result of :meth:`state_dict`.

        Example:
            >>> from tensorclass import BucketBatchSampler
            >>> sampler, other = (BucketBatchSampler([1, 2, 3], batch_size=1) for _ in range(2))
            >>> epoch = iter(sampler)
            >>> first = next(epoch)
            >>> other.load_state_dict(sampler.state_dict())
            >>> list(other) == list(epoch)
            True
        """
        self._seed, self._start = int(state_dict["seed"]), int(state_dict["position"])
        self._batches, self._position = None, 0

    def _planned(self) -> list[list[int]]:
        """Return the batches of the running or next epoch."""
        if self._batches is None:
            if self._seed is None:
                self._seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.generator).item())
            self._batches = self._cut(self._seed)
        return self._batches

    def _cut(self, seed: int) -> list[list[int]]:
        lengths = self.lengths
        if not self.shuffle:
            return self._batches_of(torch.argsort(lengths, stable=True))
        generator = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(lengths), generator=generator)
        buckets = [order[at : at + self.bucket_rows] for at in range(0, len(order), self.bucket_rows)]
        # every second one the other way round, so that rows beside a border have similar lengths
        ordered = [
            rows[torch.argsort(lengths[rows], descending=bool(at % 2), stable=True)] for at, rows in enumerate(buckets)
        ]
        batches = self._batches_of(torch.cat(ordered)) if ordered else []
        return [batches[at] for at in to_lists(torch.randperm(len(batches), generator=generator))]

    def _batches_of(self, order: Tensor) -> list[list[int]]:
        """Cut rows in this order into batches."""
        rows: list[int] = to_lists(order)
        batch_size, max_items = self.batch_size, self.max_items
        if max_items is None:
            assert batch_size is not None
            batches = [rows[at : at + batch_size] for at in range(0, len(rows), batch_size)]
            is_full = bool(batches) and len(batches[-1]) == batch_size
        else:
            batches, is_full = list[list[int]](), False
            counts: list[int] = to_lists(self.lengths[order])
            start = longest = 0
            for at, count in enumerate(counts):
                size = at - start
                if size and (size == batch_size or max(longest, count) * (size + 1) > max_items):
                    batches.append(rows[start:at])
                    start, longest = at, 0
                longest = max(longest, count)
            if rows:
                batches.append(rows[start:])
                is_full = len(batches[-1]) == batch_size or longest * (len(batches[-1]) + 1) > max_items
        return batches[:-1] if self.drop_last and batches and not is_full else batches
