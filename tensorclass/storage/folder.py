"""Folders of memory-mapped files: a folder for each collection, with a file of raw values for each tensor.

The layout is that of the peer, so that each reads what the other writes. A folder holds ``meta.json``, ``KEY.memmap``
for each tensor (values in C order and the byte order of the machine, no header), and a folder ``KEY`` for each nested
collection or object. What the peer's ``meta.json`` cannot say stands in it under ``"_tensorclass"``, which the peer
passes over. docs/formats.md has all of it.
"""

from __future__ import annotations

import errno
import functools
import json
import os
import pickle
import re
import stat
import time
import zlib
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Size, Tensor

from tensorclass.atomic import is_swapped, swapped_folder, whole_file
from tensorclass.progress import Bar, bytes_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.memmap import Filename, MemoryMappedTensor, map_file, write_values
from tensorclass.td.objects import CPU, flattened

from . import tree
from .ahead import reading_ahead
from .objects import TAG, encode
from .tree import FileError, Leaf, Node, Source, as_dict, as_list

T = TypeVar("T")

META = "meta.json"
INSIDE = "_tensordict"  #: the folder in that of a record, as the peer writes it, which has its values
OWN = "_tensorclass"  #: where our own part of it is
SUFFIX = ".memmap"
VERSION = 1  #: of our own part

#: what of ``meta.json`` is about the folder itself; a value under such a key stands in our own part
_RESERVED = frozenset(("shape", "device", "_type", "_format_version", "_class", "_names", OWN))
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


# ---------------------------------------------------------------------------------------------------------------------
# writing


def save(
    data: TensorCollection,
    prefix: Filename,
    *,
    what: str,
    copy_existing: bool = False,
    num_threads: int = 0,
    allow_pickle: bool = False,
    values: bool = True,
    robust_key: bool = True,
    checksum: bool = False,
    progress: bool | None = False,
) -> None:
    """Writes a collection to a folder, as a whole or not at all.

    Args:
        data: the collection.
        prefix: the folder. One that is there already is replaced in one step, but for files in it that are none of a
            collection.
        what: who asks, to begin errors with.
        copy_existing: copy tensors that lie in other files.
        num_threads: how many threads write.
        allow_pickle: write objects that JSON cannot hold as pickles.
        values: write the values of tensors; otherwise their files have zeros, and take no space.
        robust_key: whether keys may be no names of files.
        checksum: write down what the values of each tensor add up to, for ``load(verify=True)``.
        progress: whether a bar is shown, see :func:`tensorclass.progress.bar`.
    """
    path = Path(prefix).absolute()
    if not robust_key:
        check_keys(data, what)
    node, leaves = tree.describe(data, what, allow_pickle, checksum)
    linked: dict[str, str] = {}
    files: dict[str, Tensor] = {}
    for leaf in leaves:
        name = place_of(leaf)
        if type(leaf.tensor) is MemoryMappedTensor and leaf.tensor._filename is not None and leaf.tensor.numel():
            source = leaf.tensor._filename
            if source == str(path / name) and leaf.tensor._index is None and values:
                linked[name] = source  # it is there already: the new folder has the same file
                continue
            if not copy_existing:
                raise RuntimeError(
                    f"{what}: {'.'.join(leaf.path)} lies in the file {source} already; copy_existing=True copies it"
                )
        files[name] = leaf.tensor
    folders: list[tuple[str, bytes]] = []
    metas_of(node, "", folders)
    for folder, meta in folders:
        if len(meta) > LONGEST:
            raise ValueError(
                f"{what}: nothing was written; the objects in {path}/{folder} take {len(meta)} bytes as JSON, at most "
                f"{LONGEST} can be read"
            )
    total = sum(tensor.numel() * tensor.element_size() for tensor in files.values()) if values else 0
    with swapped_folder(path) as draft, bytes_of(total, what, progress if total else False) as shown:
        for folder, meta in folders:
            if folder:
                os.mkdir(draft / folder)
            (draft / folder / META).write_bytes(meta)
        for name, source in linked.items():
            os.link(source, draft / name)
        jobs: list[Callable[[], None]] = [
            functools.partial(_write_file, draft / name, tensor, values, shown) for name, tensor in files.items()
        ]
        if num_threads > 0 and len(jobs) > 1:
            with ThreadPoolExecutor(num_threads) as pool:
                for done in [pool.submit(job) for job in jobs]:
                    done.result()
        else:
            for job in jobs:
                job()
        if path.is_dir():
            keep_strangers(path, draft)


def place_of(leaf: Leaf) -> str:
    """The file of a tensor, seen from the folder of the whole."""
    return "/".join([*map(file_name, leaf.path[:-1]), tensor_file(leaf.path[-1], leaf.part)])


def check_keys(data: TensorCollection, what: str) -> None:
    keys: list[Any] = [key if isinstance(key, tuple) else (key,) for key in data.keys(True)]
    if unsafe := [".".join(key) for key in keys if any(file_name(name) != name for name in key)]:
        raise ValueError(
            f"{what}: with robust_key=False keys must be names of files, got {unsafe}; nothing was written"
        )


def metas_of(node: Node, folder: str, found: list[tuple[str, bytes]]) -> None:
    """What ``meta.json`` says in each folder, the outer ones first."""
    kind = node["type"]
    if kind == "lazy_stack":
        meta: dict[str, Any] = {**_STACK, "stack_dim": node["stack_dim"], "stack_dim_name": node["stack_dim_name"]}
        found.append((folder, tree.sealed({**meta, OWN: {"version": VERSION, "parts": len(node["parts"])}}, 2)))
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
            known = {"type": _PEER_TYPES[kind]}
            place = f"{folder}{file_name(key)}/"
            if kind == "object" or kind == "objects":
                shown, more[key] = _for_peer(entry)
                text = json.dumps(_meta_of_objects(shown)).encode()
                if "data" not in more[key]:  # it is read there; the peer allows for no more in it
                    more[key] = {**more[key], "meta_crc32": zlib.crc32(text)}
                objects.append((place, text))
            else:
                below.append((entry, place))
        if key in _RESERVED:
            more[key] = entry if "dtype" in entry else more.get(key) or {"type": kind}
        else:
            meta[key] = known
    if more:
        own["entries"] = more
    meta.update(shape=node["batch_size"], device="cpu", **_PLAIN)
    if "names" in node:
        meta["_names"] = node["names"]
    meta[OWN] = own
    found.append((folder, tree.sealed(meta, 2)))
    found.extend(objects)
    for entry, place in below:
        metas_of(entry, place, found)


_PEER_TYPES = {
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
    data = {"data": _listed(iter(node["data"]), node["batch_size"])} if "data" in node else {}
    return {**_OBJECTS, "stack_dim": 0, "device": None, **data}


def _listed(items: Any, size: list[int]) -> Any:
    return [_listed(items, size[1:]) for _ in range(size[0])] if size else next(items)


def _write_file(path: Path, tensor: Tensor, values: bool, shown: Bar[Any]) -> None:
    count = tensor.numel() * tensor.element_size()
    if not count:
        return  # the peer has no file for nothing
    with open(path, "xb", buffering=0) as file:
        if values:
            write_values(file.fileno(), tensor, shown.advance)
        else:
            os.truncate(file.fileno(), count)


def keep_strangers(old: Path, new: Path) -> None:
    """What is in a folder and does not belong to the collection there stays: the new folder gets the same files."""
    files, folders = _belongings(old)
    with os.scandir(old) as found:
        entries = list(found)
    for entry in entries:
        place = new / entry.name
        if entry.is_dir(follow_symlinks=False):
            if entry.name in folders:
                if place.is_dir():
                    keep_strangers(Path(entry.path), place)
            elif not place.exists():
                _link_all(Path(entry.path), place)
        elif place.exists() or (files and (entry.name.endswith(SUFFIX) or entry.name in _PICKLES)):
            continue
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
        elif entry.name != META:
            os.link(entry.path, place)


def _belongings(folder: Path) -> tuple[bool, set[str]]:
    """Whether a collection is saved in a folder, and those of the folders in it that belong to it."""
    try:
        meta = as_dict(json.loads((folder / META).read_bytes())) or {}
    except FileNotFoundError:
        return False, set()
    except (OSError, ValueError, RecursionError):  # damaged
        return True, set()
    own = as_dict(meta.get(OWN)) or {}
    keys = {*meta, *(as_dict(own.get("entries")) or {})}
    if "stack_dim" in meta:
        keys |= {name for name in os.listdir(folder) if name.isdecimal()}
    return True, {"_tensordict", *map(file_name, keys), *keys}


_PICKLES = ("other.pickle", "pickle.pkl")


def _link_all(old: Path, new: Path) -> None:
    os.mkdir(new)
    for entry in os.scandir(old):
        if entry.is_dir(follow_symlinks=False):
            _link_all(Path(entry.path), new / entry.name)
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), new / entry.name)
        else:
            os.link(entry.path, new / entry.name)


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


class Opened(NamedTuple):
    """An open folder, of which files are opened: whatever takes its place in the meantime, they are of one version."""

    handle: int
    name: str  #: for errors

    def content(self, name: str) -> bytes | bytearray:
        """What a file in it says."""
        try:
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=self.handle)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise FileError(f"{self.name}/{name}: {error.strerror}") from None
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise FileError(f"{self.name}/{name}: it is no regular file")
            if info.st_size > LONGEST:
                raise FileError(f"{self.name}/{name}: it is longer than {LONGEST} bytes")
            text = bytearray(os.read(handle, info.st_size + 1))
            while len(text) != info.st_size and (piece := os.read(handle, 2**20)):  # it is being written
                text += piece
                if len(text) > LONGEST:
                    raise FileError(f"{self.name}/{name}: it is longer than {LONGEST} bytes")
        finally:
            os.close(handle)
        return text

    def names(self) -> set[str]:
        """Those of its files and folders."""
        return set(os.listdir(self.handle))


class Folders:
    """The folders of a tree, by their path in it. The last few stay open: a process may open some 1,000 files only."""

    def __init__(self, root: Opened, as_keys: bool = False, pickles: bool = False) -> None:
        self._root = root
        self.pickles: bool = pickles  #: whether objects that were written as pickles are read
        self._as_keys = as_keys  # look first for files named as the keys are
        self._foreign: set[tuple[str, ...]] = set()
        self._open: dict[tuple[str, ...], Opened] = {}
        self._inside: set[tuple[str, ...]] = set()
        self._last: tuple[tuple[str, ...], Opened] | None = None

    def at(self, path: tuple[str, ...]) -> Opened:
        """An open folder, until another one is asked for."""
        if self._last is not None and path == self._last[0]:
            return self._last[1]
        found = self._found(path)
        self._last = path, found
        return found

    def _found(self, path: tuple[str, ...]) -> Opened:
        found = self._open.pop(path, None)
        if found is None:
            found = _opened(*self.find(path, None)) if path else self._root
            if path in self._inside:
                found = self._replaced(found, path)
            elif not path:
                return found
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))).handle)
        self._open[path] = found  # as the last one
        return found

    def enter(self, path: tuple[str, ...]) -> None:
        """What is in a folder stands in the folder ``_tensordict`` in it."""
        if path in self._inside:
            raise FileError(f"{self.at(path).name}/{META}: its shape is missing")
        self._inside.add(path)
        self._last = None
        outer = self._open.pop(path, None)
        if outer is not None:
            os.close(outer.handle)

    def say_foreign(self, path: tuple[str, ...]) -> None:
        """The peer wrote a folder; its files may be named as the keys are."""
        self._foreign.add(path)

    def find(self, path: tuple[str, ...], part: str | None) -> tuple[Opened, str]:
        """The open folder that a value is in, and the name there of its folder, or of the file of a part of it."""
        *_, key = path
        folder, written = self.at(path[:-1]), file_name(key)
        name = written if part is None else tensor_file(key, part)
        if path[:-1] not in self._foreign or written == key or "/" in key or "\0" in key or key in _NO_NAMES:
            return folder, name
        plain = name.replace(written, key, 1)
        first, second = (plain, name) if self._as_keys else (name, plain)
        return folder, second if not _is_there(folder, first) and _is_there(folder, second) else first

    def _replaced(self, outer: Opened, path: tuple[str, ...]) -> Opened:
        try:
            return _opened(outer, INSIDE)
        finally:
            if path:
                os.close(outer.handle)

    def close(self) -> None:
        """Closes all but the root."""
        for opened in self._open.values():
            os.close(opened.handle)
        self._open.clear()


_MOST_OPEN = 64

_NO_NAMES = ("", ".", "..", META)  #: keys that no file can have as its name


def _is_there(folder: Opened, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder.handle, follow_symlinks=False)
    except OSError:
        return False
    return True


def load(
    target: type[TensorCollection] | TensorCollection | None,
    prefix: Filename,
    *,
    device: torch.device | None = None,
    non_blocking: bool = False,
    mode: str | None = None,
    num_threads: int = 0,
    allow_pickle: bool = False,
    strict: bool = True,
    same_objects: bool = False,
    verify: bool = False,
    robust_key: bool = True,
) -> Any:
    """The collection in a folder, its tensors mapped to memory.

    Args:
        target: the class of the result, or a collection that it shall be like; see :func:`tree.rebuild`.
        prefix: the folder.
        device: where the tensors go; ``meta`` opens no file of a tensor.
        non_blocking: do not wait for them to get there.
        mode: ``"r+"`` writes to the files what is written to the tensors, ``"r"`` keeps it in this process; by
            default the first where the files may be written.
        num_threads: how many threads read values, where they are read: to go to a device, or for ``verify``.
        allow_pickle: read objects that were written as pickles.
        strict: for a record: the folder has its fields and no others.
        same_objects: take the objects of ``target``, of which the folder has copies.
        verify: compare the values with their checksums.
        robust_key: ``False`` looks in a folder of the peer for files named as the keys are before it looks for others.

    Raises:
        FileNotFoundError: there is no such folder, or nothing was saved there.
        FileError: a file is damaged, or does not fit the record.
    """
    if mode not in (None, "r", "r+"):
        raise ValueError(f"load_memmap: expected mode to be 'r', 'r+' or None, got {mode!r}")
    path: str = os.path.abspath(prefix)
    blank = tree.without_values(device) if only_shapes(device) else None

    def work(root: Opened) -> Any:
        folders = Folders(root, not robust_key, allow_pickle)
        try:
            node = read_node(folders, ())

            def opened(where: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Callable[[], Tensor]:
                mapped = _opened_tensor(*folders.find(where, part), dtype, shape, mode)
                if device is None or device.type == "cpu":
                    return lambda: mapped
                return lambda: mapped.as_subclass(Tensor).to(device, non_blocking=non_blocking)

            def read(where: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
                if device is None:
                    return _opened_tensor(*folders.find(where, part), dtype, shape, mode)
                return opened(where, part, dtype, shape)()

            source = Source(path, blank or read, device or CPU, allow_pickle, strict, same_objects, verify)
            if num_threads > 1 and blank is None and (verify or source.device != CPU):
                with reading_ahead(node, source, opened, num_threads) as source:
                    return tree.rebuild(node, target, source)
            return tree.rebuild(node, target, source)
        except RecursionError:
            raise FileError(f"{path}: what it says of itself is nested too deep") from None
        finally:
            folders.close()

    return _retried(path, work)


def _opened_tensor(
    folder: Opened,
    name: str,
    dtype: torch.dtype,
    shape: Size,
    mode: str | None,
) -> Tensor:
    if not shape.numel():  # there is no file of nothing
        mapped, used = torch.empty(shape, dtype=dtype, device="cpu"), "r+"
    else:
        try:
            mapped, used = map_file(name, dtype, shape, mode, folder.handle)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _of_file(error, f"{folder.name}/{name}") from None
        except ValueError as error:
            raise FileError(f"{folder.name}/{error}") from None
    return MemoryMappedTensor._of(mapped, f"{folder.name}/{name}", used, shape)


def _retried(path: str, work: Callable[[Opened], T]) -> T:
    """What a function does with an open folder, again where another has taken the folder's place in the meantime."""
    end = time.monotonic() + 1.0
    while True:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotADirectoryError:
            raise NotADirectoryError(f"{path} is a file; a folder was expected, as memmap() makes it") from None
        except FileNotFoundError:
            if not (is_swapped(path) or os.path.lexists(path)):  # the latter: it came in between
                raise FileNotFoundError(f"there is no folder {path}") from None
            if time.monotonic() > end:
                raise FileNotFoundError(
                    f"there is no folder {path}: a process was killed while it put another one there; the one before "
                    "is put back when something is saved there again"
                ) from None
            time.sleep(0.001)
            continue
        try:
            return work(Opened(handle, path))
        except FileNotFoundError as error:
            if same_folder(handle, path):
                raise _missing(path, error) from None
        finally:
            os.close(handle)


def _missing(path: str, error: FileNotFoundError) -> Exception:
    if str(error.filename) == META and error.args:
        return FileNotFoundError(f"nothing is saved in {path}: it has no {META}")
    return FileError(f"{path}: the file {error.filename} is missing")


def same_folder(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except OSError:
        return True  # it is gone: nothing to try again


def _of_file(error: OSError, path: str) -> Exception:
    """An error of an open folder's file as one of the path that users know."""
    if error.errno == errno.ELOOP:
        return FileError(f"{path}: a link; what it leads to is not opened")
    if error.errno in _NO_FILE:
        return FileError(f"{path}: expected a file ({error.strerror})")
    return type(error)(error.errno, error.strerror, path)


_NO_FILE = (errno.EISDIR, errno.ENOTDIR, errno.ENXIO, errno.ENODEV, errno.ENAMETOOLONG, errno.EINVAL)


def only_shapes(device: torch.device | None) -> bool:
    """Whether no values are wanted: on ``meta``, and for fake tensors."""
    if device is not None and device.type == "meta":
        return True
    active: Any = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]
    return active is not None


def read_node(folders: Places, path: tree.Path, checksum: object = None) -> Node:
    """The tree that the ``meta.json`` of a folder and of those below it tell of.

    Args:
        folders: those of the tree.
        path: where it is in the tree.
        checksum: of the ``meta.json``, where another file says it.
    """
    folder = folders.at(path)
    if len(path) > tree.DEPTH:
        raise FileError(f"{folder.name}: collections are nested deeper than {tree.DEPTH} levels")
    meta = read_meta(folder, checksum)
    foreign = OWN not in meta or _is_entry(meta[OWN])  # the latter: a key of the peer that is called so
    own: dict[str, Any] | None = {} if foreign else as_dict(meta[OWN])
    if own is None or not own.keys() <= _OWN_KEYS:
        raise FileError(f"{folder.name}/{META}: {OWN} is damaged")
    if foreign and isinstance(folders, Folders):
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
        if key in _RESERVED and not (foreign and _is_entry(known)):
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
            items, size = flattened(_unpickled(folder, "pickle.pkl", list, pickles))
            items = [_encoded(item, folder) for item in items]
        else:
            items, size = flattened(items)
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


def _opened(folder: Opened, name: str) -> Opened:
    """A folder in a folder; symbolic links are not followed, so that nothing outside is opened."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder.handle)
    except FileNotFoundError:
        raise FileNotFoundError(2, "missing", f"{folder.name}/{name}") from None
    except OSError as error:
        raise FileError(f"{folder.name}/{name}: expected a folder ({error.strerror})") from None
    return Opened(handle, f"{folder.name}/{name}")


def read_meta(folder: Place, checksum: object = None) -> dict[str, Any]:
    text = folder.content(META)
    name = f"{folder.name}/{META}"
    if checksum is not None and zlib.crc32(text) != checksum:
        raise FileError(f"{name}: it is not what was written, its checksum differs")
    try:
        return tree.unsealed(text, name, OWN, nan=True)
    except FileError:
        if not tree.is_rewritten(text):
            raise
    meta = tree.parsed(text, name, nan=True)
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


def inside(path: Path) -> Path:
    """Where the values of a collection lie: of a record as the peer writes it, in a folder in its folder."""
    below = path / INSIDE
    if not (below / META).is_file():
        return path
    with _open_folder(str(path)) as folder:
        return path if "shape" in read_meta(folder) else below


def add_tensor(
    prefix: str | Path, path: tree.Path, size: Size, dtype: torch.dtype, existsok: bool = True
) -> MemoryMappedTensor:
    """A new tensor in a folder that is there: its file of zeros first, then what ``meta.json`` says of it.

    Args:
        prefix: the folder of the collection.
        path: the key; folders of nested collections are there.
        size: the shape.
        dtype: of the values.
        existsok: write over a file of its name that is there already.
    """
    place, meta = _holder(prefix, path)
    file = place / tensor_file(path[-1], "")
    if size.numel():
        made = MemoryMappedTensor._allocated(size, dtype, file, existsok)
    else:  # there is no file of nothing
        made = MemoryMappedTensor._of(torch.empty(size, dtype=dtype, device="cpu"), str(file), "r+", size)
    known = {"device": "cpu", "shape": list(size), "dtype": str(dtype), "is_nested": False}
    _write_meta(place, _with_entry(meta, path[-1], known))
    return made


def add_folder(prefix: str | Path, path: tree.Path, size: Size) -> None:
    """A folder for a new nested collection in one that is there; see :func:`add_tensor`."""
    place, meta = _holder(prefix, path)
    found: list[tuple[str, bytes]] = []
    metas_of({"type": "collection", "batch_size": list(size), "entries": {}}, "", found)
    below = place / file_name(path[-1])
    below.mkdir(exist_ok=True)
    _write_meta(below, found[0][1])
    _write_meta(place, _with_entry(meta, path[-1], {"type": _PEER_TYPES["collection"]}))


def _holder(prefix: str | Path, path: tree.Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the collection that a new key is put into, and its ``meta.json``."""
    *parents, key = path
    if key in _RESERVED:
        raise KeyError(f"make_memmap: {key!r} has a meaning in {META}; take another key")
    place = Path(prefix).joinpath(*map(file_name, parents))
    with _open_folder(str(place)) as folder:
        return place, read_meta(folder)


def _write_meta(place: Path, text: bytes) -> None:
    with whole_file(place / META) as file:
        file.write(text)


def _with_entry(meta: dict[str, Any], key: str, known: dict[str, Any]) -> bytes:
    own = as_dict(meta.pop(OWN, None)) or {"version": VERSION}
    own.pop("crc32", None)
    return tree.sealed({**meta, key: known, OWN: own}, 2)


@contextmanager
def _open_folder(path: str) -> Generator[Opened, None, None]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Opened(handle, path)
    finally:
        os.close(handle)
