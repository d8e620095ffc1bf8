"""Chunks of rows, and the concatenation of their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tensorclass.support.printable import type_name
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked


class Chunks(NamedTuple):
    """The chunks of a collection: consecutive rows along a dimension, or single rows."""

    dim: int
    length: int  #: size of that dimension
    size: int  #: rows of a chunk; the last chunk can have fewer
    single: bool  #: whether a chunk is one row, without that dimension
    order: Tensor | None = None  #: permutation of the rows

    @property
    def total(self) -> int:
        """Number of chunks."""
        if self.single:
            return self.length
        return max(1, -(-self.length // self.size))

    def rows(self, first: int, last: int | None = None) -> tuple[int, int]:
        """Return the first and last row (exclusive) of a chunk, or of the chunks up to ``last``."""
        last = first + 1 if last is None else last
        return min(first * self.size, self.length), min(last * self.size, self.length)

    def part(self, data: Any, first: int, last: int) -> Any:
        """Return the rows of several chunks as one collection."""
        start, stop = self.rows(first, last)
        lead = (slice(None),) * self.dim
        if self.order is not None:
            index: Any = (*lead, self.order[start:stop])
            return data[index]
        if start == 0 and stop == self.length:
            return data
        index = (*lead, slice(start, stop))
        return data[index]

    def cut(self, part: Any) -> Iterator[Any]:
        """Split the rows of :meth:`part` into chunks."""
        if self.single:
            return iter(part.unbind(self.dim))
        if part.batch_size[self.dim] <= self.size:
            return iter((part,))
        return iter(part.split(self.size, self.dim))

    def shown(self, first: int, last: int | None = None) -> str:
        """Describe a chunk, or one of the chunks up to ``last``, for messages."""
        start, stop = self.rows(first, last)
        if self.order is not None:
            some = [str(int(row)) for row in self.order[start : min(stop, start + 6)]]
            rows = f"rows {', '.join(some)}{', ...' if stop - start > 6 else ''}"
        else:
            rows = f"row {start}" if stop == start + 1 else f"rows {start} to {stop - 1}" if stop > start else "no rows"
        which = f"chunk {first}" if last is None or last == first + 1 else f"one of the chunks {first} to {last - 1}"
        return f"{which} of {self.total} ({rows}{f' of dimension {self.dim}' if self.dim else ''})"


class Target(NamedTuple):
    """The ``out`` of ``map``: results of a chunk are written to its rows."""

    out: Any  #: a collection or a tensor
    chunks: Chunks  #: those of the data
    length: int  #: size of the dimension in ``out``; a multiple or a fraction of that in the data

    def write(self, chunk: int, result: Any) -> None:
        """Write the result of a chunk."""
        chunks, (start, stop) = self.chunks, self.chunks.rows(chunk)
        rows: Any = start if chunks.single else slice(self._scaled(start), self._scaled(stop))
        index: Any = (*(slice(None),) * chunks.dim, rows)
        if isinstance(self.out, Tensor):
            if not isinstance(result, Tensor):
                raise TypeError(f"map: out is a tensor, and the function gave a {type_name(result)}")
            room = self.out[index]
            if room.shape != result.shape:
                raise RuntimeError(
                    f"map: out has room for the shape {list(room.shape)}, got {list(result.shape)}: it has "
                    f"{self.length} rows for the {chunks.length} of the data"
                )
            room.copy_(result)
            return
        if not isinstance(result, TensorCollection):
            raise TypeError(f"map: out is a {type_name(self.out)}, and the function gave a {type_name(result)}")
        size = self.out[index].batch_size
        if size != result.batch_size:
            raise RuntimeError(
                f"map: out has room for the batch size {list(size)}, got {list(result.batch_size)}: it has "
                f"{self.length} rows for the {chunks.length} of the data"
            )
        try:
            self.out.update_at_(result, index)
        except KeyError as error:
            here, given = type_name(self.out), type_name(result)
            raise KeyError(f"map: out, a {here}, does not take the {given} of the function: {error.args[0]}") from error

    def _scaled(self, row: int) -> int:
        return row * self.length // max(1, self.chunks.length)


class Joined(NamedTuple):
    """Results of some chunks: one concatenated value, or a list without ``None``."""

    value: Any
    each: list[Any] | None = None


def join(results: Sequence[Any], dim: int, single: bool) -> Any:
    """Concatenate the results of all chunks, or stack them if each is of a single row. Other objects stay in a list.

    Raises:
        RuntimeError: their shapes do not fit.
        TypeError: they are of different types: collections, tensors, other objects.
    """
    kinds = [Tensor if isinstance(item, Tensor) else Collection for item in results]
    wholes = [isinstance(item, (Tensor, Collection)) for item in results]
    if not any(wholes):
        return list(results)
    at = next((at for at in range(len(results)) if not wholes[at] or kinds[at] is not kinds[0]), None)
    if at is not None:
        raise TypeError(
            f"map: results of chunks cannot be concatenated: one is a {type_name(results[0])}, another one a "
            f"{type_name(results[at])}; map_iter gives them one by one"
        )
    ndim = min(item.ndim for item in results)
    if dim >= ndim + single:
        what = "shape" if kinds[0] is Tensor else "batch size"
        item = next(item for item in results if item.ndim == ndim)
        raise RuntimeError(
            f"map: results of chunks are concatenated along the dimension {dim}, and one has the {what} "
            f"{list(item.shape)}; give results with that dimension, or use map_iter"
        )
    if kinds[0] is Tensor:
        return torch.stack(list(results), dim) if single else torch.cat(list(results), dim)
    if single:
        rows: Any = results[0]
        return rows.maybe_dense_stack(list(results), dim)
    return results[0] if len(results) == 1 else torch.cat(list(results), dim)


def joined(results: list[Any], dim: int, single: bool) -> Joined:
    """Concatenate results of some chunks if they allow it."""
    found = [result for result in results if result is not None]
    if not found:
        return Joined(None)
    try:
        value = join(found, dim, single)
    except (RuntimeError, TypeError):
        return Joined(None, found)
    if isinstance(value, list) or (single and isinstance(value, LazyStacked)):
        return Joined(None, found)
    return Joined(value)


def join_all(parts: Sequence[Joined], dim: int, single: bool) -> Any:
    """Concatenate the results of all chunks; ``None`` if all are ``None``."""
    if all(part.each is None for part in parts):
        values = [part.value for part in parts if part.value is not None]
        if not values:
            return None
        try:
            return join(values, dim, False)
        except RuntimeError:
            if not single:
                raise
    found: list[Any] = []
    for part in parts:
        if part.each is not None:
            found += part.each
        elif part.value is not None:
            found += part.value.unbind(dim) if single else [part.value]
    return join(found, dim, single)
