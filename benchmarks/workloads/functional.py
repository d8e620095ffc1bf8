"""`torch.func` over collections; by hand, over dicts."""

from typing import Any

import torch

from benchmarks.sides import Batch
from benchmarks.workloads.table import Operation, on_forms


def _score(x: Any) -> Any:
    return x["reward"] + x["observation"].sum(-1)


def _field_score(x: Any) -> Any:
    return x.reward + x.observation.sum(-1)


def _scaled(x: Any) -> Any:
    return x * 2


def _scaled_by_hand(d: dict[str, Any]) -> dict[str, Any]:
    return {k: v * 2 for k, v in d.items()}


def _vmap(d: dict[str, Any], n: Batch) -> Any:
    return torch.vmap(_score)(d)


WORKLOADS = (
    *on_forms((Operation("vmap to a tensor", lambda x: torch.vmap(_score)(x), _vmap),), ("td",)),
    *on_forms((Operation("vmap to a tensor", lambda x: torch.vmap(_field_score)(x), _vmap),), ("record",)),
    *on_forms(
        (
            Operation(
                "vmap to a collection",
                lambda x: torch.vmap(_scaled)(x),
                lambda d, n: (torch.vmap(_scaled_by_hand)(d), n),
            ),
        )
    ),
)
