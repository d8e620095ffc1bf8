"""The docstrings of public functions and methods are complete: a summary, arguments, an example that runs.

Examples are doctests: pytest runs those of every module, and nothing in them is skipped. Three rules for what they may
need:

- Libraries of extras (pyarrow, zarr, attrs, ...): import them. The development environment has all of them.
- Ray: an example that says ``import ray`` runs on the cluster of ``tests/distributed/ray``.
- Several processes: an example of a collective starts a group of one process and destroys it. An example that needs
  two, as of ``send`` and ``recv``, is written for each of two ranks, with ``dist.get_rank()`` and without
  ``init_process_group``; ``tests/distributed/test_point_to_point.py`` runs it on both.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tensorclass

PACKAGE = Path(__file__).parents[1] / "tensorclass"

#: a docstring that starts with one of these describes its subject as a riddle
RIDDLES = frozenset({"What", "Which", "Whether", "Where", "How", "Who", "That", "Those"})


def public_functions() -> Iterator[tuple[str, Any]]:
    """Yield the name and the function of every public function, and of every public method of a public class."""
    for name in tensorclass.__all__:
        item: Any = getattr(tensorclass, name)
        if inspect.isclass(item):
            yield from methods(item)
        elif inspect.isfunction(item) and item.__module__.partition(".")[0] == "tensorclass":
            yield item.__qualname__, item


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    for owner in inspect.getmro(cls):
        if owner.__module__.partition(".")[0] != "tensorclass":
            continue
        for name, member in vars(owner).items():
            function: Any = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            # private functions replace methods that have no effect in a class
            if name[0] != "_" and inspect.isfunction(function) and function.__name__[0] != "_":
                if function.__doc__ is None:  # an override with the docstring of the method that it overrides
                    inherited = [vars(base)[name] for base in inspect.getmro(owner)[1:] if name in vars(base)]
                    if any(base.__doc__ for base in inherited):
                        continue
                yield f"{owner.__qualname__}.{name}", function


def faults(function: Any) -> list[str]:
    """Return the parts that a docstring lacks."""
    doc = inspect.cleandoc(function.__doc__ or "")
    if not doc:
        return ["docstring"]
    found = [] if ">>> " in doc else ["example"]
    arguments = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    if len(arguments) >= 2 and "Args:\n" not in doc:
        found.append("Args")
    return found


def incomplete() -> list[str]:
    """Return a line for each public function whose docstring lacks something."""
    lines = {f"{name}: {', '.join(lacks)}" for name, function in public_functions() if (lacks := faults(function))}
    return sorted(lines)


def test_public_docstrings_are_complete() -> None:
    assert incomplete() == [], "public functions need a summary, Args: for two and more arguments, and an example"


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
