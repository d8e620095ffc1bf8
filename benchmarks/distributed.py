"""Messages between two processes over gloo on one machine: ``python -m benchmarks.distributed [--quick]``.

A record of 50 fields, beside the peer, beside 50 plain sends, and beside one plain send of the same bytes, which all
others are divided by. Three ways to measure, since they tell different things:

- back: the record goes there and comes back; half of that.
- row: one after the other in one direction, as fast as they go.
- barrier: each is followed by a barrier, as where a step of a program begins on both sides together.

All of them in turns, in short rounds. The lowest round and the median are shown: neighbours on the machine only add
time.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from datetime import timedelta
from time import perf_counter
from typing import Any

import tensordict
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tensorclass import TensorDict

FIELDS = 50
SIZES = {"128 B": 128, "1 KB": 2**10, "64 KB": 2**16, "1 MB": 2**20}

#: for one plain send: what ours may cost, and what the peer's may cost at least
TARGET = 1.3

Side = Callable[[], object]


def _sides(rank: int, size: int) -> dict[str, tuple[Side, Side]]:
    other, count = 1 - rank, size // 4
    values = {f"field {at}": torch.rand(count) for at in range(FIELDS)}
    ours, peers = TensorDict(dict(values)), tensordict.TensorDict(dict(values), [])
    tensors, whole = list(values.values()), torch.rand(count * FIELDS)
    consolidated = ours.consolidate()

    def plain_sends() -> None:
        for tensor in tensors:
            dist.send(tensor, other)

    def plain_receives() -> None:
        for tensor in tensors:
            dist.recv(tensor, other)

    return {
        "one plain send": (lambda: dist.send(whole, other), lambda: dist.recv(whole, other)),
        "ours": (lambda: ours.send(other), lambda: ours.recv(other)),
        "ours, consolidated": (
            lambda: consolidated.send(other, consolidated=True),
            lambda: consolidated.recv(other, consolidated=True),
        ),
        "50 plain sends": (plain_sends, plain_receives),
        "the peer": (lambda: peers.send(other), lambda: peers.recv(other)),
    }


def _back(rank: int, send: Side, receive: Side, count: int) -> float:
    begin = perf_counter()
    for _ in range(count):
        if rank == 0:
            send()
            receive()
        else:
            receive()
            send()
    return (perf_counter() - begin) / 2 / count


def _row(rank: int, send: Side, receive: Side, count: int) -> float:
    begin = perf_counter()
    for _ in range(count):
        send() if rank == 0 else receive()
    return (perf_counter() - begin) / count


def _barrier(rank: int, send: Side, receive: Side, count: int) -> float:
    begin = perf_counter()
    for _ in range(count):
        send() if rank == 0 else receive()
        dist.barrier()
    return (perf_counter() - begin) / count


WAYS = {"back": _back, "row": _row, "barrier": _barrier}


def _measure(rank: int, file: str, rounds: int, sizes: list[int], results: Any) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{file}", rank=rank, world_size=2, timeout=timedelta(seconds=300)
    )
    for size in sizes:
        sides = _sides(rank, size)
        found: dict[tuple[str, str], list[float]] = {(way, name): [] for way in WAYS for name in sides}
        turns = max(3, rounds // 10) if size > 2**14 else rounds
        for turn in range(turns):
            for name, (send, receive) in sides.items():
                many = name in ("50 plain sends", "the peer")
                count = 1 if size > 2**14 or many else 20
                for way, run in WAYS.items():
                    run(rank, send, receive, 1)
                    dist.barrier()
                    found[way, name].append(run(rank, send, receive, count) * 1e6)
            if rank == 0 and turn == turns - 1:
                results.put((size, found))
    dist.barrier()
    dist.destroy_process_group()


def sends(rounds: int) -> None:
    """Prints the table."""
    results: Any = mp.get_context("spawn").SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(_measure, (folder + "/store", rounds, list(SIZES.values()), results), nprocs=2)
        named = {size: name for name, size in SIZES.items()}
        print(f"{FIELDS} fields, one message: microseconds, and how many plain sends of the same bytes that is")
        print(f"target: ours at most {TARGET} for small fields, and never more than the peer")
        while not results.empty():
            size, found = results.get()
            print(f"\n{named[size]} a field")
            print(f"  {'':20}" + "".join(f"{way + ', least':>18}{way + ', median':>19}" for way in WAYS))
            for name in dict.fromkeys(name for _, name in found):
                cells = ""
                for way in WAYS:
                    for least in (min, statistics.median):
                        value, one = least(found[way, name]), least(found[way, "one plain send"])
                        cells += f"{value:11.0f} {value / one:6.2f}"
                print(f"  {name:20}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    given = parser.parse_args()
    sends(20 if given.quick else 100)


if __name__ == "__main__":
    main()
