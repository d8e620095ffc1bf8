"""The base of leaves with content for each position of the batch: the batch size is that of the content."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from torch import Size

from tensorclass.support.printable import type_name
from tensorclass.td import shapes

from .leaf import Leaf


class RowByRow(Leaf):
    """Base of :class:`NonTensorStack`, :class:`Text` and :class:`Ragged`: a row or an object for each position."""

    __slots__ = ()

    #: the word for the content of one position in messages
    _ROW: ClassVar[str] = "a row"

    def _called(self) -> str:
        """Return what messages call this leaf."""
        return f"this {type_name(self)}"

    def _misfit(self, size: Size, called: str) -> RuntimeError:
        return RuntimeError(
            f"batch_size: {list(size)} does not fit {called}, which holds {self._ROW} for each position of "
            f"{list(self._batch_size)}. Nothing was changed"
        )

    def _set_batch_size(self, batch_size: Sequence[int] | int) -> None:
        size = shapes.as_size(batch_size)
        if size != self._batch_size:
            raise self._misfit(size, self._called())

    def _check_batch_size(self, size: Size, path: tuple[str, ...]) -> None:
        if self._batch_size[: len(size)] != size:
            raise self._misfit(size, repr(".".join(path) or self._called()))

    def _take_batch_size(self, size: Size) -> None:
        pass

    def _resized(self, batch_size: Size) -> Any:
        if self._batch_size == batch_size:
            return self
        more = self.ndim - len(batch_size)
        return self.expand(batch_size) if more <= 0 else self._index_value((0,) * more)

    def _reduce(self, function: Callable[..., Any], dim: Any, keepdim: bool, kwargs: dict[str, Any]) -> Any:
        """Return the first row along the reduced dimensions; a row without a value if the batch is empty."""
        if isinstance(dim, str):
            return self._shallow()
        dims = tuple(range(self.ndim)) if dim is None else shapes.wrap_dims(dim, self.ndim)
        if 0 in self._batch_size:
            absent = self._without_value(shapes.reduced(self._batch_size, dims, keepdim))
            absent._names = shapes.names_reduced(self._names, dims, keepdim)
            return absent
        result: Any = self._shallow()
        for d in sorted(dims, reverse=True):
            result = result.narrow(d, 0, 1) if keepdim else result._index_prepared((slice(None),) * d + (0,))
        return result

    def _without_value(self, batch_size: Size) -> Any:
        """Return rows that have no value, of a batch size."""
        raise NotImplementedError
