"""A plugin for mypy: ``@tensorclass``, and ``torch.stack`` and its kin on records.

    [tool.mypy]
    plugins = ["tensorclass.typing.mypy_plugin"]

A decorated class is turned into the same class derived from ``TensorClass``, with the decorator's options as class
keywords, before mypy looks into its body. From there on mypy does what it does for that class: the two forms cannot
differ. A function of torch on a record is typed as the method that answers it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence

import torch
from mypy.mro import MroError, calculate_mro
from mypy.nodes import (
    ARG_POS,
    ARG_STAR,
    ARG_STAR2,
    GDEF,
    ArgKind,
    CallExpr,
    Expression,
    ListExpr,
    MemberExpr,
    NameExpr,
    StarExpr,
    TempNode,
    TupleExpr,
    TypeInfo,
    get_member_expr_fullname,
)
from mypy.plugin import CheckerPluginInterface, ClassDefContext, FunctionSigContext, MethodSigContext, Plugin
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    TupleType,
    Type,
    TypeOfAny,
    TypeVarType,
    UnionType,
    get_proper_type,
)

import tensorclass
from tensorclass.td.operations import OPERATIONS, Operation
from tensorclass.td.torch_functions import HANDLERS


def plugin(version: str) -> type[Plugin]:
    """The entry point that mypy calls."""
    return TensorClassPlugin


# -- decorated classes ------------------------------------------------------------------------------------------------

#: the decorator, as code and as stubs can name it
_DECORATORS = ("tensorclass.records.decorator.tensorclass", "tensorclass.tensorclass")
_RECORD = "tensorclass.TensorClass"


def derive(ctx: ClassDefContext) -> None:
    """Derives a decorated class from ``TensorClass``, with the options of the decorator as its class keywords."""
    info = ctx.cls.info
    base = ctx.api.lookup_fully_qualified_or_none(_RECORD)
    for decorator in ctx.cls.decorators:
        called = decorator.callee if isinstance(decorator, CallExpr) else decorator
        name = called.name if isinstance(called, NameExpr) else None
        if isinstance(called, MemberExpr):
            name = get_member_expr_fullname(called)
        symbol = ctx.api.lookup_qualified(name, decorator, suppress_errors=True) if name else None
        if not symbol or symbol.fullname not in _DECORATORS or not base or not isinstance(base.node, TypeInfo):
            continue
        if isinstance(decorator, CallExpr):
            options = zip(decorator.arg_names, decorator.args, strict=True)
            ctx.cls.keywords.update((option, value) for option, value in options if option)
        if any(base.node in parent.type.mro for parent in info.bases):
            continue  # a record already
        bases = [parent for parent in info.bases if parent.type.fullname != "builtins.object"]
        info.bases = [*bases, Instance(base.node, [])]
        info.mro = []  # mypy would keep the one that it has
        try:
            calculate_mro(info)
        except MroError:
            ctx.api.fail(f'Cannot determine consistent method resolution order (MRO) for "{info.name}"', info)
            info.mro, info.bad_mro = [info, ctx.api.named_type("builtins.object").type], True


# -- functions of torch -----------------------------------------------------------------------------------------------

#: names of functions of torch -> the rows of their methods
_ROWS: dict[str, Operation] = {name: row for row in OPERATIONS for name in (row.name, *row.aliases)}
#: functions of torch -> the function of the package, or the method of a collection, that answers them
FUNCTIONS: dict[str, str] = {
    f"{module.__name__}.{name}": _ROWS[name].name if name in _ROWS else name
    for module in (torch, torch.nn.functional)
    for name, function in vars(module).items()
    if not name.startswith("_") and callable(function) and function in HANDLERS
}
#: where mypy finds what is in the module ``torch``
_ORIGINS = re.compile(r"^torch\.(_C\._VariableFunctions|functional)\.")
#: functions that take a sequence of collections, or other things first; the package has them
_PACKAGE = {"stack": "stack", "cat": "cat", "concat": "cat", "concatenate": "cat", "where": "where"}
#: functions with options that their methods lack: a call is valid if either signature accepts it
_LENIENT = ("div", "max", "min", "norm", "reshape", "round", "softmax", "std", "var")

#: arguments that functions of torch call otherwise than the methods
KEYWORDS: dict[str, Mapping[str, str]] = {row.name: row.keywords for row in OPERATIONS if row.keywords}
#: methods of a tensor that can take a collection -> those of the collection
REFLECTED: dict[str, str] = {name: row.reflected for name, row in _ROWS.items() if row.reflected}
#: the same with operators: but these two ask the collection themselves
_METHODS = {**REFLECTED, "__eq__": "__eq__", "__ne__": "__ne__"}
_TENSORS = ("torch._C.TensorBase", "torch._tensor.Tensor")

#: mypy notes it in its cache, and does not read what another version wrote, or one with other tables
__version__: str = (
    f"{tensorclass.__version__}+{hashlib.sha256(repr((FUNCTIONS, KEYWORDS, REFLECTED)).encode()).hexdigest()}"
)


class TensorClassPlugin(Plugin):
    """The hooks."""

    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        # The one hook before the body of a class. It is asked for all classes; those of other plugins are not ours.
        symbol = self.lookup_fully_qualified(fullname)
        return derive if symbol and isinstance(symbol.node, TypeInfo) and symbol.node.defn.decorators else None

    def get_class_decorator_hook_2(self, fullname: str) -> Callable[[ClassDefContext], bool] | None:
        # the base does it all; without this, mypy would take the decorator for one that makes a plain dataclass
        return (lambda ctx: True) if fullname in _DECORATORS else None

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], CallableType] | None:
        name = FUNCTIONS.get(_ORIGINS.sub("torch.", fullname))
        return None if name is None else lambda ctx: self._of_function(name, ctx)

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], CallableType] | None:
        owner, _, name = fullname.rpartition(".")
        return (lambda ctx: self._of_method(_METHODS[name], ctx)) if owner in _TENSORS and name in _METHODS else None

    def _of_function(self, name: str, ctx: FunctionSigContext) -> CallableType:
        """The signature of a function of torch: its own, or that of what answers it for a collection."""
        call = ctx.context
        if not isinstance(call, CallExpr) or any(kind.is_star() for kind in call.arg_kinds):
            return ctx.default_signature
        arguments = list(zip(call.args, call.arg_kinds, call.arg_names, strict=True))
        if name in _PACKAGE:
            symbol = self.lookup_fully_qualified(f"tensorclass.{_PACKAGE[name]}")
            held = [type for value in call.args[:3] for type in _types_in(value, ctx.api)]
            if symbol is None or not any(map(self._is_collection, held)):
                return ctx.default_signature
            function = NameExpr(_PACKAGE[name])
            function.kind, function.node, function.fullname = GDEF, symbol.node, symbol.fullname or ""
            return _answer(ctx, function, arguments)
        types = [ctx.api.get_expression_type(value) for value in call.args[:3]]
        at = next((position for position, type in enumerate(types) if self._is_collection(type)), None)
        if at is None:
            return ctx.default_signature
        record, _, keyword = arguments.pop(at)
        if keyword == "input" or (at == 0 and keyword is None):
            if not self._has_method(name):
                return _with_result(ctx, types[at])
            if name in ("max", "min") and any(map(self._is_operand, types[:at] + types[at + 1 :])):
                name += "imum"
            renamed = KEYWORDS.get(name.rstrip("_"), {})
            others = [(value, kind, renamed.get(key or "", key)) for value, kind, key in arguments if key != "out"]
            lenient = name in _LENIENT and self._is_right_for_tensors(call, types, ctx)
            return _answer(ctx, MemberExpr(record, name), others, lenient)
        if name in REFLECTED:
            other = [(value, ARG_POS, None) for value, *_ in arguments[:1]]
            return _answer(ctx, MemberExpr(record, REFLECTED[name]), other)
        return ctx.default_signature

    def _is_right_for_tensors(self, call: CallExpr, types: Sequence[Type], ctx: FunctionSigContext) -> bool:
        """Return whether a call would be valid with tensors in place of the collections."""
        tensor = self.lookup_fully_qualified("torch.Tensor")
        if tensor is None or not isinstance(tensor.node, TypeInfo):
            return False
        values = list(call.args)
        for position, type in enumerate(types):
            if self._is_collection(type):
                values[position] = TempNode(Instance(tensor.node, []), context=call)
        same = CallExpr(call.callee, values, call.arg_kinds, call.arg_names)
        same.set_line(call)
        with ctx.api.msg.filter_errors() as watcher:
            ctx.api.get_expression_type(same)
        return not watcher.has_new_errors()

    def _of_method(self, name: str, ctx: MethodSigContext) -> CallableType:
        """The signature of a method of a tensor: its own, or that of the collection's reflected one."""
        other = next((value for values in ctx.args for value in values), None)
        if other is None or not self._is_collection(ctx.api.get_expression_type(other)):
            return ctx.default_signature
        tensor = TempNode(ctx.type, context=ctx.context)
        return _answer(ctx, MemberExpr(other, name), [(tensor, ARG_POS, None)])

    def _is_collection(self, type: Type, base: str = "tensorclass.TensorCollection") -> bool:
        proper = get_proper_type(type)
        if isinstance(proper, TypeVarType):
            return self._is_collection(proper.upper_bound, base)
        if isinstance(proper, UnionType):
            return any(self._is_collection(item, base) for item in proper.items)
        symbol = self.lookup_fully_qualified(base)
        return symbol is not None and isinstance(proper, Instance) and symbol.node in proper.type.mro

    def _is_operand(self, type: Type) -> bool:
        return self._is_collection(type) or self._is_collection(type, "torch.Tensor")

    def _has_method(self, name: str) -> bool:
        symbol = self.lookup_fully_qualified("tensorclass.TensorCollection")
        return symbol is not None and isinstance(symbol.node, TypeInfo) and symbol.node.has_readable_member(name)


def _types_in(value: Expression, api: CheckerPluginInterface) -> list[Type]:
    """The type of an argument, and of what is in it if it is a sequence."""
    if isinstance(value, (ListExpr, TupleExpr)):  # one by one: the join of their types may be too general
        return [api.get_expression_type(item) for item in value.items if not isinstance(item, StarExpr)]
    type = get_proper_type(api.get_expression_type(value))
    return [type, *(type.items if isinstance(type, TupleType) else type.args if isinstance(type, Instance) else ())]


def _answer(
    ctx: FunctionSigContext | MethodSigContext,
    callee: NameExpr | MemberExpr,
    arguments: Sequence[tuple[Expression, ArgKind, str | None]],
    lenient: bool = False,
) -> CallableType:
    """A signature that takes everything, with the result of another call, whose errors are those of this one."""
    values, kinds, names = [list(column) for column in zip(*arguments, strict=True)] or ([], [], [])
    call = CallExpr(callee, values, kinds, names)
    for node in (callee, call):
        node.set_line(ctx.context)
    with ctx.api.msg.filter_errors(filter_errors=lenient):
        return _with_result(ctx, ctx.api.get_expression_type(call))


def _with_result(ctx: FunctionSigContext | MethodSigContext, result: Type) -> CallableType:
    anything, original = AnyType(TypeOfAny.special_form), ctx.default_signature
    kinds, names = [ARG_STAR, ARG_STAR2], [None, None]
    return CallableType([anything, anything], kinds, names, result, original.fallback, original.name)
