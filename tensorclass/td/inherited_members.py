"""Copies of inherited members, which spare compiled functions most of their guards.

torch.compile guards each name that it looks up on an object: no class of the MRO before the owner may have it. Members
of collections belong to forty families, so that a compiled function would have up to forty guards for each method that
it calls. The classes that combine families therefore have every member themselves.
"""

from __future__ import annotations

from typing import Any

from . import native

#: classes that have copies
_with_copies: list[type] = []


def copy_inherited(cls: type) -> None:
    """Make the inherited members of a class, slots among them, its own."""
    own = vars(cls)
    for base in cls.__mro__[1:-1]:  # without object
        for name, member in vars(base).items():
            if name not in own and _is_copied(name, member):
                setattr(cls, name, member)
    _with_copies.append(cls)


def replace_member(owner: type, name: str, member: Any, *, calls_nested: bool = True) -> None:
    """Replace a member of a class, and its copies in other classes.

    Args:
        owner: the class that defines it.
        name: its name.
        member: the new one.
        calls_nested: whether nested collections have to be asked for it, too; native code then leaves collections
            that have it to Python.
    """
    before = vars(owner)[name]
    for cls in (owner, *_with_copies):
        if vars(cls).get(name) is before:
            setattr(cls, name, member)
    native.replaced(owner, name, before, member, calls_nested)


def defined_members(cls: type) -> dict[str, Any]:
    """Return the members that a class defines itself, without copies."""
    bases = cls.__mro__[1:]
    return {
        name: member for name, member in vars(cls).items() if all(vars(base).get(name) is not member for base in bases)
    }


def _is_copied(name: str, member: Any) -> bool:
    """Return whether a member is looked up on objects.

    Of plain values only constants are copied: torch.compile compares an object that it finds in two ways in Python, and
    for that copies the dict of the class.
    """
    if hasattr(member, "__get__"):
        return name not in ("__init_subclass__", "__weakref__")
    return not name.startswith("__") and (member is None or type(member) is bool)
