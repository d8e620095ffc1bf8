"""The base of leaves that are the same for all rows: results of operations differ in their batch size only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Size
from typing_extensions import Self

from tensorclass.td import shapes

from .leaf import Leaf


class Uniform(Leaf):
    """Base of :class:`NonTensorData` and :class:`UnbatchedTensor`: one object or tensor, which fits any batch size."""

    __slots__ = ()

    _is_uniform = True

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        pass

    def _resized(self, batch_size: Size) -> Self:
        return self._like({}, batch_size)

    def _padded(self, pairs: Sequence[tuple[int, int]], value: float) -> Any:
        size = list(self._batch_size)
        for dim, (before, behind) in enumerate(pairs):
            size[dim] += before + behind
        return self._like({}, Size(size), self._names)

    def _stacked_as_one(self, items: list[Any], dim: int) -> Self:
        """Return the same content for the rows of several leaves that are stacked."""
        return self._like({}, shapes.inserted(self._batch_size, dim, len(items)), self._names_stacked(items, dim))

    def _joined_as_one(self, items: list[Any], dim: int) -> Self:
        """Return the same content for the rows of several leaves that are concatenated."""
        total = sum(item._batch_size[dim] for item in items)
        return self._like({}, shapes.with_size(self._batch_size, dim, total), self._names)

    def _index_bound(self, index: tuple[Any, ...], plain: tuple[Any, ...]) -> Any:
        return self._index_prepared(plain)

    def _in_size(self, viewed: Any, batch_size: Size | None) -> Any:
        return viewed if batch_size is None else viewed._resized(batch_size)

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdim: bool, kwargs: dict[str, Any]) -> Self:
        if isinstance(dim, str):
            return self._shallow()
        dims = tuple(range(self.ndim)) if dim is None else shapes.wrap_dims(dim, self.ndim)
        size = shapes.reduced(self._batch_size, dims, keepdim)
        return self._like({}, size, shapes.names_reduced(self._names, dims, keepdim))
