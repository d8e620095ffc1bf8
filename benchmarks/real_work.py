"""`python -m benchmarks.real_work [--filter REGEX] [--quick] [--page]`: pieces of programs, beside other ways.

- an epoch over a data set on disk in shuffled batches: by hand with one tensor for each file, with `tensordict`, and
  with Hugging Face's datasets;
- steps of training, with the network of examples/training.py: by hand with rows of tensors, with `tensordict`;
- an actor that writes each step into a preallocated buffer: by hand into a dict of tensors, with `tensordict`;
- a replay buffer, extended by 64 steps and sampled for 256: by hand, with `tensordict`, and with TorchRL where it is
  installed;
- the mean scores of 100 logs of evaluations: with polars.

All sides of a work take turns, and each shows the smallest of its times.
"""

import argparse
import importlib.util
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensordict
import torch
from torch import Tensor

from benchmarks import training
from benchmarks.page import fill, number, table
from benchmarks.scores import SHAPES, write_log
from tensorclass import DataLoader, TensorClass
from tensorclass.scores import read_scores

Work = Callable[[], object]
Sides = dict[str, Work]


class Sample(TensorClass):
    image: Tensor
    label: Tensor


class Step(TensorClass):
    observation: Tensor
    action: Tensor
    reward: Tensor


# -- an epoch ---------------------------------------------------------------------------------------------------------

BATCH = 1024


def epoch(folder: Path, rows: int) -> Sides:
    """Shuffled batches of all rows, of which the labels are summed."""
    values = {"image": torch.zeros(rows, 64, dtype=torch.uint8), "label": torch.arange(rows)}
    ours = Sample(**values, batch_size=[rows]).memmap(folder / "ours")
    peer: Any = tensordict.TensorDict(values, [rows]).memmap(str(folder / "peer"))
    files = {}
    for name, value in values.items():
        value.numpy().tofile(folder / name)
        files[name] = torch.from_file(str(folder / name), size=value.numel(), dtype=value.dtype).reshape(value.shape)
    sides: Sides = {
        "ours": lambda: sum(int(batch.label.sum()) for batch in DataLoader(ours, batch_size=BATCH, shuffle=True)),
        "by hand": lambda: sum(
            int({name: file[index] for name, file in files.items()}["label"].sum())
            for index in torch.randperm(rows).split(BATCH)
        ),
        "tensordict": lambda: sum(int(peer[index]["label"].sum()) for index in torch.randperm(rows).split(BATCH)),
    }
    if importlib.util.find_spec("datasets") is not None:
        import datasets

        datasets.disable_progress_bars()
        made = datasets.Dataset.from_dict({name: value.numpy() for name, value in values.items()})
        made.save_to_disk(folder / "hugging face")
        table = datasets.load_from_disk(folder / "hugging face").with_format("torch")
        sides["datasets"] = lambda: sum(
            int(table[index.tolist()]["label"].sum()) for index in torch.randperm(rows).split(BATCH)
        )
    return sides


# -- training ---------------------------------------------------------------------------------------------------------


def training_steps(folder: Path, steps: int) -> Sides:
    """Steps of a small network, on shuffled batches."""
    rows = steps * training.BATCH
    return {
        "ours": training.records(rows, False),
        "by hand": training.by_hand(rows, False),
        "tensordict": training.peer(rows, False),
    }


# -- an actor ---------------------------------------------------------------------------------------------------------


def _step(seed: int = 0) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    shapes = {"observation": (8,), "action": (2,), "reward": ()}
    return {name: torch.rand(shape, generator=random) for name, shape in shapes.items()}


def actor(folder: Path, steps: int) -> Sides:
    """Each step is made of its tensors, and written into the buffer at its position."""
    step = _step()
    ours = Step.from_dict(step).expand(steps).clone().zero_()
    peer: Any = tensordict.TensorDict(step, []).expand(steps).clone().zero_()
    hand = {name: value.new_zeros(steps, *value.shape) for name, value in step.items()}

    def on_record() -> float:
        for position in range(steps):
            ours[position] = Step(**step)
        return _sum(ours.to_dict())

    def on_dict() -> float:
        for position in range(steps):
            for name, value in step.items():
                hand[name][position] = value
        return _sum(hand)

    def on_peer() -> float:
        for position in range(steps):
            peer[position] = tensordict.TensorDict(step, [])
        return _sum(peer)

    return {"ours": on_record, "by hand": on_dict, "tensordict": on_peer}


def _sum(values: Any) -> float:
    """The sum of all numbers that were written, which all sides agree on."""
    return float(sum([value.double().sum() for value in values.values()]))


# -- a replay buffer --------------------------------------------------------------------------------------------------


def replay(folder: Path, rounds: int) -> Sides:
    """Extend a full buffer by 64 steps, and sample 256."""
    capacity = 100_000
    step = _step()
    rows = {name: 2 * value.expand(64, *value.shape) for name, value in step.items()}
    ours, ours_rows = Step.from_dict(step).expand(capacity).clone(), Step(**rows, batch_size=[64])
    peer_rows: Any = tensordict.TensorDict(rows, [64])
    peer: Any = tensordict.TensorDict(step, []).expand(capacity).clone()
    hand = {name: value.expand(capacity, *value.shape).clone() for name, value in step.items()}

    def positions() -> Iterator[Tensor]:
        for turn in range(rounds):
            yield (torch.arange(64) + 64 * turn) % capacity

    def on_record() -> float:
        for where in positions():
            ours[where] = ours_rows
            ours[torch.randint(capacity, (256,))]
        return _sum(ours.to_dict())

    def on_dict() -> float:
        for where in positions():
            for name, value in rows.items():
                hand[name][where] = value
            index = torch.randint(capacity, (256,))
            {name: value[index] for name, value in hand.items()}
        return _sum(hand)

    def on_peer() -> float:
        for where in positions():
            peer[where] = peer_rows
            peer[torch.randint(capacity, (256,))]
        return _sum(peer)

    sides: Sides = {"ours": on_record, "by hand": on_dict, "tensordict": on_peer}
    if importlib.util.find_spec("torchrl") is not None:
        from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer

        buffer: Any = TensorDictReplayBuffer(storage=LazyTensorStorage(capacity), batch_size=256)
        buffer.extend(peer)

        def on_torchrl() -> None:
            for _ in range(rounds):
                buffer.extend(peer_rows)
                buffer.sample()

        sides["torchrl"] = on_torchrl
    return sides


# -- logs -------------------------------------------------------------------------------------------------------------


def logs(folder: Path, count: int) -> Sides:
    """The mean score of each of the logs; here, with errors and intervals, and each row checked."""
    paths = [folder / f"samples_{which}.jsonl" for which in range(count)]
    for path in paths:
        write_log(path, 1000, "choice")
    sides: Sides = {"ours": lambda: [read_scores(path).aggregate() for path in paths]}
    if importlib.util.find_spec("polars") is not None:
        import polars

        means = [polars.col(name).cast(polars.Float64).mean() for name in SHAPES["choice"][1]]
        sides["polars"] = lambda: [polars.scan_ndjson(path).select(means).collect() for path in paths]
    return sides


#: each work with its size
WORKS: dict[str, tuple[Callable[[Path, int], Sides], int]] = {
    "rows of an epoch": (epoch, 1_000_000),
    "steps of training": (training_steps, 200),
    "steps of an actor": (actor, 100_000),
    "rounds of a replay buffer": (replay, 1_000),
    "logs of 1,000 rows": (logs, 100),
}


def measure(sides: Sides, rounds: int) -> dict[str, float]:
    """Return the smallest of some times of each side, in seconds, after a call that imports what is imported late."""
    best = dict.fromkeys(sides, float("inf"))
    for work in sides.values():
        work()
    for _ in range(rounds):
        for name, work in sides.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def page_table(measured: dict[str, dict[str, float]]) -> str:
    """Return the table of docs/performance.md: seconds, and the times of the other sides beside ours."""
    sides = list(dict.fromkeys([side for best in measured.values() for side in best if side != "ours"]))
    rows = [
        [name, number(best["ours"]), *[f"{best[side] / best['ours']:.2f}" if side in best else "" for side in sides]]
        for name, best in measured.items()
    ]
    return table(("work", "s", *[f"{side} / ours" for side in sides]), rows)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.real_work", description="Pieces of real programs.")
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, and one time of each")
    parser.add_argument("--page", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    measured: dict[str, dict[str, float]] = {}
    for name, (prepare, full) in WORKS.items():
        if options.filter.search(name):
            size = full // 10 if options.quick else full
            with tempfile.TemporaryDirectory() as folder:
                best = measure(prepare(Path(folder), size), 1 if options.quick else 5)
            measured[f"{size:,} {name}"] = best
            text = ", ".join(f"{side} {seconds:.3f} s ({seconds / best['ours']:.2f})" for side, seconds in best.items())
            print(f"{size:,} {name}: {text}", flush=True)
    if options.page:
        fill("real work", page_table(measured))
    return 0


if __name__ == "__main__":
    sys.exit(main())
