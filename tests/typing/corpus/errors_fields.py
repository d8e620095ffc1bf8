"""Attributes that are not there, and values that do not fit, are reported."""

from records import Box, Cube, Described, Flags, Pair, Sample, Scene, Twins, Video
from torch import Tensor


def unknown_attributes(batch: Sample, scene: Scene, video: Video, box: Box) -> None:
    batch.colour  # E: no such field
    batch.imag  # E: image
    scene.box.center  # E: nested
    video.scene.shot.text  # E: nested twice
    batch[0].colour  # E: of a row
    (batch + 1).colour  # E: of a sum
    batch.reshape(-1).colour  # E: of another shape
    box.reshape_as(box)  # E: no such method
    Sample.colour  # E: of the class


def unknown_assignments(batch: Sample, scene: Scene, box: Box, x: Tensor) -> None:
    batch.colour = x  # E: no such field
    batch.imag = x  # E: image
    scene.shot.text = "a"  # E: nested
    batch[0].colour = x  # E: of a row


def wrong_values(batch: Sample, scene: Scene, described: Described, flags: Flags, box: Box) -> None:
    batch.image = "image"  # E: a tensor
    batch.image = None  # E: not optional
    batch.source = 3  # E: a text
    batch.image = 1.0  # E: a tensor
    described.caption = 3  # E: a text or None
    described.weight = "heavy"  # E: a tensor or None
    scene.shot = box  # E: a sample
    scene.tags = "tag"  # E: a list
    scene.best = batch  # E: a box or None
    scene.shot.label = "cat"  # E: nested
    flags.seen = True  # E: a tensor


def frozen(box: Box, cube: Cube, scene: Scene, x: Tensor) -> None:
    box.low = x  # E: frozen
    cube.edge = x  # E: frozen
    cube.low = x  # E: a field of the base
    scene.box.high = x  # E: nested


def optional(described: Described, scene: Scene) -> None:
    described.weight.sum()  # E: may be None
    described.caption.upper()  # E: may be None
    scene.best.low  # E: may be None
    described.weight + 1  # E: may be None


def wrong_uses(batch: Sample, scene: Scene, pair: Pair[Sample, Box], twins: Twins) -> None:
    a: str = batch.image  # E: a tensor
    b: Tensor = batch.source  # E: a text
    c: Sample = scene.box  # E: a box
    d: Box = pair.left  # E: a sample
    e: str = twins.left  # E: a tensor
    scene.tags.append(3)  # E: texts
    scene.moved("far")  # E: a number
    Scene.of(batch, batch)  # E: a box
    print(a, b, c, d, e)


def metadata(batch: Sample) -> None:
    batch.batch_size = "4"  # E: sizes
    batch.is_cuda = True  # E: read only
    batch.ndim = 3  # E: read only
    batch.names = [1, 2]  # E: texts
    a: str = batch.device  # E: a device or None
    b: list[int] = batch.names  # E: texts
    print(a, b)
