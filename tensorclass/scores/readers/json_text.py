"""JSON as Python writes and reads it, with errors that say what is wrong."""

from __future__ import annotations

import json
import sys

__all__ = ["BOM", "json_problem", "python_json"]

BOM = b"\xef\xbb\xbf"


def python_json(content: bytes | str) -> object:
    """Parse JSON, as text or in UTF-8, with NaN, Infinity and halves of surrogate pairs. A byte order mark is skipped.

    Raises:
        ValueError, RecursionError: the content is not JSON, or not for a computer; see :func:`json_problem`.
    """
    return json.loads(content if isinstance(content, str) else content.removeprefix(BOM).decode())


def json_problem(error: ValueError | RecursionError) -> str:
    """Describe an error of :func:`python_json`.

    Example:
        >>> try:
        ...     python_json(b'{"acc": }')
        ... except ValueError as error:
        ...     print(json_problem(error))
        not JSON at column 9: Expecting value
    """
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at column {error.colno}: {error.msg}"
    if isinstance(error, UnicodeDecodeError):
        return f"not JSON: not UTF-8 at byte {error.start + 1}"
    if isinstance(error, RecursionError):
        return "no scores: nested too deeply"
    return f"no scores: a whole number of more than {sys.get_int_max_str_digits():,} digits"
