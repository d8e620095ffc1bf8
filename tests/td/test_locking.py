"""A lock protects keys and the identity of values, at every level; it can be lifted where it was put on."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._pytree import tree_map

from tensorclass import NonTensorData, TensorDict, stack
from tests.interrupting import interrupted
from tests.samples import Unchanged, mixed, nested

Operation = Callable[[TensorDict], Any]


def state(data: TensorDict) -> dict[Any, bool]:
    """Which collections of a tree are locked."""
    return {"": data.is_locked} | {k: v.is_locked for k, v in data.items(True) if isinstance(v, TensorDict)}


def locked_everywhere(data: TensorDict) -> bool:
    return all(state(data).values())


def unlocked_everywhere(data: TensorDict) -> bool:
    return not any(state(data).values())


# -- what is protected ------------------------------------------------------------------------------------------------

forbidden: dict[str, Operation] = {
    "item": lambda d: d.__setitem__("z", torch.ones(3)),
    "item over a value": lambda d: d.__setitem__("a", torch.ones(3)),
    "nested item": lambda d: d.__setitem__(("b", "z"), torch.ones(3)),
    "item of a part": lambda d: d["b"].__setitem__("z", torch.ones(3)),
    "item of an empty part": lambda d: d["empty"].__setitem__("z", torch.ones(3)),
    "set": lambda d: d.set("a", torch.ones(3)),
    "set of a new level": lambda d: d.set(("p", "q"), torch.ones(3)),
    "set inplace of a new key": lambda d: d.set("z", torch.ones(3), inplace=True),
    "set_non_tensor": lambda d: d.set_non_tensor("z", 1),
    "setdefault of a new key": lambda d: d.setdefault("z", torch.ones(3)),
    "create_nested": lambda d: d.create_nested("z"),
    "update": lambda d: d.update({"a": torch.ones(3)}),
    "update of a part": lambda d: d.update({"b": {"z": torch.ones(3)}}),
    "update inplace of a new key": lambda d: d.update({"z": torch.ones(3)}, inplace=True),
    "rows of a new key": lambda d: d.__setitem__(0, TensorDict({"z": torch.ones(())})),
    "rows of a new nested key": lambda d: d.__setitem__(0, TensorDict({"b": {"z": torch.ones(())}})),
    "del": lambda d: d.__delitem__("a"),
    "del nested": lambda d: d.__delitem__(("b", "c")),
    "del_": lambda d: d.del_("a"),
    "pop": lambda d: d.pop("a"),
    "pop nested": lambda d: d.pop(("b", "c")),
    "popitem": lambda d: d.popitem(),
    "clear": lambda d: d.clear(),
    "clear of a part": lambda d: d["b"].clear(),
    "rename_key_": lambda d: d.rename_key_("a", "z"),
    "rename_key_ nested": lambda d: d.rename_key_(("b", "c"), "z"),
    "select inplace": lambda d: d.select("a", inplace=True),
    "exclude inplace": lambda d: d.exclude("a", inplace=True),
    "split_keys inplace": lambda d: d.split_keys(["a"], inplace=True),
    "flatten_keys inplace": lambda d: d.flatten_keys(inplace=True),
    "unflatten_keys inplace": lambda d: d.unflatten_keys(inplace=True),
}


@pytest.mark.parametrize("operation", forbidden.values(), ids=forbidden.keys())
def test_keys_of_a_locked_collection_cannot_change(operation: Operation) -> None:
    data = nested().lock_()
    with Unchanged(data), pytest.raises(RuntimeError, match="locked"):
        operation(data)


def test_the_error_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"set_, update_, copy_.*with data\.unlock_\(\)"):
        nested().lock_()["z"] = 1


def test_an_object_in_a_locked_collection_cannot_be_replaced_through_its_holder() -> None:
    data = mixed().lock_()
    with pytest.raises(RuntimeError, match="locked"):
        data.get("text").data = "other"
    with pytest.raises(RuntimeError, match="locked"):
        data.get("text").update("other")
    assert data["text"] == "hello"


allowed: dict[str, Operation] = {
    "set_": lambda d: d.set_("a", torch.ones(3, 2)),
    "set_ nested": lambda d: d.set_(("b", "c"), torch.ones(3)),
    "set inplace": lambda d: d.set("a", torch.ones(3, 2), inplace=True),
    "set_at_": lambda d: d.set_at_("a", 1, 0),
    "fill_": lambda d: d.fill_("a", 1),
    "setdefault": lambda d: d.setdefault("a", torch.ones(3)),
    "update_": lambda d: d.update_({"a": torch.ones(3, 2), "b": {"c": torch.ones(3)}}),
    "update inplace": lambda d: d.update({"a": torch.ones(3, 2)}, inplace=True),
    "update_at_": lambda d: d.update_at_({"a": torch.ones(2)}, 0),
    "copy_": lambda d: d.copy_(nested() + 1),
    "rows": lambda d: d.__setitem__(0, d[1]),
    "a number into rows": lambda d: d.__setitem__(0, 1),
    "in-place operation": lambda d: d.add_(1),
    "in-place operator": lambda d: d.__iadd__(1),
    "zero_": lambda d: d.zero_(),
    "apply_": lambda d: d.apply_(lambda x: x + 1),
    "requires_grad_": lambda d: d.requires_grad_(),
    "load_state_dict": lambda d: d.load_state_dict((nested() + 1).state_dict()),
    "names": lambda d: setattr(d, "names", ["row"]),
    "reading": lambda d: (d["a"], d[0], list(d.items()), d.to_dict(), repr(d)),
}


@pytest.mark.parametrize("operation", allowed.values(), ids=allowed.keys())
def test_the_contents_of_a_locked_collection_can_change(operation: Operation) -> None:
    data = nested().lock_()
    before = list(data.values(True))
    operation(data)
    assert locked_everywhere(data)
    assert all(now is then for now, then in zip(data.values(True), before, strict=True))


def test_an_object_that_is_written_in_place_is_locked_too() -> None:
    data = mixed().lock_()
    data.set_("text", "other").update_({"nest": {"none": "some"}}).update({"labels": ["s", "t", "u"]}, inplace=True)
    assert (data["text"], data["nest", "none"], data["labels"]) == ("other", "some", ["s", "t", "u"])
    for key in ("text", ("nest", "none"), "labels"):
        assert data.get(key).is_locked


derived: dict[str, Operation] = {
    "clone": lambda d: d.clone(),
    "clone(False)": lambda d: d.clone(False),
    "copy": lambda d: d.copy(),
    "copy.copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "index": lambda d: d[:2],
    "reshape": lambda d: d.reshape(1, 3),
    "arithmetic": lambda d: d + 1,
    "apply": lambda d: d.apply(lambda x: x),
    "detach": lambda d: d.detach(),
    "to another device": lambda d: d.to("meta"),
    "to another dtype": lambda d: d.to(torch.float64),
    "stack": lambda d: stack([d, d]),
    "flatten_keys": lambda d: d.flatten_keys(),
    "rename_keys": lambda d: d.rename_keys({"a": "z"}, strict=False),
    "replace": lambda d: d.replace(a=torch.ones(3)),
    "to_tensordict": lambda d: d.to_tensordict(),
    "empty": lambda d: d.empty(True),
    "unflatten_keys": lambda d: d.unflatten_keys(),
    "a function": lambda d: torch.zeros_like(d.select("x", "n") if "x" in d else d),
    "a cast": lambda d: d.double(),
    "data": lambda d: d.data,
    "pytree": lambda d: tree_map(lambda x: x, d),
    "expand": lambda d: d.expand(2, 3),
    "rename": lambda d: d.rename("row"),
}


@pytest.mark.parametrize("operation", derived.values(), ids=derived.keys())
def test_what_is_made_of_a_locked_collection_is_not_locked(operation: Operation) -> None:
    for data in (nested(), mixed()):
        data.lock_()
        result = operation(data)
        assert unlocked_everywhere(result)
        assert not any(result.get(key).is_locked for key in result.keys() if not isinstance(result.get(key), Tensor))  # noqa: SIM118
        assert locked_everywhere(data)


def test_what_removes_nothing_is_allowed() -> None:
    data = nested().lock_()
    with Unchanged(data):
        assert data.pop("missing", 5) == 5
        assert data.pop(("b", "missing"), None) is None
        assert data.exclude("missing", ("b", "missing"), inplace=True) is data
        with pytest.raises(KeyError):
            data.pop("missing")


def test_a_selection_is_not_locked_but_shares_locked_parts() -> None:
    data = nested().lock_()
    part = data.select("b")
    assert not part.is_locked
    assert part["b"] is data["b"]
    assert part["b"].is_locked


# -- locking and unlocking --------------------------------------------------------------------------------------------


def test_lock_and_unlock_reach_every_level() -> None:
    data = nested()
    assert unlocked_everywhere(data)
    assert data.lock_() is data
    assert locked_everywhere(data)
    assert data.unlock_() is data
    assert unlocked_everywhere(data)


def test_is_locked_can_be_set() -> None:
    data = nested()
    data.is_locked = True
    assert locked_everywhere(data)
    data.is_locked = False
    assert unlocked_everywhere(data)


def test_locking_twice_is_locking_once() -> None:
    data = nested().lock_().lock_()
    data.unlock_()
    assert unlocked_everywhere(data)
    assert unlocked_everywhere(data.unlock_())


@pytest.mark.parametrize("part", ["b", ("b", "inner"), "empty"], ids=repr)
def test_a_part_of_a_locked_collection_cannot_be_unlocked(part: Any) -> None:
    data = nested().lock_()
    with Unchanged(data):
        with pytest.raises(RuntimeError, match="part of a locked TensorDict: unlock that one"):
            data[part].unlock_()
        with pytest.raises(RuntimeError, match="part of a locked"):
            data[part].is_locked = False
    data.unlock_()
    data[part].lock_().unlock_()


def test_a_part_can_be_locked_alone() -> None:
    data = nested()
    data["b"].lock_()
    assert state(data) == {"": False, "b": True, ("b", "inner"): True, "empty": False}
    data["z"] = torch.ones(3)
    with pytest.raises(RuntimeError, match="locked"):
        data["b", "z"] = torch.ones(3)
    data["b"] = {}
    assert not data["b"].is_locked


def test_unlocking_the_whole_unlocks_a_part_that_was_locked_before() -> None:
    data = nested()
    data["b"].lock_()
    assert unlocked_everywhere(data.lock_().unlock_())


def test_a_value_written_into_an_unlocked_collection_keeps_its_own_lock() -> None:
    part = TensorDict({"c": torch.ones(3)}, [3]).lock_()
    data = TensorDict({"b": part}, [3])
    assert not data.is_locked
    assert data["b"] is part
    assert part.is_locked
    part.unlock_()


def test_what_is_written_after_unlocking_is_locked_the_next_time() -> None:
    data = nested().lock_().unlock_()
    data["p", "q"] = torch.ones(3)
    assert locked_everywhere(data.lock_())


def test_a_part_taken_out_is_free_again() -> None:
    data = nested().lock_().unlock_()
    part = data.pop("b")
    data.lock_()
    assert unlocked_everywhere(part)
    part["z"] = torch.ones(3)


def shared() -> tuple[TensorDict, TensorDict, TensorDict]:
    """Two collections with one in common, and that one."""
    part = TensorDict({"c": 1, "d": {"e": 2}})
    return TensorDict({"p": part}), TensorDict({"q": part}), part


def test_a_part_of_two_locked_collections_is_free_when_both_are_unlocked() -> None:
    first, second, part = shared()
    first.lock_()
    second.lock_()
    first.unlock_()
    assert not first.is_locked
    assert locked_everywhere(part)
    with pytest.raises(RuntimeError, match="part of a locked"):
        part.unlock_()
    second.unlock_()
    assert unlocked_everywhere(part)


def test_a_collection_with_the_same_part_twice_is_unlocked_in_one_step() -> None:
    part = TensorDict({"c": 1})
    data = TensorDict({"p": part, "q": part}).lock_().unlock_()
    assert unlocked_everywhere(data)


def test_a_part_is_free_when_the_locked_collection_is_gone() -> None:
    first, _, part = shared()
    first.lock_()
    del first
    gc.collect()
    assert unlocked_everywhere(part.unlock_())


def test_a_lock_does_not_keep_a_collection_alive() -> None:
    import weakref

    first, _, _part = shared()
    alive = weakref.ref(first.lock_())
    del first
    gc.collect()
    assert alive() is None


def test_update_can_ignore_the_lock_and_leaves_everything_locked() -> None:
    data = nested().lock_()
    data.update({"a": torch.ones(3), "b": {"z": torch.ones(3)}, "p": {"q": torch.ones(3)}}, ignore_lock=True)
    assert ("b", "z") in data
    assert locked_everywhere(data)
    assert unlocked_everywhere(data.unlock_())


def test_compiled_code_can_ignore_the_lock() -> None:
    def add(data: TensorDict, values: Tensor) -> TensorDict:
        return data.update({"b": {"z": values}}, ignore_lock=True)

    data = nested().lock_()
    torch.compile(add, backend="eager", fullgraph=True)(data, torch.ones(3))
    assert ("b", "z") in data
    assert locked_everywhere(data)
    assert unlocked_everywhere(data.unlock_())


def test_update_that_ignores_the_lock_leaves_the_own_lock_of_a_part() -> None:
    part = nested().lock_()
    TensorDict({"part": part}, [3]).update({"text": "text"}, ignore_lock=True)
    assert locked_everywhere(part)


def test_update_that_ignores_the_lock_and_fails_leaves_everything_as_it_was() -> None:
    data = nested().lock_()
    with Unchanged(data), pytest.raises(RuntimeError, match="batch dimension mismatch"):
        data.update({"b": {"z": torch.ones(3)}, "p": torch.ones(2)}, ignore_lock=True)


def test_update_that_ignores_the_lock_of_a_part_leaves_it_part_of_the_whole() -> None:
    data = nested().lock_()
    data["b"].update({"z": torch.ones(3)}, ignore_lock=True)
    assert locked_everywhere(data)
    with pytest.raises(RuntimeError, match="part of a locked"):
        data["b"].unlock_()
    assert unlocked_everywhere(data.unlock_())


# -- as context managers ----------------------------------------------------------------------------------------------


def test_with_unlock_locks_again() -> None:
    data = nested().lock_()
    with data.unlock_() as same:
        assert same is data
        assert unlocked_everywhere(data)
        data["p", "q"] = torch.ones(3)
    assert locked_everywhere(data)
    assert ("p", "q") in data


def test_with_lock_unlocks_again() -> None:
    data = nested()
    with data.lock_() as same:
        assert same is data
        assert locked_everywhere(data)
    assert unlocked_everywhere(data)


@pytest.mark.parametrize("locked", [False, True])
def test_with_an_operation_that_changed_nothing_undoes_nothing(locked: bool) -> None:
    data = nested()
    if locked:
        data.lock_()
    with data.lock_() if locked else data.unlock_():
        assert data.is_locked == locked
    assert data.is_locked == locked


def test_with_statements_on_one_collection_nest() -> None:
    data = nested().lock_()
    with data.unlock_():
        with data.lock_():
            with data.unlock_():
                assert not data.is_locked
            assert data.is_locked
        assert not data.is_locked
        with data.unlock_():
            assert not data.is_locked
        assert not data.is_locked
    assert data.is_locked


def test_a_with_statement_undoes_its_own_operation_whatever_comes_between() -> None:
    data = nested().lock_()
    with data.unlock_():
        data.lock_()
        data.unlock_()
        data.lock_()
    assert data.is_locked
    with data.unlock_():
        data.lock_()
        data.unlock_()
    assert data.is_locked


def test_an_operation_outside_of_with_is_not_undone() -> None:
    data = nested()
    data.lock_()
    data.unlock_()
    data.lock_()
    with data.unlock_():
        pass
    assert data.is_locked
    data.unlock_()
    assert not data.is_locked


@pytest.mark.parametrize("locked", [False, True])
def test_an_exception_inside_of_with_comes_through_and_the_lock_is_restored(locked: bool) -> None:
    data = nested()
    if locked:
        data.lock_()
    with pytest.raises(ZeroDivisionError), data.unlock_() if locked else data.lock_():
        raise ZeroDivisionError
    assert data.is_locked == locked


def test_an_exception_in_an_inner_with_restores_only_what_it_leaves() -> None:
    data = nested().lock_()
    with data.unlock_():
        with pytest.raises(ZeroDivisionError), data.lock_():
            raise ZeroDivisionError
        assert not data.is_locked
    assert data.is_locked


def test_with_on_a_part_of_a_locked_collection_is_refused() -> None:
    data = nested().lock_()
    with pytest.raises(RuntimeError, match="part of a locked"), data["b"].unlock_():
        pass
    assert locked_everywhere(data)


def test_with_statements_on_a_collection_and_a_part_of_it() -> None:
    data = nested().lock_()
    with data.unlock_(), data["b"].lock_():
        data["z"] = torch.ones(3)
        with pytest.raises(RuntimeError, match="locked"):
            data["b", "z"] = torch.ones(3)
    assert locked_everywhere(data)


# -- in and out -------------------------------------------------------------------------------------------------------


def saved(data: TensorDict) -> TensorDict:
    buffer = io.BytesIO()
    torch.save(data, buffer)
    buffer.seek(0)
    loaded: TensorDict = torch.load(buffer, weights_only=False)
    return loaded


@pytest.mark.parametrize("through", [lambda d: pickle.loads(pickle.dumps(d)), saved], ids=["pickle", "torch.save"])
def test_pickling_keeps_the_lock(through: Operation) -> None:
    data = through(nested().lock_())
    assert locked_everywhere(data)
    with pytest.raises(RuntimeError, match="part of a locked"):
        data["b"].unlock_()
    assert unlocked_everywhere(data.unlock_())
    assert unlocked_everywhere(through(nested()))


def test_pickling_a_part_keeps_its_lock_alone() -> None:
    part = pickle.loads(pickle.dumps(nested().lock_()["b"]))
    assert part.is_locked
    assert unlocked_everywhere(part.unlock_())


def test_a_copy_made_inside_of_with_is_not_undone_with_the_original() -> None:
    data = nested().lock_()
    with data.unlock_():
        other = data.clone()
    assert data.is_locked
    assert not other.is_locked


def test_non_tensor_data_locks_like_any_collection() -> None:
    value = NonTensorData("text").lock_()
    with pytest.raises(RuntimeError, match="locked"):
        value.data = "other"
    with value.unlock_():
        value.data = "other"
    assert value.data == "other"
    assert value.is_locked


def test_a_lock_reaches_the_parts_that_a_collection_says_it_has() -> None:
    class Pair(TensorDict):
        """Reads its values from two parts, as a lazy stack does."""

        __slots__ = ("parts",)
        parts: list[Any]

        def _nodes(self) -> list[Any]:
            return self.parts

    pair = Pair({})
    pair.parts = [nested(), nested()]
    pair.lock_()
    assert all(map(locked_everywhere, pair.parts))
    with pytest.raises(RuntimeError, match="part of a locked Pair"):
        pair.parts[0].unlock_()
    pair.unlock_()
    assert all(map(unlocked_everywhere, pair.parts))


# -- any order ---------------------------------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(("lock", "unlock"))), max_size=12)


@given(steps=STEPS)
def test_a_part_is_free_exactly_when_no_locked_holder_is_left(steps: list[tuple[int, str]]) -> None:
    """Five collections that hold one another, some of them twice, against the rule written down plainly."""
    leaf, other = TensorDict({"x": 1}), TensorDict({"y": 1})
    middle = TensorDict({"l": leaf, "o": other})
    first, second = TensorDict({"m": middle}), TensorDict({"m": middle, "l": leaf})
    nodes = [leaf, other, middle, first, second]
    below = {2: [0, 1], 3: [2], 4: [2, 0]}
    locked: dict[int, set[int]] = {}  # locked node -> the holders that it was locked under

    def lock(node: int, under: int | None) -> None:
        locked.setdefault(node, set()).update(() if under is None else (under,))
        for part in below.get(node, ()):
            lock(part, node)

    def unlock(node: int) -> None:
        locked.pop(node, None)
        for part in below.get(node, ()):
            if part in locked:
                locked[part].discard(node)
                if not any(holder in locked for holder in locked[part]):
                    unlock(part)

    for node, step in steps:
        if step == "lock":
            nodes[node].lock_()
            if node not in locked:
                lock(node, None)
        elif any(holder in locked for holder in locked.get(node, ())):
            with pytest.raises(RuntimeError, match="part of a locked"):
                nodes[node].unlock_()
        else:
            nodes[node].unlock_()
            if node in locked:
                unlock(node)
        assert [data.is_locked for data in nodes] == [i in locked for i in range(5)]


# -- all levels or none -----------------------------------------------------------------------------------------------


class Failing(dict[str, Any]):
    """A store of the user's whose values cannot be read for a while."""

    fails = False

    def __getitem__(self, key: str) -> Any:
        if self.fails:
            raise OSError("gone")
        return super().__getitem__(key)


def levels(data: Any) -> list[Any]:
    """A collection and those below it, each once."""
    found: list[Any] = [data]
    seen = {id(data)}
    for node in found:
        for below in node._nodes():
            if id(below) not in seen:
                seen.add(id(below))
                found.append(below)
    return found


def beside_failing(store: Failing) -> TensorDict:
    """A collection with levels in front of one on a store, which is in two places, and behind it."""
    rows = TensorDict.from_store(store, device="cpu")
    both = TensorDict({"rows": rows, "last": {"y": torch.zeros(2)}}, device="cpu")
    return TensorDict({"a": {"b": torch.zeros(2)}, "n": {"f": both, "c": {"d": torch.zeros(2)}}, "g": both}, [], "cpu")


WALKS: dict[str, Operation] = {
    "lock_": lambda d: d.lock_(),
    "unlock_": lambda d: d.unlock_(),
    "update": lambda d: d.update({"new": torch.zeros(2)}, ignore_lock=True),
    "clear_device_": lambda d: d.clear_device_(),
}


@pytest.mark.parametrize("name", WALKS)
def test_an_operation_that_fails_at_a_level_changes_none(name: str) -> None:
    store = Failing(x=torch.zeros(2), deep={"z": torch.zeros(2)})
    data = beside_failing(store)
    if name != "lock_":
        data.lock_()
    nodes = levels(data)
    assert len(nodes) == 8
    before = [(node.is_locked, node.device) for node in nodes]
    store.fails = True
    if name != "update":  # fails no more than it writes there
        with pytest.raises(OSError, match="gone"):
            WALKS[name](data)
        assert [(node.is_locked, node.device) for node in nodes] == before
    store.fails = False
    WALKS[name](data)
    changed = [(node.is_locked, node.device) for node in nodes]
    assert changed == before if name == "update" else all(a != b for a, b in zip(changed, before, strict=True))


@pytest.mark.parametrize("name", WALKS)
def test_an_interrupt_leaves_all_levels_alike(name: str) -> None:
    at = 0
    while True:
        at += 1
        data = beside_failing(Failing(x=torch.zeros(2), deep={"z": torch.zeros(2)}))
        if name != "lock_":
            data.lock_()
        nodes = levels(data)
        outcome = interrupted(lambda data=data: WALKS[name](data), at)
        states = {(node.is_locked, node.device) for node in nodes}
        assert len(states) == 1, (outcome, states)
        if name == "update":
            assert data.is_locked
        if outcome.where is None:
            break
    assert at > 10


def test_levels_that_are_in_many_places_are_locked_once() -> None:
    wide = TensorDict(x=torch.zeros(2))
    for _ in range(60):  # two to the power of sixty ways down
        wide = TensorDict(l=wide, r=wide)
    nodes = levels(wide)
    wide.lock_()
    assert len(nodes) == 61
    assert all(node.is_locked for node in nodes)
    with pytest.raises(RuntimeError, match="part of a locked"):
        nodes[-1].unlock_()
    wide.unlock_().lock_().unlock_()
    assert not any(node.is_locked for node in nodes)


def test_any_depth_is_locked() -> None:
    deep = last = TensorDict()
    for _ in range(3000):  # from the outside: a collection is searched for its owner when it is put into one
        last["n"] = TensorDict()
        last = last["n"]
    last["x"] = torch.zeros(2)
    nodes = levels(deep)
    assert len(nodes) == 3001
    deep.lock_()
    assert all(node.is_locked for node in nodes)
    deep.unlock_()
    assert not any(node.is_locked for node in nodes)
    while nodes:  # from the outside, since Python frees what is nested by recursion
        nodes.pop(0)._store.clear()
