"""Collectives of records on gloo over loopback, beside the peer and beside one message of the same bytes.

    python -m benchmarks.collectives [--ranks 2] [--rounds 12] [--only scaling,large,others,constants]

Each figure is the least time of a call of rank 0, in microseconds, over rounds in which all cases take turns: what else
runs on the machine only makes them longer. In brackets: the median.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

Cases = dict[str, Callable[[], Any]]
Figures = dict[str, tuple[float, float]]

SUBJECTS = ("scaling", "large", "others", "constants")


def measured(cases: Cases, rounds: int, calls: int) -> Figures:
    """Least and median time of a call of each case, in microseconds."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, call in cases.items():
            call()
            call()
            dist.barrier()
            for _ in range(calls):
                begin = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - begin) * 1e6)
    return {name: (min(found), statistics.median(found)) for name, found in times.items()}


def _records(fields: int, items: int, size: tuple[int, ...] = ()) -> tuple[Any, Any]:
    from tensordict import TensorDict as Peer

    from tensorclass import TensorDict

    values = {f"field{at}": torch.zeros(*size, items) for at in range(fields)}
    return TensorDict(values, size), Peer({key: value.clone() for key, value in values.items()}, size)


def _show(title: str, figures: Figures, one: str) -> None:
    if dist.get_rank():
        return
    parts = [f"{name} {least:9.1f} ({middle:9.1f})" for name, (least, middle) in figures.items()]
    ratio = f"   ours/one {figures['ours'][0] / figures[one][0]:5.2f}" if "ours" in figures else ""
    beside = f"  peer/ours {figures['peer'][0] / figures['ours'][0]:5.1f}" if "peer" in figures else ""
    print(f"{title:34s} {'  '.join(parts)}{ratio}{beside}", flush=True)


def scaling(rounds: int) -> None:
    """``all_reduce`` of the same bytes in more and more fields."""
    for total in (12_800, 128_000):
        for fields in (1, 10, 50, 100, 1000):
            ours, peer = _records(fields, total // 4 // fields)
            flat = torch.zeros(total // 4)
            figures = measured(
                {"ours": ours.all_reduce, "peer": peer.all_reduce, "one": lambda flat=flat: dist.all_reduce(flat)},
                max(2, rounds // (1 + fields // 100)),
                10,
            )
            _show(f"all_reduce, {fields} fields, {total} B", figures, "one")


def large(rounds: int) -> None:
    """``all_reduce`` of one field, and of 10."""
    for fields in (1, 10):
        for total in (4_000, 64_000, 200_000, 400_000, 1_000_000, 4_000_000, 40_000_000):
            ours, peer = _records(fields, total // 4 // fields)
            flat = torch.zeros(total // 4)
            figures = measured(
                {"ours": ours.all_reduce, "peer": peer.all_reduce, "one": lambda flat=flat: dist.all_reduce(flat)},
                rounds,
                max(1, min(10, 10_000_000 // total)),
            )
            _show(f"all_reduce, {fields} fields, {total} B", figures, "one")


def others(rounds: int) -> None:
    """The other collectives."""
    for fields, items in ((1, 64), (50, 64), (1, 1_000_000)):
        for name, found in _others(fields, items).items():
            figures = measured(found, rounds, 2 if items > 1000 else 5)
            _show(f"{name}, {fields} fields, {fields * items * 4} B", figures, "one")


def _others(fields: int, items: int) -> dict[str, Cases]:
    rank, world = dist.get_rank(), dist.get_world_size()
    ours, peer = _records(fields, items)
    holders = _records(fields, items, (world - 1,))
    flat = torch.zeros(fields * items)
    parts = [torch.zeros(fields * items) for _ in range(world)]
    return {
        "broadcast": {
            "ours": lambda: ours.broadcast(0),
            "peer": lambda: peer.broadcast(0),
            "one": lambda: dist.broadcast(flat, 0),
        },
        "all_gather": {
            "ours": ours.all_gather,
            "peer": peer.all_gather,
            "one": lambda: dist.all_gather(parts, flat),
        },
        "gather_and_stack": {
            "ours": lambda: (ours if rank else holders[0]).gather_and_stack(0),
            "peer": lambda: (peer if rank else holders[1]).gather_and_stack(0),
            "one": lambda: dist.gather(flat, parts if rank == 0 else None, 0),
        },
        "scatter": {
            "ours": lambda: ours.scatter(0, [ours] * world if rank == 0 else None),
            "peer": lambda: peer.scatter(0, [peer] * world if rank == 0 else None),
            "one": lambda: dist.scatter(flat, parts if rank == 0 else None, 0),
        },
        "reduce": {
            "ours": lambda: ours.reduce(0),
            "peer": lambda: peer.reduce(0),
            "one": lambda: dist.reduce(flat, 0),
        },
        "all_reduce, async": {
            "ours": lambda: [message.wait() for message in ours.all_reduce(async_op=True)],
            "peer": lambda: [message.wait() for message in peer.all_reduce(async_op=True)],
            "one": lambda: dist.all_reduce(flat, async_op=True).wait(),
        },
    }


def _between(flat: torch.Tensor, rank: int) -> None:
    if rank == 0:
        dist.send(flat, 1)
    elif rank == 1:
        dist.recv(flat, 0)


def constants(rounds: int) -> None:
    """What a message costs: its latency, and the time for a byte, from the smallest and the largest."""
    rank, world = dist.get_rank(), dist.get_world_size()
    sizes = (8, 1_000, 10_000, 100_000, 1_000_000, 16_000_000)
    found: dict[str, list[float]] = {}
    for size in sizes:
        flat, parts = torch.zeros(size, dtype=torch.uint8), [torch.zeros(size, dtype=torch.uint8) for _ in range(world)]
        floats = torch.zeros(max(size // 4, 1))
        cases: Cases = {
            "send/recv": lambda flat=flat: (
                dist.send(flat, 1) if rank == 0 else dist.recv(flat, 0) if rank == 1 else None
            ),
            "broadcast": lambda flat=flat: dist.broadcast(flat, 0),
            "all_gather": lambda flat=flat, parts=parts: dist.all_gather(parts, flat),
            "gather": lambda flat=flat, parts=parts: dist.gather(flat, parts if rank == 0 else None, 0),
            "scatter": lambda flat=flat, parts=parts: dist.scatter(flat, parts if rank == 0 else None, 0),
            "reduce": lambda floats=floats: dist.reduce(floats, 0),
            "all_reduce": lambda floats=floats: dist.all_reduce(floats),
        }
        for name, (least, _) in measured(cases, rounds, 10 if size < 10**6 else 2).items():
            found.setdefault(name, []).append(least)
    if rank == 0:
        print(f"{world} ranks; bytes: " + "  ".join(f"{size:9d}" for size in sizes))
        for name, times in found.items():
            rate = (sizes[-1] - sizes[0]) / (times[-1] - times[0]) / 1000
            row = "  ".join(f"{item:9.0f}" for item in times)
            print(f"{name:12s} {row}   latency {times[0]:5.0f} us, {rate:5.2f} GB/s")


def _main(rank: int, world: int, port: int, subjects: Sequence[str], rounds: int) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    for subject in subjects:
        globals()[subject](rounds)
    dist.barrier()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default=",".join(SUBJECTS))
    given = parser.parse_args()
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    args = (given.ranks, port, given.only.split(","), given.rounds)
    started = [context.Process(target=_main, args=(rank, *args), daemon=True) for rank in range(given.ranks)]
    try:
        for process in started:
            process.start()
        for process in started:
            process.join()
    finally:
        for process in started:
            process.kill()


if __name__ == "__main__":
    main()
