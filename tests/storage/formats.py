"""The formats of files, a line each: what is promised of all of them is tested over this table."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tensorclass import Ragged, TensorDict, Text, UnbatchedTensor, lazy_stack
from tensorclass.storage import PersistentTensorDict
from tensorclass.storage.hdf5_zarr.persistent_tensordict import _in_memory
from tests.storage import payload
from tests.storage.payload import Spans


class Format(NamedTuple):
    """How a collection is written to a path, and read again."""

    save: Callable[[Any, Path], object]
    load: Callable[[Path], Any]
    save_checked: Callable[[Any, Path], object] | None = None  #: with checksums
    load_checked: Callable[[Path], Any] | None = None
    is_folder: bool = False
    #: which bytes of its files are values of tensors: a change of these is seen with checksums alone
    payload: Callable[[Path], Spans] = lambda path: {}


def _close(collection: Any) -> None:
    """Closes the file that a collection is in."""
    while not isinstance(collection, PersistentTensorDict):  # the parts of a lazy stack are in it, not the stack
        collection = collection._store.items_[0]
    collection.close()


def _read(collection: Any) -> Any:
    """The values of a collection in a file, which is closed."""
    found = _in_memory(collection)
    _close(collection)
    return found


FORMATS: dict[str, Format] = {
    "folder": Format(
        lambda data, path: data.memmap(path),
        TensorDict.load_memmap,
        lambda data, path: data.memmap(path, checksum=True),
        lambda path: TensorDict.load_memmap(path, verify=True),
        is_folder=True,
        payload=payload.of_folder,
    ),
    "archive": Format(
        lambda data, path: data.memmap(path, archive=True),
        TensorDict.load_memmap,
        lambda data, path: data.memmap(path, archive=True),  # the ZIP format has checksums in any case
        lambda path: TensorDict.load_memmap(path, verify=True),
        payload=payload.of_archive,
    ),
    "deflated": Format(
        lambda data, path: data.memmap(path, archive=True, compression="deflated"), TensorDict.load_memmap
    ),
    "safetensors": Format(
        lambda data, path: data.save_safetensors(path),
        TensorDict.load_safetensors,
        lambda data, path: data.save_safetensors(path, checksum=True),
        lambda path: TensorDict.load_safetensors(path, verify=True),
        payload=payload.of_safetensors,
    ),
    "consolidated": Format(
        lambda data, path: data.consolidate(path), TensorDict.from_consolidated, payload=payload.of_consolidated
    ),
    "h5": Format(
        lambda data, path: _close(data.to_h5(path)),
        lambda path: _read(TensorDict.from_h5(path)),
        lambda data, path: _close(data.to_h5(path, checksum=True)),
        lambda path: _read(TensorDict.from_h5(path, verify=True)),
        payload=payload.of_h5,
    ),
    "h5-chunks": Format(
        lambda data, path: _close(data.to_h5(path, resizable=True, compression="gzip")),
        lambda path: _read(TensorDict.from_h5(path)),
        lambda data, path: _close(data.to_h5(path, resizable=True, compression="gzip", checksum=True)),
        lambda path: _read(TensorDict.from_h5(path, verify=True)),
        payload=payload.of_h5,
    ),
    "zarr": Format(
        lambda data, path: _close(data.to_zarr(path)),
        lambda path: _read(TensorDict.from_zarr(path)),
        lambda data, path: _close(data.to_zarr(path, checksum=True)),
        lambda path: _read(TensorDict.from_zarr(path, verify=True)),
        is_folder=True,
        payload=payload.of_zarr,
    ),
}
if find_spec("zarr") is None:  # on Python 3.10
    del FORMATS["zarr"]


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
            "note": Text([f"é{value}", None]),
            "tokens": Ragged([[value] * 3, [value]]),
            "odd": (value, {"a": {1.5, float(value)}}, b"%d" % value),
        },
        [2],
        names=["time"],
    )


def plain(value: int = 1) -> TensorDict:
    """A collection of tensors and texts alone, all of them that number."""
    return TensorDict(
        {
            "x": torch.full((3, 2), float(value)),
            "below": TensorDict({"a": torch.full((3, 2, 40), value)}, [3, 2], names=["time", "place"]),
            "text": f"text {value}",
        },
        [3],
        names=["time"],
    )


def contents(data: Any) -> Any:
    """A collection as plain Python objects, with shapes, dtypes and names, to be compared."""
    if isinstance(data, UnbatchedTensor):
        return ["unbatched", contents(data._tensor)]
    if isinstance(data, torch.Tensor):
        if data.is_nested:
            return ["jagged", contents(data.values()), contents(data.offsets())]
        flat = torch.empty(data.numel(), dtype=data.dtype).copy_(data.detach().reshape(-1))
        return [str(data.dtype), list(data.shape), bytes(flat.view(torch.uint8).tolist())]
    if isinstance(data, (Text, Ragged)):
        return [type(data).__name__, list(data.batch_size), data.names, contents(data.values), contents(data.spans)]
    if data._is_tree():
        if not data._holds_values():
            return ["stack", data._store.dim, [contents(part) for part in data._nodes()]]
        entries = {key: contents(value) for key, value in data._store.items()}
        return [type(data).__name__, list(data.batch_size), data.names, entries]
    return [type(data).__name__, list(data.batch_size), repr(data.tolist())]
