"""Reductions: over batch dimensions, over the features, over everything, or over all values into one tensor."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias, TypeVar, overload

import torch
from torch import Size, Tensor
from typing_extensions import NamedTuple, Self

from . import shapes
from .collection import Collection
from .keys import unravel_key_to_tuple

if TYPE_CHECKING:
    from .base import TensorCollection
    from .keys import NestedKey

    KeyTransform = Callable[[str], NestedKey | None]
    DType: TypeAlias = torch.dtype | None
    No: TypeAlias = Literal[False] | None
    V = TypeVar("V")

    class Extremes(NamedTuple, Generic[V]):
        """What torch gives as ``torch.return_types.max`` and its kin, of tensors or of collections."""

        values: V
        indices: V


_NOTHING: dict[str, Any] = {}
Dim: TypeAlias = int | Sequence[int] | Literal["feature"] | None

_vector_norm: Callable[..., Tensor] = torch.linalg.vector_norm  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class Reductions(Collection):
    """sum, mean, max and their kin. Non-tensor data stays where the batch size allows.

    All of them take the same arguments:

    Args:
        dim: batch dimensions to reduce over; ``"feature"`` for all dimensions behind the batch; ``None`` for all.
        keepdim: keep the reduced dimensions, with size 1.
        reduce: ``True`` gives one tensor, as if the values had been joined along the reduced dimensions first.
        key_transform: called with each name at each level, gives the key that the result has in its place (``None``:
            none); one tensor has no keys.
    """

    __slots__ = ()

    # -- the mechanism ------------------------------------------------------------------------------------------------

    def _reduce(self, function: Callable[..., Any], dim: Dim, keepdim: bool, kwargs: dict[str, Any]) -> Self:
        """``function(tensor, dims, **kwargs)`` for each tensor, ``kwargs`` with ``keepdim`` where it is true."""
        ndim = len(self._batch_size)
        if keepdim and "keepdim" not in kwargs:
            kwargs = {**kwargs, "keepdim": True}
        if dim is None:
            size = Size((1,) * ndim) if keepdim else Size(())
            return self._like(
                {
                    key: value._reduce(function, None, keepdim, kwargs)
                    if isinstance(value, Reductions)
                    else function(value, tuple(range(value.ndim)), **kwargs)
                    for key, value in self._store.items()
                },
                size,
                self._names if keepdim else None,
            )
        if isinstance(dim, str):
            if dim != "feature":
                raise TypeError(f"dim: expected ints, 'feature' or None, got {dim!r}; a dimension is no name here")
            return self._same(
                {
                    key: value._reduce(function, dim, keepdim, kwargs)
                    if isinstance(value, Reductions)
                    else function(value, tuple(range(ndim, value.ndim)), **kwargs)
                    for key, value in self._store.items()
                }
            )
        dims = shapes.wrap_dims(dim, ndim)
        if not dims and function is not _ALL and function is not _ANY:  # no dims are all of them, as in torch
            return self._reduce(function, None, keepdim, kwargs)
        which: int | tuple[int, ...] = dims[0] if len(dims) == 1 else dims
        if dims:
            function = getattr(function, "plain", function)
        return self._like(
            {
                key: value._reduce(function, dims, keepdim, kwargs)
                if isinstance(value, Reductions)
                else function(value, which, **kwargs)
                for key, value in self._store.items()
            },
            shapes.reduced(self._batch_size, dims, keepdim),
            self._names and shapes.names_reduced(self._names, dims, keepdim),
        )

    def _joined(self, dim: Dim) -> tuple[Tensor, Any]:
        """All values in one tensor, and the dimension in which they are joined and to be reduced."""
        leaves = list(self._leaves())
        if not leaves:
            raise ValueError("reduce=True: there is no tensor to reduce")
        ndim = len(self._batch_size)
        if dim is None or dim == ():
            return torch.cat([leaf.reshape(-1) for leaf in leaves]), 0
        if isinstance(dim, str):
            return torch.cat([leaf.reshape((*leaf.shape[:ndim], -1)) for leaf in leaves], -1), -1
        dims = shapes.wrap_dims(dim, ndim)
        try:
            return torch.cat(leaves, dims[0]), dims
        except RuntimeError as error:
            raise RuntimeError(
                f"reduce=True over batch dimension {dim}: the values need one shape to be joined, their shapes are "
                f"{[list(leaf.shape) for leaf in leaves]} ({error}); dim='feature' or None works with any shapes"
            ) from None

    def _run(
        self,
        function: Callable[..., Any],
        dim: Dim,
        keepdim: bool,
        reduce: bool | None,
        key_transform: KeyTransform | None = None,
        **kwargs: Any,
    ) -> Any:
        if kwargs:
            kwargs = {name: value for name, value in kwargs.items() if value is not None}
        if not reduce:
            result = self._reduce(function, dim, keepdim, kwargs)
            return result if key_transform is None else result._transformed(key_transform)
        joined, dims = self._joined(dim)
        return function(joined, dims, keepdim=keepdim, **kwargs)

    # -- the operations -----------------------------------------------------------------------------------------------

    @overload
    def sum(
        self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: No = ..., key_transform: None = ...
    ) -> Self: ...
    @overload
    def sum(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        dtype: DType = ...,
        reduce: Literal[True],
        key_transform: KeyTransform | None = ...,
    ) -> Tensor: ...
    @overload
    def sum(
        self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: No = ..., key_transform: KeyTransform
    ) -> TensorCollection: ...
    @overload
    def sum(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        dtype: DType = ...,
        reduce: bool | None = ...,
        key_transform: KeyTransform | None = ...,
    ) -> Self | Tensor | TensorCollection: ...
    def sum(
        self,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        reduce: bool | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Any:
        """The sum.

        >>> from tensorclass import TensorDict
        >>> data = TensorDict({"a": torch.ones(3, 4), "b": torch.ones(3)}, [3])
        >>> data.sum()["a"], data.sum(0)["a"].shape, data.sum(dim="feature")["a"].shape, data.sum(reduce=True)
        (tensor(12.), torch.Size([4]), torch.Size([3]), tensor(15.))
        """
        if dtype is None and not reduce and key_transform is None:
            return self._reduce(_SUM, dim, keepdim, _NOTHING)
        return self._run(_SUM, dim, keepdim, reduce, key_transform, dtype=dtype)

    @overload
    def nansum(self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: No = ...) -> Self: ...
    @overload
    def nansum(self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: Literal[True]) -> Tensor: ...
    @overload
    def nansum(
        self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: bool | None
    ) -> Self | Tensor: ...
    def nansum(
        self, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None, reduce: bool | None = None
    ) -> Any:
        """The sum, NaN counting as zero."""
        if dtype is None and not reduce:
            return self._reduce(_NANSUM, dim, keepdim, _NOTHING)
        return self._run(_NANSUM, dim, keepdim, reduce, dtype=dtype)

    @overload
    def mean(
        self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: No = ..., key_transform: None = ...
    ) -> Self: ...
    @overload
    def mean(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        dtype: DType = ...,
        reduce: Literal[True],
        key_transform: KeyTransform | None = ...,
    ) -> Tensor: ...
    @overload
    def mean(
        self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: No = ..., key_transform: KeyTransform
    ) -> TensorCollection: ...
    @overload
    def mean(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        dtype: DType = ...,
        reduce: bool | None = ...,
        key_transform: KeyTransform | None = ...,
    ) -> Self | Tensor | TensorCollection: ...
    def mean(
        self,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        reduce: bool | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Any:
        """The mean."""
        if dtype is None and not reduce and key_transform is None:
            return self._reduce(_MEAN, dim, keepdim, _NOTHING)
        return self._run(_MEAN, dim, keepdim, reduce, key_transform, dtype=dtype)

    @overload
    def nanmean(self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: No = ...) -> Self: ...
    @overload
    def nanmean(self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: Literal[True]) -> Tensor: ...
    @overload
    def nanmean(
        self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: bool | None
    ) -> Self | Tensor: ...
    def nanmean(
        self, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None, reduce: bool | None = None
    ) -> Any:
        """The mean of what is not NaN."""
        if dtype is None and not reduce:
            return self._reduce(_NANMEAN, dim, keepdim, _NOTHING)
        return self._run(_NANMEAN, dim, keepdim, reduce, dtype=dtype)

    @overload
    def prod(self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: No = ...) -> Self: ...
    @overload
    def prod(self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: Literal[True]) -> Tensor: ...
    @overload
    def prod(
        self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: bool | None
    ) -> Self | Tensor: ...
    def prod(
        self, dim: Dim = None, keepdim: bool = False, *, dtype: torch.dtype | None = None, reduce: bool | None = None
    ) -> Any:
        """The product."""
        return self._run(_prod, dim, keepdim, reduce, dtype=dtype)

    @overload
    def std(
        self, dim: Dim = ..., keepdim: bool = ..., *, correction: int = ..., reduce: No = ..., key_transform: None = ...
    ) -> Self: ...
    @overload
    def std(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        correction: int = ...,
        reduce: Literal[True],
        key_transform: KeyTransform | None = ...,
    ) -> Tensor: ...
    @overload
    def std(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        correction: int = ...,
        reduce: No = ...,
        key_transform: KeyTransform,
    ) -> TensorCollection: ...
    @overload
    def std(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        correction: int = ...,
        reduce: bool | None = ...,
        key_transform: KeyTransform | None = ...,
    ) -> Self | Tensor | TensorCollection: ...
    def std(
        self,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        correction: int = 1,
        reduce: bool | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Any:
        """The standard deviation; ``correction`` is subtracted from the number of items in its denominator."""
        return self._run(_STD, dim, keepdim, reduce, key_transform, correction=correction)

    @overload
    def var(
        self, dim: Dim = ..., keepdim: bool = ..., *, correction: int = ..., reduce: No = ..., key_transform: None = ...
    ) -> Self: ...
    @overload
    def var(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        correction: int = ...,
        reduce: Literal[True],
        key_transform: KeyTransform | None = ...,
    ) -> Tensor: ...
    @overload
    def var(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        correction: int = ...,
        reduce: No = ...,
        key_transform: KeyTransform,
    ) -> TensorCollection: ...
    @overload
    def var(
        self,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        correction: int = ...,
        reduce: bool | None = ...,
        key_transform: KeyTransform | None = ...,
    ) -> Self | Tensor | TensorCollection: ...
    def var(
        self,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        correction: int = 1,
        reduce: bool | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Any:
        """The variance; ``correction`` is subtracted from the number of items in its denominator."""
        return self._run(_VAR, dim, keepdim, reduce, key_transform, correction=correction)

    @overload
    def amax(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: No = ...) -> Self: ...
    @overload
    def amax(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: Literal[True]) -> Tensor: ...
    @overload
    def amax(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: bool | None) -> Self | Tensor: ...
    def amax(self, dim: Dim = None, keepdim: bool = False, *, reduce: bool | None = None) -> Any:
        """The largest items."""
        return self._run(_AMAX, dim, keepdim, reduce)

    @overload
    def amin(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: No = ...) -> Self: ...
    @overload
    def amin(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: Literal[True]) -> Tensor: ...
    @overload
    def amin(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: bool | None) -> Self | Tensor: ...
    def amin(self, dim: Dim = None, keepdim: bool = False, *, reduce: bool | None = None) -> Any:
        """The smallest items."""
        return self._run(_AMIN, dim, keepdim, reduce)

    def logsumexp(self, dim: Dim = None, keepdim: bool = False, *, out: Self | None = None) -> Self:
        """``log(sum(exp(x)))``; without ``dim`` over all batch dimensions, or over everything where there are none."""
        dims: Dim = tuple(range(len(self._batch_size))) if dim is None else dim
        result = self._reduce(_LOGSUMEXP, dims, keepdim, {})
        if out is None:
            return result
        out._copy(result)  # type: ignore[attr-defined]
        return out

    @overload
    def max(
        self, dim: Literal["feature"] | None = ..., keepdim: bool = ..., *, reduce: No = ..., return_indices: bool = ...
    ) -> Self: ...
    @overload
    def max(
        self, dim: int, keepdim: bool = ..., *, reduce: No = ..., return_indices: Literal[True] = ...
    ) -> Extremes[Self]: ...
    @overload
    def max(self, dim: Dim, keepdim: bool = ..., *, reduce: No = ..., return_indices: Literal[False]) -> Self: ...
    @overload
    def max(
        self, dim: int, keepdim: bool = ..., *, reduce: Literal[True], return_indices: Literal[True] = ...
    ) -> Extremes[Tensor]: ...
    @overload
    def max(
        self,
        dim: Literal["feature"] | None = ...,
        keepdim: bool = ...,
        *,
        reduce: Literal[True],
        return_indices: bool = ...,
    ) -> Tensor: ...
    @overload
    def max(
        self, dim: Dim, keepdim: bool = ..., *, reduce: Literal[True], return_indices: Literal[False]
    ) -> Tensor: ...
    def max(
        self, dim: Dim = None, keepdim: bool = False, *, reduce: bool | None = None, return_indices: bool = True
    ) -> Any:
        """The largest items; along one batch dimension with their indices, as ``torch.max`` gives them."""
        return self._extreme("max", dim, keepdim, reduce, return_indices)

    @overload
    def min(
        self, dim: Literal["feature"] | None = ..., keepdim: bool = ..., *, reduce: No = ..., return_indices: bool = ...
    ) -> Self: ...
    @overload
    def min(
        self, dim: int, keepdim: bool = ..., *, reduce: No = ..., return_indices: Literal[True] = ...
    ) -> Extremes[Self]: ...
    @overload
    def min(self, dim: Dim, keepdim: bool = ..., *, reduce: No = ..., return_indices: Literal[False]) -> Self: ...
    @overload
    def min(
        self, dim: int, keepdim: bool = ..., *, reduce: Literal[True], return_indices: Literal[True] = ...
    ) -> Extremes[Tensor]: ...
    @overload
    def min(
        self,
        dim: Literal["feature"] | None = ...,
        keepdim: bool = ...,
        *,
        reduce: Literal[True],
        return_indices: bool = ...,
    ) -> Tensor: ...
    @overload
    def min(
        self, dim: Dim, keepdim: bool = ..., *, reduce: Literal[True], return_indices: Literal[False]
    ) -> Tensor: ...
    def min(
        self, dim: Dim = None, keepdim: bool = False, *, reduce: bool | None = None, return_indices: bool = True
    ) -> Any:
        """The smallest items; along one batch dimension with their indices, as ``torch.min`` gives them."""
        return self._extreme("min", dim, keepdim, reduce, return_indices)

    def _extreme(self, name: str, dim: Dim, keepdim: bool, reduce: bool | None, return_indices: bool) -> Any:
        plain = _AMAX if name == "max" else _AMIN
        if dim is None or isinstance(dim, str) or not return_indices:
            return self._run(plain, dim, keepdim, reduce)
        wrapped = shapes.wrap_dims(dim, len(self._batch_size))
        if len(wrapped) != 1:
            raise TypeError(
                f"{name}: indices exist along one dimension only, got dim={dim}; return_indices=False lifts that"
            )
        if reduce:
            joined, _ = self._joined(wrapped)
            return getattr(joined, name)(wrapped[0], keepdim)
        size = shapes.reduced(self._batch_size, wrapped, keepdim)
        names = shapes.names_reduced(self._names, wrapped, keepdim)
        return self._two(name, (wrapped[0], keepdim), size, names)

    def _two(self, name: str, args: tuple[Any, ...], size: Size, names: shapes.Names) -> Any:
        """A torch function with two results, values and indices, as two collections."""
        pairs = {key: getattr(value, name)(*args) for key, value in self._store.items()}
        kind = getattr(torch.return_types, name)
        return kind([self._like({key: pair[i] for key, pair in pairs.items()}, size, names) for i in (0, 1)])

    @overload
    def cummax(self, dim: int, *, reduce: No = ..., return_indices: Literal[True] = ...) -> Extremes[Self]: ...
    @overload
    def cummax(self, dim: int, *, reduce: No = ..., return_indices: Literal[False]) -> Self: ...
    @overload
    def cummax(self, dim: int, *, reduce: Literal[True], return_indices: Literal[True] = ...) -> Extremes[Tensor]: ...
    @overload
    def cummax(self, dim: int, *, reduce: Literal[True], return_indices: Literal[False]) -> Tensor: ...
    def cummax(self, dim: int, *, reduce: bool | None = None, return_indices: bool = True) -> Any:
        """The largest items so far along a batch dimension, with their indices."""
        return self._cumulative("cummax", dim, reduce, return_indices)

    @overload
    def cummin(self, dim: int, *, reduce: No = ..., return_indices: Literal[True] = ...) -> Extremes[Self]: ...
    @overload
    def cummin(self, dim: int, *, reduce: No = ..., return_indices: Literal[False]) -> Self: ...
    @overload
    def cummin(self, dim: int, *, reduce: Literal[True], return_indices: Literal[True] = ...) -> Extremes[Tensor]: ...
    @overload
    def cummin(self, dim: int, *, reduce: Literal[True], return_indices: Literal[False]) -> Tensor: ...
    def cummin(self, dim: int, *, reduce: bool | None = None, return_indices: bool = True) -> Any:
        """The smallest items so far along a batch dimension, with their indices."""
        return self._cumulative("cummin", dim, reduce, return_indices)

    def _cumulative(self, name: str, dim: int, reduce: bool | None, return_indices: bool) -> Any:
        wrapped = shapes.wrap_dim(dim, len(self._batch_size))
        if reduce:
            joined, _ = self._joined(wrapped)
            pair = getattr(joined, name)(wrapped)
            return pair if return_indices else pair[0]
        pair = self._two(name, (wrapped,), self._batch_size, self._names)
        return pair if return_indices else pair[0]

    def cumsum(self, dim: int, *, dtype: torch.dtype | None = None) -> Self:
        """The sum so far along a batch dimension."""
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        return self._same({key: value.cumsum(dim, dtype=dtype) for key, value in self._store.items()})

    def cumprod(self, dim: int, *, dtype: torch.dtype | None = None) -> Self:
        """The product so far along a batch dimension."""
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        return self._same({key: value.cumprod(dim, dtype=dtype) for key, value in self._store.items()})

    def softmax(self, dim: int, dtype: torch.dtype | None = None) -> Self:
        """The softmax along a batch dimension."""
        dim = shapes.wrap_dim(dim, len(self._batch_size))
        return self._same({key: value.softmax(dim, dtype=dtype) for key, value in self._store.items()})

    @overload
    def quantile(
        self,
        q: float | Tensor,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        interpolation: str = ...,
        reduce: No = ...,
        key_transform: None = ...,
    ) -> Self: ...
    @overload
    def quantile(
        self,
        q: float | Tensor,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        interpolation: str = ...,
        reduce: Literal[True],
        key_transform: KeyTransform | None = ...,
    ) -> Tensor: ...
    @overload
    def quantile(
        self,
        q: float | Tensor,
        dim: Dim = ...,
        keepdim: bool = ...,
        *,
        interpolation: str = ...,
        reduce: No = ...,
        key_transform: KeyTransform,
    ) -> TensorCollection: ...
    def quantile(
        self,
        q: float | Tensor,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        interpolation: str = "linear",
        reduce: bool | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Any:
        """The quantiles ``q`` (between 0 and 1); several of them make a new first batch dimension."""

        def function(value: Tensor, dims: int | tuple[int, ...], keepdim: bool = False) -> Tensor:
            return _quantile(value, q, (dims,) if isinstance(dims, int) else dims, keepdim, interpolation)

        result = self._run(function, dim, keepdim, reduce)
        if isinstance(q, Tensor) and q.ndim and not reduce:
            result = result._under(q.shape)
        return result if reduce or key_transform is None else result._transformed(key_transform)

    def _under(self, shape: Size) -> Self:
        """The same values, whose shapes have got ``shape`` in front."""
        store = {
            key: value._under(shape) if isinstance(value, Reductions) else value for key, value in self._store.items()
        }
        return self._like(store, shape + self._batch_size, shapes.names_padded(self._names, len(shape)))

    def norm(
        self,
        *,
        out: Self | None = None,
        dtype: torch.dtype | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Self:
        """The Euclidean norm of each value, over all its dimensions."""

        def function(value: Tensor, dims: int | tuple[int, ...]) -> Tensor:
            return _vector_norm(value, dtype=dtype)

        result: Any = self._reduce(function, None, False, {})
        if key_transform is not None:
            result = result._transformed(key_transform)
        if out is None:
            return result  # type: ignore[no-any-return]
        out._copy(result)  # type: ignore[attr-defined]
        return out

    def _transformed(self, key_transform: KeyTransform) -> TensorCollection:
        """The same values under other names, at every level; those whose new name is ``None`` are left out."""
        result = self._untyped({})
        for key, value in self._store.items():
            name = key_transform(key)
            if name is not None:
                below = (
                    value._transformed(key_transform) if isinstance(value, Reductions) and value._is_tree() else value
                )
                result._set_nested(unravel_key_to_tuple(name), below)
        return result

    @overload
    def all(self, dim: None = None, keepdim: bool = ...) -> bool: ...
    @overload
    def all(self, dim: int | Sequence[int] | Literal["feature"], keepdim: bool = ...) -> Self: ...
    def all(self, dim: Dim = None, keepdim: bool = False) -> Any:
        """Whether all items are true: one bool for everything, or along batch dimensions."""
        if dim is None:
            return builtins.all(bool(leaf.all()) for leaf in self._leaves())
        return self._reduce(_ALL, dim, keepdim, {})

    @overload
    def any(self, dim: None = None, keepdim: bool = ...) -> bool: ...
    @overload
    def any(self, dim: int | Sequence[int] | Literal["feature"], keepdim: bool = ...) -> Self: ...
    def any(self, dim: Dim = None, keepdim: bool = False) -> Any:
        """Whether any item is true: one bool for everything, or along batch dimensions."""
        if dim is None:
            return builtins.any(bool(leaf.any()) for leaf in self._leaves())
        return self._reduce(_ANY, dim, keepdim, {})


def _safe(name: str) -> Callable[..., Any]:
    """A torch function over dims, where none means that there is nothing to reduce: each item by itself."""
    function: Callable[..., Any] = getattr(torch, name)

    def reduce(value: Tensor, dims: int | tuple[int, ...], **kwargs: Any) -> Any:
        if dims == ():
            return function(value.unsqueeze(-1), -1, **{**kwargs, "keepdim": False})
        return function(value, dims, **kwargs)

    reduce.plain = function  # type: ignore[attr-defined]  # for dims that are known not to be empty
    return reduce


_SUM, _NANSUM, _MEAN, _NANMEAN = _safe("sum"), _safe("nansum"), _safe("mean"), _safe("nanmean")
_STD, _VAR, _AMAX, _AMIN = _safe("std"), _safe("var"), _safe("amax"), _safe("amin")
_LOGSUMEXP, _ALL, _ANY = _safe("logsumexp"), _safe("all"), _safe("any")


def _prod(
    value: Tensor, dims: int | tuple[int, ...], keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    if isinstance(dims, int):
        return torch.prod(value, dims, keepdim=keepdim, dtype=dtype)
    # all at once: an infinite product of some, times a zero among the others, would be no number
    dims = tuple(sorted(dim % value.ndim for dim in dims)) if value.ndim else ()
    rest = [dim for dim in range(value.ndim) if dim not in dims]
    shape = [value.shape[dim] for dim in rest]
    count = math.prod([value.shape[dim] for dim in dims])
    result = torch.prod(value.permute([*rest, *dims]).reshape([*shape, count]), -1, dtype=dtype)
    if keepdim:
        for dim in dims:
            result = result.unsqueeze(dim)
    return result


def _quantile(value: Tensor, q: float | Tensor, dims: tuple[int, ...], keepdim: bool, interpolation: str) -> Tensor:
    dims = tuple(dim % value.ndim for dim in dims) if value.ndim else ()
    rest = [dim for dim in range(value.ndim) if dim not in dims]
    count = math.prod([value.shape[dim] for dim in dims])
    flat = value.permute([*rest, *dims]).reshape([*(value.shape[dim] for dim in rest), count])
    result = torch.quantile(flat, q, -1, interpolation=interpolation)
    if keepdim:
        shift = q.ndim if isinstance(q, Tensor) else 0
        for dim in sorted(dims):
            result = result.unsqueeze(dim + shift)
    return result
