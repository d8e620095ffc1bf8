"""The mutants of a module: its source with one small mistake each.

Most mistakes are those of mutmut (``mutmut.mutation.mutators``): another operator or number, an argument left out or
``None``, a value that is not assigned. mutmut's own runner is not used: it puts all mutants of a function into the
module, behind a function that picks one, and leaves out decorated functions. This package reads signatures and methods
from its modules, and decorated functions hold much of its work.

Left out is what tests need not notice: texts of errors, annotations, imports for types, ``strict=`` of ``zip``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider, WhitespaceInclusivePositionProvider
from mutmut.mutation.mutators import mutation_operators


@dataclass(frozen=True)
class Mutant:
    """A module with one mistake.

    Args:
        path: the module, relative to the repository.
        function: qualified name of the function that was changed; empty for the module itself.
        lines: first and last line of what was changed, and of its statement.
        before: source of the module.
        after: source with the mistake.
    """

    path: str
    function: str
    lines: tuple[range, range]
    before: str
    after: str

    @cached_property
    def changes(self) -> tuple[str, ...]:
        """The lines that differ, each behind ``-`` or ``+`` and without its indentation."""
        found = difflib.unified_diff(self.before.splitlines(), self.after.splitlines(), lineterm="", n=0)
        return tuple(f"{line[0]} {line[1:].strip()}" for line in list(found)[2:] if line[0] in "-+")

    @property
    def key(self) -> tuple[str, str, tuple[str, ...]]:
        """What names the mutant wherever its line has moved to."""
        return self.path, self.function, self.changes

    def __str__(self) -> str:
        return "\n    ".join((f"{self.path}:{self.lines[0].start} {self.function}", *self.changes))


def replaced(path: str, before: str, old: str, new: str) -> Mutant:
    """Return the mutant that has one text in the place of another, which stands in the module once."""
    if before.count(old) != 1:
        raise ValueError(f"{path}: expected the text once, it is there {before.count(old)} times: {old!r}")
    start = before[: before.index(old)].count("\n") + 1
    lines = range(start, start + old.count("\n") + 1)
    return Mutant(path, "", (lines, lines), before, before.replace(old, new))


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return the mutants of a module, in the order of its lines. Some do not compile: see :func:`compiles`."""
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    visitor = _Visitor()
    wrapper.visit(visitor)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[str, Mutant] = {}
    for change in visitor.found:
        start, end = (starts[at.line - 1] + at.column for at in (change.span.start, change.span.end))
        after = source[:start] + wrapper.module.code_for_node(change.mutated) + source[end:]
        if after != source:
            found.setdefault(after, Mutant(path, change.function, change.lines, source, after))
    return sorted(found.values(), key=lambda mutant: mutant.lines[0].start)


def compiles(mutant: Mutant) -> bool:
    """Return whether the mutant is a program."""
    try:
        compile(mutant.after, "mutant", "exec")
    except SyntaxError:
        return False
    return True


# -- operators beside those of mutmut ---------------------------------------------------------------------------------

_COMPARED = m.Comparison(
    comparisons=[m.ComparisonTarget(operator=m.OneOf(m.Equal(), m.NotEqual(), m.Is(), m.IsNot(), m.In(), m.NotIn()))]
)


def _negated(test: cst.BaseExpression) -> Iterator[cst.CSTNode]:
    """``if x`` becomes ``if not x``, where mutmut does not turn the condition round."""
    if not m.matches(test, m.UnaryOperation(operator=m.Not()) | _COMPARED):
        yield cst.UnaryOperation(cst.Not(), test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))


def _left_out(node: cst.Expr) -> Iterator[cst.CSTNode]:
    """A call whose result nobody takes becomes ``pass``."""
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


def _returns_nothing(node: cst.Return) -> Iterator[cst.CSTNode]:
    if node.value is not None and not m.matches(node.value, m.Name("None")):
        yield node.with_changes(value=cst.Name("None"), whitespace_after_return=cst.SimpleWhitespace(" "))


_OPERATORS = (
    *(pair for pair in mutation_operators if pair[0] is not cst.Match),
    (cst.Expr, _left_out),
    (cst.Return, _returns_nothing),
)

# -- what is changed --------------------------------------------------------------------------------------------------

_SKIPPED = (
    m.Annotation()
    | m.Decorator()
    | m.Assert()
    | m.Import()
    | m.ImportFrom()
    | m.If(test=m.Name("TYPE_CHECKING"))
    | m.Call(func=m.Name("len") | m.Name("isinstance") | m.Name("cast") | m.Name("TypeVar") | m.Name("ParamSpec"))
    | m.FunctionDef(decorators=[m.ZeroOrMore(), m.Decorator(decorator=m.Name("overload")), m.ZeroOrMore()])
    | m.Expr(value=m.SimpleString() | m.ConcatenatedString() | m.Ellipsis())
    | m.Assign(targets=[m.AssignTarget(target=m.Name("__all__") | m.Name("__slots__"))])
    | m.Arg(keyword=m.Name("strict") | m.Name("stacklevel"))
)
_SIMPLE_DEFAULT = m.Name() | m.Integer() | m.Float() | m.SimpleString() | m.UnaryOperation(expression=m.Integer())


@dataclass(frozen=True)
class _Change:
    mutated: cst.CSTNode
    span: CodeRange
    function: str
    lines: tuple[range, range]


class _Visitor(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider, WhitespaceInclusivePositionProvider)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Change] = []
        self._names: list[str] = []
        self._statements: list[range] = [range(0)]
        self._raising = 0

    def on_visit(self, node: cst.CSTNode) -> bool:
        if m.matches(node, _SKIPPED):
            return False
        if isinstance(node, cst.Param) and node.default and not m.matches(node.default, _SIMPLE_DEFAULT):
            return False
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            self._names.append(node.name.value)
        self._raising += isinstance(node, cst.Raise)
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            self._statements.append(self._lines(node))
        self._change(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if m.matches(original_node, _SKIPPED):
            return
        if isinstance(original_node, (cst.FunctionDef, cst.ClassDef)):
            self._names.pop()
        self._raising -= isinstance(original_node, cst.Raise)
        if isinstance(original_node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            self._statements.pop()

    def _lines(self, node: cst.CSTNode) -> range:
        position = self.get_metadata(PositionProvider, node)
        end = position.end.line
        if isinstance(node, cst.BaseCompoundStatement):  # its head
            end = max(position.start.line, self.get_metadata(PositionProvider, node.body).start.line - 1)
        return range(position.start.line, end + 1)

    def _change(self, node: cst.CSTNode) -> None:
        if self._raising and isinstance(node, cst.BaseString):
            return
        for sort, operator in _OPERATORS:
            if isinstance(node, sort):
                for mutated in operator(node):
                    if _strict(node) == _strict(mutated):
                        self._add(node, mutated)
        if isinstance(node, (cst.If, cst.While)):
            for mutated in _negated(node.test):
                self._add(node.test, mutated)

    def _add(self, node: cst.CSTNode, mutated: cst.CSTNode) -> None:
        span = self.get_metadata(WhitespaceInclusivePositionProvider, node)
        lines = range(span.start.line, span.end.line + 1)
        self.found.append(_Change(mutated, span, ".".join(self._names), (lines, self._statements[-1])))


def _strict(node: cst.CSTNode) -> Sequence[str]:
    """Return ``strict=`` and ``stacklevel=`` of a call."""
    if not isinstance(node, cst.Call):
        return []
    named = [arg for arg in node.args if arg.keyword and arg.keyword.value in ("strict", "stacklevel")]
    return [cst.Module([]).code_for_node(arg.value) for arg in named]
