"""Consolidated collections: all tensors one after the other, in one buffer or in one file.

A file has the values and then two descriptions of them: the tree of ``collection_tree`` (JSON, its length, an
eight-byte mark), and at its end that of the peer (JSON, its length). docs/formats.md has all of it.
"""

from __future__ import annotations

import json
import mmap
import operator
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar, overload

import torch
from torch import Size, Tensor
from torch.utils._python_dispatch import _disable_current_modes  # pyright: ignore[reportPrivateUsage]

from tensorclass.support.atomic import whole_file
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import reading_regular
from tensorclass.td.base import TensorCollection
from tensorclass.td.buffer_operations import dense_tensors, mark, mark_positions
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.jagged import all_packed
from tensorclass.td.leaves.leaf import has_spans
from tensorclass.td.leaves.object_codes import CPU, nest_lists
from tensorclass.td.memory import consolidated_buffer
from tensorclass.td.memory.buffer_layout import BufferLayout, layout_of
from tensorclass.td.memory.consolidated_buffer import TensorSpan, is_sharded, parts_of, spans_of, with_buffers
from tensorclass.td.memory.mapped_files import Filename, pieces
from tensorclass.td.memory.shared_memory import share

from .common import collection_tree, describe_collection, rebuild_collection, sealed_json
from .common.collection_tree import FileError, Node, TensorLeaf, TreeSource, as_dict, as_list
from .common.file_paths import check_parent, loading, path_of
from .common.object_json import TAG
from .common.prefetch import check_threads, result_or_future
from .memmap.memmap_methods import take_values

if TYPE_CHECKING:
    from concurrent.futures import Future

METHODS_OF = "Files"
C = TypeVar("C", bound=TensorCollection)

VERSION = 1
_MARK = b"tensorcl"
_NAMES = frozenset(("cls", "non_tensors", "leaves", "cls_metadata"))  #: reserved keys in the peer's description
#: types of nodes that the peer reads as collections
_WITH_ENTRIES = ("collection", "lazy_stack", "objects", "column", *collection_tree.OBJECT_ARRAYS)
_LONGEST = 2**30  #: bytes of a description
_LARGE = 2**18  #: bytes of a buffer that is not zeroed as a whole
_requires_grad: Any = operator.attrgetter("requires_grad")
_foreach_copy: Any = torch._foreach_copy_  # pyright: ignore[reportPrivateImportUsage]
_frombuffer: Any = torch.frombuffer  # pyright: ignore[reportUnknownMemberType]


@overload
def consolidate(data: C, *, return_early: Literal[False] = ...) -> C: ...
@overload
def consolidate(data: C, *, return_early: Literal[True]) -> Future[C]: ...
def consolidate(
    data: C,
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
) -> C | Future[C]:
    """Return a locked copy with all tensors one after the other in one buffer.

    The copy moves to another device in one transfer, and is pickled and sent to another process as one piece.

    Args:
        filename: also write a file, completely or not at all, which :meth:`from_consolidated` reads. The tensors
            are then mapped from the file, and writes to them stay in this process.
        num_threads: the number of threads that copy; 0 copies in this thread.
        device: the device of the buffer; by default that of the tensors, which must then all be on one device.
        non_blocking: do not wait for the transfer to the device.
        inplace: put the new tensors into this collection and lock it.
        return_early: return a future whose ``result()`` is the collection. Do not write to the tensors until then.
        use_buffer: with a file, keep the tensors in memory instead of mapping them from the file.
        share_memory: allocate the buffer in memory that processes share.
        pin_memory: allocate the buffer in page-locked memory, from which transfers to an accelerator are
            asynchronous.
        metadata: for code written for the peer. The collection, its pickles and its file have the metadata anyway.
        allow_pickle: write objects that JSON cannot hold to the file as pickles.

    Returns:
        A locked collection of this class, this one if ``inplace``. With ``return_early``, a future.

    Raises:
        ValueError: the tensors are on several devices, and ``device`` is not given.
        TypeError: tensors are not dense, or the file cannot hold some values. Nothing was written.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.ones(3), "below": {"y": torch.zeros(3, dtype=torch.int64)}}, [3])
        >>> packed = data.consolidate()
        >>> packed["x"].untyped_storage().nbytes(), data.is_consolidated(), packed.is_consolidated()
        (40, False, True)
    """
    check_threads(num_threads, "consolidate")
    target = as_device(device)
    if filename is not None:
        filename = path_of(filename, "consolidate", writes=True)
        check_parent(filename)
    if (share_memory or pin_memory) and target is not None and target.type != "cpu":
        raise ValueError(f"consolidate: only memory of the CPU can be shared or page-locked, not that of {target}")
    if share_memory and pin_memory:
        raise ValueError("consolidate: expected one of share_memory and pin_memory, got both")
    if inplace:
        data._check_unlocked()
    own, data = data, data._captured([])
    dense = dense_tensors(data)  # most collections have no other values
    if dense is None:
        data = all_packed(_with_compact_columns(data))
    parts = _buffers_of(data) if dense is None else dense
    devices = {part.device for part in parts}
    if target is None and len(devices) > 1:
        raise ValueError(f"consolidate: the tensors are on {sorted(map(str, devices))}; choose one with device=")

    def work() -> Any:
        made: Any = None
        layout: BufferLayout | None = None
        tensors: list[Tensor] = []  # of a buffer in memory
        if filename is not None:
            node, leaves = describe_collection.describe(data, "consolidate", allow_pickle)
            if node["type"] == "object":
                raise describe_collection.no_collection(data, "consolidate")
            all_spans, size = spans_of([leaf.tensor for leaf in leaves])
            spans = [span for span, leaf in zip(all_spans, leaves, strict=True) if not leaf.of_objects]
            layout = BufferLayout(spans, size)
            with uninterrupted() as section, whole_file(Path(filename)) as file, section.interruptible():
                _write_file(file, node, leaves, all_spans, size)
                if not (use_buffer or share_memory or pin_memory):
                    file.flush()
                    with open(file.name, "rb") as written:  # the draft: another file may soon be at the final path
                        flat = consolidated_buffer.FlatBuffer(_mapped(written.fileno(), size), spans)
                        made = with_buffers(data, flat.parts())
        if made is None:
            here = next(iter(devices)) if len(devices) == 1 else CPU
            layout = layout_of(parts) if layout is None else layout
            memory = _allocated(layout.spans, layout.size, here, share_memory, pin_memory)
            tensors = layout.tensors_in(memory)
            _copy_all(tensors, parts, num_threads)
            made = with_buffers(data, tensors) if dense is None else data._with_leaves_and_buffers(iter(tensors))
        if target is not None:
            made = made.to(target, non_blocking=non_blocking)
        if inplace:
            take_values(own, made)
            made = own
        if layout is None or not tensors or target is not None:
            return mark(made).lock_()
        return (mark(made, layout) if dense is None else mark_positions(made, layout, tensors)).lock_()

    return result_or_future(return_early, "consolidate", work)


def _buffers_of(data: Any) -> list[Tensor]:
    """Return the buffers of all tensors and columns. Raise if one is not whole, or not dense."""
    parts = [part for leaf in data._leaves_and_buffers() for part in parts_of(leaf)]
    if any(map(is_sharded, parts)):
        raise TypeError(f"consolidate: nothing was changed; there is {consolidated_buffer.WHOLE}")
    if odd := [part.layout for part in parts if part.layout != torch.strided]:
        raise TypeError(f"consolidate: a tensor of the layout {odd[0]} has several buffers; make it dense first")
    return parts


def _allocated(spans: list[TensorSpan], size: int, device: torch.device, shared: bool, pinned: bool) -> Tensor:
    """Return a buffer in which all that no tensor fills is zero."""
    make = torch.zeros if size < _LARGE else torch.empty
    memory = make(size, dtype=torch.uint8, device=device, pin_memory=pinned)
    if size >= _LARGE:  # to write all of it twice would take as long as the copy
        end = 0
        for dtype, shape, start in [*spans, (torch.uint8, Size([0]), size)]:
            if start > end:
                memory[end:start].zero_()
            end = start + shape.numel() * dtype.itemsize
    if shared and size:
        share(memory)
    return memory


def _copy_all(targets: list[Tensor], sources: list[Tensor], num_threads: int) -> None:
    """Copy tensors to others of the same shapes and dtypes, without history."""
    if num_threads <= 0:
        if targets:
            with torch.no_grad() if any(map(_requires_grad, sources)) else nullcontext():
                _foreach_copy(targets, sources)
        return
    with ThreadPoolExecutor(num_threads) as pool:
        list(pool.map(_copy, targets, sources))  # raises the errors


def _copy(target: Tensor, source: Tensor) -> None:
    with torch.no_grad():
        target.copy_(source)


def _with_compact_columns(data: Any) -> Any:
    nodes: list[Any] = data._all_nodes()
    loose = any(
        not node._is_compact if has_spans(node) else node._holds_values() and type(node._store) is not dict
        for node in nodes
    )
    return data._compacted() if loose else data


# ---------------------------------------------------------------------------------------------------------------------
# writing


def _write_file(file: IO[bytes], node: Node, leaves: list[TensorLeaf], spans: list[TensorSpan], size: int) -> None:
    at = 0
    for leaf, (_, _, start) in zip(leaves, spans, strict=True):
        if leaf.tensor.numel():
            file.write(bytes(start - at))
            at = start
            for piece in pieces(leaf.tensor):
                file.write(piece)
                at += len(piece)
    file.write(bytes(size - at))
    own = sealed_json.sealed({"version": VERSION, "size": size, "starts": [span[2] for span in spans], "tree": node})
    collection_tree.check_length(len(own), _LONGEST, "consolidate")
    file.write(own + len(own).to_bytes(8, "little") + _MARK)
    try:
        for_peer = _to_peer_layout(node, iter(zip(spans, [*[span[2] for span in spans[1:]], size], strict=True)))
    except _NoPeerLayout:
        for_peer = {"cls": "tensorclass"}  # the peer raises, rather than load some of the values
    text = json.dumps(for_peer, allow_nan=False).encode()
    collection_tree.check_length(len(text), _LONGEST, "consolidate")
    file.write(text + len(text).to_bytes(8, "little"))


class _NoPeerLayout(Exception):
    """The peer's description cannot hold a value."""


def _to_peer_layout(node: Node, spans: Iterator[tuple[TensorSpan, int]]) -> Node:
    """Return the peer's description of a node."""
    kind = node["type"]
    if kind == "objects":
        if TAG in str(node["data"]):
            raise _NoPeerLayout
        return _stack_for_peer(nest_lists(node["data"], node["batch_size"]), len(node["batch_size"]))
    if kind == "lazy_stack":
        parts = {str(at): _to_peer_layout(item, spans) for at, item in enumerate(node["parts"])}
        about = {"stack_dim": node["stack_dim"], "stack_dim_name": node["stack_dim_name"]}
        return _for_peer("LazyStackedTensorDict", about, parts)
    leaves: Node = {}
    objects: Node = {}
    below: Node = {}
    for key, entry in node["entries"].items():
        if entry["type"] == "tensor":
            leaves[key] = _leaf_for_peer(*next(spans))
        elif entry["type"] == "jagged":
            leaves[f"<NJT_VALUES>{key}"] = _leaf_for_peer(*next(spans))
            leaves[f"<NJT_OFFSETS>{key}"] = [*_leaf_for_peer(*next(spans)), 1]  # the ragged dimension
        elif entry["type"] == "object" and entry.get("kind") is None and TAG not in str(entry["data"]):
            objects[key] = [entry["data"], entry["batch_size"], None]
        elif entry["type"] in _WITH_ENTRIES and key not in _NAMES:
            below[key] = _to_peer_layout(entry, spans)
        else:
            raise _NoPeerLayout
    size = node["batch_size"]
    names = node.get("names", [None] * len(size)) if kind == "collection" else [None] * len(size)
    return _for_peer("TensorDict", {"device": None, "names": names, "batch_size": size}, below, objects, leaves)


def _for_peer(cls: str, about: Node, below: Node, objects: Node | None = None, leaves: Node | None = None) -> Node:
    own = {"cls": cls, "non_tensors": objects or {}, "leaves": leaves or {}}
    return {**own, "cls_metadata": {"is_locked": False, **about}, **below}


def _leaf_for_peer(span: TensorSpan, stop: int) -> list[Any]:
    dtype, shape, start = span
    size = shape.numel() * dtype.itemsize
    stop = stop if size else start
    return [str(dtype), list(shape), start, stop, stop - start - size]


def _stack_for_peer(items: list[Any], ndim: int) -> Node:
    """Return the peer's description of an object for each row: a stack for each dimension."""
    objects: Node = {str(at): [item, [], None] for at, item in enumerate(items)} if ndim == 1 else {}
    below: Node = {str(at): _stack_for_peer(item, ndim - 1) for at, item in enumerate(items)} if ndim > 1 else {}
    return _for_peer("NonTensorStack", {"stack_dim": 0, "stack_dim_name": None}, below, objects)


# ---------------------------------------------------------------------------------------------------------------------
# reading


def from_consolidated(
    cls: type[C],
    filename: Filename,
    *,
    device: DeviceLike | None = None,
    allow_pickle: bool = False,
    strict: bool = True,
) -> C:
    """Load the collection in a file that :meth:`consolidate` wrote, mapped to memory.

    Writes to the tensors stay in this process. No code in the file runs.

    Args:
        filename: the file.
        device: where the tensors are moved, in one transfer; by default they stay mapped. ``meta`` reads none of
            them.
        allow_pickle: read objects that were written as pickles. A pickle can run any code: use it only for files
            that you trust.
        strict: with ``False``, drop keys that are not fields of a record, and warn about them.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged or does not fit the record. Names every field that does not fit.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.ones(3)}, [3]).consolidate(folder + "/rows.td")
        ...     TensorDict.from_consolidated(folder + "/rows.td")["x"].sum()
        tensor(3.)
    """
    name = path_of(filename, "from_consolidated")
    target = as_device(device)
    if not os.path.lexists(name):
        raise FileNotFoundError(f"there is no file {printable(name)}")
    with loading(name, "from_consolidated"), reading_regular(name) as file:
        size, node, starts = _read(file, name)
        blank = rebuild_collection.needs_no_values(target)
        with _disable_current_modes():
            memory = _mapped(file.fileno(), 0 if blank and not collection_tree.has_object_arrays(node) else size)
    tensors = collection_tree.BufferReader(name, memory, size, starts, "its values are not in the file")
    reader = rebuild_collection.blank_reader(target or CPU) if blank else tensors.read
    source = TreeSource(name, reader, None, allow_pickle, strict, read_strings=tensors.read)
    loaded = rebuild_collection.rebuild(node, cls, source)
    tensors.check_disjoint()
    return loaded if target is None or blank else loaded.to(target)  # type: ignore[no-any-return]


def _read(file: IO[bytes], name: str) -> tuple[int, Node, dict[tuple[collection_tree.Path, str], Any]]:
    """Read the descriptions; return the number of bytes of values, the tree, and the offset of each buffer."""
    peer_text, at = _text(file, file.seek(0, os.SEEK_END), name)
    file.seek(max(0, at - 8))
    if file.read(8) == _MARK:
        own, at = _text(file, at - 8, name)
        known = sealed_json.unsealed(own, name)
        node, starts = known.get("tree"), as_list(known.get("starts"))
        if known.get("version") != VERSION:
            raise FileError(f"{name}: version {ascii(known.get('version'))[:20]}; this package reads {VERSION}")
        if node is None or starts is None or known.get("size") != at:
            raise FileError(f"{name}: its metadata is damaged")
        keys = [(path, buffer) for path, buffer, _ in collection_tree.tensor_nodes(node)]
        if len(keys) != len(starts):
            raise FileError(f"{name}: it has {len(starts)} tensors, but describes {len(keys)}")
        return at, node, dict(zip(keys, starts, strict=True))
    file.seek(max(0, at - 256))
    before = file.read(min(at, 256))
    if _MARK in before or any(word in before for word in (b'"crc32"', b'"shape"', b'"type"')):
        # this package wrote the file: do not fall back to the description for the peer, which has no seal
        raise FileError(f"{name}: its metadata is damaged")
    offsets: dict[tuple[collection_tree.Path, str], Any] = {}
    return at, _from_peer_layout(sealed_json.parse_json(peer_text, name, nan=True), (), offsets, name), offsets


def _text(file: IO[bytes], end: int, name: str) -> tuple[bytes, int]:
    """Return the text that ends before an offset of a file, with its length after it, and where it begins."""
    if end >= 8:
        file.seek(end - 8)
        length = int.from_bytes(file.read(8), "little")
        if 0 < length <= min(end - 8, _LONGEST):
            file.seek(end - 8 - length)
            return file.read(length), end - 8 - length
    raise FileError(f"{name}: not a file of a consolidated collection, or it was truncated")


def _from_peer_layout(
    given: Any, path: collection_tree.Path, starts: dict[tuple[collection_tree.Path, str], Any], name: str
) -> Node:
    """Return the tree of the peer's description ``given``. Adds the offset of each buffer to ``starts``."""
    known, where = as_dict(given) or {}, f"{name}: {'.'.join(path)}" if path else name
    about, leaves, objects = (as_dict(known.get(key)) for key in ("cls_metadata", "leaves", "non_tensors"))
    if about is None or leaves is None or objects is None or len(path) > collection_tree.DEPTH:
        raise FileError(f"{where}: its metadata is damaged, or not that of a consolidated collection")
    entries: Node = {}
    for key, described in leaves.items():
        leaf = as_list(described)
        if leaf is None or len(leaf) < 5 or not isinstance(leaf[0], str):
            raise FileError(f"{where}: {ascii(key)[:40]}: its description is damaged")
        entry = {"type": "tensor", "dtype": leaf[0].removeprefix("torch."), "shape": leaf[1]}
        buffer, at = "", key
        if key.startswith("<NJT_OFFSETS>"):
            at, buffer = key.removeprefix("<NJT_OFFSETS>"), "offsets"
            rows = (as_list(leaf[1]) or [0])[0]
            entries[at] = {**entries.get(at, {}), "type": "jagged", "rows": rows - 1 if type(rows) is int else None}
        elif key.startswith("<NJT_"):
            at = key.removeprefix("<NJT_VALUES>")
            entries[at] = {**entry, **{k: v for k, v in entries.get(at, {}).items() if k in ("type", "rows")}}
            if at == key:
                raise FileError(f"{where}: {key}: jagged tensors with this buffer cannot be read here")
        else:
            entries[key] = entry
        starts[(*path, at), buffer] = leaf[2]
    for key, described in objects.items():
        value = as_list(described)
        if value is None or len(value) != 3:
            raise FileError(f"{where}: {ascii(key)[:40]}: its description is damaged")
        entries[key] = {"type": "object", "data": value[0], "batch_size": value[1]}
    for key, described in known.items():
        if key not in _NAMES:
            entries[key] = _from_peer_layout(described, (*path, key), starts, name)
    if "stack_dim" in about:
        items = [entries.get(str(at)) for at in range(len(entries))]
        if known.get("cls") == "NonTensorStack":
            return _stacked_objects(items, where)
        stack = {"stack_dim": about["stack_dim"], "stack_dim_name": about.get("stack_dim_name")}
        return {"type": "lazy_stack", **stack, "parts": items}
    names = collection_tree.stated_names(about.get("names"))
    return {"type": "collection", "batch_size": about.get("batch_size"), "names": names, "entries": entries}


def _stacked_objects(nodes: list[Any], name: str) -> Node:
    """Join the nodes of objects, or of stacks of them, to one node of an object for each row."""
    types = {node and node["type"] for node in nodes}
    if types <= {"object"}:
        return {"type": "objects", "batch_size": [len(nodes)], "data": [node["data"] for node in nodes]}
    sizes = {tuple(node["batch_size"]) for node in nodes} if types == {"objects"} else set[tuple[int, ...]]()
    if len(sizes) != 1:
        raise FileError(f"{name}: the description of its objects is damaged")
    data = [item for node in nodes for item in node["data"]]
    return {"type": "objects", "batch_size": [len(nodes), *sizes.pop()], "data": data}


def _mapped(file: int, size: int) -> Tensor:
    if not size:
        return torch.empty(0, dtype=torch.uint8, device="cpu")
    memory: Tensor = _frombuffer(mmap.mmap(file, size, access=mmap.ACCESS_COPY), dtype=torch.uint8)
    return memory
