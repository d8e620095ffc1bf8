"""What a converter does not take is reported."""

import dataclasses

from records import Sample
from torch import Tensor

from tensorclass import TensorClass, from_dataclass


@dataclasses.dataclass
class Plain:
    image: Tensor
    label: Tensor
    source: str = ""


class Plains(Plain, TensorClass):
    pass


def options(x: Tensor) -> None:
    Sample.from_dataclass(Plain(x, x), batchsize=[4])  # E: it is batch_size
    Sample.from_attrs(Plain(x, x), batch_size="4")  # E: numbers
    Sample.from_pydantic()  # E: the model
    from_dataclass(Plain, frosen=True)  # E: it is frozen
    from_dataclass(Plain(x, x), dest_cls=Plain)  # E: no class of records


def made(x: Tensor) -> None:
    from_dataclass(Plain)(x, x, batch_size="4")  # E: numbers
    from_dataclass(Plain(x, x)).reshape("4")  # E: numbers
    Plains(image=x)  # E: label
    Plains(x, x, source=3)  # E: text
    Plains(x, x)[0].colour  # E: no such field
