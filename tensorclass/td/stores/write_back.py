"""Collections on a store that may return copies: results of operations in place are written back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from torch import Tensor

from tensorclass.td.collection import Collection
from tensorclass.td.hidden_members import with_members
from tensorclass.td.keys import unravel_key_to_tuple
from tensorclass.td.operations import OPERATIONS
from tensorclass.td.update import entries_of

from .store_classes import OnStore

if TYPE_CHECKING:
    from tensorclass.td.collection import Value


class WrittenBack(OnStore):
    """Operations in place: read the values onto a plain dict, run the operation there, and write the values back.

    So a store may return copies of the tensors that it holds. If the operation fails, nothing is written back.
    """

    __slots__ = ()

    def _take(self, values: Any, objects: bool = True) -> None:
        """Write the values of a collection on a plain dict to their keys, present or new.

        With ``objects=False`` only tensors have changed, and non-tensor data can be left out.
        """
        raise NotImplementedError

    def _write_back(self, values: Any, objects: bool = True) -> None:
        """Write values that were read here and changed in place; see :meth:`_take`."""
        self._take(values, objects)

    def _read(self, keys: Iterable[str]) -> Any:
        """Return a collection on a plain dict with the values of those keys that exist."""
        store = self._store
        return self._same({key: _values(store[key]) for key in keys if key in store})

    def _values(self) -> Any:
        """Return a collection on a plain dict with all values, at every level whose store may return copies."""
        return self._same({key: _values(value) for key, value in self._now().items()})

    def _apart(self, values: Any) -> Any:
        """Return values that can be changed in place before it is known whether all of them fit."""
        return values

    # -- one key ------------------------------------------------------------------------------------------------------

    def _set_(self, key: str, value: Any, non_blocking: bool = False) -> None:
        self._change("_set_", key, value, non_blocking)

    def _set_at(self, key: str, value: Any, index: Any) -> None:
        self._change("_set_at", key, value, index)

    def _fill_at(self, key: str, value: Any) -> None:
        self._change("_fill_at", key, value)

    def _change(self, method: str, key: str, *args: Any) -> None:
        """Call a method of a collection on a plain dict that has the value of a key, and write the value back."""
        part = self._read((key,))
        if not part._store:
            raise self._key_error(key)
        getattr(part, method)(key, *args)
        self._write_back(part)

    # -- several ------------------------------------------------------------------------------------------------------

    def _merge(self, source: Any, *options: Any) -> None:
        self._merge_all([source], *options)

    def _merge_all(self, sources: list[Any], *options: Any) -> None:
        _wanted, _clone, inplace, *_rest = options
        entries = [entries_of(source) for source in sources if source is not None]
        part = self._read(dict.fromkeys(unravel_key_to_tuple(key)[0] for source in entries for key in source))
        if inplace:
            part = self._apart(part)
        before: dict[str, Value] = {**part._store}
        part._merge_all(sources, *options)
        changed = {
            key: value
            for key, value in part._store.items()
            if inplace or value is not before.get(key) or isinstance(value, Collection)
        }
        self._take(part._same(changed))

    def _write_views(self, index: tuple[Any, ...], rows: Collection) -> bool:
        return False

    def _write_checked(self, index: tuple[Any, ...], rows: Collection, ndim: int, row_ndim: int) -> Collection:
        part = self._read(rows._store)
        new = len(part._store) < len(rows._store)
        part._write_checked(index, rows, ndim, row_ndim)
        if new:
            self._take(part)
        else:
            self._write_back(part)
        return self

    def _fill(self, item: Any, value: Any) -> None:
        values = self._values()
        values._fill(item, value)
        self._write_back(values, False)

    def _put_leaves(self, leaves: Iterator[Tensor]) -> None:
        self._write_back(self._with_leaves(leaves), False)

    # -- results on a plain dict --------------------------------------------------------------------------------------

    @classmethod
    def _from_mapping(cls, source: Any, batch_size: Any, device: Any, names: Any) -> Any:
        return cls._dense._from_mapping(source, batch_size, device, names)

    @classmethod
    def fromkeys(cls, keys: Any, value: Any = 0) -> Any:
        return cls._dense.fromkeys(keys, value)

    def __reduce__(self) -> Any:
        values = self._densified()
        return (values if self._lock is None else with_members(values).lock_()).__reduce__()


def _values(value: Any) -> Any:
    return value._values() if isinstance(value, WrittenBack) else value


def _written_back(name: str) -> Callable[..., Any]:
    def method(self: WrittenBack, *args: Any, **kwargs: Any) -> WrittenBack:
        values = self._values()
        getattr(with_members(values), name)(*args, **kwargs)
        self._write_back(values, False)
        return self

    member = getattr(WrittenBack, name)
    method.__name__, method.__qualname__, method.__doc__ = name, f"WrittenBack.{name}", member.__doc__
    method.__wrapped__ = member  # type: ignore[attr-defined]  # for inspect.signature
    return method


# the operators in place end in _binary_
_IN_PLACE = [
    name
    for row in OPERATIONS
    if row.kind == "pointwise"
    for name, in_place in row.methods.items()
    if in_place and name != row.operator_in_place
]
for _name in (*_IN_PLACE, "_binary_", "load_state_dict"):
    setattr(WrittenBack, _name, _written_back(_name))
