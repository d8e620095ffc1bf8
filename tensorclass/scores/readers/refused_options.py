"""Options of reading that a format has no use for are errors: none is ignored."""

from __future__ import annotations

from collections.abc import Collection

from tensorclass.scores.readers.reader_registry import FileHead, ReadOptions
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["refuse_columns", "refuse_options"]


def refuse_options(head: FileHead, options: ReadOptions, name: str, *, roles: Collection[str] = ()) -> None:
    """Raise if an option is given that the format has no use for.

    Args:
        head: the file.
        options: how to read it.
        name: the format.
        roles: the roles of columns that the format knows.

    Raises:
        ScoreFileError: names the option.
    """
    path = str(head.path)
    if options.filter_of(None) is not None and "filter" not in roles:
        raise ScoreFileError(path, None, f"filter: expected none for {name}, got {options.filter!r}")
    if options.results is not None:
        raise ScoreFileError(path, None, f"results: expected none for {name}, got {str(options.results)!r}")
    refuse_columns(head, options, name, roles=[role for role in roles if role != "filter"])


def refuse_columns(head: FileHead, options: ReadOptions, name: str, *, roles: Collection[str] = ()) -> None:
    """Raise if a column is given for a role that the format doesn't know.

    Args:
        head: the file.
        options: how to read it.
        name: the format.
        roles: the roles that the format knows.

    Raises:
        ScoreFileError: names the role.
    """
    for role in options.columns:
        if role not in roles:
            known = ", ".join(roles) or "none"
            raise ScoreFileError(str(head.path), None, f"columns: expected roles of {name} ({known}), got {role!r}")
