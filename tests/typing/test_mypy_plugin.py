"""The mypy plugin, by what mypy says of small modules.

All modules of ``CASES`` are checked in one run, each in two forms: with decorated classes, as it stands here, and with
the same classes derived from ``TensorClass``. A line that must be reported ends in ``# E: part of the message``; no
other line may be.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from tensorclass import TensorClass
from tensorclass.typing import mypy_plugin
from tests.typing.checkers import CACHE, PLUGIN, PYTHON

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("type checkers"),  # projects that share mypy's cache
]

ROOT = Path(__file__).parents[2]
CONFIG = f"""\
[mypy]
plugins = {PLUGIN}
strict = true
python_version = {PYTHON}
cache_fine_grained = true
cache_dir = {CACHE}
"""
HEADER = """\
from dataclasses import InitVar, replace
from typing import Any, Callable, ClassVar, Generic, TypeVar
import torch
from torch import Size, Tensor
from typing_extensions import assert_type
import tensorclass as tc
from tensorclass import TensorClass, TensorCollection, TensorDict, field, tensorclass
"""

CASES = {
    "what_is_inherited": """
        @tensorclass
        class Sample:
            image: Tensor
            label: Tensor
        def check(a: Sample, t: Tensor, n: TensorClass) -> None:
            assert_type(a[0], Sample)
            assert_type(a[t > 0], Sample)
            assert_type(a.reshape(3, -1), Sample)
            assert_type(a.to("cpu"), Sample)
            assert_type(a + 1, Sample)
            assert_type(1 - a, Sample)
            assert_type(a.unbind(0), tuple[Sample, ...])
            assert_type([row for row in a], list[Sample])
            assert_type(a.batch_size, Size)
            assert_type(a.device, torch.device | None)
            assert_type(a.image, Tensor)
            assert_type(Sample.from_tensordict(a), Sample)
            assert_type(tc.stack([a, a]), Sample)
            n = a
            c: type[TensorClass] = Sample
            a.images  # E: "Sample" has no attribute "images"
            a.images = t  # E: "Sample" has no attribute "images"
            a.image = "x"  # E: Incompatible types in assignment
            a.reshapes(3)  # E: "Sample" has no attribute "reshapes"
            x: str = a[0]  # E: Incompatible types in assignment
        """,
    "the_constructor": """
        @tensorclass
        class Sample:
            image: Tensor
            label: Tensor
            note: str = ""
            extra: Tensor | None = None
        def check(t: Tensor) -> None:
            assert_type(Sample(t, t), Sample)
            Sample(t, t, "a", None, batch_size=[3], device="cpu", names=["a"])
            Sample(label=t, image=t, extra=t)
            Sample(t)  # E: Missing positional argument "label"
            Sample(t, t, 3)  # E: Argument 3 to "Sample" has incompatible type "int"; expected "str"
            Sample(t, t, imag=t)  # E: Unexpected keyword argument "imag"
            Sample(t, t, "", t, [3])  # E: Too many positional arguments
            assert_type(Sample(t, t).extra, Tensor | None)
        """,
    "reexport": """
        __all__ = ["tensorclass"]
        """,
    "the_decorator_by_other_names": """
        import tensorclass as other
        import tensorclass.records.decorator as module
        from tensorclass import tensorclass as record
        from tensorclass.records.decorator import tensorclass as deep
        from .reexport import tensorclass as again
        @record
        class A:
            x: Tensor
        @other.tensorclass(frozen=True)
        class B:
            x: Tensor
        @module.tensorclass
        class C:
            x: Tensor
        @deep()
        class D:
            x: Tensor
        @again
        class E:
            x: Tensor
        def check(a: A, b: B, c: C, d: D, e: E) -> None:
            assert_type(a[0], A)
            assert_type(b[0], B)
            assert_type(c[0], C)
            assert_type(d[0], D)
            assert_type(e[0], E)
            b.x = a.x  # E: Property "x" defined in "B" is read-only
        """,
    "options": """
        @tensorclass(frozen=True)
        class Frozen:
            x: Tensor
            def __post_init__(self) -> None:
                print(self.x)
        @tc.tensorclass(frozen=True)
        class More(Frozen):
            y: Tensor
        @tensorclass(frozen=False)
        class Thawed(Frozen):  # E: Non-frozen dataclass cannot inherit from a frozen dataclass
            y: Tensor
        @tensorclass(kw_only=True, nocast=True)
        class Named:
            x: Tensor
            y: int = 0
        @tensorclass(tensor_only=True, autocast=False, shadow=True)
        class Shadow:
            x: Tensor
        def check(a: Frozen, b: More, c: Named, d: Shadow, t: Tensor) -> None:
            a.x = t  # E: Property "x" defined in "Frozen" is read-only
            b.x = t  # E: Property "x" defined in "More" is read-only
            b.y = t  # E: Property "y" defined in "More" is read-only
            assert_type(b.y, Tensor)
            More(t, t, batch_size=[])
            More(t)  # E: Missing positional argument "y"
            Named(x=t, batch_size=[])
            Named(t)  # E: Too many positional arguments
            Named(y=3)  # E: Missing named argument "x"
            assert_type(d[0], Shadow)
            d.x = t
            replace(a, x=t)
            replace(a, z=t)  # E: Unexpected keyword argument "z"
        """,
    "fields": """
        def tensors() -> list[str]:
            return []
        @tensorclass
        class Sample:
            x: Tensor
            lost = 3
            kind: ClassVar[str] = "a"
            first: InitVar[int]
            tags: list[str] = field(default_factory=tensors)
            hidden: Tensor = field(init=False)
            last: int = field(default=3, kw_only=True)
            def __post_init__(self, first: int) -> None:
                self.hidden = self.x * first
        @tensorclass
        class Wrong:
            x: Tensor = torch.zeros(3)
            y: Tensor  # E: Attributes without a default cannot follow attributes with one
        @tensorclass
        class Post:
            x: Tensor
            scale: InitVar[int] = 1
            def __post_init__(self, scale: str) -> None:  # E: Argument 2 of "__post_init__" is incompatible
                pass
        def check(a: Sample, t: Tensor) -> None:
            Sample(t, 3, ["a"], last=3, batch_size=[])
            Sample(t, 3, ["a"], 3)  # E: Too many positional arguments
            Sample(t, 3, hidden=t)  # E: Unexpected keyword argument "hidden"
            Sample(t, "a")  # E: Argument 2 to "Sample" has incompatible type "str"; expected "int"
            Sample(t, 3, [3])  # E: List item 0 has incompatible type "int"; expected "str"
            assert_type(a.hidden, Tensor)
            assert_type(a.tags, list[str])
            assert_type(a.kind, str)
            assert_type(replace(a, x=t, first=3), Sample)
            replace(a, x=3, first=3)  # E: Argument "x" to "replace" of "Sample" has incompatible type "int"
            a.first  # E: "Sample" has no attribute "first"
            match a:
                case Sample(x=x, tags=tags):
                    assert_type(x, Tensor)
                    assert_type(tags, list[str])
        """,
    "its_own_constructor": """
        @tensorclass
        class Sample:
            x: Tensor
            def __init__(self, size: int) -> None:
                super().__init__(x=torch.zeros(size), batch_size=[size])
        def check(t: Tensor) -> None:
            assert_type(Sample(3), Sample)
            Sample(t)  # E: Argument 1 to "Sample" has incompatible type "Tensor"; expected "int"
            Sample(3, batch_size=[])  # E: Unexpected keyword argument "batch_size"
        """,
    "methods": """
        @tensorclass
        class Sample:
            x: Tensor
            @property
            def total(self) -> Tensor:
                return self.x.sum()
            @classmethod
            def make(cls, n: int) -> "Sample":
                return cls(torch.zeros(n), batch_size=[n])
            @staticmethod
            def name() -> str:
                return "sample"
            def first(self) -> "Sample":
                assert_type(self.batch_size, Size)
                assert_type(super().reshape(3), Sample)
                return self[0].clone()
            def __len__(self) -> int:
                return super().__len__() + 1
            def wrong(self) -> int:
                return self[0]  # E: Incompatible return value type (got "Sample", expected "int")
            def squeeze(self) -> int:  # E: Signature of "squeeze" incompatible with supertype
                return 3
        def check(a: Sample) -> None:
            assert_type(a.first().total, Tensor)
            assert_type(Sample.make(3)[0], Sample)
            assert_type(Sample.name(), str)
        """,
    "inheritance": """
        class Named:
            def hello(self) -> str:
                return "hello"
        @tensorclass
        class Base(Named):
            x: Tensor
        @tensorclass
        class Decorated(Base):
            y: Tensor
        class Subclass(Base):
            y: Tensor
        class Plain(TensorClass):
            x: Tensor
        @tensorclass(frozen=True)
        class Of_a_subclass(Plain):  # E: Frozen dataclass cannot inherit from a non-frozen dataclass
            z: int = 3
        @tensorclass
        class Two(Subclass, Plain):
            pass
        @tensorclass
        class Own(Base):
            def squeeze(self) -> int:  # type: ignore[override]
                return 3
        @tensorclass
        class Owner(Own):
            z: Tensor
        @tensorclass
        class Narrower(Base):
            x: int  # E: Incompatible types in assignment
        def check(a: Base, b: Decorated, c: Subclass, d: Of_a_subclass, t: Tensor) -> None:
            assert_type(a.hello(), str)
            assert_type(b[0], Decorated)
            assert_type(c[0], Subclass)
            assert_type(b.x, Tensor)
            Decorated(t, t, batch_size=[])
            Subclass(t, t, batch_size=[])
            Subclass(t)  # E: Missing positional argument "y"
            Decorated(t)  # E: Missing positional argument "y"
            a = b
            b = c  # E: Incompatible types in assignment
            if isinstance(a, Decorated):
                assert_type(a, Decorated)
            elif isinstance(a, Subclass):
                assert_type(a.y, Tensor)
            x: Named = a
            for item in (b, c):
                assert_type(item.hello(), str)
        """,
    "generics": """
        T = TypeVar("T")
        @tensorclass
        class Box(Generic[T]):
            value: T
            weight: Tensor
            def held(self) -> T:
                return self.value
        @tensorclass
        class Words(Box[str]):
            more: Tensor
        @tensorclass(frozen=True)
        class Both(Generic[T]):
            left: T
            right: T
        R = TypeVar("R", bound=TensorClass)
        def first(record: R) -> R:
            return record[0].reshape(3)
        def check(a: Box[int], b: Words, t: Tensor) -> None:
            assert_type(Box(3, t), Box[int])
            assert_type(Box("a", t)[0], Box[str])
            assert_type(a.held(), int)
            assert_type(first(a), Box[int])
            assert_type(b.value, str)
            assert_type(b[0], Words)
            Words("a", t, t)
            Words(3, t, t)  # E: Argument 1 to "Words" has incompatible type "int"; expected "str"
            assert_type(torch.stack([a, a]), Box[int])
            Box[str](3, t)  # E: Argument 1 to "Box" has incompatible type "int"; expected "str"
            first(t)  # E: Value of type variable "R" of "first" cannot be "Tensor"
        """,
    "forward_references": """
        later: "Tree"
        @tensorclass
        class Tree:
            x: Tensor
            left: "Tree | None" = None
            other: "Leaf | None" = None
        @tensorclass
        class Leaf:
            x: "Tensor"
            back: "list[Tree]"
        def check(a: Tree, t: Tensor) -> None:
            Tree(t, Tree(t), Leaf(t, [a]), batch_size=[])
            Tree(t, Leaf(t, []))  # E: Argument 2 to "Tree" has incompatible type "Leaf"; expected "Tree | None"
            assert_type(a.left, Tree | None)
            assert_type(a[0].other, Leaf | None)
            a.left.x  # E: Item "None" of "Tree | None" has no attribute "x"
            assert_type(later[0], Tree)
        """,
    "nested_classes": """
        class Outer:
            @tensorclass
            class Inner:
                x: Tensor
                @tensorclass(frozen=True)
                class Innermost:
                    y: Tensor
            field: Inner
        @tensorclass
        class Record:
            @tensorclass
            class Part:
                y: Tensor
            part: Part
        def check(a: Outer.Inner, b: Outer.Inner.Innermost, c: Record, t: Tensor) -> None:
            assert_type(a[0], Outer.Inner)
            assert_type(b[0], Outer.Inner.Innermost)
            assert_type(c[0].part, Record.Part)
            Record(Record.Part(t, batch_size=[]), batch_size=[])
            Record(t)  # E: Argument 1 to "Record" has incompatible type "Tensor"; expected "Part"
            b.y = t  # E: Property "y" defined in "Innermost" is read-only
            @tensorclass
            class Local:
                x: Tensor
                other: "Local | None" = None
                @tensorclass
                class Deep:
                    z: Tensor
            local = Local(t, batch_size=[])
            assert_type(local[0], Local)
            assert_type(local.other, Local | None)
            assert_type(Local.Deep(t)[0], Local.Deep)
            Local(3)  # E: Argument 1 to "Local" has incompatible type "int"; expected "Tensor"
        class Holder:
            def method(self, t: Tensor) -> None:
                @tensorclass
                class Local:
                    x: Tensor
                assert_type(Local(t)[0], Local)
                Local()  # E: Missing positional argument "x"
        """,
    "cycle_one": """
        from .cycle_two import Two, make
        @tensorclass
        class One:
            x: Tensor
            two: "Two | None" = None
        def check(t: Tensor) -> None:
            one = One(t, Two(t), batch_size=[])
            assert_type(make(one), Two)
            assert_type(make(one)[0].one, "One | None")
            One(t, t)  # E: Argument 2 to "One" has incompatible type "Tensor"; expected "Two | None"
        """,
    "cycle_two": """
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from .cycle_one import One
        @tensorclass
        class Two:
            x: Tensor
            one: "One | None" = None
        def make(one: "One") -> Two:
            assert_type(one[0], "One")
            one.y  # E: "One" has no attribute "y"
            return Two(one.x, one.two)  # E: Argument 2 to "Two" has incompatible type "Two | None"
        """,
    "cycle_three": """
        from . import cycle_four
        @cycle_four.tensorclass(frozen=True)
        class Three:
            x: Tensor
            four: "cycle_four.Four | None" = None
        def check(a: Three, t: Tensor) -> None:
            assert_type(a[0], Three)
            assert_type(cycle_four.Four(t)[0].x, Tensor)
            assert_type(cycle_four.Five(t)[0], cycle_four.Five)
        """,
    "cycle_four": """
        from . import cycle_three
        __all__ = ["Five", "Four", "tensorclass"]
        @tensorclass(frozen=True)
        class Four(cycle_three.Three):
            pass
        class Five(cycle_three.Three, frozen=True):
            pass
        def check(a: Four, b: Five, t: Tensor) -> None:
            assert_type(a[0], Four)
            assert_type(b[0].reshape(3), Five)
            assert_type(b.four, Four | None)
            assert_type(cycle_three.Three(t)[0], cycle_three.Three)
            Five(3)  # E: Argument 1 to "Five" has incompatible type "int"; expected "Tensor"
            b.x = t  # E: Property "x" defined in "Five" is read-only
        """,
    "cycle_z_record": """
        from . import cycle_a_decorator
        @cycle_a_decorator.tensorclass(frozen=True)
        class Three:
            x: Tensor
            four: "cycle_a_decorator.Four | None" = None
        def check(a: Three, t: Tensor) -> None:
            assert_type(a[0], Three)
            assert_type(cycle_a_decorator.Four(t)[0].x, Tensor)
            assert_type(cycle_a_decorator.Five(t)[0], cycle_a_decorator.Five)
        """,
    "cycle_a_decorator": """
        from . import cycle_z_record
        __all__ = ["Five", "Four", "tensorclass"]
        @tensorclass(frozen=True)
        class Four(cycle_z_record.Three):
            pass
        class Five(cycle_z_record.Three, frozen=True):
            pass
        def check(a: Four, b: Five, t: Tensor) -> None:
            assert_type(a[0], Four)
            assert_type(b[0].reshape(3), Five)
            assert_type(b.four, Four | None)
            assert_type(cycle_z_record.Three(t)[0], cycle_z_record.Three)
            Five(3)  # E: Argument 1 to "Five" has incompatible type "int"; expected "Tensor"
            b.x = t  # E: Property "x" defined in "Five" is read-only
        """,
    "other_modules": """
        from . import cycle_two, inheritance
        from .generics import Box
        @tensorclass
        class Sample(inheritance.Base):
            two: cycle_two.Two
            box: Box[int]
        def check(a: Sample, t: Tensor) -> None:
            assert_type(a[0].two.x, Tensor)
            assert_type(a.box.value, int)
            assert_type(a.hello(), str)
            Sample(t, cycle_two.Two(t), Box(3, t), batch_size=[])
            Sample(t, t, Box(3, t))  # E: Argument 2 to "Sample" has incompatible type "Tensor"; expected "Two"
        """,
    "other_decorators": """
        import dataclasses
        from typing import final
        C = TypeVar("C")
        def mark(cls: type[C]) -> type[C]:
            return cls
        @final
        @mark
        @tensorclass
        class Sample:
            x: Tensor
        @dataclasses.dataclass
        class Plain:
            x: Tensor
            sample: Sample
        @mark
        class Nothing:
            x: Tensor
        def check(a: Sample, t: Tensor) -> None:
            assert_type(a[0], Sample)
            Plain(t, a)
            Plain(t, a, batch_size=[])  # E: Unexpected keyword argument "batch_size"
            Nothing(t)  # E: Too many arguments
            Plain(t, a).reshape(3)  # E: "Plain" has no attribute "reshape"
        """,
    "abstract_and_self": """
        from abc import abstractmethod
        from typing_extensions import Self
        @tensorclass
        class Base:
            x: Tensor
            @classmethod
            def make(cls) -> Self:
                return cls(torch.zeros(3))
            def same(self) -> Self:
                return self[0]
            @abstractmethod
            def name(self) -> str: ...
        @tensorclass
        class Sample(Base):
            def name(self) -> str:
                return "sample"
        def check(t: Tensor) -> None:
            Base(t)  # E: Cannot instantiate abstract class "Base"
            assert_type(Sample.make().same(), Sample)
        """,
    "inconsistent_bases": """
        @tensorclass
        class Sample(TensorCollection):  # E: Cannot determine consistent method resolution order (MRO) for "Sample"
            x: Tensor
        """,
    "mistakes_in_the_decorator": """
        @tensorclass(frosen=True)  # E: Unexpected keyword argument "frosen"
        class Misspelt:
            x: Tensor
        @tensorclass(frozen="yes")  # E: "frozen" argument must be a True or False literal
        class Text:
            x: Tensor
        @tensorclas  # E: Name "tensorclas" is not defined
        class Unknown:
            x: Tensor
        """,
    "functions_of_torch": """
        @tensorclass
        class Sample:
            x: Tensor
        R = TypeVar("R", bound=TensorClass)
        from torch import stack as joined
        def check(a: Sample, b: TensorDict, t: Tensor, many: list[Sample], r: Sample | Tensor) -> None:
            assert_type(torch.stack([a, a]), Sample)
            assert_type(torch.stack((a, a), dim=1), Sample)
            assert_type(torch.stack(many, 1), Sample)
            assert_type(joined(many), Sample)
            assert_type(torch.stack(list(a)), Sample)
            assert_type(torch.cat([a, a], -1), Sample)
            assert_type(torch.cat([b, b]), TensorDict)
            assert_type(torch.where(t, a, a), Sample)
            assert_type(torch.where(t, a, 0.0), Sample)
            assert_type(torch.zeros_like(a), Sample)
            assert_type(torch.full_like(a, 3), Sample)
            assert_type(torch.split(a, 2), tuple[Sample, ...])
            assert_type(torch.unbind(a, dim=0), tuple[Sample, ...])
            assert_type(torch.chunk(a, 2)[0], Sample)
            assert_type(torch.squeeze(a, 0), Sample)
            assert_type(torch.squeeze(input=a), Sample)
            assert_type(torch.permute(a, (1, 0)), Sample)
            assert_type(torch.reshape(a, (3, 2)), Sample)
            assert_type(torch.clone(a), Sample)
            assert_type(torch.mul(a, 2), Sample)
            assert_type(torch.mul(t, a), Sample)
            assert_type(torch.add(input=t, other=a, alpha=2), Sample)
            assert_type(torch.pow(a, exponent=2), Sample)
            assert_type(torch.multiply(a, a), Sample)
            assert_type(torch.maximum(t, a), Sample)
            assert_type(torch.max(a, t), Sample)
            assert_type(torch.add(a, 1, out=a), Sample)
            assert_type(torch.is_floating_point(a), bool)
            assert_type(torch.numel(a), int)
            assert_type(torch.nn.functional.l1_loss(a, a), Sample)
            assert_type(torch.abs(r), Sample | Tensor)
            assert_type(t.mul(a), Sample)
            assert_type(t + a, Sample)
            (t == a).reshape(3), (t != a).reshape(3)
            assert_type(torch.stack([torch.cat([torch.stack([torch.cat([torch.stack([a])])])])]), Sample)
            torch.squeeze(a, "x")  # E: has incompatible type "str"; expected "int | Sequence[int] | None"
            torch.stack(a, "x")  # E: Argument 2 to "stack" has incompatible type "str"; expected "int"
            torch.stack([a, a], dims=1)  # E: Unexpected keyword argument "dims" for "stack"
            torch.matmul(a, a)  # E: incompatible type "Sample"; expected "Tensor"
            torch.lerp(t, a, 0.5)  # E: No overload variant of "lerp"
            torch.split(a)  # E: Missing positional argument "split_size"
            x: Tensor = torch.stack([a, a])  # E: Incompatible types in assignment (expression has type "Sample"
        def options_that_methods_do_not_have(a: Sample, t: Tensor) -> None:
            assert_type(torch.div(a, t, rounding_mode="floor"), Sample)
            assert_type(torch.round(input=a, decimals=1), Sample)
            assert_type(torch.softmax(a, 0, dtype=torch.float64), Sample)
            assert_type(torch.var(a, 0, True), Sample)
            torch.std(a, dim=(0, 1), unbiased=False)
            torch.reshape(input=a, shape=[3, 2])
            torch.norm(a, p=2)
            torch.min(a, dim=0, keepdim=True)
            torch.div(a, "a")  # E: has incompatible type "str"
            torch.div(a, t, rounding="floor")  # E: Unexpected keyword argument "rounding"
            torch.round(a, decimals="x")  # E: Unexpected keyword argument "decimals"
            torch.softmax(a, dim="x")  # E: has incompatible type "str"; expected "int"
            torch.var(a, correction="1")  # E: No overload variant of
            torch.std(a, dim="x")  # E: has incompatible type
            torch.reshape(a, "x")  # E: has incompatible type "str"
            torch.norm(a, q=3)  # E: Unexpected keyword argument "q"
            torch.max(a, "x")  # E: No overload variant of
            torch.min(a, dims=0)  # E: Unexpected keyword argument "dims"
        def untyped(a: Sample, x: Any) -> None:
            assert_type(torch.stack([x, a]), Any)
            torch.stack([*x, a])
            assert_type(torch.stack(x), Tensor)
            torch.squeeze(*x)
            torch.maximum(*a)
            torch.add(*[a, a])  # E: No overload variant of "add"
            many = []
            for row in a:
                many.append(torch.abs(row))
            assert_type(torch.stack(many), Sample)
            total = torch.zeros_like(a)
            for row in many:
                total = torch.add(total, row)
            assert_type(total, Sample)
        def generic(a: R) -> R:
            assert_type(torch.unbind(a), tuple[R, ...])
            return torch.stack([a, a])
        def tensors(t: Tensor, a: Any, many: list[Tensor]) -> None:
            assert_type(torch.stack([t, t]), Tensor)
            assert_type(torch.cat(many, dim=0), Tensor)
            assert_type(torch.where(t, t, 0.0), Tensor)
            assert_type(torch.where(t), tuple[Tensor, ...])
            assert_type(torch.zeros_like(t), Tensor)
            assert_type(torch.split(t, 1), tuple[Tensor, ...])
            assert_type(torch.add(a, 1), Tensor)
            assert_type(torch.max(t), Tensor)
            assert_type(torch.max(t, 0).values, Tensor)
            assert_type(t == t, Tensor)
            assert_type(t == "a", bool)
            assert_type(t.mul(3), Tensor)
            torch.stack(["a"])  # E: List item 0 has incompatible type "str"; expected "Tensor"
            torch.squeeze(t, "a")  # E: No overload variant of "squeeze"
        """,
}


def module(source: str) -> str:
    return HEADER + "".join(line[8:] + "\n" for line in source.splitlines()[1:])


def derived(source: str) -> str:
    """The module with each decorated class derived from ``TensorClass`` instead, line by line."""
    records = {"Plain", "Subclass", "inheritance.Base", "cycle_three.Three", "cycle_z_record.Three"}

    def rewritten(match: re.Match[str]) -> str:
        options, indent, name, bases = match.groups()
        names = [base for base in re.split(r",\s*", bases or "") if base]
        if not any(base.split("[")[0] in records for base in names):
            generic = [base for base in names if base.startswith("Generic")]
            names = [base for base in names if base not in generic] + ["TensorClass", *generic]
        records.add(name)
        return f"\n{indent}class {name}({', '.join([*names, *filter(None, [options])])}):"

    decorator = r"@(?:[\w.]*tensorclass|record|deep|again)\b(?:\((.*)\))?"
    return re.sub(decorator + r"\n( *)class (\w+)(?:\((.*)\))?:", rewritten, source)


FORMS = {"decorated": lambda source: source, "derived": derived}


def mypy(directory: Path, *arguments: str, program: str = "mypy") -> str:
    """What mypy prints when it runs in a directory."""
    command = [sys.executable, "-m", program, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TENSORCLASS_PLUGIN": "1"}
    with FileLock(directory / "mypy.lock"):  # one process at a time writes the cache
        done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)
    assert not done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A folder with mypy's cache, and what mypy says of all cases in ``answers.txt``: made once for all processes."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = base / "mypy_plugin"
    with FileLock(base / "mypy_plugin.lock"):
        if not (folder / "answers.txt").exists():
            for form, rewrite in FORMS.items():
                (folder / form).mkdir(parents=True)
                (folder / form / "__init__.py").touch()
                for name, source in CASES.items():
                    (folder / form / f"{name}.py").write_text(rewrite(module(source)))
            (folder / "mypy.ini").write_text(CONFIG)
            (folder / "answers.txt").write_text(mypy(folder, *FORMS))
    return folder


def answers(project: Path, form: str, name: str, output: str | None = None) -> list[str]:
    """The lines of mypy about a case, without its path."""
    lines = (output or (project / "answers.txt").read_text()).splitlines()
    start = f"{form}/{name}.py:"
    return [line.removeprefix(start).replace(f"{form}.", "") for line in lines if line.startswith(start)]


def errors(lines: list[str]) -> list[tuple[int, str]]:
    found = [re.fullmatch(r"(\d+): error: (.*)", line) for line in lines]
    return [(int(match[1]), match[2]) for match in found if match]


@pytest.mark.parametrize("name", CASES)
def test_the_lines_that_are_marked_are_reported_and_no_others(project, name):
    source = module(CASES[name])
    marks = {number: line.split("# E: ")[1] for number, line in enumerate(source.splitlines(), 1) if "# E: " in line}
    found = errors(answers(project, "decorated", name))
    assert {line for line, _ in found} == set(marks), found
    for line, mark in marks.items():
        assert any(mark in message for number, message in found if number == line), (line, mark, found)


@pytest.mark.parametrize("name", [name for name in CASES if name != "mistakes_in_the_decorator"])
def test_a_decorated_class_and_the_same_class_derived_get_the_same_answers(project, name):
    assert answers(project, "decorated", name) == answers(project, "derived", name)


# -- again, after changes ---------------------------------------------------------------------------------------------

USE = """\
import torch
from .data import Sample, other
def check(t: torch.Tensor) -> None:
    sample = Sample(t, batch_size=[3])
    sample.image = t
    sample.label.x
    torch.stack([sample, sample]).image
    other(sample)[0].reshapes
    x: str = sample
"""
#: one module after the other in the place of data.py
STATES = [
    "@tensorclass\nclass Sample:\n    image: Tensor\n",
    "@tensorclass\nclass Sample:\n    image: int\n",
    "@tensorclass(frozen=True)\nclass Sample:\n    image: Tensor\n",
    "@tensorclass(kw_only=True)\nclass Sample:\n    image: Tensor\n",
    "@tensorclass\nclass Label:\n    x: Tensor\n@tensorclass\nclass Sample:\n    image: Tensor\n    label: Label\n",
    "@tensorclass\nclass Label:\n    image: Tensor\n@tensorclass\nclass Sample(Label):\n    label: int = 3\n",
    "@tensorclass\nclass Label:\n    image: int\n@tensorclass\nclass Sample(Label):\n    label: int = 3\n",
    "class Sample:\n    image: Tensor\n",
    "@tensorclass\nclass Sample:\n    image: Tensor\n",
]


def put(folder: Path, source: str, use: str = USE) -> None:
    for form, rewrite in FORMS.items():
        (folder / form).mkdir(exist_ok=True)
        (folder / form / "data.py").write_text(rewrite(f"{HEADER}{source}def other(a: Sample) -> Sample: return a\n"))
        (folder / form / "use.py").write_text(use)


def test_an_incremental_run_and_the_daemon_say_what_they_say_of_the_class_derived(project, tmp_path):
    daemon = ["--status-file", str(tmp_path / "status")]
    put(project, STATES[-1], use="")
    mypy(project, *FORMS)
    mypy(project, *daemon, "start", "--", "--use-fine-grained-cache", program="mypy.dmypy")
    try:
        mypy(project, *daemon, "check", *FORMS, program="mypy.dmypy")
        seen = []
        for number, source in enumerate(STATES):
            put(project, source)
            said = [mypy(project, *daemon, "check", *FORMS, program="mypy.dmypy")]
            if number % 3 == 0:  # it takes longer
                said.append(mypy(project, *FORMS))
            found = [sorted(answers(project, form, "use", text)) for form in FORMS for text in said]
            assert all(lines == found[0] for lines in found), (source, found)
            seen.append(found[0])
    finally:
        mypy(project, *daemon, "stop", program="mypy.dmypy")
    assert seen[0] == seen[-1]
    assert len({str(lines) for lines in seen}) == len(STATES) - 1


# -- the table of functions -------------------------------------------------------------------------------------------

#: what stands behind the first record, where that is neither nothing nor another record
ARGUMENTS = {
    "addcdiv": "s, s", "addcmul": "s, s", "broadcast_to": "(2, 3)", "chunk": "2", "cummax": "0", "cummin": "0",
    "cumprod": "0", "cumsum": "0", "flip": "(0,)", "full_like": "1", "gather": "0, index", "lerp": "s, 0.5",
    "logsumexp": "0", "masked_fill": "mask, 0", "masked_select": "mask", "moveaxis": "0, 1", "movedim": "0, 1",
    "narrow": "0, 0, 1", "permute": "(1, 0)", "quantile": "0.5", "randint_like": "3", "repeat_interleave": "2",
    "reshape": "(3, 2)", "roll": "1", "softmax": "0", "split": "1", "swapaxes": "0, 1", "swapdims": "0, 1",
    "take": "index", "tensor_split": "2", "tile": "(2, 2)", "transpose": "0, 1", "unflatten": "1, (3, 1)",
    "unsqueeze": "0",
}  # fmt: skip
#: calls whose first argument is something else, and calls in other forms
CALLS = [
    "torch.stack([s, s])", "torch.stack((s, s), dim=1)", "torch.cat([s, s])", "torch.cat((s, s), dim=1)",
    "torch.concat([s, s])", "torch.concatenate([s, s], 0)", "torch.where(mask, s, s)", "torch.where(mask, s, 0.0)",
    "torch.where(mask, 0.0, s)", "torch.mul(t, s)", "torch.sub(t, s)", "torch.pow(t, s)", "torch.maximum(t, s)",
    "torch.add(s, 2, alpha=3)", "torch.add(t, s, alpha=3)", "torch.pow(s, exponent=2)", "torch.abs(input=s)",
    "torch.div(s, 2, rounding_mode='floor')", "torch.round(s, decimals=1)", "torch.std(s, dim=0, unbiased=False)",
    "torch.var(s, 0, keepdim=True)", "torch.norm(s, p=2)", "torch.sum(s, dim=0)", "torch.mean(s, 0, True)",
    "torch.max(s, dim=0)", "torch.max(s, s)", "torch.min(s, other=t)", "torch.softmax(s, dim=0, dtype=torch.float64)",
    "torch.nn.functional.softmax(s, -1)", "torch.clamp(s, min=0, max=1)", "torch.clip(s, 0, 1)",
    "torch.mul(s, 2, out=s)", "torch.stack([s, s], out=s.expand(2, 2, 3).clone())", "torch.swapdims(s, dim0=0, dim1=1)",
    "torch.tensor_split(s, sections=2)", "torch.unflatten(s, dim=1, sizes=(3, 1))", "torch.zeros_like(s, device='cpu')",
    "torch.nn.functional.l1_loss(s, s, reduction='none')", "torch.nn.functional.mse_loss(s, t)",
    "torch.squeeze(s, dim=0)", "torch.addcmul(s, tensor1=s, tensor2=s)", "torch.split(s, [1, 1])",
    "torch.all(s, 0)", "torch.reshape(s, (-1,))", "torch.reshape(s, shape=(3, 2))", "torch.flatten(s, start_dim=0)",
    "t.mul(s)", "t.add(s)", "t + s", "t / s", "t == s", "t < s", "1 - s",
]  # fmt: skip
#: calls on records whose methods have no declared type: their results depend on their arguments
UNTYPED = r"\.(all|any|amax|amin|cummax|cummin|logsumexp|max|mean|min|nanmean|nansum|prod|quantile|std|sum|var)\(s|=="


class Sample(TensorClass):
    x: torch.Tensor


def ran(call: str) -> object:
    """The result of a call on records: of floats, or else of integers, or of booleans."""
    for dtype in (torch.float32, torch.int64, torch.bool):
        s = Sample(torch.ones(2, 3, dtype=dtype), batch_size=[2, 3])
        mask, index = torch.ones(2, 3, dtype=torch.bool), torch.zeros(2, 3, dtype=torch.int64)
        try:
            return eval(call, {"torch": torch, "s": s, "t": torch.ones(2, 3), "mask": mask, "index": index})
        except (TypeError, RuntimeError):
            continue
    return None


def calls_of_the_table() -> list[str]:
    calls = []
    for function in mypy_plugin.FUNCTIONS:
        name = function.rpartition(".")[2]
        if name in ("stack", "cat", "concat", "concatenate", "where"):
            continue
        tried = [f"{function}(s, {ARGUMENTS[name]})"] if name in ARGUMENTS else [f"{function}(s)", f"{function}(s, s)"]
        calls.append(next((call for call in tried if ran(call) is not None), tried[0]))
    return calls


def test_what_runs_on_records_is_accepted_and_has_the_class_that_comes_out(project):
    calls = [*calls_of_the_table(), *CALLS]
    head = "class Sample(TensorClass):\n    x: Tensor\n"
    head += "def check(s: Sample, t: Tensor, mask: Tensor, index: Tensor) -> None:\n"
    source = HEADER + head + "".join(f"    reveal_type({call})\n" for call in calls)
    (project / "table.py").write_text(source)
    said = mypy(project, "table.py")
    found = errors([line.removeprefix("table.py:") for line in said.splitlines()])
    assert not [message for _, message in found if "untyped function" not in message]  # torch.atleast_1d has no types
    types = re.findall(r'Revealed type is "(.*)"', said)
    assert len(types) == len(calls)
    expected = {bool: "bool", int: "int", Sample: "table.Sample", tuple: "tuple[table.Sample, ...]"}
    for call, said_type in zip(calls, types, strict=True):
        result = ran(call)
        assert result is not None, f"{call} does not run: add arguments for it to ARGUMENTS"
        if not (said_type == "Any" and re.search(UNTYPED, call)):
            assert said_type == expected.get(type(result), said_type), call


OTHER_PLUGIN = """\
from mypy.plugin import Plugin
class Other(Plugin):
    def get_customize_class_mro_hook(self, fullname):
        return (lambda ctx: ctx.api.fail("seen", ctx.cls)) if fullname.startswith("plain.") else None
def plugin(version):
    return Other
"""


PRINTED = """\
import importlib, torch
from tensorclass.td.torch_functions import HANDLERS
from tensorclass.typing import mypy_plugin
print(mypy_plugin.__version__)
del HANDLERS[torch.squeeze]
print(importlib.reload(mypy_plugin).__version__)
"""


def test_the_cache_is_not_read_by_a_plugin_with_other_tables():
    seeds = [{**os.environ, "PYTHONHASHSEED": seed} for seed in ("1", "2")]
    found = [subprocess.check_output([sys.executable, "-c", PRINTED], cwd=ROOT, env=seed).split() for seed in seeds]
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


def test_a_plugin_behind_this_one_is_asked_about_classes_without_decorators(tmp_path):
    (tmp_path / "other.py").write_text(OTHER_PLUGIN)
    (tmp_path / "plain.py").write_text("class Plain: ...\n")
    (tmp_path / "mypy.ini").write_text("[mypy]\nplugins = tensorclass.typing.mypy_plugin, ./other.py\n")
    assert "plain.py:1: error: seen" in mypy(tmp_path, "plain.py")


def test_what_the_docs_say_of_mypy_is_what_it_says(project):
    section = re.search(r"## mypy\n(.*?)(?=\n## |\Z)", (ROOT / "docs" / "typing.md").read_text(), flags=re.DOTALL)
    assert section
    source = "".join(re.findall(r"```python\n(.*?)```", section[1], flags=re.DOTALL))
    (project / "docs.py").write_text(source)
    said = [line for line in mypy(project, "docs.py").splitlines() if line.startswith("docs.py:")]
    for number, line in enumerate(source.splitlines(), 1):
        mark = line.partition("  # ")[2]
        start = f"docs.py:{number}: "
        found = [text.removeprefix(start) for text in said if text.startswith(start)]
        assert any(text.startswith(mark) for text in found) if mark else not found, (line, found)
