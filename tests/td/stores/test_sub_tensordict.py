"""Rows of a collection: what is written to them is written to the collection, for every kind of index."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensordict
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass
from tensorclass import NonTensorData, SubTensorDict, TensorClass, TensorDict
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal, outcome
from tests.samples import Unchanged, mixed

#: what takes two of four rows of the sample, and the rows
INDICES: dict[str, tuple[Any, list[int]]] = {
    "slice": (slice(1, 3), [1, 2]),
    "strided slice": (slice(0, 4, 2), [0, 2]),
    "tensor": (torch.tensor([3, 0]), [3, 0]),
    "mask": (torch.tensor([True, False, False, True]), [0, 3]),
    "list": ([2, 3], [2, 3]),
    "array": (np.array([1, 0]), [1, 0]),
    "range": (range(2), [0, 1]),
    "tuple": ((torch.tensor([0, 1]), ...), [0, 1]),
}
indices = pytest.mark.parametrize("index, rows", list(INDICES.values()), ids=list(INDICES))


class Inner(TensorClass):
    far: Tensor


class Sample(TensorClass, stack_objects=True):
    image: Tensor
    inner: Inner
    text: str = ""
    mask: Tensor | None = None


def sample() -> Sample:
    return Sample(torch.zeros(4, 3), Inner(torch.zeros(4), batch_size=[4]), "a", batch_size=[4])


def plain(names: list[str] | None = None) -> TensorDict:
    return TensorDict({"a": torch.zeros(4, 3), "n": {"b": torch.zeros(4), "t": "x"}}, [4], names=names)


def only(rows: list[int], value: float = 1.0) -> Tensor:
    """Zeros but for the rows."""
    column = torch.zeros(4)
    column[rows] = value
    return column


# -- reading ----------------------------------------------------------------------------------------------------------


@given(draw.trees(), draw.shapes(), st.data())
def test_rows_read_as_the_index_does(tree: draw.Tree, batch_size: tuple[int, ...], data: st.DataObject) -> None:
    source = tree.build(batch_size, data.draw(draw.names_or_none(len(batch_size))))
    index = data.draw(draw.indices(batch_size))
    expected = outcome(lambda: source[index])
    if isinstance(expected, Exception):
        with pytest.raises(type(expected)):
            source.get_sub_tensordict(index)
        return
    rows = source.get_sub_tensordict(index)
    assert type(rows.clone()) is TensorDict
    assert rows.batch_size == expected.batch_size
    assert_consistent(rows)
    assert_equal(rows.clone(), expected)


def test_rows_are_of_the_class_of_their_source() -> None:
    rows = sample().get_sub_tensordict([0, 2])
    assert isinstance(rows, Sample)
    assert isinstance(rows, SubTensorDict)
    assert isinstance(rows.inner, Inner)
    assert isinstance(plain().get_sub_tensordict(0), TensorDict)
    assert not isinstance(sample(), SubTensorDict)


def test_results_of_operations_are_collections_of_their_own() -> None:
    source = plain()
    rows = source.get_sub_tensordict(slice(0, 2))
    for result in (rows.clone(), rows.contiguous(), rows.to_tensordict(), rows + 1, rows[0], rows.select("a")):
        assert type(result) is TensorDict
        result["new"] = torch.zeros(result.batch_size)
    assert "new" not in source
    assert type(sample().get_sub_tensordict(0).clone()) is Sample


def test_rows_follow_the_source() -> None:
    source = plain()
    rows = source.get_sub_tensordict([0, 2])
    source["a"] = torch.ones(4, 3)
    source["more"] = torch.arange(4)
    assert rows["a"].tolist() == [[1.0] * 3] * 2
    assert rows["more"].tolist() == [0, 2]
    assert rows.get_parent_tensordict() is source


def test_names_and_device_are_those_that_the_index_gives() -> None:
    rows = TensorDict({"a": torch.zeros(4, 3)}, [4, 3], "cpu", ["x", "y"]).get_sub_tensordict((0, [0, 2]))
    assert rows.names == ["y"]
    assert rows.device == torch.device("cpu")
    assert rows["a"].shape == (2,)


@pytest.mark.parametrize("index", [4, -5, [0, 4], torch.tensor([True]), (0, 0), "a", 1.5])
def test_an_index_that_does_not_fit_is_an_error_at_once(index: Any) -> None:
    with pytest.raises(IndexError):
        plain().get_sub_tensordict(index)


def test_the_constructor_takes_a_collection_and_an_index() -> None:
    source = plain()
    SubTensorDict(source, [0, 2])["a"] = torch.ones(2, 3)
    assert source["a"][:, 0].tolist() == [1, 0, 1, 0]
    assert SubTensorDict(source, [0, 2], batch_size=[2]).batch_size == (2,)
    with pytest.raises(RuntimeError, match=r"batch size \[3\], got \[2\]"):
        SubTensorDict(source, [0, 2], batch_size=[3])
    with pytest.raises(TypeError, match="expected a collection"):
        SubTensorDict({"a": 1}, 0)  # type: ignore[arg-type]


# -- writing ----------------------------------------------------------------------------------------------------------

#: ways to write ones into "a" and ("n", "b")
WRITES: dict[str, Callable[[Any], Any]] = {
    "set": lambda rows: rows.set("a", torch.ones(2, 3)).set(("n", "b"), torch.ones(2)),
    "set_": lambda rows: rows.set_("a", torch.ones(2, 3)).set_(("n", "b"), torch.ones(2)),
    "set in place": lambda rows: rows.set("a", torch.ones(2, 3), inplace=True).set(("n", "b"), torch.ones(2), True),
    "item": lambda rows: (rows.__setitem__("a", torch.ones(2, 3)), rows["n"].__setitem__("b", torch.ones(2))),
    "another dtype": lambda rows: rows.update({"a": torch.ones(2, 3, dtype=torch.int64), "n": {"b": [1, 1]}}),
    "set_at_": lambda rows: rows.set_at_("a", 1, 0).set_at_("a", 1, [1]).set_at_(("n", "b"), torch.ones(2), ...),
    "update": lambda rows: rows.update({"a": torch.ones(2, 3), ("n", "b"): torch.ones(2)}),
    "update in place": lambda rows: rows.update({"a": torch.ones(2, 3), ("n", "b"): torch.ones(2)}, inplace=True),
    "update_": lambda rows: rows.update_({"a": torch.ones(2, 3), ("n", "b"): torch.ones(2)}),
    "copy_": lambda rows: rows.copy_(rows + 1),
    "rows": lambda rows: rows.__setitem__([0, 1], rows + 1),
    "one row after the other": lambda rows: [rows.__setitem__(i, (rows + 1)[i]) for i in (0, 1)],
    "a number": lambda rows: rows.__setitem__(slice(None), 1),
    "a mapping": lambda rows: rows.__setitem__(..., {"a": torch.ones(2, 3), "n": {"b": torch.ones(2)}}),
    "fill_": lambda rows: rows.fill_("a", 1).fill_("n", 1),
    "add_": lambda rows: rows.add_(1),
    "+=": lambda rows: rows.__iadd__(1),
    "zero_": lambda rows: (rows.add_(5), rows.zero_(), rows.sub_(rows - 1)),
    "exp_": lambda rows: rows.exp_(),
    "lerp_": lambda rows: rows.lerp_(rows + 2, 0.5),
    "addcmul_": lambda rows: rows.addcmul_(rows + 1, rows + 1),
    "clamp_min_": lambda rows: rows.clamp_min_(1),
    "masked_fill_": lambda rows: rows.masked_fill_(torch.tensor([True, True]), 1),
    "apply_": lambda rows: rows.apply_(lambda x: x + 1),
    "apply_ in place": lambda rows: rows.apply_(lambda x: x.add_(1)),
    "out": lambda rows: torch.stack([(rows + 1)[0], (rows + 1)[1]], out=rows),
    "load_state_dict": lambda rows: rows.load_state_dict((rows + 1).state_dict()),
    "rows of the rows": lambda rows: rows.get_sub_tensordict([1, 0]).add_(1),
    "one of the rows of the rows": lambda rows: [rows.get_sub_tensordict(i).add_(1) for i in (0, 1)],
    "inside another": lambda rows: TensorDict({"rows": rows}, [2]).add_(1),
    "inside another, by its key": lambda rows: TensorDict({"rows": rows}, [2]).update_({"rows": rows + 1}),
    "inside another, by rows": lambda rows: TensorDict({"rows": rows}, [2]).__setitem__([0, 1], {"rows": rows + 1}),
}


@indices
@pytest.mark.parametrize("write", list(WRITES.values()), ids=list(WRITES))
def test_every_way_of_writing_writes_to_the_source(index: Any, rows: list[int], write: Callable[[Any], Any]) -> None:
    source = plain()
    tensor, nested = source["a"], source["n"]
    write(source.get_sub_tensordict(index))
    assert source["a"] is tensor
    assert source["n"] is nested
    assert torch.equal(source["a"], only(rows)[:, None].expand(4, 3))
    assert torch.equal(source["n", "b"], only(rows))
    assert source["n", "t"] == "x"


floats = st.builds(draw.Leaf, rest=draw.shapes(max_dims=2, min_size=1), start=st.integers(0, 9))


@given(draw.trees(leaf=floats), draw.shapes(), st.data())
def test_adding_in_place_adds_to_the_rows_and_to_nothing_else(
    tree: draw.Tree, batch_size: tuple[int, ...], data: st.DataObject
) -> None:
    source = tree.build(batch_size)
    index = data.draw(draw.indices(batch_size))
    expected = source.clone()
    if isinstance(outcome(lambda: expected.__setitem__(index, expected[index] + 1)), Exception):
        with pytest.raises(IndexError):
            source.get_sub_tensordict(index)
        return
    source.get_sub_tensordict(index).add_(1)
    assert_equal(source, expected)


@indices
def test_a_new_key_is_zero_in_the_other_rows(index: Any, rows: list[int]) -> None:
    source = plain()
    sub = source.get_sub_tensordict(index)
    sub["new"] = torch.ones(2)
    sub["n", "new"] = torch.ones(2)
    sub["m", "k", "new"] = torch.ones(2)
    sub.update({"u": torch.ones(2, dtype=torch.int64)})
    for key in ("new", ("n", "new"), ("m", "k", "new"), "u"):
        assert torch.equal(source[key].float(), only(rows)), key
    assert source["u"].dtype is torch.int64
    assert_consistent(source)


@indices
def test_objects_of_the_rows_are_written(index: Any, rows: list[int]) -> None:
    source = plain()
    sub = source.get_sub_tensordict(index)
    sub["n", "t"] = "y"
    sub["new"] = ["p", "q"]
    assert source["n", "t"] == ["y" if i in rows else "x" for i in range(4)]
    assert [source["new"][row] for row in rows] == ["p", "q"]
    assert sum(value is None for value in source["new"]) == 2


def test_a_batch_without_dimensions_and_a_single_row_are_rows_too() -> None:
    source = plain()
    source.get_sub_tensordict(2)["a"] = torch.ones(3)
    assert torch.equal(source["a"][:, 0], only([2]))
    whole = TensorDict({"a": torch.tensor(1.0)})
    whole.get_sub_tensordict(...).add_(1)
    whole.get_sub_tensordict(None)["b"] = torch.ones(1)
    assert whole.to_dict() == {"a": 2.0, "b": 1.0}


def test_the_fields_of_a_record_write_through() -> None:
    source = sample()
    rows = source.get_sub_tensordict([0, 2])
    rows.image = torch.ones(2, 3)
    rows.inner.far = torch.ones(2)
    rows.inner = Inner(rows.inner.far + 1, batch_size=[2])
    rows.text = "b"
    rows.mask = torch.ones(2)
    assert source.image[:, 0].tolist() == [1, 0, 1, 0]
    assert source.inner.far.tolist() == [2, 0, 2, 0]
    assert source.text == ["b", "a", "b", "a"]
    assert source.mask is not None
    assert source.mask.tolist() == [1, 0, 1, 0]
    assert_consistent(source)


def test_fields_are_checked() -> None:
    source = sample()
    rows = source.get_sub_tensordict([0, 2])
    with Unchanged(source.to_tensordict()):
        with pytest.raises(TypeError, match="image"):
            rows.image = "text"  # type: ignore[assignment]
        with pytest.raises(AttributeError):
            rows["other"] = torch.zeros(2)
        with pytest.raises(TypeError, match="mask"):
            rows.mask = None


class Frozen(TensorClass, frozen=True):
    image: Tensor


def test_rows_of_a_frozen_record_can_only_be_written_in_place() -> None:
    source = Frozen(torch.zeros(4), batch_size=[4])
    rows = source.get_sub_tensordict([0, 2])
    with pytest.raises(AttributeError, match="frozen"):
        rows.image = torch.ones(2)  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        rows.update({"image": torch.ones(2)})
    rows.update_({"image": torch.ones(2)})
    assert source.image.tolist() == [1, 0, 1, 0]


# -- keys are those of the source -------------------------------------------------------------------------------------


def test_removing_and_renaming_keys_happens_in_the_source() -> None:
    source = TensorDict(
        {"a": torch.arange(4), "b": torch.arange(4), "c": torch.arange(4), "d": 1 + torch.arange(4)}, [4]
    )
    rows = source.get_sub_tensordict([0, 2])
    assert rows.pop("a").tolist() == [0, 2]
    del rows["b"]
    assert rows.rename_key_("c", "z") is rows
    assert source["z"].tolist() == [0, 1, 2, 3]
    assert rows.popitem()[0] == "z"
    assert list(source.keys()) == list(rows.keys()) == ["d"]
    rows["n", "e"] = torch.ones(2)
    rows.flatten_keys(inplace=True)
    assert list(source.keys()) == ["d", "n.e"]
    rows.unflatten_keys(inplace=True)
    assert source["n", "e"].tolist() == [1, 0, 1, 0]
    assert source["d"].tolist() == [1, 2, 3, 4]
    rows.select("d", inplace=True)
    assert list(source.keys()) == ["d"]
    assert rows.clear().is_empty()
    assert source.is_empty()


def test_rows_of_a_locked_source_are_written_in_place_and_get_no_keys() -> None:
    source = plain().lock_()
    rows = source.get_sub_tensordict([0, 2])
    assert rows.is_locked
    rows["a"] = torch.ones(2, 3)
    rows.update({("n", "b"): torch.ones(2)})
    rows.add_(1)
    assert source["a"][:, 0].tolist() == [2, 0, 2, 0]
    assert source["n", "b"].tolist() == [2, 0, 2, 0]
    changes: list[Callable[[], Any]] = [
        lambda: rows.set("new", torch.ones(2)),
        lambda: rows.set(("n", "new"), torch.ones(2)),
        lambda: rows.update({"a": torch.zeros(2, 3), "new": torch.ones(2)}),
        lambda: rows.pop("a"),
        lambda: rows.rename_key_("a", "z"),
        lambda: rows.clear(),
        lambda: rows.unlock_(),
        lambda: rows.__setitem__(0, {"a": torch.zeros(3), "new": torch.zeros(())}),
    ]
    with Unchanged(source):
        for change in changes:
            with pytest.raises(RuntimeError, match="lock"):
                change()


def test_rows_are_not_locked_by_themselves() -> None:
    source = plain()
    rows = source.get_sub_tensordict([0, 2])
    with pytest.raises(RuntimeError, match="get_parent_tensordict"):
        rows.lock_()
    with rows.unlock_():
        rows["new"] = torch.ones(2)
    assert not source.is_locked


def test_batch_size_names_and_device_are_not_those_of_the_rows_to_change() -> None:
    rows = plain(["x"]).get_sub_tensordict([0, 2])
    changes: list[Callable[[], Any]] = [
        lambda: setattr(rows, "batch_size", []),
        lambda: setattr(rows, "names", ["y"]),
        lambda: rows.rename_("y"),
        lambda: rows.repeat(2, inplace=True),
        lambda: rows.clear_device_(),
        lambda: rows.auto_device_(),
        lambda: rows.update(TensorDict({"a": torch.zeros(1)}, [1]), update_batch_size=True),
    ]
    for change in changes:
        with pytest.raises(RuntimeError, match="get_parent_tensordict"):
            change()
    assert rows.batch_size == (2,)
    assert rows.names == ["x"]
    assert rows.rename("y").names == ["y"]


def test_rows_have_no_history_or_memory_of_their_own() -> None:
    rows = plain().get_sub_tensordict(slice(2))
    for change in (rows.requires_grad_, rows.detach_, rows.zero_grad, rows.share_memory_):
        with pytest.raises(RuntimeError, match="get_parent_tensordict"):
            change()
    with pytest.raises(RuntimeError, match="get_parent_tensordict"):
        rows.data = rows.clone()


def test_gradients_flow_into_the_source() -> None:
    source = plain().requires_grad_()
    source.get_sub_tensordict([0, 2])["a"].sum().backward()
    assert source["a"].grad is not None
    assert torch.equal(source["a"].grad[:, 0], only([0, 2]))


# -- nothing half-written ---------------------------------------------------------------------------------------------


@indices
def test_what_does_not_fit_writes_nothing(index: Any, rows: list[int]) -> None:
    source = plain()
    sub = source.get_sub_tensordict(index)
    good = {f"k{i}": torch.ones(2) for i in range(5)}
    changes: list[Callable[[], Any]] = [
        lambda: sub.set("a", torch.ones(3, 3)),
        lambda: sub.set("a", torch.ones(2, 5)),
        lambda: sub.update({"a": torch.ones(2, 3), "n": {"b": torch.ones(3)}}),
        lambda: sub.update({"a": torch.ones(2, 3), "n": {"b": torch.ones(2, 7)}}),
        lambda: sub.update({**good, "a": torch.ones(2, 9)}),
        lambda: sub.update({**good, "n": torch.ones(2)}),
        lambda: sub.update({"a": torch.ones(2, 3), "n": {"b": torch.ones(2, 7)}}, inplace=True),
        lambda: sub.add_(torch.ones(3)),
        lambda: sub.__setitem__(0, {"a": torch.ones(3), "n": {"b": torch.ones(4)}}),
    ]
    with Unchanged(source):
        for change in changes:
            with pytest.raises(RuntimeError):
                change()
        for missing in (
            lambda: sub.set_("x", torch.ones(2)),
            lambda: sub.set_at_("x", 1, 0),
            lambda: sub.fill_("x", 1),
        ):
            with pytest.raises(KeyError, match="x"):
                missing()
        with pytest.raises(KeyError):
            sub.update_({"a": torch.ones(2, 3), "x": torch.ones(2)})


# -- by itself --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [slice(1, 3), [1, 2]])
def test_a_pickle_holds_the_rows_alone(index: Any) -> None:
    for source in (mixed(), sample()):
        loaded = pickle.loads(pickle.dumps(source.get_sub_tensordict(index)))
        assert type(loaded) is type(source)
        assert_equal(loaded, source[index])


def test_rows_print_as_what_they_are() -> None:
    assert repr(plain().get_sub_tensordict([0, 2])) == repr(plain()[[0, 2]])
    assert repr(sample().get_sub_tensordict([0, 2])) == repr(sample()[[0, 2]])


def test_a_function_over_the_leaves_gives_a_plain_collection() -> None:
    result = torch.utils._pytree.tree_map(lambda x: x + 1, plain().get_sub_tensordict([0, 2]))
    assert type(result) is TensorDict
    assert result["a"].tolist() == [[1.0] * 3] * 2


def test_classmethods_make_plain_collections() -> None:
    rows = sample().get_sub_tensordict([0, 2])
    made = type(rows).from_dict(rows.to_dict(), batch_size=[2])
    assert type(made) is Sample
    assert type(type(plain().get_sub_tensordict(0)).fromkeys(["a"])) is TensorDict


def test_rows_of_rows_write_to_the_first_source() -> None:
    source = plain()
    rows = source.get_sub_tensordict([3, 2, 1]).get_sub_tensordict(slice(0, 2)).get_sub_tensordict([False, True])
    rows["a"] = torch.ones(1, 3)
    rows["new"] = NonTensorData("x", batch_size=[1])
    assert torch.equal(source["a"][:, 0], only([2]))
    assert source["new"] == [None, None, "x", None]


@pytest.mark.parametrize("index", [slice(1, 3), torch.tensor([0, 2])], ids=["slice", "tensor"])
def test_rows_are_written_in_compiled_code(index: Any) -> None:
    def step(data: TensorDict) -> Any:
        rows = data.get_sub_tensordict(index)
        rows["a"] = rows["a"] + 1
        rows.add_(1)
        return rows["a"] * 2

    expected, got = plain(), plain()
    result = torch.compile(step, fullgraph=True, backend="eager")(got)
    assert torch.equal(result, step(expected))
    assert_equal(got, expected)


# -- as in the peer ---------------------------------------------------------------------------------------------------

PEERS: dict[str, Callable[[Any], Any]] = {
    "item": lambda rows: rows.__setitem__("a", torch.ones(2, 3)),
    "set_": lambda rows: rows.set_("a", torch.ones(2, 3)),
    "new key": lambda rows: rows.__setitem__("new", torch.ones(2)),
    "new nested key": lambda rows: rows.__setitem__(("n", "new"), torch.ones(2)),
    "nested item": lambda rows: rows.__setitem__(("n", "b"), torch.ones(2)),
    "update_": lambda rows: rows.update_({"a": torch.ones(2, 3)}),
    "update with a new key": lambda rows: rows.update({"new": torch.ones(2)}),
    "add_": lambda rows: rows.add_(1),
    "apply_": lambda rows: rows.apply_(lambda x: x + 5),
    "masked_fill_": lambda rows: rows.masked_fill_(torch.tensor([True, False]), 9.0),
    "pop": lambda rows: rows.pop("a"),
    "rename": lambda rows: rows.rename_key_("a", "z"),
    "missing key": lambda rows: rows.set_("missing", torch.ones(2)),
    "names": lambda rows: setattr(rows, "names", ["x"]),
    "batch size": lambda rows: setattr(rows, "batch_size", [2, 1]),
    "lock": lambda rows: rows.lock_(),
}


@pytest.mark.parity
@pytest.mark.parametrize("index", [slice(1, 3), torch.tensor([3, 0]), torch.tensor([True, False, False, True])])
@pytest.mark.parametrize("write", PEERS.values(), ids=PEERS)
def test_the_peer_writes_the_same(index: Any, write: Callable[[Any], Any]) -> None:
    found: list[Any] = []
    for library in (tensorclass, tensordict):
        source: Any = library.TensorDict({"a": torch.zeros(4, 3), "n": {"b": torch.zeros(4)}}, batch_size=[4])
        rows = source.get_sub_tensordict(index) if library is tensorclass else source._get_sub_tensordict(index)
        result = outcome(lambda rows=rows: write(rows))
        values = {key: value.tolist() for key, value in source.items(True, True)}
        found.append((values, type(result) if isinstance(result, Exception) else None))
    assert found[0] == found[1]
