"""Functions over the leaves, pytrees and pickling."""

import pickle
from typing import Any

from torch import Tensor
from torch.utils import _pytree

from benchmarks.sides import Batch
from benchmarks.workloads.table import Operation, on_forms


def _double(value: Tensor) -> Tensor:
    return value * 2


def _double_all_but_reward(key: str, value: Tensor) -> Tensor:
    return value if key == "reward" else value * 2


def _double_all(d: dict[str, Any], n: Batch) -> Any:
    return {k: _double(v) for k, v in d.items()}, n


def _double_nested(d: dict[str, Any], n: Batch) -> Any:
    return {k: {j: _double(w) for j, w in v.items()} if isinstance(v, dict) else _double(v) for k, v in d.items()}, n


def _there_and_back(tree: Any) -> Any:
    leaves, spec = _pytree.tree_flatten(tree)
    return _pytree.tree_unflatten(leaves, spec)


APPLY = Operation("apply", lambda x: x.apply(_double), _double_all)
PYTREE = Operation("pytree there and back", _there_and_back, lambda d, n: (_there_and_back(d), n))
PICKLE = Operation(
    "pickle there and back",
    lambda x: pickle.loads(pickle.dumps(x)),
    lambda d, n: pickle.loads(pickle.dumps((d, n))),
)

FLAT = (
    APPLY,
    Operation(
        "named_apply",
        lambda x: x.named_apply(_double_all_but_reward),
        lambda d, n: ({k: _double_all_but_reward(k, v) for k, v in d.items()}, n),
    ),
    PYTREE,
    PICKLE,
)

WORKLOADS = (
    *on_forms(FLAT),
    *on_forms((APPLY, PYTREE, PICKLE), ("td50",)),
    *on_forms((Operation("apply", lambda x: x.apply(_double), _double_nested), PYTREE), ("nested record", "nested td")),
)
