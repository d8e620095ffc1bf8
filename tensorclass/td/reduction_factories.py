"""Factories of reduction methods: ``total``, ``extremum`` and others, with docstrings and types for checkers.

The table of reductions, which calls them, is in :mod:`tensorclass.td.reductions`. Type checkers see an entry of the
table as a descriptor: a protocol here gives the type of its ``__get__``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeAlias, TypeVar, overload

import torch
from torch import Tensor
from typing_extensions import NamedTuple

if TYPE_CHECKING:
    from .base import TensorCollection
    from .keys import NestedKey
    from .reductions import Reductions

    KeyTransform = Callable[[str], NestedKey | None]
    DType: TypeAlias = torch.dtype | None
    No: TypeAlias = Literal[False] | None
    Whole: TypeAlias = Literal["feature"] | None
    V = TypeVar("V", covariant=True)
    C = TypeVar("C", bound="Reductions")
    R = TypeVar("R", covariant=True)

    class Extremes(NamedTuple, Generic[V]):
        """The result of ``max`` and its kin: ``torch.return_types.max``, of tensors or of collections."""

        values: V
        indices: V

    # -- signatures of the table, for type checkers --------------------------------------------------------------------

    class BoundTotal(Protocol[R]):
        @overload
        def __call__(
            self,
            dim: Dim = ...,
            keepdim: bool = ...,
            *,
            dtype: DType = ...,
            reduce: No = ...,
            key_transform: None = ...,
        ) -> R: ...
        @overload
        def __call__(
            self,
            dim: Dim = ...,
            keepdim: bool = ...,
            *,
            dtype: DType = ...,
            reduce: Literal[True],
            key_transform: KeyTransform | None = ...,
        ) -> Tensor: ...
        @overload
        def __call__(
            self,
            dim: Dim = ...,
            keepdim: bool = ...,
            *,
            dtype: DType = ...,
            reduce: No = ...,
            key_transform: KeyTransform,
        ) -> TensorCollection: ...
        @overload
        def __call__(
            self,
            dim: Dim = ...,
            keepdim: bool = ...,
            *,
            dtype: DType = ...,
            reduce: bool | None = ...,
            key_transform: KeyTransform | None = ...,
        ) -> R | Tensor | TensorCollection: ...

    class Total(Protocol):
        """``data.sum(dim, keepdim, dtype=, reduce=, key_transform=)``."""

        def __get__(self, instance: C, owner: Any) -> BoundTotal[C]: ...

    class BoundPlainTotal(Protocol[R]):
        @overload
        def __call__(self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: No = ...) -> R: ...
        @overload
        def __call__(
            self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: Literal[True]
        ) -> Tensor: ...
        @overload
        def __call__(
            self, dim: Dim = ..., keepdim: bool = ..., *, dtype: DType = ..., reduce: bool | None
        ) -> R | Tensor: ...

    class PlainTotal(Protocol):
        """``data.prod(dim, keepdim, dtype=, reduce=)``."""

        def __get__(self, instance: C, owner: Any) -> BoundPlainTotal[C]: ...

    class BoundSpread(Protocol[R]):
        @overload
        def __call__(
            self,
            dim: Dim = ...,
            keepdim: bool = ...,
            *,
            correction: int = ...,
            reduce: No = ...,
            key_transform: None = ...,
        ) -> R: ...
        @overload
        def __call__(
            self,
            dim: Dim = ...,
            keepdim: bool = ...,
            *,
            correction: int = ...,
            reduce: Literal[True],
            key_transform: KeyTransform | None = ...,
        ) -> Tensor: ...
        @overload
        def __call__(
            self,
            dim: Dim = ...,
            keepdim: bool = ...,
            *,
            correction: int = ...,
            reduce: No = ...,
            key_transform: KeyTransform,
        ) -> TensorCollection: ...
        @overload
        def __call__(
            self,
            dim: Dim = ...,
            keepdim: bool = ...,
            *,
            correction: int = ...,
            reduce: bool | None = ...,
            key_transform: KeyTransform | None = ...,
        ) -> R | Tensor | TensorCollection: ...

    class Spread(Protocol):
        """``data.std(dim, keepdim, correction=, reduce=, key_transform=)``."""

        def __get__(self, instance: C, owner: Any) -> BoundSpread[C]: ...

    class BoundExtremum(Protocol[R]):
        @overload
        def __call__(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: No = ...) -> R: ...
        @overload
        def __call__(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: Literal[True]) -> Tensor: ...
        @overload
        def __call__(self, dim: Dim = ..., keepdim: bool = ..., *, reduce: bool | None) -> R | Tensor: ...

    class Extremum(Protocol):
        """``data.amax(dim, keepdim, reduce=)``."""

        def __get__(self, instance: C, owner: Any) -> BoundExtremum[C]: ...

    class BoundIndexedExtremum(Protocol[R]):
        @overload
        def __call__(
            self, dim: Whole = ..., keepdim: bool = ..., *, reduce: No = ..., return_indices: bool = ...
        ) -> R: ...
        @overload
        def __call__(
            self, dim: int, keepdim: bool = ..., *, reduce: No = ..., return_indices: Literal[True] = ...
        ) -> Extremes[R]: ...
        @overload
        def __call__(self, dim: Dim, keepdim: bool = ..., *, reduce: No = ..., return_indices: Literal[False]) -> R: ...
        @overload
        def __call__(
            self, dim: int, keepdim: bool = ..., *, reduce: Literal[True], return_indices: Literal[True] = ...
        ) -> Extremes[Tensor]: ...
        @overload
        def __call__(
            self, dim: Whole = ..., keepdim: bool = ..., *, reduce: Literal[True], return_indices: bool = ...
        ) -> Tensor: ...
        @overload
        def __call__(
            self, dim: Dim, keepdim: bool = ..., *, reduce: Literal[True], return_indices: Literal[False]
        ) -> Tensor: ...

    class IndexedExtremum(Protocol):
        """``data.max(dim, keepdim, reduce=, return_indices=)``."""

        def __get__(self, instance: C, owner: Any) -> BoundIndexedExtremum[C]: ...

    class BoundRunningExtremum(Protocol[R]):
        @overload
        def __call__(self, dim: int, *, reduce: No = ..., return_indices: Literal[True] = ...) -> Extremes[R]: ...
        @overload
        def __call__(self, dim: int, *, reduce: No = ..., return_indices: Literal[False]) -> R: ...
        @overload
        def __call__(
            self, dim: int, *, reduce: Literal[True], return_indices: Literal[True] = ...
        ) -> Extremes[Tensor]: ...
        @overload
        def __call__(self, dim: int, *, reduce: Literal[True], return_indices: Literal[False]) -> Tensor: ...

    class RunningExtremum(Protocol):
        """``data.cummax(dim, reduce=, return_indices=)``."""

        def __get__(self, instance: C, owner: Any) -> BoundRunningExtremum[C]: ...

    class BoundRunningTotal(Protocol[R]):
        def __call__(self, dim: int, *, dtype: torch.dtype | None = None) -> R: ...

    class RunningTotal(Protocol):
        """``data.cumsum(dim, dtype=)``."""

        def __get__(self, instance: C, owner: Any) -> BoundRunningTotal[C]: ...


_NOTHING: dict[str, Any] = {}
Dim: TypeAlias = int | Sequence[int] | Literal["feature"] | None


# ---------------------------------------------------------------------------------------------------------------------
# docstrings of the table

_DIM = """dim: batch dimensions to reduce: an int or several; ``"feature"`` reduces all dimensions behind the batch.
        Default: all dimensions of each tensor.
    keepdim: keep each reduced dimension with size 1. Default: ``False``."""
_DTYPE = "dtype: dtype to which tensors are cast before they are reduced. Default: chosen by torch."
_CORRECTION = "correction: subtracted from the number of elements in the denominator. Default: 1."
_REDUCE = """reduce: ``True`` joins all tensors along ``dim`` and reduces them to one tensor. Default: ``False``."""
_KEY_TRANSFORM = """key_transform: maps each key of each level to its key in the result; ``None`` drops the entry.
        Without effect where ``reduce`` is true."""
_RETURN_INDICES = """return_indices: return the positions along ``dim`` too. They exist along one batch dimension only.
        Default: ``True``."""
_JOINED = """Raises:
    IndexError: ``dim`` is not a batch dimension.
    ValueError: ``reduce=True``, and there is no tensor.
    RuntimeError: ``reduce=True`` over a batch dimension, and the tensors differ in shape."""
_OF_ONE_CLASS = "A collection of the same class, without the reduced batch dimensions; non-tensor data is kept."
_OR_TENSOR = "\n    A tensor with ``reduce=True``."
_RENAMED = "\n    A :class:`TensorDict` with ``key_transform``. A tensor with ``reduce=True``."


def _documented(
    method: Any, name: str, summary: str, args: Sequence[str], returns: str, raises: str, example: str, values: str = ""
) -> Any:
    """Give a method its name and docstring: all sections of it, and an example on ``data["x"]``."""
    values = values or "[[1.0, 2.0], [3.0, 5.0]]"
    listed = "\n    ".join(args)
    example = example.replace("\n", "\n    ")
    method.__name__ = name
    method.__qualname__ = f"Reductions.{name}"
    method.__doc__ = f"""{summary}

Args:
    {listed}

Returns:
    {returns}

{raises}

Example:
    >>> import torch
    >>> from tensorclass import TensorDict
    >>> data = TensorDict({{"x": torch.tensor({values})}}, batch_size=[2])
    {example}
"""
    return method


def _three_ways(name: str, over_batch: str, over_features: str, joined: str) -> str:
    """The example of a reduction: over a batch dimension, over the features, and of all tensors."""
    return (
        f'>>> data.{name}(0)["x"], data.{name}("feature")["x"], data.{name}(reduce=True)\n'
        f"(tensor({over_batch}), tensor({over_features}), tensor({joined}))"
    )


# ---------------------------------------------------------------------------------------------------------------------
# functions that make the methods


def total(function: Callable[..., Any], name: str, summary: str, *results: str) -> Total:
    """The method of a sum or a mean, whose keys can be renamed.

    Args:
        function: reduces one tensor over dimensions.
        name: of the method.
        summary: first line of the docstring.
        results: of its example: over the batch, over the features, and of all tensors.
    """

    def method(
        self: Reductions,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        reduce: bool | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Any:
        if dtype is None and not reduce and key_transform is None:
            return self._reduce(function, dim, keepdim, _NOTHING)
        return self._run(function, dim, keepdim, reduce, key_transform, dtype=dtype)

    args = (_DIM, _DTYPE, _REDUCE, _KEY_TRANSFORM)
    made: Total = _documented(
        method, name, summary, args, _OF_ONE_CLASS + _RENAMED, _JOINED, _three_ways(name, *results)
    )
    return made


def plain_total(function: Callable[..., Any], name: str, summary: str, *results: str, values: str = "") -> PlainTotal:
    """The method of a sum, mean or product. See :func:`total`; ``values`` are the elements in the example."""

    def method(
        self: Reductions,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        dtype: torch.dtype | None = None,
        reduce: bool | None = None,
    ) -> Any:
        if dtype is None and not reduce:
            return self._reduce(function, dim, keepdim, _NOTHING)
        return self._run(function, dim, keepdim, reduce, dtype=dtype)

    args = (_DIM, _DTYPE, _REDUCE)
    made: PlainTotal = _documented(
        method, name, summary, args, _OF_ONE_CLASS + _OR_TENSOR, _JOINED, _three_ways(name, *results), values
    )
    return made


def spread(function: Callable[..., Any], name: str, summary: str, *results: str) -> Spread:
    """The method of a measure of spread. See :func:`total` for the arguments."""

    def method(
        self: Reductions,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        correction: int = 1,
        reduce: bool | None = None,
        key_transform: KeyTransform | None = None,
    ) -> Any:
        return self._run(function, dim, keepdim, reduce, key_transform, correction=correction)

    args = (_DIM, _CORRECTION, _REDUCE, _KEY_TRANSFORM)
    made: Spread = _documented(
        method, name, summary, args, _OF_ONE_CLASS + _RENAMED, _JOINED, _three_ways(name, *results)
    )
    return made


def extremum(function: Callable[..., Any], name: str, summary: str, *results: str) -> Extremum:
    """The method of a largest or smallest element, without its index. See :func:`total` for the arguments."""

    def method(self: Reductions, dim: Dim = None, keepdim: bool = False, *, reduce: bool | None = None) -> Any:
        return self._run(function, dim, keepdim, reduce)

    made: Extremum = _documented(
        method, name, summary, (_DIM, _REDUCE), _OF_ONE_CLASS + _OR_TENSOR, _JOINED, _three_ways(name, *results)
    )
    return made


def indexed_extremum(
    function: Callable[..., Any], name: str, summary: str, found: str, indices: str
) -> IndexedExtremum:
    """The method of a largest or smallest element and its index.

    Args:
        function: reduces one tensor over dimensions, without indices.
        name: of the method, and of the torch function that gives values and indices.
        summary: first line of the docstring.
        found: the values of its example.
        indices: the indices of its example.
    """

    def method(
        self: Reductions,
        dim: Dim = None,
        keepdim: bool = False,
        *,
        reduce: bool | None = None,
        return_indices: bool = True,
    ) -> Any:
        return self._extreme(function, name, dim, keepdim, reduce, return_indices)

    returns = f"""``torch.return_types.{name}`` of two collections (two tensors with ``reduce=True``) if ``dim`` is one
    batch dimension and ``return_indices`` is true. Otherwise the values alone."""
    raises = f"{_JOINED}\n    TypeError: several dimensions, and ``return_indices`` is true."
    example = (
        f'>>> found = data.{name}(0)\n>>> found.values["x"], found.indices["x"]\n(tensor({found}), tensor({indices}))'
    )
    made: IndexedExtremum = _documented(
        method, name, summary, (_DIM, _REDUCE, _RETURN_INDICES), returns, raises, example
    )
    return made


_ALONG = "dim: the batch dimension, an int."
_ALONG_RAISES = "Raises:\n    IndexError: ``dim`` is not a batch dimension."


def running_extremum(name: str, summary: str, found: str, indices: str) -> RunningExtremum:
    """The method of a largest or smallest element so far. See :func:`indexed_extremum` for the arguments."""

    def method(self: Reductions, dim: int, *, reduce: bool | None = None, return_indices: bool = True) -> Any:
        return self._running_extremum(name, dim, reduce, return_indices)

    indices_too = "return_indices: return the positions along ``dim`` too. Default: ``True``."
    returns = f"""``torch.return_types.{name}`` of two collections of this shape (two tensors with ``reduce=True``). The
    values alone if ``return_indices`` is false."""
    example = (
        f'>>> found = data.{name}(0)\n>>> found.values["x"].tolist(), found.indices["x"].tolist()\n({found}, {indices})'
    )
    made: RunningExtremum = _documented(
        method, name, summary, (_ALONG, _REDUCE, indices_too), returns, _JOINED, example
    )
    return made


def running_total(name: str, summary: str, found: str) -> RunningTotal:
    """The method of a sum or product so far. See :func:`indexed_extremum` for the arguments."""

    def method(self: Reductions, dim: int, *, dtype: torch.dtype | None = None) -> Any:
        return self._each_along(name, dim, dtype)

    returns = "A collection of the same class and batch size."
    example = f'>>> data.{name}(0)["x"].tolist()\n{found}'
    made: RunningTotal = _documented(method, name, summary, (_ALONG, _DTYPE), returns, _ALONG_RAISES, example)
    return made
