"""Lists with something for each row: a mapping, a dataclass, a named tuple, a collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorclass.fields import shown_value
from tensorclass.td import shapes
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection, DeviceLike
from tensorclass.td.combining import stack
from tensorclass.td.stores.lazy import lazy_stack, maybe_dense_stack

from .tree import FAILED, BatchSize, C, Plan, entries, finish, like, part, part_of, plan, settled


def from_list(
    cls: type[C],
    input: Sequence[Any],
    *,
    auto_batch_size: bool | None = None,
    batch_size: BatchSize = None,
    device: DeviceLike | None = None,
    batch_dims: int | None = None,
    names: Sequence[str | None] | None = None,
    lazy: bool | None = None,
    strict: bool = True,
) -> C:
    """See :meth:`TensorDict.from_list`."""
    asked = plan(f"{cls.__name__}.from_list", auto_batch_size, batch_dims, batch_size, device, names, strict=strict)
    if not isinstance(input, (list, tuple)):
        raise TypeError(f"from_list: expected a list with an item for each row, got a {type(input).__name__}")
    if not input:
        raise RuntimeError("from_list: expected at least one row, got an empty list")
    if asked.batch_dims == 0:
        raise ValueError("from_list: expected batch_dims of at least 1, the dimension of the rows; got 0")
    if asked.batch_size is not None and asked.batch_size[:1] != (len(input),):
        raise ValueError(
            f"from_list: expected a batch size that begins with the number of rows, {len(input)}; got "
            f"{list(asked.batch_size)}"
        )
    below = asked._replace(
        names=None,
        batch_dims=None if asked.batch_dims is None else asked.batch_dims - 1,
        batch_size=None if asked.batch_size is None else asked.batch_size[1:],
    )
    rows = [_row(cls, item, below, (f"[{position}]",)) for position, item in enumerate(input)]
    finish(asked)
    result: C = _stacked(rows, lazy)
    if names is not None:
        result._set_names(shapes.as_names(names, result.ndim))
    return result


def from_rows(cls: type[TensorCollection], rows: list[Any], asked: Plan, path: tuple[str, ...]) -> Any:
    """Rows below a key of what is made; ``FAILED`` where they cannot be, the problems are noted then."""
    made = [_row(cls, item, asked, (*path, f"[{position}]")) for position, item in enumerate(rows)]
    return FAILED if any(row is FAILED for row in made) else _stacked(made, None)


def _row(cls: type[TensorCollection], item: Any, asked: Plan, path: tuple[str, ...]) -> Any:
    if isinstance(item, Collection):
        if isinstance(item, cls):
            return settled(item._shallow(), asked)
        return part(cls, dict(item._store), like(item, asked), path)
    found = entries(item)
    if found is None:
        asked.problems.add(path, "a mapping, a dataclass, a (named) tuple or a collection", shown_value(item))
        return FAILED
    return part_of(cls, item, found, asked, path)


def _stacked(rows: list[Any], lazy: bool | None) -> Any:
    if lazy is None:
        return maybe_dense_stack(rows)
    return lazy_stack(rows) if lazy else stack(rows)
