"""Copies of inherited members: what the MRO gives, after replacements too; compiled functions need fewer guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorCollection, TensorDict
from tensorclass.td.collection import Collection
from tensorclass.td.indexing import Indexing
from tensorclass.td.inherited_members import defined_members, replace_member
from tensorclass.td.leaves.leaf import FullLeaf, Leaf
from tensorclass.td.shape_operations import Shaping


class Point(TensorClass):
    position: Tensor
    weight: Tensor


@pytest.fixture
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("cls", [TensorCollection, TensorClass, Leaf, FullLeaf])
def test_a_copy_is_the_member_that_the_class_inherits(cls: type) -> None:
    inherited: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        inherited.update(defined_members(base))
    assert len(inherited) > 100
    for name, member in inherited.items():
        if hasattr(member, "__get__") and name not in ("__weakref__", "__init_subclass__"):
            assert vars(cls)[name] is member, name


def test_slots_are_copied() -> None:
    for name in ("_batch_size", "_device", "_lock", "_names", "_store"):
        assert vars(TensorClass)[name] is vars(TensorCollection)[name] is vars(Collection)[name]


def test_defined_members_are_those_of_the_class_itself() -> None:
    assert "__getitem__" in defined_members(Indexing)
    assert "__getitem__" in vars(TensorCollection)
    assert "__getitem__" not in defined_members(TensorCollection)
    assert "get_sub_tensordict" in defined_members(TensorCollection)


def test_a_replaced_member_is_replaced_in_all_classes() -> None:
    before = vars(Indexing)["__getitem__"]
    try:
        replace_member(Indexing, "__getitem__", lambda self, index: "replaced")
        assert Point(torch.zeros(2, 3), torch.zeros(2), batch_size=[2])[0] == "replaced"
        assert TensorDict({}, [2])[0] == "replaced"
    finally:
        replace_member(Indexing, "__getitem__", before)
    assert TensorDict({}, [2])[0].batch_size == ()
    assert vars(TensorClass)["__getitem__"] is before


@pytest.mark.usefixtures("_fresh")
def test_a_compiled_function_has_no_guards_of_the_classes_of_methods() -> None:
    guards: Counter[str] = Counter()
    absent_from: set[str] = set()

    def count(entries: Any) -> list[bool]:
        guards.update(entry.guard_type for entry in entries)
        absent_from.update(entry.name for entry in entries if entry.guard_type == "DICT_NOT_CONTAINS")
        return [True] * len(entries)

    point = Point(torch.rand(4, 3), torch.rand(4), batch_size=[4])
    compiled = torch.compile(
        lambda point: (point * 2).reshape(2, 2)[0].replace(weight=torch.zeros(2)),
        backend="eager",
        fullgraph=True,
        options={"guard_filter_fn": count},
    )
    assert compiled(point).position.shape == (2, 3)
    assert guards["TENSOR_MATCH"] == 2
    # torch 2.15 has guards that the record's own class does not override them, and no earlier one has any
    assert absent_from <= {f"dict({kind}.__dict__)" for kind in ("type(point)", "point.__class__")}


def test_a_replaced_method_is_called_for_nested_collections_with_native_code_too() -> None:
    def reshape(self: Any, *shape: Any) -> Any:
        called.append(list(self.keys()))
        return before(self, *shape)

    called: list[list[str]] = []
    data = TensorDict({"a": torch.zeros(4), "inner": {"c": torch.zeros(4)}}, [4])
    before: Any = Shaping.reshape
    replace_member(Shaping, "reshape", reshape)
    try:
        data.reshape(2, 2)
        assert called == [["a", "inner"], ["c"]]
    finally:
        replace_member(Shaping, "reshape", before)
    assert Shaping.reshape is before
    assert TensorDict._NATIVE
