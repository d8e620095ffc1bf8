"""The statements of a module, or of a class, turned into those of its stub."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Sequence

from .function_stub import function_stub, signature
from .inference import union
from .public_names import blocks, bound, bound_by, inside, standard
from .stub_context import ELLIPSIS, Context, annotation, is_simple, shown

_BUILTINS = {*dir(builtins), "__name__", "__file__", "__doc__"}


class Scope:
    """The scope that statements belong to: the top level of a module. That of a class derives from it."""

    is_class: bool = False
    #: whether functions are methods, whose first argument is a ``Self``
    has_self: bool = False

    def __init__(self, class_stub: Callable[[ast.ClassDef, Context], ast.ClassDef]) -> None:
        #: makes the stub of a class in this scope
        self.class_stub = class_stub

    def variable(self, name: str, value: ast.expr, known: set[str]) -> ast.stmt | None:
        """Return the stub of an assignment without annotation; ``None`` to apply the general rule."""
        return None

    def field(self, statement: ast.AnnAssign) -> ast.expr | None:
        """Return the value of an annotated variable in the stub; ``None`` for no value."""
        return None


def stubs_of(body: Sequence[ast.stmt], context: Context, scope: Scope) -> list[ast.stmt]:
    """Return the statements of the stub. Each name is bound once, apart from overloads and property accessors."""
    gone = _deleted(body)
    known = {*_BUILTINS, *context.names.bound, *bound(body)}
    if context.names.stars:  # names that are bound nowhere come from star imports
        known.update(node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name))
    block = _Block(context, scope, known - gone)
    found = [stub for statement in body for stub in block.stubs(statement)]
    return merged([stub for stub in found if not (gone and set(bound_by(stub)) & gone)], context)


def _deleted(body: Sequence[ast.stmt]) -> set[str]:
    """The names that are bound no more at the end."""
    gone: set[str] = set()
    for statement in inside(body):
        if isinstance(statement, ast.Delete):
            gone.update(target.id for target in statement.targets if isinstance(target, ast.Name))
        else:
            gone.difference_update(bound_by(statement))
    return gone


class _Block:
    """Statements of one scope.

    Args:
        context: the module.
        scope: that of the statements.
        known: names that a checker can look up.
    """

    def __init__(self, context: Context, scope: Scope, known: set[str]) -> None:
        self._context = context
        self._scope = scope
        self._known = known

    def _merged(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        return merged([stub for inner in body for stub in self.stubs(inner)], self._context)

    def stubs(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements of the stub that a statement becomes."""
        match statement:
            case ast.Import() | ast.ImportFrom():
                return _import(statement, self._context)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return [function_stub(statement, self._context, self._scope.has_self)]
            case ast.ClassDef():
                return [self._scope.class_stub(statement, self._context)]
            case ast.AnnAssign(target=ast.Name() as target):
                if method := self._tabled(target.id, statement.annotation, statement.value):
                    return [*method]
                if target.id == "__hash__" and self._scope.is_class and isinstance(statement.value, ast.Constant):
                    return [_unhashable(target, self._context)]
                stub = ast.AnnAssign(target, statement.annotation, self._value(statement), 1)
                if statement.value is None or self._scope.is_class:  # an inherited attribute may have another type
                    last = statement.end_lineno or statement.lineno
                    self._context.keep_suppression(statement, stub, statement.lineno, last)
                return [stub]
            case ast.Assign(targets=targets, value=value):
                stubs = [stub for target in targets for stub in self._assigned(target, value)]
                others = dict.fromkeys(bound_by(statement)).keys() - set(bound(stubs))  # by := in the value
                return [*(_variable(name, None, self._context) for name in sorted(others)), *stubs]
            case ast.AugAssign(target=ast.Name(id="__all__")):
                return [statement]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")))):
                return [statement]
            case ast.If():
                return self._conditional(statement)
            case ast.Expr() | ast.Pass() | ast.Delete() | ast.AugAssign() | ast.Assert():
                names = list(bound_by(statement)) if not isinstance(statement, (ast.Delete, ast.AugAssign)) else []
                return [_variable(name, None, self._context) for name in names]  # bound by :=
            case _ if type(statement).__name__ == "TypeAlias":
                return [statement]
            case _:
                # statements that run at import: as if the first block had run to its end
                own: list[ast.stmt] = [_variable(name, None, self._context) for name in bound_by(statement)]
                return self._alternatives(own, blocks(statement))

    def _conditional(self, statement: ast.If) -> list[ast.stmt]:
        def is_type_checking(test: ast.expr) -> bool:
            return standard(self._context.names.origin(test)) == "typing.TYPE_CHECKING"

        if is_for_checkers(statement.test, self._context):
            body, orelse = self._merged(statement.body), self._merged(statement.orelse)
            return [ast.If(statement.test, body or [ast.Pass()], orelse)] if body or orelse else []
        match statement.test:
            case test if is_type_checking(test):
                return self._merged(statement.body)
            case ast.UnaryOp(op=ast.Not(), operand=operand) if is_type_checking(operand):
                return self._merged(statement.orelse)
            case ast.Compare(left=ast.Name(id="__name__")):
                return self._merged(statement.orelse)
            case _:
                return self._alternatives([], [statement.body, statement.orelse])

    def _alternatives(self, found: list[ast.stmt], alternatives: Iterable[Sequence[ast.stmt]]) -> list[ast.stmt]:
        """The stubs of the first block, and those of the others for what it does not bind."""
        for block in alternatives:
            before = set(bound(found))
            for stub in self._merged(block):
                if isinstance(stub, (ast.Import, ast.ImportFrom)):
                    stub.names = [a for a in stub.names if (a.asname or a.name.partition(".")[0]) not in before]
                    if stub.names:
                        found.append(stub)
                elif not set(bound([stub])) <= before or stub in self._context.inferred:
                    found.append(stub)  # one that was inferred is merged with what the first block assigned
        return merged(found, self._context)

    def _tabled(self, name: str, annotation: ast.expr | None, value: ast.expr | None) -> list[ast.FunctionDef]:
        """The method that an entry of a table stands for, with its overloads; empty for other members."""
        table = self._context.table
        return table(name, annotation, value, self._context) if self._scope.is_class and table is not None else []

    def _value(self, statement: ast.AnnAssign) -> ast.expr | None:
        """The value of an annotated variable in the stub: its type, or that a field has a default, depends on it."""
        if statement.value is None:
            return None
        kind = standard(self._context.names.origin(_named(statement.annotation)))
        if kind == "typing.TypeAlias":
            return statement.value
        if kind == "typing.Final":
            if isinstance(statement.value, (ast.Name, ast.Attribute)) and is_simple(statement.value, self._known):
                return statement.value  # its type is that of what it names
            plain = shown(statement.value)
            return plain if plain is not ELLIPSIS or self._scope.is_class else None
        return self._scope.field(statement)

    def _assigned(self, target: ast.expr, value: ast.expr) -> list[ast.stmt]:
        """The stubs of an assignment without annotation."""
        if isinstance(target, ast.Starred):
            target = target.value
        if isinstance(target, (ast.Tuple, ast.List)):
            parts: Sequence[ast.expr | None] = [None] * len(target.elts)
            is_plain = not any(isinstance(item, ast.Starred) for item in target.elts)
            if is_plain and isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
                parts = [None if isinstance(item, ast.Starred) else item for item in value.elts]
            return [
                stub
                for item, part in zip(target.elts, parts, strict=True)
                for stub in (
                    self._assigned(item, part)
                    if part is not None
                    else [_variable(name, None, self._context) for name in _names(item)]
                )
            ]
        if not isinstance(target, ast.Name):
            return []  # an attribute or an item of something
        name = target.id
        if method := self._tabled(name, None, value):
            return [*method]
        own = self._scope.variable(name, value, self._known)
        if own is not None:
            return [own]
        if name == "__hash__" and self._scope.is_class and isinstance(value, ast.Constant):
            return [_unhashable(target, self._context)]
        if name in _KEPT:
            return [ast.Assign([target], value)]
        if isinstance(value, ast.Lambda):
            return [_as_function(name, value)]
        is_named = isinstance(value, (ast.Name, ast.Attribute, ast.Subscript)) or _is_alias(value, self._context)
        found = None if is_named else self._context.inference.of(value)
        if found is not None:
            return [_variable(name, found, self._context)]
        return [ast.Assign([target], value) if is_simple(value, self._known) else _variable(name, None, self._context)]


def is_for_checkers(test: ast.expr, context: Context) -> bool:
    """Return whether type checkers evaluate a condition: a test of the Python version, or of the platform."""
    match test:
        case ast.Compare(left=left):
            subject = left.value if isinstance(left, ast.Subscript) else left
            return context.names.origin(subject) in ("sys.version_info", "sys.platform")
        case ast.Call(func=ast.Attribute(value=value, attr="startswith")):
            return context.names.origin(value) == "sys.platform"
        case ast.BoolOp(values=values):
            return all(is_for_checkers(value, context) for value in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return is_for_checkers(operand, context)
        case _:
            return False


# -- imports ----------------------------------------------------------------------------------------------------------


def _import(statement: ast.Import | ast.ImportFrom, context: Context) -> list[ast.stmt]:
    """The import, by absolute names: a stub stands in a folder of its own, where its siblings need not have any."""
    last = statement.end_lineno or statement.lineno
    if isinstance(statement, ast.Import):
        own = [ast.Import([ast.alias(alias.name, alias.asname)]) for alias in statement.names]
        return [context.keep_suppression(statement, stub, statement.lineno, last) for stub in own]
    if statement.module == "__future__":
        return []
    source = context.names.module.absolute(statement)
    level = len(source) - len(source.lstrip("."))
    stub = ast.ImportFrom(source[level:] or None, [ast.alias(a.name, a.asname) for a in statement.names], level)
    return [context.keep_suppression(statement, stub, statement.lineno, last)]


# -- variables --------------------------------------------------------------------------------------------------------


def _named(declared: ast.expr) -> ast.expr:
    """The name in an annotation, which may be a text, that says what kind of variable it is."""
    if isinstance(declared, ast.Constant) and isinstance(declared.value, str):
        try:
            declared = annotation(declared.value)
        except SyntaxError:
            return declared
    return declared.value if isinstance(declared, ast.Subscript) else declared


def _unhashable(target: ast.Name, context: Context) -> ast.AnnAssign:
    """Return the declaration that makes instances of a class unhashable."""
    stub = ast.AnnAssign(target, annotation(f"{context.need('typing.ClassVar')}[None]"), None, 1)
    context.comments[stub] = "# type: ignore[assignment]"
    return stub


_KEPT = ("__all__", "__slots__", "__match_args__")


def _is_alias(value: ast.expr, context: Context) -> bool:
    """Return whether checkers evaluate an expression themselves: a union, a type variable."""
    match value:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return all(
                isinstance(side, (ast.Name, ast.Attribute, ast.Subscript))
                or (isinstance(side, ast.Constant) and side.value is None)
                or _is_alias(side, context)
                for side in (left, right)
            )
        case ast.Call(func=func):
            return standard(context.names.origin(func)) in _SPECIAL_FORMS
        case _:
            return False


_SPECIAL_FORMS = {
    "typing.TypeVar", "typing.ParamSpec", "typing.TypeVarTuple", "typing.NewType", "typing.NamedTuple",
    "typing.TypedDict", "typing.TypeAliasType", "collections.namedtuple", "enum.Enum", "enum.IntEnum", "enum.StrEnum",
    "enum.Flag", "enum.IntFlag",
}  # fmt: skip


def _variable(name: str, kind: str | None, context: Context) -> ast.AnnAssign:
    """Return the declaration of a variable of an inferred type; ``None`` if that is not known."""
    stub = ast.AnnAssign(ast.Name(name, ast.Store()), annotation(kind or context.inference.unknown), None, 1)
    context.inferred[stub] = kind
    return stub


def _as_function(name: str, value: ast.Lambda) -> ast.FunctionDef:
    empty: list[ast.expr] = []
    return ast.FunctionDef(name=name, args=signature(value.args), body=[ast.Expr(ELLIPSIS)], decorator_list=empty)


def _names(target: ast.expr) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


# -- each name once ---------------------------------------------------------------------------------------------------


_SINGLE = (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def merged(stubs: Sequence[ast.stmt], context: Context) -> list[ast.stmt]:
    """The stubs without what is replaced later: the last definition of a name counts, assignments widen its type."""
    result: list[ast.stmt | None] = []
    positions: dict[str, list[int]] = {}
    for stub in stubs:
        names = list(dict.fromkeys(bound_by(stub)))
        single = names[0] if names and isinstance(stub, _SINGLE) else None
        before = [i for i in positions.get(single, []) if result[i] is not None] if single else []
        if single and before:
            old = result[before[-1]]
            if isinstance(stub, (ast.Assign, ast.AnnAssign)):
                if isinstance(old, (ast.Assign, ast.AnnAssign)):
                    result[before[-1]] = _united(single, old, stub, context)
                    continue
                if isinstance(old, (ast.Import, ast.ImportFrom)):
                    continue  # a fallback
            elif isinstance(stub, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if _is_part(stub, context):
                    positions[single].append(len(result))
                    result.append(stub)
                    continue
                if isinstance(old, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_overload(old, context):
                    continue  # the implementation
            for index in before:
                if not isinstance(result[index], (ast.Import, ast.ImportFrom)):
                    result[index] = None
        for name in names:
            if isinstance(stub, (ast.Import, ast.ImportFrom)):
                for index in positions.get(name, []):
                    if isinstance(result[index], (ast.Assign, ast.AnnAssign)):
                        result[index] = None
            positions.setdefault(name, []).append(len(result))
        result.append(stub)
    return [stub for stub in result if stub is not None]


def _united(name: str, old: ast.Assign | ast.AnnAssign, new: ast.Assign | ast.AnnAssign, context: Context) -> ast.stmt:
    """Return one statement for two assignments of a name: with both types, as far as none is declared."""
    if isinstance(old, ast.AnnAssign) and old not in context.inferred:
        return old  # declared
    if isinstance(new, ast.AnnAssign) and new not in context.inferred:
        return new
    if isinstance(old, ast.Assign) and isinstance(new, ast.Assign):
        if ast.dump(old.value) == ast.dump(new.value) or name in _KEPT:
            return new
        return _variable(name, None, context)
    both = union([context.inferred.get(old), context.inferred.get(new)])
    return _variable(name, both, context)


def _is_overload(function: ast.FunctionDef | ast.AsyncFunctionDef, context: Context) -> bool:
    return function in context.overloads or any(
        standard(context.names.origin(decorator)) == "typing.overload" for decorator in function.decorator_list
    )


def _is_part(function: ast.FunctionDef | ast.AsyncFunctionDef, context: Context) -> bool:
    """Return whether a function extends the previous one of its name: an overload, or a property setter."""
    return _is_overload(function, context) or any(
        isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == function.name
        for decorator in function.decorator_list
        for part in [decorator.func if isinstance(decorator, ast.Call) else decorator]
    )
