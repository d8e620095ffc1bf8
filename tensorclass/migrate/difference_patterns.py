"""Patterns of source code by which a line is found that behaves differently here."""

from __future__ import annotations

from abc import ABC, ABCMeta, abstractmethod
from functools import cache
from typing import ClassVar

import libcst as cst

from .collection_values import CollectionValues, Value
from .import_rewriting import dotted_name

__all__ = [
    "Block",
    "Caught",
    "Checked",
    "ClassFields",
    "Defined",
    "Function",
    "Membership",
    "Method",
    "Named",
    "Pattern",
]


class Pattern(ABC):
    """A description of a line of code."""

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]]  #: the types of nodes that it describes

    @abstractmethod
    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        """Return whether a node is what the pattern describes.

        Args:
            node: a node of one of the types ``nodes``.
            known: the names and the variables of the module up to the node.
        """


class Method(Pattern):
    """A call of a method of collections.

    Where tensors, modules or dicts have a method of that name, too, the text must tell that its owner is a collection.

    Args:
        names: of the methods.
        keywords: the call must have one of these arguments, if there are any.
        of: the owner must be known to be that.
    """

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.Call,)

    def __init__(self, *names: str, keywords: tuple[str, ...] = (), of: Value | None = None) -> None:
        self.names = names
        self.keywords = keywords
        self.of = of

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return False
        name = node.func.attr.value
        if name not in self.names or not _has_keyword(node, self.keywords):
            return False
        owner = known.value(node.func.value) or known.of_class(node.func.value)
        if self.of is not None:
            return owner is self.of
        foreign = known.names.qualified(node.func) and not known.names.public(node.func)
        return owner is not None or not (foreign or name in _names_of_others())


class Function(Pattern):
    """A call of a public function or class.

    Args:
        names: without modules; ``torch.`` in front for functions of torch on collections.
        keywords: the call must have one of these arguments, if there are any.
    """

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.Call,)

    def __init__(self, *names: str, keywords: tuple[str, ...] = ()) -> None:
        self.names = names
        self.keywords = keywords

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        if not isinstance(node, cst.Call) or not _has_keyword(node, self.keywords):
            return False
        if known.names.public(node.func) in self.names:
            return True
        values = [known.value(arg.value) for arg in node.args]
        return known.names.qualified(node.func) in self.names and any(values)


class _OfNames(Pattern, metaclass=ABCMeta):
    """A pattern for some names."""

    def __init__(self, *names: str) -> None:
        self.names = names


class Named(_OfNames):
    """A use of a public name, or of one of another package with its module."""

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.Name, cst.Attribute)

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        return known.names.public(node) in self.names or known.names.qualified(node) in self.names


class ClassFields(Pattern):
    """A field of a record class, by the type in its annotation.

    Args:
        numbers: fields of numbers of Python; otherwise fields of objects.
    """

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.AnnAssign,)

    def __init__(self, *, numbers: bool = False) -> None:
        self.numbers = numbers

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        field = known.record_field(node)
        return field is not None and (field.holds_numbers if self.numbers else field.holds_objects)


class Defined(Pattern):
    """A method that a record class defines."""

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.FunctionDef,)

    def __init__(self, name: str) -> None:
        self.name = name

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        return isinstance(node, cst.FunctionDef) and node.name.value == self.name and known.is_in_record()


class Block(Pattern):
    """A ``with`` statement on an operation of a collection, which writes back at its end."""

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.WithItem,)

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        if not isinstance(node, cst.WithItem) or not isinstance(node.item, cst.Call):
            return False
        made = node.item.func
        return isinstance(made, cst.Attribute) and made.attr.value in _UNDONE and known.value(made.value) is not None


class Checked(_OfNames):
    """A check with ``isinstance`` for one of some classes."""

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.Call,)

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        if not isinstance(node, cst.Call) or dotted_name(node.func) != "isinstance" or len(node.args) != 2:
            return False
        return any(dotted_name(one.value).rpartition(".")[2] in self.names for one in _elements(node.args[1].value))


class Membership(Pattern):
    """``in`` on the result of a method with some argument."""

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.ComparisonTarget,)

    def __init__(self, method: str, keyword: str) -> None:
        self.method = method
        self.keyword = keyword

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        if not isinstance(node, cst.ComparisonTarget) or not isinstance(node.operator, (cst.In, cst.NotIn)):
            return False
        right = node.comparator
        named = isinstance(right, cst.Call) and dotted_name(right.func).rpartition(".")[2] == self.method
        return named and _has_keyword(cst.ensure_type(right, cst.Call), (self.keyword,))


class Caught(_OfNames):
    """An error of some class that is caught or expected in a block that uses collections."""

    nodes: ClassVar[tuple[type[cst.CSTNode], ...]] = (cst.With, cst.Try)

    def matches(self, node: cst.CSTNode, known: CollectionValues) -> bool:
        if isinstance(node, cst.With):
            calls = [one.item for one in node.items if isinstance(one.item, cst.Call)]
            asked = [call.args[0].value for call in calls if dotted_name(call.func) == "pytest.raises" and call.args]
        elif isinstance(node, cst.Try):
            asked = [handler.type for handler in node.handlers if handler.type is not None]
        else:
            return False
        classes = [one.value for asking in asked for one in _elements(asking)]
        return any(dotted_name(one) in self.names for one in classes) and _uses_collections(node.body, known)


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
