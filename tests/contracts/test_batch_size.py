"""The batch size that follows from contracts when it is not given."""

from typing import Annotated

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Size, Tensor

import tensorclass as tc
from tensorclass import ContractError, Shape, TensorClass, TensorDict
from tests.contracts.samples import Pair, Plain, Sample, sample


@given(st.lists(st.integers(0, 3), max_size=3))
def test_the_batch_size_is_what_stands_in_front_of_the_items(batch: list[int]) -> None:
    given = dict(sample(*batch).items())
    for made in (Sample(**given), Sample.from_dict(given), Sample.from_dict(given, auto_batch_size=True)):
        assert made.batch_size == Size(batch)
        assert type(made.batch_size) is Size


def test_a_batch_size_that_is_given_wins() -> None:
    with pytest.raises(ContractError):
        Sample(**dict(sample(8).items()), batch_size=[])
    assert Sample(**dict(sample().items()), batch_size=[]).batch_size == ()
    assert Sample(**dict(sample(8).items()), batch_size=8).batch_size == (8,)


def test_without_contracts_there_are_no_batch_dimensions() -> None:
    assert Plain(torch.zeros(8, 3)).batch_size == ()


def test_fields_that_tell_different_ones_are_listed() -> None:
    given = dict(sample(8).items())
    with pytest.raises(ContractError) as raised:
        Sample(**{**given, "label": torch.zeros(9, dtype=torch.int64)})
    assert "tell different ones: image [8], mask [8], label [9]" in str(raised.value)
    with pytest.raises(ContractError) as raised:
        Sample(**{**given, "image": torch.zeros(8, 4, 5)})  # the channels were forgotten
    assert "tell different ones: image [], mask [8], label [8]" in str(raised.value)
    with pytest.raises(ContractError) as raised:  # the batch size is not what is wrong
        Sample(**{**given, "image": torch.zeros(8, 1, 4, 5)})
    assert "No batch size" not in str(raised.value)


def test_an_error_speaks_of_the_batch_size_with_which_the_fewest_fields_are_wrong() -> None:
    given = dict(sample(8).items())
    for image in (torch.zeros(3, 4, 5), torch.zeros(4, 5)):  # the batch was forgotten; a dimension more
        with pytest.raises(ContractError) as raised:
            Sample(**{**given, "image": image})
        assert [(problem.path, problem.why) for problem in raised.value.broken] == [
            (("image",), "the batch dimensions [8] do not come first")
        ]

    class Mixed(TensorClass):
        x: Float[Tensor, "3"]
        free: Tensor
        note: str
        y: Float[Tensor, "3"]
        z: Float[Tensor, ""]

    with pytest.raises(ContractError) as raised:
        Mixed(torch.zeros(3), torch.zeros(8), "text", torch.zeros(8, 3), torch.zeros(8))
    assert [problem.path for problem in raised.value.broken] == [("x",)]
    with pytest.raises(ContractError) as raised:
        Mixed(torch.zeros(8, 3), torch.zeros(9), "text", torch.zeros(9, 4), torch.zeros(8))
    assert [problem.path for problem in raised.value.broken] == [("free",), ("y",)]


def test_an_error_says_that_no_field_tells_the_batch_size() -> None:
    class Either(TensorClass):
        x: Float[Tensor, "3"] | Float[Tensor, "3 4"]

    with pytest.raises(ContractError, match="No batch size was given, and no field tells it; give batch_size="):
        Either(torch.zeros(8, 2, 3))
    with pytest.raises(ContractError) as raised:
        Either(torch.zeros(8, 2, 3), batch_size=[8])
    assert "No batch size" not in str(raised.value)


def test_a_field_of_any_number_of_dimensions_tells_nothing() -> None:
    class Open(TensorClass):
        x: Float[Tensor, "..."]
        y: Float[Tensor, "*n"]

    class Half(TensorClass):
        x: Float[Tensor, "*n 3"]
        y: Float[Tensor, "2"]

    assert Open(torch.zeros(8, 2), torch.zeros(8)).batch_size == ()
    assert Half(torch.zeros(8, 4, 3), torch.zeros(8, 2)).batch_size == (8,)


def test_a_contract_about_the_dtype_alone_tells_nothing() -> None:
    class Typed(TensorClass):
        x: Annotated[Tensor, tc.DType("float")]

    assert Typed(torch.zeros(8, 2)).batch_size == ()


def test_the_first_field_that_is_there_tells() -> None:
    class Optional(TensorClass):
        x: Float[Tensor, "3"] | None = None
        y: Int[Tensor, ""] | None = None
        free: Tensor | None = None

    assert Optional(y=torch.arange(8), free=torch.zeros(8, 1)).batch_size == (8,)
    assert Optional(x=[[1.0, 2.0, 3.0]], free=[0]).batch_size == (1,)
    assert Optional(free=torch.zeros(8)).batch_size == ()
    assert Optional().batch_size == ()


def test_a_default_that_is_made_for_the_record_tells() -> None:
    class Made(TensorClass):
        x: Float[Tensor, "3"] = tc.field(default_factory=lambda: torch.zeros(4, 3))

    assert Made().batch_size == (4,)
    assert Made(torch.zeros(2, 3)).batch_size == (2,)


def test_nested_records_find_theirs_which_begins_with_that_around_them() -> None:
    given = dict(sample(8).items())

    class Outer(TensorClass):
        weight: Float[Tensor, ""]
        inner: Sample

    outer = Outer(torch.zeros(8), given)
    assert (outer.batch_size, outer.inner.batch_size) == ((8,), (8,))
    longer = Outer(torch.zeros(8), dict(sample(8, 2).items()))
    assert (longer.batch_size, longer.inner.batch_size) == ((8,), (8, 2))
    assert Outer(torch.zeros(8), sample(8, 2)).batch_size == (8,)
    with pytest.raises(RuntimeError, match="inner"):
        Outer(torch.zeros(7), given)
    with pytest.raises(RuntimeError, match="inner"):
        Outer(torch.zeros(8), dict(sample().items()))
    assert Pair.from_dict({"left": given, "right": given}, auto_batch_size=True).batch_size == (8,)
    assert Pair(left=given).batch_size == ()  # a field that holds a record says nothing about its batch


def test_the_batch_of_a_nested_record_with_a_contract_tells() -> None:
    class Clip(TensorClass):
        frames: Annotated[Sample, Shape("t")]

    assert Clip(frames=sample(2, 6)).batch_size == (2,)


def test_the_batch_size_of_a_collection_is_one_that_is_given() -> None:
    data = sample(8).to_tensordict()
    assert Sample.from_tensordict(data).batch_size == (8,)
    with pytest.raises(ContractError):
        Sample.from_tensordict(TensorDict(dict(data.items()), []))


def test_names_and_device_go_with_a_batch_size_that_was_found() -> None:
    record = Sample(**dict(sample(8).items()), names=["time"], device="cpu")
    assert (record.names, record.device) == (["time"], torch.device("cpu"))


def test_it_is_found_with_the_checks_switched_off_too() -> None:
    class Loose(TensorClass, validate=False):
        x: Float[Tensor, "3"]

    assert Loose(torch.zeros(8, 4)).batch_size == (8,)
    with tc.validation(False):
        assert Sample(**dict(sample(8).items())).batch_size == (8,)
