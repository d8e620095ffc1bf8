"""Constructors, ``from_dict``, ``to_dict`` and fields: native code gives what the Python code gives, and its errors."""

from __future__ import annotations

import gc
import inspect
import sys
from dataclasses import InitVar
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict
from tensorclass.td import native
from tensorclass.td.collection import Collection
from tests.native_code import native_code, results

pytestmark = pytest.mark.skipif(bool(native.WHY_OFF), reason=f"native code: {native.WHY_OFF}")


class Point(TensorClass):
    x: Tensor
    y: Tensor


class Line(TensorClass):
    start: Point
    end: Point
    more: TensorDict
    weight: Tensor


class Note(TensorClass):
    score: Tensor
    text: str


class KeywordsOnly(TensorClass, kw_only=True):
    x: Tensor
    y: Tensor


class Optional(TensorClass):
    x: Tensor
    y: Tensor | None = None


class Initialized(TensorClass):
    x: Tensor
    scale: InitVar[float]

    def __post_init__(self, scale: float) -> None:
        self.x = self.x * scale


class Shadowing(TensorClass, shadow=True):
    device: Tensor
    names: Tensor


class Frozen(TensorClass, frozen=True):
    x: Tensor


X = torch.zeros(3)
CLASSES = (Point, Line, Note, KeywordsOnly, Optional, Initialized, Shadowing, Frozen)
SIZES = st.sampled_from([None, 3, (3,), [3], torch.Size([3]), (), [2, 3], (-1,), (True,), "3", (3.0,), 7])


def tensors() -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [
            torch.zeros(3),
            torch.ones(3, 2),
            torch.zeros(2, 3),
            torch.zeros(()),
            nn.Parameter(torch.zeros(3)),
            torch.zeros(3, device="meta"),
        ]
    )


def values() -> st.SearchStrategy[Any]:
    """Values of fields and keys: tensors, and what else a user may give."""
    point = {"x": torch.zeros(3), "y": torch.ones(3)}
    others = [
        1.5,
        "words",
        None,
        point,
        {},
        {"x": torch.zeros(3)},
        {"a": {"b": torch.zeros(3)}},
        Point(**point, batch_size=3),
        Point(**point, batch_size=3, names=["n"]),
        Point(torch.zeros(()), torch.zeros(())),
        TensorDict(point, 3),
        TensorDict(point, 3, device="cpu"),
    ]
    return st.one_of(tensors(), tensors(), st.sampled_from(others))


def described(value: Any, names: dict[int, str]) -> Any:
    """All that can be told of a result; tensors and collections that were given by identity."""
    if isinstance(value, dict):
        return {key: described(entry, names) for key, entry in value.items()}, [*value]
    if id(value) in names:
        return names[id(value)]
    if isinstance(value, Collection):
        slots = (type(value._batch_size), value._batch_size, value._device, value._names, value._lock)
        objects = getattr(value, "_objects", None)
        return type(value), described(value._store, names), slots, objects, hasattr(value, "_context")
    return type(value), repr(value)


def known(given: Any, names: dict[int, str]) -> dict[int, str]:
    """Name the values of arguments."""
    if isinstance(given, dict):
        for value in given.values():
            known(value, names)
    elif isinstance(given, (Tensor, Collection)):
        names[id(given)] = f"given {len(names)}"
    return names


def outcomes(make: Any, *args: Any, **kwargs: Any) -> list[Any]:
    """What a call returns or raises, with native code and without."""
    found = []
    names = known({**dict(enumerate(args)), **kwargs}, {})
    for on in (True, False):
        with native_code(on):
            try:
                found.append(described(make(*args, **kwargs), names))
            except Exception as error:
                found.append((type(error), str(error)))
    return found


@given(source=st.dictionaries(st.sampled_from(["a", "b", "c", ("d", "e")]), values(), max_size=4), size=SIZES)
@settings(max_examples=30)
def test_a_tensordict_of_a_dict(source: dict[Any, Any], size: Any) -> None:
    for call in (
        lambda given, size: TensorDict(given, size),
        lambda given, size: TensorDict(given, batch_size=size),
        lambda given, size: TensorDict.from_dict(given, batch_size=size),
        lambda given, size: TensorDict(given, size).to_dict(),
    ):
        native_outcome, outcome = outcomes(call, source, size)
        assert native_outcome == outcome


@pytest.mark.parametrize("cls", CLASSES)
@given(data=st.data(), size=SIZES)
@settings(max_examples=30)
def test_a_record_of_its_fields(cls: Any, data: st.DataObject, size: Any) -> None:
    names = [name for name in inspect.signature(cls).parameters if name not in ("batch_size",)][:4]
    by_keyword = data.draw(st.dictionaries(st.sampled_from([*names, "other"]), values(), max_size=4))
    by_position = data.draw(st.lists(values(), max_size=3))
    native_outcome, outcome = outcomes(cls, *by_position, **by_keyword, batch_size=size)
    assert native_outcome == outcome
    native_outcome, outcome = outcomes(cls.from_dict, by_keyword, batch_size=size)
    assert native_outcome == outcome


def test_usual_records_are_made_by_native_code() -> None:
    """Otherwise the comparisons compare Python with itself."""
    point = Point(X, X, batch_size=[3])
    calls: dict[str, tuple[Any, str]] = {
        "a record": (lambda: Point(x=X, y=X, batch_size=[3]), "fill_record"),
        "a nested record": (lambda: Line(point, point, TensorDict({}, [3]), X, batch_size=[3]), "fill_record"),
        "an object": (lambda: Note(X, "words", batch_size=(3,)), "fill_record"),
        "with __post_init__": (lambda: Initialized(X, 2.0, batch_size=[3]), "fill_record"),
        "from_dict": (lambda: Point.from_dict({"x": X, "y": X}, batch_size=[3]), "from_dict"),
        "TensorDict": (lambda: TensorDict({"a": X, "b": {"c": X}}, [3]), "fill_tensordict"),
        "to_dict": (point.to_dict, "to_dict"),
    }
    for what, (make, function) in calls.items():
        with results() as found:
            make()
        made = found[function]
        assert made, what
        assert made[-1] is not None, what


def test_a_constructor_that_is_replaced_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Point, "__init__", lambda self, x: setattr(self, "_store", {"x": x}))
    assert [*Point(1)._store.items()] == [("x", 1)]


def test_a_subclass_runs_its_own_constructor() -> None:
    class Made(TensorDict):
        def __init__(self, count: int) -> None:
            super().__init__({"a": torch.zeros(count)}, [count])

    class Scaled(Point):
        def __init__(self, x: Tensor) -> None:
            super().__init__(x * 2, x, batch_size=x.shape)

    assert Made(3)["a"].shape == (3,)
    assert (Scaled(torch.ones(3)).x == 2).all()


def test_a_constructor_in_compiled_code() -> None:
    def make(x: Tensor) -> tuple[Any, ...]:
        point = Point(x=x, y=x + 1, batch_size=[3])
        point.x = point.y * 2
        return point, TensorDict({"a": {"b": point.x}}, [3]), point.to_dict()

    compiled, plain = torch.compile(make, backend="eager", fullgraph=True)(torch.ones(3)), make(torch.ones(3))
    assert (compiled[0] == plain[0]).all()
    assert (compiled[1] == plain[1]).all()
    assert [*compiled[2]] == [*plain[2]]


@pytest.mark.parametrize("cls", [Point, Note, Optional, Frozen])
@given(value=values(), size=st.sampled_from([(), (3,)]), locked=st.booleans())
@settings(max_examples=15)
def test_fields_are_read_and_set(cls: Any, value: Any, size: tuple[int, ...], locked: bool) -> None:
    def use(given: Any) -> Any:
        made = cls(
            torch.zeros(size), *([torch.ones(size)] if cls is Point else ["a"] if cls is Note else []), batch_size=size
        )
        name = next(iter(cls._specs))
        before = getattr(made, name)
        if locked:
            made.lock_()
        try:
            setattr(made, name, given)
        except Exception as error:
            return {"type": type(error), "text": str(error), "kept": getattr(made, name) is before}
        return {"now": getattr(made, name), "all": made.to_dict()}

    native_outcome, outcome = outcomes(use, value)
    if isinstance(native_outcome[0], dict) and "now" in native_outcome[0]:
        assert native_outcome[0]["now"] == outcome[0]["now"]
    else:
        assert native_outcome == outcome


def test_a_field_that_was_removed_and_one_that_is_unset() -> None:
    made = Point(torch.zeros(3), torch.ones(3), batch_size=[3]).exclude("x")
    with pytest.raises(AttributeError, match="was removed"):
        _ = made.x
    assert Optional(torch.zeros(3), batch_size=[3]).y is None
    assert isinstance(inspect.getattr_static(Point, "x"), property)
    assert (inspect.getattr_static(Point, "x").__doc__ or "").startswith("A field")
    assert Point.__dict__["x"].__get__(None, Point) is Point.__dict__["x"]


def test_nothing_is_kept_of_what_is_made() -> None:
    x = torch.zeros(3)
    before = sys.getrefcount(x)
    for _ in range(10):
        point = Point(x, x, batch_size=[3])
        line = Line(point, point, TensorDict({"a": {"b": x}}, [3]), x, batch_size=[3])
        line.to_dict()
        Note(x, "words", batch_size=[3])
        Point.from_dict({"x": x, "y": x}, batch_size=[3])
        point.x = x
        with pytest.raises(RuntimeError):
            TensorDict({"a": x, "b": {"c": x}}, [4])
    del point, line
    gc.collect()
    assert sys.getrefcount(x) == before
