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
from typing import Any

import torch
from torch import Size, Tensor

from tensorclass.atomic import swapped_folder, whole_file
from tensorclass.interrupts import uninterrupted
from tensorclass.progress import Bar, bytes_of
from tensorclass.regular import NotRegular
from tensorclass.td.base import TensorCollection
from tensorclass.td.memmap import Filename, MemoryMappedTensor, map_file, write_values
from tensorclass.td.nontensor_base import note_files
from tensorclass.td.objects import CPU

from . import sealing, tree
from .ahead import reading_ahead
from .layout import (
    INSIDE,
    LONGEST,
    META,
    OWN,
    PEER_TYPES,
    RESERVED,
    SUFFIX,
    VERSION,
    check_keys,
    file_name,
    metas_of,
    place_of,
    read_meta,
    read_node,
    tensor_file,
)
from .open_folders import Folders, Opened, of_file, open_folder, retried
from .tree import FileError, Source, as_dict


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
    with (
        uninterrupted() as section,
        swapped_folder(path) as draft,
        bytes_of(total, what, progress if total else False) as shown,
        section.interruptible(),
    ):
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
                try:
                    for done in [pool.submit(job) for job in jobs]:
                        done.result()
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
        else:
            for job in jobs:
                job()
        if path.is_dir():
            keep_strangers(path, draft)


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
                    return note_files(tree.rebuild(node, target, source))
            return note_files(tree.rebuild(node, target, source))
        except RecursionError:
            raise FileError(f"{path}: what it says of itself is nested too deep") from None
        finally:
            folders.close()

    return retried(path, work)


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
        except NotRegular as error:
            raise FileError(f"{folder.name}/{error}") from None
        except OSError as error:
            raise of_file(error, f"{folder.name}/{name}") from None
        except ValueError as error:
            raise FileError(f"{folder.name}/{error}") from None
    return MemoryMappedTensor._of(mapped, f"{folder.name}/{name}", used, shape)


def inside(path: Path) -> Path:
    """Where the values of a collection lie: of a record as the peer writes it, in a folder in its folder."""
    below = not_linked(path / INSIDE)
    if not (below / META).is_file():
        return path
    with open_folder(str(path)) as folder:
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
    below = not_linked(place / file_name(path[-1]))
    below.mkdir(exist_ok=True)
    _write_meta(below, found[0][1])
    _write_meta(place, _with_entry(meta, path[-1], {"type": PEER_TYPES["collection"]}))


def _holder(prefix: str | Path, path: tree.Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the collection that a new key is put into, and its ``meta.json``."""
    *parents, key = path
    if key in RESERVED:
        raise KeyError(f"make_memmap: {key!r} has a meaning in {META}; take another key")
    place = Path(prefix)
    for parent in parents:
        place = not_linked(place / file_name(parent))
    with open_folder(str(place)) as folder:
        return place, read_meta(folder)


def not_linked(folder: Path) -> Path:
    """A folder in what was saved. Nothing outside is opened, so that a link is an error."""
    if folder.is_symlink():
        raise FileError(f"{folder}: expected a folder, found a link, which is not followed")
    return folder


def _write_meta(place: Path, text: bytes) -> None:
    with uninterrupted() as section, whole_file(place / META, follow=False) as file, section.interruptible():
        file.write(text)


def _with_entry(meta: dict[str, Any], key: str, known: dict[str, Any]) -> bytes:
    own = as_dict(meta.pop(OWN, None)) or {"version": VERSION}
    own.pop("crc32", None)
    return sealing.sealed({**meta, key: known, OWN: own}, 2)
