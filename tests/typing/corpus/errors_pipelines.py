"""A stage that does not take what the one in front of it gives is reported, and so is a record that no stage takes."""

from records import Box, Described, Sample, Scene
from torch import nn

from tensorclass import Stage, TensorDict


@Stage
def bound(sample: Sample) -> Box:
    corner = sample.image.flatten(-2)[..., :3]
    return Box(corner, corner + 1, batch_size=sample.batch_size)


@Stage
def describe(sample: Described) -> Described:
    return sample


def widen(box: Box) -> Box:
    return box


class Draw(nn.Module):
    def forward(self, box: Box) -> TensorDict:
        return box.to_tensordict()


def rows() -> None:
    bound >> bound  # E: the second takes a Sample
    bound >> widen >> bound  # E: the third does
    Draw() >> bound  # E: a module in front that gives a TensorDict
    widen >> bound  # E: a function in front that gives a Box
    bound >> (bound >> widen)  # E: a row that takes a Sample
    bound >> Draw() >> Draw()  # E: a module that takes a Box
    bound >> 3  # E: no stage
    bound >> describe  # E: the second takes a Described


def given() -> Stage[Sample, Scene]:
    return bound  # E: it gives a Box


def taken() -> Stage[Sample, Described]:
    return describe  # E: it takes a Described only


def calls(batch: Sample, box: Box, data: TensorDict) -> None:
    bound(box)  # E: another record
    bound(data)  # E: any keys
    bound(batch, batch)  # E: one record
    describe(batch)  # E: too general
    bound(batch).image  # E: a Box has none
    (bound >> widen)(box)  # E: the row takes a Sample
    (bound >> widen).run(box)  # E: the row takes a Sample
    bound.run(batch, on="ray", chunk=3)  # E: no such argument
    bound.run(batch).image  # E: a Box has none
    Stage(3)  # E: no function
    Stage(widen, label="a")  # E: no such argument
