"""The zarr backend of :mod:`.persistent_tensordict`, for versions 2 and 3 of the format, through the library zarr.

Metadata that zarr has no place for is in the attribute ``tensorclass`` of a group or array: see docs/formats.md. The
attributes of the peer are written beside it, so that the peer reads the folder too.
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
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorclass.storage.common import collection_tree, sealed_json
from tensorclass.storage.common.collection_tree import FileError, as_dict, as_list
from tensorclass.storage.common.decompression import TEXTS, TIMES_TEXTS
from tensorclass.storage.common.file_paths import loader_of
from tensorclass.support.atomic import swapped_folder
from tensorclass.support.extras import require
from tensorclass.support.printable import printable, type_name
from tensorclass.support.regular_files import file_type
from tensorclass.td.leaves.object_codes import nest_lists

from . import array_backend
from .array_backend import BEFORE, DRAFT, NOTE, STACK, ArrayBackend, DamagedFile, Note, Replaced, Texts, flat

if TYPE_CHECKING:
    from .zarr_store import HeldFolder

_EXTRA = "zarr"
_MARK = "tensorclass_version"  #: accompanies a note: a node with only one of the two is damaged
_SEAL = "seal"  #: the key of a note's checksum
_MANY_CHUNKS = 2**16
_COLLECTION = "__tensordict__"  #: an attribute of the peer
_OBJECT = "__tensordict_non_tensor__"  #: an attribute of the peer

#: codecs that only decode numbers; a folder could name any installed codec, also one that runs pickles
_CODECS = {
    "bytes", "blosc", "gzip", "zstd", "crc32c", "transpose", "sharding_indexed", "zlib", "lz4", "bz2", "lzma",
    "shuffle", "delta", "vlen-utf8", "vlen-bytes",
}  # fmt: skip


_REPLACED = "another folder has taken the place of the one that was open; open it again"


class Zarr(ArrayBackend):
    """Folders of the zarr format."""

    name: ClassVar[str] = "zarr"
    keeps_order: ClassVar[bool] = False
    protects_metadata: ClassVar[bool] = False
    _held: HeldFolder | None = None
    _moved: tuple[str, str] | None = None  #: the path of the draft that is being written, and its final path
    options: ClassVar[tuple[str, ...]] = (
        "chunks", "shards", "filters", "compressors", "compressor", "fill_value", "order", "serializer",
        "chunk_key_encoding", "dimension_names", "overwrite",
    )  # fmt: skip

    @contextmanager
    def whole(self, path: str) -> Generator[Path, None, None]:
        _check_overwritable(path)
        with swapped_folder(path) as draft:
            try:
                yield draft
            except BaseException:
                for _ in range(10):  # threads of the library may still write to the draft
                    shutil.rmtree(draft, ignore_errors=True)
                    time.sleep(0.02)
                raise

    def open(self, path: str, mode: str) -> Any:
        library = require("zarr", _EXTRA, "zarr")
        if mode in ("r", "r+") and not os.path.exists(path):
            raise FileNotFoundError(f"there is no folder {printable(path)}")
        if mode in ("w-", "x") and os.path.exists(path):
            raise FileExistsError(f"{printable(path)} exists already")
        if os.path.lexists(path) and not os.path.isdir(path):
            raise DamagedFile(f"{path}: expected a folder, found {file_type(os.stat(path).st_mode)}")
        if mode == "w":
            _check_overwritable(path)
        from .zarr_store import FolderStore, HeldFolder

        try:
            if mode not in ("r", "r+"):
                os.makedirs(path, exist_ok=True)
            self._held = HeldFolder(path)  # before reading
            store = FolderStore(self._held, read_only=mode == "r")
            given: dict[str, Any] = {"use_consolidated": False}
            if mode in ("w", "w-", "x"):
                given = {"zarr_format": 3}
            root = library.open_group(store, mode="w-" if mode == "x" else mode, **given)
            if mode in ("r+", "a"):
                _remove_consolidated_metadata(root)
            return root
        except Exception as error:  # of many classes
            is_replaced = self._held is not None and not self._held.is_there()
            self._release_folder()
            if is_replaced:  # while it was opened: the old folder is being removed
                raise Replaced(f"{path}: {_REPLACED}") from None
            if isinstance(error, (PermissionError, FileError)):
                raise
            raise DamagedFile(f"{path}: not a zarr folder, or damaged: {error}") from None

    def borrow(self, root: Any) -> Any:
        library = require("zarr", _EXTRA, "zarr")
        from .zarr_store import FolderStore, HeldFolder

        store = root.store
        if not isinstance(store, library.storage.LocalStore):
            raise TypeError(f"expected a group of a LocalStore, got one of a {type_name(store)}")
        own = FolderStore(HeldFolder(str(store.root)), read_only=store.read_only)
        mode = "r" if store.read_only else "r+"
        return library.open_group(own, path=root.path, mode=mode, use_consolidated=False)

    def close(self, root: Any) -> OSError | None:
        root.store.close()
        self._release_folder()
        return None

    def _release_folder(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.close()

    def moved(self, root: Any, path: str) -> None:
        root.store.held.path = path
        root.store.root = Path(path)

    def check_unreplaced(self, root: Any) -> None:
        if self._held is not None and not self._held.is_there():
            raise Replaced(_REPLACED)

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def is_open(self, root: Any) -> bool:
        return True  # folders need not be open

    def names(self, group: Any) -> list[str]:
        found = [name for name in sorted(group.store.names(group.path)) if self.has(group, name)]
        position = {name: at for at, name in enumerate(self._order(group))}
        if missing := sorted(position.keys() - set(found)):
            raise ValueError(
                f"{missing} are missing; if they were removed on purpose, take {NOTE!r} out of the zarr.json of the "
                "group"
            )
        return sorted(found, key=lambda name: position.get(name, len(position)))

    def _order(self, group: Any) -> list[str]:
        """Return the names that the note of a group lists."""
        note = self.read_note(group) or {}
        return [name for name in as_list(note.get("order")) or [] if isinstance(name, str)]

    def _reorder(self, group: Any, name: str, at: int | None) -> None:
        """Move a name to a position in the note of a group, or take it out (``None``)."""
        note = self.read_note(group)
        if note is None or "order" not in note:
            return
        order = [known for known in self._order(group) if known != name]
        if at is not None:
            order.insert(at, name)
        self.write_note(group, {**note, "order": order})

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
            raise ValueError("its zarr metadata is damaged") from None
        return self._checked(group, name, found)

    def find_all(self, group: Any) -> Mapping[str, Any]:
        # one by one, each would wait for the library's thread
        if group.metadata.zarr_format != 3:
            return {}
        try:
            others = group.store.names(group.path) - {"zarr.json"}
            if not all(self.has(group, name) for name in others):  # the library warns of them
                return {}
            return dict(group.members())
        except Exception:  # `find` says what is damaged
            return {}

    def checked(self, group: Any, name: str, found: Any) -> Any:
        group.store.names(f"{group.path}/{name}")  # raises for links
        return self._checked(group, name, found)

    def _checked(self, group: Any, name: str, found: Any) -> Any:
        if NOTE not in found.attrs and self.read_note(found) is None and self._lists(group, name):
            raise ValueError(f"its attribute {NOTE!r} is missing")
        if not self.is_group(found):
            about = found.metadata
            if about.zarr_format == 3:  # `to_dict` of the whole would take longer than all the rest
                codecs = _codecs({"codecs": [codec.to_dict() for codec in about.codecs]})
            else:
                codecs = _codecs(as_dict(about.to_dict()) or {})
            if unknown := sorted(codecs - _CODECS):
                raise ValueError(f"its values are encoded by {unknown}; the codecs that are read are {sorted(_CODECS)}")
        return found

    def _lists(self, group: Any, name: str) -> bool:
        """Return whether the sealed note of a group lists the note of a child."""
        note = self.read_note(group)
        if note is None or _SEAL not in note:
            return False
        return note.get("type") in ("jagged", "lazy_stack") or name in self._order(group)

    def address(self, node: Any) -> object:
        return node.path

    def is_group(self, node: Any) -> bool:
        return not hasattr(node, "dtype")

    def read_note(self, node: Any) -> Note | None:
        attributes: dict[str, Any] = dict(node.attrs)
        if (NOTE in attributes) != (_MARK in attributes):
            raise ValueError(f"it has only one of the attributes {NOTE!r} and {_MARK!r}")
        if NOTE in attributes:
            note = as_dict(attributes[NOTE]) or {}
            if _SEAL in note and note[_SEAL] != self._seal_of(node, note):
                raise ValueError(
                    f"its zarr.json has changed since it was written: its checksum differs; if that was done on "
                    f"purpose, take {_SEAL!r} out of it"
                )
            return note
        peer = as_dict(attributes.get(_COLLECTION))
        if peer is not None and self.is_group(node):
            names = collection_tree.stated_names(peer.get("names"))
            return {**peer, "type": "collection", "version": 1, "names": names}
        found = as_dict(attributes.get(_OBJECT))
        if found is not None:
            pickled = found.get("encoding") == "pickle"
            if STACK in attributes:
                return {"type": "objects", "batch_size": attributes[STACK], "form": "pickle" if pickled else "json"}
            return {"type": "object", "batch_size": [], "form": "pickle" if pickled else "peer"}
        return None

    def _seal_of(self, node: Any, note: Note) -> str:
        """Compute the checksum of a node's path, ``zarr.json`` and note."""
        content = node.store.read(f"{node.path}/zarr.json")
        if content is None:
            raise ValueError("its zarr.json is missing")
        about = sealed_json.parse_json(content, node.path)
        for name in ("attributes", "consolidated_metadata"):
            about.pop(name, None)
        path = node.path
        if self._moved is not None and f"{path}/".startswith(f"{self._moved[0]}/"):  # its final path
            path = self._moved[1] + path[len(self._moved[0]) :]
        known = [path, about, {name: value for name, value in note.items() if name != _SEAL}]
        return f"{zlib.crc32(json.dumps(known, sort_keys=True).encode()):08x}"

    def has_escaped_names(self, group: Any) -> bool:
        return NOTE in group.attrs

    def write_note(self, node: Any, note: Note) -> None:
        seal = {_SEAL: self._seal_of(node, note)} if node.metadata.zarr_format == 3 else {}
        given: dict[str, Any] = {NOTE: {**note, **seal}, _MARK: str(collection_tree.VERSION)}
        if note.get("type") == "collection":
            peer = {"batch_size": note["batch_size"], "version": 1}
            given[_COLLECTION] = peer | ({"names": note["names"]} if "names" in note else {})
        elif note.get("type") in ("object", "objects"):
            given[_OBJECT] = {"encoding": "json"}
            if note["type"] == "objects":
                given[STACK] = note["batch_size"]
        node.update_attributes(given)  # `attrs.update` would write the file once for each of them

    def make_group(self, parent: Any, name: str) -> Any:
        return parent.create_group(name)

    def array_settings(self, options: dict[str, Any], shape: Sequence[int], resizable: bool) -> dict[str, Any]:
        cut = options.get("shards") is None  # chunks must divide shards, also where the array is smaller than one
        for option in ("chunks", "shards"):
            if option in options:
                options[option] = array_backend.chunk_shape(options[option], shape, option, cut)
        if options.get("chunks", True) in (None, True):  # values of h5py; zarr chooses chunks if the option is absent
            options.pop("chunks", None)
        return options

    def is_created_with(self, values: np.ndarray[Any, Any]) -> bool:
        return values.size <= _MANY_CHUNKS  # write() sees to the chunks of larger ones

    def create_array(self, parent: Any, name: str, settings: dict[str, Any]) -> Any:
        return parent.create_array(name, **settings)

    def replace(self, parent: Any, name: str, make: Any) -> Any:
        order = self._order(parent)
        at = order.index(name) if name in order else len(order)
        store = parent.store
        temporary = f"{DRAFT}-{uuid.uuid4().hex[:8]}"  # threads of the library may still write to an earlier draft
        target, draft, before = (f"{parent.path}/{one}".lstrip("/") for one in (name, temporary, BEFORE))
        for left in store.names(parent.path):
            if left.startswith((DRAFT, BEFORE)):  # left by a process that was killed
                store.remove(f"{parent.path}/{left}")
        self._moved = (draft, target)
        try:
            make(parent, temporary)
        except BaseException:
            store.abandon(draft)
            raise
        finally:
            self._moved = None
        had = self.has(parent, name)
        if had:
            self._reorder(parent, name, None)  # first, so that each listed name exists, whenever the process is killed
            store.move(target, before)
        try:
            store.move(draft, target)
            self._reorder(parent, name, at)
        except BaseException:
            if not had:
                self._reorder(parent, name, None)  # it may be listed already; if this raises, the value stays
            store.remove(target)
            if had:
                store.move(before, target)
                self._reorder(parent, name, at)
            raise
        store.remove(before)
        return parent[name]

    def remove(self, parent: Any, name: str) -> None:
        self._reorder(parent, name, None)  # first, so that each listed name exists, whenever the process is killed
        del parent[name]

    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        _check_chunks(array, box)
        if all(isinstance(item, slice) for item in box):
            return np.asarray(array[box or ...])
        return np.asarray(array.oindex[box])

    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        if math.prod(map(_chunks_along, array.shape, array.shards or array.chunks)) > _MANY_CHUNKS:
            array = array.with_config({"write_empty_chunks": True})  # _check_chunks refuses arrays that lack many files
        if all(isinstance(item, slice) for item in box):
            array[box or ...] = values
        else:
            array.oindex[box] = values

    def resize(self, array: Any, length: int) -> None:
        note = self.read_note(array)
        array.resize((length, *array.shape[1:]))
        if note is not None:
            self.write_note(array, note)

    def write_texts(self, parent: Any, name: str, texts: Texts, note: Note) -> Any:
        # the peer's form: bytes of JSON. Texts that are JSON already are not quoted again
        is_text = note["form"] == "text"
        if isinstance(texts, str):
            held: Any = texts if is_text else json.loads(texts)
            if not is_text and held["metadata"] is None:
                held = held["data"]
                note["form"] = "data"
        else:
            held = nest_lists(texts if is_text else [json.loads(text) for text in texts], note["batch_size"])
        raw = np.frombuffer(json.dumps(held, allow_nan=False).encode(), dtype=np.uint8)
        made = parent.create_array(name, shape=raw.shape, dtype=raw.dtype, chunks=raw.shape)
        made[...] = raw
        if _excess(made):  # it compresses so well that reading would refuse it
            del parent[name]
            made = parent.create_array(name, shape=raw.shape, dtype=raw.dtype, chunks=raw.shape, compressors=None)
            made[...] = raw
        note["crc32"] = zlib.crc32(raw.tobytes())
        return made

    def read_texts(self, array: Any) -> Any:
        note = self.read_note(array)
        _check_chunks(array, (slice(None),) * array.ndim)
        if excess := _excess(array):
            raise ValueError(excess)
        if note is None:
            found: Any = np.asarray(array[...])
            return found.item() if not found.ndim else found.tolist()
        content = np.asarray(array[...]).tobytes()
        if note.get("form") == "pickle":  # written by the peer
            return base64.b64encode(content).decode()
        if note.get("crc32", zlib.crc32(content)) != zlib.crc32(content):
            raise ValueError("its objects are damaged: their checksum differs")
        held = json.loads(content)
        if note.get("type") == "objects":
            size = self.shape_of_texts(array, note)
            items = flat(held, len(size))
            if len(items) != math.prod(size):
                raise ValueError(f"expected {math.prod(size)} objects, found {len(items)}")
            return held if note.get("form") == "text" else nest_lists([json.dumps(item) for item in items], size)
        if note.get("form") == "text":
            return held
        return json.dumps({"data": held} if note.get("form") in ("data", "peer") else held)

    def is_text(self, array: Any) -> bool:
        return array.dtype.kind in "OUST"


def _remove_consolidated_metadata(root: Any) -> None:
    """Remove the root's copies of the metadata of all arrays before that changes: other programs read the copies."""
    root.store.remove(".zmetadata")
    content = root.store.read("zarr.json")
    known = as_dict(json.loads(content)) or {} if content is not None else {}
    if known.get("consolidated_metadata") is not None:
        root.attrs.put(dict(root.attrs))  # zarr writes zarr.json again, without the copies


def _check_overwritable(path: str) -> None:
    """Raise if a new folder would replace files that are not zarr's."""
    if os.path.isdir(path) and os.listdir(path) and loader_of(path) != "from_zarr":
        raise FileExistsError(
            f"{printable(path)} is not a zarr folder, and all its files would be lost: take another path, or an empty "
            "folder"
        )


def _excess(array: Any) -> str:
    """Describe how an array of text expands more than one may, for an error; ``""`` if it does not."""
    size = math.prod(array.shape) * max(1, array.dtype.itemsize)
    if size <= TEXTS or size <= TEXTS + TIMES_TEXTS * (stored := array.store.size(array.path)):
        return ""
    return f"its text takes {stored} bytes, and {size} when it is unpacked: more than {TIMES_TEXTS} times as much"


def _check_chunks(array: Any, box: tuple[Any, ...]) -> None:
    """Raise if most of very many chunks are missing: a small folder that claims to be large."""
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
    raise ValueError(f"it declares {count} chunks, but has {found} files; read ranges of it by an index")


def _chunks_along(length: int, size: int) -> int:
    return -(-length // max(size, 1))


def _codecs(metadata: dict[str, Any]) -> set[str]:
    """Return the names of all codecs of an array, including those in shards."""
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
    """Return the name of a codec of the library ``numcodecs``."""
    return str(getattr(codec, "codec_id", "unknown"))
