"""What a constructor does not take is reported."""

import torch
from records import Box, Built, Cast, Cube, Described, Options, Pair, Sample, Scene, Scored, Stored, Twins, Video
from torch import Tensor


def missing(x: Tensor, box: Box, batch: Sample) -> None:
    Sample()  # E: image and label
    Sample(x)  # E: label
    Sample(image=x)  # E: label
    Sample(label=x)  # E: image
    Sample(x, source="a")  # E: label
    Described(x)  # E: a field of the base
    Cube(x, x)  # E: the last one
    Scene(box, batch)  # E: tags
    Scene(box=box, tags=[])  # E: sample
    Options()  # E: rate
    Stored()  # E: inner
    Video(frame=x)  # E: scene


def unknown(x: Tensor, box: Box) -> None:
    Sample(x, x, colour=x)  # E: no such field
    Stored(split=x)  # E: the field is called inner
    Stored(x, w=x)  # E: the field is called weight
    Stored(x, x, ["a"])  # E: by keyword
    Sample(x, x, "a", x)  # E: one too many
    Sample(x, x, image=x)  # E: given twice
    Sample(x, x, batchsize=[4])  # E: it is batch_size
    Sample(x, x, "a", [4])  # E: batch_size is given by name
    Box(x, x, x)  # E: one too many
    Cube(low=x, high=x, edges=x)  # E: edge
    Scored(x, x, scores=x)  # E: score
    Described(x, x, text="a")  # E: caption


def by_keyword(x: Tensor) -> None:
    Options(x)  # E: kw_only
    Options(x, "adam")  # E: kw_only
    Built(x, x)  # E: found is no argument
    Built(x, found=x)  # E: nor by name
    Built(x, "b")  # E: named is given by name


def wrong_types(x: Tensor, box: Box, batch: Sample) -> None:
    Sample("image", x)  # E: a tensor
    Sample(x, 1.0)  # E: a tensor
    Sample(x, x, 3)  # E: a text
    Sample(image=None, label=x)  # E: not optional
    Sample(x, x, source=None)  # E: not optional
    Described(x, x, caption=3)  # E: a text or None
    Scene(batch, batch, [])  # E: a box
    Scene(box, box, [])  # E: a sample
    Scene(box, batch, "tag")  # E: a list
    Scene(box, batch, [1])  # E: of texts
    Scene(box, batch, [], best=batch)  # E: a box or None
    Scene(box, batch, [], count="3")  # E: a number
    Video(box, x)  # E: a scene
    Cast(number="1", text="a")  # E: the declared type
    Twins(batch, x)  # E: both are tensors
    Box(low=[0.0, 0.0, 0.0], high=x)  # E: a tensor


def wrong_metadata(x: Tensor) -> None:
    Sample(x, x, batch_size="4")  # E: sizes
    Sample(x, x, batch_size=[4.5])  # E: whole numbers
    Sample(x, x, device=4.5)  # E: a device
    Sample(x, x, names=[1])  # E: texts


def wrong_results(x: Tensor, batch: Sample, box: Box) -> None:
    a: Box = Sample(x, x)  # E: a Sample
    b: Sample = Box(x, x)  # E: a Box
    c: Described = Sample(x, x)  # E: the base
    d: Pair[Tensor, Tensor] = Pair(batch, box)  # E: other parameters
    print(a, b, c, d, torch)
