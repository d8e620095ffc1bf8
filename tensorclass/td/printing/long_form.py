"""The long and the compact form of ``repr``: shapes, dtypes and devices, no values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorclass.support.printable import printable, type_name
from tensorclass.td.collection import Collection
from tensorclass.td.dtypes import is_integer
from tensorclass.td.hidden_members import with_members
from tensorclass.td.value_checks import is_strided_nested

from .print_options import OPTIONS

if TYPE_CHECKING:
    from .representations import Printing

_WIDTH = 80
_DTYPE_NAMES: dict[torch.dtype, str] = {}


def long_text(data: Printing) -> str:
    """Return the long form of a collection: class, fields, and facts about it."""
    fields = [f"{printable(key)}: {value_repr(value)}" for key, value in data._items_for_repr()]
    body = ",".join("\n        " + field.replace("\n", "\n        ") for field in fields)
    parts = [f"\n    {part}" for part in (f"fields={{{body}}}", *collection_facts(data))]
    return f"{type_name(data)}({','.join(parts)})"


def collection_facts(data: Printing) -> list[str]:
    """Return the facts about a collection itself in the long form."""
    shown, facts = OPTIONS.everywhere, list[str]()
    if shown["show_batch_size"]:
        facts.append(f"batch_size={data._batch_size}")
    if shown["show_device"]:
        facts.append(f"device={data._device}")
    if data._names is not None:
        facts.append(f"names={list(data._names)}")
    if shown["show_is_shared"]:
        facts.append(f"is_shared={all_shared(data)}")
    return facts


def compact_text(data: Printing) -> str:
    """Return the compact form of a collection: dtypes and shapes, in one line if it fits."""
    shown, facts = OPTIONS.everywhere, list[str]()
    if shown["show_batch_size"]:
        facts.append(f"batch_size={sizes_text(data._batch_size)}")
    if shown["show_device"] and data._device is not None:
        facts.append(f"device={data._device}")
    head = "".join(f"{fact}, " for fact in facts)
    fields = [f"{printable(key)}: {_short(value, data)}" for key, value in data._items_for_repr()]
    line = f"{type_name(data)}({head}fields={{{', '.join(fields)}}})"
    if len(line) <= _WIDTH:
        return line
    return f"{type_name(data)}({head}fields={{" + ",".join(f"\n    {field}" for field in fields) + "})"


def all_shared(data: Collection) -> bool:
    """Return whether all tensors of a collection are in shared memory."""
    leaves = list(data._leaves_and_buffers())
    shared = [is_shared_tensor(leaf) for leaf in leaves]
    # a tensor without elements has no memory to share, and forgets that it was shared
    return any(shared) and all(one or _is_empty(leaf) for one, leaf in zip(shared, leaves, strict=True))


def is_shared_tensor(value: Any) -> bool:
    """Return whether a tensor is in shared memory."""
    leaf = value
    try:
        if isinstance(value, Tensor) and value.is_nested and value.layout == torch.jagged:
            leaf = leaf.values()  # a jagged tensor from another process does not report that its values are shared
        shared: bool = isinstance(value, Tensor) and leaf.untyped_storage().is_shared()
    except (NotImplementedError, RuntimeError):  # no memory of its own: inside vmap, sparse, nested
        return False
    return shared


def _is_empty(value: Tensor) -> bool:
    return not value.is_nested and not value.numel()


#: facts about a tensor: option, name in the repr, and how to get it
_FACTS: tuple[tuple[str, str, Callable[[Tensor], Any]], ...] = (
    ("show_shape", "shape", lambda value: "none, nested" if is_strided_nested(value) else value.shape),
    ("show_field_device", "device", lambda value: value.device),
    ("show_dtype", "dtype", lambda value: value.dtype),
    ("show_field_is_shared", "is_shared", lambda value: is_shared_tensor(value)),
    ("show_grad", "requires_grad", lambda value: value.requires_grad),
    ("show_is_contiguous", "is_contiguous", lambda value: value.is_contiguous()),
    ("show_is_view", "is_view", lambda value: value._is_view()),
    ("show_storage_size", "storage_size", lambda value: value.untyped_storage().nbytes()),
)


def value_repr(value: Any) -> str:
    """Return one value of the long form: the facts of a tensor, the ``repr`` of anything else."""
    if not isinstance(value, Tensor):
        return value._long() if shows_fields(value) else printable(repr(value), lines=True)
    shown = OPTIONS.everywhere
    facts = [f"{name}={fact(value)}" for option, name, fact in _FACTS if shown[option]]
    if shown["plain"] and not value.is_meta and value.numel():
        if value.is_floating_point():
            numbers = value.detach().to(torch.float64)
            std = float(numbers.std()) if numbers.numel() > 1 else float("nan")
            facts.append(f"mean={float(numbers.mean()):.4g}, std={std:.4g}")
        elif is_integer(value):
            facts.append(f"min={int(value.min())}, max={int(value.max())}")
    return f"{type_name(value)}({', '.join(facts)})"


def shows_fields(value: object) -> bool:
    """Return whether a value is a collection with the ``repr`` of collections; a record class can define its own."""
    cls: type[Any] = value.__class__
    return getattr(cls, "__repr__", None) is getattr(cls, "_collection_repr", value)


def sizes_text(shape: Any) -> str:
    """Return sizes in brackets; ``*`` for one that differs between rows.

    >>> sizes_text(torch.Size([2, 3])), sizes_text(())
    ('[2,3]', '[]')
    """
    return f"[{','.join([str(size) for size in shape])}]"


def dtype_name(dtype: torch.dtype) -> str:
    """Abbreviate a dtype.

    Example:
        >>> import torch
        >>> dtype_name(torch.float32), dtype_name(torch.bool), dtype_name(torch.bfloat16)
        ('f32', 'bool', 'bf16')
    """
    if dtype not in _DTYPE_NAMES:
        _DTYPE_NAMES[dtype] = _short_name(str(dtype).removeprefix("torch."))
    return _DTYPE_NAMES[dtype]


def _short_name(name: str) -> str:
    for prefix, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        if name.startswith(prefix):
            return short + name.removeprefix(prefix)
    return name


def _short(value: Any, owner: Collection) -> str:
    """Return one value in the compact form: its shape after the batch dimensions of ``owner``."""
    if value is None:
        return "None"
    if not hasattr(with_members(value), "shape"):  # in a lazy stack whose values have different shapes
        return printable(repr(value))
    rest = with_members(value).shape[len(owner._batch_size) :]
    if isinstance(value, Tensor):
        where = "" if value.device == (owner._device or torch.device("cpu")) else f"@{value.device}"
        return (dtype_name(value.dtype) if OPTIONS.everywhere["show_dtype"] else "") + sizes_text(rest) + where
    if not value._is_tree():  # NonTensorStack has codes in its store
        return type_name(value) if value._store else type_name(value._unwrapped())
    name = type_name(value)
    fields = ", ".join(f"{printable(key)}: {_short(item, value)}" for key, item in value._items_for_repr())
    return f"{'' if name == 'TensorDict' else name}{sizes_text(rest) if rest else ''}{{{fields}}}"
