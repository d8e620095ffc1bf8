"""A class that is defined and dropped is freed once it is forgotten."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import cloudpickle
import optree
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from tensorclass import NonTensorData, TensorClass, TensorDict, TypedTensorDict, lazy_stack, tensorclass
from tensorclass.td.pytree import forget_class

Made = tuple[Any, list[type[Any]]]


def plain() -> Made:
    class Sample(TensorClass):
        x: Tensor

    return Sample(torch.zeros(2), batch_size=[2]), [Sample]


def decorated() -> Made:
    @tensorclass
    class Sample:
        x: Tensor
        text: str = "a"

    made: Any = Sample
    return made(torch.zeros(2), batch_size=[2]), [made]


def contracted() -> Made:
    class Sample(TensorClass):
        x: Float[Tensor, "3"]

    return Sample(torch.zeros(2, 3), batch_size=[2]), [Sample]


def typed() -> Made:
    class Sample(TypedTensorDict):
        x: Tensor

    return Sample(x=torch.zeros(2), batch_size=[2]), [Sample]


def nested() -> Made:
    class Inner(TensorClass):
        x: Tensor

    class Outer(TensorClass):
        inner: Inner
        other: Inner | None = None

    Outer.__annotations__.update(inner=Inner, other=Inner | None)
    return Outer(Inner(torch.zeros(2), batch_size=[2]), batch_size=[2]), [Outer, Inner]


def derived() -> Made:
    class Base(TensorClass):
        x: Tensor

    class Sample(Base):
        y: Tensor | None = None

    return Sample(torch.zeros(2), batch_size=[2]), [Base, Sample]


CLASSES: dict[str, Callable[[], Made]] = {f.__name__: f for f in (plain, decorated, contracted, typed, nested, derived)}


def use(data: Any) -> None:
    torch.stack([data, data])
    stack = lazy_stack([data, data])
    repr((data, stack, stack[0], data[0]))
    tree_map(lambda leaf: leaf + 1, data)
    optree.tree_map(lambda leaf: leaf + 1, data)  # type: ignore[arg-type, call-overload, unused-ignore]
    torch.vmap(lambda row: row)(data)
    data.get_sub_tensordict(0)
    data.state_dict()
    cloudpickle.loads(cloudpickle.dumps(data))


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
@pytest.mark.parametrize("make", CLASSES.values(), ids=CLASSES)
def test_a_class_that_is_forgotten_is_freed(make: Callable[[], Made], used: bool) -> None:
    def define() -> list[weakref.ref[type[Any]]]:
        data, classes = make()
        if used:
            use(data)
        for cls in classes:
            forget_class(cls)
        return [weakref.ref(cls) for cls in classes]

    refs = define()
    gc.collect()
    assert [ref() for ref in refs] == [None] * len(refs)


def test_records_of_a_class_that_is_forgotten_are_leaves() -> None:
    data, (cls,) = plain()
    forget_class(cls)
    forget_class(cls)
    assert tree_leaves(data) == [data]
    assert (data + 1).x.tolist() == [1, 1]
    assert torch.stack([data, data]).batch_size == (2, 2)
    assert lazy_stack([data, data])[1].x.tolist() == [0, 0]


def test_the_class_that_took_its_name_stays_what_it_is() -> None:
    first, (old,) = plain()
    second, _ = plain()
    forget_class(old)
    assert len(tree_leaves(second)) == 1
    assert isinstance(tree_leaves(second)[0], Tensor)
    assert tree_leaves(first) == [first]


@pytest.mark.parametrize("cls", [TensorDict, TensorClass, NonTensorData, dict, "Sample"])
def test_other_classes_are_not_forgotten(cls: Any) -> None:
    with pytest.raises(TypeError, match="forget_class: "):
        forget_class(cls)
    assert len(tree_leaves(TensorDict(x=torch.zeros(2), y=torch.zeros(2)))) == 2
