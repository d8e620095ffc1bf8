"""Classes in a stub. A decorated one becomes a class that derives from ``TensorClass``, as it does at run time."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from enum import Enum
from typing import TypeAlias

from tensorclass.records.field_names import MEMBER_NAMES

from .function_stub import parameter_types
from .inference import SAME, Function, own_nodes, union
from .public_names import RECORDS, Names, bound, is_constant, standard
from .statements import Scope, stubs_of
from .stub_context import ELLIPSIS, EMPTY, Context, annotation, is_simple, shown, type_parameters


class ClassStyle(Enum):
    """The way a class treats annotated variables in its body. Of several ways, the first counts."""

    #: a metaclass: the first argument of its methods is not a ``Self``
    META = "meta"
    RECORD = "record"
    ENUM = "enum"
    DATACLASS = "dataclass"
    #: declares members for other classes: NamedTuple, TypedDict, Protocol
    DECLARED = "declared"
    #: has an unknown base or decorator, which may make fields of annotated variables
    OTHER = "other"
    PLAIN = "plain"


_BASES = {
    **{f"enum.{name}": ClassStyle.ENUM for name in ("Enum", "IntEnum", "StrEnum", "Flag", "IntFlag", "ReprEnum")},
    **dict.fromkeys(("typing.NamedTuple", "typing.TypedDict", "typing.Protocol"), ClassStyle.DECLARED),
    **dict.fromkeys(("typing.Generic", "abc.ABC"), ClassStyle.PLAIN),
    **dict.fromkeys(("builtins.type", "abc.ABCMeta", "enum.EnumMeta", "enum.EnumType"), ClassStyle.META),
    **dict.fromkeys(RECORDS, ClassStyle.RECORD),
}
_FIELDS = ("dataclasses.field", "dataclasses.Field")
_FROZEN = "# type: ignore[misc]  # ty: ignore[invalid-frozen-dataclass-subclass]"
_MATTERS = ("default", "init", "kw_only", "alias")  # of what a field is given, to a checker


def class_stub(definition: ast.ClassDef, context: Context) -> ast.ClassDef:
    """The class in the stub, with what is in it."""
    names = context.names
    kind = kind_of(definition, names)
    bases, keywords, options = list(definition.bases), list(definition.keywords), record_options(definition, names)
    decorators = [one for one in definition.decorator_list if not names.is_record_decorator(one)]
    if options is not None:
        bases, keywords = _as_record(definition, options, context)
    bases, more = _without_subscripts(bases, names)
    body = stubs_of(definition.body, context, InClass(kind, context))
    body = _attributes(definition, kind, body, context) + body
    comment = ""
    if kind is ClassStyle.RECORD:
        for statement in body:
            if isinstance(statement, ast.AnnAssign) and getattr(statement.target, "id", "") in MEMBER_NAMES:
                context.comments.setdefault(statement, "# type: ignore")  # it hides a member of records on purpose
        below = [is_frozen(base, other) for base, other in names.bases(definition) if kind_of(base, other) is kind]
        if is_frozen(definition, names):
            if not any(one.arg == "frozen" for one in [*keywords, *more]):
                more.append(ast.keyword("frozen", ast.Constant(True)))  # inherited, which checkers want to see
            if not all(below):
                comment = _FROZEN  # they know it of dataclasses, where it is an error
    stub = ast.ClassDef(
        name=definition.name,
        bases=bases,
        keywords=[*keywords, *more],
        body=body or [*EMPTY],
        decorator_list=decorators,
        **type_parameters(definition),
    )
    last = max(definition.lineno, definition.body[0].lineno - 1)
    context.keep_suppression(definition, stub, definition.lineno, last)
    if comment:
        context.comments.setdefault(stub, comment)
    return stub


# -- what a class is --------------------------------------------------------------------------------------------------


def record_options(definition: ast.ClassDef, names: Names) -> list[ast.keyword] | None:
    """Return the options of a decorated class; ``None`` for other classes."""
    given = (names.record_options(decorator) for decorator in definition.decorator_list)
    return next((options for options in given if options is not None), None)


def kind_of(definition: ast.ClassDef, names: Names, depth: int = 20) -> ClassStyle:
    """Return the style of a class, from its decorators and bases."""
    kinds: list[ClassStyle] = []
    for decorator in definition.decorator_list:
        if names.is_record_decorator(decorator):
            return ClassStyle.RECORD
        origin = names.origin(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if origin == "dataclasses.dataclass":
            kinds.append(ClassStyle.DATACLASS)
        elif origin.rpartition(".")[2] not in SAME:
            kinds.append(ClassStyle.OTHER)
    for base in definition.bases:
        expression = base.value if isinstance(base, ast.Subscript) else base
        origin, _ = names.followed(expression)
        known = names.definition(expression)
        if known is not None and isinstance(known[0], ast.ClassDef) and known[0] is not definition and depth:
            kinds.append(kind_of(known[0], known[1], depth - 1))
        else:
            other = ClassStyle.PLAIN if origin.startswith(("builtins.", "collections.")) else ClassStyle.OTHER
            kinds.append(_BASES.get(standard(origin), other))
    return min(kinds, key=list(ClassStyle).index, default=ClassStyle.PLAIN)


def is_frozen(definition: ast.ClassDef, names: Names, depth: int = 20) -> bool:
    """Return whether a record is frozen, by an option of its own or of a base."""
    _, subscripts = _without_subscripts(list(definition.bases), names)
    options = [*(record_options(definition, names) or ()), *definition.keywords, *subscripts]
    if any(option.arg == "frozen" and is_constant(option.value, True) for option in options):
        return True
    return depth > 0 and any(is_frozen(base, other, depth - 1) for base, other in names.bases(definition))


def _as_record(
    definition: ast.ClassDef, options: Sequence[ast.keyword], context: Context
) -> tuple[list[ast.expr], list[ast.keyword]]:
    """Return the bases and keywords of a decorated class, in the order that the decorator gives them."""
    names = context.names
    origins = {base: names.origin(base.value if isinstance(base, ast.Subscript) else base) for base in definition.bases}
    generic = [base for base in origins if standard(origins[base]) == "typing.Generic"]
    bases = [base for base in origins if base not in generic and origins[base] != "builtins.object"]
    is_one = any(origin in RECORDS for origin in origins.values()) or any(
        kind_of(base, other) is ClassStyle.RECORD for base, other in names.bases(definition)
    )
    if not is_one:
        bases.append(ast.Name(context.need("tensorclass.TensorClass"), ast.Load()))
    # others matter only when a class is made: a function that says which casts are done
    plain = [option for option in options if option.arg and shown(option.value) is option.value]
    return [*bases, *generic], [*definition.keywords, *plain]


def _without_subscripts(bases: list[ast.expr], names: Names) -> tuple[list[ast.expr], list[ast.keyword]]:
    """``TensorClass["frozen"]`` as ``TensorClass`` and ``frozen=True``: the same, in a form that checkers know."""
    keywords: list[ast.keyword] = []
    for position, base in enumerate(bases):
        if isinstance(base, ast.Subscript) and names.origin(base.value) in RECORDS:
            items = base.slice.elts if isinstance(base.slice, ast.Tuple) else [base.slice]
            given = [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            if len(given) == len(items):
                bases[position] = base.value
                keywords += [ast.keyword(option, ast.Constant(True)) for option in given]
    return bases, keywords


# -- variables in its body --------------------------------------------------------------------------------------------


class InClass(Scope):
    """The body of a class, as a place for variables."""

    is_class: bool = True

    def __init__(self, kind: ClassStyle, context: Context) -> None:
        super().__init__(class_stub)
        self._kind = kind
        self._context = context
        self.has_self: bool = kind is not ClassStyle.META

    def variable(self, name: str, value: ast.expr, known: set[str]) -> ast.stmt | None:
        target = ast.Name(name, ast.Store())
        if self._kind is ClassStyle.ENUM:
            simple = is_simple(value, known) and not isinstance(value, ast.BinOp)  # A | B would be a type
            return ast.Assign([target], value if simple else ELLIPSIS)
        is_literal = shown(value) is value and not (isinstance(value, ast.Constant) and value.value is ...)
        if self._kind in (ClassStyle.DATACLASS, ClassStyle.OTHER, ClassStyle.DECLARED) and is_literal:
            return ast.Assign([target], value)  # with an annotation it would be a field
        if self._kind is ClassStyle.RECORD and name not in ("__slots__", "__match_args__"):
            found = self._context.inference.of(value)
            if found is not None and not isinstance(value, ast.Lambda):
                return ast.AnnAssign(target, annotation(f"{self._context.need('typing.ClassVar')}[{found}]"), None, 1)
        return None

    def field(self, statement: ast.AnnAssign) -> ast.expr | None:
        value = statement.value
        if not isinstance(value, ast.Call):
            return shown(value) if value is not None else None
        if self._context.names.origin(value.func) in _FIELDS:
            return self._field(value)
        makes_fields = self._kind is ClassStyle.OTHER  # by a function that only its checker knows
        return value if makes_fields and is_simple(value, self._context.names.bound | _BUILTIN) else ELLIPSIS

    def _field(self, call: ast.Call) -> ast.expr | None:
        """A call of ``field``, as far as it says what the constructor takes."""
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        kept = [ast.keyword(name, given[name]) for name in _MATTERS if name in given and name != "default"]
        has_default = "default" in given or "default_factory" in given
        if not kept:
            return ELLIPSIS if has_default else None
        if has_default and not any(one.arg == "init" and is_constant(one.value, False) for one in kept):
            default = shown(given["default"]) if "default" in given else ELLIPSIS
            if default is ELLIPSIS:  # whose type would have to be that of the field
                default = annotation(f"{self._context.need('typing.cast')}({self._context.need('typing.Any')}, ...)")
            kept.insert(0, ast.keyword("default", default))
        return ast.Call(call.func, [], kept)


_BUILTIN = {"list", "dict", "set", "tuple", "int", "str", "float", "bool", "None"}


# -- attributes that methods assign -----------------------------------------------------------------------------------

Found: TypeAlias = dict[str, list["str | None"]]


def _attributes(
    definition: ast.ClassDef, kind: ClassStyle, body: Sequence[ast.stmt], context: Context
) -> list[ast.stmt]:
    """Declarations of what methods assign to ``self`` and the body of the class does not have."""
    if kind is ClassStyle.RECORD:
        return []  # which has its fields, and no other attributes
    declared: dict[str, str] = {}
    assigned: Found = {}
    methods = [item for item in definition.body if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for method in sorted(methods, key=lambda method: method.name != "__init__"):
        kinds = [context.names.origin(decorator) for decorator in method.decorator_list]
        if method.args.args and not {"builtins.staticmethod", "builtins.classmethod"} & set(kinds):
            for me in _instances(method):
                _assigned_in(method, me, declared, assigned, context, kind)
    known = {*bound(body), *_inherited(definition, context.names)}
    found: list[ast.stmt] = []
    for name in {**declared, **assigned}:
        if name in known or name.startswith("__"):
            continue
        text = declared.get(name) or union(assigned[name]) or context.inference.unknown
        value = None
        if kind is ClassStyle.DATACLASS:  # no argument of its constructor
            value = annotation(f"{context.need('dataclasses.field')}(init=False)")
        found.append(ast.AnnAssign(ast.Name(name, ast.Store()), annotation(text), value, 1))
    return found


def _instances(method: Function) -> set[str]:
    """The names of the instance in a method: ``self``, and in ``__new__`` what it returns."""
    if method.name != "__new__":
        return {method.args.args[0].arg}
    values = [node.value for node in own_nodes(method) if isinstance(node, ast.Return)]
    return {value.id for value in values if isinstance(value, ast.Name)}


def _assigned_in(
    method: Function, me: str, declared: dict[str, str], assigned: Found, context: Context, kind: ClassStyle
) -> None:
    types, known = parameter_types(method, context, kind is not ClassStyle.META)
    types = {name: text for name, text in types.items() if name not in bound(method.body)}
    for node in own_nodes(method):
        if isinstance(node, ast.AnnAssign) and (name := _own(node.target, me)):
            declared.setdefault(name, ast.unparse(node.annotation))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in _pairs(target, node.value, me):
                    found = None if value is None else context.inference.of(value, types, known)
                    assigned.setdefault(name, []).append(found)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.withitem)):
            bound_to = node.optional_vars if isinstance(node, ast.withitem) else node.target
            for name, _ in _pairs(bound_to, None, me) if bound_to is not None else ():
                assigned.setdefault(name, []).append(None)


def _pairs(target: ast.expr, value: ast.expr | None, me: str) -> list[tuple[str, ast.expr | None]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        values = value.elts if same and isinstance(value, (ast.Tuple, ast.List)) else [None] * len(target.elts)
        return [pair for item, part in zip(target.elts, values, strict=True) for pair in _pairs(item, part, me)]
    if isinstance(target, ast.Starred):
        return _pairs(target.value, None, me)
    name = _own(target, me)
    return [(name, value)] if name else []


def _own(target: ast.expr, me: str) -> str:
    """The name of an attribute of ``self``."""
    is_own = isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == me
    return target.attr if is_own and isinstance(target, ast.Attribute) else ""


def _inherited(definition: ast.ClassDef, names: Names, depth: int = 20) -> set[str]:
    """Return the names that the bases bind or assign, as far as their source is available."""
    found: set[str] = set()
    for base, other in names.bases(definition) if depth else ():
        found |= other.set_by(base)
        found |= _inherited(base, other, depth - 1)
    return found
