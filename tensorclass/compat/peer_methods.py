"""Methods that collections have while compat is installed, as clients of ``tensordict`` call them.

Some are private methods, others answer where those of this package raise. :func:`add_methods` gives them to the classes
of collections, and :func:`remove_methods` takes them away: nothing of it costs anything in a program without compat.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

import torch
from torch import Size, Tensor

from tensorclass.td.base import TensorCollection
from tensorclass.td.get import MISSING, NO_DEFAULT
from tensorclass.td.inherited_members import replace_member
from tensorclass.td.keys import FlatKey, NestedKey
from tensorclass.td.leaves.leaf import holds_objects
from tensorclass.td.leaves.nontensor import NonTensorData, NonTensorStack
from tensorclass.td.stores.lazy.lazy_stack import LazyStackedTensorDict
from tensorclass.td.stores.sub_tensordict import SubTensorDict
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.value_checks import StridedNested, is_strided_nested

from . import peer_networks
from .peer_names import AsLists
from .peer_pickles import STATEFUL, new_rows

#: members of collections before, by their names
_PLAIN: Final[Any] = {
    name: getattr(TensorDict, name)
    for name in ("apply", "items", "values", "state_dict", "load_state_dict", "_get_as", "__init__", "_set")
}


def state_dict(
    self: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = True
) -> Any:
    """See :meth:`TensorDict.state_dict`. Objects are in the attribute ``_metadata``, as ``tensordict`` has them."""
    result = _PLAIN["state_dict"](self, destination, prefix, keep_vars, flatten)
    metadata: dict[str, Any] = getattr(result, "_metadata", {})
    for key, value in self._now().items():
        if holds_objects(value):
            one = value._is_uniform
            metadata[prefix + key] = {
                "batch_size": value._batch_size,
                "device": value._device,
                "_type": "NonTensorData" if one else "NonTensorStack",
                "_non_tensor": {
                    "data": value._unwrapped() if one else value.tolist(),
                    "_metadata": None,
                    "_is_non_tensor": True,
                },
            }
    return result


def load_state_dict(
    self: Any,
    state_dict: Mapping[str, Any],
    strict: bool = True,
    assign: bool = False,
    from_flatten: bool | None = None,
) -> Any:
    """See :meth:`TensorDict.load_state_dict`. With ``strict=False``, keys that the collection lacks are added."""
    _PLAIN["load_state_dict"](self, state_dict, strict, assign, from_flatten)
    if not strict:
        _add(self, state_dict, getattr(state_dict, "_metadata", {}), ())
    return self


def _add(data: Any, values: Mapping[str, Any], metadata: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """Add the values and objects of a state dict whose keys are missing."""
    for key, value in values.items():
        nested: Any = value
        if isinstance(value, Mapping):
            _add(data, nested, metadata or getattr(nested, "_metadata", {}), (*path, key))
        elif isinstance(value, Tensor) and (full := (*path, *key.split("."))) not in data.keys(True):
            _make_room(data, full[:-1], metadata)
            data.set(full, value)
    for name, about in metadata.items() if not path else ():
        at = tuple(name.split("."))
        if "_non_tensor" in about and at not in data.keys(True):
            _make_room(data, at[:-1], metadata)
            held = about["_non_tensor"]["data"]
            of_rows = about["_type"] == "NonTensorStack"
            data.set(
                at, NonTensorStack.from_list(held) if of_rows else NonTensorData(held, batch_size=about["batch_size"])
            )


def _make_room(data: Any, path: tuple[str, ...], metadata: Mapping[str, Any]) -> None:
    """Make the nested collections on a path, with the batch sizes of a state dict."""
    for depth in range(1, len(path) + 1):
        if path[:depth] not in data.keys(True):
            size = metadata.get(".".join(path[:depth]), {}).get("batch_size", Size(()))
            data.set(path[:depth], TensorDict({}, size))


def saved_path(self: Any) -> Path | None:
    """See :attr:`TensorDict.saved_path`. ``None`` for a memory-mapped collection that is in no folder."""
    from tensorclass.storage import saved_path as path_of

    try:
        return path_of(self)
    except AttributeError:
        if self.is_memmap():
            return None
        raise


def apply(
    self: Any, fn: Callable[..., Any], *others: Any, named: bool = False, nested_keys: bool = False, **options: Any
) -> Any:
    """See :meth:`TensorDict.apply`; with ``named``, :meth:`TensorDict.named_apply`."""
    if named:
        return self.named_apply(fn, *others, nested_keys=nested_keys, **options)
    return _PLAIN["apply"](self, fn, *others, **options)


def _get_as(self: Any, path: tuple[str, ...], default: Any, forms: dict[str, Any]) -> Any:
    """Return the value of a key for ``get`` with ``forms``, which say nothing about values outside of lazy stacks."""
    try:
        return _PLAIN["_get_as"](self, path, default, forms)
    except TypeError:
        return TensorCollection.get(self, path, default)


# -- objects ----------------------------------------------------------------------------------------------------------


def _as_read(self: Any) -> Any:
    """Return the objects of a stack as ``data["key"]`` does: one object if the rows come from one that was stacked."""
    codes: Tensor = self._codes()
    if codes.ndim and codes.numel() and not any(codes.stride()):
        return self._objects[int(codes.reshape(-1)[0])]
    return _STACK_AS_READ(self)


_STACK_AS_READ: Final[Callable[..., Any]] = NonTensorStack._as_read

# -- lazy stacks, collection by collection ----------------------------------------------------------------------------


def items(
    self: Any,
    include_nested: bool = False,
    leaves_only: bool = False,
    is_leaf: Callable[[type], bool] | None = None,
    **options: Any,
) -> Any:
    """See :meth:`TensorDict.items`. With ``_NESTED_TENSORS_AS_LISTS``, the entries of each part of a lazy stack."""
    if isinstance(is_leaf, AsLists):
        return list(_items_of_members(self, include_nested, leaves_only, is_leaf, ()))
    return _PLAIN["items"](self, include_nested, leaves_only, is_leaf, **options)


def values(
    self: Any,
    include_nested: bool = False,
    leaves_only: bool = False,
    is_leaf: Callable[[type], bool] | None = None,
    **options: Any,
) -> Any:
    """See :meth:`TensorDict.values`. With ``_NESTED_TENSORS_AS_LISTS``, the values of each part of a lazy stack."""
    if isinstance(is_leaf, AsLists):
        return [value for _, value in _items_of_members(self, include_nested, leaves_only, is_leaf, ())]
    return _PLAIN["values"](self, include_nested, leaves_only, is_leaf, **options)


def _items_of_members(
    data: Any, include_nested: bool, leaves_only: bool, is_leaf: AsLists, path: tuple[str, ...]
) -> Iterator[tuple[FlatKey, Any]]:
    if isinstance(data, LazyStackedTensorDict):
        for position, part in enumerate(data.tensordicts):
            yield from _items_of_members(part, include_nested, leaves_only, is_leaf, (*path, str(position)))
        return
    for key, value in data._now().items():
        cls: type = value.__class__
        leaf = is_leaf(cls)
        if leaf or not leaves_only:
            yield (*path, key) if path else key, value
        if include_nested and not leaf and isinstance(value, TensorCollection) and value._is_tree():
            yield from _items_of_members(value, True, leaves_only, is_leaf, (*path, key))


# -- nested tensors of the strided layout -----------------------------------------------------------------------------


def as_jagged(value: Any) -> Any:
    """Return a nested tensor of the strided layout in the jagged one, which collections take; others unchanged."""
    if is_strided_nested(value):
        return cast("Any", torch.nested).as_nested_tensor([*value.unbind()], layout=torch.jagged)
    if issubclass(type(value), Mapping) and not isinstance(value, TensorCollection):
        return {key: as_jagged(entry) for key, entry in value.items()}
    return value


def _init(self: Any, source: Any = None, *args: Any, **kwargs: Any) -> None:
    """See :class:`TensorDict`."""
    try:
        _PLAIN["__init__"](self, source, *args, **kwargs)
    except StridedNested:
        options = kwargs if source is not None else as_jagged(kwargs)
        _PLAIN["__init__"](self, as_jagged(source), *args, **options)


def _set(self: Any, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
    _PLAIN["_set"](self, key, as_jagged(value), inplace, non_blocking)


# -- private methods --------------------------------------------------------------------------------------------------


def _get_str(self: Any, key: NestedKey, default: Any = NO_DEFAULT, **forms: Any) -> Any:
    """Return the value of a key as it is stored."""
    return TensorCollection.get(self, key, default, **forms)


def _set_str(
    self: Any,
    key: NestedKey,
    value: Any,
    *,
    inplace: Any,
    validated: bool,
    ignore_lock: bool = False,
    non_blocking: bool = False,
) -> Any:
    """Set a key. The value is always checked, also if it is ``validated``: the check costs little."""
    if ignore_lock and self.is_locked:
        with self.unlock_():
            return self.set(key, value, inplace=bool(inplace), non_blocking=non_blocking)
    return self.set(key, value, inplace=bool(inplace), non_blocking=non_blocking)


def _set_at_str(
    self: Any, key: NestedKey, value: Any, idx: Any, *, validated: bool = True, non_blocking: bool = False
) -> Any:
    """Write rows of a key."""
    return self.set_at_(key, value, idx, non_blocking=non_blocking)


def _fast_apply(
    self: Any,
    fn: Callable[..., Any],
    *others: Any,
    named: bool = False,
    nested_keys: bool = False,
    filter_empty: bool | None = False,
    checked: bool = True,
    prefix: tuple[str, ...] = (),
    call_on_unbatched: bool = False,
    **options: Any,
) -> Any:
    """Call a function on each value: ``apply``, or ``named_apply`` if it is ``named``. Results are checked."""
    if options.get("out", MISSING) is None:
        del options["out"]
    if not options.get("num_threads"):
        options.pop("num_threads", None)
    if named:
        return self.named_apply(fn, *others, nested_keys=nested_keys, filter_empty=filter_empty, **options)
    return self.apply(fn, *others, filter_empty=filter_empty, **options)


def _apply_nest(
    self: Any, fn: Callable[..., Any], *others: Any, filter_empty: bool | None = None, **options: Any
) -> Any:
    """See :func:`_fast_apply`."""
    return _fast_apply(self, fn, *others, filter_empty=filter_empty, **options)


def _items_list(
    self: Any,
    include_nested: bool = False,
    leaves_only: bool = False,
    *,
    collapse: bool = False,
    is_leaf: Callable[[type], bool] | None = None,
    sorting_keys: Sequence[NestedKey] | None = None,
    default: Any = None,
) -> tuple[list[Any], list[Any]]:
    """Return the keys and the values, in the order of ``sorting_keys`` if it is given."""
    if sorting_keys is None:
        found = list(self.items(include_nested, leaves_only, is_leaf=is_leaf))
        return [key for key, _ in found], [value for _, value in found]
    return [*sorting_keys], [self.get(key, NO_DEFAULT if default is None else default) for key in sorting_keys]


def _values_list(self: Any, *args: Any, **options: Any) -> list[Any]:
    """Return the values: see :func:`_items_list`."""
    return _items_list(self, *args, **options)[1]


def _get_sub_tensordict(self: Any, idx: Any) -> Any:
    """Return rows that write through: ``get_sub_tensordict``."""
    return self.get_sub_tensordict(idx)


def _has_names(self: Any) -> bool:
    return self._names is not None


def _erase_names(self: Any) -> None:
    self.names = None


def _change_batch_size(self: Any, new_size: Size) -> None:
    self.batch_size = new_size


def _new_unsafe(cls: type[TensorDict], source: Any = None, *args: Any, **options: Any) -> TensorDict:
    """Make a collection. Here the values are checked; keywords that are no options are values, as in a constructor."""
    for name in ("is_shared", "is_memmap", "nested"):  # what the values say themselves
        options.pop(name, None)
    return cls(source, *args, **options)


#: methods that clients call, by the names that they have there
_PRIVATE: Final[dict[str, Callable[..., Any]]] = {
    one.__name__: one
    for one in (
        _get_str, _set_str, _set_at_str, _fast_apply, _apply_nest, _items_list, _values_list, _has_names, _erase_names,
        _change_batch_size, _get_sub_tensordict,
    )
} | {"_get_tuple": _get_str, "_set_tuple": _set_str, "_multithread_apply_nest": _apply_nest}  # fmt: skip

#: class, name and member
METHODS: Final[list[tuple[type, str, Any]]] = [
    *((cls, "__setstate__", function) for cls, function in STATEFUL.items()),
    (SubTensorDict, "__new__", staticmethod(new_rows)),
    (TensorCollection, "state_dict", state_dict),
    (TensorCollection, "load_state_dict", load_state_dict),
    (TensorCollection, "saved_path", property(saved_path)),
    (TensorCollection, "apply", apply),
    (TensorCollection, "items", items),
    (TensorCollection, "values", values),
    (TensorDict, "__init__", functools.wraps(TensorDict.__init__)(_init)),
    (TensorDict, "_new_unsafe", classmethod(_new_unsafe)),
    (TensorDict, "_set", _set),
    (TensorDict, "_put", _set),
    (TensorCollection, "_get_as", _get_as),
    (NonTensorStack, "_as_read", _as_read),
    *((TensorCollection, name, function) for name, function in _PRIVATE.items()),
    *peer_networks.METHODS,
]

#: the attributes of the classes that were replaced, by name
_before: Final[list[tuple[type, str, Any]]] = []


def add_methods() -> None:
    """Give collections the methods."""
    for cls, name, member in METHODS:
        if name in vars(cls):
            _before.append((cls, name, vars(cls)[name]))
            replace_member(cls, name, member)
        else:
            setattr(cls, name, member)


def remove_methods() -> None:
    """Take the methods away again."""
    for cls, name, before in _before:
        replace_member(cls, name, before)
    replaced = {(cls, name) for cls, name, _ in _before}
    for cls, name, _ in METHODS:
        if (cls, name) not in replaced:
            delattr(cls, name)
    _before.clear()
