"""Records in a module whose annotations are all text: ``from __future__ import annotations`` is under test."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
import typing
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar
from typing import Any, ClassVar, Generic, TypeVar

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from tensorclass import TensorClass, TensorDict, tensorclass
from tensorclass.records.fields import Kind
from tests.forms import FORMS, Form

T = TypeVar("T", bound=Tensor)
MakeForm = Callable[..., Form]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> MakeForm:
    """The ways to write a class."""
    return FORMS[request.param]


class Base(TensorClass, Generic[T]):
    image: Float[Tensor, "*batch 3 h w"]
    free: T
    label: Tensor | None
    child: Base | None = None
    extra: TensorDict | None = None
    text: str = "a"
    thing: Any = None
    count: ClassVar[int] = 0


@tensorclass
class Decorated(Base):
    _: KW_ONLY
    scale: InitVar[float] = 1.0
    more: Tensor | str = "more"
    later: Later | None = None

    def __post_init__(self, scale: float) -> None:
        self.free = self.free * scale


class Later(TensorClass):
    value: Tensor


def make(cls: Any = Base, **fields: Any) -> Any:
    return cls(torch.zeros(2, 3, 4, 4), torch.ones(2), None, **fields, batch_size=[2])


def test_what_fields_hold_is_known_from_the_definition() -> None:
    assert {name: spec.kind for name, spec in Decorated._specs.items()} == {
        "image": Kind.TENSOR,
        "free": Kind.TENSOR,
        "label": Kind.TENSOR,
        "child": Kind.COLLECTION,
        "extra": Kind.COLLECTION,
        "text": Kind.OBJECT,
        "thing": Kind.ANY,
        "more": Kind.ANY,
        "later": None,
    }


def test_class_variables_are_no_fields() -> None:
    assert "count" not in [f.name for f in dataclasses.fields(Base)]
    assert Base.count == 0


def test_init_vars_are_given_to_post_init() -> None:
    assert make(Decorated, scale=3.0).free.tolist() == [3, 3]


def test_fields_behind_the_kw_only_mark_are_keyword_only() -> None:
    parameters = inspect.signature(Decorated).parameters
    assert parameters["more"].kind is parameters["scale"].kind is inspect.Parameter.KEYWORD_ONLY
    assert parameters["text"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("image", "text", r"Base\.image: expected Float"),
        ("free", None, r"Base\.free: expected T, got NoneType"),
        ("label", "text", r"Base\.label: expected Tensor \| None, got str"),
        ("child", 3, r"Base\.child: expected Base \| None, got int"),
        ("text", 3, r"Base\.text: expected str, got int"),
        ("more", None, r"Decorated\.more: expected Tensor \| str, got NoneType"),
        ("later", 3, r"Decorated\.later: expected Later \| None, got int"),
    ],
)
def test_values_are_checked(name: str, value: Any, message: str) -> None:
    record = make(Decorated)
    with pytest.raises(TypeError, match=message):
        setattr(record, name, value)


def test_records_of_the_own_class_and_of_later_ones_are_made_of_dicts() -> None:
    record = make(Decorated, child=make(), later={"value": torch.zeros(2)})
    assert (type(record[0].child), type(record[0].later)) == (Base, Later)


def test_type_hints_are_found() -> None:
    hints = typing.get_type_hints(Base)
    assert (hints["child"], hints["label"], hints["text"]) == (Base | None, Tensor | None, str)


def test_a_record_is_pickled() -> None:
    loaded = pickle.loads(pickle.dumps(make(Decorated, child=make())))
    assert (type(loaded), type(loaded.child)) == (Decorated, Base)


def test_a_generic_record_is_parametrised() -> None:
    assert type(make(Base[Tensor])) is Base


# -- inside functions -------------------------------------------------------------------------------------------------


def test_local_names_are_found(form: MakeForm) -> None:
    decorate, base, _ = form()
    Pixels = Float[Tensor, "3 h w"]

    @decorate
    class Inner(base):
        value: Tensor

    @decorate
    class Outer(base):
        image: Pixels
        inner: Inner | None = None
        me: Outer | None = None

    assert [spec.kind for spec in Outer._specs.values()] == [Kind.TENSOR, Kind.COLLECTION, Kind.COLLECTION]
    record = Outer(torch.zeros(2, 3, 1, 1), {"value": torch.zeros(2)}, batch_size=[2])
    record.me = record.clone()
    assert (type(record[0].inner), type(record[0].me)) == (Inner, Outer)


def test_names_in_the_body_of_the_class_are_found(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Outer(base):
        @decorate
        class Part(base):
            value: Tensor

        part: Part

    assert type(Outer({"value": 3}).part) is Outer.Part


def test_a_field_may_have_the_name_of_its_type(form: MakeForm) -> None:
    decorate, base, _ = form()

    @decorate
    class Named(base):
        Tensor: Tensor
        str: str = "text"
        Later: Later | None = None

    record = Named(3, "a", {"value": 4})
    assert (record.Tensor.item(), record.str, type(record.Later)) == (3, "a", globals()["Later"])


def test_inherited_fields_keep_their_meaning(form: MakeForm) -> None:
    decorate, base, _ = form()
    Local = Tensor

    @decorate
    class Parent(base):
        value: Local

    def elsewhere() -> Any:
        @decorate
        class Child(Parent):
            more: Tensor

        return Child

    assert elsewhere()._specs["value"].kind is Kind.TENSOR


def test_an_option_of_the_decorator_over_a_record_keeps_local_names() -> None:
    Local = Tensor

    @tensorclass(nocast=True)
    class Child(Later):
        more: Local

    assert Child._specs["more"].kind is Kind.TENSOR
