"""Fields have the types that they are declared with; metadata has its own."""

import dataclasses
from typing import Any

import torch
from records import Box, Built, Cast, Cube, Described, Flags, Options, Pair, Sample, Scene, Scored, Stored, Twins, Video
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorDict


def tensors(batch: Sample, flags: Flags, box: Box, cube: Cube) -> None:
    assert_type(batch.image, Tensor)
    assert_type(batch.label, Tensor)
    assert_type(flags.seen, Tensor)
    assert_type(box.low, Tensor)
    assert_type(cube.edge, Tensor)
    assert_type(cube.low, Tensor)
    assert_type(batch.image.shape, torch.Size)


def objects(batch: Sample, scene: Scene, options: Options, cast: Cast) -> None:
    assert_type(batch.source, str)
    assert_type(scene.tags, list[str])
    assert_type(scene.tags[0], str)
    assert_type(scene.count, int)
    assert_type(scene.ratio, float)
    assert_type(options.name, str)
    assert_type(cast.number, int)
    assert_type(cast.text, str)


def inherited(described: Described, scored: Scored) -> None:
    assert_type(described.image, Tensor)
    assert_type(described.source, str)
    assert_type(scored.image, Tensor)
    assert_type(scored.caption, str | None)
    assert_type(scored.notes, list[str])
    assert_type(described.batch_size, torch.Size)


def optional(described: Described, scene: Scene, built: Built, stored: Stored) -> None:
    assert_type(described.caption, str | None)
    assert_type(described.weight, Tensor | None)
    assert_type(scene.best, Box | None)
    assert_type(scene.free, TensorDict | None)
    assert_type(built.found, Tensor | None)
    assert_type(stored.inner, Tensor)
    assert_type(stored.weight, Tensor | None)
    assert_type(stored.marks, list[str])
    if described.weight is not None:
        assert_type(described.weight, Tensor)
    if scene.best is not None:
        assert_type(scene.best.low, Tensor)


def nested(scene: Scene, video: Video) -> None:
    assert_type(scene.box, Box)
    assert_type(scene.box.low, Tensor)
    assert_type(scene.shot.source, str)
    assert_type(video.scene, Scene)
    assert_type(video.scene.box, Box)
    assert_type(video.scene.shot.image, Tensor)
    assert_type(video.frame, Tensor)
    assert_type(video[0].scene.box, Box)
    assert_type(video.reshape(-1).scene.tags, list[str])


def members(scene: Scene, video: Video) -> None:
    assert_type(scene.picture, Tensor)
    assert_type(scene.moved(1.0), Scene)
    assert_type(Scene.of(scene.box, scene.shot), Scene)
    assert_type(Scene.limit(), int)
    assert_type(Scene.steps, int)
    assert_type(scene.steps, int)
    assert_type(video.scene.moved(0.5), Scene)


def generic(pair: Pair[Sample, Box], twins: Twins) -> None:
    assert_type(pair.left, Sample)
    assert_type(pair.right, Box)
    assert_type(pair[0], Pair[Sample, Box])
    assert_type(pair.left.image, Tensor)
    assert_type(pair.swapped(), Pair[Box, Sample])
    assert_type(pair.swapped().left, Box)
    assert_type(twins.left, Tensor)
    assert_type(twins.same, bool)
    assert_type(twins[0], Twins)


def metadata(batch: Sample, scene: Scene) -> None:
    assert_type(batch.batch_size, torch.Size)
    assert_type(batch.shape, torch.Size)
    assert_type(batch.batch_dims, int)
    assert_type(batch.ndim, int)
    assert_type(batch.dim(), int)
    assert_type(batch.ndimension(), int)
    assert_type(batch.size(), torch.Size)
    assert_type(batch.size(0), int)
    assert_type(batch.numel(), int)
    assert_type(batch.device, torch.device | None)
    assert_type(batch.names, list[str | None])
    assert_type(batch.is_locked, bool)
    assert_type(batch.dtype, torch.dtype | None)
    assert_type(batch.requires_grad, bool)
    assert_type(batch.is_cuda, bool)
    assert_type(batch.is_empty(), bool)
    assert_type(batch.is_contiguous(), bool)
    assert_type(batch.depth, int)
    assert_type(batch.bytes(), int)
    assert_type(batch.param_count(), int)
    assert_type(len(batch), int)
    assert_type(scene.batch_size[0], int)
    assert_type(str(batch), str)


def assignments(batch: Sample, scene: Scene, described: Described) -> None:
    batch.image = batch.image + 1
    batch.source = "camera"
    described.weight = None
    described.caption = "a cat"
    scene.shot = batch
    scene.best = scene.box
    scene.tags = ["a"]
    scene.shot.label = batch.label
    batch.batch_size = [4]
    batch.batch_size = torch.Size([4])
    batch.names = ["time"]
    batch.names = None
    assert_type(batch.batch_size, torch.Size)


def as_dataclasses(batch: Sample, scene: Scene) -> None:
    assert_type(dataclasses.replace(batch, source="b"), Sample)
    assert_type(dataclasses.replace(scene, count=2), Scene)
    assert_type(dataclasses.fields(batch), tuple[dataclasses.Field[Any], ...])
    assert_type(dataclasses.fields(Sample), tuple[dataclasses.Field[Any], ...])
    values: dict[str, Any] = dataclasses.asdict(batch)
    assert_type(len(values), int)
    assert_type(Sample.fields(), tuple[dataclasses.Field[Any], ...])
    assert_type(batch.replace(source="b"), Sample)
    assert_type(batch.replace({"source": "b"}), Sample)
