"""JSON documents that are read whole, of which only the named keys are made into Python values; what is no JSON."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from tensorclass.scores.readers.unpacked_file import PACKED, opened, read_whole
from tensorclass.scores.score_errors import ScoreFileError, require

__all__ = [
    "BOM",
    "document_beside",
    "file_beside",
    "json_of_file",
    "json_problem",
    "outer_keys",
    "parsed",
    "python_json",
    "read_document",
    "shaped",
]

_Shape = TypeVar("_Shape")

BOM = b"\xef\xbb\xbf"
_TOKEN: Final = re.compile(rb'"((?:[^"\\]|\\.)*)"(\s*:)?|[\[\]{}]', re.DOTALL)


def parsed(content: bytes, shape: type[_Shape], name: str) -> _Shape:
    """Parse JSON and check its shape. Keys that the shape doesn't name are skipped without being made.

    Args:
        content: the document, UTF-8. ``NaN`` and ``Infinity``, which Python's ``json`` writes, are read as numbers.
        shape: a :class:`typing.TypedDict`, a list of them, or another type that msgspec knows.
        name: the file, for errors.

    Raises:
        ScoreFileError: not JSON, or of another shape.
        MissingExtraError: msgspec is not installed.
    """
    msgspec: Any = require("msgspec", "reading score files")
    try:
        return cast("_Shape", msgspec.json.decode(content, type=shape))
    except msgspec.ValidationError as error:
        raise _misshapen(name, None, error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _leniently(content, shape, name)


def shaped(value: object, shape: type[_Shape], name: str, line: int | None = None) -> _Shape:
    """Check the shape of parsed JSON; see :func:`parsed`.

    Args:
        value: what was parsed.
        shape: the type that it should have.
        name: the file, for errors.
        line: the line, for errors.

    Raises:
        ScoreFileError: the value is of another shape.
    """
    msgspec: Any = require("msgspec", "reading score files")
    try:
        return cast("_Shape", msgspec.convert(value, type=shape))
    except msgspec.ValidationError as error:
        raise _misshapen(name, line, error) from None
    except UnicodeEncodeError:
        raise ScoreFileError(name, line, "not JSON: a key with half of a surrogate pair") from None
    except OverflowError:
        raise ScoreFileError(name, line, "no scores: a number that is too large") from None


def _misshapen(name: str, line: int | None, error: Exception) -> ScoreFileError:
    return ScoreFileError(name, line, f"of another shape than logs of this format: {error}")


def read_document(path: Path, shape: type[_Shape], name: str | None = None) -> _Shape:
    """Read a file that holds one JSON document, compressed or not.

    Args:
        path: the file.
        shape: what to make of it; see :func:`parsed`.
        name: the file as the caller named it, for errors; by default its path.

    Raises:
        ScoreFileError: the file can't be read, is not JSON, or of another shape.
    """
    name = str(path) if name is None else name
    with opened(path, name) as (stream, _):
        content = read_whole(stream, name)
    return parsed(content, shape, name)


def outer_keys(start: bytes) -> frozenset[str]:
    """The outermost keys of a JSON object, of which only the start is there.

    Example:
        >>> sorted(outer_keys(b'{"a": {"b": "}"}, "c": [1, {"d"'))
        ['a', 'c']
    """
    depth, keys = 0, set[str]()
    for token in _TOKEN.finditer(start):
        if token[1] is not None:
            if depth == 1 and token[2] is not None:
                keys.add(token[1].decode(errors="replace"))
        else:
            depth += 1 if token[0] in (b"{", b"[") else -1
            if depth == 0:
                break
    return frozenset(keys)


def document_beside(path: Path, name: str, shape: type[_Shape]) -> tuple[Path, _Shape] | None:
    """Read the document called ``name`` in the folder of a file; None if there is none.

    Args:
        path: the file whose folder is looked at.
        name: the document's name, without ``.gz``, ``.bz2`` or ``.zst``.
        shape: what to make of it; see :func:`parsed`.

    Raises:
        ScoreFileError: it is there and can't be read.
    """
    found = file_beside(path, name)
    return None if found is None else (found, read_document(found, shape))


def file_beside(path: Path, name: str) -> Path | None:
    """The file called ``name`` in the folder of another file, compressed or not; None if there is none."""
    named = (path.with_name(name + suffix) for suffix in ("", *PACKED))
    return next((file for file in named if file.is_file()), None)


def _leniently(content: bytes, shape: type[_Shape], name: str) -> _Shape:
    return shaped(json_of_file(content, name, "; is the file complete?"), shape, name)


def json_of_file(content: bytes, name: str, hint: str = "") -> object:
    """Parse a file.

    Args:
        content: of the file.
        name: the file, for errors.
        hint: ends the error of a line.

    Raises:
        ScoreFileError: the content is no JSON.
    """
    try:
        return python_json(content)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise ScoreFileError(name, line, json_problem(error) + ("" if line is None else hint)) from None


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
