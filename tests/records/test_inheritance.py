"""Records that derive from records, mixins, abstract, generic and plain classes."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from dataclasses import field
from typing import Any, Generic

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, tensorclass
from tests.forms import FORMS
from tests.records.classes import MakeForm, Point, T


def test_a_record_inherits_fields_in_front_of_its_own(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Parent(base):
        a: Tensor
        b: Tensor

    @decorate
    class Child(Parent):
        c: Tensor

    assert [f.name for f in dataclasses.fields(Child)] == ["a", "b", "c"]
    child = Child(*torch.zeros(3, 2), batch_size=[2])
    assert isinstance(child[0], Parent)
    assert type(child[0]) is Child


@pytest.mark.parametrize("parent_form", FORMS)
@pytest.mark.parametrize("child_form", FORMS)
def test_methods_reach_those_of_the_parent_through_super(parent_form: str, child_form: str) -> None:
    decorate, base, _ = FORMS[parent_form]()

    @decorate
    class Parent(base):
        x: Tensor

        def total(self) -> Tensor:
            return self.x.sum()

    @FORMS[child_form]().decorator
    class Child(Parent):
        y: Tensor

        def total(self) -> Tensor:
            return super().total() + self.y.sum()

    assert Child(torch.ones(2), torch.ones(2), batch_size=[2]).total() == 4


def test_a_field_declared_again_keeps_its_place_and_its_default(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Parent(base):
        tag: str = "parent"
        made: Tensor = field(default_factory=lambda: torch.zeros(2))
        last: int = 1

    @decorate
    class Child(Parent):
        made: Tensor
        tag: str

    assert [f.name for f in dataclasses.fields(Child)] == ["tag", "made", "last"]
    assert (Child().tag, Child().made.tolist()) == ("parent", [0, 0])


def test_a_field_declared_again_can_have_another_type_and_default(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Parent(base):
        x: Tensor
        tag: str = "parent"

    @decorate
    class Child(Parent):
        tag: int = 3

    assert Child(torch.zeros(2)).tag == 3
    with pytest.raises(TypeError, match=r"Child\.tag: expected int"):
        Child(torch.zeros(2), "text")
    assert Parent(torch.zeros(2)).tag == "parent"


def test_a_class_attribute_that_would_hide_a_field_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Child\.tag would hide the field 'tag' of Point; .*tag: \.\.\. = 'new'"):

        class Child(Point):
            tag = "new"


def test_two_records_can_be_bases() -> None:
    class A(TensorClass):
        a: Tensor
        tag: str = "a"

    class B(TensorClass):
        b: Tensor

    class Both(A, B):
        c: Tensor | None = None

    both = Both(a=torch.zeros(2), b=torch.ones(2), batch_size=[2])
    assert [f.name for f in dataclasses.fields(Both)] == ["b", "a", "tag", "c"]
    assert (both[0].b.item(), both.tag, both.c) == (1, "a", None)
    assert isinstance(both, A)
    assert isinstance(both, B)


def test_the_fields_of_the_first_base_stand_for_those_of_the_second() -> None:
    class A(TensorClass):
        x: int = 1

    class B(TensorClass):
        x: str = "b"

    class Both(A, B):
        pass

    assert Both().x == 1
    with pytest.raises(TypeError, match=r"A\.x: expected int"):
        Both().x = "text"


def test_in_a_diamond_field_and_property_agree() -> None:
    class Top(TensorClass):
        x: int = 1

    class Left(Top):
        pass

    class Right(Top):
        x: str = "right"

    class Bottom(Left, Right):
        pass

    bottom = Bottom()
    bottom.x = type(bottom.x)()
    assert type(Bottom.fields()[0].default) is type(bottom.x)


def test_a_frozen_base_makes_the_fields_of_others_frozen() -> None:
    class Frozen(TensorClass, frozen=True):
        a: Tensor

    class Both(Point, Frozen, kw_only=True):
        pass

    both = Both(x=torch.zeros(2), a=torch.zeros(2))
    for name in ("x", "a", "tag"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(both, name, both[name])


class Mixin:
    factor = 2.0

    def scaled(self) -> Any:
        return self * self.factor


def test_a_plain_mixin_adds_methods(form: MakeForm) -> None:
    decorate, base, _ = form()
    bases = (Mixin,) if base is object else (Mixin, base)

    @decorate
    class Mixed(*bases):
        x: Tensor

    assert Mixed(torch.ones(2), batch_size=[2]).scaled()[0].x == 2


@pytest.mark.parametrize("name", ["unknown", "scaled", "factor"])
def test_with_a_plain_mixin_unknown_attributes_cannot_be_assigned(name: str) -> None:
    class Mixed(Mixin, TensorClass):
        x: Tensor

    record = Mixed(torch.ones(2))
    with pytest.raises(AttributeError, match=f"Mixed has no field '{name}'"):
        setattr(record, name, 1)
    assert vars(record) == {}


def test_with_a_plain_mixin_fields_can_be_assigned() -> None:
    class Mixed(Mixin, TensorClass):
        x: Tensor

    record = Mixed(torch.ones(2), batch_size=[2])
    record.x = torch.zeros(2)
    record.batch_size = []
    assert (record.x.tolist(), record.batch_size) == ([0, 0], torch.Size([]))


def test_an_attribute_of_a_mixin_is_the_default_of_a_field() -> None:
    class Mixed(Mixin, TensorClass):
        factor: float

    assert Mixed().factor == 2.0


def test_an_abstract_method_keeps_a_class_from_being_made(form: MakeForm) -> None:
    decorate, base, _ = form()
    bases = (abc.ABC,) if base is object else (base, abc.ABC)

    @decorate
    class Abstract(*bases):
        x: Tensor

        @abc.abstractmethod
        def area(self) -> Tensor: ...

    class Concrete(Abstract):
        def area(self) -> Tensor:
            return self.x**2

    with pytest.raises(TypeError, match="abstract"):
        Abstract(torch.zeros(2))
    assert Concrete(torch.tensor(3.0)).area() == 9


def test_a_field_makes_an_abstract_property_concrete(form: MakeForm) -> None:
    class HasX(abc.ABC):
        @property
        @abc.abstractmethod
        def x(self) -> Tensor: ...

    decorate, base, _ = form()
    bases = (HasX,) if base is object else (HasX, base)

    @decorate
    class Concrete(*bases):
        x: Tensor

    assert Concrete(torch.tensor(3.0)).x == 3
    with pytest.raises(TypeError, match="missing"):
        Concrete()


def test_a_generic_record_can_be_parametrised(form: MakeForm) -> None:
    decorate, base, _ = form()
    bases = (Generic[T],) if base is object else (base, Generic[T])

    @decorate
    class Box(*bases):
        value: T
        n: int = 0

    boxed = Box[Tensor](torch.ones(2), batch_size=[2])
    assert type(boxed) is Box
    assert boxed[0].value == 1

    class IntBox(Box[int]):
        pass

    assert IntBox(3).value == 3


def test_a_record_that_is_not_generic_cannot_be_parametrised() -> None:
    with pytest.raises(TypeError, match="Point is not generic"):
        Point[int]


def test_init_subclass_gets_the_class_keywords() -> None:
    seen = {}

    class Plugin(TensorClass):
        def __init_subclass__(cls, /, label: str, **kwargs: Any) -> None:
            super().__init_subclass__(**kwargs)
            seen[cls.__name__] = label

    class One(Plugin, label="one", frozen=True):
        x: Tensor

    @tensorclass
    class Two(Plugin, label="two"):
        x: Tensor

    assert seen == {"One": "one", "Two": "two"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        One(torch.zeros(2)).x = torch.ones(2)


def test_classmethods_staticmethods_and_properties(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Made(base):
        x: Tensor

        @classmethod
        def zeros(cls, n: int) -> Any:
            return cls(torch.zeros(n), batch_size=[n])

        @staticmethod
        def double(value: Any) -> Any:
            return value * 2

        @property
        def total(self) -> Tensor:
            return self.x.sum()

        @total.setter
        def total(self, value: float) -> None:
            self.x = torch.full_like(self.x, value / len(self))

    made = Made.zeros(2)
    made.total = 3.0
    assert type(made) is Made
    assert Made.double(made).total == 6


def test_a_subclass_overrides_an_operation() -> None:
    class Loud(TensorClass):
        x: Tensor

        def reshape(self, *shape: Any) -> Any:
            return super().reshape(*shape) + 1

    assert Loud(torch.zeros(2), batch_size=[2]).reshape(2, 1).x.tolist() == [[1], [1]]


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def test_super_works_in_methods_that_are_wrapped(form: MakeForm) -> None:
    decorate, base, _ = form()

    class Root:
        def name(self) -> str:
            return "root"

    bases = (Root,) if base is object else (Root, base)

    @decorate
    class Child(*bases):
        x: Tensor

        @logged
        def name(self) -> str:
            return super().name() + " child"

    assert Child(torch.zeros(2)).name() == "root child"


@dataclasses.dataclass
class Plain:
    scale: float = 2.0


def test_the_fields_of_a_plain_dataclass_are_inherited() -> None:
    class Child(Plain, TensorClass):
        x: Tensor | None = None

    child = Child(3.0, torch.zeros(2), batch_size=[2])
    assert ([f.name for f in dataclasses.fields(Child)], child[0].scale) == (["scale", "x"], 3.0)
    with pytest.raises(TypeError, match=r"Plain\.scale: expected float, got str"):
        child.scale = "text"


def test_a_setattr_is_called_for_fields_alone_and_by_the_constructor() -> None:
    calls: list[str] = []

    class Doubled(TensorClass):
        x: Tensor
        text: str = "t"

        def __setattr__(self, name: str, value: Any) -> None:
            calls.append(name)
            super().__setattr__(name, value * 2 if name == "x" else value)

    class More(Doubled):
        y: Tensor | None = None

        def __post_init__(self) -> None:
            calls.append("__post_init__")

    record = More(torch.ones(2), batch_size=[2])
    assert calls == ["x", "text", "y", "__post_init__"]
    assert record.x.tolist() == [2, 2]
    (record + 1)[0].clone()
    assert len(calls) == 4
    record.x = torch.ones(2)
    record.batch_size = []
    assert calls[4:] == ["x", "batch_size"]
    assert record.x.tolist() == [2, 2]
