"""The metadata of a collection: batch size, dimension names, and what it shares with a tensor."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass import NonTensorStack, TensorDict
from tests import strategies as draw
from tests.checks import assert_consistent
from tests.samples import Unchanged, mixed, nested

# -- batch size -------------------------------------------------------------------------------------------------------


def two_levels() -> TensorDict:
    values = {"a": torch.zeros(3, 4, 5), "b": {"c": torch.zeros(3, 4), "d": {"e": torch.zeros(3, 4)}}, "text": "t"}
    return TensorDict(values, [3])


@pytest.mark.parametrize("size", [[3, 4], (3, 4), torch.Size([3, 4])], ids=repr)
@pytest.mark.parametrize("attribute", ["batch_size", "shape"])
def test_a_longer_batch_size_reaches_every_level(attribute: str, size: Any) -> None:
    data = two_levels()
    setattr(data, attribute, size)
    assert isinstance(data.batch_size, torch.Size)
    for part in (data, data["b"], data["b", "d"], data.get("text")):
        assert part.batch_size == (3, 4)
    assert_consistent(data)


def test_a_shorter_batch_size_leaves_nested_collections_as_they_are() -> None:
    data = two_levels()
    data.batch_size = []
    assert data.batch_size == ()
    assert data["b"].batch_size == (3,)
    data.batch_size = 3
    assert data.batch_size == (3,)


@pytest.mark.parametrize(
    "size, key", [([4], "a"), ([3, 5], "a"), ([3, 4, 5], "b.c"), ([3, 4, 5, 6], "a"), ([2], "a")], ids=str
)
def test_a_batch_size_that_does_not_fit_is_refused_and_nothing_is_changed(size: Any, key: str) -> None:
    data = two_levels()
    with Unchanged(data), pytest.raises(RuntimeError, match=f"'{key}', of shape.*Nothing was changed"):
        data.batch_size = size


def test_a_nested_collection_that_does_not_fit_leaves_the_others_unchanged() -> None:
    data = TensorDict({"b": {"c": torch.zeros(3, 4)}, "e": {"f": torch.zeros(3)}}, [3])
    with Unchanged(data), pytest.raises(RuntimeError, match=r"'e\.f'"):
        data.batch_size = [3, 4]


def test_an_object_for_each_row_does_not_take_a_longer_batch_size() -> None:
    data = TensorDict({"x": torch.zeros(2, 3), "labels": NonTensorStack("p", "q")}, [2])
    with Unchanged(data), pytest.raises(RuntimeError, match="labels"):
        data.batch_size = [2, 3]


def test_names_are_cut_or_filled_with_the_batch_size() -> None:
    data = two_levels()
    data.names = ["row"]
    data.batch_size = [3, 4]
    assert data.names == data["b"].names == ["row", None]
    data.names = ["row", "column"]
    data.batch_size = [3]
    assert data.names == ["row"]


def test_the_batch_size_of_an_empty_collection_can_be_anything() -> None:
    data = TensorDict({}, [3])
    data.batch_size = [5, 6]
    assert data.batch_size == (5, 6)


@pytest.mark.parametrize("size", [(), (3,), (2, 0, 4), (1, 1)], ids=str)
def test_sizes_are_asked_for_as_of_a_tensor(size: Any) -> None:
    data, tensor = TensorDict({}, size), torch.empty(size)
    assert data.shape == data.batch_size == data.size() == tensor.shape
    assert data.ndim == data.batch_dims == data.dim() == data.ndimension() == tensor.ndim
    assert data.numel() == max(tensor.numel(), 1 if not size else tensor.numel())
    assert [data.size(dim) for dim in range(-len(size), len(size))] == [*size, *size]
    if size:
        assert len(data) == size[0]
    else:
        with pytest.raises(TypeError, match="has no rows to count or load"):
            len(data)


def test_a_size_out_of_range_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        nested().size(1)


@given(draw.trees(), draw.shapes(0, 2))
def test_the_batch_size_that_all_values_share_is_found(tree: Any, batch_size: Any) -> None:
    data = tree.build(batch_size)
    data.auto_batch_size_()
    assert_consistent(data)
    assert data.batch_size[: len(batch_size)] == batch_size or not any(True for _ in data.values(True, True))


def test_what_has_no_shape_of_its_own_follows() -> None:
    data = TensorDict({"a": torch.zeros(3), "empty": {"more": {}}, "nest": {"text": "t"}, "text": "t"})
    data["wide"] = TensorDict({}, [7])
    data.auto_batch_size_()
    for part in (data, data["empty", "more"], data["nest"], data["wide"], data.get("text"), data.get(("nest", "text"))):
        assert part.batch_size == (3,)


def test_empty_collections_of_another_size_follow_at_every_depth() -> None:
    empty = TensorDict({"b": {"c": TensorDict({}, [1])}})
    data = TensorDict({"a": empty, "x": torch.zeros(2)}).auto_batch_size_()
    assert [data[key].batch_size for key in ("a", ("a", "b"), ("a", "b", "c"))] == [(2,)] * 3


def test_auto_batch_size_of_nothing_changes_nothing() -> None:
    data = TensorDict({"empty": {}, "text": "t"}, [3])
    with Unchanged(data):
        data.auto_batch_size_()


def test_auto_batch_size_stops_at_a_number_of_dimensions() -> None:
    data = two_levels().auto_batch_size_(batch_dims=2)
    assert data.batch_size == data["b"].batch_size == (3, 4)
    assert two_levels().auto_batch_size_(batch_dims=1).batch_size == (3,)
    assert two_levels().auto_batch_size_(batch_dims=0).batch_size == ()


def test_auto_batch_size_can_leave_nested_collections_that_fit() -> None:
    data = nested().auto_batch_size_(keep_compliant_size=True)
    assert data["b", "inner"].batch_size == (3, 2)


# -- names ------------------------------------------------------------------------------------------------------------


@given(draw.trees(), draw.shapes(1, 3), st.data())
def test_names_are_those_of_the_leading_dimensions_at_every_level(tree: Any, batch_size: Any, data: Any) -> None:
    names = data.draw(draw.names(len(batch_size)))
    collection = tree.build(batch_size)
    collection.names = names
    assert collection.names == names
    assert_consistent(collection)
    collection.names = None
    assert collection.names == [None] * len(batch_size)
    assert_consistent(collection)


def test_nested_collections_keep_the_names_of_their_own_dimensions() -> None:
    data = nested()
    data["b", "inner"].names = [None, "column"]
    data.names = ["row"]
    assert data["b", "inner"].names == ["row", "column"]
    data.names = None
    assert data["b", "inner"].names == [None, "column"]


@pytest.mark.parametrize("names", [["a", "b"], [], "a", [1], [["a"]]], ids=repr)
def test_names_that_do_not_fit_are_refused(names: Any) -> None:
    data = nested(names=["row"])
    with Unchanged(data), pytest.raises((ValueError, TypeError), match="names"):
        data.names = names


def test_a_name_stands_for_one_dimension_only() -> None:
    with pytest.raises(ValueError, match="a different name for each dimension"):
        TensorDict({}, [2, 3], names=["a", "a"])
    assert TensorDict({}, [2, 3], names=[None, None]).names == [None, None]


def test_the_list_of_names_is_a_copy() -> None:
    data = nested(names=["row"])
    data.names.append("other")
    assert data.names == ["row"]


def test_refine_names_names_dimensions_that_have_none() -> None:
    make = lambda: TensorDict({}, [2, 3, 4], names=[None, "y", None])
    assert make().refine_names("x", "y", "z").names == ["x", "y", "z"]
    assert make().refine_names(..., "z").names == [None, "y", "z"]
    assert make().refine_names("x", ...).names == ["x", "y", None]
    assert make().refine_names("x", ..., "z").names == ["x", "y", "z"]
    data = make()
    assert data.refine_names(...) is data


@pytest.mark.parametrize("names", [(None, "x", None), ("x", "other", "z"), (..., "y"), (..., "x", ...)], ids=repr)
def test_refine_names_does_not_rename(names: Any) -> None:
    data = TensorDict({}, [2, 3, 4], names=[None, "y", None])
    with Unchanged(data), pytest.raises((RuntimeError, ValueError)):
        data.refine_names(*names)


def test_rename_gives_a_collection_on_the_same_values() -> None:
    data = nested(names=["row"])
    with Unchanged(data):
        renamed = data.rename("other")
        assert data.rename(row="other").names == ["other"]
        assert data.rename(["other"]).names == ["other"]
        assert data.rename(None).names == [None]
    assert renamed.names == ["other"]
    assert renamed["a"] is data["a"]
    assert_consistent(renamed)


def test_rename_in_place() -> None:
    data = nested(names=["row"])
    assert data.rename_(row="other") is data
    assert data.names == data["b"].names == ["other"]
    assert data.rename_("third").names == ["third"]


def test_rename_takes_positions_or_names_not_both_and_known_names_only() -> None:
    data = TensorDict({}, [2, 3], names=["x", None])
    with Unchanged(data):
        with pytest.raises(ValueError, match="not both"):
            data.rename_("a", "b", x="c")
        with pytest.raises(ValueError, match=r"\['z'\]"):
            data.rename_(z="c")
        with pytest.raises(ValueError, match="expected 2"):
            data.rename_("a")


# -- what is no attribute ---------------------------------------------------------------------------------------------


def test_a_collection_takes_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        nested().color = "red"


def test_a_collection_can_be_referred_to_weakly() -> None:
    import weakref

    data = mixed()
    assert weakref.ref(data)() is data
