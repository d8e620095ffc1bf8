"""State that the modules of the generator share while they make one stub."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from .inference import Inference
from .public_names import Names

S = TypeVar("S", bound=ast.stmt)


class Needed:
    """Names that a stub uses and its module does not bind, with the imports that they need."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._given: dict[str, str] = {}

    def __call__(self, origin: str) -> str:
        """Return the name of an object, such as ``typing.Any``, in the stub. It is imported if need be."""
        if origin in self._given:
            return self._given[origin]
        for name, found in self._names.imported.items():
            if found == origin or (origin.partition(".")[0] == "typing" and found == f"typing_extensions{origin[6:]}"):
                return name  # under a name that the module gave it
        last = origin.rpartition(".")[2]
        if ("tensorclass" in self._names.stars and origin == f"tensorclass.{last}") or (
            self._names.origin(ast.Name(last)) == origin
        ):
            return last
        while last in self._names.bound:
            last = f"_{last}"
        self._given[origin] = last
        return last

    def imports(self) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for origin, name in sorted(self._given.items()):
            module, _, last = origin.rpartition(".")
            found.append(ast.ImportFrom(module, [ast.alias(last, None if name == last else name)], 0))
        return found


#: takes a name, and its annotation and value in a class body; returns the method that the name stands for, with its
#: overloads, or an empty list
Table: TypeAlias = Callable[[str, "ast.expr | None", "ast.expr | None", "Context"], "list[ast.FunctionDef]"]


@dataclass
class Context:
    """The module, its names, and facts collected while its stub is made."""

    names: Names
    need: Needed
    inference: Inference
    #: suppressions of type checkers in the source, by line
    suppressions: dict[int, str]
    #: functions whose calls return methods, for the entries of a table: ``abs = unary("abs")``
    table: Table | None = None
    #: those that stand after a statement of the stub
    comments: dict[ast.AST, str] = field(default_factory=dict[ast.AST, str])
    #: overloads that were made from the entries of tables
    overloads: set[ast.AST] = field(default_factory=set[ast.AST])
    #: annotations that were inferred from what a name is assigned: another assignment widens them
    inferred: dict[ast.stmt, str | None] = field(default_factory=dict[ast.stmt, "str | None"])

    def keep_suppression(self, source: ast.stmt, stub: S, first: int, last: int) -> S:
        """Gives the stub's statement what suppresses errors in lines of the source."""
        for decorator in getattr(source, "decorator_list", ()):
            if decorator.lineno in self.suppressions:
                self.comments[decorator] = self.suppressions[decorator.lineno]
        found = [self.suppressions[line] for line in range(first, last + 1) if line in self.suppressions]
        if found:
            self.comments[stub] = "  ".join(dict.fromkeys(found))
        return ast.copy_location(stub, source)


_SUPPRESSION = re.compile(r"#\s*(type:\s*ignore|(pyright|ty|pyrefly|mypy):\s*ignore)\b[^#]*")


def suppressions(source: str) -> dict[int, str]:
    """The comments that suppress errors of type checkers, by line."""
    found: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            parts = [match.group().strip() for match in _SUPPRESSION.finditer(token.string)]
            if parts:
                found[token.start[0]] = "  ".join(parts)
    return found


def annotation(text: str) -> ast.expr:
    """The expression of an annotation."""
    return ast.parse(text, mode="eval").body


def type_parameters(definition: ast.AST) -> dict[str, Any]:
    """The argument of a new node for the type parameters of another one; Python 3.12 and later have them."""
    return {name: getattr(definition, name) for name in ("type_params",) if hasattr(definition, name)}


ELLIPSIS = ast.Constant(...)
EMPTY: Sequence[ast.stmt] = (ast.Expr(ELLIPSIS),)


def shown(value: ast.expr) -> ast.expr:
    """A default as the stub has it: as it is where it is short and plain, else ``...``."""
    match value:
        case ast.Constant(value=str() | bytes() as text):
            is_line = "\n" not in text if isinstance(text, str) else b"\n" not in text
            return value if len(text) <= 60 and text.isascii() and is_line else ELLIPSIS
        case ast.Constant():
            return value
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float())):
            return value
        case ast.Tuple(elts=items) if len(items) <= 3 and all(shown(item) is item for item in items):
            return value
        case _:
            return ELLIPSIS


def is_simple(value: ast.expr, known: set[str]) -> bool:
    """Return whether a checker can infer the type of an expression: known names, calls, literals."""
    for node in ast.walk(value):
        if isinstance(node, ast.Name) and node.id not in known:
            return False
        if not isinstance(node, _SIMPLE):
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes)) and len(node.value) > 100:
            return False
    return len(ast.unparse(value)) <= 200


_SIMPLE = (
    *(ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript, ast.Slice, ast.keyword, ast.BinOp, ast.UnaryOp),
    *(ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred, ast.operator, ast.unaryop, ast.expr_context),
)
