"""Collect all problems of a conversion, and raise them as one error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tensorclass.contracts.contract_error import ContractError
from tensorclass.support.nearest import did_you_mean
from tensorclass.support.printable import printable

#: number of problems in the message; the error has all of them
_SHOWN = 20


class Problem(NamedTuple):
    """One problem of a field."""

    #: key of the field
    path: tuple[str, ...]
    #: the type or values that the field takes
    expected: str
    #: the value that came, in words
    got: str
    #: advice
    hint: str = ""
    #: the name of the field in the table, if it is another one
    column: str = ""

    def __str__(self) -> str:
        text = f"expected {self.expected}, got {self.got}" + (f"; {self.hint}" if self.hint else "")
        column = f" (column {self.column!r})" if self.column else ""
        return f"{shown_path(self.path)}{column}: {text}" if self.path else text


class ConversionError(TypeError, ValueError, RuntimeError):
    """The source of a conversion does not fit. Nothing was made, and the source is unchanged.

    It is a ``TypeError`` and a ``ValueError``, as errors for values of wrong types and for wrong keys are, and a
    ``RuntimeError``, as for values without the batch size in front.

    Attributes:
        what: what was asked for: ``"Sample.from_dict"``.
        problems: all offending fields, each with ``path``, ``expected``, ``got``, ``hint``, and ``column``: its name
            in the table, if that is another one.

    Example:
        >>> from tensorclass import ConversionError, TensorClass
        >>> class Sample(TensorClass):
        ...     label: str
        ...     score: float
        >>> try:
        ...     Sample.from_dict({"label": 3})
        ... except ConversionError as error:
        ...     print(error)
        Sample.from_dict: 2 problems; nothing was made
          label: expected str, got int 3
          score: expected float, got nothing: there is no such key
    """

    def __init__(self, what: str, problems: Iterable[Problem] = ()) -> None:
        self.what: str = what
        self.problems: tuple[Problem, ...] = tuple(problems)
        count = len(self.problems)
        if not count:  # unpickling an error of a DataLoader worker passes only its text
            message = what
        elif count == 1:
            message = f"{what}: {self.problems[0]}"
        else:
            lines = [f"{what}: {count} problems; nothing was made", *[f"  {one}" for one in self.problems[:_SHOWN]]]
            if count > _SHOWN:
                lines.append(f"  ... and {count - _SHOWN} more, which are in the attribute problems of this error")
            message = "\n".join(lines)
        super().__init__(printable(message, lines=True))

    def __reduce__(self) -> Any:
        return type(self), (self.what, self.problems)


class Problems:
    """Collects problems, so that one error lists every offending field."""

    __slots__ = ("columns", "contracts", "found", "left_out", "what")

    def __init__(self, what: str) -> None:
        self.what: str = what
        self.found: list[Problem] = []
        #: errors of records whose values break contracts
        self.contracts: list[ContractError] = []
        #: keys that are no fields, left out by ``strict=False``
        self.left_out: dict[tuple[str, ...], None] = {}
        #: names of columns that differ from the last key of the path
        self.columns: dict[tuple[str, ...], str] = {}

    def __len__(self) -> int:
        return len(self.found) + len(self.contracts)

    def add(self, path: Sequence[str], expected: str, got: str, hint: str = "") -> None:
        """Note a problem of a field."""
        self.found.append(Problem(tuple(path), expected, got, hint, self.columns.get(tuple(path), "")))

    def add_unknown(self, path: Sequence[str], expected: str, got: str, known: Iterable[str], hint: str = "") -> None:
        """Note a name that is none of the known ones. The first notes of an error name the nearest one."""
        near = did_you_mean(path[-1], known) if len(self.found) < _SHOWN else ""
        self.add(path, expected, got + ("" if hint else near), hint + near if hint else "")

    def below(self, error: ConversionError, path: Sequence[str]) -> None:
        """Note the problems of a nested conversion."""
        self.found += [one._replace(path=(*path, *one.path)) for one in error.problems]

    def covers(self, path: tuple[str, ...]) -> bool:
        """Return whether a problem of the field is noted, or of one above or below it."""
        broken = [one.path for error in self.contracts for one in error.broken]
        known = [one.path for one in self.found] + broken
        return any(one[: len(path)] == path[: len(one)] for one in known)

    def check(self) -> None:
        """Raise an error that lists all problems, if there are any.

        Raises:
            ContractError: values break contracts, and nothing else is wrong.
            ConversionError: something else is wrong.
        """
        if not self:
            return
        if not self.found and len(self.contracts) == 1:
            raise self.contracts[0]
        broken = [one for error in self.contracts for one in error.broken]
        if not self.found:
            raise ContractError("", broken, self.contracts[0].hint)
        of_contracts = [Problem(one.path, one.expected, one.got, one.why) for one in broken]
        raise ConversionError(self.what, self.found + of_contracts)

    def warn(self) -> None:
        """Warn of keys that were left out, in one warning."""
        if self.left_out:
            names = ", ".join([repr(shown_path(path)) for path in self.left_out])
            self.left_out = {}
            warnings.warn(
                f"{self.what}: left out what is no field: {names}", UserWarning, stacklevel=_levels_to_caller()
            )


def shown_path(path: Sequence[str]) -> str:
    """Return a path in messages: ``("[3]", "point", "x")`` is ``[3].point.x``."""
    return ".".join(map(str, path))  # pytrees may have keys that are not strings


def _levels_to_caller() -> int:
    """Return the stack level of the code that called this package, for ``warnings.warn``."""
    level, package = 1, __name__.partition(".")[0] + "."
    frame = sys._getframe(1)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith(package):
        frame, level = frame.f_back, level + 1
    return level
