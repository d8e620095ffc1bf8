"""Calls with several mistakes, of which each library tells another one first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests import strategies as draw
from tests.parity.drawn import Arguments, Drawn, Made
from tests.parity.operations import OPERATIONS, name_of
from tests.parity.sides import OURS, PEER, Raised, Seen, described, outcome

#: take keys one by one, collections in a list, or values of a source, any of which can be left out without a mistake
KEYS = ("stack_tensors", "cat_tensors", "select", "exclude", "separates")
LISTS = ("stack", "cat", "lazy_stack", "maybe_dense_stack", "extend")
ROWS = ("__setitem__", "update_at_")
SOURCES = ("update", "update_", "update_at_", "replace", "merge_tensordicts", "rename_keys")


def without_one(items: Any) -> Iterator[Any]:
    return (type(items)([*items[:i], *items[i + 1 :]]) for i in range(len(items)))


def with_fewer_keys(entries: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    for key, entry in entries.items():
        yield {other: entries[other] for other in entries if other != key}
        if isinstance(entry, draw.Tree):
            for below in with_fewer_keys(entry.entries):
                yield {**entries, key: replace(entry, entries=below)}


def smaller(name: str, args: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The arguments of a call without one of its parts."""
    if name in ROWS and args and isinstance(args[0], Made) and args[0].size:
        yield replace(args[0], size=()), *args[1:]  # rows that fit any index
    if name in KEYS:
        yield from without_one(args)
    elif name in LISTS and args and isinstance(args[0], list):
        yield from ((less, *args[1:]) for less in without_one(args[0]))
    elif name in SOURCES and args and isinstance(args[0], dict):
        yield from ((less, *args[1:]) for less in with_fewer_keys(args[0]))
    elif name in SOURCES and args and isinstance(args[0], Made) and isinstance(args[0].entry, draw.Tree):
        made, entry = args[0], args[0].entry
        for entries in with_fewer_keys(entry.entries):
            yield replace(made, entry=replace(entry, entries=entries)), *args[1:]


def told(case: str, drawn: Drawn, arguments: Arguments, library: Any, mistake: Raised) -> bool:
    """Whether a library tells a mistake of a call, by the class of its error, without one or two parts of the call."""
    name = name_of(case).removesuffix("()")

    def call(args: tuple[Any, ...]) -> Any:
        return OPERATIONS[case](case, drawn.build(library), library, replace(arguments, args=args))

    calls = [*smaller(name, arguments.args)]
    calls += [less for args in calls for less in smaller(name, args)]
    return any(described(outcome(lambda args=args: call(args))) == mistake for args in calls)


def several_mistakes(case: str, drawn: Drawn, arguments: Arguments, ours: Seen, theirs: Seen) -> bool:
    """Whether a call has a second mistake: what one side tells of it is what the other tells of a smaller call."""
    if not isinstance(ours.result, Raised) or not isinstance(theirs.result, Raised):
        return False
    return told(case, drawn, arguments, OURS, theirs.result) or told(case, drawn, arguments, PEER, ours.result)
