"""A large record through Ray's object store: `python -m benchmarks.object_store [--megabytes N] [--fields N]`

Time of `ray.put`, of `ray.get`, and of reading all of what came, and by how much this process becomes larger by memory
of its own (`RssAnon`), beside the same tensors as a plain dict, as a dict of numpy arrays, and as a TensorDict of the
peer. Medians of five. Linux only: it reads `/proc/self`. It needs the extra `ray`, and twice the memory in `/dev/shm`.
"""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import ray
import tensordict
import torch

import tensorclass

ROUNDS = 5


def own_memory() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def read(value: Any) -> float:
    return sum(map(read, value.values())) if hasattr(value, "keys") else float(value.sum())


def measured(name: str, value: Any) -> None:
    """Prints a row of the table."""
    puts: list[float] = []
    gets: list[float] = []
    reads: list[float] = []
    grown: list[int] = []
    for _ in range(ROUNDS):
        gc.collect()
        begin = time.perf_counter()
        reference = ray.put(value)
        puts.append(time.perf_counter() - begin)
        gc.collect()
        before = own_memory()
        begin = time.perf_counter()
        back = ray.get(reference)
        gets.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        read(back)
        reads.append(time.perf_counter() - begin)
        grown.append(own_memory() - before)
        del back, reference
    times = "".join(f"{statistics.median(one) * 1e3:10.1f}" for one in (puts, gets, reads))
    print(f"{name:28}{times}{statistics.median(grown) / 1e6:12.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--fields", type=int, default=4)
    arguments = parser.parse_args()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    rows = arguments.megabytes * 1_000_000 // (arguments.fields * 4 * 250)
    tensors = {f"x{number}": torch.ones(rows, 250) for number in range(arguments.fields)}
    kinds: dict[str, Callable[[], Any]] = {
        "TensorDict": lambda: tensorclass.TensorDict(tensors, [rows]),
        "dict of numpy arrays": lambda: {key: value.numpy() for key, value in tensors.items()},
        "dict of tensors": lambda: tensors,
        "tensordict.TensorDict": lambda: tensordict.TensorDict(tensors, [rows]),
    }
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=int(arguments.megabytes * 2.5e6) + 100_000_000,
    )
    try:
        ray.get(ray.put(tensorclass.TensorDict({"x": torch.ones(2**19)}, [2**19])))  # what is set up once
        print(f"{arguments.megabytes} MB in {arguments.fields} tensors")
        print(f"{'':28}{'put ms':>10}{'get ms':>10}{'read ms':>10}{'own memory MB':>14}")
        for name, make in kinds.items():
            measured(name, make())
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
