"""Collections in a file of groups and arrays, HDF5 or zarr: read and written there, part by part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.interrupts import uninterrupted
from tensorclass.td import shapes
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.indexing import prepare_index
from tensorclass.td.keys import NestedKey, dotted, is_nested_key, unravel_key_to_tuple
from tensorclass.td.memmap import Filename
from tensorclass.td.nontensor import NonTensorData
from tensorclass.td.reading import MISSING
from tensorclass.td.shapes import Names
from tensorclass.td.stores.classes import dense_class
from tensorclass.td.stores.lazy.stack import LazyStacked
from tensorclass.td.stores.written import WrittenBack
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.values import as_tensor as tensor_of

from .entries import Entries
from .file import File, format_of, note_of
from .hierarchy import Said
from .partial import part_of
from .paths import path_of
from .tree import FileError


class Unreadable(NamedTuple):
    """Stands for a value that cannot be read, where a collection is printed."""

    why: str

    def __repr__(self) -> str:
        return f"<cannot be read: {self.why}>"


class PersistentTensorDict(WrittenBack):
    """A collection that lies in an HDF5 file or a zarr folder.

    Values are read when they are asked for, rows alone where an index asks for rows, and nothing is kept. What is
    written goes to the file. Results of operations are in memory. ``TensorDict.from_h5(path)`` gives one, and
    ``Sample.from_h5(path)`` a record on it; this constructor also makes a file that is filled key by key.

    Args:
        batch_size: the dimensions that all values have in front; by default what the file says, or none.
        filename: the file.
        group: an open group of ``h5py`` or ``zarr``, instead of a file.
        mode: ``"r"``, ``"r+"``, ``"w"`` (a new file, what is there is lost), ``"w-"`` or ``"x"`` (a new file), ``"a"``.
        backend: ``"h5"`` or ``"zarr"``.
        device: where tensors go when they are read.
        validate_batch_size: look whether all values have the batch size in front.
        non_tensor_as_stack: read one object for all rows as one for each.
        allow_pickle: read and write objects as pickles, where JSON has no form for them. A pickle can run any code.
        resizable: whether new arrays can get more rows: :meth:`extend`.
        options: how new arrays are stored: ``chunks``, ``compression``, ... as ``h5py`` (or ``zarr``) names them.

    Raises:
        RuntimeError: neither a file nor a group, or both.
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or the batch size does not fit.

    >>> import tempfile, torch
    >>> from tensorclass import PersistentTensorDict
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     data = PersistentTensorDict(filename=folder + "/rows.h5", mode="w", batch_size=[4])
    ...     data["x"] = torch.arange(4.0)
    ...     data[1:3] = {"x": torch.zeros(2)}
    ...     print(data["x"], data[-1]["x"])
    ...     data.close()
    tensor([0., 0., 0., 3.]) tensor(3.)
    """

    __slots__ = ()

    LOCKING: Any = None  #: of the peer: the file locking of HDF5 is as the library has it by default

    if TYPE_CHECKING:
        _store: Entries  # pyright: ignore[reportIncompatibleVariableOverride]  # no other store comes here

    def __new__(
        cls,
        *,
        batch_size: Sequence[int] | None = None,
        filename: Filename | None = None,
        group: Any = None,
        mode: str = "r",
        backend: str = "h5",
        device: DeviceLike | None = None,
        validate_batch_size: bool = True,
        non_tensor_as_stack: bool = False,
        allow_pickle: bool | None = None,
        resizable: bool = False,
        **options: Any,
    ) -> Self:
        from .opening import opened

        if (filename is None) == (group is None):
            raise RuntimeError(f"expected a filename or a group, and not both; got {filename!r} and {group!r}")
        name = (
            path_of(filename, cls.__name__, writes=mode not in ("r", "r+"))
            if filename is not None
            else str(getattr(group, "name", group))
        )
        file = File(
            format_of(backend), name, mode, options=options, resizable=resizable, as_stack=non_tensor_as_stack,
            allow_pickle=bool(allow_pickle), root=group,
        )  # fmt: skip
        size = None if batch_size is None else shapes.as_size(batch_size)
        made = TensorDict if cls is PersistentTensorDict else dense_class(cls)
        return opened(  # type: ignore[no-any-return]
            made, file, size, as_device(device), missing_size=Size([]), validate=validate_batch_size
        )

    def __init__(self, **options: Any) -> None:
        """:meth:`__new__` has set it up."""

    @classmethod
    def from_dict(  # type: ignore[override]
        cls,
        input_dict: Mapping[str, Any],
        filename: Filename | None = None,
        *,
        auto_batch_size: bool = False,
        batch_size: Sequence[int] | None = None,
        device: DeviceLike | None = None,
        backend: str = "h5",
        batch_dims: int | None = None,
        allow_pickle: bool | None = None,
        **options: Any,
    ) -> Self:
        """A new file with the values of a mapping, as a collection.

        Args:
            input_dict: the values.
            filename: the file; one that is there is replaced.
            auto_batch_size: take the dimensions that all values have in front, as is done without a ``batch_size``.
            batch_size: the batch size.
            device: where tensors go when they are read.
            backend: ``"h5"`` or ``"zarr"``.
            batch_dims: how many dimensions the batch size has at most, where it is found.
            allow_pickle: write objects as pickles, where JSON has no form for them.
            options: how arrays are stored.
        """
        if cls is not PersistentTensorDict or filename is None:  # a result that is to be like one in a file
            made: Any = TensorDict
            return made.from_dict(input_dict, batch_size=batch_size, device=device, batch_dims=batch_dims)  # type: ignore[no-any-return]
        data = TensorDict(input_dict, batch_size)
        if batch_size is None or auto_batch_size:
            data.auto_batch_size_(batch_dims)
        from .opening import save

        return save(  # type: ignore[no-any-return]
            data, filename, backend, allow_pickle=allow_pickle, device=device, options=options
        )

    # -- the file -----------------------------------------------------------------------------------------------------

    @property
    def filename(self) -> str:
        """The path of the file."""
        return self._store.file.path

    @property
    def mode(self) -> str:
        """How the file is open."""
        return self._store.file.mode

    @property
    def kwargs(self) -> dict[str, Any]:
        """How new arrays are stored."""
        return dict(self._store.file.options)

    def close(self) -> None:
        """Closes the file, also for all nested collections."""
        self._store.file.close()

    def __enter__(self) -> Self:
        if _undo(self) is not None:  # `with data.unlock_():`
            return super().__enter__()
        self._context = ((*_blocks(self), (_CLOSE, getattr(self, "_context", None))), None)
        return self

    def __exit__(self, *exception: Any) -> None:
        undo, before = self._context[0][-1]
        if undo is not _CLOSE:
            super().__exit__(*exception)
            return
        if before is None:
            del self._context
        else:
            self._context = before
        PersistentTensorDict.close(self)  # a field of a record can have that name

    def __reduce__(self) -> Any:
        from .opening import reopened

        store = self._store
        in_memory = dict(store.in_memory)
        state = (self._batch_size, self._device, self._names, self._lock is not None, in_memory, store.hidden)
        return reopened, (dense_class(type(self)), store.file, store.path, state)

    def to_memory(self) -> TensorDict:
        """The same in memory: all values are read."""
        return _in_memory(self)  # type: ignore[no-any-return]

    def extend(self, rows: Collection | Mapping[str, Any]) -> Self:
        """Appends rows along the first batch dimension, in the file.

        Args:
            rows: a collection or a mapping with the same keys.

        Raises:
            RuntimeError: arrays were not made ``resizable``, or rows do not fit. Nothing was written.
        """
        if not self._batch_size:
            raise RuntimeError("extend: a collection without batch dimensions has no rows")
        if not isinstance(rows, Collection):
            count = len(next(iter(rows.values()))) if rows else 0
            rows = self._as_rows(rows, Size([count, *self._batch_size[1:]]))
        if rows._batch_size[1:] != self._batch_size[1:] or not rows._batch_size:
            raise RuntimeError(f"extend: expected rows of the batch size {list(self._batch_size[1:])} each")
        self._store.file.check_writable("extend")
        problems: list[str] = []
        _check_room(self, rows, (), problems)
        if problems:
            raise RuntimeError("extend: nothing was written; " + "; ".join(problems))
        grown: list[Grown] = []
        with uninterrupted():
            try:
                with self._store.file.changing():
                    _grow(self, rows, grown)
            except BaseException:
                _shrink(self._store.file, grown)
                raise
        return self

    # -- reading ------------------------------------------------------------------------------------------------------

    def _outline(self, keys: Iterable[str] | None = None, device: torch.device | None = None) -> Any:
        """A collection in memory of the same form: its tensors have shapes and dtypes, but take no memory."""
        store = self._store
        wanted = list(store) if keys is None else [key for key in keys if key in store]
        result = self._same({key: store.stand_in(key, device) for key in wanted})
        if device is not None:
            result._device = None
        result._lock = self._lock
        return result

    def __getitem__(self, index: Any) -> Any:
        given: object = index
        kind = type(given)
        if kind is str or (kind is tuple and index and (type(index[0]) is str or is_nested_key(index))):
            return self._get_key(index)
        return self if index is Ellipsis else self._index(prepare_index(index, self._batch_size))

    def _index(self, index: tuple[Any, ...]) -> Any:
        store = self._store
        names = None if self._names is None else shapes.names_indexed(self._names, index)
        rows: dict[str, Any] = {key: store.rows(key, index) for key in store}
        size = shapes.indexed(self._batch_size, index)
        if not rows:
            size = torch.zeros((), device="cpu").expand(self._batch_size)[index].shape  # it looks at the positions
        return self._like(rows, size, names)

    def __iter__(self) -> Iterator[Any]:
        """The rows, read one after the other."""
        if not self._batch_size:
            raise TypeError(f"a {type(self).__name__} without batch dimensions has no rows to iterate over")
        return (self[at] for at in range(self._batch_size[0]))

    def _array(self, key: NestedKey) -> tuple[Entries, str, Any, Said | None] | None:
        """The array of a key, nested or not, that holds a tensor."""
        *path, last = unravel_key_to_tuple(key)
        parent = self._find(tuple(path))
        if not isinstance(parent, PersistentTensorDict) or last in parent._store.in_memory:
            return None
        store = parent._store
        if last in store.kept or last not in store:
            return None
        node, said = store.find(last)
        return (store, last, node, said) if store.kind(node, said) == "tensor" else None

    def get_at(self, key: NestedKey, index: Any, default: Any = MISSING) -> Any:
        """``data.get(key)[index]``, of which nothing else is read; the default when the key is missing."""
        found = self._array(key)
        if found is None:
            return super().get_at(key, index, default)
        store, name, node, said = found
        shape = store.shape(name, node)
        return store.read(name, node, said, part_of(prepare_index(index, shape), shape))

    def get_item_shape(self, key: NestedKey) -> Size:
        """The shape of the value at ``key``, which is not read."""
        found = self._array(key)
        return super().get_item_shape(key) if found is None else found[0].shape(found[1], found[2])

    def entry_class(self, key: NestedKey) -> type:
        """The class of the value at ``key``, which is not read."""
        return super().entry_class(key) if self._array(key) is None else Tensor

    def _nodes(self) -> Any:
        return [value for value in self._store.kept.values() if isinstance(value, Collection)]

    def _keys_into(self, keys: Any, leaves_only: bool, path: tuple[str, ...]) -> None:
        self._outline()._keys_into(keys, leaves_only, path)

    def __contains__(self, key: object) -> bool:
        if type(key) is str:
            return key in self._store
        first = unravel_key_to_tuple(key)[:1] if is_nested_key(key) else ()
        return key in self._outline(first)

    def is_empty(self) -> bool:
        """Whether there is no leaf at any depth."""
        return bool(self._outline().is_empty())

    def is_shared(self) -> bool:
        """Never: the values are in the file."""
        return False

    def is_memmap(self) -> bool:
        """Never: the values are read."""
        return False

    def _shown(self) -> Any:
        """:meth:`_outline` to be printed, which says of what cannot be read that it cannot."""
        store, shown = self._store, dict[str, Any]()
        for key in store:
            nested = store.kept.get(key)
            try:
                shown[key] = nested._shown() if isinstance(nested, PersistentTensorDict) else store.stand_in(key)
            except FileError as error:
                shown[key] = NonTensorData(Unreadable(str(error)), batch_size=self._batch_size)
        return self._same(shown)

    def _long(self) -> str:
        return self._shown()._long()  # type: ignore[no-any-return]

    def _compact(self) -> str:
        return self._shown()._compact()  # type: ignore[no-any-return]

    def _repr_html_(self) -> str | None:
        return self._shown()._repr_html_()  # type: ignore[no-any-return]

    # -- what is looked at before writing -----------------------------------------------------------------------------

    def _check_rows(self, rows: Collection, ndim: int, row_ndim: int, path: tuple[str, ...]) -> None:
        self._store.file.check_writable(".".join(path))
        self._outline(rows._store)._check_rows(rows, ndim, row_ndim, path)

    def _check_value(self, shape: Size, target: Size, ndim: int, path: tuple[str, ...] = ()) -> None:
        self._outline()._check_value(shape, target, ndim, path)

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        self._outline()._check_batch_size(size, path)

    def _check_behind(self, size: Size) -> None:
        self._outline(None, torch.device("meta"))._check_behind(size)

    # -- writing ------------------------------------------------------------------------------------------------------

    def _take(self, values: Any, objects: bool = True) -> None:
        store = self._store
        store.file.check_writable()
        for key, value in values._store.items():
            nested = store.kept.get(key)
            if isinstance(value, Collection) and not value._is_tree() and not objects:
                continue
            if isinstance(nested, PersistentTensorDict) and isinstance(value, Collection) and _alike(nested, value):
                for gone in [name for name in nested._store if name not in value._store]:
                    del nested._store[gone]
                nested._take(value, objects)
            else:
                store[key] = value

    def _merge_all(self, sources: list[Any], *options: Any) -> None:
        _wanted, _clone, inplace, *_rest = options
        self._store.file.check_writable("update")
        if inplace:
            super()._merge_all(sources, *options)
            return
        keys = [unravel_key_to_tuple(key)[0] for source in sources if source is not None for key in _keys_of(source)]
        merged = self._outline(dict.fromkeys(keys))
        merged._unlock_below()
        before = _snapshot(merged)
        merged._merge_all(sources, *options)
        _write_changed(self, merged, before)

    def _make_room(self, source: Any, wanted: Any, undo: Any) -> NoReturn:
        raise NotImplementedError(
            "update: update_batch_size is not supported in a file; read it first, .to_tensordict(), or write a new file"
        )

    def _set_at(self, key: str, value: Any, index: Any) -> None:
        found = self._array(key)
        rows = value
        if isinstance(value, (list, tuple)):
            rows = tensor_of(value)
        if found is None or not isinstance(rows, (Tensor, bool, int, float, complex)):
            super()._set_at(key, value, index)
            return
        store, name, node, said = found
        shape = store.shape(name, node)
        store.write(name, node, said, rows, part_of(prepare_index(index, shape, writing=True), shape))

    def _fill_at(self, key: str, value: Any) -> None:
        if self._array(key) is None:
            super()._fill_at(key, value)
        else:
            self._set_at(key, value, ...)

    def _fill(self, item: Any, value: Any) -> None:
        store = self._store
        store.file.check_writable()
        for key in store:
            nested = store.kept.get(key)
            found = self._array(key)
            if nested is not None:
                nested._fill(item, value)
            elif found is not None:
                self._set_at(key, value, item)
            else:
                entry: Any = store[key]
                if isinstance(entry, Tensor):
                    entry[item] = value
                else:
                    entry._fill(item, value)
                store[key] = entry

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Collection:
        store = self._store
        store.file.check_writable()
        row: Any
        for key, row in rows._store.items():
            if key not in store:
                shape = self._batch_size[:ndim] + row.shape[row_ndim:]
                if isinstance(row, Tensor):
                    store.allocate(key, shape, row.dtype)
                else:
                    store[key] = row._allocated(shape)
            found = self._array(key)
            if found is not None and isinstance(row, Tensor):
                _, name, node, said = found
                store.write(name, node, said, row, part_of(index, store.shape(name, node)))
                continue
            value: Any = store[key]
            if isinstance(value, Tensor):
                value[index[0] if len(index) == 1 else index] = row
                store[key] = value
            else:
                written: Any = value._write_checked(index, row, ndim, row_ndim)
                if store.kept.get(key) is not written:
                    store[key] = written
        return self

    # -- what the collection is ---------------------------------------------------------------------------------------

    def _take_batch_size(self, size: Size) -> None:
        for value in self._nodes():
            if len(value._batch_size) < len(size):
                value._take_batch_size(size)
        self._batch_size = size
        self._set_names(shapes.names_fitted(self._names, len(size)))

    def _set_names(self, names: Names) -> None:
        self._names = names
        ndim = len(self._batch_size)
        with self._store.file.changing():
            for value in self._nodes():
                own = shapes.names_padded(value._names, -ndim) or (None,) * (value.ndim - ndim)
                value._set_names(shapes.names_or_none((names or (None,) * ndim) + own))
            self._note()

    def _restore_names(self, names: Names) -> None:
        self._names = names
        with suppress(Exception), self._store.file.changing():  # what failed can fail again; memory is right
            self._note()

    def _note(self) -> None:
        """Writes what the collection is to the file, where it is one of this package and can be written."""
        store = self._store
        if store.file.mode != "r":
            store.group  # noqa: B018
            if store._noted or not len(store):
                store.note(note_of(self, store.file.format))

    def _refuse_memory(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "the values of this collection are in a file: they have no memory, history or gradients of their own; read "
            "it first, .to_tensordict() or .to_memory()"
        )


for _name in ("_assign", "requires_grad_", "detach_", "zero_grad", "share_memory_", "pin_memory_", "memmap_"):
    setattr(PersistentTensorDict, _name, PersistentTensorDict._refuse_memory)

_CLOSE: Any = "close the file"


def _in_memory(value: Any) -> Any:
    if isinstance(value, LazyStacked):
        return value._with_parts([_in_memory(part) for part in value._store.items_])  # their shapes may differ
    if not isinstance(value, PersistentTensorDict):
        return value
    return value._same({key: _in_memory(item) for key, item in value._store.items()})


def _undo(data: Any) -> Any:
    context = getattr(data, "_context", None)
    return None if context is None else context[1]


def _blocks(data: Any) -> Any:
    context = getattr(data, "_context", None)
    return () if context is None else context[0]


def _keys_of(source: Any) -> Any:
    return source._store if isinstance(source, Collection) else source


def _alike(a: Any, b: Any) -> bool:
    if not b._is_tree():
        return False
    same_class = dense_class(a.__class__) is dense_class(b.__class__)
    return same_class and (a._batch_size, a._names) == (b._batch_size, b._names)


def _snapshot(data: Any) -> dict[str, Any]:
    """The values of a tree, to see which of them change."""
    return {
        key: (value, _snapshot(value) if isinstance(value, Collection) and value._is_tree() else None)
        for key, value in data._store.items()
    }


def _write_changed(target: Any, merged: Any, before: dict[str, Any]) -> None:
    for key, value in merged._store.items():
        old, below = before.get(key, (None, None))
        if value is not old:
            target._store[key] = value
        elif below is not None:
            _write_changed(target._store[key], value, below)


# ---------------------------------------------------------------------------------------------------------------------
# more rows


def _check_room(data: Any, rows: Any, path: tuple[str, ...], problems: list[str]) -> None:
    store = data._store
    keys, given = set(store), set(rows._store)
    if keys != given:
        problems.append(f"{dotted(path) or 'rows'}: expected the keys {sorted(keys)}, got {sorted(given)}")
        return
    for key in store:
        row, where = rows._store[key], ".".join((*path, key))
        found = data._array(key)
        if found is not None:
            shape = store.shape(key, found[2])
            if not isinstance(row, Tensor) or row.shape[1:] != shape[1:]:
                problems.append(f"{where}: expected rows of shape {list(shape[1:])}, got {list(row.shape[1:])}")
            elif not store.file.format.can_resize(found[2]):
                problems.append(f"{where}: its array has a fixed size; write the file with resizable=True")
        elif isinstance(store[key], PersistentTensorDict) and isinstance(row, Collection):
            _check_room(store[key], row, (*path, key), problems)
        elif isinstance(store[key], Collection) and not store[key]._is_tree() and isinstance(row, Collection):
            continue
        else:
            problems.append(f"{where}: a {type(store[key]).__name__} cannot get more rows in a file")


class Grown(NamedTuple):
    """Something that has got more rows: a collection, or, with a name, an array in its group."""

    data: Any
    key: str
    rows: int  #: that there were before


def _grow(data: Any, rows: Any, grown: list[Grown]) -> None:
    store, before = data._store, data._batch_size[0]
    size = Size([before + rows._batch_size[0], *data._batch_size[1:]])
    for key in list(store):
        found = data._array(key)
        if found is not None:
            grown.append(Grown(data, key, before))
            store.file.format.resize(found[2], size[0])
            node, said = store.find(key)
            index = (slice(before, size[0]),)
            store.write(key, node, said, rows._store[key], part_of(index, store.shape(key, node)))
        elif isinstance(store[key], PersistentTensorDict):
            _grow(store[key], rows._store[key], grown)
        else:
            store[key] = torch.cat([store[key], rows._store[key]])
    grown.append(Grown(data, "", before))
    data._batch_size = size
    data._note()


def _shrink(file: Any, grown: list[Grown]) -> None:
    """Take rows away that could not be appended everywhere: in the file too, where it is open and does not do it."""
    for data, key, rows in reversed(grown):
        if not key:
            data._batch_size = Size([rows, *data._batch_size[1:]])
        if file.is_closed:  # and as it was before
            continue
        with suppress(OSError, ValueError, KeyError):
            if key:
                file.format.resize(data._array(key)[2], rows)
            else:
                data._note()
