"""Scores stay scores: whatever is done to a record on the way, the figures come out the same."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch

from tensorclass.scores import IFEvalScoreData, Report, ragged

N = 24


def scores() -> IFEvalScoreData:
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 4, (N,), generator=generator).tolist()
    strict = [[bool(torch.rand((), generator=generator) < 0.7) for _ in range(length)] for length in lengths]
    loose = [[verdict or bool(torch.rand((), generator=generator) < 0.5) for verdict in row] for row in strict]
    return IFEvalScoreData(
        torch.tensor([all(row) for row in strict]),
        ragged(strict, width=3),
        torch.tensor([all(row) for row in loose]),
        ragged(loose, width=3),
        prompt_id=torch.arange(N),
        instruction_id=torch.tensor(
            [[(place + row) % 4 if place < length else -1 for place in range(3)] for row, length in enumerate(lengths)]
        ),
        instruction_types=("a", "b", "c", "d"),
        batch_size=[N],
    )


def figures(report: Report) -> dict[str, list[float]]:
    found = {
        name: [float(one.value), float(one.low), float(one.high), float(one.count)] for name, one in report.items()
    }
    for name, groups in report.groups.items():
        found.update({f"{name}/{group}": [float(one.value), float(one.count)] for group, one in groups.items()})
    return found


order = torch.randperm(N, generator=torch.Generator().manual_seed(1))

OPERATIONS: dict[str, Callable[[IFEvalScoreData], IFEvalScoreData]] = {
    "index": lambda data: data[torch.arange(N)],
    "shuffle": lambda data: data[order],
    "mask": lambda data: data[torch.ones(N, dtype=torch.bool)],
    "slice and cat": lambda data: torch.cat([data[:7], data[7:]]),
    "split and cat": lambda data: torch.cat(list(data.split(5))),
    "rows and stack": lambda data: torch.stack([data[i] for i in range(N)]),
    "unbind and stack": lambda data: torch.stack(list(data.unbind(0))),
    "stack and index": lambda data: torch.stack([data, data[order]])[1],
    "reshape": lambda data: data.reshape(4, 6).reshape(-1),
    "flatten": lambda data: data.unsqueeze(0).flatten(),
    "permute": lambda data: data.reshape(4, 6).permute(1, 0).reshape(-1),
    "flip": lambda data: data.flip(0),
    "pickle": lambda data: pickle.loads(pickle.dumps(data)),
    "deepcopy": lambda data: copy.deepcopy(data),
    "clone": lambda data: data.clone(),
    "to": lambda data: data.to("cpu"),
    "shuffle, stack, pickle, slice": lambda data: pickle.loads(pickle.dumps(torch.stack([data[order], data.flip(0)])))[
        0, 0:N
    ],
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_figures_are_the_same_after(name: str) -> None:
    data = OPERATIONS[name](scores())
    assert type(data) is IFEvalScoreData
    assert figures(data.aggregate()) == figures(scores().aggregate())


def test_a_slice_is_the_scores_of_its_prompts() -> None:
    whole, half = scores(), scores()[: N // 2]
    assert half.aggregate()["prompt_level_strict_acc"].count.item() == N // 2
    assert half.instruction_types == whole.instruction_types
    assert half.prompt_id.tolist() == list(range(N // 2))


def test_prompts_chosen_by_a_mask_aggregate_by_themselves() -> None:
    data = scores()
    right = data[data.prompt_level_strict_acc]
    assert right.aggregate()["inst_level_strict_acc"].value.item() == 1.0


def test_the_constructor_takes_the_four_fields_in_order() -> None:
    fields = [torch.tensor([True]), torch.ones(1, 3), torch.tensor([False]), torch.zeros(1, 3)]
    data = IFEvalScoreData(*fields, batch_size=[1], device=None, names=None)
    assert data.prompt_level_strict_acc.tolist() == [True]
    assert data.inst_level_strict_acc.shape == (1, 3)
    assert data.prompt_level_loose_acc.tolist() == [False]
    assert data.inst_level_loose_acc.sum() == 0


def test_dimension_names_are_kept() -> None:
    data = IFEvalScoreData(torch.ones(2, 3), None, None, None, batch_size=[2, 3], names=["model", "prompt"])
    assert data.names == ["model", "prompt"]
    assert data.aggregate()["prompt_level_strict_acc"].value.tolist() == [1.0, 1.0]
