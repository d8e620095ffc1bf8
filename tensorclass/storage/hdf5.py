"""The HDF5 format, as far as :mod:`.persistent` needs it: groups, arrays and text, through h5py.

What HDF5 does not say is in the attribute ``tensorclass`` of a group or dataset, as JSON: see docs/formats.md.
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, ClassVar, TypeVar, cast

import numpy as np

from tensorclass.interrupts import uninterrupted
from tensorclass.printable import printable
from tensorclass.regular import NotRegular, check_regular

from .deflation import TIMES_TEXTS, VALUES
from .hierarchy import DRAFT, NOTE, STACK, DamagedFile, Format, Said, Texts, chunk_shape
from .partial import along, pieces
from .restorable import RestorableFile, check_unopened, close_root, open_root
from .tree import FileError, as_dict

_TEXT = "__tensordict_str__"
F = TypeVar("F", bound=Callable[..., Any])

_VERSIONS = ("v108", "latest")  #: since HDF5 1.8, what a file says of itself has checksums
_LONGEST_NOTE = 60_000
_PATIENCE = 3.0  #: seconds
_MANY_TEXTS = 2**16
_TOO_LONG = "its texts have {} bytes, and the file {}: many are one in it"
_MOST_LINKS = 16  #: as the library has it


def _h5py() -> Any:
    """The library, imported now: it takes a while."""
    import h5py

    return h5py


def _uncut(method: F) -> F:
    """A method that interrupts wait for, where the file is open for writing.

    At any call the library may call the file, and an exception there ends the process; also when a node is dropped. So
    nodes that are found are dropped here.
    """

    @functools.wraps(method)
    def call(self: HDF5, /, *given: Any, **options: Any) -> Any:
        if self._file is None:
            return method(self, *given, **options)
        with uninterrupted():
            found = method(self, *given, **options)
            if hasattr(found, "id"):
                self.kept(found)
            return found

    return cast("F", call)


def _uses(nodes: list[Any]) -> list[int]:
    return [sys.getrefcount(node) for node in nodes]


_UNUSED = _uses([object()])[0]  #: the count of one that only a list has


class HDF5(Format):
    """HDF5 files."""

    name: ClassVar[str] = "h5"
    can_stop: ClassVar[bool] = False  # it calls the draft, and an exception there can end the process
    _draft: _Draft | None = None
    _file: RestorableFile | None = None

    _enough: int = 64  #: nodes, to look which are used

    def __init__(self) -> None:
        self._nodes: list[Any] = []  #: of the open file, with those that nobody uses any more: see :func:`_uncut`

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
                return _patiently(lambda: library.File(path, mode, track_order=True, libver=_VERSIONS), mode)
            with uninterrupted():
                root, self._file = open_root(library, path, mode, track_order=True, libver=_VERSIONS)
            return root
        except FileError:
            raise
        except OSError as error:
            if error.errno is not None:
                raise type(error)(error.errno, f"{printable(path)}: {error}") from None
            if "already open" in str(error):
                raise OSError(
                    f"{printable(path)}: this process has the file open, in another mode than {mode!r}; close() it "
                    "first, or open it once with mode='r+'"
                ) from None
            raise DamagedFile(f"{path}: it is no HDF5 file, or damaged: {error}") from None
        except (RuntimeError, ValueError, KeyError) as error:
            raise DamagedFile(f"{path}: it is no HDF5 file, or damaged: {error}") from None

    def create(self, path: str) -> Any:
        self._draft = _Draft(path)
        return _h5py().File(self._draft, "w", track_order=True, libver=_VERSIONS)

    def close(self, root: Any) -> OSError | None:
        draft, self._draft = self._draft, None
        file, self._file = self._file, None
        if file is not None:
            with uninterrupted():
                self._nodes.clear()
                return close_root(root, file)
        root.close()
        if draft is not None:
            draft.close()
        return None

    def kept(self, node: Any) -> None:
        """Have a node until it is used by nobody else, and the file is in a block that interrupts wait for."""
        if len(self._nodes) >= self._enough:
            self._nodes = [node for node, count in zip(self._nodes, _uses(self._nodes), strict=True) if count > _UNUSED]
            self._enough = max(64, 2 * len(self._nodes))
        self._nodes.append(node)

    def __getstate__(self) -> dict[str, Any]:
        return {"_nodes": []}  # another process opens the file anew

    @_uncut
    def settle(self, root: Any, whole: bool) -> OSError | None:
        file = self._file
        if file is None:  # a group of another program's
            if whole:
                (root if hasattr(root, "flush") else root.file).flush()
            return None
        if root and (whole or file.is_heavy):
            root.flush()
            if file.error is None:
                file.commit()
        return file.error

    def is_open(self, root: Any) -> bool:
        return bool(root)

    @_uncut
    def names(self, group: Any) -> list[str]:
        return list(group)

    @_uncut
    def find(self, group: Any, name: str) -> Any:
        library = _h5py()
        encoded = name.encode("utf-8", "surrogateescape")
        if not group.id.links.exists(encoded):
            raise KeyError(f"there is no {name!r}")
        found = _followed(group, encoded)
        if isinstance(found, library.Dataset):
            kept = found.id.get_create_plist()
            layout = kept.get_layout()
            if layout == library.h5d.VIRTUAL or (layout == library.h5d.CONTIGUOUS and kept.get_external_count()):
                raise ValueError("its values lie in other files, which are not opened")
        elif not isinstance(found, library.Group):
            raise ValueError("it is neither a group nor a dataset")
        return found

    @_uncut
    def has(self, group: Any, name: str) -> bool:
        return bool(group.id.links.exists(name.encode("utf-8", "surrogateescape")))

    @_uncut
    def address(self, node: Any) -> object:
        h5o = _h5py().h5o
        return h5o.get_info(node.id).addr

    @_uncut
    def is_group(self, node: Any) -> bool:
        return not hasattr(node, "dtype")

    @_uncut
    def said(self, node: Any) -> Said | None:
        attributes = node.attrs
        if not len(attributes):
            return None
        if NOTE in attributes:
            text = attributes[NOTE]
            return as_dict(json.loads(text)) or {} if isinstance(text, (str, bytes)) else {}
        if STACK in attributes and not self.is_group(node):  # as the peer notes it
            return {"type": "objects", "batch_size": list(node.shape), "form": "values"}
        return None

    @_uncut
    def say(self, node: Any, said: Said) -> None:
        text = json.dumps(said, allow_nan=False)
        # of a fixed length it stands where HDF5 has checksums; a longer one does not fit there
        node.attrs[NOTE] = np.bytes_(text.encode()) if len(text) < _LONGEST_NOTE else text

    @_uncut
    def make_group(self, parent: Any, name: str) -> Any:
        return parent.create_group(name, track_order=True)

    @_uncut
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
        if resizable and len(shape):
            given["maxshape"] = (None, *[length or None for length in shape[1:]])
            if not all(shape):
                given["chunks"] = tuple([max(1, min(length or 64, 64)) for length in shape])
        if values is None:
            given.setdefault("fillvalue", 0)  # otherwise what is not written can be anything
        if values is not None and all(shape):
            return parent.create_dataset(name, data=values, **given)  # in one go, which takes half the time of two
        return parent.create_dataset(name, shape=tuple(shape), dtype=dtype, **given)

    @_uncut
    def replaced(self, parent: Any, name: str, make: Any) -> Any:
        with suppress(KeyError):
            del parent[DRAFT]  # of a process that was killed
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

    @_uncut
    def remove(self, parent: Any, name: str) -> None:
        del parent[name]

    @_uncut
    def read(self, array: Any, box: tuple[Any, ...]) -> np.ndarray[Any, Any]:
        parts = [array[piece] if piece or array.shape else array[()] for _, piece in pieces(box)]
        if len(parts) == 1:
            return np.asarray(parts[0])
        return np.concatenate(parts, [isinstance(item, slice) for item in box].index(False))

    @_uncut
    def write(self, array: Any, box: tuple[Any, ...], values: np.ndarray[Any, Any]) -> None:
        for where, piece in pieces(box):
            array[piece or ...] = values[along(box, where)] if box else values

    @_uncut
    def resize(self, array: Any, length: int) -> None:
        array.resize(length, axis=0)

    @_uncut
    def can_resize(self, array: Any) -> bool:
        return bool(array.maxshape) and array.maxshape[0] is None

    @_uncut
    def make_texts(self, parent: Any, name: str, texts: Texts, said: Said) -> Any:
        library = _h5py()
        shape = () if isinstance(texts, str) else tuple(said["batch_size"])
        said["crc32"] = _checksum([texts] if isinstance(texts, str) else texts)  # HDF5 has none of text
        made = parent.create_dataset(name, shape=shape, dtype=library.string_dtype())
        if isinstance(texts, str):
            made[()] = texts
            if said.get("form") == "text":
                made.attrs[_TEXT] = True  # a note of the peer's, which reads it so
        else:
            if texts:
                held: Any = np.array(texts, dtype=object)
                made[...] = held.reshape(shape)
            made.attrs[STACK] = np.array(shape, dtype=np.int64)
        return made

    @_uncut
    def texts(self, array: Any) -> Any:
        library = _h5py()
        if array.shape is None:  # h5py.Empty
            return None
        if library.check_string_dtype(array.dtype) is None:
            if array.dtype.kind not in "biuf":
                raise ValueError(f"values of the dtype {array.dtype} are neither tensors nor text")
            return array[()].tolist()
        found = self._decoded(array)
        said = self.said(array) or {}
        if "crc32" in said and said["crc32"] != _checksum(np.ravel(found).tolist()):
            raise ValueError("its objects are not those that were written: their checksum differs")
        return found if isinstance(found, str) else found.tolist()

    def _decoded(self, array: Any) -> Any:
        """The texts of an array: many can be one in the file, so that their length is looked at first."""
        texts: Any = array.asstr("utf-8", "surrogateescape")
        count = math.prod(array.shape)
        stored, size = array.id.get_storage_size(), array.file.id.get_filesize()
        if count > _MANY_TEXTS + TIMES_TEXTS * stored:
            raise ValueError(f"it should have {count} texts, and takes {stored} bytes")
        at_once, most = max(TIMES_TEXTS, VALUES // max(size, 1)), VALUES + TIMES_TEXTS * size
        if count <= at_once or array.dtype.kind != "O":
            return texts[()]
        raw = self._raw(array, count)
        if raw is not None:
            total = int(np.frombuffer(raw, np.dtype("<u4,<u8,<u4"))["f0"].sum(dtype=np.int64))
            if total > most:
                raise ValueError(_TOO_LONG.format(total, size))
            return texts[()]
        step, total = max(1, at_once // max(1, count // max(1, len(array)))), 0
        pieces: list[Any] = []
        for start in range(0, len(array), step):
            pieces.append(texts[start : start + step])
            total += sum(map(len, pieces[-1].reshape(-1)))
            if total > most:
                raise ValueError(_TOO_LONG.format(total, size))
        return np.concatenate(pieces)

    def _raw(self, array: Any, count: int) -> bytes | None:
        """The bytes of an array of texts that lies in one piece: of each its length, and where it is."""
        start = array.id.get_offset()
        if start is None or array.id.get_storage_size() != 16 * count:
            return None
        if self._file is not None:
            self._file.seek(start)
            return self._file.read(16 * count)
        try:
            raw = os.pread(array.file.id.get_vfd_handle(), 16 * count, start)
        except (RuntimeError, ValueError, NotImplementedError, OSError):  # it is no plain file
            return None
        return raw if len(raw) == 16 * count else None

    @_uncut
    def is_text(self, array: Any) -> bool:
        library = _h5py()
        return array.shape is None or library.check_string_dtype(array.dtype) is not None

    def can_hold_text(self, text: str) -> bool:
        if "\0" in text:  # HDF5 ends text there
            return False
        try:
            text.encode()
        except UnicodeEncodeError:
            return False
        return True


class _Draft:
    """A new file that takes whatever is written: the library ends the process where the disk is full.

    What could not be written is an error when the file is closed.
    """

    def __init__(self, path: str) -> None:
        self.path: str = path
        self.file: IO[bytes] = open(path, "x+b", buffering=0)  # noqa: SIM115  # closed by whoever has this
        self.error: OSError | None = None

    def seek(self, at: int, whence: int = os.SEEK_SET) -> int:
        return self.file.seek(at, whence)

    def tell(self) -> int:
        return self.file.tell()

    def readinto(self, place: Any) -> int:
        view, at = memoryview(place).cast("B"), 0
        raw: Any = self.file
        while at < len(view) and (count := raw.readinto(view[at:])):
            at += count
        return at

    def read(self, count: int) -> bytes:
        return self.file.read(count)

    def write(self, data: Any) -> int:
        view, at = memoryview(data).cast("B"), 0
        with self._noting():
            while at < len(view):
                at += self.file.write(view[at:])
        return len(view)

    def truncate(self, size: int) -> int:
        with self._noting():
            self.file.truncate(size)
        return size

    def flush(self) -> None:
        pass

    @contextmanager
    def _noting(self) -> Generator[None, None, None]:
        if self.error is None:
            try:
                yield
            except OSError as error:
                self.error = error
        else:
            with suppress(OSError):
                yield

    def close(self) -> None:
        self.file.close()
        if self.error is not None:
            raise OSError(self.error.errno, self.error.strerror, self.path) from None


def _followed(group: Any, name: bytes) -> Any:
    """Return the target of a link in a group. Check each hop: the library would open other files for some."""
    library = _h5py()
    kinds = library.h5l
    parts, links = [name], 0
    while parts:
        part = parts.pop(0)
        if not group.id.links.exists(part):
            raise ValueError("it is a link that leads nowhere")
        kind = group.id.links.get_info(part).type
        if kind == kinds.TYPE_SOFT:
            links += 1
            if links > _MOST_LINKS:
                raise ValueError("it is a link that leads over too many others, or to itself")
            target = group.id.links.get_val(part)
            if target.startswith(b"/"):
                group = library.Group(library.h5g.open(group.id, b"/"))
            parts[:0] = [step for step in target.split(b"/") if step not in (b"", b".")]
        elif kind == kinds.TYPE_HARD:
            found = group[part]
            if not parts:
                return found
            if not isinstance(found, library.Group):
                raise ValueError("it is a link that leads nowhere")
            group = found
        else:
            raise ValueError("it is, or leads over, a link to another file, which is not followed")
    return group


def _patiently(open: Callable[[], Any], mode: str) -> Any:
    """A file, for which a reader waits where it is open for writing: one that was just written is, for an instant."""
    end = time.monotonic() + (_PATIENCE if mode == "r" else 0)
    while True:
        try:
            return open()
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(0.005)


def _checksum(texts: list[str]) -> int:
    found = 0
    for text in texts:
        found = zlib.crc32(text.encode("utf-8", "surrogateescape") + b"\0", found)  # no text has a zero
    return found
