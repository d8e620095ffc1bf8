"""Operations on a record give a record of its class."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree

import tensorclass as tc
from tensorclass import TensorClass, TensorDict
from tensorclass.td.stores.store_classes import dense_class
from tests.calls import CALLS, INTEGER
from tests.records.classes import Decorated, Inner, Point, Sample, nested, point


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

    with pytest.raises(TypeError, match="expected records of the class Point only; item 1 is a Twin"):
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
