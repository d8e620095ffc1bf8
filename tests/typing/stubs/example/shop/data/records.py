"""Records of the shop."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import logging
import sys
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Optional,
    Protocol,
    TypeVar,
    overload,
)

import torch
from torch import Tensor, nn

import tensorclass as tcl
from tensorclass import tensorclass as record

from ..prices import Price, total

if TYPE_CHECKING:
    from collections.abc import Mapping
else:
    Mapping = dict

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

try:
    import h5py

    HAS_H5 = True
except ImportError:
    h5py = None
    HAS_H5 = False

__all__ = ["Sample", "Frozen", "Color", "load"]
__all__ += ["Price"]

T = TypeVar("T")
Vec = list[float]
MaybeInt = Optional[int]
Either = int | str
log = logging.getLogger(__name__)
ROOT = Path(__file__).parent
SIZE = 3
SIZES = (1, 2)
NAMES = ["a", "b"]
TABLE = {"a": 1, "b": 2}
NOTHING = None
LIMIT: Final = 10
MODE: Literal["x", "y"] = "x"
RATIO = 3 / 4
TEXT = f"{SIZE}"
EMPTY = []
LATER = total(3)
KERNEL = torch.zeros(3)
PRICE = Price()
double = lambda x, y=2: x * y
first, second = 1, "b"
a = b = 4.0
squares = [i * i for i in range(3)]
for index in range(3):
    pass
with open(__file__) as handle:
    CONTENT = handle.read()
if torch.cuda.is_available():
    DEVICE = "cuda"
else:
    DEVICE = None
del a


class Color(enum.Enum):
    RED = 1
    GREEN = enum.auto()

    @property
    def pretty(self):
        return self.name.lower()


class Point(NamedTuple):
    x: int
    y: int = 0


class HasShape(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class Options:
    size: int
    names: list[str] = field(default_factory=list)
    rate: float = field(default=0.5, kw_only=True)
    hidden: dict[str, int] = field(default_factory=dict, init=False)
    KIND = "options"


class Net(nn.Module):
    def __init__(self, width: int, *, depth=2) -> None:
        super().__init__()
        self.width = width
        self.depth: int = depth
        self.linear = nn.Linear(width, width)
        self.cache = None
        self.names = {}

    def forward(self, x: Tensor) -> Tensor:
        self.cache = 3
        return self.linear(x)


class Base(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...
    @staticmethod
    def unit() -> str:
        return "m"

    @functools.cached_property
    def side(self) -> float:
        return 1.0


@record
class Sample:
    """A sample."""

    image: Tensor
    label: Tensor | None = None
    source: str = "web"  # where from
    tags: list[str] = field(default_factory=list)
    extra: str = dataclasses.field(default="e", kw_only=True)
    many: list[int] = field(default_factory=lambda: [1], kw_only=True)
    CLASSES: ClassVar[int] = 10
    CONST = 4

    def __post_init__(self):
        assert self.image is not None

    @property
    def height(self) -> int:
        return self.image.shape[-2]

    @height.setter
    def height(self, value: int) -> None:
        self.image = self.image[..., :value, :]

    @classmethod
    def blank(cls, n: int = 3):
        return cls(torch.zeros(n), batch_size=[n])

    @staticmethod
    def helper(x):
        return x

    @overload
    def pick(self, key: int) -> Tensor: ...
    @overload
    def pick(self, key: str) -> str: ...
    def pick(self, key):
        return self.image if isinstance(key, int) else ""

    def walk(self):
        yield 1

    def flipped(self):
        return self

    def __str__(self):
        return "sample"

    @tcl.tensorclass
    class Inner:
        x: Tensor


@tcl.tensorclass(frozen=True, cast_filter=lambda k, t: True)
class Frozen(Sample):
    weight: Tensor | None = None


@record(shadow=True)
class Hiding:
    names: Tensor


@record
class Boxed(Generic[T]):
    content: Tensor
    extra: T | None = None


@record
class InheritsFrozen(Frozen):
    more: Tensor | None = None


@record(kw_only=True)
class ByKeyword:
    first: Tensor | None = None
    second: Tensor


frozen_record = tcl.tensorclass(frozen=True)


@frozen_record
class Small:
    x: Tensor


class Sub(tcl.TensorClass["frozen"]):
    x: Tensor


@contextmanager
def opened(path: str | Path) -> Iterator[int]:
    yield 3


async def fetch(url, *args: int, timeout=3.0, **kwargs: str):
    return "text"


def load(path, mode="r", /, *, size=SIZE, callback: Callable[[int], None] | None = None) -> Sample:
    """Loads."""
    raise NotImplementedError


def nothing(x):
    print(x)


def override(x: int = None):  # type: ignore[assignment]
    return x


def _private(
    very_long_parameter_name: dict[str, list[int]], another_parameter_name: tuple[int, ...] = (1, 2), third: str = "a"
) -> None:
    pass


if __name__ == "__main__":
    ONLY_MAIN = 1
