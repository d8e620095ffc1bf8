"""What a Python name in a page or docstring means: an entry of the reference, or a page of Python, torch or numpy.

Sphinx's Python domain knows an object only by the path under which it is described. Here every path leads to the
entry: a private module, another public name, a class that inherits the method.
"""

from __future__ import annotations

from collections.abc import Iterator

from external_pages import address, find
from public_names import NAMESPACES, canonical_names, described_members, public_names

from tensorclass import TensorCollection, TensorDict


def meanings(target: str, *, modules: tuple[str, ...] = (), cls: str = "", is_method: bool = False) -> Iterator[str]:
    """Yield the names of entries, and addresses of other sites, that a name may mean: the nearest first.

    Args:
        target: the name as it is written.
        modules: the modules in which it is looked for, before the public ones.
        cls: the class whose docstring has the name.
        is_method: the name may be a method of every collection.
    """
    for name in _full_names(target, modules, cls, is_method):
        yield name
        if described_at := _described_at(name):
            yield described_at
        if page := address(name):
            yield page


def _full_names(target: str, modules: tuple[str, ...], cls: str, is_method: bool) -> Iterator[str]:
    for module in modules:
        if cls:
            yield f"{module}.{cls}.{target}"
        yield f"{module}.{target}"
    yield target
    for namespace in NAMESPACES:
        yield f"{namespace}.{target}"
    if is_method:
        yield f"tensorclass.TensorDict.{target}"


def _described_at(name: str) -> str | None:
    """Return the name under which the object of a dotted path is described."""
    if not name.startswith("tensorclass."):
        return None
    if name in public_names():
        return canonical_names().get(id(public_names()[name]))
    item = find(name)
    if item is None:
        return None
    if id(item) in canonical_names():
        return canonical_names()[id(item)]
    if isinstance(item, type) and item in TensorCollection.__mro__ and item is not object:  # a family of its methods
        return "tensorclass.TensorCollection"
    owner, _, member = name.rpartition(".")
    cls = find(owner)
    if not isinstance(cls, type):
        return None
    for base in (*cls.__mro__, TensorDict):
        if id(base) in canonical_names() and member in described_members(base):
            return f"{canonical_names()[id(base)]}.{member}"
    return None
