"""What a call raises that cannot be done: a class of error that callers know, a message that says what was wrong, and
a collection that is as it was, also where the tenth of twenty keys is the one that does not fit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, MutableMapping
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensordict as peer
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as ours
from tensorclass import TensorClass, TensorCollection
from tests.parity.sides import outcome

Call = Callable[..., Any]

FIRST = [f"a{i}" for i in range(6)]
SECOND = [f"b{i}" for i in range(6)]
THIRD = [f"c{i}" for i in range(8)]
#: the tenth of the twenty keys
BAD = ("b", "b3")


# -- the collections --------------------------------------------------------------------------------------------------


def numbers(rows: int = 4) -> dict[str, Any]:
    """Twenty values under twenty keys on three levels."""
    shape = (rows,) if rows else ()
    return {
        **{key: torch.rand(*shape, 3) for key in FIRST},
        "b": {
            **{key: torch.rand(*shape, 2) for key in SECOND},
            "c": {key: torch.rand(shape) for key in THIRD},
        },
    }


class Third(TensorClass):
    c0: Tensor
    c1: Tensor
    c2: Tensor
    c3: Tensor
    c4: Tensor
    c5: Tensor
    c6: Tensor
    c7: Tensor


class Second(TensorClass):
    b0: Tensor
    b1: Tensor
    b2: Tensor
    b3: Tensor
    b4: Tensor
    b5: Tensor
    c: Third


class First(TensorClass):
    a0: Tensor
    a1: Tensor
    a2: Tensor
    a3: Tensor
    a4: Tensor
    a5: Tensor
    b: Second


Made = tuple[Any, list[Any]]


def plain() -> Made:
    data = ours.TensorDict(numbers(), [4], names=["rows"])
    return data, [data]


def record() -> Made:
    data: Any = First.from_dict(numbers(), batch_size=[4])
    return data, [data]


def lazy() -> Made:
    data = ours.lazy_stack([ours.TensorDict(numbers(0)) for _ in range(4)])
    return data, [data, *data.tensordicts]


def rows() -> Made:
    source = ours.TensorDict(numbers(8), [8])
    data = source.get_sub_tensordict(slice(0, 8, 2))
    return data, [data, source]


def picked() -> Made:
    source = ours.TensorDict(numbers(8), [8])
    data = source.get_sub_tensordict(torch.tensor([6, 0, 3, 5]))
    return data, [data, source]


def mapping() -> Made:
    store = numbers()
    data = ours.TensorDict.from_store(store, [4])
    return data, [data, store]


FORMS: dict[str, Callable[[], Made]] = {
    "plain": plain,
    "record": record,
    "lazy": lazy,
    "rows": rows,
    "picked": picked,
    "mapping": mapping,
}


def snapshot(value: Any) -> Any:
    """All that can be seen of a value, and which tensors it holds, as plain data."""
    if isinstance(value, Tensor):
        content = None if value.is_meta else value.detach().contiguous().numpy().tobytes()
        grad = value.grad
        return "tensor", value.dtype, value.shape, value.device, value.requires_grad, content, snapshot(grad)
    if isinstance(value, TensorCollection):
        entries = [(key, entry(value, key)) for key in value.keys()]  # noqa: SIM118
        return type(value), value.batch_size, value.names, value.device, value.is_locked, entries
    if isinstance(value, MutableMapping):
        return [(key, snapshot(item)) for key, item in value.items()]
    return value


def entry(data: TensorCollection, key: str) -> Any:
    value = data.get(key)
    held = id(value) if type(data._store) is dict and isinstance(value, (Tensor, TensorCollection)) else None
    return held, snapshot(value)


# -- what is called with them -----------------------------------------------------------------------------------------


def tree(make: Callable[[tuple[str, ...]], Any]) -> dict[str, Any]:
    """A value for each of the keys."""
    return {
        **{key: make((key,)) for key in FIRST},
        "b": {
            **{key: make(("b", key)) for key in SECOND},
            "c": {key: make(("b", "c", key)) for key in THIRD},
        },
    }


def shape_of(path: tuple[str, ...]) -> tuple[int, ...]:
    return ((3,), (2,), ())[len(path) - 1]


def like(rows: int | None = 4, **bad: Any) -> dict[str, Any]:
    """Ones for all keys, in the shapes of the collection; for the tenth key something else."""
    front = () if rows is None else (rows,)
    return tree(lambda path: bad["bad"] if path == BAD and bad else torch.ones((*front, *shape_of(path))))


def collection(lib: Any, values: dict[str, Any], size: Any = ()) -> Any:
    return lib.TensorDict(values, batch_size=list(size))


def wide(lib: Any) -> Any:
    """An operand in which the tenth tensor does not broadcast."""
    return collection(lib, like(bad=torch.ones(4, 5)), [4])


def without(path: tuple[str, str], values: dict[str, Any]) -> dict[str, Any]:
    del values[path[0]][path[1]]
    return values


def lacking(lib: Any) -> Any:
    data = collection(lib, like(), [4])
    del data[BAD]
    return data


def more(lib: Any) -> Any:
    data = collection(lib, like(), [4])
    data["b", "extra"] = torch.ones(4)
    return data


def assign(data: Any, index: Any, value: Any) -> None:
    data[index] = value


def setting(data: Any, name: str, value: Any) -> None:
    setattr(data, name, value)


def calling(name: str, operand: Callable[[Any], Any]) -> Call:
    def call(x: Any, lib: Any) -> Any:
        return getattr(x, name)(operand(lib))

    return call


def locked(call: Call) -> Call:
    """The call on a locked collection."""

    def method(x: Any, lib: Any) -> Any:
        (x if not hasattr(x, "get_parent_tensordict") else x.get_parent_tensordict()).lock_()
        return call(x, lib)

    return method


class Case(NamedTuple):
    call: Call
    error: type[Exception]
    #: what the message holds
    words: tuple[str, ...] = ()
    #: the forms of which it is asked
    forms: frozenset[str] = frozenset(FORMS)
    #: whether the peer's error is of this class too (where it raises one)
    same: bool = True


#: rows can be written into the values of a locked source
KEPT = frozenset(FORMS) - {"rows", "picked"}
PLAIN = frozenset({"plain"})
ANY_KEYS = frozenset(FORMS) - {"record"}
#: tensors that can have gradients of their own
OWN = frozenset({"plain", "record", "lazy"})

CASES: dict[str, Case] = {
    # -- one key
    "set: batch size": Case(lambda x, lib: x.set("a3", torch.ones(3, 3)), RuntimeError, ("a3", "[4]", "[3, 3]")),
    "set: nested batch size": Case(lambda x, lib: x.set(BAD, torch.ones(3)), RuntimeError, ("b.b3", "[4]", "[3]")),
    "set: new nested batch size": Case(
        lambda x, lib: x.set(("b", "new", "deep"), torch.ones(3)), RuntimeError, ("b", "new", "[4]"), ANY_KEYS
    ),
    "set: no dimension": Case(lambda x, lib: x.set("a3", torch.ones(())), RuntimeError, ("a3", "[4]", "[]")),
    "set: below a leaf": Case(lambda x, lib: x.set(("a0", "x"), torch.ones(4)), KeyError, ("a0",)),
    "set: no key": Case(lambda x, lib: x.set(3, torch.ones(4)), TypeError, ("3",)),
    "set: empty key": Case(lambda x, lib: x.set((), torch.ones(4)), TypeError, ("()",)),
    "set: half a key": Case(lambda x, lib: x.set(("b", 3), torch.ones(4)), TypeError, ("3",)),
    "set: unknown argument": Case(lambda x, lib: x.set("a0", torch.ones(4, 3), bad=1), TypeError, ("bad",), same=False),
    "set: inplace shape": Case(
        lambda x, lib: x.set(BAD, torch.ones(4, 5), inplace=True), RuntimeError, ("b3", "[4, 2]", "[4, 5]")
    ),
    "set: a mapping with a bad value": Case(
        lambda x, lib: x.set("b", like(bad=torch.ones(3, 2))["b"]), RuntimeError, ("b.b3", "[4]", "[3, 2]")
    ),
    "set: a collection of another batch size": Case(
        lambda x, lib: x.set("b", collection(lib, like(3)["b"], [3])), RuntimeError, ("b", "[4]", "[3]")
    ),
    "set: locked": Case(locked(lambda x, lib: x.set("new", torch.ones(4))), RuntimeError, ("lock",), ANY_KEYS),
    "set: locked, nested": Case(locked(lambda x, lib: x.set(BAD, torch.ones(4, 2))), RuntimeError, ("lock",), KEPT),
    "[key]: batch size": Case(lambda x, lib: assign(x, "a3", torch.ones(3, 3)), RuntimeError, ("a3", "[4]", "[3, 3]")),
    "[key]: locked": Case(locked(lambda x, lib: assign(x, "a3", torch.ones(4, 3))), RuntimeError, ("lock",), KEPT),
    "[key]: unknown": Case(lambda x, lib: x["nokey"], KeyError, ("nokey", "a0")),
    "[key]: unknown, nested": Case(lambda x, lib: x["b", "nokey"], KeyError, ("nokey", "b")),
    "get: below a leaf": Case(lambda x, lib: x["a0", "x"], KeyError, ("a0", "x"), same=False),
    "set_: unknown": Case(lambda x, lib: x.set_("nokey", torch.ones(4)), KeyError, ("nokey",)),
    "set_: unknown, nested": Case(lambda x, lib: x.set_(("b", "nokey"), torch.ones(4)), KeyError, ("nokey",)),
    "set_: shape": Case(lambda x, lib: x.set_(BAD, torch.ones(4, 5)), RuntimeError, ("b3", "[4, 2]", "[4, 5]")),
    "set_: batch size": Case(lambda x, lib: x.set_(BAD, torch.ones(3, 2)), RuntimeError, ("b3", "[3, 2]")),
    "set_: text": Case(lambda x, lib: x.set_("a0", "text"), (TypeError, RuntimeError), ("a0",), same=False),
    "set_: a tensor into a tree": Case(lambda x, lib: x.set_("b", torch.ones(4)), TypeError, ("b",), same=False),
    "set_: a tree that does not fit": Case(
        lambda x, lib: x.set_("b", collection(lib, like(bad=torch.ones(4, 5))["b"], [4])),
        RuntimeError,
        ("b3", "[4, 5]"),
    ),
    "set_at_: unknown": Case(lambda x, lib: x.set_at_("nokey", torch.ones(3), 0), KeyError, ("nokey",)),
    "set_at_: shape": Case(lambda x, lib: x.set_at_(BAD, torch.ones(5), 0), RuntimeError, ("5",)),
    "set_at_: out of range": Case(lambda x, lib: x.set_at_(BAD, torch.ones(2), 9), IndexError, ("9",)),
    "set_at_: a tree": Case(
        lambda x, lib: x.set_at_("b", collection(lib, like(None, bad=torch.ones(7))["b"]), 0),
        RuntimeError,
        ("b3", "[7]"),
    ),
    "set_at_: text": Case(lambda x, lib: x.set_at_("a0", "text", 0), TypeError, (), same=False),
    "get_at: out of range": Case(lambda x, lib: x.get_at("a0", 9), IndexError, ("9",)),
    "set_non_tensor: locked": Case(
        locked(lambda x, lib: x.set_non_tensor("text", "new")), RuntimeError, ("lock",), KEPT
    ),
    "set_non_tensor: below a leaf": Case(
        lambda x, lib: x.set_non_tensor(("a0", "x"), "new"), KeyError, ("a0",), same=False
    ),
    "get_non_tensor: unknown": Case(lambda x, lib: x.get_non_tensor("nokey"), KeyError, ("nokey",)),
    "fill_: unknown": Case(lambda x, lib: x.fill_("nokey", 1.0), KeyError, ("nokey",)),
    "fill_: text": Case(lambda x, lib: x.fill_(BAD, "text"), (TypeError, RuntimeError), (), same=False),
    "fill_: a tree": Case(lambda x, lib: x.fill_("b", "text"), (TypeError, RuntimeError), (), same=False),
    "setdefault: batch size": Case(
        lambda x, lib: x.setdefault("new", torch.ones(3)), RuntimeError, ("new", "[4]"), ANY_KEYS
    ),
    "create_nested: below a leaf": Case(lambda x, lib: x.create_nested(("a0", "x")), KeyError, ("a0",), same=False),
    "create_nested: locked": Case(locked(lambda x, lib: x.create_nested("new")), RuntimeError, ("lock",), ANY_KEYS),
    "create_nested: no key": Case(lambda x, lib: x.create_nested(3), TypeError, ("3",), same=False),
    # -- several keys
    "update: batch size": Case(
        lambda x, lib: x.update(like(bad=torch.ones(3, 2))), RuntimeError, ("b.b3", "[4]", "[3, 2]")
    ),
    "update: from a collection": Case(
        lambda x, lib: x.update(collection(lib, like(bad=torch.ones(3, 2)))),
        RuntimeError,
        ("b.b3", "[4]", "[3, 2]"),
        frozenset(FORMS) - {"lazy"},
    ),
    "update: in place": Case(
        lambda x, lib: x.update(like(bad=torch.ones(4, 5)), inplace=True), RuntimeError, ("b3", "[4, 2]", "[4, 5]")
    ),
    "update: a key that is none": Case(
        lambda x, lib: x.update({**like(), 3: torch.ones(4)}), TypeError, ("3",), same=False
    ),
    "update: below a leaf": Case(lambda x, lib: x.update({**like(), ("a0", "x"): torch.ones(4)}), KeyError, ("a0",)),
    "update: no mapping": Case(lambda x, lib: x.update(3), TypeError, ("3",), same=False),
    "update: locked": Case(locked(lambda x, lib: x.update(like())), RuntimeError, ("lock",), KEPT),
    "update: keys_to_update is a number": Case(
        lambda x, lib: x.update(like(), keys_to_update=3), TypeError, (), same=False
    ),
    "update: update_batch_size": Case(
        lambda x, lib: x.update(collection(lib, without(BAD, like(5)), [5]), update_batch_size=True),
        RuntimeError,
        ("b3",),
        PLAIN,
        same=False,
    ),
    "update_: unknown": Case(lambda x, lib: x.update_({**like(), "nokey": torch.ones(4)}), KeyError, ("nokey",)),
    "update_: unknown, nested": Case(
        lambda x, lib: x.update_({"a0": torch.ones(4, 3), "b": {"nokey": torch.ones(4)}}), KeyError, ("nokey",)
    ),
    "update_: shape": Case(
        lambda x, lib: x.update_(like(bad=torch.ones(4, 5))), RuntimeError, ("b3", "[4, 2]", "[4, 5]")
    ),
    "update_: shape, collection": Case(
        lambda x, lib: x.update_(collection(lib, like(bad=torch.ones(4, 5)), [4])),
        RuntimeError,
        ("b3", "[4, 2]", "[4, 5]"),
    ),
    "update_: batch size": Case(
        lambda x, lib: x.update_(like(bad=torch.ones(3, 2))), RuntimeError, ("b3", "[4]", "[3, 2]")
    ),
    "update_: text": Case(lambda x, lib: x.update_(like(bad="text")), (TypeError, RuntimeError), ("b3",), same=False),
    "update_: array": Case(
        lambda x, lib: x.update_(like(bad=np.ones((4, 5)))), RuntimeError, ("b3", "[4, 2]", "[4, 5]")
    ),
    "update_: a tree for a leaf": Case(
        lambda x, lib: x.update_(like(bad={"x": torch.ones(4)})), (TypeError, RuntimeError), ("b3",), same=False
    ),
    "update_: a leaf for a tree": Case(
        lambda x, lib: x.update_({"a0": torch.ones(4, 3), "b": torch.ones(4)}),
        (TypeError, RuntimeError),
        ("b",),
        same=False,
    ),
    "update_: keyword": Case(
        lambda x, lib: x.update_(like(), a0=torch.ones(4, 9)), RuntimeError, ("a0", "[4, 3]", "[4, 9]"), same=False
    ),
    "update_: meta into cpu": Case(
        lambda x, lib: x.update_(like(bad=torch.ones(4, 2, device="meta"))),
        (NotImplementedError, RuntimeError),
        (),
        same=False,
    ),
    "update_at_: unknown": Case(
        lambda x, lib: x.update_at_({**like(None), "nokey": torch.ones(())}, 0), KeyError, ("nokey",)
    ),
    "update_at_: shape": Case(
        lambda x, lib: x.update_at_(like(None, bad=torch.ones(5)), 0), RuntimeError, ("b3", "[2]", "[5]")
    ),
    "update_at_: out of range": Case(lambda x, lib: x.update_at_(like(None), 9), IndexError, ("9",)),
    "copy_: missing": Case(lambda x, lib: x.copy_(lacking(lib)), KeyError, ("b3",)),
    "copy_: shape": Case(
        lambda x, lib: x.copy_(collection(lib, {**like(bad=torch.ones(4, 5))}, [4])),
        RuntimeError,
        ("b3", "[4, 2]", "[4, 5]"),
    ),
    "copy_: no collection": Case(lambda x, lib: x.copy_(3), (TypeError, AttributeError), (), same=False),
    "copy_at_: shape": Case(
        lambda x, lib: x.copy_at_(collection(lib, like(None, bad=torch.ones(5))), 0), RuntimeError, ()
    ),
    "copy_at_: out of range": Case(
        lambda x, lib: x.copy_at_(collection(lib, like(None)), 9), IndexError, ("9",), same=False
    ),
    "copy_at_: no collection": Case(lambda x, lib: x.copy_at_(3, 0), (TypeError, RuntimeError), (), same=False),
    # -- rows
    "[index] = rows: shape": Case(
        lambda x, lib: assign(x, 0, collection(lib, like(None, bad=torch.ones(5)))), RuntimeError, ("b3", "[2]", "[5]")
    ),
    "[index] = rows: batch size": Case(
        lambda x, lib: assign(x, slice(0, 2), collection(lib, like(3), [3])), RuntimeError, ("[2]", "[3]")
    ),
    "[mask] = rows: shape": Case(
        lambda x, lib: assign(
            x, torch.tensor([True, False, True, False]), collection(lib, like(2, bad=torch.ones(2, 5)), [2])
        ),
        RuntimeError,
        ("b3", "[2]", "[5]"),
    ),
    "[tensor] = rows: shape": Case(
        lambda x, lib: assign(x, torch.tensor([2, 0]), collection(lib, like(2, bad=torch.ones(2, 5)), [2])),
        RuntimeError,
        ("b3", "[2]", "[5]"),
    ),
    "[tensor] = rows: out of range": Case(
        lambda x, lib: assign(x, torch.tensor([2, 9]), collection(lib, like(2), [2])), IndexError, ("9", "4")
    ),
    "[index] = rows: out of range": Case(lambda x, lib: assign(x, 9, collection(lib, like(None))), IndexError, ("9",)),
    "[index] = rows: too many": Case(
        lambda x, lib: assign(x, (0, 0), collection(lib, like(None))), IndexError, (), same=False
    ),
    "[index] = mapping: shape": Case(
        lambda x, lib: assign(x, 0, like(None, bad=torch.ones(5))), RuntimeError, ("b3", "[2]", "[5]")
    ),
    "[index] = mapping: text": Case(
        lambda x, lib: assign(x, 0, like(None, bad="text")), (RuntimeError, TypeError), ("b3",), same=False
    ),
    "[index] = mapping: a tree for a leaf": Case(
        lambda x, lib: assign(x, 0, like(None, bad={"x": torch.ones(2)})),
        (RuntimeError, TypeError, ValueError),
        ("b3",),
        same=False,
    ),
    "[index] = number: out of range": Case(lambda x, lib: assign(x, 9, 1.0), IndexError, ("9",)),
    "[index] = tensor: shape": Case(lambda x, lib: assign(x, slice(0, 2), torch.ones(7)), RuntimeError, ("a0", "[7]")),
    "[index] = text": Case(lambda x, lib: assign(x, 0, "text"), (TypeError, RuntimeError), ("text",), same=False),
    "[list] = number: out of range": Case(lambda x, lib: assign(x, [1, 9], 1.0), IndexError, ("9",)),
    "[mask] = number: shape": Case(
        lambda x, lib: assign(x, torch.ones(3, dtype=torch.bool), 1.0), IndexError, ("3", "4")
    ),
    "[index] = rows: new key, locked": Case(
        locked(lambda x, lib: assign(x, 0, {"new": torch.ones(())})), RuntimeError, ("lock",), ANY_KEYS
    ),
    "[index] = rows: meta into cpu": Case(
        lambda x, lib: assign(x, 0, collection(lib, like(None, bad=torch.ones(2, device="meta")))),
        (NotImplementedError, RuntimeError),
        (),
        same=False,
    ),
    # -- reading by index
    "[int]: out of range": Case(lambda x, lib: x[9], IndexError, ("9",)),
    "[tensor]: out of range": Case(lambda x, lib: x[torch.tensor([0, 9])], IndexError, ("9",)),
    "[list]: out of range": Case(lambda x, lib: x[[0, 9]], IndexError, ("9",)),
    "[mask]: shape": Case(lambda x, lib: x[torch.ones(3, dtype=torch.bool)], IndexError, ("3", "4")),
    "[tuple]: too many": Case(lambda x, lib: x[0, 0], IndexError, ("2",), same=False),
    "[float]": Case(lambda x, lib: x[1.5], IndexError, ("1.5",), same=False),
    "[float tensor]": Case(lambda x, lib: x[torch.ones(2)], IndexError, ("float",)),
    "[object]": Case(lambda x, lib: x[object()], IndexError, ("object",), same=False),
    "[slice]: negative step": Case(lambda x, lib: x[::-1], ValueError, ("step",), frozenset(FORMS) - {"lazy"}),
    "[slice]: text": Case(lambda x, lib: x["a0":"a3"], (TypeError, IndexError), (), same=False),
    "[..., ...]": Case(lambda x, lib: x[..., ...], IndexError, ("ellipsis",), same=False),
    # -- metadata
    "batch_size: does not fit": Case(lambda x, lib: setting(x, "batch_size", [4, 3]), RuntimeError, ("[4, 3]",), KEPT),
    "batch_size: other": Case(lambda x, lib: setting(x, "batch_size", [5]), RuntimeError, ("[5]",), KEPT),
    "batch_size: text": Case(
        lambda x, lib: setting(x, "batch_size", "big"), (TypeError, RuntimeError, ValueError), ("big",), same=False
    ),
    "batch_size: a float": Case(lambda x, lib: setting(x, "batch_size", [4.0]), TypeError, (), same=False),
    "batch_size: negative": Case(
        lambda x, lib: setting(x, "batch_size", [-1]), (RuntimeError, ValueError), ("-1",), KEPT, same=False
    ),
    "names: too many": Case(
        lambda x, lib: setting(x, "names", ["x", "y"]), (ValueError, RuntimeError), ("'y'",), same=False
    ),
    "names: a number": Case(lambda x, lib: setting(x, "names", [3]), (TypeError, RuntimeError), (), same=False),
    "rename: unknown": Case(lambda x, lib: x.rename(nokey="x"), ValueError, ("nokey",)),
    "rename: too many": Case(lambda x, lib: x.rename("x", "y"), ValueError, ("'y'",)),
    "rename_: unknown": Case(lambda x, lib: x.rename_(nokey="x"), ValueError, ("nokey",), same=False),
    "rename: both ways": Case(lambda x, lib: x.rename("x", rows="y"), ValueError, (), same=False),
    "refine_names: too many": Case(lambda x, lib: x.refine_names("x", "y"), (ValueError, RuntimeError), (), same=False),
    "refine_names: another": Case(lambda x, lib: x.refine_names("other"), RuntimeError, ("rows", "other"), PLAIN),
    "device: set": Case(lambda x, lib: setting(x, "device", "cpu"), RuntimeError, ("to(",)),
    "is_locked: a part": Case(
        locked(lambda x, lib: x["b"].unlock_()), RuntimeError, ("lock",), frozenset({"plain", "record"})
    ),
    # -- keys
    "rename_key_: unknown": Case(lambda x, lib: x.rename_key_("nokey", "new"), KeyError, ("nokey",)),
    "rename_key_: safe": Case(lambda x, lib: x.rename_key_("a0", "a1", safe=True), KeyError, ("a1",)),
    "rename_key_: safe, nested": Case(lambda x, lib: x.rename_key_(BAD, ("b", "b4"), safe=True), KeyError, ("b4",)),
    "rename_key_: below a leaf": Case(lambda x, lib: x.rename_key_(BAD, ("a0", "x")), KeyError, ("a0",), same=False),
    "rename_key_: locked": Case(locked(lambda x, lib: x.rename_key_("a0", "new")), RuntimeError, ("lock",), ANY_KEYS),
    "rename_key_: no key": Case(lambda x, lib: x.rename_key_("a0", 3), TypeError, ("3",)),
    "rename_keys: unknown": Case(lambda x, lib: x.rename_keys({"a0": "x", "nokey": "new"}), KeyError, ("nokey",)),
    "rename_keys: one name": Case(lambda x, lib: x.rename_keys({"a0": "x", "a1": "x"}), ValueError, ("x",), same=False),
    "pop: unknown": Case(lambda x, lib: x.pop("nokey"), KeyError, ("nokey",)),
    "pop: locked": Case(locked(lambda x, lib: x.pop(BAD)), RuntimeError, ("lock",)),
    "pop: below a leaf": Case(lambda x, lib: x.pop(("a0", "x")), KeyError, ("a0",), same=False),
    "popitem: locked": Case(locked(lambda x, lib: x.popitem()), RuntimeError, ("lock",)),
    "clear: locked": Case(locked(lambda x, lib: x.clear()), RuntimeError, ("lock",)),
    "del_: unknown": Case(lambda x, lib: x.del_("nokey"), KeyError, ("nokey",)),
    "del_: locked": Case(locked(lambda x, lib: x.del_("a0")), RuntimeError, ("lock",)),
    "del: unknown": Case(lambda x, lib: x.__delitem__(("b", "nokey")), KeyError, ("nokey",)),
    "select: unknown": Case(lambda x, lib: x.select("a0", "nokey"), KeyError, ("nokey",)),
    "select: unknown, in place": Case(
        lambda x, lib: x.select("a0", ("b", "nokey"), inplace=True), KeyError, ("nokey",)
    ),
    "select: locked": Case(locked(lambda x, lib: x.select("a0", inplace=True)), RuntimeError, ("lock",)),
    "exclude: locked": Case(locked(lambda x, lib: x.exclude("a0", inplace=True)), RuntimeError, ("lock",)),
    "exclude: no key": Case(lambda x, lib: x.exclude("a0", 3, inplace=True), TypeError, ("3",), same=False),
    "split_keys: unknown": Case(lambda x, lib: x.split_keys(["a0"], ["nokey"], inplace=True), KeyError, ("nokey",)),
    "split_keys: twice": Case(lambda x, lib: x.split_keys(["a0"], ["a0"], inplace=True), KeyError, ("a0",)),
    "separates: unknown": Case(lambda x, lib: x.separates("a0", "nokey"), KeyError, ("nokey",)),
    "flatten_keys: locked": Case(
        locked(lambda x, lib: x.flatten_keys(inplace=True)), RuntimeError, ("lock",), ANY_KEYS
    ),
    "unflatten_keys: locked": Case(
        locked(lambda x, lib: x.unflatten_keys(inplace=True)), RuntimeError, ("lock",), ANY_KEYS
    ),
    "filter_empty_: locked": Case(locked(lambda x, lib: x.filter_empty_()), RuntimeError, ("lock",), same=False),
    "replace: batch size": Case(lambda x, lib: x.replace(like(bad=torch.ones(3, 2))), RuntimeError, ("b.b3", "[4]")),
    "cat_tensors: unknown": Case(lambda x, lib: x.cat_tensors("a0", "nokey", out_key="new"), KeyError, ("nokey",)),
    "cat_tensors: shape": Case(
        lambda x, lib: x.cat_tensors("a0", ("b", "c", "c0"), out_key="a0", dim=-1), RuntimeError, (), same=False
    ),
    "stack_tensors: shape": Case(lambda x, lib: x.stack_tensors("a0", BAD, out_key="a0", dim=-1), RuntimeError, ()),
    # -- arithmetic in place
    **{
        f"{name}: does not broadcast": Case(calling(name, wide), RuntimeError, ("b3", "[4, 2]", "[4, 5]"))
        for name in ("add_", "sub_", "mul_", "div_", "pow_", "maximum_", "minimum_", "clamp_max_", "clamp_min_")
    },
    **{f"{name}: keys": Case(calling(name, lacking), KeyError, ("b3",)) for name in ("add_", "mul_", "maximum_")},
    "add_: tensor": Case(lambda x, lib: x.add_(torch.ones(7)), RuntimeError, ("[4]", "[7]")),
    "add_: meta": Case(
        lambda x, lib: x.add_(collection(lib, like(bad=torch.ones(4, 2, device="meta")), [4])),
        RuntimeError,
        ("b3", "meta"),
        same=False,
    ),
    "add_: text": Case(lambda x, lib: x.add_("text"), (TypeError, RuntimeError), ("text",), same=False),
    "+=: text": Case(lambda x, lib: x.__iadd__("text") + 1, (TypeError), (), same=False),
    "lerp_: end": Case(lambda x, lib: x.lerp_(wide(lib), 0.5), RuntimeError, ("b3", "[4, 5]")),
    "lerp_: weight": Case(
        lambda x, lib: x.lerp_(collection(lib, like(), [4]), wide(lib)), RuntimeError, ("b3", "[4, 5]")
    ),
    "addcmul_: first": Case(
        lambda x, lib: x.addcmul_(wide(lib), collection(lib, like(), [4])), RuntimeError, ("b3", "[4, 5]")
    ),
    "addcdiv_: second": Case(
        lambda x, lib: x.addcdiv_(collection(lib, like(), [4]), wide(lib)), RuntimeError, ("b3", "[4, 5]")
    ),
    "masked_fill_: shape": Case(lambda x, lib: x.masked_fill_(torch.ones(3, dtype=torch.bool), 0.0), RuntimeError, ()),
    "masked_fill_: value": Case(
        lambda x, lib: x.masked_fill_(torch.ones(4, dtype=torch.bool), "text"),
        (TypeError, RuntimeError),
        (),
        same=False,
    ),
    "masked_fill_: a float mask": Case(lambda x, lib: x.masked_fill_(torch.ones(4), 0.0), RuntimeError, ("bool",)),
    "masked_fill_: a mask that fits some": Case(
        lambda x, lib: x.masked_fill_(torch.ones(4, 3, dtype=torch.bool), 0.0), RuntimeError, (), same=False
    ),
    "clamp: nothing": Case(lambda x, lib: x.clamp(), (RuntimeError, ValueError), ("min", "max"), same=False),
    "apply_: raises": Case(
        lambda x, lib: x.named_apply(failing, inplace=True, nested_keys=True), ArithmeticError, ("tenth",)
    ),
    "apply_: shape": Case(
        lambda x, lib: x.named_apply(
            lambda key, value: torch.ones(4, 5) if key == BAD else value + 1, inplace=True, nested_keys=True
        ),
        RuntimeError,
        ("b3", "[4, 2]", "[4, 5]"),
    ),
    "apply_: batch size": Case(
        lambda x, lib: x.named_apply(
            lambda key, value: torch.ones(3, 2) if key == BAD else value + 1, inplace=True, nested_keys=True
        ),
        RuntimeError,
        ("b3", "[3, 2]"),
    ),
    "apply: other": Case(lambda x, lib: x.apply(torch.add, lacking(lib)), KeyError, ("b3",)),
    "apply: unknown argument": Case(lambda x, lib: x.apply(torch.abs, bad=1), TypeError, ("bad",), same=False),
    # -- gradients, devices
    "requires_grad_: text": Case(
        lambda x, lib: x.requires_grad_("yes"), (TypeError, RuntimeError), (), OWN, same=False
    ),
    "to: text": Case(lambda x, lib: x.to("nodevice"), RuntimeError, ("nodevice",)),
    "to: object": Case(lambda x, lib: x.to(object()), (TypeError, ValueError, RuntimeError), (), same=False),
    "to: unknown argument": Case(lambda x, lib: x.to("cpu", bad=1), TypeError, ("bad",)),
    "load_state_dict: keys": Case(
        lambda x, lib: x.load_state_dict({"a0": torch.ones(4, 3)}), RuntimeError, ("b3",), same=False
    ),
    "load_state_dict: shape": Case(
        lambda x, lib: x.load_state_dict({**state(x, lib), "b.b3": torch.ones(4, 5)}),
        RuntimeError,
        ("b3", "[4, 2]", "[4, 5]"),
        same=False,
    ),
    "load_state_dict: assigned shape": Case(
        lambda x, lib: x.load_state_dict({**state(x, lib), "b.b3": torch.ones(3, 2)}, assign=True),
        RuntimeError,
        ("b3", "[3, 2]"),
        same=False,
    ),
    # -- several collections
    "stack: out": Case(
        lambda x, lib: lib.stack([collection(lib, like(None), []) for _ in range(5)], out=x),
        RuntimeError,
        ("[4]", "[5]"),
        same=False,
    ),
    "stack: out, a shape": Case(
        lambda x, lib: lib.stack([collection(lib, like(None, bad=torch.ones(5)), []) for _ in range(4)], out=x),
        RuntimeError,
        ("b3", "[4, 2]", "[4, 5]"),
        same=False,
    ),
    "cat: out, a shape": Case(
        lambda x, lib: lib.cat([collection(lib, like(2, bad=torch.ones(2, 5)), [2]) for _ in range(2)], out=x),
        RuntimeError,
        ("b3", "[4, 2]", "[4, 5]"),
        same=False,
    ),
    "where: out, a shape": Case(
        lambda x, lib: collection(lib, like(bad=torch.ones(4, 5)), [4]).where(
            torch.ones(4, dtype=torch.bool), 0.0, out=x
        ),
        RuntimeError,
        ("b3", "[4, 2]", "[4, 5]"),
        same=False,
    ),
    "where: keys": Case(lambda x, lib: x.where(torch.ones(4, dtype=torch.bool), lacking(lib)), KeyError, ("b3",)),
    "where: condition": Case(lambda x, lib: x.where(torch.ones(3, dtype=torch.bool), 0.0), RuntimeError, ()),
    "where: no tensor": Case(lambda x, lib: x.where("text", 0.0), (TypeError, AttributeError), ("str",), same=False),
    "stack: keys": Case(
        lambda x, lib: lib.stack([collection(lib, like(), [4]), lacking(lib)]), RuntimeError, ("b3",), PLAIN, same=False
    ),
    "stack: nothing": Case(lambda x, lib: lib.stack([]), RuntimeError, (), PLAIN, same=False),
    "cat: shape": Case(
        lambda x, lib: lib.cat([collection(lib, like(), [4]), collection(lib, like(bad=torch.ones(4, 5)), [4])]),
        RuntimeError,
        ("b3",),
        PLAIN,
    ),
    # -- shapes
    "reshape": Case(lambda x, lib: x.reshape(3), RuntimeError, ("[3]", "[4]")),
    "view": Case(lambda x, lib: x.view(3), RuntimeError, ("[3]", "[4]")),
    "expand": Case(lambda x, lib: x.expand(3), RuntimeError, ("[3]", "[4]")),
    "permute": Case(lambda x, lib: x.permute(0, 1), (RuntimeError, ValueError), (), same=False),
    "transpose": Case(lambda x, lib: x.transpose(0, 1), (IndexError, ValueError), ("1",), same=False),
    "squeeze": Case(lambda x, lib: x.squeeze(3), (IndexError, RuntimeError), ("3",), same=False),
    "unsqueeze": Case(lambda x, lib: x.unsqueeze(3), (IndexError, RuntimeError), ("3",), same=False),
    "flatten": Case(lambda x, lib: x.flatten(0, 3), (IndexError, ValueError), ("3",), same=False),
    "unflatten": Case(lambda x, lib: x.unflatten(0, (3, 2)), RuntimeError, ("3", "2")),
    "split": Case(lambda x, lib: x.split([3, 3]), RuntimeError, ("[3, 3]", "4")),
    "split: dim": Case(lambda x, lib: x.split(2, 3), IndexError, ("3",)),
    "chunk": Case(lambda x, lib: x.chunk(0), (RuntimeError, ValueError), ("0",), same=False),
    "unbind": Case(lambda x, lib: x.unbind(3), (IndexError, ValueError, RuntimeError), ("3",), same=False),
    "gather": Case(lambda x, lib: x.gather(0, torch.tensor([9])), (RuntimeError, IndexError), ("9",), same=False),
    "gather: dim": Case(lambda x, lib: x.gather(3, torch.tensor([0])), IndexError, ("3",), same=False),
    "repeat": Case(lambda x, lib: x.repeat(), (RuntimeError, ValueError), (), same=False),
    "narrow": Case(lambda x, lib: x.narrow(0, 3, 5), RuntimeError, (), same=False),
    "sum: dim": Case(lambda x, lib: x.sum(3), (IndexError, RuntimeError), ("3",), same=False),
    "mean: dim": Case(lambda x, lib: x.mean((0, 3)), (IndexError, RuntimeError), ("3",), same=False),
    "sum: twice": Case(lambda x, lib: x.sum((0, 0)), RuntimeError, ("0",), same=False),
    "cumsum: dim": Case(lambda x, lib: x.cumsum(3), IndexError, ("3",), same=False),
    "softmax: dim": Case(lambda x, lib: x.softmax(3), (IndexError, RuntimeError), ("3",), same=False),
    "bool": Case(lambda x, lib: bool(x), RuntimeError, ("ambiguous",)),
    # -- making one
    "TensorDict: batch size": Case(
        lambda x, lib: collection(lib, like(bad=torch.ones(3, 2)), [4]), RuntimeError, ("b.b3", "[4]", "[3, 2]"), PLAIN
    ),
    "TensorDict: negative batch size": Case(
        lambda x, lib: collection(lib, {}, [-1]), RuntimeError, ("-1",), PLAIN, same=False
    ),
    "TensorDict: a number": Case(lambda x, lib: lib.TensorDict(3, [4]), (ValueError, TypeError), ("int",), PLAIN),
    "TensorDict: device": Case(
        lambda x, lib: lib.TensorDict({}, [4], device="nodevice"), RuntimeError, ("nodevice",), PLAIN
    ),
    "TensorDict: names": Case(
        lambda x, lib: lib.TensorDict({}, [4], names=["x", "y"]), ValueError, ("'y'",), PLAIN, same=False
    ),
    "from_dict: batch size": Case(
        lambda x, lib: lib.TensorDict.from_dict(like(bad=torch.ones(3, 2)), batch_size=[4]),
        RuntimeError,
        ("b.b3", "[4]"),
        PLAIN,
    ),
}


def failing(key: Any, value: Any) -> Any:
    if key == BAD:
        raise ArithmeticError("the tenth")
    return value + 1


def state(x: Any, lib: Any) -> dict[str, Any]:
    """A state dict with a one for each number."""
    return {key: torch.ones_like(value) for key, value in collection(lib, like(), [4]).flatten_keys().items()}


def lacks(message: str, word: str, form: str) -> bool:
    """Whether a message does not hold a word. A lazy stack may tell the shapes in its parts, which are rows here."""
    return word not in message and (form != "lazy" or word.replace("[4, ", "[") not in message)


def selected() -> list[Any]:
    return [
        pytest.param(name, form, id=f"{name}-{form}")
        for name, case in CASES.items()
        for form in FORMS
        if form in case.forms
    ]


@pytest.mark.parametrize("name, form", selected())
def test_an_error_says_what_was_wrong_and_leaves_all_as_it_was(name: str, form: str) -> None:
    case = CASES[name]
    data, watched = FORMS[form]()
    if case.call.__qualname__.startswith("locked"):
        # the lock is put on inside of the call
        (watched[-1] if form in ("rows", "picked") else data).lock_()
    before = [snapshot(item) for item in watched]
    with pytest.raises(case.error) as raised:
        case.call(data, ours)
    assert [snapshot(item) for item in watched] == before
    message = str(raised.value)
    assert [word for word in case.words if lacks(message, word, form)] == [], message


@pytest.mark.parity
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "plain" in case.forms and case.same])
def test_the_error_is_of_the_class_that_the_peer_raises(name: str) -> None:
    case = CASES[name]
    theirs = peer.TensorDict(numbers(), batch_size=[4], names=["rows"])
    expected = outcome(lambda: case.call(theirs, peer))
    if isinstance(expected, Exception):
        got = outcome(lambda: case.call(plain()[0], ours))
        builtin = next(cls for cls in type(expected).__mro__ if cls.__module__ == "builtins")
        assert isinstance(got, builtin)


class Named(TensorClass):
    text: str | None = None


MAKERS: dict[str, Callable[[Any], Any]] = {
    "TensorDict": lambda size: ours.TensorDict({}, size),
    "with text": lambda size: ours.TensorDict({"text": "hello"}, size),
    "record": lambda size: Named(batch_size=size),
    "record with text": lambda size: Named("hello", batch_size=size),
    "setter": lambda size: setting(ours.TensorDict({"inner": {}}), "batch_size", size),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("size", [-1, [-1], [3, -2]], ids=str)
def test_sizes_are_not_negative(maker: str, size: Any) -> None:
    with pytest.raises(RuntimeError, match="negative"):
        MAKERS[maker](size)


def test_a_collection_made_of_another_is_on_its_device() -> None:
    source = ours.TensorDict({"a": torch.zeros(3)}, [3], device="cpu")
    assert ours.TensorDict(source).device == torch.device("cpu")
    assert ours.TensorDict(source, device="meta").device == torch.device("meta")
    assert ours.TensorDict(source, [3]).device is None


@pytest.mark.parametrize("name", ["add_", "maximum_", "copy_", "update_"])
def test_a_part_of_a_lazy_stack_that_does_not_fit_leaves_the_parts_before_it(name: str) -> None:
    parts = [ours.TensorDict({"a": torch.zeros(2)}), ours.TensorDict({"a": torch.zeros(3)})]
    source = ours.lazy_stack([ours.TensorDict({"a": torch.ones(2)}), ours.TensorDict({"a": torch.ones(2)})])
    with pytest.raises(RuntimeError, match=r"a: .*\[3\].*\[2\]"):
        getattr(ours.lazy_stack(parts), name)(source)
    assert parts[0]["a"].tolist() == [0.0, 0.0]


# -- any structure, any key -------------------------------------------------------------------------------------------

Paths = dict[tuple[str, ...], tuple[int, ...]]


@st.composite
def structures(draw: Any) -> tuple[Paths, tuple[str, ...]]:
    """The shapes of values behind the batch, by their keys, and one of the keys."""
    names = st.sampled_from("abcdefgh")
    nodes = draw(st.lists(st.lists(names.map(str.upper), max_size=2).map(tuple), min_size=1, max_size=4, unique=True))
    shapes = st.lists(st.integers(1, 3), max_size=2).map(tuple)
    paths = {(*node, name): draw(shapes) for node in nodes for name in draw(st.sets(names, min_size=1, max_size=5))}
    return paths, draw(st.sampled_from(sorted(paths)))


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda data, source: data.update(source),
    "update in place": lambda data, source: data.update(source, inplace=True),
    "update with new keys": lambda data, source: data.update({"new": torch.ones(4), **source}, inplace=True),
    "update_": lambda data, source: data.update_(source),
    "update_ of rows": lambda data, source: data.update_at_(source, slice(None)),
    "rows": lambda data, source: assign(data, slice(None), source),
    "add_": lambda data, operand: data.add_(operand),
    "lerp_": lambda data, operand: data.lerp_(operand, 0.5),
    "addcmul_": lambda data, operand: data.addcmul_(operand, operand),
    "copy_": lambda data, operand: data.copy_(operand),
    "+=": lambda data, operand: data.__iadd__(operand),
    "apply_": lambda data, operand: data.apply_(lambda value, other: other * 2, operand),
}


def filled(paths: Paths, rows: int | None = 4) -> dict[tuple[str, ...], Any]:
    return {path: torch.rand((() if rows is None else (rows,)) + shape) for path, shape in paths.items()}


def over_mapping(paths: Paths) -> Made:
    store: dict[str, Any] = {}
    for (*above, last), value in filled(paths).items():
        node = store
        for name in above:
            node = node.setdefault(name, {})
        node[last] = value
    return ours.TensorDict.from_store(store, [4]), [store]


def stacked(paths: Paths) -> Made:
    data = ours.lazy_stack([ours.TensorDict(filled(paths, None)) for _ in range(4)])
    return data, data.tensordicts


def of_source(paths: Paths) -> Made:
    source = ours.TensorDict(filled(paths, 6), [6])
    return source.get_sub_tensordict(slice(1, 5)), [source]


DRAWN: dict[str, Callable[[Paths], Made]] = {
    "plain": lambda paths: (ours.TensorDict(filled(paths), [4]), []),
    "lazy": stacked,
    "rows": of_source,
    "mapping": over_mapping,
}


@pytest.mark.parametrize("form", DRAWN)
@given(structures(), st.sampled_from(list(WAYS)))
def test_one_value_that_does_not_fit_leaves_all_as_it_was(
    form: str, structure: tuple[Paths, tuple[str, ...]], way: str
) -> None:
    paths, bad = structure
    data, watched = DRAWN[form](paths)
    watched = [data, *watched]
    before = [snapshot(item) for item in watched]
    updates = {path: torch.ones(4, *shape) for path, shape in paths.items()}
    if way == "update":
        updates[bad] = torch.ones(3, *paths[bad])
        source: Any = updates
    else:
        updates[bad] = torch.ones(4, *paths[bad], 5)
        source = updates if way == "update with new keys" else ours.TensorDict(updates, [4])
    with pytest.raises(RuntimeError, match=bad[-1]):
        WAYS[way](data, source)
    assert [snapshot(item) for item in watched] == before


def test_a_batch_size_that_cannot_be_found_leaves_all_as_they_were() -> None:
    inner = ours.TensorDict({"x": ours.TensorDict({}, [2, 1]), "y": torch.zeros(2, 3)}, [2])
    data = ours.TensorDict({"a": inner, "b": {"c": {"d": ours.TensorDict({}, [1])}}}, [])
    before = {key: value.batch_size for key, value in data.items(True) if isinstance(value, TensorCollection)}
    with contextlib.suppress(RuntimeError):
        data.auto_batch_size_()
        return
    assert {key: value.batch_size for key, value in data.items(True) if isinstance(value, TensorCollection)} == before


def test_operands_of_another_dtype_are_refused_before_the_first_tensor_changes() -> None:
    data = ours.TensorDict({"a": torch.zeros(()), "b": torch.zeros((), dtype=torch.float64)})
    with pytest.raises(RuntimeError):
        data.lerp_(torch.tensor(2.0), 0.5)
    assert data["a"] == 0


def test_a_number_of_another_type_is_rehearsed_for_itself() -> None:
    def make() -> Any:
        return ours.TensorDict({"a": torch.zeros(2), "b": torch.zeros(2, dtype=torch.int64)}, [2])

    make().add_(1)  # what fits is remembered; 1.0 is equal to it, and does not fit an integer
    data = make()
    with pytest.raises(RuntimeError):
        data.add_(1.0)
    assert data["a"].sum() == 0


def test_a_key_to_be_renamed_is_given_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        ours.TensorDict({"a": torch.zeros(())}).rename_keys({"a": "b", ("a",): "c"})


# -- what torch refuses by the history of a tensor --------------------------------------------------------------------


def _others(data: TensorCollection) -> Any:
    return data.detach().clone().zero_().add_(3.0)


WRITES: dict[str, Call] = {
    "add_": lambda x: x.add_(1.0),
    "add_: collection": lambda x: x.add_(_others(x)),
    "sin_": lambda x: x.sin_(),
    "zero_": lambda x: x.zero_(),
    "lerp_": lambda x: x.lerp_(_others(x), 0.5),
    "addcmul_": lambda x: x.addcmul_(_others(x), _others(x)),
    "masked_fill_": lambda x: x.masked_fill_(torch.tensor([True, False]), 0.0),
    "apply_": lambda x: x.apply_(lambda value: value.detach() + 1),
    "update_": lambda x: x.update_(_others(x)),
    "update: in place": lambda x: x.update(_others(x), inplace=True),
    "copy_": lambda x: x.copy_(_others(x)),
    "copy_at_": lambda x: x.copy_at_(_others(x)[0], 0),
    "update_at_": lambda x: x.update_at_(_others(x)[0], 0),
    "row": lambda x: x.__setitem__(0, _others(x)[0]),
    "rows": lambda x: x.__setitem__(torch.tensor([1, 0]), _others(x)),
    "mask": lambda x: x.__setitem__(torch.tensor([True, True]), _others(x)),
    "tensor": lambda x: x.__setitem__(slice(1), torch.zeros(1, 1)),
}


@pytest.mark.parametrize("is_view", [False, True], ids=["leaf", "view of a leaf"])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_in_place_that_a_gradient_forbids_changes_nothing(name: str, is_view: bool) -> None:
    def make() -> Any:
        bad = torch.ones(2, 1, requires_grad=True)
        values = {"a": torch.ones(2, 1), "b": {"c": torch.ones(2, 1), "d": bad.view(2, 1) if is_view else bad}}
        return ours.TensorDict(values, [2], names=["row"])

    data = make()
    with pytest.raises(RuntimeError, match=r"leaf .*require"):
        WRITES[name](data)
    assert all((value == 1).all() for value in data.values(True, True))
    with torch.no_grad():
        WRITES[name](data)
    assert not all((value == 1).all() for value in data.values(True, True))


@pytest.mark.parametrize("state", [3, None, [("a", torch.zeros(2))]])
def test_a_state_dict_is_a_dict(state: Any) -> None:
    with pytest.raises(TypeError, match="load_state_dict: expected a dict of tensors, got"):
        ours.TensorDict(a=torch.zeros(2)).load_state_dict(state)
