"""Patterns of source code by which a line is found that behaves differently here."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import libcst as cst

from .collection_values import CollectionValues, Value
from .import_rewriting import dotted_name


class Pattern(NamedTuple):
    """A description of a line of code."""

    #: the types of nodes that it describes
    nodes: tuple[type[cst.CSTNode], ...]
    #: returns whether a node of these types is meant, given the names and the variables of the module up to the node
    matches: Callable[[Any, CollectionValues], bool]


def method(*names: str, keywords: tuple[str, ...] = (), of: Value | None = None) -> Pattern:
    """A call of a method of collections.

    Where tensors, modules or dicts have a method of that name, too, the text must tell that its owner is a collection.

    Args:
        names: of the methods.
        keywords: the call must have one of these arguments, if there are any.
        of: the owner must be known to be that.
    """

    def matches(node: cst.Call, known: CollectionValues) -> bool:
        if not isinstance(node.func, cst.Attribute):
            return False
        name = node.func.attr.value
        if name not in names or not _has_keyword(node, keywords):
            return False
        owner = known.value(node.func.value) or known.of_class(node.func.value)
        if of is not None:
            return owner is of
        foreign = known.names.qualified(node.func) and not known.names.public(node.func)
        return owner is not None or not (foreign or name in _names_of_others())

    return Pattern((cst.Call,), matches)


def function(*names: str, keywords: tuple[str, ...] = ()) -> Pattern:
    """A call of a public function or class.

    Args:
        names: without modules; ``torch.`` in front for functions of torch on collections.
        keywords: the call must have one of these arguments, if there are any.
    """

    def matches(node: cst.Call, known: CollectionValues) -> bool:
        if not _has_keyword(node, keywords):
            return False
        if known.names.public(node.func) in names:
            return True
        values = [known.value(arg.value) for arg in node.args]
        return known.names.qualified(node.func) in names and any(values)

    return Pattern((cst.Call,), matches)


def named(*names: str) -> Pattern:
    """A use of a public name, or of one of another package with its module."""

    def matches(node: cst.Name | cst.Attribute, known: CollectionValues) -> bool:
        return known.names.public(node) in names or known.names.qualified(node) in names

    return Pattern((cst.Name, cst.Attribute), matches)


def class_fields(*, numbers: bool = False) -> Pattern:
    """A field of a record class, by the type in its annotation.

    Args:
        numbers: fields of numbers of Python; otherwise fields of objects.
    """

    def matches(node: cst.AnnAssign, known: CollectionValues) -> bool:
        field = known.record_field(node)
        return field is not None and (field.holds_numbers if numbers else field.holds_objects)

    return Pattern((cst.AnnAssign,), matches)


def defined(name: str) -> Pattern:
    """A method that a record class defines."""

    def matches(node: cst.FunctionDef, known: CollectionValues) -> bool:
        return node.name.value == name and known.is_in_record()

    return Pattern((cst.FunctionDef,), matches)


def block() -> Pattern:
    """A ``with`` statement on an operation of a collection, which writes back at its end."""

    def matches(node: cst.WithItem, known: CollectionValues) -> bool:
        made = node.item.func if isinstance(node.item, cst.Call) else None
        return isinstance(made, cst.Attribute) and made.attr.value in _UNDONE and known.value(made.value) is not None

    return Pattern((cst.WithItem,), matches)


def checked(*names: str) -> Pattern:
    """A check with ``isinstance`` for one of some classes."""

    def matches(node: cst.Call, known: CollectionValues) -> bool:
        if dotted_name(node.func) != "isinstance" or len(node.args) != 2:
            return False
        return any(dotted_name(one.value).rpartition(".")[2] in names for one in _elements(node.args[1].value))

    return Pattern((cst.Call,), matches)


def membership(method: str, keyword: str) -> Pattern:
    """``in`` on the result of a method with some argument."""

    def matches(node: cst.ComparisonTarget, known: CollectionValues) -> bool:
        right = node.comparator
        if not isinstance(node.operator, (cst.In, cst.NotIn)) or not isinstance(right, cst.Call):
            return False
        return dotted_name(right.func).rpartition(".")[2] == method and _has_keyword(right, (keyword,))

    return Pattern((cst.ComparisonTarget,), matches)


def caught(*names: str) -> Pattern:
    """An error of some class that is caught or expected in a block that uses collections."""

    def matches(node: cst.With | cst.Try, known: CollectionValues) -> bool:
        if isinstance(node, cst.With):
            calls = [one.item for one in node.items if isinstance(one.item, cst.Call)]
            asked = [call.args[0].value for call in calls if dotted_name(call.func) == "pytest.raises" and call.args]
        else:
            asked = [handler.type for handler in node.handlers if handler.type is not None]
        classes = [one.value for asking in asked for one in _elements(asking)]
        return any(dotted_name(one) in names for one in classes) and _uses_collections(node.body, known)

    return Pattern((cst.With, cst.Try), matches)


_UNDONE = frozenset(
    ("flatten", "flatten_keys", "permute", "reshape", "squeeze", "to", "transpose", "unflatten", "unsqueeze", "view")
)
"""Operations that can be undone at the end of a block."""


@cache
def _names_of_others() -> frozenset[str]:
    """Return the methods that tensors, modules, and containers of Python have."""
    from torch import Tensor, nn  # the package imports it in any case

    return frozenset(name for one in (Tensor, nn.Module, nn.ModuleDict, dict, list, str) for name in dir(one)) | _USUAL


_USUAL = frozenset(("load", "save", "map", "stack", "cat", "send", "recv", "broadcast", "pack", "dumps", "numpy"))
"""Names of methods and functions that many packages have."""


def _has_keyword(node: cst.Call, names: tuple[str, ...]) -> bool:
    return not names or any(arg.keyword is not None and arg.keyword.value in names for arg in node.args)


def _elements(node: cst.BaseExpression) -> list[cst.BaseElement]:
    """Return the elements of a tuple; of another expression, itself."""
    return list(node.elements) if isinstance(node, cst.Tuple) else [cst.Element(node)]


def _uses_collections(body: cst.BaseSuite, known: CollectionValues) -> bool:
    search = _Uses(known)
    body.visit(search)
    return search.found


class _Uses(cst.CSTVisitor):
    """Looks for an expression that is a collection."""

    def __init__(self, known: CollectionValues) -> None:
        self.known = known
        self.found = False

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BaseExpression) and self.known.value(node) is not None:
            self.found = True
        return not self.found
