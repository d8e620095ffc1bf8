"""The docstrings of public classes and functions are complete: a summary, arguments, an example that runs.

The summary is one line. ``Args`` explains every parameter, ``Attributes`` every field of a record. An example imports
what it uses. Errors need no example.

Examples are doctests: pytest runs those of every module, and nothing in them is skipped. Three rules for what they may
need:

- Libraries of extras (pyarrow, zarr, attrs, ...): import them. The development environment has all of them.
- Ray: an example that says ``import ray`` runs on the cluster of ``tests/distributed/ray``.
- Redis: an example that says ``unix_socket_path="redis.sock"`` runs with a server at that socket, in
  ``tests/storage/key_value/test_tensordict_store.py``.
- Several processes: an example of a collective starts a group of one process and destroys it. An example that needs
  two, as of ``send`` and ``recv``, is written for each of two ranks, with ``dist.get_rank()`` and without
  ``init_process_group``; ``tests/distributed/messages/test_point_to_point.py`` runs it on both.
"""

import ast
import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest

from tensorclass import TensorClass
from tensorclass.nn.dispatch import Dispatch
from tensorclass.records.factories import make_empty
from tensorclass.td.inherited_members import defined_members
from tests.docstring_examples import PACKAGE, run
from tests.td.test_generated_docstrings import MADE

#: the modules whose ``__all__`` lists what users import
NAMESPACES = (
    "tensorclass",
    "tensorclass.cli",
    "tensorclass.contracts",
    "tensorclass.distributed",
    "tensorclass.distributed.ray",
    "tensorclass.nn",
    "tensorclass.nn.distributions",
    "tensorclass.scores",
    "tensorclass.td",
    "tensorclass.testing",
    "tensorclass.typing.stubs",
    "tensorclass.utils",
)

#: what is public through an object: a descriptor, an instance that is called
THROUGH_OBJECTS: dict[str, Any] = {"tensorclass.TensorClass.empty": make_empty, "tensorclass.nn.dispatch": Dispatch}

#: the sections of a docstring, in their order
SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Example", "Source")

#: a docstring that starts with one of these describes its subject as a riddle
RIDDLES = frozenset({"What", "Which", "Whether", "Where", "How", "Who", "That", "Those"})


# ---------------------------------------------------------------------------------------------------------------------
# what is public


def is_ours(item: Any) -> bool:
    return str(item.__module__).partition(".")[0] == "tensorclass"


def public_items() -> Iterator[Any]:
    """Yield the public classes and functions."""
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        for name in module.__all__:
            item: Any = getattr(module, name)
            if (inspect.isclass(item) or inspect.isfunction(item)) and is_ours(item):
                yield item


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class and its bases, with their qualified names."""
    for owner in filter(is_ours, inspect.getmro(cls)):
        for name, member in defined_members(owner).items():
            function: Any = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            # private functions replace methods that have no effect in a class
            is_public = inspect.isfunction(function) and function.__name__[0] != "_"
            is_property = isinstance(member, property) and name not in getattr(owner, "_specs", ())  # no field
            if name[0] == "_" or not (is_public or is_property):
                continue
            if function.__doc__ is None:  # an override with the docstring of what it overrides
                inherited = [vars(base)[name] for base in inspect.getmro(owner)[1:] if name in vars(base)]
                if any(base.__doc__ for base in inherited):
                    continue
            yield f"{owner.__qualname__}.{name}", function


def public() -> dict[str, Any]:
    """Return the public classes, functions, methods and properties by module and qualified name."""
    found = dict(THROUGH_OBJECTS)
    for item in public_items():
        found[f"{item.__module__}.{item.__qualname__}"] = item
        if inspect.isclass(item):
            found.update({f"{module_of(member)}.{name}": member for name, member in members(item)})
    return found


def module_of(item: Any) -> str:
    return str(item.fget.__module__ if isinstance(item, property) else item.__module__)


# ---------------------------------------------------------------------------------------------------------------------
# what a docstring lacks


def faults(item: Any) -> list[str]:
    """Return what is wrong with the docstring of a class, function or property."""
    doc = inspect.cleandoc(item.__doc__ or "")
    if not doc:
        return ["no docstring"]
    found = form_faults(doc)
    if inspect.isclass(item) and issubclass(item, BaseException):
        return found
    if ">>> " not in doc:
        found.append("no example")
    names = [] if isinstance(item, property) else parameters(item)
    if names:
        if not documented(doc):
            found.append("no Args")
        elif missing := [name for name in names if name not in documented(doc)]:
            found.append(f"Args without {', '.join(missing)}")
    return found


def form_faults(doc: str) -> list[str]:
    """Return what is wrong with the form of a docstring."""
    found: list[str] = []
    if "\n" in doc.partition("\n\n")[0]:
        found.append("the summary is longer than a line")
    order = [SECTIONS.index(name) for name in re.findall(rf"^({'|'.join(SECTIONS)}):", doc, flags=re.MULTILINE)]
    if order != sorted(order):
        found.append(f"sections in another order than {', '.join(SECTIONS)}")
    if ">>> " in doc:
        if not re.search(r"^Example:\n(    .*\n|\n)*    >>> ", doc, flags=re.MULTILINE):
            found.append("an example outside of the section Example")
        if unknown := unimported(doc):
            found.append(f"an example that does not import {', '.join(sorted(unknown))}")
        if "+SKIP" in doc:
            found.append("an example that is skipped")
    return found


def parameters(item: Any) -> list[str]:
    """Return the names of the parameters that the docstring must explain: for a record, of its own fields."""
    if inspect.isclass(item):
        if issubclass(item, TensorClass) and item is not TensorClass:
            return [name for name in inspect.get_annotations(item) if name in item._specs]
        owner = next(base for base in inspect.getmro(item) if {"__init__", "__new__"} & vars(base).keys())
        if issubclass(item, Enum) or not is_ours(owner):
            return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        name
        for name, parameter in inspect.signature(item).parameters.items()
        if parameter.kind not in variadic and name not in ("self", "cls") and name[0] != "_"
    ]


def documented(doc: str) -> set[str]:
    """Return the names that the sections Args and Attributes explain."""
    sections = re.findall(r"^(?:Args|Attributes):\n((?:    .*\n|\n)*)", doc + "\n", flags=re.MULTILINE)
    names = [name for section in sections for name in re.findall(r"^    ([*\w, ]+): ", section, flags=re.MULTILINE)]
    return {name.strip().lstrip("*") for several in names for name in several.split(",")}


def unimported(doc: str) -> set[str]:
    """Return the names that an example uses without importing or defining them."""
    source = "\n".join(example.source for example in doctest.DocTestParser().get_examples(doc))
    defined: set[str] = set(dir(__builtins__) if inspect.ismodule(__builtins__) else __builtins__)
    used: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            defined.add(node.name)
    return used - defined


def test_public_docstrings_are_complete() -> None:
    items = public()
    assert len(items) > 900
    found = {name: lacks for name, item in items.items() if (lacks := faults(item))}
    assert not found, "\n".join(f"{name}: {'; '.join(lacks)}" for name, lacks in sorted(found.items()))


def test_examples_that_pytest_does_not_collect_run_too() -> None:
    """Doctest misses methods of a class that names another module as its own, and methods that are made from tables."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [importlib.import_module(name) for name in {module_of(item) for item in public().values()}]
    collected = {test.docstring for module in modules for test in finder.find(module)}
    made = {method.__doc__ for method in MADE.values()}  # run in test_generated_docstrings
    missed = {
        name: item.__doc__
        for name, item in public().items()
        if ">>> " in (item.__doc__ or "") and item.__doc__ not in collected | made
    }
    assert "tensorclass.contracts.contract_error.ContractError.below" in missed
    for name, docstring in missed.items():
        run(name, inspect.cleandoc(docstring))


def add(first: int, second: int) -> int:
    return first + second


GOOD = """Return the sum.

Args:
    first, second: the numbers.

Returns:
    A number.

Example:
    >>> import math
    >>> math.prod([1, 2])
    2
"""


@pytest.mark.parametrize(
    "old, new, fault",
    [
        (GOOD, "", "no docstring"),
        ("sum.", "sum of two\nnumbers.", "summary"),
        (", second", "", "Args without second"),
        ("Args:", "Given:", "no Args"),
        (">>> ", "", "no example"),
        ("Example:", "See:", "section Example"),
        ("    >>> import math\n", "", "import math"),
        ("Returns:", "Source:", "another order"),
        ("2])", "2])  # doctest: +SKIP", "skipped"),
    ],
)
def test_a_fault_of_a_docstring_is_found(old: str, new: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(add, "__doc__", GOOD)
    assert faults(add) == []
    monkeypatch.setattr(add, "__doc__", GOOD.replace(old, new))
    (found,) = faults(add)
    assert fault in found


# ---------------------------------------------------------------------------------------------------------------------
# docstrings of everything else


def riddles(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the summary of every docstring that starts with one of :data:`RIDDLES`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            words = (ast.get_docstring(node) or "").split(maxsplit=1)
            if words and words[0].rstrip(",.:;") in RIDDLES:
                yield node.body[0].lineno, " ".join(words).partition("\n")[0]


def test_riddles_are_found_in_every_type_of_docstring() -> None:
    source = """
'''How rows are read.'''
class Reader:
    '''What: reads rows.'''
    def read(self):
        '''Whether rows are left.'''
    async def wait(self):
        '''Howl until rows come.'''
"""
    assert [line for line, _ in sorted(riddles(source))] == [2, 4, 6]


def test_docstrings_do_not_start_with_a_question_word() -> None:
    paths = sorted(PACKAGE.rglob("*.py"))
    assert paths
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line}: {summary}"
        for path in paths
        for line, summary in riddles(path.read_text(encoding="utf-8"))
    ]
    assert not found, "start with the subject or a verb, such as 'Return whether ...':\n" + "\n".join(found)
