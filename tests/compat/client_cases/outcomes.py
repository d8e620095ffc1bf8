"""Outcomes of cases in a form that knows neither package: tensors, numbers, text, dicts and lists."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from tensordict import is_non_tensor, is_tensor_collection
from torch import Tensor

#: a case draws its numbers from the seed that it is given, and returns what it found
Case = Callable[[], Any]


def plain(value: Any) -> Any:
    """Return a value with each collection as a dict of its batch size, its names and what it holds."""
    if isinstance(value, torch.Size):
        return list(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if is_non_tensor(value):
        return {"object": plain(value.tolist() if value.batch_size else value.data)}
    if is_tensor_collection(value):
        held = {} if value.device is None else {"device": str(value.device)}
        keys = sorted(value.keys())
        return {
            "collection": list(value.batch_size),
            "names": [str(name) for name in value.names],
            **held,
            "values": {key: plain(_entry(value, key)) for key in keys},
        }
    if isinstance(value, Tensor):
        if value.is_nested:
            return {"rows": [plain(one) for one in value.unbind()]}
        return value.detach().as_subclass(Tensor).clone()
    if isinstance(value, np.ndarray):
        return torch.as_tensor(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    return type(value).__name__


def _entry(data: Any, key: str) -> Any:
    """Return a value as it is stored; a lazy stack of values of different shapes as a list."""
    try:
        return data.get(key)
    except RuntimeError:
        return [one.get(key) for one in data.unbind(data.stack_dim)]


def outcome(case: Case) -> Any:
    """Run a case with fixed seeds, and return what it found, or the class of its error."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 (TorchRL draws from it)
    torch.manual_seed(0)
    try:
        return plain(case())
    except Exception as error:
        return {"error": type(error).__name__, "message": str(error)[:300]}


def differences(a: Any, b: Any, where: str = "") -> list[str]:
    """Return what differs between two outcomes; messages of errors may."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return [f"{where}: {list(a.shape)} {a.dtype}, {list(b.shape)} {b.dtype}"]
        if not torch.equal(a, b) and not torch.allclose(a, b, rtol=0, atol=0, equal_nan=True):
            return [f"{where}: other numbers"]
        return []
    if isinstance(a, dict) and isinstance(b, dict):
        if "error" in a and "error" in b:
            return [] if a["error"] == b["error"] else [f"{where}: {a}, {b}"]
        if a.keys() != b.keys():
            return [
                f"{where}: {str(a)[:300]}, {str(b)[:300]}"
                if "error" in a or "error" in b
                else f"{where}: keys {sorted(a)}, {sorted(b)}"
            ]
        return [line for key in a for line in differences(a[key], b[key], f"{where}.{key}")]
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            return [f"{where}: {len(a)} items, {len(b)} items"]
        return [line for i, (x, y) in enumerate(zip(a, b, strict=True)) for line in differences(x, y, f"{where}[{i}]")]
    same = type(a) is type(b) and (a == b or (a != a and b != b))
    return [] if same else [f"{where}: {str(a)[:200]!r}, {str(b)[:200]!r}"]
