"""Prompts and token lists of a Parquet file: contracts, batches, padding, a memory map, and back to Parquet.

python examples/columns.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from jaxtyping import Bool, Int
from torch import Tensor, nn

from tensorclass import BucketBatchSampler, Column, DataLoader, Ragged, Stage, TensorClass, Text


class Question(TensorClass):
    prompt: Text
    tokens: Ragged[Int[Tensor, " n"]]
    is_answer: Ragged[Bool[Tensor, " n"]]  # one for each token of the row
    tags: Column[list[str]]
    source: str = ""  # one for all rows


class Padded(TensorClass):
    tokens: Int[Tensor, " length"]
    mask: Bool[Tensor, " length"]


class Encoded(TensorClass):
    vector: Tensor  # [rows, features]


@Stage
def pad(rows: Question) -> Padded:
    """Pad the tokens of a batch to a multiple of 8."""
    tokens, mask = rows.tokens.to_padded(multiple_of=8)
    return Padded(tokens=tokens, mask=mask)


class Encode(nn.Module):
    """Average the embeddings of the tokens."""

    def __init__(self, tokens: int, features: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, features)

    def forward(self, batch: Padded) -> Encoded:
        vectors = self.embedding(batch.tokens) * batch.mask.unsqueeze(-1)
        return Encoded(vectors.sum(1) / batch.mask.sum(1, keepdim=True).clamp(min=1), batch_size=batch.batch_size)


def write_questions(path: Path, count: int = 200) -> None:
    """Write a file of prompts whose words are their tokens."""
    words = ["why", "is", "the", "sky", "so", "blue", "today"]
    prompts = [" ".join(words[: 1 + row % len(words)]) + "?" for row in range(count)]
    tokens = [[words.index(word) for word in prompt.rstrip("?").split()] for prompt in prompts]
    Question(
        prompt=prompts,
        tokens=tokens,
        is_answer=[[token == 5 for token in row] for row in tokens],
        tags=[["color"] if 5 in row else [] for row in tokens],
    ).to_parquet(path)


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_questions(folder / "questions.parquet")
        questions = Question.from_parquet(folder / "questions.parquet")
        first: str = questions.prompt[5]
        labels: list[str] = questions.tags[5]
        print(f"{len(questions)} questions; row 5: {first!r}, tokens {questions.tokens[5].tolist()}, tags {labels}")

        # rows are chosen by text, and batches share the memory of their rows
        colors = questions[questions.prompt.contains("blue")]
        pipeline = pad >> Encode(tokens=7, features=4)
        buckets = BucketBatchSampler(colors.tokens, batch_size=16)  # rows of similar length
        for batch in DataLoader(colors, batch_sampler=buckets):
            encoded = pipeline(batch)
            print(f"{len(batch)} rows, padded to {pad(batch).tokens.shape[1]}: {list(encoded.vector.shape)}")

        # a memory map reads only the rows that are asked for
        colors.memmap(folder / "colors")
        mapped = Question.load_memmap(folder / "colors")
        lengths = sorted({len(prompt) for prompt in mapped.prompt})
        print(f"{len(mapped)} rows on disk, prompts of {lengths} characters")
        mapped.to_parquet(folder / "colors.parquet")
        same = Question.from_parquet(folder / "colors.parquet").prompt == colors.prompt
        print(f"back in Parquet, all prompts equal: {bool(same.all())}")


if __name__ == "__main__":
    main()
