"""Two writers of one path at a time: ``python -m tests.storage.writers --rounds 1000 --seed 1``.

Each round takes two writers of a format, in two processes or two threads, and lets them begin within a few milliseconds
of each other. One of them may be killed, be interrupted, or find the disk full on the way. A reader loads meanwhile.
Afterwards:

- The result is that of one order: a model of each writer says to what states its steps lead, in all interleavings.
- A writer that ended well did all of its steps; one that got an error did so in an order in which the model has one, or
  had a fault.
- The reader has seen states of that model, whole, and no mixture.
- The next writer leaves no draft, and no lock is held; a writer that lives on holds no descriptor.
"""

from __future__ import annotations

import argparse
import errno
import fcntl
import itertools
import json
import os
import random
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tensorclass import TensorDict
from tensorclass.storage.hdf5_zarr.array_backend import Replaced
from tensorclass.storage.memmap import append as appending
from tensorclass.storage.memmap import memmap_folder
from tensorclass.support import folder_locks
from tensorclass.support.interrupts import uninterrupted
from tests.storage.formats import FORMATS

SECONDS = 240  #: after which a writer hangs
SPAN = 0.012  #: within which writers begin and faults come


class State(NamedTuple):
    """What is at a path: who wrote each row, and which keys came later."""

    rows: tuple[int, ...]
    keys: frozenset[str] = frozenset()


class Refused(Exception):
    """A step that ends in an error, in this order."""


#: from a state and what the writer has loaded to a state and what it has loaded then
Step = Callable[[State, Any], tuple[State, Any]]


class Writer(NamedTuple):
    """What a writer does, and what the model has of it."""

    work: Callable[[Path, int], object]
    steps: Callable[[int], list[Step]]
    may_be_killed: bool = True  #: what is written to an open HDF5 file is not whole or absent


# -- folders of memory maps -------------------------------------------------------------------------------------------


def rows_of(count: int, number: int) -> TensorDict:
    """Rows that say in every file who wrote them."""
    return TensorDict(
        {
            "x": torch.full((count, 700), float(number)),
            "below": {"y": torch.full((count, 300), number)},
            "label": [str(number)] * count,
            "w": torch.zeros(count),
        },
        [count],
    )


def state_of(data: Any) -> State:
    """Who wrote the rows; a mixture is an error."""
    rows = [int(value) for value in data["x"][:, 0]]
    if not (data["x"] == data["x"][:, :1]).all() or not (data["below", "y"] == data["x"][:, :1]).all():
        raise AssertionError(f"a mixture of files: {rows}, {data['below', 'y'][:, 0].tolist()}")
    if list(map(str, rows)) != data["label"]:
        raise AssertionError(f"a mixture of files and objects: {rows}, {data['label']}")
    keys = frozenset(key for key in list(data.keys()) if key.startswith("new"))
    for key in keys:
        if not set(data[key].tolist()) <= {0.0, float(key[3:])}:
            raise AssertionError(f"{key} has other values: {data[key].tolist()}")
    if not set(data["w"].tolist()) <= {0.0, 1.0, 2.0}:
        raise AssertionError(f"w has other values: {data['w'].tolist()}")
    return State(tuple(rows), keys)


def opened(path: Path) -> TensorDict:
    with uninterrupted():  # writing is interrupted here, not reading
        return TensorDict.load_memmap(path).lock_()


def save(path: Path, number: int) -> None:
    rows_of(3 + number, number).memmap(path, num_threads=number - 1)


def append(path: Path, number: int) -> None:
    TensorDict.append_memmap(path, rows_of(5 + number, number))


def save_again(path: Path, number: int) -> None:
    data = opened(path)
    time.sleep(random.random() * SPAN / 2)
    data.memmap(path)


def refresh(path: Path, number: int) -> None:
    data = opened(path)
    for _ in range(3):
        time.sleep(random.random() * SPAN / 4)
        with uninterrupted():
            state_of(data.memmap_refresh_())


def make(path: Path, number: int) -> None:
    data = opened(path)
    time.sleep(random.random() * SPAN / 2)
    data.make_memmap_from_tensor(f"new{number}", torch.full((len(data),), float(number)))


def write(path: Path, number: int) -> None:
    data = opened(path)
    for _ in range(3):
        time.sleep(random.random() * SPAN / 4)
        data["w"][number::3] = number


def load_step(state: State, local: Any) -> tuple[State, Any]:
    return state, state


def append_step(number: int) -> Step:
    def step(state: State, local: Any) -> tuple[State, Any]:
        if state.keys:
            raise Refused
        return State((*state.rows, *[number] * (5 + number))), local

    return step


def make_step(number: int) -> Step:
    def step(state: State, local: Any) -> tuple[State, Any]:
        if len(state.rows) != len(local.rows):
            raise Refused
        return State(state.rows, state.keys | {f"new{number}"}), local

    return step


WRITERS: dict[str, Writer] = {
    "save": Writer(save, lambda number: [lambda state, local: (State((number,) * (3 + number)), local)]),
    "append": Writer(append, lambda number: [append_step(number)]),
    "save again": Writer(save_again, lambda number: [load_step, lambda state, local: (local, local)]),
    "refresh": Writer(refresh, lambda number: [load_step]),
    "make": Writer(make, lambda number: [load_step, make_step(number)]),
    "write": Writer(write, lambda number: [load_step]),
}


# -- other formats ----------------------------------------------------------------------------------------------------


def version(number: int) -> TensorDict:
    """A collection of as many rows as its number says, in which every value is that number."""
    count = 20 + 10 * number
    return TensorDict(
        {
            "x": torch.full((count, 300), float(number)),
            "below": {"y": torch.full((count, 100), number)},
            "label": f"text {number}",
            "w": torch.full((count,), number),
        },
        [count],
    )


def state_of_version(data: Any) -> State:
    found = {int(value) for value in (*data["x"].unique(), *data["below", "y"].unique())}
    found.add(int(data["label"].removeprefix("text ")))
    written = {int(value) for value in data["w"].unique()}
    if len(found) != 1 or len(data) != 20 + 10 * min(found) or not (written == found or written == {90}):
        raise AssertionError(f"a mixture of the versions {found}, of {len(data)} rows, with {written} written")
    return State((*found,), frozenset({"written"} if written == {90} else ()))


def save_as(form: str) -> Writer:
    return Writer(
        lambda path, number: FORMATS[form].save(version(number), path),
        lambda number: [lambda state, local: (State((number,)), local)],
    )


def write_to(form: str) -> Writer:
    """One who opens the file and writes a key."""

    def work(path: Path, number: int) -> None:
        load = TensorDict.from_zarr if form == "zarr" else TensorDict.from_h5
        data = load(path, mode="r+")
        try:
            time.sleep(random.random() * SPAN / 2)
            data["w"] = torch.full((len(data),), 90)
        finally:
            data.close()

    def step(state: State, local: Any) -> tuple[State, Any]:
        # of the file that is replaced meanwhile the old one is written, which nobody sees
        if state.rows != local.rows:
            if form == "zarr":
                raise Refused
            return state, local
        return State(state.rows, frozenset({"written"})), local

    return Writer(work, lambda number: [load_step, step], may_be_killed=False)


class Kind(NamedTuple):
    """A format with its writers."""

    writers: dict[str, Writer]
    first: Callable[[Path], object]
    load: Callable[[Path], State]
    start: State


def _kind_of(form: str) -> Kind:
    writers = {"save": save_as(form)}
    if form in ("h5", "zarr"):
        writers["write"] = write_to(form)
    return Kind(
        writers,
        lambda path: FORMATS[form].save(version(0), path),
        lambda path: state_of_version(FORMATS[form].load(path)),
        State((0,)),
    )


KINDS: dict[str, Kind] = {
    "folder": Kind(
        WRITERS,
        lambda path: rows_of(4, 0).memmap(path),
        lambda path: state_of(TensorDict.load_memmap(path)),
        State((0,) * 4),
    ),
    **{form: _kind_of(form) for form in ("archive", "safetensors", "consolidated", "h5", "zarr")},
}


# -- the model --------------------------------------------------------------------------------------------------------


class End(NamedTuple):
    """How an interleaving ended."""

    state: State
    refused: tuple[bool, bool]


def ends(start: State, steps: tuple[list[Step], list[Step]], faulty: int | None) -> tuple[set[End], set[State]]:
    """How all interleavings end, and the states on the way.

    The writer with a fault may stop behind any of its steps.
    """
    found: set[End] = set()
    seen: set[State] = {start}
    counts = [range(len(part) + 1) if at == faulty else [len(part)] for at, part in enumerate(steps)]
    for lengths in itertools.product(*counts):
        for order in set(itertools.permutations([0] * lengths[0] + [1] * lengths[1])):
            state, local, done, refused = start, [None, None], [0, 0], [False, False]
            for who in order:
                if refused[who]:
                    continue
                try:
                    state, local[who] = steps[who][done[who]](state, local[who])
                except Refused:
                    refused[who] = True
                done[who] += 1
                seen.add(state)
            found.add(End(state, (refused[0], refused[1])))
    return found, seen


# -- rounds -----------------------------------------------------------------------------------------------------------


class Round(NamedTuple):
    """What happens in a round."""

    kind: str
    names: tuple[str, str]
    threads: bool
    faulty: int | None  #: the writer that has a fault
    fault: str  #: which: ``"kill"``, ``"interrupt"`` or ``"full"``
    delays: tuple[float, float, float]  #: of both writers, and of the fault
    calls: int  #: how often the disk is not full
    seed: int


def rounds(seed: int, kinds: list[str]) -> Iterator[Round]:
    """Rounds without an end; folders are in half of them."""
    rng = random.Random(seed)
    while True:
        kind = rng.choice(kinds) if rng.random() < 0.5 else kinds[0]
        names = list(KINDS[kind].writers)
        pair = rng.choice(names), rng.choice(names)
        threads = kind == "folder" and rng.random() < 0.3
        faulty = rng.choice([None, 0, 1])
        fault = "full" if threads else rng.choice(["kill", "interrupt", "full"])
        if faulty is not None and not KINDS[kind].writers[pair[faulty]].may_be_killed:
            faulty = None
        delays = rng.random() * SPAN / 2, rng.random() * SPAN / 2, rng.random() * SPAN * 2
        yield Round(kind, pair, threads, faulty, fault, delays, rng.randrange(4), rng.randrange(2**31))


def forked(work: Callable[[], Any]) -> tuple[int, int]:
    """A process that does the work, and the pipe by which its result comes, as JSON."""
    read, write = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # so that it comes when there is a handler for it
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.close(write)
        return child, read
    try:
        os.close(read)
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            torch.arange(1)  # two threads that are the first to use torch's pool in a fork meet a race of torch
            said = work()
            result: Any = ["ok", said if isinstance(said, list) else None]
        except BaseException as error:
            result = [type(error).__name__, "".join(traceback.format_exception(error))]
        with os.fdopen(write, "w") as pipe:
            json.dump(result, pipe)
    finally:
        os._exit(0)


def result_of(child: tuple[int, int]) -> list[Any]:
    """What a process said; one that was killed said nothing."""
    number, read = child
    parts = list[bytes]()
    with os.fdopen(read, "rb") as pipe:
        while True:
            if not select.select([pipe], [], [], SECONDS)[0]:
                os.kill(number, signal.SIGKILL)
                os.waitpid(number, 0)
                return ["hang", f"nothing came in {SECONDS} s"]
            part = os.read(pipe.fileno(), 2**16)
            if not part:
                break
            parts.append(part)
    os.waitpid(number, 0)
    text = b"".join(parts)
    try:
        found: list[Any] = json.loads(text)
    except ValueError:
        return ["killed", ""]
    return found


def full_disk(calls: int, thread: threading.Thread | None) -> Callable[..., None]:
    """A disk that is full when something was written a few times, for one thread or for all."""
    real, count = memmap_folder.write_values, itertools.count()

    def fails(file: int, *given: Any) -> None:
        real(file, *given)
        if (thread is None or threading.current_thread() is thread) and next(count) >= calls:
            raise OSError(errno.ENOSPC, "No space left on device")

    return fails


def write_one(plan: Round, who: int, path: Path) -> None:
    """One writer's work; that it keeps nothing open is looked at."""
    before = len(os.listdir("/proc/self/fd"))
    random.seed(plan.seed + who)
    time.sleep(plan.delays[who])
    if plan.faulty == who and plan.fault == "full":
        memmap_folder.write_values = appending.write_values = full_disk(plan.calls, None)
    try:
        KINDS[plan.kind].writers[plan.names[who]].work(path, 1 + who)
    except (Exception, KeyboardInterrupt) as error:
        error.__traceback__ = None
        raise
    finally:
        left = len(os.listdir("/proc/self/fd")) - before
        if plan.kind == "folder" and (left or folder_locks._held):
            raise AssertionError(f"{left} descriptors and the locks {folder_locks._held} are left")


def write_both(plan: Round, path: Path) -> list[list[str]]:
    """Both writers in threads of one process."""
    results = [["hang", ""], ["hang", ""]]

    def work(who: int) -> None:
        if plan.faulty == who:
            memmap_folder.write_values = appending.write_values = full_disk(plan.calls, threading.current_thread())
        random.seed(plan.seed + who)
        time.sleep(plan.delays[who])
        try:
            KINDS[plan.kind].writers[plan.names[who]].work(path, 1 + who)
            results[who] = ["ok", ""]
        except BaseException as error:
            results[who] = [type(error).__name__, "".join(traceback.format_exception(error))]

    before = len(os.listdir("/proc/self/fd"))
    threads = [threading.Thread(target=work, args=(who,), daemon=True) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    left = len(os.listdir("/proc/self/fd")) - before
    if left or folder_locks._held:
        raise AssertionError(f"{left} descriptors and the locks {folder_locks._held} are left")
    return results


def read_for_ever(kind: str, path: Path, stop: int) -> list[Any]:
    """States that were seen until a pipe is closed."""
    seen: set[State] = set()
    while not select.select([stop], [], [], 0)[0]:
        try:
            seen.add(KINDS[kind].load(path))
        except Replaced:  # of a zarr folder: it says so
            continue
        except OSError:  # of HDF5, while a writer has the lock of the file
            if kind != "h5":
                raise
    return [[state.rows, sorted(state.keys)] for state in seen]


def state_after(kind: str, path: Path) -> list[Any]:
    """What is there when both are done."""
    state = KINDS[kind].load(path)
    return [state.rows, sorted(state.keys)]


def clean_up(kind: str, path: Path) -> list[str]:
    """What a next writer leaves beside the path; that it does not wait for a lock of the dead is looked at."""
    if kind == "folder":
        handle = os.open(path, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
    KINDS[kind].first(path)
    if KINDS[kind].load(path) != KINDS[kind].start:
        raise AssertionError("the next writer could not write")
    return os.listdir(path.parent)


def as_state(said: list[Any]) -> State:
    return State(tuple(said[0]), frozenset(said[1]))


def run(plan: Round, place: Path) -> str:
    """What came of a round; an ``AssertionError`` says what is wrong."""
    path = place / "set"
    kind = KINDS[plan.kind]
    reading, stop = os.pipe()

    def read() -> list[Any]:
        os.close(stop)
        return read_for_ever(plan.kind, path, reading)

    reader = forked(read)
    if plan.threads:
        both = result_of(forked(lambda: write_both(plan, path)))
        results = both[1] if both[0] == "ok" else [both, both]
    else:
        children = [forked(lambda who=who: write_one(plan, who, path)) for who in (0, 1)]
        if plan.faulty is not None and plan.fault != "full":
            time.sleep(plan.delays[2])
            os.kill(children[plan.faulty][0], signal.SIGKILL if plan.fault == "kill" else signal.SIGINT)
        results = [result_of(child) for child in children]
    os.close(stop)
    os.close(reading)
    seen = result_of(reader)
    problems = [f"writer {plan.names[who]}: {said}" for who, (end, said) in enumerate(results) if end in _WRONG]
    if seen[0] != "ok":
        problems.append(f"the reader: {seen[1]}")
    after = result_of(forked(lambda: state_after(plan.kind, path)))
    if after[0] != "ok":
        problems.append(f"it cannot be loaded: {after[1]}")
    if problems:
        raise AssertionError("\n".join(problems))
    state, steps = as_state(after[1]), (kind.writers[plan.names[0]].steps(1), kind.writers[plan.names[1]].steps(2))
    possible, on_the_way = ends(kind.start, steps, plan.faulty)
    ok = [end == "ok" for end, _ in results]
    may_fail = [who == plan.faulty for who in (0, 1)]
    fitting = {
        found
        for found in possible
        if all(ok[who] != found.refused[who] or (not ok[who] and may_fail[who]) for who in (0, 1))
    }
    # a file of HDF5 that one writer has open is locked: the other one may get an error
    if plan.kind == "h5":
        fitting = set(ends(kind.start, steps, plan.faulty)[0])
        fitting |= {End(end, (False, False)) for who in (0, 1) if not ok[who] for end in on_the_way}
    if state not in {found.state for found in fitting}:
        raise AssertionError(f"the result {state} with {results} is that of no order: {sorted(fitting)}")
    for said in seen[1]:
        if as_state(said) not in on_the_way:
            raise AssertionError(f"a reader saw {as_state(said)}, which was never there: {on_the_way}")
    left = result_of(forked(lambda: clean_up(plan.kind, path)))
    if left[1] != ["set"]:
        raise AssertionError(f"left is {left}")
    return "both" if all(ok) else "one" if any(ok) else "none"


_WRONG = ("hang", "AssertionError", "FileError", "TypeError", "AttributeError")


def run_all(count: int, seed: int, kinds: list[str]) -> Counter[str]:
    """Runs rounds, and counts how many writers of each ended well."""
    results = Counter[str]()
    with tempfile.TemporaryDirectory() as given:
        place = Path(given) / "place"
        place.mkdir()
        for at, plan in enumerate(itertools.islice(rounds(seed, kinds), count)):
            result_of(forked(lambda plan=plan: KINDS[plan.kind].first(place / "set")))
            try:
                results[run(plan, place)] += 1
            except AssertionError as error:
                raise AssertionError(f"round {at}, {plan}: {error}") from None
            result_of(forked(lambda: _remove(place / "set")))
            results["rounds"] += 1
            if not results["rounds"] % 100:
                print(f"{results['rounds']} rounds", file=sys.stderr, flush=True)
            results[f"{plan.kind}: {' and '.join(sorted(plan.names))}"] += 1
    return results


def _remove(path: Path) -> None:
    import shutil

    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--kind", action="append", choices=list(KINDS), help="all by default; the first is in half of them"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)  # a process with threads must not fork
    start = time.monotonic()
    found = run_all(options.rounds, options.seed, options.kind or list(KINDS))
    print(json.dumps({**found, "seconds": round(time.monotonic() - start)}, indent=1), flush=True)


if __name__ == "__main__":
    main()
