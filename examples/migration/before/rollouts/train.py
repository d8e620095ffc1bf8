"""Train the critic on the returns of a data set, with a slow copy of its parameters."""

import tensordict
import torch
from tensordict.tensordict import TensorDictBase

from .dataset import batches
from .policy import make_critic
from .records import Step


def features(steps: Step) -> TensorDictBase:
    """Return what the critic reads."""
    return steps.observation.to_tensordict()


def loss_of(critic: "tensordict.nn.TensorDictSequential", steps: Step, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean squared error of the values of some steps."""
    data = critic(features(steps))
    assert tensordict.is_tensor_collection(data)
    return torch.nn.functional.mse_loss(data["value"].squeeze(-1), targets)


def train(steps: Step, epochs: int = 5, rate: float = 0.05, seed: int = 0) -> "tuple[list[float], float]":
    """Return the loss of each epoch, and that of the slow copy at the end."""
    torch.manual_seed(seed)
    critic = make_critic()
    slow = tensordict.TensorDict.from_module(critic).data.clone()
    optimizer = torch.optim.Adam(critic.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(epochs):
        total = 0.0
        for batch in batches(steps, 4, generator):
            loss = loss_of(critic, batch, batch.returns(0.9))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        slow.lerp_(tensordict.TensorDict.from_module(critic).data, 0.5)
        losses.append(total)
    with slow.to_module(critic), torch.no_grad():
        return losses, loss_of(critic, steps, steps.returns(0.9)).item()


def summary(runs: "list[dict[str, float]]") -> tensordict.TensorDict:
    """Return the figures of several runs, and their mean."""
    stacked = tensordict.stack([tensordict.TensorDict(run) for run in runs])
    return tensordict.TensorDict({"runs": stacked, "mean": stacked.mean(0)})
