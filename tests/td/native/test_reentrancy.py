"""Python code in the middle of operations: a short run of :mod:`tests.td.native.reentrancy`, and what it finds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tensorclass
from tensorclass import TensorDict
from tensorclass.td import native
from tests import fresh_python
from tests.td.native import intruder as intruders
from tests.td.native import reentrancy
from tests.td.native.intruder import Intruder, content_of, fire

PACKAGE = Path(tensorclass.__file__).parent

IN_MODES = [
    pytest.param(True, marks=pytest.mark.skipif(not native.ON, reason=native.WHY_OFF), id="native"),
    pytest.param(False, id="python"),
]


@pytest.mark.parametrize("on", IN_MODES)
def test_a_change_in_the_middle_gives_a_whole_result_or_an_error(on: bool) -> None:
    """``python -m tests.td.native.reentrancy --count 200000`` is the long run."""
    command = [
        "-m",
        "tests.td.native.reentrancy",
        "--count",
        "600",
        "--seed",
        "1",
        "--native",
        str(int(on)),
        "--jobs",
        "1",
    ]
    done = fresh_python.run(command)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    counts = json.loads(done.stdout)["native" if on else "python"]
    assert counts["whole"] > 50
    assert counts["survived"] > 50


@pytest.mark.skipif(not native.ON, reason=native.WHY_OFF)
def test_operations_call_every_function_of_the_library() -> None:
    assert reentrancy.entries()["not called"] == set()


@pytest.mark.skipif(not native.ON, reason=native.WHY_OFF)
def test_operations_call_every_method_that_tries_native_code() -> None:
    methods = {
        (method.__code__.co_filename, method.__code__.co_firstlineno)
        for tried in native.TRIED.values()
        for method in tried
    }
    called: set[tuple[str, int]] = set()

    def note(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    with reentrancy.native_code(False):
        sys.setprofile(note)
        try:
            reentrancy.run_each()
        finally:
            sys.setprofile(None)
    assert methods - called == set()


# -- what it would find -----------------------------------------------------------------------------------------------


def found(operation: Any, at: int, form: str = "flat", change: str = "pop_and_add") -> str:
    """What comes of an operation whose collection is changed at a moment."""
    intruder = Intruder("test")
    intruder.schedule = {at}
    intruder.kinds_of_changes = (getattr(intruders, change),)
    return reentrancy.compared(operation, intruder, form).partition(":")[0]


def _with_firing(make: Any) -> Any:
    def operation(d: Any) -> Any:
        fire()
        return make(d)

    return operation


def _later(d: Any) -> Any:
    """A copy whose keys are read before its values."""
    keys = list(d._store)
    fire()
    values: list[Tensor] = list(d._store.values())
    return TensorDict(dict(zip(keys, values, strict=False)), d.batch_size)


def _some(d: Any) -> Any:
    """A copy of what is left, of the keys that there were."""
    keys = list(d._store)
    fire()
    return TensorDict({key: d._store[key] for key in keys if key in d._store}, d.batch_size)


def test_a_whole_result_is_that_of_a_state() -> None:
    assert found(_with_firing(lambda d: TensorDict(dict(d._store), d.batch_size)), 1) == "whole"


@pytest.mark.parametrize("operation", [_later, _some])
def test_a_result_of_no_state_is_found(operation: Any) -> None:
    with reentrancy.native_code(False):
        outcomes = {found(operation, at, change=change) for at in range(1, 9) for change in ("pop_and_add", "refill")}
    assert "PARTIAL" in outcomes


def test_a_partial_write_is_found() -> None:
    def write(d: Any) -> None:
        for key in list(d._store):
            fire()
            if key in d._store:
                d._store[key].zero_()

    with reentrancy.native_code(False):
        assert "PARTIAL" in {found(write, at, change="swap") for at in range(1, 30)} | {
            found(write, at, change="refill") for at in range(1, 30)
        }


#: operations that read a collection twice once, with the form in which they did
READ_TWICE: dict[str, tuple[str, Any]] = {
    "reshape": ("lazy", lambda d: d.reshape(-1)),
    "flatten": ("lazy", lambda d: d.flatten(0, 1)),
    "tensor_split": ("flat", lambda d: d.tensor_split((1,))),
    "set_at_": ("lazy", lambda d: d.set_at_("a", 1, 0)),
    "items": ("lazy", lambda d: list(d.items())),
    "cumsum": ("lazy", lambda d: d.cumsum(0)),
    "roll": ("lazy", lambda d: d.roll(1, 0)),
    "items, all": ("lazy", lambda d: list(d.items(True, True))),
    "values, all": ("lazy", lambda d: list(d.values(True, True))),
    "empty_like": ("flat", lambda d: torch.empty_like(d).zero_()),
    "zeros_like": ("flat", lambda d: torch.zeros_like(d)),
    "squeeze": ("flat", lambda d: d.squeeze()),
    "unsqueeze": ("flat", lambda d: d.unsqueeze(-1)),
    "narrow": ("flat", lambda d: d.narrow(1, 1, 2)),
    "narrow of nested": ("nested", lambda d: d.narrow(1, 1, 2)),
    "permute": ("flat", lambda d: d.permute(1, 0)),
    "split_keys": ("objects", lambda d: d.split_keys(["x"])),
}


@pytest.mark.parametrize("name", READ_TWICE)
@pytest.mark.parametrize("change", ["pop_and_add", "refill", "swap", "resize"])
@pytest.mark.parametrize("on", IN_MODES)
def test_an_operation_reads_a_collection_once(name: str, change: str, on: bool) -> None:
    form, operation = READ_TWICE[name]
    with reentrancy.native_code(on):
        outcomes = [found(operation, at, form, change) for at in range(1, 80)]
    assert "PARTIAL" not in outcomes
    assert {"whole", "error"} & set(outcomes)  # something was changed


def test_values_are_told_apart() -> None:
    intruder = Intruder("test")
    first, second = intruder.collection("flat"), intruder.collection("flat")
    no_number = lambda value: None
    assert content_of(first, no_number) == content_of(first.clone(), no_number)
    assert content_of(first, no_number) != content_of(second, no_number)
    assert content_of(torch.zeros(2), no_number) != content_of(torch.zeros(2, 1), no_number)


def test_a_process_that_crashes_is_reported() -> None:
    assert reentrancy.ended(-11, "noise\nFatal Python error: Segmentation fault\n  line").splitlines()[:2] == [
        "CRASH: SIGSEGV",
        "    Fatal Python error: Segmentation fault",
    ]
