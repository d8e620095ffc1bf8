"""from_tuple and to_tuple."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorDict
from tests.convert.samples import Inner, Pair, Sample, values
from tests.convert.sides import both


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"auto_batch_size": True},
        {"auto_batch_size": True, "batch_dims": 1},
        {"batch_size": [3]},
        {"batch_size": [3], "auto_batch_size": True},
        {"device": "cpu"},
        {"batch_size": [4]},
    ],
    ids=str,
)
def test_the_items_stand_under_their_positions_as_in_the_peer(options: dict[str, Any]) -> None:
    for obj in [(values(3, 4), (values(3, 4, 5), "x")), [values(3, 4), values(3, 4)], Pair(values(3), values(3))]:
        ours, peers = both(lambda m, obj=obj: m.TensorDict.from_tuple(obj, **options))
        assert ours == peers
        ours, peers = both(lambda m, obj=obj: m.from_tuple(obj, **options))
        assert ours == peers


def test_batch_dims_finds_the_batch_size_out() -> None:
    assert TensorDict.from_tuple((values(3, 4), values(3, 4)), batch_dims=1).batch_size == (3,)


@pytest.mark.parametrize("obj", [1, None, {"a": 1}, "ab", TensorDict({"a": 1})], ids=str)
def test_other_objects_are_refused(obj: Any) -> None:
    with pytest.raises(TypeError, match=f"from_tuple: expected a tuple, got a {type(obj).__name__}; from_any takes"):
        TensorDict.from_tuple(obj)


def test_a_record_takes_the_items_in_the_order_of_its_fields() -> None:
    record = Sample.from_tuple((values(2), "b", {"x": values(2)}), batch_size=[2])
    assert (record.label, type(record.inner), record.x.tolist()) == ("b", Inner, [0, 1])
    with pytest.raises(TypeError, match=r"Inner\.from_tuple: expected at most 2 items, \['x', 'tag'\]; got 3"):
        Inner.from_tuple((1, "a", 3))
    with pytest.raises(ValueError, match=r"x: expected Tensor, got nothing"):
        Sample.from_tuple(())


# -- and back ---------------------------------------------------------------------------------------------------------

dtypes = st.sampled_from([torch.float32, torch.int64, torch.bool, torch.complex64])
leaves = st.one_of(
    st.builds(lambda dtype: torch.ones(2, 3, dtype=dtype), dtypes), st.text("xy", max_size=2), st.none(), st.just({1})
)
Untyped = collections.namedtuple("Untyped", "a b")
trees = st.recursive(leaves, lambda below: st.lists(below, max_size=12).map(tuple), max_leaves=20)
named = st.recursive(leaves, lambda below: st.builds(Untyped, below, below), max_leaves=8)


def assert_same(source: Any, back: Any) -> None:
    if isinstance(source, tuple):
        assert type(back) is tuple
        for one, other in zip(source, back, strict=True):
            assert_same(one, other)
    elif isinstance(source, Tensor):
        assert back is source  # tensors are not copied
    else:
        assert back == source


@given(source=st.lists(trees, max_size=12).map(tuple))
def test_a_tuple_comes_back_whatever_is_in_it(source: tuple[Any, ...]) -> None:
    assert_same(source, TensorDict.from_tuple(source).to_tuple())
    assert_same(source, TensorDict.from_any(source).to_tuple())
    batched = TensorDict.from_tuple(source, batch_size=[2])
    assert batched.batch_size == (2,)
    assert_same(source, batched.to_tuple())


@given(source=st.builds(Untyped, named, named))
def test_named_tuples_of_collections_come_back_as_tuples(source: Any) -> None:
    assert_same(source, TensorDict.from_namedtuple(source).to_tuple())
    assert_same(source, TensorDict.from_any(source).to_tuple())


@given(label=st.text("xy", max_size=2), inner=st.none() | st.builds(lambda: Inner(values(2, 3), batch_size=[2])))
def test_a_record_comes_back(label: str, inner: Inner | None) -> None:
    record = Sample(values(2, 3), label, inner, (1, "a"), batch_size=[2])
    items = record.to_tuple()
    assert items[0] is record.x
    assert items[1:] == (label, None if inner is None else (inner.x, None), (1, "a"))
    again = Sample.from_tuple((*items[:2], inner, items[3]), batch_size=[2])
    assert (again.label, again.pair, again.inner is inner) == (label, (1, "a"), True)


def test_keys_that_are_positions_say_where_values_stand() -> None:
    assert TensorDict({"10": "c", "2": "b", "0": "a"}).to_tuple() == ("a", "b", "c")
    assert TensorDict({"b": "first", "a": "second", "0": "third"}).to_tuple() == ("first", "second", "third")


def test_rows_of_a_lazy_stack_are_joined_in_the_tuple() -> None:
    rows = tc.lazy_stack([TensorDict.from_tuple((float(row), (f"text {row}",))) for row in range(2)])
    assert rows.to_tuple()[0].tolist() == [0, 1]
    assert tc.to_tuple(rows)[1] == (["text 0", "text 1"],)
