"""Operations on the batch dimensions, rows, and several collections made one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests import strategies as draw
from tests.operations import SHAPE_OPERATIONS
from tests.parity.drawn import Case, Drawn, Made, case, spread
from tests.parity.sides import PEER


def dim(drawn: Drawn) -> st.SearchStrategy[int]:
    """A batch dimension, or one that is out of range."""
    return draw.any_dims(drawn.ndim)


def existing_dim(drawn: Drawn) -> st.SearchStrategy[int]:
    return draw.dims(drawn.ndim) if drawn.ndim else st.just(0)


# -- the batch dimensions ----------------------------------------------------------------------------------------------


def _shaping(name: str) -> Case:
    def arguments(drawn: Drawn) -> st.SearchStrategy[Any]:
        strategy = SHAPE_OPERATIONS[name](drawn.batch_size)
        if name == "squeeze":  # of several dims: see "more is taken"
            return strategy.filter(lambda args: not args or isinstance(args[0], int))
        if name == "unbind":  # without a dim: the same
            return strategy.filter(bool)
        if name == "flip":  # with a dim twice, of a collection without tensors: see "empty collections"
            return strategy.filter(lambda args: len(set(args[0])) == len(args[0]))
        return strategy

    return spread(arguments, dims=1)


SHAPING = {
    **{name: _shaping(name) for name in SHAPE_OPERATIONS},
    "atleast_1d": case(),
    "atleast_2d": case(),
    "atleast_3d": case(),
    "flatten: in place": case(existing_dim, existing_dim, inplace=True, dims=1),
    "roll: in place": case(st.integers(-3, 3), existing_dim, inplace=True, dims=1),
    "repeat: in place": spread(lambda d: st.tuples(*[st.integers(0, 2)] * d.ndim), dims=1),
    "view: a dtype": case(st.sampled_from((torch.int32, torch.uint8, torch.float64))),
}


# -- rows --------------------------------------------------------------------------------------------------------------


def index(drawn: Drawn) -> st.SearchStrategy[Any]:
    return draw.indices(drawn.batch_size)


@st.composite
def index_and_rows(data: Callable[..., Any], drawn: Drawn) -> Any:
    """An index, and rows that fit there, mostly."""
    at = data(draw.indices(drawn.batch_size))
    try:
        size = tuple(PEER.TensorDict({}, drawn.batch_size)[at].batch_size)
    except Exception:
        size = drawn.batch_size  # both refuse the index
    if data(st.integers(0, 9)) == 0:
        size = (*size, 2)
    return Made(replace(drawn.tree, more=()), size), at


@st.composite
def key_index_and_value(data: Callable[..., Any], drawn: Drawn) -> Any:
    rows, at = data(index_and_rows(drawn))
    leaves = list(drawn.leaves.items())
    key, leaf = data(st.sampled_from(leaves)) if leaves else (("missing",), draw.Leaf())
    return key, data(st.sampled_from((Made(draw.Leaf(leaf.rest, leaf.dtype, 3), rows.size), 1.0, 0))), at


def _set_rows(data: Any, library: Any, rows: Any, at: Any) -> None:
    data[at] = rows


def _set_number(data: Any, library: Any, at: Any) -> None:
    data[at] = 1


def _row_by_row(data: Any, library: Any, order: list[int]) -> Any:
    result = library.TensorDict({}, [len(order), *data.batch_size])
    for i in order:
        result[i] = data
    return result


ROWS = {
    "__getitem__: rows": case(index),
    "__setitem__: rows": spread(index_and_rows, call=_set_rows),
    "__setitem__: a number": case(index, call=_set_number, objects=False),
    "__setitem__: row by row": case(st.integers(1, 3).flatmap(lambda n: st.permutations(range(n))), call=_row_by_row),
    "__iter__": case(call=lambda data, library: list(data), dims=1),
    "__reversed__": case(call=lambda data, library: list(reversed(data)), dims=1),
    "__getitems__": case(lambda d: st.lists(st.integers(0, max(0, (d.batch_size or (0,))[0] - 1)), max_size=3), dims=1),
    "set_at_": spread(key_index_and_value),
    "get_at": case(
        lambda d: st.sampled_from([*d.paths, ("missing",)]),
        index,
        call=lambda data, library, key, at: data.get_at(key, at),
    ),
    "update_at_": spread(index_and_rows),
    "copy_at_": spread(index_and_rows),
}


# -- several made one --------------------------------------------------------------------------------------------------


@st.composite
def others(data: Callable[..., Any], drawn: Drawn) -> Any:
    """Others to be joined with a collection: mostly with the same keys and batch size."""
    size = drawn.batch_size
    trees = st.just(drawn.tree) | st.just(drawn.tree) | draw.trees(3, 1)
    sizes = st.just(size) | st.just(size) | st.just((*size, 1))
    return data(st.lists(st.builds(Made, trees, sizes), max_size=2))


def join_dim(drawn: Drawn) -> st.SearchStrategy[int]:
    return st.integers(-drawn.ndim, max(drawn.ndim - 1, 0))


def _combine(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda data, library, others, dim: function(library, [data, *others], dim)


@st.composite
def condition(data: Callable[..., Any], drawn: Drawn) -> torch.Tensor:
    depth = data(st.integers(0, drawn.ndim))
    return torch.as_tensor(data(draw.masks(drawn.batch_size[:depth])), dtype=torch.bool)


def full_condition(drawn: Drawn) -> st.SearchStrategy[torch.Tensor]:
    return draw.masks(drawn.batch_size).map(lambda mask: torch.as_tensor(mask, dtype=torch.bool))


def like(drawn: Drawn) -> st.SearchStrategy[Made]:
    """Another collection with the same keys."""
    return st.just(Made(replace(drawn.tree, more=()), drawn.batch_size))


COMBINING = {
    "stack": case(others, join_dim, call=_combine(lambda m, parts, dim: m.TensorDict.stack(parts, dim))),
    "stack: of torch": case(others, join_dim, call=_combine(lambda m, parts, dim: torch.stack(parts, dim))),
    "stack()": case(others, join_dim, call=_combine(lambda m, parts, dim: m.stack(parts, dim))),
    "cat": case(others, join_dim, call=_combine(lambda m, parts, dim: m.TensorDict.cat(parts, dim)), dims=1),
    "cat: of torch": case(others, join_dim, call=_combine(lambda m, parts, dim: torch.cat(parts, dim)), dims=1),
    "cat()": case(others, join_dim, call=_combine(lambda m, parts, dim: m.cat(parts, dim)), dims=1),
    "where": case(condition, like, call=lambda data, library, mask, other: data.where(mask, other)),
    "where: of torch": case(condition, like, call=lambda data, library, mask, other: torch.where(mask, data, other)),
    "where: a number": case(condition, 0, objects=False),
    "masked_fill": case(condition, 1, objects=False),
    "masked_fill_": case(condition, 1, objects=False),
    "masked_select": case(full_condition),
}
