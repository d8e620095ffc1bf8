"""The dict interface: reading, writing, removing and choosing keys, nested or not."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import (
    BatchMismatch,
    ContractError,
    NonTensorData,
    NonTensorDataBase,
    NonTensorStack,
    Range,
    TensorClass,
    TensorCollection,
    TensorDict,
    lazy_stack,
)
from tensorclass.td.value_checks import ContainsItself
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal
from tests.samples import Unchanged, mixed, nested


class Record(TensorClass):
    """A record to be nested, or to be called on."""

    x: Tensor
    y: Tensor
    label: str = ""


class Probability(TensorClass):
    """A record whose contract a value can break."""

    p: Annotated[Tensor, Range(0, 1)]


def keys_of(data: TensorCollection) -> list[Any]:
    return list(data.keys(include_nested=True))


def is_tensor(kind: type) -> bool:
    return issubclass(kind, Tensor)


nestings = pytest.mark.parametrize(
    "key", [("nest", "flag"), (("nest", "flag"),), ("nest", ("flag",)), (("nest",), (("flag",),))], ids=repr
)
missing_keys = pytest.mark.parametrize(
    "key", ["z", ("nest", "z"), ("z", "flag"), ("x", "z"), ("text", "z"), ("nest", "flag", "z")], ids=repr
)

# -- reading ----------------------------------------------------------------------------------------------------------


@nestings
def test_every_nesting_of_a_key_reads_the_same_value(key: Any) -> None:
    data = mixed()
    value = data["nest"]["flag"]
    assert data[key] is value
    assert data.get(key) is value
    assert key in data
    assert key in data.keys(include_nested=True)


def test_get_gives_none_or_the_default_for_a_missing_key() -> None:
    data, default = mixed(), object()
    assert data.get("z") is None
    assert data.get("z", default) is default
    assert data.get("z", default=default) is default


@missing_keys
def test_get_of_a_key_that_is_missing_at_any_level_gives_the_default(key: Any) -> None:
    default = object()
    assert mixed().get(key, default) is default


@missing_keys
def test_item_access_to_a_missing_key_is_a_key_error_that_shows_the_key(key: Any) -> None:
    with pytest.raises(KeyError, match=re.escape(repr(key))):
        mixed()[key]


def test_the_key_error_lists_the_keys_of_the_level() -> None:
    with pytest.raises(KeyError, match=r"the keys are \['flag', 'none'\]"):
        mixed()["nest", "z"]


def test_items_give_the_object_and_get_gives_its_holder() -> None:
    data = mixed()
    assert data["text"] == "hello"
    assert data["labels"] == ["p", "q", "r"]
    assert data["nest", "none"] is None
    assert isinstance(data.get("text"), NonTensorData)
    assert isinstance(data.get(("nest", "none")), NonTensorData)


def test_get_non_tensor_gives_the_object_or_the_default() -> None:
    data = mixed()
    assert data.get_non_tensor("text") == "hello"
    assert data.get_non_tensor("x") is data["x"]
    assert data.get_non_tensor("z", 3) == 3
    with pytest.raises(KeyError, match="'z'"):
        data.get_non_tensor("z")


def test_get_at_gives_rows_of_a_value() -> None:
    data = mixed()
    assert torch.equal(data.get_at("x", 1), data["x"][1])
    assert torch.equal(data.get_at(("nest", "flag"), slice(1, 3)), data["nest", "flag"][1:])
    assert data.get_at("nest", 0)["flag"].shape == ()


def test_get_at_of_a_missing_key_gives_the_default() -> None:
    data = mixed()
    assert data.get_at("z", 0) is None
    assert data.get_at(("nest", "z"), 0, 5) == 5


def test_the_shape_and_class_of_an_entry() -> None:
    data = mixed()
    assert data.get_item_shape("x") == (3, 2)
    assert data.get_item_shape("nest") == (3,)
    assert data.entry_class("x") is Tensor
    assert data.entry_class("nest") is TensorDict
    assert data.entry_class(("nest", "none")) is NonTensorData
    assert data.is_non_tensor("text")
    assert not data.is_non_tensor(("nest", "flag"))


@pytest.mark.parametrize("ask", ["get_item_shape", "entry_class", "is_non_tensor", "get_non_tensor"])
@missing_keys
def test_asking_about_a_missing_key_is_a_key_error(ask: str, key: Any) -> None:
    with pytest.raises(KeyError):
        getattr(mixed(), ask)(key)


@pytest.mark.parametrize("key", [3, None, 1.5, b"a"], ids=repr)
def test_what_is_no_key_is_a_type_error(key: Any) -> None:
    data = mixed()
    for ask in (data.get, data.pop, data.get_item_shape, lambda k: data.set(k, 1), lambda k: k in data):
        with pytest.raises(TypeError, match="string"):
            ask(key)


# -- walking ----------------------------------------------------------------------------------------------------------


def test_keys_are_those_of_the_first_level_in_the_order_of_writing() -> None:
    data = mixed()
    assert list(data.keys()) == ["x", "n", "text", "labels", "nest"]
    data["x"] = data["x"] + 1
    data["a"] = data["n"]
    assert list(data.keys()) == ["x", "n", "text", "labels", "nest", "a"]


def test_nested_keys_come_behind_the_collection_that_holds_them() -> None:
    assert keys_of(nested()) == ["a", "b", ("b", "c"), ("b", "inner"), ("b", "inner", "d"), "empty"]


def test_leaves_are_tensors_at_all_levels() -> None:
    assert list(nested().keys(True, True)) == ["a", ("b", "c"), ("b", "inner", "d")]
    assert list(mixed().keys(True, True)) == ["x", "n", ("nest", "flag")]


def test_leaves_of_the_first_level_only() -> None:
    assert list(mixed().keys(leaves_only=True)) == ["x", "n"]


def test_sorted_keys_are_sorted_at_every_level() -> None:
    data = TensorDict({"z": 1, "b": {"y": 1, "a": {"q": 1, "p": 1}}, "a": 1})
    assert list(data.keys(sort=True)) == ["a", "b", "z"] == data.sorted_keys
    assert list(data.keys(True, True, sort=True)) == ["a", ("b", "a", "p"), ("b", "a", "q"), ("b", "y"), "z"]


def test_is_leaf_says_what_a_leaf_is() -> None:
    data = mixed()
    no_tree = lambda kind: not issubclass(kind, TensorDict)
    assert list(data.keys(True, True, is_leaf=no_tree)) == [
        "x",
        "n",
        "text",
        "labels",
        ("nest", "flag"),
        ("nest", "none"),
    ]
    objects = lambda kind: issubclass(kind, NonTensorDataBase)
    assert list(data.keys(True, True, is_leaf=objects)) == ["text", "labels", ("nest", "none")]


def test_nothing_below_a_leaf_is_visited() -> None:
    everything = lambda kind: True
    assert list(nested().keys(True, True, is_leaf=everything)) == ["a", "b", "empty"]
    assert list(nested().keys(True, is_leaf=everything)) == ["a", "b", "empty"]


options = st.fixed_dictionaries(
    {
        "include_nested": st.booleans(),
        "leaves_only": st.booleans(),
        "sort": st.booleans(),
        "is_leaf": st.sampled_from([None, is_tensor, lambda kind: issubclass(kind, TensorDict)]),
    }
)


@given(draw.trees(), options)
def test_keys_values_and_items_agree(tree: draw.Tree, options: dict[str, Any]) -> None:
    data = tree.build((2,))
    keys, items = list(data.keys(**options)), list(data.items(**options))
    assert [key for key, _ in items] == keys
    assert len(data.keys(**options)) == len(keys)
    values = list(data.values(**options))
    assert all(value is item for value, (_, item) in zip(values, items, strict=True))
    assert all(data.get(key) is value for key, value in items)
    assert all(key in data.keys(**options) for key in keys)


@given(draw.trees())
def test_sorting_changes_the_order_only(tree: draw.Tree) -> None:
    data = tree.build((2,))
    assert sorted(data.keys(True), key=repr) == sorted(data.keys(True, sort=True), key=repr)


@given(draw.trees())
def test_the_tensors_among_all_values_are_the_leaves(tree: draw.Tree) -> None:
    data = tree.build((2,))
    tensors = [value for value in data.values(True) if isinstance(value, Tensor)]
    leaves = list(data.values(True, True))
    assert len(tensors) == tree.count()
    assert all(a is b for a, b in zip(tensors, leaves, strict=True))


def test_a_nested_key_is_not_among_the_keys_of_the_first_level() -> None:
    data = nested()
    assert not data.keys().__contains__(("b", "c"))
    assert ("b", "c") in data.keys(True)
    assert ("b",) in data.keys(True)
    assert data.keys().__contains__(("b",))


def test_a_collection_is_not_among_the_leaves() -> None:
    assert "b" not in nested().keys(True, True)
    assert "text" not in mixed().keys(True, True)


@missing_keys
def test_a_missing_key_is_not_contained(key: Any) -> None:
    data = mixed()
    assert key not in data
    assert key not in data.keys(True)


def test_keys_can_be_compared_and_combined_as_sets() -> None:
    data = TensorDict({"a": 1, "b": {"c": 2}})
    assert data.keys() == {"a", "b"}
    assert data.keys() - {"a"} == {"b"}
    assert data.keys() | {"d"} == {"a", "b", "d"}
    assert data.keys(True, True) == {"a", ("b", "c")}
    assert data.keys().isdisjoint({"d"})


def test_keys_follow_the_collection() -> None:
    data = TensorDict({"a": 1})
    keys = data.keys()
    data["b"] = 2
    assert list(keys) == ["a", "b"]


def test_keys_show_themselves() -> None:
    assert "['a']" in repr(TensorDict({"a": 1}).keys())


def test_a_collection_of_empty_collections_is_empty() -> None:
    assert TensorDict().is_empty()
    assert TensorDict({"a": {"b": {}}}).is_empty()
    assert not TensorDict({"a": {"b": {"c": 1}}}).is_empty()
    assert not TensorDict({"a": "text"}).is_empty()


# -- writing ----------------------------------------------------------------------------------------------------------


@nestings
def test_every_nesting_of_a_key_writes_the_same_entry(key: Any) -> None:
    for write in (lambda data, value: data.set(key, value), lambda data, value: data.__setitem__(key, value)):
        data, value = mixed(), torch.ones(3)
        write(data, value)
        assert data["nest"]["flag"] is value


def test_set_gives_the_collection() -> None:
    data = mixed()
    assert data.set("x", torch.zeros(3)) is data
    assert data.set_("x", torch.ones(3)) is data


def test_set_makes_the_levels_between() -> None:
    data = TensorDict({}, [3], device="cpu", names=["row"]).set(("p", ("q", "r")), torch.zeros(3))
    assert keys_of(data) == ["p", ("p", "q"), ("p", "q", "r")]
    assert_consistent(data)


def test_set_makes_the_levels_between_in_the_batch_size_of_the_parent() -> None:
    data = nested().set(("b", "inner", "p", "q"), torch.zeros(3, 2, 5))
    assert data["b", "inner", "p"].batch_size == (3, 2)


def test_an_empty_level_is_written_into() -> None:
    data = nested()
    empty = data["empty"]
    data["empty", "q"] = torch.zeros(3)
    assert data["empty"] is empty


@pytest.mark.parametrize("leaf", ["x", "text"])
def test_a_key_below_a_leaf_cannot_be_set(leaf: str) -> None:
    data = mixed()
    for write in (
        lambda: data.set((leaf, "z"), 1),
        lambda: data.set((leaf, "z", "y"), 1),
        lambda: data.create_nested((leaf, "z")),
        lambda: data.update({(leaf, "z"): 1}),
        lambda: data.set_non_tensor((leaf, "z"), 1),
    ):
        with Unchanged(data), pytest.raises(KeyError, match=f"{leaf} is a leaf"):
            write()


def test_set_inplace_writes_into_the_value_that_is_there() -> None:
    data = nested()
    value = data["b", "c"]
    data.set(("b", "c"), torch.ones(3), inplace=True)
    assert data["b", "c"] is value
    assert value.tolist() == [1, 1, 1]


def test_set_inplace_of_a_new_key_stores_the_value() -> None:
    value = torch.ones(3)
    assert nested().set("z", value, inplace=True)["z"] is value


def test_set_refuses_other_arguments() -> None:
    with pytest.raises(TypeError, match="in_place"):
        nested().set("a", 1, in_place=True)


@pytest.mark.parametrize("key", ["a", ("b", "inner", "d")], ids=repr)
def test_set_underscore_writes_into_the_tensor(key: Any) -> None:
    data = nested()
    tensor = data[key]
    data.set_(key, torch.zeros_like(tensor))
    assert data[key] is tensor
    assert not tensor.any()


def test_set_underscore_broadcasts_behind_the_batch() -> None:
    data = nested().set_("a", torch.tensor([[1.0], [2.0], [3.0]]))
    assert data["a"].tolist() == [[1, 1], [2, 2], [3, 3]]


def test_set_underscore_casts_to_the_dtype_that_is_there() -> None:
    data = mixed().set_("n", torch.tensor([1.5, 2.5, 3.5]))
    assert data["n"].dtype == torch.int64
    assert data["n"].tolist() == [1, 2, 3]


def test_set_underscore_writes_a_collection_value_by_value() -> None:
    data = nested()
    tensor = data["b", "c"]
    data.set_("b", {"c": torch.ones(3)})
    assert data["b", "c"] is tensor
    assert tensor.tolist() == [1, 1, 1]
    assert ("b", "inner", "d") in data


def test_set_underscore_replaces_objects() -> None:
    data = mixed().set_("text", "other").set_("labels", ["s", "t", "u"]).set_(("nest", "none"), "some")
    assert (data["text"], data["labels"], data["nest", "none"]) == ("other", ["s", "t", "u"], "some")


@pytest.mark.parametrize("key", ["z", ("nest", "z"), ("z", "flag")], ids=repr)
def test_set_underscore_of_a_missing_key_is_a_key_error(key: Any) -> None:
    data = mixed()
    with Unchanged(data), pytest.raises(KeyError, match="z"):
        data.set_(key, torch.ones(3))


def test_set_underscore_of_a_shape_that_does_not_fit_names_key_and_shapes() -> None:
    data = nested()
    with Unchanged(data), pytest.raises(RuntimeError, match=r"a: .*expected shape \[3, 2\].*, got \[3, 5\]"):
        data.set_("a", torch.ones(3, 5))
    with (
        Unchanged(data),
        pytest.raises(RuntimeError, match=r"a: .*expected batch dimensions \[3\] in front, got shape \[\]"),
    ):
        data.set_("a", 1)


def test_set_underscore_into_a_leaf_of_the_graph_is_the_error_of_torch() -> None:
    data = nested(requires_grad=True)
    for value in (torch.ones(3, 2), torch.ones(3, 1), [[1, 2], [3, 4], [5, 6]]):
        with Unchanged(data), pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            data.set_("a", value)


def test_set_underscore_of_another_kind_is_a_type_error() -> None:
    data = mixed()
    for key, value in (("x", "text"), ("x", {"a": torch.ones(3)}), ("nest", torch.ones(3)), ("text", torch.ones(3))):
        with Unchanged(data), pytest.raises(TypeError):
            data.set_(key, value)


def test_set_underscore_of_a_collection_with_an_unknown_key_writes_nothing() -> None:
    data = nested()
    with Unchanged(data), pytest.raises(KeyError, match="z"):
        data.set_("b", {"c": torch.ones(3), "z": torch.ones(3)})


@pytest.mark.parametrize("index", [0, slice(2), torch.tensor([0, 2]), torch.tensor([True, False, True])], ids=repr)
def test_set_at_writes_rows_as_the_tensor_does(index: Any) -> None:
    data = nested()
    expected = data["a"].clone()
    expected[index] = 7
    assert data.set_at_("a", 7, index) is data
    assert torch.equal(data["a"], expected)


def test_set_at_takes_an_index_into_the_dimensions_behind_the_batch() -> None:
    data = nested().set_at_("a", torch.ones(3), (slice(None), 1))
    assert data["a"][:, 1].tolist() == [1, 1, 1]


def test_set_at_writes_rows_of_a_nested_collection() -> None:
    data = nested()
    rows = data["b"][1:] * 0
    data.set_at_("b", rows, slice(0, 2))
    assert not data["b", "inner", "d"][:2].any()
    assert data["b", "inner", "d"][2].all()


def test_set_at_of_a_missing_key_is_a_key_error() -> None:
    for key in ("z", ("b", "z")):
        with pytest.raises(KeyError, match="z"):
            nested().set_at_(key, 1, 0)


def test_set_non_tensor_stores_whatever_it_is_given_as_an_object() -> None:
    data = mixed()
    for key in ("p", ("q", "r")):
        for value in (torch.ones(2), 3, [1, 2, 3]):
            data.set_non_tensor(key, value)
            assert data[key] is value
            assert data.get(key).batch_size == (3,)


def test_an_object_that_is_refused_leaves_no_empty_level() -> None:
    data = nested()
    keys = list(data.keys(True))
    with pytest.raises(ContainsItself, match="cannot be, or be below"):
        data.set_non_tensor(("p", "q", "r"), data)
    with pytest.raises(ContainsItself, match="cannot be, or be below"):
        data["b"].set_non_tensor(("p", "q"), data)
    assert list(data.keys(True)) == keys


def test_fill_writes_one_number_into_every_tensor_of_an_entry() -> None:
    data = nested()
    tensor = data["b", "c"]
    assert data.fill_("b", 5) is data
    assert tensor.tolist() == [5, 5, 5]
    assert bool((data["b", "inner", "d"] == 5).all())
    assert not bool((data["a"] == 5).any())
    data.fill_(("b", "c"), 6)
    assert tensor.tolist() == [6, 6, 6]
    with pytest.raises(KeyError, match="z"):
        data.fill_("z", 0)


def test_setdefault_writes_only_what_is_missing() -> None:
    data = TensorDict({"a": 1})
    value = data["a"]
    assert data.setdefault("a", 3) is value
    assert data.setdefault("b", 3) == 3
    assert data.setdefault(("c", "d"), 4) == 4
    assert data["c", "d"] == 4
    assert data.setdefault("text", "t").data == "t"


def test_create_nested_writes_an_empty_collection() -> None:
    data = nested()
    assert data.create_nested(("p", "q")) is data
    assert data["p", "q"].batch_size == (3,)
    data.create_nested("b")
    assert data["b"].is_empty()


@pytest.mark.parametrize("key", ["z", ("z", "y"), ("b", "z"), ("b", "z", "y"), ("b", "c")], ids=repr)
def test_a_value_that_does_not_fit_leaves_nothing_behind(key: Any) -> None:
    data = nested()
    for write in (
        lambda: data.set(key, torch.ones(2)),
        lambda: data.__setitem__(key, torch.ones(2)),
        lambda: data.setdefault(key if key != ("b", "c") else "z", torch.ones(2)),
        lambda: data.update({key: torch.ones(2)}),
        lambda: data.update({"a": torch.ones(3), key: torch.ones(2)}),
        lambda: data.replace({key: torch.ones(2)}),
    ):
        with Unchanged(data), pytest.raises(RuntimeError, match="batch dimension mismatch"):
            write()


# -- update -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [dict, TensorDict], ids=["mapping", "collection"])
def test_update_writes_and_adds(source: Any) -> None:
    data = TensorDict({"a": 1, "b": {"c": 2}})
    assert data.update(source({"a": torch.tensor(3), "d": torch.tensor(4)})) is data
    assert data.to_dict() == {"a": 3, "b": {"c": 2}, "d": 4}


def test_update_stores_the_tensors_of_the_source_themselves() -> None:
    source = {"a": torch.ones(3), "p": {"q": torch.ones(3)}}
    data = nested().update(source)
    assert data["a"] is source["a"]
    assert data["p", "q"] is source["p"]["q"]


@pytest.mark.parametrize(
    "source",
    [{"b": {"d": 3}}, {("b", "d"): 3}, {("b", ("d",)): 3}, TensorDict({"b": {"d": 3}})],
    ids=["mapping", "nested key", "nested nested key", "collection"],
)
def test_update_merges_nested_collections(source: Any) -> None:
    data = TensorDict({"a": 1, "b": {"c": 2}})
    below = data["b"]
    data.update(source)
    assert data["b"] is below
    assert data.to_dict() == {"a": 1, "b": {"c": 2, "d": 3}}


def test_update_replaces_a_leaf_by_a_collection_and_the_other_way_round() -> None:
    data = TensorDict({"a": 1, "b": {"c": 2}, "t": "text"})
    data.update({"a": {"d": 3}, "b": 4, "t": {"e": 5}})
    assert data.to_dict() == {"a": {"d": 3}, "b": 4, "t": {"e": 5}}
    data.update({"a": "text", "b": "other", "t": 6})
    assert data.to_dict() == {"a": "text", "b": "other", "t": 6}


def test_update_takes_entries_by_keyword() -> None:
    assert TensorDict({"a": 1}).update({"b": 2}, c=3).to_dict() == {"a": 1, "b": 2, "c": 3}
    assert TensorDict({"a": 1}).update(a=2).to_dict() == {"a": 2}


def test_update_with_nothing_changes_nothing() -> None:
    data = mixed()
    with Unchanged(data):
        assert data.update() is data
        data.update(None)
        data.update({})
        data.update_(None)
        data.update_({})
        data.update(data)


def test_update_clone_stores_copies() -> None:
    source: Any = {"a": torch.ones(3), "p": {"q": torch.ones(3)}, "t": TensorDict({"u": torch.ones(3)}, [3])}
    for origin in (source, TensorDict(source, [3])):
        data = nested().update(origin, clone=True)
        for key in ("a", ("p", "q"), ("t", "u")):
            assert data[key].tolist() == [1, 1, 1]
            assert data[key] is not TensorDict(source, [3])[key]


def test_update_of_tensors_alone_copies_them_if_asked_to() -> None:
    source = torch.ones(2)
    assert TensorDict({"a": torch.zeros(2)}, [2]).update({"a": source}, clone=True)["a"] is not source
    kept = torch.zeros(2)
    assert TensorDict({"a": kept}, [2]).update({"a": source}, inplace=True)["a"] is kept
    assert kept.tolist() == [1, 1]


@pytest.mark.parametrize("kind", [dict, TensorDict], ids=["mapping", "collection"])
def test_update_in_place_adds_the_keys_that_are_new(kind: Any) -> None:
    data = TensorDict({"a": torch.zeros(())}).update(kind({"a": torch.tensor(1), "new": torch.tensor(2)}), inplace=True)
    assert data.to_dict() == {"a": 1, "new": 2}


def test_a_new_key_that_does_not_fit_leaves_what_update_would_write_in_place() -> None:
    data = TensorDict({"a": torch.zeros(2)}, [2])
    with Unchanged(data), pytest.raises(BatchMismatch, match=r"^new: "):
        data.update({"a": torch.ones(2), "new": torch.ones(5)}, inplace=True)


def test_what_is_no_mapping_is_refused_with_its_class() -> None:
    data: Any = nested()
    for write in (data.update, data.update_, lambda source: data.update_at_(source, 0)):
        with pytest.raises(TypeError, match=r"expected a mapping or a collection to update from, got 3 \(int\)"):
            write(3)


def test_update_inplace_writes_into_the_values_that_are_there() -> None:
    data = nested()
    a, c = data["a"], data["b", "c"]
    data.update({"a": torch.ones(3, 2), "b": {"c": torch.ones(3), "z": torch.ones(3)}}, inplace=True)
    assert data["a"] is a
    assert data["b", "c"] is c
    assert c.tolist() == [1, 1, 1]
    assert ("b", "z") in data


@pytest.mark.parametrize("kind", [dict, TensorDict], ids=["mapping", "collection"])
@pytest.mark.parametrize(
    "wanted, expected",
    [
        ([], {"a": 1, "b": {"c": 2}}),
        (["a"], {"a": -1, "b": {"c": 2}}),
        ([("b", "c")], {"a": 1, "b": {"c": -2}}),
        ([("b", ("d",))], {"a": 1, "b": {"c": 2, "d": -3}}),
        (["b"], {"a": 1, "b": {"c": -2, "d": -3}}),
        (["b", ("b", "c")], {"a": 1, "b": {"c": -2, "d": -3}}),
        ([("e", "f")], {"a": 1, "b": {"c": 2}, "e": {"f": -4}}),
        (["unknown", ("a", "b")], {"a": 1, "b": {"c": 2}}),
    ],
    ids=repr,
)
def test_update_takes_only_the_keys_to_update(kind: Any, wanted: Any, expected: Any) -> None:
    source = kind({"a": -1, "b": {"c": -2, "d": -3}, "e": {"f": -4, "g": -5}})
    data = TensorDict({"a": 1, "b": {"c": 2}}).update(source, keys_to_update=wanted)
    assert data.to_dict() == expected


@pytest.mark.parametrize("kind", [dict, TensorDict], ids=["mapping", "collection"])
@pytest.mark.parametrize("value", [torch.ones(3), "text"], ids=["tensor", "text"])
def test_a_leaf_of_the_source_has_no_keys_below_it_to_update(kind: Any, value: Any) -> None:
    source = kind({"b": value})
    for data in (nested(), nested().exclude("b")):
        with Unchanged(data):
            data.update(source, keys_to_update=[("b", "c")])
            data.update(source, inplace=True, keys_to_update=[("b", "c")])
            data.update_(source, keys_to_update=[("b", "c")])


def test_update_takes_only_the_keys_to_update_of_nested_keys() -> None:
    data = TensorDict({"b": {"c": 2}})
    data.update(
        {("b", "c"): -2, ("b", "d"): -3, ("e", "f"): -4, ("e", "g"): -5}, keys_to_update=[("b", "d"), ("e", "f")]
    )
    assert data.to_dict() == {"b": {"c": 2, "d": -3}, "e": {"f": -4}}


def test_update_with_is_leaf_replaces_where_it_would_merge() -> None:
    data = TensorDict({"b": {"c": 2}}).update({"b": {"d": 3}}, is_leaf=lambda kind: issubclass(kind, dict))
    assert data.to_dict() == {"b": {"d": 3}}
    data.update(TensorDict({"b": {"e": 4}}), is_leaf=lambda kind: issubclass(kind, TensorDict))
    assert data.to_dict() == {"b": {"e": 4}}
    data.update({("b", "f"): 5}, is_leaf=lambda kind: True)
    assert data.to_dict() == {"b": {"e": 4, "f": 5}}


def test_update_can_take_over_the_batch_size_of_the_source() -> None:
    data = nested().select("b")
    data.update(TensorDict({"b": {"c": torch.ones(5), "inner": {"d": torch.ones(5)}}}, [5]), update_batch_size=True)
    assert data.batch_size == data["b"].batch_size == data["b", "inner"].batch_size == (5,)
    assert_consistent(data)


def test_a_new_batch_size_must_fit_what_is_not_updated() -> None:
    source = TensorDict({"a": torch.ones(5), "b": {"c": torch.ones(5)}}, [5])
    for data, wanted, key in (
        (nested(), None, "inner"),
        (nested(), ["a"], "b"),
        (nested().select("a"), [], "a"),
        (nested().select("a", ("b", "c")), ["a", ("b", "d")], "c"),
    ):
        with Unchanged(data), pytest.raises(RuntimeError, match=rf"\[5\] does not fit '{key}'"):
            data.update(source, update_batch_size=True, keys_to_update=wanted)


def test_a_batch_size_comes_from_a_collection_only() -> None:
    data = nested()
    with Unchanged(data), pytest.raises(TypeError, match="a mapping has none"):
        data.update({"a": torch.ones(5)}, update_batch_size=True)


def test_a_failed_update_leaves_every_level_as_it_was() -> None:
    data = nested()
    ones, bad = torch.ones(3), torch.ones(2)
    for source in (
        {"a": ones, "b": {"c": ones, "z": ones}, "p": {"q": ones}, "y": bad},
        {"b": {"inner": {"d": torch.ones(3, 2), "z": torch.ones(3, 2)}, "c": bad}},
        {("b", "inner", "z"): torch.ones(3, 2), ("b", "x", "y"): ones, ("b", "c"): bad},
    ):
        with Unchanged(data), pytest.raises(RuntimeError, match="batch dimension mismatch"):
            data.update(source)
        with Unchanged(data), pytest.raises(RuntimeError, match="batch dimension mismatch"):
            data.update({"a": ones}, b={"c": ones}, y=bad)


def test_an_update_of_a_lazy_stack_names_the_field_that_breaks_its_contract() -> None:
    rows = lazy_stack([Probability(torch.zeros(())), Probability(torch.zeros(()))])
    data = TensorDict({"n": {"rows": rows}})
    with pytest.raises(ContractError, match=r"^n\.rows\.p: "):
        data.update({"n": {"rows": {"p": torch.tensor([0.5, 3.0])}}})
    assert rows["p"].tolist() == [0, 0]


@given(draw.trees(), draw.trees())
def test_update_has_the_keys_of_both_and_the_values_of_the_source(first: draw.Tree, second: draw.Tree) -> None:
    data, source = first.build((2,)), second.build((2,))
    before = list(data.keys(True, True, is_leaf=lambda kind: not issubclass(kind, TensorDict)))
    values = [data.get(key) for key in before]
    try:
        data.update(source)
    except BatchMismatch:  # a collection has a longer batch size than that of the same key in the source
        assert all(data.get(key) is value for key, value in zip(before, values, strict=True))
        return
    assert_consistent(data)
    for key, value in source.items(True, True, is_leaf=lambda kind: not issubclass(kind, TensorDict)):
        found: Any = data.get(key)  # objects take the longer batch size of a collection that was empty
        assert found is value or (isinstance(value, NonTensorData) and found.data == value.data)
    for key in before:
        assert key in data or any(key[: len(k)] == k for k in map(_as_tuple, source.keys(True)))


def _as_tuple(key: Any) -> tuple[str, ...]:
    return key if isinstance(key, tuple) else (key,)


def test_update_underscore_writes_into_the_tensors() -> None:
    for source in (
        {"a": torch.ones(3, 2), "b": {"c": torch.ones(3)}},
        {"a": torch.ones(3, 2), ("b", "c"): torch.ones(3)},
        TensorDict({"a": torch.ones(3, 2), "b": {"c": torch.ones(3)}}, [3]),
    ):
        data = nested()
        a, c = data["a"], data["b", "c"]
        assert data.update_(source) is data
        assert data["a"] is a
        assert a.eq(1).all()
        assert data["b", "c"] is c
        assert c.eq(1).all()
    assert nested().update_(a=torch.ones(3, 2))["a"].eq(1).all()


def test_update_underscore_takes_only_the_keys_to_update() -> None:
    data = nested()
    data.update_({"a": torch.ones(3, 2), "b": {"c": torch.ones(3), "z": torch.ones(3)}}, keys_to_update=[("b", "c")])
    assert data["b", "c"].eq(1).all()
    assert not data["a"].eq(1).any()


@pytest.mark.parametrize("key", ["z", ("b", "z"), ("z", "c"), ("a", "z")], ids=repr)
def test_update_underscore_of_a_missing_key_is_a_key_error_and_writes_nothing(key: Any) -> None:
    data = nested()
    with Unchanged(data), pytest.raises(KeyError, match="z"):
        data.update_({"a": torch.ones(3, 2), key: torch.ones(3)})


@pytest.mark.parametrize("shape", [(3, 5), (2,), (), (3, 2, 5)], ids=str)
def test_writing_in_place_what_does_not_fit_writes_nothing(shape: tuple[int, ...]) -> None:
    data, bad = nested(), torch.ones(shape)
    level = TensorDict({"c": torch.ones(3)}, [3]).copy()
    level.batch_size = []
    level["inner"] = {"d": bad}
    for write in (
        lambda: data.update_({"b": {"c": torch.ones(3)}, "a": bad}),
        lambda: data.update_({("b", "c"): torch.ones(3), "a": bad}),
        lambda: data.update_(level.select("c").set("a", bad), keys_to_update=["a"]),
        lambda: data.update_({"b": level}),
        lambda: data.copy_(TensorDict({"b": level, "a": bad})),
        lambda: data.set_("b", {"c": torch.ones(3), "inner": {"d": bad}}),
    ):
        with Unchanged(data), pytest.raises(RuntimeError, match=r"expected (shape|batch dimensions)"):
            write()


@pytest.mark.parametrize("index", [0, slice(2), torch.tensor([2, 0])], ids=repr)
def test_update_at_writes_rows_of_the_keys_of_the_source(index: Any) -> None:
    data = nested()
    expected = data.clone()
    expected["a"][index] = 0
    expected["b", "c"][index] = 0
    source = data[index].select("a", ("b", "c")) * 0
    assert data.update_at_(source, index) is data
    assert_equal(data, expected)


def test_update_at_takes_a_mapping() -> None:
    data = nested().update_at_({"a": torch.ones(2), "b": {"c": torch.tensor(1.0)}}, 1)
    assert data["a"][1].tolist() == [1, 1]
    assert data["b", "c"][1] == 1


@pytest.mark.parametrize("kind", [dict, TensorDict], ids=["mapping", "collection"])
def test_update_at_takes_only_the_keys_to_update(kind: Any) -> None:
    data = nested()
    expected = data.clone()
    expected["b", "c"][0] = 1
    inner = TensorDict({"d": torch.ones(2, 2)}, [2])
    source = kind({"a": torch.ones(2), "b": {"c": torch.tensor(1.0), "inner": inner}})
    data.update_at_(source, 0, keys_to_update=[("b", "c")])
    assert_equal(data, expected)


def test_update_at_of_a_missing_key_is_a_key_error_and_writes_nothing() -> None:
    data = nested()
    for source in (
        {"a": torch.ones(2), "z": 1},
        {"a": torch.ones(2), "b": {"z": 1}},
        {"a": torch.ones(2), ("b", "z"): 1},
    ):
        with Unchanged(data), pytest.raises(KeyError, match="z"):
            data.update_at_(source, 0)


def test_update_at_of_rows_that_do_not_fit_writes_nothing() -> None:
    data = nested()
    with Unchanged(data), pytest.raises(RuntimeError):
        data.update_at_({"b": {"c": torch.tensor(1.0)}, "a": torch.ones(5)}, 0)


@pytest.mark.parametrize(
    "index",
    [1, np.int64(1), np.int32(-2), np.array(1), torch.tensor(1), torch.tensor(1, dtype=torch.int32)],
    ids=repr,
)
def test_copy_at_takes_a_single_position_in_every_spelling(index: Any) -> None:
    for idx in (index, (index,), (index, ...)):
        data = nested()
        assert data.copy_at_(data[1] * 0 - 1, idx) is data
        assert data["a"].eq(-1).all(1).tolist() == [False, True, False]
        assert data["b", "c"].eq(-1).tolist() == [False, True, False]


@pytest.mark.parametrize("index", [True, np.True_, np.array(True), torch.tensor(1, dtype=torch.uint8)], ids=repr)
def test_copy_at_takes_no_masks(index: Any) -> None:
    data = nested()
    with Unchanged(data), pytest.raises(RuntimeError, match="an index of ints"):
        data.copy_at_(data[None], index)


def test_copy_underscore_writes_all_keys_and_ignores_others() -> None:
    data = nested()
    tensors = list(data.values(True, True))
    source = (nested() * 0).update({"z": torch.ones(3), "b": {"z": torch.ones(3)}})
    assert data.copy_(source) is data
    assert all(a is b for a, b in zip(tensors, data.values(True, True), strict=True))
    assert not any(tensor.any() for tensor in tensors)
    assert "z" not in data


def test_copy_underscore_needs_all_keys() -> None:
    data = nested()
    with Unchanged(data), pytest.raises(KeyError, match=r"lacks the keys \[\('b', 'c'\)\]"):
        data.copy_(nested().exclude(("b", "c")))


# -- removing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["x", ("nest", "flag"), ("nest", ("flag",)), "nest", "text"], ids=repr)
def test_every_way_of_removing_a_key_leaves_the_others(key: Any) -> None:
    for remove in (lambda data: data.del_(key), lambda data: data.__delitem__(key), lambda data: data.pop(key)):
        data = mixed()
        others = [k for k in keys_of(data) if _as_tuple(k)[: len(_flat(key))] != _flat(key)]
        remove(data)
        assert keys_of(data) == others


def _flat(key: Any) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(name for part in key for name in _flat(part))


def test_pop_gives_the_value_as_it_is_stored() -> None:
    data = mixed()
    tensor = data["nest", "flag"]
    assert data.pop(("nest", "flag")) is tensor
    assert isinstance(data.pop("text"), NonTensorData)


@missing_keys
def test_pop_of_a_missing_key_gives_the_default_or_a_key_error(key: Any) -> None:
    data = mixed()
    with Unchanged(data):
        assert data.pop(key, 5) == 5
        assert data.pop(key, None) is None
        with pytest.raises(KeyError):
            data.pop(key)
        with pytest.raises(KeyError):
            data.del_(key)


def test_popitem_removes_the_key_that_was_written_last() -> None:
    data = TensorDict({"a": 1, "b": 2})
    key, value = data.popitem()
    assert (key, int(value)) == ("b", 2)
    assert list(data.keys()) == ["a"]
    data.popitem()
    with pytest.raises(KeyError, match="no keys"):
        data.popitem()


def test_clear_removes_all_keys_and_keeps_the_rest() -> None:
    data = nested(device="cpu", names=["row"])
    assert data.clear() is data
    assert list(data.keys()) == []
    assert (data.batch_size, data.names, data.device) == ((3,), ["row"], torch.device("cpu"))


# -- renaming ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ("a", "z", {"b": {"c": 2, "d": 3}, "z": 1}),
        ("a", "b", {"b": 1}),
        ("a", "a", {"a": 1, "b": {"c": 2, "d": 3}}),
        ("a", ("p", ("q",)), {"b": {"c": 2, "d": 3}, "p": {"q": 1}}),
        ("a", ("b", "c"), {"b": {"c": 1, "d": 3}}),
        (("b", "c"), "z", {"a": 1, "b": {"d": 3}, "z": 2}),
        (("b", "c"), ("b", "z"), {"a": 1, "b": {"d": 3, "z": 2}}),
        ("a", ("a", "q"), {"b": {"c": 2, "d": 3}, "a": {"q": 1}}),
        ("b", ("b", "x"), {"a": 1, "b": {"x": {"c": 2, "d": 3}}}),
        (("b", "c"), "b", {"a": 1, "b": 2}),
        (("b", "c"), ("b", ("c",)), {"a": 1, "b": {"c": 2, "d": 3}}),
    ],
    ids=repr,
)
def test_rename_key_moves_the_value(old: Any, new: Any, expected: Any) -> None:
    data = TensorDict({"a": 1, "b": {"c": 2, "d": 3}})
    value = data[old]
    assert data.rename_key_(old, new) is data
    assert data[new] is value
    assert data.to_dict() == expected


def test_rename_key_safe_refuses_a_name_that_is_taken() -> None:
    data = nested()
    for old, new in (("a", "b"), ("a", ("b", "c")), (("b", "c"), "a"), (("b", "c"), "b")):
        with Unchanged(data), pytest.raises(KeyError, match="exists already"):
            data.rename_key_(old, new, safe=True)
    data.rename_key_("a", "a", safe=True).rename_key_("a", "z", safe=True)
    assert "z" in data


@missing_keys
def test_rename_of_a_missing_key_is_a_key_error(key: Any) -> None:
    data = mixed()
    with Unchanged(data), pytest.raises(KeyError):
        data.rename_key_(key, "new")
    with Unchanged(data), pytest.raises(KeyError):
        data.rename_keys({key: "new"})


@pytest.mark.parametrize(
    "old, new, error",
    [
        ("a", ("b", "c", "z"), KeyError),  # below a leaf
        (("b", "c"), ("b", "inner", "z"), RuntimeError),  # into a longer batch size
        ("a", ("b", "inner"), None),
    ],
)
def test_a_rename_that_fails_changes_nothing(old: Any, new: Any, error: Any) -> None:
    data = nested()
    if error is None:
        data.rename_key_(old, new)
        assert new in data
    else:
        with Unchanged(data), pytest.raises(error):
            data.rename_key_(old, new)


@pytest.mark.parametrize(
    "mapping, expected",
    [
        ({}, {"a": 1, "b": {"c": 2, "d": 3}}),
        ({"a": "z"}, {"b": {"c": 2, "d": 3}, "z": 1}),
        ({"a": "b", "b": "a"}, {"b": 1, "a": {"c": 2, "d": 3}}),
        ({"a": ("b", "c"), ("b", "c"): "a"}, {"b": {"d": 3, "c": 1}, "a": 2}),
        ({"a": "a"}, {"a": 1, "b": {"c": 2, "d": 3}}),
        ({("b", ("c",)): ("p", "q")}, {"a": 1, "b": {"d": 3}, "p": {"q": 2}}),
        ({("b", "c"): "c", ("b", "d"): "b"}, {"a": 1, "c": 2, "b": 3}),
        ({"b": ("b", "b")}, {"a": 1, "b": {"b": {"c": 2, "d": 3}}}),
    ],
    ids=repr,
)
def test_rename_keys_gives_a_new_collection_on_the_same_values(mapping: Any, expected: Any) -> None:
    data = TensorDict({"a": 1, "b": {"c": 2, "d": 3}})
    with Unchanged(data):
        renamed = data.rename_keys(mapping)
    assert renamed.to_dict() == expected
    assert {id(leaf) for leaf in renamed.values(True, True)} == {id(leaf) for leaf in data.values(True, True)}


@pytest.mark.parametrize(
    "mapping",
    [
        {"a": "b"},
        {"a": ("b", "c")},
        {("b", "c"): "b"},
        {"a": "z", "b": "z"},
        {"a": "z", "b": ("z", "y")},
        {"b": "z", ("b", "c"): "y"},
    ],
    ids=repr,
)
def test_rename_keys_refuses_what_would_lose_a_value(mapping: Any) -> None:
    data = TensorDict({"a": 1, "b": {"c": 2, "d": 3}})
    with Unchanged(data), pytest.raises(ValueError, match="rename_keys"):
        data.rename_keys(mapping)


def test_rename_keys_not_strict_leaves_missing_keys_out() -> None:
    assert TensorDict({"a": 1}).rename_keys({"a": "b", "z": "y"}, strict=False).to_dict() == {"b": 1}


# -- choosing ---------------------------------------------------------------------------------------------------------


def test_copy_gives_new_collections_on_the_same_tensors() -> None:
    data = nested(names=["row"])
    for other in (data.copy(), copy.copy(data)):
        assert other is not data
        assert other["b"] is not data["b"]
        assert all(a is b for a, b in zip(other.values(True, True), data.values(True, True), strict=True))
        assert_equal(other, data)


def test_select_gives_the_keys_in_the_order_asked_for() -> None:
    data = mixed()
    with Unchanged(data):
        part = data.select("text", ("nest", ("flag",)), "x")
    assert keys_of(part) == ["text", "nest", ("nest", "flag"), "x"]
    assert part["x"] is data["x"]
    assert part["nest", "flag"] is data["nest", "flag"]


def test_select_keeps_batch_size_device_and_names() -> None:
    part = nested(device="cpu", names=["row"]).select(("b", "inner", "d"))
    assert part["b", "inner"].batch_size == (3, 2)
    assert (part.device, part.names) == (torch.device("cpu"), ["row"])
    assert_consistent(part)


def test_select_of_a_whole_collection_wins_over_parts_of_it() -> None:
    for keys in (("b", ("b", "c")), (("b", "c"), "b")):
        assert keys_of(nested().select(*keys)) == ["b", ("b", "c"), ("b", "inner"), ("b", "inner", "d")]


def test_select_of_nothing_is_empty() -> None:
    assert keys_of(nested().select()) == []


@missing_keys
def test_select_of_a_missing_key_is_a_key_error_unless_not_strict(key: Any) -> None:
    data = mixed()
    with Unchanged(data), pytest.raises(KeyError):
        data.select("n", key)
    with Unchanged(data), pytest.raises(KeyError):
        data.select("n", key, inplace=True)
    left = [k for k in keys_of(data.select("n", key, strict=False)) if k != "nest"]
    assert left == ["n"]


def test_select_inplace_removes_the_others_at_every_level() -> None:
    data = nested()
    below, c = data["b"], data["b", "c"]
    assert data.select(("b", "c"), inplace=True) is data
    assert keys_of(data) == ["b", ("b", "c")]
    assert data["b"] is below
    assert data["b", "c"] is c


def test_exclude_leaves_the_others() -> None:
    data = mixed()
    with Unchanged(data):
        part = data.exclude("x", ("nest", ("none",)), "labels")
    assert keys_of(part) == ["n", "text", "nest", ("nest", "flag")]
    assert part["n"] is data["n"]


@missing_keys
def test_exclude_does_not_mind_missing_keys(key: Any) -> None:
    assert_equal(mixed().exclude(key), mixed())


def test_exclude_keeps_emptied_collections() -> None:
    assert keys_of(nested().exclude(("b", "c"), ("b", "inner"))) == ["a", "b", "empty"]


def test_exclude_inplace_removes_at_every_level() -> None:
    data = nested()
    inner = data["b", "inner"]
    assert data.exclude("a", ("b", "c"), inplace=True) is data
    assert keys_of(data) == ["b", ("b", "inner"), ("b", "inner", "d"), "empty"]
    assert data["b", "inner"] is inner


@given(draw.trees(), st.data())
def test_select_and_exclude_share_out_the_leaves(tree: draw.Tree, data: st.DataObject) -> None:
    whole = tree.build((2,))
    leaves = list(whole.keys(True, True))
    some = data.draw(st.lists(st.sampled_from(leaves), unique=True) if leaves else st.just([]))
    assert set(whole.select(*some).keys(True, True)) == set(some)
    assert set(whole.exclude(*some).keys(True, True)) == set(leaves) - set(some)


def test_split_keys_gives_one_collection_for_each_set_and_one_for_the_rest() -> None:
    data = mixed()
    with Unchanged(data):
        first, second, rest = data.split_keys(["x", "text"], [("nest", "flag")])
    assert keys_of(first) == ["x", "text"]
    assert keys_of(second) == ["nest", ("nest", "flag")]
    assert keys_of(rest) == ["n", "labels", "nest", ("nest", "none")]
    assert second["nest", "flag"] is data["nest", "flag"]


def test_split_keys_drops_emptied_collections_unless_asked_to_keep_them() -> None:
    data = TensorDict({"a": 1, "b": {"c": {"d": 2}}})
    assert keys_of(data.split_keys([("b", "c", "d")])[-1]) == ["a"]
    part, rest = data.split_keys([("b", "c", "d")], reproduce_struct=True)
    assert keys_of(rest) == ["a", "b", ("b", "c")]
    assert keys_of(part) == ["b", ("b", "c"), ("b", "c", "d")]
    assert keys_of(data.split_keys(["a"], reproduce_struct=True)[0]) == ["b", ("b", "c"), "a"]


def test_split_keys_without_sets_gives_a_copy() -> None:
    data = nested()
    (rest,) = data.split_keys()
    assert rest is not data
    assert_equal(rest, data)


def test_split_keys_inplace_takes_the_keys_out() -> None:
    data = nested()
    below = data["b"]
    part, rest = data.split_keys(["a", ("b", "c")], inplace=True)
    assert rest is data
    assert rest["b"] is below
    assert keys_of(data) == ["b", ("b", "inner"), ("b", "inner", "d"), "empty"]
    assert keys_of(part) == ["a", "b", ("b", "c")]


@pytest.mark.parametrize("inplace", [False, True])
def test_split_keys_of_a_key_in_two_sets_is_a_key_error(inplace: bool) -> None:
    data = nested()
    with Unchanged(data), pytest.raises(KeyError, match="'a'"):
        data.split_keys(["a"], ["a"], inplace=inplace)


def test_split_keys_gives_a_key_to_the_first_set_that_has_it() -> None:
    data = nested()
    first, second, rest = data.split_keys([("b", "c"), "b"], ["b", "a", "a"], strict=False)
    assert keys_of(first) == keys_of(data.select("b"))
    assert keys_of(second) == ["a"]
    assert keys_of(rest) == ["empty"]


@pytest.mark.parametrize("inplace", [False, True])
def test_split_keys_of_a_missing_key_is_a_key_error(inplace: bool) -> None:
    data = nested()
    with Unchanged(data), pytest.raises(KeyError, match="'z'"):
        data.split_keys(["a"], ["z"], inplace=inplace)


def test_split_keys_can_leave_missing_keys_out_or_give_them_a_default() -> None:
    data = nested()
    assert keys_of(data.split_keys(["z", "a"], strict=False)[0]) == ["a"]
    assert data.split_keys([("z", "y")], default=torch.ones(3))[0]["z", "y"].tolist() == [1, 1, 1]


class Pair(TensorClass):
    """A record that holds another one."""

    record: Record
    note: str | None = None


def pair() -> Pair:
    return Pair(Record(torch.zeros(2), torch.ones(2), batch_size=[2]), batch_size=[2])


def test_split_keys_gives_nested_records_of_their_class() -> None:
    for data in (pair(), TensorDict({"record": pair().record}, [2])):
        part, rest = data.split_keys([("record", "x")])
        assert keys_of(part) == ["record", ("record", "x")]
        assert type(part["record"]) is type(rest["record"]) is Record
        assert type(data.separates(("record", "y"))["record"]) is Record


def test_a_default_of_split_keys_has_to_fit_the_field() -> None:
    data = pair()
    for key in ("z", ("record", "z")):
        with pytest.raises(AttributeError, match="has no field 'z'"):
            data.separates("record", key, default=None)
    with pytest.raises(TypeError, match="note: expected"):
        data.separates("note", default=1)
    assert keys_of(data) == ["record", ("record", "x"), ("record", "y"), ("record", "label")]
    assert keys_of(data.separates("note", default=None)) == []
    assert data.separates("note", default="new").note == "new"


def test_replace_shares_the_values_but_for_those_given() -> None:
    data = nested()
    value = torch.ones(3)
    with Unchanged(data):
        for other in (
            data.replace({"b": {"c": value}}),
            data.replace(b={"c": value}),
            data.replace({("b", "c"): value}),
        ):
            assert other["b", "c"] is value
            assert other["a"] is data["a"]
            assert other["b", "inner", "d"] is data["b", "inner", "d"]
    with pytest.raises(TypeError, match="2 positional"):
        data.replace({}, {})


def test_empty_keeps_everything_but_the_keys() -> None:
    data = nested(device="cpu", names=["row"]).empty()
    assert keys_of(data) == []
    assert (data.batch_size, data.device, data.names) == ((3,), torch.device("cpu"), ["row"])


def test_empty_recursively_keeps_the_nested_collections() -> None:
    data = nested(names=["row"]).empty(recurse=True)
    assert keys_of(data) == ["b", ("b", "inner"), "empty"]
    assert data["b", "inner"].batch_size == (3, 2)
    assert_consistent(data)


def test_empty_takes_another_batch_size_device_and_names() -> None:
    data = nested(device="cpu").empty(recurse=True, batch_size=[5], device="meta", names=["n"])
    assert (data.batch_size, data.device, data.names) == ((5,), torch.device("meta"), ["n"])
    assert data["b", "inner"].batch_size == (5, 2)
    assert_consistent(data)
    assert nested(device="cpu").empty(device=None).device is None
    assert nested(names=["row"]).empty(names=None).names == [None]
    assert nested(names=["row"]).empty(batch_size=[4, 5]).names == ["row", None]


def test_fromkeys_has_one_value_under_every_key() -> None:
    data = TensorDict.fromkeys(["a", ("b", ("c",))], 1)
    assert data.to_dict() == {"a": 1, "b": {"c": 1}}
    assert data.batch_size == ()
    assert TensorDict.fromkeys(["a"]).to_dict() == {"a": 0}


# -- flat and nested --------------------------------------------------------------------------------------------------


def test_flatten_keys_joins_the_names() -> None:
    data = mixed()
    with Unchanged(data):
        flat = data.flatten_keys("/")
    assert list(flat.keys()) == ["x", "n", "text", "labels", "nest/flag", "nest/none"]
    assert flat["nest/flag"] is data["nest", "flag"]
    assert flat.batch_size == data.batch_size


def test_flatten_keys_joins_with_a_dot_by_default() -> None:
    assert list(nested().flatten_keys().keys()) == ["a", "b.c", "b.inner.d"]


def test_flatten_keys_leaves_what_is_leaf_says_whole() -> None:
    flat = TensorDict({"a": {"b": Record(torch.zeros(()), torch.zeros(())), "c": 1}}).flatten_keys(
        is_leaf=lambda kind: issubclass(kind, Record)
    )
    assert list(flat.keys()) == ["a.b", "a.c"]
    assert isinstance(flat["a.b"], Record)


def test_flatten_keys_inplace_changes_the_collection() -> None:
    data = nested()
    assert data.flatten_keys(inplace=True) is data
    assert list(data.keys()) == ["a", "b.c", "b.inner.d"]


@pytest.mark.parametrize("inplace", [False, True])
def test_flatten_keys_refuses_two_values_for_one_key(inplace: bool) -> None:
    data = TensorDict({"a.b": 1, "a": {"b": 2}})
    with Unchanged(data), pytest.raises(KeyError, match=r"a\.b"):
        data.flatten_keys(inplace=inplace)


def test_unflatten_keys_makes_levels() -> None:
    data = TensorDict({"a.b": torch.zeros(2), "a.c.d": torch.ones(2), "e": "t"}, [2], device="cpu", names=["row"])
    with Unchanged(data):
        deep = data.unflatten_keys()
    assert set(keys_of(deep)) == {"a", ("a", "b"), ("a", "c"), ("a", "c", "d"), "e"}
    assert deep["a", "b"] is data["a.b"]
    assert_consistent(deep)


def test_unflatten_keys_adds_to_a_level_that_is_there_without_touching_the_original() -> None:
    for source in ({"a.b": 1, "a": {"c": 2}}, {"a": {"c": 2}, "a.b": 1}):
        data = TensorDict(source)
        with Unchanged(data):
            assert data.unflatten_keys().to_dict() == {"a": {"b": 1, "c": 2}}


def test_unflatten_keys_leaves_keys_of_nested_collections_alone() -> None:
    assert TensorDict({"x": {"a.b": 1}}).unflatten_keys().to_dict() == {"x": {"a.b": 1}}


def test_unflatten_keys_inplace_changes_the_collection() -> None:
    data = TensorDict({"a_b": 1})
    assert data.unflatten_keys("_", inplace=True) is data
    assert data.to_dict() == {"a": {"b": 1}}


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(
    "source",
    [
        {"z.y": 0, "a.b": 1, "a": 2},
        {"z.y": 0, "a": 2, "a.b": 1},
        {"z.y": 0, "a.b": 1, "a.b.c": 2},
        {"z.y": 0, "a.b.c": 2, "a.b": 1},
        {"z.y": 0, "a.b": 1, "a": {"b": 2}},
        {"z.y": 0, "a": {"b": 2}, "a.b": 1},
        {"z.y": 0, "a": {"b": {"c": 2}}, "a.b": {"c": 1}},
        {"z.y": 0, "a.b": 1, "a": "text"},
    ],
    ids=repr,
)
def test_unflatten_keys_refuses_two_values_for_one_key(source: Any, inplace: bool) -> None:
    data = TensorDict(source)
    with Unchanged(data), pytest.raises(KeyError, match="unflatten_keys"):
        data.unflatten_keys(inplace=inplace)


def without_empty(tree: draw.Tree) -> bool:
    return all(
        not isinstance(e, draw.Tree) or (e.entries and not e.more and without_empty(e)) for e in tree.entries.values()
    )


@given(draw.trees().filter(without_empty), st.sampled_from(["/", "::", "."]))
def test_unflatten_keys_undoes_flatten_keys(tree: draw.Tree, separator: str) -> None:
    data = tree.build((2,))
    assert_equal(data.flatten_keys(separator).unflatten_keys(separator), data)


# -- records ----------------------------------------------------------------------------------------------------------


def record() -> Record:
    return Record(torch.arange(3.0), torch.ones(3, 2), "text", batch_size=[3])


@pytest.mark.parametrize(
    "operation",
    [
        lambda r: r.copy(),
        lambda r: r.select("x"),
        lambda r: r.exclude("x"),
        lambda r: r.replace(x=torch.ones(3)),
        lambda r: r.empty(),
        lambda r: r.update({"x": torch.ones(3)}),
        lambda r: r.update_({"x": torch.ones(3)}),
        lambda r: r.split_keys(["x"])[0],
        lambda r: r.split_keys(["x"])[1],
    ],
)
def test_operations_that_keep_declared_keys_keep_the_class(operation: Callable[[Record], Any]) -> None:
    assert type(operation(record())) is Record


@pytest.mark.parametrize(
    "operation",
    [lambda r: r.flatten_keys(), lambda r: r.unflatten_keys(), lambda r: r.select("x", as_tensordict=True)],
)
def test_operations_that_make_other_keys_give_a_tensordict(operation: Callable[[Record], Any]) -> None:
    assert type(operation(record())) is TensorDict


def test_a_record_refuses_keys_that_are_not_declared_and_stays_as_it_was() -> None:
    data: Any = record()
    for write in (
        lambda: data.set("z", torch.ones(3)),
        lambda: data.update({"x": torch.ones(3), "z": torch.ones(3)}),
        lambda: data.rename_key_("x", "z"),
        lambda: data.rename_key_("x", ("z", "y")),
        lambda: data.create_nested("z"),
    ):
        with Unchanged(data), pytest.raises(AttributeError, match="z"):
            write()


@pytest.mark.parametrize("wrong", [{"b": torch.zeros(4)}, {"b": "text"}, {"new": torch.zeros(2)}], ids=str)
def test_an_update_in_place_that_does_not_fit_writes_nothing(wrong: dict[str, Any]) -> None:
    data = TensorDict({"a": torch.zeros(2), "text": "text", "b": torch.zeros(2)}, [2]).lock_()
    with Unchanged(data), pytest.raises((RuntimeError, TypeError)):
        data.update({"a": torch.ones(2), "text": "other", **wrong}, inplace=True)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("object_", ["text", NonTensorStack("text")])
@pytest.mark.parametrize(
    "write", [lambda d, s: d.update_(s), lambda d, s: d.update(s, inplace=True), lambda d, s: d.update_at_(s, [0])]
)
def test_objects_over_a_nested_collection_are_refused_before_anything_is_written(
    write: Callable[[Any, Any], Any], object_: Any, lazy: bool
) -> None:
    data: Any = TensorDict({"a": torch.zeros(1), "n": TensorDict({}, [1, 1])}, [1])
    data = data.to_lazystack(0) if lazy else data
    with pytest.raises((TypeError, RuntimeError), match=r"^n: cannot write a NonTensor"):
        write(data, TensorDict({"a": torch.ones(1), "n": object_}, [1]))
    assert data["a"].tolist() == [0]
