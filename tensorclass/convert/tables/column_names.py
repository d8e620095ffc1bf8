"""Names of columns, and the keys that they stand for: ``field(name=...)``, ``rename=`` and separators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tensorclass.convert.conversion_errors import Problems
from tensorclass.convert.conversion_targets import entry_target, target_class
from tensorclass.td.base import TensorCollection
from tensorclass.td.stored_names import by_field, field_name, has_stored_names, stored_name
from tensorclass.td.tensordict import TensorDict

Path = tuple[str, ...]


def named_items(data: TensorCollection) -> Iterable[tuple[str, Any]]:
    """Return the values of a collection by the names of their columns."""
    cls = type(data)
    items: Iterable[tuple[str, Any]] = data._items_for_export(False)
    if cls._stored_names is None:
        return items
    return [(stored_name(cls, key), value) for key, value in items]


def flattened(data: TensorCollection, separator: str) -> Any:
    """Return a collection whose keys are the names of nested columns, joined by a separator."""
    named: Any = _with_stored_names(data) if has_stored_names(data) else data
    return TensorCollection.flatten_keys(named, separator)


def _with_stored_names(data: Any) -> Any:
    """Return an untyped collection with the names of columns as its keys."""
    if not data._holds_values():
        return data._with_parts([_with_stored_names(part) for part in data._store.items_])
    store = {
        name: _with_stored_names(value) if isinstance(value, TensorCollection) and value._is_tree() else value
        for name, value in named_items(data)
    }
    return TensorDict._of(data, store)


def key_of_columns(cls: type[TensorCollection], names: Iterable[str]) -> Path:
    """Return the key of the values in a (nested) column, for a class. Names that are no fields stay.

    >>> import torch
    >>> from tensorclass import TensorClass, TensorDict, field
    >>> class Sample(TensorClass):
    ...     part: torch.Tensor = field(name="split")
    >>> key_of_columns(Sample, ["split"]), key_of_columns(TensorDict, ["split"])
    (('part',), ('split',))
    """
    path: list[str] = []
    owner: Any = cls
    for name in names:
        holder: Any = owner if isinstance(owner, type) and issubclass(owner, TensorCollection) else None
        path.append(name if holder is None else field_name(target_class(holder), name))
        owner = None if holder is None else entry_target(holder, path[-1])
    return tuple(path)


def keys_of_columns(
    cls: type[TensorCollection], columns: Mapping[str, Any], path: Path, problems: Problems
) -> Mapping[str, Any]:
    """Return columns by key in place of columns by name. Notes keys for which there are two columns."""
    found, twice = by_field(cls, columns)
    for key, name, other in twice:
        note_two_columns(problems, (*path, key), name, other)
    if found is not columns:
        for name in columns:
            note_name(problems, (*path, field_name(cls, name)), name)
    return found


def note_name(problems: Problems, path: Path, name: str) -> None:
    """Let messages about a key tell the name of its column."""
    if path[-1:] != (name,):
        problems.columns[path] = name


def note_two_columns(problems: Problems, path: Path, name: str, other: str) -> None:
    """Note that there are two columns for a key."""
    problems.columns.pop(path, None)
    problems.add(path, "one column", f"two, {name!r} and {other!r}", "leave one of them out")


def renamed_columns(
    columns: Mapping[str, Any], rename: Mapping[str, str] | None, problems: Problems
) -> Mapping[str, Any]:
    """Return columns by the names that ``rename`` gives them. Notes names that no column has, or that two have."""
    if not rename:
        return columns
    check_renamed(columns, rename, problems)
    made: dict[str, Any] = {}
    for name, column in columns.items():
        new = rename.get(name, name)
        if new in made:
            other = next(one for one in columns if rename.get(one, one) == new)
            note_two_columns(problems, (new,), other, name)
        made[new] = column
    return made


def check_renamed(names: Iterable[str], rename: Mapping[str, str] | None, problems: Problems) -> None:
    """Note names in ``rename`` that no column has."""
    known = list(dict.fromkeys(names))
    for name in rename or ():
        if name not in known:
            problems.add((name,), f"one of the columns {known}", "a name that is none of them", "see rename=")


def split_name(name: str, separator: str | None, rename: Mapping[str, str] | None = None) -> Sequence[str]:
    """Return the names that a column name consists of."""
    new = (rename or {}).get(name, name)
    return [new] if separator is None else new.split(separator)
