"""Rewrite what is spelled otherwise here: imports, methods, arguments, options of records."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from .counterparts import PEER
from .import_rewriting import ImportPlan, ImportRewriter
from .source_names import SourceNames

#: methods that are public here
METHODS = {"_get_sub_tensordict": "get_sub_tensordict"}

#: arguments by function: options of pandas, and those of pyarrow in their place
ARGUMENTS = {"from_csv": {"sep": "delimiter"}}


class Rewriter(ImportRewriter):
    """Rewrites imports, and what else is spelled otherwise.

    Record classes of the peer with fields of objects keep an object for each row: ``stack_objects=True``.

    Args:
        plan: the imports.
        names: the names of the module.

    Example:
        >>> from libcst.metadata import MetadataWrapper
        >>> wrapper = MetadataWrapper(cst.parse_module("import tensordict\\nrows = data._get_sub_tensordict(0)\\n"))
        >>> print(wrapper.module.visit(Rewriter(ImportPlan(wrapper), SourceNames(wrapper))).code, end="")
        import tensorclass
        rows = data.get_sub_tensordict(0)
    """

    def __init__(self, plan: ImportPlan, names: SourceNames) -> None:
        super().__init__(plan)
        self._names = names

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        node = super().leave_Attribute(original_node, updated_node)
        new = METHODS.get(node.attr.value) if isinstance(node, cst.Attribute) else None
        return node.with_changes(attr=cst.Name(new)) if new else node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        function = self._names.public(original_node.func).rpartition(".")[2]
        new = ARGUMENTS.get(function)
        return (
            updated_node.with_changes(args=[_renamed(arg, new) for arg in updated_node.args]) if new else updated_node
        )

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        if not any(field.holds_objects for field in self._names.fields(original_node)):
            return updated_node
        decorators = [
            self._decorator(old, new)
            for old, new in zip(original_node.decorators, updated_node.decorators, strict=True)
        ]
        if any(self._is_of_peer(base.value) for base in original_node.bases):
            return updated_node.with_changes(keywords=_with_option(updated_node.keywords))
        return updated_node.with_changes(decorators=decorators)

    def _decorator(self, old: cst.Decorator, new: cst.Decorator) -> cst.Decorator:
        if not self._is_of_peer(old.decorator):
            return new
        if isinstance(new.decorator, cst.Call):
            call = new.decorator.with_changes(args=_with_option(new.decorator.args))
        else:
            call = cst.Call(new.decorator, [OPTION])
        return new.with_changes(decorator=call)

    def _is_of_peer(self, node: cst.BaseExpression) -> bool:
        """Return whether a decorator or a base makes a class a record of the peer."""
        return self._names.package_of_record(node) == PEER


OPTION = cst.Arg(
    cst.Name("True"),
    keyword=cst.Name("stack_objects"),
    equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
)
"""The option of records that hold an object for each row."""


def _with_option(args: Sequence[cst.Arg]) -> list[cst.Arg]:
    return [*args, OPTION]


def _renamed(arg: cst.Arg, names: dict[str, str]) -> cst.Arg:
    new = names.get(arg.keyword.value) if arg.keyword else None
    return arg.with_changes(keyword=cst.Name(new)) if new else arg
