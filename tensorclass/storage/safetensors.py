"""Files in the safetensors format, which other tools read too: all tensors, and their tree in the metadata.

The name of a tensor is its keys, joined by dots; a dot or a percent sign in a key is ``%2E`` or ``%25``. The metadata
has the tree (``collection_tree``) as JSON under ``"tensorclass"``. A file that another program wrote has none, and is
loaded as a flat collection.

Loading maps the file to memory: values are read when they are used, and writes to them stay in this process.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Size, Tensor

from tensorclass.support.atomic import whole_path
from tensorclass.support.extras import require
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import open_regular
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import DeviceLike, as_device
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.memory.mapped_files import Filename

from .common import collection_tree, describe_collection, rebuild_collection, sealed_json
from .common.collection_tree import FileError, Node, TreeSource, as_dict
from .common.file_paths import check_parent, loading, path_of
from .common.object_json import TAG

METHODS_OF = "Files"
C = TypeVar("C", bound=TensorCollection)

_EXTRA = "safetensors"
_KEY = "tensorclass"  #: of the tree in the metadata
_MARK = "tensorclass_version"  #: accompanies the tree: a file with only one of the two is damaged
_PEER = "tensordict"  #: the key of the peer's description in the metadata
_LONGEST = 100_000_000  #: the most bytes of a header that the library reads
_LACKS = ("complex32", "complex128")  #: dtypes that the format does not have


def save_safetensors(data: TensorCollection, path: Filename, *, checksum: bool = False) -> None:
    """Write the collection to one file in the safetensors format, completely or not at all.

    Other tools can read its tensors. Nested collections, batch sizes, names, fields of records and objects are in
    its metadata.

    Args:
        path: the file. An existing one is replaced.
        checksum: store a checksum of each tensor for ``load_safetensors(verify=True)``.

    Raises:
        ImportError: safetensors is not installed (the extra ``safetensors``).
        TypeError: the file cannot hold some values. Lists all of them. Nothing was written.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TensorDict({"x": torch.ones(3), "text": "a"}, [3]).save_safetensors(folder + "/rows.safetensors")
        ...     TensorDict.load_safetensors(folder + "/rows.safetensors")[1].to_dict()
        {'x': tensor(1.), 'text': 'a'}
    """
    path = path_of(path, "save_safetensors", writes=True)
    check_parent(path)
    library = require("safetensors.torch", _EXTRA, "save_safetensors")
    node, leaves = describe_collection.describe(data, "save_safetensors", None, checksum)
    if lacking := [".".join(leaf.path) for leaf in leaves if str(leaf.tensor.dtype).removeprefix("torch.") in _LACKS]:
        raise TypeError(f"save_safetensors: nothing was written; the format has no tensors of the dtypes of {lacking}")
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for leaf in leaves:
        value = leaf.tensor.detach().contiguous()
        address = value.untyped_storage().data_ptr()
        # the library refuses tensors that share memory, since they would not after loading
        tensors[_name(leaf.path, leaf.buffer)] = value.clone() if address in seen else value.as_subclass(Tensor)
        seen.add(address)
    metadata = {"format": "pt", _KEY: sealed_json.sealed({"version": collection_tree.VERSION, "tree": node}).decode()}
    metadata[_MARK] = str(collection_tree.VERSION)
    for_peer = _to_peer_metadata(node, ())
    if for_peer is not None:
        metadata[_PEER] = json.dumps({"version": 1, "root": for_peer}, allow_nan=False)
    with uninterrupted() as section, whole_path(path) as draft, section.interruptible():
        try:
            library.save_file(tensors, draft, metadata=metadata)
        except OSError:
            raise
        except Exception as error:  # of the library's own class, with the error number only in its message
            number = re.search(r"\(os error (\d+)\)", str(error))
            raise OSError(int(number[1]) if number else errno.EIO, str(error), str(draft)) from None
        with open(draft, "rb") as written:
            length = int.from_bytes(written.read(8), "little")
        collection_tree.check_length(length, _LONGEST, "save_safetensors")


to_safetensors = save_safetensors


def load_safetensors(
    cls: type[C],
    path: Filename,
    *,
    device: DeviceLike | None = None,
    keys: Sequence[NestedKey] | None = None,
    strict: bool = True,
    verify: bool = False,
) -> C:
    """Load the collection in a safetensors file, also in one that another program wrote.

    The file is mapped to memory: values are read when they are used, and a slice reads only its rows. Writes to the
    tensors stay in this process.

    Args:
        path: the file.
        device: where the tensors are moved; by default they stay mapped. ``meta`` reads none of them.
        keys: the keys to load, nested or not; all by default.
        strict: with ``False``, drop keys that are not fields of a record, and warn about them.
        verify: read all values, and compare them with the checksums that ``save_safetensors(checksum=True)``
            stored.

    Raises:
        ImportError: safetensors is not installed (the extra ``safetensors``).
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged or does not fit the record. Names every field that does not fit.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TensorDict({"x": torch.ones(3), "y": torch.zeros(3)}, [3]).save_safetensors(folder + "/rows")
        ...     data = TensorDict.load_safetensors(folder + "/rows", keys=["x"])
        >>> data.batch_size, data.to_dict()
        (torch.Size([3]), {'x': tensor([1., 1., 1.])})
    """
    name = path_of(path, "load_safetensors")
    target = as_device(device)
    if isinstance(keys, str):
        raise TypeError(f"load_safetensors: expected keys to be a list of keys, as [{keys!r}], got {keys!r}")
    with loading(name, "load_safetensors"), _open_file(name) as file:
        node, name_of = _read_node(file, name)
        if keys is not None:
            paths = [unravel_key_to_tuple(key) for key in keys]
            node = _chosen(node, [rebuild_collection.names_in_tree(cls, node, path) for path in paths], name)

        def read(where: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
            try:
                value: Tensor = file.get_tensor(name_of(where, buffer))
            except Exception as error:  # of the library's own class, which is not imported here
                raise FileError(f"{name}: {'.'.join(where)}: {error}") from None
            if value.shape != shape or value.dtype != dtype:
                raise FileError(
                    f"{name}: {'.'.join(where)}: expected a tensor of the shape {list(shape)} and {dtype}, it has "
                    f"{list(value.shape)} and {value.dtype}"
                )
            return value

        reader = rebuild_collection.placing(read, target)
        source = TreeSource(name, reader, target, False, strict, verify=verify, read_strings=read)
        return rebuild_collection.rebuild(node, cls, source)  # type: ignore[no-any-return]


from_safetensors = load_safetensors


def _name(path: collection_tree.Path, buffer: str) -> str:
    joined = ".".join([key.replace("%", "%25").replace(".", "%2E") for key in path])
    return f"{joined}%{buffer}" if buffer else joined


@contextmanager
def _open_file(name: str) -> Generator[Any, None, None]:
    library = require("safetensors", _EXTRA, "load_safetensors")
    try:
        handle = open_regular(name)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {printable(name)}") from None
    try:
        # the library opens a path twice, and would see two versions if the file is replaced in between
        same = f"/proc/self/fd/{handle}"
        try:
            file = library.safe_open(same if os.path.exists(same) else name, "pt")
        except library.SafetensorError as error:
            raise FileError(f"{name}: not a safetensors file, or damaged: {error}") from None
        with file as opened:
            yield opened
    finally:
        os.close(handle)


def _read_node(file: Any, name: str) -> tuple[Node, Callable[[collection_tree.Path, str], str]]:
    """Return the tree in the metadata, or one of the tensors in a foreign file; and the function that names tensors."""
    metadata: dict[str, str] = file.metadata() or {}
    text = metadata.get(_KEY)
    if text is None and _MARK in metadata:
        raise FileError(f"{name}: its metadata is damaged: it has {_MARK!r} without {_KEY!r}")
    if text is None and _PEER in metadata:
        names: dict[collection_tree.Path, str] = {}
        known = sealed_json.parse_json(metadata[_PEER].encode(), f"{name}: its metadata", nan=True)
        if known.get("version") != 1:
            raise FileError(f"{name}: its metadata is of the version {ascii(known.get('version'))[:20]}")
        left: set[str] = set(file.keys())
        return _from_peer_metadata(known.get("root"), (), names, left, file, name), lambda path, buffer: names[path]
    if text is None:
        entries = {key: _tensor_node(file, key) for key in file.keys()}  # noqa: SIM118  # not a mapping
        return {"type": "collection", "batch_size": [], "entries": entries}, lambda path, buffer: path[0]
    known = sealed_json.unsealed(text.encode(), f"{name}: its metadata")
    node = as_dict(known.get("tree"))
    if node is None or known.get("version") != collection_tree.VERSION:
        version = ascii(known.get("version"))[:20]
        raise FileError(f"{name}: its metadata has the version {version}; this package reads {collection_tree.VERSION}")
    return node, _name


def _to_peer_metadata(node: Node, path: collection_tree.Path) -> Node | None:
    """Return the peer's description of a tree; ``None`` if that cannot hold all of its values."""
    if "entries" not in node:
        return None
    keys: Node = {}
    is_collection = node["type"] == "collection"
    for key, entry in node["entries"].items():
        if entry["type"] == "tensor":
            keys[key] = {"tensor": _name((*path, key), "")}
        elif entry["type"] in ("collection", "column", *collection_tree.OBJECT_ARRAYS):
            keys[key] = {"td": _to_peer_metadata(entry, (*path, key))}
        elif entry["type"] == "object" and "kind" not in entry and TAG not in str(entry["data"]):
            keys[key] = {"non_tensor": entry["data"]}
        else:
            return None
        if keys[key] == {"td": None}:
            return None
    return {"batch_size": node["batch_size"], "names": node.get("names") if is_collection else None, "keys": keys}


def _from_peer_metadata(
    given: Any, path: collection_tree.Path, names: dict[collection_tree.Path, str], left: set[str], file: Any, name: str
) -> Node:
    """Return the tree of the peer's description ``given``. The peer describes lazy stacks as collections.

    Adds the name of each tensor to ``names``, and takes it out of ``left``.
    """
    known, where = as_dict(given) or {}, f"{name}: {'.'.join(path)}" if path else name
    keys = as_dict(known.get("keys"))
    if keys is None or len(path) > collection_tree.DEPTH:
        raise FileError(f"{where}: its metadata is damaged")
    entries: Node = {}
    for key, described in keys.items():
        kind, value = next(iter((as_dict(described) or {"": None}).items()))
        if kind == "tensor" and isinstance(value, str) and value in left:
            left.discard(value)  # two entries with this tensor would share memory
            names.update({(*path, key): value})
            entries[key] = _tensor_node(file, value)
        elif kind == "td":
            entries[key] = _from_peer_metadata(value, (*path, key), names, left, file, name)
        elif kind == "non_tensor":
            entries[key] = {"type": "object", "data": value, "batch_size": known.get("batch_size")}
        else:
            raise FileError(f"{where}: {ascii(key)[:40]}: its metadata is damaged")
    own = collection_tree.stated_names(known.get("names"))
    return {"type": "collection", "batch_size": known.get("batch_size"), "names": own, "entries": entries}


def _tensor_node(file: Any, name: str) -> Node:
    """Return the node of a tensor without a description, from its shape and dtype; reads no values."""
    tensor: Tensor = file.get_tensor(name)
    return {"type": "tensor", "dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape)}


def _chosen(node: Node, keys: list[collection_tree.Path], name: str) -> Node:
    """Return the tree with only some keys."""
    wanted: dict[str, list[collection_tree.Path]] = {}
    for key in keys:
        wanted.setdefault(key[0], []).append(key[1:])
    entries = as_dict(node.get("entries")) or {}
    if missing := [key for key in wanted if key not in entries]:
        raise KeyError(f"{name} has the keys {list(entries)}, not {missing}")
    chosen = {
        key: entries[key] if () in rest else _chosen(entries[key], rest, f"{name}: {key}")
        for key, rest in wanted.items()
    }
    # some fields of a record are not a record
    return {**{key: item for key, item in node.items() if key != "class" or chosen == entries}, "entries": chosen}
