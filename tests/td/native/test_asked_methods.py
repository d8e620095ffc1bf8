"""Methods that ask native code first: the result, the state and the errors are those of the Python code."""

from __future__ import annotations

import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tensorclass import NonTensorData, TensorClass, TensorDict, lazy_stack
from tensorclass.td import native
from tensorclass.td.base import TensorCollection
from tensorclass.td.collection import Collection
from tensorclass.td.context import Inverse
from tests.native_code import native_code

pytestmark = pytest.mark.skipif(bool(native.WHY_OFF), reason=f"native code: {native.WHY_OFF}")


class Point(TensorClass):
    x: Tensor
    y: Tensor
    note: str | None = None


class Frozen(TensorClass, frozen=True):
    x: Tensor


def collections(size: tuple[int, ...]) -> dict[str, Callable[[], Any]]:
    """Collections of all kinds, with values of all kinds; the tensors are new ones at each call."""

    def flat() -> TensorDict:
        return TensorDict({"a": torch.zeros(*size, 2), "b": torch.ones(size)}, size)

    def nested() -> TensorDict:
        data = TensorDict({"a": torch.zeros(*size, 2), "b": {"c": torch.ones(size), "a.b": torch.ones(size)}}, size)
        data["b", "deep"] = TensorDict({"c": torch.zeros(size)}, size)
        return data

    def mixed() -> TensorDict:
        data = flat()
        data["text"] = "words"
        data["b",] = nn.Parameter(torch.ones(size))
        data["c"] = Point(torch.zeros(size), torch.zeros(size), "n", batch_size=size)
        return data

    return {
        "flat": flat,
        "nested": nested,
        "mixed": mixed,
        "dotted": lambda: TensorDict(
            {"a.b": torch.zeros(size), "a": torch.ones(size), "a...b": torch.ones(size)}, size
        ),
        "empty": lambda: TensorDict({}, size),
        "named": lambda: TensorDict(nested(), size, names=[f"n{dim}" for dim in range(len(size))]),
        "on a device": lambda: TensorDict(flat(), size, device="cpu"),
        "locked": lambda: nested().lock_(),
        "locked below": lambda: nested().lock_()["b"],
        "record": lambda: Point(torch.zeros(size), torch.ones(size), batch_size=size),
        "record with a text": lambda: Point(torch.zeros(size), torch.ones(size), "note", batch_size=size),
        "frozen": lambda: Frozen(torch.zeros(size), batch_size=size),
        "lazy": lambda: lazy_stack([flat(), flat()]),
        "in a stack": lambda: nested().unsqueeze(0),
    }


KEYS = st.one_of(
    st.sampled_from(["a", "b", "c", "x", "y", "note", "text", "a.b", ".", ""]),
    st.lists(st.sampled_from(["a", "b", "c", "x", "deep"]), min_size=1, max_size=3).map(tuple),
    st.sampled_from([(), ("b", ("c",)), 0, None, ("a", 1), 1.5]),
)


def written(size: tuple[int, ...]) -> st.SearchStrategy[Any]:
    """What a test sets under keys: what fits, what does not, and what has to be converted."""
    return st.sampled_from(
        [
            torch.ones(size),
            torch.ones(*size, 4),
            torch.ones(7, 3),
            torch.ones(()),
            torch.ones(size, dtype=torch.int64),
            nn.Parameter(torch.ones(size)),
            1.5,
            "words",
            None,
            {"c": torch.ones(size)},
            TensorDict({"c": torch.ones(size)}, size),
            torch.ones(size, device="meta"),
        ]
    )


BOOLS = st.booleans()


def reads(size: tuple[int, ...]) -> st.SearchStrategy[tuple[str, tuple[Any, ...]]]:
    """Names of methods with arguments."""
    both = st.tuples(BOOLS, BOOLS)
    values = written(size)
    one: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
        "get": st.one_of(st.tuples(KEYS), st.tuples(KEYS, values)),
        "__getitem__": st.tuples(KEYS),
        "__contains__": st.tuples(KEYS),
        "keys": st.one_of(st.just(()), both, st.tuples(BOOLS)),
        "items": st.one_of(st.just(()), both, st.tuples(BOOLS)),
        "set": st.one_of(st.tuples(KEYS, values), st.tuples(KEYS, values, BOOLS)),
        "__setitem__": st.tuples(KEYS, values),
        "pop": st.one_of(st.tuples(KEYS), st.tuples(KEYS, values)),
        "rename_key_": st.one_of(st.tuples(KEYS, KEYS), st.tuples(KEYS, KEYS, BOOLS)),
        "update": st.dictionaries(st.sampled_from(["a", "c", "x", ("b", "c")]), values).map(lambda given: (given,)),
        "copy": st.just(()),
        "clone": st.tuples(st.just(False)),
        "empty": st.one_of(st.just(()), st.tuples(BOOLS)),
        "select": st.lists(KEYS, max_size=3).map(tuple),
        "exclude": st.lists(KEYS, max_size=3).map(tuple),
        "flatten_keys": st.one_of(st.just(()), st.tuples(st.sampled_from([".", "..", "", "_"]))),
        "unflatten_keys": st.one_of(st.just(()), st.tuples(st.sampled_from([".", "..", "_"]))),
        "lock_": st.just(()),
        "unlock_": st.just(()),
    }
    return st.one_of([arguments.map(lambda given, name=name: (name, given)) for name, arguments in one.items()])


def described(value: Any, names: dict[int, str]) -> Any:
    """All that can be told of a result: tensors by identity, if they were there before."""
    if isinstance(value, Tensor):
        return names.get(id(value), ("new", type(value), value.shape, value.dtype, str(value.device)))
    if isinstance(value, Collection):
        context = getattr(value, "_context", None)
        return (
            type(value),
            names.get(id(value), "new"),
            [(key, described(entry, names)) for key, entry in value._store.items()],
            (type(value._batch_size), value._batch_size, value._device, value._names),
            None if value._lock is None else len(value._lock),
            None if context is None else (len(context[0]), described_undo(context[1:], names)),
        )
    if isinstance(value, (list, tuple)):
        return type(value), [described(entry, names) for entry in value]
    return type(value), repr(value)


def described_undo(undo: tuple[Any, ...], names: dict[int, str]) -> Any:
    """The references in an undo as names, what compares by identity or element by element as its class."""
    return [
        names.get(id(one()), "new") if isinstance(one, weakref.ref)
        else one if isinstance(one, (str, tuple, Inverse, type(None)))
        else type(one)
        for one in undo
    ]  # fmt: skip


def comparable(context: Any) -> Any:
    """A context with the classes of what compares by identity."""
    if isinstance(context, tuple):
        return tuple([comparable(one) for one in context])
    return context if isinstance(context, (str, Inverse, type(None))) else type(context)


def outcome(make: Callable[[], Any], name: str, given: tuple[Any, ...], on: bool) -> Any:
    """What a call returns or raises, and the state of the collection afterwards."""
    with native_code(on):
        data = make()
        names = {id(value): f"argument {position}" for position, value in enumerate(given)}
        known = [data, *data._all_nodes(), *data._leaves()]
        names.update({id(value): f"value {position}" for position, value in enumerate(known)})
        try:
            result = getattr(data, name)(*given)
            if name in ("keys", "items"):
                result = [type(result) if name == "keys" else None, len(list(result)), list(result)]
                if name == "keys":
                    result = [len(getattr(data, name)(*given)), repr(getattr(data, name)(*given)), result]
        except Exception as error:
            result = error
        return described(result, names), described(data, names)


@pytest.mark.parametrize("kind", [*collections(())])
@settings(max_examples=25)
@given(data=st.data(), size=st.sampled_from([(), (3,), (2, 3)]))
def test_the_outcome_is_that_of_the_python_code(kind: str, data: st.DataObject, size: tuple[int, ...]) -> None:
    make = collections(size)[kind]
    name, arguments = data.draw(reads(size))
    assert outcome(make, name, arguments, True) == outcome(make, name, arguments, False)


@pytest.mark.parametrize("kind", [*collections(())])
@settings(max_examples=10)
@given(steps=st.lists(st.sampled_from(["lock_", "unlock_", "enter", "exit", "view", "set"]), max_size=7))
def test_blocks_are_entered_and_left_as_in_python(kind: str, steps: list[str]) -> None:
    def states(on: bool) -> list[Any]:
        with native_code(on):
            data = collections((3,))[kind]()
            seen = []
            for step in steps:
                try:
                    if step == "enter":
                        data.__enter__()
                    elif step == "exit":
                        data.__exit__(None, None, None)
                    elif step == "set":
                        data["b"] = torch.ones(3)
                    else:
                        getattr(data, step)(*([-1] if step == "view" else []))
                except Exception as error:
                    seen.append(repr(error))
                locks = [None if node._lock is None else len(node._lock) for node in data._all_nodes()]
                seen.append((comparable(getattr(data, "_context", None)), locks, data.is_locked))
            return seen

    assert states(True) == states(False)


def test_a_subclass_has_a_say_in_what_it_overrides() -> None:
    class Loud(TensorDict):
        def __getitem__(self, index: Any) -> Any:
            return "loud" if index == "a" else super().__getitem__(index)

        def _set(self, key: str, *args: Any, **kwargs: Any) -> None:
            super()._set(key.upper(), *args, **kwargs)

    data = Loud({"a": torch.zeros(3), "b": torch.ones(3)}, [3])
    data.set("c", torch.ones(3))
    data["d"] = torch.ones(3)
    assert data["a"] == "loud"
    assert data["b"].sum() == 3
    assert {"C", "D"} <= {*data.keys()}
    assert type(data.copy()) is type(data.select("a")) is Loud


def test_an_object_of_another_class_is_refused() -> None:
    for name in ("get", "__getitem__", "__contains__", "pop"):
        with pytest.raises((AttributeError, TypeError)):
            getattr(TensorCollection, name)(object(), "a")


def test_a_collection_that_is_made_halfway_is_left_to_python() -> None:
    half = object.__new__(TensorDict)
    for call in (
        lambda: list(half.keys()),
        half.copy,
        half.lock_,
        half.empty,
        lambda: half.get("a"),
        lambda: half.set("a", 1),
    ):
        with pytest.raises(AttributeError):
            call()


def test_a_deep_tree_raises_no_worse_error_than_in_python() -> None:
    data = node = TensorDict({}, [])
    for _ in range(3000):
        below = TensorDict({}, [])
        node._store["a"] = below
        node = below
    for call in (data.copy, lambda: list(data.keys(True, True)), data.flatten_keys):
        with pytest.raises(RecursionError):
            call()


def test_non_tensor_data_is_read_as_its_object() -> None:
    data = TensorDict({"text": "words", "b": {"text": "more"}}, [])
    assert (data["text"], data["b", "text"]) == ("words", "more")
    assert type(data.get("text")) is NonTensorData


def test_compiled_code_calls_the_functions() -> None:
    def change(data: TensorDict) -> tuple[Any, ...]:
        data.unlock_().set("c", data.get("a") * 2).lock_()
        flat = data.flatten_keys(".").exclude("a").copy()
        return flat, list(data.keys(True, True)), "a" in data, data.get("missing", None)

    made = collections((3,))["nested"]
    data = made()
    compiled = torch.compile(change, backend="eager", fullgraph=True)
    for _ in range(2):
        results = compiled(made()), change(made())
        assert results[0][1:] == results[1][1:]
        assert (results[0][0] == results[1][0]).all()
    data.set("z", torch.ones(3))
    assert data.get("z").sum() == 3


REENTRANT = '''
import gc, json, random, sys
import torch
from torch import Tensor
from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.td import native

assert native.ON
random.seed(int(sys.argv[1]))

class Point(TensorClass):
    k0: Tensor
    k1: Tensor

def flat(count):
    return {f"k{i}": torch.full((2,), i) for i in range(count)}

def fresh():
    data = TensorDict({**flat(12), "n1": flat(5), "n2": {"n3": flat(3)}}, [2])
    return data, data["n1"], data["n2", "n3"]

def number(key):
    return int((key if isinstance(key, str) else key[-1]).split(".")[-1].strip("kr"))

def check(pairs):
    """Each value stands under its own key, whatever the key is called now."""
    for key, value in pairs:
        if isinstance(value, (dict, TensorDict)):
            check(value.items())
        elif isinstance(value, Tensor):
            assert int(value[0]) == number(key), (key, value)

def change(phase, info):
    global busy
    if busy or phase != "start":
        return
    busy = True
    store = random.choice(levels)._store
    keys = [key for key in store if key[0] in "kr"]
    if keys:
        key = random.choice(keys)
        what = random.randrange(4)
        if what == 0:
            del store[key]
        elif what == 1:
            store["r" + key.strip("kr")] = store.pop(key)
        elif what == 2:
            store[key] = torch.full((2,), number(key))
        elif random.random() < 0.1:
            store.clear()
    busy = False

calls = {
    "keys": lambda data: [number(key) for key in data.keys(True, True)],
    "items": lambda data: check(data.items(True, True)),
    "copy": lambda data: check(data.copy().items()),
    "select": lambda data: check(data.select(*[key for key in data.keys() if key[0] == "k"]).items()),
    "exclude": lambda data: check(data.exclude("k0", "k3").items()),
    "empty": lambda data: data.empty(),
    "flatten": lambda data: check(data.flatten_keys().items()),
    "unflatten": lambda data: check(data.flatten_keys().unflatten_keys().items()),
    "to_dict": lambda data: check(data.to_dict().items()),
    "TensorDict": lambda data: check(TensorDict({**data._store}, [2]).items()),
    "source": lambda data: check(TensorDict(data._store, [2]).items()),
    "from_dict": lambda data: check(TensorDict.from_dict(data._store, batch_size=[2]).items()),
    "pytree": lambda data: check(TensorDict.from_pytree(data.to_dict()).to_pytree().items()),
    "lock": lambda data: data["n1"].lock_().unlock_(),
    "set": lambda data: data.set(("n1", "k1"), torch.full((2,), 1)).get(("n1", "k1")),
    "record": lambda data: check(Point(data["k0"], data["k1"], batch_size=[2]).to_dict().items()),
    "rows": lambda data: check(Point.from_dict({"k0": data["k0"], "k1": data["k1"]}, batch_size=[2]).items()),
    "lazy": lambda data: check(lazy_stack([data["n1"], data["n1"].copy()])[0:2][0].items()),
    "append": lambda data: lazy_stack([data["n1"]]).append(data["n1"].copy()),
}
errors = {}
busy = True
gc.callbacks.append(change)
for _ in range(60):
    for name, call in calls.items():
        data, *below = fresh()
        levels = [data, *below]
        gc.set_threshold(1)
        busy = False
        try:
            call(data)
        except AssertionError:
            raise
        except Exception as error:
            errors[type(error).__name__] = errors.get(type(error).__name__, 0) + 1
        finally:
            busy = True
            gc.set_threshold(700)
print(json.dumps(errors))
'''


@pytest.mark.parametrize("seed", ["1", "2"])
def test_collections_that_change_while_native_code_reads_them(seed: str) -> None:
    """A collector that runs at each allocation renames, replaces and removes keys: no crash, no mixed values."""
    done = subprocess.run([sys.executable, "-c", REENTRANT, seed], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {*json.loads(done.stdout)} <= {"KeyError", "RuntimeError", "ConversionError", "AttributeError", "ValueError"}
