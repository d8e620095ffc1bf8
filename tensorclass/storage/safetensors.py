"""One file in the safetensors format, which other tools read too: all tensors, and in its metadata what they belong to.

A tensor is written under its keys, joined by dots; a dot or a percent sign in a key as ``%2E`` or ``%25``. Under
``"tensorclass"`` the metadata has the tree (:mod:`.tree`) as JSON. A file that another program wrote has none, and is a
flat collection of its tensors.

Reading maps the file to memory: values are read when they are used, and what is written to them stays in this process.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Size, Tensor

from tensorclass.atomic import whole_path
from tensorclass.convert.extras import require
from tensorclass.interrupts import uninterrupted
from tensorclass.printable import printable
from tensorclass.regular import open_regular
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.memmap import Filename
from tensorclass.td.objects import CPU

from . import sealing, tree
from .objects import TAG
from .paths import above, loading, path_of
from .tree import FileError, Node, Source, as_dict, as_list

_EXTRA = "safetensors"
_KEY = "tensorclass"  #: of the tree in the metadata
_MARK = "tensorclass_version"  #: there with it: a file that has one of the two alone is damaged, not from elsewhere
_PEER = "tensordict"  #: of what the peer knows of it
_LONGEST = 100_000_000  #: bytes of a header: the library reads no longer one
_LACKS = ("complex32", "complex128")  #: dtypes that the format does not have


def save_safetensors(data: TensorCollection, path: Filename, *, checksum: bool = False) -> None:
    """See :meth:`TensorDict.save_safetensors`."""
    path = path_of(path, "save_safetensors", writes=True)
    above(path)
    library = require("safetensors.torch", _EXTRA, "save_safetensors")
    node, leaves = tree.describe(data, "save_safetensors", None, checksum)
    if lacking := [".".join(leaf.path) for leaf in leaves if str(leaf.tensor.dtype).removeprefix("torch.") in _LACKS]:
        raise TypeError(f"save_safetensors: nothing was written; the format has no tensors of the dtypes of {lacking}")
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for leaf in leaves:
        value = leaf.tensor.detach().contiguous()
        place = value.untyped_storage().data_ptr()
        # the library refuses tensors that share memory: loaded, they would no longer
        tensors[_name(leaf.path, leaf.part)] = value.clone() if place in seen else value.as_subclass(Tensor)
        seen.add(place)
    metadata = {"format": "pt", _KEY: sealing.sealed({"version": tree.VERSION, "tree": node}).decode()}
    metadata[_MARK] = str(tree.VERSION)
    shown = _for_peer(node, ())
    if shown is not None:
        metadata[_PEER] = json.dumps({"version": 1, "root": shown}, allow_nan=False)
    with uninterrupted() as section, whole_path(path) as draft, section.interruptible():
        try:
            library.save_file(tensors, draft, metadata=metadata)
        except OSError:
            raise
        except Exception as error:  # the library's own class has the error of the system in its message alone
            number = re.search(r"\(os error (\d+)\)", str(error))
            raise OSError(int(number[1]) if number else errno.EIO, str(error), str(draft)) from None
        with open(draft, "rb") as written:
            length = int.from_bytes(written.read(8), "little")
        if length > _LONGEST:
            raise ValueError(
                f"save_safetensors: nothing was written; what is said of the collection takes {length} bytes, at most "
                f"{_LONGEST} can be read in this format: objects take most of it"
            )


def load_safetensors(
    cls: Any,
    path: Filename,
    *,
    device: DeviceLike | None = None,
    keys: Sequence[NestedKey] | None = None,
    strict: bool = True,
    verify: bool = False,
) -> Any:
    """See :meth:`TensorDict.load_safetensors`."""
    name = path_of(path, "load_safetensors")
    target = as_device(device)
    blank = tree.only_shapes(target)
    if isinstance(keys, str):
        raise TypeError(f"load_safetensors: expected keys to be a list of keys, as [{keys!r}], got {keys!r}")
    with loading(name, "load_safetensors"), _opened(name) as file:
        node, name_of = _node(file, name)
        if keys is not None:
            node = _chosen(node, [unravel_key_to_tuple(key) for key in keys], name)

        def read(where: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
            if blank:
                return torch.empty(shape, dtype=dtype, device=target or CPU)
            try:
                value: Tensor = file.get_tensor(name_of(where, part))
            except Exception as error:  # the library's own class is not known without it
                raise FileError(f"{name}: {'.'.join(where)}: {error}") from None
            if value.shape != shape or value.dtype != dtype:
                raise FileError(
                    f"{name}: {'.'.join(where)}: expected a tensor of the shape {list(shape)} and {dtype}, it has "
                    f"{list(value.shape)} and {value.dtype}"
                )
            return value if target is None else value.to(target)

        return tree.rebuild(node, cls, Source(name, read, target, False, strict, verify=verify))


def _name(path: tree.Path, part: str) -> str:
    joined = ".".join([key.replace("%", "%25").replace(".", "%2E") for key in path])
    return f"{joined}%{part}" if part else joined


@contextmanager
def _opened(name: str) -> Generator[Any, None, None]:
    library = require("safetensors", _EXTRA, "load_safetensors")
    try:
        handle = open_regular(name)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {printable(name)}") from None
    try:
        # the library opens a path twice, and would see two versions where another takes its place in between
        same = f"/proc/self/fd/{handle}"
        try:
            file = library.safe_open(same if os.path.exists(same) else name, "pt")
        except library.SafetensorError as error:
            raise FileError(f"{name}: it is no safetensors file, or damaged: {error}") from None
        with file as opened:
            yield opened
    finally:
        os.close(handle)


def _plain_name(path: tree.Path, part: str) -> str:
    return path[0]


def _node(file: Any, name: str) -> tuple[Node, Callable[[tree.Path, str], str]]:
    """The tree in the metadata, or of a file from elsewhere that of its tensors; and how these are named."""
    metadata: dict[str, str] = file.metadata() or {}
    text = metadata.get(_KEY)
    if text is None and _MARK in metadata:
        raise FileError(f"{name}: its metadata has {_MARK!r} without {_KEY!r}")
    if text is None and _PEER in metadata:
        names: dict[tree.Path, str] = {}
        known = sealing.parsed(metadata[_PEER].encode(), f"{name}: its metadata", nan=True)
        if known.get("version") != 1:
            raise FileError(f"{name}: its metadata is of the version {ascii(known.get('version'))[:20]}")
        left: set[str] = set(file.keys())
        return _of_peer(known.get("root"), (), names, left, file, name), lambda path, part: names[path]
    if text is None:
        entries: dict[str, Any] = {}
        for key in file.keys():  # noqa: SIM118  # it is no mapping
            entries[key] = _said_of(file, key)
        return {"type": "collection", "batch_size": [], "entries": entries}, _plain_name
    known = sealing.unsealed(text.encode(), f"{name}: its metadata")
    node = as_dict(known.get("tree"))
    if node is None or known.get("version") != tree.VERSION:
        version = ascii(known.get("version"))[:20]
        raise FileError(f"{name}: its metadata has the version {version}; this package reads {tree.VERSION}")
    return node, _name


def _for_peer(node: Node, path: tree.Path) -> Node | None:
    """The tree as the peer has it; ``None`` where that has more than tensors, collections and objects of JSON."""
    keys: Node = {}
    for key, entry in node["entries"].items() if node["type"] == "collection" else ():
        if entry["type"] == "tensor":
            keys[key] = {"tensor": _name((*path, key), "")}
        elif entry["type"] == "collection":
            keys[key] = {"td": _for_peer(entry, (*path, key))}
        elif entry["type"] == "object" and "kind" not in entry and TAG not in str(entry["data"]):
            keys[key] = {"non_tensor": entry["data"]}
        else:
            return None
        if keys[key] == {"td": None}:
            return None
    if node["type"] != "collection":
        return None
    return {"batch_size": node["batch_size"], "names": node.get("names"), "keys": keys}


def _of_peer(given: Any, path: tree.Path, names: dict[tree.Path, str], left: set[str], file: Any, name: str) -> Node:
    """The tree of a file that the peer wrote; what was a lazy stack there is a collection."""
    known, where = as_dict(given) or {}, ".".join(path)
    keys = as_dict(known.get("keys"))
    if keys is None or len(path) > tree.DEPTH:
        raise FileError(f"{name}: {where}: what its metadata says is damaged")
    entries: Node = {}
    for key, told in keys.items():
        kind, value = next(iter((as_dict(told) or {"": None}).items()))
        if kind == "tensor" and isinstance(value, str) and value in left:
            left.discard(value)  # two of one tensor would be one piece of memory
            names.update({(*path, key): value})
            entries[key] = _said_of(file, value)
        elif kind == "td":
            entries[key] = _of_peer(value, (*path, key), names, left, file, name)
        elif kind == "non_tensor":
            entries[key] = {"type": "object", "data": value, "batch_size": known.get("batch_size")}
        else:
            raise FileError(f"{name}: {where}: {ascii(key)[:40]}: what its metadata says is damaged")
    node: Node = {"type": "collection", "batch_size": known.get("batch_size"), "entries": entries}
    if any(item is not None for item in as_list(known.get("names")) or ()):
        node["names"] = known["names"]
    return node


def _said_of(file: Any, name: str) -> Node:
    """The node of a tensor of which only the format itself says something; nothing of it is read."""
    tensor: Tensor = file.get_tensor(name)
    return {"type": "tensor", "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}


def _chosen(node: Node, keys: list[tree.Path], name: str) -> Node:
    """The tree with some keys alone."""
    wanted: dict[str, list[tree.Path]] = {}
    for key in keys:
        wanted.setdefault(key[0], []).append(key[1:])
    entries = as_dict(node.get("entries")) or {}
    if missing := [key for key in wanted if key not in entries]:
        raise KeyError(f"{name} has the keys {list(entries)}, not {missing}")
    chosen = {
        key: entries[key] if () in rest else _chosen(entries[key], rest, f"{name}: {key}")
        for key, rest in wanted.items()
    }
    # a part of a record is none
    return {**{key: item for key, item in node.items() if key != "class" or chosen == entries}, "entries": chosen}
