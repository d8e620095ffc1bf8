"""`python -m benchmarks.growth [--filter REGEX]`: how time and memory grow with fields, levels, rows, parts and leaves.

A line for each operation: microseconds and bytes of Python's memory at each size, then the exponent by which time grows
between the two largest sizes, and what one more unit costs there. An exponent of 1 is a straight line, and 0 a cost
that does not grow. Times are the smallest of several samples.
"""

import argparse
import gc
import math
import re
import sys
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from tensorclass import TensorClass, TensorDict, lazy_stack, stack

#: seconds that the samples of one figure take together
_SECONDS = 0.2
#: an exponent above this one is worse than a straight line
STRAIGHT = 1.15


@dataclass(frozen=True)
class Growth:
    """One operation at several sizes. ``prepare`` makes what ``work`` takes, which is not measured."""

    name: str
    sizes: Sequence[int]
    prepare: Callable[[int, Path], Any]
    work: Callable[[Any], Any]


@dataclass(frozen=True)
class Figures:
    """Microseconds and bytes at each size of an operation."""

    growth: Growth
    times: list[float]
    memory: list[int]

    def exponent(self) -> float:
        """Return the power of the size by which time grows between the two largest sizes."""
        (small, large), (before, after) = self.growth.sizes[-2:], self.times[-2:]
        return math.log(after / before) / math.log(large / small)

    def unit(self) -> float:
        """Return the nanoseconds that one more unit costs at the largest size."""
        (small, large), (before, after) = self.growth.sizes[-2:], self.times[-2:]
        return 1000 * (after - before) / (large - small)


def measure(growth: Growth) -> Figures:
    """Time an operation at each of its sizes."""
    times: list[float] = []
    memory: list[int] = []
    with tempfile.TemporaryDirectory() as folder, _without_collection():
        for size in growth.sizes:
            place = Path(folder, str(size))
            place.mkdir()
            given = growth.prepare(size, place)
            growth.work(given)
            times.append(_microseconds(growth.work, given))
            memory.append(_bytes(growth.work, given))
    return Figures(growth, times, memory)


def _microseconds(work: Callable[[Any], Any], given: Any) -> float:
    start = perf_counter()
    work(given)
    once = max(perf_counter() - start, 1e-7)
    loops = max(1, int(_SECONDS / 10 / once))
    best = math.inf
    for _ in range(10 if once < _SECONDS else 3):
        start = perf_counter()
        for _ in repeat(None, loops):
            work(given)
        best = min(best, (perf_counter() - start) / loops)
    return best * 1e6


def _bytes(work: Callable[[Any], Any], given: Any) -> int:
    """Return the memory that Python holds for a result, tensors' own memory aside."""
    tracemalloc.start()
    try:
        result = work(given)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    del result
    return held


@contextmanager
def _without_collection() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# -- what grows -------------------------------------------------------------------------------------------------------

FIELDS = (1, 10, 100, 1000)
LEVELS = (1, 2, 4, 8)
ROWS = (1, 1_000, 100_000, 10_000_000)
PARTS = (1, 10, 100, 1_000, 10_000)
LEAVES = (1, 10, 100, 1_000)
_INDEX = torch.arange(256)


def _wide(count: int) -> TensorDict:
    return TensorDict({f"f{number}": torch.zeros(32) for number in range(count)}, [32])


def _record(count: int) -> Any:
    fields = {f"f{number}": torch.Tensor for number in range(count)}
    made: Any = type(TensorClass)("Wide", (TensorClass,), {"__annotations__": fields})
    return made(**{name: torch.zeros(32) for name in fields}, batch_size=[32])


def _deep(levels: int) -> TensorDict:
    inner = TensorDict({"x": torch.zeros(32), "y": torch.zeros(32)}, [32])
    for _ in range(levels - 1):
        inner = TensorDict({"x": torch.zeros(32), "y": torch.zeros(32), "inner": inner}, [32])
    return inner


def _rows(count: int) -> TensorDict:
    return TensorDict({"x": torch.zeros(count), "y": torch.zeros(count, dtype=torch.int64)}, [count])


def _lazy(count: int) -> Any:
    return lazy_stack([TensorDict({"x": torch.zeros(4), "y": torch.zeros(2)}, []) for _ in range(count)])


def _saved(count: int, place: Path) -> Path:
    _wide(count).memmap(place / "data")
    return place / "data"


def _on(name: str, sizes: Sequence[int], make: Callable[[int], Any], work: Callable[[Any], Any]) -> Growth:
    return Growth(name, sizes, lambda size, _: make(size), work)


GROWTHS = (
    _on("fields: construct (td)", FIELDS, lambda n: dict(_wide(n).items()), lambda given: TensorDict(given, [32])),
    _on("fields: [slice] (record)", FIELDS, _record, lambda data: data[2:10]),
    _on("fields: [index tensor] (record)", FIELDS, _record, lambda data: data[_INDEX[:8]]),
    _on("fields: clone (record)", FIELDS, _record, lambda data: data.clone()),
    _on("fields: stack of 8 (td)", FIELDS, lambda n: [_wide(n) for _ in range(8)], lambda parts: stack(parts)),
    _on("fields: a + b (td)", FIELDS, _wide, lambda data: data + data),
    _on("fields: repr (record)", FIELDS, _record, repr),
    _on("levels: construct (td)", LEVELS, lambda n: _deep(n).to_dict(), lambda given: TensorDict(given, [32])),
    _on("levels: [slice] (td)", LEVELS, _deep, lambda data: data[2:10]),
    _on("levels: clone (td)", LEVELS, _deep, lambda data: data.clone()),
    _on("levels: keys(True, True) (td)", LEVELS, _deep, lambda data: list(data.keys(True, True))),
    _on(
        "rows: construct (td)",
        ROWS,
        lambda n: dict(_rows(n).items()),
        lambda given: TensorDict(given, given["x"].shape),
    ),
    _on("rows: [0] (td)", ROWS, _rows, lambda data: data[0]),
    _on("rows: [256 of them] (td)", ROWS, _rows, lambda data: data[_INDEX % len(data)]),
    _on("rows: repr (td)", ROWS, _rows, repr),
    _on("rows: clone (td)", ROWS, _rows, lambda data: data.clone()),
    _on("parts: make a lazy stack", PARTS, lambda n: list(_lazy(n).unbind(0)), lazy_stack),
    _on("parts: [0] (lazy)", PARTS, _lazy, lambda data: data[0]),
    _on("parts: read a key (lazy)", PARTS, _lazy, lambda data: data["x"]),
    _on("parts: clone (lazy)", PARTS, _lazy, lambda data: data.clone()),
    _on("parts: repr (lazy)", PARTS, _lazy, repr),
    Growth(
        "leaves: memmap", LEAVES, lambda n, place: (_wide(n), place / "new"), lambda given: given[0].memmap(given[1])
    ),
    Growth("leaves: load_memmap", LEAVES, _saved, TensorDict.load_memmap),
)


def row(figures: Figures) -> str:
    """Return the line of an operation."""
    shown = " ".join(
        f"{size:>8}: {time:>10,.1f} {held / 1000:>8,.1f}"
        for size, time, held in zip(figures.growth.sizes, figures.times, figures.memory, strict=True)
    )
    steeper = "  steeper than a straight line" if figures.exponent() > STRAIGHT else ""
    return f"{figures.growth.name:34} {figures.exponent():5.2f} {figures.unit():10,.1f} | {shown}{steeper}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description="How time and memory grow.")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'operation':34} {'power':>5} {'ns a unit':>10} | size: us, kB of Python's memory")
    steep = 0
    for growth in GROWTHS:
        if options.filter.search(growth.name):
            figures = measure(growth)
            steep += figures.exponent() > STRAIGHT
            print(row(figures), flush=True)
    print(f"{steep} steeper than a straight line")
    return 0


if __name__ == "__main__":
    sys.exit(main())
