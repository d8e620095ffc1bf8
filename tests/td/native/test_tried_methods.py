"""`native.tries`: what the library is called with, and what happens where it declines."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.td import native

calls: list[tuple[Any, ...]] = []


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """A function whose library function notes its arguments, and answers where the first is 1."""
    calls.clear()
    monkeypatch.setattr(native, "WHY_OFF", "")
    monkeypatch.setattr(native, "ON", True)
    monkeypatch.setitem(native._library, "noted", lambda *args: calls.append(args) or (True if args[0] == 1 else None))
    yield lambda *bound: native.tries("noted", *bound)(method)
    native.TRIED.pop("noted")


def method(first: int, second: int = 2, *rest: int, third: int | None = None) -> str:
    """Do it in Python."""
    return f"Python {first} {second} {rest} {third}"


def test_the_library_gets_the_arguments_by_position(tried: Any) -> None:
    for given in (lambda f: f(1, 3), lambda f: f(1, second=3), lambda f: f(first=1, second=3)):
        assert given(tried()) is True
    assert calls == [(1, 3)] * 3
    assert tried()(1) is True
    assert calls[-1] == (1,)


def test_defaults_by_keyword_are_left_out(tried: Any) -> None:
    assert tried()(1, third=None) is True
    assert calls == [(1,)]


def test_other_keywords_go_to_python(tried: Any) -> None:
    assert tried()(1, third=3) == "Python 1 2 () 3"
    assert calls == []


def test_what_the_library_declines_goes_to_python(tried: Any) -> None:
    assert tried()(5, 6, 7) == "Python 5 6 (7,) None"
    assert calls == [(5, 6, 7)]


def test_bound_arguments_stand_behind_the_first(tried: Any) -> None:
    assert tried("kernel")(1, 4) is True
    assert calls == [(1, "kernel", 4)]


def test_python_runs_where_native_code_is_switched_off(tried: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "ON", False)
    assert tried()(1) == "Python 1 2 () None"
    assert calls == []
    monkeypatch.setattr(native, "WHY_OFF", "switched off")
    assert native.tries("noted")(method) is method


def test_the_method_is_shown_as_it_stands_in_the_sources(tried: Any) -> None:
    made = tried()
    assert (made.__name__, made.__doc__) == ("method", "Do it in Python.")
    assert inspect.signature(made) == inspect.signature(method)
    assert made.__code__.co_filename == __file__
    assert made.__code__.co_name == "method"
    with pytest.raises(TypeError, match=r"method\(\) got an unexpected keyword argument 'fourth'"):
        made(1, fourth=4)


@pytest.mark.skipif(not native.ON, reason="native code is off")
def test_the_methods_of_the_table_are_those_that_users_call() -> None:
    assert TensorDict.reshape in native.TRIED["reshape"]
    data = TensorDict({"a": torch.zeros(4)}, [4])
    assert data.squeeze(dim=0).batch_size == data.squeeze(0).batch_size == (4,)
    assert torch.stack([data, data], dim=1).batch_size == (4, 2)
    with pytest.raises(TypeError, match="squeeze"):
        data.squeeze(1, 2)  # type: ignore[call-arg]
