"""Objects that the top-level names of a module stand for, as far as its source tells."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import enum
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import typing_extensions

from .module_paths import Module

#: the decorator, and the base of records, under every name that the package has for them
DECORATORS: frozenset[str] = frozenset({"tensorclass.tensorclass", "tensorclass.records.decorator.tensorclass"})
RECORDS: frozenset[str] = frozenset({"tensorclass.TensorClass", "tensorclass.records.record.TensorClass"})

_EXPORTS = {
    "tensorclass": "tensorclass.tensorclass",
    "TensorClass": "tensorclass.TensorClass",
    "field": "dataclasses.field",
}

#: the names that ``import *`` brings from modules that the generator knows
_STARS = {module.__name__: module.__all__ for module in (dataclasses, enum, typing, typing_extensions)}

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


#: gives the names of another module, where its text is at hand
Neighbours: TypeAlias = Callable[[str], "Names | None"]


class Names:
    """The names of a module: what imports, classes, functions and assignments at its top level bind.

    Args:
        tree: the syntax tree of the module.
        module: its dotted name.
        neighbours: finds other modules.
    """

    def __init__(self, tree: ast.Module, module: Module, neighbours: Neighbours | None = None) -> None:
        self._neighbours = neighbours
        self.module: Module = module
        self.imported: dict[str, str] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self.values: dict[str, ast.expr] = {}
        self.stars: list[str] = []
        self.bound: set[str] = set()
        self._set_by: dict[ast.ClassDef, set[str]] = {}
        for statement in inside(tree.body):
            self._see(statement)
        self.bound.update(bound(tree.body))

    def _see(self, statement: ast.stmt) -> None:
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                self.imported[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(statement, ast.ImportFrom):
            source = self.module.absolute(statement)
            for alias in statement.names:
                if alias.name == "*":
                    self.stars.append(source)
                else:
                    self.imported[alias.asname or alias.name] = f"{source}.{alias.name}"
        elif isinstance(statement, ast.ClassDef):
            self.classes[statement.name] = statement
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.functions[statement.name] = statement
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    self.values[target.id] = statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            self.values[statement.target.id] = statement.value

    def set_by(self, definition: ast.ClassDef) -> set[str]:
        """Return the names that a class of the module binds in its body or assigns to an attribute."""
        found = self._set_by.get(definition)
        if found is None:  # many classes share a base
            stored = (node for node in ast.walk(definition) if isinstance(node, ast.Attribute))
            found = {*bound(definition.body), *(node.attr for node in stored if isinstance(node.ctx, ast.Store))}
            self._set_by[definition] = found
        return found

    def origin(self, expression: ast.expr | None) -> str:
        """The dotted name of what an expression names: ``typing.Any``, or ``.Sample`` for one of the module itself.

        Empty where it is no name, or one that the module does not bind.
        """
        if isinstance(expression, ast.Attribute):
            start = self.origin(expression.value)
            return f"{start}.{expression.attr}" if start else ""
        if not isinstance(expression, ast.Name):
            return ""
        name = expression.id
        if name in self.imported:
            found = self.imported[name]
            package, _, last = found.rpartition(".")
            # names that this package re-exports
            return _EXPORTS[last] if package == "tensorclass" and last in _EXPORTS else found
        if name in self.bound:
            return f".{name}"
        if "tensorclass" in self.stars and name in _EXPORTS:
            return _EXPORTS[name]
        for star in self.stars:
            if name in _STARS.get(star, ()):
                return f"{star}.{name}"
        return f"builtins.{name}" if hasattr(builtins, name) else ""

    def followed(self, expression: ast.expr) -> tuple[str, Names]:
        """:meth:`origin`, through modules that hand a name on; and the module that says so."""
        names, origin = self, self.origin(expression)
        for _ in range(_MAX_HANDS):
            module, _, name = origin.rpartition(".")
            stays = not module or origin in DECORATORS or origin in RECORDS
            found = None if stays or names._neighbours is None else names._neighbours(module)
            if found is None or not (next_origin := found.origin(ast.Name(name))):
                break
            names, origin = found, next_origin
        return origin, names

    def definition(self, expression: ast.expr) -> tuple[ast.stmt, Names] | None:
        """The class or function that an expression names, and the module that it is in."""
        origin, names = self.followed(expression)
        if not origin.startswith("."):
            return None
        found = names.classes.get(origin[1:]) or names.functions.get(origin[1:])
        return (found, names) if found is not None else None

    def bases(self, definition: ast.ClassDef) -> list[tuple[ast.ClassDef, Names]]:
        """The bases of a class whose text is at hand, each with its module."""
        found = [self.definition(base.value if isinstance(base, ast.Subscript) else base) for base in definition.bases]
        known = [one for one in found if one is not None]
        return [(base, names) for base, names in known if isinstance(base, ast.ClassDef) and base is not definition]

    def is_record_decorator(self, decorator: ast.expr) -> bool:
        return self.record_options(decorator) is not None

    def record_options(self, decorator: ast.expr, depth: int = 4) -> list[ast.keyword] | None:
        """The options that a decorator gives where it is ``@tensorclass`` under any name; ``None`` for others."""
        if isinstance(decorator, ast.Call):
            before = self.record_options(decorator.func, depth)
            if before is None or (decorator.args and not is_constant(decorator.args[0], None)):
                return None
            return [*before, *decorator.keywords]
        origin, names = self.followed(decorator)
        if origin in DECORATORS:
            return []
        value = names.values.get(origin[1:]) if origin.startswith(".") else None
        return names.record_options(value, depth - 1) if value is not None and depth else None

    def has_records(self, tree: ast.Module) -> bool:
        """Return whether a class of the module is decorated with ``@tensorclass``."""
        return any(
            self.is_record_decorator(decorator)
            for statement in inside(tree.body, classes=True)
            if isinstance(statement, ast.ClassDef)
            for decorator in statement.decorator_list
        )


_MAX_HANDS = 10


def standard(origin: str) -> str:
    """Return a dotted name with ``typing`` in place of ``typing_extensions``."""
    return origin.replace("typing_extensions.", "typing.")


def is_constant(expression: ast.expr, value: bool | None) -> bool:
    """Return whether an expression is ``True``, ``False`` or ``None``."""
    return isinstance(expression, ast.Constant) and expression.value is value


def inside(statements: Iterable[ast.stmt], classes: bool = False) -> Iterator[ast.stmt]:
    """The statements, and those in their blocks: of ``if``, ``try``, ``with`` and loops, but not of functions.

    Args:
        statements: those to look through.
        classes: go into the bodies of classes too.
    """
    for statement in statements:
        yield statement
        if not isinstance(statement, _SCOPES) or (classes and isinstance(statement, ast.ClassDef)):
            for block in blocks(statement):
                yield from inside(block, classes)


def blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The blocks of a compound statement, in their order."""
    yield getattr(statement, "body", [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body
    yield getattr(statement, "orelse", [])
    yield getattr(statement, "finalbody", [])


def bound(statements: Iterable[ast.stmt]) -> list[str]:
    """The names that statements bind, in the order in which they first appear; those of ``import *`` are not known."""
    found: dict[str, None] = {}
    for statement in inside(statements):
        found.update(dict.fromkeys(bound_by(statement)))
    return list(found)


def bound_by(statement: ast.stmt) -> Iterator[str]:
    """The names that one statement binds, without its blocks."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield statement.name
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            if alias.name != "*" and statement.module != "__future__":
                yield alias.asname or alias.name
    else:
        nested = {id(inner) for block in blocks(statement) for inner in block}
        yield from _stored(statement, nested)
        # the name of an exception is none: Python removes it at the end of the block


def _stored(node: ast.AST, skip: set[int]) -> Iterator[str]:
    """The names that the expressions of a statement bind: targets, ``:=``, and captures of patterns."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Store):
            yield node.id
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                yield inner.target.id
        return
    if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name
    if isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
    for child in ast.iter_child_nodes(node):
        if id(child) not in skip and not isinstance(child, ast.ExceptHandler):
            if isinstance(child, ast.match_case):
                yield from _stored(child.pattern, skip)
            else:
                yield from _stored(child, skip)
