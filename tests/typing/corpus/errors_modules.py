"""Modules from record to record are held to their types."""

from records import Box, Sample

from tensorclass.nn import TensorClassModuleBase, TensorDictModule


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
