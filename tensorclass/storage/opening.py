"""Opening and writing files of groups and arrays as collections."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Size

from tensorclass.interrupts import uninterrupted
from tensorclass.progress import bytes_of
from tensorclass.td import shapes
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.keys import dotted
from tensorclass.td.memmap import Filename
from tensorclass.td.shapes import Names
from tensorclass.td.stores.classes import dense_class, on_store
from tensorclass.td.stores.lazy.base import lazily
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.values import BatchMismatch

from . import tree
from .entries import Entries, unread
from .file import File, check, escaped, format_of, is_record
from .hierarchy import Replaced, Said
from .paths import loading, path_of
from .persistent import PersistentTensorDict
from .tree import FileError, Source

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection


_TRIES = 20  #: to open what is written over meanwhile


class SizeMismatch(BatchMismatch, ValueError):
    """What is in a file does not have the batch size in front that was asked for."""


def opened(
    cls: type[Any],
    file: File,
    size: Size | None,
    device: torch.device | None,
    *,
    guess: bool = False,
    dims: int | None = None,
    missing_size: Size | None = None,
    validate: bool = True,
    strict: bool = True,
    verify: bool = False,
) -> Any:
    """The collection in a file.

    Args:
        cls: its class.
        file: the file.
        size: the batch size; what the file says by default, and where it says nothing what all values share.
        device: where tensors go when they are read.
        guess: take what all values share in any case.
        dims: how many dimensions to take of it.
        missing_size: the batch size of a file that says nothing.
        validate: look whether all values have the batch size in front.
        strict: for a record, the file has its fields and no others.
        verify: read all tensors, and compare them with their checksums.
    """
    opening = Opening(file, size, device, guess, dims, missing_size, validate, strict, verify)
    is_new = file.mode in ("w", "w-", "x")
    try:
        root = file.root
        if is_new:
            result = opening.made(cls, Entries(file, ()), size or missing_size or Size([]), None)
            result._note()
            return result
        with file.reading(()):
            said = file.format.said(root)
        return opening.collection(cls, root, said, (), ())
    except BaseException:
        file.close()
        raise


def open_group(parent: Entries, key: str, name: str, cls: type[Any]) -> Any:
    """The nested collection that was written under a key."""
    owner = parent.owner()
    opening = Opening(parent.file, None, owner._device, False, None, None, False, True)
    node, said = parent.find(key)
    return opening.collection(dense_class(cls), node, said, (*parent.path, name), (key,))


class Opening:
    """Makes the collections of a file. It walks through the groups once, and looks at shapes; no values are read."""

    def __init__(
        self,
        file: File,
        size: Size | None,
        device: torch.device | None,
        guess: bool,
        dims: int | None,
        missing_size: Size | None,
        validate: bool,
        strict: bool,
        verify: bool = False,
    ) -> None:
        self.file: File = file
        self.size: Size | None = size
        self.device: torch.device | None = device
        self.guess: bool = guess
        self.dims: int | None = dims
        self.missing_size: Size | None = missing_size
        self.validate: bool = validate
        self.strict: bool = strict
        self.verify: bool = verify
        self.source: Source = Source(file.path, unread, device)
        self.seen: set[object] = set()

    def made(self, cls: type[Any], store: Entries, size: Size, names: Names) -> Any:
        """A collection on a group. Nothing is looked at."""
        new = object.__new__(on_store(PersistentTensorDict, cls))
        new._store = store
        new._batch_size = size
        new._device = self.device
        new._names = names
        new._lock = None
        store.owner = weakref.ref(new)
        return new

    def written(self, data: TensorDict, names: tuple[str, ...]) -> Any:
        """The collection of a group that was just written: there is no need to look what is in it."""
        store = Entries(self.file, names)
        result = self.made(TensorDict, store, data._batch_size, data._names)
        for key, value in data._store.items():
            if type(value) is TensorDict:
                store.kept[key] = self.written(value, (*names, escaped(key)))
        return result

    def collection(
        self, cls: type[Any], group: Any, said: Said | None, names: tuple[str, ...], path: tuple[str, ...]
    ) -> Any:
        """The collection of a group."""
        file = self.file
        with file.reading(path):
            if not file.format.is_group(group):
                raise ValueError("expected a group")
            address = file.format.address(group)
        if len(path) > tree.DEPTH:
            raise self.source.damaged(path[:3], f"collections are nested deeper than {tree.DEPTH} levels")
        if address in self.seen:
            raise self.source.damaged(path, "a group is in the file at two places, or in itself")
        self.seen.add(address)
        if said is not None:
            if said.get("type") == "lazy_stack":
                return self._lazy_stack(cls, group, said, names, path)
            if said.get("version") != tree.VERSION or said.get("type") != "collection":
                found_version = f"{str(said.get('type'))[:40]} of the version {str(said.get('version'))[:20]}"
                raise self.source.damaged(path, f"a {found_version}; this package reads {tree.VERSION}")
        store = Entries(file, names)
        result = self.made(cls, store, Size([]), None)
        found = store.keys_in_file()
        if is_record(cls):
            self._check_keys(cls, result, found, path)
        children: dict[str, tuple[Any, Said | None]] = {}
        for key, name in found.items():
            if key in store.hidden:
                continue
            node, noted = children[key] = store.find(key)
            if file.format.is_group(node) and (noted is None or noted.get("type") in ("collection", "lazy_stack")):
                below = result._nested_class(key)
                if below is TensorDict:
                    below = tree.class_of(noted or {}, None)
                store.kept[key] = self.collection(below, node, noted, (*names, name), (*path, key))
            elif self.verify:
                store.verify(key, node, noted)
        self._metadata(result, said, children, path)
        if is_record(cls):
            self._check_fields(cls, result, tree.none_of(said or {}), path)
        return result

    def _metadata(
        self, result: Any, said: Said | None, children: dict[str, tuple[Any, Said | None]], path: tuple[str, ...]
    ) -> None:
        """Sets batch size and names, and looks whether they fit."""
        store = result._store
        given = None if path or self.guess else self.size
        sizes: list[tuple[str, Size]] = []
        for key, (node, noted) in children.items():
            kind = store.kind(node, noted)
            kept = store.kept.get(key)
            if kept is not None:
                sizes.append((key, kept._batch_size))
            elif kind == "tensor" or (kind == "text" and self._rows(node)):
                sizes.append((key, store.shape(key, node)))
            elif kind == "jagged":
                sizes.append((key, tree.size_of([(noted or {}).get("rows")], self.source, (*path, key))))
        if given is None and said is not None and not self.guess:
            size = tree.size_of(said.get("batch_size"), self.source, path)
            result._names = tree.names_of(said.get("names"), size, self.source, path)
        elif given is not None:
            size = given
        elif path and self.size is not None and not self.guess:
            size = self.size
        elif not path and self.missing_size is not None and not self.guess:
            size = self.missing_size
        else:
            shared = [shape for key, shape in sizes if key not in store.kept or len(store.kept[key]._store)]
            size = shapes.common(shared, self.dims) if shared else Size([])
        result._batch_size = size
        for key, shape in sizes:
            if shape[: len(size)] == size:
                continue
            nested = store.kept.get(key)
            if nested is not None and len(shape) < len(size) and self._fits(nested, size):
                _resize(nested, size)
                continue
            if self.validate:
                what = (
                    f"{dotted((*path, key))}: its shape {list(shape)} does not begin with the batch size {list(size)}"
                )
                if given is None:
                    raise FileError(f"{self.file.path}: {what}")
                raise SizeMismatch((*path, key), f"{self.file.path}: {what}")

    def _fits(self, nested: Any, size: Size) -> bool:
        try:
            nested._check_batch_size(size, ())
        except RuntimeError:
            return False
        return True

    def _rows(self, node: Any) -> bool:
        return bool(node.shape)

    def _lazy_stack(self, cls: type[Any], group: Any, said: Said, names: tuple[str, ...], path: tuple[str, ...]) -> Any:
        count, dim, name = said.get("parts"), said.get("stack_dim"), said.get("stack_dim_name")
        with self.file.reading(path):
            held = len(self.file.format.names(group))
        if type(count) is not int or not 0 < count <= held or not (name is None or isinstance(name, str)):
            raise self.source.damaged(path, "a lazy stack without its parts")
        parts: list[Any] = []
        for at in range(count):
            with self.file.reading(path):
                node = self.file.format.find(group, str(at))
                noted = self.file.format.said(node)
            below = tree.class_of(noted or {}, None) if path and cls is TensorDict else cls
            parts.append(self.collection(below, node, noted, (*names, str(at)), (*path, str(at))))
        if not isinstance(dim, int) or not all(0 <= dim <= part.ndim == parts[0].ndim for part in parts):
            raise self.source.damaged(path, f"a lazy stack cannot have the dimension {str(dim)[:20]}")
        return lazily(parts, dim, name=name)

    # -- records ------------------------------------------------------------------------------------------------------

    def _check_keys(self, cls: Any, result: Any, found: dict[str, str], path: tuple[str, ...]) -> None:
        specs = cls._specs
        unexpected = [key for key in found if key not in specs]
        if unexpected and not self.strict:
            result._store.hidden = frozenset(unexpected)
            unexpected = []
        try:
            cls._check_keys([*[key for key in found if key in specs], *unexpected])
        except ValueError as error:
            hint = " (strict=False leaves the last ones out)" if unexpected else ""
            raise self.source.damaged(path, f"{error}; the file has {list(found)}{hint}") from None

    def _check_fields(self, cls: Any, result: Any, none: list[Any], path: tuple[str, ...]) -> None:
        """Looks whether the record in the file is one, and takes defaults for fields that the file lacks."""
        store = result._store
        outline = result._outline(None, torch.device("meta"))
        missing = [name for name in cls._specs if name not in outline._store]
        wrong: list[str] = []
        for key, value in outline._store.items():
            try:
                result._check_entry(key, value)
            except (ValueError, TypeError, RuntimeError) as error:
                wrong.append(str(error))
        if wrong:
            raise self.source.damaged(path, f"it does not fit {cls.__name__}: {'; '.join(wrong)}")
        try:
            outline._check_changed({})
            if missing:
                whole = cls._from_mapping({**result._outline()._store}, result._batch_size, self.device, result._names)
                for key in missing:
                    if key in whole._store and not (key in none and cls._specs[key].allows_none(whole)):
                        store.in_memory[key] = whole._store[key]
        except (ValueError, TypeError, RuntimeError) as error:
            raise self.source.damaged(path, f"it does not fit {cls.__name__}: {error}") from None


def _resize(nested: Any, size: Size) -> None:
    for node in nested._nodes():
        if len(node._batch_size) < len(size):
            _resize(node, size)
    nested._batch_size = size
    nested._names = shapes.names_fitted(nested._names, len(size))


def reopened(cls: type[Any], file: File, path: tuple[str, ...], state: tuple[Any, ...]) -> Any:
    """What a pickle holds: the file is opened again where it is read."""
    size, device, names, locked, in_memory, hidden = state
    result = _found(
        opened(cls if not path else TensorDict, file, None, device, validate=False, strict=False), path, cls
    )
    if result._batch_size != size:
        result._batch_size = size
    result._names = names
    result._store.in_memory.update(in_memory)
    result._store.hidden = hidden
    return result.lock_() if locked else result


def _found(root: Any, path: tuple[str, ...], cls: type[Any]) -> Any:
    if not path:
        return root
    parent: Entries = root._store
    node = parent.group
    for name in path:
        node = parent.file.format.find(node, name)
    opening = Opening(parent.file, None, root._device, False, None, None, False, True)
    return opening.collection(dense_class(cls), node, parent.file.format.said(node), path, path)


# ---------------------------------------------------------------------------------------------------------------------
# the methods of collections


def from_h5(
    cls: type[Any],
    filename: Filename,
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
) -> Any:
    """See :meth:`TensorDict.from_h5`."""
    return load(
        cls, filename, "h5", mode=mode, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size,
        non_tensor_as_stack=non_tensor_as_stack, allow_pickle=allow_pickle, device=device, strict=strict, verify=verify,
    )  # fmt: skip


def to_h5(
    data: TensorCollection,
    filename: Filename,
    *,
    allow_pickle: bool | None = None,
    resizable: bool = False,
    progress: bool | None = None,
    checksum: bool = False,
    **kwargs: Any,
) -> Any:
    """See :meth:`TensorDict.to_h5`."""
    return save(
        data, filename, "h5", allow_pickle=allow_pickle, resizable=resizable, checksum=checksum, progress=progress,
        options=kwargs,
    )  # fmt: skip


def from_zarr(
    cls: type[Any],
    filename: Filename,
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
) -> Any:
    """See :meth:`TensorDict.from_zarr`."""
    return load(
        cls, filename, "zarr", mode=mode, auto_batch_size=auto_batch_size, batch_dims=batch_dims, batch_size=batch_size,
        non_tensor_as_stack=non_tensor_as_stack, allow_pickle=allow_pickle, device=device, strict=strict, verify=verify,
    )  # fmt: skip


def to_zarr(
    data: TensorCollection,
    filename: Filename,
    *,
    allow_pickle: bool | None = None,
    resizable: bool = False,
    progress: bool | None = None,
    checksum: bool = False,
    **kwargs: Any,
) -> Any:
    """See :meth:`TensorDict.to_zarr`."""
    return save(
        data, filename, "zarr", allow_pickle=allow_pickle, resizable=resizable, checksum=checksum, progress=progress,
        options=kwargs,
    )  # fmt: skip


def load(
    cls: type[Any],
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
) -> Any:
    """See :meth:`TensorDict.from_h5`."""
    if mode in ("w", "w-", "x") and is_record(cls):
        raise ValueError(f"{filename}: a new file (mode {mode!r}) has no values for the fields of {cls.__name__}")
    path = path_of(filename, f"from_{backend}", writes=mode not in ("r", "r+"))
    size = None if batch_size is None else shapes.as_size(batch_size)
    if verify and device is not None and torch.device(device).type == "meta":
        raise ValueError("verify=True needs values, which the device meta has not")
    left = _TRIES
    with loading(path, f"from_{backend}"):
        while True:
            file = File(format_of(backend), path, mode, as_stack=non_tensor_as_stack, allow_pickle=bool(allow_pickle))
            try:
                return opened(
                    dense_class(cls) if is_record(cls) or issubclass(cls, TensorDict) else TensorDict, file, size,
                    as_device(device), guess=auto_batch_size, dims=batch_dims, strict=strict, verify=verify,
                )  # fmt: skip
            except Replaced:  # by another one, which is whole
                left -= 1
                if not left:
                    raise


def save(
    data: TensorCollection,
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
) -> Any:
    """See :meth:`TensorDict.to_h5`; without ``values`` the arrays are of zeros, which are not written."""
    given: Any = data
    what = f"to_{backend}"
    path = path_of(filename, what, writes=True)
    format = format_of(backend)
    source = given._outline() if isinstance(given, PersistentTensorDict) else given
    check(source, (), what, bool(allow_pickle))
    kept: dict[str, Any] = {
        "options": options, "resizable": resizable, "checksum": checksum, "allow_pickle": bool(allow_pickle)
    }  # fmt: skip
    with uninterrupted() as section, format.whole(path) as draft:
        file = File(format, str(draft), "w", **kept)
        file.adopt(format.create(str(draft)))
        file.is_blank = not values
        try:
            with bytes_of(source.bytes() if values else 0, what, progress) as file.shown:
                if format.can_stop:
                    with section.interruptible():
                        file.fill(file.root, data)
                else:
                    file.section = section
                    file.fill(file.root, data)
        finally:
            file.section = None
            file.close()
        # opened before it takes its place: by its path, it could be what another process has saved there meanwhile
        target = File(format, path, "r+", **kept)
        root = format.open(str(draft), "r+")
        target.adopt(root)
        found: Any
        if _is_plain(given):
            opening = Opening(target, None, as_device(device), False, None, None, False, True)
            found = opening.written(given, ())
        else:
            found = opened(dense_class(type(data)), target, None, as_device(device))
    format.moved(root, path)
    return found


def _is_plain(value: Any) -> bool:
    """Whether a collection, and those below it, have nothing that a file would have to be asked for."""
    return type(value) is TensorDict and all(
        _is_plain(item) for item in value._store.values() if isinstance(item, Collection)
    )
