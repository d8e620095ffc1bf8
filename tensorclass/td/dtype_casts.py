"""Casts to another dtype, and the dtypes of a collection."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, TypeVar, cast

import torch
from torch import Tensor
from typing_extensions import Self

from . import buffer_operations, native
from .collection import Collection
from .hidden_members import member_items, with_members

if TYPE_CHECKING:
    from .collection import Store

C = TypeVar("C", bound="Casts")
R = TypeVar("R", covariant=True)
#: called with the key (always a tuple) and the tensor; returns whether to cast it
CastFilter: TypeAlias = Callable[[Any, Tensor], builtins.bool]


class BoundCast(Protocol[R]):
    def __call__(self, *, cast_filter: CastFilter | None = None) -> R: ...


class Cast(Protocol):
    """The type of ``data.float()`` and its variants."""

    def __get__(self, instance: C, owner: Any) -> BoundCast[C]: ...


def _cast_method(name: str, dtype: torch.dtype) -> Cast:
    """Return the method that casts to one dtype."""

    def method(self: Casts, *, cast_filter: CastFilter | None = None) -> Casts:
        return with_members(self).type(dtype, cast_filter=cast_filter)

    method.__name__ = name
    method.__qualname__ = f"Casts.{name}"
    method.__doc__ = _cast_doc(name, dtype)
    return cast("Cast", method)


_CAST_DOC = """Cast the values to ``{dtype}``.

Args:
    cast_filter: called with the key (a tuple) and the tensor, returns whether to cast the tensor. Default: cast all.

Returns:
    A new collection, in which tensors that need no cast are shared.

{raises}Example:
    >>> from tensorclass import TensorDict
{example}
"""
_CAST = """\
    >>> TensorDict({{"a": 1}}).{name}()["a"].dtype
    {dtype}"""
_EXPERIMENTAL_CAST = """\
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")  # torch calls this dtype experimental
    ...     TensorDict({{"a": 1}}).{name}()["a"].dtype
    {dtype}"""
_QUANTIZED_CAST = """\
    >>> TensorDict({{"a": 1.0}}).{name}()
    Traceback (most recent call last):
        ...
    RuntimeError: empty_strided not supported on quantized tensors yet"""
_QUANTIZED_RAISES = """\
Raises:
    RuntimeError: a tensor is not quantized. Torch has no such cast: quantize it, for instance with
        ``torch.quantize_per_tensor``.

"""


def _cast_doc(name: str, dtype: torch.dtype) -> str:
    quantized = name.startswith("q")
    example = _QUANTIZED_CAST if quantized else _EXPERIMENTAL_CAST if dtype is torch.complex32 else _CAST
    raises = _QUANTIZED_RAISES if quantized else ""
    return _CAST_DOC.format(dtype=dtype, raises=raises, example=example.format(name=name, dtype=dtype))


class Casts(Collection):
    """``type``, ``float`` and its variants, ``dtype``."""

    __slots__ = ()

    #: whether a cast to a floating or complex dtype also casts integers and booleans
    _CASTS_INTEGERS: ClassVar[builtins.bool] = True

    if TYPE_CHECKING:

        def _to(
            self, device: Any, dtype: Any, non_blocking: Any, copy: Any, memory_format: Any, numbers: Any = True, /
        ) -> Self: ...

    @native.tries("type")
    def type(self, dst_type: torch.dtype, *, cast_filter: CastFilter | None = None) -> Self:
        """Cast the values to a dtype.

        Args:
            dst_type: the dtype. Records cast only floating and complex tensors to a floating or complex dtype.
            cast_filter: called with the key (a tuple) and the tensor, returns whether to cast the tensor. Default: cast
                all.

        Returns:
            A new collection, in which tensors that need no cast are shared.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1}).type(torch.float64)["a"]
            tensor(1., dtype=torch.float64)
        """
        if cast_filter is None:
            if self._lock is not None:
                made = buffer_operations.cast(self, _as_dtype(dst_type), self._CASTS_INTEGERS, "type", "_to")
                if made is not None:
                    return made  # type: ignore[no-any-return]
            if not self._CASTS_INTEGERS and is_inexact(dtype := _as_dtype(dst_type)):
                store: Store = {}
                for key, value in self._now().items():
                    if isinstance(value, Casts):
                        store[key] = value._to(None, dtype, False, False, None, False)
                    else:  # torch is faster with type() than with to()
                        store[key] = value.type(dtype) if value.is_floating_point() or value.is_complex() else value
                return self._same(store)
            return self._same({key: value.type(dst_type) for key, value in member_items(self._now())})
        return self._filtered_cast(dst_type, cast_filter, ())

    def _filtered_cast(self, dtype: torch.dtype, cast_filter: CastFilter, path: tuple[str, ...]) -> Self:
        store: Store = {}
        for key, value in self._now().items():
            if isinstance(value, Casts):
                store[key] = value._filtered_cast(dtype, cast_filter, (*path, key))
            else:
                store[key] = value.to(dtype) if cast_filter((*path, key), value) else value
        return self._same(store)

    double: Cast = _cast_method("double", torch.float64)
    float: Cast = _cast_method("float", torch.float32)
    half: Cast = _cast_method("half", torch.float16)
    int: Cast = _cast_method("int", torch.int32)
    bool: Cast = _cast_method("bool", torch.bool)
    bfloat16: Cast = _cast_method("bfloat16", torch.bfloat16)
    float16: Cast = _cast_method("float16", torch.float16)
    float32: Cast = _cast_method("float32", torch.float32)
    float64: Cast = _cast_method("float64", torch.float64)
    int8: Cast = _cast_method("int8", torch.int8)
    int16: Cast = _cast_method("int16", torch.int16)
    int32: Cast = _cast_method("int32", torch.int32)
    int64: Cast = _cast_method("int64", torch.int64)
    qint8: Cast = _cast_method("qint8", torch.qint8)
    qint32: Cast = _cast_method("qint32", torch.qint32)
    quint8: Cast = _cast_method("quint8", torch.quint8)
    quint4x2: Cast = _cast_method("quint4x2", torch.quint4x2)
    uint8: Cast = _cast_method("uint8", torch.uint8)
    uint16: Cast = _cast_method("uint16", torch.uint16)
    uint32: Cast = _cast_method("uint32", torch.uint32)
    uint64: Cast = _cast_method("uint64", torch.uint64)
    complex32: Cast = _cast_method("complex32", torch.complex32)
    complex64: Cast = _cast_method("complex64", torch.complex64)
    complex128: Cast = _cast_method("complex128", torch.complex128)

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype that all tensors share; ``None`` if they differ or there are none.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": torch.zeros(2), "b": torch.ones(2)}, [2]).dtype
            torch.float32
        """
        dtypes = {leaf.dtype for leaf in self._leaves()}
        return dtypes.pop() if len(dtypes) == 1 else None

    def is_floating_point(self) -> builtins.bool:
        """Return whether all tensors have a floating point dtype.

        Example:
            >>> from tensorclass import TensorDict
            >>> TensorDict({"a": 1.0}).is_floating_point(), TensorDict({"a": 1.0, "b": 1}).is_floating_point()
            (True, False)
        """
        return all(leaf.is_floating_point() for leaf in self._leaves())


def is_inexact(dtype: torch.dtype) -> builtins.bool:
    """Return whether a dtype is floating or complex."""
    return dtype.is_floating_point or dtype.is_complex


def _as_dtype(given: Any) -> torch.dtype:
    """Return the dtype of an argument of ``Tensor.type``: a dtype, ``"torch.HalfTensor"`` or ``torch.HalfTensor``."""
    if isinstance(given, torch.dtype):
        return given
    return cast("Tensor", torch.empty(0).type(given)).dtype
