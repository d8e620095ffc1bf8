"""Find the lines of a source file that behave differently here, and those that stay with the peer."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from .collection_values import CollectionValues
from .counterparts import PEER, counterpart, is_peer_module, reason_without
from .difference_patterns import Pattern
from .import_rewriting import dotted_name, imported_module
from .known_differences import DIFFERENCES
from .source_names import SourceNames

ENTRIES = "docs/differences.md"

#: packages that ask for collections of the peer, and the page that tells how they get them
CLIENTS = {"torchrl": "docs/tensordict.md#with-torchrl"}

#: functions that take a module by its name
BY_NAME = frozenset(("import_module", "importorskip", "find_spec", "__import__", "patch", "getattr", "setattr"))


class Remark(NamedTuple):
    """A line to look at."""

    line: int
    says: str
    entry: str  #: the page with its anchor, ``""`` if there is none


def remarks_on(wrapper: MetadataWrapper, names: SourceNames) -> list[Remark]:
    """Return what to know of the lines of a module, in their order.

    Args:
        wrapper: a module that uses the peer or this package, with its metadata.
        names: its names.

    Example:
        >>> source = "from tensorclass import TensorDict\\ndata = TensorDict(a=1)\\ndata.quantile(0.5, dim=(0, 1))\\n"
        >>> wrapper = MetadataWrapper(cst.parse_module(source))
        >>> remarks_on(wrapper, SourceNames(wrapper))[0].entry
        'docs/differences.md#quantile-reduces-over-all-dimensions-that-it-is-given'
    """
    search = _Search(names)
    wrapper.visit(search)
    return sorted(search.found)


def _by_node() -> defaultdict[type[cst.CSTNode], list[tuple[Pattern, str]]]:
    table: defaultdict[type[cst.CSTNode], list[tuple[Pattern, str]]] = defaultdict(list)
    for anchor, difference in DIFFERENCES.items():
        for pattern in difference.patterns:
            for node in pattern.nodes:
                table[node].append((pattern, anchor))
    return table


_BY_NODE = _by_node()
"""The patterns for a type of node."""


class _Search(CollectionValues):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, names: SourceNames) -> None:
        super().__init__(names)
        self.found: set[Remark] = set()
        self._told: set[str] = set()  #: packages

    def on_leave(self, original_node: cst.CSTNode) -> None:
        for pattern, anchor in _BY_NODE[type(original_node)]:
            if pattern.matches(original_node, self):
                self._add(original_node, DIFFERENCES[anchor].says, f"{ENTRIES}#{anchor}")
        super().on_leave(original_node)

    def _add(self, node: cst.CSTNode, says: str, entry: str = "") -> None:
        position = self.get_metadata(PositionProvider, node)
        assert isinstance(position, CodeRange)
        self.found.add(Remark(position.start.line, says, entry))

    # names that stay with the peer

    def visit_Import(self, node: cst.Import) -> bool:
        for alias in node.names:
            self._package(alias, dotted_name(alias.name))
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        source = imported_module(node)
        self._package(node, source)
        if source.partition(".")[0] == PEER and not isinstance(node.names, cst.ImportStar):
            for alias in node.names:
                self._without(alias, f"{source}.{alias.evaluated_name}")
        return False

    def _package(self, node: cst.CSTNode, dotted: str) -> None:
        """Tell once of a package that asks for collections of the peer."""
        package = dotted.partition(".")[0]
        if package in CLIENTS and package not in self._told:
            self._told.add(package)
            self._add(node, f"{package} takes and returns collections of {PEER}", CLIENTS[package])

    def _without(self, node: cst.CSTNode, dotted: str) -> None:
        if counterpart(dotted) is None:
            self._add(node, f"{dotted} has no counterpart: {reason_without(dotted)}")

    def visit_Attribute(self, node: cst.Attribute) -> None:
        dotted = self.names.qualified(node)
        if dotted.partition(".")[0] == PEER and is_peer_module(self.names.qualified(node.value)):
            self._without(node, dotted)

    def visit_Call(self, node: cst.Call) -> None:
        super().visit_Call(node)
        first = node.args[0].value if node.args else None
        text = first.raw_value if isinstance(first, cst.SimpleString) else ""
        if dotted_name(node.func).rpartition(".")[2] in BY_NAME and text.partition(".")[0] == PEER:
            self._add(node, f'"{text}" is text, and stays as it is')
