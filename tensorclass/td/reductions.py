"""Reductions: over batch dimensions, over the features, over everything, or over all values into one tensor.

Most of them are lines of a table, of which ``reduction_factories.py`` makes methods.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import Size, Tensor
from typing_extensions import Self

from tensorclass.support.printable import printable

from . import buffer_operations, shapes
from .collection import Collection
from .hidden_members import member_items, with_members
from .keys import dotted, unravel_key_to_tuple
from .reduction_factories import extremum, indexed_extremum, plain_total, running_extremum, running_total, spread, total

if TYPE_CHECKING:
    from .base import TensorCollection
    from .reduction_factories import (
        Dim,
        Extremum,
        IndexedExtremum,
        KeyTransform,
        No,
        PlainTotal,
        RunningExtremum,
        RunningTotal,
        Spread,
        Total,
    )

_vector_norm: Callable[..., Tensor] = torch.linalg.vector_norm  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


class RowsOfItems(TypeError):
    """Rows that differ in length cannot be reduced along batch dimensions."""

    def __init__(self, path: tuple[str, ...] = ()) -> None:
        what = f"{dotted(path)}: the" if path else "the"
        super().__init__(
            f"{what} rows of a Ragged differ in length, so they have no reduction along batch dimensions: reduce the "
            "items of each row (dim='feature', or a method of the column), pad the rows with to_padded(), or leave the "
            "key out with exclude()"
        )
        self.path: tuple[str, ...] = path

    def __reduce__(self) -> Any:
        return type(self), (self.path,)

    def below(self, key: str) -> RowsOfItems:
        """Return the error for a column under a key."""
        return RowsOfItems((key, *self.path))


# ---------------------------------------------------------------------------------------------------------------------
# functions of one tensor


def _safe(name: str) -> Callable[..., Any]:
    """A torch function that takes an empty tuple of dimensions as nothing to reduce, where torch would reduce all."""
    function: Callable[..., Any] = getattr(torch, name)

    def reduce(value: Tensor, dims: int | tuple[int, ...], **kwargs: Any) -> Any:
        if dims == ():
            return function(value.unsqueeze(-1), -1, **{**kwargs, "keepdim": False})
        return function(value, dims, **kwargs)

    reduce.plain = function  # type: ignore[attr-defined]  # without the look at dims: they are not empty
    return reduce


_SUM, _NANSUM, _MEAN, _NANMEAN = _safe("sum"), _safe("nansum"), _safe("mean"), _safe("nanmean")
_STD, _VAR, _AMAX, _AMIN = _safe("std"), _safe("var"), _safe("amax"), _safe("amin")
_LOGSUMEXP, _ALL, _ANY = _safe("logsumexp"), _safe("all"), _safe("any")


#: torch's errors for a dtype, which a version has as the one and a later one as the other
_REFUSALS = (RuntimeError, NotImplementedError)


def _no_fractions(key: str, error: RuntimeError) -> RuntimeError:
    """Return the error for integers of which torch makes no fractions: no mean, no deviation."""
    return RuntimeError(
        f"{printable(key)}: {error}; give dtype=torch.float32 where the method takes it, or leave integers out: "
        f".exclude({key!r})"
    )


def _is_integral(value: object) -> bool:
    return isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex())


def _merged(value: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """Return a tensor with some dimensions merged to the last one, and these dimensions wrapped, in order."""
    dims = tuple(sorted(dim % value.ndim for dim in dims)) if value.ndim else ()
    rest = [dim for dim in range(value.ndim) if dim not in dims]
    sizes = [*(value.shape[dim] for dim in rest), math.prod([value.shape[dim] for dim in dims])]
    return value.permute([*rest, *dims]).reshape(sizes), dims


def _prod(
    value: Tensor, dims: int | tuple[int, ...], keepdim: bool = False, dtype: torch.dtype | None = None
) -> Tensor:
    if isinstance(dims, int):
        return torch.prod(value, dims, keepdim=keepdim, dtype=dtype)
    # in one step: dimension by dimension, a partial product that overflows to infinity would meet a zero and give NaN
    flat, dims = _merged(value, dims)
    result = torch.prod(flat, -1, dtype=dtype)
    if keepdim:
        for dim in dims:
            result = result.unsqueeze(dim)
    return result


def _quantile(value: Tensor, q: float | Tensor, dims: tuple[int, ...], keepdim: bool, interpolation: str) -> Tensor:
    flat, dims = _merged(value, dims)
    result = torch.quantile(flat, q, -1, interpolation=interpolation)
    if keepdim:
        shift = q.ndim if isinstance(q, Tensor) else 0
        for dim in dims:
            result = result.unsqueeze(dim + shift)
    return result


_WITH_NAN = "[[1.0, float('nan')], [3.0, 5.0]]"


class Reductions(Collection):
    """sum, mean, max and their kin.

    They reduce batch dimensions, the features (``dim="feature"``), everything (``dim=None``), or all tensors to one
    (``reduce=True``). Non-tensor data is kept.
    """

    __slots__ = ()

    # -- the table ----------------------------------------------------------------------------------------------------

    sum: Total = total(_SUM, "sum", "Sum of the elements.", "[4., 7.]", "[3., 8.]", "11.")
    nansum: PlainTotal = plain_total(
        _NANSUM, "nansum", "Sum of the elements that are not NaN.", "[4., 5.]", "[1., 8.]", "9.", values=_WITH_NAN
    )
    mean: Total = total(_MEAN, "mean", "Mean of the elements.", "[2.0000, 3.5000]", "[1.5000, 4.0000]", "2.7500")
    nanmean: PlainTotal = plain_total(
        _NANMEAN, "nanmean", "Mean of the elements that are not NaN.", "[2., 5.]", "[1., 4.]", "3.", values=_WITH_NAN
    )
    prod: PlainTotal = plain_total(_prod, "prod", "Product of the elements.", "[ 3., 10.]", "[ 2., 15.]", "30.")
    std: Spread = spread(_STD, "std", "Standard deviation.", "[1.4142, 2.1213]", "[0.7071, 1.4142]", "1.7078")
    var: Spread = spread(_VAR, "var", "Variance.", "[2.0000, 4.5000]", "[0.5000, 2.0000]", "2.9167")
    amax: Extremum = extremum(_AMAX, "amax", "Largest element.", "[3., 5.]", "[2., 5.]", "5.")
    amin: Extremum = extremum(_AMIN, "amin", "Smallest element.", "[1., 2.]", "[1., 3.]", "1.")
    max: IndexedExtremum = indexed_extremum(
        _AMAX, "max", "Largest element, and its index along one batch dimension.", "[3., 5.]", "[1, 1]"
    )
    min: IndexedExtremum = indexed_extremum(
        _AMIN, "min", "Smallest element, and its index along one batch dimension.", "[1., 2.]", "[0, 0]"
    )
    cummax: RunningExtremum = running_extremum(
        "cummax", "Largest element so far along a batch dimension.", "[[1.0, 2.0], [3.0, 5.0]]", "[[0, 0], [1, 1]]"
    )
    cummin: RunningExtremum = running_extremum(
        "cummin", "Smallest element so far along a batch dimension.", "[[1.0, 2.0], [1.0, 2.0]]", "[[0, 0], [0, 0]]"
    )
    cumsum: RunningTotal = running_total("cumsum", "Sum so far along a batch dimension.", "[[1.0, 2.0], [4.0, 7.0]]")
    cumprod: RunningTotal = running_total(
        "cumprod", "Product so far along a batch dimension.", "[[1.0, 2.0], [3.0, 10.0]]"
    )

    # -- with arguments of their own ----------------------------------------------------------------------------------

    def logsumexp(self, dim: Dim = None, keepdim: bool = False, *, out: Self | None = None) -> Self:
        """``log(sum(exp(x)))``, computed stably.

        Args:
            dim: batch dimensions to reduce; ``"feature"`` for all dimensions behind the batch. Default: all batch
                dimensions, or everything if there are none.
            keepdim: keep each reduced dimension with size 1. Default: ``False``.
            out: collection that the result is written to, and that is returned.

        Raises:
            IndexError: ``dim`` is not a batch dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"x": torch.zeros(2, 3)}, batch_size=[2]).logsumexp(0)["x"]
            tensor([0.6931, 0.6931, 0.6931])
        """
        dims: Dim = tuple(range(len(self._batch_size))) if dim is None else dim
        result = self._reduce(_LOGSUMEXP, dims, keepdim, {})
        if out is None:
            return result
        out._copy(result)  # type: ignore[attr-defined]
        return out

    def softmax(self, dim: int, dtype: torch.dtype | None = None) -> Self:
        """Softmax along a batch dimension.

        Args:
            dim: the batch dimension, an int.
            dtype: dtype to which tensors are cast first. Default: their own; integers and booleans become floats of
                torch's default dtype, as in :meth:`logsumexp`.

        Returns:
            A collection of the same class and batch size.

        Raises:
            IndexError: ``dim`` is not a batch dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> TensorDict({"x": torch.tensor([0.0, 0.0])}, batch_size=[2]).softmax(0)["x"]
            tensor([0.5000, 0.5000])
        """
        return self._each_along("softmax", dim, dtype)

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
        """Quantiles of the elements.

        Args:
            q: probability between 0 and 1, or a tensor of them, of the dtype of the values. The dimension of a tensor
                becomes the first batch dimension of the result.
            dim: batch dimensions to reduce: an int or several; ``"feature"`` reduces all dimensions behind the batch.
                Default: all dimensions of each tensor.
            keepdim: keep each reduced dimension with size 1. Default: ``False``.
            interpolation: between two elements: ``"linear"`` (default), ``"lower"``, ``"higher"``, ``"midpoint"`` or
                ``"nearest"``.
            reduce: ``True`` joins all tensors along ``dim`` and reduces them to one tensor. Default: ``False``.
            key_transform: maps each key of each level to its key in the result; ``None`` drops the entry.
                Without effect where ``reduce`` is true.

        Returns:
            A collection of the same class, without the reduced batch dimensions; a :class:`TensorDict` with
            ``key_transform``; a tensor with ``reduce=True``.

        Raises:
            IndexError: ``dim`` is not a batch dimension.
            ValueError: ``reduce=True``, and there is no tensor.
            RuntimeError: ``reduce=True`` over a batch dimension, and the tensors differ in shape; ``q`` is not between
                0 and 1; the values are not floating-point numbers.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([[1.0, 2.0], [3.0, 5.0]])}, batch_size=[2])
            >>> data.quantile(0.5, 0)["x"], data.quantile(torch.tensor([0.0, 1.0]), 0).batch_size
            (tensor([2.0000, 3.5000]), torch.Size([2]))
        """

        def function(value: Tensor, dims: int | tuple[int, ...], keepdim: bool = False) -> Tensor:
            return _quantile(value, q, (dims,) if isinstance(dims, int) else dims, keepdim, interpolation)

        result = self._run(function, dim, keepdim, reduce)
        if isinstance(q, Tensor) and q.ndim and not reduce:
            result = result._under(q.shape)
        return result if reduce or key_transform is None else result._transformed(key_transform)

    def _under(self, shape: Size) -> Self:
        """The same values, which have ``shape`` in front of their own shapes already."""
        store = {
            key: value._under(shape) if isinstance(value, Reductions) else value for key, value in self._now().items()
        }
        return self._like(store, shape + self._batch_size, shapes.names_padded(self._names, len(shape)))

    def norm(
        self,
        *,
        out: Self | None = None,
        dtype: torch.dtype | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Self:
        """Euclidean norm of each tensor, over all its dimensions.

        Args:
            out: collection that the result is written to, and that is returned.
            dtype: dtype to which tensors are cast before they are reduced. Default: their own.
            key_transform: maps each key of each level to its key in the result; ``None`` drops the entry.

        Returns:
            A collection without batch dimensions, of the same class; a :class:`TensorDict` with ``key_transform``.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([3.0, 4.0])}, batch_size=[2])
            >>> data.norm()["x"], data.norm(key_transform=lambda key: f"{key}_norm")["x_norm"]
            (tensor(5.), tensor(5.))
        """

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
        """Rename the keys of every level. Entries whose new key is ``None`` are left out."""
        result = self._untyped({})
        for key, value in self._now().items():
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
        """Return whether all elements are true.

        Args:
            dim: batch dimensions to reduce: an int or several; ``"feature"`` reduces all dimensions behind the batch.
                Default: everything, in all tensors.
            keepdim: keep each reduced dimension with size 1. Default: ``False``.

        Returns:
            A bool for everything; otherwise a collection of the same class with boolean tensors.

        Raises:
            IndexError: ``dim`` is not a batch dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([[True, False], [True, True]])}, batch_size=[2])
            >>> data.all(), data.all("feature")["x"]
            (False, tensor([False,  True]))
        """
        if dim is None:
            if buffer_operations.are_all_true(self):
                return True
            return builtins.all(bool(leaf.all()) for leaf in self._leaves())
        return self._reduce(_ALL, dim, keepdim, {})

    @overload
    def any(self, dim: None = None, keepdim: bool = ...) -> bool: ...
    @overload
    def any(self, dim: int | Sequence[int] | Literal["feature"], keepdim: bool = ...) -> Self: ...
    def any(self, dim: Dim = None, keepdim: bool = False) -> Any:
        """Return whether any element is true.

        Args:
            dim: batch dimensions to reduce: an int or several; ``"feature"`` reduces all dimensions behind the batch.
                Default: everything, in all tensors.
            keepdim: keep each reduced dimension with size 1. Default: ``False``.

        Returns:
            A bool for everything; otherwise a collection of the same class with boolean tensors.

        Raises:
            IndexError: ``dim`` is not a batch dimension.

        Example:
            >>> import torch
            >>> from tensorclass import TensorDict
            >>> data = TensorDict({"x": torch.tensor([[True, False], [True, True]])}, batch_size=[2])
            >>> data.any(), data.any("feature")["x"]
            (True, tensor([True, True]))
        """
        if dim is None:
            return builtins.any(bool(leaf.any()) for leaf in self._leaves())
        return self._reduce(_ANY, dim, keepdim, {})

    if TYPE_CHECKING:

        def _named_columns(self) -> list[tuple[tuple[str, ...], Any]]: ...

    # -- the mechanism ------------------------------------------------------------------------------------------------

    def _reduce(self, function: Callable[..., Any], dim: Dim, keepdim: bool, kwargs: dict[str, Any]) -> Self:
        """Call ``function(tensor, dims, **kwargs)`` for each tensor; ``kwargs`` has ``keepdim`` only if it is true."""
        batch_size, names = self._batch_size, self._names
        ndim = len(batch_size)
        if keepdim and "keepdim" not in kwargs:
            kwargs = {**kwargs, "keepdim": True}
        if dim is None:
            size = Size((1,) * ndim) if keepdim else Size(())
            store = self._reduce_values(function, None, lambda value: tuple(range(value.ndim)), keepdim, kwargs)
            return self._like(store, size, names if keepdim else None)
        if isinstance(dim, str):
            if dim != "feature":
                raise TypeError(f"dim: expected ints, 'feature' or None, got {dim!r}; give positions, not names")
            store = self._reduce_values(function, dim, lambda value: tuple(range(ndim, value.ndim)), keepdim, kwargs)
            return self._like(store, batch_size, names)
        dims = shapes.wrap_dims(dim, ndim)
        if not dims and function is not _ALL and function is not _ANY:  # as in torch, no dims mean all
            return self._reduce(function, None, keepdim, kwargs)
        reduced: int | tuple[int, ...] = dims[0] if len(dims) == 1 else dims
        if dims:
            function = getattr(function, "plain", function)
        return self._like(
            self._reduce_values(function, dims, lambda value: reduced, keepdim, kwargs),
            shapes.reduced(batch_size, dims, keepdim),
            names and shapes.names_reduced(names, dims, keepdim),
        )

    def _reduce_values(
        self,
        function: Callable[..., Any],
        dim: Dim,
        dims_of: Callable[[Tensor], int | tuple[int, ...]],
        keepdim: bool,
        kwargs: dict[str, Any],
    ) -> dict[str, Any]:
        """Reduce each value; ``dims_of`` gives the dimensions of a tensor that are reduced."""
        result: dict[str, Any] = {}
        key, value = "", None
        try:
            for key, value in self._now().items():
                if isinstance(value, Reductions):
                    try:
                        result[key] = value._reduce(function, dim, keepdim, kwargs)
                    except RowsOfItems as error:
                        raise error.below(key) from None
                else:
                    result[key] = function(value, dims_of(value), **kwargs)
        except RuntimeError as error:
            if type(error) in _REFUSALS and _is_integral(value) and "floating point" in str(error):
                raise _no_fractions(key, error) from None
            raise
        return result

    def _each_along(self, name: str, dim: int, dtype: torch.dtype | None) -> Self:
        """Call a method that keeps the shape of each value along a batch dimension."""
        result = self._same({**self._now()})  # first, with the batch size that the dimension is checked with
        dim = shapes.wrap_dim(dim, len(result._batch_size))
        store: dict[str, Any] = result._store  # type: ignore[assignment]
        for key, value in member_items(store):
            try:
                # the method of this name can mean something else for the rows of a leaf
                is_leaf = isinstance(value, Reductions) and not value._is_tree()
                to = dtype
                if to is None and name == "softmax" and _is_integral(value):
                    to = torch.get_default_dtype()
                store[key] = value._cumulative(name, dim) if is_leaf else getattr(value, name)(dim, dtype=to)  # type: ignore[union-attr]
            except RowsOfItems as error:
                raise error.below(key) from None
        return result

    def _joined(self, dim: Dim) -> tuple[Tensor, Any]:
        """Concatenate all tensors. Return the result and the dimensions of it to reduce."""
        if dim is not None and dim != ():
            for path, column in self._named_columns():
                if not column._keeps_items:
                    raise RowsOfItems(path)
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

    def _extreme(
        self,
        function: Callable[..., Any],
        name: str,
        dim: Dim,
        keepdim: bool,
        reduce: bool | None,
        return_indices: bool,
    ) -> Any:
        """The values of ``function``, or values and indices of the torch function ``name``."""
        if dim is None or isinstance(dim, str) or not return_indices:
            return self._run(function, dim, keepdim, reduce)
        wrapped = shapes.wrap_dims(dim, len(self._batch_size))
        if len(wrapped) != 1:
            raise TypeError(
                f"{name}: indices exist along one dimension only, got dim={dim}; give return_indices=False for the "
                "values alone"
            )
        if reduce:
            joined, _ = self._joined(wrapped)
            return getattr(with_members(joined), name)(wrapped[0], keepdim)
        size = shapes.reduced(self._batch_size, wrapped, keepdim)
        names = shapes.names_reduced(self._names, wrapped, keepdim)
        return self._values_and_indices(name, (wrapped[0], keepdim), size, names)

    def _values_and_indices(self, name: str, args: tuple[Any, ...], size: Size, names: shapes.Names) -> Any:
        """Call a torch function that returns values and indices on each value; return two collections."""
        pairs: dict[str, Any] = {}
        for key, value in member_items(self._now()):
            try:
                is_leaf = isinstance(value, Reductions) and not value._is_tree()
                pairs[key] = getattr(Reductions, name)(value, *args) if is_leaf else getattr(value, name)(*args)
            except RowsOfItems as error:
                raise error.below(key) from None
        pair_class = getattr(torch.return_types, name)
        return pair_class([self._like({key: pair[i] for key, pair in pairs.items()}, size, names) for i in (0, 1)])

    def _running_extremum(self, name: str, dim: int, reduce: bool | None, return_indices: bool) -> Any:
        wrapped = shapes.wrap_dim(dim, len(self._batch_size))
        if reduce:
            joined, _ = self._joined(wrapped)
            pair = getattr(with_members(joined), name)(wrapped)
        else:
            pair = self._values_and_indices(name, (wrapped,), self._batch_size, self._names)
        return pair if return_indices else pair[0]
