"""Compiled code makes and writes records with contracts: nothing is checked there, and nothing is compiled twice."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from tensorclass import ContractError, TensorDict, validation
from tests.contracts.samples import Level, Pair, Sample, sample


def unchecked_write(r: Sample) -> Sample:
    r = r.clone()
    with validation(False):
        r.label = r.label + 1
    return r


def set_field(r: Sample) -> Sample:
    r = r.clone()
    r.label = r.label + 1
    return r


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "construct": lambda r: Sample(r.image + 1, r.mask, r.label, batch_size=r.batch_size),
    "infer the batch size": lambda r: Sample(image=r.image + 1, mask=r.mask, label=r.label),
    "infer it from a later field": lambda r: Level(value=r.image[:, 0, 0]),
    "nested": lambda r: Pair(left=r, batch_size=r.batch_size),
    "nested from a dict": lambda r: Pair(
        left={"image": r.image, "mask": r.mask, "label": r.label}, batch_size=r.batch_size
    ),
    "setattr": set_field,
    "set": lambda r: r.clone().set("label", r.label * 2),
    "set without checks": lambda r: r.clone().set("label", r.label * 2, validate=False),
    "unchecked": lambda r: Sample.unchecked(r.image, r.mask, r.label),
    "update": lambda r: r.clone().update(
        {"label": r.label * 2, "weight": r.image.new_zeros(len(r), r.image.shape[2] + 1)}
    ),
    "replace": lambda r: r.replace(label=r.label * 2),
    "dataclasses.replace": lambda r: dataclasses.replace(r, label=r.label * 2),
    "from_tensordict": lambda r: Sample.from_tensordict(
        TensorDict({"image": r.image, "mask": r.mask, "label": r.label}, r.batch_size)
    ),
    "block": unchecked_write,
    "rows": lambda r: r.clone()[1:] + 0,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_compiles_whole_and_once_more_for_other_sizes(name: str) -> None:
    counter = CompileCounter()
    compiled = torch.compile(FUNCTIONS[name], fullgraph=True, backend=counter)
    for n, h, w in [(8, 4, 5), (6, 7, 3), (5, 3, 9)]:
        data = sample(n, h=h, w=w)
        expected, result = FUNCTIONS[name](data), compiled(data)
        assert type(result) is type(expected)
        assert result.batch_size == expected.batch_size
        assert (result == expected).all()
    assert counter.frame_count <= 2


def test_what_is_compiled_is_not_checked() -> None:
    def make(image: torch.Tensor) -> Sample:
        r = sample(2)
        return Sample(image=image, mask=r.mask, label=r.label, batch_size=[2])

    wrong = torch.zeros(2, 1, 9, 9)
    with pytest.raises(ContractError):
        make(wrong)
    assert torch.compile(make, fullgraph=True, backend="eager")(wrong).image is wrong


@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_takes_sizes_that_a_name_ties_together(strict: bool) -> None:
    class Model(torch.nn.Module):
        def forward(self, image: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            record = Sample(image=image, mask=mask, label=image.new_zeros(image.shape[0], dtype=torch.int64))
            return record.image[..., 0].sum() + record.mask[..., 0].sum()

    dims = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    first = sample(2)
    program = torch.export.export(
        Model(),
        (first.image, first.mask),
        dynamic_shapes=(dims, {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        strict=strict,
    ).module()
    for data in (sample(3, h=6), sample(5, h=2)):
        data.image = torch.rand_like(data.image)
        assert program(data.image, data.mask) == Model()(data.image, data.mask)


def test_checks_are_back_after_a_compiled_block_without_them() -> None:
    torch.compile(unchecked_write, fullgraph=True, backend="eager")(sample(2))
    with pytest.raises(ContractError):
        sample(2).set("label", torch.zeros(2))
