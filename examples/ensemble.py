"""Four networks that are trained as one: their parameters are a record of stacked tensors, which vmap runs over.

python examples/ensemble.py [STEPS]
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tensorclass import TensorClass, TensorCollection, TensorDict
from tensorclass.nn import TensorDictParams

MEMBERS = 4


class Sample(TensorClass):
    x: Tensor  # [samples, 1]
    y: Tensor  # [samples, 1]


class Prediction(TensorClass):
    y: Tensor  # [samples, 1]
    spread: Tensor  # [samples, 1]: how much the members differ


def make_data() -> Sample:
    """A sine under noise, with a gap between 0 and 2, where nothing is known."""
    drawn = torch.Generator().manual_seed(1)
    x = 6 * torch.rand(256, 1, generator=drawn) - 3
    x = x[(x < 0) | (x > 2)].unsqueeze(1)
    y = torch.sin(2 * x) + 0.1 * torch.randn(x.shape, generator=drawn)
    return Sample(x=x, y=y, batch_size=[len(x)])


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


class Ensemble(nn.Module):
    """Networks with initialisations of their own, each on all samples."""

    def __init__(self, members: int) -> None:
        super().__init__()
        self.params = TensorDictParams(TensorDict.from_modules(*(network() for _ in range(members))))
        self._network = [network().to("meta")]  # how to compute; in a list, since its parameters are none of ours

    def outputs(self, sample: Sample) -> Tensor:
        """What each member says: [members, samples, 1]."""
        (shape,) = self._network

        def one(params: TensorCollection) -> Tensor:
            with params.to_module(shape):
                found: Tensor = shape(sample.x)
            return found

        return torch.vmap(one)(self.params)

    def forward(self, sample: Sample) -> Prediction:
        outputs = self.outputs(sample)
        return Prediction(y=outputs.mean(0), spread=outputs.std(0), batch_size=sample.batch_size)


def train(steps: int) -> tuple[Ensemble, list[float]]:
    torch.manual_seed(0)
    data = make_data()
    ensemble = Ensemble(MEMBERS)
    optimizer = torch.optim.Adam(ensemble.parameters(), lr=1e-2)
    history: list[float] = []
    for _ in range(steps):
        outputs = ensemble.outputs(data)
        loss = F.mse_loss(outputs, data.y.expand_as(outputs))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        history.append(loss.item())
    return ensemble, history


def main() -> None:
    ensemble, history = train(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
    print(f"{MEMBERS} members: loss {history[0]:.3f} at first, {history[-1]:.4f} in the end")
    x = torch.tensor([[-1.0], [1.0], [2.5], [6.0]])
    with torch.no_grad():
        found = ensemble(Sample(x=x, y=torch.sin(2 * x), batch_size=[len(x)]))
    for at, y, spread in zip(x[:, 0], found.y[:, 0], found.spread[:, 0], strict=True):
        print(f"at {at:4.1f}: {y:6.2f} +- {spread:.2f}, sin(2x) is {torch.sin(2 * at):.2f}")


if __name__ == "__main__":
    main()
