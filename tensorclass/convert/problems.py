"""What is wrong with what a converter was given: all of it, in one error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from tensorclass.contracts.errors import ContractError
from tensorclass.printable import printable

#: so many problems are shown in a message; the error has all of them
_SHOWN = 20


class Problem(NamedTuple):
    """A field that cannot be made of what was given for it."""

    #: the field, below what was asked for
    path: tuple[str, ...]
    #: what the field takes
    expected: str
    #: what was given
    got: str
    #: what can be done
    hint: str = ""

    def __str__(self) -> str:
        text = f"expected {self.expected}, got {self.got}" + (f"; {self.hint}" if self.hint else "")
        return f"{shown_path(self.path)}: {text}" if self.path else text


class ConversionError(TypeError, ValueError, RuntimeError):
    """What a converter was given cannot become what was asked for. Nothing was made, and the source is untouched.

    It is a ``TypeError`` and a ``ValueError``, as errors for values of wrong types and for wrong keys are, and a
    ``RuntimeError``, as for values without the batch size in front.

    Attributes:
        what: what was asked for: ``"Sample.from_dict"``.
        problems: all offending fields, each with ``path``, ``expected``, ``got`` and ``hint``.

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
        if not count:  # a process that gets this error from a worker of a DataLoader makes it of its text
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
    """Collects what is wrong, so that one error lists every offending field."""

    __slots__ = ("contracts", "found", "left_out", "what")

    def __init__(self, what: str) -> None:
        self.what: str = what
        self.found: list[Problem] = []
        #: the errors of records whose values break contracts
        self.contracts: list[ContractError] = []
        #: keys that are no fields, and were left out as ``strict=False`` says
        self.left_out: dict[tuple[str, ...], None] = {}

    def __len__(self) -> int:
        return len(self.found) + len(self.contracts)

    def add(self, path: Sequence[str], expected: str, got: str, hint: str = "") -> None:
        """Notes a field that cannot be made: what it takes, and what was given for it."""
        self.found.append(Problem(tuple(path), expected, got, hint))

    def below(self, error: ConversionError, path: Sequence[str]) -> None:
        """Notes the problems of what was converted below a path."""
        self.found += [one._replace(path=(*path, *one.path)) for one in error.problems]

    def covers(self, path: tuple[str, ...]) -> bool:
        """Whether a problem is known of a field, of one that it is in, or of one below it."""
        broken = [one.path for error in self.contracts for one in error.broken]
        known = [one.path for one in self.found] + broken
        return any(one[: len(path)] == path[: len(one)] for one in known)

    def check(self) -> None:
        """Raises an error with all that is wrong, if anything is.

        Raises:
            ContractError: values break contracts, and nothing else is wrong.
            ConversionError: something else is.
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
        """Says in one warning which keys were left out, if any were."""
        if self.left_out:
            names = ", ".join([repr(shown_path(path)) for path in self.left_out])
            self.left_out = {}
            warnings.warn(
                f"{self.what}: left out what is no field: {names}", UserWarning, stacklevel=_levels_to_caller()
            )


def shown_path(path: Sequence[str]) -> str:
    """A path in a message: ``("[3]", "point", "x")`` is ``[3].point.x``."""
    return ".".join(map(str, path))  # a tree may have other keys than strings


def _levels_to_caller() -> int:
    """How many frames above the function that warns the code stands that called this package."""
    level, package = 1, __name__.partition(".")[0] + "."
    frame = sys._getframe(1)
    while frame.f_back is not None and f"{frame.f_globals.get('__name__', '')}.".startswith(package):
        frame, level = frame.f_back, level + 1
    return level
