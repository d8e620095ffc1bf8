"""Convert and check values that are written to a collection.

Values are checked only here. Operations whose results are right by construction never come here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.exact_types import DICT
from tensorclass.support.help_links import help_link
from tensorclass.support.printable import printable, type_name

from . import native, registry, shapes
from .collection import Collection
from .first_class_dims import is_bound
from .hidden_members import with_members
from .keys import NestedKey, dotted, unravel_key_to_tuple
from .tracing import knows_addresses

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .base import TensorCollection
    from .collection import Value


class Misfit(Exception):
    """The value does not fit its key."""

    def __init__(self, key: tuple[str, ...], what: str) -> None:
        super().__init__(f"{dotted(key)}: {what}")
        self.key: tuple[str, ...] = key
        self.what: str = what

    def __reduce__(self) -> Any:
        return type(self), (self.key, self.what)

    def below(self, *path: str) -> Self:
        """Return the error of a collection that holds this one under a key.

        Args:
            path: the keys from the outer collection down to this one, outermost first.

        Returns:
            A new error of the same class. Its key begins with ``path``.

        Example:
            >>> from tensorclass.td.value_checks import Misfit
            >>> Misfit(("x",), "expected a tensor").below("a", "b").key
            ('a', 'b', 'x')
        """
        return type(self)((*path, *self.key), self.what)


class BatchMismatch(Misfit, RuntimeError):
    """A value does not have the batch size in front."""


class ShapeMismatch(Misfit, RuntimeError, ValueError):
    """A value cannot be written into the present one: it has another shape, or no data."""


class KindMismatch(Misfit, TypeError, ValueError):
    """A value cannot be written into the present one, for instance a collection or an object into a tensor."""


class ContainsItself(Misfit, ValueError):
    """A collection would be one of its own values, or below one."""


COPY_IT = "write a copy: .clone(False) makes one that shares the tensors"


class StridedNested(Misfit, TypeError, RuntimeError):
    """A value is a nested tensor of strided layout, which has no shape."""


def shape_of(value: Tensor | Collection, key: NestedKey) -> Size:
    """Return the shape of a value that is written to a key.

    Raises:
        StridedNested: it has none.
    """
    try:
        return value._batch_size if isinstance(value, Collection) else value.shape
    except RuntimeError:
        if is_strided_nested(value):
            raise strided_nested(key) from None
        raise


def is_strided_nested(value: object) -> bool:
    """Return whether a value is a nested tensor that torch made without ``layout=torch.jagged``."""
    return isinstance(value, Tensor) and value.is_nested and value.layout is torch.strided


def refuse_strided_nested(values: Mapping[str, object]) -> None:
    """Raise :class:`StridedNested` if one of the values is a nested tensor without a shape.

    Needed where there are no batch dimensions to compare: a comparison would fail anyway.
    """
    for key, value in values.items():
        if isinstance(value, Tensor) and value.is_nested and value.layout is torch.strided:
            raise strided_nested(key)


def strided_nested(key: NestedKey) -> StridedNested:
    """Return the error for a nested tensor without a shape."""
    return StridedNested(
        unravel_key_to_tuple(key),
        "a nested tensor of the strided layout has no shape, and few operations of torch take it; give it the jagged "
        "layout: torch.nested.as_nested_tensor(list(value.unbind()), layout=torch.jagged), or pad it: "
        "value.to_padded_tensor(0)",
    )


def explained(error: RuntimeError, values: Mapping[str, Any]) -> RuntimeError:
    """Return an error of a constructor, or its reason: a nested tensor without a shape among the values."""
    for key, value in values.items():
        if is_strided_nested(value):
            return strided_nested(key)
    return error


def all_begin_with(values: Iterable[object], size: Size) -> bool:
    """Return whether all values are plain tensors whose shapes begin with a batch size.

    One quick pass for the usual cases: slicing a ``torch.Size`` is slow, and most collections have one batch dimension.
    """
    ndim = len(size)
    try:
        if ndim == 1:
            rows = size[0]
            for value in values:
                if type(value) is not Tensor:
                    return False
                shape = value.shape
                if not shape or shape[0] != rows:
                    return False
        elif ndim:
            for value in values:
                if type(value) is not Tensor or value.shape[:ndim] != size:
                    return False
        else:
            for value in values:
                if type(value) is not Tensor or value.is_nested:
                    return False
    except RuntimeError:  # a strided nested tensor has no shape
        return False
    return True


_STRINGS = {str}


def have_plain_keys(values: Mapping[Any, object]) -> bool:
    """Return whether all keys are strings: none is nested."""
    return {*map(type, values)} <= _STRINGS


@native.tries("are_tensors_of")
def are_tensors_of(entries: Mapping[Any, Any], size: Size) -> bool:
    """Return whether there are only tensors whose shapes begin with a batch size, under strings."""
    return have_plain_keys(entries) and all_begin_with(entries.values(), size)


def contains_itself(owner: Collection, *path: str) -> ContainsItself:
    """Return the error for a value that is, or contains, the collection that it is written to."""
    name = type_name(owner)
    return ContainsItself(path, f"a {name} cannot be, or be below, one of its own values; {COPY_IT}")


def holds(collection: Collection, *stores: object) -> bool:
    """Return whether a collection, or one below it, has one of some stores. Compiled code does not look.

    Stores are compared, because two collections can share one.
    """
    if not knows_addresses():
        return False
    if _holds_only_tensors(collection):
        own = collection._store
        for store in stores:  # noqa: SIM110  (a generator would cost more than the loop)
            if own is store:
                return True
        return False
    wanted = {*map(id, stores)}
    below: list[Collection] = [collection]
    seen = {id(collection)}
    for node in below:  # grows during the loop
        store = node._store
        if id(store) in wanted:
            return True
        if type(store) is DICT:
            for value in [*store.values()]:
                if value.__class__ is not Tensor and isinstance(value, Collection) and id(value) not in seen:
                    seen.add(id(value))
                    below.append(value)
        for other in node._beside():
            if id(other) not in seen:
                seen.add(id(other))
                below.append(other)
    return False


def _holds_only_tensors(collection: Collection) -> bool:
    """Return whether a collection has only tensors below it, as most have."""
    store = collection._store
    if type(store) is not DICT or not collection._is_tree():
        return False
    for value in [*store.values()]:  # noqa: SIM110  (a generator would cost more than the loop)
        if value.__class__ is not Tensor:
            return False
    return True


def batch_mismatch(key: NestedKey, batch_size: Size, shape: Size) -> BatchMismatch:
    """Return the error for a value that does not have the batch size in front."""
    if any(size < 0 for size in batch_size):
        hint = "a batch size is given in numbers, none is inferred from -1"
    elif len(shape) < len(batch_size):
        hint = "give it that shape, for instance with .expand()"
    else:
        hint = "give batch_size= the leading dimensions that all values share"
    return BatchMismatch(
        unravel_key_to_tuple(key),
        f"batch dimension mismatch: expected batch dimensions {list(batch_size)} in front, got shape {list(shape)}; "
        f"{hint}{help_link('batch-mismatch')}",
    )


def fit(owner: Collection, key: str, value: Any, non_blocking: bool = False) -> Value:
    """Convert a value that is written to a key: to the owner's device, with the batch size checked.

    Tensors and collections keep their class. A mapping becomes a :class:`TensorDict`; numbers, arrays and (nested)
    sequences of numbers become tensors; everything else becomes non-tensor data.
    """
    batch_size, device = owner._batch_size, owner._device
    if isinstance(value, Tensor):
        if shape_of(value, key)[: len(batch_size)] != batch_size:
            raise batch_mismatch(key, batch_size, value.shape)
        if device is not None and value.device != device:
            return value.to(device, non_blocking=non_blocking)
        return value
    if isinstance(value, Collection):
        return fit_collection(owner, key, value, non_blocking)
    source: Any = value
    if type(value) is dict or isinstance(value, Mapping):
        try:
            made = registry.TensorDict(source, batch_size, device, _names(owner), non_blocking)
        except BatchMismatch as error:
            raise error.below(key) from None
        if holds(made, owner._store):
            raise contains_itself(owner, key)
        if made._names is not None:
            _agree_on_names(owner, key, made)
        return made
    tensor = as_tensor(value, device)
    if tensor is not None:
        if tensor.shape[: len(batch_size)] != batch_size:
            raise batch_mismatch(key, batch_size, tensor.shape)
        return tensor
    held = registry.non_tensor(value, batch_size, device, owner._names)
    return held if type(held) is registry.NonTensorData else fit_collection(owner, key, held, non_blocking)


def _names(owner: Collection) -> list[str | None] | None:
    return None if owner._names is None else list(owner._names)


def fit_collection(owner: Collection, key: str, value: Any, non_blocking: bool) -> TensorCollection:
    """Convert a nested collection; see :func:`fit`. Changes are made to a copy that shares its values."""
    batch_size, device = owner._batch_size, owner._device
    ndim = len(batch_size)
    result: TensorCollection = value
    if holds(value, owner._store):
        raise contains_itself(owner, key)
    if value._batch_size[:ndim] != batch_size:
        result = value._shallow()
        try:
            result._set_batch_size(batch_size)
        except RecursionError:
            raise
        except RuntimeError:
            raise batch_mismatch(key, batch_size, value._batch_size) from None
    if device is not None and result._device != device:
        result = with_members(result).to(device, non_blocking=non_blocking)
    if owner._names is not None or result._names is not None:
        names = _agree_on_names(owner, key, result)
        if names != result._names:
            result = result._shallow() if result is value else result
            result._check_names(names)
            result._set_names(names)
    return result


def _agree_on_names(owner: Collection, key: str, value: TensorCollection) -> shapes.Names:
    """Return the names of a nested collection: in front those of its owner, which takes them over if it has none."""
    ndim = len(owner._batch_size)
    front = shapes.names_fitted(value._names, ndim)
    if owner._names is None:
        if front is not None and value._is_tree():
            owner._check_names(front)
            owner._set_names(front)
        return value._names
    if front is not None and value._is_tree():
        for mine, other in zip(owner._names, front, strict=True):
            if other is not None and other is not mine and other != mine:
                raise RuntimeError(
                    f"{printable(key)}: expected a collection with the dimension names {list(owner._names)} in front, "
                    f"got {value._name_list()}; rename its dimensions, or remove their names with .rename(None)"
                )
    rest = value._names[ndim:] if value._names else (None,) * (len(value._batch_size) - ndim)
    return shapes.as_names(owner._names + rest, len(value._batch_size))


def is_array(value: object) -> TypeGuard[NDArray[Any]]:
    """Return whether a value is an array of numpy. Checkers know no dtype of one that ``isinstance`` tells."""
    return isinstance(value, np.ndarray)


def as_tensor(value: Any, device: torch.device | None = None) -> Tensor | None:
    """Convert a number, a numeric array, or a (nested) sequence of numbers, arrays or tensors to a tensor.

    Args:
        value: any object.
        device: device of the result.

    Returns:
        A tensor, which shares the memory of an array if the array is writable and the device is the CPU; ``None`` for
        everything else.

    Example:
        >>> as_tensor([1, 2])
        tensor([1, 2])
        >>> as_tensor("text") is None
        True
    """
    if isinstance(value, (bool, int, float, complex)):
        return torch.tensor(value, device=device)
    given = value
    if isinstance(value, (np.ndarray, np.generic)):
        return _array_as_tensor(np.asarray(given), device)
    if isinstance(value, (list, tuple)):
        first = level = given
        while isinstance(first, (list, tuple)) and level:
            first = level = level[0]
        try:  # the first item excludes most text and objects; the others raise below
            if isinstance(first, Tensor):
                return torch.stack(given).to(device) if first is given[0] else None
            if isinstance(first, (np.ndarray, np.generic)):
                return _array_as_tensor(np.asarray(given), device)
            if isinstance(first, (bool, int, float, complex, list, tuple)):
                return torch.as_tensor(given, device=device)
        except (ValueError, TypeError, RuntimeError):  # ragged, or mixed with objects
            return None
    return given if is_bound(given) else None


def _array_as_tensor(array: Any, device: torch.device | None) -> Tensor | None:
    if array.dtype.kind not in "biufc":
        return None
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    itemsize: int = array.itemsize
    if (
        not array.flags.writeable
        or any(stride < 0 or stride % itemsize for stride in array.strides)
        or (itemsize == 16 and array.ctypes.data % 16)  # torch's kernels crash on unaligned complex doubles
    ):
        array = array.copy()
    try:
        return torch.as_tensor(array, device=device)
    except TypeError:  # a dtype that torch does not have
        return None
