"""A class that is defined and dropped is freed once it is forgotten."""

from __future__ import annotations

import gc
import io
import weakref
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import cloudpickle
import optree
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils import _pytree
from torch.utils._pytree import tree_leaves, tree_map

from tensorclass import NonTensorData, TensorClass, TensorDict, TypedTensorDict, lazy_stack, tensorclass
from tensorclass.td import pytree, safe_unpickling
from tensorclass.td.pytree import forget_class
from tests import fresh_python

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


def registry_sizes() -> dict[str, int]:
    """Number of entries in every registry that keeps classes."""
    torch_registry: Any = _pytree
    optree_registry: Any = optree.registry
    reducers: dict[type, Any] = getattr(ForkingPickler, "_extra_reducers", {})
    return {
        "nodes": len(torch_registry.SUPPORTED_NODES),
        "serialized types": len(torch_registry.SUPPORTED_SERIALIZED_TYPES),
        "serialized names": len(torch_registry.SERIALIZED_TYPE_TO_PYTHON_TYPE),
        "pending for optree": len(torch_registry._cxx_pytree_pending_imports),
        "optree": len(optree_registry._NODETYPE_REGISTRY),
        "classes": len(pytree.NODE_CLASSES),
        "reducers": len(reducers),
        "allowed in files": len(safe_unpickling._NAMED),
    }


@pytest.mark.parametrize("make", CLASSES.values(), ids=CLASSES)
def test_repeated_loads_with_cloudpickle_do_not_grow_the_registries(make: Callable[[], Made]) -> None:
    data, _ = make()
    stack = lazy_stack([data, data])
    sent = cloudpickle.dumps((data, stack))
    cloudpickle.loads(sent)
    before = registry_sizes()
    for _ in range(100):
        cloudpickle.loads(sent)
    assert registry_sizes() == before


SENDER = """
import sys, cloudpickle, torch
from torch import Tensor
from tensorclass import Column, Ragged, TensorClass, Text, TypedTensorDict, lazy_stack

def make():
    class Sample(TensorClass):
        x: Tensor
    class Typed(TypedTensorDict):
        x: Tensor
    class Prompt(Text): pass
    class Tokens(Ragged): pass
    class Tags(Column[int]): pass
    columns = Prompt(["a", None]), Tokens([[1], [2, 3]]), Tags([1, 2])
    return Sample(torch.zeros(2), batch_size=[2]), Typed(x=torch.zeros(2), batch_size=[2]), columns

data, typed, columns = make()
sys.stdout.buffer.write(cloudpickle.dumps(((data, typed, lazy_stack([data, data])), columns)))
"""


def test_a_class_of_another_process_is_registered_once() -> None:
    sent = fresh_python.run(["-c", SENDER], check=True, text=False).stdout
    loaded, _ = cloudpickle.loads(sent)
    before = registry_sizes()
    again, columns = [cloudpickle.loads(sent) for _ in range(100)][-1]
    assert registry_sizes() == before
    for column, rows in zip(columns, (["a", None], [[1], [2, 3]], [1, 2]), strict=True):
        mapped = tree_map(torch.clone, column)
        assert (type(mapped), mapped.tolist()) == (type(column), rows)
    for first, second in zip(loaded, again, strict=True):
        assert type(first) is type(second)
        made_as = getattr(type(second), "_dense", type(second))
        assert not tree_leaves(second)[0].any()
        assert type(tree_map(lambda leaf: leaf + 1, second)) is made_as
        assert type(optree.tree_map(lambda leaf: leaf + 1, second)) is made_as


class Taken(TensorClass):
    x: Tensor


def test_a_loaded_class_does_not_take_the_name_of_another_one() -> None:
    def other() -> Any:
        class Taken(TensorClass):
            y: Tensor

        return Taken(torch.zeros(2), batch_size=[2])

    file = io.BytesIO()
    torch.save(Taken(torch.zeros(2), batch_size=[2]), file)
    file.seek(0)
    loaded = cloudpickle.loads(cloudpickle.dumps(other()))
    assert loaded.y.tolist() == [0, 0]
    assert type(torch.load(file, weights_only=True)) is Taken
