"""Names in files and tables. A field of a record can have another name there than in Python: ``field(name=...)``.

Writers ask :func:`stored_name` for each key, readers :func:`field_name`. Readers accept the name in Python as well, so
that files that were written before a field got its name are still read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from .collection import Collection

V = TypeVar("V")


class StoredNames(NamedTuple):
    """The fields of a class that have another name in files and tables."""

    #: the name in files of each of these fields
    of_fields: Mapping[str, str]
    #: the field of each name
    fields: Mapping[str, str]

    @classmethod
    def of(cls, owner: str, names: Mapping[str, str]) -> StoredNames | None:
        """Return the names of a class; ``None`` if all fields have their own.

        Args:
            owner: the name of the class, for errors.
            names: the name in files of each field.

        Raises:
            ValueError: two fields have the same name.
        """
        if all(field == name for field, name in names.items()):
            return None
        fields: dict[str, str] = {}
        for field, name in names.items():
            other = fields.setdefault(name, field)
            if other != field:
                raise ValueError(
                    f"{owner}: the fields {other!r} and {field!r} would both be called {name!r} in files and tables; "
                    "give one of them another name: field(name=...)"
                )
        return cls({field: name for field, name in names.items() if field != name}, fields)


def stored_name(cls: type[Collection], key: str) -> str:
    """Return the name in files of a key of collections of a class."""
    names = cls._stored_names
    return key if names is None else names.of_fields.get(key, key)


def field_name(cls: type[Collection], name: str) -> str:
    """Return the key of a name in files. A name that no field has in files is a key already."""
    names = cls._stored_names
    return name if names is None else names.fields.get(name, name)


def shown_names(cls: type[Collection], keys: Iterable[str]) -> list[str]:
    """Return keys for a message, with their names in files where these differ."""
    named = [(key, stored_name(cls, key)) for key in keys]
    return [repr(key) if key == name else f"{key!r} (stored as {name!r})" for key, name in named]


def is_stored_only(cls: type[Collection], name: str) -> bool:
    """Return whether a name is that of a field in files and tables alone, and no key of the class."""
    names = cls._stored_names
    return names is not None and name in names.fields and name not in names.fields.values()


def field_hint(cls: type[Collection], name: str) -> str:
    """Return the end of a message about a name that is that of a field in files alone; empty for others."""
    if not is_stored_only(cls, name):
        return ""
    return f"; {name!r} is the name of the field {field_name(cls, name)!r} in files and tables"


def all_names(cls: type[Collection], keys: Iterable[str]) -> list[str]:
    """Return keys, and their names in files."""
    listed = list(keys)
    return list(dict.fromkeys([*listed, *(stored_name(cls, key) for key in listed)]))


def by_field(cls: type[Collection], values: Mapping[str, V]) -> tuple[Mapping[str, V], list[tuple[str, str, str]]]:
    """Return values by key in place of values by name in files.

    Also returns (key, name, other name) for each key that two names stand for; the first one has been taken.
    """
    if cls._stored_names is None:
        return values, []
    names: dict[str, str] = {}
    twice: list[tuple[str, str, str]] = []
    for name in values:
        key = field_name(cls, name)
        if names.setdefault(key, name) != name:
            twice.append((key, names[key], name))
    return {key: values[name] for key, name in names.items()}, twice


def has_stored_names(data: Collection) -> bool:
    """Return whether a field of a collection, or of one nested in it, has another name in files."""
    tree: Any = data
    return any(node._stored_names is not None for node in tree._all_nodes())


def stored_path(data: Any, path: Iterable[str]) -> tuple[str, ...]:
    """Return the names in files of a nested key."""
    names: list[str] = []
    for key in path:
        cls: Any = type(data) if isinstance(data, Collection) else None
        names.append(key if cls is None else stored_name(cls, key))
        data = None if cls is None else data._store.get(key)
    return tuple(names)


def key_path(data: Any, names: Iterable[str]) -> tuple[str, ...]:
    """Return the nested key of names in files: the inverse of :func:`stored_path`."""
    path: list[str] = []
    for name in names:
        cls: Any = type(data) if isinstance(data, Collection) else None
        path.append(name if cls is None else field_name(cls, name))
        data = None if cls is None else data._store.get(path[-1])
    return tuple(path)
