"""``torch.vmap`` of functions that take collections, without pytrees.

torch flattens every argument, hides a dimension of each leaf, unflattens the argument, and does the reverse with the
result. For a collection it is known at once which dimension is hidden or added, and so the batch size. Here the values
of each collection are mapped in one step, and the batch size is computed; :mod:`~tensorclass.td.pytree` must find it
out from the leaves.

``torch.vmap`` looks up its implementation in :mod:`torch._functorch.apis` at each call. :func:`install` puts
:func:`_mapped` there, which hands over to torch's own for calls without collections, and for anything unusual or wrong
in a call, so that errors are torch's. While a program is traced to a graph (dynamo, export), torch does everything.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from torch import Size, Tensor
from torch.compiler import is_compiling
from torch.utils import _pytree

from tensorclass.support.exact_types import DICT

from . import shapes
from .collection import Collection, functorch
from .pytree import NODE_CLASSES, has_tensors


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"torch._functorch.{name}")
    except ImportError:  # another version of torch: nothing is installed
        return None


_apis, _predispatch, _torch_vmap = _module("apis"), _module("predispatch"), _module("vmap")
_through_pytrees: Callable[..., Any] = getattr(_apis, "vmap_impl", None)  # type: ignore[assignment]


class _Unusual(Exception):
    """Raised for calls that torch shall do through pytrees. It never leaves this module."""


def _mapped(
    func: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: str,
    chunk_size: int | None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Implement a call of ``torch.vmap(func, in_dims, out_dims, randomness, chunk_size=chunk_size)``."""
    arg: object
    for arg in args:
        cls = type(arg)  # torch 2.15 cannot guard the attribute __class__ of a dict
        if cls is not Tensor and (_holds_collection(arg) if cls in _CONTAINERS else isinstance(arg, Collection)):
            break
    else:
        return _through_pytrees(func, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)
    if chunk_size is None and not is_compiling():
        size = _mapped_size(args, in_dims)
        if size is not None:
            if type(out_dims) is not int:
                _torch_vmap._check_out_dims_is_int_or_int_pytree(out_dims, func)
            if not _predispatch.DECOMPOSITIONS_LOADED:
                _predispatch.lazy_load_decompositions()
            level = functorch._vmap_increment_nesting(size, randomness)
            try:
                inputs = _inputs(args, in_dims, level)
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


# -- arguments and results --------------------------------------------------------------------------------------------

_CONTAINERS = frozenset((tuple, list, dict))


def _holds_collection(tree: Any) -> bool:
    item: object
    for item in tree.values() if type(tree) is DICT else tree:
        cls = type(item)
        if cls is not Tensor and (_holds_collection(item) if cls in _CONTAINERS else isinstance(item, Collection)):
            return True
    return False


def _items(tree: Any, dims: Any) -> list[tuple[Any, Any]]:
    """Return the items of a container, each with its dimension. Arguments are a tuple."""
    container: object = tree
    cls = type(container)
    if cls is dict:
        if type(dims) is int:
            return [(item, dims) for item in tree.values()]
        if type(dims) is DICT and list(dims) == list(tree):  # torch matches by order, too
            return list(zip(tree.values(), dims.values(), strict=True))
    elif cls is tuple or cls is list:
        if type(dims) is int:
            return [(item, dims) for item in tree]
        given: list[Any] = [*dims] if type(dims) is cls else []
        if len(given) == len(tree):
            return list(zip(tree, given, strict=True))
    raise _Unusual


def _container_like(tree: Any, items: list[Any]) -> Any:
    """Return a container of the same class and keys with other items."""
    container: object = tree
    cls = type(container)
    return dict(zip(tree, items, strict=True)) if cls is dict else items if cls is list else tuple(items)


def _mapped_size(args: tuple[Any, ...], in_dims: Any) -> int | None:
    """Return the size of the mapped dimension; ``None`` if the arguments do not fit together, or are unusual."""
    sizes: list[int] = []
    try:
        if not _note_sizes(args, in_dims, sizes):
            return None
    except _Unusual:
        return None
    first = sizes[0]
    for size in sizes:
        if size != first:
            return None
    return first


def _note_sizes(arg: Any, dim: Any, sizes: list[int]) -> bool:
    """Append the sizes of the mapped dimensions. Return whether there are tensors that have them."""
    if dim is None:
        return False
    if type(dim) is int:
        if isinstance(arg, Tensor):
            ndim = arg.ndim
            if not -ndim <= dim < ndim:
                raise _Unusual
            sizes.append(arg.shape[dim])
            return True
        if isinstance(arg, Collection):
            sizes.append(arg._batch_size[_batch_dim(arg, dim, 0)])
            return has_tensors(arg)
    found = False
    for item, below in _items(arg, dim):
        found = _note_sizes(item, below, sizes) or found
    return found


def _batch_dim(node: Collection, dim: int, more: int) -> int:
    """Return the batch dimension that a dimension of all values is.

    ``more`` is 1 if it is the position of a new dimension, else 0.
    """
    ndim = len(node._batch_size) + more
    if dim < 0:  # counted from the end, so it is a different dimension in values with different ndim
        ndims = _ndims(node)
        if len(ndims) != 1:
            raise _Unusual
        dim += ndims.pop() + more
    if not 0 <= dim < ndim:
        raise _Unusual
    return dim


def _ndims(node: Collection) -> set[int]:
    """Return the numbers of dimensions of the tensors in a tree."""
    store: Any = node._now()
    if type(store) is not DICT:
        raise _Unusual
    found: set[int] = set()
    for value in store.values():
        found |= {value.ndim} if isinstance(value, Tensor) else _ndims(value)
    return found


def _inputs(args: tuple[Any, ...], in_dims: Any, level: int) -> Any:
    """Return the arguments as the function sees them; ``None`` if that needs pytrees."""
    try:
        return _input(args, in_dims, level)
    except _Unusual:
        return None


def _input(arg: Any, dim: Any, level: int) -> Any:
    if isinstance(arg, Tensor):
        return arg if dim is None else functorch._add_batch_dim(arg, dim if dim >= 0 else dim + arg.ndim, level)
    if isinstance(arg, Collection):
        return _again(arg) if dim is None else _without(arg, _batch_dim(arg, dim, 0), level)
    if dim is None:
        return _pytree.tree_map(_same, arg)
    return _container_like(arg, [_input(item, below, level) for item, below in _items(arg, dim)])


def _output(result: Any, dim: Any, level: int, size: int) -> Any:
    """Return the result as the caller sees it."""
    if type(dim) is int:
        if isinstance(result, Tensor):
            return functorch._remove_batch_dim(result, level, size, dim)
        if isinstance(result, Collection):
            return _with(result, _batch_dim(result, dim, 1), level, size)
    return _container_like(result, [_output(item, below, level, size) for item, below in _items(result, dim)])


def _same(leaf: Any) -> Any:
    return leaf


# -- collections ------------------------------------------------------------------------------------------------------


def _made(node: Any) -> tuple[Any, Any]:
    """Return an empty collection of a node's class on a plain dict, with device and objects; and the node's values."""
    form = NODE_CLASSES.get(node.__class__)
    if form is None:
        return _made(_stacked(node))
    new: Any = object.__new__(form[0] or getattr(node, "_dense", node.__class__))
    new._device = node._device
    new._lock = None
    for slot in form[1]:
        setattr(new, slot, getattr(node, slot))
    for slot, content in form[2].items():
        setattr(new, slot, content)
    return new, node._now()


def _stacked(node: Any) -> Any:
    """Return a lazy stack with its values stacked, as pytrees flatten it."""
    if not hasattr(node, "_densified"):
        raise _Unusual
    try:
        return node._densified()
    except RecursionError:
        raise
    except RuntimeError:  # its values have different shapes
        pass
    raise _Unusual


def _again(node: Any) -> Any:
    """Copy a collection that is not mapped, so that the function can set keys in its own."""
    if node._tensor_of_all_rows() is not None:
        return node._shallow()
    new, store = _made(node)
    new._store = {key: value if isinstance(value, Tensor) else _again(value) for key, value in store.items()}
    new._batch_size = node._batch_size
    new._names = node._names
    return new


def _without(node: Any, dim: int, level: int) -> Any:
    """Return a collection in which a vmap hides a batch dimension. An unbatched tensor is shared by all rows."""
    if node._tensor_of_all_rows() is not None:
        size = Size(shapes.without(node._batch_size, (dim,)))
        return node._like({}, size, node._names and shapes.names_without(node._names, (dim,)))
    new, store = _made(node)
    hide = functorch._add_batch_dim
    new._store = {
        key: hide(value, dim, level) if isinstance(value, Tensor) else _without(value, dim, level)
        for key, value in store.items()
    }
    size, names = node._batch_size, node._names
    new._batch_size = Size((*size[:dim], *size[dim + 1 :])) if dim else size[1:]
    new._names = names and shapes.names_without(names, (dim,))
    return new


def _with(node: Any, dim: int, level: int, count: int) -> Any:
    """Return a collection with the dimension that a vmap hid as a batch dimension."""
    show = functorch._remove_batch_dim
    if (held := node._tensor_of_all_rows()) is not None:
        if functorch.is_batchedtensor(held) and functorch.maybe_get_level(held) == level:  # the rows differ
            return show(node._expanded(), level, count, dim)
        size = shapes.inserted(node._batch_size, dim, count)
        return node._like({}, size, node._names and shapes.names_inserted(node._names, dim))
    new, store = _made(node)
    new._store = {
        key: show(value, level, count, dim) if isinstance(value, Tensor) else _with(value, dim, level, count)
        for key, value in store.items()
    }
    size, names = node._batch_size, node._names
    new._batch_size = Size((*size[:dim], count, *size[dim:])) if dim else Size((count, *size))
    new._names = names and shapes.names_inserted(names, dim)
    if not node._is_tree():
        node._show_content(new, dim, level, count)
    return new


# -- installation -----------------------------------------------------------------------------------------------------


#: number of arguments of torch's functions that are called here
_ARITIES = (
    (_predispatch, "_add_batch_dim", 3),  # the arguments of the C functions behind them
    (_predispatch, "_remove_batch_dim", 4),
    (_predispatch, "_vmap_increment_nesting", 2),
    (_predispatch, "_vmap_decrement_nesting", 0),
    (_predispatch, "lazy_load_decompositions", 0),
    (_torch_vmap, "_check_out_dims_is_int_or_int_pytree", 2),
    (_torch_vmap, "_unwrap_batched", 5),
)


def _fits() -> bool:
    """Return whether torch's vmap is the one known here: how it looks up its implementation, and what that calls."""
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
    """Put :func:`_mapped` in front of torch's implementation. Return whether this version of torch allows it."""
    if not _fits():
        return False
    _apis.vmap_impl = _mapped
    return True
