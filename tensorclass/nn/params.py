"""Collections of parameters that are modules."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import Buffer, Parameter
from typing_extensions import Self

from tensorclass.support.printable import type_name
from tensorclass.td import pytree
from tensorclass.td.collection import Collection
from tensorclass.td.safe_unpickling import allow_class, allow_function, found
from tensorclass.td.state_dict import State
from tensorclass.td.stores.store_classes import OnStore
from tensorclass.td.tensordict import TensorDict

from .parameter_store import ModuleEntries

if TYPE_CHECKING:
    pass

__all__ = ["Buffer", "TensorDictParams"]

#: gets the collection and a tensor read from it; returns a replacement, or ``None``
GetHook = Callable[["TensorDictParams", Tensor], Tensor | None]


class TensorDictParams(OnStore, nn.Module):  # type: ignore[misc]  # pyright: ignore[reportIncompatibleMethodOverride, reportIncompatibleVariableOverride]
    """A collection of parameters and buffers that is an ``nn.Module``.

    As an attribute of another module, its parameters belong to that module under their nested keys:
    ``named_parameters()`` and ``state_dict()`` list them, ``to()`` moves them, optimizers take them. The tables of
    ``nn.Module`` are its store: each nested collection is a submodule, and changes to the tables show here.

    Operations return collections of the class that was given: ``params * 2`` is a TensorDict, or the record. Only
    copies (``clone``, ``copy``, ``to``, ``cpu``, ``cuda``) are modules again.

    Args:
        parameters: a collection, a record, or a mapping; or pass the values by keyword. It is not changed.
        no_convert: by default tensors of floating point and complex dtypes become parameters, tensors of other dtypes
            and buffers (``torch.nn.Buffer``) become buffers. With ``True`` or ``"skip"`` tensors that are not
            parameters become buffers.
        lock: lock the keys.

    Raises:
        RuntimeError: one of the values is a lazy stack, which makes new tensors at each read.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict
        >>> from tensorclass.nn import TensorDictParams
        >>> params = TensorDictParams(TensorDict({"weight": torch.ones(3), "nested": {"bias": torch.zeros(3)}}))
        >>> [name for name, _ in params.named_parameters()]
        ['weight', 'nested.bias']
    """

    if TYPE_CHECKING:
        _get_hooks: tuple[GetHook, ...]

    _dense: ClassVar[type[Any]] = TensorDict  # the class of the record, in an instance made from one

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
                    f"TensorDictParams: expected a collection or a mapping of parameters, got {type_name(parameters)}"
                )
            parameters = TensorDict(parameters)
        self._hold(parameters, not no_convert)
        if lock:
            self._lock_under(())

    def _hold(self, source: Any, convert: bool) -> None:
        """Register the values of a collection."""
        if not source._holds_values():
            raise RuntimeError(
                "TensorDictParams: a lazy stack cannot hold parameters, because each read stacks anew; "
                "give data.contiguous(), or make one TensorDictParams for each collection of the stack"
            )
        nn.Module.__init__(self)
        self._describe(getattr(source, "_dense", source.__class__), convert, source)
        for key, value in source._now().items():
            self._store[key] = value

    def _describe(self, dense: Any, convert: bool, source: Any) -> None:
        """Set all but the values; the metadata is that of ``source``."""
        self.__dict__["_dense"] = dense
        self.__dict__["_get_hooks"] = ()
        self._store = ModuleEntries(self, _nested_module, convert)
        self._batch_size, self._device, self._names = source._batch_size, source._device, source._names
        self._lock = None

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

    def _again(self, values: Any) -> Self:
        """Return a module of the same layout with other values: parameters stay parameters."""
        new = object.__new__(self.__class__)
        nn.Module.__init__(new)
        new._describe(self._dense, self._entries.convert, values)
        for key, value in values._now().items():
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
    def _entries(self) -> ModuleEntries:
        entries: Any = self._store
        return entries  # type: ignore[no-any-return]

    def _shallow(self) -> Self:
        return self._again(self._same(self._entries.merged()))

    def clone(self, recurse: bool = True, *, memory_format: torch.memory_format = torch.preserve_format) -> Self:
        """Copy the module.

        Args:
            recurse: copy the parameters; with ``False`` share them.
            memory_format: the memory format of the copies.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictParams
            >>> params = TensorDictParams(weight=torch.zeros(2))
            >>> params.clone()["weight"] is params["weight"], params.clone(recurse=False)["weight"] is params["weight"]
            (False, True)
        """
        if not recurse:
            return self._shallow()
        return self._again(self._densified().detach().clone(memory_format=memory_format))

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Return a module on another device, or with another dtype or batch size.

        To move parameters in place, as modules do, move the module that has this collection as an attribute.

        Args:
            *args: a device, a dtype, or both, as for :meth:`TensorDict.to`.
            **kwargs: ``device``, ``dtype``, ``batch_size`` and the other keywords of :meth:`TensorDict.to`.

        Returns:
            A new module. Tensors that do not change are shared.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictParams
            >>> TensorDictParams(weight=torch.zeros(2)).to(torch.float64)["weight"].dtype
            torch.float64
        """
        return self._again(self._densified().to(*args, **kwargs))

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters need gradients. Buffers are left alone.

        Args:
            requires_grad: ``True`` (the default) or ``False``.

        Returns:
            The module itself.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictParams
            >>> TensorDictParams(weight=torch.zeros(2)).requires_grad_(False)["weight"].requires_grad
            False
        """
        nn.Module.requires_grad_(self, requires_grad)
        return self

    def register_get_post_hook(self, hook: GetHook) -> None:
        """Register a hook for tensors that are read by ``params[key]``, ``get``, ``values`` and ``items``.

        The hook gets this collection and the tensor. Its result replaces the tensor, unless it is ``None``. Operations
        and ``to_module`` use the parameters themselves.

        Args:
            hook: called with this collection and the tensor; returns a tensor or ``None``.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictParams
            >>> params = TensorDictParams(weight=torch.ones(2))
            >>> params.register_get_post_hook(lambda params, tensor: 2 * tensor.detach())
            >>> params["weight"]
            tensor([2., 2.])
        """
        self.__dict__["_get_hooks"] = (*self._get_hooks, hook)

    def _read(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            for hook in self._get_hooks:
                given = hook(self, value)
                value = value if given is None else given
        return value

    # -- as a module --------------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Return an entry by its key, or a method of the record that the parameters were taken from."""
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
        """Return the parameters and persistent buffers, as ``nn.Module.state_dict`` does.

        Args:
            destination: a dict to fill.
            prefix: put in front of every key.
            keep_vars: return the tensors themselves, not detached.
            flatten: join nested keys with dots; otherwise return nested dicts.

        Returns:
            A dict of tensors that share memory with the parameters.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictParams
            >>> params = TensorDictParams(linear={"bias": torch.zeros(2)})
            >>> list(params.state_dict()), params.state_dict(flatten=False)["linear"]["bias"]
            (['linear.bias'], tensor([0., 0.]))
        """
        if not flatten:
            return State.state_dict(self, destination, prefix, keep_vars, False)
        given: Any = destination  # torch's annotation is dict, but None is accepted
        return nn.Module.state_dict(self, destination=given, prefix=prefix, keep_vars=keep_vars)

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        strict: bool = True,
        assign: bool = False,
        from_flatten: bool | None = None,
    ) -> Any:
        """Load a :meth:`state_dict`, as ``nn.Module.load_state_dict`` does.

        If a key or a shape does not fit, nothing is loaded, unless hooks for state dicts are registered, which may
        change them.

        Args:
            state_dict: flat or nested.
            strict: require the same keys.
            assign: use the tensors themselves instead of copying their elements.
            from_flatten: split keys at dots; inferred from the keys by default.

        Returns:
            The missing and the unexpected keys, as ``nn.Module.load_state_dict`` returns them.

        Raises:
            RuntimeError: a shape differs, or with ``strict`` a key. Lists all differences.

        Example:
            >>> import torch
            >>> from tensorclass.nn import TensorDictParams
            >>> params = TensorDictParams(bias=torch.zeros(2))
            >>> params.load_state_dict({"bias": torch.ones(2)})
            <All keys matched successfully>
        """
        nested = any(isinstance(value, Mapping) for value in state_dict.values())
        if nested if from_flatten is None else not from_flatten:
            state_dict = _flat_state_dict(state_dict, "")
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

    def _long(self) -> str:
        return f"TensorDictParams(params={self._densified()._long()})"

    def _compact(self) -> str:
        return f"TensorDictParams(params={self._densified()._compact()})"


def _without_gradients(name: str, always: bool) -> Callable[..., Any]:
    """Return a method that runs outside of autograd: always, or if its third argument, ``inplace``, is true."""
    member = getattr(OnStore, name)

    @functools.wraps(member)
    def method(self: TensorDictParams, *args: Any, **kwargs: Any) -> Any:
        fills = always or kwargs.get("inplace", len(args) > 2 and args[2])
        with torch.set_grad_enabled(torch.is_grad_enabled() and not fills):
            return member(self, *args, **kwargs)

    return method


#: methods that overwrite the elements of parameters, as ``torch.nn.init`` does
_FILLING = (
    "__setitem__", "apply_", "set_", "set_at_", "update_", "update_at_", "copy_", "copy_at_", "fill_", "masked_fill_",
    "zero_",
)  # fmt: skip
for _name in (*_FILLING, "set", "update"):
    setattr(TensorDictParams, _name, _without_gradients(_name, _name in _FILLING))


def _through_hooks(name: str, passed: Callable[[TensorDictParams, Any], Any]) -> Callable[..., Any]:
    """Return a method whose result ``passed`` takes through the hooks of :meth:`register_get_post_hook`, if any."""
    member = getattr(OnStore, name)

    @functools.wraps(member)
    def method(self: TensorDictParams, *args: Any, **kwargs: Any) -> Any:
        found = member(self, *args, **kwargs)
        return passed(self, found) if self._get_hooks else found

    return method


_READING: dict[str, Callable[[TensorDictParams, Any], Any]] = {
    "__getitem__": TensorDictParams._read,
    "get": TensorDictParams._read,
    "values": lambda self, found: iter([self._read(value) for value in found]),
    "items": lambda self, found: iter([(key, self._read(value)) for key, value in found]),
}
for _name, _passed in _READING.items():
    setattr(TensorDictParams, _name, _through_hooks(_name, _passed))

# modules are hashable. Set by name, as a collection compares by element and has no hash for type checkers
_HASH = "__hash__"
setattr(TensorDictParams, _HASH, getattr(nn.Module, _HASH))


def as_parameters(tree: Any) -> TensorDictParams:
    """Return a module that has the tensors of a collection as its parameters and buffers.

    Only tensors that are parameters already become parameters.

    Example:
        >>> from tensorclass import TensorDict
        >>> params = as_parameters(TensorDict(weight=nn.Parameter(torch.ones(2)), steps=torch.zeros(2)))
        >>> [name for name, _ in params.named_parameters()], [name for name, _ in params.named_buffers()]
        (['weight'], ['steps'])
    """
    return TensorDictParams(tree, no_convert="skip")


def _nested_module(values: Any, convert: bool) -> TensorDictParams:
    """Return the module to register for a nested collection."""
    if isinstance(values, TensorDictParams):
        return values
    new = object.__new__(TensorDictParams)
    new._hold(values, convert)
    return new


@allow_function
def _rebuilt(
    cls: Any, dense: Any, convert: bool, metadata: tuple[Any, ...], objects: dict[str, Any], own: dict[str, Any]
) -> TensorDictParams:
    """Rebuild a module for unpickling and for deep copies."""
    from tensorclass.td.base import TensorCollection

    new: Any = object.__new__(found(cls, TensorDictParams))
    size, device, names, locked = metadata
    nn.Module.__init__(new)
    new.__dict__.update({key: {**value} if type(value) is dict else value for key, value in own.items()})
    new._describe(found(dense, TensorCollection), convert, TensorDict({}, size, device, names))
    new._store.objects.update(objects)
    return new.lock_() if locked else new  # type: ignore[no-any-return]


def _flat_state_dict(state_dict: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in state_dict.items():
        below: Any = value
        if isinstance(value, Mapping):
            flat |= _flat_state_dict(below, f"{prefix}{key}.")
        else:
            flat[prefix + key] = below
    return flat


pytree.register(TensorDictParams)
allow_class(TensorDictParams)
