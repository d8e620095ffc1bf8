"""Where lazy stacks and those of the peer differ, as tests/parity/test_differences.py lists it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from tests.parity.sides import described

Call = Callable[[Any], Any]

CPU = torch.device("cpu")
MASK = torch.tensor([[True, False, True], [False, True, True]])


def lazy(library: Any, dim: int = 0) -> Any:
    """Two parts of three rows."""
    parts = [library.TensorDict({"a": torch.full((3, 2), float(i))}, [3]) for i in range(2)]
    return library.lazy_stack(parts, dim)


def uneven(library: Any, **options: Any) -> Any:
    """Two parts whose values differ in their shapes."""
    parts = [library.TensorDict({"a": torch.ones(n)}) for n in (2, 3)]
    return library.LazyStackedTensorDict.lazy_stack(parts, **options)


def is_lazy(data: Any) -> bool:
    return hasattr(data, "stack_dim")


def with_batch_size(data: Any, size: list[int]) -> Any:
    data.batch_size = size
    return tuple(data.batch_size)


def appended(part: Any, other: Any) -> Any:
    """The new part of a lazy stack."""
    stack = part.unsqueeze(0).to_lazystack(0)
    stack.append(other)
    return stack[1]


def refused(cls: type[Exception]) -> Any:
    return described(cls())


def leaves(data: Any) -> list[tuple[int, ...]]:
    return [tuple(leaf.shape) for leaf in _pytree.tree_leaves(data)]


#: for each heading: a call, what it gives here, and what in the peer
LAZY_STACKS: dict[str, list[tuple[Call, Any, Any]]] = {
    "Operations that mix items return a plain collection.": [
        (lambda m: is_lazy(lazy(m)[MASK]), False, True),
        (lambda m: is_lazy(lazy(m)[torch.tensor([0, 1]), torch.tensor([2, 0])]), False, True),
        (lambda m: is_lazy(lazy(m).reshape(-1)), False, True),
        (lambda m: is_lazy(lazy(m).flatten(0, 1)), False, True),
    ],
    "More stays lazy.": [
        (lambda m: is_lazy(lazy(m).expand(4, 2, 3)), True, False),
        (lambda m: is_lazy(lazy(m).flip(0)), True, False),
        (lambda m: is_lazy(lazy(m).narrow(0, 0, 1)), True, False),
    ],
    "Padded values lie along the stack dimension.": [
        (lambda m: tuple(lazy(m, 1).get("a", as_padded_tensor=True).shape), (3, 2, 2), (2, 3, 2)),
    ],
    "`as_padded_tensor` can be an option of the stack.": [
        (
            lambda m: tuple(uneven(m, as_padded_tensor=True)["a"].shape),
            (2, 3),
            described(RuntimeError()),
        ),
    ],
    "Items of a lazy stack can be on different devices.": [
        (
            lambda m: m.lazy_stack([m.TensorDict({}, device=d) for d in ("cpu", None)]).device,
            None,
            refused(RuntimeError),
        ),
        (
            lambda m: sorted(
                m.lazy_stack([m.TensorDict({"a": a}, device=d) for a, d in ((1, "cpu"), ({}, None))]).keys()
            ),
            ["a"],
            refused(RuntimeError),
        ),
        (lambda m: appended(m.TensorDict({}, device="cpu"), m.TensorDict({})).device, CPU, refused(ValueError)),
        (
            lambda m: tuple(m.lazy_stack([m.TensorDict({}, [2], names=n) for n in (None, ["x"])]).shape),
            refused(ValueError),
            (2, 2),
        ),
    ],
    "Tensors and collections under one key stay apart.": [
        (lambda m: len(m.maybe_dense_stack([m.TensorDict({"a": a}) for a in (1, {})])), 2, refused(AttributeError)),
    ],
    "Lazy stacks support all operations.": [
        (lambda m: lazy(m).cumsum(0)["a"][1, 0].tolist(), [1.0, 1.0], refused(AttributeError)),
        (lambda m: tuple(lazy(m).auto_batch_size_().batch_size), (2, 3, 2), refused(RuntimeError)),
    ],
    "The batch size can be set.": [
        (lambda m: with_batch_size(lazy(m), [2]), (2,), described(RuntimeError())),
    ],
    "`vmap` gives the batch size that the values have.": [
        (lambda m: tuple(torch.vmap(lambda x: x + 1)(lazy(m)).batch_size), (2, 3), (2, 2, 3)),
    ],
    "A lazy stack is a node with stacked values.": [
        (lambda m: leaves(lazy(m)), [(2, 3, 2)], [(3, 2), (3, 2)]),
        (lambda m: leaves(uneven(m)), [(2,), (3,)], [(2,), (3,)]),
    ],
}
