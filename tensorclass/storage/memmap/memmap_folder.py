"""Write, load and extend memory-mapped folders: a folder for each collection, a file of raw values for each tensor.

:mod:`.folder_layout` has the content of the folders.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Size, Tensor

from tensorclass.storage.common import collection_tree, describe_collection, rebuild_collection, sealed_json
from tensorclass.storage.common.collection_tree import FileError, TensorLeaf, TensorReader, TreeSource, as_dict
from tensorclass.storage.common.prefetch import prefetching
from tensorclass.support.atomic import acquire_folder, swapped_folder, whole_file
from tensorclass.support.folder_locks import FolderLock
from tensorclass.support.interrupts import Uninterrupted, uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.progress import Bar, bytes_of
from tensorclass.support.regular_files import NotRegular
from tensorclass.td.base import TensorCollection
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.nontensor import note_files
from tensorclass.td.leaves.object_codes import CPU
from tensorclass.td.memory.mapped_files import Filename, FileThere, map_file, write_values
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor

from . import folder_layout
from .folder_layout import META, OWN, SUFFIX, VERSION, file_name
from .open_folders import OpenFolder, OpenFolderTree, as_file_error, open_folder, with_open_folder

T = TypeVar("T")


class SaveOptions(NamedTuple):
    """Options for writing a folder or an archive."""

    what: str  #: the caller, for errors
    copy_existing: bool = False  #: copy tensors that are mapped from other files, as archives always do
    num_threads: int = 0  #: the number of threads that write a folder, or bring values to memory for an archive
    allow_pickle: bool = False  #: pickle objects that have no JSON form
    values: bool = True  #: write the values of tensors; otherwise they are zeros, in a folder holes
    robust_key: bool = True  #: allow keys that are not names of files
    checksum: bool = False  #: write a checksum of each tensor, for ``verify``
    progress: bool | None = False  #: whether to show a bar, see :func:`tensorclass.support.progress.bar`
    existsok: bool = True  #: whether a collection may be in the folder already
    compression: str | int | None = None  #: of an archive


class LoadOptions(NamedTuple):
    """Options for loading a folder or an archive."""

    device: torch.device | None = None  #: where the tensors go; ``meta`` reads none of them
    non_blocking: bool = False  #: do not wait for copies to the device
    #: ``"r+"`` writes changes of the tensors to the file, ``"r"`` keeps them in this process. By default, those of an
    #: archive are kept, those of a folder written if the files are writable
    mode: str | None = None
    num_threads: int = 0  #: the number of threads that read values
    allow_pickle: bool = False  #: load objects that were pickled
    strict: bool = True  #: the fields of a record and the keys in the file must be the same
    same_objects: bool = False  #: take the objects of the target, of which the file has copies
    verify: bool = False  #: compare the values with their checksums
    robust_key: bool = True  #: ``False`` prefers files that have unescaped keys as names, in a folder of the peer

    def source(self, file: str, read: TensorReader, read_strings: TensorReader) -> TreeSource:
        """Return the source of a tree."""
        return TreeSource(
            file, read, self.device or CPU, self.allow_pickle, self.strict, self.same_objects, self.verify,
            read_strings=read_strings,
        )  # fmt: skip

    def check_mode(self) -> None:
        """Raise if the mode is unknown."""
        if self.mode not in (None, "r", "r+"):
            raise ValueError(f"load_memmap: expected mode to be 'r', 'r+' or None, got {self.mode!r}")


def save_folder(data: TensorCollection, prefix: Filename, options: SaveOptions, then: Callable[[], T]) -> T:
    """Write a collection to a folder, all of it or nothing; return the result of ``then``.

    Args:
        data: the collection.
        prefix: the folder. An old one is replaced in one step; files in it that do not belong to a collection stay.
        options: how it is written.
        then: called without arguments before another writer can replace the folder.

    Raises:
        RuntimeError: a tensor is mapped from another file, and ``copy_existing`` is not set.
        FileThere: a collection is in the folder, and ``existsok`` is not set.
    """
    what, values = options.what, options.values
    path = Path(prefix).absolute()
    if not options.robust_key:
        folder_layout.check_keys(data, what)
    node, leaves = describe_collection.describe(data, what, options.allow_pickle, options.checksum)
    if not ({"entries", "parts"} & node.keys() or node["type"] == "column"):
        raise describe_collection.no_collection(data, what)
    linked: dict[str, MemoryMappedTensor] = {}
    files: dict[str, TensorLeaf] = {}
    for leaf in leaves:
        name = folder_layout.tensor_path(leaf.path, leaf.buffer)
        if type(leaf.tensor) is MemoryMappedTensor and leaf.tensor._filename is not None and leaf.tensor.numel():
            source = leaf.tensor._filename
            if source == str(path / name) and leaf.tensor._index is None and values:
                linked[name] = leaf.tensor
                continue
            if not options.copy_existing:
                raise RuntimeError(
                    f"{what}: {dotted(leaf.path)} is mapped from the file {printable(source)} already; "
                    "copy_existing=True copies it"
                )
        files[name] = leaf
    folders = folder_layout.meta_files(node, what, path)
    total = sum(leaf.tensor.numel() * leaf.tensor.element_size() for leaf in files.values()) if values else 0
    with uninterrupted() as section, FolderLock(section) as folder_lock:

        def finish(draft: Path) -> None:
            if not options.existsok and os.path.lexists(path / META):
                raise FileThere(f"{what}: a collection is saved in {printable(path)}; existsok=True replaces it")
            keep_foreign_files(path, draft)

        with (
            swapped_folder(path, folder_lock, finish) as draft,
            bytes_of(total, what, options.progress if total else False) as bar,
        ):
            with section.interruptible():
                for folder, meta in folders:
                    folder_path = os.path.join(draft, folder)
                    if folder:
                        os.mkdir(folder_path)
                    with open(os.path.join(folder_path, META), "wb") as file:
                        file.write(meta)
            jobs = [
                functools.partial(_write_file, os.path.join(draft, name), leaf.tensor, values or leaf.of_objects, bar)
                for name, leaf in files.items()
            ]
            _run_jobs(jobs, options.num_threads, section)
            acquire_folder(folder_lock, path)
            for name, mapped in linked.items():
                if not _link_mapped_file(path / name, draft / name, mapped):
                    with section.interruptible():
                        _write_file(draft / name, mapped, True, bar)
        return then()


def _run_jobs(jobs: list[functools.partial[None]], num_threads: int, section: Uninterrupted) -> None:
    """Run jobs, in threads if there are several. An interrupt waits for jobs that have begun."""
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


def _link_mapped_file(source: Path, name: Path, mapped: MemoryMappedTensor) -> bool:
    """Link the file of a mapped tensor of the old folder into the new one. Return ``False`` if it must be written.

    That is so if the file was replaced since, if others may have mapped more of it, or if writes to the tensor stay in
    this process.
    """
    if mapped._mode != "r+" or mapped._file_identity is None:
        return False
    try:
        os.link(source, name, follow_symlinks=False)
    except FileNotFoundError:
        return False
    info = os.lstat(name)
    if (info.st_dev, info.st_ino) == mapped._file_identity and info.st_size == mapped.numel() * mapped.element_size():
        return True
    os.unlink(name)
    return False


def _write_file(path: str | Path, tensor: Tensor, values: bool, bar: Bar[Any]) -> None:
    count = tensor.numel() * tensor.element_size()
    if not count:
        return  # the layout has no empty files
    with open(path, "xb", buffering=0) as file:
        if values:
            write_values(file.fileno(), tensor, bar.advance)
        else:
            os.truncate(file.fileno(), count)


def keep_foreign_files(old: Path, new: Path) -> None:
    """Link the files of an old folder that do not belong to its collection into the new folder."""
    files, folders = _collection_names(old)
    with os.scandir(old) as found:
        entries = list(found)
    for entry in entries:
        target = os.path.join(new, entry.name)
        if entry.is_dir(follow_symlinks=False):
            if entry.name in folders:
                if os.path.isdir(target):
                    keep_foreign_files(Path(entry.path), Path(target))
            elif not os.path.exists(target):
                _link_all(Path(entry.path), Path(target))
        elif os.path.exists(target) or (files and (entry.name.endswith(SUFFIX) or entry.name in _PICKLES)):
            continue
        elif entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.name != META:
            os.link(entry.path, target)


def _collection_names(folder: Path) -> tuple[bool, set[str]]:
    """Return whether a collection is saved in a folder, and the names of the folders in it that belong to it."""
    try:
        with open_folder(str(folder)) as open_tensor:
            meta = as_dict(json.loads(open_tensor.read_file(META))) or {}
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


def load_folder(
    target: type[TensorCollection] | TensorCollection | None, prefix: Filename, options: LoadOptions
) -> Any:
    """Return the collection in a folder, with its tensors mapped to memory.

    Args:
        target: the class of the result, or a collection whose classes it gets; see :func:`.rebuild`.
        prefix: the folder.
        options: how it is loaded.

    Returns:
        The collection. Its tensors share memory with all others that map the same files.

    Raises:
        FileNotFoundError: there is no such folder, or nothing was saved in it.
        FileError: a file is damaged, or does not fit the record.
    """
    options.check_mode()
    path, device, mode = os.path.abspath(prefix), options.device, options.mode
    blank = rebuild_collection.blank_reader(device) if rebuild_collection.needs_no_values(device) else None

    def work(root: OpenFolder, section: Uninterrupted) -> Any:
        def checksum(tensor: Tensor) -> int:
            with section.interruptible():
                return collection_tree.checksum_of(tensor)

        folders = OpenFolderTree(root, not options.robust_key, options.allow_pickle)
        try:
            node = folder_layout.read_node(folders, ())

            def open_tensor(
                key: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /
            ) -> Callable[[], Tensor]:
                mapped = map_tensor(*folders.find(key, buffer), dtype, shape, mode)
                if device is None or device.type == "cpu":
                    return lambda: mapped
                return lambda: mapped.as_subclass(Tensor).to(device, non_blocking=options.non_blocking)

            def read(key: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
                section.check()
                try:
                    tensor = open_tensor(key, buffer, dtype, shape)
                except FileNotFoundError as error:
                    if len(key) > 1 and error.filename == folder_layout.tensor_file(key[-1], buffer):
                        error.filename = "/".join([*map(file_name, key[:-1]), error.filename])
                    raise
                with nullcontext() if device is None else section.interruptible():
                    return tensor()

            def read_strings(key: collection_tree.Path, buffer: str, dtype: torch.dtype, shape: Size, /) -> Tensor:
                section.check()
                return map_tensor(*folders.find(key, buffer), dtype, shape, "r")

            source = options.source(path, blank or read, read_strings)._replace(checksum=checksum)
            reads_values = blank is None and (options.verify or source.device != CPU)
            threads = options.num_threads if reads_values else 0
            with (
                prefetching(node, source, open_tensor, threads) as source,
                section.interruptible() if threads > 1 else nullcontext(),
            ):
                return note_files(rebuild_collection.rebuild(node, target, source))
        except RecursionError:
            raise FileError(f"{path}: its metadata is nested too deep") from None
        finally:
            folders.close()

    if options.verify or (device is not None and device.type not in ("cpu", "meta")):  # values are read, which is slow
        return with_open_folder(path, work)
    with uninterrupted():  # files are only opened, mapped and closed, which is fast
        return with_open_folder(path, work)


def map_tensor(folder: OpenFolder, name: str, dtype: torch.dtype, shape: Size, mode: str | None) -> Tensor:
    if not shape.numel():  # the layout has no empty files
        mapped, used, file_id = torch.empty(shape, dtype=dtype, device="cpu"), "r+", None
    else:
        try:
            mapped, used, file_id = map_file(name, dtype, shape, mode, folder.handle)
        except FileNotFoundError:
            raise
        except NotRegular as error:
            raise FileError(f"{folder.name}/{error}") from None
        except OSError as error:
            raise as_file_error(error, f"{folder.name}/{name}") from None
        except ValueError as error:
            raise FileError(f"{folder.name}/{error}") from None
    return MemoryMappedTensor._of(mapped, f"{folder.name}/{name}", used, shape, identity=file_id)


def values_folder(path: Path) -> Path:
    """Return the folder with the values of a collection: a subfolder for a record that the peer wrote."""
    below = check_not_link(path / folder_layout.VALUES_FOLDER)
    if not (below / META).is_file():
        return path
    with open_folder(str(path)) as folder:
        return path if "shape" in folder_layout.read_meta(folder) else below


def add_tensor(
    folder_lock: FolderLock,
    prefix: Path,
    path: collection_tree.Path,
    size: Size,
    dtype: torch.dtype,
    batch_size: Size,
    existsok: bool = True,
) -> MemoryMappedTensor:
    """Add a tensor of zeros to an existing folder: first its file, then its entry in ``meta.json``.

    Args:
        folder_lock: the lock of the folder.
        prefix: the folder of the outermost collection.
        path: the key. The folders of nested collections exist.
        size: the shape of the tensor.
        dtype: its dtype.
        batch_size: the batch size of the collection that gets it.
        existsok: write over an existing file of its name.

    Raises:
        FileThere: there is a value already, and ``existsok`` is not set.
    """
    describe_collection.check_loadable_size(size, path, "make_memmap")
    folder_path, meta = _parent_meta(folder_lock, prefix, path, batch_size)
    key = path[-1]
    file = folder_path / folder_layout.tensor_file(key, "")
    if file.is_symlink():
        raise FileError(f"{file}: expected a file, found a link, which is not followed")
    if key in meta or key in _own_entries(meta):
        if not existsok:
            raise FileThere(f"make_memmap: {folder_path} has a {key!r} already; memmap_refresh_() loads it")
        meta = _without_key(meta, key)
        _write_meta(folder_path, meta)  # so that the new file is never read with the old shape
    if size.numel():
        made = MemoryMappedTensor._allocated(size, dtype, file, existsok)
    else:  # the layout has no empty files
        made = MemoryMappedTensor._of(torch.empty(size, dtype=dtype, device="cpu"), str(file), "r+", size)
    _write_meta(
        folder_path, {**meta, key: {"device": "cpu", "shape": list(size), "dtype": str(dtype), "is_nested": False}}
    )
    return made


def add_folder(folder_lock: FolderLock, prefix: Path, path: collection_tree.Path, size: Size, batch_size: Size) -> None:
    """Add the folder of a new nested collection to an existing one, unless another writer has just made it.

    See :func:`add_tensor` for the arguments; ``size`` is the batch size of the new collection.
    """
    describe_collection.check_loadable_size(size, path, "make_memmap")
    if len(path) > collection_tree.DEPTH:
        raise ValueError(
            f"make_memmap: {'.'.join(path[:3])}: collections are nested deeper than {collection_tree.DEPTH} levels"
        )
    folder_path, meta = _parent_meta(folder_lock, prefix, path, batch_size)
    key, known = path[-1], {"type": folder_layout.PEER_TYPES["collection"]}
    if meta.get(key) == known:
        return
    _, text = next(folder_layout.meta_texts({"type": "collection", "batch_size": list(size), "entries": {}}))
    below = check_not_link(folder_path / file_name(key))
    below.mkdir(exist_ok=True)
    _write_whole(below / META, text)
    _write_meta(folder_path, {**_without_key(meta, key), key: known})


def _parent_meta(
    folder_lock: FolderLock, prefix: Path, path: collection_tree.Path, batch_size: Size
) -> tuple[Path, dict[str, Any]]:
    """Lock the outermost folder. Return the folder of the collection that gets a new key, and its ``meta.json``."""
    *parents, key = path
    if key in folder_layout.RESERVED:
        raise KeyError(f"make_memmap: {key!r} is reserved in {META}; choose another key")
    folder_lock.share_above(prefix)
    if not acquire_folder(folder_lock, prefix):
        raise FileNotFoundError(
            f"make_memmap: there is no folder {prefix} any more; memmap() saves the collection again"
        )
    folder_path = prefix
    for parent in parents:
        folder_path = check_not_link(folder_path / file_name(parent))
    with open_folder(str(folder_path)) as folder:
        meta = folder_layout.read_meta(folder)
    if meta.get("shape") != list(batch_size):
        raise RuntimeError(
            f"make_memmap: another writer has changed {folder_path}: its batch size is {meta.get('shape')} now, not "
            f"{list(batch_size)}; memmap_refresh_() loads the new version"
        )
    return folder_path, meta


def check_not_link(folder: Path) -> Path:
    """Return a folder of a saved collection. Raise if it is a link, since nothing outside is opened."""
    if folder.is_symlink():
        raise FileError(f"{folder}: expected a folder, found a link, which is not followed")
    return folder


def _own_entries(meta: dict[str, Any]) -> dict[str, Any]:
    return as_dict((as_dict(meta.get(OWN)) or {}).get("entries")) or {}


def _without_key(meta: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the content of ``meta.json`` without one key."""
    own = dict(as_dict(meta.get(OWN)) or {})
    if "entries" in own:
        own["entries"] = {name: entry for name, entry in _own_entries(meta).items() if name != key}
    return {**{name: known for name, known in meta.items() if name != key}, OWN: own}


def _write_meta(folder_path: Path, meta: dict[str, Any]) -> None:
    own = dict(as_dict(meta.get(OWN)) or {})
    own.pop("crc32", None)
    own.setdefault("version", VERSION)
    text = sealed_json.sealed({**{name: known for name, known in meta.items() if name != OWN}, OWN: own}, 2)
    collection_tree.check_length(len(text), folder_layout.LONGEST, "make_memmap", str(folder_path))
    _write_whole(folder_path / META, text)


def _write_whole(path: Path, text: bytes) -> None:
    with uninterrupted() as section, whole_file(path, follow=False) as file, section.interruptible():
        file.write(text)
