"""What a record is: construction, fields, inheritance, and that it behaves as a dataclass and as a collection."""

import abc
import copy
import dataclasses
import functools
import inspect
import io
import pickle
import typing
import warnings
import weakref
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, field
from typing import Any, ClassVar, Generic, Optional, TypeVar

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree

import tensorclass as tc
from tensorclass import TensorClass, TensorDict, tensorclass
from tensorclass.td.pointwise import Pointwise
from tensorclass.td.stores.classes import dense_class
from tests.calls import CALLS, INTEGER
from tests.forms import FORMS, OPTION_FORMS, Form

MakeForm = Callable[..., Form]
T = TypeVar("T")


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> MakeForm:
    """The ways to write a class."""
    return FORMS[request.param]


@pytest.fixture(params=OPTION_FORMS)
def option_form(request: pytest.FixtureRequest) -> MakeForm:
    """The ways to give options."""
    return OPTION_FORMS[request.param]


class Point(TensorClass):
    x: Tensor
    y: Tensor | None = None
    tag: str = "t"

    class Nested(TensorClass):
        value: Tensor


@tensorclass
class Decorated:
    x: Tensor
    point: Point

    @tensorclass
    class Nested:
        value: Tensor


class Inner(TensorClass):
    value: Tensor


class Sample(TensorClass):
    image: Tensor
    label: Tensor
    inner: Inner | None = None
    text: str = "a"
    spare: Tensor | None = None
    extra: TensorDict | None = None


def point(n: int = 2, **fields: Any) -> Point:
    return Point(**{"x": torch.arange(float(n)), **fields}, batch_size=[n])


# -- construction -----------------------------------------------------------------------------------------------------


def test_fields_are_given_by_position_in_the_order_of_declaration(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        first: Tensor
        second: Tensor

    pair = Pair(torch.zeros(2), torch.ones(2), batch_size=[2])
    assert pair.first.tolist() == [0, 0]
    assert pair.second.tolist() == [1, 1]


def test_fields_are_given_by_keyword(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        first: Tensor
        second: Tensor

    pair = Pair(second=torch.ones(2), first=torch.zeros(2), batch_size=[2])
    assert (pair.first.tolist(), pair.second.tolist()) == ([0, 0], [1, 1])


def test_metadata_is_given_by_keyword(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor

    one = One(torch.zeros(2, 3, 4), batch_size=[2, 3], device="cpu", names=["a", None])
    assert one.batch_size == torch.Size([2, 3])
    assert one.device == torch.device("cpu")
    assert one.names == ["a", None]


def test_without_a_batch_size_there_are_no_batch_dimensions() -> None:
    assert Point(torch.zeros(2)).batch_size == torch.Size([])


def test_the_batch_size_can_be_a_number() -> None:
    assert Point(torch.zeros(2), batch_size=2).batch_size == torch.Size([2])


def test_values_are_stored_without_a_copy() -> None:
    x = torch.zeros(2)
    assert Point(x, batch_size=[2]).x is x


def test_values_are_moved_to_the_device() -> None:
    record = Point(torch.zeros(2), torch.zeros(2), batch_size=[2], device="meta")
    assert record.x.device == record.y.device == torch.device("meta")


@pytest.mark.parametrize(
    "args, kwargs, message",
    [
        ((), {}, "missing 1 required positional argument: 'x'"),
        ((), {"x": 1, "z": 2}, "unexpected keyword argument 'z'"),
        ((1,), {"x": 1}, "multiple values for argument 'x'"),
        ((1, None, "t", [2]), {}, "positional arguments but 5 were given"),
    ],
    ids=["missing", "unexpected", "twice", "too many"],
)
def test_wrong_arguments_are_type_errors_as_for_a_function(args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"Point\.__init__\(\).*{message}"):
        Point(*args, **kwargs)


def test_a_value_without_the_batch_size_in_front_is_an_error_that_names_field_and_shapes() -> None:
    with pytest.raises(RuntimeError, match=r"x: .*\[2\] in front, got shape \[3, 2\]"):
        Point(torch.zeros(3, 2), batch_size=[2])


def test_none_for_a_field_that_is_not_optional_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Point\.x: expected Tensor, got NoneType"):
        Point(None)


def test_fields_can_have_the_names_of_builtins_and_of_what_init_uses_itself(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Odd(base):
        self: Tensor
        store: Tensor
        len: Tensor
        isinstance: Tensor
        Tensor: Tensor
        dataclasses: Tensor
        cls: Tensor = field(default_factory=lambda: torch.full((2,), 6.0))

    odd = Odd(*torch.arange(6.0).unsqueeze(1).expand(6, 2), batch_size=[2])
    values = [odd.get(f.name)[0].item() for f in dataclasses.fields(odd)]
    assert values == [0, 1, 2, 3, 4, 5, 6]


# -- defaults and field() ---------------------------------------------------------------------------------------------


def test_a_default_stands_for_a_field_that_is_not_given(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Default(base):
        x: Tensor
        tag: str = "default"
        y: Tensor | None = None

    record = Default(torch.zeros(2), batch_size=[2])
    assert (record.tag, record.y) == ("default", None)


def test_a_default_factory_is_called_for_each_record(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Default(base):
        x: Tensor = field(default_factory=lambda: torch.zeros(2))

    assert Default().x is not Default().x


def test_a_mutable_default_is_refused() -> None:
    with pytest.raises(ValueError, match="default_factory"):

        class Default(TensorClass):
            x: list = []


def test_a_field_without_default_after_one_with_default_is_refused(form: MakeForm) -> None:
    decorate, base, _ = form()
    with pytest.raises(TypeError, match="'b' without a default follows 'a'"):

        @decorate
        class Wrong(base):
            a: Tensor | None = None
            b: Tensor


def test_a_field_with_init_false_is_no_argument_and_has_its_default(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Counted(base):
        x: Tensor
        count: int = field(default=3, init=False)
        made: Tensor = field(default_factory=lambda: torch.ones(2), init=False)

    record = Counted(torch.zeros(2), batch_size=[2])
    assert (record.count, record.made.tolist()) == (3, [1, 1])
    assert "count" not in inspect.signature(Counted).parameters


def test_a_field_with_init_false_can_be_set_after_init(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Total(base):
        x: Tensor
        total: Tensor = field(init=False)

        def __post_init__(self) -> None:
            self.total = self.x * 2

    assert Total(torch.ones(2), batch_size=[2]).total.tolist() == [2, 2]


def test_a_field_that_was_never_set_cannot_be_read() -> None:
    class Unset(TensorClass):
        total: Tensor = field(init=False)

    with pytest.raises(AttributeError, match=r"Unset\.total is not set"):
        Unset().total


def test_a_field_with_repr_false_is_not_shown() -> None:
    class Hidden(TensorClass):
        x: Tensor
        secret: str = field(default="hidden", repr=False)

    assert "hidden" not in repr(Hidden(torch.zeros(2)))


def test_metadata_of_field_is_kept() -> None:
    class Documented(TensorClass):
        x: Tensor = field(metadata={"unit": "m"})

    assert dataclasses.fields(Documented)[0].metadata["unit"] == "m"


def test_a_keyword_only_field_comes_after_the_positional_ones(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Mixed(base):
        a: Tensor = field(kw_only=True)
        b: Tensor

    assert list(inspect.signature(Mixed).parameters)[:2] == ["b", "a"]
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'a'"):
        Mixed(torch.zeros(2))


def test_fields_behind_the_kw_only_mark_are_keyword_only(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Marked(base):
        a: Tensor
        _: KW_ONLY
        b: Tensor

    assert Marked(torch.zeros(2), b=torch.ones(2)).b.tolist() == [1, 1]
    with pytest.raises(TypeError, match="positional"):
        Marked(torch.zeros(2), torch.zeros(2))


def test_init_vars_are_given_to_post_init_and_are_no_fields(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Scaled(base):
        x: Tensor
        scale: InitVar[float]
        shift: InitVar[float] = 1.0

        def __post_init__(self, scale: float, shift: float) -> None:
            self.x = self.x * scale + shift

    assert Scaled(torch.ones(2), 3.0, batch_size=[2]).x.tolist() == [4, 4]
    assert [f.name for f in dataclasses.fields(Scaled)] == ["x"]


def test_class_variables_are_no_fields(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class WithClassVar(base):
        x: Tensor
        count: ClassVar[int] = 3

    assert WithClassVar.count == 3
    assert [f.name for f in dataclasses.fields(WithClassVar)] == ["x"]
    assert "count" not in inspect.signature(WithClassVar).parameters


def test_post_init_runs_after_the_fields_are_set(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Checked(base):
        x: Tensor

        def __post_init__(self) -> None:
            if (self.x < 0).any():
                raise ValueError("negative")

    with pytest.raises(ValueError, match="negative"):
        Checked(torch.tensor([-1.0]))


def test_post_init_does_not_run_for_results_of_operations() -> None:
    runs = []

    class Counted(TensorClass):
        x: Tensor

        def __post_init__(self) -> None:
            runs.append(1)

    record = Counted(torch.zeros(2), batch_size=[2])
    torch.stack([record[0], record.clone()[1] + 1])
    assert len(runs) == 1


# -- a hand-written __init__ ------------------------------------------------------------------------------------------


def test_a_hand_written_init_calls_super_with_the_fields(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Made(base):
        x: Tensor
        tag: str = "t"

        def __init__(self, n: int) -> None:
            super().__init__(x=torch.zeros(n), batch_size=[n], names=["n"])

    made = Made(3)
    assert (made.batch_size, made.names, made.tag) == (torch.Size([3]), ["n"], "t")
    assert type(made[0]) is Made


def test_a_hand_written_init_can_set_fields_after_super() -> None:
    class Made(TensorClass):
        x: Tensor
        y: Tensor

        def __init__(self, n: int) -> None:
            super().__init__(torch.zeros(n), batch_size=[n])
            self.y = self.x + 1

    assert Made(2).y.tolist() == [1, 1]


def test_a_hand_written_init_is_inherited() -> None:
    class Made(TensorClass):
        x: Tensor

        def __init__(self, n: int) -> None:
            super().__init__(x=torch.zeros(n), batch_size=[n])

    class Child(Made):
        y: Tensor | None = None

    assert Child(3).batch_size == torch.Size([3])


def test_a_hand_written_init_can_call_the_generated_one_of_its_base() -> None:
    class Child(Point):
        z: Tensor

        def __init__(self, n: int) -> None:
            super().__init__(torch.zeros(n), tag="child", batch_size=[n])
            self.z = torch.ones(n)

    assert (Child(2).tag, Child(2).z.tolist()) == ("child", [1, 1])


@pytest.mark.parametrize(
    "arguments, message",
    [
        (lambda init: init(q=1), "unexpected arguments"),
        (lambda init: init(1, 2, 3), "at most 1 positional"),
        (lambda init: init(1, x=2), "multiple values"),
        (lambda init: init("text"), r"Made\.x: expected Tensor"),
    ],
    ids=["unexpected", "too many", "twice", "misfit"],
)
def test_super_init_checks_its_arguments(arguments: Callable[[Any], None], message: str) -> None:
    class Made(TensorClass):
        x: Tensor

        def __init__(self) -> None:
            arguments(super().__init__)

    with pytest.raises(TypeError, match=message):
        Made()


def test_from_tensordict_does_not_call_a_hand_written_init() -> None:
    class Made(TensorClass):
        x: Tensor
        tag: str = "t"

        def __init__(self, n: int) -> None:
            super().__init__(x=torch.zeros(n), batch_size=[n])

    made = Made.from_tensordict(TensorDict({"x": torch.ones(2)}, [2]))
    assert (made.x.tolist(), made.tag, made.batch_size) == ([1, 1], "t", torch.Size([2]))


# -- options ----------------------------------------------------------------------------------------------------------


def test_autocast_converts_objects_to_the_annotated_type(option_form: MakeForm) -> None:
    decorate, base, options = option_form(autocast=True)

    @decorate
    class Cast(base, **options):
        n: int
        s: str

    record = Cast("3", 4)
    assert (record.n, record.s) == (3, "4")


def test_autocast_names_what_cannot_be_converted(option_form: MakeForm) -> None:
    decorate, base, options = option_form(autocast=True)

    @decorate
    class Cast(base, **options):
        n: int

    with pytest.raises(TypeError, match=r"Cast\.n: expected int, got str 'three' \(invalid literal"):
        Cast("three")


def test_nocast_takes_tensors_only(option_form: MakeForm) -> None:
    decorate, base, options = option_form(nocast=True)

    @decorate
    class NoCast(base, **options):
        x: Tensor

    with pytest.raises(TypeError, match=r"NoCast\.x: expected Tensor, got list \[1, 2\]"):
        NoCast([1, 2])


def test_tensor_only_makes_numbers_of_any_field_tensors(option_form: MakeForm) -> None:
    decorate, base, options = option_form(tensor_only=True)

    @decorate
    class Only(base, **options):
        n: int
        a: Any

    record = Only(3, 4.0)
    assert isinstance(record.n, Tensor)
    assert isinstance(record.a, Tensor)


def test_tensor_only_refuses_what_is_no_tensor(option_form: MakeForm) -> None:
    decorate, base, options = option_form(tensor_only=True)

    @decorate
    class Only(base, **options):
        n: str

    with pytest.raises(TypeError, match=r"Only\.n: expected str, got str 'text'"):
        Only("text")


def test_kw_only_makes_all_fields_keyword_only(option_form: MakeForm) -> None:
    decorate, base, options = option_form(kw_only=True)

    @decorate
    class Keywords(base, **options):
        a: Tensor | None = None
        b: Tensor

    assert Keywords(b=torch.zeros(2)).a is None
    with pytest.raises(TypeError, match="positional"):
        Keywords(torch.zeros(2), torch.zeros(2))


def test_kw_only_is_about_the_fields_of_one_class(option_form: MakeForm) -> None:
    decorate, base, options = option_form(kw_only=True)

    @decorate
    class Keywords(base, **options):
        a: Tensor

    class Child(Keywords):
        b: Tensor

    assert list(inspect.signature(Child).parameters)[:2] == ["b", "a"]


def test_several_options_together(option_form: MakeForm) -> None:
    decorate, base, options = option_form(nocast=True, frozen=True)

    @decorate
    class Both(base, **options):
        x: Tensor

    with pytest.raises(TypeError):
        Both(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Both(torch.zeros(2)).x = torch.ones(2)


@pytest.mark.parametrize("define", [lambda: TensorClass["frosen"], lambda: TensorClass["frozen", "frosen"]])
def test_an_unknown_option_in_brackets_is_an_error(define: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown options \['frosen'\]; there are \['autocast'"):
        define()


def test_an_unknown_keyword_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"Wrong: unknown options \['frosen'\]; there are \['autocast'"):

        class Wrong(TensorClass, frosen=True):
            x: Tensor


def test_an_unknown_option_of_the_decorator_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"unknown options \['frosen'\]; there are \['autocast'"):
        tensorclass(frosen=True)


@pytest.mark.parametrize("name", FORMS)
def test_an_option_that_is_no_bool_is_an_error(name: str) -> None:
    decorate, base, options = FORMS[name](frozen=1)
    with pytest.raises(TypeError, match="the option frozen is True or False, got 1"):

        @decorate
        class Wrong(base, **options):
            x: Tensor


def test_options_that_contradict_each_other_are_an_error(option_form: MakeForm) -> None:
    decorate, base, options = option_form(autocast=True, nocast=True)
    with pytest.raises(ValueError, match="exclude each other"):

        @decorate
        class Wrong(base, **options):
            x: Tensor


def test_subclasses_inherit_options(option_form: MakeForm) -> None:
    decorate, base, options = option_form(nocast=True)

    @decorate
    class Parent(base, **options):
        x: Tensor

    class Child(Parent):
        y: Tensor

    with pytest.raises(TypeError, match=r"Child\.y: expected Tensor"):
        Child(torch.zeros(2), [1, 2])


def test_an_option_of_a_subclass_holds_for_inherited_fields() -> None:
    class Parent(TensorClass):
        x: Tensor

    class Child(Parent, nocast=True):
        y: Tensor

    with pytest.raises(TypeError, match="expected Tensor, got int"):
        Child(1, torch.zeros(2))
    assert Parent(1).x == 1


def test_an_inherited_option_can_be_taken_back() -> None:
    class Parent(TensorClass, nocast=True):
        x: Tensor

    class Child(Parent, nocast=False):
        y: Tensor

    assert Child(1, 2).y == 2


def test_a_class_derived_from_a_frozen_one_cannot_be_mutable() -> None:
    class Parent(TensorClass, frozen=True):
        x: Tensor

    with pytest.raises(TypeError, match="frozen=False, but a class that it derives from is frozen"):

        class Child(Parent, frozen=False):
            y: Tensor


# -- reserved names and shadow ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["device", "names", "shape", "sum", "values", "clone", "_store", "fields"])
def test_a_field_with_the_name_of_a_member_is_refused(form: MakeForm, name: str) -> None:
    decorate, base, _ = form()
    with pytest.raises(AttributeError, match=rf"Wrong: records have members .*\['{name}'\].*shadow=True"):

        @decorate
        class Wrong(base):
            __annotations__ = {name: Tensor}


def test_an_init_var_with_the_name_of_a_member_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"\['sum'\]"):

        class Wrong(TensorClass):
            x: Tensor
            sum: InitVar[float] = 1.0


@pytest.mark.parametrize("declared", [Tensor, InitVar[Any]])
def test_batch_size_cannot_be_declared_even_with_shadow(declared: Any) -> None:
    with pytest.raises(AttributeError, match="batch_size"):

        class Wrong(TensorClass, shadow=True):
            batch_size: declared


def test_shadow_allows_fields_with_the_names_of_members(option_form: MakeForm) -> None:
    decorate, base, options = option_form(shadow=True)

    @decorate
    class Shadow(base, **options):
        sum: Tensor
        values: Tensor
        type: str = "kind"

    record = Shadow(torch.zeros(2), torch.ones(2), batch_size=[2])
    assert (record.sum.tolist(), record.values.tolist(), record.type) == ([0, 0], [1, 1], "kind")


def test_fields_called_device_and_names_take_the_place_of_the_arguments(option_form: MakeForm) -> None:
    decorate, base, options = option_form(shadow=True)

    @decorate
    class Shadow(base, **options):
        x: Tensor
        names: str
        device: Tensor

    record = Shadow(torch.zeros(2), "a name", torch.ones(2), batch_size=[2])[0]
    assert (record.names, record.device.item()) == ("a name", 1)
    assert dataclasses.replace(record, names="b").names == "b"
    assert Shadow.from_tensordict(record.to_tensordict()).names == "a name"


#: the calls of operations other than the many functions of single elements, which all go one way
STRUCTURAL = {
    name for name in CALLS if getattr(getattr(TensorClass, name, None), "__module__", "") != Pointwise.__module__
}
HIDEABLE = sorted(name for name in dir(TensorClass) if not name.startswith("_") and name not in {"batch_size"})


@pytest.mark.parametrize("at", range(32))
def test_hidden_members_are_still_there_for_the_operations_of_an_outer_record(at: int) -> None:
    names = HIDEABLE[at::32]  # several at once, as all operations run for each of them

    class Shadow(TensorClass, shadow=True):
        value: Tensor
        __annotations__.update(dict.fromkeys(names, Tensor))

    class Outer(TensorClass):
        image: Tensor
        label: Tensor
        inner: Shadow | None = None
        text: str = "a"
        spare: Tensor | None = None
        extra: TensorDict | None = None

    def make(integer: bool) -> Outer:
        value = torch.arange(1, 7).reshape(2, 3)
        value = value if integer else value / 10
        inner = Shadow(**dict.fromkeys(("value", *names), value), batch_size=[2, 3])
        return Outer(value, value, inner, batch_size=[2, 3])

    failed = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for call in STRUCTURAL.union(names) & CALLS.keys():
            try:
                CALLS[call](make(call in INTEGER))
            except Exception as error:
                failed[call] = error
    assert failed == {}


@pytest.mark.parametrize("name", HIDEABLE)
def test_a_record_with_a_hidden_member_can_be_operated_on(name: str) -> None:
    class Shadow(TensorClass, shadow=True):
        value: Tensor
        __annotations__[name] = Tensor

    record = Shadow(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), batch_size=[2])
    results = {
        "index": record[0],
        "mask": record[torch.tensor([True, False])],
        "iterate": next(iter(record)),
        "stack": torch.stack([record, record])[0, 0],
        "cat": torch.cat([record, record])[0],
        "arithmetic": (record * 2 - record)[0],
        "reduce": torch.sum(record[:1], 0),
        "reshape": torch.reshape(record, (2, 1))[0, 0],
        "copy": copy.copy(record)[0],
        "deepcopy": copy.deepcopy(record)[0],
        "clone": torch.clone(record)[0],
        "pytree": _pytree.tree_map(torch.clone, record)[0],
    }
    assert {key: result["value"].item() for key, result in results.items()} == dict.fromkeys(results, 1)
    assert {key: result[name].item() for key, result in results.items()} == dict.fromkeys(results, 3)
    assert name in repr(record)
    record[0] = record[1]
    assert record[name].tolist() == [4, 4]


# -- inheritance ------------------------------------------------------------------------------------------------------


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


# -- attributes -------------------------------------------------------------------------------------------------------


def test_an_unknown_attribute_cannot_be_read(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor

    with pytest.raises(AttributeError, match="unknown"):
        One(torch.zeros(2)).unknown


def test_an_unknown_attribute_cannot_be_assigned(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor

    with pytest.raises(AttributeError, match="unknown"):
        One(torch.zeros(2)).unknown = 1


def test_instances_have_no_dict(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor

    assert not hasattr(One(torch.zeros(2)), "__dict__")


def test_records_can_be_referred_to_weakly() -> None:
    record = point()
    assert weakref.ref(record)() is record


def test_a_locked_record_refuses_assignment() -> None:
    record = nested().lock_()
    for target, name in ((record, "x"), (record, "point"), (record.point, "tag")):
        with pytest.raises(RuntimeError, match="is locked"):
            setattr(target, name, target[name])
    with pytest.raises(RuntimeError, match="is locked"):
        del record.x


def test_an_assigned_value_goes_to_the_device() -> None:
    record = Point(torch.zeros(2), device="meta")
    record.x = torch.zeros(3)
    assert record.x.is_meta


def test_assigning_a_field_replaces_its_value() -> None:
    record, new = point(), torch.ones(2)
    record.x = new
    assert record.x is new


def test_deleting_a_field_unsets_it() -> None:
    record = point()
    del record.x
    with pytest.raises(AttributeError, match=r"Point\.x is not set: it was removed, or not selected"):
        record.x


def test_a_field_that_is_not_set_cannot_be_deleted() -> None:
    record = point().exclude("x")
    with pytest.raises(AttributeError, match=r"Point\.x is not set"):
        del record.x


def test_deleting_an_optional_field_makes_it_none() -> None:
    record = point(y=torch.zeros(2))
    del record.y
    del record.y
    assert record.y is None


def test_values_can_be_got_by_key() -> None:
    record = point(tag="text")
    assert record["x"] is record.x
    assert record["tag"] == "text"
    assert record.get("x") is record.x
    assert record.get("tag").data == "text"


def test_an_optional_field_that_is_none_is_none_by_key() -> None:
    record = Decorated(torch.zeros(2), point(), batch_size=[2])
    assert record.point["y"] is None
    assert record["point", "y"] is None


def test_a_key_that_is_no_field_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="unknown"):
        point()["unknown"]


@pytest.mark.parametrize(
    "write",
    [
        lambda r, v: setattr(r, "x", v),
        lambda r, v: r.set("x", v),
        lambda r, v: r.update({"x": v}),
        lambda r, v: r.update(x=v),
        lambda r, v: r.__setitem__("x", v),
        lambda r, v: r.set_("x", v),
        lambda r, v: r.update_({"x": v}),
        lambda r, v: r.set("x", v, inplace=True),
    ],
    ids=["setattr", "set", "update", "update keywords", "setitem", "set_", "update_", "set inplace"],
)
class TestWriting:
    def test_a_value_that_fits_is_written(self, write: Callable[[Any, Any], Any]) -> None:
        record = point()
        write(record, torch.ones(2))
        assert record.x.tolist() == [1, 1]

    def test_numbers_become_tensors(self, write: Callable[[Any, Any], Any]) -> None:
        record = point()
        write(record, [4, 5])
        assert isinstance(record.x, Tensor)
        assert record.x.tolist() == [4, 5]

    @pytest.mark.parametrize("value", ["text", None, torch.zeros(3), {"a": 1}], ids=["text", "None", "shape", "dict"])
    def test_a_value_that_does_not_fit_leaves_the_record_unchanged(
        self, write: Callable[[Any, Any], Any], value: Any
    ) -> None:
        record = point()
        before = record.x
        with pytest.raises((TypeError, RuntimeError), match="x: "):
            write(record, value)
        assert record.x is before
        assert before.tolist() == [0, 1]


def test_update_writes_nothing_where_one_value_does_not_fit() -> None:
    record = point()
    with pytest.raises(TypeError, match=r"Point\.tag: expected str, got int 3"):
        record.update({"x": torch.ones(2), "tag": 3})
    assert (record.x.tolist(), record.tag) == ([0, 1], "t")


@pytest.mark.parametrize(
    "write",
    [
        lambda r: r.set("unknown", 1),
        lambda r: r.update({"unknown": 1}),
        lambda r: r.__setitem__("unknown", 1),
        lambda r: r.replace(unknown=1),
        lambda r: r.rename_key_("x", "unknown"),
        lambda r: r.setdefault("unknown", 1),
        lambda r: r.create_nested("unknown"),
    ],
)
def test_a_key_that_is_no_field_cannot_be_written(write: Callable[[Any], Any]) -> None:
    record = point()
    with pytest.raises(AttributeError, match=r"Point has no field 'unknown'; its fields are \['x', 'y', 'tag'\]"):
        write(record)
    assert list(record.keys()) == ["x", "tag"]


def test_a_key_is_renamed_to_a_field_that_it_fits() -> None:
    record = point()
    record.rename_key_("x", "y")
    assert record.y.tolist() == [0, 1]
    assert "x" not in record


def test_a_key_is_not_renamed_to_a_field_that_it_does_not_fit() -> None:
    record = point()
    with pytest.raises(TypeError, match=r"Point\.tag: expected str, got Tensor"):
        record.rename_key_("x", "tag")
    assert (record.x.tolist(), record.tag) == ([0, 1], "t")


# -- optional fields --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotation", [Tensor | None, Optional[Tensor], "Tensor | None", "Optional[Tensor]"])
def test_an_optional_field_can_be_none(form: MakeForm, annotation: Any) -> None:
    decorate, base, _ = form()

    @decorate
    class Maybe(base):
        x: Tensor
        y: annotation

    record = Maybe(torch.zeros(2), None, batch_size=[2])
    assert record.y is None
    record.y = torch.ones(2)
    assert record[0].y == 1
    record.y = None
    assert record.y is None


def test_optional_fields_stay_none_through_operations() -> None:
    record = point()
    for result in (
        record[0],
        record.reshape(2, 1),
        torch.stack([record, record]),
        torch.cat([record, record]),
        record + 1,
    ):
        assert result.y is None


def test_optional_fields_that_are_set_are_stacked() -> None:
    record = point(y=torch.ones(2))
    assert torch.stack([record, record]).y.shape == (2, 2)


def test_records_of_which_only_some_have_an_optional_field_do_not_stack() -> None:
    with pytest.raises(RuntimeError, match=r"item 1 has \['y'\] beyond"):
        torch.stack([point(), point(y=torch.ones(2))])


# -- nested records ---------------------------------------------------------------------------------------------------


def nested() -> Decorated:
    return Decorated(torch.zeros(2), point(), batch_size=[2])


def test_a_nested_record_is_read_and_written() -> None:
    record = nested()
    record.point.x = torch.ones(2)
    assert record["point", "x"].tolist() == [1, 1]
    record["point", "x"] = torch.zeros(2)
    assert record.point.x.tolist() == [0, 0]


def test_a_nested_record_is_indexed_with_its_owner() -> None:
    result = nested()[0]
    assert type(result.point) is Point
    assert result.point.batch_size == torch.Size([])


def test_a_nested_record_may_have_more_batch_dimensions() -> None:
    inner = Point(torch.zeros(2, 3), batch_size=[2, 3])
    record = Decorated(torch.zeros(2), inner, batch_size=[2])
    assert record.point is inner
    assert record[0].point.batch_size == torch.Size([3])


def test_a_nested_record_with_fewer_batch_dimensions_gets_those_of_its_owner() -> None:
    inner = Point(torch.zeros(2, 3))
    record = Decorated(torch.zeros(2), inner, batch_size=[2])
    assert record.point.batch_size == torch.Size([2])
    assert inner.batch_size == torch.Size([])


def test_a_nested_record_gets_the_names_of_its_owner() -> None:
    record = Decorated(torch.zeros(2), point(), batch_size=[2], names=["a"])
    assert record.point.names == ["a"]


@pytest.mark.parametrize(
    "write",
    [
        lambda r, v: Decorated(torch.zeros(2), v, batch_size=[2]),
        lambda r, v: setattr(r, "point", v),
        lambda r, v: r.set("point", v),
        lambda r, v: r.update({"point": v}),
        lambda r, v: r.replace(point=v),
    ],
    ids=["construct", "setattr", "set", "update", "replace"],
)
def test_a_nested_record_of_another_class_is_a_type_error(write: Callable[[Any, Any], Any]) -> None:
    class Twin(TensorClass):  # the same fields
        x: Tensor
        y: Tensor | None = None
        tag: str = "t"

    record = nested()
    before = record.point
    with pytest.raises(TypeError, match=r"Decorated\.point: expected Point, got Twin"):
        write(record, Twin(torch.zeros(2), batch_size=[2]))
    assert record.point is before


def test_an_instance_of_a_subclass_is_stored_as_it_is() -> None:
    class Child(Point):
        z: Tensor | None = None

    child = Child(torch.zeros(2), batch_size=[2])
    record = nested()
    record.point = child
    assert record.point is child


@pytest.mark.parametrize("make", [dict, lambda d: TensorDict(d, [2])], ids=["dict", "TensorDict"])
def test_a_dict_or_a_tensordict_becomes_the_nested_record(make: Callable[[Any], Any]) -> None:
    record = Decorated(torch.zeros(2), make({"x": torch.ones(2), "tag": "made"}), batch_size=[2])
    assert type(record.point) is Point
    assert (record.point.x.tolist(), record.point.tag, record.point.y) == ([1, 1], "made", None)
    assert record.point.batch_size == torch.Size([2])


def test_a_dict_with_other_keys_than_the_fields_is_an_error_that_lists_them() -> None:
    with pytest.raises(ValueError, match=r"Decorated\.point: Point: .*missing: \['x'\] unexpected: \['q'\]"):
        Decorated(torch.zeros(2), {"q": torch.ones(2)}, batch_size=[2])


def test_an_error_in_a_dict_names_the_whole_path() -> None:
    with pytest.raises(RuntimeError, match=r"point\.x: .*got shape \[3\]"):
        Decorated(torch.zeros(2), {"x": torch.ones(3)}, batch_size=[2])


def test_a_field_of_the_type_tensordict_takes_any_keys() -> None:
    class Free(TensorClass):
        content: TensorDict

    record = Free({"a": torch.zeros(2), "b": {"c": torch.ones(2)}}, batch_size=[2])
    assert record[0]["content", "b", "c"] == 1


def test_a_record_in_a_tensordict_field_becomes_one_that_does_not_share_its_keys() -> None:
    class Free(TensorClass):
        content: TensorDict

    source = point()
    record = Free(source, batch_size=[2])
    record.content["more"] = torch.zeros(2)
    assert type(record.content) is TensorDict
    assert "more" not in source


def test_update_merges_into_a_nested_record() -> None:
    record = nested()
    before = record.point
    record.update({"point": {"tag": "new"}})
    assert record.point is before
    assert record.point.tag == "new"


def test_a_record_can_hold_records_of_its_own_class() -> None:
    class Node(TensorClass):
        value: Tensor
        child: "Node | None" = None

    node = Node(torch.ones(2), Node(torch.zeros(2), batch_size=[2]), batch_size=[2])
    assert type(node[0].child) is Node
    assert node.child.child is None
    with pytest.raises(TypeError, match=r"Node\.child: expected Node \| None, got str 'x'"):
        Node(torch.ones(2), "x")


# -- rows -------------------------------------------------------------------------------------------------------------


def test_rows_are_written_from_a_record() -> None:
    record = nested()
    record[0] = Decorated(torch.tensor(5.0), Point(torch.tensor(6.0), tag="row"))
    assert (record.x.tolist(), record.point.x.tolist(), record.point.tag) == ([5, 0], [6, 1], ["row", "t"])


def test_rows_are_written_from_a_mapping_as_the_fields_say() -> None:
    record = nested()
    record[0] = {"x": 5, "point": {"tag": "row"}}
    record[1:] = {("point", "x"): [7.0], ("point", "tag"): ["rows"]}
    assert (record.x.tolist(), record.point.x.tolist(), record.point.tag) == ([5, 0], [0, 7], ["row", "rows"])


def test_writing_a_row_of_an_optional_field_allocates_it() -> None:
    record = point()
    record[1] = {"y": 3.0}
    assert record.y.tolist() == [0, 3]


def test_records_are_filled_row_by_row() -> None:
    record = nested().empty()
    for i in range(2):
        record[i] = Decorated(torch.tensor(float(i)), Point(torch.tensor(i), tag=str(i)))
    assert (type(record.point), record.x.tolist(), record.point.tag) == (Point, [0, 1], ["0", "1"])


@pytest.mark.parametrize(
    "row, message",
    [
        ({"tag": 3}, r"Point\.tag: expected str, got int 3"),
        ({"tag": None}, r"Point\.tag: expected str, got NoneType None"),
        ({"y": "text"}, r"Point\.y: expected torch\.Tensor \| None, got str 'text'"),
        (TensorDict({"tag": tc.NonTensorData(3)}), r"Point\.tag: expected str, got int 3"),
        (TensorDict({"y": tc.NonTensorData("text")}), r"Point\.y: expected torch\.Tensor \| None, got str 'text'"),
        (TensorDict({"y": TensorDict({})}), r"Point\.y: expected torch\.Tensor \| None, got TensorDict"),
    ],
    ids=["text", "None", "tensor", "TensorDict with an object", "object for a tensor", "nested for a tensor"],
)
def test_rows_that_do_not_fit_leave_the_record_unchanged(row: Any, message: str) -> None:
    record = point()
    for index in (0, slice(None)):
        with pytest.raises(TypeError, match=message):
            record[index] = row
    assert (record.x.tolist(), record.y, record.tag) == ([0, 1], None, "t")


def test_rows_of_a_nested_record_are_checked() -> None:
    record = nested()
    for row in ({"point": {"tag": 3}}, TensorDict({"point": {"tag": tc.NonTensorData(3)}})):
        with pytest.raises(TypeError, match=r"Point\.tag: expected str, got int 3"):
            record[0] = row


def test_rows_with_a_key_that_is_no_field_are_refused() -> None:
    record = point()
    for row in ({"unknown": 1.0}, TensorDict({"unknown": 1.0})):
        with pytest.raises(AttributeError, match="Point has no field 'unknown'"):
            record[0] = row


def test_rows_of_a_text_are_written_by_key() -> None:
    record = nested()
    record.set_at_(("point", "tag"), "row", 0)
    assert record.point.tag == ["row", "t"]
    with pytest.raises(TypeError, match=r"Point\.tag: expected str, got int 3"):
        record.set_at_(("point", "tag"), 3, 0)


# -- text and objects -------------------------------------------------------------------------------------------------


def test_a_text_belongs_to_every_row() -> None:
    assert point(tag="a")[1].tag == "a"


def test_a_list_with_one_text_for_each_row() -> None:
    record = point(tag=["a", "b"])
    assert record.tag == ["a", "b"]
    assert (record[0].tag, record[1].tag) == ("a", "b")


def test_a_list_of_another_length_is_no_text() -> None:
    with pytest.raises(TypeError, match=r"Point\.tag: expected str, got list"):
        point(tag=["a", "b", "c"])


def test_different_texts_are_stacked() -> None:
    assert torch.stack([Point(torch.zeros(()), tag="a"), Point(torch.zeros(()), tag="b")]).tag == ["a", "b"]


def test_a_comparison_gives_a_tensor_for_a_text_field() -> None:
    same = point(tag=["a", "b"]) == point(tag=["a", "c"])
    assert same.tag.tolist() == [True, False]


# -- frozen -----------------------------------------------------------------------------------------------------------


class Frozen(TensorClass, frozen=True):
    x: Tensor
    y: Tensor | None = None
    point: Point | None = None
    tag: str = "t"


def frozen() -> Frozen:
    return Frozen(torch.zeros(2), point=point(), batch_size=[2])


def delete(record: Any, name: str) -> None:
    delattr(record, name)


@pytest.mark.parametrize(
    "change",
    {
        "setattr": lambda r: setattr(r, "x", torch.ones(2)),
        "setattr of text": lambda r: setattr(r, "tag", "u"),
        "setattr of an optional field": lambda r: setattr(r, "y", torch.ones(2)),
        "delattr": lambda r: delete(r, "x"),
        "set": lambda r: r.set("x", torch.ones(2)),
        "set of a nested key": lambda r: r.set(("point", "x"), torch.ones(2)),
        "[key] =": lambda r: r.__setitem__("x", torch.ones(2)),
        "[nested key] =": lambda r: r.__setitem__(("point", "x"), torch.ones(2)),
        "[rows] = with a new key": lambda r: r.__setitem__(0, Frozen(torch.ones(()), torch.ones(()))),
        "del [key]": lambda r: r.__delitem__("x"),
        "update": lambda r: r.update({"x": torch.ones(2)}),
        "update of a nested record": lambda r: r.update({"point": {"x": torch.ones(2)}}),
        "update ignoring the lock": lambda r: r.update({"x": torch.ones(2)}, ignore_lock=True),
        "set_non_tensor": lambda r: r.set_non_tensor("tag", "u"),
        "setdefault": lambda r: r.setdefault("y", torch.ones(2)),
        "del_": lambda r: r.del_("x"),
        "pop": lambda r: r.pop("x"),
        "popitem": lambda r: r.popitem(),
        "clear": lambda r: r.clear(),
        "rename_key_": lambda r: r.rename_key_("x", "y"),
        "select in place": lambda r: r.select("x", inplace=True),
        "exclude in place": lambda r: r.exclude("x", inplace=True),
        "split_keys in place": lambda r: r.split_keys(["x"], inplace=True),
        "unlock_": lambda r: r.unlock_(),
        "is_locked =": lambda r: setattr(r, "is_locked", False),
        "batch_size =": lambda r: setattr(r, "batch_size", []),
        "shape =": lambda r: setattr(r, "shape", []),
        "load_state_dict": lambda r: r.load_state_dict(r.clone().state_dict(), assign=True),
    }.items(),
    ids=lambda case: case[0],
)
def test_a_frozen_record_refuses_to_be_changed(change: tuple[str, Callable[[Any], Any]]) -> None:
    record = frozen()
    values = dict(record.items())
    inner = dict(record.point.items())
    with pytest.raises(dataclasses.FrozenInstanceError, match=r"Frozen is frozen: .*dataclasses\.replace"):
        change[1](record)
    assert record.batch_size == record.shape == (2,)
    assert dict(record.items()).keys() == values.keys()
    assert all(record.get(key) is value for key, value in values.items())
    assert all(record.point.get(key) is value for key, value in inner.items())


def test_all_forms_of_the_option_frozen_refuse_assignment(option_form: MakeForm) -> None:
    decorate, base, options = option_form(frozen=True)

    @decorate
    class One(base, **options):
        x: Tensor

    with pytest.raises(dataclasses.FrozenInstanceError):
        One(torch.zeros(2)).x = torch.ones(2)


def test_a_field_of_a_frozen_record_hides_what_frozen_records_refuse_to_set() -> None:
    class Hiding(TensorClass, frozen=True, shadow=True):
        shape: Tensor
        is_locked: Tensor

    record = Hiding(torch.ones(2), torch.zeros(2), batch_size=[2])
    assert record[0].shape == 1
    assert record[0].is_locked == 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.shape = torch.zeros(2)


def test_a_frozen_record_is_locked() -> None:
    record = frozen()
    assert record.is_locked
    with record.lock_():
        assert record.is_locked
    record.is_locked = True
    assert record.is_locked


def test_a_frozen_record_can_be_operated_on() -> None:
    record = frozen()
    result = torch.stack([record[0], record.reshape(2, 1)[1, 0] + 1])
    assert (type(result), result.x.tolist()) == (Frozen, [0, 1])


def test_the_values_of_a_frozen_record_can_be_written_in_place() -> None:
    record = frozen()
    x = record.x
    record[0] = 1.0
    record.set_("x", record.x + 1)
    assert record.x is x
    assert x.tolist() == [2, 1]


@pytest.mark.parametrize("replace", [lambda r, **k: r.replace(**k), dataclasses.replace], ids=["method", "dataclasses"])
def test_a_frozen_record_is_replaced_by_a_changed_one(replace: Callable[..., Any]) -> None:
    record = frozen()
    changed = replace(record, x=torch.ones(2), tag="u")
    assert (changed.x.tolist(), changed.tag, record.x.tolist(), record.tag) == ([1, 1], "u", [0, 0], "t")


def test_post_init_can_set_the_fields_of_a_frozen_record(option_form: MakeForm) -> None:
    decorate, base, options = option_form(frozen=True)

    @decorate
    class Normal(base, **options):
        x: Tensor
        length: Tensor = field(init=False)

        def __post_init__(self) -> None:
            self.length = self.x.norm()
            self.x = self.x / self.length

    record = Normal(torch.tensor([3.0, 4.0]))
    assert record.length == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.x = torch.zeros(2)


def test_a_frozen_child_makes_inherited_fields_frozen() -> None:
    class Child(Point, frozen=True):
        pass

    with pytest.raises(dataclasses.FrozenInstanceError):
        Child(torch.zeros(2)).x = torch.ones(2)
    point().x = torch.ones(2)


# -- as a dataclass ---------------------------------------------------------------------------------------------------


def test_a_record_is_a_dataclass(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        a: Tensor
        b: str = "b"

    assert dataclasses.is_dataclass(Pair)
    assert [(f.name, f.default) for f in dataclasses.fields(Pair)] == [("a", dataclasses.MISSING), ("b", "b")]
    assert Pair.fields() == dataclasses.fields(Pair)
    assert dataclasses.fields(Pair(torch.zeros(2))) == dataclasses.fields(Pair)


def test_dataclasses_replace_keeps_the_metadata() -> None:
    record = Point(torch.zeros(2), tag="a", batch_size=[2], device="cpu", names=["n"])
    changed = dataclasses.replace(record, tag="b")
    assert (changed.tag, changed.x is record.x) == ("b", True)
    assert (changed.batch_size, changed.device, changed.names) == (record.batch_size, record.device, record.names)


def test_dataclasses_replace_can_change_the_metadata() -> None:
    assert dataclasses.replace(point(), batch_size=[], names=None).batch_size == torch.Size([])


def test_dataclasses_replace_refuses_what_is_no_field() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        dataclasses.replace(point(), unknown=1)


def test_asdict_goes_into_nested_records() -> None:
    result = dataclasses.asdict(nested())
    assert result["point"]["tag"] == "t"
    assert result["point"]["y"] is None
    assert result["x"].tolist() == [0, 0]


def test_astuple_gives_the_values_in_field_order() -> None:
    x, (inner, y, tag) = dataclasses.astuple(nested())
    assert (x.tolist(), inner.tolist(), y, tag) == ([0, 0], [0, 1], None, "t")


def test_replace_shares_the_other_values_and_keeps_the_metadata() -> None:
    record = Decorated(torch.zeros(2), point(), batch_size=[2], names=["n"])
    changed = record.replace(x=torch.ones(2))
    assert changed.point.x is record.point.x
    assert (changed.batch_size, changed.names) == (record.batch_size, ["n"])
    assert record.x.tolist() == [0, 0]


@pytest.mark.parametrize("source", [{"tag": "a"}, TensorDict({"tag": "a"}, [2])], ids=["dict", "TensorDict"])
def test_replace_takes_a_mapping_or_a_collection(source: Any) -> None:
    assert point().replace(source).tag == "a"


def test_replace_takes_one_mapping_only() -> None:
    with pytest.raises(TypeError, match="one mapping or record"):
        point().replace({}, {})


def test_replace_sets_optional_fields_to_none() -> None:
    assert point(y=torch.zeros(2)).replace(y=None).y is None
    with pytest.raises(TypeError, match=r"Point\.x: expected Tensor, got NoneType"):
        point().replace(x=None)


def test_the_protocol_of_copy_replace() -> None:
    assert point().__replace__(tag="new").tag == "new"


def test_copy_makes_a_record_on_the_same_values() -> None:
    record = nested()
    copied = copy.copy(record)
    assert copied.x is record.x
    copied.point.x = torch.ones(2)
    assert record.point.x.tolist() == [0, 1]


def test_deepcopy_copies_values_and_objects() -> None:
    class Holder(TensorClass):
        x: Tensor
        notes: list

    record = Holder(torch.zeros(2), [[1]], batch_size=[2], names=["n"])
    copied = copy.deepcopy(record)
    copied.x[0] = 1
    copied.notes[0].append(2)
    assert (record.x.tolist(), record.notes) == ([0, 0], [[1]])
    assert (type(copied), copied.names) == (Holder, ["n"])


def test_patterns_match_by_position_and_by_keyword(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        a: Tensor
        b: str = "b"
        c: int = field(default=3, kw_only=True)

    match Pair(torch.zeros(2)):
        case Pair(a, "b", c=c):
            assert (a.tolist(), c) == ([0, 0], 3)
        case _:
            pytest.fail("no pattern matched")
    assert Pair.__match_args__ == ("a", "b")


def test_the_signature_is_that_of_the_fields_and_the_metadata(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Pair(base):
        a: Tensor
        b: str = "b"
        c: list = field(default_factory=list)

    assert str(inspect.signature(Pair)) == (
        "(a: torch.Tensor, b: str = 'b', c: list = <factory>, *, "
        "batch_size: collections.abc.Sequence[int] | int | None = None, "
        "device: torch.device | str | int | None = None, "
        "names: collections.abc.Sequence[str | None] | None = None) -> None"
    )


def test_the_type_hints_are_those_of_the_fields() -> None:
    assert typing.get_type_hints(Point) == {"x": Tensor, "y": Tensor | None, "tag": str}
    assert list(typing.get_type_hints(Decorated)) == ["x", "point"]


def test_the_generated_init_has_a_source() -> None:
    assert "def __init__(self, x, y=__default_y, tag=__default_tag" in inspect.getsource(Point.__init__)
    assert Point.__init__.__qualname__ == "Point.__init__"


def test_a_class_without_docstring_gets_one() -> None:
    assert Point.__doc__ == "A record with the fields x, y, tag."


def test_repr_shows_the_fields_by_their_form(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class One(base):
        x: Tensor
        y: Tensor | None
        tag: str
        inner: Inner

    record = One(torch.zeros(2, 3), None, "text", Inner(torch.zeros(2), batch_size=[2]), batch_size=[2], names=["n"])
    tensor = "Tensor(shape=torch.Size([{}]), device=cpu, dtype=torch.float32, is_shared=False)"
    assert repr(record) == (
        "One(\n"
        f"    x={tensor.format('2, 3')},\n"
        "    y=None,\n"
        "    tag='text',\n"
        "    inner=Inner(\n"
        f"        value={tensor.format('2')},\n"
        "        batch_size=torch.Size([2]),\n"
        "        device=None,\n"
        "        names=['n'],\n"
        "        is_shared=False),\n"
        "    batch_size=torch.Size([2]),\n"
        "    device=None,\n"
        "    names=['n'],\n"
        "    is_shared=False)"
    )


def test_repr_leaves_out_what_is_not_set() -> None:
    assert "x=" not in repr(point().exclude("x"))


# -- pickling ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: point(tag=["a", "b"]),
        nested,
        frozen,
        lambda: Point.Nested(torch.zeros(2), batch_size=[2]),
        lambda: Decorated.Nested(torch.zeros(2), batch_size=[2], names=["n"]),
        lambda: point().lock_(),
        lambda: point(y=torch.ones(2)).exclude("x"),
    ],
    ids=["plain", "decorated", "frozen", "nested class", "nested decorated class", "locked", "incomplete"],
)
def test_a_record_is_pickled(make: Callable[[], Any]) -> None:
    record = make()
    loaded = pickle.loads(pickle.dumps(record))
    assert type(loaded) is type(record)
    assert repr(loaded) == repr(record)
    assert all(torch.equal(a, b) for a, b in zip(loaded._leaves(), record._leaves(), strict=True))
    assert loaded.is_locked == record.is_locked


def test_a_record_is_saved_by_torch() -> None:
    file = io.BytesIO()
    torch.save(nested(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    assert type(loaded) is Decorated
    assert loaded.point.x.tolist() == [0, 1]


def test_unpickling_does_not_run_post_init() -> None:
    assert pickle.loads(pickle.dumps(Doubled(torch.ones(2)))).x.tolist() == [2, 2]


class Doubled(TensorClass):
    x: Tensor

    def __post_init__(self) -> None:
        self.x = self.x * 2


# -- operations keep the class ----------------------------------------------------------------------------------------


def sample(integer: bool) -> Sample:
    image, label, value = torch.arange(1, 25).reshape(2, 3, 4), torch.arange(1, 7).reshape(2, 3), torch.ones(2, 3)
    if not integer:
        image, label = image / 25, label / 7
    inner = Inner(value.long() if integer else value, batch_size=[2, 3])
    return Sample(image, label, inner, batch_size=[2, 3])


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("name", CALLS)
def test_an_operation_gives_a_record_of_the_class(name: str) -> None:
    result = CALLS[name](sample(name in INTEGER))
    for record in result if isinstance(result, tuple) else (result,):
        assert dense_class(type(record)) is Sample
        assert record.inner is None or dense_class(type(record.inner)) is Inner


@pytest.mark.parametrize("name", ["flatten_keys", "unflatten_keys"])
def test_what_has_other_keys_is_a_tensordict(name: str) -> None:
    record = nested()
    assert type(getattr(record, name)()) is TensorDict
    with pytest.raises(TypeError, match="the keys of a Decorated are declared"):
        getattr(record, name)(inplace=True)


def test_flatten_keys_joins_the_keys_of_nested_records() -> None:
    assert list(nested().flatten_keys("_").keys()) == ["x", "point_x", "point_tag"]


def test_stack_and_cat_are_class_methods() -> None:
    assert Point.stack([point(), point()]).batch_size == torch.Size([2, 2])
    assert Point.cat([point(), point()]).batch_size == torch.Size([4])
    assert tc.stack([point(), point()], 1).x.tolist() == [[0, 0], [1, 1]]
    assert tc.cat([point(), point()]).x.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("join", [torch.stack, torch.cat, tc.stack, tc.cat])
def test_records_of_different_classes_do_not_mix(join: Callable[[Any], Any]) -> None:
    class Twin(TensorClass):
        x: Tensor
        y: Tensor | None = None
        tag: str = "t"

    with pytest.raises(TypeError, match="must be records of the class Point; item 1 is a Twin"):
        join([point(), Twin(torch.zeros(2), batch_size=[2])])


def test_classes_of_one_name_and_the_same_fields_stay_apart() -> None:
    def make(default: str) -> Any:
        class Twin(TensorClass):
            x: Tensor
            tag: str = default

        return Twin

    first, second = make("first"), make("second")
    assert (first(torch.zeros(2)).tag, second(torch.zeros(2)).tag) == ("first", "second")
    assert not isinstance(first(torch.zeros(2)), second)


def test_isinstance_and_the_predicates() -> None:
    record = point()
    assert isinstance(record, TensorClass)
    assert isinstance(nested(), TensorClass)
    assert issubclass(Decorated, TensorClass)
    assert tc.is_tensorclass(record)
    assert tc.is_tensorclass(Point)
    assert not tc.is_tensorclass(TensorDict({}))
    assert tc.is_tensor_collection(record)
    assert tc.is_tensor_collection(Point)
    assert not tc.is_tensor_collection({})


def test_a_record_is_a_node_of_pytrees() -> None:
    record = nested()
    leaves, spec = _pytree.tree_flatten(record)
    assert len(leaves) == 2
    assert type(_pytree.tree_unflatten(leaves, spec).point) is Point


# -- in and out -------------------------------------------------------------------------------------------------------


def test_to_tensordict_copies_the_values() -> None:
    record = nested()
    result = record.to_tensordict()
    assert type(result) is type(result["point"]) is TensorDict
    result["point", "x"][0] = 5
    assert record.point.x.tolist() == [0, 1]
    assert result.batch_size == record.batch_size


@pytest.mark.parametrize("retain_none, keys", [(None, ["x", "tag"]), (False, ["x", "tag"]), (True, ["x", "y", "tag"])])
def test_to_tensordict_writes_none_where_asked(retain_none: bool | None, keys: list[str]) -> None:
    result = point().to_tensordict(retain_none=retain_none)
    assert list(result.keys()) == keys
    assert result.get("y") is None or result["y"] is None


def test_from_tensordict_shares_the_values_and_keeps_the_metadata() -> None:
    source = TensorDict({"x": torch.zeros(2), "tag": "a"}, [2], names=["n"], device="cpu")
    record = Point.from_tensordict(source)
    assert record.x is source["x"]
    assert (record.tag, record.y, record.batch_size, record.names) == ("a", None, torch.Size([2]), ["n"])
    assert record.device == torch.device("cpu")


@pytest.mark.parametrize("retain_none", [False, True])
def test_a_record_comes_back_from_its_tensordict(form: MakeForm, retain_none: bool) -> None:
    decorate, base, _ = form()

    @decorate
    class Scores(base):
        a: Tensor | None
        b: Inner
        tag: str

    record = Scores(None, Inner(torch.zeros(2), batch_size=[2]), ["x", "y"], batch_size=[2])
    back = Scores.from_tensordict(record.to_tensordict(retain_none=retain_none))
    assert (type(back), type(back.b), back.a, back.tag) == (Scores, Inner, None, ["x", "y"])


def test_from_tensordict_lists_missing_and_unexpected_keys() -> None:
    with pytest.raises(ValueError, match=r"missing: \['x'\] unexpected: \['q', 'r'\]"):
        Point.from_tensordict(TensorDict({"q": 1, "r": 2}))


def test_from_tensordict_takes_more_values() -> None:
    record = Point.from_tensordict(TensorDict({"x": torch.zeros(2)}, [2]), {"tag": "more"})
    assert record.tag == "more"


def test_from_tensordict_takes_a_mapping_only_where_it_need_not_be_safe() -> None:
    with pytest.raises(TypeError, match="expected a collection, got a dict"):
        Point.from_tensordict({"x": torch.zeros(2)})
    assert Point.from_tensordict({"x": torch.zeros(2)}, safe=False).x.tolist() == [0, 0]


def test_from_tensordict_sets_fields_with_init_false() -> None:
    class Counted(TensorClass):
        x: Tensor
        count: int = field(default=3, init=False)

    assert Counted.from_tensordict(TensorDict({"x": torch.zeros(2), "count": tc.NonTensorData(4)})).count == 4


def test_from_dict_finds_the_batch_size() -> None:
    record = Decorated.from_dict({"x": torch.zeros(2, 3), "point": {"x": torch.zeros(2)}}, auto_batch_size=True)
    assert (record.batch_size, type(record.point)) == (torch.Size([2]), Point)


def test_from_dict_takes_lists_with_a_text_for_each_row() -> None:
    record = Point.from_dict({"x": torch.zeros(2, 3), "tag": ["a", "b"]}, auto_batch_size=True)
    assert (record.batch_size, record[1].tag) == (torch.Size([2]), "b")


def test_from_dict_leaves_lists_objects_where_the_field_holds_a_list() -> None:
    class Tagged(TensorClass):
        x: Tensor
        tags: list

    record = Tagged.from_dict({"x": torch.zeros(2, 3), "tags": ["a", "b", "c"]}, auto_batch_size=True)
    assert (record.batch_size, record[0, 1].tags) == (torch.Size([2, 3]), ["a", "b", "c"])


@pytest.mark.parametrize("options", [{"batch_size": [2]}, {"batch_dims": 1}], ids=str)
def test_from_dict_can_be_told_the_batch_size(options: dict[str, Any]) -> None:
    assert Point.from_dict({"x": torch.zeros(2, 3, 4)}, **options).batch_size == torch.Size([2])


def test_from_dict_finds_no_batch_size_unless_it_is_asked_to() -> None:
    assert Point.from_dict({"x": torch.zeros(2, 3)}).batch_size == torch.Size([])


def test_from_dict_keeps_device_and_names() -> None:
    record = Point.from_dict({"x": torch.zeros(2)}, batch_size=[2], device="meta", names=["n"])
    assert (record.x.device.type, record.names) == ("meta", ["n"])


def test_a_state_dict_is_loaded_in_place() -> None:
    source, target = nested(), nested()
    source.point.x += 5
    x = target.point.x
    assert list(source.state_dict()) == ["x", "point.x"]
    target.load_state_dict(source.state_dict())
    assert target.point.x is x
    assert x.tolist() == [5, 6]


def test_fromkeys_makes_a_record() -> None:
    assert Inner.fromkeys(["value"], 3).value == 3


# -- decorated methods ------------------------------------------------------------------------------------------------


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


# -- a plain dataclass as a base --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("library", ["here", pytest.param("peer", marks=pytest.mark.parity)])
def test_set_takes_a_value_by_name_and_its_options_by_position(library: str) -> None:
    if library == "peer":
        from tensordict import TensorClass as Base
    else:
        from tensorclass import TensorClass as Base  # type: ignore[assignment]

    class Row(Base):  # type: ignore[misc, valid-type]
        a: torch.Tensor

    row: Any = Row(torch.zeros(2), batch_size=[2])
    first = row.a
    assert row.set(key="a", value=torch.ones(2)) is row
    assert first.tolist() == [0, 0]
    second = row.a
    row.set("a", torch.zeros(2), True, False)
    assert second.tolist() == [0, 0]
