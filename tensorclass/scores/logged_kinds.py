"""Figures that logs name and that are no means: how they are made of what the rows hold.

A kind is known by name, so that records of it can be pickled and saved. Beside the field of the metric it has fields
that its figure is made of as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.class_metrics import F1, Accuracy
from tensorclass.scores.metrics import Metric, Ratio
from tensorclass.scores.row_figures import macro_f1, matthews, multilabel_macro_f1, perplexity, weighted_f1
from tensorclass.scores.row_metrics import MCC, MacroF1, MultilabelMacroF1, Perplexity, Statistic, WeightedF1

__all__ = ["LOGGED_KINDS", "LoggedKind", "fields_of_kind"]

_Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class LoggedKind:
    """A way to make a figure of a metric.

    Attributes:
        about: the figure in words.
        unit: ``"%"`` for fractions 0..1, else the unit to show.
        others: names of the fields beside that of the metric.
        metric: makes the metric from the figure's name, the field, and the other fields.
        figure: computes the figure from the values of all fields.
    """

    about: str
    unit: str
    others: tuple[str, ...]
    metric: Callable[[str, str, Sequence[str]], Metric]
    figure: Callable[..., float]


def fields_of_kind(name: str, kind: str) -> tuple[str, ...]:
    """Return the names that stand for the fields of a metric: its own, and those of the other fields.

    Example:
        >>> fields_of_kind("f1", "macro_f1"), fields_of_kind("acc", "mean")
        (('f1', 'f1 target'), ('acc',))
    """
    if kind == "mean":
        return (name,)
    if kind not in LOGGED_KINDS:
        raise ValueError(f"{name}: expected a kind of figure ({', '.join(('mean', *LOGGED_KINDS))}), got {kind!r}")
    return (name, *(f"{name} {other}" for other in LOGGED_KINDS[kind].others))


def _f1(predicted: _Numbers, target: _Numbers, label: _Numbers | None = None) -> float:
    right, both = (predicted == 1) & (target == 1), int((predicted == 1).sum() + (target == 1).sum())
    return 2 * int(right.sum()) / both if both else float("nan")


def _accuracy(predicted: _Numbers, target: _Numbers) -> float:
    return int((predicted == target).sum()) / max(1, predicted.size)


def _bits(likelihood: _Numbers, units: _Numbers) -> float:
    return float(-likelihood.sum() / units.sum() / log(2))


def _of_rows(figure: Callable[..., _Numbers]) -> Callable[..., float]:
    return lambda *columns: float(figure(*(np.ravel(column) for column in columns), np.ones(np.size(columns[0]))))


def _of_fields(metric: Callable[..., Metric], others: int = 1) -> Callable[[str, str, Sequence[str]], Metric]:
    """Make a metric of some of the other fields."""
    return lambda name, field, fields: metric(*fields[:others], name=name)


def _bits_metric(name: str, field: str, others: Sequence[str]) -> Metric:
    return Ratio(name, {field: -1 / log(2)}, {others[0]: 1.0}, unit="bits")


def _mean(values: _Numbers) -> float:
    return float(np.mean(values))


def _stated_metric(unit: str) -> Callable[[str, str, Sequence[str]], Metric]:
    """A figure that has one row, itself: no mean of verdicts, so a share has no interval either."""
    return lambda name, field, others: Statistic(name, _mean, unit=unit)


_TARGET, _LABELS, _UNITS = ("target",), ("target", "label"), ("units",)

LOGGED_KINDS: Final[Mapping[str, LoggedKind]] = {
    "f1": LoggedKind("F1", "%", _TARGET, _of_fields(F1), _f1),
    "accuracy": LoggedKind("micro-averaged F1, which is the accuracy", "%", _TARGET, _of_fields(Accuracy), _accuracy),
    "macro_f1": LoggedKind("F1 averaged over classes", "%", _TARGET, _of_fields(MacroF1), _of_rows(macro_f1)),
    "weighted_f1": LoggedKind(
        "F1 averaged over classes, weighted by how often each is expected",
        "%",
        _TARGET,
        _of_fields(WeightedF1),
        _of_rows(weighted_f1),
    ),
    "mcc": LoggedKind("Matthews' correlation coefficient", "", _TARGET, _of_fields(MCC), _of_rows(matthews)),
    "multilabel_f1": LoggedKind("F1 over all labels of all rows", "%", _LABELS, _of_fields(F1), _f1),
    "multilabel_macro_f1": LoggedKind(
        "F1 averaged over labels", "%", _LABELS, _of_fields(MultilabelMacroF1, others=2), _of_rows(multilabel_macro_f1)
    ),
    "perplexity": LoggedKind(
        "the perplexity of log-likelihoods", "", _UNITS, _of_fields(Perplexity), _of_rows(perplexity)
    ),
    "bits": LoggedKind("the negative log-likelihood of a unit, in bits", "bits", _UNITS, _bits_metric, _bits),
    "stated_share": LoggedKind("a share that a file states", "%", (), _stated_metric("%"), _mean),
    "stated": LoggedKind("a figure that a file states", "", (), _stated_metric(""), _mean),
}
"""The kinds by name; a metric of kind ``mean`` has no other fields."""
