"""stack and cat of many collections."""

from typing import Any

import torch

from benchmarks.sides import Hand
from benchmarks.workloads.table import Combination, on_forms


def _stack(items: list[Hand]) -> Hand:
    first, n = items[0]
    return {k: torch.stack([d[k] for d, _ in items]) for k in first}, (len(items), *n)


def _cat(items: list[Hand]) -> Hand:
    first, n = items[0]
    return {k: torch.cat([d[k] for d, _ in items]) for k in first}, (sum(size[0] for _, size in items), *n[1:])


def _stack_nested(items: list[Hand]) -> Hand:
    first, n = items[0]
    out: dict[str, Any] = {}
    for k, v in first.items():
        if isinstance(v, dict):
            out[k] = {j: torch.stack([d[k][j] for d, _ in items]) for j in v}
        else:
            out[k] = torch.stack([d[k] for d, _ in items])
    return out, (len(items), *n)


STACK_8 = Combination("stack of 8", torch.stack, _stack, 8)
CAT_8 = Combination("cat of 8", torch.cat, _cat, 8)

WORKLOADS = (
    *on_forms(
        (
            STACK_8,
            Combination("stack of 64", torch.stack, _stack, 64),
            CAT_8,
            Combination("cat of 64", torch.cat, _cat, 64),
        )
    ),
    *on_forms((STACK_8, CAT_8), ("td50",)),
    *on_forms((Combination("stack of 8", torch.stack, _stack_nested, 8),), ("nested record", "nested td")),
)
