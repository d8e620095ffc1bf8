"""Consolidated collections: all tensors one behind the other, in one piece of memory or in one file.

A file has the values, then what they belong to, twice: as :mod:`.tree` has it (JSON, its length, eight bytes that mark
it), and at its end as the peer has it (JSON, its length). docs/formats.md has all of it.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import torch
from torch import Size, Tensor

from tensorclass.atomic import whole_file
from tensorclass.interrupts import uninterrupted
from tensorclass.printable import printable
from tensorclass.regular import reading_regular
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.consolidated import WHOLE, Flat, Place, gathered, is_sharded, parts_of, places_of, view, with_parts
from tensorclass.td.memmap import Filename, pieces
from tensorclass.td.objects import CPU, nest_lists
from tensorclass.td.shared_memory import share

from . import sealing, tree
from .ahead import check_threads
from .memmap import take
from .objects import TAG
from .paths import above, loading, path_of
from .tree import FileError, Leaf, Node, Source, as_dict, as_list

VERSION = 1
_MARK = b"tensorcl"
_NAMES = frozenset(("cls", "non_tensors", "leaves", "cls_metadata"))  #: that mean something to the peer
_LONGEST = 2**30
_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]


def consolidate(
    data: Any,
    filename: Filename | None = None,
    *,
    num_threads: int = 0,
    device: DeviceLike | None = None,
    non_blocking: bool = False,
    inplace: bool = False,
    return_early: bool = False,
    use_buffer: bool = False,
    share_memory: bool = False,
    pin_memory: bool = False,
    metadata: bool = False,
    allow_pickle: bool = False,
) -> Any:
    """See :meth:`TensorDict.consolidate`."""
    if metadata:
        raise NotImplementedError(
            "consolidate: metadata=True is not supported: the collection has it; filename= writes it to a file"
        )
    check_threads(num_threads, "consolidate")
    target = as_device(device)
    if filename is not None:
        filename = path_of(filename, "consolidate", writes=True)
        above(filename)
    if (share_memory or pin_memory) and target is not None and target.type != "cpu":
        raise ValueError(f"consolidate: memory that is shared or page-locked is that of the CPU, not of {target}")
    if share_memory and pin_memory:
        raise ValueError("consolidate: memory is shared or page-locked, not both")
    if inplace:
        data._check_unlocked()
    parts = [part for leaf in data._leaves() for part in parts_of(leaf)]
    if any(map(is_sharded, parts)):
        raise TypeError(f"consolidate: nothing was changed; there is {WHOLE}")
    if odd := [part.layout for part in parts if part.layout != torch.strided]:
        raise TypeError(f"consolidate: a tensor of the layout {odd[0]} does not lie in one piece; make it dense first")
    devices = {part.device for part in parts}
    if target is None and len(devices) > 1:
        raise ValueError(f"consolidate: the tensors are on {sorted(map(str, devices))}; device= says where they go")

    def work() -> Any:
        places, size = places_of(parts)
        made: Any = None
        if filename is not None:
            node, leaves = tree.describe(data, "consolidate", allow_pickle)
            with uninterrupted() as section, whole_file(Path(filename)) as file, section.interruptible():
                _write(file, node, leaves, places, size)
                if not (use_buffer or share_memory or pin_memory):
                    file.flush()
                    with open(file.name, "rb") as written:  # at its place there may be another one in an instant
                        made = with_parts(data, Flat(_mapped(written.fileno(), size), places).parts())
        if made is None:
            here = next(iter(devices)) if len(devices) == 1 else CPU
            made = with_parts(data, Flat(_filled(parts, places, size, here, share_memory, pin_memory), places).parts())
        if target is not None:
            made = made.to(target, non_blocking=non_blocking)
        if inplace:
            take(data, made)
            return data.lock_()
        return made.lock_()

    def _filled(
        parts: list[Tensor], places: list[Place], size: int, here: torch.device, shared: bool, pinned: bool
    ) -> Tensor:
        memory = torch.zeros(size, dtype=torch.uint8, device=here, pin_memory=pinned)
        if shared and size:
            share(memory)
        jobs = gathered(parts, memory, places)
        if num_threads > 0:
            with ThreadPoolExecutor(num_threads) as pool:
                for done in [pool.submit(job) for job in jobs]:
                    done.result()
        else:
            for job in jobs:
                job()
        return memory

    if not return_early:
        return work()
    pool = ThreadPoolExecutor(1, thread_name_prefix="consolidate")
    future: Future[Any] = pool.submit(work)
    pool.shutdown(wait=False)  # the thread goes when its work is done
    return future


# ---------------------------------------------------------------------------------------------------------------------
# writing


def _write(file: IO[bytes], node: Node, leaves: list[Leaf], places: list[Place], size: int) -> None:
    at = 0
    for leaf, (_, _, start) in zip(leaves, places, strict=True):
        if leaf.tensor.numel():
            file.write(bytes(start - at))
            at = start
            for piece in pieces(leaf.tensor):
                file.write(piece)
                at += len(piece)
    file.write(bytes(size - at))
    own = sealing.sealed({"version": VERSION, "size": size, "starts": [place[2] for place in places], "tree": node})
    _check_length(own)
    file.write(own + len(own).to_bytes(8, "little") + _MARK)
    try:
        shown = _for_peer(node, iter(zip(places, [*[place[2] for place in places[1:]], size], strict=True)))
    except _Unknown:
        shown = {"cls": "tensorclass"}  # an error to the peer, and not a part of the values
    known = json.dumps(shown, allow_nan=False).encode()
    _check_length(known)
    file.write(known + len(known).to_bytes(8, "little"))


def _check_length(text: bytes) -> None:
    """Raise an error if a text of a file is longer than what is read again."""
    if len(text) > _LONGEST:
        raise ValueError(
            f"consolidate: nothing was written; what is said of the collection takes {len(text)} bytes as JSON, at "
            f"most {_LONGEST} can be read: objects take most of it"
        )


class _Unknown(Exception):
    """The peer's form has no place for a value."""


def _for_peer(node: Node, places: Iterator[tuple[Place, int]]) -> Node:
    kind = node["type"]
    leaves: Node = {}
    objects: Node = {}
    below: Node = {}
    about: Node = {"is_locked": False}
    if kind == "objects":
        if TAG in str(node["data"]):
            raise _Unknown
        return _stack_for_peer(nest_lists(node["data"], node["batch_size"]), len(node["batch_size"]))
    if kind == "lazy_stack":
        about.update(stack_dim=node["stack_dim"], stack_dim_name=node["stack_dim_name"])
        below = {str(at): _for_peer(part, places) for at, part in enumerate(node["parts"])}
        return {"cls": "LazyStackedTensorDict", "non_tensors": {}, "leaves": {}, "cls_metadata": about, **below}
    for key, entry in node["entries"].items():
        if entry["type"] == "tensor":
            leaves[key] = _leaf_for_peer(*next(places))
        elif entry["type"] == "jagged":
            leaves[f"<NJT_VALUES>{key}"] = _leaf_for_peer(*next(places))
            leaves[f"<NJT_OFFSETS>{key}"] = [*_leaf_for_peer(*next(places)), 1]  # the ragged dimension
        elif entry["type"] == "object" and entry.get("kind") is None and TAG not in str(entry["data"]):
            objects[key] = [entry["data"], entry["batch_size"], None]
        elif entry["type"] in ("collection", "lazy_stack", "objects") and key not in _NAMES:
            below[key] = _for_peer(entry, places)
        else:
            raise _Unknown
    size = node["batch_size"]
    about |= {"device": None, "names": node.get("names", [None] * len(size)), "batch_size": size}
    return {"cls": "TensorDict", "non_tensors": objects, "leaves": leaves, "cls_metadata": about, **below}


def _leaf_for_peer(place: Place, stop: int) -> list[Any]:
    dtype, shape, start = place
    size = shape.numel() * dtype.itemsize
    stop = stop if size else start
    return [str(dtype), list(shape), start, stop, stop - start - size]


def _stack_for_peer(items: list[Any], ndim: int) -> Node:
    """Objects, one for each row: a stack of stacks of them."""
    objects: Node = {str(at): [item, [], None] for at, item in enumerate(items)} if ndim == 1 else {}
    below: Node = {str(at): _stack_for_peer(item, ndim - 1) for at, item in enumerate(items)} if ndim > 1 else {}
    about = {"is_locked": False, "stack_dim": 0, "stack_dim_name": None}
    return {"cls": "NonTensorStack", "non_tensors": objects, "leaves": {}, "cls_metadata": about, **below}


# ---------------------------------------------------------------------------------------------------------------------
# reading


def from_consolidated(
    cls: Any, filename: Filename, *, device: DeviceLike | None = None, allow_pickle: bool = False, strict: bool = True
) -> Any:
    """See :meth:`TensorDict.from_consolidated`."""
    name = path_of(filename, "from_consolidated")
    target = as_device(device)
    if not os.path.lexists(name):
        raise FileNotFoundError(f"there is no file {printable(name)}")
    with loading(name, "from_consolidated"), reading_regular(name) as file:
        size, node, starts = _read(file, name)
        blank = tree.only_shapes(target)
        memory = _mapped(file.fileno(), 0 if blank else size)
    spans = tree.Spans(name)

    def read(where: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
        if blank:
            return torch.empty(shape, dtype=dtype, device=target or CPU)
        start, count = starts.get((where, part)), shape.numel() * dtype.itemsize
        if type(start) is not int or not 0 <= start <= start + count <= size:
            raise FileError(f"{name}: {'.'.join(where)}: its values are not in the file")
        spans.add(start, start + count, where)
        return view(memory, dtype, shape, start)

    loaded = tree.rebuild(node, cls, Source(name, read, None, allow_pickle, strict))
    spans.check()
    return loaded if target is None or blank else loaded.to(target)


def _read(file: IO[bytes], name: str) -> tuple[int, Node, dict[tuple[tree.Path, str], Any]]:
    """How many bytes the values have, the tree, and where each tensor begins."""
    shown, at = _text(file, file.seek(0, os.SEEK_END), name)
    file.seek(max(0, at - 8))
    if file.read(8) == _MARK:
        own, at = _text(file, at - 8, name)
        known = sealing.unsealed(own, name)
        node, places = known.get("tree"), as_list(known.get("starts"))
        if known.get("version") != VERSION:
            raise FileError(f"{name}: version {ascii(known.get('version'))[:20]}; this package reads {VERSION}")
        if node is None or places is None or known.get("size") != at:
            raise FileError(f"{name}: what it says of itself is damaged")
        keys = [(path, part) for path, part, _ in tree.tensors_of(node)]
        if len(keys) != len(places):
            raise FileError(f"{name}: it has {len(places)} tensors and tells of {len(keys)}")
        return at, node, dict(zip(keys, places, strict=True))
    file.seek(max(0, at - 256))
    before = file.read(min(at, 256))
    if _MARK in before or any(word in before for word in (b'"crc32"', b'"shape"', b'"type"')):
        # this package wrote it, and what it has for the peer has no seal
        raise FileError(f"{name}: what it says of itself is damaged")
    starts: dict[tuple[tree.Path, str], Any] = {}
    return at, _of_peer(sealing.parsed(shown, name, nan=True), (), starts, name), starts


def _text(file: IO[bytes], end: int, name: str) -> tuple[bytes, int]:
    """The text whose length stands before a place in a file, and where it begins."""
    if end >= 8:
        file.seek(end - 8)
        length = int.from_bytes(file.read(8), "little")
        if 0 < length <= min(end - 8, _LONGEST):
            file.seek(end - 8 - length)
            return file.read(length), end - 8 - length
    raise FileError(f"{name}: it is no file of a consolidated collection, or it was cut")


def _of_peer(given: Any, path: tree.Path, starts: dict[tuple[tree.Path, str], Any], name: str) -> Node:
    """The tree of a file that the peer wrote."""
    known, where = as_dict(given) or {}, ".".join(path)
    about, leaves, objects = (as_dict(known.get(part)) for part in ("cls_metadata", "leaves", "non_tensors"))
    if about is None or leaves is None or objects is None or len(path) > tree.DEPTH:
        raise FileError(f"{name}: {where}: it is no consolidated collection that can be read here")
    entries: Node = {}
    for key, told in leaves.items():
        place = as_list(told)
        if place is None or len(place) < 5 or not isinstance(place[0], str):
            raise FileError(f"{name}: {where}: {ascii(key)[:40]}: what is known of it is damaged")
        entry = {"type": "tensor", "dtype": place[0].removeprefix("torch."), "shape": place[1]}
        part, at = "", key
        if key.startswith("<NJT_OFFSETS>"):
            at, part = key.removeprefix("<NJT_OFFSETS>"), "offsets"
            rows = (as_list(place[1]) or [0])[0]
            entries[at] = {**entries.get(at, {}), "type": "jagged", "rows": rows - 1 if type(rows) is int else None}
        elif key.startswith("<NJT_"):
            at = key.removeprefix("<NJT_VALUES>")
            entries[at] = {**entry, **{k: v for k, v in entries.get(at, {}).items() if k in ("type", "rows")}}
            if at == key:
                raise FileError(f"{name}: {where}: {key} is a jagged tensor of a kind that cannot be read here")
        else:
            entries[key] = entry
        starts[(*path, at), part] = place[2]
    for key, told in objects.items():
        value = as_list(told)
        if value is None or len(value) != 3:
            raise FileError(f"{name}: {where}: {ascii(key)[:40]}: what is known of it is damaged")
        entries[key] = {"type": "object", "data": value[0], "batch_size": value[1]}
    for key, told in known.items():
        if key not in _NAMES:
            entries[key] = _of_peer(told, (*path, key), starts, name)
    if "stack_dim" in about:
        parts = [entries.get(str(at)) for at in range(len(entries))]
        if known.get("cls") == "NonTensorStack":
            return _stacked_objects(parts, f"{name}: {where}")
        shown = {"stack_dim": about["stack_dim"], "stack_dim_name": about.get("stack_dim_name")}
        return {"type": "lazy_stack", **shown, "parts": parts}
    node: Node = {"type": "collection", "batch_size": about.get("batch_size"), "entries": entries}
    if any(item is not None for item in as_list(about.get("names")) or ()):
        node["names"] = about["names"]
    return node


def _stacked_objects(parts: list[Any], name: str) -> Node:
    """Objects, one for each row, of those of the peer's stack."""
    kinds = {part and part["type"] for part in parts}
    if kinds <= {"object"}:
        return {"type": "objects", "batch_size": [len(parts)], "data": [part["data"] for part in parts]}
    sizes = {tuple(part["batch_size"]) for part in parts} if kinds == {"objects"} else set[tuple[int, ...]]()
    if len(sizes) != 1:
        raise FileError(f"{name}: what is known of its objects is damaged")
    data = [item for part in parts for item in part["data"]]
    return {"type": "objects", "batch_size": [len(parts), *sizes.pop()], "data": data}


def _mapped(file: int, size: int) -> Tensor:
    if not size:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    memory: Tensor = _frombuffer(mmap.mmap(file, size, access=mmap.ACCESS_COPY), dtype=torch.uint8)
    return memory
