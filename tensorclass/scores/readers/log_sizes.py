"""Limits of size: what is larger is an error rather than a reason to run out of memory, or a zip bomb."""

from __future__ import annotations

import os
from typing import Final

from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["LARGEST_DOCUMENT", "LONGEST_LINE", "VARIABLE", "most_unpacked", "raised", "too_large"]

LONGEST_LINE: Final[int] = 256 * 1024**2
"""The most bytes of a line."""

LARGEST_DOCUMENT: Final[int] = 2 * 1024**3
"""The most bytes of what is read whole: a JSON document, a JSON array, a sample in an archive."""

VARIABLE: Final = "TENSORCLASS_LARGEST_LOG"
"""The environment variable that raises the limits to a number of bytes."""

_UNPACKED, _TIMES_PACKED = 256 * 1024**2, 200  # logs take a tenth or a fiftieth when compressed; bombs a thousandth


def raised(limit: int) -> int:
    """Return a limit, or the bytes that the environment variable allows if they are more.

    Raises:
        ScoreFileError: the variable holds no number.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        return limit
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise ScoreFileError(VARIABLE, None, f"expected a number of bytes in this environment variable, got {given!r}")
    return max(limit, int(given))


def most_unpacked(packed: int) -> int:
    """Return how many bytes a file or member that takes so many bytes compressed may have."""
    return raised(_UNPACKED + _TIMES_PACKED * packed)


def too_large(name: str, line: int | None, problem: str, size: int | None = None) -> ScoreFileError:
    """Return the error for what is beyond a limit.

    Args:
        name: the file, for the error.
        line: the line, if there is one.
        problem: the size and the limit.
        size: the bytes to allow, if they are known.
    """
    allowed = f"{VARIABLE}={size}" if size is not None else f"{VARIABLE} to the bytes that it may have"
    return ScoreFileError(name, line, f"{problem}; if it is right, set the environment variable {allowed}")
