"""Operations on shapes give records of the same class."""

import torch
from records import Box, Described, Sample, Scene, Video
from torch import Tensor
from typing_extensions import assert_type


def reshaping(batch: Sample, described: Described) -> None:
    assert_type(batch.reshape(-1), Sample)
    assert_type(batch.reshape(6, 4), Sample)
    assert_type(batch.reshape([6, 4]), Sample)
    assert_type(batch.reshape((6, -1)), Sample)
    assert_type(batch.reshape(torch.Size([24])), Sample)
    assert_type(batch.view(-1), Sample)
    assert_type(batch.view(2, 12), Sample)
    assert_type(batch.view([24]), Sample)
    assert_type(batch.flatten(), Sample)
    assert_type(batch.flatten(0, 1), Sample)
    assert_type(batch.unflatten(1, [2, 3]), Sample)
    assert_type(batch.unflatten(-1, (2, -1)), Sample)
    assert_type(described.reshape(-1), Described)


def dimensions(batch: Sample, box: Box) -> None:
    assert_type(batch.squeeze(), Sample)
    assert_type(batch.squeeze(0), Sample)
    assert_type(batch.squeeze((0, 1)), Sample)
    assert_type(batch.unsqueeze(0), Sample)
    assert_type(batch.unsqueeze(-1), Sample)
    assert_type(batch.permute(1, 0), Sample)
    assert_type(batch.permute([1, 0]), Sample)
    assert_type(batch.permute(dims=(1, 0)), Sample)
    assert_type(batch.transpose(0, 1), Sample)
    assert_type(batch.swapaxes(0, 1), Sample)
    assert_type(batch.swapdims(0, 1), Sample)
    assert_type(batch.movedim(0, 1), Sample)
    assert_type(batch.moveaxis([0, 1], [1, 0]), Sample)
    assert_type(batch.atleast_1d(), Sample)
    assert_type(batch.atleast_2d(), Sample)
    assert_type(batch.atleast_3d(), Sample)
    assert_type(box.unsqueeze(0).squeeze(0), Box)


def copies(batch: Sample, scene: Scene, x: Tensor) -> None:
    assert_type(batch.expand(2, 4, 6), Sample)
    assert_type(batch.expand([2, -1, -1]), Sample)
    assert_type(batch.expand_as(batch), Sample)
    assert_type(batch.broadcast_to((2, 4, 6)), Sample)
    assert_type(batch.repeat(2, 1), Sample)
    assert_type(batch.repeat([2, 1]), Sample)
    assert_type(batch.tile((2, 1)), Sample)
    assert_type(batch.repeat_interleave(2, dim=0), Sample)
    assert_type(scene.expand(2, 4), Scene)
    assert_type(batch.expand_as(x), Sample)


def order(batch: Sample) -> None:
    assert_type(batch.flip(0), Sample)
    assert_type(batch.flip([0, 1]), Sample)
    assert_type(batch.flip(dims=(0,)), Sample)
    assert_type(batch.fliplr(), Sample)
    assert_type(batch.flipud(), Sample)
    assert_type(batch.roll(1), Sample)
    assert_type(batch.roll((1, 2), (0, 1)), Sample)
    assert_type(batch.rot90(), Sample)
    assert_type(batch.contiguous(), Sample)


def parts(batch: Sample, box: Box, video: Video, x: Tensor) -> None:
    assert_type(batch.unbind(), tuple[Sample, ...])
    assert_type(batch.unbind(0), tuple[Sample, ...])
    assert_type(batch.unbind(dim=-1), tuple[Sample, ...])
    assert_type(batch.split(2), tuple[Sample, ...])
    assert_type(batch.split([1, 3]), tuple[Sample, ...])
    assert_type(batch.split([2, 4], dim=1), tuple[Sample, ...])
    assert_type(batch.split_with_sizes([1, 3]), tuple[Sample, ...])
    assert_type(batch.chunk(2), tuple[Sample, ...])
    assert_type(batch.chunk(2, dim=1), tuple[Sample, ...])
    assert_type(batch.tensor_split(3), tuple[Sample, ...])
    assert_type(batch.tensor_split([1, 2]), tuple[Sample, ...])
    assert_type(box.unbind(), tuple[Box, ...])
    assert_type(video.unbind()[0].scene, Scene)
    for part in batch.split(2):
        assert_type(part, Sample)
    assert_type([part.image for part in batch.chunk(2)], list[Tensor])
    assert_type(batch.split(2)[0], Sample)


def selection(batch: Sample, mask: Tensor, rows: Tensor) -> None:
    assert_type(batch.narrow(0, 1, 2), Sample)
    assert_type(batch.take(rows), Sample)
    assert_type(batch.gather(0, rows[:, None].expand(-1, 6)), Sample)
    assert_type(batch.masked_select(mask), Sample)
    assert_type(batch.pad([0, 1, 0, 0]), Sample)


def chained(batch: Sample) -> None:
    assert_type(batch[:2].reshape(-1).unsqueeze(0)[0, 1:].flip(0), Sample)
    assert_type(batch.view(-1)[0].image.mean(), Tensor)
