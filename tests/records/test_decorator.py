"""What is particular to ``@tensorclass``: the class that it makes of another one, and what it does to a record."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree

from tensorclass import TensorClass, field, tensorclass


@pytest.mark.parametrize(
    "decorate", [tensorclass, tensorclass(), tensorclass(frozen=False)], ids=["bare", "()", "options"]
)
def test_a_class_becomes_a_record(decorate: Callable[[type], Any]) -> None:
    @decorate
    class Point:
        x: Tensor

    assert issubclass(Point, TensorClass)
    assert Point(torch.zeros(2), batch_size=[2])[0].x == 0


def test_the_record_keeps_name_module_and_docstring() -> None:
    class Point:
        """A point."""

        x: Tensor

    made = tensorclass(Point)
    assert (made.__name__, made.__qualname__, made.__module__) == (Point.__name__, Point.__qualname__, Point.__module__)
    assert made.__doc__ == "A point."


@pytest.mark.parametrize("wrong", [3, "frozen", lambda: None], ids=["number", "text", "function"])
def test_what_is_no_class_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a class, got .*; options are given by keyword"):
        tensorclass(wrong)
    with pytest.raises(TypeError, match="expected a class"):
        tensorclass(frozen=True)(wrong)


def test_a_dataclass_is_refused() -> None:
    @dataclasses.dataclass
    class Point:
        x: Tensor

    with pytest.raises(TypeError, match="Point is a dataclass; drop @dataclass"):
        tensorclass(Point)


def test_decorating_does_not_change_the_class() -> None:
    class Point:
        x: Tensor
        tag: str = "t"

    before = dict(vars(Point))
    tensorclass(Point)
    assert dict(vars(Point)) == before
    assert Point.__mro__ == (Point, object)


# -- methods mean the record ------------------------------------------------------------------------------------------


class Root:
    def name(self) -> str:
        return "root"


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def unmarked(function: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Wrapper:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.inner = function

    def __get__(self, instance: Any, owner: Any) -> Any:
        return functools.partial(self.inner, instance)


class TestSuper:
    """Each time, the method under test is the only one that uses ``super()`` or ``__class__``."""

    def test_in_a_method(self) -> None:
        @tensorclass
        class Child(Root):
            x: Tensor

            def name(self) -> str:
                return super().name() + " child"

        assert Child(torch.zeros(2)).name() == "root child"

    @pytest.mark.parametrize("decorate", [wrapped, unmarked, Wrapper, lambda f: wrapped(unmarked(wrapped(f)))])
    def test_in_a_wrapped_method(self, decorate: Callable[..., Any]) -> None:
        @tensorclass
        class Child(Root):
            x: Tensor

            @decorate
            def name(self) -> str:
                return super().name() + " child"

        assert Child(torch.zeros(2)).name() == "root child"

    def test_in_a_property(self) -> None:
        @tensorclass
        class Child(Root):
            x: Tensor

            @property
            def title(self) -> str:
                return super().name() + " child"

        assert Child(torch.zeros(2)).title == "root child"

    def test_in_the_setter_of_a_property(self) -> None:
        @tensorclass
        class Child(Root):
            x: Tensor

            @property
            def title(self) -> str:
                return "title"

            @title.setter
            def title(self, value: str) -> None:
                assert super().name() == value

        Child(torch.zeros(2)).title = "root"

    def test_in_a_classmethod(self) -> None:
        @tensorclass
        class Child:
            x: Tensor

            @classmethod
            def fields(cls) -> Any:
                return super().fields()[::-1]

        assert Child.fields()[0].name == "x"

    def test_in_a_staticmethod(self) -> None:
        @tensorclass
        class Child:
            x: Tensor

            @staticmethod
            def me() -> Any:
                return __class__

        assert Child.me() is Child

    def test_in_a_lambda_and_in_a_function_inside(self) -> None:
        @tensorclass
        class Child:
            x: Tensor
            me = lambda self: (lambda: __class__)()

        assert Child(torch.zeros(2)).me() is Child

    def test_in_a_partialmethod(self) -> None:
        @tensorclass
        class Child(Root):
            x: Tensor
            name = functools.partialmethod(lambda self, end: Root.name(self) + end + __class__.__name__, " of ")

        assert Child(torch.zeros(2)).name() == "root of Child"

    def test_of_the_record_itself(self) -> None:
        @tensorclass
        class Child:
            x: Tensor

            def reshape(self, *shape: Any) -> Any:
                return super().reshape(*shape) + 1

        assert Child(torch.zeros(2), batch_size=[2]).reshape(2, 1).x.tolist() == [[1], [1]]

    def test_in_post_init(self) -> None:
        @tensorclass
        class Parent:
            x: Tensor

            def __post_init__(self) -> None:
                self.x = self.x + 1

        @tensorclass
        class Child(Parent):
            def __post_init__(self) -> None:
                super().__post_init__()
                self.x = self.x * 2

        assert Child(torch.ones(2)).x.tolist() == [4, 4]


def test_a_class_inside_keeps_its_own_super() -> None:
    @tensorclass
    class Outer:
        x: Tensor

        class Inside(Root):
            def name(self) -> str:
                return super().name() + " inside"

        def me(self) -> Any:
            return __class__

    assert Outer.Inside().name() == "root inside"
    assert Outer(torch.zeros(2)).me() is Outer


# -- slots and bases --------------------------------------------------------------------------------------------------


def test_slots_of_fields_are_dropped_and_others_are_kept() -> None:
    @tensorclass
    class Slotted:
        __slots__ = ("__weakref__", "cache", "x")
        x: Tensor

    record = Slotted(torch.zeros(2))
    record.cache = 3
    assert (record.cache, record.x.tolist()) == (3, [0, 0])
    with pytest.raises(AttributeError):
        record.other = 1


def test_a_single_slot_can_be_a_string() -> None:
    @tensorclass
    class Slotted:
        __slots__ = "x"
        x: Tensor

    assert Slotted(torch.zeros(2)).x.tolist() == [0, 0]


def test_init_subclass_of_a_plain_base_is_called_for_the_record() -> None:
    seen = []

    class Plugin:
        def __init_subclass__(cls) -> None:
            seen.append(cls)

    @tensorclass
    class Point(Plugin):
        x: Tensor

    assert seen[-1] is Point


def test_descriptors_learn_their_name() -> None:
    class Named:
        def __set_name__(self, owner: Any, name: str) -> None:
            self.owner, self.name = owner, name

    @tensorclass
    class Point:
        x: Tensor
        unit: ClassVar[Any] = Named()

    assert (Point.unit.owner, Point.unit.name) == (Point, "unit")


# -- over a class that is a record ------------------------------------------------------------------------------------


class Parent(TensorClass):
    a: Tensor
    b: str = "b"


def test_without_options_a_record_stays_the_class_that_it_is() -> None:
    class Child(Parent):
        c: Tensor | None = None

    assert tensorclass(Child) is Child
    assert tensorclass()(Child) is Child


def test_with_options_a_record_stays_the_class_that_it_is() -> None:
    class Child(Parent):
        c: Tensor | None = None

    assert tensorclass(frozen=True)(Child) is Child


def test_a_record_is_defined_once() -> None:
    seen = []

    class Plugin(TensorClass):
        def __init_subclass__(cls) -> None:
            seen.append(cls.__name__)

    @tensorclass(nocast=True)
    class Child(Plugin):
        x: Tensor

    assert seen == ["Child"]


def test_options_reach_own_and_inherited_fields() -> None:
    @tensorclass(frozen=True, nocast=True)
    class Child(Parent):
        c: Tensor | None = None

    child = Child(torch.zeros(2), c=torch.zeros(2))
    for name in ("a", "b", "c"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(child, name, child[name])
    for values in ({"a": 1}, {"a": torch.zeros(2), "c": 1}):
        with pytest.raises(TypeError, match="expected"):
            Child(**values)
    Parent(1).a = 2


def test_kw_only_over_a_record_keeps_defaults_and_field_options() -> None:
    @tensorclass(kw_only=True)
    class Child(Parent):
        c: Tensor | None = None
        d: list = field(default_factory=list, repr=False)
        e: int = field(default=3, init=False)

    child = Child(torch.zeros(2), c=torch.ones(2))
    assert (child.b, child.c.tolist(), child.d, child.e) == ("b", [1, 1], [], 3)
    assert list(inspect.signature(Child).parameters)[:4] == ["a", "b", "c", "d"]
    assert [f.repr for f in dataclasses.fields(Child)] == [True, True, True, False, True]
    assert Child.__match_args__ == ("a", "b")
    with pytest.raises(TypeError, match="positional"):
        Child(torch.zeros(2), "b", None)


def test_keyword_only_fields_stay_keyword_only() -> None:
    @tensorclass(nocast=True)
    class Child(Parent):
        c: Tensor = field(kw_only=True)

    assert inspect.signature(Child).parameters["c"].kind is inspect.Parameter.KEYWORD_ONLY


def test_options_given_as_class_keywords_stay() -> None:
    @tensorclass(frozen=True)
    class Child(Parent, nocast=True):
        c: Tensor | None = None

    child = Child(torch.zeros(2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        child.c = torch.zeros(2)
    with pytest.raises(TypeError, match="expected"):
        Child(3)


def test_a_hand_written_init_stays() -> None:
    @tensorclass(nocast=True)
    class Child(Parent):
        def __init__(self, n: int) -> None:
            super().__init__(torch.zeros(n), batch_size=[n])

    assert Child(3).batch_size == torch.Size([3])


def test_hand_written_match_args_stay() -> None:
    @tensorclass(nocast=True)
    class Child(Parent):
        __match_args__ = ("b",)

    assert Child.__match_args__ == ("b",)


def test_methods_still_reach_those_of_the_parent() -> None:
    @tensorclass(nocast=True)
    class Child(Parent):
        c: Tensor | None = None

        def reshape(self, *shape: Any) -> Any:
            return super().reshape(*shape) + 1

    assert Child(torch.zeros(2), batch_size=[2]).reshape(2, 1).a.tolist() == [[1], [1]]


def test_the_record_is_still_a_node_of_pytrees() -> None:
    @tensorclass(nocast=True)
    class Child(Parent):
        c: Tensor | None = None

    assert _pytree.tree_map(lambda x: x + 1, Child(torch.zeros(2), batch_size=[2])).a.tolist() == [1, 1]


@pytest.mark.parametrize(
    "options, error", [({"frosen": True}, "unknown options"), ({"frozen": 1}, "True or False, got 1")]
)
def test_wrong_options_over_a_record_are_type_errors(options: dict[str, Any], error: str) -> None:
    class Child(Parent):
        pass

    with pytest.raises(TypeError, match=error):
        tensorclass(**options)(Child)
