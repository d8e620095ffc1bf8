"""Factories of point-wise methods: ``unary``, ``binary`` and others, with docstrings and types for checkers.

The table of operations, which calls them, is in :mod:`tensorclass.td.pointwise`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

from . import native
from .collection import Collection, call_on_value
from .foreach import kernel_of, run_kernel

if TYPE_CHECKING:
    from .pointwise import Pointwise

C = TypeVar("C", bound="Pointwise")
R = TypeVar("R", covariant=True)

# ---------------------------------------------------------------------------------------------------------------------
# signatures of the table, for type checkers


class Unary(Protocol):
    """``data.f()``."""

    def __get__(self, instance: C, owner: Any) -> Callable[[], C]: ...


class BoundBinary(Protocol[R]):
    def __call__(self, other: Collection | Tensor | complex, *, default: Any = None) -> R: ...


class Binary(Protocol):
    """``data.f(other, default=)``."""

    def __get__(self, instance: C, owner: Any) -> BoundBinary[C]: ...


class BoundBinaryInPlace(Protocol[R]):
    def __call__(self, other: Collection | Tensor | complex) -> R: ...


class BinaryInPlace(Protocol):
    """``data.f_(other)``."""

    def __get__(self, instance: C, owner: Any) -> BoundBinaryInPlace[C]: ...


# ---------------------------------------------------------------------------------------------------------------------
# docstrings of the table

#: elements of the examples
POSITIVE, SIGNED, INTEGERS, BOOLEANS = "[0.25, 1.0]", "[-1.5, 2.0]", "[1, 6]", "[True, False]"
WITH_INFINITY = "[0.0, float('inf')]"
#: summary, result and elements of the example of each entry, which its form in place shares
_TEXTS: dict[str, tuple[str, str, str]] = {}

_OTHER = """
    other: a number, a tensor that broadcasts to the batch size and is aligned with the batch dimensions of each
        value, or a collection with the same keys."""
_DEFAULT = """
    default: a number or a tensor, the value of a key that only one of two collections has. ``"intersection"``
        drops such keys. Default: both collections must have the same keys."""
_NEW = "A collection of the same class, keys and batch size. Non-tensor data is kept."
_KEYS_DIFFER = """
    KeyError: the keys of two collections differ.
    TypeError: ``other`` is not a collection, tensor or number, or torch takes no number here.
    RuntimeError: shapes do not broadcast, or torch does not take these dtypes."""
_NOT_WRITABLE = """
    RuntimeError: torch cannot write the result: the dtype does not fit, or a leaf requires a gradient."""


def _document(
    method: Any, name: str, text: tuple[str, str, str], other: str | None = None, default: bool = True
) -> Any:
    """Give a method its name and docstring.

    Args:
        method: the function.
        name: of the method; one in place ends in an underscore.
        text: summary, result of the example, and the elements that it starts from.
        other: the operand in the example, for methods that take one.
        default: whether the method takes ``default=``.
    """
    summary, result, values = text
    in_place = name[-1] == "_"
    sections = [f"{summary}, {'in place' if in_place else 'element by element'}; ``torch.{name.rstrip('_')}``."]
    if other is not None:
        sections.append(f"Args:{_OTHER}{_DEFAULT if default else ''}")
    sections.append(f"Returns:\n    {'This collection.' if in_place else _NEW}")
    if in_place or other is not None:
        sections.append(f"Raises:{_KEYS_DIFFER if other is not None else ''}{_NOT_WRITABLE if in_place else ''}")
    sections.append(f"""Example:
    >>> import torch
    >>> from tensorclass import TensorDict
    >>> data = TensorDict({{"x": torch.tensor({values})}}, batch_size=[2])
    >>> data.{name}({other or ""})["x"]
    tensor({result})
""")
    method.__name__ = name
    method.__qualname__ = f"Pointwise.{name}"
    method.__doc__ = "\n\n".join(sections)
    return method


def _text(name: str, summary: str, result: str, values: str) -> tuple[str, str, str]:
    """Keep the text of an entry for its form in place, which follows it in the table and gives none of its own."""
    if summary:
        _TEXTS[name] = summary, result, values
    return _TEXTS[name if summary else name[:-1]]


# ---------------------------------------------------------------------------------------------------------------------
# functions that make the methods


def unary(name: str, summary: str, result: str, values: str = POSITIVE) -> Unary:
    """The method for a function of one tensor that has a foreach kernel.

    Args:
        name: of the method and of the torch function.
        summary: start of its docstring.
        result: of its example.
        values: the elements in its example.
    """
    kernel = kernel_of(name)

    @native.tries("unary", kernel)
    def method(self: Pointwise) -> Pointwise:
        store = {**self._store}
        if store:
            store.update(zip(store, run_kernel(kernel, [*store.values()])))  # noqa: B905
        return self._same(store)

    made: Unary = _document(method, name, _text(name, summary, result, values))
    return made


def unary_(name: str, summary: str = "", result: str = "", values: str = POSITIVE) -> Unary:
    """The method for a function of one tensor in place that has a foreach kernel. See :func:`unary`.

    The text is by default that of the entry without the underscore, which precedes it.
    """
    kernel = kernel_of(name)

    @native.tries("unary_", kernel)
    def method(self: Pointwise) -> Pointwise:
        if self._store:
            run_kernel(kernel, [*self._now().values()])
        return self

    made: Unary = _document(method, name, _text(name, summary, result, values))
    return made


def single(name: str, summary: str, result: str, values: str = POSITIVE) -> Unary:
    """The method for a function of one tensor that has no foreach kernel. See :func:`unary`."""
    function: Callable[..., Any] = getattr(torch, name)
    native.tell("bind_function", function, name)

    @native.tries("unary", function)
    def method(self: Pointwise) -> Pointwise:
        return self._same(
            {
                key: function(value) if value.__class__ is Tensor else call_on_value(function, value)
                for key, value in self._now().items()
            }
        )

    made: Unary = _document(method, name, _text(name, summary, result, values))
    return made


def binary(name: str, summary: str, result: str) -> Binary:
    """The method for a function of two operands that has a foreach kernel. See :func:`unary`."""
    kernel = kernel_of(name)

    def method(self: Pointwise, other: Any, *, default: Any = None) -> Pointwise:
        return self._binary(kernel, other, default)

    made: Binary = _document(method, name, _text(name, summary, result, "[1.0, 4.0]"), "2")
    return made


def binary_(name: str) -> BinaryInPlace:
    """The method for a function of two operands in place that has a foreach kernel. See :func:`unary_`."""
    kernel = kernel_of(name)

    def method(self: Pointwise, other: Any) -> Pointwise:
        return self._binary_(kernel, other)

    made: BinaryInPlace = _document(method, name, _text(name, "", "", ""), "2", default=False)
    return made


def pairwise(name: str, summary: str, result: str, values: str = "[1.0, 4.0]", other: str = "2") -> Binary:
    """The method for a function of two operands that has no foreach kernel. See :func:`unary`.

    ``other`` is the operand in the example.
    """
    function: Callable[..., Any] = getattr(torch, name)
    native.tell("bind_function", function, name)

    def method(self: Pointwise, other: Any, *, default: Any = None) -> Pointwise:
        return self._pairwise(function, other, default)

    made: Binary = _document(method, name, _text(name, summary, result, values), other)
    return made
