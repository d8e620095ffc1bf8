"""Folders of memory-mapped files: a folder for each collection, with a file of raw values for each tensor.

What stands in them says :mod:`.layout`; here they are written, loaded and added to.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Size, Tensor

from tensorclass.atomic import acquire_folder, swapped_folder, whole_file
from tensorclass.folder_locks import FolderLock
from tensorclass.interrupts import Uninterrupted, uninterrupted
from tensorclass.printable import printable
from tensorclass.progress import Bar, bytes_of
from tensorclass.regular import NotRegular
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import dotted
from tensorclass.td.memmap import Filename, FileThere, MemoryMappedTensor, map_file, write_values
from tensorclass.td.nontensor_base import note_files
from tensorclass.td.objects import CPU

from . import sealing, tree
from .ahead import reading_ahead
from .layout import (
    INSIDE,
    META,
    OWN,
    PEER_TYPES,
    RESERVED,
    SUFFIX,
    VERSION,
    check_keys,
    check_length,
    file_name,
    metas,
    metas_of,
    place_of,
    read_meta,
    read_node,
    tensor_file,
)
from .open_folders import Folders, Opened, of_file, open_folder, retried
from .tree import FileError, Source, as_dict

T = TypeVar("T")


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
    existsok: bool = True,
    then: Callable[[], T],
) -> T:
    """Writes a collection to a folder, as a whole or not at all, and gives what is done with it then.

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
        existsok: whether a collection may be there already.
        then: called while no other writer may put another one there.
    """
    path = Path(prefix).absolute()
    if not robust_key:
        check_keys(data, what)
    node, leaves = tree.describe(data, what, allow_pickle, checksum)
    linked: dict[str, MemoryMappedTensor] = {}
    files: dict[str, Tensor] = {}
    for leaf in leaves:
        name = place_of(leaf)
        if type(leaf.tensor) is MemoryMappedTensor and leaf.tensor._filename is not None and leaf.tensor.numel():
            source = leaf.tensor._filename
            if source == str(path / name) and leaf.tensor._index is None and values:
                linked[name] = leaf.tensor
                continue
            if not copy_existing:
                raise RuntimeError(
                    f"{what}: {dotted(leaf.path)} lies in the file {printable(source)} already; "
                    "copy_existing=True copies it"
                )
        files[name] = leaf.tensor
    folders = metas(node, what, path)
    total = sum(tensor.numel() * tensor.element_size() for tensor in files.values()) if values else 0
    with uninterrupted() as section, FolderLock(section) as folder_lock:

        def finish(draft: Path) -> None:
            if not existsok and os.path.lexists(path / META):
                raise FileThere(f"{what}: a collection is saved in {printable(path)}; existsok=True writes over it")
            keep_strangers(path, draft)

        with (
            swapped_folder(path, folder_lock, finish) as draft,
            bytes_of(total, what, progress if total else False) as shown,
        ):
            with section.interruptible():
                for folder, meta in folders:
                    place = os.path.join(draft, folder)
                    if folder:
                        os.mkdir(place)
                    with open(os.path.join(place, META), "wb") as file:
                        file.write(meta)
            jobs = [
                functools.partial(_write_file, os.path.join(draft, name), tensor, values, shown)
                for name, tensor in files.items()
            ]
            _work(jobs, num_threads, section)
            acquire_folder(folder_lock, path)
            for name, mapped in linked.items():
                if not _linked(path / name, draft / name, mapped):
                    with section.interruptible():
                        _write_file(draft / name, mapped, True, shown)
        return then()


def _work(jobs: list[functools.partial[None]], num_threads: int, section: Uninterrupted) -> None:
    """Does jobs, in threads where they are several; an interrupt waits for those that have begun."""
    if num_threads < 1 or len(jobs) < 2:
        with section.interruptible():
            for job in jobs:
                job()
        return
    pool = ThreadPoolExecutor(num_threads)
    try:
        futures = [pool.submit(job) for job in jobs]
        with section.interruptible():
            for done in futures:
                done.result()
    finally:
        pool.shutdown(cancel_futures=True)


def _linked(source: Path, name: Path, mapped: MemoryMappedTensor) -> bool:
    """Gives a new folder the file that a tensor lies in, which is in the old one already; ``False`` if it is not.

    It is not where another one was saved there since, where others may have mapped more of it, or where what was
    written to the tensor stays in this process.
    """
    if mapped._mode != "r+" or mapped._place is None:
        return False
    try:
        os.link(source, name, follow_symlinks=False)
    except FileNotFoundError:
        return False
    info = os.lstat(name)
    if (info.st_dev, info.st_ino) == mapped._place and info.st_size == mapped.numel() * mapped.element_size():
        return True
    os.unlink(name)
    return False


def _write_file(path: str | Path, tensor: Tensor, values: bool, shown: Bar[Any]) -> None:
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
        place = os.path.join(new, entry.name)
        if entry.is_dir(follow_symlinks=False):
            if entry.name in folders:
                if os.path.isdir(place):
                    keep_strangers(Path(entry.path), Path(place))
            elif not os.path.exists(place):
                _link_all(Path(entry.path), Path(place))
        elif os.path.exists(place) or (files and (entry.name.endswith(SUFFIX) or entry.name in _PICKLES)):
            continue
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), place)
        elif entry.name != META:
            os.link(entry.path, place)


def _belongings(folder: Path) -> tuple[bool, set[str]]:
    """Whether a collection is saved in a folder, and those of the folders in it that belong to it."""
    try:
        with open_folder(str(folder)) as opened:
            meta = as_dict(json.loads(opened.content(META))) or {}
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
    blank = tree.without_values(device) if tree.only_shapes(device) else None

    def work(root: Opened, section: Uninterrupted) -> Any:
        def summed(tensor: Tensor) -> int:
            with section.interruptible():
                return tree.checksum_of(tensor)

        folders = Folders(root, not robust_key, allow_pickle)
        try:
            node = read_node(folders, ())

            def opened(where: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Callable[[], Tensor]:
                mapped = _opened_tensor(*folders.find(where, part), dtype, shape, mode)
                if device is None or device.type == "cpu":
                    return lambda: mapped
                return lambda: mapped.as_subclass(Tensor).to(device, non_blocking=non_blocking)

            def read(where: tree.Path, part: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
                section.check()
                if device is None:
                    return _opened_tensor(*folders.find(where, part), dtype, shape, mode)
                tensor = opened(where, part, dtype, shape)
                with section.interruptible():
                    return tensor()

            source = Source(path, blank or read, device or CPU, allow_pickle, strict, same_objects, verify, summed)
            if num_threads > 1 and blank is None and (verify or source.device != CPU):
                with reading_ahead(node, source, opened, num_threads) as source, section.interruptible():
                    return note_files(tree.rebuild(node, target, source))
            return note_files(tree.rebuild(node, target, source))
        except RecursionError:
            raise FileError(f"{path}: what it says of itself is nested too deep") from None
        finally:
            folders.close()

    if verify or (device is not None and device.type not in ("cpu", "meta")):  # which read the values
        return retried(path, work)
    with uninterrupted():  # files are opened and mapped, which is done soon, and none stays open
        return retried(path, work)


def _opened_tensor(
    folder: Opened,
    name: str,
    dtype: torch.dtype,
    shape: Size,
    mode: str | None,
) -> Tensor:
    if not shape.numel():  # there is no file of nothing
        mapped, used, place = torch.empty(shape, dtype=dtype, device="cpu"), "r+", None
    else:
        try:
            mapped, used, place = map_file(name, dtype, shape, mode, folder.handle)
        except FileNotFoundError:
            raise
        except NotRegular as error:
            raise FileError(f"{folder.name}/{error}") from None
        except OSError as error:
            raise of_file(error, f"{folder.name}/{name}") from None
        except ValueError as error:
            raise FileError(f"{folder.name}/{error}") from None
    return MemoryMappedTensor._of(mapped, f"{folder.name}/{name}", used, shape, place=place)


def inside(path: Path) -> Path:
    """Where the values of a collection lie: of a record as the peer writes it, in a folder in its folder."""
    below = not_linked(path / INSIDE)
    if not (below / META).is_file():
        return path
    with open_folder(str(path)) as folder:
        return path if "shape" in read_meta(folder) else below


def add_tensor(
    folder_lock: FolderLock,
    prefix: Path,
    path: tree.Path,
    size: Size,
    dtype: torch.dtype,
    batch_size: Size,
    existsok: bool = True,
) -> MemoryMappedTensor:
    """A new tensor in a folder that is there: its file of zeros first, then what ``meta.json`` says of it.

    Args:
        folder_lock: that of the folder.
        prefix: the folder of the collection.
        path: the key; folders of nested collections are there.
        size: the shape.
        dtype: of the values.
        batch_size: that of the collection which gets it.
        existsok: write over a file of its name that is there already.
    """
    tree.check_size(size, path, "make_memmap")
    place, meta = _holder(folder_lock, prefix, path, batch_size)
    key = path[-1]
    file = place / tensor_file(key, "")
    if file.is_symlink():
        raise FileError(f"{file}: expected a file, found a link, which is not followed")
    if key in meta or key in _own_entries(meta):
        if not existsok:
            raise FileThere(f"make_memmap: {place} has a {key!r} already; memmap_refresh_() loads it")
        meta = _without(meta, key)
        _write_meta(place, meta)  # whatever happens, no other file is taken for that of the old shape
    if size.numel():
        made = MemoryMappedTensor._allocated(size, dtype, file, existsok)
    else:  # there is no file of nothing
        made = MemoryMappedTensor._of(torch.empty(size, dtype=dtype, device="cpu"), str(file), "r+", size)
    _write_meta(place, {**meta, key: {"device": "cpu", "shape": list(size), "dtype": str(dtype), "is_nested": False}})
    return made


def add_folder(folder_lock: FolderLock, prefix: Path, path: tree.Path, size: Size, batch_size: Size) -> None:
    """A folder for a new nested collection in one that is there, unless another writer has made it since.

    See :func:`add_tensor`; ``size`` is the batch size of the new one.
    """
    tree.check_size(size, path, "make_memmap")
    if len(path) > tree.DEPTH:
        raise ValueError(f"make_memmap: {'.'.join(path[:3])}: collections are nested deeper than {tree.DEPTH} levels")
    place, meta = _holder(folder_lock, prefix, path, batch_size)
    key, known = path[-1], {"type": PEER_TYPES["collection"]}
    if meta.get(key) == known:
        return
    found: list[tuple[str, bytes]] = []
    metas_of({"type": "collection", "batch_size": list(size), "entries": {}}, "", found)
    below = not_linked(place / file_name(key))
    below.mkdir(exist_ok=True)
    with uninterrupted() as section, whole_file(below / META, follow=False) as file, section.interruptible():
        file.write(found[0][1])
    _write_meta(place, {**_without(meta, key), key: known})


def _holder(folder_lock: FolderLock, prefix: Path, path: tree.Path, batch_size: Size) -> tuple[Path, dict[str, Any]]:
    """The folder of the collection that a new key is put into, and its ``meta.json``."""
    *parents, key = path
    if key in RESERVED:
        raise KeyError(f"make_memmap: {key!r} has a meaning in {META}; take another key")
    folder_lock.share_above(prefix)
    if not acquire_folder(folder_lock, prefix):
        raise FileNotFoundError(
            f"make_memmap: there is no folder {prefix} any more; memmap() saves the collection again"
        )
    place = prefix
    for parent in parents:
        place = not_linked(place / file_name(parent))
    with open_folder(str(place)) as folder:
        meta = read_meta(folder)
    if meta.get("shape") != list(batch_size):
        raise RuntimeError(
            f"make_memmap: another writer has changed {place}, whose batch size is {meta.get('shape')} now and not "
            f"{list(batch_size)}; memmap_refresh_() loads what is there"
        )
    return place, meta


def not_linked(folder: Path) -> Path:
    """A folder in what was saved. Nothing outside is opened, so that a link is an error."""
    if folder.is_symlink():
        raise FileError(f"{folder}: expected a folder, found a link, which is not followed")
    return folder


def _own_entries(meta: dict[str, Any]) -> dict[str, Any]:
    return as_dict((as_dict(meta.get(OWN)) or {}).get("entries")) or {}


def _without(meta: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the content of ``meta.json`` without one key."""
    own = dict(as_dict(meta.get(OWN)) or {})
    if "entries" in own:
        own["entries"] = {name: entry for name, entry in _own_entries(meta).items() if name != key}
    return {**{name: known for name, known in meta.items() if name != key}, OWN: own}


def _write_meta(place: Path, meta: dict[str, Any]) -> None:
    own = dict(as_dict(meta.get(OWN)) or {})
    own.pop("crc32", None)
    own.setdefault("version", VERSION)
    text = sealing.sealed({**{name: known for name, known in meta.items() if name != OWN}, OWN: own}, 2)
    check_length(text, "make_memmap", str(place))
    with uninterrupted() as section, whole_file(place / META, follow=False) as file, section.interruptible():
        file.write(text)
