"""`python -m benchmarks.mapping [--quick] [--only map,queue,ray]`: `map`, and records through a queue, beside the peer
and by hand.

By hand is what a program without either package does: dicts of NumPy arrays through `ProcessPoolExecutor.map`, as many
chunks at a time as keep its workers busy; for the queue, torch's tensors in a dict; on Ray, a task for each chunk.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import tensordict
import torch
import torch.multiprocessing as mp
from torch import Tensor

import tensorclass

WORKERS = 2
SIDES = ("this package", "the peer", "by hand")


def _tensors(rows: int) -> dict[str, Tensor]:
    # one tensor: with chunks of one row the peer has an open file for each tensor of each result
    return {"x": torch.rand(rows, 16)}


def _add(chunk: Any) -> Any:
    return chunk + 1


def _add_by_hand(chunk: dict[str, Any]) -> dict[str, Any]:
    return {key: value + 1 for key, value in chunk.items()}


def _map_by_hand(tensors: dict[str, Tensor], size: int) -> dict[str, Tensor]:
    arrays = {key: value.numpy() for key, value in tensors.items()}
    rows = len(tensors["x"])
    chunks = [{key: value[at : at + size] for key, value in arrays.items()} for at in range(0, rows, size)]
    with ProcessPoolExecutor(WORKERS, mp.get_context("fork")) as executor:
        found = list(executor.map(_add_by_hand, chunks, chunksize=max(1, len(chunks) // (4 * WORKERS))))
    return {key: torch.from_numpy(np.concatenate([one[key] for one in found])) for key in arrays}


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def maps(rows: int, samples: int) -> None:
    """Prints how long `map` takes over all rows, the start and the end of its processes included."""
    tensors = _tensors(rows)
    ours = tensorclass.TensorDict({key: value.clone() for key, value in tensors.items()}, [rows])
    peer = tensordict.TensorDict({key: value.clone() for key, value in tensors.items()}, [rows])
    print(f"map of {rows:,} rows of {ours.bytes() // rows} bytes, {WORKERS} processes: ms for all")
    print(f"{'rows in a chunk':>16}" + "".join(f"{side:>16}" for side in SIDES) + f"{'peer/ours':>12}{'hand/ours':>12}")
    for size in (1, 100, 1000):
        sides: list[Callable[[], Any]] = [
            lambda size=size: ours.map(_add, num_workers=WORKERS, chunksize=size),
            lambda size=size: peer.map(_add, num_workers=WORKERS, chunksize=size),
            lambda size=size: _map_by_hand(tensors, size),
        ]
        taken: list[list[float]] = [[] for _ in sides]
        for sample in range(samples):
            for at, call in enumerate(sides):
                if not (size == 1 and at == 1 and sample):  # it takes half a minute
                    taken[at].append(_seconds(call))
        _line(f"{size}", taken, 1e3)


def on_ray(rows: int, samples: int) -> None:
    """Prints how long `map` takes over all rows on a local cluster that is there already."""
    import ray

    ray.init(num_cpus=WORKERS, include_dashboard=False, log_to_driver=False, object_store_memory=200_000_000)
    tensors = _tensors(rows)
    ours = tensorclass.TensorDict(dict(tensors), [rows])
    add: Any = ray.remote(_add_by_hand)

    def by_hand(size: int) -> Any:
        arrays = {key: value.numpy() for key, value in tensors.items()}
        chunks = [{key: value[at : at + size] for key, value in arrays.items()} for at in range(0, rows, size)]
        found = ray.get([add.remote(chunk) for chunk in chunks])
        return {key: torch.from_numpy(np.concatenate([one[key] for one in found])) for key in arrays}

    print(f"\nthe same on Ray, {WORKERS} workers: ms for all")
    print(f"{'rows in a chunk':>16}{SIDES[0]:>16}{SIDES[2]:>16}{'hand/ours':>12}")
    try:
        for size in (10, 100, 1000):
            sides: list[Callable[[], Any]] = [
                lambda size=size: ours.map(_add, executor=ray, chunksize=size),
                lambda size=size: by_hand(size),
            ]
            taken: list[list[float]] = [[] for _ in sides]
            for sample in range(samples + 1):
                for at, call in enumerate(sides):
                    seconds = _seconds(call)
                    if sample:  # workers begin in the first one
                        taken[at].append(seconds)
            _line(f"{size}", taken, 1e3)
    finally:
        ray.shutdown()


def _line(name: str, taken: list[list[float]], unit: float) -> None:
    middle = [statistics.median(found) * unit for found in taken]
    ratios = "".join(f"{other / middle[0]:>12.2f}" for other in middle[1:])
    print(f"{name:>16}" + "".join(f"{one:>16.1f}" for one in middle) + ratios, flush=True)


def _echo(inbox: Any, outbox: Any) -> None:
    while (found := inbox.get()) is not None:
        outbox.put(found)


def queues(samples: int) -> None:
    """Prints how long a collection takes to another process and back, through two queues."""
    context = mp.get_context("fork")
    inbox, outbox = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=_echo, args=(inbox, outbox), daemon=True)
    process.start()
    print("\nto another process and back: us")
    print(f"{'fields x bytes':>16}" + "".join(f"{side:>16}" for side in SIDES) + f"{'peer/ours':>12}{'hand/ours':>12}")
    try:
        for fields, size in ((3, 2**8), (50, 2**8), (3, 2**16), (50, 2**16), (3, 2**22)):
            tensors = {f"f{at}": torch.rand(4, size // 16) for at in range(fields)}
            peer = tensordict.TensorDict(dict(tensors), [4])
            given: list[Any] = [tensorclass.TensorDict(dict(tensors), [4]), peer, tensors]
            taken: list[list[float]] = [[] for _ in given]
            for sample in range(samples + 1):
                for at, data in enumerate(given):  # a clone each time: memory that was sent is shared from then on
                    copy = {key: value.clone() for key, value in data.items()} if at == 2 else data.clone()
                    seconds = _seconds(lambda copy=copy: (inbox.put(copy), outbox.get()))
                    if sample:
                        taken[at].append(seconds)
            _line(f"{fields} x {size:,}", taken, 1e6)
    finally:
        inbox.put(None)
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, and fewer samples")
    parser.add_argument("--only", default="map,queue,ray", help="some of map, queue, ray, with commas between")
    given = parser.parse_args()
    quick: bool = given.quick
    parts: list[str] = given.only.split(",")
    if unknown := set(parts) - {"map", "queue", "ray"}:
        parser.error(f"--only: expected map, queue or ray, got {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")  # the peer tells of defaults that will change
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    rows, samples = (1_000, 2) if quick else (10_000, 5)
    if "map" in parts:
        maps(rows, samples)
    if "queue" in parts:
        queues(10 if quick else 40)
    if "ray" in parts:
        on_ray(rows, samples)


if __name__ == "__main__":
    main()
