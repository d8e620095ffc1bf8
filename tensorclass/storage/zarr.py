"""The zarr format (versions 2 and 3), as far as :mod:`.persistent` needs it, through zarr.

What zarr does not say is in the attribute ``tensorclass`` of a group or array: see docs/formats.md. Attributes of the
peer's are written beside it, so that it reads the folder too.
"""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import time
import uuid
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorclass.atomic import swapped_folder
from tensorclass.convert.extras import require
from tensorclass.printable import printable
from tensorclass.regular import kind_of
from tensorclass.td.objects import nest_lists

from . import sealing, tree
from .deflation import TEXTS, TIMES_TEXTS
from .hierarchy import BEFORE, DRAFT, NOTE, STACK, DamagedFile, Format, Replaced, Said, Texts, chunk_shape, flat
from .paths import loader_of
from .tree import FileError, as_dict, as_list

if TYPE_CHECKING:
    from .zarr_store import Held

_EXTRA = "zarr"
_MARK = "tensorclass_version"  #: there with a note: what has one of the two alone is damaged
_SEAL = "seal"
_MANY_CHUNKS = 2**16
_COLLECTION = "__tensordict__"  #: attributes of the peer
_OBJECT = "__tensordict_non_tensor__"

#: what decodes numbers, and does nothing else; a folder could name any that is installed, also one that runs pickles
_CODECS = {
    "bytes", "blosc", "gzip", "zstd", "crc32c", "transpose", "sharding_indexed", "zlib", "lz4", "bz2", "lzma",
    "shuffle", "delta", "vlen-utf8", "vlen-bytes",
}  # fmt: skip


_REPLACED = "another folder has taken the place of the one that was open; open it again"


class Zarr(Format):
    """Folders of the zarr format."""

    name: ClassVar[str] = "zarr"
    keeps_order: ClassVar[bool] = False
    has_seals: ClassVar[bool] = False
    _held: Held | None = None
    _moved: tuple[str, str] | None = None  #: the path of a draft, and the one that it will have
    options: ClassVar[tuple[str, ...]] = (
        "chunks", "shards", "filters", "compressors", "compressor", "fill_value", "order", "serializer",
        "chunk_key_encoding", "dimension_names", "overwrite",
    )  # fmt: skip

    @contextmanager
    def whole(self, path: str) -> Generator[Path, None, None]:
        _check_place(path)
        with swapped_folder(path) as draft:
            try:
                yield draft
            except BaseException:
                for _ in range(10):  # threads of the library may still be writing what is to go
                    shutil.rmtree(draft, ignore_errors=True)
                    time.sleep(0.02)
                raise

    def open(self, path: str, mode: str) -> Any:
        library = require("zarr", _EXTRA, "zarr")
        if mode in ("r", "r+") and not os.path.exists(path):
            raise FileNotFoundError(f"there is no folder {printable(path)}")
        if mode in ("w-", "x") and os.path.exists(path):
            raise FileExistsError(f"{printable(path)} is there already")
        if os.path.lexists(path) and not os.path.isdir(path):
            raise DamagedFile(f"{path}: expected a folder, found {kind_of(os.stat(path).st_mode)}")
        if mode == "w":
            _check_place(path)
        from .zarr_store import FolderStore, Held

        try:
            if mode not in ("r", "r+"):
                os.makedirs(path, exist_ok=True)
            self._held = Held(path)  # before reading
            store = FolderStore(self._held, read_only=mode == "r")
            given: dict[str, Any] = {"use_consolidated": False}
            if mode in ("w", "w-", "x"):
                given = {"zarr_format": 3}
            root = library.open_group(store, mode="w-" if mode == "x" else mode, **given)
            if mode in ("r+", "a"):
                _forget_copies(root)
            return root
        except Exception as error:  # of many classes
            is_replaced = self._held is not None and not self._held.is_there()
            self._let_go()
            if is_replaced:  # while it was opened: what was there is being removed
                raise Replaced(f"{path}: {_REPLACED}") from None
            if isinstance(error, (PermissionError, FileError)):
                raise
            raise DamagedFile(f"{path}: it is no zarr folder, or damaged: {error}") from None

    def lent(self, root: Any) -> Any:
        library = require("zarr", _EXTRA, "zarr")
        from .zarr_store import FolderStore, Held

        store = root.store
        if not isinstance(store, library.storage.LocalStore):
            raise TypeError(f"expected a group in a folder, of a LocalStore, got one of a {type(store).__name__}")
        own = FolderStore(Held(str(store.root)), read_only=store.read_only)
        mode = "r" if store.read_only else "r+"
        return library.open_group(own, path=root.path, mode=mode, use_consolidated=False)

    def close(self, root: Any) -> OSError | None:
        root.store.close()
        self._let_go()
        return None

    def settle(self, root: Any, whole: bool) -> OSError | None:
        return None  # each file is written when it is made, or is an error

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def moved(self, root: Any, path: str) -> None:
        root.store.held.path = path
        root.store.root = Path(path)

    def check_there(self, root: Any) -> None:
        if self._held is not None and not self._held.is_there():
            raise Replaced(_REPLACED)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def is_open(self, root: Any) -> bool:
        return True  # a folder is never open

    def names(self, group: Any) -> list[str]:
        found = [name for name in sorted(group.store.names(group.path)) if self.has(group, name)]
        place = {name: at for at, name in enumerate(self._order(group))}
        if missing := sorted(place.keys() - set(found)):
            raise ValueError(
                f"{missing} are missing; where they were removed on purpose, take {NOTE!r} out of the zarr.json of the "
                "group"
            )
        return sorted(found, key=lambda name: place.get(name, len(place)))

    def _order(self, group: Any) -> list[str]:
        """The names that are noted of a group."""
        said = self.said(group) or {}
        return [name for name in as_list(said.get("order")) or [] if isinstance(name, str)]

    def _reorder(self, group: Any, name: str, at: int | None) -> None:
        """Notes a name at a place among those of a group, or none of it."""
        said = self.said(group)
        if said is None or "order" not in said:
            return
        order = [known for known in self._order(group) if known != name]
        if at is not None:
            order.insert(at, name)
        self.say(group, {**said, "order": order})

    def has(self, group: Any, name: str) -> bool:
        kinds = ("zarr.json",) if group.metadata.zarr_format == 3 else (".zarray", ".zgroup")
        return any(group.store.has_file(f"{group.path}/{name}/{kind}") for kind in kinds)

    def find(self, group: Any, name: str) -> Any:
        try:
            group.store.names(f"{group.path}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            raise KeyError(f"there is no {name!r}") from None
        if not self.has(group, name):
            raise KeyError(f"there is no {name!r}")
        try:
            found = group[name]
        except KeyError:
            raise ValueError("what zarr says of it is damaged") from None
        above = self.said(group)
        if above is not None and _SEAL in above and self.said(found) is None:
            noted = above.get("type") in ("jagged", "lazy_stack") or name in self._order(group)
            if noted:
                raise ValueError("what was noted of it is missing")
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
        if (NOTE in attributes) != (_MARK in attributes):
            raise ValueError(f"it has one of the attributes {NOTE!r} and {_MARK!r} alone")
        if NOTE in attributes:
            said = as_dict(attributes[NOTE]) or {}
            if _SEAL in said and said[_SEAL] != self._seal_of(node, said):
                raise ValueError(
                    f"its zarr.json is not what was written, its checksum differs; where it was changed on purpose, "
                    f"take {_SEAL!r} out of it"
                )
            return said
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

    def _seal_of(self, node: Any, said: Said) -> str:
        """Compute the seal of a node from its path, its ``zarr.json`` and our notes."""
        content = node.store.read(f"{node.path}/zarr.json")
        if content is None:
            raise ValueError("its zarr.json is missing")
        about = sealing.parsed(content, node.path)
        for name in ("attributes", "consolidated_metadata"):
            about.pop(name, None)
        path = node.path
        if self._moved is not None and f"{path}/".startswith(f"{self._moved[0]}/"):  # where it will be
            path = self._moved[1] + path[len(self._moved[0]) :]
        known = [path, about, {name: value for name, value in said.items() if name != _SEAL}]
        return f"{zlib.crc32(json.dumps(known, sort_keys=True).encode()):08x}"

    def is_ours(self, group: Any) -> bool:
        return NOTE in group.attrs

    def say(self, node: Any, said: Said) -> None:
        seal = {_SEAL: self._seal_of(node, said)} if node.metadata.zarr_format == 3 else {}
        given: dict[str, Any] = {NOTE: {**said, **seal}, _MARK: str(tree.VERSION)}
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
        for option in ("chunks", "shards"):
            if option in given:
                # chunks must divide shards, also those of an array that is smaller
                given[option] = chunk_shape(given[option], shape, option, cut=given.get("shards") is None)
        if given.get("chunks", True) in (None, True):  # as h5py has it; here they are chosen where none are given
            given.pop("chunks", None)
        if values is not None and all(shape) and values.size <= _MANY_CHUNKS:
            return parent.create_array(name, data=values, **given)
        made = parent.create_array(name, shape=tuple(shape), dtype=dtype, **given)
        if values is not None and all(shape):
            self.write(made, (), values)
        return made

    def replaced(self, parent: Any, name: str, make: Any) -> Any:
        order = self._order(parent)
        at = order.index(name) if name in order else len(order)
        store = parent.store
        temporary = f"{DRAFT}-{uuid.uuid4().hex[:8]}"  # threads of the library may still write to one before
        place, draft, before = (f"{parent.path}/{one}".lstrip("/") for one in (name, temporary, BEFORE))
        for left in store.names(parent.path):
            if left.startswith((DRAFT, BEFORE)):  # of a process that was killed
                store.remove(f"{parent.path}/{left}")
        self._moved = (draft, place)
        try:
            make(parent, temporary)
        except BaseException:
            store.abandon(draft)
            raise
        finally:
            self._moved = None
        had = self.has(parent, name)
        if had:
            self._reorder(parent, name, None)  # what is noted is there, whenever the process is killed
            store.move(place, before)
        try:
            store.move(draft, place)
            self._reorder(parent, name, at)
        except BaseException:
            if not had:
                self._reorder(parent, name, None)  # it may be noted already; where that cannot be taken back, it stays
            store.remove(place)
            if had:
                store.move(before, place)
                self._reorder(parent, name, at)
            raise
        store.remove(before)
        return parent[name]

    def remove(self, parent: Any, name: str) -> None:
        self._reorder(parent, name, None)  # what is noted is there, whenever the process is killed
        del parent[name]

    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        _check_chunks(array, box)
        if all(isinstance(item, slice) for item in box):
            return np.asarray(array[box or ...])
        return np.asarray(array.oindex[box])

    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        if math.prod(map(_chunks_along, array.shape, array.shards or array.chunks)) > _MANY_CHUNKS:
            array = array.with_config({"write_empty_chunks": True})  # reading looks whether most of them are there
        if all(isinstance(item, slice) for item in box):
            array[box or ...] = values
        else:
            array.oindex[box] = values

    def resize(self, array: Any, length: int) -> None:
        said = self.said(array)
        array.resize((length, *array.shape[1:]))
        if said is not None:
            self.say(array, said)

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
            held = nest_lists(texts if is_text else [json.loads(text) for text in texts], said["batch_size"])
        raw = np.frombuffer(json.dumps(held, allow_nan=False).encode(), dtype=np.uint8)
        made = parent.create_array(name, shape=raw.shape, dtype=raw.dtype, chunks=raw.shape)
        made[...] = raw
        if _excess(made):  # so little is left of it that it could be anything
            del parent[name]
            made = parent.create_array(name, shape=raw.shape, dtype=raw.dtype, chunks=raw.shape, compressors=None)
            made[...] = raw
        said["crc32"] = zlib.crc32(raw.tobytes())
        return made

    def texts(self, array: Any) -> Any:
        said = self.said(array)
        _check_chunks(array, (slice(None),) * array.ndim)
        if excess := _excess(array):
            raise ValueError(excess)
        if said is None:
            found: Any = np.asarray(array[...])
            return found.item() if not found.ndim else found.tolist()
        content = np.asarray(array[...]).tobytes()
        if said.get("form") == "pickle":  # by the peer
            return base64.b64encode(content).decode()
        if said.get("crc32", zlib.crc32(content)) != zlib.crc32(content):
            raise ValueError("its objects are not those that were written: their checksum differs")
        held = json.loads(content)
        if said.get("type") == "objects":
            size = self.shape_of_texts(array, said)
            items = flat(held, len(size))
            if len(items) != math.prod(size):
                raise ValueError(f"expected {math.prod(size)} objects, found {len(items)}")
            return held if said.get("form") == "text" else nest_lists([json.dumps(item) for item in items], size)
        if said.get("form") == "text":
            return held
        return json.dumps({"data": held} if said.get("form") in ("data", "peer") else held)

    def shape_of_texts(self, array: Any, said: Said) -> Sequence[int]:
        return [size for size in as_list(said.get("batch_size")) or [] if type(size) is int and size >= 0]

    def is_text(self, array: Any) -> bool:
        return array.dtype.kind in "OUST"

    def can_hold_text(self, text: str) -> bool:
        return True  # JSON has a form for any


def _forget_copies(root: Any) -> None:
    """Removes the copies that a root can have of what is said of all arrays, before these change: others read them."""
    root.store.remove(".zmetadata")
    content = root.store.read("zarr.json")
    known = as_dict(json.loads(content)) or {} if content is not None else {}
    if known.get("consolidated_metadata") is not None:
        root.attrs.put(dict(root.attrs))  # written anew without them


def _check_place(path: str) -> None:
    """Raises an error where a new folder would take the place of files that are none of zarr."""
    if os.path.isdir(path) and os.listdir(path) and loader_of(path) != "from_zarr":
        raise FileExistsError(
            f"{printable(path)} is no zarr folder, and all that is in it would go: "
            "take another path, or an empty folder"
        )


def _excess(array: Any) -> str:
    """Describe how an array of text expands more than one may, for an error; ``""`` if it does not."""
    size = math.prod(array.shape) * max(1, array.dtype.itemsize)
    if size <= TEXTS or size <= TEXTS + TIMES_TEXTS * (stored := array.store.size(array.path)):
        return ""
    return f"its text takes {stored} bytes, and {size} when it is unpacked: more than {TIMES_TEXTS} times as many"


def _check_chunks(array: Any, box: tuple[Any, ...]) -> None:
    """Raises an error where most of very many chunks are missing: a small file that says it is large."""
    count, stored = 1, array.shards or array.chunks
    for at, (length, size) in enumerate(zip(array.shape, stored, strict=True)):
        item = box[at] if at < len(box) else slice(None)
        rows = len(range(*item.indices(length))) if isinstance(item, slice) else len(item)
        count *= _chunks_along(rows, size) if isinstance(item, slice) else rows
    if count <= _MANY_CHUNKS:
        return
    found = array.store.count(array.path, count // 4)
    if found > count // 4:
        return
    raise ValueError(f"it should have {count} chunks, and has {found} files; read parts of it by an index")


def _chunks_along(length: int, size: int) -> int:
    return -(-length // max(size, 1))


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
