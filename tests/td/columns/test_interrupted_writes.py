"""Ctrl-C at each line of a write to rows: the column has the old rows or the new ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tensorclass import Column, NonTensorStack, Ragged, TensorDict, Text
from tests.interrupting import interrupted


def _row(column: Any, row: Any) -> None:
    column[1] = row


def _rows(column: Any, row: Any) -> None:
    column[torch.tensor([0, 2])] = [row, row]


def _twice(column: Any, row: Any) -> None:
    column[1] = row
    column[1] = row


def _of_a_collection(column: Any, row: Any) -> None:
    TensorDict({"c": column}, [3])[1] = TensorDict({"c": type(column)([row])}, [1])[0]


def _copied(column: Any, row: Any) -> None:
    column.copy_(type(column)([row] * 3))


def _increased(column: Any, row: Any) -> None:
    column += 1


SOURCES: dict[str, tuple[Callable[[], Any], Any]] = {
    "text": (lambda: Text(["a", "bc", ""]), "long"),
    "ragged": (lambda: Ragged([[1], [2, 3], []]), [7, 8, 9]),
    "objects": (lambda: NonTensorStack("a", "b", "c"), "long"),
    "column": (lambda: Column([["a"], [], ["b"]], list[str]), ["x", "y"]),
}


WORKS: tuple[Any, ...] = (_row, _rows, _twice, _of_a_collection, _copied)
CASES = [(name, work) for name in SOURCES for work in WORKS] + [("ragged", _increased)]


@pytest.mark.parametrize("name, work", CASES)
def test_a_write_that_is_interrupted_leaves_rows_of_one_write(name: str, work: Any) -> None:
    make, row = SOURCES[name]
    done = make()
    work(done, row)
    before, after = make().tolist(), done.tolist()
    at = 1
    while True:
        column = make()
        shared = column[:]
        outcome = interrupted(lambda column=column: work(column, row), at)  # type: ignore[misc]
        assert column.tolist() in (before, after), outcome
        assert column.clone().tolist() in (before, after), outcome
        assert shared.tolist() == before, outcome
        column[0] = row  # and it can be written to
        assert column[:1].tolist() == [row], outcome
        if outcome.where is None:
            break
        at += 1
    assert at > 3
