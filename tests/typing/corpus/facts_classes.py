"""What a class has beside its fields: other bases, members, classes in it, a constructor of its own."""

import pickle
from typing import Any, Literal

import torch
from records import Box, Described, Grid, Patch, Sample, Scene, Sized
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorClass, TensorCollection


def bases(patch: Patch) -> None:
    assert_type(patch.area(), int)
    assert_type(patch[0].area(), int)
    sized: Sized = patch
    record: TensorClass = patch
    collection: TensorCollection = patch
    assert_type(sized.area(), int)
    assert_type(record.batch_size, torch.Size)
    assert_type(collection.batch_size, torch.Size)


def members(patch: Patch) -> None:
    assert_type(patch.bright, Tensor)
    patch.bright = patch.pixels
    assert_type(patch.kind, Literal["day", "night"])
    patch.kind = "night"
    assert_type(patch.average, Tensor | None)
    assert_type(patch.pixels, Tensor)
    assert_type(Patch(patch.pixels, batch_size=patch.batch_size), Patch)
    assert_type(Patch(patch.pixels, "night", patch.pixels), Patch)


def overridden(patch: Patch) -> None:
    assert_type(patch + 1, Patch)
    assert_type(patch + "anything", Patch)
    assert_type(patch - 1, Patch)
    assert_type((patch + None).pixels, Tensor)


def inside(grid: Grid, x: Tensor) -> None:
    assert_type(grid.cell, Grid.Cell)
    assert_type(grid.cell.value, Tensor)
    assert_type(grid[0].cell.mark, str)
    assert_type(Grid.Cell(x), Grid.Cell)
    assert_type(Grid.Cell(x, mark="a", batch_size=[4]), Grid.Cell)
    assert_type(Grid.Cell.stack([Grid.Cell(x)]), Grid.Cell)
    assert_type(grid.reshape(-1), Grid)


def own_constructors(x: Tensor) -> None:
    assert_type(Grid(x, 4), Grid)
    assert_type(Grid(value=x, rows=4).cell, Grid.Cell)


def subtypes(described: Described, samples: list[Sample]) -> None:
    sample: Sample = described
    samples.append(described)
    assert_type(sample.image, Tensor)
    if isinstance(samples[-1], Described):
        assert_type(samples[-1], Described)
        assert_type(samples[-1].caption, str | None)


def narrowed(either: Sample | Box | None, batch: Sample) -> None:
    if isinstance(either, Sample):
        assert_type(either.image, Tensor)
    elif either is not None:
        assert_type(either.low, Tensor)
    match batch:
        case Sample(source="a"):
            assert_type(batch, Sample)
        case _:
            pass


def elsewhere(batch: Sample, scene: Scene) -> None:
    assert_type(pickle.loads(pickle.dumps(batch)), Any)
    assert_type({"a": batch}["a"], Sample)
    assert_type([batch, batch][0], Sample)
    assert_type((batch, scene), tuple[Sample, Scene])
    assert_type(sorted([batch], key=lambda one: one.source), list[Sample])
    assert_type(max([batch], key=lambda one: one.numel()), Sample)
