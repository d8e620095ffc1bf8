"""from_namedtuple and to_namedtuple."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as tc
from tensorclass import TensorDict
from tests.convert.samples import Inner, Pair, Sample, values
from tests.convert.sides import both

Untyped = collections.namedtuple("Untyped", "x y")


class Holder(NamedTuple):
    pair: Pair
    a: Tensor
    b: str = "default"


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
    ],
    ids=str,
)
def test_the_fields_become_keys_as_in_the_peer(options: dict[str, Any]) -> None:
    for obj in [Pair(values(3, 4), Untyped(values(3, 4, 5), "x")), Untyped(values(3), None)]:
        ours, peers = both(lambda m, obj=obj: m.TensorDict.from_namedtuple(obj, **options))
        assert ours == peers
        ours, peers = both(lambda m, obj=obj: m.from_namedtuple(obj, **options))
        assert ours == peers


@pytest.mark.parametrize("obj", [1, None, (1, 2), {"a": 1}, [1]], ids=str)
def test_other_objects_are_refused(obj: Any) -> None:
    with pytest.raises(TypeError, match=f"expected a named tuple, got a {type(obj).__name__}"):
        TensorDict.from_namedtuple(obj)


def test_a_named_tuple_goes_in_and_comes_back() -> None:
    source = Holder(Pair(values(3), "x"), values(3))
    assert TensorDict.from_namedtuple(source).to_namedtuple(Holder) == source
    assert type(TensorDict.from_namedtuple(source).to_namedtuple(Holder).pair) is Pair


@pytest.mark.parity
def test_without_a_class_one_is_made() -> None:
    made = TensorDict({"a": values(2), "n": {"b": "text"}}).to_namedtuple()
    assert (made._fields, made.n) == (("a", "n"), ("text",))
    assert type(made) is type(TensorDict({"a": 1, "n": 2}).to_namedtuple())
    ours, peers = both(
        lambda m: m.TensorDict({"a": values(2), "n": {"b": "text"}}).to_namedtuple()._asdict()["n"]._asdict()
    )
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("keys", [{"b": 1}, {"x": 1, "y": 2, "z": 3}, {}], ids=str)
def test_keys_that_are_not_the_fields_are_an_error_as_in_the_peer(keys: dict[str, Any]) -> None:
    ours, peers = both(lambda m: m.TensorDict(keys).to_namedtuple(Pair))
    assert ours is peers is TypeError
    with pytest.raises(TypeError, match=r"must be the fields \['x', 'y'\] of Pair;"):
        TensorDict(keys).to_namedtuple(Pair)


@pytest.mark.parity
@pytest.mark.parametrize("key", ["a b", "def", "_a", "0"])
def test_keys_that_cannot_be_fields_are_an_error_as_in_the_peer(key: str) -> None:
    ours, peers = both(lambda m: m.TensorDict({key: 1}).to_namedtuple())
    assert ours is peers is ValueError
    with pytest.raises(ValueError, match=r"to_namedtuple: .*rename_key_"):
        TensorDict({key: 1}).to_namedtuple()


def test_defaults_stand_for_keys_that_are_missing() -> None:
    assert TensorDict({"pair": {"x": 1, "y": 2}, "a": 1}).to_namedtuple(Holder).b == "default"


def test_a_record_is_made_of_a_named_tuple_and_becomes_one() -> None:
    fields = collections.namedtuple("fields", "x tag")
    made = Inner.from_namedtuple(fields(values(2), ["a", "b"]), auto_batch_size=True)
    assert (type(made), made[1].tag) == (Inner, "b")
    back = made.to_namedtuple()
    assert (type(back).__name__, back.tag) == ("Inner", ["a", "b"])
    assert made.to_namedtuple(fields).x is made.x


def test_the_class_is_named_after_the_collection_whatever_it_stands_on() -> None:
    rows = tc.lazy_stack([TensorDict({"a": 1, "n": {"s": text}}) for text in "xy"])
    made = rows.to_namedtuple()
    assert (type(made).__name__, made.a.tolist(), made.n.s) == ("TensorDict", [1, 1], ["x", "y"])


def test_none_stays() -> None:
    assert Sample(values(2)).to_namedtuple().inner is None
    assert tc.TensorDict({"a": None}).to_namedtuple() == (None,)


names = st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True)


@st.composite
def tuples(draw: st.DrawFn, depth: int = 2) -> Any:
    """Draw named tuples of both modules, with tensors, text and nested ones."""
    fields = draw(names)
    dtypes = st.sampled_from([torch.float32, torch.int64, torch.bool])
    leaves = st.one_of(st.builds(lambda dtype: torch.ones(2, 3, dtype=dtype), dtypes), st.text("xy", max_size=2))
    below = leaves if depth == 0 else st.one_of(leaves, tuples(depth - 1))
    held = [draw(below) for _ in fields]
    types = [(name, type(one)) for name, one in zip(fields, held, strict=True)]
    # from_namedtuple(...).to_namedtuple(cls) finds the classes of nested ones in annotations: typing's kind alone
    return NamedTuple("Made", types)(*held)  # type: ignore[operator, misc]


@given(source=tuples())
def test_a_named_tuple_comes_back_whatever_is_in_it(source: Any) -> None:
    data = TensorDict.from_namedtuple(source)
    back = data.to_namedtuple(type(source))
    assert_same(source, back)


def assert_same(source: Any, back: Any) -> None:
    assert type(back) is type(source)
    for one, other in zip(source, back, strict=True):
        if isinstance(one, tuple):
            assert_same(one, other)
        elif isinstance(one, Tensor):
            assert other is one  # tensors are not copied
        else:
            assert other == one
