"""Modules from record to record are held to their types."""

from records import Box, Sample

from tensorclass import TensorDict
from tensorclass.nn import (
    ProbabilisticTensorDictModule,
    TensorClassModuleBase,
    TensorDictModule,
    TensorDictParams,
    TensorDictSequential,
)


class Bound(TensorClassModuleBase[Sample, Box]):
    def forward(self, x: Sample, /) -> Box:
        return Box(x.image, x.image, batch_size=x.batch_size)


class Widen(TensorClassModuleBase[Box, Box]):
    def forward(self, x: Box, /) -> Box:
        return x


class Wrong(TensorClassModuleBase[Sample, Box]):
    def forward(self, x: Sample, /) -> Sample:  # E: it gives a Box
        return x


def calls(sample: Sample, box: Box) -> None:
    Bound()(box)  # E: it takes a Sample
    Bound()(sample).image  # E: a Box has no image
    Widen() >> Bound()  # E: the second takes a Sample
    Bound() >> 3  # E: no stage


def made() -> None:
    TensorDictModule(abs, 3, "out")  # E: no key
    TensorDictModule(abs, "in", "out", strict="yes")  # E: True or False


def sequences(sample: Sample, box: Box) -> None:
    sequence = TensorDictSequential(TensorDictModule(abs, "in", "out"))
    sequence(sample).low  # E: a Sample comes back
    sequence(sample, tensordict_out=box).image  # E: the Box comes back
    TensorDictSequential(3)  # E: no module
    sequence.append(3)  # E: no module


def probabilistic(sample: Sample) -> None:
    draw = ProbabilisticTensorDictModule(["image"], "label")
    draw(sample).low  # E: a Sample comes back
    ProbabilisticTensorDictModule(3, "label")  # E: no keys


def parameters() -> None:
    TensorDictParams(3)  # E: no collection
    Box.from_module(3)  # E: no module
    TensorDict().to_module(Sample)  # E: no module
