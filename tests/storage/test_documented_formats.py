"""docs/formats.md is enough to read what is written: a small reader for each format, made of that document alone.

The readers use json, numpy, zlib, zipfile, safetensors, h5py and zarr, and nothing of this package.
"""

from __future__ import annotations

import base64
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from tensorclass import (
    Column,
    MetaData,
    NonTensorData,
    NonTensorStack,
    Ragged,
    TensorClass,
    TensorDict,
    Text,
    UnbatchedTensor,
    lazy_stack,
    pack_memmap,
)
from tests.storage.formats import a_bit_of_all

Read = Callable[[tuple[str, ...], str, str, list[int]], bytes]  #: the bytes of a tensor


class Values(NamedTuple):
    """A tensor."""

    dtype: str
    shape: list[int]
    raw: bytes


SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4,
    "float32": 4, "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip


def size_of(dtype: str, shape: list[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * SIZES[dtype]


# -- objects ----------------------------------------------------------------------------------------------------------


def object_of(form: Any) -> Any:
    if isinstance(form, dict):
        return {key: object_of(item) for key, item in form.items()}
    if not isinstance(form, list):
        return form
    if form[:1] != ["<tag>"]:
        return [object_of(item) for item in form]
    _, name, content = form
    if name in ("list", "tuple", "set", "frozenset"):
        kinds: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
        return kinds[name]([object_of(item) for item in content])
    if name == "dict":
        return {object_of(key): object_of(item) for key, item in content}
    if name == "bytes":
        return base64.b64decode(content)
    if name == "float":
        return float(content)
    if name == "complex":
        return complex(float(content[0]), float(content[1]))
    if name == "numpy":
        return np.frombuffer(base64.b64decode(content[1]), np.dtype(content[0]))[0]
    raise NotImplementedError(name)


# -- nodes ------------------------------------------------------------------------------------------------------------


def unsealed(text: bytes) -> Any:
    """The JSON of a text, whose last field is the CRC-32 of the bytes before it."""
    found = re.fullmatch(rb'(.*), "crc32":"([0-9a-f]{8})"\}+', text, re.DOTALL)
    assert found is not None
    assert f"{zlib.crc32(found[1]):08x}".encode() == found[2]
    return json.loads(text)


def of_node(node: Any, read: Read, path: tuple[str, ...] = ()) -> Any:
    kind = node["type"]
    if kind == "collection":
        entries = {key: of_node(entry, read, (*path, key)) for key, entry in node["entries"].items()}
        return collection(node, entries)
    if kind == "lazy_stack":
        parts = [of_node(part, read, (*path, str(at))) for at, part in enumerate(node["parts"])]
        return ["lazy_stack", node["stack_dim"], node["stack_dim_name"], parts]
    if kind in ("tensor", "unbatched"):
        return checked(kind, node, [Values(*of(node), read(path, "", *of(node)))])
    if kind == "jagged":
        offsets = ("int64", [node["rows"] + 1])
        parts = [Values(*of(node), read(path, "", *of(node))), Values(*offsets, read(path, "offsets", *offsets))]
        return checked(kind, node, parts)
    if kind == "column":
        return column(node, {key: of_node(entry, read, (*path, key)) for key, entry in node["entries"].items()})
    if kind in ("strings", "object_rows"):
        return texts(node, {key: of_node(entry, read, (*path, key)) for key, entry in node["entries"].items()})
    return objects(node)


def column(node: Any, entries: dict[str, Any]) -> Any:
    assert set(entries) == {"values", "spans"}
    lengths = np.frombuffer(entries["spans"][1].raw, np.int64).reshape(-1, 2)[:, 1]
    assert node["missing"] == bool((lengths < 0).any())
    return ["column", node["column"], node.get("names"), entries["values"], entries["spans"]]


def texts(node: Any, entries: dict[str, Any]) -> Any:
    text = entries["values"][1].raw
    spans = np.frombuffer(entries["spans"][1].raw, np.int64).reshape(-1, 2).tolist()
    codes = np.frombuffer(entries["codes"][1].raw, np.int64).tolist()
    assert entries["codes"][1].shape == node["batch_size"]
    rows: list[Any] = [text[start : start + length].decode() for start, length in spans]
    if node["type"] == "object_rows":
        rows = [object_of(json.loads(row)) for row in rows]
    return ["objects", node["batch_size"], [rows[code] for code in codes]]


def of(node: Any) -> tuple[str, list[int]]:
    return node["dtype"], node["shape"]


def collection(node: Any, entries: dict[str, Any]) -> Any:
    return ["collection", node.get("class", {}).get("name"), node["batch_size"], node.get("names"), entries]


def checked(kind: str, node: Any, parts: list[Values]) -> Any:
    if "crc32" in node:
        assert node["crc32"] == [zlib.crc32(part.raw) for part in parts]
    return [kind, *parts]


def objects(node: Any) -> Any:
    if node["type"] == "object":
        return [node.get("kind", "object"), node["batch_size"], object_of(node["data"])]
    return ["objects", node["batch_size"], [object_of(item) for item in node["data"]]]


# -- folders and archives ---------------------------------------------------------------------------------------------


def name_of(key: str) -> str:
    if key in (".", "..", "meta.json"):
        return key.replace(".", "%2E")
    return re.sub(r'[\0- "%*/:<>?\\|\x7f\ud800-\udfff]', lambda found: f"%{ord(found[0]):02X}", key) or "%"


def of_folder(file: Callable[[str], bytes], inside: str = "") -> Any:
    text = file(f"{inside}meta.json")
    meta = unsealed(text) if b'"crc32"' in text else json.loads(text)
    more = meta.get("_tensorclass", {"version": 1})
    assert more["version"] == 1
    if "parts" in more:
        parts = [of_folder(file, f"{inside}{at}/") for at in range(more["parts"])]
        return ["lazy_stack", meta["stack_dim"], meta["stack_dim_name"], parts]
    known = more.get("entries", {})

    def read(path: tuple[str, ...], part: str, dtype: str, shape: list[int]) -> bytes:
        size = size_of(dtype, shape)
        return file(f"{inside}{name_of(path[0])}{f'%{part}' if part else ''}.memmap")[:size] if size else b""

    entries: dict[str, Any] = {}
    for key in {**meta, **known}:
        about, here = meta.get(key), known.get(key, {})
        if here.get("type") in ("object", "objects") and "data" not in here:
            text = file(f"{inside}{name_of(key)}/meta.json")
            assert here["meta_crc32"] == zlib.crc32(text)
            data = json.loads(text)["data"]
            for _ in here["batch_size"][1:] if here["type"] == "objects" else ():
                data = [item for row in data for item in row]
            entries[key] = objects({**here, "data": data})
        elif here.get("type") in ("collection", "lazy_stack", "column", "strings", "object_rows"):
            entries[key] = of_folder(file, f"{inside}{name_of(key)}/")
        elif "type" in here:
            entries[key] = of_node(here, read, (key,))
        elif key in ("shape", "device", "_names", "_type", "_format_version", "_class", "_tensorclass"):
            continue
        elif "dtype" in about:
            node = {**here, "type": "tensor", "dtype": about["dtype"].removeprefix("torch."), "shape": about["shape"]}
            entries[key] = of_node(node, read, (key,))
        else:
            entries[key] = of_folder(file, f"{inside}{name_of(key)}/")
    if "column" in more:
        return column(more["column"], entries)
    for kind in ("strings", "object_rows"):
        if kind in more:
            return texts({"type": kind, "batch_size": meta["shape"]}, entries)
    return collection({**more, "batch_size": meta["shape"], "names": meta.get("_names")}, entries)


def read_folder(path: Path) -> Any:
    return of_folder(lambda name: (path / name).read_bytes())


def read_archive(path: Path) -> Any:
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist()[0] == "meta.json"
        return of_folder(archive.read)


# -- one file ---------------------------------------------------------------------------------------------------------


def read_safetensors(path: Path) -> Any:
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__")
    assert metadata["tensorclass_version"] == "1"
    known = unsealed(metadata["tensorclass"].encode())
    assert known["version"] == 1

    def read(where: tuple[str, ...], part: str, dtype: str, shape: list[int]) -> bytes:
        name = ".".join(key.replace("%", "%25").replace(".", "%2E") for key in where)
        start, stop = header[f"{name}%{part}" if part else name]["data_offsets"]
        return raw[8 + length + start : 8 + length + stop]

    with safe_open(path, "np") as file:  # other tools see the same names
        assert sorted(file.keys()) == sorted(header)
    return of_node(known["tree"], read)


def read_consolidated(path: Path) -> Any:
    raw = path.read_bytes()
    before = len(raw) - 8 - int.from_bytes(raw[-8:], "little")
    assert raw[before - 8 : before] == b"tensorcl"
    length = int.from_bytes(raw[before - 16 : before - 8], "little")
    size = before - 16 - length
    known = unsealed(raw[size : size + length])
    assert (known["version"], known["size"]) == (1, size)
    starts: Iterator[int] = iter(known["starts"])

    def read(where: tuple[str, ...], part: str, dtype: str, shape: list[int]) -> bytes:
        start = next(starts)
        if size_of(dtype, shape):
            assert start % max(8, SIZES[dtype]) == 0
        return raw[start : start + size_of(dtype, shape)]

    return of_node(known["tree"], read)


# -- HDF5 and zarr ----------------------------------------------------------------------------------------------------


def key_of(name: str) -> str:
    return "" if name == "%" else re.sub("%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), name)


def values_of(array: Any, said: Any) -> Values:
    found = np.ascontiguousarray(array[...])
    return Values(said.get("dtype", str(found.dtype)), list(array.shape), found.tobytes())


def of_group(group: Any, note: Callable[[Any], Any], text: Callable[[Any, Any], Any]) -> Any:
    said = note(group)
    if said["type"] == "jagged":
        return ["jagged", *(values_of(group[part], note(group[part]) or {}) for part in ("values", "offsets"))]
    assert said["version"] == 1
    if said["type"] == "object_rows":
        stored, places = bytes(group["values"][...]), np.asarray(group["spans"][...])
        texts = [stored[start : start + length].decode() for start, length in places.reshape(-1, 2).tolist()]
        rows = texts if said["form"] == "text" else [object_of(json.loads(row)) for row in texts]
        return ["objects", list(places.shape[:-1]), rows]
    if said["type"] == "column":
        spans = ["tensor", values_of(group["spans"], note(group["spans"]) or {})]
        items, about = group["values"], note(group["values"]) or {"type": "tensor"}
        nested = about["type"] == "column"
        below = of_group(items, note, text) if nested else ["tensor", values_of(items, about)]
        return column(said, {"values": below, "spans": spans})
    if said["type"] == "lazy_stack":
        parts = [of_group(group[str(at)], note, text) for at in range(said["parts"])]
        return ["lazy_stack", said["stack_dim"], said["stack_dim_name"], parts]
    entries: dict[str, Any] = {}
    for name in said.get("order", group):
        about = note(group[name]) or {"type": "tensor"}
        kind = about["type"]
        if kind in ("object", "objects"):
            entries[key_of(name)] = text(group[name], about)
        elif kind in ("tensor", "unbatched"):
            entries[key_of(name)] = [kind, values_of(group[name], about)]
        else:
            entries[key_of(name)] = of_group(group[name], note, text)
    return collection(said, entries)


def read_h5(path: Path) -> Any:
    def note(node: Any) -> Any:
        said = node.attrs.get("tensorclass")
        return None if said is None else json.loads(said)

    def text(array: Any, said: Any) -> Any:
        found = array.asstr()[()]
        if said["type"] == "object":
            data = found if said["form"] == "text" else object_of(json.loads(found)["data"])
            return [said.get("kind", "object"), said["batch_size"], data]
        rows = found.reshape(-1).tolist()
        rows = rows if said["form"] == "text" else [object_of(json.loads(row)) for row in rows]
        return ["objects", said["batch_size"], rows]

    with h5py.File(path) as file:
        return of_group(file, note, text)


def read_zarr(path: Path) -> Any:
    import zarr  # there is none for Python 3.10

    def text(array: Any, said: Any) -> Any:
        found = json.loads(bytes(array[...]))
        found = found["data"] if said["form"] == "json" and said["type"] == "object" else found
        for _ in said["batch_size"][1:] if said["type"] == "objects" else ():
            found = [item for row in found for item in row]
        return objects({**said, "data": found})

    return of_group(zarr.open_group(path, mode="r"), lambda node: node.attrs.get("tensorclass"), text)


# -- what was written -------------------------------------------------------------------------------------------------


def values(tensor: Tensor) -> Values:
    raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return Values(str(tensor.dtype).removeprefix("torch."), list(tensor.shape), raw)


def told(data: Any) -> Any:
    """A collection as the readers give it."""
    if isinstance(data, UnbatchedTensor):
        return ["unbatched", values(data.data)]
    if isinstance(data, Tensor):
        return ["jagged", values(data.values()), values(data.offsets())] if data.is_nested else ["tensor", values(data)]
    if isinstance(data, (Text, Ragged)):
        kind, rows = type(data).__name__, data.compact()
        names = data.names if any(data.names) else None
        return ["column", kind, names, told(rows.values), told(rows.spans)]
    if not data._is_tree():
        size, many = list(data.batch_size), hasattr(data, "_codes") and bool(data._store)
        flat = data.reshape(-1).tolist() if many else data.data
        return ["objects" if many else "MetaData" if isinstance(data, MetaData) else "object", size, flat]
    if not data._holds_values():
        return ["lazy_stack", data._store.dim, data._store.name, [told(part) for part in data._nodes()]]
    name = type(data).__qualname__ if isinstance(data, TensorClass) else None
    names = data.names if any(data.names) else None
    return ["collection", name, list(data.batch_size), names, {key: told(item) for key, item in data._store.items()}]


class Inner(TensorClass):
    q: Tensor


class Sample(TensorClass, stack_objects=True):
    x: Tensor
    inner: Inner
    text: str
    rows: Column[str]


def odd() -> TensorDict:
    """Keys, dtypes and objects out of the ordinary."""
    return TensorDict(
        {
            "a.b": torch.ones(2, 2),
            "%25": torch.ones(2, 2, dtype=torch.bfloat16),
            "..": torch.tensor([1 + 2j, 3]),
            "__x": torch.tensor([True, False]),
            "": torch.ones(2, dtype=torch.float8_e4m3fn),
            "shape": torch.ones(2, 3, dtype=torch.int8).t().contiguous().t(),
            "_names": {"a/b c:d": torch.zeros(2, 1, 0)},
            "device": lazy_stack([TensorDict({"a": torch.ones(1)}), TensorDict({"b": torch.ones(1)})]),
            "u": UnbatchedTensor(torch.ones(3, dtype=torch.bfloat16)),
            "meta": MetaData({"of": "all"}),
            "list": NonTensorData([["<tag>", "no"], {1: float("inf")}, np.float32(1.5), 1j], batch_size=[2]),
            "below": {"text": "a\0b", "none": NonTensorData(None, batch_size=[2])},
        },
        [2],
    )


def record() -> Sample:
    return Sample(torch.ones(3, 2), Inner(torch.arange(3), batch_size=[3]), "all", ["a", "b", "c"], batch_size=[3])


def two_dimensions() -> TensorDict:
    rows = lazy_stack([TensorDict({"t": text}, [3]) for text in "ab"]).contiguous()
    return TensorDict({"x": torch.rand(2, 3), "rows": rows["t"], "odd": [[(1,), 2, 3], [b"4", 5, 6]]}, [2, 3])


def columns() -> TensorDict:
    """Text and ragged rows in another order than in memory, many strings and many other objects."""
    deep = Ragged.from_list([[[1], [2, 3]], [], [[4]] * 2] * 500, dtype=torch.bfloat16, ragged_dims=2)
    return TensorDict(
        {
            "text": Text(["a", None, "\u00e9"] * 500),
            "device": Ragged([[1.0], [], [2.0, 3.0]] * 500),
            "below": {"deep": deep},
            "strings": [f"s{row % 3}" for row in range(1500)],
            "tuples": NonTensorStack(*[(row % 3,) for row in range(1500)]),
        },
        [1500],
        names=["time"],
    )[torch.arange(1499, 0, -1)]


DATA: dict[str, Callable[[], Any]] = {
    "a bit of all": a_bit_of_all, "odd": odd, "a record": record, "two dimensions": two_dimensions,
    "columns": columns,
    "nothing": lambda: TensorDict({}, [4]),
}  # fmt: skip


def packed(data: Any, path: Path) -> None:
    data.memmap(path.with_suffix(".folder"), checksum=True)
    pack_memmap(path.with_suffix(".folder"), path, compression="deflate")


FORMATS: dict[str, tuple[Callable[[Any, Path], object], Callable[[Path], Any]]] = {
    "folder": (lambda data, path: data.memmap(path), read_folder),
    "folder with checksums": (lambda data, path: data.memmap(path, checksum=True), read_folder),
    "archive": (lambda data, path: data.memmap(path, archive=True), read_archive),
    "packed archive": (packed, read_archive),
    "safetensors": (lambda data, path: data.save_safetensors(path, checksum=True), read_safetensors),
    "consolidated": (lambda data, path: data.consolidate(path), read_consolidated),
    "h5": (lambda data, path: data.to_h5(path).close(), read_h5),
    "zarr": (lambda data, path: data.to_zarr(path).close(), read_zarr),
}


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("format", FORMATS)
def test_a_reader_made_of_the_document_reads_what_is_written(format: str, data: str, tmp_path: Path) -> None:
    write, read = FORMATS[format]
    given = DATA[data]()
    write(given, tmp_path / "x")
    assert normal(read(tmp_path / "x")) == normal(told(given))


def normal(found: Any) -> Any:
    """Entries by key, since a folder keeps those of some kinds behind the others; numbers that are equal as text."""
    if isinstance(found, Values):
        return found
    if isinstance(found, dict):
        return {key: normal(found[key]) for key in sorted(found, key=repr)}
    return [normal(item) for item in found] if isinstance(found, list) else found
