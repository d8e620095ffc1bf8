"""Some rows, to look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Generator

from .key_codes import row_count, row_index
from .row_selection import trimmed

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

METHODS_OF = "Looks"

T = TypeVar("T", bound="TensorCollection")


def head(self: T, n: int = 5) -> T:
    """Return the first rows.

    Args:
        n: how many at most.

    Returns:
        The rows, as ``data[:n]`` gives them. From a file only these rows are read.

    Raises:
        ValueError: there is no batch dimension, or ``n`` is negative.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict({"x": torch.arange(1000)}, [1000]).head(3)["x"]
        tensor([0, 1, 2])
    """
    return self[: _checked("head", self, n)]


def tail(self: T, n: int = 5) -> T:
    """Return the last rows.

    Args:
        n: how many at most.

    Returns:
        The rows in their order, as ``data[-n:]`` gives them for ``n > 0``. From a file only these rows are read.

    Raises:
        ValueError: there is no batch dimension, or ``n`` is negative.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> TensorDict({"x": torch.arange(1000)}, [1000]).tail(3)["x"]
        tensor([997, 998, 999])
    """
    count = _checked("tail", self, n)
    return self[max(self._batch_size[0] - count, 0) :]


def sample(self: T, n: int = 5, *, replacement: bool = False, generator: Generator | None = None) -> T:
    """Return rows drawn at random, all with the same probability.

    Args:
        n: how many.
        replacement: whether a row can be drawn more than once. Default: ``False``.
        generator: the random numbers. Default: those of torch.

    Returns:
        The rows in the order in which they were drawn. From a file only these rows are read.

    Raises:
        ValueError: there is no batch dimension, ``n`` is negative, or there are too few rows.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.arange(1000)}, [1000])
        >>> rows = data.sample(3, generator=torch.Generator().manual_seed(0))
        >>> rows.batch_size, len(set(rows["x"].tolist()))
        (torch.Size([3]), 3)
    """
    count = _checked("sample", self, n)
    rows = self._batch_size[0]
    where = generator.device if generator is not None else torch.device("cpu")
    if replacement:
        if count and not rows:
            raise ValueError(f"sample: expected rows to draw {count} from, got none")
        drawn = torch.randint(max(rows, 1), (count,), generator=generator, device=where)
    else:
        if count > rows:
            raise ValueError(f"sample: expected at most {rows} rows, got n={n}; replacement=True draws rows again")
        drawn = torch.randperm(rows, generator=generator, device=where)[:count]
    return trimmed(self[row_index(self, drawn)])


def _checked(what: str, data: TensorCollection, n: int) -> int:
    row_count(what, data)
    if type(n) is not int or n < 0:
        raise ValueError(f"{what}: n: expected a number of rows, got {n!r}")
    return n
