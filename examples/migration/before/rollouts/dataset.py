"""Rollouts in memory-mapped files."""

from pathlib import Path

import torch
from tensordict import LazyStackedTensorDict, TensorDict, pad_sequence
from tensordict.utils import is_tensorclass

from .records import Step


def write(steps: Step, folder: Path) -> Step:
    """Write steps into a folder; return them mapped."""
    if not is_tensorclass(steps):
        raise TypeError(f"expected Step, got {type(steps).__name__}")
    return steps.memmap(folder)


def read(folder: Path) -> Step:
    """Return the steps of a folder, mapped: values are read when they are used."""
    return Step.load_memmap(folder)


def batches(steps: Step, size: int, generator: torch.Generator) -> "list[Step]":
    """Return shuffled batches in memory."""
    order = torch.randperm(steps.batch_size[0], generator=generator)
    return [steps[rows].clone() for rows in order.split(size)]


def padded(episodes: "list[TensorDict]") -> TensorDict:
    """Return episodes of different length as one padded collection, with a mask and the lengths."""
    lengths = [TensorDict({"length": torch.tensor(episode.batch_size[0])}) for episode in episodes]
    length = LazyStackedTensorDict.lazy_stack(lengths)["length"]
    steps = pad_sequence(episodes, return_mask=True)
    return TensorDict({"steps": steps, "length": length}, batch_size=[len(episodes)])
