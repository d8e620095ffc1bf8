"""``with`` on the result of an operation writes what changes inside back into its source."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorStack, TensorClass, TensorCollection, TensorDict, lazy_stack
from tests import strategies as draw
from tests.checks import assert_equal, shares_memory
from tests.operations import SHAPE_OPERATIONS
from tests.samples import Unchanged

Operation = Callable[[Any], Any]


def grid() -> TensorDict:
    """A batch of [2, 3], with a nested level, one of a longer batch size, and objects."""
    return TensorDict(
        {
            "a": torch.arange(6.0).reshape(2, 3),
            "n": {"b": torch.zeros(2, 3, 2), "m": TensorDict({"c": torch.ones(2, 3, 4)}, [2, 3, 4])},
            "text": "hello",
            "labels": NonTensorStack.from_list([["p", "q", "r"], ["s", "t", "u"]]),
        },
        [2, 3],
    )


OPERATIONS: dict[str, Operation] = {
    "view": lambda d: d.view(-1),
    "view of no dimension": lambda d: d[:1, 0].view(()),
    "reshape": lambda d: d.reshape(3, 2),
    "flatten": lambda d: d.flatten(0, 1),
    "unflatten": lambda d: d.unflatten(1, (3, 1)),
    "permute": lambda d: d.permute(1, 0),
    "transpose": lambda d: d.transpose(0, 1),
    "swapaxes": lambda d: d.swapaxes(0, 1),
    "swapdims": lambda d: d.swapdims(0, 1),
    "movedim": lambda d: d.movedim(0, 1),
    "moveaxis": lambda d: d.moveaxis(0, 1),
    "unsqueeze": lambda d: d.unsqueeze(1),
    "squeeze of nothing": lambda d: d.squeeze(),
    "atleast_3d": lambda d: d.atleast_3d(),
    "flip": lambda d: d.flip(0, 1),
    "flip of nothing": lambda d: d.flip(()),
    "fliplr": lambda d: d.fliplr(),
    "flipud": lambda d: d.flipud(),
    "roll": lambda d: d.roll((1, 2), (0, 1)),
    "roll of the flattened batch": lambda d: d.roll(4),
    "rot90": lambda d: d.rot90(),
    "rot90 three times": lambda d: d.rot90(3),
    "to a device": lambda d: d.to("cpu"),
    "cpu": lambda d: d.cpu(),
    "torch.permute": lambda d: torch.permute(d, (1, 0)),
    "torch.flatten": lambda d: torch.flatten(d),
}

each_operation = pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS.keys())


def source_of(operation: Operation) -> TensorDict:
    return grid()[:1, 0].clone() if operation is OPERATIONS["view of no dimension"] else grid()


def entered(operation: Operation, source: TensorDict) -> TensorDict:
    result = source.view(()) if operation is OPERATIONS["view of no dimension"] else operation(source)
    assert isinstance(result, TensorDict)
    return result


# -- what is written back ----------------------------------------------------------------------------------------------


@each_operation
def test_changes_of_every_kind_are_written_back(operation: Operation) -> None:
    source = source_of(operation)
    with entered(operation, source) as result:
        result["a"] = result["a"] + 10
        result["n", "b"].fill_(7)
        result["n", "m", "new"] = torch.rand(result["n", "m"].batch_size)
        result["p", "q"] = torch.rand(result.batch_size)
        result["text"] = "other"
        result["more text"] = "more"
        del result["labels"]
    assert set(source.keys(True)) == set(result.keys(True))
    assert_equal(entered(operation, source), result)


@each_operation
def test_values_that_did_not_change_stay_the_same_tensors(operation: Operation) -> None:
    source = source_of(operation)
    with Unchanged(source), entered(operation, source):
        pass
    before = list(source.values(True, True))
    with entered(operation, source) as result:
        result["new"] = torch.zeros(result.batch_size)
        result["n", "b"].add_(1)
    assert all(now is then for now, then in zip(source.values(True, True), before, strict=False))
    assert source["n", "b"].eq(1).all()


UNDONE = (
    "reshape", "view", "flatten", "unflatten", "permute", "transpose", "swapaxes", "movedim", "moveaxis", "squeeze",
    "unsqueeze", "flip", "fliplr", "flipud", "roll", "rot90",
)  # fmt: skip


def change(data: st.DataObject, node: TensorDict) -> None:
    """Replaces, overwrites, removes and adds values, at every level."""
    for key, value in list(node.items()):
        if isinstance(value, TensorDict):
            change(data, value)
            continue
        kind = data.draw(st.sampled_from(("keep", "replace", "write", "remove")))
        if kind == "remove":
            del node[key]
        elif kind == "replace" and isinstance(value, Tensor):
            node[key] = torch.ones_like(value)
        elif kind == "write" and isinstance(value, Tensor):
            value.zero_()
        elif kind != "keep":
            node[key] = data.draw(st.sampled_from(("one", "two")))
    if data.draw(st.booleans()):
        node["new"] = torch.rand(*node.batch_size, 2)


@pytest.mark.parametrize("name", UNDONE)
# some arguments are out of range
@settings(
    max_examples=settings().max_examples // 2,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(data=st.data())
def test_the_operation_on_the_source_gives_the_result_again(name: str, data: st.DataObject) -> None:
    size = data.draw(draw.shapes(min_dims=1))
    source = data.draw(draw.trees(max_leaves=6)).build(size)
    arguments = data.draw(SHAPE_OPERATIONS[name](size))
    try:
        result = getattr(source, name)(*arguments)
    except (IndexError, RuntimeError, ValueError):
        assume(False)
    with result:
        change(data, result)
    assert_equal(getattr(source, name)(*arguments), result)


def test_a_new_key_comes_back_in_the_shape_of_the_source() -> None:
    source = grid()
    with source.view(-1) as flat:
        flat["new"] = torch.arange(6)
    assert source["new"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with source.permute(1, 0) as turned:
        turned["turned"] = torch.arange(6).reshape(3, 2)
    assert source["turned"].tolist() == [[0, 2, 4], [1, 3, 5]]


def test_a_nested_collection_is_replaced_whole() -> None:
    source = grid()
    with source.view(-1) as flat:
        flat["n"] = TensorDict({"z": torch.ones(6, 5)}, [6, 5])
    assert list(source["n"].keys()) == ["z"]
    assert source["n"].batch_size == (2, 3, 5)


def test_new_values_take_the_names_of_the_source() -> None:
    source = TensorDict({"a": torch.zeros(2, 3)}, [2, 3], names=["x", "y"])
    with source.permute(1, 0) as turned:
        assert turned.names == ["y", "x"]
        turned["n"] = TensorDict({"b": torch.zeros(3, 2)}, [3, 2])
    assert source.names == source["n"].names == ["x", "y"]


def test_the_names_and_the_lock_of_the_result_are_its_own() -> None:
    source = grid()
    with source.view(-1) as flat:
        flat.names = ["item"]
        flat.lock_()
    assert flat.is_locked
    assert not source.is_locked
    assert source.names == [None, None]


# -- keys --------------------------------------------------------------------------------------------------------------


def test_flat_keys_come_back_nested() -> None:
    source = TensorDict({"a": 1, "n": {"b": 2, "m": {"c": 3}}})
    with source.flatten_keys() as flat:
        flat["n.b"] = torch.tensor(20)
        flat["n.m.c"].fill_(30)
        flat["n.new"] = 4
        flat["p.q"] = 5
        del flat["a"]
    assert source.to_dict(convert_tensors=True) == {"n": {"b": 20, "m": {"c": 30}, "new": 4}, "p": {"q": 5}}


def test_a_renamed_flat_key_is_renamed_in_the_source() -> None:
    source = TensorDict({"n": {"b": 2, "c": 3}})
    with source.flatten_keys("/") as flat:
        flat.rename_key_("n/b", "n/z")
        flat.select("n/z", inplace=True)
    assert source.to_dict(convert_tensors=True) == {"n": {"z": 2}}


def test_a_name_that_holds_the_separator_is_found_again() -> None:
    source = TensorDict({"a.b": 1, "n.m": {"c.d": 2, "e": 3}})
    with source.flatten_keys() as flat:
        for key in list(flat.keys()):
            flat[key] = flat[key] * 10
        flat["n.m.new"] = 4
        flat["a.new"] = 5
    assert source.to_dict(convert_tensors=True) == {
        "a.b": 10, "n.m": {"c.d": 20, "e": 30, "new": 4}, "a": {"new": 5},
    }  # fmt: skip


def test_nested_writes_into_flat_keys_are_added_to_the_nested_collection() -> None:
    source = TensorDict({"n": {"b": 2, "m": {"c": 3}}})
    with source.flatten_keys() as flat:
        flat["n", "z"] = 1
        flat["n", "m", "z"] = 2
        flat["p", "q"] = 3
    assert source.to_dict(convert_tensors=True) == {"n": {"b": 2, "m": {"c": 3, "z": 2}, "z": 1}, "p": {"q": 3}}


def test_a_collection_that_counts_as_a_leaf_of_flat_keys_is_shared() -> None:
    source = TensorDict({"n": {"b": 2}, "m": {"c": 3}})
    with source.flatten_keys(is_leaf=lambda kind: True) as flat:
        flat["n", "new"] = 1
        flat["m"] = {"z": 5}
    assert source.to_dict(convert_tensors=True) == {"n": {"b": 2, "new": 1}, "m": {"z": 5}}


def test_nested_keys_come_back_flat() -> None:
    source = TensorDict({"a.b": 1, "a.c": 2, "d": 3, "n": {"e": 4}})
    with source.unflatten_keys() as nested:
        nested["a", "b"] = torch.tensor(10)
        nested["a", "new"] = 5
        nested["p", "q"] = 6
        nested["n", "e"] = 40
        nested["n", "new"] = 7
        del nested["a", "c"]
    assert source.to_dict(convert_tensors=True) == {
        "a.b": 10, "d": 3, "n": {"e": 40, "new": 7}, "a.new": 5, "p.q": 6,
    }  # fmt: skip


# -- casts -------------------------------------------------------------------------------------------------------------


def test_a_cast_is_undone_for_the_values_that_were_there() -> None:
    source = TensorDict({"i": torch.tensor([1, 2]), "f": torch.tensor([0.1, 0.2]), "k": torch.tensor([0.1, 0.2])}, [2])
    kept, written = source["k"], source["f"]
    with source.to(torch.float64) as wide:
        wide["i"] = wide["i"] + 1.5
        wide["f"].mul_(2)
        wide["new"] = torch.ones(2, dtype=torch.float64)
    assert source["i"].tolist() == [2, 3]
    assert source["i"].dtype == torch.int64
    assert source["f"] is written
    assert torch.equal(written, torch.tensor([0.1, 0.2]) * 2)
    assert source["k"] is kept
    assert source["new"].dtype == torch.float64


def test_a_number_that_did_not_change_under_a_lower_precision_keeps_its_own() -> None:
    source = TensorDict({"a": torch.tensor([0.1, 0.2], dtype=torch.float64)}, [2])
    with source.to(torch.float16) as half:
        half["a"][1] = 3
    assert source["a"].tolist() == [0.1, 3]


def test_what_was_only_read_under_a_lower_precision_keeps_its_own() -> None:
    source = TensorDict({"a": torch.tensor(0.1, dtype=torch.float64)})
    with source.to(torch.float16) as half:
        assert half["a"].dtype == torch.float16
    assert float(source["a"]) == 0.1


def test_a_view_of_another_dtype_is_read_as_before() -> None:
    source = TensorDict({"a": torch.zeros(2), "b": torch.zeros(2)}, [2])
    with source.view(torch.int32) as bits:
        bits["a"] = torch.full((2,), 0x3F800000, dtype=torch.int32)
        bits["b"].fill_(0x40000000)
        bits["new"] = torch.ones(2, dtype=torch.int32)
    assert source["a"].tolist() == [1, 1]
    assert source["b"].tolist() == [2, 2]
    assert source["new"].dtype == torch.int32


def test_to_where_it_is_already_is_the_collection_itself() -> None:
    source = TensorDict({"a": torch.zeros(2)}, [2], device="cpu")
    with source.to("cpu") as same:
        assert same is source


# -- copies ------------------------------------------------------------------------------------------------------------


def test_a_reshape_that_copied_is_written_back() -> None:
    source = TensorDict({"a": torch.zeros(3, 2).t(), "b": torch.zeros(2, 3)}, [2, 3])
    a, b = source["a"], source["b"]
    with source.reshape(-1) as flat:
        assert not shares_memory(flat["a"], a)
        flat["a"].copy_(torch.arange(6.0))
        flat["b"].fill_(1)
    assert source["a"] is a
    assert source["b"] is b
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert b.eq(1).all()


@pytest.mark.parametrize("name", ["flip", "roll", "rot90"])
def test_what_is_written_into_a_copy_in_place_is_written_into_the_source_in_place(name: str) -> None:
    source = TensorDict({"a": torch.zeros(2, 3)}, [2, 3])
    a = source["a"]
    with getattr(source, name)(*{"flip": (0,), "roll": (1, 1), "rot90": ()}[name]) as result:
        result["a"][0, 0] = 1
    assert source["a"] is a
    assert a.sum() == 1
    assert_equal(getattr(source, name)(*{"flip": (0,), "roll": (1, 1), "rot90": ()}[name]), result)


def test_tensors_made_in_inference_mode_are_written_back() -> None:
    with torch.inference_mode():
        source = TensorDict({"a": torch.zeros(2)}, [2])
        with source.flip(0) as flipped:
            flipped["a"][0] = 1
        assert source["a"].tolist() == [0, 1]


# -- locks -------------------------------------------------------------------------------------------------------------


@each_operation
def test_the_contents_of_a_locked_source_can_change(operation: Operation) -> None:
    source = source_of(operation).lock_()
    before = list(source.values(True, True))
    with entered(operation, source) as result:
        result["a"].fill_(3)
        result.set_("text", "other")
    assert source.is_locked
    assert source["a"].eq(3).all()
    assert source["text"] == "other"
    assert all(a is b for a, b in zip(source.values(True, True), before, strict=True) if isinstance(b, Tensor))


locked_out: dict[str, Operation] = {
    "new": lambda d: d.set("new", torch.ones(d.batch_size)),
    "new nested": lambda d: d.set(("n", "new"), torch.ones(d.batch_size)),
    "replaced": lambda d: d.set("a", torch.ones(d.batch_size)),
    "removed": lambda d: d.del_("a"),
}


@pytest.mark.parametrize("operation", locked_out.values(), ids=locked_out.keys())
def test_the_keys_of_a_locked_source_cannot_change(operation: Operation) -> None:
    source = grid().lock_()
    with Unchanged(source), pytest.raises(RuntimeError, match="is locked"), source.view(-1) as flat:
        operation(flat)


def test_a_locked_part_of_the_source_leaves_all_of_it_as_it_was() -> None:
    source = grid()
    source["n", "m"].lock_()

    def write() -> None:
        with source.view(-1) as flat:
            flat["first"] = torch.ones(6)
            del flat["a"]
            flat["n", "m", "new"] = torch.ones(6, 4)

    with Unchanged(source), pytest.raises(RuntimeError, match="is locked"):
        write()


def test_a_source_that_is_unlocked_first_gets_the_changes() -> None:
    source = grid().lock_()
    with source.unlock_(), source.view(-1) as flat:
        flat["new"] = torch.ones(6)
    assert source.is_locked
    assert "new" in source


def test_a_lock_on_the_result_is_an_operation_of_its_own() -> None:
    source = grid()
    with source.view(-1) as flat:
        with flat.lock_():
            assert flat.is_locked
        flat["new"] = torch.ones(6)
    assert "new" in source
    view = source.view(-1)
    view.lock_()
    with view.unlock_():  # the last operation is this one
        view["other"] = torch.ones(6)
    assert view.is_locked
    assert "other" not in source


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_blocks_nest() -> None:
    source = grid()
    with source.view(-1) as flat, flat.unsqueeze(0) as row, row.flatten_keys() as keys:
        keys["n.new"] = torch.arange(6.0).reshape(1, 6)
    assert source["n", "new"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_result_can_be_entered_again() -> None:
    source = grid()
    flat = source.view(-1)
    with flat:
        flat["first"] = torch.ones(6)
        with flat:
            flat["second"] = torch.ones(6)
        assert "second" in source
        assert "first" not in source
    assert "first" in source
    with flat:
        flat["third"] = torch.ones(6)
    assert "third" in source


def test_a_change_outside_of_the_block_is_not_written_back() -> None:
    source = grid()
    flat = source.view(-1)
    flat["before"] = torch.ones(6)
    with flat:
        pass
    flat["after"] = torch.ones(6)
    assert list(source.keys()) == list(grid().keys())


def test_what_changes_in_the_source_inside_of_the_block_stays() -> None:
    source = grid()
    with source.view(-1) as flat:
        source["a"] = torch.full((2, 3), 5.0)
        del source["n"]
        flat["new"] = torch.ones(6)
    assert source["a"].eq(5).all()
    assert "n" not in source
    assert "new" in source


def test_a_block_without_an_operation_does_nothing() -> None:
    source = grid()
    with Unchanged(source), source as same:
        assert same is source
    with source.clone() as other:
        other["new"] = torch.ones(2, 3)
    with source[0] as row:
        row["new"] = torch.ones(3)
    assert "new" not in source


def test_an_exception_comes_through_and_nothing_is_written_back() -> None:
    source = grid()

    def write() -> None:
        with source.view(-1) as flat:
            flat["new"] = torch.ones(6)
            raise ZeroDivisionError

    with Unchanged(source), pytest.raises(ZeroDivisionError):
        write()
    with source.view(-1) as flat:
        flat["new"] = torch.ones(6)
    assert "new" in source


def test_the_batch_size_of_the_result_must_stay() -> None:
    source = grid()

    def write() -> None:
        with source.view(-1) as flat:
            del flat["labels"]
            flat.batch_size = []

    with Unchanged(source), pytest.raises(RuntimeError, match=r"batch size changed from \[6\] to \[\]"):
        write()


# -- the source --------------------------------------------------------------------------------------------------------


@pytest.fixture
def nothing_else_to_collect() -> None:
    """The collector looks at what is made from now on, and not at all that other tests have left."""
    gc.freeze()


@pytest.mark.usefixtures("nothing_else_to_collect")
@each_operation
def test_a_result_does_not_keep_its_source_alive(operation: Operation) -> None:
    source = source_of(operation)
    alive = weakref.ref(source)
    result = entered(operation, source)
    del source
    gc.collect()
    assert alive() is None
    with pytest.raises(RuntimeError, match=r"no longer exists.*keep it in a variable"), result:
        pass


@pytest.mark.usefixtures("nothing_else_to_collect")
def test_a_block_keeps_the_source_alive() -> None:
    source = grid()
    alive = weakref.ref(source)
    with source.view(-1):
        del source
        gc.collect()
        assert alive() is not None
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize("through", [lambda d: pickle.loads(pickle.dumps(d)), copy.deepcopy, copy.copy])
def test_a_copy_of_a_result_has_no_source(through: Operation) -> None:
    source = grid()
    flat = source.view(-1)
    with through(flat) as other:
        other["new"] = torch.ones(6)
    assert "new" not in source


# -- gradients ---------------------------------------------------------------------------------------------------------


def test_gradients_flow_through_what_is_written_back() -> None:
    weight = torch.ones(2, 3, requires_grad=True)
    source = TensorDict({"w": weight}, [2, 3])
    with source.view(-1) as flat:
        flat["double"] = flat["w"] * 2
    assert source["w"] is weight
    source["double"].sum().backward()
    assert weight.grad is not None
    assert weight.grad.eq(2).all()


# -- records and objects -----------------------------------------------------------------------------------------------


class Point(TensorClass):
    x: Tensor
    y: Tensor | None = None
    text: str | None = None


class Segment(TensorClass):
    start: Point
    end: Point


class Fixed(TensorClass, frozen=True):
    x: Tensor


def test_fields_of_a_record_are_written_back() -> None:
    source = Segment(*[Point(torch.zeros(2, 3), batch_size=[2, 3]) for _ in range(2)], batch_size=[2, 3])
    with source.view(-1) as flat:
        assert type(flat) is Segment
        flat.start.y = torch.arange(6)
        flat.end = Point(torch.ones(6), text="end", batch_size=[6])
    assert source.start.y is not None
    assert source.start.y.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert type(source.end) is Point
    assert source.end.text == "end"
    with source.view(-1) as flat:
        flat.start.y = None
    assert source.start.y is None


def test_flat_keys_of_a_record_are_written_back() -> None:
    source = Segment(*[Point(torch.zeros(2), batch_size=[2]) for _ in range(2)], batch_size=[2])
    with source.flatten_keys() as flat:
        flat["end.y"] = torch.ones(2)
    assert source.end.y is not None


def test_a_field_is_checked_when_it_is_written_back() -> None:
    source = Point(torch.zeros(2), batch_size=[2])
    before = source.clone()

    def write() -> None:
        with source.flatten_keys() as flat:
            flat["y"] = torch.zeros(2)
            flat["z"] = torch.zeros(2)

    with pytest.raises((AttributeError, KeyError), match="z"):
        write()
    assert source.y is None
    assert_equal(source, before)


def test_a_frozen_record_takes_contents_only() -> None:
    source = Fixed(torch.zeros(2), batch_size=[2])
    with source.flip(0) as flipped:
        flipped.x[0] = 1
    assert source.x.tolist() == [0, 1]
    with pytest.raises(AttributeError, match="frozen"), source.flatten_keys() as flat:
        flat["x"] = torch.ones(2)
    assert source.x.tolist() == [0, 1]


def test_objects_are_written_back() -> None:
    source = grid()
    with source.view(-1) as flat:
        flat.get("text").data = "other"
        flat[1] = TensorDict({"labels": "new"})
    assert source["text"] == "other"
    assert source["labels"] == [["p", "new", "r"], ["s", "t", "u"]]


@pytest.mark.parametrize("key", ["text", "labels"])
def test_an_object_alone_is_written_back(key: str) -> None:
    value = grid().get(key)
    with value.view(-1) as flat:
        pass
    assert value.tolist() == grid().get(key).tolist()
    with value.view(-1) as flat:
        flat[2] = "new"
    assert value.tolist()[0][2] == "new"
    assert value.batch_size == (2, 3)


def test_a_part_of_a_result_has_a_part_of_the_source() -> None:
    source = grid()
    flat = source.view(-1)
    with flat["n"] as part:
        assert isinstance(part, TensorCollection)
        part["new"] = torch.ones(6)
    assert source["n", "new"].shape == (2, 3)


# -- other stores ------------------------------------------------------------------------------------------------------

OF_PARTS: dict[str, Operation] = {
    "view": lambda d: d.view(6),
    "permute": lambda d: d.permute(1, 0),
    "unsqueeze": lambda d: d.unsqueeze(0),
    "unflatten": lambda d: d.unflatten(1, (3, 1)),
    "flip": lambda d: d.flip(0, 1),
    "flip of the parts": lambda d: d.flip(0),
    "view of another dtype": lambda d: d.view(torch.float32),
    "to": lambda d: d.to(torch.float64),
    "cpu": lambda d: d.cpu(),
    "flatten_keys": lambda d: d.flatten_keys(),
}


def lazy(*sizes: int) -> TensorDict:
    return lazy_stack([TensorDict({"a": torch.zeros(3), "n": {"b": torch.zeros(3, size)}}, [3]) for size in sizes])


@pytest.mark.parametrize("operation", OF_PARTS.values(), ids=OF_PARTS.keys())
def test_changes_of_a_lazy_stack_come_to_its_parts(operation: Operation) -> None:
    source = lazy(2, 2)
    with operation(source) as result:
        numbers = torch.arange(6.0).reshape(result.batch_size)
        result["new"] = numbers
        result["a"] = numbers + 1
    assert sorted(source[0].keys()) == ["a", "n", "new"]
    assert torch.equal(operation(source)["new"].float(), numbers)
    assert torch.equal(source["a"], source["new"] + 1)


@pytest.mark.parametrize("sizes", [(2, 2), (2, 5)], ids=["alike", "ragged"])
def test_a_lazy_stack_in_a_source_gets_its_changes(sizes: tuple[int, int]) -> None:
    source = TensorDict({"stack": lazy(*sizes), "x": torch.zeros(2, 3)}, [2, 3])
    parts = list(source["stack"].unbind(0))
    before = [part["n", "b"] for part in parts]
    with source.unsqueeze(2) as result:
        result["x"] = torch.ones(2, 3, 1)
        result["stack", "new"] = torch.arange(6.0).reshape(2, 3, 1)
    assert [part["new"].tolist() for part in parts] == [[0, 1, 2], [3, 4, 5]]
    assert all(part["n", "b"] is value for part, value in zip(parts, before, strict=True))
    assert source["x"].eq(1).all()


class Copying(UserDict[str, Any]):
    """A store that gives copies, as one in a file does."""

    def __getitem__(self, key: str) -> Any:
        return self.data[key].clone()


def test_a_source_that_gives_copies_is_written_to() -> None:
    store = Copying({"a": torch.zeros(2, 3), "b": torch.zeros(2, 3)})
    source = TensorDict.from_store(store, [2, 3])
    with source.view(-1) as flat:
        flat["a"].add_(1)
        flat["b"] = torch.full((6,), 2.0)
        flat["new"] = torch.full((6,), 3.0)
    assert {key: value.tolist() for key, value in store.data.items()} == {
        "a": [[1.0] * 3] * 2, "b": [[2.0] * 3] * 2, "new": [[3.0] * 3] * 2,
    }  # fmt: skip
