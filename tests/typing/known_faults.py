"""Faults of type checkers: lines of the corpus that one of them gets wrong. They count as wrong in the table.

A line that is wrong and not listed fails the tests; so does one that is listed and right by now.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class KnownFault:
    """A line that a checker gets wrong.

    Args:
        checker: its name.
        module: the module of the corpus.
        code: the line, without the spaces in front.
        why: what the checker does, in words.
        example: the smallest program that shows it.
        forms: of the two forms of records, those in which it occurs.
    """

    checker: str
    module: str
    code: str
    why: str
    example: str
    forms: tuple[str, ...] = ("subclass", "decorated")


KNOWN_FAULTS: tuple[KnownFault, ...] = ()
