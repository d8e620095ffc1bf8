"""Raise the errors of an in-place kernel before it has written to any tensor.

A foreach kernel works tensor by tensor: if it refuses the third, the first two have changed. It refuses dtypes that
cannot hold the result, and operands whose shape does not broadcast to the tensor. The first is tried by the same call
on one element, once for each combination of dtypes; the second follows from the shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .hidden_members import member_values
from .keys import dotted


def check(
    method: str, values: Sequence[Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> bool:
    """Raise what ``value.method(*operands)`` would raise for one of the values; whether all of them are tensors.

    Where a collection is among them, its tensors are to be checked on their own.

    Args:
        method: the name of a method of a tensor that works in place.
        values: the tensors.
        args: an operand for all values, or a list with one for each.
        kwargs: options of the method.
    """
    given: Any = args
    if len(args) == 1 and not kwargs and type(args[0]) in (int, float):  # a real number fits floating-point values
        for value in values:
            if type(value) is not Tensor or not value.dtype.is_floating_point:
                break
        else:
            return True
    if len(args) == 1 and not kwargs and type(args[0]) is list and alike(values, given[0]):
        return True
    if not args and False not in [value.is_floating_point() for value in member_values(values)]:
        return True  # functions of floating-point values give floating-point values
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            return False
        operands = [arg[i] if arg.__class__ is list else arg for arg in args]
        kinds: list[Any] = []
        for operand in operands:
            if isinstance(operand, Tensor):
                kinds.append(operand.dtype)
                if operand.is_meta and not value.is_meta:
                    raise RuntimeError(
                        f"{method}: an operand without data, on the device meta, cannot change a tensor on "
                        f"{value.device}; nothing was written"
                    )
                if operand.shape != value.shape and operand.ndim:
                    _check_shapes(method, value.shape, operand.shape)
            elif type(operand) in (int, float, bool, complex):
                kinds.append(operand)
            else:
                return True  # a symbolic number, or an operand that the kernel itself refuses
        others = any(isinstance(kind, torch.dtype) and kind is not value.dtype for kind in kinds)
        if others or not value.is_floating_point() or not _are_real(kinds):
            options = tuple((kwargs or {}).items())
            # 1 and 1.0 are equal, and the second may not fit where the first does
            types = tuple([kind.__class__ for kind in (*kinds, *[option for _, option in options])])
            _single(method, value.dtype, value.device, tuple(kinds), options, types)
    return True


def alike(values: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Return whether all are floating-point tensors of the dtype and shape of their operand: the most frequent case."""
    known: torch.dtype | None = None
    for value, operand in zip(values, operands):  # noqa: B905
        if type(value) is not Tensor or type(operand) is not Tensor:
            return False
        dtype = value.dtype
        if dtype is not known:
            if not dtype.is_floating_point:
                return False
            known = dtype
        if operand.dtype is not dtype or value.shape != operand.shape or operand.is_meta:
            return False
    return True


def check_history(path: tuple[str, ...], tensor: Tensor) -> None:
    """Raise for a write to a leaf that requires a gradient, or to a view of one, as torch would.

    Foreach kernels check all tensors before they write. Code that writes one by one calls this for tensors with
    ``requires_grad``, so that other tensors pay only for reading that flag.
    """
    if not torch.is_grad_enabled() or is_dynamo_compiling():
        return
    base: Tensor | None = tensor if tensor.is_leaf else tensor._base
    if base is not None and base.is_leaf and base.requires_grad:
        raise RuntimeError(
            f"{dotted(path)}: a leaf that requires a gradient, or a view of one, cannot be changed in place while "
            "gradients are recorded; do it under torch.no_grad(), or change a clone. Nothing was written"
        )


def _are_real(kinds: list[Any]) -> bool:
    return not any(kind.is_complex if isinstance(kind, torch.dtype) else type(kind) is complex for kind in kinds)


def _check_shapes(method: str, size: torch.Size, operand: torch.Size) -> None:
    fits = len(operand) <= len(size) and all(
        n in (1, m)
        for n, m in zip(reversed(operand), reversed(size))  # noqa: B905
    )
    if not fits:
        raise RuntimeError(
            f"{method}: an operand of shape {list(operand)} does not broadcast to the shape {list(size)} of the tensor "
            "that is changed in place; nothing was written"
        )


@lru_cache(maxsize=1024)
def _single(
    method: str,
    dtype: torch.dtype,
    device: torch.device,
    kinds: tuple[Any, ...],
    options: tuple[tuple[str, Any], ...],
    types: tuple[type, ...],
) -> None:
    """Dry-run the call on one element. Successes are cached, by the types of operands and options."""
    operands = [torch.ones(1, dtype=kind, device=device) if isinstance(kind, torch.dtype) else kind for kind in kinds]
    call: Callable[..., Any] = getattr(torch.ones(1, dtype=dtype, device=device), method)
    call(*operands, **dict(options))
