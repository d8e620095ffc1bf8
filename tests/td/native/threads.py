"""Threads that read collections while others write them: ``python -m tests.td.native.threads --seconds 600``.

The threads change over every microsecond. Each scene runs in a process of its own, with native code and without (the
tests run all of them in one):

- keys: threads pop, set, rename and replace keys, others read and compute. The tensor of a key holds the number of that
  key, so a value under another key is found, and so is a level that has lost keys that nobody pops.
- values: the same with tensors that are replaced and filled, and collections that are nested and locked.
- indices: one thread writes index tensors and masks that others read and write rows with. Rows that the index never
  names are not written, nor is memory beside the tensors.

No process crashes or hangs; errors are those that say what happened. ``--standing`` measures instead whether other
threads go on while kernels copy: their loops during an operation, relative to those during torch's operation on the
same tensor.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import torch
from torch import Tensor

from tensorclass import LazyStackedTensorDict, TensorDict
from tensorclass.td import native
from tests.native_code import native_code
from tests.td.native.reentrancy import ended

#: errors that say what happened
ALLOWED = (RuntimeError, KeyError, IndexError, ValueError)

ROWS = 64
STAYING = 8  #: keys that nobody pops
CHANGING = 8
NAMES = [f"k{number}" for number in range(STAYING + CHANGING)]


class Wrong(Exception):
    """A result that no state explains."""


def number_of(key: str) -> int:
    """The number that the tensor of a key holds."""
    return int(key[1:]) + 1


def tensor_of(key: str, rows: int = ROWS) -> Tensor:
    return torch.full((rows, 2), float(number_of(key)))


def fresh() -> TensorDict:
    inner = TensorDict({"".join(name): tensor_of(name) for name in NAMES[:STAYING]}, [ROWS])
    entries: dict[str, Any] = {"".join(name): tensor_of(name) for name in NAMES}
    return TensorDict({**entries, "inner": inner}, [ROWS])


# -- readers ----------------------------------------------------------------------------------------------------------

#: operations on a collection, and what they make of the number of a key
READERS: dict[str, tuple[Callable[[Any], Any], Callable[[float], float]]] = {
    "clone": (lambda d: d.clone(), lambda n: n),
    "clone, not deep": (lambda d: d.clone(False), lambda n: n),
    "detach": (lambda d: d.detach(), lambda n: n),
    "+ 1": (lambda d: d + 1, lambda n: n + 1),
    "+ itself": (lambda d: d + d, lambda n: 2 * n),
    "neg": (lambda d: -d, lambda n: -n),
    "sum": (lambda d: d.sum(0), lambda n: ROWS * n),
    "[0]": (lambda d: d[0], lambda n: n),
    "[1:3]": (lambda d: d[1:3], lambda n: n),
    "[rows]": (lambda d: d[torch.tensor([3, 1])], lambda n: n),
    "[mask]": (lambda d: d[torch.arange(ROWS) % 2 == 0], lambda n: n),
    "reshape": (lambda d: d.reshape(2, -1), lambda n: n),
    "unsqueeze": (lambda d: d.unsqueeze(0), lambda n: n),
    "stack": (lambda d: torch.stack([d, d]), lambda n: n),
    "cat": (lambda d: torch.cat([d, d]), lambda n: n),
    "lazy stack": (lambda d: LazyStackedTensorDict.lazy_stack([d, d]).contiguous(), lambda n: n),
    "unbind": (lambda d: d.unbind(0)[0], lambda n: n),
    "split": (lambda d: d.split(16)[1], lambda n: n),
    "to double": (lambda d: d.double(), lambda n: n),
    "contiguous": (lambda d: d.contiguous(), lambda n: n),
    "apply": (lambda d: d.apply(lambda value: value * 2), lambda n: 2 * n),
    "where": (lambda d: d.where(torch.ones(ROWS, dtype=torch.bool), 0), lambda n: n),
    "copy": (lambda d: d.copy(), lambda n: n),
    "select": (lambda d: d.select("k0", "k1", "inner"), lambda n: n),
    "exclude": (lambda d: d.exclude("k15"), lambda n: n),
    "to_dict": (lambda d: d.to_dict(), lambda n: n),
    "items": (lambda d: dict(d.items()), lambda n: n),
    "items of all levels": (lambda d: list(d.items(True, True)), lambda n: n),
    "keys of all levels": (lambda d: list(d.keys(True, True)), lambda n: n),
    "flatten_keys": (lambda d: d.flatten_keys("."), lambda n: n),
    "update_": (lambda d: fresh().update_(d), lambda n: n),
    "get": (lambda d: {"k3": d["k3"], "k12": d.get("k12", tensor_of("k12"))}, lambda n: n),
}

#: operations whose results have not all keys that stay
PARTS = {"select", "get"}


def check(name: str, result: Any, expected: Callable[[float], float]) -> None:
    """Raise if a value is under another key, or a key is missing that nobody pops."""
    if isinstance(result, list) and name == "keys of all levels":
        found = {key if isinstance(key, str) else key[-1] for key in result if isinstance(key, str)}
        if not set(NAMES[:STAYING]) <= found:
            raise Wrong(f"{name}: keys are missing: {sorted(found)}")
        return
    pairs = result if isinstance(result, list) else list(result.items())
    for key, value in pairs:
        last = (key if isinstance(key, str) else key[-1]).rpartition(".")[2]
        if isinstance(value, Tensor):
            wanted = expected(number_of(last))
            if not (value == wanted).all():
                raise Wrong(f"{name}: {value.unique().tolist()} under {key!r}, which holds {wanted}")
        else:
            check(name, value, expected)
    if name not in PARTS and not isinstance(result, list):
        missing = set(NAMES[:STAYING]) - {key.rpartition(".")[2] for key, _ in pairs}
        if missing:
            raise Wrong(f"{name}: {sorted(missing)} are missing")


# -- scenes -----------------------------------------------------------------------------------------------------------


class Scene:
    """Work of several threads on the same collection.

    Args:
        seconds: how long.
        seed: of all choices.
    """

    def __init__(self, seconds: float, seed: int) -> None:
        self.end = time.monotonic() + seconds
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()

    def loop(self, number: int, step: Callable[[Random], str]) -> None:
        """Make steps until the time is over; note errors that do not say what happened."""
        rng = Random(f"{self.seed} {number}")
        counts: Counter[str] = Counter()
        while time.monotonic() < self.end:
            try:
                counts[step(rng)] += 1
            except ALLOWED as error:
                counts[type(error).__name__] += 1
            except Exception as error:
                self.wrong[f"{type(error).__name__}: {error}"[:400]] += 1
        self.counts += counts

    def run(self, *steps: Callable[[Random], str]) -> None:
        threads = [threading.Thread(target=self.loop, args=part) for part in enumerate(steps)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def keys(scene: Scene) -> None:
    data = fresh()

    def write(rng: Random) -> str:
        key = "".join(rng.choice(NAMES[STAYING:]))
        kind = rng.randrange(4)
        if kind == 0:
            data.pop(key)
        elif kind == 1:
            data.set(key, tensor_of(key))
        elif kind == 2:  # the others move
            data.pop(key, None)
            data.set(key, tensor_of(key))
        else:
            for name in NAMES[STAYING:]:
                data.set("".join(name), tensor_of(name))
        return "written"

    def read(rng: Random) -> str:
        name = rng.choice(list(READERS))
        operation, expected = READERS[name]
        check(name, operation(data), expected)
        return "read"

    scene.run(write, read, read, write)


def values(scene: Scene) -> None:
    data = fresh()

    def write(rng: Random) -> str:
        key = rng.choice(NAMES)
        kind = rng.randrange(6)
        if kind == 0:
            data.set(key, tensor_of(key))
        elif kind == 1:
            data[key].fill_(number_of(key))
        elif kind == 2:
            data.update_({key: tensor_of(key)})
        elif kind == 3:
            data["inner"] = fresh()["inner"]
        elif kind == 4:
            data.lock_()
            data.unlock_()
        else:
            data.set(("inner", NAMES[0]), tensor_of(NAMES[0]))
        return "written"

    def read(rng: Random) -> str:
        name = rng.choice(list(READERS))
        operation, expected = READERS[name]
        check(name, operation(data), expected)
        return "read"

    scene.run(write, write, read, read)


#: rows, and positions in an index: as many as native code writes, which takes long enough for others to write the index
MANY = 100_000
GUARD = 77


def indices(scene: Scene) -> None:
    memory = {key: torch.full((3 * MANY,), GUARD, dtype=torch.uint8) for key in NAMES[:2]}
    for key, whole in memory.items():
        whole[MANY : 2 * MANY] = number_of(key)
    data = TensorDict({key: whole[MANY : 2 * MANY] for key, whole in memory.items()}, [MANY])
    even = torch.arange(MANY) % 2 == 0
    masks = [even, even & (torch.arange(MANY) < MANY // 2), torch.zeros(MANY, dtype=torch.bool)]
    fitting = torch.randperm(MANY) // 2 * 2
    positions = [fitting, fitting - MANY, *(torch.where(even, fitting, bad) for bad in (-(2**50), MANY, MANY + 998))]
    positions += [torch.full((MANY,), 2**50), fitting]
    index, mask = fitting.clone(), even.clone()
    rows = TensorDict({key: torch.zeros(MANY, dtype=torch.uint8) for key in memory}, [MANY])

    def write(rng: Random) -> str:
        if rng.random() < 0.7:
            index.copy_(rng.choice(positions))
        else:
            mask.copy_(rng.choice(masks))
        return "index written"

    steps: list[Callable[[], Any]] = [
        lambda: data.__setitem__(index, rows),
        lambda: data.__setitem__(index, 5),
        lambda: data.update_at_(rows, index),
        lambda: data.set_at_("k1", 0, index),
        lambda: data[index],
        lambda: data.gather(0, index),
        lambda: data.where(mask, 0),
    ]
    if native.ON:  # torch's own operations, among them nonzero, corrupt the heap where a mask changes meanwhile
        steps += [lambda: data.__setitem__(mask, 5), lambda: data[mask]]

    def work(rng: Random) -> str:
        rng.choice(steps)()
        return "indexed"

    def guard(rng: Random) -> str:
        for key, whole in memory.items():
            beside, never = [whole[:MANY], whole[2 * MANY :]], whole[MANY + 1 : 2 * MANY : 2]
            if not all((part == GUARD).all() for part in beside):
                for part in beside:
                    part.fill_(GUARD)
                raise Wrong(f"memory beside {key} was written")
            if not (never == number_of(key)).all():
                never.fill_(number_of(key))
                raise Wrong(f"rows of {key} were written that no index names")
        time.sleep(0.001)
        return "looked at"

    scene.run(write, work, work, guard)


SCENES: dict[str, Callable[[Scene], None]] = {"keys": keys, "values": values, "indices": indices}

# -- other threads go on ----------------------------------------------------------------------------------------------

SIDE = 3000

#: operations on a collection of one large tensor, and on that tensor
COPIES: dict[str, tuple[Callable[[Any], Any], Callable[[Tensor], Any]]] = {
    "contiguous": (lambda d: d.contiguous(), lambda t: t.contiguous()),
    "to double": (lambda d: d.to(torch.float64), lambda t: t.to(torch.float64)),
    "type": (lambda d: d.type(torch.float64), lambda t: t.type(torch.float64)),
    "reshape": (lambda d: d.reshape(-1), lambda t: t.reshape(-1)),
    "clone": (lambda d: d.clone(), lambda t: t.clone()),
    "[rows]": (lambda d: d[_ROWS], lambda t: t[_ROWS]),
    "[mask]": (lambda d: d[_ROWS % 2 == 0], lambda t: t[_ROWS % 2 == 0]),
    "stack": (lambda d: torch.stack([d, d]), lambda t: torch.stack([t, t])),
    "cat": (lambda d: torch.cat([d, d]), lambda t: torch.cat([t, t])),
    "exp": (lambda d: d.exp(), lambda t: t.exp()),
    "+": (lambda d: d + d, lambda t: t + t),
    "sum": (lambda d: d.sum(0), lambda t: t.sum(0)),
    "where": (lambda d: d.where(_ROWS % 2 == 0, 0), lambda t: torch.where((_ROWS % 2 == 0)[:, None], t, 0)),
}
_ROWS = torch.arange(SIDE)


def loops_during(work: Callable[[], object], seconds: float) -> float:
    """The loops a second of another thread while the work is done again and again."""
    going = True
    loops = 0

    def count() -> None:
        nonlocal loops
        while going:
            loops += 1
            time.sleep(0)  # gives back the lock of the interpreter

    thread = threading.Thread(target=count)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # so that the lock is only released by who wants to
    try:
        thread.start()
        begin = time.perf_counter()
        counted, done = 0, 0
        while done < 2 or time.perf_counter() < begin + seconds:
            before = loops
            work()
            counted += loops - before
            done += 1
        spent = time.perf_counter() - begin
        going = False
        thread.join()
    finally:
        sys.setswitchinterval(interval)
    return counted / spent


def standing(seconds: float = 1.0) -> dict[str, float]:
    """By operation, the loops of another thread relative to those during torch's operation."""
    torch.set_num_threads(1)  # which leaves a core to the other thread
    tensor = torch.ones(SIDE, SIDE).t()
    data = TensorDict({"a": tensor}, [SIDE, SIDE])
    found: dict[str, float] = {}
    for name, (of_collection, of_tensor) in COPIES.items():
        during_torch = loops_during(lambda work=of_tensor: work(tensor), seconds)  # type: ignore[misc]
        during_ours = loops_during(lambda work=of_collection: work(data), seconds)  # type: ignore[misc]
        found[name] = round(during_ours / during_torch, 3)
    return found


#: loops relative to those during torch's operation, below which other threads stand still
LEAST = 0.2

# -- processes --------------------------------------------------------------------------------------------------------


def run_here(name: str, on: bool, seconds: float, seed: int) -> None:
    """Run a scene in this process, and print what came of it."""
    sys.setswitchinterval(1e-6)
    torch.set_num_threads(1)
    faulthandler.dump_traceback_later(seconds + 120, exit=True)
    scene = Scene(seconds, seed)
    with native_code(on):
        SCENES[name](scene)
    faulthandler.cancel_dump_traceback_later()
    print(json.dumps({"scene": name, "native": on, "counts": scene.counts, "wrong": scene.wrong}), flush=True)


def run_in_process(name: str, on: bool, seconds: float, seed: int) -> dict[str, Any]:
    """Run a scene in a new process."""
    found, why = _process("--scene", name, "--native", str(int(on)), "--seconds", str(seconds), "--seed", str(seed))
    [here] = found or [{"scene": name, "native": on, "counts": {}, "wrong": {}}]
    if why:
        here["wrong"][why] = 1
    return {"seed": seed, **here}


def run_all_in_one_process(seconds: float, seed: int) -> tuple[dict[tuple[str, bool], dict[str, Any]], str]:
    """Run all scenes in one new process, each this long with native code and without. Return what came of those that
    ended, and how the process ended if that was not well."""
    alone = () if native.ON else ("--native", "0")
    found, why = _process(*alone, "--seconds", str(seconds), "--seed", str(seed))
    return {(one["scene"], one["native"]): one for one in found}, why


def _process(*options: str) -> tuple[list[dict[str, Any]], str]:
    """Return what the scenes of a new process printed, and how it ended if that was not well."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.td.native.threads", "--here", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    found: list[dict[str, Any]] = []
    for line in done.stdout.splitlines():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found, ended(done.returncode, done.stderr) if done.returncode else ""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="of all scenes together")
    parser.add_argument("--scene", choices=list(SCENES), help="all by default")
    parser.add_argument("--native", type=int, choices=(0, 1), help="with native code or without; both by default")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="processes at a time")
    parser.add_argument("--standing", action="store_true", help="whether other threads go on while kernels copy")
    parser.add_argument("--here", action="store_true", help="in this process, which a crash ends")
    options = parser.parse_args()
    modes = [bool(options.native)] if options.native is not None else [True, False]
    if options.standing:
        found: dict[str, dict[str, float]] = {}
        for on in modes:
            with native_code(on):
                found["native" if on else "python"] = standing()
        print(json.dumps(found, indent=1))
        return 1 if any(ratio < LEAST for ratios in found.values() for ratio in ratios.values()) else 0
    if options.here:
        for name in [options.scene] if options.scene else SCENES:
            for on in modes:
                run_here(name, on, options.seconds, options.seed)
        return 0
    names = [options.scene] if options.scene else list(SCENES)
    # processes of at most a minute: a crash ends one of them
    rounds = max(1, int(options.seconds * options.jobs / len(modes) / len(names) / 60))
    each = options.seconds * options.jobs / len(modes) / len(names) / rounds
    parts = [(name, on, each, options.seed + at) for at in range(rounds) for name in names for on in modes]
    wrong = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(lambda part: run_in_process(*part), parts):
            messages = result.pop("wrong")
            print(
                json.dumps(result),
                *(f"\n    {times} times: {message}" for message, times in messages.items()),
                flush=True,
            )
            wrong += len(messages)
    print(json.dumps({"seed": options.seed, "processes": len(parts), "wrong": wrong}), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
