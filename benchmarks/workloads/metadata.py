"""Dimension names, locks, and `with` statements that write back."""

from typing import Any

import torch

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


def _flag(d: dict[str, Any], locked: set[int]) -> None:
    locked.add(id(d))
    for value in d.values():
        if isinstance(value, dict):
            _flag(value, locked)


def _unlocked(x: Any) -> bool:
    with x.unlock_():
        return not x.is_locked


def _unlocked_by_hand(d: dict[str, Any], n: Batch) -> bool:
    locked: set[int] = set()
    _flag(d, locked)
    locked.clear()
    return not locked


def _locked(x: Any) -> bool:
    x.lock_()
    found: bool = x.is_locked
    x.unlock_()
    return found


def _locked_by_hand(d: dict[str, Any], n: Batch) -> bool:
    locked: set[int] = set()
    _flag(d, locked)
    found = id(d) in locked
    locked.clear()
    return found


def _write_flat(x: Any) -> Any:
    with x.view(-1) as flat:
        flat["reward"] = torch.ones(32)
    return x["reward"]


def _write_flat_by_hand(d: dict[str, Any], n: Batch) -> Any:
    flat = {k: v.view(-1, *v.shape[2:]) for k, v in d.items()}
    before = dict(flat)
    flat["reward"] = torch.ones(32)
    for key, value in flat.items():
        if value is not before[key]:
            d[key] = value.reshape(*n, *value.shape[1:])
    return d["reward"]


_LOCKS = (
    Operation("lock_ and unlock_", _locked, _locked_by_hand),
    Operation("with unlock_()", _unlocked, _unlocked_by_hand),
)

WORKLOADS = (
    *on_forms(
        (
            Operation("[:, int] with names", lambda x: _named(x)[:, 1], _index_by_hand, GRID),
            Operation("permute with names", lambda x: _named(x).permute(1, 0), _permute_by_hand, GRID),
        )
    ),
    *on_forms(_LOCKS, ("td", "nested td")),
    *on_forms((Operation("with view(-1): write a key", _write_flat, _write_flat_by_hand, GRID),), ("td",)),
)
