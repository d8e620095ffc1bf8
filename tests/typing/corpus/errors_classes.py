"""Wrong uses of members, other bases, classes in classes."""

from records import Box, Described, Grid, Patch, Sample, Scored, Sized
from torch import Tensor

from tensorclass import TensorClass, field


class Clash(TensorClass):
    mean: Tensor  # E: a method has this name
    shape: Tensor  # E: a property has this name


class Misnamed(TensorClass):
    first: Tensor = field(alias="one")  # E: it is name
    second: Tensor = field(name=2)  # E: a text
    third: str = field(default=3, name="three")  # E: a number


def members(patch: Patch, x: Tensor) -> None:
    text: str = patch.bright  # E: a tensor
    print(text)
    patch.bright = "very"  # E: a tensor
    patch.kind = "dawn"  # E: day or night
    patch.area(3)  # E: no argument
    patch.average = 3  # E: a tensor or None
    Patch(x, "dawn")  # E: day or night
    Patch(x, average="x")  # E: a tensor or None
    Patch(x, area=3)  # E: no field


def inside(grid: Grid, x: Tensor) -> None:
    grid.cell.colour  # E: no such field
    Grid.Cell()  # E: value
    Grid.Cell(x, 3)  # E: a text
    Grid.Cell(x, marks="a")  # E: mark
    Grid(x)  # E: rows
    Grid(x, 4, 5)  # E: two
    Grid(x, rows="4")  # E: a number
    Grid(cell=x)  # E: value and rows


def subtypes(batch: Sample, box: Box, sized: Sized) -> None:
    described: Described = batch  # E: the base
    scored: Scored = Described(batch.image, batch.label)  # E: the base
    record: Sample = box  # E: another record
    patch: Patch = sized  # E: the base
    batches: list[Sample] = [batch, box]  # E: another record
    print(described, scored, record, patch, batches)
