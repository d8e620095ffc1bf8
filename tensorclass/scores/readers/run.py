"""A run read from files: its scores and their origin."""

from __future__ import annotations

from dataclasses import dataclass, field

from tensorclass.scores.score_data import ScoreData

__all__ = ["Run"]


@dataclass(frozen=True, eq=False)
class Run:
    """The scores of one model, read from one file or from a pair of files.

    Attributes:
        name: the run's name, from the names of its files.
        scores: the record, one row a prompt, in the order of the file.
        files: the files read.
        format: ``"ifeval-reference"`` or ``"lm-eval"``.
        filter: of an lm-eval log: the filter whose rows were taken; None where rows carry none.
        filters: of an lm-eval log: how many rows each filter has in the file.
        ignored: metrics that the file logs and the record has no field for.
        notes: what a reader of the figures should know, in sentences.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run
        >>> scores = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
        >>> run = Run("model-a", scores, files=("samples_gsm8k.jsonl",), format="lm-eval")
        >>> run.name, run.scores.batch_size
        ('model-a', torch.Size([2]))
    """

    name: str
    scores: ScoreData
    files: tuple[str, ...]
    format: str
    filter: str | None = None
    filters: dict[str, int] = field(default_factory=dict[str, int])
    ignored: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
