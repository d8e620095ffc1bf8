"""Load and save collections in files with groups of arrays, HDF5 and zarr."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Size
from typing_extensions import TypedDict, Unpack

from tensorclass.storage.common import collection_tree, describe_collection, rebuild_collection
from tensorclass.storage.common.collection_tree import TreeSource
from tensorclass.storage.common.file_paths import loading, path_of
from tensorclass.storage.common.unimported_classes import stand_in
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import class_name
from tensorclass.support.progress import bytes_of, progress_of
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.keys import dotted
from tensorclass.td.leaves.leaf import has_spans
from tensorclass.td.memory.mapped_files import Filename
from tensorclass.td.shapes import Names
from tensorclass.td.stored_names import field_name
from tensorclass.td.stores.lazy.lazy_base import lazily
from tensorclass.td.stores.store_classes import dense_class, on_store
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import BatchMismatch

from .array_backend import Note, Replaced
from .array_file import ArrayFile, FileOptions, check, escaped, is_record, make_backend
from .group_entry import GroupEntry
from .group_store import GroupStore

METHODS_OF = "Files"
C = TypeVar("C", bound=TensorCollection)

_TRIES = 20  #: attempts to open a file that is replaced meanwhile


class SizeMismatch(BatchMismatch, ValueError):
    """A value in a file does not begin with the batch size that was asked for."""


@dataclass(frozen=True)
class LoadOptions:
    """Options for making the collections of a file."""

    batch_size: Size | None = None  #: by default that of the file, or the dimensions that all values share
    device: torch.device | None = None  #: where tensors go when they are read
    infer_batch_size: bool = False  #: take the dimensions that all values share in any case
    batch_dims: int | None = None  #: the most dimensions of an inferred batch size
    default_batch_size: Size | None = None  #: for a file that has none; by default it is inferred
    check_batch_size: bool = True  #: raise if a value does not begin with the batch size
    strict: bool = True  #: a record needs all its fields, and the file no others
    verify: bool = False  #: read all tensors and compare them with their checksums


def load_root(cls: type[Any], file: ArrayFile, options: LoadOptions) -> Any:
    """Return the collection in a file, of the class ``cls``. Closes the file if that fails."""
    loader = GroupLoader(file, options)
    is_new = file.mode in ("w", "w-", "x")
    try:
        root = file.root
        if is_new:
            size = options.batch_size or options.default_batch_size or Size([])
            result = loader.on_group(cls, GroupStore(file, ()), size, None)
            result._note()
            return result
        with file.reading(()):
            note = file.backend.read_note(root)
        return loader.load(cls, root, note, (), ())
    except BaseException:
        file.close()
        raise


def open_group(parent: GroupStore, key: str, name: str, cls: type[Any]) -> Any:
    """Return the nested collection that was just written at a key."""
    loader = GroupLoader(parent.file, LoadOptions(device=parent.owner()._device))
    entry = parent.find(key)
    return loader.load(dense_class(cls), entry.node, entry.note, (*parent.path, name), (key,))


GroupStore.open_group = open_group


class GroupLoader:
    """Makes the collections of a file. It visits each group once and looks at shapes; it reads no values."""

    def __init__(self, file: ArrayFile, options: LoadOptions) -> None:
        self.file: ArrayFile = file
        self.options: LoadOptions = options
        self.source: TreeSource = TreeSource(file.path, collection_tree.no_tensor, options.device)
        self.seen: set[object] = set()  #: addresses of visited groups

    def on_group(self, cls: type[Any], store: GroupStore, size: Size, names: Names) -> Any:
        """Make a collection on a group without checks."""
        new = object.__new__(on_store(self.file.form, cls))
        new._store = store
        new._batch_size = size
        new._device = self.options.device
        new._names = names
        new._lock = None
        store.cls = type(new)
        store.owner = weakref.ref(new)
        return new

    def on_written(self, data: TensorDict, names: tuple[str, ...]) -> Any:
        """Make the collection of a group to which ``data`` was just written, without looking at the file."""
        store = GroupStore(self.file, names)
        result = self.on_group(TensorDict, store, data._batch_size, data._names)
        for key, value in data._now().items():
            if type(value) is TensorDict:
                store.children[key] = self.on_written(value, (*names, escaped(key)))
        return result

    def load(self, cls: type[Any], group: Any, note: Note | None, names: tuple[str, ...], path: tuple[str, ...]) -> Any:
        """Make the collection of a group.

        Args:
            cls: its class.
            group: the group.
            note: the note of the group.
            names: the names of the group and those that it is in.
            path: its key, for errors.
        """
        file = self.file
        with file.reading(path):
            if not file.backend.is_group(group):
                raise ValueError("expected a group")
            address = file.backend.address(group)
        self.source.check_depth(path)
        if address in self.seen:
            raise self.source.damaged(path, "the file has this group at two paths, or inside itself")
        self.seen.add(address)
        if note is not None:
            if note.get("type") == "lazy_stack":
                return self._lazy_stack(cls, group, note, names, path)
            if note.get("version") != collection_tree.VERSION or note.get("type") != "collection":
                found = f"{str(note.get('type'))[:40]!r} of version {str(note.get('version'))[:20]}"
                expected = f"this package reads version {collection_tree.VERSION}"
                raise self.source.damaged(path, f"the group is of the type {found}; {expected}")
        if cls is TensorDict:
            cls = stand_in((note or {}).get("class"))
        store = GroupStore(file, names)
        result = self.on_group(cls, store, Size([]), None)
        keys = store.keys_in_file()
        if is_record(cls):
            self._check_keys(cls, result, keys, path)
        together = file.backend.find_all(group)
        entries: dict[str, GroupEntry] = {}
        for key, name in keys.items():
            if key in store.hidden:
                continue
            entry = entries[key] = store.find(key, together)
            below = entry.note
            if entry.is_group and (below is None or below.get("type") in ("collection", "lazy_stack")):
                nested_class = result._nested_class(key)
                if nested_class is TensorDict:
                    nested_class = rebuild_collection.target_class(below or {}, None)
                store.children[key] = self.load(nested_class, entry.node, below, (*names, name), (*path, key))
            elif self.options.verify:
                entry.verify()
        self._set_batch_size(result, note, entries, path)
        if is_record(cls):
            self._check_fields(cls, result, collection_tree.none_fields(note or {}), path)
        return result

    def _set_batch_size(
        self, result: Any, note: Note | None, entries: dict[str, GroupEntry], path: tuple[str, ...]
    ) -> None:
        """Set batch size and dimension names of a collection; raise if a value does not fit."""
        store, options = result._store, self.options
        given = None if path or options.infer_batch_size else options.batch_size
        value_shapes: list[tuple[str, Size]] = []
        for key, entry in entries.items():
            kind = entry.kind
            child = store.children.get(key)
            if child is not None:
                value_shapes.append((key, child._batch_size))
            elif kind == "tensor" or (kind == "text" and entry.node.shape):
                value_shapes.append((key, entry.shape))
            elif kind in ("column", "object_rows"):
                value_shapes.append((key, entry.column_size))
            elif kind == "jagged":
                rows = [(entry.note or {}).get("rows")]
                value_shapes.append((key, collection_tree.parse_size(rows, self.source, (*path, key))))
        if given is None and note is not None and not options.infer_batch_size:
            size = collection_tree.parse_size(note.get("batch_size"), self.source, path)
            result._names = collection_tree.parse_names(note.get("names"), size, self.source, path)
        elif given is not None:
            size = given
        elif path and options.batch_size is not None and not options.infer_batch_size:
            size = options.batch_size
        elif not path and options.default_batch_size is not None and not options.infer_batch_size:
            size = options.default_batch_size
        else:
            children = store.children
            shared = [shape for key, shape in value_shapes if key not in children or len(children[key]._store)]
            size = shapes.common(shared, options.batch_dims) if shared else Size([])
        result._batch_size = size
        for key, shape in value_shapes:
            if shape[: len(size)] == size:
                continue
            child = store.children.get(key)
            if child is not None and len(shape) < len(size) and _can_have_batch_size(child, size):
                _resize(child, size)
                continue
            if options.check_batch_size:
                what = f"its shape {list(shape)} does not begin with the batch size {list(size)}"
                if given is None:
                    raise self.source.damaged((*path, key), what)
                raise SizeMismatch((*path, key), f"{self.file.path}: {dotted((*path, key))}: {what}")

    def _lazy_stack(self, cls: type[Any], group: Any, note: Note, names: tuple[str, ...], path: tuple[str, ...]) -> Any:
        count, dim, name = note.get("parts"), note.get("stack_dim"), note.get("stack_dim_name")
        with self.file.reading(path):
            held = len(self.file.backend.names(group))
        if type(count) is not int or not 0 < count <= held or not (name is None or isinstance(name, str)):
            raise self.source.damaged(path, "a lazy stack without its items")
        items: list[Any] = []
        for at in range(count):
            with self.file.reading(path):
                node = self.file.backend.find(group, str(at))
                item_note = self.file.backend.read_note(node)
            item_class = rebuild_collection.target_class(item_note or {}, None) if path and cls is TensorDict else cls
            items.append(self.load(item_class, node, item_note, (*names, str(at)), (*path, str(at))))
        if not isinstance(dim, int) or not all(0 <= dim <= item.ndim == items[0].ndim for item in items):
            raise self.source.damaged(path, f"a lazy stack cannot have the dimension {str(dim)[:20]}")
        return lazily(items, dim, name=name)

    # -- records ------------------------------------------------------------------------------------------------------

    def _check_keys(self, cls: Any, result: Any, keys: dict[str, str], path: tuple[str, ...]) -> None:
        specs = cls._specs
        unexpected = [key for key in keys if key not in specs]
        if unexpected and not self.options.strict:
            result._store.hidden = frozenset(unexpected)
            unexpected = []
        try:
            cls._check_keys([*[key for key in keys if key in specs], *unexpected])
        except ValueError as error:
            there = list(keys) if cls._stored_names is None else list(keys.values())
            hint = " (strict=False leaves the last ones out)" if unexpected else ""
            raise self.source.damaged(path, f"{error}; the file has {there}{hint}") from None

    def _check_fields(self, cls: Any, result: Any, none: list[Any], path: tuple[str, ...]) -> None:
        """Raise if the values do not fit the fields of a record; take defaults for fields that the file lacks."""
        store, none = result._store, [field_name(cls, name) if isinstance(name, str) else name for name in none]
        outline = result._outline(None, torch.device("meta"))
        missing = [name for name in cls._specs if name not in outline._store]
        wrong: list[str] = []
        for key, value in outline._store.items():
            try:
                result._check_entry(key, value)
            except (ValueError, TypeError, RuntimeError) as error:
                wrong.append(str(error))
            if has_spans(value) and not cls._specs[key].optional and key not in store.in_memory:
                note: Note | None = store.find(key).note
                if note is None or note.get("missing") is not False:
                    wrong.append(
                        f"{class_name(cls)}.{key}: some rows have no value, which its annotation does not allow"
                    )
        if wrong:
            raise self.source.damaged(path, f"it does not fit {class_name(cls)}: {'; '.join(wrong)}")
        try:
            outline._check_changed({})
            if missing:
                values = {**result._outline()._store}
                whole = cls._from_mapping(values, result._batch_size, self.options.device, result._names)
                for key in missing:
                    if key in whole._store and not (key in none and cls._specs[key].allows_none(whole)):
                        store.in_memory[key] = whole._store[key]
        except (ValueError, TypeError, RuntimeError) as error:
            raise self.source.damaged(path, f"it does not fit {class_name(cls)}: {error}") from None


def _can_have_batch_size(nested: Any, size: Size) -> bool:
    try:
        nested._check_batch_size(size, ())
    except RuntimeError:
        return False
    return True


def _resize(nested: Any, size: Size) -> None:
    for node in nested._nodes():
        if len(node._batch_size) < len(size):
            _resize(node, size)
    nested._batch_size = size
    nested._names = shapes.names_fitted(nested._names, len(size))


def reopened(cls: type[Any], file: ArrayFile, path: tuple[str, ...], state: tuple[Any, ...]) -> Any:
    """Make a collection from a pickle: open its file again, in the process that unpickles."""
    size, device, names, locked, in_memory, hidden = state
    options = LoadOptions(device=device, check_batch_size=False, strict=False)
    result = load_root(TensorDict if path else cls, file, options)
    if path:
        node = result._store.group
        for name in path:
            node = file.backend.find(node, name)
        loader = GroupLoader(file, LoadOptions(device=device))
        result = loader.load(dense_class(cls), node, file.backend.read_note(node), path, path)
    if result._batch_size != size:
        result._batch_size = size
    result._names = names
    result._store.in_memory.update(in_memory)
    result._store.hidden = hidden
    return result.lock_() if locked else result


# ---------------------------------------------------------------------------------------------------------------------
# the methods of collections


class GroupFileKwargs(TypedDict, total=False):
    """Arguments of ``from_h5`` and ``from_zarr``.

    Args:
        mode: ``"r"`` to read, ``"r+"`` to read and write, ``"w"`` to create a file, ``"a"`` to open or create one.
        auto_batch_size: infer the batch size from the leading dimensions that all values share, even if the file has
            one. It is always inferred from files without one, as other programs write them.
        batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
        batch_size: the batch size; by default that of the file.
        non_tensor_as_stack: read one object that stands for all rows as one object per row.
        allow_pickle: read objects that were written as pickles. A pickle can run any code: use it only for files that
            you trust.
        device: where tensors are moved when they are read; by default the CPU.
        strict: with ``False``, ignore values that are not fields of a record.
        verify: read all tensors now, and compare them with the checksums that ``to_{x}(checksum=True)`` stored.
    """

    mode: str
    auto_batch_size: bool
    batch_dims: int | None
    batch_size: Sequence[int] | None
    non_tensor_as_stack: bool
    allow_pickle: bool | None
    device: DeviceLike | None
    strict: bool
    verify: bool


def from_h5(cls: type[C], filename: Filename, **kwargs: Unpack[GroupFileKwargs]) -> C:
    """Open an HDF5 file as a collection, also one that another program wrote.

    Only metadata is read. A value is read when it is accessed, and ``data[index]`` reads only its rows. In the mode
    ``"r+"`` writes go to the file. Groups are nested collections. A record is checked against its fields.
    ``close()``, or a ``with`` statement, closes the file. See :class:`~tensorclass.storage.PersistentTensorDict`.

    Args:
        filename: the file.
        GroupFileKwargs: mode, auto_batch_size, batch_dims, batch_size, non_tensor_as_stack, allow_pickle, device,
            strict, verify

    Returns:
        A collection of this class on the file.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is damaged, or does not fit the record or the batch size.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TensorDict({"x": torch.arange(6).view(3, 2)}, [3]).to_h5(folder + "/rows.h5").close()
        ...     with TensorDict.from_h5(folder + "/rows.h5") as data:
        ...         data[1:]["x"]
        tensor([[2, 3],
                [4, 5]])
    """
    return open_file(cls, filename, "h5", **kwargs)


def to_h5(
    data: C,
    filename: Filename,
    *,
    allow_pickle: bool | None = None,
    resizable: bool = False,
    progress: bool | None = None,
    pbar: bool | None = None,
    checksum: bool = False,
    **kwargs: Any,
) -> C:
    """Write the collection to an HDF5 file, completely or not at all, and return the collection on the file.

    Args:
        filename: the file. An existing one is replaced.
        allow_pickle: write objects that JSON cannot hold as pickles.
        resizable: let ``extend`` append rows later. The arrays are then chunked.
        progress: show a progress bar; by default on a terminal, if writing takes more than two seconds.
        pbar: another name of ``progress``.
        checksum: store a checksum of each tensor for ``from_{x}(verify=True)``. Writing to a tensor drops its
            checksum.
        kwargs: how arrays are stored, in the words of ``h5py``: ``chunks`` (``True``, the number of rows of a
            chunk, or its first dimensions), ``compression`` (``"gzip"``, ``"lzf"``), ``compression_opts``,
            ``shuffle``, ``fletcher32`` (checksums), ...

    Returns:
        A collection of this class on the file, opened in the mode ``"r+"``.

    Raises:
        TypeError: the file cannot hold some values. Lists all of them. Nothing was written.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_h5(folder + "/rows.h5", compression="gzip") as data:
        ...         data["x"]
        tensor([0., 0., 0.])
    """
    return save(
        data, filename, "h5", allow_pickle=allow_pickle, resizable=resizable, checksum=checksum,
        progress=progress_of("to_h5", progress, pbar), options=kwargs,
    )  # fmt: skip


def from_zarr(cls: type[C], filename: Filename, **kwargs: Unpack[GroupFileKwargs]) -> C:
    """Open a zarr folder as a collection. See :meth:`from_h5`.

    Args:
        filename: the folder.
        GroupFileKwargs: mode, auto_batch_size, batch_dims, batch_size, non_tensor_as_stack, allow_pickle, device,
            strict, verify

    Returns:
        A collection of this class on the folder.

    Raises:
        ImportError: zarr is not installed (the extra ``zarr``).
        FileNotFoundError: the folder does not exist.
        ValueError: the folder is damaged, or does not fit the record or the batch size.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     TensorDict({"x": torch.arange(6).view(3, 2)}, [3]).to_zarr(folder + "/rows.zarr").close()
        ...     with TensorDict.from_zarr(folder + "/rows.zarr") as data:
        ...         data[1:]["x"]
        tensor([[2, 3],
                [4, 5]])
    """
    return open_file(cls, filename, "zarr", **kwargs)


def to_zarr(
    data: C,
    filename: Filename,
    *,
    allow_pickle: bool | None = None,
    resizable: bool = False,
    progress: bool | None = None,
    pbar: bool | None = None,
    checksum: bool = False,
    **kwargs: Any,
) -> C:
    """Write the collection to a zarr folder, completely or not at all, and return the collection on the folder.

    Args:
        filename: the folder. An existing one is replaced.
        to_h5: allow_pickle
        resizable: has no effect here: rows can always be appended.
        to_h5: progress, pbar, checksum
        kwargs: how arrays are stored, in the words of ``zarr``: ``chunks``, ``shards``, ``compressors``,
            ``filters``.

    Returns:
        A collection of this class on the folder, opened in the mode ``"r+"``.

    Raises:
        ImportError: zarr is not installed (the extra ``zarr``).
        TypeError: the folder cannot hold some values. Lists all of them. Nothing was written.

    Example:
        >>> import tempfile, torch
        >>> from tensorclass import TensorDict
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_zarr(folder + "/rows.zarr", chunks=2) as data:
        ...         data["x"]
        tensor([0., 0., 0.])
    """
    return save(
        data, filename, "zarr", allow_pickle=allow_pickle, resizable=resizable, checksum=checksum,
        progress=progress_of("to_zarr", progress, pbar), options=kwargs,
    )  # fmt: skip


def open_file(
    cls: type[C],
    filename: Filename,
    backend: str,
    *,
    mode: str = "r",
    auto_batch_size: bool = False,
    batch_dims: int | None = None,
    batch_size: Sequence[int] | None = None,
    non_tensor_as_stack: bool = False,
    allow_pickle: bool | None = None,
    device: DeviceLike | None = None,
    strict: bool = True,
    verify: bool = False,
) -> C:
    """Open a file as a collection. See :class:`GroupFileKwargs` for the arguments."""
    if mode in ("w", "w-", "x") and is_record(cls):
        raise ValueError(f"{filename}: a new file (mode {mode!r}) has no values for the fields of {class_name(cls)}")
    path = path_of(filename, f"from_{backend}", writes=mode not in ("r", "r+"))
    size = None if batch_size is None else shapes.as_size(batch_size)
    if verify and device is not None and torch.device(device).type == "meta":
        raise ValueError("verify=True needs values, which the device meta has not")
    made = dense_class(cls) if is_record(cls) or issubclass(cls, TensorDict) else TensorDict
    left = _TRIES
    with loading(path, f"from_{backend}"):
        file_options = FileOptions(objects_as_stack=non_tensor_as_stack, allow_pickle=bool(allow_pickle))
        options = LoadOptions(size, as_device(device), auto_batch_size, batch_dims, strict=strict, verify=verify)
        while True:
            file = ArrayFile(make_backend(backend), path, mode, file_options)
            try:
                return load_root(made, file, options)  # type: ignore[no-any-return]
            except Replaced:  # the new file is whole
                left -= 1
                if not left:
                    raise


def save(
    data: C,
    filename: Filename,
    backend: str,
    *,
    allow_pickle: bool | None = None,
    device: DeviceLike | None = None,
    resizable: bool = False,
    checksum: bool = False,
    values: bool = True,
    progress: bool | None = False,
    options: dict[str, Any],
) -> C:
    """Write a file, completely or not at all, and open it. Without ``values``, the arrays are zeros."""
    given: Any = data
    what = f"to_{backend}"
    if not given._is_tree():
        raise describe_collection.no_collection(given, what)
    path = path_of(filename, what, writes=True)
    library = make_backend(backend)
    outline = given._outline() if isinstance(given._store, GroupStore) else given
    check(outline, (), what, bool(allow_pickle))
    file_options = FileOptions(options, resizable, checksum, allow_pickle=bool(allow_pickle))
    with uninterrupted() as section, library.whole(path) as draft:
        file = ArrayFile(library, str(draft), "w", file_options)
        file.adopt(library.open(str(draft), "w"))
        file.writes_zeros = not values
        file.section = section
        try:
            with (
                file.changing(),
                bytes_of(_bytes_to_write(outline) if values else 0, what, progress) as file.progress_bar,
                section.interruptible() if library.is_interruptible else nullcontext(),
            ):
                file.write_collection(file.root, data)
        finally:
            file.section = None
            file.close()
        # open it before it gets its name, at which another process may soon save another file
        target = ArrayFile(library, path, "r+", file_options)
        root = library.open(str(draft), "r+")
        target.adopt(root)
        load_options = LoadOptions(device=as_device(device))
        if _is_plain(given):
            plain: Any = given
            loaded: Any = GroupLoader(target, load_options).on_written(plain, ())
        else:
            loaded = load_root(dense_class(type(data)), target, load_options)
    library.moved(root, path)
    return loaded  # type: ignore[no-any-return]


def _bytes_to_write(data: Any) -> int:
    """Return the bytes of tensors, and of the rows of columns."""
    columns = [node for node in data._all_nodes() if has_spans(node)]
    return _bytes_of(data) + sum(column.nbytes() - _bytes_of(column) for column in columns)


def _bytes_of(data: Any) -> int:
    arrays: list[torch.Tensor] = list(data._leaves_and_buffers())
    return sum(array.numel() * array.element_size() for array in arrays)


def _is_plain(value: Any) -> bool:
    """Return whether a collection and all nested ones are of the class ``TensorDict``."""
    return type(value) is TensorDict and all(
        _is_plain(item) for item in value._now().values() if isinstance(item, Collection)
    )
