"""The constructor takes the fields by position and by name, and the metadata by name."""

from typing import Any

import torch
from records import Box, Built, Cast, Cube, Described, Options, Pair, Sample, Scene, Scored, Stored, Twins
from torch import Tensor
from typing_extensions import assert_type

from tensorclass import TensorDict


def by_name(x: Tensor) -> None:
    assert_type(Sample(image=x, label=x), Sample)
    assert_type(Sample(image=x, label=x, source="a"), Sample)
    assert_type(Sample(label=x, image=x), Sample)
    assert_type(Options(rate=x), Options)
    assert_type(Options(rate=x, name="sgd", batch_size=[4]), Options)
    assert_type(Cast(number=1, text="a"), Cast)


def by_position(x: Tensor) -> None:
    assert_type(Sample(x, x), Sample)
    assert_type(Sample(x, x, "a"), Sample)
    assert_type(Sample(x, label=x), Sample)
    assert_type(Box(torch.zeros(4, 6, 3), torch.ones(4, 6, 3), batch_size=[4, 6]), Box)
    assert_type(Built(x, named="b"), Built)
    assert_type(Stored(x), Stored)
    assert_type(Stored(x, x, marks=["a"], batch_size=[4]), Stored)
    assert_type(Stored(inner=x, weight=None), Stored)


def with_metadata(x: Tensor) -> None:
    assert_type(Sample(x, x, batch_size=[4]), Sample)
    assert_type(Sample(x, x, batch_size=(4, 6)), Sample)
    assert_type(Sample(x, x, batch_size=torch.Size([4])), Sample)
    assert_type(Sample(x, x, batch_size=4), Sample)
    assert_type(Sample(x, x, batch_size=x.shape), Sample)
    assert_type(Sample(x, x, device="cpu"), Sample)
    assert_type(Sample(x, x, device=torch.device("cpu")), Sample)
    assert_type(Sample(x, x, device=None), Sample)
    assert_type(Sample(x, x, batch_size=[4, 6], names=["time", None]), Sample)
    assert_type(Sample(x, x, "a", batch_size=[4], device="cpu", names=None), Sample)


def inherited(x: Tensor) -> None:
    assert_type(Described(x, x), Described)
    assert_type(Described(x, x, "a", "b", x), Described)
    assert_type(Described(x, x, caption=None, weight=x, batch_size=[4]), Described)
    assert_type(Scored(x, x, score=x, notes=["a"]), Scored)
    assert_type(Cube(torch.zeros(3), torch.ones(3), torch.ones(())), Cube)


def nested(box: Box, batch: Sample) -> None:
    assert_type(Scene(box, batch, ["a"]), Scene)
    assert_type(Scene(box=box, shot=batch, tags=[], best=box, count=3, batch_size=[4]), Scene)
    assert_type(Scene(box, batch, [], ratio=2, extra=object(), batch_size=[4]), Scene)
    assert_type(Scene(box, batch, [], free=TensorDict({}, [4, 6]), batch_size=[4]), Scene)


def of_contracts(box: Box) -> None:
    assert_type(Box.zeros([4]), Box)
    assert_type(Box.ones(4, device="cpu"), Box)
    assert_type(Box.empty([4, 6], names=["time", None]), Box)
    assert_type(box.empty(), Box)
    assert_type(Box.random([4], seed=0), Box)
    assert_type(Box.schema(), dict[str, Any])
    assert_type(Box.json_schema(batch_dims=1), dict[str, Any])


def generic(x: Tensor, batch: Sample, box: Box) -> None:
    assert_type(Pair(batch, box), Pair[Sample, Box])
    assert_type(Pair(x, x, batch_size=[4]), Pair[Tensor, Tensor])
    assert_type(Pair(batch, box).left, Sample)
    assert_type(Pair(left=x, right=box).right, Box)
    assert_type(Twins(x, x, same=True), Twins)


def classes(kind: type[Sample], x: Tensor) -> None:
    assert_type(kind(x, x), Sample)
    assert_type(isinstance(x, Sample), bool)
