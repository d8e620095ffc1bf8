"""What stands where in a folder of memory-mapped files: the layout of the peer, so that each reads what the other has.

A folder holds ``meta.json``, ``KEY.memmap`` for each tensor (values in C order and the byte order of the machine, no
header), and a folder ``KEY`` for each nested collection or object. What the peer's ``meta.json`` cannot say stands in
it under ``"_tensorclass"``, which the peer passes over. docs/formats.md has all of it.

Here nodes become what ``meta.json`` says in each folder, and nodes again, wherever the folders are.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import zlib
from typing import Any, Protocol

from tensorclass.td.base import TensorCollection
from tensorclass.td.objects import flatten_lists, nest_lists

from . import sealing, tree
from .objects import TAG, encode
from .tree import FileError, Leaf, Node, as_dict, as_list

META = "meta.json"
INSIDE = "_tensordict"  #: the folder in that of a record, as the peer writes it, which has its values
OWN = "_tensorclass"  #: where our own part of it is
SUFFIX = ".memmap"
VERSION = 1  #: of our own part

#: what of ``meta.json`` is about the folder itself; a value under such a key stands in our own part
RESERVED = frozenset(("shape", "device", "_type", "_format_version", "_class", "_names", OWN))
_OWN_KEYS = frozenset(("version", "class", "entries", "parts", "crc32"))
#: how much of ``meta.json`` is read at all, in bytes
LONGEST = 2**30

_PLAIN = {"_type": "<class 'tensordict._td.TensorDict'>", "_format_version": 1, "_class": "tensordict:TensorDict"}
_STACK = {
    "_type": "<class 'tensordict._lazy.LazyStackedTensorDict'>",
    "_format_version": 1,
    "_class": "tensordict:LazyStackedTensorDict",
}
_OBJECT = {"_type": "<class 'tensordict.tensorclass.NonTensorData'>"}
_OBJECTS = {
    "_type": "<class 'tensordict.tensorclass.NonTensorStack'>",
    "_format_version": 1,
    "_class": "tensordict:NonTensorStack",
}


# ---------------------------------------------------------------------------------------------------------------------
# names


def file_name(key: str) -> str:
    """The name of the file (without its suffix) or the folder of a key.

    >>> file_name("a/b"), file_name(".."), file_name("")
    ('a%2Fb', '%2E%2E', '%')
    """
    if key.isidentifier():  # most are, and no pattern has to be looked for
        return key
    if not key:
        return "%"
    if key in (".", "..", META):
        return key.replace(".", "%2E")
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", key)


_UNSAFE = re.compile(r'[\x00-\x20\x7f"%*/:<>?\\|\ud800-\udfff]')


def tensor_file(key: str, part: str) -> str:
    if part == "shapes":  # as the peer calls it
        return f"{file_name(key)}.shape{SUFFIX}"
    return file_name(key) + (f"%{part}" if part else "") + SUFFIX  # no key gives a percent sign and a letter like o


def place_of(leaf: Leaf) -> str:
    """The file of a tensor, seen from the folder of the whole."""
    return "/".join([*map(file_name, leaf.path[:-1]), tensor_file(leaf.path[-1], leaf.part)])


def check_keys(data: TensorCollection, what: str) -> None:
    keys: list[Any] = [key if isinstance(key, tuple) else (key,) for key in data.keys(True)]
    if unsafe := [".".join(key) for key in keys if any(file_name(name) != name for name in key)]:
        raise ValueError(
            f"{what}: with robust_key=False keys must be names of files, got {unsafe}; nothing was written"
        )


# ---------------------------------------------------------------------------------------------------------------------
# writing


def metas_of(node: Node, folder: str, found: list[tuple[str, bytes]]) -> None:
    """What ``meta.json`` says in each folder, the outer ones first."""
    kind = node["type"]
    if kind == "lazy_stack":
        meta: dict[str, Any] = {**_STACK, "stack_dim": node["stack_dim"], "stack_dim_name": node["stack_dim_name"]}
        found.append((folder, sealing.sealed({**meta, OWN: {"version": VERSION, "parts": len(node["parts"])}}, 2)))
        for at, part in enumerate(node["parts"]):
            metas_of(part, f"{folder}{at}/", found)
        return
    own: dict[str, Any] = {"version": VERSION}
    if "class" in node:
        own["class"] = node["class"]
    more: dict[str, Any] = {}
    meta = {}
    below: list[tuple[Node, str]] = []
    objects: list[tuple[str, bytes]] = []
    for key, entry in node["entries"].items():
        kind = entry["type"]
        if kind == "tensor":
            known = {
                "device": "cpu", "shape": entry["shape"], "dtype": f"torch.{entry['dtype']}", "is_nested": False,
            }  # fmt: skip
            if "crc32" in entry:
                more[key] = {"crc32": entry["crc32"]}
        elif kind == "unbatched" or kind == "jagged":  # the peer has no files of them
            more[key] = entry
            continue
        else:
            known = {"type": PEER_TYPES[kind]}
            place = f"{folder}{file_name(key)}/"
            if kind == "object" or kind == "objects":
                shown, more[key] = _for_peer(entry)
                text = json.dumps(_meta_of_objects(shown)).encode()
                if "data" not in more[key]:  # it is read there; the peer allows for no more in it
                    more[key] = {**more[key], "meta_crc32": zlib.crc32(text)}
                objects.append((place, text))
            else:
                below.append((entry, place))
        if key in RESERVED:
            more[key] = entry if "dtype" in entry else more.get(key) or {"type": kind}
        else:
            meta[key] = known
    if more:
        own["entries"] = more
    meta.update(shape=node["batch_size"], device="cpu", **_PLAIN)
    if "names" in node:
        meta["_names"] = node["names"]
    meta[OWN] = own
    found.append((folder, sealing.sealed(meta, 2)))
    found.extend(objects)
    for entry, place in below:
        metas_of(entry, place, found)


def metas(node: Node, what: str, where: str | os.PathLike[str]) -> list[tuple[str, bytes]]:
    """:func:`metas_of` all folders of a tree.

    Args:
        node: the tree.
        what: who writes them, to begin errors with.
        where: the folder, for errors.

    Raises:
        ValueError: one is longer than what is read again.
    """
    found: list[tuple[str, bytes]] = []
    metas_of(node, "", found)
    for folder, text in found:
        check_length(text, what, f"{where}/{folder}")
    return found


def check_length(text: bytes, what: str, where: str) -> None:
    """Raise an error if a ``meta.json`` is longer than what is read again."""
    if len(text) > LONGEST:
        raise ValueError(
            f"{what}: nothing was written; what is said of {where} takes {len(text)} bytes as JSON, at most {LONGEST} "
            "can be read: objects take most of it"
        )


PEER_TYPES = {
    "collection": "TensorDict", "lazy_stack": "LazyStackedTensorDict", "object": "NonTensorData",
    "objects": "NonTensorStack",
}  # fmt: skip


def _for_peer(node: Node) -> tuple[Node, Node]:
    """What the folder of an object says, for the peer too, and what stands beside it that only we know.

    Objects that JSON has stand in the folder alone; others beside it, and in the folder what the peer makes of them:
    lists of tuples, nothing of the rest.
    """
    if TAG not in json.dumps(node["data"]):
        return node, {key: value for key, value in node.items() if key != "data"}
    try:
        return {**node, "data": _untagged(node["data"])}, node
    except ValueError:
        return {key: value for key, value in node.items() if key != "data"}, node


def _untagged(form: Any) -> Any:
    known, items = as_dict(form), as_list(form)
    if known is not None:
        return {key: _untagged(item) for key, item in known.items()}
    if items is None:
        return form
    if items[:1] == [TAG]:
        if items[1] == "float":  # nan and infinities, which the peer writes as Python does
            return float(items[2])
        if items[1] not in ("tuple", "list"):
            raise ValueError(items[1])
        items = items[2]
    return [_untagged(item) for item in items or ()]


def _meta_of_objects(node: Node) -> dict[str, Any]:
    if node["type"] == "object":
        data = {"data": node["data"]} if "data" in node else {}
        return {**_OBJECT, **data, "_metadata": None, "_is_non_tensor": True}
    data = {"data": nest_lists(node["data"], node["batch_size"])} if "data" in node else {}
    return {**_OBJECTS, "stack_dim": 0, "device": None, **data}


# ---------------------------------------------------------------------------------------------------------------------
# reading


class Place(Protocol):
    """A folder of a tree, on disk or in an archive."""

    @property
    def name(self) -> str: ...

    def content(self, name: str, /) -> bytes | bytearray:
        """What a file in it says."""
        ...

    def names(self) -> set[str]:
        """Those of its files and folders."""
        ...


class Places(Protocol):
    """The folders of a tree, by their path in it."""

    @property
    def pickles(self) -> bool:
        """Whether objects that were written as pickles are read."""
        ...

    def at(self, path: tuple[str, ...], /) -> Place:
        """A folder, until another one is asked for."""
        ...

    def enter(self, path: tuple[str, ...], /) -> None:
        """What is in a folder stands in the folder ``_tensordict`` in it."""
        ...

    def say_foreign(self, path: tuple[str, ...], /) -> None:
        """The peer wrote a folder; its files may be named as the keys are."""
        ...


def read_node(folders: Places, path: tree.Path, checksum: object = None) -> Node:
    """The tree that the ``meta.json`` of a folder and of those below it tell of.

    Args:
        folders: those of the tree.
        path: where it is in the tree.
        checksum: of the ``meta.json``, where another file says it.
    """
    folder = folders.at(path)
    meta = read_meta(folder, checksum)
    foreign = OWN not in meta or _is_entry(meta[OWN])  # the latter: a key of the peer that is called so
    own: dict[str, Any] | None = {} if foreign else as_dict(meta[OWN])
    if own is None or not own.keys() <= _OWN_KEYS:
        raise FileError(f"{folder.name}/{META}: {OWN} is damaged")
    if foreign:
        folders.say_foreign(path)
    version = own.get("version", VERSION)
    if version != VERSION:
        raise FileError(
            f"{folder.name}/{META}: version {str(version)[:20]} of the format; this package reads {VERSION}"
        )
    kind = _peer_class(meta)

    def below(key: str) -> Node:
        return read_node(folders, (*path, key))

    if kind in ("NonTensorData", "NonTensorStack"):
        return _node_of_objects(kind, meta, folder, folders.pickles)
    if len(path) > tree.DEPTH:
        raise FileError(f"{folder.name}: collections are nested deeper than {tree.DEPTH} levels")
    if kind == "LazyStackedTensorDict":
        count = own.get("parts")
        if count is None:
            count = _count_parts(folder)
        if type(count) is not int:
            raise FileError(f"{folder.name}/{META}: expected the number of parts, got {_shown(count)}")
        return {
            "type": "lazy_stack", "stack_dim": meta.get("stack_dim"), "stack_dim_name": meta.get("stack_dim_name"),
            "parts": [below(str(at)) for at in range(count)],
        }  # fmt: skip
    if "shape" not in meta:  # a record as the peer writes it
        folders.enter(path)
        return read_node(folders, path)
    more = as_dict(own.get("entries", {}))
    if more is None:
        raise FileError(f"{folder.name}/{META}: the entries of {OWN} are damaged")
    entries: dict[str, Any] = {}
    for key, known in meta.items():
        if key in RESERVED and not (foreign and _is_entry(known)):
            continue
        form: object = known
        if type(form) is dict and len(known) == 4 and known.get("is_nested") is False and key not in more:
            named = known.get("dtype")
            if type(named) is str:  # of a plain tensor, as most are: a node once it has a type
                known["type"] = "tensor"
                known["dtype"] = named.removeprefix("torch.")
                entries[key] = known
                continue
        entries[key] = _entry(key, known, more.get(key), folders, path, folder.name)
    for key, entry in more.items():
        if key not in entries:
            entries[key] = _entry(key, {}, entry, folders, path, folder.name)
    node: Node = {"type": "collection", "batch_size": meta["shape"], "entries": entries}
    if meta.get("_names") is not None and "_names" not in entries:
        node["names"] = meta["_names"]
    if "class" in own:
        node["class"] = own["class"]
    return node


def _is_entry(known: Any) -> bool:
    """Whether it is what the peer says of a value."""
    given = as_dict(known)
    return given is not None and ("dtype" in given or "type" in given)


def _entry(key: str, known: Any, own: Any, folders: Places, path: tree.Path, folder: str) -> Node:
    """The node of a key, of what the peer reads and what only we do."""
    given, more = as_dict(known), as_dict(own)
    if given is None or (own is not None and more is None):
        raise FileError(f"{folder}/{META}: expected what is known of {_shown(key)}, got {_shown(known or own)}")
    if more is not None and ("dtype" in more or "data" in more):
        return more
    if "dtype" not in given:
        if len(given) > 1 or not isinstance(given.get("type", ""), str):
            raise FileError(f"{folder}/{META}: what is known of {_shown(key)} is damaged: {_shown(given)}")
        return {**read_node(folders, (*path, key), (more or {}).get("meta_crc32")), **(more or {})}
    dtype = str(given["dtype"]).removeprefix("torch.")
    if given.get("is_nested") is True:
        shape = as_list(given.get("shape"))
        if shape is None or len(shape) != 2:
            raise FileError(f"{folder}/{META}: {_shown(key)}: expected a shape of two numbers, got {_shown(shape)}")
        return {"type": "nested", "dtype": dtype, "shape": None, "rows": shape[0], "dims": shape[1]}
    return {"type": "tensor", "dtype": dtype, "shape": given.get("shape"), **(more or {})}


def _shown(given: object) -> str:
    return ascii(given)[:80]


def _node_of_objects(kind: str, meta: dict[str, Any], folder: Place, pickles: bool) -> Node:
    if kind == "NonTensorStack" and "data" in meta:
        items = as_list(meta["data"])
        if items is None:  # the name of a file
            items, size = flatten_lists(_unpickled(folder, "pickle.pkl", list, pickles))
            items = [_encoded(item, folder) for item in items]
        else:
            items, size = flatten_lists(items)
        return {"type": "objects", "batch_size": size, "data": items}
    if "data" in meta:
        return {"type": "object", "batch_size": [], "data": meta["data"]}
    held = as_dict(_unpickled(folder, "other.pickle", dict, pickles)) or {}
    return {"type": "object", "batch_size": [], "data": _encoded(held.get("data"), folder)}


def _unpickled(folder: Place, name: str, kind: type[Any], allowed: bool) -> Any:
    """What the peer pickled."""
    if not allowed:
        raise FileError(
            f"{folder.name}: the objects were written as a pickle by another program, and reading one can run any "
            "code; allow_pickle=True reads it, for files that you trust"
        )
    content = folder.content(name)
    try:
        found = pickle.loads(content)
    except Exception as error:  # of any class
        raise FileError(f"{folder.name}/{name}: it cannot be read: {type(error).__name__}: {error}") from None
    if type(found) is not kind:
        raise FileError(f"{folder.name}/{name}: expected a {kind.__name__}, got a {type(found).__name__}")
    return found


def _encoded(value: Any, folder: Place) -> Any:
    try:
        return encode(value, True)
    except Exception as error:  # of its pickle
        raise FileError(f"{folder.name}: an object cannot be read: {type(error).__name__}: {error}") from None


def _count_parts(folder: Place) -> int:
    names = folder.names()
    count = 0
    while str(count) in names:
        count += 1
    return count


def read_meta(folder: Place, checksum: object = None) -> dict[str, Any]:
    text = folder.content(META)
    name = f"{folder.name}/{META}"
    if checksum is not None and zlib.crc32(text) != checksum:
        raise FileError(f"{name}: it is not what was written, its checksum differs")
    try:
        return sealing.unsealed(text, name, OWN, nan=True)
    except FileError:
        if not sealing.is_rewritten(text):
            raise
    meta = sealing.parsed(text, name, nan=True)
    meta[OWN] = _outdated(as_dict(meta.get(OWN)) or {})
    return meta


def _outdated(own: dict[str, Any]) -> dict[str, Any]:
    """Our part of a file that the peer wrote anew, as where it appended rows, without what may hold no more."""
    entries: dict[str, Any] = {}
    for key, entry in (as_dict(own.get("entries")) or {}).items():
        known = as_dict(entry) or {}
        old = ("crc32", "meta_crc32", *(() if "data" in known else ("batch_size",)))
        entries[key] = {field: value for field, value in known.items() if field not in old}
    return {**own, "entries": entries}


def _peer_class(meta: dict[str, Any]) -> str:
    """The name of the class that a collection had in the peer."""
    named = meta.get("_class") or meta.get("_type") or ""
    if named == _PLAIN["_class"]:
        return "TensorDict"
    return re.sub(r"[^\w]+$", "", str(named)).rsplit(".", 1)[-1].rsplit(":", 1)[-1]
