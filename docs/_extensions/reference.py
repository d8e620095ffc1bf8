"""Directives that lay out the reference: names and methods, first as a table, then with their docstrings.

``.. names:: MODULE`` describes the public names of a module that stand in its content. ``.. methods:: FAMILY ...``
describes the methods that all collections have of one or more families (classes of ``tensorclass/td/``), and
``.. functions:: FAMILY ...`` the functions of the package that these methods are. A public name, or a member of a
public class, that no page describes is a warning, hence an error of ``make docs``.

``reference_docstrings = False`` in the configuration leaves out the docstrings, which take most of the time of a build:
tests of the pages and of the links between them need the names alone.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

from docutils import nodes
from external_pages import public_path
from public_names import canonical, comment, described_members, inherited_members, is_ours, public_names
from sphinx.application import Sphinx
from sphinx.domains.python import ObjectEntry, PythonDomain
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from tensorclass import TensorDict
from tensorclass.td.inherited_members import defined_members

_COLLECTION = "tensorclass.TensorDict"

#: classes that have the members of collections, each also under its own name in the inventory
_ALIASED = frozenset(f"tensorclass.{name}" for name in ("TensorCollection", "TensorClass", "Text", "Ragged", "Column"))

_log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_config_value("reference_docstrings", True, "env", [bool])
    app.add_directive("names", Names)
    app.add_directive("functions", Functions)
    app.add_directive("methods", Methods)
    app.connect("autodoc-process-docstring", _mark_returns, priority=400)
    app.connect("autodoc-before-process-signature", _keep_first_parameter)
    app.connect("autodoc-process-signature", _write_signature)
    app.connect("env-updated", _add_aliases)
    app.connect("env-check-consistency", _check_complete)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# --- directives -------------------------------------------------------------------------------------------------------


class Names(SphinxDirective):
    """Describe public names of a module."""

    required_arguments = 1
    has_content = True

    def names(self) -> list[str]:
        return [f"{self.arguments[0]}.{name}" for line in self.content for name in line.split()]

    def run(self) -> list[nodes.Node]:
        names = self.names()
        if unknown := [name for name in names if name not in public_names()]:
            raise self.error(f"not in __all__: {', '.join(unknown)}")
        table = _table((name, public_names()[name]) for name in names)
        if not self.config.reference_docstrings:
            members = [f"{name}.{member}" for name in names for member in _members(name)]
            return _anchors(self, [*names, *members]) + self.parse_text_to_nodes("\n".join(table))
        entries = (line for name in names for line in _entry(name))
        return self.parse_text_to_nodes("\n".join([*table, *entries]))


class Functions(Names):
    """Describe the functions of the package that have the names of methods of some families."""

    has_content = False
    required_arguments = 1
    final_argument_whitespace = True

    def names(self) -> list[str]:
        members = [name for family in _families(self) for name in defined_members(family)]
        return [f"tensorclass.{name}" for name in members if f"tensorclass.{name}" in public_names()]


def _families(directive: SphinxDirective) -> Iterator[type]:
    """Yield the classes that a directive names."""
    families = {base.__name__: base for base in TensorDict.__mro__}
    for family in directive.arguments[0].split():
        if family not in families:
            raise directive.error(f"no family of methods: {family}")
        yield families[family]


class Methods(SphinxDirective):
    """Describe the members that all collections have of some families."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        members = described_members(TensorDict)
        names = []
        for family in _families(self):
            own = defined_members(family)
            names += [name for name in members if name in own]
        qualified = {f"{_COLLECTION}.{name}": inspect.getattr_static(TensorDict, name) for name in sorted(names)}
        lines = [*_table(qualified.items())]
        if not self.config.reference_docstrings:
            return _anchors(self, qualified) + self.parse_text_to_nodes("\n".join(lines))
        for name, member in qualified.items():
            lines += [f".. {_member_directive(member)}:: {name}", ""]
        return self.parse_text_to_nodes("\n".join(lines))


def _table(items: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield a table with each name, linked to its entry, and the first line of its docstring."""
    yield from (".. list-table::", "   :class: summary", "   :widths: auto", "")
    for name, item in items:
        yield f"   * - :py:obj:`{name.rpartition('.')[2]} <{name}>`"
        yield f"     - {_summary(name, item)}"
    yield ""


def _summary(name: str, item: Any) -> str:
    if name in public_names() and canonical(name) != name:
        return f"Another name of :py:obj:`~{canonical(name)}`."
    if name in public_names() and not callable(item):
        line = comment(name)[0]
        return f"{line[0].upper()}{line[1:]}"
    if not is_ours(item) and callable(item):
        return _same_as(item)
    line = inspect.cleandoc(item.__doc__ or "").partition("\n")[0]
    return re.sub(r":meth:`(\w+)`", rf":meth:`\1 <{name}.\1>`", line) if isinstance(item, type) else line


def _entry(name: str) -> Iterator[str]:
    """Yield the directives that describe a public name."""
    item = public_names()[name]
    if canonical(name) != name:
        yield from (f".. py:data:: {name}", "", f"   Another name of :py:obj:`~{canonical(name)}`.", "")
    elif not is_ours(item) and callable(item):
        directive = "class" if isinstance(item, type) else "function"
        yield from (f".. py:{directive}:: {name}", "", f"   {_same_as(item)}", "")
    elif isinstance(item, type):
        yield from (f".. autoclass:: {name}", "")
        for member in _members(name):
            yield from (f"   .. {_member_directive(inspect.getattr_static(item, member))}:: {name}.{member}", "")
    elif callable(item):
        yield from (f".. autofunction:: {name}", "")
    else:
        yield from (f".. py:data:: {name}", "", *(f"   {line}" for line in comment(name)), "")


def _same_as(item: Any) -> str:
    return f"The same as :py:obj:`{public_path(f'{item.__module__}.{item.__qualname__}')}`."


def _members(name: str) -> list[str]:
    """Return the members that the entry of a name describes; those of all collections have pages of their own."""
    item = public_names()[name]
    if name == _COLLECTION or canonical(name) != name or not isinstance(item, type) or not is_ours(item):
        return []
    return described_members(item)


def _anchors(directive: SphinxDirective, names: Iterable[str]) -> list[nodes.Node]:
    """Return anchors in place of entries, and note them as the places where names are described."""
    target = nodes.target("", "", ids=list(names))
    for name in target["ids"]:
        _domain(directive.env).note_object(name, "data", name, location=target)
    return [target]


def _member_directive(member: Any) -> str:
    if isinstance(member, property | cached_property):
        return "autoproperty"
    return "automethod" if inspect.isroutine(member) else "autoattribute"


# --- docstrings -------------------------------------------------------------------------------------------------------


def _mark_returns(app: Sphinx, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    """Turn sections ``Returns:`` into fields: they are prose, of which napoleon takes all before a colon for a type."""
    if "Returns:" not in lines:
        return
    start = lines.index("Returns:")
    end = next((i for i in range(start + 1, len(lines)) if lines[i] and lines[i][0] != " "), len(lines))
    first, *rest = lines[start + 1 : end]
    lines[start:end] = [f":returns: {first.strip()}", *rest]


def _keep_first_parameter(app: Sphinx, item: Any, is_bound: bool) -> None:
    """Put back the class that autodoc takes from the signature of a function that is the method of a class.

    It notes the signature of the bound method, without the class, at the method's function, to keep how defaults are
    written. Read again as that of a bound method, this signature would lose its next parameter.
    """
    if is_bound or not inspect.ismethod(item):
        return
    noted: inspect.Signature | None = vars(item.__func__).get("__signature__")
    if noted is not None and next(iter(noted.parameters), "") != "cls":
        cls = inspect.Parameter("cls", inspect.Parameter.POSITIONAL_ONLY)
        item.__func__.__signature__ = noted.replace(parameters=[cls, *noted.parameters.values()])


def _write_signature(
    app: Sphinx, what: str, name: str, item: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Write ``...`` for defaults of fields, which the generated constructor of a record holds in variables.

    A method that is a function of the package as well takes the collection first.
    """
    if signature and what == "function":
        signature = re.sub(r"^\(self: [~.\w]+", "(data: ~tensorclass.TensorCollection", signature)
    return signature and re.sub(r"\b__default_\w+", "...", signature), returns


# --- the whole --------------------------------------------------------------------------------------------------------


def _domain(env: BuildEnvironment) -> PythonDomain:
    return env.domains.python_domain


def _wanted() -> Iterator[str]:
    """Yield the names that need an entry."""
    for name, item in public_names().items():
        if canonical(name) != name:
            continue
        yield name
        if isinstance(item, type):
            yield from (f"{name}.{member}" for member in described_members(item) if is_ours(item))


def _check_complete(app: Sphinx, env: BuildEnvironment) -> None:
    found = _domain(env).objects
    if missing := [name for name in _wanted() if name not in found]:
        _log.warning(
            "no page of docs/reference describes %s: add it to a `.. names::`, or its family to a `.. methods::`",
            ", ".join(missing),
            type="reference",
        )


def _add_aliases(app: Sphinx, env: BuildEnvironment) -> None:
    """Let the other names of an object, and the members that a class inherits, lead to the entry of the object."""
    objects = _domain(env).objects
    for name, item in public_names().items():
        _alias(objects, name, canonical(name))
        if name in _ALIASED:
            for member, described_at in inherited_members(item).items():
                _alias(objects, f"{name}.{member}", f"{described_at}.{member}")


def _alias(objects: dict[str, ObjectEntry], name: str, described_at: str) -> None:
    entry = objects.get(described_at)
    if entry is not None and name not in objects:
        objects[name] = entry._replace(aliased=True)
