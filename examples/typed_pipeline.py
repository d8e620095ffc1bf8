"""A pipeline from text to scores whose stages fit together: type checkers know what goes in and what comes out.

python examples/typed_pipeline.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tensorclass import Stage, TensorClass


class Text(TensorClass):
    """Texts, as the codes of their characters; shorter ones end in zeros."""

    codes: Tensor  # [texts, characters]
    source: str = ""


class Tokens(TensorClass):
    ids: Tensor  # [texts, tokens]
    mask: Tensor  # [texts, tokens]


class Features(TensorClass):
    vector: Tensor  # [texts, features]


class Scores(TensorClass):
    logits: Tensor  # [texts, classes]

    @property
    def best(self) -> Tensor:
        return self.logits.argmax(-1)


@Stage
def tokenize(text: Text) -> Tokens:
    """One token a character: its place in the alphabet, or 0."""
    ids = (text.codes - ord("a") + 1).clamp(0, 26)
    return Tokens(ids=ids, mask=text.codes > 0, batch_size=text.batch_size)


class Encode(nn.Module):
    """The mean of the embeddings of a text's tokens."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(27, features)

    def forward(self, tokens: Tokens) -> Features:
        weights = tokens.mask.unsqueeze(-1)
        vectors = self.embedding(tokens.ids) * weights
        return Features(vectors.sum(-2) / weights.sum(-2).clamp(min=1), batch_size=tokens.batch_size)


class Classify(nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, features: Features) -> Scores:
        return Scores(self.linear(features.vector), batch_size=features.batch_size)


def read(lines: list[str]) -> Text:
    """A record of texts."""
    width = max(len(line) for line in lines)
    codes = torch.tensor([[*map(ord, line), *[0] * (width - len(line))] for line in lines])
    return Text(codes=codes, source="lines", batch_size=[len(lines)])


def main() -> None:
    torch.manual_seed(0)
    pipeline: Stage[Text, Scores] = tokenize >> Encode(8) >> Classify(8, 3)
    print(pipeline)
    scores = pipeline(read(["one text", "another", "a third one"]))
    print(f"{sum(weight.numel() for weight in pipeline.parameters())} parameters, best classes {scores.best}")


if __name__ == "__main__":
    main()
