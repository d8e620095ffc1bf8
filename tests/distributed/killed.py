"""Trainers that are killed, and what stays of them: ``python -m tests.distributed.killed``.

A trainer is a process that works with other processes: workers of a loader, of ``map``, of an executor or a pool,
processes that send records or write files. It is killed by a signal that it cannot catch, in each phase of its work.
20 s later no process is left of it, no segment of shared memory, no temporary file and no lock; what it wrote to can be
written again, and then no draft is left.

All processes of a trainer are found: they are in its process group, or have its number in their environment, and
orphans become children of this process. What is left is killed, also if the search is interrupted.
"""

from __future__ import annotations

import argparse
import ctypes
import faulthandler
import functools
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
import torch.multiprocessing
from torch.utils.data import Dataset

from tensorclass import BucketBatchSampler, DataLoader, RecordDataset, RecordStream, TensorClass, TensorDict
from tensorclass.support import parent_process
from tensorclass.support.atomic import swapped_folder
from tests.storage.formats import FORMATS
from tests.storage.kills import forked

SECONDS = (
    20.0  #: after which nothing may be left; a process that still imports modules, where all cores are busy, has more
)
PATIENCE = 240.0  #: seconds in which a trainer must reach a phase, where all cores are busy
PHASES = ("starting", "first", "before", "full", "computing", "end", "anywhere")
_NUMBER = "TENSORCLASS_KILLED_TRAINER"
_SUBREAPER = 36  #: PR_SET_CHILD_SUBREAPER of prctl(2)
_BATCH = 20_000  #: numbers of a batch: 80 KB, which go by value and fill a pipe
_ITEMS = 24


class Row(TensorClass, stack_objects=True):
    """A sample."""

    x: torch.Tensor
    text: str


# -- in the trainer and its workers -----------------------------------------------------------------------------------


class Stage(NamedTuple):
    """The phase in which a trainer is killed."""

    folder: str  #: for marks, files and temporary files
    phase: str

    def reach(self, phase: str) -> None:
        """Mark that a phase is reached; stay in it if it is the one."""
        Path(self.folder, "marks", phase).touch()
        if phase == self.phase != "end":
            time.sleep(3600)

    def compute(self) -> None:
        """Called by workers for each sample or chunk."""
        global _computed
        _computed += self.phase != "none"
        if _computed == 1:
            self.reach("first")
        elif _computed == 5:
            self.reach("computing")


_computed = 0


def _take(stage: Stage, results: Iterator[Any]) -> None:
    """Take all results."""
    stage.reach("before")
    for at, _ in enumerate(results):
        if at == 0:
            stage.reach("full")
        elif at == _ITEMS // 4:
            stage.reach("end")


class Samples(Dataset[Any]):
    """Samples one by one, two of them as large as a batch."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def __len__(self) -> int:
        return 2 * _ITEMS

    def __getitem__(self, index: int) -> Any:
        self.stage.compute()
        return TensorDict({"x": torch.full((_BATCH // 2,), float(index)), "text": str(index)})


class SecondTime(Samples):
    """In the first epoch no phase is reached."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.taken = 0

    def __getitem__(self, index: int) -> Any:
        self.taken += 1
        found = Samples(self.stage if self.taken > _ITEMS else Stage(self.stage.folder, "none"))
        return found[index]


class LargeSamples(Samples):
    """Batches that go through shared memory."""

    def __getitem__(self, index: int) -> Any:
        self.stage.compute()
        return TensorDict({"x": torch.full((4 * _BATCH,), float(index))})


def _loader(stage: Stage, kind: type[Samples] = Samples, **options: Any) -> None:
    options = {"collate_fn": torch.stack, "num_workers": 2, **options}
    _take(stage, iter(DataLoader(kind(stage), batch_size=2, **options)))


def _polls(stage: Stage) -> None:
    """As on systems that cannot wait for a process."""
    parent_process._open_process = None
    _loader(stage, multiprocessing_context="fork")


def _shared_by_name(stage: Stage) -> None:
    torch.multiprocessing.set_sharing_strategy("file_system")
    _loader(stage, LargeSamples, multiprocessing_context="fork")


def _twice(stage: Stage) -> None:
    """Workers that stay for the next epoch."""
    loader: Any = DataLoader(
        SecondTime(stage), batch_size=2, num_workers=2, collate_fn=torch.stack,
        multiprocessing_context="fork", persistent_workers=True,
    )  # fmt: skip
    assert len(list(loader)) == _ITEMS
    _take(stage, iter(loader))


def _transformed(stage: Stage, index: int) -> dict[str, Any]:
    stage.compute()
    return {"x": torch.full((_BATCH // 2,), float(index)), "text": str(index)}


def _buckets(stage: Stage, method: str) -> None:
    dataset = RecordDataset(Row, list(range(2 * _ITEMS)), transform=functools.partial(_transformed, stage))
    sampler = BucketBatchSampler([index % 5 + 1 for index in range(2 * _ITEMS)], batch_size=2)
    _take(stage, iter(DataLoader(dataset, batch_sampler=sampler, num_workers=2, multiprocessing_context=method)))


def _stream(stage: Stage) -> None:
    dataset = RecordStream(Row, range(2 * _ITEMS), transform=functools.partial(_transformed, stage))
    _take(stage, iter(DataLoader(dataset, batch_size=2, num_workers=2, multiprocessing_context="fork")))


def _result(stage: Stage, chunk: Any) -> TensorDict:
    stage.compute()
    return TensorDict({"x": torch.full((1, _BATCH), float(chunk["n"][0]))}, [1])


def _numbers(count: int = _ITEMS) -> TensorDict:
    return TensorDict({"n": torch.arange(count)}, [count])


def _map(stage: Stage, method: str | None = None, **options: Any) -> None:
    function = functools.partial(_result, stage)
    _take(stage, iter(_numbers().map_iter(function, chunksize=1, num_workers=2, mp_start_method=method, **options)))


def _wait_for_other(stage: Stage, chunk: Any) -> None:
    """Wait until two processes are here."""
    marks = Path(stage.folder, "marks")
    (marks / f"here-{os.getpid()}").touch()
    while len(list(marks.glob("here-*"))) < 2:
        time.sleep(0.01)


def _map_on_executor(stage: Stage, method: str) -> None:
    with ProcessPoolExecutor(2, mp_context=torch.multiprocessing.get_context(method)) as executor:
        # each process has had a task: Python itself leaves those that have none yet
        list(_numbers(2).map_iter(functools.partial(_wait_for_other, stage), chunksize=1, executor=executor))
        _take(stage, iter(_numbers().map_iter(functools.partial(_result, stage), chunksize=1, executor=executor)))


def _map_on_pool(stage: Stage, method: str) -> None:
    context: Any = torch.multiprocessing.get_context(method)
    pool = context.Pool(2)
    _take(stage, iter(_numbers().map_iter(functools.partial(_result, stage), chunksize=1, executor=pool)))
    pool.close()
    pool.join()


def _send(stage: Stage, queue: Any) -> None:
    for index in range(_ITEMS):
        stage.compute()
        queue.put(TensorDict({"x": torch.full((_BATCH,), float(index))}))


def _queue(stage: Stage, method: str) -> None:
    """Daemons that send records."""
    context: Any = torch.multiprocessing.get_context(method)
    queue = context.Queue()
    senders = [context.Process(target=_send, args=(stage, queue), daemon=True) for _ in range(2)]
    for sender in senders:
        sender.start()
    _take(stage, (queue.get() for _ in range(2 * _ITEMS)))
    for sender in senders:
        sender.join()


def _read(stage: Stage, shared: TensorDict, queue: Any, taken: Any) -> None:
    for _ in range(_ITEMS):
        stage.compute()
        queue.put(shared)
    taken.wait()  # a process that has ended sends no memory


def _shared(stage: Stage, method: str) -> None:
    """Records in shared memory, that others send back."""
    context: Any = torch.multiprocessing.get_context(method)
    queue = context.Queue()
    shared = TensorDict({"x": torch.ones(50 * _BATCH), "n": torch.ones(3)}).share_memory_()
    taken = context.Event()
    reader = context.Process(target=_read, args=(stage, shared, queue, taken), daemon=True)
    reader.start()
    _take(stage, (queue.get() for _ in range(_ITEMS)))
    taken.set()
    reader.join()


def _save(stage: Stage, form: str, chunk: Any) -> None:
    stage.compute()
    _written(form, Path(stage.folder, "files", str(int(chunk["n"][0]) % 2)))


def _written(form: str, path: Path) -> None:
    FORMATS[form].save(TensorDict({f"x{at}": torch.full((5000,), 1.0) for at in range(10)}), path)


def _files_of_workers(stage: Stage, form: str) -> None:
    _take(stage, iter(_numbers().map_iter(functools.partial(_save, stage, form), chunksize=1, num_workers=2)))


def _files_of_trainer(stage: Stage) -> None:
    """The folder is locked while workers are forked, which inherit the open lock."""
    path = Path(stage.folder, "files", "0")
    _written("folder", path)
    with swapped_folder(path) as draft:
        (draft / "new").touch()
        _loader(stage, multiprocessing_context="fork")


WORKS: dict[str, Callable[[Stage], None]] = {
    "loader, fork": lambda stage: _loader(stage, multiprocessing_context="fork"),
    "loader, polls for its parent": _polls,
    "loader, spawn": lambda stage: _loader(stage, multiprocessing_context="spawn"),
    "loader, forkserver": lambda stage: _loader(stage, multiprocessing_context="forkserver"),
    "loader, large batches, fork": lambda stage: _loader(stage, LargeSamples, multiprocessing_context="fork"),
    "loader, large batches, spawn": lambda stage: _loader(stage, LargeSamples, multiprocessing_context="spawn"),
    "loader, shared by name": _shared_by_name,
    "loader, persistent workers": _twice,
    "bucket loader, fork": lambda stage: _buckets(stage, "fork"),
    "bucket loader, forkserver": lambda stage: _buckets(stage, "forkserver"),
    "stream": _stream,
    "map": _map,
    "map, spawn": lambda stage: _map(stage, "spawn"),
    "map, forkserver": lambda stage: _map(stage, "forkserver"),
    "map, a process for each chunk": lambda stage: _map(stage, max_tasks_per_child=1),
    "map on an executor, fork": lambda stage: _map_on_executor(stage, "fork"),
    "map on an executor, spawn": lambda stage: _map_on_executor(stage, "spawn"),
    "map on a pool, fork": lambda stage: _map_on_pool(stage, "fork"),
    "map on a pool, spawn": lambda stage: _map_on_pool(stage, "spawn"),
    "queue, fork": lambda stage: _queue(stage, "fork"),
    "queue, spawn": lambda stage: _queue(stage, "spawn"),
    "shared memory, fork": lambda stage: _shared(stage, "fork"),
    "shared memory, forkserver": lambda stage: _shared(stage, "forkserver"),
    "files of workers, folder": lambda stage: _files_of_workers(stage, "folder"),
    "files of workers, h5": lambda stage: _files_of_workers(stage, "h5"),
    "files of the trainer": _files_of_trainer,
}

#: what is left out: each process computes once; daemons of the user's are watched once they send records; processes of
#: an executor that have no task yet, which Python itself leaves
_NEVER = {
    ("map, a process for each chunk", "computing"),
    *[(name, "first") for name in WORKS if name.startswith(("queue", "shared memory"))],
    *[(name, phase) for name in WORKS if "executor" in name for phase in ("starting", "anywhere")],
}


# -- the search -------------------------------------------------------------------------------------------------------


class Trial:
    """A trainer that is killed."""

    def __init__(self, name: str, phase: str, rng: random.Random) -> None:
        self.name, self.phase = name, phase
        self.folder = Path(tempfile.mkdtemp(prefix="killed-"))
        for part in ("marks", "files", "temporary"):
            (self.folder / part).mkdir()
        self.segments = _segments()
        self.used: set[str] = set()  #: names in shared memory that its processes had open
        self.pids: set[int] = set()
        self.delay: float = {"first": 0.3, "before": 1.0, "full": 1.0, "computing": 0.3}.get(phase, 0.0)
        if not self.delay:
            self.delay = rng.random() * (0.3 if _is_quick(name) else 4.0)
        self.pid: int = forked(self._train)
        with suppress(OSError):  # the trainer has done it, or has ended
            os.setpgid(self.pid, self.pid)
        self.begin: float = time.monotonic()
        self.reached: float | None = None
        self.killed: float | None = None
        self.worked: tuple[float, float] = (0.0, 0.0)  #: when processes had used seconds of a core, and how many

    def _train(self) -> None:
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        os.environ[_NUMBER] = str(os.getpid())
        os.environ["PYTHONFAULTHANDLER"] = "1"  # what is left says where it stands
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.folder / "temporary")
        said = os.open(self.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.close(said)
        faulthandler.enable()
        torch.set_num_threads(1)
        WORKS[self.name](Stage(str(self.folder), self.phase))
        multiprocessing.active_children()

    def step(self, processes: dict[int, list[int]], now: float) -> list[str] | None:
        """Go on; return what is wrong when the trial is over."""
        mine = processes.get(self.pid, [])
        self.pids.update(mine)
        if self.killed is None:
            ended = self.pid not in mine
            if self.reached is None and (self._is_reached(mine) or ended):
                self.reached = now
            if self.reached is None and now - self.begin > PATIENCE:
                return [f"the phase was not reached in {PATIENCE:.0f} s: {self._said()}"]
            if self.reached is not None and (ended or now - self.reached >= self.delay):
                if ended and self.phase not in ("starting", "end", "anywhere"):
                    return [f"it ended before the phase: {self._said()}"]
                self.used.update(*[_open_segments(pid) for pid in mine])
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
                self.killed = time.monotonic()
            return None
        if mine and (now - self.killed < SECONDS or (now - self.killed < PATIENCE and self._is_busy(mine, now))):
            return None
        wrong = [f"process {pid} ({_command(pid)})" for pid in mine]
        if wrong:
            for pid in mine:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGABRT)
            time.sleep(1.0)
            wrong.append(self._said())
        self.kill()
        return [*wrong, *self._left()]

    def _is_reached(self, mine: list[int]) -> bool:
        if self.phase == "anywhere":
            return True
        if self.phase == "starting":
            return len(mine) > 1
        return (self.folder / "marks" / self.phase).exists()

    def _is_busy(self, mine: list[int], now: float) -> bool:
        """Whether processes have worked since the trainer was killed, and not only waited."""
        used = sum(map(_seconds_of, mine))
        if used > self.worked[1] + 0.2:
            self.worked = now, used
        return now - self.worked[0] < SECONDS

    def _left(self) -> list[str]:
        wrong: list[str] = []
        for name in sorted(_segments() - self.segments):
            if name in self.used or any(str(pid) in name.split("_") for pid in self.pids):
                wrong.append(f"segment {name}")
                with suppress(OSError):
                    os.unlink(f"/dev/shm/{name}")
        names = sorted(path.name for path in (self.folder / "temporary").iterdir())
        # where multiprocessing has sockets: that of the trainer itself stays with any program that is killed
        sockets = [name for name in names if name.startswith("pymp-")]
        names = [name for name in names if name not in sockets[:1]]
        return wrong + [f"temporary {name}" for name in names] + self._unwritable()

    def _unwritable(self) -> list[str]:
        """Write again what the trainer wrote; name what cannot be written, and drafts that are left afterwards."""
        files = self.folder / "files"
        targets = {path.name.lstrip(".").partition(".")[0] for path in files.iterdir()}
        form = "h5" if "h5" in self.name else "folder"
        writer = forked(lambda: [_written(form, files / name) for name in targets])  # type: ignore[arg-type, return-value]
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            pid, status = os.waitpid(writer, os.WNOHANG)
            if pid:
                left = [f"draft {path.name}" for path in files.iterdir() if path.name not in targets]
                return left + ["what it wrote cannot be written again"] * bool(status)
            time.sleep(0.02)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        return ["a lock"]

    def _said(self) -> str:
        with suppress(OSError):
            return (self.folder / "said").read_text()[-2000:]
        return ""

    def kill(self) -> None:
        """End all processes of the trainer."""
        end = time.monotonic() + 10
        while mine := _processes({self.pid}).get(self.pid):
            for pid in mine:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if time.monotonic() > end:
                raise RuntimeError(f"processes {mine} cannot be killed")
            time.sleep(0.01)

    def remove(self) -> None:
        """End what is left, and remove the files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_quick(name: str) -> bool:
    return "spawn" not in name and "forkserver" not in name


def _segments() -> set[str]:
    return set(os.listdir("/dev/shm"))


def _open_segments(pid: int) -> set[str]:
    """The names in shared memory that a process has mapped."""
    with suppress(OSError), open(f"/proc/{pid}/maps") as maps:
        return {line.split()[5].removeprefix("/dev/shm/") for line in maps if " /dev/shm/" in line}
    return set()


def _seconds_of(pid: int) -> float:
    """The seconds of a core that a process has used."""
    with suppress(OSError):
        values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:200]
    return ""


def _processes(trainers: set[int]) -> dict[int, list[int]]:
    """The processes of each trainer that run. Those that have ended are forgotten."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                state, _, group, *_ = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                owner = int(group)
                if owner not in trainers:  # a daemon may have a group of its own
                    entries = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
                    owner = next((int(one[len(_NUMBER) + 1 :]) for one in entries if one.startswith(_MARK)), 0)
                if owner in trainers and state != "Z":
                    found.setdefault(owner, []).append(int(name))
    return found


_MARK = f"{_NUMBER}=".encode()


def search(cases: list[tuple[str, str]], jobs: int, rng: random.Random) -> int:
    """Kill trainers, and print what is left of each; return how many left something."""
    todo, trials, failed = list(reversed(cases)), list[Trial](), 0
    try:
        while todo or trials:
            while todo and len(trials) < jobs:
                trials.append(Trial(*todo.pop(), rng))
            time.sleep(0.02)
            processes = _processes({trial.pid for trial in trials})
            for trial in list(trials):
                wrong = trial.step(processes, time.monotonic())
                if wrong is not None:
                    took = 0.0 if trial.killed is None else time.monotonic() - trial.killed
                    print(
                        f"{trial.name}, {trial.phase}: {'; '.join(wrong) or 'nothing'} left, {took:.1f} s", flush=True
                    )
                    failed += bool(wrong)
                    trials.remove(trial)
                    trial.remove()
    finally:
        for trial in trials:
            trial.remove()
    return failed


def _interrupted(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", help="works whose name begins with this text")
    parser.add_argument("--phase", action="append", choices=PHASES, help="all by default")
    parser.add_argument("--case", action="append", help="a work and a phase, 'map: full', in place of the two above")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=4, help="trainers at the same time")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if sys.platform != "linux":
        print("the processes of a trainer are found on Linux only", file=sys.stderr)
        return 0
    signal.signal(signal.SIGTERM, _interrupted)
    assert threading.active_count() == 1, "trainers are forked"
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")
    names = [name for name in WORKS if options.only is None or name.startswith(tuple(options.only))]
    cases = [(name, phase) for name in names for phase in options.phase or PHASES if (name, phase) not in _NEVER]
    if options.case is not None:
        named = {f"{name}: {phase}": (name, phase) for name in WORKS for phase in PHASES}
        cases = [named[case] for case in options.case]
    cases *= options.rounds
    begin = time.monotonic()
    failed = search(cases, options.jobs, random.Random(options.seed))
    print(f"{len(cases)} killed, {failed} left something, {time.monotonic() - begin:.0f} s", flush=True)
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
