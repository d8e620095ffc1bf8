"""Wrong arguments of operations, and wrong uses of their results, are reported."""

import torch
from records import Box, Described, Sample, Scene
from torch import Tensor

import tensorclass


def arguments(batch: Sample, x: Tensor) -> None:
    batch.reshape("4")  # E: sizes
    batch.unsqueeze()  # E: a dimension
    batch.unsqueeze("time")  # E: a number
    batch.transpose(0)  # E: two
    batch.split("a")  # E: a size
    batch.unbind(dim=None)  # E: a dimension
    batch.apply()  # E: a function
    batch.apply(3)  # E: a function
    batch.to(colour="red")  # E: no such argument
    batch.to(dtype="float")  # E: a dtype
    batch.to(1.5)  # E: a device, a dtype, or what to be like
    batch.to("cpu", "cpu")  # E: a dtype
    batch.join(batch, "label", "outer")  # E: no such join
    batch.clone(deep=True)  # E: recurse
    batch.masked_fill(x)  # E: a value
    batch.state_dict(3)  # E: a dict
    batch.load_state_dict("path")  # E: a mapping
    batch.sum(dims=0)  # E: dim
    batch.flatten(0, 1, 2)  # E: two
    batch.new_zeros("4")  # E: sizes
    batch.where(x, "a")  # E: no operand
    batch.load_memory("path")  # E: no such method


def operators(batch: Sample) -> None:
    batch + "a"  # E: no operand
    "a" + batch  # E: no operand
    batch * None  # E: no operand
    batch - [1]  # E: no operand
    batch < "a"  # E: no operand
    -batch.source  # E: a text
    batch @ batch  # E: no such operator
    batch.source += 1  # E: a text


def indices(batch: Sample) -> None:
    batch[1.5]  # E: no index
    batch[object()]  # E: no index
    batch(0)  # E: no function


def combinations(batch: Sample, box: Box) -> None:
    tensorclass.stack(batch, batch)  # E: a list of them
    Sample.stack()  # E: a list of them
    tensorclass.stack([batch, "a"])  # E: a text
    tensorclass.stack([batch], dim="time")  # E: a number
    tensorclass.cat([1, 2])  # E: numbers
    a: Box = tensorclass.stack([batch, batch])  # E: a Sample
    b: Sample = Box.stack([box, box])  # E: a Box
    print(a, b)


def results(batch: Sample, scene: Scene, described: Described) -> None:
    a: Tensor = batch[0]  # E: a Sample
    b: Box = batch.reshape(-1)  # E: a Sample
    c: list[Sample] = batch.unbind()  # E: a tuple
    d: bool = batch == batch  # E: a Sample
    e: Described = batch + 1  # E: the base
    f: Tensor = batch.to("cpu")  # E: a Sample
    g: int = batch.batch_size  # E: sizes
    h: torch.device = batch.device  # E: may be None
    print(a, b, c, d, e, f, g, h)
    for row in batch:
        row.colour  # E: no such field
    with batch.unlock_() as free:
        free.colour  # E: no such field
    for item in scene.box:
        item.image  # E: no such field
    described.select("image").colour  # E: no such field


def to_functions(batch: Sample, box: Box) -> None:
    def takes(sample: Sample) -> Box:
        return sample  # E: a Box

    takes(box)  # E: a Sample
    takes(batch.image)  # E: a Sample
    takes(scene=batch)  # E: no such argument
    result: Sample = takes(batch)  # E: a Box
    print(result)
