"""``torch.vmap`` of functions that take collections, without pytrees.

Torch takes every argument apart to leaves, hides a dimension of each, puts the argument together, and does the reverse
with the result. For a collection all of this is known at once: which dimension goes, which comes, and what is left of
the batch size. So the values of each collection are mapped here in one step, and the batch size is computed, where
:mod:`~tensorclass.td.pytree` must find it out from the leaves.

``torch.vmap`` looks its implementation up in the module :mod:`torch._functorch.apis` at each call; :func:`install` puts
:func:`_mapped` there, in front of it. What it does not know it hands to torch: calls without a collection among the
arguments, and all that is unusual or wrong in a call, so that errors are those of torch. While a program is traced to a
graph (dynamo, export) torch does all of it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from torch import Size, Tensor
from torch.compiler import is_compiling
from torch.utils import _pytree

from . import shapes
from .collection import Collection, functorch
from .pytree import KINDS


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"torch._functorch.{name}")
    except ImportError:  # of another torch: nothing is installed
        return None


_apis, _predispatch, _torch_vmap = _module("apis"), _module("predispatch"), _module("vmap")
_through_pytrees: Callable[..., Any] = getattr(_apis, "vmap_impl", None)  # type: ignore[assignment]


class _Unusual(Exception):
    """Never leaves this module: torch goes through the pytrees instead."""


def _mapped(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """What ``torch.vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)`` does when it is called."""
    for arg in args:
        if isinstance(arg, Collection):
            break
    else:
        return _through_pytrees(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)
    if chunk_size is None and not is_compiling():
        dims = in_dims if type(in_dims) is tuple else (in_dims,) * len(args)
        size = _mapped_size(args, dims)
        if size is not None:
            if type(out_dims) is not int:
                _torch_vmap._check_out_dims_is_int_or_int_pytree(out_dims, func)
            if not _predispatch.DECOMPOSITIONS_LOADED:
                _predispatch.lazy_load_decompositions()
            level = functorch._vmap_increment_nesting(size, randomness)
            try:
                inputs = _inputs(args, dims, level)
                if inputs is not None:
                    result = func(*inputs, **kwargs)
                    try:
                        return _output(result, out_dims, level, size)
                    except _Unusual:
                        pass
                    return _torch_vmap._unwrap_batched(result, out_dims, level, size, func)
            finally:
                functorch._vmap_decrement_nesting()
    return _through_pytrees(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)


def _mapped_size(args: tuple[Any, ...], dims: tuple[Any, ...]) -> int | None:
    """The size of the dimension that is mapped over; ``None`` where arguments do not fit, or are not simple."""
    if len(dims) != len(args):
        return None
    found: int | None = None
    tensors = False
    for arg, dim in zip(args, dims, strict=True):
        if dim is None:
            continue
        if type(dim) is not int:
            return None
        if isinstance(arg, Tensor):
            ndim = arg.ndim
            if not -ndim <= dim < ndim:
                return None
            size = arg.shape[dim]
            tensors = True
        elif isinstance(arg, Collection) and 0 <= dim < len(arg._batch_size):
            size = arg._batch_size[dim]
            tensors = tensors or _has_tensors(arg)
        else:  # a dimension counted from the end, or beyond the batch, is not the same one in all values
            return None
        if found is None:
            found = size
        elif size != found:
            return None
    return found if tensors else None


def _has_tensors(node: Collection) -> bool:
    for value in node._store.values():  # noqa: SIM110 -- nearly always the first value tells; a generator costs more
        if isinstance(value, Tensor) or _has_tensors(value):
            return True
    return False


def _inputs(args: tuple[Any, ...], dims: tuple[Any, ...], level: int) -> list[Any] | None:
    """The arguments as the function sees them; ``None`` where that takes pytrees."""
    inputs: list[Any] = []
    try:
        for arg, dim in zip(args, dims, strict=True):
            if isinstance(arg, Tensor):
                if dim is not None:
                    arg = functorch._add_batch_dim(arg, dim if dim >= 0 else dim + arg.ndim, level)
            elif dim is not None:
                arg = _without(arg, dim, level)
            elif isinstance(arg, Collection):
                arg = _again(arg)
            else:
                arg = _pytree.tree_map(_same, arg)
            inputs.append(arg)
    except _Unusual:
        return None
    return inputs


def _output(result: Any, out_dims: Any, level: int, size: int) -> Any:
    """The result as the caller gets it."""
    if type(result) is tuple:
        dims = out_dims if type(out_dims) is tuple else (out_dims,) * len(result)
        if len(dims) != len(result):
            raise _Unusual
        return tuple([_output(part, dim, level, size) for part, dim in zip(result, dims, strict=True)])
    if type(out_dims) is not int:
        raise _Unusual
    if isinstance(result, Tensor):
        return functorch._remove_batch_dim(result, level, size, out_dims)
    if isinstance(result, Collection) and 0 <= out_dims <= len(result._batch_size):
        return _with(result, out_dims, level, size)
    raise _Unusual


# -- collections ------------------------------------------------------------------------------------------------------


def _same(leaf: Any) -> Any:
    return leaf


def _made(node: Any) -> Any:
    """What unflattening a collection begins with: its class on a plain dict, its device, its objects."""
    kind = KINDS.get(node.__class__)
    if kind is None:  # it is no node of its values: a lazy stack, an unbatched tensor
        raise _Unusual
    new: Any = object.__new__(kind[0] or getattr(node, "_dense", node.__class__))
    new._device = node._device
    new._lock = None
    if kind[1]:
        new._objects = node._objects
        new._metadata = None
    return new


def _again(node: Any) -> Any:
    """A collection that is not mapped: the function gets one of its own, so that it can set keys."""
    new = _made(node)
    new._store = {key: value if isinstance(value, Tensor) else _again(value) for key, value in node._store.items()}
    new._batch_size = node._batch_size
    new._names = node._names
    return new


def _without(node: Any, dim: int, level: int) -> Any:
    """A collection of which a vmap hides a batch dimension."""
    new = _made(node)
    hide = functorch._add_batch_dim
    new._store = {
        key: hide(value, dim, level) if isinstance(value, Tensor) else _without(value, dim, level)
        for key, value in node._store.items()
    }
    size, names = node._batch_size, node._names
    new._batch_size = Size((*size[:dim], *size[dim + 1 :])) if dim else size[1:]
    new._names = names and shapes.names_without(names, (dim,))
    return new


def _with(node: Any, dim: int, level: int, count: int) -> Any:
    """A collection with the dimension that a vmap hid as a batch dimension."""
    new = _made(node)
    show = functorch._remove_batch_dim
    new._store = {
        key: show(value, level, count, dim) if isinstance(value, Tensor) else _with(value, dim, level, count)
        for key, value in node._store.items()
    }
    size, names = node._batch_size, node._names
    new._batch_size = Size((*size[:dim], count, *size[dim:])) if dim else Size((count, *size))
    new._names = names and shapes.names_inserted(names, dim)
    return new


# -- installation -----------------------------------------------------------------------------------------------------


#: how many arguments those functions of torch take that are called here
_ARITIES = (
    (_predispatch, "_add_batch_dim", 3),  # with the arguments of the functions in C that they call
    (_predispatch, "_remove_batch_dim", 4),
    (_predispatch, "_vmap_increment_nesting", 2),
    (_predispatch, "_vmap_decrement_nesting", 0),
    (_predispatch, "lazy_load_decompositions", 0),
    (_torch_vmap, "_check_out_dims_is_int_or_int_pytree", 2),
    (_torch_vmap, "_unwrap_batched", 5),
)


def _fits() -> bool:
    """Whether this is the vmap of torch that is known here: how it finds its implementation, what that calls."""
    implementation: Any = _torch_vmap.vmap_impl
    try:
        for module, name, count in _ARITIES:
            inspect.signature(getattr(module, name)).bind(*range(count))
        inner = [code.co_names for code in _apis.vmap.__code__.co_consts if inspect.iscode(code)]
        return (
            _apis.vmap_impl is implementation
            and list(inspect.signature(implementation).parameters)
            == ["func", "in_dims", "out_dims", "randomness", "chunk_size", "args", "kwargs"]
            and any("vmap_impl" in names for names in inner)
            and all(callable(getattr(functorch, name)) for _, name, _ in _ARITIES[:4])
            and _predispatch.DECOMPOSITIONS_LOADED in (True, False)
        )
    except (AttributeError, TypeError, ValueError):
        return False


def install() -> bool:
    """Puts :func:`_mapped` in front of torch's own; whether this torch is one in which it can."""
    if not _fits():
        return False
    _apis.vmap_impl = _mapped
    return True
