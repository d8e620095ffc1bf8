"""Dimension names."""

from typing import Any

from benchmarks.sides import Batch, Hand
from benchmarks.workloads.table import GRID, Operation, on_forms


def _named(x: Any) -> Any:
    """The same with names, given once."""
    if x.names[0] is None:
        x.names = ["time", "env"]
    return x


def _with_names(value: Hand, names: tuple[str | None, ...]) -> Hand:
    assert len(names) == len(value[1])
    return value


def _index_by_hand(d: dict[str, Any], n: Batch) -> Hand:
    names = ("time", "env")
    return _with_names(({k: v[:, 1] for k, v in d.items()}, n[:1]), names[:1])


def _permute_by_hand(d: dict[str, Any], n: Batch) -> Hand:
    names = ("time", "env")
    return _with_names(({k: v.permute(1, 0, *range(2, v.ndim)) for k, v in d.items()}, n[::-1]), names[::-1])


WORKLOADS = (
    *on_forms(
        (
            Operation("[:, int] with names", lambda x: _named(x)[:, 1], _index_by_hand, GRID),
            Operation("permute with names", lambda x: _named(x).permute(1, 0), _permute_by_hand, GRID),
        )
    ),
)
