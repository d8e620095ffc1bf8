"""Prepare the operand of an operation for each value: a number, a tensor over the batch, or a collection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import type_name

from . import buffer_operations, in_place_checks, native, registry, shapes
from .collection import Collection, call_on_value, has_no_numbers
from .foreach import SINGLE, call_methods, is_undispatched, keys_differ, require_leaf, run_kernel
from .hidden_members import member_values, with_members
from .indexing import _broadcasts
from .stack_and_cat import _append_dims
from .tracing import kernels_run
from .value_checks import ShapeMismatch, is_strided_nested, strided_nested

if TYPE_CHECKING:
    from .collection import Store

_NUMBERS = frozenset((int, float, complex, bool))


class WiderOperand(RuntimeError):
    """A tensor operand does not broadcast to the batch size.

    ``size`` is the batch size that both broadcast to, if there is one: the batch size of a result that is not in place.
    """

    def __init__(self, batch_size: Size, shape: Size) -> None:
        try:
            self.size: Size | None = shapes.broadcast(shape, batch_size)
        except RuntimeError:
            self.size = None
        rest = "; for other shapes use .apply()"
        if self.size is not None:
            rest = f", because the result is written in place; the result of a new collection has {list(self.size)}"
        super().__init__(
            f"a tensor operand is aligned with the batch dimensions: expected a shape that broadcasts to "
            f"{list(batch_size)}, got {list(shape)}{rest}"
        )


def _with_shapes(data: Collection, other: Any, operands: Any, error: Exception) -> Exception:
    """Return the error about shapes that do not broadcast, which names them; the error of torch for other reasons."""
    if isinstance(other, Collection):
        try:
            shapes.broadcast(data._batch_size, other._batch_size)
        except RuntimeError:
            sizes = f"{list(data._batch_size)} and {list(other._batch_size)}"
            return RuntimeError(f"two collections of the batch sizes {sizes} do not broadcast to one size")
    if operands.__class__ is list:
        for (key, value), operand in zip(data._now().items(), operands, strict=False):
            if isinstance(value, Tensor) and isinstance(operand, Tensor):
                try:
                    shapes.broadcast(value.shape, operand.shape)
                except RuntimeError:
                    return RuntimeError(
                        f"{key}: the shapes {list(value.shape)} and {list(operand.shape)} do not broadcast to one shape"
                    )
    return error


class Operands(Collection):
    """The operations of two or three operands."""

    __slots__ = ()

    def _operands(self, other: Any, store: Store) -> Any:
        """Return ``other`` as a foreach kernel takes it: a list with one operand for each value, or a number.

        Return ``NotImplemented`` for anything else, as operators expect. ``store`` holds the values, as :meth:`_now`
        returns them.
        """
        if isinstance(other, Collection):
            theirs = other._now()
            if len(theirs) == len(store):
                try:
                    return [theirs[key] for key in store]
                except KeyError:
                    pass
            raise keys_differ(store, theirs)
        if isinstance(other, Tensor):
            return self._spread(other, store)
        if isinstance(other, (int, float, complex, torch.SymInt, torch.SymFloat)):
            return other
        source: Any = other
        if isinstance(other, Mapping):
            return self._operands(registry.TensorDict(source, self._batch_size), store)
        return NotImplemented

    def _in_place(self, kernel: Callable[..., Any], others: tuple[Any, ...], **kwargs: Any) -> Self:
        """Run a kernel in place with these operands."""
        store = self._now()
        operands = tuple(self._all_required(others, store))
        if store:
            try:
                run_kernel(kernel, [*store.values()], operands, kwargs)
            except RecursionError:
                raise
            except RuntimeError:
                self._same(store)._check_all_operands(others, operands)
                raise
        return self

    def _check_all_operands(self, others: tuple[Any, ...], operands: tuple[Any, ...]) -> None:
        """Raise an error that names the key if an operand does not fit a value."""
        for other, own in zip(others, operands, strict=True):
            if isinstance(other, Collection):
                self._check_operands(own, ())

    def _check_operand(self, operand: Collection, path: tuple[str, ...]) -> None:
        """Raise if a value of another collection cannot be combined in place with the value here."""
        store = self._now()
        operands: Any = self._required(operand, store)
        self._same(store)._check_operands(operands, path)

    def _check_operands(self, operands: list[Any], path: tuple[str, ...]) -> None:
        """Raise if an operand cannot be combined in place with its value."""
        for (key, value), operand in zip(self._now().items(), operands, strict=True):
            if isinstance(value, Operands):
                if value._is_tree() and isinstance(operand, Collection):
                    value._check_operand(operand, (*path, key))
            elif isinstance(require_leaf(operand), Tensor):
                if operand.is_meta and not value.is_meta:
                    raise ShapeMismatch((*path, key), "cannot be changed by an operand on the device meta")
                if not _broadcasts(operand.shape, value.shape):
                    raise ShapeMismatch(
                        (*path, key),
                        f"cannot be changed in place: expected an operand of the shape {list(value.shape)}, or of one "
                        f"that broadcasts to it, got {list(operand.shape)}; nothing was changed",
                    )

    def _required(self, other: Any, store: Store) -> list[Any] | complex | torch.SymInt | torch.SymFloat:
        """:meth:`_operands` that raises ``TypeError`` instead of returning ``NotImplemented``."""
        operands: list[Any] | complex | torch.SymInt | torch.SymFloat = self._operands(other, store)
        if operands is NotImplemented:
            raise TypeError(f"expected a collection, a tensor or a number, got {other!r} ({type_name(other)})")
        return operands

    def _all_required(self, others: tuple[Any, ...], store: Store) -> list[Any]:
        """:meth:`_required` for each of several operands. One that is given twice is read once."""
        first = self._required(others[0], store)
        return [first if other is others[0] else self._required(other, store) for other in others]

    def _spread(self, other: Tensor, store: Store) -> list[Any]:
        """Return a tensor over the batch for each value, with dimensions appended so that both broadcast."""
        ndim = len(self._batch_size)
        if is_strided_nested(other):
            raise strided_nested("operand")
        if other.ndim == 0:
            return [other] * len(store)
        try:
            fits = shapes.broadcast(other.shape, self._batch_size) == self._batch_size
        except RuntimeError:
            fits = False
        if not fits:
            raise WiderOperand(self._batch_size, other.shape)
        if other.ndim < ndim:
            other = other.reshape((1,) * (ndim - other.ndim) + other.shape)
        return [
            other.reshape(other.shape + (1,) * (value.ndim - ndim)) if value.ndim > ndim else other
            for value in member_values(store.values())
        ]

    def _expanded_for(self, error: WiderOperand) -> Self:
        """Return this collection expanded to the batch size of a result. Raise if it and the operand do not fit."""
        if error.size is None:
            raise error
        return with_members(self).expand(error.size)  # type: ignore[attr-defined, no-any-return]

    @native.tries("binary")
    def _binary(self, kernel: Callable[..., Any], other: Any, default: Any = None) -> Self:
        if default is not None and isinstance(other, Collection):
            return self._with_default(getattr(torch, SINGLE[kernel]), other, default)
        store = {**self._store}
        try:
            operands = self._required(other, store)
        except WiderOperand as error:
            return self._expanded_for(error)._binary(kernel, other)
        return self._computed(kernel, store, other, operands)

    @native.tries("binary")
    def _operate(self, kernel: Callable[..., Any], other: Any) -> Self:
        """Run ``kernel`` on the values and ``other``. Return ``NotImplemented`` for an invalid operand."""
        store = {**self._store}
        try:
            operands = other if type(other) in _NUMBERS else self._operands(other, store)
        except WiderOperand as error:
            return self._expanded_for(error)._operate(kernel, other)
        if operands is NotImplemented:
            return NotImplemented  # type: ignore[no-any-return]
        return self._computed(kernel, store, other, operands)

    def _computed(self, kernel: Callable[..., Any], store: Store, other: Any, operands: Any) -> Self:
        """Return the results of ``kernel`` on the values and their operands. They are put into ``store``, a copy."""
        if not store:
            return self._same(store)
        if kernels_run():
            try:
                store.update(zip(store, kernel([*store.values()], operands)))  # noqa: B905
                return self._same(store)
            except (RuntimeError, TypeError) as error:
                if not is_undispatched(error):
                    raise _with_shapes(self._same(store), other, operands, error) from None
        store.update(zip(store, call_methods(kernel, [*store.values()], (operands,), {})))  # noqa: B905
        return self._same(store)

    @native.tries("binary_")
    def _binary_(self, kernel: Callable[..., Any], other: Any) -> Self:
        if isinstance(other, Collection) and kernels_run():
            store = self._now()
            operands, values = self._operands(other, store), [*store.values()]
            if values and in_place_checks.alike(values, operands):  # the usual case
                try:
                    kernel(values, operands)
                    return self
                except (RuntimeError, TypeError) as error:
                    if not is_undispatched(error):
                        raise
        return self._in_place(kernel, (other,))

    def _pairwise(self, function: Callable[..., Any], other: Any, default: Any = None) -> Self:
        if default is not None and isinstance(other, Collection):
            return self._with_default(function, other, default)
        if self._lock is not None and isinstance(other, Collection):
            made: Self | None = buffer_operations.compared(function, self, other)
            if made is not None:
                return made
        return self._paired(function, other)

    @native.tries("binary")
    def _paired(self, function: Callable[..., Any], other: Any) -> Self:
        store = {**self._store}
        theirs = other._now() if isinstance(other, Collection) else None
        if theirs is not None and len(theirs) == len(store):
            try:
                return self._same(
                    {
                        key: function(value, theirs[key])
                        if value.__class__ is Tensor
                        else call_on_value(function, value, theirs[key])
                        for key, value in store.items()
                    }
                )
            except KeyError:
                if store.keys() != theirs.keys():
                    raise keys_differ(store, theirs) from None
                raise
        try:
            operands = self._required(other, store)
        except WiderOperand as error:
            return self._expanded_for(error)._pairwise(function, other)
        pairs = zip(store.items(), operands if type(operands) is list else repeat(operands))  # noqa: B905
        return self._same(
            {
                key: function(value, operand) if value.__class__ is Tensor else call_on_value(function, value, operand)
                for (key, value), operand in pairs
            }
        )

    def _with_default(self, function: Callable[..., Any], other: Collection, default: Any) -> Self:
        """Combine two collections whose keys may differ."""
        common = isinstance(default, str)
        if common and default != "intersection":
            raise ValueError(f"default: expected a number, a tensor or 'intersection', got {default!r}")
        if not common and not isinstance(default, Tensor):
            default = torch.as_tensor(default)
        store: Store = {}
        ours, theirs = self._now(), other._now()
        for key, value in ours.items():
            if key in theirs:
                operand = theirs[key]
                if isinstance(value, Operands) and isinstance(operand, Collection):
                    store[key] = value._with_default(function, operand, default)
                else:
                    store[key] = call_on_value(function, value, operand)
            elif has_no_numbers(value):
                store[key] = value
            elif not common:
                store[key] = function(
                    value, default if isinstance(value, Collection) else _broadcastable(default, value)
                )
        if not common:
            for key, operand in theirs.items():
                if key not in ours:
                    store[key] = _with_default_first(function, operand, default)
        return self._same(store)


def _with_default_first(function: Callable[..., Any], operand: Any, default: Any) -> Any:
    """Return ``function(default, operand)``, also for a tree."""
    if isinstance(operand, Collection):
        leaves: list[Tensor] = []
        operand = operand._captured(leaves)
        return operand._with_leaves(iter([_with_default_first(function, leaf, default) for leaf in leaves]))
    return function(_broadcastable(default, operand), operand)


def _broadcastable(default: Any, value: Tensor) -> Tensor:
    return _append_dims(default, value.ndim) if default.ndim else default
