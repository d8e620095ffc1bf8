"""Collections that several processes share: in shared memory, and in files."""

import gc
import os
import queue
from collections.abc import Callable, Iterator
from multiprocessing import resource_sharer
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing
from torch import Tensor

from tensorclass import TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tests import forkserver
from tests.open_files import open_segments

LIMIT = 150  # seconds, for what takes one


class Sample(TensorClass):
    x: Tensor
    below: TensorDict
    text: str


def a_record() -> Sample:
    return Sample(x=torch.zeros(3), below=TensorDict({"y": torch.zeros(3, 2)}, [3]), text="t", batch_size=[3])


def jagged() -> Tensor:
    return torch.nested.nested_tensor([torch.zeros(1), torch.zeros(2)], layout=torch.jagged)


MADE: dict[str, Callable[[], Any]] = {
    "nested": lambda: TensorDict({"a": torch.zeros(3), "b": {"c": torch.zeros(3, 2)}}, [3], names=["time"]),
    "record": a_record,
    "lazy stack": lambda: lazy_stack([TensorDict({"a": torch.zeros(2)}), TensorDict({"a": torch.zeros(3)})]),
    "jagged": lambda: TensorDict({"j": jagged()}, [2]),
    "objects": lambda: TensorDict({"a": torch.zeros(2), "rows": ["p", "q"], "one": "z"}, [2]),
    "unbatched": lambda: TensorDict({"u": UnbatchedTensor(torch.zeros(2))}, [2]),
    "strided": lambda: TensorDict({"s": torch.zeros(4, 6).t()[::2]}, [3]),
    "with nothing": lambda: TensorDict({"a": torch.zeros(3), "e": torch.zeros(3, 0)}, [3]),
}


def _total(data: Any) -> float:
    return sum(float((leaf.values() if leaf.is_nested else leaf).sum()) for leaf in data._leaves())


def _count(data: Any) -> int:
    return sum((leaf.values() if leaf.is_nested else leaf).numel() for leaf in data._leaves())


def _add_ones(inbox: Any, outbox: Any) -> None:
    """A process that adds one to all that it gets, in place, and tells what it has got."""
    for data in iter(inbox.get, None):
        for leaf in data._leaves():
            (leaf.values() if leaf.is_nested else leaf).add_(1)
        outbox.put((type(data).__name__, tuple(data.batch_size), data.is_shared(), data.is_locked, data.is_memmap()))


class Worker:
    """Another process, and the way to it."""

    def __init__(self, start: str) -> None:
        context = forkserver.context_of(start)
        self.inbox, self.outbox = context.Queue(), context.Queue()
        self.process = context.Process(target=_add_ones, args=(self.inbox, self.outbox), daemon=True)
        self.process.start()

    def ask(self, data: Any) -> Any:
        self.inbox.put(data)
        try:
            return self.outbox.get(timeout=LIMIT)
        except queue.Empty:
            raise AssertionError("the other process does not answer") from None

    def close(self) -> None:
        self.inbox.put(None)
        self.process.join(LIMIT)
        assert self.process.exitcode == 0


@pytest.fixture(scope="module", params=["fork", "forkserver"])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    made = Worker(request.param)
    yield made
    made.close()


@pytest.mark.parametrize("name", MADE)
def test_what_another_process_writes_shows_here(worker: Worker, name: str) -> None:
    data = MADE[name]().share_memory_()
    assert data.is_shared()
    assert worker.ask(data) == (type(data).__name__, tuple(data.batch_size), True, True, False)
    assert _total(data) == _count(data) > 0


def test_memory_mapped_collections_are_sent_by_the_names_of_their_files(worker: Worker, tmp_path: Path) -> None:
    data = a_record().memmap(tmp_path / "rows")
    assert worker.ask(data) == ("Sample", (3,), True, True, True)
    assert worker.ask(data[1:])[1] == (2,)
    assert data.x.tolist() == [1.0, 2.0, 2.0]
    assert Sample.load_memmap(tmp_path / "rows").x.tolist() == [1.0, 2.0, 2.0]


def test_memory_maps_without_a_file_are_shared(worker: Worker) -> None:
    data = a_record().memmap()
    assert worker.ask(data) == ("Sample", (3,), True, True, True)
    assert _total(data) == 9


def test_a_pipe_takes_collections_and_mapped_tensors_without_a_copy(tmp_path: Path) -> None:
    context: Any = torch.multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_answer, args=(there,), daemon=True)
    process.start()
    data, rows = a_record().share_memory_(), MemoryMappedTensor.zeros(3, filename=tmp_path / "rows.memmap")
    for sent in (data.x, data, rows, rows[1:]):
        here.send(sent)
        assert here.poll(LIMIT)
        assert here.recv() == "done"
    here.send(None)
    process.join(LIMIT)
    assert data.x.tolist() == [2.0, 2.0, 2.0]
    assert rows.tolist() == [1.0, 2.0, 2.0]


def _answer(pipe: Any) -> None:
    for data in iter(pipe.recv, None):
        data.add_(1)
        pipe.send("done")


def _shared_files() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith("torch_")}


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="shared memory is no folder here")
def test_no_shared_memory_is_left(worker: Worker) -> None:
    me = f"torch_{os.getpid()}_"
    files, maps = _segments()
    for _ in range(20):
        worker.ask(a_record().share_memory_())
        worker.ask(a_record().memmap())
    now_files, now_maps = _segments()
    assert not {name for name in _shared_files() if name.startswith(me)}
    assert len(now_files - files) <= 2  # the thread of the queue keeps the last record, of two tensors
    assert len(now_maps - maps) <= 2


def _segments() -> tuple[set[str], set[str]]:
    """Segments that this process has open, and those that it has mapped, once those that were sent are closed."""
    resource_sharer.stop()  # its thread sends files and closes them afterwards; the next file starts it anew
    gc.collect()
    with open("/proc/self/maps") as maps:
        return open_segments(), {line.split(maxsplit=5)[-1] for line in maps if "/dev/shm/torch_" in line}


def test_a_mapped_collection_is_shared_already_and_stays_in_its_files(tmp_path: Path) -> None:
    data = a_record().memmap(tmp_path / "rows")
    assert data.share_memory_() is data
    data.x[0] = 5.0
    assert data.is_memmap()
    assert Sample.load_memmap(tmp_path / "rows").x[0] == 5.0


def test_a_collection_that_is_only_read_cannot_be_shared(tmp_path: Path) -> None:
    a_record().memmap(tmp_path / "rows")
    with pytest.raises(RuntimeError, match="only read"):
        Sample.load_memmap(tmp_path / "rows", mode="r").share_memory_()


@pytest.mark.parametrize(
    "last, error",
    [
        (lambda path: MemoryMappedTensor.from_filename(path, torch.float32, (4,), mode="r"), RuntimeError),
        (lambda path: torch.ones(4, 2).to_sparse(), NotImplementedError),
    ],
    ids=["a file that is only read", "a sparse tensor"],
)
def test_what_cannot_be_shared_leaves_all_as_it_was(last: Any, error: type[Exception], tmp_path: Path) -> None:
    MemoryMappedTensor.ones(4, filename=tmp_path / "rows.memmap")
    data = TensorDict({"a": torch.ones(4), "below": {"b": torch.ones(4)}}, [4])
    data["last"] = last(tmp_path / "rows.memmap")
    data["below"].lock_()
    with pytest.raises(error):
        data.share_memory_()
    assert not data["a"].is_shared()
    assert not data["below", "b"].is_shared()
    assert not data.is_locked
    assert data["below"].is_locked
    data["below"].unlock_()


def test_tensors_without_memory_are_left_alone() -> None:
    data = a_record().to("meta")
    assert data.share_memory_() is data
    assert data.is_locked
    assert not data.is_shared()


# -- many processes on one folder -------------------------------------------------------------------------------------

ROWS, WRITERS = 400, 4


def _write(path: str, at: int, barrier: Any) -> None:
    data = Sample.load_memmap(path)
    barrier.wait(LIMIT)
    for row in range(at, ROWS, WRITERS):
        below = TensorDict({"y": torch.full((2,), float(row))})
        data[row] = Sample(x=torch.tensor(float(row)), below=below, text="t")


def _read(path: str, barrier: Any, seen: Any) -> None:
    """Looks until all rows are there; a row is what was there before or what its writer writes."""
    data, rows = Sample.load_memmap(path), torch.arange(float(ROWS))
    barrier.wait(LIMIT)
    wrong = 0
    while not bool((data.x == rows).all() and (data.below["y"] == rows[:, None]).all()):
        values = data.x.clone()
        wrong += int(((values != rows) & (values != -1)).sum())
    seen.put(wrong)


def test_four_writers_and_two_readers_of_one_folder_lose_nothing(tmp_path: Path) -> None:
    row = Sample(x=torch.zeros(()), below=TensorDict({"y": torch.zeros(2)}), text="t")
    data = row.expand(ROWS).memmap_like(tmp_path / "rows")
    data.x.fill_(-1)
    context = forkserver.context()
    barrier, seen = context.Barrier(WRITERS + 2), context.Queue()
    path = str(tmp_path / "rows")
    processes = [context.Process(target=_write, args=(path, at, barrier), daemon=True) for at in range(WRITERS)]
    processes += [context.Process(target=_read, args=(path, barrier, seen), daemon=True) for _ in range(2)]
    for process in processes:
        process.start()
    try:
        assert [seen.get(timeout=LIMIT) for _ in range(2)] == [0, 0]
    finally:
        for process in processes:
            process.join(LIMIT)
    assert [process.exitcode for process in processes] == [0] * 6
    assert data.x.tolist() == list(range(ROWS))
