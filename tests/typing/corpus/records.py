"""The records of the corpus, in the form of subclasses; `forms.py` writes the decorated form of this module.

Every way to declare a field stands here once: tensors, contracts, objects, nested and optional ones, lists, inherited
and generic ones, defaults, and the options of a class.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Generic, Literal, Optional, TypeVar

from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import Self

from tensorclass import Column, Ragged, TensorClass, TensorDict, Text, field

L = TypeVar("L")
R = TypeVar("R")


class Sample(TensorClass):
    """Fields without and with a default."""

    image: Tensor
    label: Tensor
    source: str = ""


class Described(Sample):
    """Fields of a base, then others."""

    caption: str | None = None
    weight: Tensor | None = None


class Scored(Described):
    """Two levels of bases; a field that has a default of its own in each record."""

    score: Tensor | None = None
    notes: list[str] = field(default_factory=list[str])


class Flags(TensorClass):
    """Masks, one under another."""

    seen: Tensor
    kept: Tensor


class Box(TensorClass, frozen=True):
    """A frozen record, with contracts."""

    low: Float[Tensor, "3"]
    high: Float[Tensor, "3"]


class Cube(Box, frozen=True):
    """A frozen record that inherits from one."""

    edge: Float[Tensor, ""]


class Scene(TensorClass):
    """Nested records, objects, methods."""

    box: Box
    shot: Sample
    tags: list[str]
    best: Box | None = None
    count: int = 0
    ratio: float = 1.0
    extra: Any = None
    free: TensorDict | None = None
    steps: ClassVar[int] = 3

    @property
    def picture(self) -> Tensor:
        return self.shot.image

    @classmethod
    def of(cls, box: Box, sample: Sample) -> Self:
        return cls(box, sample, [], batch_size=sample.batch_size)

    @staticmethod
    def limit() -> int:
        return 8

    def moved(self, by: float) -> Self:
        return self + by


class Video(TensorClass):
    """Three levels, and a contract on integers."""

    scene: Scene
    frame: Int[Tensor, ""]


class Options(TensorClass, kw_only=True):
    """Fields by keyword only."""

    rate: Tensor
    name: str = "adam"


class Built(TensorClass):
    """Fields that the constructor does not take, and some that it takes by keyword."""

    given: Tensor
    found: Tensor | None = field(default=None, init=False)
    named: str = field(default="a", kw_only=True)


class Stored(TensorClass):
    """Fields with another name in files and tables."""

    inner: Tensor = field(name="split")
    weight: Tensor | None = field(default=None, name="w")
    marks: list[str] = field(default_factory=list[str], name="labels", kw_only=True)


class Cast(TensorClass, autocast=True):
    """Options that change what is done with values."""

    number: int
    text: str


class Question(TensorClass):
    """Columns: text, rows of different length, objects; with rows that can be missing."""

    prompt: Text
    tokens: Ragged[Int[Tensor, "n"]]
    tags: Column[list[str]]
    mask: Ragged[Bool[Tensor, "n"]] | None = None
    note: Text | None = None
    answers: Column[list[str]] | None = None
    words: Ragged[Ragged[Tensor]] | None = None
    remarks: Column[list[str]] = field(default_factory=lambda: Column([list[str]()], batch_size=()))
    level: Column[int] = field(default_factory=lambda: Column([3], batch_size=()))


class Pair(TensorClass, Generic[L, R]):
    """A record of parts whose types are its parameters."""

    left: L
    right: R

    def swapped(self) -> Pair[R, L]:
        return Pair(self.right, self.left, batch_size=self.batch_size)


class Twins(Pair[Tensor, Tensor]):
    """A generic record with its parameters given."""

    same: bool = False


class Sized:
    """No record: methods for some."""

    def area(self) -> int:
        return 3


class Patch(Sized, TensorClass):
    """A record with another base, and members of all kinds."""

    pixels: Annotated[Tensor, "height width"]
    kind: Literal["day", "night"] = "day"
    average: Optional[Tensor] = None

    def __post_init__(self) -> None:
        self.kind = "day"

    @property
    def bright(self) -> Tensor:
        return self.pixels * 2

    @bright.setter
    def bright(self, value: Tensor) -> None:
        self.pixels = value / 2

    def __add__(self, other: object) -> Patch:
        return self


class Grid(TensorClass):
    """A class in a class, and a constructor of its own."""

    class Cell(TensorClass):
        """Without a default, and with one."""

        value: Tensor
        mark: str = ""

    cell: Grid.Cell

    def __init__(self, value: Tensor, rows: int) -> None:
        super().__init__(cell=Grid.Cell(value, batch_size=[rows]), batch_size=[rows])
