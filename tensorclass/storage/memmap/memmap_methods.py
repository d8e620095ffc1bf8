"""The methods of collections that map tensors to files: ``memmap``, ``load_memmap`` and their kin."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import torch
from torch import Tensor

from tensorclass.storage import archive as archives
from tensorclass.storage.common.collection_tree import FileError
from tensorclass.storage.common.file_paths import check_folder_name, loading, path_of
from tensorclass.storage.common.prefetch import check_threads, copy_into, result_or_future
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.progress import progress_of
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.hidden_members import with_members
from tensorclass.td.jagged import all_packed
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.leaves.leaf import has_spans
from tensorclass.td.leaves.nontensor import is_non_tensor
from tensorclass.td.leaves.object_codes import CPU
from tensorclass.td.memory.consolidated_buffer import joined, parts_of
from tensorclass.td.memory.mapped_files import Filename, FileThere
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tensorclass.td.stored_names import stored_path

from . import folder_layout, memmap_folder
from .memmap_folder import LoadOptions, SaveOptions

if TYPE_CHECKING:
    from concurrent.futures import Future

METHODS_OF = "MemoryMaps"
PROPERTIES = ("saved_path",)
C = TypeVar("C", bound=TensorCollection)


@overload
def memmap(data: C, *, return_early: Literal[False] = ...) -> C: ...
@overload
def memmap(data: C, *, return_early: Literal[True]) -> Future[C]: ...
def memmap(
    data: C,
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
) -> C | Future[C]:
    """Write the collection to a folder, and return a collection whose tensors are mapped to the files there.

    The folder is written completely or not at all: it takes its place in one step when everything is written, also
    if it replaces another one.

    Args:
        prefix: the folder. Each nested collection gets a folder inside it. Without a prefix, the tensors are in
            memory that processes share.
        copy_existing: copy tensors that are mapped to other files. By default they are an error, unless an archive
            is written.
        num_threads: the number of threads that write files; 0 writes in this thread. One thread writes an archive; the
            others prepare the next tensors.
        return_early: return a future whose ``result()`` is the collection. Do not write to the tensors until then.
        share_non_tensor: not supported if there are objects: each process has its own.
        existsok: replace a collection that is already there.
        robust_key: encode keys that cannot be names of files (``"a/b"``). With ``False`` they are an error.
        archive: write one file, an archive of the folder, from which tensors are mapped; see :func:`pack_memmap`.
            By default this is done if ``prefix`` ends in ``.tdz``. The result is not locked, and writes to it stay
            in this process.
        compression: the compression of an archive: ``"deflated"``, ``"bzip2"`` or ``"lzma"``. Tensors are then read
            instead of mapped.
        atomic: accepted for compatibility with tensordict. The write is atomic in any case.
        allow_pickle: write objects that JSON cannot hold as pickles, which only ``allow_pickle=True`` reads.
        checksum: store a checksum of each tensor, with which ``load_memmap(verify=True)`` detects damage. It holds
            until values are written in place.
        progress: show a progress bar; by default on a terminal, if writing takes more than two seconds.
        pbar: another name of ``progress``.

    Returns:
        A locked collection of this class. Writes to its values in place go to the files. With ``return_early``, a
        future.

    Raises:
        FileExistsError: a collection is there, and ``existsok`` is ``False``. It is also a RuntimeError.
        RuntimeError: a tensor is mapped to another file, and ``copy_existing`` is ``False``.
        TypeError: the files cannot hold some values. Lists all of them. Nothing was written.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = TensorDict({"x": torch.zeros(3, 2)}, [3]).memmap(folder + "/rows")
        ...     rows["x"][1] = 1.0
        ...     TensorDict.load_memmap(folder + "/rows")["x"].sum()
        tensor(2.)
    """
    options = SaveOptions(
        "memmap", copy_existing, num_threads, allow_pickle, True, robust_key is not False, checksum,
        progress_of("memmap", progress, pbar), existsok, compression,
    )  # fmt: skip
    return _memmap(data, prefix, options, return_early, share_non_tensor, archive)


save = memmap
dumps = memmap


@overload
def memmap_(data: C, *, return_early: Literal[False] = ...) -> C: ...
@overload
def memmap_(data: C, *, return_early: Literal[True]) -> Future[C]: ...
def memmap_(
    data: C,
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
) -> C | Future[C]:
    """Write the collection to a folder and map its own tensors to the files: :meth:`memmap` in place.

    The collection is locked. If writing fails, it stays unchanged.

    Args:
        prefix: the folder; without one, the tensors are in memory that processes share.
        copy_existing: copy tensors that are mapped to other files. By default they are an error.
        memmap: num_threads, return_early, share_non_tensor, existsok, robust_key, atomic, allow_pickle, checksum,
            progress, pbar

    Returns:
        This collection. With ``return_early``, a future.

    Raises:
        FileExistsError, RuntimeError, TypeError: as in :meth:`memmap`.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.ones(3)}, [3])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = data.memmap_(folder + "/rows")
        ...     data.is_memmap(), data.is_locked
        (True, True)
    """
    options = SaveOptions(
        "memmap_", copy_existing, num_threads, allow_pickle, True, robust_key is not False, checksum,
        progress_of("memmap_", progress, pbar), existsok,
    )  # fmt: skip

    def finish(made: Any) -> Any:
        take_values(data, made)
        return data.lock_()

    return _memmap(data, prefix, options, return_early, share_non_tensor, finish=finish)


@overload
def memmap_like(data: C, *, return_early: Literal[False] = ...) -> C: ...
@overload
def memmap_like(data: C, *, return_early: Literal[True]) -> Future[C]: ...
def memmap_like(
    data: C,
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
) -> C | Future[C]:
    """Create the files of :meth:`memmap` without the values, for a data set that is to be filled.

    The files have the same shapes and dtypes. They hold zeros, and occupy no disk space until they are written.
    Objects are written as they are.

    Args:
        prefix: the folder; without one, the tensors are in memory that processes share.
        copy_existing: accept tensors that are mapped to other files. By default they are an error.
        memmap: num_threads, return_early, share_non_tensor, existsok, robust_key
        archive: write one file, an archive of the folder; by default if ``prefix`` ends in ``.tdz``.
        memmap: atomic, allow_pickle

    Returns:
        A locked collection of this class, of zeros. With ``return_early``, a future.

    Raises:
        FileExistsError, RuntimeError, TypeError: as in :meth:`memmap`.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> row = TensorDict(
        ...     {"image": torch.zeros(3, 8, 8, dtype=torch.uint8), "label": torch.zeros((), dtype=torch.int64)}
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = row.expand(1000).memmap_like(folder + "/data")  # expand allocates nothing
        ...     data[10:20] = row.expand(10) + 1
        ...     int(TensorDict.load_memmap(folder + "/data")["label"].sum())
        10
    """
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
) -> Any | Future[Any]:
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
    cls: type[C],
    prefix: Filename,
    device: DeviceLike | None = None,
    non_blocking: bool = False,
    *,
    out: C | None = None,
    robust_key: bool | None = True,
    subpath: NestedKey | None = None,
    mode: str | None = None,
    num_threads: int = 0,
    allow_pickle: bool | None = None,
    strict: bool = True,
    verify: bool = False,
) -> C:
    """Load the collection that :meth:`memmap` wrote to a folder, with its tensors mapped to memory.

    Only the metadata is read; values are read when they are used. A record is checked against its fields, whatever
    class wrote the folder. No code in the folder runs, and nothing is imported for it.

    Args:
        prefix: the folder, or an archive. A folder of a nested collection can be loaded by itself.
        device: where the tensors are moved; by default they stay mapped. ``meta`` opens no file of a tensor, nor
            does fake tensor mode.
        non_blocking: do not wait until the tensors are on the device.
        out: a collection to write the values into, as :meth:`load_memmap_` does. It becomes the result.
        robust_key: matters only for folders that tensordict wrote, which do not say how the files of keys such as
            ``"a b"`` are named. Both ways are tried; ``False`` tries the key itself first, which matters if another
            key has that name.
        subpath: the key of a nested collection, to load only this one.
        mode: ``"r+"`` writes changes of the tensors to the files, ``"r"`` keeps them in this process. By default
            ``"r+"`` if the files are writable.
        num_threads: the number of threads that read values, if values are read: to move them to a device or into
            ``out``, to verify them, or from a compressed archive.
        allow_pickle: read objects that were written as pickles. A pickle can run any code: use it only for files
            that you trust.
        strict: with ``False``, drop keys that are not fields of a record, and warn about them.
        verify: read all values, and compare them with the checksums that ``memmap(checksum=True)`` stored.

    Raises:
        FileNotFoundError: the folder does not exist, or nothing was saved there.
        ValueError: a file is damaged or does not fit the record. Names every field that does not fit.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.ones(3), "below": {"y": torch.ones(3)}}, [3]).memmap(folder)
        ...     TensorDict.load_memmap(folder, subpath="below")["y"]
        MemoryMappedTensor([1., 1., 1.])
    """
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
    return loaded if out is None else copy_into(out, loaded, num_threads)  # type: ignore[no-any-return]


load = load_memmap


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
    data: C,
    prefix: Filename,
    robust_key: bool | None = True,
    *,
    allow_pickle: bool | None = None,
    mode: str | None = None,
) -> C:
    """Read the values in a folder into this collection.

    Existing tensors get the values in place. Missing keys are added with tensors that are mapped to the folder,
    unless the collection is locked. Other keys stay unchanged.

    Args:
        prefix: the folder, or an archive.
        robust_key: matters only for folders that tensordict wrote; see :meth:`load_memmap`.
        allow_pickle: read objects that were written as pickles. Use it only for files that you trust.
        mode: how files of added keys are mapped; see :meth:`load_memmap`.

    Returns:
        This collection.

    Raises:
        RuntimeError: shapes differ, or a key is missing and the collection is locked.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"x": torch.zeros(3)}, [3])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     saved = TensorDict({"x": torch.ones(3)}, [3]).memmap(folder + "/rows")
        ...     data.load_memmap_(folder + "/rows")["x"]
        tensor([1., 1., 1.])
    """
    path = path_of(prefix, "load_memmap_")
    options = LoadOptions(mode=mode, allow_pickle=bool(allow_pickle), robust_key=robust_key is not False)
    with loading(path, "load_memmap"):
        load = archives.load_archive if os.path.isfile(path) else memmap_folder.load_folder
        loaded = load(data, path, options)
    return with_members(data).update(loaded, inplace=True)


load_ = load_memmap_


def memmap_refresh_(data: C, *, allow_pickle: bool | None = None) -> C:
    """Reload the folder of this memory-mapped collection, to see what another process saved there.

    Args:
        allow_pickle: read objects that were written as pickles. Use it only for files that you trust.

    Returns:
        This collection.

    Raises:
        RuntimeError: the collection is not in a folder.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder + "/rows")
        ...     TensorDict.append_memmap(folder + "/rows", TensorDict({"x": torch.ones(2)}, [2]))
        ...     data.memmap_refresh_().batch_size
        torch.Size([5])
    """
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


def saved_path(data: TensorCollection) -> Path:
    """The folder of a memory-mapped collection.

    Raises:
        AttributeError: the collection is not in a folder.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     data = TensorDict({"x": torch.zeros(3)}, [3]).memmap(folder)
        ...     str(data.saved_path) == folder
        True
    """
    if not data._holds_values():  # a lazy stack: the folders of its items are in its own
        item: Any = data._nodes()[0]
        return saved_path(item).parent
    for path, leaf in named_buffers(data):
        if type(leaf) is MemoryMappedTensor and leaf._filename is not None and leaf._index is None:
            for names in (stored_path(data, path), path):  # older folders have the names of fields
                end = "/".join(map(folder_layout.file_name, names)) + folder_layout.SUFFIX
                if leaf._filename.endswith(f"/{end}"):
                    return Path(leaf._filename[: -len(end) - 1])
        break
    raise AttributeError("the collection is not saved in a folder; memmap(folder) writes it to one")
