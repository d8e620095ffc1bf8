"""Rows dealt out at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Generator, Tensor

from .key_codes import Keys, as_keys, key_codes, row_count, row_index
from .row_order import stable_order

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

METHODS_OF = "RowOperations"

T = TypeVar("T", bound="TensorCollection")


def random_split(self: T, lengths: Sequence[int | float], generator: Generator | None = None) -> tuple[T, ...]:
    """Deal the rows out at random, as ``torch.utils.data.random_split`` does with data sets.

    Args:
        lengths: numbers of rows that sum to all, or fractions that sum to 1. Rows that rounding leaves go to the
            first parts, one each.
        generator: source of the random order. Default: torch's.

    Returns:
        The parts, of this class. Tensors are copied.

    Raises:
        ValueError: the lengths do not sum to the rows; there is no batch dimension.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.arange(10)}, [10])
        >>> train, valid, test = data.random_split([0.8, 0.1, 0.1], torch.Generator().manual_seed(0))
        >>> len(train), len(valid), len(test)
        (8, 1, 1)
    """
    rows = row_count("random_split", self)
    sizes = split_sizes(lengths, rows)
    order = torch.randperm(rows, generator=generator)
    return tuple([self[row_index(self, part)] for part in order.split_with_sizes(sizes)])


def train_test_split(
    self: T,
    test_size: float = 0.25,
    *,
    shuffle: bool = True,
    stratify: Keys | None = None,
    generator: Generator | None = None,
) -> tuple[T, T]:
    """Hold out rows for a test.

    Args:
        test_size: the share of the rows, or their number (an int). Default: 0.25.
        shuffle: draw the rows at random. With ``False`` the last rows are held out. Default: ``True``.
        stratify: a key, or a list of keys: of each of their values the same share is held out, rounded.
        generator: source of the random order. Default: torch's.

    Returns:
        The rows to train with and those to test with, of this class. Tensors are copied.

    Raises:
        ValueError: ``test_size`` is no share and no number of rows; there is no batch dimension.
        KeyError: there is no key to stratify by.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"label": torch.tensor([0, 1]).repeat(4)}, [8])
        >>> train, test = data.train_test_split(0.25, stratify="label")
        >>> len(train), sorted(test["label"].tolist())
        (6, [0, 1])
    """
    rows = row_count("train_test_split", self)
    if stratify is not None and not shuffle:
        raise ValueError("train_test_split: stratify deals out rows at random, which shuffle=False rules out")
    size: Any = test_size
    is_number = isinstance(size, (int, float)) and not isinstance(size, bool)
    if not is_number or not (0 < size < 1 or (isinstance(size, int) and 0 < size < rows)):
        raise ValueError(
            f"train_test_split: test_size: expected a fraction between 0 and 1, or a number of rows below {rows}, got "
            f"{test_size!r}"
        )
    share = size / rows if isinstance(size, int) else float(size)
    order = torch.randperm(rows, generator=generator) if shuffle else torch.arange(rows)
    if stratify is None:
        held = size if isinstance(size, int) else max(1, round(rows * share))
        test, train = (order[:held], order[held:]) if shuffle else (order[rows - held :], order[: rows - held])
    else:
        is_test = _stratified(key_codes("train_test_split", self, as_keys(stratify)).codes.cpu()[order], share)
        test, train = order[is_test], order[~is_test]
    return self[row_index(self, train)], self[row_index(self, test)]


def _stratified(codes: Tensor, share: float) -> Tensor:
    """Return which of shuffled rows are held out, so that each group gives its share, rounded; ``bool[rows]``."""
    order = stable_order(codes)
    sizes = torch.bincount(codes)
    begins = sizes.cumsum(0) - sizes
    rank = torch.arange(len(codes)) - begins[codes[order]]
    held = (sizes.double() * share).round().long()
    is_test = torch.zeros(len(codes), dtype=torch.bool)
    is_test[order] = rank < held[codes[order]]
    return is_test


def split_sizes(lengths: Sequence[int | float], rows: int) -> list[int]:
    """Return numbers of rows for lengths, or for fractions that sum to 1, as ``torch.utils.data.random_split`` does.

    >>> split_sizes([0.5, 0.5], 5), split_sizes([2, 3], 5)
    ([3, 2], [2, 3])
    """
    if any(length < 0 for length in lengths):
        raise ValueError(f"random_split: expected lengths or fractions of at least 0, got {list(lengths)}")
    if all(isinstance(length, int) for length in lengths) and sum(lengths) == rows:
        return [int(length) for length in lengths]
    if abs(sum(lengths) - 1) < 1e-9:
        sizes = [int(rows * length) for length in lengths]
        for i in range(rows - sum(sizes)):  # rows left over by rounding go to the first parts
            sizes[i % len(sizes)] += 1
        return sizes
    raise ValueError(
        f"random_split: expected lengths that sum to the {rows} rows, or fractions that sum to 1, got {list(lengths)}"
    )
