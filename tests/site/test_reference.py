"""The reference describes every public name and member, and the names in docstrings lead to an entry."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from external_pages import find
from public_names import NAMESPACES, canonical, described_members, inherited_members, is_ours, public_names
from python_names import meanings

from tensorclass import Column, Ragged, TensorClass, TensorDict, Text
from tensorclass.td.dataframe_names import own_names
from tensorclass.td.inherited_members import defined_members
from tests.test_docstrings import NAMESPACES as DOCUMENTED
from tests.test_docstrings import documented

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def described() -> set[str]:
    """Return the names that pages of the reference describe."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.rst"))
    found = set(re.findall(r"^\.\. (?:autoclass|autofunction|automodule|py:module):: ([\w.]+)$", pages, re.MULTILINE))
    for module, block in re.findall(r"^\.\. names:: ([\w.]+)\n\n((?:   .+\n|\n)+)", pages + "\n", re.MULTILINE):
        found |= {f"{module}.{name}" for name in block.split()}
    for name in found - public_names().keys():  # classes that users get from a method
        found |= {f"{name}.{member}" for member in vars(find(name)) if member[0] != "_"}
    bases = {base.__name__: base for base in TensorDict.__mro__}
    for directive, owner in (("methods", "tensorclass.TensorDict"), ("functions", "tensorclass")):
        lines = re.findall(rf"^\.\. {directive}:: (.+)$", pages, re.MULTILINE)
        families = {family for line in lines for family in line.split()}
        members = {f"{owner}.{name}" for family in families for name in defined_members(bases[family])}
        found |= members if directive == "methods" else members & public_names().keys()
    for name in found & public_names().keys() - {"tensorclass.TensorDict"}:
        if isinstance(item := public_names()[name], type):
            members = (*described_members(item), *documented(inspect.cleandoc(item.__doc__ or "")))
            found |= {f"{name}.{member}" for member in members}
    return found


FOUND = described()


def test_the_namespaces_are_those_whose_docstrings_are_checked() -> None:
    assert sorted(NAMESPACES) == sorted(DOCUMENTED)


def test_every_public_name_has_an_entry() -> None:
    assert len(public_names()) > 300
    assert [name for name in public_names() if canonical(name) not in FOUND] == []


def test_every_name_on_a_page_is_public() -> None:
    listed = {name for name in FOUND if name.rpartition(".")[0] in NAMESPACES and not inspect.ismodule(find(name))}
    assert listed - public_names().keys() == set()


@pytest.mark.parametrize("cls", [TensorDict, TensorClass, Text, Ragged, Column])
def test_every_member_has_an_entry(cls: type) -> None:
    own = dict.fromkeys(described_members(cls), f"tensorclass.{cls.__name__}")
    entries = inherited_members(cls) | own
    public = [name for name in own_names(cls, dir(cls)) if name[0] != "_"]
    # attributes of a class that are data, such as its item type, are explained in its docstring
    members = [name for name in public if hasattr(inspect.getattr_static(cls, name), "__get__")]
    assert len(members) > 250
    assert [name for name in members if f"{entries.get(name)}.{name}" not in FOUND] == []


def test_a_delegated_method_shows_its_docstring() -> None:
    assert TensorDict.to_parquet.__doc__ is not None
    assert "tensorclass.TensorDict.to_parquet" in FOUND


def docstrings() -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """Yield the name, the class, the modules around it, and the docstring of everything that is described."""
    for name, item in public_names().items():
        if canonical(name) != name or isinstance(item, str | tuple) or not is_ours(item):
            continue
        cls = name.rpartition(".")[2] if isinstance(item, type) else ""
        yield name, cls, _around(name, item), item.__doc__ or ""
        for member in described_members(item) if isinstance(item, type) else ():
            found = inspect.getattr_static(item, member)
            yield f"{name}.{member}", cls, _around(name, getattr(found, "fget", None) or found), found.__doc__ or ""


def _around(name: str, item: Any) -> tuple[str, ...]:
    parts = str(item.__module__).split(".")
    return (name.rpartition(".")[0], *(".".join(parts[:length]) for length in range(len(parts), 0, -1)))


def test_every_reference_in_a_docstring_leads_somewhere() -> None:
    dead = []
    count = 0
    for name, cls, modules, doc in docstrings():
        for role, target in re.findall(r":(meth|class|func|attr|exc|data):`~?\.?([\w.]+)`", doc):
            count += 1
            names = meanings(target, modules=modules, cls=cls, is_method=role == "meth")
            if not any(one in FOUND or one.startswith("https://") for one in names):
                dead.append(f"{name}: {role} {target}")
    assert count > 200
    assert not dead, dead


def test_docstrings_have_no_formulas_for_which_pages_would_load_scripts_from_elsewhere() -> None:
    assert [name for name, _, _, doc in docstrings() if ":math:" in doc] == []


def test_docstrings_name_no_files_that_a_wheel_lacks() -> None:
    files = re.compile(r"(?<![\w/.-])(benchmarks|examples|tests)/\w|python -m (benchmarks|tests)\b|(?<![\w/.-])docs/\w")
    assert [name for name, _, _, doc in docstrings() if files.search(doc)] == []
