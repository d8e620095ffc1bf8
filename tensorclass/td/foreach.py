"""Foreach kernels: one call for many tensors, also if some items of the list are collections.

If the list contains a nested collection, torch passes the call on to ``__torch_function__``, and
:func:`foreach_over_trees` then makes one call for the tensors of all levels. So the plain case never checks whether a
value is nested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorclass.support.printable import type_name

from . import in_place_checks, native
from .collection import Collection, has_no_numbers
from .hidden_members import member_values
from .stack_and_cat import _append_dims
from .tracing import kernels_run

if TYPE_CHECKING:
    from .collection import Store

#: a foreach kernel -> the tensor method that does the same
SINGLE: dict[Callable[..., Any], str] = {}
#: the kernels that write into the tensors of their first list and can fail because one does not fit
IN_PLACE: set[Callable[..., Any]] = set()


def kernel_of(name: str) -> Callable[..., Any]:
    """Return the foreach kernel of a name, and register it."""
    kernel: Callable[..., Any] = getattr(torch, f"_foreach_{name}")
    # for one tensor clamp_min and clamp_max do the same, also in place and with numbers
    SINGLE[kernel] = name.replace("maximum", "clamp_min").replace("minimum", "clamp_max")
    if name.endswith("_") and name != "zero_":  # zero_ fits every tensor
        IN_PLACE.add(kernel)
    native.tell("bind_function", kernel, SINGLE[kernel])
    return kernel


def is_undispatched(error: Exception) -> bool:
    """Return whether an error says that torch has no kernel for these tensors, so nothing was computed or written.

    That happens for nested tensors, inside ``vmap``, for tensor subclasses that do not support the kernel, or if such a
    subclass answers for collections in the list. It also happens if integers stand beside tensors that require
    gradients: the results of one kernel call have autograd history either all or none.
    """
    text = str(error)
    return (
        isinstance(error, NotImplementedError)
        or "Batching rule not implemented" in text
        or "expected Tensor as element" in text
        or "__torch_dispatch__ handlers returned NotImplemented" in text
        or "Autograd not support dtype" in text
    )


def foreach_over_trees(kernel: Callable[..., Any], first: list[Any], *rest: Any, **kwargs: Any) -> Any:
    """Call a foreach kernel on a list with collections among its items, once for the tensors of all of them."""
    leaves: list[Tensor] = []
    lists_of: list[Any] = [arg for arg in rest if isinstance(arg, (list, tuple))]
    lists: list[list[Any]] = [[] for _ in lists_of]
    items = [*first]
    for position, item in enumerate(items):
        operands: list[Any] = [arg[position] for arg in lists_of]
        if isinstance(item, Collection):
            items[position] = item = item._captured(leaves)
            for target, operand in zip(lists, operands, strict=True):
                target.extend(aligned_operands(item, operand))
        else:
            leaves.append(item)
            for target, operand in zip(lists, operands, strict=True):
                target.append(require_leaf(operand))
    flat = iter(lists)
    args = [next(flat) if isinstance(arg, (list, tuple)) else arg for arg in rest]
    if SINGLE[kernel][-1] == "_":
        if leaves:
            run_kernel(kernel, leaves, args, kwargs)
        written = iter(leaves)
        for item in items:
            if isinstance(item, Collection):
                item._put_leaves(written)
            else:
                next(written)
        return None
    results = iter(run_kernel(kernel, leaves, args, kwargs) if leaves else ())
    return [item._with_leaves(results) if isinstance(item, Collection) else next(results) for item in items]


def aligned_operands(tree: Any, operand: Any) -> Iterator[Any]:
    """Yield the operand's tensors, one for each leaf of ``tree``, in the order of its leaves."""
    if not tree._is_tree():
        yield from tree._own_operands(operand)
        return
    if not isinstance(operand, Collection):
        if not isinstance(operand, Tensor) or not operand.ndim:
            # a 0-dimensional tensor takes part in type promotion as a number, so its shape must not change
            for _ in tree._leaves():
                yield operand
            return
        operand = _append_dims(operand, len(tree._batch_size))
    parts = tree._aligned_parts(operand)
    if parts is not None:
        for part, own in parts:
            if isinstance(own, Tensor) and not own.ndim:
                # a slice of a tensor with dimensions, whose dtype torch promotes to; without any it would not
                for leaf in part._leaves():
                    yield own.reshape((1,) * leaf.ndim)
            else:
                yield from aligned_operands(part, own)
        return
    if isinstance(operand, Tensor):
        for value in tree._now().values():
            if isinstance(value, Collection):
                yield from aligned_operands(value, operand)
            else:
                yield _append_dims(operand, value.ndim)
        return
    ours, theirs = tree._now(), operand._now()
    if ours.keys() != theirs.keys():
        raise keys_differ(ours, theirs)
    for key, value in ours.items():
        if isinstance(value, Collection):
            yield from aligned_operands(value, theirs[key])
        else:
            yield require_leaf(theirs[key])


def require_leaf(operand: Any) -> Any:
    """Return the operand. Raise if it is a collection."""
    if isinstance(operand, Collection):
        raise TypeError(f"one of the two collections has a tensor where the other has a {type_name(operand)}")
    return operand


def keys_differ(left: Store, right: Store) -> KeyError:
    """Return the error for two stores with different keys."""
    ours, theirs = sorted(left.keys() - right.keys()), sorted(right.keys() - left.keys())
    return KeyError(
        f"the two collections differ in their keys: only the first has {ours}, only the second has {theirs}; "
        "select() the common keys, or pass default= a value (or 'intersection') to a method such as .add()"
    )


def run_kernel(kernel: Callable[..., Any], values: list[Any], args: Any = (), kwargs: Any = {}) -> Any:  # noqa: B006
    """Call the kernel on the values. If it does not support them, call the method of each value instead."""
    if kernels_run():
        if kernel in IN_PLACE and not in_place_checks.check(SINGLE[kernel], values, args, kwargs):
            return foreach_over_trees(kernel, values, *args, **kwargs)
        try:
            return kernel(values, *args, **kwargs)
        except (RuntimeError, TypeError) as error:
            if not is_undispatched(error):
                raise
    return call_methods(kernel, values, args, kwargs)


def call_methods(kernel: Callable[..., Any], values: list[Any], args: Any, kwargs: Any) -> list[Any]:
    """Call the method of each value that a kernel corresponds to."""
    name = SINGLE[kernel]
    columns: list[list[Any]] = [arg if arg.__class__ is list else [arg] * len(values) for arg in args]
    return [
        value._shallow() if has_no_numbers(value) else getattr(value, name)(*row, **kwargs)
        for value, *row in zip(member_values(values), *columns)  # noqa: B905
    ]
