"""The training script that examples/training.py is made of: plain PyTorch, tuples and dicts.

python examples/training_plain.py [EPOCHS]
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 4
ROWS = 2048


def make_data(rows: int) -> TensorDataset:
    """Images of stripes, in one of four directions, under noise."""
    made = torch.Generator().manual_seed(1)
    label = torch.randint(CLASSES, (rows,), generator=made)
    y, x = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    stripes = torch.stack([torch.sin(wave) for wave in (x, y, x + y, x - y)])
    image = stripes[label] + 4 * torch.randn(rows, 16, 16, generator=made)
    return TensorDataset(image.unsqueeze(1), label)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.head = nn.Linear(8 * 7 * 7, CLASSES)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(image))


def train(epochs: int, rows: int = ROWS) -> list[float]:
    torch.manual_seed(0)
    shuffling = torch.Generator().manual_seed(2)
    loader = DataLoader(make_data(rows), batch_size=64, shuffle=True, generator=shuffling)
    network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    history = []
    for epoch in range(epochs):
        total, correct = 0.0, 0
        for image, label in loader:
            image = image + 0.1 * torch.randn_like(image)
            logits = network(image)
            losses = F.cross_entropy(logits, label, reduction="none")
            losses.mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            total += losses.sum().item()
            correct += (logits.argmax(-1) == label).sum().item()
        history.append(total / rows)
        print(f"epoch {epoch + 1}: loss {total / rows:.4f}, {correct / rows:.1%} right")
    return history


if __name__ == "__main__":
    train(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
