"""Methods that come from a table: an entry of it is a call, ``abs = unary("abs")``, and becomes a ``def`` in the stub.

The result of the call is annotated as a protocol of descriptors. Its ``__get__`` has the signature of the method:
``Callable[[], C]``, or another protocol with a ``__call__``, which may have overloads. So a new entry, or a new sort of
entries, needs no line here.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Mapping

from .function_stub import signature
from .public_names import Names
from .stub_context import EMPTY, Context


def method_of(
    name: str, annotation: ast.expr | None, value: ast.expr | None, context: Context
) -> list[ast.FunctionDef]:
    """The method that a name in the body of a class is, with its overloads; empty if it is no entry of a table."""
    names = context.names
    if annotation is None:
        maker = names.definition(value.func) if isinstance(value, ast.Call) else None
        if maker is None or not isinstance(maker[0], ast.FunctionDef) or maker[0].returns is None:
            return []
        annotation, names = maker[0].returns, maker[1]
    descriptor = names.definition(annotation)
    get = next(iter(_methods(descriptor[0], "__get__")), None) if descriptor is not None else None
    if descriptor is None or get is None or get.returns is None or len(get.args.args) < 2:
        return []
    instance = get.args.args[1].annotation
    own = {instance.id: context.need("typing_extensions.Self")} if isinstance(instance, ast.Name) else {}
    return _bound(name, get.returns, descriptor[1], own, context)


def _bound(name: str, given: ast.expr, names: Names, own: Mapping[str, str], context: Context) -> list[ast.FunctionDef]:
    """The method whose bound form has the type ``given``."""
    arguments = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    match given:
        case ast.Subscript(value=value, slice=ast.Tuple(elts=[ast.List(elts=items), returns])) if (
            names.origin(value).rpartition(".")[2] == "Callable"
        ):
            rename = _Rename(names, own, context)
            arguments.posonlyargs = [ast.arg(f"arg{position}", rename.of(item)) for position, item in enumerate(items)]
            arguments.posonlyargs.insert(0, ast.arg("self"))
            if not items:
                arguments.args, arguments.posonlyargs = arguments.posonlyargs, []
            return [_function(name, arguments, rename.of(returns))]
        case ast.Subscript(value=value, slice=item):
            protocol = names.definition(value)
            calls = _methods(protocol[0], "__call__") if protocol is not None else []
            if protocol is None:
                return []
            argument = _Rename(names, own, context).of(item)
            parameters = _type_parameters(protocol[0])
            rename = _Rename(protocol[1], dict.fromkeys(parameters[:1], ast.unparse(argument)), context)
            return [_renamed(name, call, rename, context) for call in calls if call.returns is not None]
        case _:
            return []


def _renamed(name: str, call: ast.FunctionDef, rename: _Rename, context: Context) -> ast.FunctionDef:
    """A ``__call__`` as the method of this name."""
    arguments = copy.deepcopy(signature(call.args))
    for parameter in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        if parameter.annotation is not None:
            parameter.annotation = rename.of(parameter.annotation)
    method = _function(name, arguments, rename.of(call.returns or ast.Constant(None)))
    if call.decorator_list:
        method.decorator_list = [ast.Name(context.need("typing.overload"), ast.Load())]
        context.overloads.add(method)
    return method


def _methods(definition: ast.stmt, name: str) -> list[ast.FunctionDef]:
    """The definitions of a method: one, or its overloads."""
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    return [item for item in body if isinstance(item, ast.FunctionDef) and item.name == name]


def _type_parameters(definition: ast.stmt) -> list[str]:
    """The type variables of a protocol, in their order."""
    bases = definition.bases if isinstance(definition, ast.ClassDef) else []
    return [
        node.id
        for base in bases
        if isinstance(base, ast.Subscript)
        for node in ast.walk(base.slice)
        if isinstance(node, ast.Name)
    ]


def _function(name: str, arguments: ast.arguments, returns: ast.expr) -> ast.FunctionDef:
    empty: list[ast.expr] = []
    return ast.FunctionDef(name=name, args=arguments, body=[*EMPTY], decorator_list=empty, returns=returns)


class _Rename(ast.NodeTransformer):
    """An annotation of one module as it is written in another one."""

    def __init__(self, names: Names, own: Mapping[str, str], context: Context) -> None:
        self._names = names
        self._own = own
        self._context = context

    def of(self, annotation: ast.expr) -> ast.expr:
        result: ast.expr = self.visit(copy.deepcopy(annotation))
        return result

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self._own:
            return ast.Name(self._own[node.id], ast.Load())
        origin = self._names.origin(node)
        if self._names is not self._context.names and origin and not origin.startswith("builtins."):
            origin = f"{self._names.module.name}{origin}" if origin.startswith(".") else origin
            return ast.Name(self._context.need(origin), ast.Load())
        return node
