"""Tests that run twice where native code is on: with it, and in Python alone, in the same process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tensorclass.td import native
from tensorclass.td.native import native_library

#: test files that run in both modes, relative to ``tests``: those of the operations that have native code
IN_BOTH_MODES = (
    "td/test_buffer_operations.py",
    "td/columns/test_text.py",
    "td/leaves/test_linked_list.py",
    "td/leaves/test_nontensor.py",
    "td/stores/lazy/test_lazy_stack.py",
    "td/test_collection.py",
    "td/test_contains_itself.py",
    "td/test_get.py",
    "td/test_get_set_remove.py",
    "td/test_get_set_remove_model.py",
    "td/test_indexing.py",
    "td/test_keys.py",
    "td/test_locking.py",
    "td/test_pointwise.py",
    "td/test_pytree.py",
    "td/test_shape_operations.py",
    "td/test_stack_and_cat.py",
    "records/test_operations_keep_class.py",
    "nn/test_from_module.py",
    "nn/test_to_module.py",
)


@contextmanager
def native_code(on: bool) -> Iterator[None]:
    """Run operations in C++, if that is loaded, or in Python."""
    before = native.ON
    native.switch(on and not native.WHY_OFF)
    try:
        yield
    finally:
        native.switch(before)


def functions() -> dict[str, Callable[..., Any]]:
    """Return the functions of the library that operations try."""
    return {name: native._library[name] for name in (*native.TRIED, "fill_record")} if native.TRIED else {}


@contextmanager
def results() -> Iterator[dict[str, list[Any]]]:
    """Note what each function of the library returns."""
    found: dict[str, list[Any]] = {name: [] for name in functions()}

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            result = function(*args)
            found[name].append(result)
            return result

        return call

    cells = [
        (name, method.__closure__[method.__code__.co_freevars.index("library")])  # type: ignore[index]
        for name, methods in native.TRIED.items()
        for method in methods
    ]
    for name, cell in cells:
        cell.cell_contents = noting(name, cell.cell_contents)
    if found:
        native.fill_record = noting("fill_record", native.fill_record)  # type: ignore[method-assign]
    try:
        yield found
    finally:
        for name, cell in cells:
            cell.cell_contents = native._library[name]
        if found:
            native.fill_record = native._library["fill_record"]  # type: ignore[method-assign]


def in_both_modes(call: Callable[[], Any]) -> tuple[Any, Any]:
    """Return the result of a call, or the class and the message of its error, with native code and in Python alone."""
    found: list[Any] = []
    for on in (True, False):
        with native_code(on):
            try:
                found.append(call())
            except Exception as error:
                found.append((type(error), str(error)))
    return found[0], found[1]


def runs_in_both_modes(path: Path) -> bool:
    """Return whether the tests of a file run with and without native code."""
    return not native.WHY_OFF and path.relative_to(Path(__file__).parent).as_posix() in IN_BOTH_MODES


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Make two tests of one, if its file runs in both modes."""
    if runs_in_both_modes(metafunc.definition.path):
        metafunc.fixturenames.append("native_mode")
        metafunc.parametrize("native_mode", ["native", "python"], indirect=True, scope="module")


def header() -> str:
    """Return the line about native code for the header of pytest."""
    return f"native code: {f'off, {native.WHY_OFF}' if native.WHY_OFF else f'on, {native_library.library_file().name}'}"
