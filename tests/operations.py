"""Operations of the table in ``td/operations.py`` and what they are called with: the same call is made on a collection
and on a tensor, or on the collections of two libraries.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st

from tensorclass.td.operations import OPERATIONS
from tests import strategies as draw

Size = tuple[int, ...]
Arguments = st.SearchStrategy[tuple[Any, ...]]

#: methods that do to each tensor what the function or method of torch of the same name does, with the same operands
POINTWISE: list[str] = [
    name
    for row in OPERATIONS
    if row.kind == "pointwise" and row.in_torch and row.name not in ("clamp", "masked_fill", "rsub")
    for name in row.methods
    if not name.startswith("__")
]


def shape_for(batch_size: Size) -> st.SearchStrategy[list[int]]:
    """Sizes that hold as many items, mostly; one of them perhaps left open."""

    @st.composite
    def shape(data: Callable[..., Any]) -> list[int]:
        factors = data(st.permutations(batch_size))
        cut = data(st.integers(0, len(factors)))
        sizes = [*factors[:cut], math.prod(factors[cut:])]
        change = data(st.sampled_from(("none", "none", "open", "open", "one", "wrong")))
        at = data(st.integers(0, len(sizes) - 1))
        if change == "open":
            sizes[at] = -1
        elif change == "one":
            sizes.insert(at, 1)
        elif change == "wrong":
            sizes[at] += 1
        return sizes

    return shape()


def one_or_several_dims(batch_size: Size) -> st.SearchStrategy[Any]:
    return draw.any_dims(len(batch_size)) | st.lists(draw.any_dims(len(batch_size)), max_size=2, unique=True).map(tuple)


def expansions(batch_size: Size) -> Arguments:
    sizes = [st.sampled_from((-1, n, n, 3)) for n in batch_size]
    return st.tuples(st.lists(st.integers(0, 2), max_size=1), st.tuples(*sizes)).map(
        lambda parts: (*parts[0], *parts[1])
    )


def split_sizes(batch_size: Size) -> st.SearchStrategy[Any]:
    return st.integers(-1, 5) | st.lists(st.integers(0, 3), max_size=3)


@st.composite
def gather_arguments(data: Callable[..., Any], batch_size: Size) -> tuple[Any, ...]:
    dim = data(draw.dims(len(batch_size)))
    shape = [data(st.integers(0, n)) for n in batch_size]
    shape[dim] = data(st.integers(0, 3)) if batch_size[dim] else 0
    index = data(
        st.lists(st.integers(0, max(batch_size[dim] - 1, 0)), min_size=math.prod(shape), max_size=math.prod(shape))
    )
    return dim, torch.tensor(index, dtype=torch.long).reshape(shape)


def repeats_for(batch_size: Size) -> Arguments:
    number = st.tuples(st.integers(0, 3), st.none() | draw.any_dims(len(batch_size)))

    def one_each(dim: int) -> Arguments:
        counts = st.lists(st.integers(0, 2), min_size=batch_size[dim], max_size=batch_size[dim])
        return st.tuples(counts.map(lambda values: torch.tensor(values, dtype=torch.long)), st.just(dim))

    return number | draw.dims(len(batch_size)).flatmap(one_each)


def rolls(batch_size: Size) -> Arguments:
    # of a tensor without items torch does not look at the dims
    dims = st.lists(draw.dims(len(batch_size)), min_size=1, max_size=2)
    several = dims.flatmap(
        lambda d: st.tuples(st.lists(st.integers(-3, 3), min_size=len(d), max_size=len(d)), st.just(d))
    )
    return several | st.tuples(st.integers(-3, 3), st.none() | draw.dims(len(batch_size)))


def pairs(batch_size: Size) -> Arguments:
    return st.tuples(draw.any_dims(len(batch_size)), draw.any_dims(len(batch_size)))


# name -> arguments for a batch size; "function(x)" is called where x has no such method
SHAPE_OPERATIONS: dict[str, Callable[[Size], Arguments]] = {
    "reshape": lambda size: shape_for(size).map(tuple) | shape_for(size).map(lambda shape: (shape,)),
    "view": lambda size: shape_for(size).map(tuple) | shape_for(size).map(lambda shape: (torch.Size(shape),)),
    "flatten": lambda size: pairs(size) | st.just(()),
    "unflatten": lambda size: st.tuples(
        draw.dims(len(size)), st.lists(st.sampled_from((-1, 1, 2, *size)), min_size=1, max_size=3)
    ),
    "permute": lambda size: st.permutations([d - len(size) * (d % 2) for d in range(len(size))]).map(tuple),
    "transpose": pairs,
    "swapaxes": pairs,
    "swapdims": pairs,
    "movedim": pairs,
    "moveaxis": lambda size: st.tuples(st.permutations(range(len(size))), st.permutations(range(len(size)))),
    "squeeze": lambda size: one_or_several_dims(size).map(lambda dim: (dim,)) | st.just(()),
    "unsqueeze": lambda size: st.tuples(draw.any_dims(len(size))),
    "expand": lambda size: expansions(size) | expansions(size).map(lambda shape: (shape,)),
    "expand_as": lambda size: draw.shapes(max_dims=1).map(lambda new: (torch.empty((*new, *size)),)),
    "broadcast_to": lambda size: expansions(size).map(lambda shape: (shape,)),
    "repeat": lambda size: st.tuples(*[st.integers(0, 2)] * len(size)),
    "tile": lambda size: st.lists(st.integers(0, 2), max_size=len(size) + 1).map(lambda counts: (counts,)),
    "repeat_interleave": repeats_for,
    "split": lambda size: st.tuples(split_sizes(size), draw.any_dims(len(size))),
    "chunk": lambda size: st.tuples(st.integers(-1, 5), draw.any_dims(len(size))),
    "tensor_split": lambda size: st.tuples(
        st.integers(-1, 5) | st.lists(st.integers(-3, 5), max_size=3) | st.just(torch.tensor([1, 2])),
        draw.dims(len(size)),
    ),
    "unbind": lambda size: st.tuples(draw.any_dims(len(size))) | st.just(()),
    "flip": lambda size: st.lists(draw.any_dims(len(size)), max_size=2).map(lambda dims: (tuple(dims),)),
    "fliplr": lambda size: st.just(()),
    "flipud": lambda size: st.just(()),
    "roll": rolls,
    "rot90": lambda size: st.tuples(st.integers(-5, 5), st.lists(draw.any_dims(len(size)), min_size=2, max_size=2)),
    "narrow": lambda size: st.tuples(draw.any_dims(len(size)), st.integers(-4, 4), st.integers(-1, 4)),
    "gather": lambda size: gather_arguments(size),
    "contiguous": lambda size: st.just(()),
}
