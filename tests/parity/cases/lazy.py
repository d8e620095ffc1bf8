"""Stacks that keep their parts, of collections and of objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from hypothesis import strategies as st

from tests import strategies as draw
from tests.parity.cases.shaping import existing_dim, join_dim, like, others
from tests.parity.drawn import Drawn, Made, case, maybe
from tests.parity.sides import is_object


def _stacked(name: str) -> Callable[..., Any]:
    return lambda data, library, parts, dim: getattr(library.TensorDict, name)([data, *parts], dim)


def _stacked_by_function(name: str) -> Callable[..., Any]:
    return lambda data, library, parts, dim: getattr(library, name)([data, *parts], dim)


def part(drawn: Drawn) -> st.SearchStrategy[Made]:
    """A part for a lazy stack along dimension 0, mostly."""
    trees = st.just(drawn.tree) | st.just(drawn.tree) | draw.trees(3, 1)
    sizes = st.just(drawn.batch_size[1:]) | st.just(drawn.batch_size[1:]) | st.just(drawn.batch_size)
    return st.builds(lambda tree, size: Made(replace(tree, more=()), size), trees, sizes)


def _changed(name: str) -> Callable[..., Any]:
    """What a lazy stack of the rows becomes; the rows are copies, so that the collection stays as it was."""

    def call(data: Any, library: Any, *args: Any) -> Any:
        stack = data.clone().unlock_().to_lazystack(0)
        getattr(stack, name)(*args)
        return stack

    return call


def _shorter(data: Any, size: int) -> torch.Tensor:
    return data.apply(lambda x: x.narrow(0, 0, size), batch_size=[])


def _ragged(data: Any, library: Any) -> Any:
    """A lazy stack of two parts, the second of which is shorter where it can be."""
    parts = [data, _shorter(data, max(0, data.shape[0] - 1))]
    return library.lazy_stack([library.TensorDict(dict(part.items())) for part in parts])


def _lists(data: Any) -> Any:
    """The tensors of a collection with nested tensors, by their keys."""
    return {str(key): list(value.unbind()) for key, value in data.items(True, True)}


def _hooked(data: Any, library: Any) -> Any:
    stack = data.clone(False).unlock_().to_lazystack(0)
    before = stack.hook_in, stack.hook_out
    stack.hook_in, stack.hook_out = (lambda x: x * 2), (lambda x: x + 1)
    return before, stack.hook_in(2), stack.hook_out(2)


LAZY = {
    "lazy_stack": case(others, join_dim, call=_stacked("lazy_stack")),
    "lazy_stack()": case(others, join_dim, call=_stacked_by_function("lazy_stack")),
    "maybe_dense_stack": case(others, join_dim, call=_stacked("maybe_dense_stack")),
    "maybe_dense_stack()": case(others, join_dim, call=_stacked_by_function("maybe_dense_stack")),
    "to_lazystack": case(maybe(existing_dim), dims=1),
    "append": case(part, call=_changed("append"), dims=1),
    "insert": case(st.integers(-1, 4), part, call=_changed("insert"), dims=1),
    "extend": case(lambda d: st.lists(part(d), max_size=2), call=_changed("extend"), dims=1),
    "valid_keys": case(call=lambda data, library: sorted(data.to_lazystack(0).valid_keys()), dims=1),
    "hook_in": case(call=_hooked, dims=1),
    "hook_out": case(call=_hooked, dims=1),
    "get_nestedtensor": case(
        lambda d: st.sampled_from([*d.leaves, ("missing",)]),
        call=lambda data, library, key: list(data.to_lazystack(0).get_nestedtensor(key, layout=torch.jagged).unbind()),
        dims=2, numbers=True,
    ),
    "to_padded_tensor": case(call=lambda data, library: data.to_padded_tensor(), objects=False),
    "to_padded_tensor: of a ragged stack": case(
        maybe(1.0), call=lambda data, library, *fill: _ragged(data, library).to_padded_tensor(*fill), dims=1,
        objects=False,
    ),
    "densify": case(objects=False),
    "densify: of a ragged stack": case(
        call=lambda data, library: _lists(_ragged(data, library).densify(torch.jagged)),
        dims=1, objects=False, numbers=True,
    ),
    "as_tensor": case(),
    "to_lazystack: unbind": case(
        existing_dim, existing_dim, call=lambda data, library, at, dim: data.to_lazystack(at).unbind(dim), dims=1
    ),
    "lazy_stack: contiguous": case(
        like,
        existing_dim,
        call=lambda data, library, other, dim: library.lazy_stack([data, other], dim).contiguous(),
    ),
}  # fmt: skip


def _object(drawn: Drawn) -> st.SearchStrategy[Made]:
    return st.sampled_from([value for value in draw.OBJECTS if value is not None]).map(
        lambda value: Made(draw.Text(value), drawn.batch_size)
    )


def _stack_of(data: Any, library: Any, value: Any) -> Any:
    made = library.NonTensorStack.from_nontensordata(value)
    return is_object(made), tuple(made.batch_size), made.tolist()


STACKS_OF_OBJECTS = {
    "maybe_to_stack": case(_object, call=lambda data, library, value: value.maybe_to_stack()),
    "from_nontensordata": case(_object, call=_stack_of),
}
