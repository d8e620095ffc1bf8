"""Metrics of predicted and expected classes that are ratios of sums: accuracy, and F1 of one class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.labels import label_number
from tensorclass.scores.metrics import Metric, Rows, sum_of_prompt
from tensorclass.scores.tally import Tally

__all__ = ["F1", "Accuracy"]


@dataclass(frozen=True)
class Accuracy(Metric):
    """The share of values that are the expected ones, declared at the field of predicted classes.

    Args:
        target: the field of expected classes. Both are integers, or :func:`~tensorclass.scores.codes` with names.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ClassificationScoreData
        >>> scores = ClassificationScoreData(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 2, 2]), batch_size=[4])
        >>> scores.aggregate()["accuracy"].value.item()
        0.75
    """

    target: str
    name: str = "accuracy"
    cluster: str | None = None

    def tallies(self, field: str, rows: Rows) -> list[Tally]:
        both = _classes(field, self.target, rows)
        if both is None:
            return []
        predicted, target, counted = both
        right = (predicted == target) & counted
        cluster = None if self.cluster is None else rows.clusters(self.cluster)
        return [Tally(self.name, sum_of_prompt(right), sum_of_prompt(counted), cluster=cluster)]


@dataclass(frozen=True)
class F1(Metric):
    """The F1 of one class, declared at the field of predicted classes: the harmonic mean of precision and recall.

    It is a ratio of sums, ``2 right / (predicted + expected)``, so it has a t interval over prompts. The mean over
    classes, :class:`~tensorclass.scores.MacroF1`, is none.

    Args:
        target: the field of expected classes. Both are integers, or :func:`~tensorclass.scores.codes` with names.
        positive: the class: its number, or the name of its code.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.

    Example:
        >>> import torch
        >>> from tensorclass.scores import F1, ClassificationScoreData
        >>> scores = ClassificationScoreData(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 1, 1]), batch_size=[4])
        >>> scores.aggregate(metrics={"predicted": F1("target")})["f1"].value.item()
        0.4

    Source: van Rijsbergen, 1979, "Information Retrieval", second edition, chapter 7.
    """

    target: str
    positive: float | str = 1.0
    name: str = "f1"
    cluster: str | None = None

    def tallies(self, field: str, rows: Rows) -> list[Tally]:
        both = _classes(field, self.target, rows)
        if both is None:
            return []
        predicted, target, counted = both
        positive = label_number(self.positive) if isinstance(self.positive, str) else float(self.positive)
        guessed, expected = (predicted == positive) & counted, (target == positive) & counted
        above, below = sum_of_prompt(2 * (guessed & expected)), sum_of_prompt(guessed.astype(np.int64) + expected)
        cluster = None if self.cluster is None else rows.clusters(self.cluster)
        return [Tally(self.name, above, below, cluster=cluster)]


def _classes(
    field: str, target: str, rows: Rows
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]] | None:
    """Predicted and expected classes, and which of them count; None where the record doesn't hold predictions."""
    predicted, expected = rows.labels(field), rows.labels(target)
    if predicted is None:
        return None
    if expected is None or expected.shape != predicted.shape:
        shape = "None" if expected is None else f"shape {list(expected.shape)}"
        raise ValueError(f"{target}: expected a class for each value of {field}, {list(predicted.shape)}, got {shape}")
    return predicted, expected, ~np.isnan(predicted + expected)
