"""The HDF5 backend of :mod:`.persistent_tensordict`: groups, arrays and text, through h5py.

Metadata that HDF5 has no place for is JSON in the attribute ``tensorclass`` of a group or dataset: see docs/formats.md.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from tensorclass.storage.common.collection_tree import FileError, as_dict
from tensorclass.storage.common.decompression import TIMES_TEXTS, VALUES
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import NotRegular, check_regular

from .array_backend import DRAFT, NOTE, STACK, ArrayBackend, DamagedFile, Note, Texts, chunk_shape
from .array_selection import piece_index, split_box
from .restorable_file import AlreadyOpen, RestorableFile, check_unopened, close_root, open_root

_TEXT = "__tensordict_str__"

_VERSIONS = ("v108", "latest")  #: since HDF5 1.8 the metadata of a file has checksums
_LONGEST_NOTE = 60_000  #: bytes of a note that HDF5 stores with a checksum
_PATIENCE = 3.0  #: seconds that a reader waits for a writer
_MANY_TEXTS = 2**16
_TOO_LONG = "its texts have {} bytes, and the file {}: many texts share the same bytes in it"
_MOST_LINKS = 16  #: soft links that are followed in a row, as in the library


def _h5py() -> Any:
    """Return the library. It is imported at the first use, since that takes a while."""
    import h5py

    return h5py


def _is_open_in_library(library: Any, path: str) -> bool:
    """Return whether this process has a file open through the library itself."""
    for file in library.h5f.get_obj_ids(library.h5f.OBJ_ALL, library.h5f.OBJ_FILE):
        with suppress(OSError, ValueError):
            if os.path.samefile(file.name, path):
                return True
    return False


def _deferring_signals(name: str) -> Callable[..., Any]:
    """Return a method for whose end interrupts wait if the file is open for writing.

    Any call of the library may call the file, and an exception there ends the process. So may dropping a node: nodes
    that a method returns are retained, and dropped here.
    """

    method = getattr(HDF5, name)

    @functools.wraps(method)
    def call(self: HDF5, /, *given: Any, **options: Any) -> Any:
        if self._file is None:
            return method(self, *given, **options)
        with uninterrupted():
            found = method(self, *given, **options)
            if hasattr(found, "id"):
                self._retain(found)
            return found

    return call


def _reference_counts(nodes: list[Any]) -> list[int]:
    return [sys.getrefcount(node) for node in nodes]


_UNSHARED = _reference_counts([object()])[0]  #: the count of an object that only a list refers to


class HDF5(ArrayBackend):
    """HDF5 files."""

    name: ClassVar[str] = "h5"
    is_interruptible: ClassVar[bool] = False  # the library calls the file, and an exception there can end the process
    _file: RestorableFile | None = None

    _prune_at: int = 64  #: retained nodes at which unused ones are dropped

    def __init__(self) -> None:
        self._nodes: list[Any] = []  #: retained nodes of the open file: see :func:`_deferring_signals`

    options: ClassVar[tuple[str, ...]] = (
        "chunks", "compression", "compression_opts", "shuffle", "fletcher32", "scaleoffset", "fillvalue",
        "track_times", "track_order",
    )  # fmt: skip

    def open(self, path: str, mode: str) -> Any:
        library = _h5py()
        if mode in ("r", "r+") and not os.path.exists(path):
            raise FileNotFoundError(f"there is no file {printable(path)}")
        try:
            check_regular(path)
        except IsADirectoryError:
            raise FileError(f"{path}: expected a file, found a folder") from None
        except NotRegular as error:
            raise DamagedFile(str(error)) from None
        try:
            if mode == "r":
                check_unopened(path)
                return _wait_for_writer(lambda: library.File(path, mode, track_order=True, libver=_VERSIONS))
            with uninterrupted():
                root, self._file = open_root(library, path, mode, track_order=True, libver=_VERSIONS)
            return root
        except FileError:
            raise
        except OSError as error:
            if error.errno is not None:
                raise type(error)(error.errno, f"{printable(path)}: {error}") from None
            if isinstance(error, AlreadyOpen) or _is_open_in_library(library, path):
                raise OSError(
                    f"{printable(path)}: this process has the file open, in another mode than {mode!r}; close() it "
                    "first, or open it once with mode='r+'"
                ) from None
            raise DamagedFile(f"{path}: it is no HDF5 file, or damaged: {error}") from None
        except (RuntimeError, ValueError, KeyError) as error:
            raise DamagedFile(f"{path}: it is no HDF5 file, or damaged: {error}") from None

    def close(self, root: Any) -> OSError | None:
        file, self._file = self._file, None
        if file is None:
            root.close()
            return None
        with uninterrupted():
            self._nodes.clear()
            return close_root(root, file)

    def _retain(self, node: Any) -> None:
        """Keep a node until nothing else refers to it. Called where interrupts wait, so that dropping it is safe."""
        if len(self._nodes) >= self._prune_at:
            counts = _reference_counts(self._nodes)
            self._nodes = [node for node, count in zip(self._nodes, counts, strict=True) if count > _UNSHARED]
            self._prune_at = max(64, 2 * len(self._nodes))
        self._nodes.append(node)

    def __getstate__(self) -> dict[str, Any]:
        return {"_nodes": []}  # another process opens the file anew

    def flush_changes(self, root: Any, complete: bool) -> OSError | None:
        file = self._file
        if file is None:  # a group that the user has opened
            if complete:
                (root if hasattr(root, "flush") else root.file).flush()
            return None
        if root and (complete or file.is_heavy):
            root.flush()
            if file.error is None:
                file.commit()
        return file.error

    def is_open(self, root: Any) -> bool:
        return bool(root)

    def names(self, group: Any) -> list[str]:
        return list(group)

    def find(self, group: Any, name: str) -> Any:
        library = _h5py()
        encoded = name.encode("utf-8", "surrogateescape")
        if not group.id.links.exists(encoded):
            raise KeyError(f"there is no {name!r}")
        found = _resolve_link(group, encoded)
        if isinstance(found, library.Dataset):
            kept = found.id.get_create_plist()
            layout = kept.get_layout()
            if layout == library.h5d.VIRTUAL or (layout == library.h5d.CONTIGUOUS and kept.get_external_count()):
                raise ValueError("its values lie in other files, which are not opened")
        elif not isinstance(found, library.Group):
            raise ValueError("expected a group or a dataset")
        return found

    def has(self, group: Any, name: str) -> bool:
        return bool(group.id.links.exists(name.encode("utf-8", "surrogateescape")))

    def address(self, node: Any) -> object:
        h5o = _h5py().h5o
        return h5o.get_info(node.id).addr

    def is_group(self, node: Any) -> bool:
        return not hasattr(node, "dtype")

    def read_note(self, node: Any) -> Note | None:
        attributes = node.attrs
        if not len(attributes):
            return None
        if NOTE in attributes:
            text = attributes[NOTE]
            return as_dict(json.loads(text)) or {} if isinstance(text, (str, bytes)) else {}
        if STACK in attributes and not self.is_group(node):  # the peer's mark of objects
            return {"type": "objects", "batch_size": list(node.shape), "form": "values"}
        return None

    def write_note(self, node: Any, note: Note) -> None:
        text = json.dumps(note, allow_nan=False)
        # text of a fixed length is stored where HDF5 has checksums; a longer one does not fit there
        node.attrs[NOTE] = np.bytes_(text.encode()) if len(text) < _LONGEST_NOTE else text

    def make_group(self, parent: Any, name: str) -> Any:
        return parent.create_group(name, track_order=True)

    def array_settings(self, options: dict[str, Any], shape: Sequence[int], resizable: bool) -> dict[str, Any]:
        if "chunks" in options:
            options["chunks"] = chunk_shape(options["chunks"], shape)
        if resizable and len(shape):
            options["maxshape"] = (None, *[length or None for length in shape[1:]])
            if not all(shape):
                options["chunks"] = tuple([max(1, min(length or 64, 64)) for length in shape])
        return options

    def zero_settings(self, settings: dict[str, Any]) -> dict[str, Any]:
        return {"fillvalue": 0, **settings}  # without it, values that are not written can be anything

    def create_array(self, parent: Any, name: str, settings: dict[str, Any]) -> Any:
        return parent.create_dataset(name, **settings)

    def replace(self, parent: Any, name: str, make: Any) -> Any:
        with suppress(KeyError):
            del parent[DRAFT]  # left by a process that was killed
        try:
            made = make(parent, DRAFT)
        except BaseException:
            with suppress(KeyError):
                del parent[DRAFT]
            raise
        if self.has(parent, name):
            del parent[name]
        parent.move(DRAFT, name)
        return made

    def remove(self, parent: Any, name: str) -> None:
        del parent[name]

    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        parts = [array[piece] if piece or array.shape else array[()] for _, piece in split_box(box)]
        if len(parts) == 1:
            return np.asarray(parts[0])
        return np.concatenate(parts, [isinstance(item, slice) for item in box].index(False))

    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        for where, piece in split_box(box):
            array[piece or ...] = values[piece_index(box, where)] if box else values

    def resize(self, array: Any, length: int) -> None:
        array.resize(length, axis=0)

    def can_resize(self, array: Any) -> bool:
        return bool(array.maxshape) and array.maxshape[0] is None

    def write_texts(self, parent: Any, name: str, texts: Texts, note: Note) -> Any:
        library = _h5py()
        shape = () if isinstance(texts, str) else tuple(note["batch_size"])
        note["crc32"] = _checksum([texts] if isinstance(texts, str) else texts)  # HDF5 has none for text
        made = parent.create_dataset(name, shape=shape, dtype=library.string_dtype())
        if isinstance(texts, str):
            made[()] = texts
            if note.get("form") == "text":
                made.attrs[_TEXT] = True  # tells the peer to read text
        else:
            if texts:
                held: Any = np.array(texts, dtype=object)
                made[...] = held.reshape(shape)
            made.attrs[STACK] = np.array(shape, dtype=np.int64)
        return made

    def read_texts(self, array: Any) -> Any:
        library = _h5py()
        if array.shape is None:  # h5py.Empty
            return None
        if library.check_string_dtype(array.dtype) is None:
            if array.dtype.kind not in "biuf":
                raise ValueError(f"values of the dtype {array.dtype} are neither tensors nor text")
            return array[()].tolist()
        found = self._decoded(array)
        note = self.read_note(array) or {}
        if "crc32" in note and note["crc32"] != _checksum(np.ravel(found).tolist()):
            raise ValueError("its objects are damaged: their checksum differs")
        return found if isinstance(found, str) else found.tolist()

    def _decoded(self, array: Any) -> Any:
        """Decode the texts of an array. Check their length first: a small file can refer to one text many times."""
        texts: Any = array.asstr("utf-8", "surrogateescape")
        count = math.prod(array.shape)
        stored, size = array.id.get_storage_size(), array.file.id.get_filesize()
        if count > _MANY_TEXTS + TIMES_TEXTS * stored:
            raise ValueError(f"it declares {count} texts, but takes {stored} bytes")
        at_once, most = max(TIMES_TEXTS, VALUES // max(size, 1)), VALUES + TIMES_TEXTS * size
        if count <= at_once or array.dtype.kind != "O":
            return texts[()]
        raw = self._read_references(array, count)
        if raw is not None:
            total = int(np.frombuffer(raw, np.dtype("<u4,<u8,<u4"))["f0"].sum(dtype=np.int64))
            if total > most:
                raise ValueError(_TOO_LONG.format(total, size))
            return texts[()]
        step, total = max(1, at_once // max(1, count // max(1, len(array)))), 0
        decoded: list[Any] = []
        for start in range(0, len(array), step):
            decoded.append(texts[start : start + step])
            total += sum(map(len, decoded[-1].reshape(-1)))
            if total > most:
                raise ValueError(_TOO_LONG.format(total, size))
        return np.concatenate(decoded)

    def _read_references(self, array: Any, count: int) -> bytes | None:
        """Return the raw bytes of a contiguous array of texts: the length and the address of each text."""
        start = array.id.get_offset()
        if start is None or array.id.get_storage_size() != 16 * count:
            return None
        if self._file is not None:
            self._file.seek(start)
            return self._file.read(16 * count)
        try:
            raw = os.pread(array.file.id.get_vfd_handle(), 16 * count, start)
        except (RuntimeError, ValueError, NotImplementedError, OSError):  # not a plain file
            return None
        return raw if len(raw) == 16 * count else None

    def shape_of_texts(self, array: Any, note: Note) -> Sequence[int]:
        return tuple(array.shape)

    def is_text(self, array: Any) -> bool:
        library = _h5py()
        return array.shape is None or library.check_string_dtype(array.dtype) is not None

    def can_hold_text(self, text: str) -> bool:
        if "\0" in text:  # HDF5 would end the text there
            return False
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
        return True


#: the methods that call the library while a file is open
_CALLING = (
    "flush_changes", "names", "find", "has", "address", "is_group", "read_note", "write_note", "make_group",
    "create_array", "replace", "remove", "read", "write", "resize", "can_resize", "write_texts", "read_texts",
    "is_text",
)  # fmt: skip
for _name in _CALLING:
    setattr(HDF5, _name, _deferring_signals(_name))


def _resolve_link(group: Any, name: bytes) -> Any:
    """Return the target of a link in a group. Check each hop: the library would open other files for some."""
    library = _h5py()
    link_types = library.h5l
    steps, links = [name], 0
    while steps:
        step = steps.pop(0)
        if not group.id.links.exists(step):
            raise ValueError("it is a link without a target")
        link_type = group.id.links.get_info(step).type
        if link_type == link_types.TYPE_SOFT:
            links += 1
            if links > _MOST_LINKS:
                raise ValueError("it is a link over too many others, or to itself")
            target = group.id.links.get_val(step)
            if target.startswith(b"/"):
                group = library.Group(library.h5g.open(group.id, b"/"))
            steps[:0] = [name for name in target.split(b"/") if name not in (b"", b".")]
        elif link_type == link_types.TYPE_HARD:
            found = group[step]
            if not steps:
                return found
            if not isinstance(found, library.Group):
                raise ValueError("it is a link without a target")
            group = found
        else:
            raise ValueError("it is a link to another file, or leads over one, which is not followed")
    return group


def _wait_for_writer(open: Callable[[], Any]) -> Any:
    """Open a file. Wait while it is open for writing, as a file that was just written is for an instant."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return open()
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)


def _checksum(texts: list[str]) -> int:
    # texts contain no zero byte
    return zlib.crc32(b"".join([text.encode("utf-8", "surrogateescape") + b"\0" for text in texts]))
