"""Each row of the table of operations is true: what it names exists, and is what the row says."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorCollection
from tensorclass.td import native
from tensorclass.td.leaves.leaf import Leaf
from tensorclass.td.operations import OPERATIONS, Operation
from tensorclass.td.operators import Operators
from tensorclass.td.pointwise import Pointwise
from tensorclass.td.reductions import Reductions
from tensorclass.td.stores.lazy.lazy_stack import LazyStacked
from tensorclass.td.torch_functions import HANDLERS
from tests.calls import CALLS
from tests.operations import SHAPE_OPERATIONS

each_row = pytest.mark.parametrize("row", OPERATIONS, ids=lambda row: row.name)


def functions_of(name: str) -> list[Callable[..., Any]]:
    """Functions of torch and methods of tensors of a name."""
    return [getattr(owner, name) for owner in (torch, torch.special, Tensor) if hasattr(owner, name)]


def family(*classes: type) -> set[str]:
    """The operations that classes define: public methods, and those of Python's operators."""
    return {
        name
        for cls in classes
        for name, member in vars(cls).items()
        if isinstance(member, FunctionType) and (name[0] != "_" or name.endswith("__")) and "annotate" not in name
    }


def test_no_operation_has_two_rows() -> None:
    methods = [name for row in OPERATIONS for name in row.methods]
    assert sorted(methods) == sorted(set(methods))
    names = [name for row in OPERATIONS for name in (row.name, *row.aliases)]
    assert sorted(names) == sorted(set(names))


@each_row
def test_its_methods_exist(row: Operation) -> None:
    for name in (*row.methods, row.reflected or row.name):
        assert callable(inspect.getattr_static(TensorCollection, name)), name


def test_every_function_of_elements_and_every_reduction_has_a_row() -> None:
    rows = {kind: {name for row in OPERATIONS if row.kind == kind for name in row.methods}
            for kind in ("pointwise", "reduction", "along")}  # fmt: skip
    assert family(Operators, Pointwise) == rows["pointwise"]
    assert family(Reductions) == rows["reduction"] | rows["along"]


@each_row
def test_its_functions_of_torch_exist_and_call_it(row: Operation) -> None:
    if not row.in_torch:
        assert row.aliases == ()
        assert row.keywords == {}
        assert not any(function in HANDLERS for function in functions_of(row.name))
    for name in (row.name, *row.aliases) if row.in_torch else ():
        assert functions_of(name), name
        assert all(function in HANDLERS for function in functions_of(name)), name


@each_row
def test_its_keywords_are_arguments_of_the_method(row: Operation) -> None:
    parameters = inspect.signature(getattr(TensorCollection, row.name)).parameters
    assert set(row.keywords.values()) <= set(parameters)
    assert not [name for name in row.keywords if name in parameters and parameters[name].kind.name != "VAR_POSITIONAL"]


@each_row
def test_a_lazy_stack_does_it_as_the_row_says(row: Operation) -> None:
    for name in row.methods:
        made: Any = vars(LazyStacked).get(name)
        is_made_of_the_row = getattr(made, "__wrapped__", None) is inspect.getattr_static(TensorCollection, name)
        assert is_made_of_the_row is (row.lazy is not None), name


@each_row
def test_a_leaf_has_the_operations_on_numbers(row: Operation) -> None:
    if row.kind in ("pointwise", "reduction", "along"):
        assert row.methods.keys() <= vars(Leaf).keys()


@pytest.mark.skipif(bool(native.WHY_OFF), reason="no native code")
def test_native_code_has_the_operations_of_which_rows_say_so() -> None:
    tried = {function.__name__ for functions in native.TRIED.values() for function in functions}
    public = {name for name in native.METHODS if name[0] != "_"}  # for the others it stands where it walks over values
    ends_in = {"clone": "_cloned", "permute": "_permute"}
    assert {ends_in.get(name, name) for name in public} <= tried
    assert native.TRIED.keys() <= native._library.keys()


# -- the tables of the tests ------------------------------------------------------------------------------------------

#: shape operations that tests/operations.py does not draw -> why
NOT_DRAWN = {
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), "take no arguments; in tests/parity/cases"),
    "masked_select": "takes a mask; in tests/parity/cases",
}
#: operations that no table of the tests calls -> why
NOT_CALLED = {
    **dict.fromkeys(("cumprod", "cumsum"), "the peer has none; tests/td/test_reductions.py"),
    **dict.fromkeys(("cuda", "pin_memory", "pin_memory_"), "need a GPU; tests/td/test_devices.py"),
}


def test_shape_operations_are_drawn() -> None:
    rows = {row.name for row in OPERATIONS if row.kind == "shape"}
    assert SHAPE_OPERATIONS.keys() <= rows
    assert rows - SHAPE_OPERATIONS.keys() == NOT_DRAWN.keys()


@pytest.mark.parametrize("row", [row for row in OPERATIONS if row.name[0] != "_"], ids=lambda row: row.name)
def test_it_is_called_by_a_table_of_the_tests(row: Operation) -> None:
    pytest.importorskip("tensordict")
    parity = importlib.import_module("tests.parity.operations").OPERATIONS
    called = {name.partition(":")[0] for name in (*CALLS, *parity)}
    assert (row.name in called) != (row.name in NOT_CALLED)
