"""A training step on records beside plain PyTorch and the peer: `python -m benchmarks.training`.

All train the network of examples/training_plain.py with the same numbers; an epoch of each takes its turn. "by hand" is
the fastest loop that one would write: tensors in memory, rows by index, no loader.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensordict
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from examples import training, training_plain
from tensorclass import DataLoader as RecordLoader
from tensorclass import Stage

BATCH = 64
#: returns the number of rows
Epoch = Callable[[], int]


def _trained(network: nn.Module, batches: Callable[[], Iterator[Any]], losses: Callable[[Any], Tensor]) -> Epoch:
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)

    def epoch() -> int:
        rows = 0
        for batch in batches():
            loss = losses(batch)
            loss.mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            rows += len(loss)
        return rows

    return epoch


def plain(rows: int, compiled: bool) -> Epoch:
    loader = DataLoader(training_plain.make_data(rows), batch_size=BATCH, shuffle=True)
    network, step = _plain_step(compiled)
    return _trained(network, lambda: iter(loader), lambda batch: step(*batch))


def by_hand(rows: int, compiled: bool) -> Epoch:
    image, label = training_plain.make_data(rows).tensors
    network, step = _plain_step(compiled)
    return _trained(
        network,
        lambda: ((image[index], label[index]) for index in torch.randperm(rows).split(BATCH)),
        lambda batch: step(*batch),
    )


def _plain_step(compiled: bool) -> tuple[nn.Module, Callable[[Tensor, Tensor], Tensor]]:
    network = training_plain.Network()

    def step(image: Tensor, label: Tensor) -> Tensor:
        image = image + 0.1 * torch.randn_like(image)
        return F.cross_entropy(network(image), label, reduction="none")

    return network, torch.compile(step) if compiled else step


def records(rows: int, compiled: bool, folder: Path | None = None) -> Epoch:
    image, label = training_plain.make_data(rows).tensors
    samples = training.Sample(image=image, label=label, batch_size=[rows])
    if folder is not None:
        samples = samples.memmap(folder)
    loader = RecordLoader(samples, batch_size=BATCH, shuffle=True)
    pipeline: Stage[training.Sample, training.Score] = training.add_noise >> training.Network() >> training.score
    run: Any = torch.compile(pipeline) if compiled else pipeline
    return _trained(pipeline, lambda: iter(loader), lambda batch: run(batch).loss)


def peer(rows: int, compiled: bool) -> Epoch:
    image, label = training_plain.make_data(rows).tensors
    samples = tensordict.TensorDict({"image": image, "label": label}, [rows])
    loader: Any = DataLoader(samples, batch_size=BATCH, shuffle=True, collate_fn=lambda batch: batch)  # type: ignore[arg-type]
    network = training_plain.Network()
    modules = tensordict.nn.TensorDictSequential(
        tensordict.nn.TensorDictModule(lambda image: image + 0.1 * torch.randn_like(image), ["image"], ["image"]),
        tensordict.nn.TensorDictModule(network, ["image"], ["logits"]),
        tensordict.nn.TensorDictModule(
            lambda logits, label: F.cross_entropy(logits, label, reduction="none"), ["logits", "label"], ["loss"]
        ),
        tensordict.nn.TensorDictModule(
            lambda logits, label: logits.argmax(-1) == label, ["logits", "label"], ["correct"]
        ),
    )
    run: Any = torch.compile(modules) if compiled else modules
    return _trained(network, lambda: iter(loader), lambda batch: run(batch)["loss"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="epochs of each (default: %(default)s)")
    parser.add_argument("--rows", type=int, default=2048, help="rows of the data set (default: %(default)s)")
    parser.add_argument("--compile", action="store_true", help="compile the steps")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sides: dict[str, Epoch] = {
            "plain PyTorch, DataLoader of a TensorDataset": plain(given.rows, given.compile),
            "plain PyTorch, rows by hand": by_hand(given.rows, given.compile),
            "records": records(given.rows, given.compile),
            "records, mapped to a file": records(given.rows, given.compile, Path(folder) / "data"),
            "peer": peer(given.rows, given.compile),
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        for epoch in sides.values():
            epoch()
        for _ in range(given.rounds):
            for name, epoch in sides.items():
                start = time.perf_counter()
                epoch()
                times[name].append(time.perf_counter() - start)
    steps = -(-given.rows // BATCH)
    base = min(next(iter(times.values())))
    print(f"{'':46} ms a step, median and least    of plain")
    for name, taken in times.items():
        median, least = statistics.median(taken), min(taken)
        print(f"{name:46} {1000 * median / steps:10.3f} {1000 * least / steps:14.3f} {least / base:14.2f}")


if __name__ == "__main__":
    main()
