"""The Redis backend of :mod:`.tensordict_store`: groups are hashes, arrays are strings of raw values in C order.

A hash has the note of its group in the field ``""``, and a header, JSON, for each entry. The header of an array has its
shape, dtype and note. Values are written under new keys that expire, and a transaction makes them entries: a value is
there whole or not at all, and what a killed writer leaves vanishes.
"""

from __future__ import annotations

import json
import math
import re
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tensorclass.storage.common.collection_tree import as_dict, as_list
from tensorclass.storage.hdf5_zarr.array_backend import ArrayBackend, Note, Texts, flat
from tensorclass.storage.hdf5_zarr.array_selection import box_shape
from tensorclass.td.leaves.object_codes import nest_lists

from .byte_ranges import gather, runs_of
from .redis_server import RedisServer, ServerError, StoreAddress

_DRAFT_SECONDS = 24 * 3600  #: a writer has this long to make its values entries
_PIECE = 2**24  #: bytes that are sent in one command
_KINDS = "biufc"  #: kinds of numpy dtypes that are read; objects would be pickles


@dataclass(eq=False)
class RedisGroup:
    """A group: a hash in the server, or one that is written later, with the entries that it will have."""

    server: RedisServer
    key: str
    name: str
    is_draft: bool = False
    entries: dict[str, RedisGroup | RedisArray] = field(default_factory=dict[str, Any])  #: those of a draft
    note: Note | None = None  #: that of a draft

    def header(self, at: int) -> str:
        """Return the header of this group in the group that it is in."""
        return json.dumps({"group": _last(self.key), "at": at})


@dataclass(eq=False)
class RedisArray:
    """An array, or text: a string in the server, and its header."""

    parent: RedisGroup
    field: str  #: of the hash of its group
    about: dict[str, Any]  #: its header

    @property
    def name(self) -> str:
        return f"{self.parent.name}/{self.field}"

    @property
    def server(self) -> RedisServer:
        return self.parent.server

    @property
    def key(self) -> str:
        return _child_key(self.server, self.about.get("array"))

    @property
    def shape(self) -> tuple[int, ...]:
        found = as_list(self.about.get("shape")) or []
        if not all(type(size) is int and size >= 0 for size in found):
            raise ValueError("its header has no shape")
        return tuple(found)

    @property
    def dtype(self) -> np.dtype[Any]:
        given = self.about.get("dtype")
        if not isinstance(given, str) or not re.fullmatch(rf"[<>|][{_KINDS}]\d{{1,2}}", given):
            raise ValueError(f"its header has the dtype {str(given)[:40]!r}, which is unknown here")
        return np.dtype(given)

    def header(self, at: int) -> str:
        """Return the header of this array in the group that it is in."""
        return json.dumps({**self.about, "at": at})


class Redis(ArrayBackend):
    """Stores in a Redis server.

    Args:
        address: where the store is.
    """

    name: ClassVar[str] = "redis"
    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, address: StoreAddress) -> None:
        self.where: StoreAddress = address

    def open(self, path: str, mode: str) -> Any:
        server = RedisServer(self.where)
        try:
            with server.commands() as client:
                if not client.exists(self.where.key):
                    raise KeyError(f"{self.where}: the server has no store with the id {self.where.td_id!r}")
        except BaseException:
            server.close()
            raise
        return RedisGroup(server, self.where.key, "")

    def draft(self) -> RedisGroup:
        """Return the root group of a new store, which :meth:`publish` writes."""
        return RedisGroup(RedisServer(self.where), self.where.key, "", is_draft=True)

    def publish(self, root: RedisGroup) -> None:
        """Write the groups of a new store, whose arrays are written, in one transaction."""

        def make(pipe: Any) -> None:
            if pipe.exists(root.key):
                raise FileExistsError(f"{self.where}: there is a store with this id; remove it with clear_redis()")
            pipe.multi()
            _queue(pipe, root)

        root.server.change(make, root.key)
        _make_live(root)

    def drop(self, draft: RedisGroup) -> None:
        """Remove the values of a draft, unless they are permanent: the answer to the transaction can be lost."""
        keys = [node.key for node in _below(draft) if isinstance(node, RedisArray)]
        if keys and draft.server.is_open:
            with draft.server.commands() as client:
                left = [key for key in keys if client.ttl(key) >= 0]
                if left:
                    client.unlink(*left)

    def clear(self, root: RedisGroup) -> None:
        """Remove all keys of a store in one transaction."""

        def make(pipe: Any) -> None:
            keys = _keys_below(pipe, root.server, root.key)
            pipe.multi()
            pipe.unlink(*keys)

        root.server.change(make, root.key)

    def close(self, root: Any) -> OSError | None:
        root.server.close()
        return None

    def is_open(self, root: Any) -> bool:
        return bool(root.server.is_open)

    def names(self, group: Any) -> list[str]:
        with group.server.commands() as client:
            found: dict[bytes, bytes] = client.hgetall(group.key)
        if b"" not in found:
            raise ValueError(_GONE)
        order = {name.decode(): _parsed(header).get("at") for name, header in found.items() if name}
        return sorted(order, key=lambda name: order[name] if type(order[name]) is int else 0)  # type: ignore[arg-type, return-value]

    def find(self, group: Any, name: str) -> Any:
        with group.server.commands() as client:
            header: bytes | None = client.hget(group.key, name) if name else None
        if header is None:
            raise KeyError(f"there is no {name!r}")
        about = _parsed(header)
        if "group" in about:
            return RedisGroup(group.server, _child_key(group.server, about["group"]), f"{group.name}/{name}")
        return RedisArray(group, name, about)

    def has(self, group: Any, name: str) -> bool:
        if group.is_draft:
            return name in group.entries
        with group.server.commands() as client:
            return bool(name) and bool(client.hexists(group.key, name))

    def address(self, node: Any) -> object:
        return node.key

    def is_group(self, node: Any) -> bool:
        return isinstance(node, RedisGroup)

    def read_note(self, node: Any) -> Note | None:
        if isinstance(node, RedisArray):
            return as_dict(node.about.get("note"))
        if node.is_draft:
            return node.note  # type: ignore[no-any-return]
        with node.server.commands() as client:
            found: bytes | None = client.hget(node.key, "")
        if found is None:
            raise ValueError(_GONE)
        return _parsed(found)

    def has_escaped_names(self, group: Any) -> bool:
        return True

    def write_note(self, node: Any, note: Note) -> None:
        if isinstance(node, RedisArray):
            self._change(node, None, {**node.about, "note": dict(note)})
            return
        if node.is_draft:
            node.note = dict(note)
            return

        def make(pipe: Any) -> None:
            _check_there(pipe, node)
            pipe.multi()
            pipe.hset(node.key, "", json.dumps(note))

        node.server.change(make, node.key)

    def _change(
        self, array: RedisArray, queue: Callable[[Any], None] | None, about: dict[str, Any] | None = None
    ) -> None:
        """Change the values of an array by the commands that ``queue`` adds, and its header, in one transaction."""
        parent = array.parent

        def make(pipe: Any) -> None:
            header = pipe.hget(parent.key, array.field)
            now = {} if header is None else _parsed(header)
            if now.get("array") != array.about.get("array") or now.get("shape") != array.about.get("shape"):
                raise ServerError(f"{self.where}: {array.name.lstrip('/')}: nothing was written; {_GONE}")
            pipe.multi()
            if about is not None:
                pipe.hset(parent.key, array.field, json.dumps({**about, "at": now.get("at", 0)}))
            if queue is not None:
                queue(pipe)

        if queue is not None or not parent.is_draft:  # the server does not know the headers of a draft
            parent.server.change(make, parent.key)
        array.about = about or array.about

    # -- entries ------------------------------------------------------------------------------------------------------

    def make_group(self, parent: Any, name: str) -> Any:
        made = RedisGroup(parent.server, _new_key(parent.server), f"{parent.name}/{name}", is_draft=True)
        made.note = {}
        parent.entries[name] = made  # the parent is a draft, as :meth:`replace` and :meth:`draft` make them
        return made

    def create_array(self, parent: Any, name: str, settings: dict[str, Any]) -> Any:
        values = settings.get("data")
        shape = tuple(settings["shape"] if values is None else values.shape)
        dtype: np.dtype[Any] = np.dtype(settings["dtype"]) if values is None else values.dtype
        key, code = _new_key(parent.server), f"{'|' if dtype.itemsize == 1 else '<'}{dtype.kind}{dtype.itemsize}"
        about: dict[str, Any] = {"array": _last(key), "dtype": code, "shape": [int(size) for size in shape]}
        size = math.prod(shape) * dtype.itemsize
        content = None if values is None else _raw(values.astype(code, copy=False))
        return self._made(parent, RedisArray(parent, name, about), content, size)

    def _made(self, parent: RedisGroup, array: RedisArray, content: memoryview | None, size: int) -> RedisArray:
        """Write the values of a new array, or zeros, and make it an entry of its group."""
        key = array.key
        if parent.is_draft:
            parent.entries[array.field] = array  # before it is written, so that drop() finds it
        with parent.server.commands() as client:
            client.set(key, b"" if content is None else bytes(content[:_PIECE]), ex=_DRAFT_SECONDS)
            if content is None and size:
                client.setrange(key, size - 1, b"\0")
            for at in range(_PIECE, 0 if content is None else size, _PIECE):
                client.setrange(key, at, bytes((content or b"")[at : at + _PIECE]))
        if not parent.is_draft:
            self._enter(parent, array.field, array)
        return array

    def _enter(self, parent: RedisGroup, name: str, node: RedisGroup | RedisArray) -> None:
        """Make a draft an entry of a group in the server. It replaces the entry of its name, at its position."""

        def make(pipe: Any) -> None:
            _check_there(pipe, parent)
            known: dict[bytes, bytes] = pipe.hgetall(parent.key)
            headers = {field.decode(): _parsed(header) for field, header in known.items() if field}
            old = headers.get(name, {})
            last = max([at for header in headers.values() if type(at := header.get("at")) is int], default=-1)
            at = old.get("at", last + 1)
            left = _keys_of(pipe, parent.server, old)
            pipe.multi()
            pipe.hset(parent.key, name, node.header(at))
            _queue(pipe, node)
            if left:
                pipe.unlink(*left)

        parent.server.change(make, parent.key)
        _make_live(node)
        if isinstance(node, RedisArray):
            node.parent = parent

    def replace(self, parent: Any, name: str, make: Any) -> Any:
        draft = RedisGroup(parent.server, parent.key, parent.name, is_draft=True)
        try:
            make(draft, name)
            self._enter(parent, name, draft.entries[name])
        except BaseException:
            self.drop(draft)
            raise
        return draft.entries[name]

    def remove(self, parent: Any, name: str) -> None:
        def make(pipe: Any) -> None:
            header = pipe.hget(parent.key, name)
            keys = [] if header is None else _keys_of(pipe, parent.server, _parsed(header))
            pipe.multi()
            pipe.hdel(parent.key, name)
            if keys:
                pipe.unlink(*keys)

        parent.server.change(make, parent.key)

    # -- values -------------------------------------------------------------------------------------------------------

    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        shape, dtype = array.shape, array.dtype
        runs = runs_of(box, shape, dtype.itemsize)
        with array.server.commands() as client, client.pipeline(transaction=True) as pipe:
            for start, stop in runs.merged():
                pipe.getrange(array.key, start, stop - 1)
            pieces: list[bytes] = pipe.execute() if len(pipe) else []
        values: Any = gather(runs, pieces, dtype)
        return values.reshape(*box_shape(box, shape))  # type: ignore[no-any-return]

    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        runs = runs_of(box, array.shape, array.dtype.itemsize)
        whole = np.broadcast_to(values.astype(array.dtype, copy=False), box_shape(box, array.shape))
        content, key, length = _raw(whole), array.key, runs.length

        def queue(pipe: Any) -> None:
            for at, start in enumerate(runs.starts.tolist()):
                for piece in range(0, length, _PIECE):
                    first = at * length
                    chosen = content[first + piece : first + min(piece + _PIECE, length)]
                    pipe.setrange(key, start + piece, bytes(chosen))

        self._change(array, queue)

    def resize(self, array: Any, length: int) -> None:
        row = math.prod(array.shape[1:]) * array.dtype.itemsize
        before, after, key = array.shape[0] * row, length * row, array.key
        kept: bytes | None = None
        if after < before:
            with array.server.commands() as client:
                kept = client.getrange(key, 0, after - 1) if after else b""

        def queue(pipe: Any) -> None:
            if kept is not None:
                pipe.set(key, kept)
            elif after > before:
                pipe.setrange(key, after - 1, b"\0")

        self._change(array, queue, {**array.about, "shape": [length, *array.shape[1:]]})

    # -- text ---------------------------------------------------------------------------------------------------------

    def write_texts(self, parent: Any, name: str, texts: Texts, note: Note) -> Any:
        content = json.dumps(texts).encode()
        note["crc32"] = zlib.crc32(content)
        about: dict[str, Any] = {"array": _last(_new_key(parent.server)), "text": True, "shape": [], "note": dict(note)}
        return self._made(parent, RedisArray(parent, name, about), memoryview(content), len(content))

    def read_texts(self, array: Any) -> Any:
        note = self.read_note(array) or {}
        with array.server.commands() as client:
            content: bytes | None = client.get(array.key)
        if content is None:
            raise ValueError(_GONE)
        if note.get("crc32") != zlib.crc32(content):
            raise ValueError("its objects are damaged: their checksum differs")
        found = json.loads(content)
        if note.get("type") != "objects":
            return found
        size = self.shape_of_texts(array, note)
        return nest_lists(flat(found, 1), size)

    def is_text(self, array: Any) -> bool:
        return bool(array.about.get("text"))


_GONE = "another client has replaced or removed it meanwhile; read it again"


def _last(key: str) -> str:
    return key.rpartition(":")[2]


def _new_key(server: RedisServer) -> str:
    return f"{server.address.key}:{uuid.uuid4().hex}"


def _child_key(server: RedisServer, given: Any) -> str:
    """Return the key with an id of a header; it is one of this store, whatever the header says."""
    if not isinstance(given, str) or not re.fullmatch("[0-9a-f]{32}", given):
        raise ValueError("its header has no id")
    return f"{server.address.key}:{given}"


def _parsed(header: bytes) -> dict[str, Any]:
    found = as_dict(json.loads(header))
    if found is None:
        raise ValueError("its header is damaged")
    return found


def _raw(values: np.ndarray[Any, Any]) -> memoryview:
    raw: Any = np.ascontiguousarray(values)
    return memoryview(raw.reshape(-1).view(np.uint8))


def _check_there(pipe: Any, group: RedisGroup) -> None:
    if not pipe.exists(group.key):
        raise ServerError(f"{group.server.address}: {group.name.lstrip('/')}: nothing was written; {_GONE}")


def _below(group: RedisGroup) -> list[RedisGroup | RedisArray]:
    """Return all groups and arrays in a draft."""
    found: list[RedisGroup | RedisArray] = []
    for node in group.entries.values():
        found += [node, *_below(node)] if isinstance(node, RedisGroup) else [node]
    return found


def _queue(pipe: Any, node: RedisGroup | RedisArray) -> None:
    """Queue the commands that make a draft permanent."""
    if isinstance(node, RedisArray):
        pipe.persist(node.key)
        return
    fields = {"": json.dumps(node.note or {})}
    for at, (name, inner) in enumerate(node.entries.items()):
        fields[name] = inner.header(at)
        _queue(pipe, inner)
    pipe.hset(node.key, mapping=fields)


def _make_live(node: RedisGroup | RedisArray) -> None:
    """Note that a draft is in the server."""
    if isinstance(node, RedisGroup):
        for inner in node.entries.values():
            _make_live(inner)
        node.is_draft, node.entries, node.note = False, {}, None


def _keys_of(pipe: Any, server: RedisServer, header: dict[str, Any]) -> list[str]:
    """Return the keys of an entry, which has a header; see :func:`_keys_below`."""
    if "group" in header:
        return _keys_below(pipe, server, _child_key(server, header["group"]))
    return [_child_key(server, header["array"])] if "array" in header else []


def _keys_below(pipe: Any, server: RedisServer, key: str) -> list[str]:
    """Return the keys of a group and all in it; the transaction watches its groups from now on."""
    found, left = list[str](), [key]
    while left:
        group = left.pop()
        if group in found:
            continue
        pipe.watch(group)
        found.append(group)
        known: dict[bytes, bytes] = pipe.hgetall(group)
        for name, header in known.items():
            about = _parsed(header) if name else {}
            if "array" in about:
                found.append(_child_key(server, about["array"]))
            elif "group" in about:
                left.append(_child_key(server, about["group"]))
    return found
