"""The zarr format (versions 2 and 3), as far as :mod:`.persistent` needs it, through zarr.

What zarr does not say is in the attribute ``tensorclass`` of a group or array: see docs/formats.md. Attributes of the
peer's are written beside it, so that it reads the folder too.
"""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tensorclass.atomic import swapped_folder
from tensorclass.convert.extras import require

from .hierarchy import NOTE, STACK, DamagedFile, Format, Said, Texts, chunk_shape, flat, nested
from .paths import loader_of
from .tree import as_dict, as_list

_EXTRA = "zarr"
_COLLECTION = "__tensordict__"  #: attributes of the peer
_OBJECT = "__tensordict_non_tensor__"

#: what decodes numbers, and does nothing else; a folder could name any that is installed, also one that runs pickles
_CODECS = {
    "bytes", "blosc", "gzip", "zstd", "crc32c", "transpose", "sharding_indexed", "zlib", "lz4", "bz2", "lzma",
    "shuffle", "delta", "vlen-utf8", "vlen-bytes",
}  # fmt: skip


class Zarr(Format):
    """Folders of the zarr format."""

    name: ClassVar[str] = "zarr"
    keeps_order: ClassVar[bool] = False
    options: ClassVar[tuple[str, ...]] = (
        "chunks", "shards", "filters", "compressors", "compressor", "fill_value", "order", "serializer",
        "chunk_key_encoding", "dimension_names", "overwrite",
    )  # fmt: skip

    def whole(self, path: str) -> AbstractContextManager[Path]:
        if os.path.isdir(path) and os.listdir(path) and loader_of(path) != "from_zarr":
            raise FileExistsError(
                f"{path} is no zarr folder, and all that is in it would go: take another path, or an empty folder"
            )
        return swapped_folder(path)

    def open(self, path: str, mode: str) -> Any:
        library = require("zarr", _EXTRA, "zarr")
        if mode in ("r", "r+") and not os.path.exists(path):
            raise FileNotFoundError(f"there is no folder {path}")
        if mode in ("w-", "x") and os.path.exists(path):
            raise FileExistsError(f"{path} is there already")
        try:
            store = library.storage.LocalStore(path, read_only=mode == "r")
            given: dict[str, Any] = {} if mode in ("w", "w-", "x") else {"use_consolidated": False}
            root = library.open_group(store, mode="w-" if mode == "x" else mode, **given)
            if mode in ("r+", "a"):
                _forget_copies(path, root)
            return root
        except PermissionError:
            raise
        except Exception as error:  # of many classes
            raise DamagedFile(f"{path}: it is no zarr folder, or damaged: {error}") from None

    def close(self, root: Any) -> None:
        root.store.close()

    def is_open(self, root: Any) -> bool:
        return True  # a folder is never open

    def names(self, group: Any) -> list[str]:
        said = self.said(group)
        found = sorted(group.keys())
        order = [] if said is None else as_list(said.get("order")) or []
        place = {name: at for at, name in enumerate(order) if isinstance(name, str)}
        return sorted(found, key=lambda name: place.get(name, len(place)))

    def find(self, group: Any, name: str) -> Any:
        place = Path(group.store.root) / group.path / name
        try:
            with os.scandir(place) as entries:
                linked = any(entry.is_symlink() for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            raise KeyError(f"there is no {name!r}") from None
        if linked or place.is_symlink():
            raise ValueError("it is, or holds, a link, which is not followed")
        found = group[name]
        if not self.is_group(found):
            codecs = _codecs(as_dict(found.metadata.to_dict()) or {})
            if unknown := sorted(codecs - _CODECS):
                raise ValueError(f"its values are encoded by {unknown}; what is read are {sorted(_CODECS)}")
        return found

    def address(self, node: Any) -> object:
        return node.path

    def is_group(self, node: Any) -> bool:
        return not hasattr(node, "dtype")

    def said(self, node: Any) -> Said | None:
        attributes: dict[str, Any] = dict(node.attrs)
        if NOTE in attributes:
            return as_dict(attributes[NOTE]) or {}
        peer = as_dict(attributes.get(_COLLECTION))
        if peer is not None and self.is_group(node):
            return {**peer, "type": "collection", "version": 1, "names": _names(peer)}
        found = as_dict(attributes.get(_OBJECT))
        if found is not None:
            pickled = found.get("encoding") == "pickle"
            if STACK in attributes:
                return {"type": "objects", "batch_size": attributes[STACK], "form": "pickle" if pickled else "json"}
            return {"type": "object", "batch_size": [], "form": "pickle" if pickled else "peer"}
        return None

    def is_ours(self, group: Any) -> bool:
        return NOTE in group.attrs

    def say(self, node: Any, said: Said) -> None:
        given: dict[str, Any] = {NOTE: said}
        if said.get("type") == "collection":
            peer = {"batch_size": said["batch_size"], "version": 1}
            given[_COLLECTION] = peer | ({"names": said["names"]} if "names" in said else {})
        elif said.get("type") in ("object", "objects"):
            given[_OBJECT] = {"encoding": "json"}
            if said["type"] == "objects":
                given[STACK] = said["batch_size"]
        node.attrs.update(given)

    def make_group(self, parent: Any, name: str) -> Any:
        return parent.create_group(name)

    def make_array(
        self,
        parent: Any,
        name: str,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        values: Any,
        options: dict[str, Any],
        resizable: bool,
    ) -> Any:
        given: dict[str, Any] = dict(options) if len(shape) and all(shape) else {}
        if "chunks" in given:
            given["chunks"] = chunk_shape(given["chunks"], shape)
        if values is not None and all(shape):
            return parent.create_array(name, data=values, **given)
        return parent.create_array(name, shape=tuple(shape), dtype=dtype, **given)

    def replaced(self, parent: Any, name: str, make: Any) -> Any:
        if name in parent:
            del parent[name]
        return make(parent, name)

    def remove(self, parent: Any, name: str) -> None:
        del parent[name]

    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        if all(isinstance(item, slice) for item in box):
            return np.asarray(array[box or ...])
        return np.asarray(array.oindex[box])

    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        if all(isinstance(item, slice) for item in box):
            array[box or ...] = values
        else:
            array.oindex[box] = values

    def resize(self, array: Any, length: int) -> None:
        array.resize((length, *array.shape[1:]))

    def can_resize(self, array: Any) -> bool:
        return True

    def make_texts(self, parent: Any, name: str, texts: Texts, said: Said) -> Any:
        # as the peer has it: bytes of JSON. What is JSON already is not quoted once more
        is_text = said["form"] == "text"
        if isinstance(texts, str):
            held: Any = texts if is_text else json.loads(texts)
            if not is_text and held["metadata"] is None:
                held = held["data"]
                said["form"] = "data"
        else:
            held = nested(texts if is_text else [json.loads(text) for text in texts], said["batch_size"])
        raw = np.frombuffer(json.dumps(held, allow_nan=False).encode(), dtype=np.uint8)
        made = parent.create_array(name, shape=raw.shape, dtype=raw.dtype, chunks=raw.shape)
        made[...] = raw
        return made

    def texts(self, array: Any) -> Any:
        said = self.said(array)
        if said is None:
            found: Any = np.asarray(array[...])
            return found.item() if not found.ndim else found.tolist()
        content = np.asarray(array[...]).tobytes()
        if said.get("form") == "pickle":  # by the peer
            return base64.b64encode(content).decode()
        held = json.loads(content)
        if said.get("type") == "objects":
            size = self.shape_of_texts(array, said)
            items = flat(held, len(size))
            if len(items) != math.prod(size):
                raise ValueError(f"expected {math.prod(size)} objects, found {len(items)}")
            return held if said.get("form") == "text" else nested([json.dumps(item) for item in items], size)
        if said.get("form") == "text":
            return held
        return json.dumps({"data": held} if said.get("form") in ("data", "peer") else held)

    def shape_of_texts(self, array: Any, said: Said) -> Sequence[int]:
        return [size for size in as_list(said.get("batch_size")) or [] if type(size) is int and size >= 0]

    def is_text(self, array: Any) -> bool:
        return array.dtype.kind in "OUST"

    def can_hold_text(self, text: str) -> bool:
        return True  # JSON has a form for any

    def flush(self, root: Any) -> None:
        pass


def _forget_copies(path: str, root: Any) -> None:
    """Removes the copies that a root can have of what is said of all arrays, before these change: others read them."""
    copy = Path(path, ".zmetadata")
    if copy.exists():
        copy.unlink()
    try:
        known = as_dict(json.loads(Path(path, "zarr.json").read_bytes())) or {}
    except FileNotFoundError:
        return
    if known.get("consolidated_metadata") is not None:
        root.attrs.put(dict(root.attrs))  # written anew without them


def _names(peer: dict[str, Any]) -> Any:
    names = as_list(peer.get("names"))
    return None if names is None or all(name is None for name in names) else names


def _codecs(metadata: dict[str, Any]) -> set[str]:
    """The names of all codecs of an array, those in shards too."""
    found: set[str] = set()
    chosen = {key: metadata.get(key) for key in ("codecs", "filters", "compressor")}
    given: list[Any] = [json.loads(json.dumps(list(chosen.values()), default=_codec_name))]
    while given:
        item: Any = given.pop()
        codec = as_dict(item)
        given += as_list(item) or []
        if codec is not None:
            found.add(str(codec.get("name", codec.get("id"))))
            configuration = as_dict(codec.get("configuration")) or {}
            given += [configuration.get("codecs"), configuration.get("index_codecs")]
        elif isinstance(item, str):
            found.add(item)
    return found


def _codec_name(codec: object) -> str:
    """The name of a codec of the library ``numcodecs``."""
    return str(getattr(codec, "codec_id", "unknown"))
