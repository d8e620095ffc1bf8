"""Methods that are made from tables have the docstrings that written ones have.

Doctests of modules do not see them: their code stands in the function that makes them.
"""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

from tensorclass.td.base import TensorCollection
from tensorclass.td.pointwise import Pointwise
from tensorclass.td.reductions import Reductions

#: name -> method, of all that a function of the name `method` in a factory is
MADE: dict[str, Any] = {
    name: member
    for family in (Pointwise, Reductions)
    for name, member in vars(family).items()
    if inspect.isfunction(member) and member.__code__.co_name == "method" and name[0] != "_"
}


def test_the_tables_are_found() -> None:
    assert {"sum", "max", "cumprod", "abs", "mul_", "eq"} <= MADE.keys()


@pytest.mark.parametrize("name", MADE)
def test_the_example_runs(name: str) -> None:
    doc = inspect.getdoc(MADE[name]) or ""
    test = doctest.DocTestParser().get_doctest(doc, {}, name, None, 0)
    assert any(f".{name}(" in example.source for example in test.examples)
    lines: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=lines.append)
    assert result.failed == 0, "".join(lines)


@pytest.mark.parametrize("name", MADE)
def test_every_argument_is_documented(name: str) -> None:
    doc = inspect.getdoc(getattr(TensorCollection, name)) or ""
    for parameter in list(inspect.signature(MADE[name]).parameters)[1:]:
        assert f"    {parameter}: " in doc
