"""What ``print`` shows, and the options for it."""

from __future__ import annotations

import html
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from tensorclass.printable import printable

from .collection import Collection
from .dtypes import is_integer
from .values import is_strided_nested

#: what of the long form stands there: of collections, and of tensors
_SHOWN = {
    "show_batch_size": True,
    "show_device": True,
    "show_is_shared": True,
    "show_shape": True,
    "show_field_device": True,
    "show_dtype": True,
    "show_field_is_shared": True,
    "show_grad": False,
    "show_is_contiguous": False,
    "show_is_view": False,
    "show_storage_size": False,
    "plain": False,
}
#: those of them that the compact form has too
_IN_COMPACT = {"show_batch_size", "show_device", "show_dtype"}
_VERBOSE = ("show_device", "show_is_shared", "show_field_device", "show_dtype", "show_field_is_shared")
_WIDTH = 80

_OPTIONS: dict[str, Any] = {**_SHOWN, "sort_keys": "alphabetical", "compact": False, "html": True}


def get_printoptions() -> dict[str, Any]:
    """The options of ``print``, which :class:`set_printoptions` explains, with their values.

    >>> get_printoptions()["show_shape"]
    True
    """
    return dict(_OPTIONS)


class set_printoptions(ContextDecorator):
    """Sets what ``print`` shows of collections: in a ``with`` statement, as a decorator, or with ``set()`` for good.

    Args:
        verbose: ``False`` leaves devices, dtypes and ``is_shared`` out, but for those that a keyword asks for.
        show_batch_size: of collections.
        show_device: of collections.
        show_is_shared: of collections, whether all tensors are in shared memory.
        show_shape: of tensors; likewise ``show_field_device``, ``show_dtype``, ``show_field_is_shared``, and what is
            not shown at first: ``show_grad``, ``show_is_contiguous``, ``show_is_view`` and ``show_storage_size``.
        plain: show mean and standard deviation of floating point tensors, minimum and maximum of integers.
        sort_keys: ``"alphabetical"``, ``"insertion"``, or a function of the key, by whose results it is sorted; the
            fields of records have their order.
        compact: a tensor in a few characters, by dtype and shape behind the batch dimensions: ``f32[3]``. An option
            that only the long form has asks for the long form where this is not given.
        html: show a tree in notebooks, not the text.

    Raises:
        TypeError: there is no such option.

    >>> from tensorclass import TensorDict
    >>> with set_printoptions(compact=True):
    ...     print(TensorDict({"a": torch.zeros(3, 4), "b": {"text": "hello"}}, [3]))
    TensorDict(batch_size=[3], fields={a: f32[4], b: {text: str}})
    """

    def __init__(self, *, verbose: bool = True, **kwargs: Any) -> None:
        if unknown := kwargs.keys() - _OPTIONS.keys():
            raise TypeError(f"set_printoptions: there are no options {sorted(unknown)}; there are {list(_OPTIONS)}")
        sort_keys = kwargs.get("sort_keys")
        if not callable(sort_keys) and sort_keys not in ("alphabetical", "insertion", None):
            raise ValueError(f"sort_keys: expected 'alphabetical', 'insertion' or a function, got {sort_keys!r}")
        self.options: dict[str, Any] = dict(kwargs)
        if not verbose:
            self.options = dict.fromkeys(_VERBOSE, False) | self.options
        if kwargs.keys() & (_SHOWN.keys() - _IN_COMPACT):
            self.options.setdefault("compact", False)
        self._before: list[dict[str, Any]] = []

    def set(self) -> None:
        """Sets the options for the rest of the program."""
        _OPTIONS.update(self.options)

    def __enter__(self) -> Self:
        self._before.append(get_printoptions())
        self.set()
        return self

    def __exit__(self, *exc: object) -> None:
        _OPTIONS.update(self._before.pop())


class Printing(Collection):
    """``repr``: the fields with shape, dtype and device, not their content."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self._compact() if _OPTIONS["compact"] else self._long()

    def _long(self) -> str:
        fields = [f"{printable(key)}: {described(value)}" for key, value in self._items_for_repr()]
        body = ",".join("\n        " + field.replace("\n", "\n        ") for field in fields)
        parts = [f"\n    {part}" for part in (f"fields={{{body}}}", *self._facts())]
        return f"{type(self).__name__}({','.join(parts)})"

    def _facts(self) -> list[str]:
        """What the long form says of the collection itself."""
        facts: list[str] = []
        if _OPTIONS["show_batch_size"]:
            facts.append(f"batch_size={self._batch_size}")
        if _OPTIONS["show_device"]:
            facts.append(f"device={self._device}")
        if self._names is not None:
            facts.append(f"names={list(self._names)}")
        if _OPTIONS["show_is_shared"]:
            facts.append(f"is_shared={Printing.is_shared(self)}")
        return facts

    def _compact(self) -> str:
        facts: list[str] = []
        if _OPTIONS["show_batch_size"]:
            facts.append(f"batch_size={_sizes(self._batch_size)}")
        if _OPTIONS["show_device"] and self._device is not None:
            facts.append(f"device={self._device}")
        head = "".join(f"{fact}, " for fact in facts)
        fields = [f"{printable(key)}: {_short(value, self)}" for key, value in self._items_for_repr()]
        line = f"{type(self).__name__}({head}fields={{{', '.join(fields)}}})"
        if len(line) <= _WIDTH:
            return line
        return f"{type(self).__name__}({head}fields={{" + ",".join(f"\n    {field}" for field in fields) + "})"

    def _items_for_repr(self) -> Any:
        order: Any = _OPTIONS["sort_keys"]
        given: Any = order
        if callable(order):
            return sorted(self._store.items(), key=lambda item: given(item[0]))
        return sorted(self._store.items()) if order == "alphabetical" else self._store.items()

    def _repr_html_(self) -> str | None:
        """What notebooks show: a tree whose nested collections unfold. ``None``, which means the text, without it."""
        return _tree(self, "", True) if _OPTIONS["html"] and self._is_tree() else None

    def is_shared(self) -> bool:
        """Whether all tensors are in shared memory, or in files that are mapped to memory (CUDA tensors always are)."""
        leaves = list(self._leaves())
        shared = [_is_shared(leaf) for leaf in leaves]
        # a tensor without elements, which has no memory, is nothing to share; its name for that is lost on the way
        return any(shared) and all(one or _is_empty(leaf) for one, leaf in zip(shared, leaves, strict=True))


def _tree(data: Printing, label: str, is_open: bool) -> str:
    """A collection as HTML: a list that can be folded."""
    rows: list[str] = []
    for key, value in data._items_for_repr():
        name = html.escape(f"{printable(key)}: ")
        if isinstance(value, Printing) and value._is_tree():
            rows.append(_tree(value, name, False))
        else:
            text = _short(value, data) if _OPTIONS["compact"] else described(value)
            rows.append(f"{name}<small>{html.escape(text)}</small>")
    head = f"{label}<b>{type(data).__name__}</b> <small>{html.escape(', '.join(data._facts()))}</small>"
    items = "".join(f"<li>{row}</li>" for row in rows)
    begin = '<details open="">' if is_open else "<details>"
    return f"{begin}<summary>{head}</summary><ul>{items}</ul></details>"


def _is_shared(value: Any) -> bool:
    leaf = value
    try:
        if isinstance(value, Tensor) and value.is_nested and value.layout == torch.jagged:
            leaf = leaf.values()  # sent to another process, it does not know of its parts what they know
        shared: bool = isinstance(value, Tensor) and leaf.is_shared()
    except (NotImplementedError, RuntimeError):  # a tensor without memory of its own: inside vmap, sparse, nested
        return False
    return shared


def _is_empty(value: Tensor) -> bool:
    return not value.is_nested and not value.numel()


#: what is shown of a tensor: the option that asks for it, its name, and where it comes from
_FACTS: tuple[tuple[str, str, Callable[[Tensor], Any]], ...] = (
    ("show_shape", "shape", lambda value: "none, nested" if is_strided_nested(value) else value.shape),
    ("show_field_device", "device", lambda value: value.device),
    ("show_dtype", "dtype", lambda value: value.dtype),
    ("show_field_is_shared", "is_shared", lambda value: _is_shared(value)),
    ("show_grad", "requires_grad", lambda value: value.requires_grad),
    ("show_is_contiguous", "is_contiguous", lambda value: value.is_contiguous()),
    ("show_is_view", "is_view", lambda value: value._is_view()),
    ("show_storage_size", "storage_size", lambda value: value.untyped_storage().nbytes()),
)


def described(value: Any) -> str:
    """One value in a ``repr``: a tensor by its form, everything else by its own ``repr``."""
    if not isinstance(value, Tensor):
        own = getattr(value.__class__, "__repr__", None)  # a class of users can have one
        return value._long() if own is Printing.__repr__ else repr(value)
    shown = _OPTIONS
    facts = [f"{name}={fact(value)}" for option, name, fact in _FACTS if shown[option]]
    if shown["plain"] and not value.is_meta and value.numel():
        if value.is_floating_point():
            numbers = value.detach().to(torch.float64)
            std = float(numbers.std()) if numbers.numel() > 1 else float("nan")
            facts.append(f"mean={float(numbers.mean()):.4g}, std={std:.4g}")
        elif is_integer(value):
            facts.append(f"min={int(value.min())}, max={int(value.max())}")
    return f"{type(value).__name__}({', '.join(facts)})"


def _sizes(shape: Any) -> str:
    return f"[{','.join(str(size) for size in shape)}]"


def dtype_name(dtype: torch.dtype) -> str:
    """A dtype in a few characters.

    >>> dtype_name(torch.float32), dtype_name(torch.bool), dtype_name(torch.bfloat16)
    ('f32', 'bool', 'bf16')
    """
    name = str(dtype).removeprefix("torch.")
    for kind, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        if name.startswith(kind):
            return short + name.removeprefix(kind)
    return name


def _short(value: Any, owner: Collection) -> str:
    """One value in the compact form, in the terms of the collection that holds it."""
    if value is None:
        return "None"
    if not hasattr(value, "shape"):  # of a lazy stack whose parts do not stack
        return repr(value)
    rest = value.shape[len(owner._batch_size) :]
    if isinstance(value, Tensor):
        where = "" if value.device == (owner._device or torch.device("cpu")) else f"@{value.device}"
        return (dtype_name(value.dtype) if _OPTIONS["show_dtype"] else "") + _sizes(rest) + where
    if not value._is_tree():  # codes in its store: an object for each position
        return type(value).__name__ if value._store else type(value._unwrapped()).__name__
    name = type(value).__name__
    fields = ", ".join(f"{printable(key)}: {_short(item, value)}" for key, item in value._items_for_repr())
    return f"{'' if name == 'TensorDict' else name}{_sizes(rest) if rest else ''}{{{fields}}}"
