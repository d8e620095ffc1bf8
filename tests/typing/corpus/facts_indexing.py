"""An index gives a record of the same class; a key gives a value."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from records import Box, Described, Sample, Scene
from torch import Tensor
from typing_extensions import assert_type


def positions(batch: Sample, described: Described, box: Box, scene: Scene) -> None:
    assert_type(batch[0], Sample)
    assert_type(batch[-1], Sample)
    assert_type(described[0], Described)
    assert_type(box[0], Box)
    assert_type(scene[0], Scene)
    assert_type(batch[0][0], Sample)
    assert_type(batch[0].image, Tensor)
    assert_type(scene[0].box.low, Tensor)


def slices(batch: Sample) -> None:
    assert_type(batch[:], Sample)
    assert_type(batch[1:], Sample)
    assert_type(batch[:-1], Sample)
    assert_type(batch[::2], Sample)
    assert_type(batch[1:3, :2], Sample)


def masks_and_indices(batch: Sample, mask: Tensor, rows: Tensor) -> None:
    assert_type(batch[mask], Sample)
    assert_type(batch[rows], Sample)
    assert_type(batch[rows, 0], Sample)
    assert_type(batch[:, rows], Sample)
    assert_type(batch[[0, 2]], Sample)
    assert_type(batch[[True, False, True, False]], Sample)
    assert_type(batch[[0, 2], 1], Sample)
    assert_type(batch[range(2)], Sample)
    assert_type(batch[np.array([0, 1])], Sample)
    assert_type(batch[batch.label > 0], Sample)
    assert_type(batch[torch.tensor(1)], Sample)


def others(batch: Sample, rows: Tensor) -> None:
    assert_type(batch[...], Sample)
    assert_type(batch[None], Sample)
    assert_type(batch[..., 0], Sample)
    assert_type(batch[0, ...], Sample)
    assert_type(batch[:, None], Sample)
    assert_type(batch[0, 1], Sample)
    assert_type(batch[()], Sample)
    assert_type(batch[None, ..., rows], Sample)
    assert_type(batch[True], Sample)


def iteration(batch: Sample, box: Box) -> None:
    for row in batch:
        assert_type(row, Sample)
        for item in row:
            assert_type(item, Sample)
    for position, row in enumerate(batch):
        assert_type(position, int)
        assert_type(row, Sample)
    for one, other in zip(batch, box, strict=True):
        assert_type(one, Sample)
        assert_type(other, Box)
    assert_type(iter(batch), Iterator[Sample])
    assert_type(next(iter(batch)), Sample)
    assert_type(list(batch), list[Sample])
    assert_type([row.image for row in batch], list[Tensor])
    assert_type({row.source: row for row in batch}, dict[str, Sample])
    first, *others = batch
    assert_type(first, Sample)
    assert_type(others, list[Sample])
    assert_type(list(reversed(batch.unbind(0))), list[Sample])


def keys(batch: Sample) -> None:
    assert_type(batch["image"], Any)
    assert_type(batch.get("image"), Any)
    assert_type(batch.get("image", None), Any)
    assert_type("image" in batch.keys(), bool)
    assert_type(list(batch.keys()), list[Any])
    assert_type(batch.sorted_keys, list[str])
    assert_type("image" in batch, bool)
    assert_type(batch.entry_class("image"), type)
    assert_type(batch.get_item_shape("image"), torch.Size)


def nested_keys(scene: Scene) -> None:
    assert_type(scene["shot", "label"], Any)
    assert_type(scene["shot", ("label",)], Any)
    assert_type(scene["shot"]["label"], Any)
    scene["shot", "label"] = scene.shot.label


def writing(batch: Sample, mask: Tensor) -> None:
    batch[0] = batch[1]
    batch[mask] = batch[mask]
    batch[:2] = 0
    batch["label"] = batch.label
    batch[0] = {"label": batch.label[1]}
    assert_type(batch.set("label", batch.label), Sample)
    assert_type(batch.set_("label", batch.label), Sample)
    assert_type(batch.set_at_("label", 1.0, 0), Sample)
    assert_type(batch.fill_("label", 1.0), Sample)


def rows_that_write_through(batch: Sample) -> None:
    assert_type(batch.get_sub_tensordict(0), Sample)
    assert_type(batch.get_sub_tensordict(slice(2)), Sample)
