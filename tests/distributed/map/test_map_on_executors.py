"""``map`` on executors that users have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.distributed import WorkerRaised
from tests.checks import assert_equal
from tests.distributed import work
from tests.distributed.work import At, rows
from tests.pools import pool_of

KINDS = ("ThreadPoolExecutor", "ProcessPoolExecutor", "Pool", "Dask")


@pytest.fixture(scope="module", params=KINDS)
def executor(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "ThreadPoolExecutor":
        with ThreadPoolExecutor(2) as threads:
            yield threads
    elif request.param == "ProcessPoolExecutor":
        with ProcessPoolExecutor(2, mp_context=get_context("fork")) as processes:
            yield processes
    elif request.param == "Pool":
        with pool_of(2, get_context("fork")) as pool:
            yield pool
    else:
        dask: Any = pytest.importorskip("distributed")
        with dask.Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address=":0") as client:
            yield client


@pytest.mark.parametrize("chunksize", [0, 1, 5])
def test_an_executor_gives_what_processes_of_the_call_give(executor: Any, chunksize: int) -> None:
    data = rows()
    assert_equal(data.map(work.plus, chunksize=chunksize, executor=executor), data.map(work.plus, num_workers=1))
    assert data.map(work.first_number, chunksize=4, executor=executor) == [0, 4, 8]
    found = list(data.map_iter(work.total, chunksize=5, executor=executor))
    assert [len(part) for part in found] == [5, 5, 2]


def test_results_of_an_executor_are_written_into_out(executor: Any) -> None:
    out = TensorDict({"x": torch.zeros(12, 2), "n": torch.zeros(12, dtype=torch.int64)}, [12])
    assert rows().map(work.plus, chunksize=5, out=out, executor=executor) is out
    assert out["x"].tolist() == (rows().x + 1).tolist()


def test_an_error_of_an_executors_worker_says_where(executor: Any) -> None:
    with pytest.raises(KeyError, match=r"chunk 1 of 3 \(rows 4 to 7\) failed in (thread|process)") as caught:
        rows().map(At(work.raises, 4), chunksize=4, executor=executor)
    assert isinstance(caught.value, WorkerRaised)


def test_options_of_workers_that_are_there_already_are_errors(executor: Any) -> None:
    for options in ({"num_workers": 2}, {"max_tasks_per_child": 2}, {"mp_start_method": "fork"}, {"worker_threads": 2}):
        with pytest.raises(ValueError, match=next(iter(options))):
            rows().map(work.same, executor=executor, **options)  # type: ignore[call-overload]


def test_threads_take_any_function_and_have_no_seeds() -> None:
    with ThreadPoolExecutor(2) as threads:
        assert set(rows().map(lambda chunk: os.getpid(), executor=threads)) == {os.getpid()}
        with pytest.raises(ValueError, match="threads share one global generator"):
            rows().map(work.same, executor=threads, generator=torch.Generator())


def test_what_is_no_executor_is_an_error() -> None:
    with pytest.raises(TypeError, match="executor: expected an executor of concurrent"):
        rows().map(work.same, executor=3)
    with ThreadPoolExecutor(1) as threads, pytest.raises(ValueError, match="a pool or an executor, got both"):
        rows().map(work.same, executor=threads, pool=threads)


FORKS = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch
from tensorclass import TensorDict

def total(part):
    return int(part["x"].sum()), torch.get_num_threads()

if __name__ == "__main__":
    torch.set_num_threads(2)
    data = TensorDict({"x": torch.ones(400_000)}, [400_000])
    data["x"].sum()  # by two threads, of which a forked process has none
    fork = get_context("fork")
    print(data.map(total, num_workers=2, worker_threads=2, mp_start_method="fork", timeout=100))
    with ProcessPoolExecutor(2, fork) as executor:
        print(data.map(total, num_chunks=2, executor=executor))
    with ProcessPoolExecutor(2, fork, torch.set_num_threads, (3,)) as executor:
        print(data[:4].map(total, num_chunks=2, executor=executor))
"""


LEFT_OPEN = """
import time
from tensorclass import TensorDict

def slow(row):
    time.sleep(0 if row["x"] == 0 else 300)
    return 5

if __name__ == "__main__":
    results = TensorDict({"x": list(range(9))}, [9]).map_iter(slow, chunksize=0, num_workers=2)
    print(next(results))
"""


def test_forked_processes_do_not_wait_for_threads_that_they_lack(tmp_path: Path) -> None:
    half = 200_000
    assert ran(tmp_path, FORKS) == [str([(half, 2)] * 2), str([(half, 1)] * 2), str([(2, 3)] * 2)]


def test_an_iteration_that_is_left_open_ends_with_the_program(tmp_path: Path) -> None:
    assert ran(tmp_path, LEFT_OPEN) == ["5"]


def ran(folder: Path, text: str) -> list[str]:
    """Run a program and return its output and errors."""
    path = folder / "program.py"
    path.write_text(text)
    given: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "start_new_session": True, "text": True}
    with subprocess.Popen([sys.executable, path], **given) as program:
        try:
            out, _ = program.communicate(timeout=120)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
    return str(out).splitlines()
