"""Stages go from record to record, and a row of stages from what the first takes to what the last gives."""

import functools
from typing import Any

from records import Box, Described, Sample, Scene
from torch import nn
from typing_extensions import assert_type

from tensorclass import Pipeline, Stage, TensorCollection, TensorDict


@Stage
def bound(sample: Sample) -> Box:
    corner = sample.image.flatten(-2)[..., :3]
    return Box(corner, corner + 1, batch_size=sample.batch_size)


def widen(box: Box) -> Box:
    return box


def scale(box: Box, by: float) -> Box:
    return box


class Draw(nn.Module):
    def forward(self, box: Box) -> TensorDict:
        return box.to_tensordict()


class Shrink(Stage[Box, Box]):
    def forward(self, record: Box, /) -> Box:
        return record


def stages(batch: Sample) -> None:
    assert_type(bound, Stage[Sample, Box])
    assert_type(bound(batch), Box)
    assert_type(Stage(widen), Stage[Box, Box])
    assert_type(Stage(Draw()), Stage[Box, TensorDict])
    assert_type(Stage(functools.partial(scale, by=2.0))(bound(batch)), Box)
    assert_type(Shrink()(bound(batch)), Box)
    assert_type(Stage[Sample, Sample](lambda sample: sample), Stage[Sample, Sample])
    assert_type(bound.name, str)
    assert_type(bound.stages, tuple[Stage[Any, Any], ...])


def general(stage: Stage[Sample, TensorCollection], sample: Sample) -> TensorCollection:
    return stage(sample)


def rows(batch: Sample, described: Described) -> None:
    assert_type(bound >> widen, Stage[Sample, Box])
    assert_type(bound >> Draw(), Stage[Sample, TensorDict])
    assert_type(bound >> widen >> Shrink() >> Draw(), Stage[Sample, TensorDict])
    assert_type(bound >> (Shrink() >> Draw()), Stage[Sample, TensorDict])
    assert_type(widen >> Shrink(), Stage[Box, Box])
    assert_type((bound >> Draw())(batch), TensorDict)
    assert_type((bound >> widen)(described), Box)
    one: Stage[Described, Box] = bound  # what takes any sample takes this one
    assert_type(one(described), Box)
    assert_type(general(bound >> Draw(), batch), TensorCollection)
    Pipeline[Sample, Box](bound, Stage(widen))


def many_rows(batch: Sample, described: Described) -> None:
    assert_type((bound >> widen).run(batch), Box)
    assert_type((bound >> Draw()).run(batch, batch_size=2), TensorDict)
    assert_type(bound.run(described), Box)


def elsewhere(batch: Sample, executor: Any) -> None:
    assert_type((bound >> Draw()).run(batch, on=executor, batch_size=2, retries=1), TensorDict)
    assert_type(bound.run(batch, num_workers=2, timeout=60.0), Box)


def of_scenes(scene: Scene) -> Sample:
    return scene.shot


def functions_in_front(scene: Scene) -> None:
    assert_type(of_scenes >> bound, Stage[Scene, Box])
    assert_type((of_scenes >> bound)(scene), Box)
