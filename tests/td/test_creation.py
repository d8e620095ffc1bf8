"""New values in the form of existing ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import NonTensorStack, TensorClass, TensorDict
from tests.checks import assert_consistent, shares_memory
from tests.samples import Unchanged, mixed, nested

LIKE: dict[str, tuple[Any, ...]] = {
    "zeros_like": (),
    "ones_like": (),
    "empty_like": (),
    "full_like": (5,),
    "rand_like": (),
    "randn_like": (),
    "randint_like": (10,),
}
#: the number that fills the result
FILL = {"zeros_like": 0, "ones_like": 1, "full_like": 5, "new_zeros": 0, "new_ones": 1, "new_full": 5}

like = pytest.mark.parametrize("name", LIKE)


def call(name: str, data: TensorDict, **kwargs: Any) -> TensorDict:
    result: TensorDict = getattr(torch, name)(data, *LIKE[name], **kwargs)
    return result


@like
def test_a_like_function_keeps_structure_shapes_and_dtypes(name: str) -> None:
    data = nested(names=["row"])
    with Unchanged(data):
        result = call(name, data)
    assert list(result.keys(True)) == list(data.keys(True))
    assert (result.batch_size, result.names, result.device) == (data.batch_size, data.names, data.device)
    assert_consistent(result)
    for key, leaf in data.items(True, True):
        assert (result[key].shape, result[key].dtype) == (leaf.shape, leaf.dtype)
        assert not shares_memory(result[key], leaf)
        if name in FILL:
            assert bool((result[key] == FILL[name]).all())


@like
def test_a_like_function_takes_a_dtype(name: str) -> None:
    assert {leaf.dtype for leaf in call(name, nested(), dtype=torch.float64).values(True, True)} == {torch.float64}


@like
def test_a_like_function_takes_a_device_which_becomes_that_of_every_level(name: str) -> None:
    result = call(name, nested(device="cpu"), device="meta")
    assert result.device == torch.device("meta")
    assert_consistent(result)
    assert call(name, nested(), device="cpu").device == torch.device("cpu")


@like
def test_a_like_function_takes_requires_grad(name: str) -> None:
    result = call(name, nested(), requires_grad=True)
    assert all(leaf.requires_grad for leaf in result.values(True, True))


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "empty_like", "full_like"])
def test_a_like_function_keeps_objects(name: str) -> None:
    data = mixed()
    result = call(name, data)
    assert (result["text"], result["labels"], result["nest", "none"]) == ("hello", ["p", "q", "r"], None)
    assert {key: leaf.dtype for key, leaf in result.items(True, True)} == {
        key: leaf.dtype for key, leaf in data.items(True, True)
    }


@pytest.mark.parametrize("name", ["rand_like", "randn_like"])
def test_random_numbers_are_those_that_torch_draws(name: str) -> None:
    data = nested()
    torch.manual_seed(0)
    result = call(name, data)
    torch.manual_seed(0)
    for key, leaf in data.items(True, True):
        assert torch.equal(result[key], getattr(torch, name)(leaf))


def test_random_integers_lie_between_the_bounds() -> None:
    data = nested().expand(50, 3)
    values = torch.randint_like(data, 3, 5)["a"]
    assert set(values.unique().tolist()) == {3, 4}


# -- new_* ------------------------------------------------------------------------------------------------------------

NEW: dict[str, Callable[..., TensorDict]] = {
    "new_zeros": lambda data, size, **kwargs: data.new_zeros(size, **kwargs),
    "new_ones": lambda data, size, **kwargs: data.new_ones(size, **kwargs),
    "new_empty": lambda data, size, **kwargs: data.new_empty(size, **kwargs),
    "new_full": lambda data, size, **kwargs: data.new_full(size, 5, **kwargs),
}
new = pytest.mark.parametrize("name", NEW)


@pytest.mark.parametrize("size", [(), (4,), (4, 1), (0,), 6], ids=str)
@new
def test_new_values_have_another_batch_size(name: str, size: Any) -> None:
    data = nested()
    shape = (size,) if isinstance(size, int) else size
    with Unchanged(data):
        result = NEW[name](data, size)
    assert result.batch_size == shape
    assert result["b", "inner"].batch_size == (*shape, 2)
    assert list(result.keys(True)) == list(data.keys(True))
    assert_consistent(result)
    for key, leaf in data.items(True, True):
        assert (result[key].shape, result[key].dtype) == ((*shape, *leaf.shape[1:]), leaf.dtype)
        if name in FILL:
            assert bool((result[key] == FILL[name]).all())


@pytest.mark.parametrize("name", ["new_zeros", "new_ones", "new_empty"])
def test_the_size_is_given_as_ints_or_as_a_sequence(name: str) -> None:
    for args in ((2, 3), ([2, 3],), ((2, 3),), (torch.Size([2, 3]),)):
        assert getattr(nested(), name)(*args).batch_size == (2, 3)
    assert getattr(nested(), name)().batch_size == ()


@new
def test_new_values_take_dtype_device_and_requires_grad(name: str) -> None:
    result = NEW[name](nested(), (4,), dtype=torch.float64, device="meta", requires_grad=True)
    assert result.device == torch.device("meta")
    assert_consistent(result)
    for leaf in result.values(True, True):
        assert leaf.dtype == torch.float64
        assert leaf.is_meta
        assert leaf.requires_grad


@new
def test_new_values_are_on_the_device_of_the_collection(name: str) -> None:
    assert NEW[name](nested(device="meta"), (4,)).device == torch.device("meta")
    assert NEW[name](nested(), (4,)).device is None


@new
def test_new_values_have_no_dimension_names(name: str) -> None:
    assert NEW[name](nested(names=["row"]), (4,)).names == [None]


@new
def test_an_object_for_the_batch_is_kept_and_several_become_none(name: str) -> None:
    result = NEW[name](mixed(), (4,))
    assert result["text"] == "hello"
    assert result["labels"] is None
    assert result.get("text").batch_size == (4,)


def test_new_tensor_copies_a_collection_in_the_dtypes_of_this_one() -> None:
    data, values = nested(), (nested() * 10).to(torch.int64)[:2]
    result = data.new_tensor(values)
    assert result.batch_size == (2,)
    for key, leaf in values.items(True, True):
        assert result[key].dtype == torch.float32
        assert torch.equal(result[key], leaf.float())
        assert not shares_memory(result[key], leaf)


def test_new_tensor_copies_also_where_the_dtype_is_the_same() -> None:
    data = nested()
    result = data.new_tensor(data, requires_grad=True)
    assert all(leaf.requires_grad for leaf in result.values(True, True))
    assert not any(leaf.requires_grad for leaf in data.values(True, True))
    assert not shares_memory(result["a"], data["a"])


def test_new_tensor_keeps_each_dtype_of_a_nested_collection_and_the_objects_of_the_copied_one() -> None:
    data, values = mixed(), mixed().apply(lambda x: x.double())
    values["text"], values["nest", "none"] = "other", "some"
    result = data.new_tensor(values)
    assert {key: leaf.dtype for key, leaf in result.items(True, True)} == {
        key: leaf.dtype for key, leaf in data.items(True, True)
    }
    assert (result["text"], result["labels"], result["nest", "none"]) == ("other", ["p", "q", "r"], "some")


def test_new_tensor_takes_dtype_and_device() -> None:
    result = nested().new_tensor(nested(), dtype=torch.float64, device="meta")
    assert {(leaf.dtype, leaf.device.type) for leaf in result.values(True, True)} == {(torch.float64, "meta")}


def test_new_tensor_is_pinned_where_that_is_asked_for() -> None:
    data = TensorDict({"n": {"a": torch.zeros(3)}}, [3])
    if torch.cuda.is_available():
        assert data.new_tensor(data, pin_memory=True)["n", "a"].is_pinned()
    else:
        with pytest.raises(RuntimeError):
            data.new_tensor(data, pin_memory=True)


@pytest.mark.parametrize("values", [torch.arange(3), [0, 1, 2]], ids=["tensor", "list"])
def test_new_tensor_of_a_tensor_is_a_copy_for_each_value(values: Any) -> None:
    result = TensorDict({"a": torch.zeros(3), "b": {"c": torch.zeros(3, dtype=torch.int32)}}, [3]).new_tensor(values)
    assert result["a"].tolist() == result["b", "c"].tolist() == [0, 1, 2]
    assert (result["a"].dtype, result["b", "c"].dtype) == (torch.float32, torch.int32)
    assert result.batch_size == (3,)


def test_new_tensor_of_a_tensor_takes_its_batch_size_from_it() -> None:
    result = mixed().new_tensor(torch.ones(5, 2))
    assert result.batch_size == (5,)
    assert_consistent(result)
    assert result["text"] == "hello"


class Record(TensorClass):
    """A record whose class must be kept."""

    x: Tensor
    text: str = "t"


@pytest.mark.parametrize(
    "make", [*[lambda r, n=n: call(n, r) for n in LIKE], *[lambda r, n=n: NEW[n](r, (2,)) for n in NEW]]
)
def test_the_class_of_a_record_is_kept(make: Callable[[Any], Any]) -> None:
    assert type(make(Record(torch.zeros(3), batch_size=[3]))) is Record


def test_like_functions_leave_non_tensor_data_alone_and_raise_for_it_by_itself() -> None:
    labels = NonTensorStack("p", "q")
    assert torch.zeros_like(TensorDict({"x": torch.ones(2), "l": labels}, [2]))["l"] == ["p", "q"]
    with pytest.raises(TypeError, match=r"torch\.zeros_like are not supported for a NonTensorStack"):
        torch.zeros_like(labels)
