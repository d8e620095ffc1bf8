"""Workers that raise, die, hang or are killed: what the caller sees, and that nothing is left."""

from __future__ import annotations

import pickle
import random
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context, resource_tracker
from pathlib import Path
from pickle import PicklingError
from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.distributed import NotSendable, WorkerDied, WorkerError, WorkerRaised, WorkerTimeout
from tests import forkserver
from tests.checks import assert_equal
from tests.distributed import faults, work
from tests.distributed.leftovers import nothing_left
from tests.distributed.time_outs import with_time_outs
from tests.distributed.work import At, rows
from tests.pools import pool_of


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.mark.parametrize("name", sorted(name for name in faults.ROUNDS if name.startswith("map")))
def test_a_round_of_faults_leaves_nothing(name: str) -> None:
    process = get_context("fork").Process(target=_rounds, args=(name,))  # which is sent signals
    process.start()
    process.join(600)
    code = process.exitcode
    process.kill()
    process.join()
    process.close()
    assert code == 0, "its traceback is above"


def _rounds(name: str) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource_tracker.ensure_running()
    with nothing_left():
        for seed in range(2):
            faults.ROUNDS[name](random.Random(seed))


def test_an_error_is_of_its_own_class_and_says_where_it_was_raised() -> None:
    with pytest.raises(KeyError) as caught:
        rows().map(At(work.raises, 4), chunksize=3, num_workers=2)
    error: Any = caught.value
    assert isinstance(error, WorkerRaised)
    assert (error.chunk, error.rows) == (1, (3, 6))
    assert error.worker.startswith("process ")
    assert str(error).startswith(f"map: chunk 1 of 4 (rows 3 to 5) failed in {error.worker}: KeyError: 'wanted'")
    assert 'raise KeyError("wanted")' in error.trace
    assert error.trace in str(error)
    assert isinstance(error.__cause__, KeyError)
    assert error.args == ("wanted",)


def test_errors_can_be_sent_on() -> None:
    for fault in (work.raises, work.dies):
        with pytest.raises(WorkerError) as caught:
            rows().map(At(fault, 4), chunksize=3, num_workers=2)
        again = pickle.loads(pickle.dumps(caught.value))
        assert type(again) is type(caught.value)
        assert (str(again), again.worker, again.chunk) == (str(caught.value), caught.value.worker, 1)


def test_an_error_that_makes_its_arguments_of_others_is_of_its_class_too() -> None:
    with pytest.raises(work.MadeError, match="row 3: torn") as caught:
        rows().map(work.raises_made, num_workers=1)
    assert isinstance(caught.value, WorkerRaised)
    again = pickle.loads(pickle.dumps(caught.value))
    for error in (caught.value, again):
        assert (error.row, error.args, str(error)) == (3, ("row 3: torn",), str(caught.value))


def test_an_error_that_cannot_be_sent_is_told_by_its_text() -> None:
    with pytest.raises(WorkerRaised, match="OwnError: 1 and 2") as caught:
        rows().map(work.raises_own, num_workers=1)
    assert type(caught.value) is WorkerRaised
    assert "raise OwnError(1, 2)" in caught.value.trace


def test_a_function_that_ends_its_program_ends_the_call_only() -> None:
    with pytest.raises(WorkerRaised, match="SystemExit: 5"):
        rows().map(work.leaves, num_workers=1)


def test_a_result_that_cannot_be_sent_is_an_error_of_its_chunk() -> None:
    # Python 3.14 raises a PicklingError
    with pytest.raises((AttributeError, PicklingError), match=r"chunk 0 of 2 .*with_local"):
        rows().map(work.with_local, num_workers=1, chunksize=6)


def test_a_result_with_a_history_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"send data.detach\(\)"):
        rows().map(_with_history, num_workers=1)


def _with_history(chunk: Any) -> Any:
    return chunk.x * torch.ones((), requires_grad=True)


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_rows_of_a_failed_chunk_are_named(shuffle: bool) -> None:
    options = {"chunksize": 5, "num_workers": 1, "generator": torch.Generator().manual_seed(1)}
    with pytest.raises(WorkerDied) as caught:
        list(rows().map_iter(At(work.dies, 7), shuffle=shuffle, **options))  # type: ignore[arg-type]
    shown = str(caught.value)
    assert "ended with exit code 3" in shown
    assert ("rows 5 to 9" in shown) is not shuffle
    assert ("7" in shown[shown.index("rows") :]) is shuffle


def test_a_signal_that_killed_a_worker_is_named() -> None:
    with pytest.raises(WorkerDied, match=r"process \d+ was killed by SIGKILL while it worked on chunk 0 of 1"):
        rows().map(work.killed, num_workers=1)


def test_a_worker_that_hangs_is_ended_within_the_time_out() -> None:
    def check(seconds: float) -> None:
        told = rf"chunk 2 of 6 \(rows 4 to 5\) is not done after {seconds:g} s in process"
        with pytest.raises(TimeoutError, match=told) as caught:
            rows().map(At(work.hangs, 4), chunksize=2, num_workers=2, timeout=seconds)
        assert isinstance(caught.value, WorkerTimeout)

    with_time_outs(check, 1.0)


def test_the_time_out_is_that_of_a_chunk() -> None:
    def check(seconds: float) -> None:  # less than all chunks take together
        function = partial(work.slowly, seconds=0.3 * seconds)
        assert rows(4).map(function, chunksize=1, num_workers=1, timeout=seconds) == [0, 1, 2, 3]

    with_time_outs(check, 0.7)


def test_a_chunk_that_fails_every_time_is_an_error_that_tells_how_often() -> None:
    with pytest.raises(WorkerDied, match="as did 2 tries before"):
        rows().map(At(work.dies), chunksize=2, num_workers=2, retries=2)


def test_results_are_given_before_a_later_chunk_fails() -> None:
    found: list[Any] = []
    with pytest.raises(WorkerDied):
        found.extend(rows().map_iter(At(work.dies, 8), chunksize=2, num_workers=1))
    assert [chunk["n"].tolist() for chunk in found][:1] in ([], [[0, 1]])


def test_out_has_the_rows_that_were_done_again(tmp_path: Path) -> None:
    data, out = rows(), TensorDict({"n": torch.zeros(12), "r": torch.zeros(12)}, [12]).share_memory_()
    generator = torch.Generator()
    options = {"chunksize": 2, "num_workers": 2, "retries": 1}
    flag = tmp_path / "flag"
    data.map(At(work.killed, 4, flag), out=out, generator=generator.manual_seed(1), **options)  # type: ignore[call-overload]
    assert flag.exists()
    want = data.map(At(work.killed, 4, flag), generator=generator.manual_seed(1), **options)  # type: ignore[call-overload]
    assert out["n"].tolist() == list(range(12))
    assert torch.equal(out["r"], want["r"])


def test_a_function_that_cannot_be_sent_is_an_error_that_says_what_to_do() -> None:
    with pool_of(1, get_context("fork")) as pool:
        for options in ({"mp_start_method": "spawn"}, {"pool": pool}):
            with pytest.raises(NotSendable, match="Define it at the top level of a module") as caught:
                rows().map(lambda chunk: chunk, **options)  # type: ignore[call-overload]
            assert isinstance(caught.value, (TypeError, AttributeError, pickle.PicklingError))


def test_an_executor_that_is_broken_is_told() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as executor:
        with pytest.raises(WorkerDied, match=r"process \d+ ended with exit code 3 while it worked on chunk 2"):
            rows().map(At(work.dies, 4), chunksize=2, executor=executor, retries=3)
        with pytest.raises(WorkerDied, match="before it began"):
            rows().map(work.same, executor=executor)


def test_a_pool_goes_on_without_the_worker_that_died(tmp_path: Path) -> None:
    # processes of the fork server: a pool replaces those that end out of a thread, and a fork of this process out of a
    # thread, with all that other tests have loaded, can crash in the fork itself
    with pool_of(2, forkserver.context(), has_lost_tasks=True) as pool:
        found = rows().map(At(work.killed, 4, tmp_path / "flag"), chunksize=2, pool=pool, retries=1)
        assert found["n"].tolist() == list(range(12))
        with pytest.raises(WorkerDied, match=r"process \d+ ended while it worked on chunk 2"):
            rows().map(At(work.killed, 4), chunksize=2, pool=pool)


def test_a_thread_that_hangs_is_told_and_left() -> None:
    def check(seconds: float) -> None:
        free = threading.Event()
        with ThreadPoolExecutor(1) as executor:
            try:
                with pytest.raises(WorkerTimeout, match=rf"chunk 0 of 2 .* is not done after {seconds:g} s in thread"):
                    rows().map(lambda chunk: free.wait(200), chunksize=6, executor=executor, timeout=seconds)
            finally:
                free.set()

    with_time_outs(check, 0.2)


def test_what_a_program_does_before_it_ends_its_workers_do_not() -> None:
    before = signal.signal(signal.SIGTERM, lambda number, frame: None)
    try:
        with pytest.raises(WorkerDied, match="was killed by SIGTERM"):
            rows().map(At(work.is_asked_to_end, 4), chunksize=3, num_workers=2, mp_start_method="fork")
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupt_reaches_the_handler_that_was_there() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
        timer.start()
        assert_equal(rows().map(work.same, chunksize=1, num_workers=2), rows())
        timer.join()
        assert signal.getsignal(signal.SIGINT) is not before
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]
