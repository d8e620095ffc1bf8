"""A parameter server: workers send gradients, the server updates the parameters and sends them.

    torchrun --nproc-per-node 2 examples/parameter_server.py
    python examples/parameter_server.py         # starts the two processes by itself

Rank 0 is the server, all others are workers (more of them: --nproc-per-node 4). Parameters and gradients are records of
one class. A worker needs to know nothing of them when it begins: what it is sent says what it is.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from launch import launch
from torch import Tensor

from tensorclass import TensorClass, TensorDict

STEPS, RATE = 100, 0.5
SERVER = 0


class Line(TensorClass):
    """Parameters of a linear model, or their gradients."""

    weight: Tensor
    bias: Tensor


def samples(worker: int) -> tuple[Tensor, Tensor]:
    """What a worker has: points of the line 2 x - 1."""
    generator = torch.Generator().manual_seed(worker)
    x = torch.rand(256, 1, generator=generator)
    return x, 2 * x - 1


def serve() -> None:
    workers = dist.get_world_size() - 1
    parameters = Line(torch.zeros(1), torch.zeros(1))
    for step in range(STEPS):
        parameters.broadcast(SERVER)
        received = Line(torch.zeros(workers, 1), torch.zeros(workers, 1), batch_size=[workers])
        received.gather_and_stack(SERVER)  # a row for each worker
        parameters = parameters - received.mean(0) * RATE
        if step % 20 == 19:
            print(f"step {step + 1}: {float(parameters.weight):.3f} x {float(parameters.bias):+.3f}")
    parameters.broadcast(SERVER)


def work() -> None:
    x, y = samples(dist.get_rank())
    for _ in range(STEPS):
        received = TensorDict({}).broadcast(SERVER)
        assert isinstance(received, Line)
        line = received.detach().requires_grad_()
        loss = (x * line.weight + line.bias - y).square().mean()
        loss.backward()
        line.grad.gather_and_stack(SERVER)
    TensorDict({}).broadcast(SERVER)


def main() -> None:
    if dist.get_rank() == SERVER:
        serve()
    else:
        work()


if __name__ == "__main__":
    launch(main, 2)
