"""Compare the values of two collections in tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tensorclass.support.printable import type_name

from .buffer_operations import are_identical
from .collection import Collection, is_tree
from .keys import NestedKey, unravel_key_to_tuple

if TYPE_CHECKING:
    from .base import TensorCollection


def assert_close(
    actual: TensorCollection,
    expected: TensorCollection,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    intersection: bool = False,
    msg: str = "",
    prefix: NestedKey = (),
) -> bool:
    """Raise unless two collections have the same keys and close tensors.

    Text must be equal, and ragged rows must have equal lengths. Batch sizes, dimension names and objects are not
    compared. A record can be compared with a TensorDict.

    Args:
        actual: the collection to check.
        expected: the expected values.
        rtol: relative tolerance. Default: that of :func:`torch.testing.assert_close` for the dtype.
        atol: absolute tolerance. Default: likewise.
        equal_nan: treat NaN as equal to NaN. Default: ``True``.
        intersection: compare only keys that both collections have. Default: ``False``.
        msg: text to add to the error message.
        prefix: a nested key to put before the keys in error messages.

    Returns:
        ``True``.

    Raises:
        TypeError: an argument is not a collection.
        KeyError: the keys differ.
        AssertionError: values, shapes, dtypes or devices differ. The message names the key and the distance.

    Example:
        >>> from tensorclass import TensorDict, assert_close
        >>> assert_close(TensorDict({"a": 1.0}), TensorDict({"a": 1.0 + 1e-7}))
        True
    """
    if not isinstance(actual, Collection) or not isinstance(expected, Collection):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"assert_close: expected two collections, got a {type_name(actual)} and a {type_name(expected)}"
        )
    if equal_nan and rtol is None and atol is None and are_identical(actual, expected):
        return True
    path = unravel_key_to_tuple(prefix) if prefix else ()
    ours, theirs = actual._now(), expected._now()
    if not intersection and ours.keys() != theirs.keys():
        raise KeyError(
            f"assert_close: the keys{f' under {path}' if path else ''} differ: {sorted(ours.keys() - theirs.keys())} "
            f"are in the first collection only, {sorted(theirs.keys() - ours.keys())} in the second only"
        )
    for key, value in ours.items():
        if key not in theirs:
            continue
        other: Any = theirs[key]
        here = (*path, key)
        if isinstance(value, Tensor) and isinstance(other, Tensor):
            _assert_close(value, other, rtol, atol, equal_nan, msg, here)
        elif not isinstance(value, Tensor) and not isinstance(other, Tensor):
            if is_tree(value) and is_tree(other):
                assert_close(value, other, rtol, atol, equal_nan, intersection, msg, here)
            elif (why := value._row_mismatch(other)) is not None:
                raise AssertionError(f"key {here} does not match{f' ({msg})' if msg else ''}\n{why}")
            elif (held := value._wrapped_tensor()) is not None and (own := other._wrapped_tensor()) is not None:
                _assert_close(held, own, rtol, atol, equal_nan, msg, here)
        else:
            raise AssertionError(
                f"key {here} does not match: one is a {type_name(value)}, the other a {type_name(other)}"
            )
    return True


def _assert_close(
    value: Tensor,
    other: Tensor,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    msg: str,
    path: tuple[str, ...],
) -> None:
    def explained(reason: str) -> str:
        apart = ""
        if value.shape == other.shape and value.device == other.device and not value.is_meta:
            difference = (value.detach().to(torch.complex128) - other.detach().to(torch.complex128)).abs()
            apart = f", root mean squared difference {difference.pow(2).mean().sqrt().item():.4f}"
        return f"key {path} does not match{apart}{f' ({msg})' if msg else ''}\n{reason}"

    torch.testing.assert_close(value, other, rtol=rtol, atol=atol, equal_nan=equal_nan, msg=explained)


assert_allclose_td = assert_close
