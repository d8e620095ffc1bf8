"""The type of an expression, as far as the text of its module shows it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from .public_names import Names, bound

#: the types of the names in a function: annotations, as text
Types: TypeAlias = Mapping[str, str]

_NUMBERS = ("bool", "int", "float", "complex")
_RESULTS = {
    **{f"builtins.{name}": name for name in ("int", "str", "float", "bool", "bytes", "complex", "range", "object")},
    **{f"builtins.{name}": "bool" for name in ("isinstance", "issubclass", "callable", "hasattr", "all", "any")},
    **{f"builtins.{name}": "int" for name in ("len", "hash", "id", "ord")},
    **{f"builtins.{name}": "str" for name in ("repr", "chr", "ascii", "hex", "bin", "format", "input")},
}
_MAX_UNION = 3


class Inference:
    """Types of expressions in one module.

    Args:
        names: those of the module.
        need: called with ``"typing.Any"``, gives the name under which the stub has that.
    """

    def __init__(self, names: Names, need: Callable[[str], str]) -> None:
        self._names = names
        self._need = need

    @property
    def unknown(self) -> str:
        """The annotation for an unknown type: an ``Any`` that says so."""
        return self._need("_typeshed.Incomplete")

    def of(self, expression: ast.expr, types: Types = {}, known: Types = {}) -> str | None:  # noqa: B006
        """Return the annotation for an expression, or ``None`` if its type is unknown.

        Args:
            expression: the expression.
            types: of the names around it that are no names of the module.
            known: results of calls by their text: ``cls`` in a class method.
        """
        match expression:
            case ast.Constant(value=None):
                return "None"
            case ast.Constant(value=value):
                return None if value is ... else type(value).__name__
            case ast.JoinedStr():
                return "str"
            case ast.Name(id=name):
                return types.get(name)
            case ast.UnaryOp(op=ast.Not()):
                return "bool"
            case ast.UnaryOp(operand=operand):
                found = self.of(operand, types, known)
                return ("int" if found == "bool" else found) if found in _NUMBERS else None
            case ast.BinOp(left=left, op=op, right=right):
                return self._operation(self.of(left, types, known), op, self.of(right, types, known))
            case ast.BoolOp(values=values):
                kinds = {self.of(value, types, known) for value in values}
                return kinds.pop() if len(kinds) == 1 else None
            case ast.Compare(left=left, ops=ops, comparators=others):
                if all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in ops):
                    return "bool"
                plain = {*_NUMBERS, "str", "bytes"}
                return "bool" if all(self.of(item, types, known) in plain for item in (left, *others)) else None
            case ast.IfExp(body=body, orelse=orelse):
                return union([self.of(body, types, known), self.of(orelse, types, known)])
            case ast.Tuple(elts=items) if not any(isinstance(item, ast.Starred) for item in items):
                inner = [self.of(item, types, known) or self.unknown for item in items]
                return f"tuple[{', '.join(inner) or '()'}]"
            case ast.List(elts=items) | ast.Set(elts=items):
                kind = "list" if isinstance(expression, ast.List) else "set"
                return f"{kind}[{self._items(items, types, known)}]"
            case ast.Dict(keys=keys, values=values):
                first = self._items([key for key in keys if key is not None], types, known)
                return f"dict[{first}, {self._items(values, types, known)}]"
            case ast.ListComp(elt=elt) | ast.SetComp(elt=elt):
                kind = "list" if isinstance(expression, ast.ListComp) else "set"
                return f"{kind}[{self._comprehended(expression, elt, types, known)}]"
            case ast.DictComp(key=key, value=value):
                parts = [self._comprehended(expression, part, types, known) for part in (key, value)]
                return f"dict[{', '.join(parts)}]"
            case ast.Lambda():
                return f"{self._need('collections.abc.Callable')}[..., {self.unknown}]"
            case ast.Call(func=func):
                return known.get(ast.unparse(func)) or self._called(func, expression.args)
            case _:
                return None

    def _items(self, items: Sequence[ast.expr], types: Types, known: Types) -> str:
        found = [self.of(item, types, known) for item in items]
        return (union(found) if found else None) or self.unknown

    def _comprehended(
        self, comprehension: ast.ListComp | ast.SetComp | ast.DictComp, item: ast.expr, types: Types, known: Types
    ) -> str:
        own = {
            node.id
            for generator in comprehension.generators
            for node in ast.walk(generator.target)
            if isinstance(node, ast.Name)
        }
        outer = {name: kind for name, kind in types.items() if name not in own}
        return self.of(item, outer, known) or self.unknown

    def _operation(self, left: str | None, op: ast.operator, right: str | None) -> str | None:
        if left in _NUMBERS and right in _NUMBERS:
            if isinstance(op, ast.Pow):
                return None  # 2 ** -1 is no int
            if isinstance(op, (ast.BitAnd, ast.BitOr, ast.BitXor)) and left == right:
                return left
            widest = max(_NUMBERS.index(left), _NUMBERS.index(right), 1)
            return _NUMBERS[max(widest, 2) if isinstance(op, ast.Div) else widest]
        if left in ("str", "bytes"):
            if (isinstance(op, ast.Add) and right == left) or (isinstance(op, ast.Mult) and right == "int"):
                return left
            return left if isinstance(op, ast.Mod) else None
        return None

    def _called(self, func: ast.expr, args: Sequence[ast.expr]) -> str | None:
        """Return the annotation for the result of a call; ``None`` if it is unknown."""
        origin = self._names.origin(func)
        name = origin.rpartition(".")[2]
        if origin.startswith("."):
            definition = self._names.classes.get(origin[1:])
            if definition is not None:
                plain = not is_generic(definition, self._names) and self._stays(definition)
                return ast.unparse(func) if plain else None
            function = self._names.functions.get(origin[1:])
            return self._returned(function) if function is not None else None
        if origin in ("builtins.list", "builtins.set", "builtins.frozenset", "builtins.sorted", "builtins.dict"):
            inner = ", ".join([self.unknown] * (2 if name == "dict" else 1))
            return f"{name.replace('sorted', 'list')}[{inner}]"
        if origin == "builtins.tuple":
            return f"tuple[{self.unknown}, ...]"
        if origin.startswith("builtins."):
            return _RESULTS.get(origin)
        is_class = name[:1].isupper() and not name.isupper()  # by convention: imported modules are not read
        return ast.unparse(func) if origin and is_class and origin.partition(".")[0] not in _NO_CLASSES else None

    def _stays(self, definition: ast.ClassDef) -> bool:
        """Return whether all decorators of a class return the class itself."""
        origins = [
            self._names.origin(decorator.func if isinstance(decorator, ast.Call) else decorator)
            for decorator in definition.decorator_list
            if not self._names.is_record_decorator(decorator)
        ]
        return all(origin.rpartition(".")[2] in SAME for origin in origins)

    def _returned(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> str | None:
        if function.decorator_list or isinstance(function, ast.AsyncFunctionDef) or function.returns is None:
            return None
        for node in ast.walk(function.returns):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                return None
            value = self._names.values.get(node.id) if isinstance(node, ast.Name) else None
            if isinstance(value, ast.Call) and self._names.origin(value.func).startswith("typing"):
                return None  # a type variable
        if getattr(function, "type_params", None):
            return None
        return ast.unparse(function.returns)


#: decorators that give the class that they are given
SAME = ("dataclass", "final", "total_ordering", "runtime_checkable", "unique", "override", "deprecated")

_NO_CLASSES = ("typing", "typing_extensions")


def union(types: Sequence[str | None]) -> str | None:
    """The annotation for what is one of several types; ``None`` where one is not known, or where they are many."""
    found = list(dict.fromkeys(types))
    if not found or None in found or len(found) > _MAX_UNION:
        return None
    if found == ["None"]:
        return "None"
    # None last, as one writes it
    return " | ".join(sorted((kind for kind in found if kind), key=lambda kind: kind == "None"))


def is_generic(definition: ast.ClassDef, names: Names) -> bool:
    """Return whether a class has type parameters of its own."""
    return bool(getattr(definition, "type_params", None)) or any(
        isinstance(base, ast.Subscript) for base in definition.bases
    )


Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def returned_by(function: Function, inference: Inference, types: Types, known: Types) -> str | None:
    """The annotation for what a function without one returns; ``None`` where it is not known."""
    own = own_nodes(function)
    yields = [node for node in own if isinstance(node, (ast.Yield, ast.YieldFrom))]
    if _is_only_declared(function) or _is_abstract(function, inference):
        return None
    if yields and isinstance(function, ast.AsyncFunctionDef):
        return None
    locals_ = set(bound(function.body))
    types = {name: kind for name, kind in types.items() if name not in locals_}
    if yields:
        items = [
            None
            if isinstance(node, ast.YieldFrom)
            else inference.of(node.value, types, known)
            if node.value
            else "None"
            for node in yields
        ]
        generator = inference._need("collections.abc.Generator")
        return f"{generator}[{union(items) or inference.unknown}, {inference.unknown}, {inference.unknown}]"
    values = [node.value for node in own if isinstance(node, ast.Return)]
    ends = terminates(function.body)
    if all(value is None for value in values):
        return None if ends and not values else "None"  # a function that always raises
    found = [inference.of(value, types, known) if value is not None else "None" for value in values]
    return union(found if ends else [*found, "None"])


def own_nodes(function: Function) -> list[ast.AST]:
    """The nodes of a function's body that are not inside functions or classes in it."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        found.append(node)
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
    return found


def _is_only_declared(function: Function) -> bool:
    """Return whether a function has no code to infer from: ``...`` or a docstring alone."""
    return all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) for statement in function.body
    )


def _is_abstract(function: Function, inference: Inference) -> bool:
    """Return whether a function is abstract: only its overrides determine its result."""
    return any(inference._names.origin(one).startswith("abc.abstract") for one in function.decorator_list)


def terminates(body: Sequence[ast.stmt]) -> bool:
    """Return whether the end of a block is never reached."""
    match body[-1] if body else None:
        case ast.Return() | ast.Raise():
            return True
        case ast.If(body=first, orelse=second):
            return terminates(first) and terminates(second)
        case ast.With(body=first):  # assumed not to suppress exceptions, as readers assume
            return terminates(first)
        case ast.Try(body=first, handlers=handlers, orelse=orelse, finalbody=final):
            whole = terminates(orelse or first) and all(terminates(handler.body) for handler in handlers)
            return whole or terminates(final)
        case ast.Match(cases=cases):
            last = cases[-1]
            takes_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None and last.guard is None
            return takes_all and all(terminates(case.body) for case in cases)
        case ast.While(test=ast.Constant(value=value), body=inner):
            return bool(value) and not any(isinstance(node, ast.Break) for item in inner for node in ast.walk(item))
        case _:
            return False
