"""A typed batch through TorchRL's replay buffer and a loss, on a copy of nothing.

TorchRL asks for collections of the package tensordict. Records are handed over with `to_pytorch_tensordict()` and come
back with `from_any`; both sides share the tensors. Run it in an environment with torchrl:

    pip install torchrl==0.14.1 tensorclass[tensordict]
    python examples/replay_buffer.py
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from torch import Tensor, nn

from tensorclass import TensorClass


class Outcome(TensorClass):
    """What the environment answered."""

    observation: Tensor
    reward: Tensor
    done: Tensor
    terminated: Tensor


class Transition(TensorClass):
    """One step: what was seen and done, and what came of it."""

    observation: Tensor
    action: Tensor
    next: Outcome


def play(steps: int, seed: int) -> Transition:
    """Draw transitions of a task in which the action should be the sign of the first number seen."""
    generator = torch.Generator().manual_seed(seed)
    seen = torch.randn(steps, 4, generator=generator)
    action = nn.functional.one_hot(torch.randint(2, (steps,), generator=generator), 2)
    right = action.argmax(-1) == (seen[:, 0] > 0)
    ended = torch.ones(steps, 1, dtype=torch.bool)
    outcome = Outcome(torch.zeros(steps, 4), right.float()[:, None], ended, ended, batch_size=[steps])
    return Transition(seen, action, outcome, batch_size=[steps])


def train(steps: int, updates: int, seed: int) -> tuple[float, Transition]:
    """Train a Q-network from a replay buffer of TorchRL; return the share of right actions and the last batch."""
    from torchrl.data import LazyTensorStorage, ReplayBuffer
    from torchrl.modules import QValueActor
    from torchrl.objectives import DQNLoss

    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    actor = QValueActor(network, in_keys=["observation"], action_space="one-hot")
    loss: Any = DQNLoss(actor, action_space="one-hot", delay_value=False)
    loss.make_value_estimator(gamma=0.9)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    buffer: Any = ReplayBuffer(storage=LazyTensorStorage(steps), batch_size=64)
    buffer.extend(play(steps, seed).to_pytorch_tensordict(untyped=True))
    batch = play(1, seed)
    for _ in range(updates):
        theirs = buffer.sample()
        optimizer.zero_grad()
        loss(theirs)["loss"].backward()
        optimizer.step()
        batch = Transition.from_any(theirs.select("observation", "action", "next"))
    test = play(1000, seed + 1)
    right = network(test.observation).argmax(-1) == (test.observation[:, 0] > 0)
    return right.float().mean().item(), batch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000, help="transitions in the buffer")
    parser.add_argument("--updates", type=int, default=200, help="training steps")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    share, batch = train(arguments.steps, arguments.updates, arguments.seed)
    print(f"right actions: {100 * share:.1f} %")
    print(f"a batch: {type(batch).__name__} of {type(batch.next).__name__}, {list(batch.batch_size)}")


if __name__ == "__main__":
    main()
