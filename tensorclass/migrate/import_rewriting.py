"""Rewrite imports of ``tensordict``, and the names behind imported modules, as those of this package.

A visitor plans which nodes are replaced, since only names that are bound to modules of the peer change: a parameter
that is called ``tensordict`` does not. A transformer then puts the replacements in. Names that this package does not
have stay names of the peer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar

import libcst as cst
from libcst.metadata import MetadataWrapper, ProviderT, QualifiedNameProvider, QualifiedNameSource, ScopeProvider

from .counterparts import PACKAGE, PEER, counterpart, is_peer_module

Import = cst.Import | cst.ImportFrom
Statements = Sequence[cst.BaseSmallStatement]

_IN_STRINGS = cst.Name("_")
"""The node under which uses in strings are noted."""


def dotted_name(node: cst.BaseExpression) -> str:
    """Return the text of a name with its attributes, ``""`` for other expressions.

    Example:
        >>> import libcst
        >>> dotted_name(libcst.parse_expression("a.b.c")), dotted_name(libcst.parse_expression("f().b"))
        ('a.b.c', '')
    """
    chain = attribute_chain(node)
    if not isinstance(chain[0], cst.Name):
        return ""
    return ".".join([chain[0].value, *(one.attr.value for one in chain[1:] if isinstance(one, cst.Attribute))])


def attribute_chain(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the nodes of a dotted expression, from the first name to the whole.

    Example:
        >>> import libcst
        >>> len(attribute_chain(libcst.parse_expression("a.b.c")))
        3
    """
    chain = [node]
    while isinstance(chain[-1], cst.Attribute):
        chain.append(chain[-1].value)
    return chain[::-1]


def imported_module(node: cst.ImportFrom) -> str:
    """Return the module of a ``from`` statement, ``""`` for a relative one.

    Example:
        >>> import libcst
        >>> line = libcst.parse_module("from tensordict.nn import dispatch").body[0]
        >>> imported_module(line.body[0])
        'tensordict.nn'
    """
    return "" if node.relative or node.module is None else dotted_name(node.module)


def _free_name(wrapper: MetadataWrapper) -> str:
    """Return the name under which a file imports this package: one that nothing else in the file has."""
    taken = {
        assignment.name
        for scope in set(wrapper.resolve(ScopeProvider).values())
        if scope is not None
        for assignment in scope.assignments
        if not isinstance(getattr(assignment, "node", None), cst.Import)
    }
    return next(name for name in (PACKAGE, "tc", f"{PACKAGE}_package") if name not in taken)


class ImportPlan(cst.CSTVisitor):
    """Finds the nodes to replace.

    Args:
        wrapper: the module with its metadata.
    """

    METADATA_DEPENDENCIES: ClassVar[Collection[ProviderT]] = (QualifiedNameProvider,)

    def __init__(self, wrapper: MetadataWrapper) -> None:
        self._package = _free_name(wrapper)  #: the name of this package in the file
        self._imports: list[Import] = []
        self._strings: list[cst.SimpleString] = []  #: in annotations
        self._annotations = 0
        # by local name of a module of the peer
        self._bound: dict[str, str] = {}  #: the module
        self._moved: defaultdict[str, dict[cst.CSTNode, str]] = defaultdict(dict)  #: uses, and their new code
        self._kept: defaultdict[str, dict[cst.CSTNode, str]] = defaultdict(dict)  #: uses for names that stay, in full
        self._beside: defaultdict[str, set[str]] = defaultdict(set)  #: modules that are needed beside it
        self._rebound: set[str] = set()  #: names that are also bound to something else, and stay
        wrapper.visit(self)

    def visit_Import(self, node: cst.Import) -> bool:
        peers = [alias for alias in node.names if _is_of_peer(dotted_name(alias.name))]
        for alias in peers:
            self._bound[_local_name(alias)] = dotted_name(alias.name) if alias.asname else PEER
        self._imports += [node] if peers else []
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        source = imported_module(node)
        if _is_of_peer(source):
            self._imports.append(node)
            for alias in _aliases(node):
                if is_peer_module(f"{source}.{alias.evaluated_name}"):
                    self._bound[_local_name(alias)] = f"{source}.{alias.evaluated_name}"
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        chain = attribute_chain(node)
        if not isinstance(chain[0], cst.Name):
            return True  # other names may be inside
        self._plan_use(chain)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self._plan_use([node])

    def _plan_use(self, chain: list[cst.BaseExpression]) -> None:
        local = cst.ensure_type(chain[0], cst.Name)
        found = self.get_metadata(QualifiedNameProvider, local, set())
        module = next((one.name for one in found if one.source is QualifiedNameSource.IMPORT), "")
        if not is_peer_module(module):
            return
        if len(found) > 1:
            self._rebound.add(local.value)
        names = [one.attr.value for one in chain if isinstance(one, cst.Attribute)]
        new = self._code_for(local.value, module, names)
        if new is None:
            self._kept[local.value][chain[-1]] = ".".join([module, *names])
        else:
            self._moved[local.value][chain[new[1]]] = new[0]

    def _code_for(self, local: str, module: str, names: list[str]) -> tuple[str, int] | None:
        """Return new code for a module's local name and the attributes that follow, and how many of these it replaces.

        ``None`` if this package does not have the name.
        """
        here = counterpart(".".join([module, *names]))
        if here is None:
            return None
        new = counterpart(module)
        assert new is not None
        used = here.used - module.count(".") - 1
        if f"{here.module}.".startswith(f"{new.module}."):  # behind the same local name
            root = self._package if local == PEER else local
            return ".".join(filter(None, [root, here.module[len(new.module) + 1 :], here.name])), used
        top, _, rest = here.module.partition(".")
        if top == PACKAGE:  # its modules are attributes of the package
            self._beside[local].add(PACKAGE)
            return ".".join(filter(None, [self._package, rest, here.name])), used
        self._beside[local].add(here.module)
        return f"{here.module}.{here.name}", used

    def visit_Annotation(self, node: cst.Annotation) -> None:
        self._annotations += 1

    def leave_Annotation(self, original_node: cst.Annotation) -> None:
        self._annotations -= 1

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        self._strings += [node] if self._annotations else []

    def expressions(self) -> dict[cst.CSTNode, str]:
        """Return the expressions to replace, and their new code."""
        made: dict[cst.CSTNode, str] = {}
        for node in self._strings:
            code = re.sub(r"(?<![\w.])([^\W\d]\w*)((?:\.\w+)+)", self._in_string, node.value)
            made |= {} if code == node.value else {node: code}
        for local in self._moved.keys() - self._rebound:
            made |= self._moved[local]
            if local in self._kept:
                made |= self._kept[local]
                self._beside[local].add(self._bound[local])
        return made

    def _in_string(self, match: re.Match[str]) -> str:
        local, module = match[1], self._bound.get(match[1])
        if module is None or local in self._rebound:
            return match[0]
        names = match[2].split(".")[1:]
        new = self._code_for(local, module, names)
        if new is None:
            self._kept[local].setdefault(_IN_STRINGS, "")
            return ".".join([module, *names]) if local in self._moved else match[0]
        self._moved[local].setdefault(_IN_STRINGS, "")
        return ".".join([new[0], *names[new[1] :]])

    # statements

    def statements(self) -> dict[cst.CSTNode, Statements]:
        """Return the import statements to replace, each with those that replace it; call :meth:`expressions` first."""
        return {node: list(self._replacements(node)) for node in self._imports}

    def _replacements(self, node: Import) -> Iterator[cst.BaseSmallStatement]:
        if isinstance(node, cst.Import):
            yield node.with_changes(names=[self._import_alias(alias) for alias in node.names])
        elif isinstance(node.names, cst.ImportStar):
            here = counterpart(imported_module(node))
            yield node.with_changes(module=cst.parse_expression(here.module)) if here else node
        else:
            yield from self._import_from(node)
        for alias in _aliases(node):
            for module in sorted(self._beside[_local_name(alias)]):
                yield self._import_of(module)

    def _stays(self, alias: cst.ImportAlias) -> bool:
        """Return whether a module stays imported: it is used only for names that this package does not have."""
        local = _local_name(alias)
        return local in self._rebound or (local in self._kept and local not in self._moved)

    def _import_alias(self, alias: cst.ImportAlias) -> cst.ImportAlias:
        dotted = dotted_name(alias.name)
        here = counterpart(dotted) if _is_of_peer(dotted) and not self._stays(alias) else None
        if here is None:
            return alias
        if alias.asname is not None or self._package == PACKAGE:
            return alias.with_changes(name=cst.parse_expression(here.module))
        return alias.with_changes(name=cst.Name(PACKAGE), asname=_as(self._package))

    def _import_from(self, node: cst.ImportFrom) -> Iterator[cst.BaseSmallStatement]:
        source = imported_module(node)
        groups: defaultdict[str, list[cst.ImportAlias]] = defaultdict(list)
        for alias in _aliases(node):
            here = None if self._stays(alias) else counterpart(f"{source}.{alias.evaluated_name}")
            module, name = (here.module, here.name) if here else (source, alias.evaluated_name)
            if not name:  # a module
                module, _, name = module.rpartition(".")
            groups[module].append(_named(alias, name))
        for module, aliases in groups.items():
            if module:
                yield _import_of_names(node, module, aliases)
            else:  # of a module of the peer whose names are in this package itself
                yield from (self._import_of(PACKAGE, _local_name(alias)) for alias in aliases)

    def _import_of(self, module: str, local: str | None = None) -> cst.Import:
        asname = local or (self._package if module == PACKAGE and self._package != PACKAGE else None)
        alias = cst.ImportAlias(cst.Name(PACKAGE), asname=_as(asname) if asname else None)
        return cst.Import([alias.with_changes(name=cst.parse_expression(module))])


def _is_of_peer(dotted: str) -> bool:
    return dotted.partition(".")[0] == PEER


def _aliases(node: Import) -> Sequence[cst.ImportAlias]:
    return () if isinstance(node.names, cst.ImportStar) else node.names


def _local_name(alias: cst.ImportAlias) -> str:
    return alias.evaluated_alias or alias.evaluated_name.partition(".")[0]


def _as(name: str) -> cst.AsName:
    return cst.AsName(cst.Name(name))


def _named(alias: cst.ImportAlias, name: str) -> cst.ImportAlias:
    """Return an alias for another name, under the same local name."""
    if name == alias.evaluated_name:
        return alias
    asname = alias.asname or _as(alias.evaluated_name)
    return alias.with_changes(name=cst.Name(name), asname=None if _local_name(alias) == name else asname)


def _import_of_names(node: cst.ImportFrom, module: str, aliases: list[cst.ImportAlias]) -> cst.ImportFrom:
    """Return an import of some of the names of a statement, in parentheses if it needs them."""
    old = _aliases(node)
    new = node.with_changes(module=cst.parse_expression(module))
    if len(aliases) == len(old):
        return new.with_changes(names=aliases)
    plain = [alias.with_changes(comma=_COMMA) for alias in aliases[:-1]]
    plain.append(aliases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT))
    short = new.with_changes(names=plain, lpar=None, rpar=None)
    code = cst.Module([cst.SimpleStatementLine([short])]).code
    if node.lpar is None or (len(code) <= _WIDTH and "#" not in cst.Module([cst.SimpleStatementLine([node])]).code):
        return short
    return new.with_changes(names=[*aliases[:-1], aliases[-1].with_changes(comma=old[-1].comma)])


_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
_WIDTH = 89  #: of a line that needs no parentheses, with its end


class ImportRewriter(cst.CSTTransformer):
    """Puts the replacements of a plan in.

    Example:
        >>> source = "from tensordict.nn import dispatch\\nimport tensordict as td\\ntd.TensorDict()\\n"
        >>> wrapper = MetadataWrapper(cst.parse_module(source))
        >>> print(wrapper.module.visit(ImportRewriter(ImportPlan(wrapper))).code, end="")
        from tensorclass.nn import dispatch
        import tensorclass as td
        td.TensorDict()
    """

    def __init__(self, plan: ImportPlan) -> None:
        super().__init__()
        self._expressions = plan.expressions()
        self._statements = plan.statements()

    def _replaced(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        code = self._expressions.get(original)
        if code is None:
            return updated
        return cst.parse_expression(code).with_changes(lpar=original.lpar, rpar=original.rpar)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        return self._replaced(original_node, updated_node)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        return self._replaced(original_node, updated_node)

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        return self._replaced(original_node, updated_node)

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        new = self._statements.get(original_node.body[0]) if original_node.body else None
        if new is None or len(original_node.body) > 1:
            return updated_node.with_changes(body=self._flat(original_node.body, updated_node.body))
        first, *others = new
        lines = [cst.SimpleStatementLine([one]) for one in others]
        return cst.FlattenSentinel([updated_node.with_changes(body=[first]), *lines])

    def leave_SimpleStatementSuite(
        self, original_node: cst.SimpleStatementSuite, updated_node: cst.SimpleStatementSuite
    ) -> cst.SimpleStatementSuite:
        return updated_node.with_changes(body=self._flat(original_node.body, updated_node.body))

    def _flat(self, originals: Statements, updated: Statements) -> list[cst.BaseSmallStatement]:
        """Return the statements of one line."""
        made: list[cst.BaseSmallStatement] = []
        for original, now in zip(originals, updated, strict=True):
            new = self._statements.get(original, [now])
            made += [one.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for one in new[:-1]]
            made.append(new[-1].with_changes(semicolon=now.semicolon))
        return made
