"""The layout of a memory-mapped folder. It is the layout of the peer, so that each reads the folders of the other.

A folder holds ``meta.json``, ``KEY.memmap`` for each tensor (values in C order and the byte order of the machine, no
header), and a folder ``KEY`` for each nested collection or object. Metadata that the peer has no place for is in
``meta.json`` under ``"_tensorclass"``, which the peer ignores. docs/formats.md has all of it.

This module turns nodes into the content of the ``meta.json`` files, and back, for folders on disk and in archives.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import zlib
from collections.abc import Iterator
from typing import Any, Protocol

from tensorclass.storage.common import collection_tree, sealed_json
from tensorclass.storage.common.collection_tree import FileError, Node, as_dict, as_list
from tensorclass.storage.common.object_json import TAG, encode
from tensorclass.support.printable import class_name, type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import unravel_key_to_tuple
from tensorclass.td.leaves.object_codes import flatten_lists, nest_lists
from tensorclass.td.stored_names import stored_path

META = "meta.json"
VALUES_FOLDER = "_tensordict"  #: the subfolder in which the peer puts the values of a record
OWN = "_tensorclass"  #: the key of our own metadata in ``meta.json``
SUFFIX = ".memmap"
VERSION = 1  #: the version of our own metadata

#: keys of ``meta.json`` that describe the folder itself; entries with such a key are described in our own metadata
RESERVED = frozenset(("shape", "device", "_type", "_format_version", "_class", "_names", OWN))
#: kinds of nodes that the peer reads as collections of their buffers
_BUFFERS = ("column", *collection_tree.OBJECT_ARRAYS)
_OWN_KEYS = frozenset(("version", "class", "entries", "parts", "crc32", "ndim", *_BUFFERS))
#: the most bytes of a ``meta.json``
LONGEST = 2**30


def _of_peer(module: str, name: str) -> dict[str, Any]:
    """Return the description of a class of the peer."""
    return {"_type": f"<class 'tensordict.{module}.{name}'>", "_format_version": 1, "_class": f"tensordict:{name}"}


_PLAIN = _of_peer("_td", "TensorDict")
_STACK = _of_peer("_lazy", "LazyStackedTensorDict")
_OBJECT = {"_type": "<class 'tensordict.tensorclass.NonTensorData'>"}
_OBJECTS = _of_peer("tensorclass", "NonTensorStack")


# ---------------------------------------------------------------------------------------------------------------------
# names


def file_name(key: str) -> str:
    """Return the name of the file (without its suffix) or the folder of a key.

    >>> file_name("a/b"), file_name(".."), file_name("")
    ('a%2Fb', '%2E%2E', '%')
    """
    if key.isidentifier():  # the common case, without a regular expression
        return key
    if not key:
        return "%"
    if key in (".", "..", META):
        return key.replace(".", "%2E")
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", key)


_UNSAFE = re.compile(r'[\x00-\x20\x7f"%*/:<>?\\|\ud800-\udfff]')


def tensor_file(key: str, buffer: str) -> str:
    """Return the name of the file of a buffer of a tensor."""
    if buffer == "shapes":  # the peer's name
        return f"{file_name(key)}.shape{SUFFIX}"
    return file_name(key) + (f"%{buffer}" if buffer else "") + SUFFIX  # no escaped key has "%o", as in "%offsets"


def tensor_path(path: collection_tree.Path, buffer: str) -> str:
    """Return the path of the file of a buffer of a tensor, relative to the outermost folder."""
    return "/".join([*map(file_name, path[:-1]), tensor_file(path[-1], buffer)])


def check_keys(data: TensorCollection, what: str) -> None:
    """Raise if keys are not names of files (``robust_key=False``). ``what`` is the caller, for errors."""
    found: list[Any] = list(data.keys(True))
    keys = [stored_path(data, unravel_key_to_tuple(key)) for key in found]
    if unsafe := [".".join(key) for key in keys if any(file_name(name) != name for name in key)]:
        raise ValueError(
            f"{what}: with robust_key=False keys must be names of files, got {unsafe}; nothing was written"
        )


# ---------------------------------------------------------------------------------------------------------------------
# writing


def meta_texts(node: Node, folder: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield (folder, content of its ``meta.json``) for a node and all below it, outer folders first."""
    kind = node["type"]
    if kind == "lazy_stack":
        meta: dict[str, Any] = {**_STACK, "stack_dim": node["stack_dim"], "stack_dim_name": node["stack_dim_name"]}
        yield folder, sealed_json.sealed({**meta, OWN: {"version": VERSION, "parts": len(node["parts"])}}, 2)
        for at, item in enumerate(node["parts"]):
            yield from meta_texts(item, f"{folder}{at}/")
        return
    own: dict[str, Any] = {"version": VERSION}
    if kind != "collection":  # the peer sees a collection of the buffers
        own[kind] = {key: value for key, value in node.items() if key not in ("type", "entries", "batch_size")}
    if "class" in node:
        own["class"] = node["class"]
    more: dict[str, Any] = {}
    meta = {}
    below: list[tuple[Node, str]] = []
    objects: list[tuple[str, bytes]] = []
    for key, entry in node["entries"].items():
        entry_kind = entry["type"]
        if entry_kind == "tensor":
            known = {
                "device": "cpu", "shape": entry["shape"], "dtype": f"torch.{entry['dtype']}", "is_nested": False,
            }  # fmt: skip
            if "crc32" in entry:
                more[key] = {"crc32": entry["crc32"]}
        elif entry_kind == "unbatched" or entry_kind == "jagged":  # the peer's layout has none
            more[key] = entry
            continue
        else:
            known = {"type": PEER_TYPES[entry_kind]}
            folder_path = f"{folder}{file_name(key)}/"
            if entry_kind == "object" or entry_kind == "objects":
                for_peer, more[key] = _split_object(entry)
                text = json.dumps(_meta_of_objects(for_peer)).encode()
                if "data" not in more[key]:  # the data is in that file alone, in which the peer allows no checksum
                    more[key] = {**more[key], "meta_crc32": zlib.crc32(text)}
                objects.append((folder_path, text))
            else:
                below.append((entry, folder_path))
        if key in RESERVED:
            more[key] = entry if "dtype" in entry else more.get(key) or {"type": entry_kind}
        else:
            meta[key] = known
    if more:
        own["entries"] = more
    meta.update(shape=node["batch_size"], device="cpu", **_PLAIN)
    if "names" in node and kind == "collection":
        meta["_names"] = node["names"]
    meta[OWN] = own
    yield folder, sealed_json.sealed(meta, 2)
    yield from objects
    for entry, folder_path in below:
        yield from meta_texts(entry, folder_path)


def meta_files(node: Node, what: str, where: str | os.PathLike[str]) -> list[tuple[str, bytes]]:
    """Return (folder, content of its ``meta.json``) for all folders of a tree.

    Args:
        node: the tree.
        what: the caller, for errors.
        where: the outermost folder, for errors.

    Raises:
        ValueError: a ``meta.json`` is longer than the limit for reading.
    """
    found = list(meta_texts(node))
    for folder, text in found:
        collection_tree.check_length(len(text), LONGEST, what, f"{where}/{folder}")
    return found


PEER_TYPES = {
    "collection": "TensorDict", "lazy_stack": "LazyStackedTensorDict", "object": "NonTensorData",
    "objects": "NonTensorStack", **dict.fromkeys(_BUFFERS, "TensorDict"),
}  # fmt: skip


def _split_object(node: Node) -> tuple[Node, Node]:
    """Split the node of an object in two: one for its folder, which the peer reads, and one for our own metadata.

    Data of JSON's own types is in the folder alone. Other data is in our own metadata; the folder has what the peer can
    make of it: lists for tuples, nothing for the rest.
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
        if items[1] == "float":  # nan and infinities, which the peer writes in Python's form
            return float(items[2])
        if items[1] not in ("tuple", "list"):
            raise ValueError(items[1])
        items = items[2]
    return [_untagged(item) for item in items or ()]


def _meta_of_objects(node: Node) -> dict[str, Any]:
    if node["type"] == "object":
        data = {"data": node["data"]} if "data" in node else {}
        return {**_OBJECT, **data, "_metadata": None, "_is_non_tensor": True}
    if "data" not in node:
        return {**_OBJECTS, "stack_dim": 0, "device": None}
    size = node["batch_size"]
    # objects can be lists, so that the depth of the lists does not tell the batch dimensions
    own = {OWN: {"version": VERSION, "ndim": len(size)}} if any(type(item) is list for item in node["data"]) else {}
    return {**_OBJECTS, "stack_dim": 0, "device": None, "data": nest_lists(node["data"], size), **own}


# ---------------------------------------------------------------------------------------------------------------------
# reading


class MetaFolder(Protocol):
    """A folder of a collection, on disk or in an archive."""

    @property
    def name(self) -> str: ...

    def read_file(self, name: str, /) -> bytes | bytearray:
        """Return the content of a file in the folder."""
        ...

    def names(self) -> set[str]:
        """Return the names of the files and folders in the folder."""
        ...


class FolderTree(Protocol):
    """The folders of a collection and of those nested in it, by key."""

    @property
    def allow_pickle(self) -> bool:
        """True if objects that were pickled are loaded."""
        ...

    def at(self, path: tuple[str, ...], /) -> MetaFolder:
        """Return the folder of a key. It is valid until another one is asked for."""
        ...

    def use_values_folder(self, path: tuple[str, ...], /) -> None:
        """Use the subfolder ``_tensordict`` of a folder in place of it."""
        ...

    def mark_foreign(self, path: tuple[str, ...], /) -> None:
        """Note that the peer wrote a folder, so that its files may have the unescaped keys as names."""
        ...


def read_node(folders: FolderTree, path: collection_tree.Path, checksum: object = None) -> Node:
    """Return the tree that the ``meta.json`` files of a folder and of those below it describe.

    Args:
        folders: the folders.
        path: the key of the folder.
        checksum: the checksum of its ``meta.json``, if the outer one has it.

    Raises:
        FileError: a ``meta.json`` is damaged.
    """
    folder = folders.at(path)
    meta = read_meta(folder, checksum)
    foreign = OWN not in meta or _is_entry(meta[OWN])  # the latter: an entry of the peer with this key
    own: dict[str, Any] | None = {} if foreign else as_dict(meta[OWN])
    if own is None or not own.keys() <= _OWN_KEYS:
        raise FileError(f"{folder.name}/{META}: {OWN} is damaged")
    if foreign:
        folders.mark_foreign(path)
    version = own.get("version", VERSION)
    if version != VERSION:
        raise FileError(
            f"{folder.name}/{META}: version {str(version)[:20]} of the format; this package reads {VERSION}"
        )
    kind = _peer_class(meta)

    def below(key: str) -> Node:
        return read_node(folders, (*path, key))

    if kind in ("NonTensorData", "NonTensorStack"):
        return _node_of_objects(kind, meta, folder, folders.allow_pickle, own.get("ndim"))
    if len(path) > collection_tree.DEPTH:
        raise FileError(f"{folder.name}: collections are nested deeper than {collection_tree.DEPTH} levels")
    if kind == "LazyStackedTensorDict":
        count = own.get("parts")
        if count is None:
            names = folder.names()
            count = next(at for at in itertools.count() if str(at) not in names)
        if type(count) is not int:
            raise FileError(f"{folder.name}/{META}: expected the number of items of a stack, got {_excerpt(count)}")
        return {
            "type": "lazy_stack", "stack_dim": meta.get("stack_dim"), "stack_dim_name": meta.get("stack_dim_name"),
            "parts": [below(str(at)) for at in range(count)],
        }  # fmt: skip
    if "shape" not in meta:  # a record of the peer
        folders.use_values_folder(path)
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
            if type(named) is str:  # a plain tensor, the common case: turn the dict into a node
                known["type"] = "tensor"
                known["dtype"] = named.removeprefix("torch.")
                entries[key] = known
                continue
        entries[key] = _entry(key, known, more.get(key), folders, path, folder.name)
    for key, entry in more.items():
        if key not in entries:
            entries[key] = _entry(key, {}, entry, folders, path, folder.name)
    for kind in _BUFFERS:
        if kind in own:
            described = as_dict(own[kind])
            if described is None:
                raise FileError(f"{folder.name}/{META}: the description of its {kind} is damaged")
            return {**described, "type": kind, "batch_size": meta["shape"], "entries": entries}
    node: Node = {"type": "collection", "batch_size": meta["shape"], "entries": entries}
    if meta.get("_names") is not None and "_names" not in entries:
        node["names"] = meta["_names"]
    if "class" in own:
        node["class"] = own["class"]
    return node


def _is_entry(known: Any) -> bool:
    """Return whether a value of ``meta.json`` is the peer's description of an entry."""
    given = as_dict(known)
    return given is not None and ("dtype" in given or "type" in given)


def _entry(key: str, known: Any, own: Any, folders: FolderTree, path: collection_tree.Path, folder: str) -> Node:
    """Return the node of an entry from the peer's description of it, ``known``, and our own."""
    given, more = as_dict(known), as_dict(own)
    if given is None or (own is not None and more is None):
        raise FileError(f"{folder}/{META}: expected a description of {_excerpt(key)}, got {_excerpt(known or own)}")
    if more is not None and ("dtype" in more or "data" in more):
        return more
    if "dtype" not in given:
        if len(given) > 1 or not isinstance(given.get("type", ""), str):
            raise FileError(f"{folder}/{META}: the description of {_excerpt(key)} is damaged: {_excerpt(given)}")
        return {**read_node(folders, (*path, key), (more or {}).get("meta_crc32")), **(more or {})}
    dtype = str(given["dtype"]).removeprefix("torch.")
    if given.get("is_nested") is True:
        shape = as_list(given.get("shape"))
        if shape is None or len(shape) != 2:
            raise FileError(f"{folder}/{META}: {_excerpt(key)}: expected a shape of two numbers, got {_excerpt(shape)}")
        return {"type": "nested", "dtype": dtype, "shape": None, "rows": shape[0], "dims": shape[1]}
    return {"type": "tensor", "dtype": dtype, "shape": given.get("shape"), **(more or {})}


def _excerpt(given: object) -> str:
    return ascii(given)[:80]


def _node_of_objects(kind: str, meta: dict[str, Any], folder: MetaFolder, allow_pickle: bool, ndim: int | None) -> Node:
    if kind == "NonTensorStack" and "data" in meta:
        items = as_list(meta["data"])
        if items is None:  # the name of a pickle file
            items, size = flatten_lists(_load_peer_pickle(folder, "pickle.pkl", list, allow_pickle))
            items = [_encode_pickled(item, folder) for item in items]
        else:
            if ndim is not None and type(ndim) is not int:
                raise FileError(f"{folder.name}/{META}: ndim: expected a number, got {_excerpt(ndim)}")
            items, size = flatten_lists(items, ndim)
            if ndim is not None and len(size) != ndim:
                raise FileError(f"{folder.name}/{META}: expected lists nested {ndim} deep, found {len(size)}")
        return {"type": "objects", "batch_size": size, "data": items}
    if "data" in meta:
        return {"type": "object", "batch_size": [], "data": meta["data"]}
    held = as_dict(_load_peer_pickle(folder, "other.pickle", dict, allow_pickle)) or {}
    return {"type": "object", "batch_size": [], "data": _encode_pickled(held.get("data"), folder)}


def _load_peer_pickle(folder: MetaFolder, name: str, kind: type[Any], allowed: bool) -> Any:
    """Load a pickle of the peer."""
    if not allowed:
        raise FileError(
            f"{folder.name}: the objects were written as a pickle by another program, and loading a pickle can run any "
            "code; pass allow_pickle=True for files that you trust"
        )
    content = folder.read_file(name)
    try:
        found = pickle.loads(content)
    except Exception as error:  # of any class
        raise FileError(f"{folder.name}/{name}: the pickle cannot be loaded: {type_name(error)}: {error}") from None
    if type(found) is not kind:
        raise FileError(f"{folder.name}/{name}: expected a {class_name(kind)}, got a {type_name(found)}")
    return found


def _encode_pickled(value: Any, folder: MetaFolder) -> Any:
    try:
        return encode(value, True)
    except Exception as error:  # raised while pickling it
        raise FileError(f"{folder.name}: an object cannot be read: {type_name(error)}: {error}") from None


def read_meta(folder: MetaFolder, checksum: object = None) -> dict[str, Any]:
    """Return the content of a folder's ``meta.json``; raise if its checksum differs.

    If the peer has rewritten the file, as it does when it appends rows, outdated parts of our own metadata are dropped.
    """
    text = folder.read_file(META)
    name = f"{folder.name}/{META}"
    if checksum is not None and zlib.crc32(text) != checksum:
        raise FileError(f"{name}: it has changed since it was written: its checksum differs")
    try:
        return sealed_json.unsealed(text, name, OWN, nan=True)
    except FileError:
        if not sealed_json.is_rewritten(text):
            raise
    meta = sealed_json.parse_json(text, name, nan=True)
    meta[OWN] = _without_outdated(as_dict(meta.get(OWN)) or {})
    return meta


def _without_outdated(own: dict[str, Any]) -> dict[str, Any]:
    """Return our own metadata without checksums, and batch sizes that the peer's metadata has too."""
    entries: dict[str, Any] = {}
    for key, entry in (as_dict(own.get("entries")) or {}).items():
        known = as_dict(entry) or {}
        old = ("crc32", "meta_crc32", *(() if "data" in known else ("batch_size",)))
        entries[key] = {field: value for field, value in known.items() if field not in old}
    return {**own, "entries": entries}


def _peer_class(meta: dict[str, Any]) -> str:
    """Return the name of the class that a collection had in the peer."""
    named = meta.get("_class") or meta.get("_type") or ""
    if named == _PLAIN["_class"]:
        return "TensorDict"
    return re.sub(r"[^\w]+$", "", str(named)).rsplit(".", 1)[-1].rsplit(":", 1)[-1]
