"""The store of a lazy stack: a list of collections (its parts), whose values are stacked when a key is read."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, MutableMapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from tensorclass.support.exact_types import DICT
from tensorclass.support.printable import printable, type_name
from tensorclass.td import jagged
from tensorclass.td.collection import Collection
from tensorclass.td.leaves.nontensor import NonTensorDataBase, NonTensorStack

if TYPE_CHECKING:
    from tensorclass.td.base import TensorCollection
    from tensorclass.td.collection import Value

#: forms in which values of different shapes are read, with defaults: the options of :func:`combined`
FORMS: dict[str, Any] = {
    "as_list": False,
    "as_nested_tensor": False,
    "as_padded_tensor": False,
    "padding_side": "right",
    "padding_value": 0.0,
    "layout": None,
}


class Parts(MutableMapping[str, "Value"]):
    """Collections stacked along ``dim``. The keys are those that all of them have, in the order of the first.

    Reading a key stacks the values of the parts (nested collections to a lazy stack); writing a key writes each part's
    share into it.
    """

    __slots__ = ("dim", "forms", "hook_in", "hook_out", "items_", "name", "stacked")

    def __init__(self, items: list[Any], dim: int, stacked: Callable[..., Any]) -> None:
        self.items_: list[TensorCollection] = items
        self.dim: int = dim
        self.name: str | None = None  # name of the dimension
        self.stacked: Callable[..., Any] = stacked  # stacks nested collections lazily
        self.forms: dict[str, Any] = {}
        self.hook_in: Callable[[Any], Any] | None = None
        self.hook_out: Callable[[Any], Any] | None = None

    def like(self, items: list[Any], dim: int) -> Parts:
        """Return a store with other parts and the same forms and hooks."""
        new = Parts(items, dim, self.stacked)
        new.forms, new.hook_in, new.hook_out = self.forms, self.hook_in, self.hook_out
        return new

    def column(self, key: str) -> list[Any]:
        """Return the value of each part."""
        if not self.items_:
            raise KeyError(key)
        return [part._store[key] for part in self.items_]

    def __getitem__(self, key: str) -> Any:
        return self.read_out(key, self.column(key))

    def read_out(self, key: str, values: list[Any]) -> Any:
        """Return what reading a key gives for the values of the parts."""
        value = self.read(key, values, self.forms)
        return value if self.hook_out is None else self.hook_out(value)

    def read(self, key: str, values: list[Any], forms: dict[str, Any]) -> Any:
        """Combine the values of the parts to one."""
        first = values[0]
        if isinstance(first, Tensor):
            try:
                return combined(values, self.dim, **forms) if forms else torch.stack(values, self.dim)
            except (RuntimeError, TypeError) as error:
                raise _cannot_stack(key, values, error) from None
        are_trees = {value._is_tree() if isinstance(value, Collection) else None for value in values}
        if len(are_trees) > 1 or None in are_trees:  # None: a function has replaced the leaves by other objects
            raise _cannot_stack(key, values, None)
        if forms.get("as_list"):
            return values
        if True in are_trees:
            return self.stacked(values, self.dim, None, self.name)
        if len({value._batch_size for value in values}) == 1:
            result = first._stack(values, self.dim)
            if self.name is not None:
                names = result._names or (None,) * result.ndim
                result._names = (*names[: self.dim], self.name, *names[self.dim + 1 :])
            return result
        return NonTensorStack(*[value._unwrapped() for value in values])  # ragged: an object for each part

    def __setitem__(self, key: str, value: Any) -> None:
        for part, own in zip(self.items_, value.unbind(self.dim), strict=True):
            part._store[key] = own

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        for part in self.items_:
            del part._store[key]

    def _keys(self) -> list[str]:
        if not self.items_:
            return []
        return _common_keys([part._store for part in self.items_])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys())

    def __len__(self) -> int:
        return len(self._keys())

    def items(self) -> ItemsView[str, Any]:
        """Return the keys and values as they are now, each part in one state."""
        return Columns(self).items()

    def values(self) -> ValuesView[Any]:
        """Return the values as they are now, each part in one state."""
        return Columns(self).values()

    def __contains__(self, key: object) -> bool:
        for part in self.items_:
            if key not in part._store:
                return False
        return bool(self.items_)


class Columns(Mapping[str, Any]):
    """The values of a lazy stack as they are now, each part in one state. A value is stacked when it is read."""

    __slots__ = ("_keys", "_parts", "_stores")

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._stores = [_now(part._store) for part in parts.items_]
        self._keys = _common_keys(self._stores) if self._stores else []

    def __getitem__(self, key: str) -> Any:
        if not self._stores:
            raise KeyError(key)
        return self._parts.read_out(key, [store[key] for store in self._stores])

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys


def _now(store: Any) -> Any:
    """Return the values of a part as they are now."""
    return {**store} if type(store) is DICT else Columns(store) if isinstance(store, Parts) else store


def _common_keys(stores: Sequence[Any]) -> list[str]:
    """Return the keys that all stores have, in the order of the first."""
    first, *others = stores
    keys = [*first]
    for store in others:
        if [*store] != keys and store.keys() != first.keys():  # lists are compared in less time
            return [key for key in keys if all(key in store for store in others)]
    return keys


def combined(
    values: Sequence[Tensor],
    dim: int,
    as_list: bool = False,
    as_nested_tensor: bool = False,
    as_padded_tensor: bool = False,
    padding_side: str = "right",
    padding_value: float | bool = 0.0,
    layout: torch.layout | None = None,
) -> Any:
    """Combine tensors of any shapes to a list, a nested tensor, a padded tensor, or (by default) a stack.

    Example:
        >>> combined([torch.ones(1), torch.ones(2)], 0, as_padded_tensor=True)
        tensor([[1., 0.],
                [1., 1.]])
    """
    if as_list + as_nested_tensor + as_padded_tensor > 1:
        raise TypeError("give one of as_list, as_nested_tensor and as_padded_tensor")
    if as_list:
        return list(values)
    if as_padded_tensor:
        return padded(values, dim, padding_value, padding_side)
    if as_nested_tensor:
        return nested(values, dim, torch.jagged if layout is None else layout)
    return torch.stack(list(values), dim)


def nested(values: Sequence[Tensor], dim: int, layout: torch.layout) -> Tensor:
    """Combine tensors of different shapes to a nested tensor, with the parts along its first dimension."""
    if dim != 0:
        raise RuntimeError(
            f"a nested tensor stacks along its first dimension, this lazy stack along dimension {dim}; read the values "
            "with as_list=True or as_padded_tensor=True"
        )
    return jagged.as_nested(list(values), layout=layout)


def refuse_not_jagged(key: str, values: Sequence[Tensor], layout: torch.layout) -> None:
    """Raise if the jagged layout, which has one ragged dimension, cannot hold tensors of these shapes."""
    shapes = [list(value.shape) for value in values]
    if layout is torch.jagged and (len({*map(len, shapes)}) > 1 or _same_sizes(values).count(False) > 1):
        raise RuntimeError(
            f"{key}: a jagged tensor has one dimension whose size differs from row to row, got rows of shapes "
            f"{shapes[:5]}{', ...' if len(shapes) > 5 else ''}; pad them: to_padded_tensor(), or read them one by one: "
            f"get({key!r}, as_list=True)"
        )


def padded(values: Sequence[Tensor], dim: int, padding_value: float | bool, side: str) -> Tensor:
    """Pad tensors of different shapes to the largest size of each dimension, and stack them.

    Args:
        values: tensors with the same number of dimensions.
        dim: position of the new dimension.
        padding_value: value of the new items.
        side: ``"right"`` pads after the values, ``"left"`` in front of them in the first dimension that differs.
    """
    if side not in ("right", "left"):
        raise ValueError(f"padding_side: expected 'right' or 'left', got {side!r}")
    shape = largest([value.shape for value in values])
    ragged = [size for size, same in enumerate(_same_sizes(values)) if not same]
    result = values[0].new_full((len(values), *shape), padding_value)
    for target, value in zip(result, values, strict=True):
        where = [slice(size) for size in value.shape]
        if side == "left" and ragged:
            at = ragged[0]
            where[at] = slice(shape[at] - value.shape[at], shape[at])
        target[tuple(where)] = value
    return result.movedim(0, dim)


def largest(shapes: Sequence[Size]) -> Size:
    """Return the largest size of each dimension.

    Example:
        >>> largest([Size([2, 3]), Size([4, 1])])
        torch.Size([4, 3])
    """
    if len({len(shape) for shape in shapes}) != 1:
        raise RuntimeError(
            f"expected shapes with the same number of dimensions, got {[list(shape) for shape in shapes]}"
        )
    return Size([max(sizes) for sizes in zip(*shapes, strict=True)])


def _same_sizes(values: Sequence[Tensor]) -> list[bool]:
    return [len(set(sizes)) == 1 for sizes in zip(*[value.shape for value in values], strict=True)]


def _cannot_stack(key: str, values: list[Any], error: Exception | None) -> RuntimeError:
    are_tensors = all(isinstance(value, Tensor) for value in values)
    if error is None or not are_tensors or any(isinstance(value, NonTensorDataBase) for value in values):
        classes = sorted({type_name(value) for value in values})
        return RuntimeError(f"{printable(key)}: the parts of the lazy stack have values of different kinds: {classes}")
    shapes = [tuple(value.shape) if not value.is_nested else "nested" for value in values[:8]]
    ways = f"get({key!r}, as_list=True)"
    if not any(value.is_nested for value in values) and len({value.ndim for value in values}) == 1:
        several = _same_sizes(values).count(False) > 1
        ways += " or as_padded_tensor=True" if several else ", as_padded_tensor=True or as_nested_tensor=True"
    return RuntimeError(
        f"{printable(key)}: cannot stack the values of the parts, of shapes {shapes}{'...' if len(values) > 8 else ''} "
        f"({error}). Read them with {ways}, or one part at a time"
    )
