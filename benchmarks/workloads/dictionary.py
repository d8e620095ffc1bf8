"""The dict interface."""

from types import MappingProxyType
from typing import Any

import torch

from benchmarks.sides import Batch
from benchmarks.workloads.table import ROWS, Operation, on_forms

_NEW = {"reward": torch.ones(32), "extra": torch.zeros(32, 2)}


def _update(d: dict[str, Any], n: Batch) -> Any:
    for key, value in _NEW.items():
        if value.shape[: len(n)] != n:
            raise ValueError(f"{key}: expected batch size {n}, got shape {tuple(value.shape)}")
        d[key] = value
    return d, n


def _update_in_place(x: Any, y: Any) -> Any:
    return x.update_(y)


def _update_in_place_by_hand(d: dict[str, Any], n: Batch, e: dict[str, Any]) -> Any:
    for key, value in e.items():
        if value.shape != d[key].shape:
            raise ValueError(f"{key}: expected shape {tuple(d[key].shape)}, got {tuple(value.shape)}")
    for key, value in e.items():
        d[key].copy_(value)
    return d, n


def _pop(x: Any) -> Any:
    """Takes a key out and puts it back, so that the next call finds it."""
    value = x.pop("reward")
    x["reward"] = value
    return value


def _pop_by_hand(d: dict[str, Any], n: Batch) -> Any:
    value = d.pop("reward")
    if value.shape[: len(n)] != n:
        raise ValueError("reward")
    d["reward"] = value
    return value


def _rename_by_hand(d: dict[str, Any], n: Batch) -> Any:
    d["gain"] = d.pop("reward")
    d["reward"] = d.pop("gain")
    return d, n


def _nested_keys(d: dict[str, Any], n: Batch) -> Any:
    keys: list[Any] = []
    for k, v in d.items():
        if isinstance(v, dict):
            keys += [(k, j) for j in v]
        else:
            keys.append(k)
    return keys


def _nested_items(d: dict[str, Any], n: Batch) -> Any:
    items: list[Any] = []
    for k, v in d.items():
        if isinstance(v, dict):
            items += [[(k, j), w] for j, w in v.items()]
        else:
            items.append([k, v])
    return items


def _flatten_keys(d: dict[str, Any], n: Batch) -> Any:
    flat: dict[str, Any] = {}
    for k, v in d.items():
        if isinstance(v, dict):
            flat.update({f"{k}.{j}": w for j, w in v.items()})
        else:
            flat[k] = v
    return flat, n


def _flatten_and_unflatten(d: dict[str, Any], n: Batch) -> Any:
    out: dict[str, Any] = {}
    for key, value in _flatten_keys(d, n)[0].items():
        head, _, tail = key.partition(".")
        if tail:
            out.setdefault(head, {})[tail] = value
        else:
            out[key] = value
    return out, n


FLAT = (
    Operation("keys", lambda x: list(x.keys()), lambda d, n: list(d.keys())),
    Operation("items", lambda x: [[k, v] for k, v in x.items()], lambda d, n: [[k, v] for k, v in d.items()]),
    Operation("contains", lambda x: ("reward" in x, "absent" in x), lambda d, n: ("reward" in d, "absent" in d)),
    Operation("get a default", lambda x: x.get("absent", None), lambda d, n: d.get("absent", None)),
    Operation("update", lambda x: x.update(_NEW), _update),
    Operation(
        "select",
        lambda x: x.select("observation", "reward"),
        lambda d, n: ({k: d[k] for k in ("observation", "reward")}, n),
    ),
    Operation(
        "exclude",
        lambda x: x.exclude("observation", "reward"),
        lambda d, n: ({k: v for k, v in d.items() if k not in ("observation", "reward")}, n),
    ),
    Operation("pop and put back", _pop, _pop_by_hand),
    Operation(
        "rename_key_ twice",
        lambda x: x.rename_key_("reward", "gain").rename_key_("gain", "reward"),
        _rename_by_hand,
    ),
    Operation("empty", lambda x: x.empty(), lambda d, n: ({}, n)),
)

NESTED = (
    Operation("nested keys", lambda x: list(x.keys(True, True)), _nested_keys),
    Operation("nested items", lambda x: [[k, v] for k, v in x.items(True, True)], _nested_items),
    Operation("flatten_keys", lambda x: x.flatten_keys("."), _flatten_keys),
    Operation("flatten and unflatten keys", lambda x: x.flatten_keys(".").unflatten_keys("."), _flatten_and_unflatten),
)

# By hand, a read-only view of the dict is the lock, and dropping it unlocks.
LOCK = Operation(
    "lock_ and unlock_", lambda x: x.lock_().is_locked and x.unlock_(), lambda d, n: MappingProxyType(d) and (d, n)
)

IN_PLACE = Operation("update_", _update_in_place, _update_in_place_by_hand, other=ROWS)

WORKLOADS = (
    *on_forms(FLAT, ("td",)),
    *on_forms((IN_PLACE,), ("record", "td", "td50")),
    *on_forms(NESTED, ("nested td",)),
    *on_forms((LOCK,)),
)
