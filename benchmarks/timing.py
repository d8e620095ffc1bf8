"""Time per call of several callables, measured in turns."""

import gc
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter_ns

Call = Callable[[], object]


@dataclass(frozen=True)
class Plan:
    """How long to measure: `blocks` times `rounds` samples of each callable, of about `sample_us` each."""

    blocks: int = 5
    rounds: int = 8
    sample_us: float = 1500.0


FULL = Plan()
QUICK = Plan(blocks=3, rounds=4, sample_us=600.0)


def time_in_turns(calls: Sequence[Call], plan: Plan = FULL) -> list[float]:
    """Microseconds a call for each of `calls`.

    Every round takes one sample of each, so that a busy neighbour or a change of clock speed meets all of them; each
    round begins with another one and goes the other way round, so that none always runs after the same one. Noise only
    ever adds time, so a block keeps its smallest sample; the median over the blocks keeps one lucky sample from
    deciding.
    """
    with _quiet():
        loops = [_loops_for(call, plan.sample_us) for call in calls]
        minima: list[list[float]] = [[] for _ in calls]
        for _ in range(plan.blocks):
            best = [float("inf")] * len(calls)
            for turn in range(plan.rounds):
                for i in _order(len(calls), turn):
                    best[i] = min(best[i], _sample(calls[i], loops[i]) / loops[i])
            for kept, smallest in zip(minima, best, strict=True):
                kept.append(smallest)
    return [statistics.median(kept) / 1000.0 for kept in minima]


def time_in_rounds(calls: Sequence[Call], rounds: int, seed: int = 0) -> list[list[float]]:
    """Microseconds of single calls: `rounds` samples of each of `calls`, those of a round side by side.

    Each round has an order of its own, as a call finds in the caches what the one before it left there. The median over
    rounds of the ratio of two samples tells differences of a percent, where both take long and the machine is busy.
    """
    shuffled = random.Random(seed)
    order = [*range(len(calls))]
    samples: list[list[float]] = [[] for _ in calls]
    with _quiet():
        for call in calls:
            for _ in range(10):
                call()
        for _ in range(rounds):
            shuffled.shuffle(order)
            for i in order:
                samples[i].append(_sample(calls[i], 1) / 1000.0)
    return samples


def _order(count: int, turn: int) -> list[int]:
    """Who is measured when in a round."""
    turned = [(turn + step) % count for step in range(count)]
    return turned[::-1] if turn % 2 else turned


def _sample(call: Call, loops: int) -> int:
    """Nanoseconds that `loops` calls take."""
    turns = repeat(None, loops)
    start = perf_counter_ns()
    for _ in turns:
        call()
    return perf_counter_ns() - start


def _loops_for(call: Call, sample_us: float) -> int:
    """How many calls fill a sample; the trials warm the callable up."""
    loops = 1
    while (took := _sample(call, loops)) < sample_us * 1000.0 / 4:
        loops *= 2
    return max(1, round(loops * sample_us * 1000.0 / took))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps the garbage collector out of the samples."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
