"""Collections that stay in an HDF5 or zarr file, whose values are read and written in place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.storage.common.collection_tree import FileError
from tensorclass.storage.common.file_paths import path_of
from tensorclass.support.printable import type_name
from tensorclass.td import shapes
from tensorclass.td.collection import Collection, DeviceLike, as_device
from tensorclass.td.get import MISSING
from tensorclass.td.keys import NestedKey, is_nested_key, unravel_key_to_tuple
from tensorclass.td.leaves.nontensor import NonTensorData
from tensorclass.td.memory.mapped_files import Filename
from tensorclass.td.prepared_index import prepare_index
from tensorclass.td.shapes import Names
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked
from tensorclass.td.stores.store_classes import dense_class
from tensorclass.td.stores.write_back import WrittenBack
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import as_tensor as tensor_of

from .append_rows import extend
from .array_file import ArrayFile, FileOptions, collection_note, make_backend
from .array_selection import select
from .group_entry import GroupEntry
from .group_loader import LoadOptions, load_root, reopened, save
from .group_store import GroupStore, Unreadable, snapshot, write_changed


class PersistentTensorDict(WrittenBack):
    """A collection whose values stay in an HDF5 file or a zarr folder.

    Each access reads a value from the file; an index reads only its rows. Nothing is cached. Writes go to the file, and
    results of operations are in memory. ``TensorDict.from_h5(path)`` opens such a collection, ``Sample.from_h5(path)``
    a record of this form. Use this constructor to open a group, or to make a file that is filled key by key.

    Args:
        batch_size: the leading dimensions of all values; by default that of the file, or ``[]``.
        filename: the file.
        group: an open group of ``h5py`` or ``zarr``, instead of a file.
        mode: ``"r"``; ``"r+"``; ``"w"`` (a new file, which replaces an old one); ``"w-"`` or ``"x"`` (a new file);
            ``"a"`` (``"r+"``, or a new file).
        backend: ``"h5"`` or ``"zarr"``.
        device: where tensors go when they are read.
        validate_batch_size: raise if a value does not begin with the batch size.
        non_tensor_as_stack: read one object for all rows as one for each.
        allow_pickle: pickle objects that have no JSON form. Loading a pickle can run any code.
        resizable: whether new arrays can get more rows: :meth:`extend`.
        options: ``chunks``, ``compression``, ... for new arrays, under the names of ``h5py`` (or ``zarr``).

    Raises:
        RuntimeError: neither a file nor a group is given, or both are.
        FileNotFoundError: there is no such file.
        ValueError: the file is damaged, or the batch size does not fit.

    Example:
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

    LOCKING: Any = None  #: an attribute of the peer; HDF5's file locking is the library's default

    if TYPE_CHECKING:
        _store: GroupStore  # pyright: ignore[reportIncompatibleVariableOverride]  # always such a store

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
        if (filename is None) == (group is None):
            raise RuntimeError(f"expected a filename or a group, and not both; got {filename!r} and {group!r}")
        name = (
            path_of(filename, cls.__name__, writes=mode not in ("r", "r+"))
            if filename is not None
            else str(getattr(group, "name", group))
        )
        file_options = FileOptions(
            options, resizable, objects_as_stack=non_tensor_as_stack, allow_pickle=bool(allow_pickle)
        )
        file = ArrayFile(make_backend(backend), name, mode, file_options, group)
        load_options = LoadOptions(
            batch_size=None if batch_size is None else shapes.as_size(batch_size),
            device=as_device(device),
            default_batch_size=Size([]),
            check_batch_size=validate_batch_size,
        )
        made = TensorDict if cls is PersistentTensorDict else dense_class(cls)
        return load_root(made, file, load_options)  # type: ignore[no-any-return]

    def __init__(self, **options: Any) -> None:
        """Do nothing: :meth:`__new__` has set up the collection."""

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
        """Write the values of a mapping to a new file, and return the collection on that file.

        Args:
            input_dict: the values.
            filename: the file (for zarr, the folder). An existing one is replaced. Without it, the result is in memory,
                as :meth:`TensorDict.from_dict` makes it; ``options`` are then arguments of that method.
            auto_batch_size: infer the batch size from the leading dimensions that all values share, even if
                ``batch_size`` is given. Default: ``False``.
            batch_size: the batch size. By default it is inferred.
            device: where tensors are moved when they are read; by default the CPU.
            backend: ``"h5"`` (the default) or ``"zarr"``.
            batch_dims: the largest number of dimensions of an inferred batch size; unlimited by default.
            allow_pickle: write objects that JSON cannot hold as pickles.
            options: how arrays are stored: ``chunks``, ``compression``, ..., in the words of ``h5py`` or ``zarr``.

        Returns:
            A collection on the file, opened in the mode ``"r+"``.

        Raises:
            TypeError: the file cannot hold some values. Lists all of them. Nothing was written. Or options of a file
                are given without ``filename``.
            NotImplementedError: there is no such backend.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import PersistentTensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with PersistentTensorDict.from_dict({"x": torch.zeros(3, 2)}, folder + "/rows.h5") as data:
            ...         data.batch_size
            torch.Size([3, 2])
        """
        made: Any = TensorDict if cls is PersistentTensorDict else dense_class(cls)
        if filename is None:
            if backend != "h5" or allow_pickle:
                raise TypeError("from_dict: backend and allow_pickle are options of a file; give a filename, too")
            return made.from_dict(  # type: ignore[no-any-return]
                input_dict, auto_batch_size=auto_batch_size or None, batch_size=batch_size, device=device,
                batch_dims=batch_dims, **options,
            )  # fmt: skip
        data = made._from_mapping(input_dict, batch_size, None, None)
        if batch_size is None or auto_batch_size:
            data.auto_batch_size_(batch_dims)
        return save(  # type: ignore[no-any-return]
            data, filename, backend, allow_pickle=allow_pickle, device=device, options=options
        )

    # -- the file -----------------------------------------------------------------------------------------------------

    @property
    def filename(self) -> str:
        """The path of the file.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_h5(folder + "/rows.h5") as data:
            ...         data.filename == folder + "/rows.h5"
            True
        """
        return self._store.file.path

    @property
    def mode(self) -> str:
        """The mode in which the file is open.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_h5(folder + "/rows.h5") as data:
            ...         data.mode
            'r+'
        """
        return self._store.file.mode

    @property
    def kwargs(self) -> dict[str, Any]:
        """The options for new arrays: ``chunks``, ``compression``, ...

        Example:
            >>> import tempfile
            >>> from tensorclass import PersistentTensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with PersistentTensorDict(filename=folder + "/rows.h5", mode="w", compression="gzip") as data:
            ...         data.kwargs
            {'compression': 'gzip'}
        """
        return dict(self._store.file.options.arrays)

    def close(self) -> None:
        """Close the file, also for nested collections.

        A ``with`` statement closes the file at its end. Closing twice does nothing.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     data = TensorDict({"x": torch.zeros(3)}, [3]).to_h5(folder + "/rows.h5")
            ...     data.close()
            ...     data["x"]
            Traceback (most recent call last):
            ValueError: ... the file was closed; open it again
        """
        self._store.file.close()

    def __enter__(self) -> Self:
        before = getattr(self, "_context", None)
        blocks, undo, *_ = before or ((), None)
        if undo is not None:  # `with data.unlock_():`
            return super().__enter__()
        self._context = ((*blocks, (_CLOSE, before)), None)
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
        PersistentTensorDict.close(self)  # a record may have a field of that name

    def __reduce__(self) -> Any:
        store = self._store
        in_memory = dict(store.in_memory)
        state = (self._batch_size, self._device, self._names, self._lock is not None, in_memory, store.hidden)
        return reopened, (dense_class(type(self)), store.file, store.path, state)

    def to_memory(self) -> TensorDict:
        """Read all values into memory.

        Returns:
            A collection in memory, with the batch size, device and dimension names of this one. It does not need the
            file.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_h5(folder + "/rows.h5") as data:
            ...         loaded = data.to_memory()
            >>> loaded["x"]
            tensor([0., 0., 0.])
        """
        return _in_memory(self)  # type: ignore[no-any-return]

    def extend(self, rows: Collection | Mapping[str, Any]) -> Self:
        """Append rows along the first batch dimension, in the file.

        Args:
            rows: a collection or a mapping with the same keys. Shapes must be the same except for the first dimension.

        Returns:
            This collection, with its new batch size.

        Raises:
            RuntimeError: arrays were not created with ``resizable=True``, or rows do not fit. Nothing was written.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(2)}, [2]).to_h5(folder + "/rows.h5", resizable=True) as data:
            ...         data.extend({"x": torch.ones(1)})["x"]
            tensor([0., 0., 1.])
        """
        extend(self, rows)
        return self

    # -- reading ------------------------------------------------------------------------------------------------------

    def _outline(self, keys: Iterable[str] | None = None, device: torch.device | None = None) -> Any:
        """Return a collection in memory with the same shapes and dtypes, whose tensors take no memory."""
        store = self._store
        wanted = list(store) if keys is None else [key for key in keys if key in store]
        result = self._same({key: store.placeholder(key, device) for key in wanted})
        if device is not None:
            result._device = None
        result._lock = self._lock
        return result

    def __getitem__(self, index: Any) -> Any:
        given: object = index
        kind = type(given)
        if kind is str or (kind is tuple and index and (type(index[0]) is str or is_nested_key(index))):
            return self._get_key(index)
        return self if index is Ellipsis else self._index_prepared(prepare_index(index, self._batch_size))

    def _index_prepared(self, index: tuple[Any, ...]) -> Any:
        store = self._store
        names = None if self._names is None else shapes.names_indexed(self._names, index)
        rows: dict[str, Any] = {key: store.rows(key, index) for key in store}
        size = shapes.indexed(self._batch_size, index)
        if not rows:
            size = torch.zeros((), device="cpu").expand(self._batch_size)[index].shape  # raises if out of range
        return self._like(rows, size, names)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows along the first batch dimension; each is read when its turn comes."""
        if not self._batch_size:
            raise TypeError(f"a {type_name(self)} without batch dimensions has no rows to iterate over")
        return (self[at] for at in range(self._batch_size[0]))

    def _entry(self, key: NestedKey, *kinds: str) -> GroupEntry | None:
        """Return the entry of a key in the file; ``None`` if there is none, or if it is not of one of these types."""
        *path, last = unravel_key_to_tuple(key)
        parent = self._find(tuple(path))
        if not isinstance(parent, PersistentTensorDict) or last in parent._store.in_memory:
            return None
        store = parent._store
        if last in store.children or last not in store:
            return None
        found = store.find(last)
        return found if found.kind in kinds else None

    def get_at(self, key: NestedKey, index: Any, default: Any = MISSING) -> Any:
        """Return ``data.get(key)[index]``, reading only that part of the value from the file.

        Args:
            key: the key, nested or not.
            index: an index of the value.
            default: returned for a missing key; see :meth:`get`.

        Returns:
            A new tensor. Non-tensor data as it is stored: :class:`NonTensorData`.

        Raises:
            KeyError: the key is missing; see :meth:`get`.
            IndexError: the index is out of range.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.arange(4)}, [4]).to_h5(folder + "/rows.h5") as data:
            ...         data.get_at("x", slice(1, 3))
            tensor([1, 2])
        """
        found = self._entry(key, "tensor", "column", "object_rows")
        if found is None:
            return super().get_at(key, index, default)
        if found.kind == "tensor":
            shape = found.shape
            return found.read(select(prepare_index(index, shape), shape))
        rows = found.value(prepare_index(index, found.column_size))
        return rows[()] if rows._batch_size else rows.unsqueeze(0)[0]

    def get_item_shape(self, key: NestedKey) -> Size:
        """Return the shape of the value at a key without reading the value.

        Args:
            key: the key, nested or not.

        Raises:
            KeyError: the key is missing.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3, 4)}, [3]).to_h5(folder + "/rows.h5") as data:
            ...         data.get_item_shape("x")
            torch.Size([3, 4])
        """
        found = self._entry(key, "tensor", "column")
        if found is None:
            return super().get_item_shape(key)
        return found.shape if found.kind == "tensor" else found.column_size

    def entry_class(self, key: NestedKey) -> type:
        """Return the class of the value at a key. A tensor is not read.

        Args:
            key: the key, nested or not.

        Raises:
            KeyError: the key is missing.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3), "text": "a"}, [3]).to_h5(folder + "/rows.h5") as data:
            ...         data.entry_class("x").__name__, data.entry_class("text").__name__
            ('Tensor', 'NonTensorData')
        """
        return super().entry_class(key) if self._entry(key, "tensor") is None else Tensor

    def _nodes(self) -> Any:
        return [value for value in self._store.children.values() if isinstance(value, Collection)]

    def _keys_into(self, keys: Any, leaves_only: bool, path: tuple[str, ...]) -> None:
        self._outline()._keys_into(keys, leaves_only, path)

    def __contains__(self, key: object) -> bool:
        if type(key) is str:
            return key in self._store
        first = unravel_key_to_tuple(key)[:1] if is_nested_key(key) else ()
        return key in self._outline(first)

    def is_empty(self) -> bool:
        """Return whether there is no leaf at any depth. Values are not read.

        Example:
            >>> import tempfile
            >>> from tensorclass import PersistentTensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with PersistentTensorDict(filename=folder + "/rows.h5", mode="w", batch_size=[2]) as data:
            ...         data.is_empty()
            ...         data["x"] = [1, 2]
            ...         data.is_empty()
            True
            False
        """
        return bool(self._outline().is_empty())

    def is_shared(self) -> bool:
        """Return ``False``: the values are in the file, not in shared memory.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_h5(folder + "/rows.h5") as data:
            ...         data.is_shared()
            False
        """
        return False

    def is_memmap(self) -> bool:
        """Return ``False``: values are read from the file, not mapped to memory.

        Example:
            >>> import tempfile, torch
            >>> from tensorclass import TensorDict
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     with TensorDict({"x": torch.zeros(3)}, [3]).to_h5(folder + "/rows.h5") as data:
            ...         data.is_memmap()
            False
        """
        return False

    def _shown(self) -> Any:
        """Return :meth:`_outline` for printing, with :class:`Unreadable` in place of damaged values."""
        store, shown = self._store, dict[str, Any]()
        for key in store:
            nested = store.children.get(key)
            try:
                shown[key] = nested._shown() if isinstance(nested, PersistentTensorDict) else store.shown(key)
            except FileError as error:
                shown[key] = NonTensorData(Unreadable(str(error)), batch_size=self._batch_size)
        return self._same(shown)

    def _value_for_repr(self, key: str) -> Any:
        return self._store.preview(key) if key in self._store else None

    def _values_for_repr(self) -> Iterable[Any]:
        return [*self._outline()._store.values()]

    def _marks_for_repr(self) -> tuple[str, ...]:
        return (f"in {PurePath(self._store.file.path).name}",)

    def _long(self) -> str:
        return self._shown()._long()  # type: ignore[no-any-return]

    def _compact(self) -> str:
        return self._shown()._compact()  # type: ignore[no-any-return]

    # -- checks before writing ----------------------------------------------------------------------------------------

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
        for key, value in values._now().items():
            nested = store.children.get(key)
            if isinstance(value, Collection) and not value._is_tree() and not objects:
                continue
            if isinstance(nested, PersistentTensorDict) and isinstance(value, Collection) and _same_form(nested, value):
                for removed in [name for name in nested._store if name not in value._store]:
                    del nested._store[removed]
                nested._take(value, objects)
            else:
                store[key] = value

    def _merge_all(self, sources: list[Any], *options: Any) -> None:
        _wanted, _clone, inplace, *_rest = options
        self._store.file.check_writable("update")
        if inplace:
            super()._merge_all(sources, *options)
            return
        given = [source for source in sources if source is not None]
        names = [source._store if isinstance(source, Collection) else source for source in given]
        keys = [unravel_key_to_tuple(key)[0] for key in itertools.chain.from_iterable(names)]
        merged = self._outline(dict.fromkeys(keys))
        merged._unlock_below()
        before = snapshot(merged)
        merged._merge_all(sources, *options)
        write_changed(self, merged, before)

    def _make_room(self, source: Any, wanted: Any, undo: Any) -> NoReturn:
        raise NotImplementedError(
            "update: update_batch_size is not supported in a file; read it into memory first with to_tensordict(), or "
            "write a new file"
        )

    def _set_at(self, key: str, value: Any, index: Any) -> None:
        found = self._entry(key, "tensor")
        rows = value
        if isinstance(value, (list, tuple)):
            rows = tensor_of(value)
        if found is None or not isinstance(rows, (Tensor, bool, int, float, complex)):
            super()._set_at(key, value, index)
            return
        shape = found.shape
        found.write(rows, select(prepare_index(index, shape, writing=True), shape))

    def _fill_at(self, key: str, value: Any) -> None:
        if self._entry(key, "tensor") is None:
            super()._fill_at(key, value)
        else:
            self._set_at(key, value, ...)

    def _fill(self, item: Any, value: Any) -> None:
        store = self._store
        store.file.check_writable()
        for key in store:
            nested = store.children.get(key)
            if nested is not None:
                nested._fill(item, value)
            elif self._entry(key, "tensor") is not None:
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
        for key, row in rows._now().items():
            if key not in store:
                shape = self._batch_size[:ndim] + row.shape[row_ndim:]
                if isinstance(row, Tensor):
                    store.allocate(key, shape, row.dtype)
                else:
                    store[key] = row._allocated(shape)
            found = self._entry(key, "tensor")
            if found is not None and isinstance(row, Tensor):
                found.write(row, select(index, found.shape))
                continue
            value: Any = store[key]
            if isinstance(value, Tensor):
                value[index[0] if len(index) == 1 else index] = row
                store[key] = value
            else:
                written: Any = value._write_checked(index, row, ndim, row_ndim)
                if store.children.get(key) is not written:
                    store[key] = written
        return self

    # -- batch size and dimension names -------------------------------------------------------------------------------

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
                own = shapes.names_padded(value._names, -ndim) or (None,) * (len(value._batch_size) - ndim)
                value._set_names(shapes.names_or_none((names or (None,) * ndim) + own))
            self._note()

    def _restore_names(self, names: Names) -> None:
        self._names = names
        with suppress(Exception), self._store.file.changing():  # the write can fail again; memory is right
            self._note()

    def _note(self) -> None:
        """Write the note of the collection, unless the file is read only or was made by another program."""
        store = self._store
        if store.file.mode != "r":
            store.group  # noqa: B018  # sets _has_note
            if store._has_note or not len(store):
                store.write_note(collection_note(self, store.file.backend))

    def _refuse_memory(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            "the values of this collection are in a file, without memory, history or gradients of their own; read it "
            "into memory first with to_tensordict() or to_memory()"
        )


for _name in ("_assign", "requires_grad_", "detach_", "zero_grad", "share_memory_", "pin_memory_", "memmap_"):
    setattr(PersistentTensorDict, _name, PersistentTensorDict._refuse_memory)

ArrayFile.form = PersistentTensorDict

_CLOSE: Any = "close"


def _in_memory(value: Any) -> Any:
    if isinstance(value, LazyStacked):
        return value._with_parts([_in_memory(item) for item in value._store.items_])  # shapes may differ between items
    if not isinstance(value, PersistentTensorDict):
        return value
    return value._same({key: _in_memory(item) for key, item in value._now().items()})


def _same_form(a: Any, b: Any) -> bool:
    """Return whether two collections have the same class, batch size and dimension names."""
    if not b._is_tree():
        return False
    same_class = dense_class(a.__class__) is dense_class(b.__class__)
    return same_class and (a._batch_size, a._names) == (b._batch_size, b._names)
