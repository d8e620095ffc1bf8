"""Executors that are not there for one call: those of users, and classes that derive from ``Runner``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from pickle import PicklingError
from typing import Any

import pytest

from tensorclass.distributed import Runner, WorkerDied, WorkerTimeout
from tensorclass.distributed.map import scheduler
from tests import fresh_python
from tests.checks import assert_equal
from tests.distributed import work
from tests.distributed.leftovers import nothing_left
from tests.distributed.time_outs import with_time_outs
from tests.distributed.work import rows


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    fresh_python.start()
    with nothing_left():
        yield


@pytest.fixture
def other(_nothing_left: None) -> Iterator[OtherMachine]:
    runner = OtherMachine()
    yield runner
    runner.close()


class OtherMachine(Runner):
    """A process for each task, as one of a machine that has no memory with this one in common."""

    def __init__(self) -> None:
        super().__init__("Other", 1, "machines", survives=True)
        self.tasks: list[tuple[int, int]] = []
        self._executors: list[ProcessPoolExecutor] = []

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        self.tasks.append(args[3:5])
        self.close()  # a lock that a thread of another executor holds would be held for ever in the fork
        executor = ProcessPoolExecutor(1, mp_context=get_context("fork"))
        future = executor.submit(function, *args)
        executor.shutdown(wait=False)
        self._executors.append(executor)
        return future

    def close(self) -> None:
        """Waits for the processes."""
        for executor in self._executors:
            executor.shutdown()


class DiesAt:
    """Ends its process at a row: each time, or the first time."""

    def __init__(self, row: int, flag: Path | None = None) -> None:
        self.row, self.flag = row, flag

    def __call__(self, chunk: Any) -> Any:
        if self.row in chunk.n.tolist() and (self.flag is None or not self.flag.exists()):
            if self.flag is not None:
                self.flag.touch()
            os._exit(3)
        return chunk


@pytest.fixture
def _many_chunks_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks grow, however long the first ones take on a busy machine."""
    monkeypatch.setitem(scheduler._TASK_SECONDS, "machines", 1e6)


@pytest.mark.usefixtures("_many_chunks_a_task")
def test_a_lost_task_of_many_chunks_names_all_of_them(other: OtherMachine) -> None:
    with pytest.raises(WorkerDied, match=r"Other failed .* with one of the chunks (\d+) to (\d+) of 90"):
        rows(90).map(DiesAt(70), chunksize=1, executor=other)


@pytest.mark.usefixtures("_many_chunks_a_task")
def test_of_a_lost_task_the_chunk_that_fails_is_found_in_few_tries(other: OtherMachine, tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match=r"with chunk 70 of 90 \(row 70\), as did one try before") as caught:
        rows(90).map(DiesAt(70), chunksize=1, executor=other, retries=1)
    assert (caught.value.chunk, caught.value.rows) == (70, (70, 71))
    assert max(last - first for first, last in other.tasks) > 1, "tasks of several chunks are what this is about"
    once = DiesAt(70, tmp_path / "once")
    assert_equal(rows(90).map(once, chunksize=1, executor=other, retries=1), rows(90))


def test_a_time_out_of_another_machine_says_that_nothing_came_back(other: OtherMachine) -> None:
    with pytest.raises(WorkerTimeout, match=r"chunk 0 of 1 \(rows 0 to 3\) did not come back from Other within 0.1 s"):
        rows(4).map(work.slowly, chunksize=4, executor=other, timeout=0.1)


def test_a_thread_is_named_as_its_executor_names_it() -> None:
    def check(seconds: float) -> None:
        slowly = partial(work.slowly, seconds=4 * seconds)
        with (
            ThreadPoolExecutor(1, "scorer") as threads,
            pytest.raises(WorkerTimeout, match="thread scorer_0") as caught,
        ):
            rows(4).map(slowly, chunksize=4, executor=threads, timeout=seconds)
        assert caught.value.worker == "thread scorer_0"

    with_time_outs(check, 0.1)


def test_results_in_front_of_a_chunk_that_fails_are_given_first(other: OtherMachine) -> None:
    for workers in ({"num_workers": 2}, {"executor": other}):
        options: Any = {"chunksize": 1, **workers}
        found: list[Any] = []
        with pytest.raises(WorkerDied, match="chunk 5 of 12"):
            found.extend(rows().map_iter(SlowBefore(5), **options))
        assert [int(chunk.n) for chunk in found] == [0, 1, 2, 3, 4]


class SlowBefore:
    """Takes its time for the rows in front of one where it ends its process."""

    def __init__(self, row: int) -> None:
        self.row = row

    def __call__(self, chunk: Any) -> Any:
        if int(chunk.n) == self.row:
            os._exit(3)
        if int(chunk.n) < self.row:
            time.sleep(0.1)
        return chunk


def test_a_result_that_cannot_be_sent_is_told_from_an_error_of_the_function() -> None:
    with pytest.raises(
        (AttributeError, PicklingError), match=r"the function returned a function, which cannot be sent: .*with_local"
    ):
        rows().map(work.with_local, num_workers=1, chunksize=6)


def test_an_error_that_would_end_a_generator_is_raised() -> None:
    for given in (rows().map, lambda *args, **more: list(rows().map_iter(*args, **more))):
        with pytest.raises(RuntimeError, match=r"chunk 0 of 2 .*StopIteration: of the function"):
            given(_stops, num_workers=1, chunksize=6)  # type: ignore[operator]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have notes from Python 3.11 on")
def test_the_message_of_an_error_with_notes_is_shown() -> None:
    with pytest.raises(ValueError, match=r"chunk 0 of 2 .*: ValueError: wrong") as raised:
        rows().map(_fails_with_a_note, num_workers=1, chunksize=6)
    assert "a note" in raised.value.trace  # type: ignore[attr-defined]


def _fails_with_a_note(chunk: Any) -> Any:
    error: Any = ValueError("wrong")
    error.add_note("a note")
    raise error


def _stops(chunk: Any) -> Any:
    raise StopIteration("of the function")


def test_gradients_are_not_sent_and_the_tensors_are_named() -> None:
    data = rows()
    data.x.requires_grad_()
    with pytest.raises(RuntimeError, match=r"returned a Row, which cannot be sent: .* requires a gradient"):
        data.map(work.same, chunksize=6, num_workers=1)
    assert not data.detach().map(work.tensor, chunksize=6, num_workers=1).requires_grad


def test_processes_of_a_program_without_a_guard_say_what_it_needs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\n"
        "from tests.distributed.work import rows, same\n"
        "multiprocessing.set_forkserver_preload(['tests.distributed.work'])\n"  # several processes are tried
        "rows().map(same, num_workers=1, mp_start_method='forkserver')\n"
    )
    done = fresh_python.run([program], env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])})
    assert done.returncode == 1
    last = done.stderr.strip().rpartition("\n")[2]
    assert "map: a process could not start and ended (" in last
    assert "`if __name__ == '__main__':`" in last
