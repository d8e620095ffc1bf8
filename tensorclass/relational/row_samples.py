"""Some rows, to look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Generator

from .key_codes import row_count, row_index
from .row_selection import trimmed

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection

T = TypeVar("T", bound="TensorCollection")


def head(self: T, n: int = 5) -> T:
    """See :meth:`TensorDict.head`."""
    return self[: _checked("head", self, n)]


def tail(self: T, n: int = 5) -> T:
    """See :meth:`TensorDict.tail`."""
    count = _checked("tail", self, n)
    return self[max(self._batch_size[0] - count, 0) :]


def sample(self: T, n: int = 5, *, replacement: bool = False, generator: Generator | None = None) -> T:
    """See :meth:`TensorDict.sample`."""
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
