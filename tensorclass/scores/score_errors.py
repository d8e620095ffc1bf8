"""Errors of score files, and of installations without the extra ``scores``."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tensorclass.support.printable import printable

__all__ = ["MissingExtraError", "ScoreFileError", "require"]


class ScoreFileError(ValueError):
    """A score file that can't be read: names the file, the line and what to do.

    Args:
        path: the file, as the caller named it.
        line: the line, counted from 1; ``None`` where no line is at fault (the file is missing).
        problem: what was expected, what came and what to do, in one sentence.

    Example:
        >>> from tensorclass.scores import ScoreFileError
        >>> print(ScoreFileError("samples.jsonl", 3, "not JSON at column 1"))
        samples.jsonl:3: not JSON at column 1
    """

    def __init__(self, path: str, line: int | None, problem: str) -> None:
        self.path = path
        self.line = line
        self.problem = problem
        place = path if line is None else f"{path}:{line}"
        super().__init__(printable(f"{place}: {problem}"))

    def __reduce__(self) -> tuple[type[ScoreFileError], tuple[str, int | None, str]]:
        return type(self), (self.path, self.line, self.problem)


class MissingExtraError(ImportError):
    """A package of the extra ``scores`` is not installed."""


def require(package: str, purpose: str) -> ModuleType:
    """The module ``package``, imported now, or an error that names the extra that holds it.

    Args:
        package: what to import, with dots where it is a submodule.
        purpose: what needs it, to begin the error with: ``"reading score files"``.

    Raises:
        MissingExtraError: the package is not installed.

    Example:
        >>> require("json", "reading score files").loads("[1]")
        [1]
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != package.partition(".")[0]:
            raise
        raise MissingExtraError(
            f"{purpose} needs the package {error.name!r}, which is not installed: pip install 'tensorclass[scores]'",
            name=error.name,
        ) from None
