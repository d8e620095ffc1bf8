"""Names of a source file: public names of either package, records, fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, cast

import libcst as cst
from libcst.metadata import MetadataWrapper, QualifiedName, QualifiedNameProvider, QualifiedNameSource

from .counterparts import PACKAGE, PEER, counterpart
from .import_rewriting import attribute_chain, dotted_name

#: names of annotations whose values are objects: neither tensors nor collections
OBJECTS: frozenset[str] = frozenset(
    ("Any", "Callable", "Dict", "List", "Mapping", "Path", "Sequence", "Set", "Tuple", "bytes", "complex", "dict")
) | {"frozenset", "list", "object", "set", "str", "tuple"}
NUMBERS = frozenset(("bool", "float", "int"))


class Field(NamedTuple):
    """A field of a record class."""

    node: cst.AnnAssign
    type_name: str  #: the outermost name of its annotation, without ``None``

    @property
    def holds_objects(self) -> bool:
        """Return whether its values are objects, such as text."""
        return self.type_name in OBJECTS

    @property
    def holds_numbers(self) -> bool:
        """Return whether it is annotated as a number of Python."""
        return self.type_name in NUMBERS


class SourceNames:
    """The names of one source file.

    Args:
        wrapper: the module with its metadata.
        records: names of record classes of other files, each with the package that makes them records.
    """

    def __init__(self, wrapper: MetadataWrapper, records: Mapping[str, str] = MappingProxyType({})) -> None:
        self._found = wrapper.resolve(QualifiedNameProvider)
        self._classes = _Classes()
        wrapper.module.visit(self._classes)
        self.records: dict[str, str] = {}
        self.defined: dict[str, str] = {}  #: those of this file
        self.learn(records)

    def learn(self, records: Mapping[str, str]) -> None:
        """Take in record classes of other files, from which classes of this one may derive."""
        self.records |= records
        for node in self._classes.found:
            packages = [self.package_of_record(one) for one in decorated_or_derived(node)]
            package = next(filter(None, packages), None)
            if package is not None:
                self.defined[node.name.value] = self.records[node.name.value] = package

    def qualified(self, node: cst.CSTNode) -> str:
        """Return the imported name that a node stands for, ``""`` if there is none, or another name, too."""
        found = self._found.get(node, ())
        names = list(cast(Collection[QualifiedName], found() if callable(found) else found))
        return names[0].name if len(names) == 1 and names[0].source is QualifiedNameSource.IMPORT else ""

    def public(self, node: cst.CSTNode) -> str:
        """Return the public name of either package that a node stands for, with attributes; ``""`` for others."""
        return public_name(self.qualified(node))

    def package_of_record(self, node: cst.BaseExpression) -> str | None:
        """Return the package by which a decorator or a base makes a class a record; ``None`` if it does not."""
        named = node.func if isinstance(node, cst.Call) else node
        named = named.value if isinstance(named, cst.Subscript) else named
        if self.public(named) in ("tensorclass", "TensorClass"):
            return self.qualified(named).partition(".")[0]
        return self.records.get(dotted_name(named).rpartition(".")[2])

    def is_record_class(self, node: cst.BaseExpression) -> bool:
        """Return whether a name is that of a record class."""
        return dotted_name(node).rpartition(".")[2] in self.records

    def is_record(self, node: cst.ClassDef) -> bool:
        """Return whether a class of this file is a record."""
        return node.name.value in self.defined

    def fields(self, node: cst.ClassDef) -> Iterator[Field]:
        """Yield the annotated fields of a class."""
        for line in node.body.body:
            for one in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(one, cst.AnnAssign):
                    yield Field(one, _type_name(one.annotation.annotation))


def public_name(qualified: str) -> str:
    """Return a name without the modules of either package, ``""`` for a name of another one.

    Example:
        >>> public_name("tensordict.nn.probabilistic.InteractionType.MODE")
        'InteractionType.MODE'
        >>> public_name("tensorclass.nn.InteractionType"), public_name("torch.nn.Linear")
        ('InteractionType', '')
    """
    names = qualified.split(".")
    if names[0] == PEER:
        here = counterpart(qualified)
        return ".".join([here.name, *names[here.used :]]) if here else names[-1]
    if names[0] != PACKAGE:
        return ""
    while len(names) > 1 and names[0] in (PACKAGE, "nn", "distributions", "utils"):
        del names[0]
    return ".".join(names)


def decorated_or_derived(node: cst.ClassDef) -> list[cst.BaseExpression]:
    """Return the decorators and the bases of a class.

    Example:
        >>> source = cst.parse_module("@decorator\\nclass A(B): ...")
        >>> [one.value for one in decorated_or_derived(source.body[0])]
        ['decorator', 'B']
    """
    return [*(one.decorator for one in node.decorators), *(one.value for one in node.bases)]


def _type_name(node: cst.BaseExpression) -> str:
    """Return the outermost name of an annotation; ``str | None`` and ``Optional[str]`` are ``str``."""
    if isinstance(node, cst.SimpleString):
        try:
            node = cst.parse_expression(node.raw_value)
        except cst.ParserSyntaxError:
            return ""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        sides = {_type_name(node.left), _type_name(node.right)} - {"None"}
        return sides.pop() if len(sides) == 1 else ""
    if isinstance(node, cst.Subscript):
        name = _type_name(node.value)
        inner = node.slice[0].slice
        if name in ("Optional", "Final", "Annotated") and isinstance(inner, cst.Index):
            return _type_name(inner.value)
        return name
    last = attribute_chain(node)[-1]
    return last.attr.value if isinstance(last, cst.Attribute) else last.value if isinstance(last, cst.Name) else ""


class _Classes(cst.CSTVisitor):
    """Collects the classes of a module, outer before inner."""

    def __init__(self) -> None:
        self.found: list[cst.ClassDef] = []

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.found.append(node)
