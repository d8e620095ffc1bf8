"""Debuggers, tracers, profilers and mocks see the methods that ask native code as those of any Python class."""

from __future__ import annotations

import bdb
import copy
import cProfile
import functools
import inspect
import io
import pdb  # noqa: T100
import pickle
import pstats
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.records.record import RecordMeta
from tensorclass.td import native
from tensorclass.td.collection import Collection
from tensorclass.td.get import KeyView, WalkedKeyView
from tests.native_code import native_code

X = torch.zeros(3)


class Point(TensorClass):
    x: Tensor
    y: Tensor


class Shifted(TensorClass):
    x: Tensor

    def __post_init__(self) -> None:
        self.x = self.x + 1


def _set(data: Any) -> None:
    data["a"] = X


def _set_field(data: Any) -> None:
    data.x = X


def flat() -> TensorDict:
    return TensorDict({"a": X, "b": {"c": X}}, [3])


def point() -> Point:
    return Point(X, X, batch_size=[3])


def lazy() -> Any:
    return lazy_stack([flat(), flat()])


#: for each method that asks native code, or did: what it is called on, and a call that native code knows
CALLS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[], Callable[..., Any]]]] = {
    "get": (flat, lambda data: data.get("a"), lambda: TensorDict.get),
    "get, nested": (flat, lambda data: data.get(("b", "c")), lambda: TensorDict.get),
    "__getitem__": (flat, lambda data: data["b", "c"], lambda: TensorDict.__getitem__),
    "__contains__": (flat, lambda data: ("b", "c") in data, lambda: TensorDict.__contains__),
    "keys": (flat, lambda data: list(data.keys(True, True)), lambda: TensorDict.keys),
    "KeyView.__iter__": (flat, lambda data: list(data.keys()), lambda: KeyView.__iter__),
    "WalkedKeyView.__iter__": (flat, lambda data: list(data.keys(True, True)), lambda: WalkedKeyView.__iter__),
    "items": (flat, lambda data: list(data.items(True, True)), lambda: TensorDict.items),
    "set": (flat, lambda data: data.set("a", X), lambda: TensorDict.set),
    "__setitem__": (flat, _set, lambda: TensorDict.__setitem__),
    "pop": (flat, lambda data: data.pop("a"), lambda: TensorDict.pop),
    "rename_key_": (flat, lambda data: data.rename_key_("a", "z"), lambda: TensorDict.rename_key_),
    "update": (flat, lambda data: data.update({"a": X}), lambda: TensorDict.update),
    "copy": (flat, lambda data: data.copy(), lambda: TensorDict.copy),
    "clone": (flat, lambda data: data.clone(False), lambda: TensorDict.clone),
    "empty": (flat, lambda data: data.empty(), lambda: TensorDict.empty),
    "select": (flat, lambda data: data.select("a"), lambda: TensorDict.select),
    "exclude": (flat, lambda data: data.exclude("a"), lambda: TensorDict.exclude),
    "flatten_keys": (flat, lambda data: data.flatten_keys(), lambda: TensorDict.flatten_keys),
    "unflatten_keys": (
        lambda: TensorDict({"a.b": X}, [3]), lambda data: data.unflatten_keys(), lambda: TensorDict.unflatten_keys,
    ),
    "lock_": (flat, lambda data: data.lock_(), lambda: TensorDict.lock_),
    "unlock_": (flat, lambda data: data.unlock_(), lambda: TensorDict.unlock_),
    "__enter__": (flat, lambda data: data.lock_().__enter__(), lambda: TensorDict.__enter__),
    "TensorDict()": (lambda: {"a": X}, lambda source: TensorDict(source, [3]), lambda: TensorDict.__init__),
    "Point()": (lambda: X, lambda x: Point(x, x, batch_size=[3]), lambda: Point.__init__),
    "Shifted()": (lambda: X, lambda x: Shifted(x, batch_size=[3]), lambda: Shifted.__post_init__),
    "a field": (point, lambda data: data.x, lambda: vars(Point)["x"].fget),
    "a field, set": (point, _set_field, lambda: vars(Point)["x"].fset),
    "to_dict": (flat, lambda data: data.to_dict(), lambda: TensorDict.to_dict),
    "from_dict": (lambda: {"a": X}, lambda source: TensorDict.from_dict(source), lambda: TensorDict.from_dict.__func__),  # type: ignore[attr-defined]
    "from_pytree": (lambda: [X], lambda tree: TensorDict.from_pytree(tree), lambda: TensorDict.from_pytree.__func__),  # type: ignore[attr-defined]
    "to_pytree": (lambda: TensorDict.from_pytree([X]), lambda data: data.to_pytree(), lambda: TensorDict.to_pytree),
    "a row of a lazy stack": (lazy, lambda data: data[0], lambda: type(lazy()).__getitem__),
    "append": (lazy, lambda data: data.append(flat()), lambda: type(lazy()).append),
    "unbind": (lazy, lambda data: data.unbind(0), lambda: type(lazy()).unbind),
}  # fmt: skip
each_call = pytest.mark.parametrize("what", [*CALLS])


@pytest.fixture(params=[True, False], ids=["native", "python"], autouse=True)
def _mode(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param and native.WHY_OFF:
        pytest.skip(f"native code: {native.WHY_OFF}")
    with native_code(request.param):
        yield


@each_call
def test_a_tracer_sees_the_call_its_lines_and_its_end(what: str) -> None:
    make, call, function = CALLS[what]
    code, data = function().__code__, make()
    events: list[tuple[str, int]] = []

    def trace(frame: types.FrameType, event: str, _: Any) -> Any:
        if frame.f_code is code:
            events.append((event, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call(data)
    finally:
        sys.settrace(before)
    kinds = [kind for kind, _ in events]
    lines = {line for kind, line in events if kind == "line"}
    assert kinds[0] == "call"
    assert kinds[-1] == "return"
    assert lines
    assert lines <= {line for *_, line in code.co_lines() if line}


@each_call
def test_a_profiler_sees_the_call(what: str) -> None:
    make, call, function = CALLS[what]
    code, data = function().__code__, make()
    seen: list[str] = []

    def profile(frame: types.FrameType, event: str, _: Any) -> None:
        if frame.f_code is code and event in ("call", "return"):
            seen.append(event)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        call(data)
    finally:
        sys.setprofile(before)
    assert {"call", "return"} <= {*seen}

    data = make()
    profiler = cProfile.Profile()
    profiler.runcall(call, data)
    counted = {entry[1:] for entry in pstats.Stats(profiler).stats}  # type: ignore[attr-defined]
    assert (code.co_firstlineno, code.co_name) in counted


@each_call
def test_a_breakpoint_stops_in_the_body(what: str) -> None:
    make, call, function = CALLS[what]
    code, data = function().__code__, make()
    stops: list[types.CodeType] = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame: types.FrameType) -> None:
            if frame.f_code is code:
                stops.append(frame.f_code)
            self.set_continue()

    debugger = Debugger()
    first = min(line for *_, line in code.co_lines() if line and line >= code.co_firstlineno)
    assert debugger.set_break(code.co_filename, first, funcname=code.co_name) is None
    before = sys.gettrace()
    try:
        debugger.runcall(call, data)
    finally:
        sys.settrace(before)
        debugger.clear_all_breaks()
    assert stops


def test_a_method_with_native_code_is_on_its_own_first_line() -> None:
    for methods in native.TRIED.values():
        for method in methods:
            code = method.__code__
            own = inspect.unwrap(method).__code__
            assert (code.co_filename, code.co_firstlineno) == (own.co_filename, own.co_firstlineno)
            assert {line for *_, line in code.co_lines()} <= {code.co_firstlineno, None}, method


def test_pdb_stops_where_a_method_begins() -> None:
    """Also in one whose call native code would know, and whose text is generated."""
    data, output = flat(), io.StringIO()
    where = (
        "tensorclass.td.get.Reading.get", "tensorclass.td.set.Writing.set",
        "tensorclass.td.shape_operations.Shaping.reshape",
    )  # fmt: skip
    commands = "".join(f"break {name}\n" for name in where) + "continue\n" * 4
    debugger = pdb.Pdb(stdin=io.StringIO(commands), stdout=output, nosigint=True, readrc=False)
    debugger.prompt = ""
    before = sys.gettrace()
    try:
        debugger.runcall(lambda: (data.get(("b", "c")), data.set("a", X), data.reshape(-1)))
    finally:
        sys.settrace(before)
        debugger.clear_all_breaks()
    shown = output.getvalue()
    assert re.search(r"get\.py\(\d+\)get\(\)", shown), shown
    assert re.search(r"set\.py\(\d+\)set\(\)", shown), shown
    assert re.search(r"shape_operations\.py\(\d+\)reshape\(\)", shown), shown


def classes() -> list[type]:
    """All classes of collections, and of views of their keys, with those of the records here."""
    found: list[type] = [Collection, KeyView]
    for cls in found:
        found += [below for below in cls.__subclasses__() if below not in found]
    return found


def test_functions_properties_and_classes_are_those_that_python_makes() -> None:
    lazy()
    kinds = {type(member) for cls in classes() for member in vars(cls).values()}
    for kind in kinds:
        if issubclass(kind, (types.FunctionType, property, classmethod, staticmethod)):
            assert kind.__module__ in ("builtins", "functools") or kind.__flags__ & 1 << 9, kind  # made by `class`
    assert type(TensorDict.get) is types.FunctionType
    assert type(vars(Point)["x"]) is property
    assert type(vars(Point)["x"].fset) is types.FunctionType
    assert type(Point.__init__) is types.FunctionType
    assert type(Point) is RecordMeta


def test_native_code_changes_no_class_and_no_function() -> None:
    """What it would need for that does not stand in its sources."""
    sources = Path(tensorclass.td.native.__file__).parent / "source"  # type: ignore[attr-defined]
    files = [*sources.iterdir()]
    assert len(files) > 10
    words = r"Py_SET_TYPE|->ob_type\s*=|tp_vectorcall|SetVectorcall|->vectorcall\b|tp_flags\s*[|&^]?=[^=]|func_dict"
    for file in files:
        for number, line in enumerate(file.read_text().splitlines(), 1):
            assert not re.search(words, line), f"{file.name}:{number}: {line}"


def test_what_python_does_with_functions_works() -> None:
    for name in ("get", "__getitem__", "lock_", "select", "to_dict", "set"):
        method = getattr(TensorDict, name)
        assert inspect.isfunction(method)
        assert "self" in inspect.signature(method).parameters
        assert pickle.loads(pickle.dumps(method)) is copy.deepcopy(method) is method

        @functools.wraps(method)
        def wrapped(*args: Any, method: Any = method, **kwargs: Any) -> Any:
            return method(*args, **kwargs)

        assert wrapped.__wrapped__ is method  # type: ignore[attr-defined]
        assert wrapped.__doc__ == method.__doc__
    assert inspect.getsource(TensorDict.get).lstrip().startswith("def get(")
    assert "fill" in inspect.getsource(Point.__init__)


def test_mocks_replace_methods_fields_and_constructors() -> None:
    data, record = flat(), point()
    with mock.patch.object(TensorDict, "get", autospec=True, return_value="mocked") as get:
        assert data.get("a") == "mocked"
        get.assert_called_once_with(data, "a")
    with mock.patch.object(TensorDict, "select", wraps=data.select) as select:
        assert data.select("a")["a"] is X
        select.assert_called_once_with("a")
    with mock.patch.object(Point, "x", new_callable=mock.PropertyMock, return_value="mocked"):
        assert record.x == "mocked"
    with mock.patch.object(Point, "__init__", return_value=None) as init:
        Point(X, X, batch_size=[3])
        init.assert_called_once_with(X, X, batch_size=[3])
    with mock.patch.object(RecordMeta, "__call__", create=True, return_value="called"):
        assert Point(X, X) == "called"
    assert data.get("a") is record.x is X
    assert Point(X, X, batch_size=[3]).batch_size == (3,)


def test_the_arguments_of_a_call_are_seen_in_its_frame() -> None:
    seen: list[dict[str, Any]] = []

    def profile(frame: types.FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in (TensorDict.get.__code__, Point.__init__.__code__):
            seen.append({**frame.f_locals})

    data = flat()
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        data.get(("b", "c"), 5)
        Point(X, y=X, batch_size=[3])
    finally:
        sys.setprofile(before)
    assert seen[0]["key"] == ("b", "c")
    assert seen[0]["default"] == 5
    assert seen[1]["x"] is seen[1]["y"] is X
    assert seen[1]["batch_size"] == [3]


def test_compiled_code_neither_guards_nor_leaves_the_graph_for_the_question() -> None:
    def change(data: TensorDict) -> tuple[Any, ...]:
        data.unlock_().set("c", data.get("a") * 2).lock_()
        made = Point(data["a"], data["b", "c"], batch_size=[3])
        made.x = made.y + 1
        kept = TensorDict({"a": {"b": made.x}}, [3]).to_dict()
        return kept, list(data.keys(True, True)), data.copy().select("a").exclude("b").empty(), data.flatten_keys()

    torch._dynamo.reset()
    torch.compile(change, backend="eager", fullgraph=True)(flat())
    guards = torch._dynamo.eval_frame._debug_get_cache_entry_list(change)[0].guard_manager  # type: ignore[attr-defined]
    text = re.sub("#.*", "", str(guards)).replace(__name__, "")  # without the lines of code that wanted them
    assert "GuardManager" in text
    assert "native.ON" not in text, text
    assert not re.search(r"(\['|\.|_)native['\]]*\.(?!is_dynamo_compiling)", text), text
