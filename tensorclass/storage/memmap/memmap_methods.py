"""The methods of collections that map tensors to files: ``memmap``, ``load_memmap``, ``make_memmap`` and their kin."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tensorclass.storage import archive as archives
from tensorclass.storage.common.collection_tree import FileError
from tensorclass.storage.common.file_paths import check_folder_name, loading, path_of
from tensorclass.storage.common.prefetch import check_threads, copy_into, result_or_future
from tensorclass.support.folder_locks import FolderLock
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable, type_name
from tensorclass.support.progress import progress_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.get import MISSING
from tensorclass.td.hidden_members import with_members
from tensorclass.td.jagged import all_packed
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.leaves.leaf import has_spans
from tensorclass.td.leaves.nontensor import is_non_tensor
from tensorclass.td.leaves.object_codes import CPU
from tensorclass.td.memory.consolidated_buffer import joined, parts_of
from tensorclass.td.memory.filled_tensors import as_shape
from tensorclass.td.memory.mapped_files import Filename, FileThere
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tensorclass.td.stored_names import stored_path
from tensorclass.td.tensordict import TensorDict

from . import folder_layout, memmap_folder
from .memmap_folder import LoadOptions, SaveOptions


def memmap(
    data: Any,
    prefix: Filename | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    existsok: bool = True,
    robust_key: bool | None = True,
    archive: bool | None = None,
    compression: str | int | None = None,
    atomic: bool = True,
    allow_pickle: bool = False,
    checksum: bool = False,
    progress: bool | None = None,
    pbar: bool | None = None,
) -> Any:
    """See :meth:`TensorDict.memmap`."""
    options = SaveOptions(
        "memmap", copy_existing, num_threads, allow_pickle, True, robust_key is not False, checksum,
        progress_of("memmap", progress, pbar), existsok, compression,
    )  # fmt: skip
    return _memmap(data, prefix, options, return_early, share_non_tensor, archive)


def memmap_(
    data: Any,
    prefix: Filename | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    existsok: bool = True,
    robust_key: bool | None = True,
    atomic: bool = True,
    allow_pickle: bool = False,
    checksum: bool = False,
    progress: bool | None = None,
    pbar: bool | None = None,
) -> Any:
    """See :meth:`TensorDict.memmap_`."""
    options = SaveOptions(
        "memmap_", copy_existing, num_threads, allow_pickle, True, robust_key is not False, checksum,
        progress_of("memmap_", progress, pbar), existsok,
    )  # fmt: skip

    def finish(made: Any) -> Any:
        take_values(data, made)
        return data.lock_()

    return _memmap(data, prefix, options, return_early, share_non_tensor, finish=finish)


def memmap_like(
    data: Any,
    prefix: Filename | None = None,
    copy_existing: bool = False,
    *,
    num_threads: int = 0,
    return_early: bool = False,
    share_non_tensor: bool = False,
    existsok: bool = True,
    robust_key: bool | None = True,
    archive: bool | None = None,
    atomic: bool = True,
    allow_pickle: bool = False,
) -> Any:
    """See :meth:`TensorDict.memmap_like`."""
    options = SaveOptions(
        "memmap_like", copy_existing, num_threads, allow_pickle, False, robust_key is not False, existsok=existsok
    )
    return _memmap(data, prefix, options, return_early, share_non_tensor, archive)


def _memmap(
    data: Any,
    prefix: Filename | None,
    options: SaveOptions,
    return_early: bool,
    share_non_tensor: bool,
    archive: bool | None = False,
    finish: Callable[[Any], Any] | None = None,
) -> Any:
    what, existsok = options.what, options.existsok
    if prefix is not None:
        prefix = path_of(prefix, what, writes=True)
    elif options.checksum:
        raise ValueError(f"{what}: checksum=True needs a path: in memory there is nowhere to write checksums to")
    check_threads(options.num_threads, what)
    if share_non_tensor and any(is_non_tensor(value) for value in data.values(True)):
        raise NotImplementedError(f"{what}: share_non_tensor=True is not supported: each process has its own objects")
    if not options.values:
        data = _materialize_meta(_with_empty_rows(data))
    if archive or (archive is None and prefix is not None and prefix.endswith(archives.SUFFIX)):
        if prefix is None:
            raise ValueError(f"{what}: an archive needs a path")
        if not existsok and os.path.lexists(prefix):
            raise FileThere(f"{what}: there is a file {prefix}; existsok=True replaces it")
        return result_or_future(return_early, what, functools.partial(_save_archive, data, prefix, options))
    if options.compression is not None:
        raise ValueError(
            f"{what}: only archives can be compressed; archive=True, or a path that ends with .tdz, writes one"
        )
    if prefix is not None:
        check_folder_name(prefix, what)
    if prefix is not None and not existsok and (Path(prefix) / folder_layout.META).exists():
        raise FileThere(f"{what}: a collection is saved in {prefix}; existsok=True replaces it")

    def work() -> Any:
        if prefix is None:
            made = _in_shared_memory(data, options.values, what)
        else:
            as_saved = LoadOptions(allow_pickle=options.allow_pickle, same_objects=True)
            load = functools.partial(memmap_folder.load_folder, data, prefix, as_saved)
            made = memmap_folder.save_folder(data, prefix, options, load)
        return with_members(made).lock_() if finish is None else finish(made)

    return result_or_future(return_early, what, work)


def _save_archive(data: Any, path: str, options: SaveOptions) -> Any:
    """Write an archive; return the collection mapped from it."""
    loaded: list[Any] = []

    def load(draft: str) -> None:
        as_saved = LoadOptions(allow_pickle=options.allow_pickle, same_objects=True)
        loaded.append(archives.load_archive(data, draft, as_saved))

    archives.save_archive(data, path, options, load)
    return loaded[0]


def _materialize_meta(data: Any) -> Any:
    """Return the collection with tensors on the device ``meta`` replaced by expanded zeros, which take no memory."""
    data = data._captured([])
    leaves = list(data._leaves_and_buffers())
    if not any(leaf.is_meta and leaf.layout is torch.strided for leaf in leaves):
        return data
    zeros = [
        torch.zeros((), dtype=leaf.dtype, device=CPU).expand(leaf.shape)
        if leaf.is_meta and leaf.layout is torch.strided
        else leaf
        for leaf in leaves
    ]
    return _with_cpu_arrays(data, zeros)


def _with_cpu_arrays(data: Any, arrays: list[Tensor]) -> Any:
    made = data._with_leaves_and_buffers(iter(arrays))
    made._set_device(CPU)
    return made


def _with_empty_rows(data: Any) -> Any:
    """Return the collection with columns whose rows are empty: rows of other lengths are appended, not written."""
    if not any(has_spans(node) for node in data._all_nodes()):
        return data
    if not data._holds_values():
        return data._with_parts([_with_empty_rows(part) for part in data._store.items_])
    if has_spans(data):
        empty = data._allocated(data._batch_size)
        empty._names = data._names
        return empty
    if not data._is_tree():
        return data
    return data._same(
        {key: _with_empty_rows(value) if isinstance(value, Collection) else value for key, value in data._now().items()}
    )


def _in_shared_memory(data: Any, values: bool, what: str) -> Any:
    """Return the collection with its tensors in memory that processes share."""
    data = all_packed(data._captured([])._compacted())
    if without := [".".join(path) for path, leaf in named_buffers(data) if leaf.is_meta]:
        raise TypeError(f"{what}: tensors on the device meta have no values: {without}")
    leaves = [
        leaf
        if type(leaf) is MemoryMappedTensor and leaf._filename is None and values
        else _copied(leaf.detach(), values)
        for leaf in data._leaves_and_buffers()
    ]
    return _with_cpu_arrays(data, leaves)


def _copied(leaf: Tensor, values: bool) -> Tensor:
    """Return a copy of a tensor in shared memory. The offsets of a jagged one are copied without ``values``, too."""
    first, *offsets = parts_of(leaf)
    copies = [MemoryMappedTensor.from_tensor(first, copy_data=values), *map(MemoryMappedTensor.from_tensor, offsets)]
    return joined(leaf, iter(copies))


def take_values(data: Any, made: Any) -> None:
    """Replace the values of a collection by those of another with the same structure, at every level; all or none."""
    with uninterrupted():
        _take_values(data, made)


def _take_values(data: Any, made: Any) -> None:
    if not data._is_tree():
        data._become(made)
        return
    data._batch_size, data._device = made._batch_size, made._device
    if not data._holds_values():
        items: list[Any] = data._store.items_
        others: list[Any] = made._store.items_
        for item, other in zip(items, others, strict=False):
            _take_values(item, other)
        for other in others[len(items) :]:
            if data._lock is not None:
                other._lock_under((weakref.ref(data),))
            items.append(other)
        del items[len(others) :]
        return
    for key, value in made._now().items():
        own = data._store.get(key)
        if isinstance(own, TensorCollection) and own._is_tree():
            _take_values(own, value)
        else:
            data._store[key] = value


def load_memmap(
    cls: Any,
    prefix: Filename,
    device: DeviceLike | None = None,
    non_blocking: bool = False,
    *,
    out: Any = None,
    robust_key: bool | None = True,
    subpath: NestedKey | None = None,
    mode: str | None = None,
    num_threads: int = 0,
    allow_pickle: bool | None = None,
    strict: bool = True,
    verify: bool = False,
) -> Any:
    """See :meth:`TensorDict.load_memmap`."""
    path = Path(path_of(prefix, "load_memmap"))
    check_threads(num_threads, "load_memmap")
    if out is not None and not isinstance(out, TensorCollection):
        raise TypeError(f"load_memmap: expected out to be a collection, got {out!r}")
    options = LoadOptions(
        as_device(device), non_blocking, mode, num_threads, bool(allow_pickle), strict, verify=verify,
        robust_key=robust_key is not False,
    )  # fmt: skip
    target = cls if out is None else out
    with loading(str(path), "load_memmap"):
        keys = () if subpath is None else unravel_key_to_tuple(subpath)
        if path.is_file():
            loaded = archives.load_archive(target, path, options, keys)
        else:
            loaded = memmap_folder.load_folder(target, _nested_folder(path, keys) if keys else path, options)
    return loaded if out is None else copy_into(out, loaded, num_threads)


def _nested_folder(path: Path, keys: tuple[str, ...]) -> Path:
    """Return the folder of a nested collection."""
    found = path
    for key in keys:
        found = memmap_folder.values_folder(found)
        own = found / folder_layout.file_name(key)
        plain = own.is_dir() or "/" in key or "\0" in key or key in ("", ".", "..")
        found = memmap_folder.check_not_link(own if plain else found / key)
    if path.is_dir() and not (found / folder_layout.META).is_file():
        raise FileError(
            f"{path}: no collection is saved there under {'.'.join(keys)!r}; the keys are the names in files, as "
            "TensorDict.load_memmap shows them"
        )
    return found


def load_memmap_(
    data: Any,
    prefix: Filename,
    robust_key: bool | None = True,
    *,
    allow_pickle: bool | None = None,
    mode: str | None = None,
) -> Any:
    """See :meth:`TensorDict.load_memmap_`."""
    path = path_of(prefix, "load_memmap_")
    options = LoadOptions(mode=mode, allow_pickle=bool(allow_pickle), robust_key=robust_key is not False)
    with loading(path, "load_memmap"):
        load = archives.load_archive if os.path.isfile(path) else memmap_folder.load_folder
        loaded = load(data, path, options)
    return with_members(data).update(loaded, inplace=True)


def memmap_refresh_(data: Any, *, allow_pickle: bool | None = None) -> Any:
    """See :meth:`TensorDict.memmap_refresh_`."""
    try:
        path = saved_path(data)
    except AttributeError as error:
        raise RuntimeError(f"memmap_refresh_: {printable(error)}") from None
    options = LoadOptions(allow_pickle=bool(allow_pickle))
    take_values(data, memmap_folder.load_folder(data.__class__, path, options))
    return data


def named_buffers(data: Any) -> list[tuple[tuple[str, ...], Any]]:
    """Return the tensors of a collection and the buffers of its columns, with their keys in files."""
    columns: dict[tuple[str, ...], Any] = dict(data._named_columns())
    found = [(path, leaf) for path, leaf in data._named_leaves() if path not in columns]
    return found + [((*path, *name), leaf) for path, column in columns.items() for name, leaf in column._state_leaves()]


def saved_path(data: Any) -> Path:
    """See :attr:`TensorDict.saved_path`."""
    if not data._holds_values():  # a lazy stack: the folders of its items are in its own
        return saved_path(data._nodes()[0]).parent
    for path, leaf in named_buffers(data):
        if type(leaf) is MemoryMappedTensor and leaf._filename is not None and leaf._index is None:
            for names in (stored_path(data, path), path):  # older folders have the names of fields
                end = "/".join(map(folder_layout.file_name, names)) + folder_layout.SUFFIX
                if leaf._filename.endswith(f"/{end}"):
                    return Path(leaf._filename[: -len(end) - 1])
        break
    raise AttributeError("the collection is not saved in a folder; memmap(folder) writes it to one")


def make_memmap(
    data: Any, key: NestedKey, shape: Sequence[int], *, dtype: torch.dtype | None = None, robust_key: bool | None = True
) -> MemoryMappedTensor:
    """See :meth:`TensorDict.make_memmap`."""
    return _make_memmap(data, key, shape, dtype, robust_key, True)


def _make_memmap(
    data: Any, key: NestedKey, shape: Sequence[int], dtype: torch.dtype | None, robust_key: bool | None, existsok: bool
) -> MemoryMappedTensor:
    path = unravel_key_to_tuple(key)
    size, dtype = as_shape(shape), dtype or torch.get_default_dtype()
    if robust_key is False and any(folder_layout.file_name(name) != name for name in path):
        raise ValueError(f"make_memmap: with robust_key=False the key must be the name of a file, got {key!r}")
    if not data._holds_values():
        raise RuntimeError("make_memmap: a lazy stack has no tensors of its own; make one in each of its items")
    if not data.is_memmap():
        leaf_classes: set[type[Any]] = {type(leaf) for leaf in data._leaves()}
        hint = "lock_()" if leaf_classes == {MemoryMappedTensor} else "memmap(folder)"
        raise RuntimeError(f"make_memmap: the collection is not memory-mapped; call {hint} first")
    if data._find(path) is not MISSING:
        raise RuntimeError(f"make_memmap: there is a value at {key!r} already; write to it in place")
    if size[: data.ndim] != data.batch_size:
        raise RuntimeError(
            f"make_memmap: the shape {list(size)} does not begin with the batch size {list(data.batch_size)}"
        )
    saved: Path | None = None
    with suppress(AttributeError):  # it is in shared memory
        saved = saved_path(data)
    names = stored_path(data, path)
    holder: Any = data
    with uninterrupted() as section, FolderLock(section) as folder_lock:
        for depth, name in enumerate(path[:-1]):
            below: Any = holder._store.get(name)
            if below is None:
                below = TensorDict({}, data.batch_size, device=CPU)
                below._lock_under((weakref.ref(holder),))
                if saved is not None:
                    memmap_folder.add_folder(folder_lock, saved, names[: depth + 1], data.batch_size, holder.batch_size)
                holder._store[name] = below
            holder = below
        if saved is None:
            made = MemoryMappedTensor.empty(size, dtype=dtype)
        else:
            made = memmap_folder.add_tensor(folder_lock, saved, names, size, dtype, holder.batch_size, existsok)
        holder._store[path[-1]] = made
    return made


def make_memmap_from_tensor(
    data: Any,
    key: NestedKey,
    tensor: Tensor,
    *,
    copy_data: bool = True,
    existsok: bool = True,
    robust_key: bool | None = True,
) -> MemoryMappedTensor:
    """See :meth:`TensorDict.make_memmap_from_tensor`."""
    if not isinstance(tensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"make_memmap_from_tensor: expected a tensor, got {type_name(tensor)}")
    made = _make_memmap(data, key, tensor.shape, tensor.dtype, robust_key, existsok)
    if copy_data:
        made.copy_(tensor.detach())
    return made


def make_memmap_from_storage(
    data: Any,
    key: NestedKey,
    storage: torch.UntypedStorage,
    shape: Sequence[int],
    *,
    dtype: torch.dtype | None = None,
    robust_key: bool | None = True,
) -> MemoryMappedTensor:
    """See :meth:`TensorDict.make_memmap_from_storage`."""
    flat = torch.empty(0, dtype=dtype or torch.get_default_dtype(), device=CPU).set_(storage)
    size = as_shape(shape)
    if flat.numel() < size.numel():
        raise ValueError(
            f"make_memmap_from_storage: the shape {list(size)} of {flat.dtype} needs "
            f"{size.numel() * flat.element_size()} bytes, the storage has {storage.nbytes()}"
        )
    values = flat[: size.numel()].view(size)
    return make_memmap_from_tensor(data, key, values, copy_data=True, robust_key=robust_key)
