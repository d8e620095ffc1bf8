"""Reading and writing single fields and keys."""

from typing import Any

import torch
from torch import Tensor

from benchmarks.sides import Batch
from benchmarks.workloads.table import Operation, on_forms

_REWARD = torch.ones(32)


def _check(key: str, value: Tensor, size: Batch) -> Tensor:
    if value.shape[: len(size)] != size:
        raise ValueError(f"{key}: expected batch size {size}, got shape {tuple(value.shape)}")
    return value


def _set_field(x: Any) -> Any:
    x.reward = _REWARD
    return x


def _set_key(x: Any) -> Any:
    x["reward"] = _REWARD
    return x


def _set_by_hand(d: dict[str, Tensor], n: Batch) -> Any:
    d["reward"] = _check("reward", _REWARD, n)
    return d, n


def _set_nested(x: Any) -> Any:
    x["before", "reward"] = _REWARD
    return x


def _set_nested_by_hand(d: dict[str, Any], n: Batch) -> Any:
    d["before"]["reward"] = _check("reward", _REWARD, n)
    return d, n


def _copy_in(x: Any) -> Any:
    return x.set_("reward", _REWARD)


def _copy_in_by_hand(d: dict[str, Tensor], n: Batch) -> Any:
    d["reward"].copy_(_REWARD)
    return d, n


def _four_by_hand(d: dict[str, Tensor], _: Batch) -> Any:
    return d["observation"], d["action"], d["reward"], d["value"]


_FIELDS = (
    Operation("read four fields", lambda x: (x.observation, x.action, x.reward, x.value), _four_by_hand),
    Operation("write a field", _set_field, _set_by_hand),
)

_KEYS = (
    Operation("read four keys", lambda x: (x["observation"], x["action"], x["reward"], x["value"]), _four_by_hand),
    Operation("write a key", _set_key, _set_by_hand),
    Operation("get", lambda x: x.get("reward"), lambda d, n: d.get("reward")),
    Operation("set", lambda x: x.set("reward", _REWARD), _set_by_hand),
    Operation("set_", _copy_in, _copy_in_by_hand),
)

_NESTED_FIELDS = (
    Operation(
        "read two nested fields",
        lambda x: (x.before.observation, x.after.reward),
        lambda d, n: (d["before"]["observation"], d["after"]["reward"]),
    ),
)

_NESTED_KEYS = (
    Operation(
        "read two nested keys",
        lambda x: (x["before", "observation"], x["after", "reward"]),
        lambda d, n: (d["before"]["observation"], d["after"]["reward"]),
    ),
    Operation("get a nested key", lambda x: x.get(("before", "reward")), lambda d, n: d["before"]["reward"]),
    Operation("write a nested key", _set_nested, _set_nested_by_hand),
)

WORKLOADS = (
    *on_forms(_FIELDS, ("record",)),
    *on_forms(_KEYS, ("td",)),
    *on_forms(_NESTED_FIELDS, ("nested record",)),
    *on_forms(_NESTED_KEYS, ("nested td",)),
)
