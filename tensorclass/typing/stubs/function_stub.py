"""Functions and methods in a stub: their signatures."""

from __future__ import annotations

import ast

from .inference import Function, Types, own_nodes, returned_by
from .stub_context import EMPTY, Context, annotation, shown, type_parameters


def function_stub(function: Function, context: Context, is_method: bool = False) -> Function:
    """The function without its body; a result without annotation gets one where the text shows its type."""
    returns = function.returns
    if returns is None:
        types, known = parameter_types(function, context, is_method)
        found = returned_by(function, context.inference, types, known)
        if found is None and is_method and _returns_new(function):
            found = context.need("typing_extensions.Self")
        returns = annotation(found) if found else None
    # an asynchronous generator returns its iterator at once; in a stub nothing but ``def`` says so
    yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(function))
    stub = (ast.FunctionDef if yields else type(function))(
        name=function.name,
        args=signature(function.args),
        body=[*EMPTY],
        decorator_list=[one for one in function.decorator_list if not _keeps_the_type(one, context)],
        returns=returns,
        **type_parameters(function),
    )
    return context.keep_suppression(function, stub, function.lineno, max(function.lineno, function.body[0].lineno - 1))


def _keeps_the_type(decorator: ast.expr, context: Context) -> bool:
    """Return whether a decorator is known to return a function of the same type."""
    return isinstance(decorator, ast.Call) and context.names.origin(decorator.func) == "tensorclass.td.native.tries"


def _returns_new(function: Function) -> bool:
    """Return whether a function is a ``__new__`` that returns the result of its base's ``__new__``."""
    if function.name != "__new__":
        return False
    own = own_nodes(function)
    values = [node.value for node in own if isinstance(node, ast.Return)]
    made = {
        target.id: node.value
        for node in own
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    calls = [made.get(value.id) if isinstance(value, ast.Name) else value for value in values]
    return bool(calls) and all(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "__new__"
        for call in calls
    )


def signature(arguments: ast.arguments) -> ast.arguments:
    """The parameters, with defaults as the stub shows them."""
    return ast.arguments(
        posonlyargs=arguments.posonlyargs,
        args=arguments.args,
        vararg=arguments.vararg,
        kwonlyargs=arguments.kwonlyargs,
        kw_defaults=[None if default is None else shown(default) for default in arguments.kw_defaults],
        kwarg=arguments.kwarg,
        defaults=[shown(default) for default in arguments.defaults],
    )


#: methods that are given the class without saying so
_OF_CLASS = ("__new__", "__init_subclass__", "__class_getitem__")


def parameter_types(function: Function, context: Context, is_method: bool) -> tuple[Types, Types]:
    """The types of the parameters, and what calls of the class in a method give."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    types = {
        parameter.arg: ast.unparse(parameter.annotation)
        for parameter in [*positional, *arguments.kwonlyargs]
        if parameter.annotation is not None
    }
    if arguments.vararg and arguments.vararg.annotation:
        types[arguments.vararg.arg] = f"tuple[{ast.unparse(arguments.vararg.annotation)}, ...]"
    if arguments.kwarg and arguments.kwarg.annotation:
        types[arguments.kwarg.arg] = f"dict[str, {ast.unparse(arguments.kwarg.annotation)}]"
    kinds = {context.names.origin(decorator) for decorator in function.decorator_list}
    known: dict[str, str] = {}
    if is_method and positional and "builtins.staticmethod" not in kinds and positional[0].annotation is None:
        first, own = positional[0].arg, context.need("typing_extensions.Self")
        if "builtins.classmethod" in kinds or function.name in _OF_CLASS:
            known[first] = own
            types[first] = f"type[{own}]"
        else:
            types[first] = own
            known[f"type({first})"] = known[f"{first}.__class__"] = own
    return types, known
