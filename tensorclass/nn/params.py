"""A collection of parameters that is a module."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import Buffer, Parameter
from typing_extensions import Self

from tensorclass.td import pytree
from tensorclass.td.collection import Collection
from tensorclass.td.reading import MISSING
from tensorclass.td.state import State
from tensorclass.td.stores.classes import OnStore
from tensorclass.td.tensordict import TensorDict
from tensorclass.td.unpickling import allow_class, allow_function, found

from .entries import Entries

if TYPE_CHECKING:
    from tensorclass.td.keys import NestedKey
    from tensorclass.td.reading import IsLeaf

__all__ = ["Buffer", "TensorDictParams"]

#: called with the collection and a tensor that is read from it; gives another one in its place, or ``None``
GetHook = Callable[["TensorDictParams", Tensor], Tensor | None]


class TensorDictParams(OnStore, nn.Module):  # type: ignore[misc]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """A collection of parameters and buffers that is an ``nn.Module``.

    As an attribute of another module its parameters are among those of that module, under their nested keys:
    ``named_parameters()`` and ``state_dict()`` have them, ``to()`` moves them, optimizers take them. The tables of
    ``nn.Module`` are its store: each nested collection is a submodule, and what changes there is changed here.

    Args:
        parameters: a collection, a record too, or a mapping; or give the values by keyword. It stays as it is.
        no_convert: by default tensors of floating point and complex dtypes become parameters; those of other dtypes,
            and buffers (``torch.nn.Buffer``), become buffers. With ``True`` or ``"skip"`` only parameters are
            parameters, and all other tensors are buffers.
        lock: lock the keys.

    Raises:
        RuntimeError: a lazy stack is among the values: what it gives at each read can be no parameter.

    Operations give collections of the class that was given: ``params * 2`` is a TensorDict, or the record. Only copies
    (``clone``, ``copy``, ``to``, ``cpu``, ``cuda``) are modules again.

    >>> import torch
    >>> from tensorclass import TensorDict
    >>> params = TensorDictParams(TensorDict({"weight": torch.ones(3), "nested": {"bias": torch.zeros(3)}}))
    >>> [name for name, _ in params.named_parameters()]
    ['weight', 'nested.bias']
    """

    if TYPE_CHECKING:
        _get_hooks: tuple[GetHook, ...]

    _dense: ClassVar[type[Any]] = TensorDict  # of a record in the instance

    def __init__(
        self,
        parameters: Collection | Mapping[Any, Any] | None = None,
        *,
        no_convert: bool | Literal["skip"] = False,
        lock: bool = False,
        **kwargs: Any,
    ) -> None:
        if parameters is None:
            parameters = TensorDict(kwargs)
        elif kwargs:
            raise TypeError(
                "TensorDictParams: give the values as one collection or by keyword, not both; keywords: "
                f"{sorted(kwargs)}"
            )
        if not isinstance(parameters, Collection):
            if not isinstance(parameters, Mapping):
                raise TypeError(
                    "TensorDictParams: expected a collection or a mapping of parameters, got "
                    f"{type(parameters).__name__}"
                )
            parameters = TensorDict(parameters)
        self._hold(parameters, not no_convert)
        if lock:
            self._lock_under(())

    def _hold(self, source: Any, convert: bool) -> None:
        """Registers the values of a collection."""
        if not source._holds_values():
            raise RuntimeError(
                "TensorDictParams: a lazy stack cannot hold parameters, because it stacks its parts at each read; "
                "give data.contiguous(), or make one TensorDictParams for each part"
            )
        nn.Module.__init__(self)
        self._describe(getattr(source, "_dense", source.__class__), convert)
        self._batch_size = source._batch_size
        self._device = source._device
        self._names = source._names
        self._lock = None
        for key, value in source._store.items():
            self._store[key] = value

    def _describe(self, dense: Any, convert: bool) -> None:
        self.__dict__["_dense"] = dense
        self.__dict__["_get_hooks"] = ()
        self._store = Entries(self, _nested_without_converting if not convert else _nested, convert)

    # -- as a collection ----------------------------------------------------------------------------------------------

    def _fit(self, key: str, value: Any, non_blocking: bool = False) -> Any:
        return self._dense._fit(self, key, value, non_blocking)

    def _set(self, key: str, value: Any, inplace: bool = False, non_blocking: bool = False) -> None:
        if inplace and key in self._store:
            self._set_(key, value, non_blocking)
        else:
            self._check_unlocked()
            self._store[key] = self._fit(key, value, non_blocking)

    _put = _set

    def set(
        self, key: NestedKey, item: Any, inplace: bool = False, *, non_blocking: bool = False, **kwargs: Any
    ) -> Self:
        """Registers a value, or with ``inplace`` writes its numbers into the parameter; see ``TensorDict.set``."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not inplace):
            return super().set(key, item, inplace, non_blocking=non_blocking, **kwargs)

    def update(
        self,
        input_dict_or_td: Mapping[Any, Any] | Collection | None = None,
        clone: bool = False,
        inplace: bool = False,
        *,
        non_blocking: bool = False,
        keys_to_update: Sequence[NestedKey] | None = None,
        is_leaf: IsLeaf | None = None,
        update_batch_size: bool = False,
        ignore_lock: bool = False,
        **kwargs: Any,
    ) -> Self:
        """Registers values, or with ``inplace`` writes numbers into the parameters; see ``TensorDict.update``."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and not inplace):
            return super().update(
                input_dict_or_td,
                clone,
                inplace,
                non_blocking=non_blocking,
                keys_to_update=keys_to_update,
                is_leaf=is_leaf,
                update_batch_size=update_batch_size,
                ignore_lock=ignore_lock,
                **kwargs,
            )

    def _again(self, values: Any) -> Self:
        """The same with other values: what was a parameter is one."""
        new = object.__new__(self.__class__)
        nn.Module.__init__(new)
        new._describe(self._dense, self._entries.convert)
        new._batch_size = values._batch_size
        new._device = values._device
        new._names = values._names
        new._lock = None
        for key, value in values._store.items():
            own = self._store[key]
            if isinstance(own, TensorDictParams):
                new._modules[key] = own._again(value)
            elif isinstance(own, Parameter) and not isinstance(value, Parameter):
                trained = own.requires_grad and (value.is_floating_point() or value.is_complex())
                new._parameters[key] = Parameter(value.detach(), requires_grad=trained)
            elif isinstance(own, Tensor):
                (new._parameters if isinstance(own, Parameter) else new._buffers)[key] = value
            else:
                new._store[key] = value
        new._non_persistent_buffers_set = {*self._non_persistent_buffers_set}
        return new

    @property
    def _entries(self) -> Entries:
        entries: Any = self._store
        return entries  # type: ignore[no-any-return]

    def _shallow(self) -> Self:
        return self._again(self._same(self._entries.merged()))

    def clone(self, recurse: bool = True, *, memory_format: torch.memory_format = torch.preserve_format) -> Self:
        """A copy with parameters of its own, or with ``recurse=False`` one that shares them."""
        if not recurse:
            return self._shallow()
        return self._again(self._densified().detach().clone(memory_format=memory_format))

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """A copy on another device, of another dtype or batch size, with parameters of its own where they change.

        For a move in place, as modules do it, move the module that this is an attribute of.
        """
        return self._again(self._densified().to(*args, **kwargs))

    def cpu(self, **kwargs: Any) -> Any:
        """:meth:`to` the main memory."""
        return self.to("cpu", **kwargs)

    def cuda(self, device: int | str | torch.device | None = None, **kwargs: Any) -> Any:
        """:meth:`to` a GPU."""
        device = torch.device("cuda", device) if isinstance(device, int) else device
        return self.to("cuda" if device is None else device, **kwargs)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says whether the parameters are trained; buffers never are."""
        nn.Module.requires_grad_(self, requires_grad)
        return self

    def register_get_post_hook(self, hook: GetHook) -> None:
        """Registers what is called with this collection and each tensor that is read from it.

        What it gives takes the place of the tensor, unless that is ``None``. Reading is ``params[key]``, ``get``,
        ``values`` and ``items``; operations and swaps take the parameters themselves.
        """
        self.__dict__["_get_hooks"] = (*self._get_hooks, hook)

    def _read(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            for hook in self._get_hooks:
                given = hook(self, value)
                value = value if given is None else given
        return value

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        return self._read(value) if self._get_hooks else value

    def get(self, key: NestedKey, default: Any = MISSING, **forms: Any) -> Any:
        """The value at ``key``, after the hooks of :meth:`register_get_post_hook`; see ``TensorDict.get``."""
        value = super().get(key, default, **forms)
        return self._read(value) if self._get_hooks else value

    def values(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: IsLeaf | None = None,
        *,
        sort: bool = False,
    ) -> Iterator[Any]:
        """The values, after the hooks of :meth:`register_get_post_hook`; see ``TensorDict.values``."""
        values = super().values(include_nested, leaves_only, is_leaf, sort=sort)
        return iter([self._read(value) for value in values]) if self._get_hooks else values

    def items(
        self,
        include_nested: bool = False,
        leaves_only: bool = False,
        is_leaf: IsLeaf | None = None,
        *,
        sort: bool = False,
    ) -> Iterator[tuple[Any, Any]]:
        """Keys and values, after the hooks of :meth:`register_get_post_hook`; see ``TensorDict.items``."""
        items = super().items(include_nested, leaves_only, is_leaf, sort=sort)
        return iter([(key, self._read(value)) for key, value in items]) if self._get_hooks else items

    # -- as a module --------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """A parameter, a buffer or a nested collection by its key; what else a record has: its methods."""
        try:
            return nn.Module.__getattr__(self, name)
        except AttributeError:
            dense: Any = self.__dict__.get("_dense", TensorDict)
            if name.startswith("__") or not hasattr(dense, name):
                raise
        member: Any = inspect.getattr_static(dense, name)
        return member.__get__(self, dense) if hasattr(member, "__get__") else member

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        new = nn.Module._apply(self, fn, recurse)  # type: ignore[no-untyped-call]
        if self._device is not None:
            devices = {leaf.device for leaf in self._leaves()}
            self._device = devices.pop() if len(devices) == 1 else None
        return new  # type: ignore[no-any-return]

    def state_dict(  # type: ignore[override]
        self,
        destination: dict[str, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
        flatten: bool = True,
    ) -> dict[str, Any]:
        """The parameters and persistent buffers, as ``nn.Module.state_dict`` gives them.

        Args:
            destination: a dict to fill.
            prefix: put in front of every key.
            keep_vars: give the tensors as they are, not detached.
            flatten: nested keys joined by dots; otherwise nested dicts.
        """
        if not flatten:
            return State.state_dict(self, destination, prefix, keep_vars, False)
        given: Any = destination  # torch says that it is a dict, and takes None
        return nn.Module.state_dict(self, destination=given, prefix=prefix, keep_vars=keep_vars)

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        assign: bool = False,
        from_flatten: bool | None = None,
    ) -> Any:
        """Loads what :meth:`state_dict` gave, as ``nn.Module.load_state_dict`` does.

        Args:
            state_dict: flat or nested.
            strict: the keys must be those here; a ``RuntimeError`` lists the differences.
            assign: take the tensors instead of their numbers.
            from_flatten: whether dots in keys separate levels; found out from the keys when ``None``.

        Nothing is loaded when a key or a shape does not fit, unless hooks for state dicts are registered, which may
        change them.
        """
        nested = any(isinstance(value, Mapping) for value in state_dict.values())
        if nested if from_flatten is None else not from_flatten:
            state_dict = _flat(state_dict, "")
        modules: Any = self.modules()
        if not any(module._load_state_dict_pre_hooks for module in modules):
            self._check_state_dict(state_dict, strict)
        return nn.Module.load_state_dict(self, state_dict, strict, assign)

    def _check_state_dict(self, state_dict: Mapping[str, Any], strict: bool) -> None:
        own = self.state_dict(keep_vars=True)
        problems = [f"missing key {key!r}" for key in own if strict and key not in state_dict]
        for key, value in state_dict.items():
            expected = own.get(key)
            if expected is None:
                if strict:
                    problems.append(f"unexpected key {key!r}")
            elif isinstance(expected, Tensor) and isinstance(value, Tensor) and value.shape != expected.shape:
                problems.append(f"{key}: expected shape {list(expected.shape)}, got {list(value.shape)}")
        if problems:
            raise RuntimeError("load_state_dict: nothing was loaded into TensorDictParams; " + "; ".join(problems))

    # -- copies of modules --------------------------------------------------------------------------------------------

    def __reduce__(self) -> Any:
        own = {key: value for key, value in self.__dict__.items() if key not in ("_dense", "_get_hooks")}
        metadata = tuple(self._batch_size), self._device, self._names, self._lock is not None
        return _rebuilt, (type(self), self._dense, self._entries.convert, metadata, self._entries.objects, own)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        import copy

        function, arguments = self.__reduce__()
        cls, dense, *rest = arguments
        new = memo[id(self)] = function(cls, dense, *copy.deepcopy(rest, memo))
        new.__dict__["_get_hooks"] = self._get_hooks
        return new  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"TensorDictParams(params={self._densified()!r})"


def _without_gradients(name: str) -> Callable[..., Any]:
    member = getattr(OnStore, name)

    @functools.wraps(member)
    def method(self: TensorDictParams, *args: Any, **kwargs: Any) -> Any:
        with torch.no_grad():
            return member(self, *args, **kwargs)

    return method


#: what gives parameters other numbers, as ``torch.nn.init`` does: no gradient flows through it
_FILLING = (
    "__setitem__",
    "apply_",
    "set_",
    "set_at_",
    "update_",
    "update_at_",
    "copy_",
    "copy_at_",
    "fill_",
    "masked_fill_",
    "zero_",
)
for _name in _FILLING:
    setattr(TensorDictParams, _name, _without_gradients(_name))

# a module stands in sets and is a key; for type checkers a collection, which compares by element, has no hash
_HASH = "__hash__"
setattr(TensorDictParams, _HASH, getattr(nn.Module, _HASH))


def _nested(values: Any) -> TensorDictParams:
    return _held(values, True)


def as_parameters(tree: Any) -> TensorDictParams:
    """Return a module that has the tensors of a collection as its parameters and buffers."""
    return TensorDictParams(tree, no_convert="skip")


def _nested_without_converting(values: Any) -> TensorDictParams:
    return _held(values, False)


def _held(values: Any, convert: bool) -> TensorDictParams:
    """What a module registers for a nested collection."""
    if isinstance(values, TensorDictParams):
        return values
    new = object.__new__(TensorDictParams)
    new._hold(values, convert)
    return new


@allow_function
def _rebuilt(
    cls: Any, dense: Any, convert: bool, metadata: tuple[Any, ...], objects: dict[str, Any], own: dict[str, Any]
) -> TensorDictParams:
    """What unpickling calls, and a deep copy."""
    from tensorclass.td.base import TensorCollection

    new: Any = object.__new__(found(cls, TensorDictParams))
    size, device, names, locked = metadata
    nn.Module.__init__(new)
    new.__dict__.update({key: {**value} if type(value) is dict else value for key, value in own.items()})
    new._describe(found(dense, TensorCollection), convert)
    new._batch_size, new._device, new._names, new._lock = torch.Size(size), device, names, None
    new._store.objects.update(objects)
    return new.lock_() if locked else new  # type: ignore[no-any-return]


def _flat(state_dict: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in state_dict.items():
        below: Any = value
        if isinstance(value, Mapping):
            flat |= _flat(below, f"{prefix}{key}.")
        else:
            flat[prefix + key] = below
    return flat


pytree.register(TensorDictParams)
allow_class(TensorDictParams)
