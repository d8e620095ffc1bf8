"""`torch.compile` and `torch.export` of code with text and ragged rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils import _pytree as pytree

from tensorclass import Ragged, TensorClass, Text


class Sample(TensorClass):
    text: Text
    numbers: Ragged
    x: Tensor


def sample(count: int, shift: int) -> Sample:
    numbers = [[float(at)] * ((at + shift) % 5) for at in range(count)]
    return Sample(["a" * at for at in range(count)], numbers, torch.arange(float(count)), batch_size=[count])


def padded(data: Any) -> Tensor:
    values: Tensor = data.numbers.to_padded(-1, length=8).values
    return values


COMPILED: dict[str, Callable[[Any], Any]] = {
    "pad": padded,
    "index": lambda data: padded(data[1:][torch.tensor([1, 0, 2])]),
    "mask": lambda data: padded(data[data.x > 1]),
    "reshape": lambda data: padded(data.unsqueeze(0).expand(2, -1).flip(1).reshape(-1)),
    "join": lambda data: padded(torch.cat([data, data.clone()])),
    "arithmetic": lambda data: (data.numbers * data.x + 1).softmax().to_padded(length=8, side="left"),
    "reduce": lambda data: data[1:].numbers.sum(),
    "fields": lambda data: Sample(data.text, data.numbers.truncate(2), data.x * 2, batch_size=data.batch_size)[1:],
}


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_without_a_graph_for_each_number_of_rows(name: str) -> None:
    torch._dynamo.reset()
    function, counter = COMPILED[name], CompileCounterWithBackend("eager")
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for count, shift in ((4, 0), (6, 2), (9, 3), (5, 1), (7, 2)):
        data = sample(count, shift)
        expected, found = pytree.tree_leaves(function(data)), pytree.tree_leaves(compiled(data))
        assert len(expected) == len(found)
        for one, other in zip(expected, found, strict=True):
            torch.testing.assert_close(one, other)
    assert counter.frame_count <= 2  # for the first sizes, and for any


def test_rows_that_are_too_long_are_an_error_in_compiled_code() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda data: data.numbers.to_padded(length=2).values, fullgraph=True, backend="eager")
    with pytest.raises(RuntimeError, match="a row has more items than length="):
        compiled(sample(4, 0))


def test_reading_strings_breaks_the_graph() -> None:
    torch._dynamo.reset()
    data = sample(4, 0)
    compiled = torch.compile(lambda data: (data.x + 1, data.text == "aa", data.text.tolist()), backend="eager")
    x, equal, strings = compiled(data)
    assert (x.tolist(), equal.tolist(), strings) == ([1.0, 2.0, 3.0, 4.0], [False, False, True, False], list(data.text))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda data: data.text.tolist(), fullgraph=True, backend="eager")(data)


class Padding(torch.nn.Module):
    def forward(self, data: Sample) -> tuple[Tensor, Tensor, Sample]:
        values, mask = data.numbers.to_padded(length=8)
        return values + data.x.unsqueeze(-1), mask, data[1:]


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_takes_other_rows(strict: bool) -> None:
    data = sample(4, 0)
    size = {0: torch.export.Dim.AUTO}
    program = torch.export.export(
        Padding(), (data,), dynamic_shapes=([[size, size], [size, size], size],), strict=strict
    )
    for count, shift in ((4, 0), (7, 2)):
        other = sample(count, shift)
        expected, found = Padding()(other), program.module()(other)
        torch.testing.assert_close(found[:2], expected[:2])
        assert found[2].text.tolist() == other.text.tolist()[1:]
        assert found[2].numbers.tolist() == other.numbers.tolist()[1:]


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace the builtin")  # at the break of the graph
@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_compiled_vmap_does_not_take_items_for_rows(fullgraph: bool) -> None:
    def scaled(rows: Ragged, factors: Tensor) -> Ragged:
        mapped: Ragged = torch.vmap(lambda row, factor: row * factor)(rows, factors)
        return mapped

    torch._dynamo.reset()
    rows, factors = Ragged([[1.0, 2.0], [3.0], []]), torch.arange(3.0)  # as many items as rows
    compiled = torch.compile(scaled, backend="eager", fullgraph=fullgraph)
    if fullgraph:
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(rows, factors)
    else:  # the graph breaks
        assert compiled(rows, factors).tolist() == scaled(rows, factors).tolist() == [[0.0, 0.0], [3.0], []]
