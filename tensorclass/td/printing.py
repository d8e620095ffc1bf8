"""``repr`` of collections, and its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tensorclass.support.printable import printable

from .collection import Collection
from .dtypes import is_integer
from .hidden_members import with_members
from .modes import Mode, ProgramSetting
from .value_checks import is_strided_nested

#: facts in the long form, of collections and of tensors, with their defaults
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
#: facts that the compact form has too
_IN_COMPACT = {"show_batch_size", "show_device", "show_dtype"}
_VERBOSE = ("show_device", "show_is_shared", "show_field_device", "show_dtype", "show_field_is_shared")
_WIDTH = 80

#: no ``with`` statement overrides the options for a thread alone, so they are read as ``_OPTIONS.everywhere``
_OPTIONS: Mode[dict[str, Any]] = Mode(
    "printoptions", {**_SHOWN, "sort_keys": "alphabetical", "compact": False, "html": True}
)


def get_printoptions() -> dict[str, Any]:
    """Return the current options of ``print``; see :class:`set_printoptions`.

    Example:
        >>> from tensorclass import get_printoptions
        >>> get_printoptions()["show_shape"]
        True
    """
    return dict(_OPTIONS.everywhere)


class set_printoptions(ProgramSetting["dict[str, Any]"]):
    """Set the options of ``print`` for collections: in a ``with`` block, as a decorator, or with ``set()`` for good.

    Args:
        verbose: ``False`` hides devices, dtypes and ``is_shared``, except those that a keyword asks for. Default:
            ``True``.
        show_batch_size: show the batch size of collections. Default: ``True``.
        show_device: show the device of collections. Default: ``True``.
        show_is_shared: show whether all tensors of a collection are in shared memory. Default: ``True``.
        show_shape: show the shape of tensors. Likewise ``show_field_device``, ``show_dtype`` and
            ``show_field_is_shared`` (default: ``True``), ``show_grad``, ``show_is_contiguous``, ``show_is_view`` and
            ``show_storage_size`` (default: ``False``).
        plain: show mean and standard deviation of floating-point tensors, minimum and maximum of integer tensors.
            Default: ``False``.
        sort_keys: ``"alphabetical"`` (default), ``"insertion"``, or a sort key, a function of the key. Records keep
            the order of their fields.
        compact: show a tensor by dtype and shape behind the batch dimensions: ``f32[3]``. Default: ``False``. An
            option that only the long form has selects the long form unless ``compact`` is given.
        html: show a tree in notebooks instead of text. Default: ``True``.

    Raises:
        TypeError: an option does not exist.
        ValueError: ``sort_keys`` is none of these.

    Example:
        >>> import torch
        >>> from tensorclass import TensorDict, set_printoptions
        >>> with set_printoptions(compact=True):
        ...     print(TensorDict({"a": torch.zeros(3, 4), "b": {"text": "hello"}}, [3]))
        TensorDict(batch_size=[3], fields={a: f32[4], b: {text: str}})
    """

    def __init__(self, *, verbose: bool = True, **kwargs: Any) -> None:
        super().__init__()
        options = _OPTIONS.everywhere
        if unknown := kwargs.keys() - options.keys():
            raise TypeError(f"set_printoptions: unknown options {sorted(unknown)}; expected some of {list(options)}")
        sort_keys = kwargs.get("sort_keys")
        if not callable(sort_keys) and sort_keys not in ("alphabetical", "insertion", None):
            raise ValueError(f"sort_keys: expected 'alphabetical', 'insertion' or a function, got {sort_keys!r}")
        self.options: dict[str, Any] = dict(kwargs)
        if not verbose:
            self.options = dict.fromkeys(_VERBOSE, False) | self.options
        if kwargs.keys() & (_SHOWN.keys() - _IN_COMPACT):
            self.options.setdefault("compact", False)

    def _mode_and_value(self) -> tuple[Mode[dict[str, Any]], dict[str, Any]]:
        return _OPTIONS, {**_OPTIONS.everywhere, **self.options}

    def set(self) -> None:
        """Set the options for the rest of the program.

        Example:
            >>> from tensorclass import get_printoptions, set_printoptions
            >>> set_printoptions(show_grad=True).set()
            >>> get_printoptions()["show_grad"]
            True
            >>> set_printoptions(show_grad=False).set()
        """
        super().set()


class Printing(Collection):
    """``repr``: shape, dtype and device of the fields, not their content."""

    __slots__ = ()

    def __repr__(self) -> str:
        return self._compact() if _OPTIONS.everywhere["compact"] else self._long()

    def _long(self) -> str:
        fields = [f"{printable(key)}: {value_repr(value)}" for key, value in self._items_for_repr()]
        body = ",".join("\n        " + field.replace("\n", "\n        ") for field in fields)
        parts = [f"\n    {part}" for part in (f"fields={{{body}}}", *self._facts())]
        return f"{type(self).__name__}({','.join(parts)})"

    def _facts(self) -> list[str]:
        """Return the facts about the collection itself in the long form."""
        facts: list[str] = []
        if _OPTIONS.everywhere["show_batch_size"]:
            facts.append(f"batch_size={self._batch_size}")
        if _OPTIONS.everywhere["show_device"]:
            facts.append(f"device={self._device}")
        if self._names is not None:
            facts.append(f"names={list(self._names)}")
        if _OPTIONS.everywhere["show_is_shared"]:
            facts.append(f"is_shared={Printing.is_shared(self)}")
        return facts

    def _compact(self) -> str:
        facts: list[str] = []
        if _OPTIONS.everywhere["show_batch_size"]:
            facts.append(f"batch_size={_sizes(self._batch_size)}")
        if _OPTIONS.everywhere["show_device"] and self._device is not None:
            facts.append(f"device={self._device}")
        head = "".join(f"{fact}, " for fact in facts)
        fields = [f"{printable(key)}: {_short(value, self)}" for key, value in self._items_for_repr()]
        line = f"{type(self).__name__}({head}fields={{{', '.join(fields)}}})"
        if len(line) <= _WIDTH:
            return line
        return f"{type(self).__name__}({head}fields={{" + ",".join(f"\n    {field}" for field in fields) + "})"

    def _items_for_repr(self) -> Any:
        order: Any = _OPTIONS.everywhere["sort_keys"]
        given: Any = order
        if callable(order):
            return sorted(self._store.items(), key=lambda item: given(item[0]))
        return sorted(self._store.items()) if order == "alphabetical" else self._store.items()

    def _repr_html_(self) -> str | None:
        """Return a tree with foldable nested collections for notebooks; ``None`` (use the text) if that is off."""
        return _tree(self, "", True) if _OPTIONS.everywhere["html"] and self._is_tree() else None

    def is_shared(self) -> bool:
        """Return whether all tensors are in shared memory or memory-mapped files. CUDA tensors always count.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.zeros(3)}, [3])
            >>> data.is_shared(), data.share_memory_().is_shared()
            (False, True)
        """
        leaves = list(self._arrays())
        shared = [_is_shared(leaf) for leaf in leaves]
        # a tensor without elements has no memory to share, and forgets that it was shared
        return any(shared) and all(one or _is_empty(leaf) for one, leaf in zip(shared, leaves, strict=True))


def _tree(data: Printing, label: str, is_open: bool) -> str:
    """Return a collection as a foldable HTML list."""
    import html  # costs 1 ms, and only notebooks need it

    rows: list[str] = []
    for key, value in data._items_for_repr():
        name = html.escape(f"{printable(key)}: ")
        if isinstance(value, Printing) and value._is_tree():
            rows.append(_tree(value, name, False))
        else:
            text = _short(value, data) if _OPTIONS.everywhere["compact"] else value_repr(value)
            rows.append(f"{name}<small>{html.escape(text)}</small>")
    head = f"{label}<b>{type(data).__name__}</b> <small>{html.escape(', '.join(data._facts()))}</small>"
    items = "".join(f"<li>{row}</li>" for row in rows)
    begin = '<details open="">' if is_open else "<details>"
    return f"{begin}<summary>{head}</summary><ul>{items}</ul></details>"


def _is_shared(value: Any) -> bool:
    leaf = value
    try:
        if isinstance(value, Tensor) and value.is_nested and value.layout == torch.jagged:
            leaf = leaf.values()  # a jagged tensor from another process does not report that its values are shared
        shared: bool = isinstance(value, Tensor) and leaf.is_shared()
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
    ("show_field_is_shared", "is_shared", lambda value: _is_shared(value)),
    ("show_grad", "requires_grad", lambda value: value.requires_grad),
    ("show_is_contiguous", "is_contiguous", lambda value: value.is_contiguous()),
    ("show_is_view", "is_view", lambda value: value._is_view()),
    ("show_storage_size", "storage_size", lambda value: value.untyped_storage().nbytes()),
)


def value_repr(value: Any) -> str:
    """Return one value of the long form: the facts of a tensor, the ``repr`` of anything else."""
    if not isinstance(value, Tensor):
        own = getattr(value.__class__, "__repr__", None)  # a user's record class can define its own
        return value._long() if own is Printing.__repr__ else repr(value)
    shown = _OPTIONS.everywhere
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
    """Abbreviate a dtype.

    Example:
        >>> import torch
        >>> dtype_name(torch.float32), dtype_name(torch.bool), dtype_name(torch.bfloat16)
        ('f32', 'bool', 'bf16')
    """
    name = str(dtype).removeprefix("torch.")
    for prefix, short in (("bfloat", "bf"), ("float", "f"), ("uint", "u"), ("int", "i"), ("complex", "c")):
        if name.startswith(prefix):
            return short + name.removeprefix(prefix)
    return name


def _short(value: Any, owner: Collection) -> str:
    """Return one value in the compact form: its shape behind the batch dimensions of ``owner``."""
    if value is None:
        return "None"
    if not hasattr(with_members(value), "shape"):  # in a lazy stack whose values have different shapes
        return repr(value)
    rest = with_members(value).shape[len(owner._batch_size) :]
    if isinstance(value, Tensor):
        where = "" if value.device == (owner._device or torch.device("cpu")) else f"@{value.device}"
        return (dtype_name(value.dtype) if _OPTIONS.everywhere["show_dtype"] else "") + _sizes(rest) + where
    if not value._is_tree():  # NonTensorStack has codes in its store
        return type(value).__name__ if value._store else type(value._unwrapped()).__name__
    name = type(value).__name__
    fields = ", ".join(f"{printable(key)}: {_short(item, value)}" for key, item in value._items_for_repr())
    return f"{'' if name == 'TensorDict' else name}{_sizes(rest) if rest else ''}{{{fields}}}"
