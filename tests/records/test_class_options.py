"""Options of record classes: ``autocast``, ``nocast``, ``tensor_only``, ``kw_only``, and how they are inherited."""

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, tensorclass
from tests.forms import FORMS
from tests.records.classes import MakeForm


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
