"""``torch.autograd.grad`` and ``torch.autograd.backward`` on collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from .apply import Applying
from .collection import Collection
from .context import _stands_on_dicts
from .foreach import aligned_operands
from .hidden_members import with_members


def _sequence(given: Any) -> Sequence[Any]:
    return (given,) if isinstance(given, (Tensor, Collection)) else tuple(given)


def _outputs(outputs: Any, gradients: Any) -> tuple[list[Tensor], list[Tensor | None] | None]:
    """Return the tensors among the outputs that require gradients, and the gradient of each."""
    sources = _sequence(outputs)
    given = [None] * len(sources) if gradients is None else _sequence(gradients)
    if len(given) != len(sources):
        raise RuntimeError(f"expected a gradient for each of {len(sources)} outputs, got {len(given)}")
    tensors: list[Tensor] = []
    found: list[Tensor | None] = []
    for output, gradient in zip(sources, given, strict=True):
        if not isinstance(output, Collection):
            tensors.append(output)
            found.append(gradient)
            continue
        if gradient is not None and not isinstance(gradient, Collection):
            raise ValueError(f"the gradient of a collection is a collection with its keys, got {gradient!r}")
        leaves: list[Tensor] = []
        output = output._captured(leaves)
        own = [None] * len(leaves) if gradient is None else aligned_operands(output, gradient)
        for leaf, operand in zip(leaves, own, strict=True):
            if leaf.requires_grad:
                tensors.append(leaf)
                found.append(operand)
    if not tensors:
        raise RuntimeError("no value of the outputs requires gradients")
    return tensors, None if gradients is None else found


def _differentiable(leaf: Tensor) -> bool:
    return leaf.is_floating_point() or leaf.is_complex()


def _inputs(inputs: Any) -> Iterator[Tensor]:
    """Yield the tensors to differentiate with respect to. Integers in a collection have no gradient."""
    for given in inputs:
        if isinstance(given, Collection):
            yield from filter(_differentiable, given._leaves())
        else:
            yield given


def _gradient_of(given: Any, tree: Any, gradients: Iterator[Tensor | None], batched: int | None) -> Any:
    """Return the gradient of an input: for a collection one of its class, without the values that were not used.

    ``tree`` holds the values of the collection as they were at the start.
    """
    if not isinstance(tree, Applying):
        return next(gradients)
    if batched is not None and not _stands_on_dicts(given):
        raise NotImplementedError("is_grads_batched: lazy stacks have no gradients in batches; stack them first")
    size = None if batched is None else (batched, *given._batch_size)
    result = with_members(tree).apply(
        lambda leaf: next(gradients) if _differentiable(leaf) else None,
        batch_size=size,
        filter_empty=False,
    )
    return result if given._lock is None else with_members(result).lock_()


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """``torch.autograd.grad`` where outputs or inputs are collections. For a collection as ``inputs``, return one."""
    tensors, gradients = _outputs(outputs, grad_outputs)
    batched = len(gradients[0]) if is_grads_batched and gradients and gradients[0] is not None else None
    sources = list(_sequence(inputs))
    trees = [given._captured([]) if isinstance(given, Collection) else given for given in sources]
    found = torch.autograd.grad(
        tensors, list(_inputs(trees)), gradients, retain_graph, create_graph, only_inputs, allow_unused,
        is_grads_batched, materialize_grads,
    )  # fmt: skip
    each = iter(found)
    results = tuple([_gradient_of(*pair, each, batched) for pair in zip(sources, trees, strict=True)])
    # torch passes a single input on as a tuple
    return results[0] if len(results) == 1 and isinstance(results[0], Collection) else results


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """``torch.autograd.backward`` from collections."""
    outputs, gradients = _outputs(tensors, grad_variables if grad_tensors is None else grad_tensors)
    targets = None if inputs is None else list(_inputs(_sequence(inputs)))
    if targets and any(isinstance(given, Collection) for given in _sequence(inputs)):
        for target in targets:
            if not target.is_leaf:  # torch takes a collection apart into its rows before it asks for this function
                raise RuntimeError(
                    "backward: the inputs are no leaves of the autograd graph, as are the rows of a collection that is "
                    "given as inputs; give a list, inputs=[data], or call outputs.backward(inputs=data)"
                )
    torch.autograd.backward(outputs, gradients, retain_graph, create_graph, inputs=targets)


#: torch function -> handler
AUTOGRAD: dict[Callable[..., Any], Callable[..., Any]] = {torch.autograd.grad: grad, torch.autograd.backward: backward}
