"""A collection over a user's mapping behaves as one over a dict, whatever the mapping does with what it is given."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections import UserDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import BatchMismatch, NonTensorData, TensorClass, TensorCollection, TensorDict, UnbatchedTensor
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal, shares_memory
from tests.operations import SHAPE_OPERATIONS
from tests.td.test_get_set_remove_model import Step, levels, outcome, plain, steps

Log = list[tuple[str, str]]


class Copying(MutableMapping[str, Any]):
    """Holds copies of what it is given and gives copies of what it holds, with a new mapping for each nested one.

    What it is asked for stands in ``log``.
    """

    def __init__(self, held: dict[str, Any] | None = None, log: Log | None = None) -> None:
        self.held: dict[str, Any] = {} if held is None else held
        self.log: Log = [] if log is None else log

    def __getitem__(self, key: str) -> Any:
        self.log.append(("read", key))
        value = self.held[key]
        return Copying(value, self.log) if isinstance(value, dict) else value.clone()

    def __setitem__(self, key: str, value: Any) -> None:
        self.log.append(("write", key))
        if isinstance(value, TensorDict):
            self.held[key] = {}
            Copying(self.held[key], self.log).update(value.items())
        else:
            self.held[key] = value.clone()

    def __delitem__(self, key: str) -> None:
        self.log.append(("delete", key))
        del self.held[key]

    def __contains__(self, key: object) -> bool:
        return key in self.held

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


stores = pytest.mark.parametrize("store", [dict, UserDict, Copying])
Store = Callable[[], Any]


def over(store: Any, data: TensorDict) -> TensorDict:
    """A collection over a mapping that holds the values of another."""
    return TensorDict.from_store(store, data.batch_size, data.device, data.names).update(data)


def sample(names: list[str] | None = None) -> TensorDict:
    return TensorDict(
        {"a": torch.arange(12.0).reshape(4, 3), "n": {"b": torch.arange(4.0)}, "t": "x"}, [4], names=names
    )


# -- as over a dict ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPE_OPERATIONS)
@settings(max_examples=30)
@given(draw.trees(), st.sampled_from((dict, UserDict, Copying)), st.data())
def test_operations_give_what_they_give_over_a_dict(
    name: str, tree: draw.Tree, store: Store, data: st.DataObject
) -> None:
    batch_size = data.draw(draw.shapes(min_dims=1))
    names = data.draw(draw.names_or_none(len(batch_size)))
    arguments = data.draw(SHAPE_OPERATIONS[name](batch_size))
    source = tree.build(batch_size, names)
    results: list[Any] = []
    for collection in (source, over(store(), source)):
        try:
            result = getattr(collection, name)(*arguments)
        except Exception as error:
            results.append(error)
        else:
            results.append(result if isinstance(result, tuple) else (result,))
    expected, got = results
    if isinstance(expected, Exception):
        assert type(got) is type(expected)
        return
    for part, like in zip(got, expected, strict=True):
        assert_equal(part if type(part) is TensorDict else part.clone(), like)


@given(draw.trees(), st.sampled_from((dict, UserDict, Copying)), st.data())
def test_an_index_gives_what_it_gives_over_a_dict(tree: draw.Tree, store: Store, data: st.DataObject) -> None:
    batch_size = data.draw(draw.shapes())
    index = data.draw(draw.indices(batch_size))
    source = tree.build(batch_size)
    collection = over(store(), source)
    try:
        expected = source[index]
    except IndexError:
        with pytest.raises(IndexError):
            collection[index]
        return
    result = collection[index]
    assert_equal(result.clone(), expected)
    collection[index] = expected.clone()
    source[index] = expected.clone()
    assert_equal(collection.clone(), source)


@settings(max_examples=200)
@given(levels, st.lists(steps, max_size=8), st.sampled_from((dict, UserDict, Copying)))
def test_writes_do_what_they_do_over_a_dict(start: Any, done: list[Step], store: Store) -> None:
    expected, data = TensorDict(start), over(store(), TensorDict(start))
    for name, _, on_data in done:
        succeeds = outcome(lambda on_data=on_data: on_data(expected))
        assert outcome(lambda on_data=on_data: on_data(data)) == succeeds, name
        assert plain(data) == plain(expected), name
        assert list(data.keys()) == list(expected.keys()), name
        assert_consistent(data)


#: ways to change the sample in place
IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "add_": lambda data: data.add_(1),
    "add_ of another": lambda data: data.add_(data),
    "*=": lambda data: data.__imul__(2),
    "exp_": lambda data: data.exp_(),
    "zero_": lambda data: data.zero_(),
    "lerp_": lambda data: data.lerp_(data + 2, 0.5),
    "addcmul_": lambda data: data.addcmul_(data, data),
    "masked_fill_": lambda data: data.masked_fill_(torch.tensor([True, False, True, False]), 7),
    "set_": lambda data: data.set_("a", torch.ones(4, 3)).set_(("n", "b"), torch.ones(4)),
    "set_ of text": lambda data: data.set_("t", "y"),
    "set_at_": lambda data: data.set_at_("a", 1, [0, 2]).set_at_(("n", "b"), torch.ones(2), slice(2)),
    "fill_": lambda data: data.fill_("a", 5).fill_("n", 6),
    "update_": lambda data: data.update_({"n": {"b": torch.ones(4)}}),
    "update in place": lambda data: data.update({"n": {"b": torch.ones(4), "new": torch.ones(4)}}, inplace=True),
    "copy_": lambda data: data.copy_(data + 1),
    "apply_": lambda data: data.apply_(lambda x: x.add_(1)),
    "rows": lambda data: data.__setitem__([0, 2], data[[1, 3]]),
    "a row": lambda data: data.__setitem__(0, {"a": torch.ones(3), "n": {"b": 9.0}, "t": "z", "new": torch.ones(2)}),
    "a number": lambda data: data.__setitem__(slice(2), 3),
    "load_state_dict": lambda data: data.load_state_dict((data + 1).state_dict()),
    "rows that write through": lambda data: data.get_sub_tensordict([0, 2]).add_(1),
    "out": lambda data: torch.stack(list(data + 1), out=data),
    "inside another": lambda data: TensorDict({"in": data}, [4]).add_(1),
    "nested": lambda data: data["n"].add_(1),
    "nested, by rows": lambda data: data["n"].__setitem__(0, {"b": 8.0}),
}


@stores
@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
def test_changes_in_place_reach_the_store(store: Store, change: Callable[[Any], Any]) -> None:
    expected, data = sample(), over(store(), sample())
    change(expected)
    change(data)
    assert_equal(data.clone(), expected)
    again = TensorDict.from_store(data._store.source, [4])
    assert_equal(again.clone(), expected)


# -- nothing in between -----------------------------------------------------------------------------------------------


def test_nothing_is_copied_from_a_store_that_gives_what_it_holds() -> None:
    store: dict[str, Any] = {"a": torch.zeros(3), "n": {"b": torch.zeros(3)}}
    data = TensorDict.from_store(store, [3])
    assert data["a"] is store["a"]
    assert data["n", "b"] is store["n"]["b"]
    data["n", "c"] = new = torch.ones(3)
    assert store["n"]["c"] is new
    store["n"]["d"] = torch.ones(3)
    assert ("n", "d") in data
    assert shares_memory(data[:2]["a"], store["a"])


def test_reading_a_key_reads_no_other() -> None:
    data = over(store := Copying(), sample())
    store.log.clear()
    assert data["a"].shape == (4, 3)
    assert "n" in data
    assert list(data.keys()) == ["a", "n", "t"]
    assert store.log == [("read", "a")]
    store.log.clear()
    data["a"] = torch.zeros(4, 3)
    assert store.log == [("write", "a")]
    store.log.clear()
    data.update({"a": torch.ones(4, 3)})
    assert {key for _, key in store.log} == {"a"}
    assert store.log.count(("write", "a")) == 1


def test_operations_on_numbers_do_not_write_objects() -> None:
    store: dict[str, Any] = {"a": torch.zeros(2), "t": "text"}
    TensorDict.from_store(store, [2]).add_(1)
    assert store["t"] == "text"


def test_a_mapping_that_is_exchanged_is_followed() -> None:
    store: dict[str, Any] = {"n": {"b": torch.zeros(2)}}
    data = TensorDict.from_store(store, [2])
    nested = data["n"].lock_()
    store["n"] = {"c": torch.ones(2)}
    assert list(data["n"].keys()) == ["c"]
    assert data["n"] is nested
    assert data["n"].is_locked


def test_objects_numbers_and_arrays_are_read_as_they_would_be_written() -> None:
    store = {"t": "text", "column": ["p", "q"], "x": [1, 2], "y": torch.ones(2).numpy()}
    data = TensorDict.from_store({**store, "u": UnbatchedTensor(torch.ones(3)), "o": NonTensorData("text")}, [2])
    assert data.get("u").batch_size == data.get("o").batch_size == (2,)
    assert data["t"] == "text"
    assert data["column"] == ["p", "q"]
    assert isinstance(data.get("t"), NonTensorData)
    assert data["x"].tolist() == [1, 2]
    assert data[0]["y"] == 1


def test_nested_collections_keep_the_form_in_which_they_were_written() -> None:
    data = TensorDict.from_store(Copying(), [2], names=["x"])
    data["n"] = TensorDict({"b": torch.zeros(2, 3)}, [2, 3], names=["x", "y"])
    assert data["n"].batch_size == (2, 3)
    assert data["n"].names == ["x", "y"]
    data.batch_size = [2, 3]
    assert data.batch_size == (2, 3)


@stores
def test_what_is_taken_out_keeps_its_values(store: Store) -> None:
    data = over(store(), sample())
    nested = data.pop("n")
    assert "n" not in data
    assert nested["b"].tolist() == [0, 1, 2, 3]
    data["m", "n"] = nested
    data.rename_key_("m", "k").rename_key_(("k", "n"), "n")
    assert data["n", "b"].tolist() == [0, 1, 2, 3]
    kept, rest = data.split_keys(["n"], inplace=True)
    assert rest is data
    assert kept["n", "b"].tolist() == [0, 1, 2, 3]
    nested = kept["n"]
    data["n"] = nested
    data["n"] = data["n"]
    assert data["n", "b"].tolist() == [0, 1, 2, 3]
    data.clear()
    assert nested["b"].tolist() == [0, 1, 2, 3]


@stores
def test_locks_hold_at_every_level(store: Store) -> None:
    data = over(store(), sample()).lock_()
    for change in (
        lambda: data.set("new", torch.ones(4)),
        lambda: data["n"].set("new", torch.ones(4)),
        lambda: data.pop("a"),
        lambda: data["n"].clear(),
        lambda: data["n"].unlock_(),
    ):
        with pytest.raises(RuntimeError, match="lock"):
            change()
    data.add_(1)
    with data.unlock_():
        data["n", "new"] = torch.ones(4)
    assert data["n", "new"].sum() == 4


# -- what does not fit ------------------------------------------------------------------------------------------------


def test_the_entries_are_checked() -> None:
    with pytest.raises(BatchMismatch, match=r"n\.b: .*\[2\]"):
        TensorDict.from_store({"a": torch.zeros(2), "n": {"b": torch.zeros(3)}}, [2])
    with pytest.raises(RuntimeError, match=r"n\.b: expected a value on the device meta"):
        TensorDict.from_store({"n": {"b": torch.zeros(3)}}, [3], "meta")
    with pytest.raises(TypeError, match="keys are strings"):
        TensorDict.from_store({1: torch.zeros(3)}, [3])  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="mutable mapping"):
        TensorDict.from_store([1])  # type: ignore[arg-type]


@stores
def test_what_does_not_fit_writes_nothing(store: Store) -> None:
    data = over(store(), sample())
    good = {f"k{i}": torch.ones(4) for i in range(5)}
    for change in (
        lambda: data.update({**good, "n": {"b": torch.ones(4), "c": torch.ones(3)}}),
        lambda: data.update(good, n={"c": torch.ones(3)}),
        lambda: data.update({"n": {"c": torch.ones(4)}}, a=torch.ones(3)),
        lambda: data.set(("n", "c"), torch.ones(3)),
        lambda: data.__setitem__(0, {"a": torch.ones(3), "n": {"b": torch.ones(4)}}),
        lambda: data.add_(torch.ones(3)),
        lambda: data.update(TensorDict({"n": {"b": torch.ones(2, 2)}}, [2]), update_batch_size=True),
    ):
        with pytest.raises(RuntimeError):
            change()
        assert_equal(data.clone(), sample())
        assert list(data._store.source) == ["a", "n", "t"]


# -- records ----------------------------------------------------------------------------------------------------------


class Inner(TensorClass):
    far: Tensor


class Sample(TensorClass):
    image: Tensor
    inner: Inner
    text: str = ""
    mask: Tensor | None = None

    def brightness(self) -> Tensor:
        return self.image.mean(-1)


def fields() -> dict[str, Any]:
    return {"image": torch.zeros(2, 3), "inner": {"far": torch.zeros(2)}, "text": "a"}


def test_a_record_over_a_mapping_is_a_record() -> None:
    store = fields()
    record = Sample.from_store(store, [2])
    assert isinstance(record, Sample)
    assert isinstance(record.inner, Inner)
    record.image = torch.ones(2, 3)
    record.inner.far = torch.ones(2)
    record.text = "b"
    record.mask = torch.zeros(2)
    assert store["image"] is record.image
    assert store["inner"]["far"].sum() == 2
    assert store["text"].data == "b"
    assert record.brightness().tolist() == [1, 1]
    record.mask = None
    assert "mask" not in store
    assert type(record[0]) is Sample
    assert type(record.clone().inner) is Inner


def test_the_fields_of_a_record_are_checked() -> None:
    for change, error, match in (
        ({"other": torch.zeros(2)}, ValueError, "unexpected: .'other'"),
        ({"image": "text"}, TypeError, "image"),
        ({"text": 3}, TypeError, "text"),
        ({"inner": {"x": torch.zeros(2)}}, ValueError, "Inner"),
    ):
        with pytest.raises(error, match=match):
            Sample.from_store({**fields(), **change}, [2])
    with pytest.raises(ValueError, match=r"missing: \['inner', 'text'\]"):
        Sample.from_store({"image": torch.zeros(2, 3)}, [2])
    record = Sample.from_store(fields(), [2])
    with pytest.raises(TypeError, match="image"):
        record.image = "text"  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        record["other"] = torch.zeros(2)


# -- by itself --------------------------------------------------------------------------------------------------------


@stores
@pytest.mark.parametrize("copied", [lambda d: pickle.loads(pickle.dumps(d)), copy.deepcopy, copy.copy])
def test_a_pickle_and_copies_stand_on_a_dict(store: Store, copied: Callable[[Any], Any]) -> None:
    data = over(store(), sample())
    other = copied(data)
    assert type(other) is TensorDict
    assert_equal(other, sample())
    other["new"] = torch.zeros(4)
    assert "new" not in data


def test_a_pickle_of_a_locked_collection_is_locked() -> None:
    assert pickle.loads(pickle.dumps(over(Copying(), sample()).lock_())).is_locked


def test_a_collection_is_freed_with_its_last_reference() -> None:
    data = over(Copying(), sample())
    alive = weakref.ref(data)
    del data
    assert alive() is None


@stores
def test_a_function_over_the_leaves_gives_a_plain_collection(store: Store) -> None:
    result = torch.utils._pytree.tree_map(lambda x: x + 1, over(store(), sample()))
    assert isinstance(result, TensorCollection)
    assert_equal(result, sample() + 1)


@stores
def test_it_is_read_and_written_in_compiled_code(store: Store) -> None:
    def step(data: TensorDict) -> Any:
        data["a"] = data["a"] + 1
        data.add_(1)
        return (data * 2)["n", "b"]

    expected, got = sample(), over(store(), sample())
    result = torch.compile(step, fullgraph=True, backend="eager")(got)
    assert torch.equal(result, step(expected))
    assert_equal(got.clone(), expected)
