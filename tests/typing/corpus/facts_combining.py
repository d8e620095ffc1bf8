"""Several records made one, and functions of the package on them."""

from typing import Any

import torch
from records import Box, Described, Flags, Sample, Scene
from torch import Tensor
from typing_extensions import assert_type

import tensorclass
from tensorclass import TensorDict, cat, lazy_stack, maybe_dense_stack, stack, where


def methods(batch: Sample, box: Box, scene: Scene) -> None:
    assert_type(Sample.stack([batch, batch]), Sample)
    assert_type(Sample.stack((batch, batch), dim=1), Sample)
    assert_type(Sample.stack([batch[0], batch[1]], -1), Sample)
    assert_type(Sample.cat([batch, batch]), Sample)
    assert_type(Sample.cat([batch, batch], dim=1), Sample)
    assert_type(Sample.lazy_stack([batch, batch]), Sample)
    assert_type(Sample.maybe_dense_stack([batch, batch]), Sample)
    assert_type(Box.stack([box, box]), Box)
    assert_type(Scene.stack([scene, scene]), Scene)
    assert_type(Scene.stack([scene, scene]).box, Box)


def functions(batch: Sample, box: Box, described: Described) -> None:
    assert_type(tensorclass.stack([batch, batch]), Sample)
    assert_type(tensorclass.stack([batch, batch], dim=1), Sample)
    assert_type(stack([batch, batch]), Sample)
    assert_type(stack(list(batch)), Sample)
    assert_type(stack(batch.unbind(0), 0), Sample)
    assert_type(stack([row + 1 for row in batch]), Sample)
    assert_type(stack([batch, batch]).image, Tensor)
    assert_type(tensorclass.cat([batch, batch]), Sample)
    assert_type(cat(batch.split(2), dim=0), Sample)
    assert_type(cat([described, described]), Described)
    assert_type(tensorclass.lazy_stack([batch, batch]), Sample)
    assert_type(lazy_stack([box, box], 1), Box)
    assert_type(tensorclass.maybe_dense_stack([batch, batch]), Sample)
    assert_type(maybe_dense_stack([box, box]), Box)
    assert_type(lazy_stack([batch, batch])[0], Sample)


def choices(batch: Sample, mask: Tensor) -> None:
    assert_type(where(mask, batch, batch), Sample)
    assert_type(where(mask, batch, 0.0), Sample)
    assert_type(tensorclass.where(mask, 0.0, batch), Sample)
    assert_type(batch.where(mask, batch), Sample)
    assert_type(batch.where(mask, 0.0), Sample)
    assert_type(batch.masked_fill(mask, 0.0), Sample)
    assert_type(batch.masked_fill_(mask, 0.0), Sample)


def stacks(batch: Sample) -> None:
    assert_type(batch.to_lazystack(0), Sample)
    assert_type(batch.to_lazystack(0).densify(), Sample)
    assert_type(batch.to_lazystack(0)[0], Sample)


def padded(batch: Sample) -> None:
    assert_type(tensorclass.pad(batch, [0, 1, 0, 0]), Sample)
    assert_type(tensorclass.pad_sequence([batch[0], batch[0]]), Sample)


def grouped(batch: Sample) -> None:
    values, groups = tensorclass.group_by(batch[:, 0], "label")
    assert_type(values, Tensor | list[Any])
    assert_type(groups, tuple[Sample, ...])


def collections(batch: Sample, data: TensorDict) -> None:
    assert_type(stack([data, data]), TensorDict)
    assert_type(TensorDict.stack([data, data]), TensorDict)
    assert_type(tensorclass.is_tensorclass(batch), bool)
    assert_type(tensorclass.is_tensor_collection(batch), bool)
    assert_type(torch.equal(batch.image, batch.image), bool)


def joins(batch: Sample, flags: Flags, described: Described) -> None:
    assert_type(batch.join(described, "label"), TensorDict)
    assert_type(batch.join(described, "label", "left"), TensorDict)
    assert_type(batch.join(described, "label", "right"), TensorDict)
    assert_type(batch.join(described, ["label", "source"], how="full", fill={"label": -1}), TensorDict)
    assert_type(batch.join(described, "label", right_on="label"), TensorDict)
    assert_type(batch.join(described, "label", "semi"), Sample)
    assert_type(batch.join(described, "label", "anti"), Sample)
    assert_type(flags.join(flags.select("kept"), "kept", "full", into=Flags), Flags)
