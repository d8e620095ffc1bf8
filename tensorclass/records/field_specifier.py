"""``field``: the specifier of a field of a record, as ``dataclasses.field`` with a name for files and tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

T = TypeVar("T")

#: key of the name in the metadata of a field
_NAME = "tensorclass.name"
_MISSING: Any = dataclasses.MISSING


@overload
def field(
    *,
    default: T,
    init: bool = ...,
    repr: bool = ...,
    hash: bool | None = ...,
    compare: bool = ...,
    metadata: Mapping[Any, Any] | None = ...,
    kw_only: bool = ...,
    name: str | None = ...,
) -> T: ...
@overload
def field(
    *,
    default_factory: Callable[[], T],
    init: bool = ...,
    repr: bool = ...,
    hash: bool | None = ...,
    compare: bool = ...,
    metadata: Mapping[Any, Any] | None = ...,
    kw_only: bool = ...,
    name: str | None = ...,
) -> T: ...
@overload
def field(
    *,
    init: bool = ...,
    repr: bool = ...,
    hash: bool | None = ...,
    compare: bool = ...,
    metadata: Mapping[Any, Any] | None = ...,
    kw_only: bool = ...,
    name: str | None = ...,
) -> Any: ...
def field(
    *,
    default: Any = _MISSING,
    default_factory: Any = _MISSING,
    init: bool = True,
    repr: bool = True,
    hash: bool | None = None,
    compare: bool = True,
    metadata: Mapping[Any, Any] | None = None,
    kw_only: bool = _MISSING,
    name: str | None = None,
    **unknown: Any,
) -> Any:
    """Specify a field of a record, as ``dataclasses.field`` does, and its name in files and tables.

    Args:
        default: the default value.
        default_factory: a function that makes the default value of each record.
        init: whether the constructor takes the field. Default: ``True``.
        repr: whether ``repr`` shows it. Default: ``True``.
        hash: as in ``dataclasses.field``; records cannot be hashed.
        compare: as in ``dataclasses.field``; ``==`` of records compares all fields.
        metadata: a mapping for one's own use.
        kw_only: whether the constructor takes it by keyword only.
        name: the name of the column in tables, and of the entry in files and state dicts. Default: the name of the
            field. Constructors, attributes, keys and dicts use the name of the field.

    Returns:
        The specifier, which the class turns into a field.

    Raises:
        TypeError: an argument is unknown, or the name is no text.
        ValueError: both defaults are given, or the name is empty.

    Example:
        >>> import torch
        >>> from tensorclass import TensorClass, Text, field
        >>> class Sample(TensorClass):
        ...     part: Text = field(name="split")
        ...     x: torch.Tensor
        >>> batch = Sample(["train", "test"], torch.zeros(2), batch_size=[2])
        >>> batch.part.tolist(), batch.to_arrow().column_names
        (['train', 'test'], ['split', 'x'])
    """
    if unknown:
        hint = "; the name in files and tables is name=" if {"alias", "rename", "key"} & unknown.keys() else ""
        raise TypeError(f"field() got an unexpected keyword argument {next(iter(unknown))!r}{hint}")
    if name is not None:
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"field: expected name to be the name in files and tables, a text, got {name!r}")
        if not name:
            raise ValueError("field: expected a name of at least one character, got ''")
        metadata = {**(metadata or {}), _NAME: name}
    made: Any = dataclasses.field
    return made(
        default=default, default_factory=default_factory, init=init, repr=repr, hash=hash, compare=compare,
        metadata=metadata, kw_only=kw_only,
    )  # fmt: skip


def stored_name(declared: dataclasses.Field[Any]) -> str:
    """Return the name of a field in files and tables."""
    name: str = declared.metadata.get(_NAME, declared.name)
    return name


def has_name(declared: object) -> bool:
    """Return whether the right-hand side of a declaration is a field specifier with ``name=``."""
    return isinstance(declared, dataclasses.Field) and _NAME in declared.metadata
