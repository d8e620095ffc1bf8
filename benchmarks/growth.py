"""`python -m benchmarks.growth [--filter REGEX] [--page]`: how cost grows with fields, levels, rows, parts and leaves.

A line for each operation: microseconds and bytes of Python's memory at each size, then the exponents by which time and
memory grow between the two largest sizes, and what one more unit costs there. An exponent of 1 is a straight line, and
0 a cost that does not grow. Times are the smallest of several samples. Where fresh memory makes the work by hand
steeper than a straight line, that work is measured, too, with samples in turns.
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
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from benchmarks.page import fill, number, table
from tensorclass import Column, TensorClass, TensorDict, lazy_stack, stack

#: seconds that the samples of one figure take together
_SECONDS = 0.2
#: an exponent above this one is worse than a straight line
STRAIGHT = 1.15


@dataclass(frozen=True)
class Growth:
    """One operation at several sizes. ``prepare`` makes what ``work`` takes, which is not measured.

    ``by_hand`` is the same work on the tensors, without the package.
    """

    name: str
    sizes: Sequence[int]
    prepare: Callable[[int, Path], Any]
    work: Callable[[Any], Any]
    by_hand: Callable[[Any], Any] | None = None


@dataclass(frozen=True)
class Figures:
    """Microseconds and bytes at each size of an operation."""

    growth: Growth
    times: list[float]
    memory: list[int]
    by_hand: list[float] = field(default_factory=list)

    def exponent(self) -> float:
        """Return the power of the size by which time grows between the two largest sizes."""
        return self._power(self.times)

    def memory_exponent(self) -> float:
        """Return the power of the size by which memory grows between the two largest sizes."""
        return self._power(self.memory)

    def by_hand_exponent(self) -> float:
        """Return :meth:`exponent` of the work by hand; 1, a straight line, where that is not measured."""
        return self._power(self.by_hand) if self.by_hand else 1.0

    def is_steep(self) -> bool:
        """Return whether time or memory grow faster than a straight line, and time faster than by hand."""
        allowed = max(1.0, self.by_hand_exponent()) + STRAIGHT - 1
        return self.exponent() > allowed or self.memory_exponent() > STRAIGHT

    def _power(self, figures: Sequence[float]) -> float:
        small, large = self.growth.sizes[-2:]
        before, after = (max(figure, 1e-9) for figure in figures[-2:])
        return math.log(after / before) / math.log(large / small)

    def unit(self) -> float:
        """Return the nanoseconds that one more unit costs at the largest size."""
        (small, large), (before, after) = self.growth.sizes[-2:], self.times[-2:]
        return 1000 * (after - before) / (large - small)


def measure(growth: Growth) -> Figures:
    """Time an operation at each of its sizes."""
    times: list[float] = []
    memory: list[int] = []
    by_hand: list[float] = []
    with tempfile.TemporaryDirectory() as folder, _without_collection():
        for size in growth.sizes:
            place = Path(folder, str(size))
            place.mkdir()
            given = growth.prepare(size, place)
            growth.work(given)
            works = [growth.work] if growth.by_hand is None else [growth.work, growth.by_hand]
            for kept, time in zip((times, by_hand), _microseconds(works, given), strict=False):
                kept.append(time)
            memory.append(_bytes(growth.work, given))
    return Figures(growth, times, memory, by_hand)


def _microseconds(works: Sequence[Callable[[Any], Any]], given: Any) -> list[float]:
    start = perf_counter()
    works[0](given)
    once = max(perf_counter() - start, 1e-7)
    loops = max(1, int(_SECONDS / 10 / once))
    best = [math.inf] * len(works)
    for _ in range(10 if once < _SECONDS else 3):
        for which, work in enumerate(works):
            start = perf_counter()
            for _ in repeat(None, loops):
                work(given)
            best[which] = min(best[which], (perf_counter() - start) / loops)
    return [time * 1e6 for time in best]


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
OBJECTS = (1_000, 10_000, 100_000, 1_000_000)
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


def _lists(count: int) -> TensorDict:
    return TensorDict({"tags": Column([[f"tag {row}"] for row in range(count)]), "x": torch.zeros(count)}, [count])


def _saved_lists(count: int, place: Path) -> Path:
    _lists(count).memmap(place / "data")
    return place / "data"


def _archived(count: int, place: Path) -> Path:
    _wide(count).save(place / "data.tdz")
    return place / "data.tdz"


def _clones(parts: Any) -> list[dict[str, Any]]:
    return [{key: value.clone() for key, value in part.items()} for part in parts.tensordicts]


def _on(
    name: str,
    sizes: Sequence[int],
    make: Callable[[int], Any],
    work: Callable[[Any], Any],
    by_hand: Callable[[Any], Any] | None = None,
) -> Growth:
    return Growth(name, sizes, lambda size, _: make(size), work, by_hand)


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
    _on(
        "rows: clone (td)",
        ROWS,
        _rows,
        lambda data: data.clone(),
        lambda data: {key: value.clone() for key, value in data.items()},
    ),
    Growth("rows: load_memmap (Column)", OBJECTS, _saved_lists, TensorDict.load_memmap),
    Growth(
        "rows: append_memmap of 100 (Column)",
        OBJECTS,
        lambda n, place: (_saved_lists(n, place), _lists(100)),
        lambda given: (given, TensorDict.append_memmap(*given)),
    ),
    _on("parts: make a lazy stack", PARTS, lambda n: list(_lazy(n).unbind(0)), lazy_stack),
    _on("parts: [0] (lazy)", PARTS, _lazy, lambda data: data[0]),
    _on("parts: read a key (lazy)", PARTS, _lazy, lambda data: data["x"]),
    _on("parts: clone (lazy)", PARTS, _lazy, lambda data: data.clone(), _clones),
    _on("parts: repr (lazy)", PARTS, _lazy, repr),
    Growth(
        "leaves: memmap", LEAVES, lambda n, place: (_wide(n), place / "new"), lambda given: given[0].memmap(given[1])
    ),
    Growth("leaves: load_memmap", LEAVES, _saved, TensorDict.load_memmap),
    Growth(
        "leaves: save (archive)",
        LEAVES,
        lambda n, place: (_wide(n), place / "new.tdz"),
        lambda given: given[0].save(given[1]),
    ),
    Growth("leaves: load (archive)", LEAVES, _archived, TensorDict.load),
)


def row(figures: Figures) -> str:
    """Return the line of an operation."""
    shown = " ".join(
        f"{size:>8}: {time:>10,.1f} {held / 1000:>8,.1f}"
        for size, time, held in zip(figures.growth.sizes, figures.times, figures.memory, strict=True)
    )
    by_hand = f"{figures.by_hand_exponent():7.2f}" if figures.by_hand else f"{'':7}"
    steeper = "  steeper than a straight line" if figures.is_steep() else ""
    return (
        f"{figures.growth.name:34} {figures.exponent():5.2f} {by_hand} {figures.memory_exponent():6.2f} "
        f"{figures.unit():10,.1f} | {shown}{steeper}"
    )


def page_table(measured: Sequence[Figures]) -> str:
    """Return the table of docs/performance.md."""
    header = (
        "operation",
        "sizes",
        "us at the smallest",
        "us at the largest",
        "power of time",
        "of memory",
        "ns a unit",
    )
    rows: list[list[str]] = []
    for figures in measured:
        by_hand = f" (by hand {figures.by_hand_exponent():.2f})" if figures.by_hand else ""
        grows = figures.exponent() > 0.1
        rows.append(
            [
                figures.growth.name,
                f"{figures.growth.sizes[0]:,} to {figures.growth.sizes[-1]:,}",
                number(figures.times[0]),
                number(figures.times[-1]),
                f"{figures.exponent():.2f}{by_hand}" if grows else "0",
                f"{figures.memory_exponent():.2f}" if figures.memory_exponent() > 0.1 else "0",
                number(figures.unit()) if grows else "0",
            ]
        )
    return table(header, rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.growth", description="How time and memory grow.")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these")
    parser.add_argument("--page", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = f"{'operation':34} {'power':>5} {'by hand':>7} {'memory':>6} {'ns a unit':>10}"
    print(f"{names} | size: us, kB of Python's memory")
    measured: list[Figures] = []
    for growth in GROWTHS:
        if options.filter.search(growth.name):
            measured.append(measure(growth))
            print(row(measured[-1]), flush=True)
    print(f"{sum(figures.is_steep() for figures in measured)} steeper than a straight line")
    if options.page:
        fill("how cost grows", page_table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
