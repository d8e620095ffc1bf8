"""The functions of the benchmark of compiled code do the same on records as on tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree

from benchmarks.compiled import FUNCTIONS, Function, compiled_figures
from tensorclass import TensorDict


def _leaves(result: Any) -> list[Tensor]:
    found: list[Tensor] = _pytree.tree_leaves(result)
    return found


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_function_does_the_same_on_a_record_and_on_tensors(function: Function) -> None:
    record = function.record(32)
    tensors = _leaves(record)
    assert len(tensors) == len(function.tensors(32))
    ours, plain = _leaves(function.of_record(record)), _leaves(function.of_tensors(*tensors))
    assert len(ours) == len(plain)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.name)
def test_a_function_of_a_record_is_compiled_as_one_of_tensors(function: Function) -> None:
    """No break of the graph, and no compilation more: this fails where a new PyTorch no longer traces a record."""
    ours = compiled_figures(function.of_record, lambda size: (function.record(size),))
    plain = compiled_figures(function.of_tensors, function.tensors)
    assert ours.breaks == plain.breaks == 0
    assert ours.compilations <= (
        plain.compilations or 2
    )  # on tensors, `select` has no graph: for one size, and for all


def test_breaks_guards_and_compilations_are_counted() -> None:
    def breaks(data: TensorDict) -> Any:
        moved = data["x"] + 1
        torch._dynamo.graph_break()
        return moved * 2

    figures = compiled_figures(breaks, lambda size: (TensorDict({"x": torch.zeros(size)}, [size]),))
    assert figures.breaks == 1
    assert figures.guards > 0
    assert figures.compilations == 4  # two parts: for the first size, and for all others
    assert figures.seconds > 0
