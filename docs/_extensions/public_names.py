"""The public names of the package and the members of its classes that the reference must describe."""

from __future__ import annotations

import importlib
import inspect
import sys
from functools import cache
from types import MemberDescriptorType
from typing import Any, Final

from sphinx.pycode import ModuleAnalyzer

from tensorclass import TensorCollection, TensorDict
from tensorclass.td.dataframe_names import own_names
from tensorclass.td.leaves.leaf import Leaf

#: the modules whose ``__all__`` lists what users import; the first is where a name is looked for first
NAMESPACES: Final = (
    "tensorclass",
    "tensorclass.contracts",
    "tensorclass.cli",
    "tensorclass.distributed",
    "tensorclass.distributed.ray",
    "tensorclass.nn",
    "tensorclass.nn.distributions",
    "tensorclass.scores",
    "tensorclass.td",
    "tensorclass.testing",
    "tensorclass.typing.stubs",
    "tensorclass.utils",
)


def is_ours(item: Any) -> bool:
    return str(getattr(item, "__module__", "")).partition(".")[0] == "tensorclass"


@cache
def public_names() -> dict[str, Any]:
    """Return every public object by its qualified name, all names of an object that has several."""
    found = {}
    for namespace in NAMESPACES:
        module = importlib.import_module(namespace)
        found.update({f"{namespace}.{name}": getattr(module, name) for name in module.__all__})
    return found


@cache
def canonical_names() -> dict[int, str]:
    """Return the name under which each public class and function is described, by its identity."""
    found: dict[int, str] = {}
    for name, item in public_names().items():
        if id(item) not in found or _calls_itself(item, name) > _calls_itself(item, found[id(item)]):
            found[id(item)] = name
    return found


def _calls_itself(item: Any, name: str) -> bool:
    return getattr(item, "__name__", None) == name.rpartition(".")[2]


def canonical(name: str) -> str:
    """Return the name under which the object of a public name is described."""
    item = public_names()[name]
    if isinstance(item, str | tuple):  # constants of the same value may be one object
        last = name.rpartition(".")[2]
        return next(other for other, value in public_names().items() if value is item and other.endswith(f".{last}"))
    return canonical_names()[id(item)]


@cache
def described_members(cls: type) -> list[str]:
    """Return the public members that the entry of a class describes, in the order of their definition.

    A member is described once: at the public base class that has it first, and again only where an override has a
    docstring of its own. Members of all collections are described at ``TensorDict``.
    """
    bases = _described_bases(cls)
    return [name for name in _members(cls) if not any(_same(cls, base, name) for base in bases)]


def inherited_members(cls: type) -> dict[str, str]:
    """Return the public members of a class that another class describes, with the name of that class."""
    bases = [base for base in _described_bases(cls) if id(base) in canonical_names()]
    described = {base: set(described_members(base)) for base in bases}
    return {
        name: canonical_names()[id(base)]
        for name in _members(cls)
        for base in reversed(bases)
        if name in described[base]
    }


def _described_bases(cls: type) -> list[type]:
    if cls is TensorDict:
        return []
    public = {item for item in public_names().values() if isinstance(item, type)} - {cls}
    shared = [TensorDict] if issubclass(cls, TensorCollection | Leaf) else []
    return [base for base in cls.__mro__ if base in public] + shared


def _members(cls: type) -> list[str]:
    names = dict.fromkeys(name for owner in cls.__mro__ if is_ours(owner) for name in vars(owner))
    return [name for name in own_names(cls, names) if name[0] != "_" and _needs_entry(cls, name)]


def _needs_entry(cls: type, name: str) -> bool:
    """Return whether a member is a method, property or documented attribute; fields are explained with their class."""
    member = inspect.getattr_static(cls, name)
    table = "_specs" if issubclass(cls, TensorCollection) else "__dataclass_fields__"
    if any(name in vars(owner).get(table, ()) for owner in cls.__mro__):
        return False
    is_slot = isinstance(member, MemberDescriptorType) or type(member).__name__ == "_tuplegetter"
    return hasattr(member, "__get__") and not is_slot and not isinstance(member, type)


def _same(cls: type, base: type, name: str) -> bool:
    """Return whether a class has the member of a base, or an override of it without a docstring of its own."""
    theirs = inspect.getattr_static(base, name, None)
    ours = inspect.getattr_static(cls, name)
    return theirs is not None and (ours is theirs or ours.__doc__ in (None, theirs.__doc__))


def comment(name: str) -> list[str]:
    """Return the lines of the comment (``#:``), or of the text below, that describes a constant where it is defined.

    Raises:
        ValueError: there is none.
    """
    item, last = public_names()[name], name.rpartition(".")[2]
    for module in list(sys.modules.values()):
        if module.__name__.partition(".")[0] != "tensorclass" or vars(module).get(last) is not item:
            continue
        if lines := ModuleAnalyzer.for_module(module.__name__).find_attr_docs().get(("", last)):
            return [line for line in lines if line]
    raise ValueError(f"{name} has no comment (#:) where it is defined")
