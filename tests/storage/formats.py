"""The formats of files, a line each: what is promised of all of them is tested over this table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tensorclass import TensorDict, UnbatchedTensor, lazy_stack


class Format(NamedTuple):
    """How a collection is written to a path, and read again."""

    save: Callable[[Any, Path], object]
    load: Callable[[Path], Any]
    save_checked: Callable[[Any, Path], object] | None = None  #: with checksums
    load_checked: Callable[[Path], Any] | None = None


FORMATS: dict[str, Format] = {
    "folder": Format(
        lambda data, path: data.memmap(path),
        TensorDict.load_memmap,
        lambda data, path: data.memmap(path, checksum=True),
        lambda path: TensorDict.load_memmap(path, verify=True),
    ),
    "safetensors": Format(
        lambda data, path: data.save_safetensors(path),
        TensorDict.load_safetensors,
        lambda data, path: data.save_safetensors(path, checksum=True),
        lambda path: TensorDict.load_safetensors(path, verify=True),
    ),
}


def a_bit_of_all(value: int = 1) -> TensorDict:
    """A collection of everything that files hold, the same for the same number, in which all values are that number."""
    ragged = torch.nested.nested_tensor([torch.full((2,), value), torch.full((3,), value)], layout=torch.jagged)
    return TensorDict(
        {
            "x": torch.full((2, 3), float(value)),
            "below": {"c": torch.full((2,), value, dtype=torch.int16), "d/e": torch.full((2, 4), value % 2 == 1)},
            "parts": lazy_stack([TensorDict(a=torch.full((n,), value)) for n in (1, 3)]),
            "ragged": ragged,
            "one": UnbatchedTensor(torch.full((3,), value, dtype=torch.uint8)),
            "empty": torch.zeros(2, 0),
            "text": f"text {value}",
            "rows": [f"u{value}", f"v{value}"],
            "odd": (value, {"a": {1.5, float(value)}}, b"%d" % value),
        },
        [2],
        names=["time"],
    )


def contents(data: Any) -> Any:
    """A collection as plain Python objects, with shapes, dtypes and names, to be compared."""
    if isinstance(data, UnbatchedTensor):
        return ["unbatched", contents(data._tensor)]
    if isinstance(data, torch.Tensor):
        if data.is_nested:
            return ["jagged", contents(data.values()), contents(data.offsets())]
        return [str(data.dtype), list(data.shape), bytes(data.contiguous().reshape(-1).view(torch.uint8).tolist())]
    if data._is_tree():
        if not data._holds_values():
            return ["stack", data._store.dim, [contents(part) for part in data._nodes()]]
        entries = {key: contents(value) for key, value in data._store.items()}
        return [type(data).__name__, list(data.batch_size), data.names, entries]
    return ["objects", list(data.batch_size), repr(data.tolist())]
