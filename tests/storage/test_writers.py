"""Two writers of one path at a time: a short run of :mod:`tests.storage.writers`, and its model."""

from __future__ import annotations

import json

from tests import fresh_python
from tests.storage.writers import KINDS, WRITERS, End, State, ends

ROUNDS = 10


def test_the_result_of_two_writers_is_that_of_one_order() -> None:
    """``python -m tests.storage.writers --rounds 1000`` is the long run."""
    command = ["-W", "ignore", "-m", "tests.storage.writers", "--rounds", str(ROUNDS), "--seed", "3"]
    done = fresh_python.run(command)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["rounds"] == ROUNDS


def results(one: str, other: str, faulty: int | None = None) -> set[End]:
    steps = WRITERS[one].steps(1), WRITERS[other].steps(2)
    return ends(KINDS["folder"].start, steps, faulty)[0]


def test_the_model_has_the_orders_of_two_writers() -> None:
    zero, one, two = (0,) * 4, (1,) * 4, (2,) * 7
    fine = (False, False)
    assert results("save", "append") == {End(State(one + two), fine), End(State(one), fine)}
    assert results("append", "save again") == {
        End(State(zero + (1,) * 6), fine),
        End(State(zero), fine),
    }
    assert End(State(zero + two), fine) in results("save", "append", 0)
    assert End(State(zero, frozenset({"new2"})), (True, False)) in results("append", "make")
    assert End(State(zero + (1,) * 6), (False, True)) in results("append", "make")
    assert End(State(zero + (1,) * 6), fine) not in results("append", "make")
