"""Records that do not fit into shared memory: an error where the record was to come, and nothing that waits for it."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from traceback import clear_frames
from typing import Any

import pytest
import torch
import torch.multiprocessing

from tensorclass import DataLoader, MemoryMappedTensor, TensorDict
from tensorclass.distributed import NoSharedMemory, WorkerRaised
from tensorclass.distributed.shared_pickle import SMALL
from tensorclass.td.memory import shared_memory
from tests.distributed.leftovers import nothing_left
from tests.pools import pool_of

SECONDS = 120  #: that nothing here takes
LIMIT = (
    2 * SMALL
)  #: bytes of the largest file, and so of the largest piece of shared memory, in the processes of a test
FORK: Any = torch.multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    with nothing_left():
        yield


def little_memory(worker: int = 0) -> None:
    """Lets this process have small pieces of shared memory alone, as a small ``/dev/shm`` does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
    torch.set_num_threads(1)


def rows(large: int) -> list[TensorDict]:
    """Six rows, of which two are a batch that is too large for the processes here."""
    sizes = [LIMIT if at // 2 == large else SMALL // 4 for at in range(6)]
    return [TensorDict({"x": torch.full((size,), float(at))}) for at, size in enumerate(sizes)]


class Named:
    """Puts a batch below a name, as functions that collate do."""

    def __call__(self, batch: list[TensorDict]) -> dict[str, Any]:
        return {"rows": torch.stack(batch), "count": len(batch)}


def as_it_is(batch: list[TensorDict]) -> Any:
    return torch.stack(batch)


def test_a_data_loader_raises_for_the_batch_that_does_not_fit() -> None:
    data = rows(large=2)
    loader: Any = DataLoader(
        data, batch_size=2, num_workers=2, collate_fn=as_it_is, worker_init_fn=little_memory, timeout=SECONDS
    )
    came: list[Any] = []
    for part in (iterator := iter(loader)):
        came.append(part["x"][0, 0].item() if part.batch_size == (2,) else None)
        if len(came) == 2:
            break
    with pytest.raises(
        NoSharedMemory, match=r"DataLoader worker process 0(.|\n)*shared memory for .*/dev/shm has"
    ) as caught:
        next(iterator)
    assert came == [0.0, 2.0]
    for text in ("--shm-size", "num_workers=0", "prefetch_factor"):
        assert text in str(caught.value)
    assert list(iterator) == []
    del iterator


def test_a_batch_below_a_name_raises_as_well() -> None:
    data = rows(large=2)
    loader: Any = DataLoader(
        data, batch_size=2, num_workers=1, collate_fn=Named(), worker_init_fn=little_memory, timeout=SECONDS
    )
    with pytest.raises(
        NoSharedMemory, match=r"DataLoader worker process 0.*could not send a .*shared memory"
    ) as caught:
        list(loader)
    assert isinstance(caught.value, WorkerRaised)
    clear_frames(caught.tb)  # the iterator is free now: as garbage in a cycle it would wait 5 s for its worker


def _put(queue: Any, kinds: list[str]) -> None:
    little_memory()
    for kind in kinds:
        queue.put({"kind": kind, "data": PUT[kind]()})


def _with_history() -> TensorDict:
    return TensorDict({"x": torch.rand(3, requires_grad=True) * 2}, [3])


def _with_function() -> TensorDict:
    return TensorDict({"x": torch.rand(3), "f": lambda: 0}, [3])


PUT: dict[str, Callable[[], Any]] = {
    "small": lambda: TensorDict({"x": torch.ones(3)}, [3]),
    "large": lambda: TensorDict({"x": torch.ones(LIMIT)}, [LIMIT]),
    "history": _with_history,
    "function": _with_function,
}
#: what is raised in place of what cannot be sent
RAISED: dict[str, tuple[type[Exception], str]] = {
    "large": (NoSharedMemory, r"process \d+ could not send a TensorDict: .*there is no shared memory for 1\.05 MB"),
    "history": (RuntimeError, r"process \d+ could not send a TensorDict: .*send data.detach\(\)"),
    "function": (WorkerRaised, r"process \d+ could not send a TensorDict: .*lambda"),
}


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue"])
def test_a_queue_raises_in_place_of_what_cannot_be_sent(kind: str) -> None:
    sent = ["small", "large", "history", "small", "function", "small"]
    queue = getattr(FORK, kind)()
    process = FORK.Process(target=_put, args=(queue, sent))
    process.start()
    for name in sent:
        if name in RAISED:
            error, text = RAISED[name]
            with pytest.raises(error, match=text):
                queue.get(timeout=SECONDS)
        else:
            found = queue.get(timeout=SECONDS)
            assert found["kind"] == name
            assert found["data"]["x"].tolist() == [1.0, 1.0, 1.0]
        if kind == "JoinableQueue":
            queue.task_done()
    process.join(SECONDS)
    assert process.exitcode == 0
    process.close()
    queue.close()
    queue.join_thread()


def _put_without_files(queue: Any, kept: Any) -> None:
    data = TensorDict({"x": torch.ones(4)}, [4]).share_memory_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.multiprocessing.reductions.multiprocessing.reduction.DupFd", _no_file)
        queue.put(data)
        kept.recv()
    queue.put(data)
    kept.recv()


def _no_file(*args: Any) -> Any:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_what_fails_behind_a_record_in_the_queue_is_raised_too() -> None:
    """Opening a file for memory that is shared already is part of sending it."""
    queue, (ours, theirs) = FORK.Queue(), FORK.Pipe()
    process = FORK.Process(target=_put_without_files, args=(queue, theirs))
    process.start()
    with pytest.raises(OSError, match=r"could not send a TensorDict: .*Too many open files"):
        queue.get(timeout=SECONDS)
    ours.send(None)
    assert queue.get(timeout=SECONDS)["x"].tolist() == [1.0] * 4
    ours.send(None)
    process.join(SECONDS)
    process.close()
    ours.close()
    theirs.close()
    queue.close()
    queue.join_thread()


def _large(_: Any = None) -> TensorDict:
    little_memory()
    return PUT["large"]()  # type: ignore[no-any-return]


def _first(data: TensorDict) -> float:
    little_memory()
    return data["x"][0].item()


def test_executors_pools_and_pipes_raise_as_they_do_for_any_error() -> None:
    with ProcessPoolExecutor(1, mp_context=FORK) as executor:
        with pytest.raises(NoSharedMemory):
            executor.submit(_large).result(SECONDS)
        assert executor.submit(_first, PUT["small"]()).result(SECONDS) == 1.0
    with pool_of(1, FORK) as pool, pytest.raises(Exception, match="there is no shared memory"):
        pool.apply_async(_large).get(SECONDS)


def test_map_says_which_result_does_not_fit() -> None:
    data = TensorDict({"x": torch.arange(4.0)}, [4])
    with pytest.raises(NoSharedMemory, match=r"map: chunk \d of 2 .*cannot be sent: .*there is no shared memory"):
        data.map(_large, num_workers=2)
    with (
        ProcessPoolExecutor(2, mp_context=FORK) as executor,
        pytest.raises(NoSharedMemory, match=r"map: chunk \d of 2 .*cannot be sent"),
    ):
        data.map(_large, executor=executor)


def _in_small_memory(pipe: Any) -> None:
    little_memory()
    errors: list[str] = []
    data = PUT["large"]()
    for call in (
        data.share_memory_,
        lambda: data.map(_first, num_workers=1),
        lambda: data.consolidate(share_memory=True),
        lambda: MemoryMappedTensor.zeros((LIMIT,)),
    ):
        try:
            call()
            errors.append("no error")
        except NoSharedMemory as error:
            errors.append(str(error))
    pipe.send((errors, data.is_locked, data["x"].sum().item()))


def test_all_that_takes_shared_memory_raises_the_same_error() -> None:
    here, there = FORK.Pipe()
    process = FORK.Process(target=_in_small_memory, args=(there,))
    process.start()
    assert here.poll(SECONDS)
    errors, is_locked, total = here.recv()
    process.join()
    process.close()
    here.close()
    there.close()
    assert len(errors) == 4
    assert all(error.startswith("there is no shared memory for 1.05 MB: ") for error in errors), errors
    assert not is_locked
    assert total == LIMIT


def test_open_files_that_are_used_up_are_no_lack_of_memory() -> None:
    torchs = RuntimeError(
        "unable to open shared memory object </torch_1_2_0> in read-write mode: Too many open files (24)"
    )
    explained = shared_memory._explained(torchs, 5000)
    assert "no open file is left for 5 KB of shared memory" in str(explained)
    assert "ulimit -n" in str(explained)
    assert shared_memory._explained(RuntimeError("something else (28)"), 5000) is None


def test_tensors_of_which_some_do_not_fit_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(shared_memory._FOLDER)
    room = [real.f_bsize, 4096, 16, 3, 3, *real[5:]]
    monkeypatch.setattr(shared_memory.os, "statvfs", lambda path: os.statvfs_result(room))
    data = TensorDict({"a": torch.ones(1024), "below": {"b": torch.ones(1024), "same": torch.ones(1)}})
    data["below", "same"] = data["below", "b"][3:]
    TensorDict(data).share_memory_()
    data = TensorDict({"a": torch.ones(1024), "below": {"b": torch.ones(4096)}})
    with pytest.raises(NoSharedMemory, match=r"memory for 20\.5 KB: No space left on device; .* 12\.3 KB are free"):
        data.share_memory_()
    assert not data["a"].is_shared()
    assert not data.is_locked


def _with_few_files(pipe: Any) -> None:
    data = TensorDict({f"f{at}": torch.ones(2) for at in range(8)})
    limit = len(os.listdir("/proc/self/fd")) + 4
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    try:
        data.share_memory_()
    except NoSharedMemory as error:
        pipe.send((str(error), any(value.is_shared() for value in data.values()), data.is_locked))


def test_tensors_for_which_too_few_files_can_be_opened_stay_where_they_are() -> None:
    here, there = FORK.Pipe()
    process = FORK.Process(target=_with_few_files, args=(there,))
    process.start()
    there.close()
    assert here.poll(SECONDS)
    error, is_shared, is_locked = here.recv()
    process.join()
    process.close()
    here.close()
    assert error.startswith("no open file is left for 64 bytes of shared memory")
    assert not is_shared
    assert not is_locked


MOUNTED = """
import torch, tensorclass, tensorclass.distributed
if __name__ == "__main__":
    data = tensorclass.TensorDict({"x": torch.ones(8, 2**18)}, [8])
    try:
        loader = tensorclass.DataLoader(data, batch_size=4, num_workers=2, timeout=120, multiprocessing_context="fork")
        for batch in loader:
            print("came", len(batch))
    except tensorclass.distributed.NoSharedMemory as error:
        print(error)
"""


def test_a_small_dev_shm_is_named_with_its_size() -> None:
    begin = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=2m tmpfs /dev/shm && exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*begin, "true"], capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    done = subprocess.run([*begin, sys.executable, "-c", MOUNTED], capture_output=True, text=True, timeout=2 * SECONDS)
    assert "there is no shared memory for 4.19 MB: No space left on device" in done.stdout, done.stderr
    assert "/dev/shm has 2.1 MB, of which" in done.stdout
