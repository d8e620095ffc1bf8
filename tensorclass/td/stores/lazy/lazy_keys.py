"""Lazy stacks by key: reading stacks the values of the parts, writing writes into the parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.get import MISSING, NO_DEFAULT
from tensorclass.td.hidden_members import member_values, with_members
from tensorclass.td.keys import NestedKey, unravel_key_to_tuple
from tensorclass.td.set import Writing, leaf_above
from tensorclass.td.update import entries_of, has_keys
from tensorclass.td.value_checks import Misfit, batch_mismatch, contains_itself, holds

from .lazy_base import LazyParts, forms_given
from .lazy_store import combined, nested, refuse_not_jagged

if TYPE_CHECKING:
    from tensorclass.td.collection import Store


class LazyKeys(LazyParts):
    """Methods that read, write, remove and select keys."""

    __slots__ = ()

    # -- reading ------------------------------------------------------------------------------------------------------

    def _get_as(self, path: tuple[str, ...], default: Any, forms: Mapping[str, Any]) -> Any:
        """Implement ``get`` with a form for values of different shapes."""
        asked = forms_given(forms)
        values: list[Any] = [part._find(path) for part in self._store.items_]
        if not values or any(value is MISSING for value in values):
            if default is MISSING or default is NO_DEFAULT:
                raise self._key_error(path)
            return default
        return self._store.read(".".join(path), values, {**self._store.forms, **asked})

    def get_nestedtensor(self, key: NestedKey, default: Any = MISSING, *, layout: torch.layout | None = None) -> Any:
        """Return the values of the parts as one nested tensor.

        Args:
            key: the key, nested or not. The stack dimension must be 0.
            default: returned if a part lacks the key. By default that is an error.
            layout: ``torch.strided`` (the default) or ``torch.jagged``.

        Returns:
            A nested tensor with one component per part. The values are copied.

        Raises:
            KeyError: a part lacks the key, and there is no default.
            RuntimeError: torch cannot nest the values in this layout.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict, lazy_stack
            >>> data = lazy_stack([TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.ones(3)})])
            >>> data.get_nestedtensor("a", layout=torch.jagged).unbind()[1]
            tensor([1., 1., 1.])
        """
        options = {"as_nested_tensor": True, "layout": torch.strided if layout is None else layout}
        return self._get_as(unravel_key_to_tuple(key), default, options)

    def _keys_into(self, keys: list[Any], leaves_only: bool, path: tuple[str, ...]) -> None:
        for key in self._store:
            value: Any = self._store.column(key)[0]
            if not leaves_only or not isinstance(value, Collection):
                keys.append((*path, key) if path else key)
            if isinstance(value, Writing) and value._is_tree():
                self._store[key]._keys_into(keys, leaves_only, (*path, key))

    def is_empty(self) -> bool:
        return all(part.is_empty() for part in self._store.items_)

    def entry_class(self, key: NestedKey) -> type:
        column = [part._find(unravel_key_to_tuple(key)) for part in self._store.items_]
        if column and all(type(value) is Tensor for value in column):  # no need to stack them
            return Tensor
        return super().entry_class(key)

    def _densified(self) -> Self:
        if not self._store.items_:
            return self._same({})  # type: ignore[no-any-return]
        return super()._densified()

    def densify(self, layout: torch.layout = torch.jagged) -> Self:
        store: Store = {}
        for key in self._store:
            column = self._store.column(key)
            if all(isinstance(value, Tensor) for value in column) and len({value.shape for value in column}) > 1:
                refuse_not_jagged(key, column, layout)
                store[key] = nested(column, self._store.dim, layout)
            else:
                value = self._store[key]
                store[key] = value.densify(layout) if isinstance(value, TensorCollection) else value
        return self._same(store)  # type: ignore[no-any-return]

    def to_padded_tensor(self, padding: float = 0.0, mask_key: NestedKey | None = None) -> Self:
        store: Store = {}
        size = self._batch_size
        for key in self._store:
            column = self._store.column(key)
            if all(isinstance(value, Tensor) for value in column):
                store[key] = combined(column, self._store.dim, as_padded_tensor=True, padding_value=padding)
            else:
                value = self._store[key]
                store[key] = value.to_padded_tensor(padding) if isinstance(value, TensorCollection) else value
        ragged = self._is_ragged()
        if ragged:
            longest = [max(part._batch_size[i] for part in self._store.items_) for i in range(len(size) - 1)]
            size = shapes.inserted(Size(longest), self._store.dim, len(self._store.items_))
        mask: Tensor | None = None
        if mask_key is not None:
            if not ragged:
                raise RuntimeError(
                    "to_padded_tensor: a mask tells which items of the batch are padding; here no batch dimension "
                    f"differs between the parts (the batch size is {list(size)}), so that there is nothing to tell"
                )
            marks = [torch.ones(part._batch_size, dtype=torch.bool) for part in self._store.items_]
            mask = combined(marks, self._store.dim, as_padded_tensor=True, padding_value=False)
        result = self._like(store, size, self._names)
        return result if mask is None else with_members(result).set(mask_key, mask)  # type: ignore[no-any-return]

    # -- writing ------------------------------------------------------------------------------------------------------

    def _entries(self, key: str, value: Any, non_blocking: bool) -> list[Any]:
        """Return the values to store in the parts for a value that is written. All are checked first."""
        store = self._store
        if store.hook_in is not None:
            value = store.hook_in(value)
        count = len(store.items_)
        if self._is_ragged() or (isinstance(value, Tensor) and value.is_nested):
            given: Any = value
            if isinstance(value, (list, tuple)) and len(given) == count:
                pieces = list(given)
            elif isinstance(value, (Tensor, Collection)):
                size: Any = value.shape if not getattr(value, "is_nested", False) else None
                if size is not None and (
                    len(size) < len(self._batch_size) or size[store.dim] != count or not value.ndim
                ):
                    raise batch_mismatch(key, self._batch_size, value.shape)
                pieces = list(given.unbind(store.dim))
            elif isinstance(value, Mapping):
                columns = {name: self._entries(str(name), entry, non_blocking) for name, entry in given.items()}
                pieces = [{name: column[i] for name, column in columns.items()} for i in range(count)]
            else:
                pieces = [given] * count
            return [part._fit(key, piece, non_blocking) for part, piece in zip(store.items_, pieces, strict=True)]
        fitted: Any = self._fit(key, value, non_blocking)
        return list(with_members(fitted).unbind(store.dim))

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if inplace and key in self._store:
            self._set_(key, value, non_blocking)
            return
        self._check_unlocked()
        if value is None and self._holds_none(key):
            for part in self._store.items_:
                part._set(key, None)
            return
        parts = self._store.items_
        if isinstance(value, Collection) and holds(value, *[part._store for part in parts]):
            raise contains_itself(self, key)
        entries = self._entries(key, value, non_blocking)
        for part, entry in zip(self._store.items_, entries, strict=True):
            part._check_entering({key: entry})
        for part, entry in zip(self._store.items_, entries, strict=True):
            part._store[key] = entry

    def _check_entering(self, entries: Mapping[str, Any]) -> None:
        columns = {key: entry.unbind(self._store.dim) for key, entry in entries.items()}
        for i, part in enumerate(self._store.items_):
            part._check_entering({key: column[i] for key, column in columns.items()})

    def _check_changed(self, before: Mapping[str, Any]) -> None:
        for part in self._store.items_:
            part._check_changed({})

    def _set_(self, key: str, value: Any, non_blocking: bool = False) -> None:
        if key not in self._store:
            raise self._key_error(key)
        entries = self._entries(key, value, non_blocking)
        for part, entry in zip(self._store.items_, entries, strict=True):
            part._require({key: entry}, None, True)
        for part, entry in zip(self._store.items_, entries, strict=True):
            part._set_(key, entry, non_blocking)

    def _merge(
        self, source: Any, wanted: Any, clone: bool, inplace: bool, non_blocking: bool, is_leaf: Any, undo: Any
    ) -> None:
        if source is None:
            return
        for part, piece in zip(self._store.items_, self._sources(source), strict=True):
            part._merge(piece, wanted, clone, inplace, non_blocking, is_leaf, undo)

    def _sources(self, source: Any) -> list[Any]:
        """Return the sources from which the parts are updated, for a collection or a mapping."""
        if isinstance(source, Collection):
            if self._store.hook_in is None:
                return self._pieces(source)
            source = source._store
        pieces: list[dict[Any, Any]] = [{} for _ in self._store.items_]
        for key, value in entries_of(source).items():
            path = unravel_key_to_tuple(key)
            if len(path) > 1 and any(path[0] in piece and not has_keys(piece[path[0]]) for piece in pieces):
                raise leaf_above(path[:1])
            column = self._entries_at(path, value)
            for piece, entry in zip(pieces, column, strict=True):
                piece[key] = entry
        return pieces

    def _entries_at(self, path: Sequence[str], value: Any) -> list[Any]:
        """Return the value with which each part is updated at a nested key."""
        holder = self._nested_parts(path[0]) if len(path) > 1 or isinstance(value, (Mapping, Collection)) else None
        if holder is not None:
            try:
                return holder._entries_at(path[1:], value) if len(path) > 1 else holder._sources(value)
            except Misfit as error:
                raise error.below(path[0]) from None
        if len(path) > 1:
            if path[0] in self._store:
                raise leaf_above(path[:1])
            return [entry[path[1:]] for entry in self._entries(path[0], {tuple(path[1:]): value}, False)]
        if value is None:
            return [None] * len(self._store.items_)
        return self._entries(path[0], value, False)

    def _nested_parts(self, key: str) -> LazyKeys | None:
        """Return the nested collections of the parts if all have one."""
        if key not in self._store:
            return None
        column = self._store.column(key)
        nested_ones = all(isinstance(value, Collection) and value._is_tree() for value in column)
        return self._store.stacked(column, self._store.dim, None, self._store.name) if nested_ones else None

    def fill_(self, key: NestedKey, value: float | bool) -> Self:
        self._check_there(key)
        for part in self._store.items_:
            with_members(part).fill_(key, value)
        return self

    def _fill_at(self, key: str, value: float | bool) -> None:
        self.fill_(key, value)

    def _set_at(self, key: str, value: Any, index: Any) -> None:
        self._check_there(key)
        column = self._store.column(key)
        destination: Any = self._store.read_out(key, column)
        destination[index] = value
        if not isinstance(destination, LazyParts):  # a stacked copy: write it back into what it was made of
            rows = destination.unbind(self._store.dim)
            for part, before, own in zip(self._store.items_, column, rows, strict=True):
                if isinstance(before, Tensor) and isinstance(own, Tensor):
                    before.copy_(own)
                else:
                    part._set_(key, own)

    def _check_there(self, key: NestedKey) -> None:
        path = unravel_key_to_tuple(key)
        if not self._store.items_ or any(part._find(path) is MISSING for part in self._store.items_):
            raise self._key_error(key)

    def _require(self, source: Any, wanted: Any, whole: bool = False, optional: bool = False) -> None:
        keys = source
        if isinstance(source, LazyParts):
            keys = {key: source._store.column(key)[0] for key in source._store}
        for part in self._store.items_:
            part._require(keys, wanted, False, optional)
        if not whole:
            return
        for part, piece in zip(self._store.items_, self._sources(source), strict=True):
            part._require(piece, wanted, whole, optional)

    def copy_(self, tensordict: Any, non_blocking: bool = False) -> Self:
        # what is written is what was looked at, in the parts as well
        parts = [part._levels_now() for part in self._store.items_]
        pieces = self._pieces(tensordict._levels_now() if isinstance(tensordict, Collection) else tensordict)
        for part, piece in zip(parts, pieces, strict=True):
            part._require(piece, None, True)
        for part, piece in zip(parts, pieces, strict=True):
            with_members(part).copy_(piece, non_blocking)
        return self

    def _make_room(self, source: Any, wanted: Any, undo: Any) -> None:
        raise RuntimeError("update(update_batch_size=True): the batch size of a lazy stack is that of its parts")

    def _replace_store(self, store: Any) -> None:
        self._check_unlocked()
        for key in [key for key in self._store if key not in store]:
            del self._store[key]
        for key, value in store.items():
            if isinstance(value, TensorCollection) and value._is_tree():
                self._store[key]._replace_store(value._store)

    def pop(self, key: NestedKey, default: Any = MISSING) -> Any:
        self._check_unlocked()
        path = unravel_key_to_tuple(key)
        found = self._find(path)
        if found is MISSING:
            if default is MISSING or default is NO_DEFAULT:
                raise self._key_error(key)
            return default
        for part in self._store.items_:
            with_members(part).pop(key)
        return found

    def del_(self, key: NestedKey) -> Self:
        self._check_unlocked()
        self._check_there(key)
        for part in self._store.items_:
            with_members(part).del_(key)
        return self

    def __delitem__(self, key: NestedKey) -> None:
        self.del_(key)

    def popitem(self) -> tuple[str, Any]:
        self._check_unlocked()
        keys = list(self._store)
        if not keys:
            raise KeyError("popitem: the collection has no keys")
        return keys[-1], self.pop(keys[-1])

    def clear(self) -> Self:
        self._check_unlocked()
        for part in self._store.items_:
            part.clear()
        return self

    def rename_key_(self, old_key: NestedKey, new_key: NestedKey, safe: bool = False) -> Self:
        self._check_unlocked()
        if old_key not in self:
            raise self._key_error(old_key)
        if safe and any(new_key in part for part in self._store.items_):
            raise KeyError(f"rename_key_: {new_key!r} is there already; safe=False replaces it")
        for part in self._store.items_:
            with_members(part).rename_key_(old_key, new_key, safe)
        return self

    # -- keys ---------------------------------------------------------------------------------------------------------

    def empty(
        self, recurse: bool = False, *, batch_size: Any = None, device: Any = MISSING, names: Any = MISSING
    ) -> Any:
        if batch_size is not None and shapes.as_size(batch_size) != self._batch_size:
            return super().empty(recurse, batch_size=batch_size, device=device, names=names)
        options = {} if device is MISSING else {"device": device}
        result = self._with_parts([part.empty(recurse, **options) for part in self._store.items_])
        if names is not MISSING:
            result._set_names(shapes.as_names(names, len(self._batch_size)))
        return result

    def select(self, *keys: NestedKey, inplace: bool = False, strict: bool = True, as_tensordict: bool = False) -> Self:
        if strict:
            for key in keys:
                self._check_there(key)
        options = {"inplace": inplace, "strict": False, "as_tensordict": as_tensordict}
        return self._with_parts([part.select(*keys, **options) for part in member_values(self._store.items_)])

    def split_keys(self, *key_sets: Any, inplace: bool = False, **kwargs: Any) -> tuple[Any, ...]:
        columns = [part.split_keys(*key_sets, inplace=inplace, **kwargs) for part in member_values(self._store.items_)]
        rows = [self._with_parts(list(row), self._store.dim) for row in zip(*columns, strict=True)]
        return (*rows[:-1], self) if inplace else tuple(rows)
