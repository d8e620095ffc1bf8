"""Lazy stacks of eight collections; by hand, a list of eight (dict, batch size)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from benchmarks.sides import Form, Hand, Side, by_hand
from benchmarks.workloads.table import ROWS, Workload

_COUNT = 8


def _parts(side: Side, form: Form) -> list[Any]:
    return [side.make(form, ROWS, seed) for seed in range(_COUNT)]


def _parts_by_hand(form: Form) -> list[Hand]:
    return [by_hand(form, ROWS, seed) for seed in range(_COUNT)]


def _on_stack(
    name: str, library: Callable[[Any], Any], hand: Callable[[list[Hand]], Any], form: Form = "td"
) -> Workload:
    """An operation on a lazy stack."""
    return Workload(
        f"{name} (lazy {form})",
        lambda side: partial(library, side.TensorDict.lazy_stack(_parts(side, form))),
        lambda: partial(hand, _parts_by_hand(form)),
    )


def _on_parts(name: str, library: Callable[[Any, Any], Any], hand: Callable[[list[Hand]], Any]) -> Workload:
    """An operation on the parts, with the class that stacks them."""
    return Workload(
        f"{name} (lazy td)",
        lambda side: partial(library, side.TensorDict, _parts(side, "td")),
        lambda: partial(hand, _parts_by_hand("td")),
    )


def _stacked(parts: list[Hand]) -> Hand:
    first, size = parts[0]
    return {k: torch.stack([d[k] for d, _ in parts]) for k in first}, (len(parts), *size)


def _write(lazy: Any) -> Any:
    lazy["reward"] = _REWARD
    return lazy[3]["reward"]


def _write_by_hand(parts: list[Hand]) -> Any:
    for (d, _), reward in zip(parts, _REWARD.unbind(0), strict=True):
        d["reward"] = reward
    return parts[3][0]["reward"]


def _append(cls: Any, parts: list[Any]) -> Any:
    lazy = cls.lazy_stack(parts[:4])
    for part in parts[4:]:
        lazy.append(part)
    return lazy["reward"]


_REWARD = torch.ones(_COUNT, *ROWS)

WORKLOADS = (
    _on_parts(
        "stack, read a key",
        lambda cls, parts: cls.lazy_stack(parts)["observation"],
        lambda parts: torch.stack([d["observation"] for d, _ in parts]),
    ),
    _on_parts("append 4, read a key", _append, lambda parts: torch.stack([d["reward"] for d, _ in parts])),
    _on_stack(
        "read a key", lambda lazy: lazy["observation"], lambda parts: torch.stack([d["observation"] for d, _ in parts])
    ),
    _on_stack("contiguous", lambda lazy: lazy.contiguous(), _stacked),
    _on_stack("contiguous", lambda lazy: lazy.contiguous(), _stacked, "record"),
    _on_stack("[int]", lambda lazy: lazy[3], lambda parts: parts[3]),
    _on_stack("[slice], parts", lambda lazy: lazy[2:6].unbind(0), lambda parts: parts[2:6]),
    _on_stack(
        "[:, int], parts",
        lambda lazy: lazy[:, 3].unbind(0),
        lambda parts: [({k: v[3] for k, v in d.items()}, n[1:]) for d, n in parts],
    ),
    _on_stack(
        "+ 1, parts",
        lambda lazy: (lazy + 1).unbind(0),
        lambda parts: [(dict(zip(d, torch._foreach_add([*d.values()], 1), strict=True)), n) for d, n in parts],
    ),
    _on_stack(
        "clone, parts",
        lambda lazy: lazy.clone().unbind(0),
        lambda parts: [({k: v.clone() for k, v in d.items()}, n) for d, n in parts],
    ),
    _on_stack("write a key", _write, _write_by_hand),
)
