"""A data set of a million rows on disk: filled by several processes, appended to, read in shuffled batches.

python examples/million_rows.py [ROWS] [FOLDER]
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from tensorclass import DataLoader, TensorClass
from tensorclass.support.progress import bar

WRITERS = 2
PIECE = 20_000  # rows that are made at a time
BATCH = 1024


class Sample(TensorClass):
    image: Tensor
    label: Tensor


def samples(start: int, count: int) -> Sample:
    """Rows that are made up: an image of one grey for each row."""
    label = torch.arange(start, start + count)
    return Sample(image=(label % 256).to(torch.uint8)[:, None].expand(-1, 64), label=label, batch_size=[count])


def fill(folder: Path, start: int, stop: int) -> None:
    """What a writer does: it maps the folder, and writes rows that are its own."""
    data = Sample.load_memmap(folder)
    for at in range(start, stop, PIECE):
        until = min(at + PIECE, stop)
        data[at:until] = samples(at, until - at)


def make(folder: Path, rows: int) -> Sample:
    """The data set: files for nine of ten rows, which processes fill, and the rest appended."""
    first = rows * 9 // 10
    samples(0, 1)[0].expand(first).memmap_like(folder)  # no memory, and no space on the disk yet
    steps = [first * at // WRITERS for at in range(WRITERS + 1)]
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=fill, args=(folder, *ends)) for ends in pairwise(steps)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        if writer.exitcode:
            raise RuntimeError(f"a writer failed with {writer.exitcode}")
    for at in bar(range(first, rows, PIECE), "appending"):
        Sample.append_memmap(folder, samples(at, min(PIECE, rows - at)))
    return Sample.load_memmap(folder)


def total(data: Sample) -> int:
    """An epoch: all rows in shuffled batches, of which one at a time is in memory."""
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, generator=generator)
    return sum(int(batch.label.sum()) for batch in bar(loader, "an epoch", unit="batch", total=len(loader)))


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as place:
        folder = Path(sys.argv[2] if len(sys.argv) > 2 else place, "samples")
        start = time.perf_counter()
        data = make(folder, rows)
        made = time.perf_counter()
        assert total(data) == rows * (rows - 1) // 2
        read = time.perf_counter()
        print(f"{len(data):,} rows: written in {made - start:.1f} s, read in shuffled batches in {read - made:.1f} s")


if __name__ == "__main__":
    main()
