"""What ``with`` undoes."""

from typing import Any

import torch
from torch import Tensor

from benchmarks.sides import Batch
from benchmarks.workloads.table import GRID, Operation, on_forms

_FLAT = torch.ones(32)


def _unlocked(x: Any) -> Any:
    x.lock_()
    with x.unlock_():
        x["reward"] = _FLAT
    return x.unlock_()


def _set_by_hand(d: dict[str, Tensor], n: Batch) -> Any:
    d["reward"] = _FLAT
    return d, n


def _viewed(x: Any) -> Any:
    with x.view(-1) as flat:
        flat["reward"] = _FLAT
    return x


def _viewed_by_hand(d: dict[str, Tensor], n: Batch) -> Any:
    flat = {key: value.view(-1, *value.shape[len(n) :]) for key, value in d.items()}
    flat["reward"] = _FLAT
    for key, value in flat.items():
        d[key] = value.view(*n, *value.shape[1:])
    return d, n


def _flattened(x: Any) -> Any:
    with x.flatten_keys(".") as flat:
        flat["before.reward"] = _FLAT
    return x


def _flattened_by_hand(d: dict[str, Any], n: Batch) -> Any:
    d["before"]["reward"] = _FLAT
    return d, n


WORKLOADS = (
    *on_forms((Operation("with unlock_", _unlocked, _set_by_hand),), ("td",)),
    *on_forms((Operation("with view", _viewed, _viewed_by_hand, batch=GRID),), ("td",)),
    *on_forms((Operation("with flatten_keys", _flattened, _flattened_by_hand),), ("nested td",)),
)
