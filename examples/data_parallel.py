"""Data-parallel training steps on two processes, with the numbers of one process that has the whole batch.

    torchrun --nproc-per-node 2 examples/data_parallel.py
    python examples/data_parallel.py            # starts the two processes by itself

Each process has half of the rows. The gradients are one record; its mean over all processes is one message.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from launch import launch
from torch import Tensor, nn

from tensorclass import TensorClass, TensorDict

STEPS, RATE, ROWS = 20, 0.1, 64


class Batch(TensorClass):
    """Inputs and what is to be found."""

    x: Tensor
    y: Tensor


def rows() -> Batch:
    torch.manual_seed(1)
    x = torch.randn(ROWS, 8)
    return Batch(x, x.sum(1, keepdim=True).sin(), batch_size=[ROWS])


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    return (model(batch.x) - batch.y).square().mean()


def train(batch: Batch, processes: int) -> tuple[nn.Module, list[float]]:
    """Some steps on a batch, or on a part of it, with the gradients of all processes."""
    model, losses = network(), list[float]()
    for _ in range(STEPS):
        model.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        record = TensorDict({"loss": loss.detach()})
        record["gradients"] = {name.replace(".", "_"): each.grad for name, each in model.named_parameters()}
        if processes > 1:
            record.all_reduce(dist.ReduceOp.AVG)  # in place: these are the gradients of the model
        with torch.no_grad():
            for each in model.parameters():
                each -= RATE * each.grad
        losses.append(float(record["loss"]))
    return model, losses


def main() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    size = ROWS // world
    model, losses = train(rows()[rank * size : (rank + 1) * size], world)
    if rank == 0:
        alone, wanted = train(rows(), 1)
        pairs = zip(model.parameters(), alone.parameters(), strict=True)
        far = max(float((a - b).detach().abs().max()) for a, b in pairs)
        print(f"{world} processes: loss {losses[0]:.4f} -> {losses[-1]:.4f}")
        print(f"1 process:   loss {wanted[0]:.4f} -> {wanted[-1]:.4f}; parameters differ by {far:.0e} at most")
        assert far < 1e-5


if __name__ == "__main__":
    launch(main, 2)
