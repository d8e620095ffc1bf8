"""Arithmetic, comparison, unary functions and reductions."""

from typing import Any

import torch

from benchmarks.sides import Batch
from benchmarks.workloads.table import ROWS, Operation, on_forms

_TWO = torch.tensor(2.0)
_MASK = torch.arange(32) % 3 == 0


def _add_in_place(d: dict[str, Any], n: Batch, e: dict[str, Any]) -> Any:
    for k, v in d.items():
        v.add_(e[k])
    return d, n


def _scale_in_place(d: dict[str, Any], n: Batch) -> Any:
    for v in d.values():
        v.mul_(0.999)
    return d, n


def _zero(d: dict[str, Any], n: Batch) -> Any:
    for v in d.values():
        v.zero_()
    return d, n


def _where(d: dict[str, Any], n: Batch, e: dict[str, Any]) -> Any:
    return {k: torch.where(_MASK.reshape(-1, *[1] * (v.ndim - 1)), v, e[k]) for k, v in d.items()}, n


PLUS_ONE = Operation("x + 1", lambda x: x + 1, lambda d, n: ({k: v + 1 for k, v in d.items()}, n))
PLUS = Operation("x + y", lambda x, y: x + y, lambda d, n, e: ({k: v + e[k] for k, v in d.items()}, n), other=ROWS)

OPERATIONS = (
    PLUS,
    PLUS_ONE,
    Operation("x * tensor", lambda x: x * _TWO, lambda d, n: ({k: v * _TWO for k, v in d.items()}, n)),
    Operation("1 - x", lambda x: 1 - x, lambda d, n: ({k: 1 - v for k, v in d.items()}, n)),
    Operation("x ** 2", lambda x: x**2, lambda d, n: ({k: v**2 for k, v in d.items()}, n)),
    Operation("-x", lambda x: -x, lambda d, n: ({k: -v for k, v in d.items()}, n)),
    Operation("add_", lambda x, y: x.add_(y), _add_in_place, other=ROWS),
    Operation("mul_(number)", lambda x: x.mul_(0.999), _scale_in_place),
    Operation("zero_", lambda x: x.zero_(), _zero),
    Operation("x == y", lambda x, y: x == y, lambda d, n, e: ({k: v == e[k] for k, v in d.items()}, n), other=ROWS),
    Operation("x > 0.5", lambda x: x > 0.5, lambda d, n: ({k: v > 0.5 for k, v in d.items()}, n)),
    Operation("abs", lambda x: x.abs(), lambda d, n: ({k: v.abs() for k, v in d.items()}, n)),
    Operation("exp", lambda x: x.exp(), lambda d, n: ({k: v.exp() for k, v in d.items()}, n)),
    Operation("sum(dim=0)", lambda x: x.sum(dim=0), lambda d, n: ({k: v.sum(dim=0) for k, v in d.items()}, n[1:])),
    Operation("mean(dim=0)", lambda x: x.mean(dim=0), lambda d, n: ({k: v.mean(dim=0) for k, v in d.items()}, n[1:])),
    Operation("where", lambda x, y: torch.where(_MASK, x, y), _where, other=ROWS),
)

WORKLOADS = (*on_forms(OPERATIONS), *on_forms((PLUS, PLUS_ONE), ("td50",)))
