"""Switching the checks off: for a class, a call, a block, a function, the program."""

import threading
from typing import Any

import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from tensorclass import BatchMismatch, ContractError, TensorClass, tensorclass, validation
from tests.contracts.samples import Level, Pair, Sample, sample

WRONG: dict[str, Any] = {
    "image": torch.zeros(8, 1, 4, 5),
    "mask": torch.zeros(8, 2, 2, dtype=torch.bool),
    "label": torch.zeros(8),
}


def test_a_block_without_checks_takes_values_that_do_not_fit() -> None:
    with validation(False):
        record = Sample(**WRONG, batch_size=[8])
        record.label = torch.zeros(8, 3)
        record.update({"mask": torch.zeros(8)}).replace(label=torch.zeros(8))
        assert Level(value=torch.tensor([[7.0]])).value == 7
        with validation(True), pytest.raises(ContractError):
            record.label = torch.zeros(8)
        record.label = torch.zeros(8)
    with pytest.raises(ContractError):
        record.label = torch.zeros(8)


def test_the_batch_size_is_looked_at_in_any_case() -> None:
    with validation(False), pytest.raises(BatchMismatch, match="label"):
        Sample(**{**WRONG, "label": torch.zeros(7)}, batch_size=[8])
    with pytest.raises(BatchMismatch, match="label"):
        Sample.unchecked(**{**WRONG, "label": torch.zeros(7)}, batch_size=[8])


def test_a_function_without_checks() -> None:
    @validation(False)
    def make() -> Sample:
        return Sample(**WRONG, batch_size=[8])

    assert make().batch_size == (8,)
    with pytest.raises(ContractError):
        Sample(**WRONG, batch_size=[8])


def test_the_program_without_checks() -> None:
    validation(False).set()
    try:
        assert Sample(**WRONG, batch_size=[8]).batch_size == (8,)
        with validation(True), pytest.raises(ContractError):
            Sample(**WRONG, batch_size=[8])
    finally:
        validation(True).set()
    with pytest.raises(ContractError):
        Sample(**WRONG, batch_size=[8])


def test_a_block_holds_for_its_own_thread() -> None:
    errors: list[Exception] = []

    def make() -> None:
        try:
            Sample(**WRONG, batch_size=[8])
        except ContractError as error:
            errors.append(error)

    with validation(False):
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
    assert len(errors) == 1


def test_a_call_without_checks() -> None:
    record = Sample.unchecked(**WRONG, batch_size=[8])
    assert type(record) is Sample
    record.set("label", torch.zeros(8, 2), validate=False)
    with pytest.raises(ContractError):
        record.set("label", torch.zeros(8, 2))
    pair = Pair(left=record, batch_size=[8])
    pair.set(("left", "label"), torch.zeros(8, 3), validate=False)
    with pytest.raises(ContractError):
        pair.set(("left", "label"), torch.zeros(8, 3))


def test_a_class_without_checks_and_its_subclasses() -> None:
    class Loose(TensorClass, validate=False):
        x: Float[Tensor, "3"]

    class Derived(Loose):
        y: Float[Tensor, "3"]

    class Strict(Loose, validate=True):
        pass

    @tensorclass(validate=False)
    class Decorated:
        x: Float[Tensor, "3"]

    for cls in (Loose, Decorated):
        record = cls(torch.zeros(2, 4))
        record.x = torch.zeros(2, 5)
        with validation(True):
            assert cls(torch.zeros(2, 4)).batch_size == (2,)
    assert Derived(torch.zeros(2, 4), torch.zeros(2)[:, None]).batch_size == (2,)
    with pytest.raises(ContractError):
        Strict(torch.zeros(2, 4))
    strict = Strict(torch.zeros(2, 3))
    with pytest.raises(ContractError):
        strict.x = torch.zeros(2, 4)


def test_validate_looks_at_everything_however_it_came_in() -> None:
    class Loose(TensorClass, validate=False):
        x: Float[Tensor, "3"]
        inner: Sample | None = None

    record = Loose(torch.zeros(8, 4), Sample.unchecked(**WRONG, batch_size=[8]))
    with validation(False), pytest.raises(ContractError) as raised:
        record.validate()
    assert [problem.path for problem in raised.value.broken] == [
        ("x",),
        ("inner", "image"),
        ("inner", "mask"),
        ("inner", "label"),
    ]
    right = sample(8)
    assert right.validate() is right


def test_the_mode_is_true_or_false() -> None:
    with pytest.raises(TypeError, match="expected True or False"):
        validation(0)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the option validate is True or False"):

        class Record(TensorClass, validate=1):
            x: Tensor
