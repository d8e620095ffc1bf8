"""examples/training_plain.py on records: the same numbers, with data on disk, checkpoints, and types that are checked.

python examples/training.py [EPOCHS] [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tensorclass import DataLoader, Stage, TensorClass, TensorDict

CLASSES = 4
ROWS = 2048


class Sample(TensorClass):
    image: Tensor  # [samples, 1, 16, 16]
    label: Tensor  # [samples]


class Prediction(TensorClass):
    logits: Tensor  # [samples, classes]
    label: Tensor  # [samples]


class Score(TensorClass):
    loss: Tensor  # [samples]
    correct: Tensor  # [samples]


class Checkpoint(TensorClass):
    """All that a run needs to go on as if it had not ended."""

    network: TensorDict
    optimizer: TensorDict
    shuffling: Tensor  # the states of the two generators
    noise: Tensor
    history: Tensor  # [epochs]


def make_data(folder: Path, rows: int) -> Sample:
    """Images of stripes, in one of four directions, under noise; mapped to memory, not read."""
    made = torch.Generator().manual_seed(1)
    label = torch.randint(CLASSES, (rows,), generator=made)
    y, x = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    stripes = torch.stack([torch.sin(wave) for wave in (x, y, x + y, x - y)])
    image = stripes[label] + 4 * torch.randn(rows, 16, 16, generator=made)
    return Sample(image=image.unsqueeze(1), label=label, batch_size=[rows]).memmap(folder)


@Stage
def add_noise(sample: Sample) -> Sample:
    return sample.replace(image=sample.image + 0.1 * torch.randn_like(sample.image))


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(8 * 7 * 7, CLASSES)

    def forward(self, sample: Sample) -> Prediction:
        logits = self.head(self.features(sample.image))
        return Prediction(logits=logits, label=sample.label, batch_size=sample.batch_size)


@Stage
def score(prediction: Prediction) -> Score:
    return Score(
        loss=F.cross_entropy(prediction.logits, prediction.label, reduction="none"),
        correct=prediction.logits.argmax(-1) == prediction.label,
        batch_size=prediction.batch_size,
    )


def train(folder: Path, epochs: int, rows: int = ROWS) -> list[float]:
    """Trains up to so many epochs: from the checkpoint in the folder, where there is one."""
    torch.manual_seed(0)
    shuffling = torch.Generator().manual_seed(2)
    data = folder / "data"
    samples = Sample.load_memmap(data) if data.exists() else make_data(data, rows)
    loader = DataLoader(samples, batch_size=64, shuffle=True, generator=shuffling)
    network = Network()
    pipeline: Stage[Sample, Score] = add_noise >> network >> score
    optimizer = torch.optim.AdamW(pipeline.parameters(), lr=3e-3)
    history: list[float] = []

    saved = folder / "checkpoint.safetensors"
    if saved.exists():
        checkpoint = Checkpoint.load_safetensors(saved)
        network.load_state_dict(checkpoint.network.to_dict())
        optimizer.load_state_dict(checkpoint.optimizer.to_pytree())
        shuffling.set_state(checkpoint.shuffling)
        torch.set_rng_state(checkpoint.noise)
        history = checkpoint.history.tolist()

    while len(history) < epochs:
        scores = []
        for batch in loader:
            result = pipeline(batch)
            result.loss.mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            scores.append(result.detach())
        epoch = Score.cat(scores)
        history.append(epoch.loss.sum().item() / len(epoch))
        print(f"epoch {len(history)}: loss {history[-1]:.4f}, {epoch.correct.float().mean():.1%} right")
        Checkpoint(
            network=TensorDict(network.state_dict()),
            optimizer=TensorDict.from_pytree(optimizer.state_dict()),
            shuffling=shuffling.get_state(),
            noise=torch.get_rng_state(),
            history=torch.tensor(history, dtype=torch.float64),
        ).save_safetensors(saved)  # whole or absent: a run that is killed here goes on from the one before
    return history


def main() -> None:
    epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory() as temporary:
        train(Path(sys.argv[2] if len(sys.argv) > 2 else temporary), epochs)


if __name__ == "__main__":
    main()
