"""In-place operations that cannot be done on one of the tensors change none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tests.samples import Unchanged


def mixed() -> TensorDict:
    """Real numbers, then integers, which the functions below can't write their results into, at two levels."""
    return TensorDict({"a": torch.ones(2, 3), "n": {"b": torch.ones(2), "c": torch.ones(2, dtype=torch.int64)}}, [2])


FAIL: dict[str, Callable[[TensorDict], Any]] = {
    "a function without a result in integers": lambda data: data.exp_(),
    "a function that torch has not for integers": lambda data: data.frac_(),
    "a real number": lambda data: data.mul_(0.5),
    "a real tensor": lambda data: data.add_(torch.ones(2)),
    "a quotient": lambda data: data.div_(2),
    "a negative power": lambda data: data.pow_(-1),
    "complex numbers": lambda data: data.add_(1j),
    "another collection": lambda data: data.add_(data.double()),
    "three operands": lambda data: data.addcmul_(data.float(), data.float()),
    "interpolation": lambda data: data.lerp_(data.clone(), 0.5),
}


@pytest.mark.parametrize("call", FAIL.values(), ids=FAIL)
def test_nothing_is_written_where_one_tensor_refuses(call: Callable[[TensorDict], Any]) -> None:
    data = mixed()
    with Unchanged(data), pytest.raises((RuntimeError, NotImplementedError)):
        call(data)


def test_the_shape_of_an_operand_is_checked_for_all_tensors_first() -> None:
    data = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2, 3)}, [2])
    other = TensorDict({"a": torch.ones(2), "b": torch.ones(2, 4)}, [2])
    with Unchanged(data), pytest.raises(RuntimeError, match=r"b: .* \[2, 3\].*got \[2, 4\]"):
        data.add_(other)


def test_a_mask_does_not_fill_the_first_where_the_second_can_not_hold_the_value() -> None:
    data = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2, dtype=torch.uint8)}, [2])
    with Unchanged(data), pytest.raises(RuntimeError):
        data.masked_fill_(torch.tensor([True, False]), 1000)


@pytest.mark.parametrize("number", [1, 2, True])
def test_integers_take_integers(number: int) -> None:
    data = TensorDict({"a": torch.ones(2), "b": torch.ones(2, dtype=torch.int64)}, [2])
    data.add_(number).mul_(number)
    assert data["b"].tolist() == [(1 + number) * number] * 2


# -- update_ and copy_, which write all tensors with one call ---------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", [torch.ones(3), torch.ones(2, device="meta"), "text"], ids=["another shape", "no data", "no tensor"]
)
@pytest.mark.parametrize("write", ["update_", "copy_"])
def test_nothing_is_written_if_the_last_value_does_not_fit(write: str, wrong: Any) -> None:
    data = TensorDict({"a": torch.zeros(2), "n": {"b": torch.zeros(2), "c": torch.zeros(2)}})
    source = TensorDict({"a": torch.ones(2), "n": {"b": torch.ones(2), "c": wrong}})
    with pytest.raises((RuntimeError, TypeError), match=r"n\.c"):
        getattr(data, write)(source)
    assert all(not leaf.any() for leaf in data.values(True, True))


def test_only_targets_of_values_with_a_history_get_one() -> None:
    data = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2)})
    data.update_({"a": torch.ones(2, requires_grad=True), "b": torch.ones(2)})
    assert (data["a"].requires_grad, data["b"].requires_grad) == (True, False)


def test_copy_ignores_keys_that_the_target_lacks_and_update_raises() -> None:
    data, source = TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.ones(2), "more": torch.ones(2)})
    with pytest.raises(KeyError, match="more"):
        data.update_(source)
    assert not data["a"].any()
    assert data.copy_(source)["a"].all()
    with pytest.raises(KeyError, match="more"):
        source.copy_(data)


def test_values_of_another_dtype_are_cast_as_they_are_written() -> None:
    data = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2, dtype=torch.int64)})
    data.update_({"a": torch.tensor([1, 2]), "b": torch.tensor([1.5, 2.5])})
    assert data["a"].tolist() == [1.0, 2.0]
    assert data["b"].tolist() == [1, 2]
