"""Metrics that are no ratio of two sums: functions of rows, with bootstrap intervals and permutation tests.

A metric of one's own is a :class:`Statistic`: a function from columns to a number. Those here are functions of weighted
rows, which are computed for all resamples at once.
"""

from __future__ import annotations

import sys
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.labels import label_number
from tensorclass.scores.limits import check_counts, check_shares
from tensorclass.scores.metrics import Metric, Rows
from tensorclass.scores.row_figures import (
    auroc,
    expected_calibration_error,
    macro_f1,
    matthews,
    multilabel_macro_f1,
    perplexity,
    quantile,
    weighted_f1,
)
from tensorclass.scores.tally import Sample, Tally

__all__ = [
    "AUROC",
    "MCC",
    "CalibrationError",
    "MacroF1",
    "MultilabelMacroF1",
    "NamedRowMetric",
    "Perplexity",
    "Quantile",
    "RowMetric",
    "Statistic",
    "WeightedF1",
    "rows_of",
]

_Numbers = NDArray[np.float64]


class RowMetric(Metric):
    """The base of metrics that are a function of the rows of a run.

    A row is a value of the declared field with the values of other fields at its place; rows in which one of them is
    NaN don't count. Rows of a prompt, or of a cluster of prompts, stay together in intervals and tests, which are
    described at :mod:`tensorclass.scores.bootstrap`.

    Example:
        >>> from tensorclass.scores import MacroF1, RowMetric
        >>> issubclass(MacroF1, RowMetric)
        True
    """

    unit: str
    cluster: str | None
    biased: ClassVar[bool] = False
    """``True`` if the figure lies above its truth on average; see ``bootstrap_interval``."""

    @abstractmethod
    def named(self, field: str) -> str:
        """Return the name of the figure of a field.

        Args:
            field: the name of the declared field.

        Example:
            >>> from tensorclass.scores import Quantile
            >>> Quantile(0.5).named("latency")
            'latency_p50'
        """

    @abstractmethod
    def fields(self, field: str) -> Sequence[str]:
        """Return the fields that the columns come from, the declared one first.

        Args:
            field: the name of the declared field.

        Example:
            >>> from tensorclass.scores import MacroF1
            >>> MacroF1(target="label").fields("predicted")
            ('predicted', 'label')
        """

    @abstractmethod
    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        """Compute the figure of weighted rows.

        Args:
            columns: ``[rows]`` for each field.
            weights: ``[resamples, rows]``, how often each row counts.

        Returns:
            ``[resamples]``; NaN where the figure is not defined.

        Example:
            >>> import numpy as np
            >>> from tensorclass.scores import Quantile
            >>> Quantile(0.5).figure([np.array([1.0, 2.0, 9.0])], np.ones((1, 3)))
            array([2.])
        """

    def check(self, field: str, columns: Sequence[_Numbers]) -> None:
        """Raise if columns hold impossible values. Here: never.

        Args:
            field: the name of the declared field.
            columns: ``[rows]`` for each field.

        Example:
            >>> import numpy as np
            >>> from tensorclass.scores import AUROC
            >>> AUROC(target="correct").check("confidence", [np.array([0.5])])
        """

    def fewest_prompts(self, confidence: float) -> int:
        """Return the number of prompts below which there is no interval. Here: two.

        Args:
            confidence: the level of the interval, 0.95 for 95 %.

        Example:
            >>> from tensorclass.scores import Quantile
            >>> Quantile(0.5).fewest_prompts(0.95), Quantile(0.95).fewest_prompts(0.95)
            (6, 59)
        """
        return 2

    def about(self) -> str:
        """Return what a reader should know of the figure; it is noted in reports. Here: nothing.

        Example:
            >>> from tensorclass.scores import CalibrationError
            >>> CalibrationError(target="correct").about()
            '15 bins of equal width'
        """
        return ""

    def tallies(self, field: str, rows: Rows) -> list[Tally]:
        return []

    def samples(self, field: str, rows: Rows) -> list[Sample]:
        found = rows_of(self.fields(field), rows, self.named(field))
        if found is None:
            return []
        self.check(field, found[0])
        cluster = None if self.cluster is None else rows.clusters(self.cluster)
        name = self.named(field)
        return [Sample(name, self.figure, *found, self.unit, cluster, self.biased, self.fewest_prompts, self.about())]


class NamedRowMetric(RowMetric, metaclass=ABCMeta):
    """The base of metrics whose attribute ``name`` is the name of their figure."""

    name: str

    def named(self, field: str) -> str:
        return self.name


def rows_of(
    fields: Sequence[str], rows: Rows, figure: str
) -> tuple[tuple[_Numbers, ...], NDArray[np.int64], int] | None:
    """The values of fields as columns, a row for each value of the first of them at which none is NaN.

    Args:
        fields: the fields; those after the first have its shape, or lack trailing dimensions of it.
        rows: the fields of one run.
        figure: the name of the figure, for errors.

    Returns:
        The columns, ``[rows]`` each; the position of the prompt of each row; the number of prompts. None where the
        record doesn't hold the first field.

    Raises:
        ValueError: the record doesn't hold another field, or its shape doesn't go with the first.
    """
    here = rows.labels(fields[0])
    if here is None:
        return None
    found: list[_Numbers] = [here]
    for name in fields[1:]:
        values = rows.labels(name)
        if values is None:
            raise ValueError(f"{name}: expected values for {figure}, got None")
        if values.shape != here.shape[: values.ndim]:
            raise ValueError(
                f"{name}: expected shape {list(here.shape)} or its leading dimensions, as {fields[0]} has, "
                f"got {list(values.shape)}"
            )
        found.append(np.broadcast_to(np.expand_dims(values, tuple(range(values.ndim, here.ndim))), here.shape))
    places = np.expand_dims(np.arange(len(here)), tuple(range(1, here.ndim)))
    flat = [np.ravel(values) for values in found]
    counted = ~np.isnan(np.sum(flat, axis=0))
    return tuple(values[counted] for values in flat), np.ravel(np.broadcast_to(places, here.shape))[counted], len(here)


@dataclass(frozen=True)
class Statistic(NamedRowMetric):
    """A metric of one's own: a function from the columns of a run to a number.

    Args:
        name: the figure's name.
        function: takes an array ``[rows]`` for each field and returns a number, NaN where it isn't defined. Codes with
            names come as numbers of the names.
        others: fields beside the declared one, in the order of the function's arguments.
        unit: ``"%"`` for fractions 0..1, else the unit to show.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Statistic
        >>> def geometric_mean(values):
        ...     return float(np.exp(np.log(values).mean()))
        >>> scores = ExactMatchScoreData(torch.tensor([0.5, 0.25, 1.0, 0.5]), batch_size=[4])
        >>> report = scores.aggregate(metrics={"exact_match": Statistic("geometric_mean", geometric_mean)})
        >>> f"{report['geometric_mean'].value:.4f} ± {report['geometric_mean'].stderr:.4f}"
        '0.5000 ± 0.1437'
    """

    name: str
    function: Callable[..., float]
    others: Sequence[str] = ()
    unit: str = "%"
    cluster: str | None = None

    def fields(self, field: str) -> tuple[str, ...]:
        return (field, *self.others)

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        found = np.empty(len(weights))
        for place, own in enumerate(weights):
            rows = np.repeat(np.arange(len(own)), own.astype(np.int64))
            found[place] = self.function(*(column[rows] for column in columns)) if len(rows) else np.nan
        return found


class _FigureWithTarget(NamedRowMetric, metaclass=ABCMeta):
    """The base of figures of the declared field and of one that it is compared with."""

    target: str

    def fields(self, field: str) -> tuple[str, str]:
        return field, self.target


@dataclass(frozen=True)
class _FigureOfClasses(_FigureWithTarget, metaclass=ABCMeta):
    """The base of figures that compare predicted classes with expected ones."""

    target: str
    name: str
    cluster: str | None = None
    unit: str = "%"


@dataclass(frozen=True)
class MacroF1(_FigureOfClasses):
    """The mean over classes of F1, declared at the field of predicted classes.

    Args:
        target: the field of expected classes. Both are integers, or :func:`~tensorclass.scores.codes` with names.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.
        unit: the unit to show; ``"%"`` for a figure from 0 to 1.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ClassificationScoreData
        >>> scores = ClassificationScoreData(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 2, 2]), batch_size=[4])
        >>> f"{scores.aggregate()['macro_f1'].value:.4f}"
        '0.7778'

    Source: see :func:`~tensorclass.scores.row_figures.macro_f1`.
    """

    name: str = "macro_f1"

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return macro_f1(columns[0], columns[1], weights)


@dataclass(frozen=True)
class WeightedF1(MacroF1):
    """The mean over classes of F1, weighted by how often each is expected, declared at the field of predicted classes.

    Args:
        target: the field of expected classes. Both are integers, or :func:`~tensorclass.scores.codes` with names.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.
        unit: the unit to show; ``"%"`` for a figure from 0 to 1.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ClassificationScoreData, WeightedF1
        >>> scores = ClassificationScoreData(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 0, 0, 1]), batch_size=[4])
        >>> scores.aggregate(metrics={"predicted": WeightedF1("target")})["weighted_f1"].value.item()
        0.5

    Source: see :func:`~tensorclass.scores.row_figures.weighted_f1`.
    """

    name: str = "weighted_f1"

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return weighted_f1(columns[0], columns[1], weights)


@dataclass(frozen=True)
class MultilabelMacroF1(NamedRowMetric):
    """The mean over labels of F1, where a prompt has any number of labels.

    Declared at a field ``[prompts, labels]`` that is 1 where the label is predicted, else 0.

    Args:
        target: the field of the same shape that is 1 where the label is expected.
        label: the field of the same shape with the number of the label.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.
        unit: the unit to show; ``"%"`` for a figure from 0 to 1.

    Example:
        >>> import torch
        >>> from torch import Tensor
        >>> from tensorclass import field
        >>> from tensorclass.scores import MultilabelMacroF1, ScoreData, metric
        >>> class TagScoreData(ScoreData):
        ...     tags: Tensor | None = field(default=None, metadata=metric(MultilabelMacroF1("expected", "tag")))
        ...     expected: Tensor | None = field(default=None, metadata=metric())
        ...     tag: Tensor | None = field(default=None, metadata=metric())
        >>> tags, expected = torch.tensor([[[1, 0], [1, 1]], [[1, 1], [0, 1]]])
        >>> scores = TagScoreData(tags, expected, torch.tensor([[0, 1], [0, 1]]), batch_size=[2])
        >>> f"{scores.aggregate()['macro_f1'].value:.4f}"
        '0.6667'

    Source: see :func:`~tensorclass.scores.row_figures.multilabel_macro_f1`.
    """

    target: str
    label: str
    name: str = "macro_f1"
    cluster: str | None = None
    unit: str = "%"

    def fields(self, field: str) -> tuple[str, str, str]:
        return field, self.target, self.label

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return multilabel_macro_f1(columns[0], columns[1], columns[2], weights)


@dataclass(frozen=True)
class MCC(_FigureOfClasses):
    """Matthews' correlation coefficient, -1 to 1, declared at the field of predicted classes, two or more.

    Args:
        target: the field of expected classes. Both are integers, or :func:`~tensorclass.scores.codes` with names.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.
        unit: the unit to show; ``"%"`` for a figure from 0 to 1.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ClassificationScoreData
        >>> scores = ClassificationScoreData(torch.tensor([1, 1, 0, 0]), torch.tensor([1, 0, 0, 0]), batch_size=[4])
        >>> f"{scores.aggregate()['mcc'].value:.4f}"
        '0.5774'

    Source: see :func:`~tensorclass.scores.row_figures.matthews`.
    """

    name: str = "mcc"
    unit: str = ""

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return matthews(columns[0], columns[1], weights)


@dataclass(frozen=True)
class AUROC(_FigureWithTarget):
    """The area under the ROC curve, declared at the field of scores, which may be any numbers.

    Args:
        target: the field that says which rows are positive.
        positive: the value, or the name of the code, of positive rows.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.
        unit: the unit to show; ``"%"`` for a figure from 0 to 1.

    Example:
        >>> import torch
        >>> from tensorclass.scores import CalibrationScoreData
        >>> confidence, correct = torch.tensor([0.1, 0.4, 0.4, 0.8]), torch.tensor([0, 0, 1, 1])
        >>> scores = CalibrationScoreData(confidence, correct, batch_size=[4])
        >>> scores.aggregate()["auroc"].value.item()
        0.875

    Source: see :func:`~tensorclass.scores.row_figures.auroc`.
    """

    target: str
    positive: float | str = 1.0
    name: str = "auroc"
    cluster: str | None = None
    unit: str = "%"

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        positive = label_number(self.positive) if isinstance(self.positive, str) else float(self.positive)
        return auroc(columns[0], (columns[1] == positive).astype(np.float64), weights)


@dataclass(frozen=True)
class CalibrationError(_FigureWithTarget):
    """The expected calibration error, declared at the field of confidences.

    It is above 0 for a calibrated model, too, since accuracies in bins vary; the more so the fewer rows there are. So
    compare it at the same number of rows only. The interval takes the bias into account; there is none where bins have
    fewer than ten prompts on average.

    Args:
        target: the field that says whether a row is right: 0 or 1.
        bins: the number of bins of equal width.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.
        unit: the unit to show; ``"%"`` for a figure from 0 to 1.

    Example:
        >>> import torch
        >>> from tensorclass.scores import CalibrationScoreData
        >>> scores = CalibrationScoreData(torch.tensor([0.95, 0.95, 0.55]), torch.tensor([1, 0, 1]), batch_size=[3])
        >>> f"{scores.aggregate()['ece'].value:.2f}"
        '0.45'

    Source: see :func:`~tensorclass.scores.row_figures.expected_calibration_error`.
    """

    biased: ClassVar[bool] = True

    target: str
    bins: int = 15
    name: str = "ece"
    cluster: str | None = None
    unit: str = "%"

    def fewest_prompts(self, confidence: float) -> int:
        return 10 * self.bins

    def about(self) -> str:
        return f"{self.bins} bins of equal width"

    def check(self, field: str, columns: Sequence[_Numbers]) -> None:
        check_shares(field, columns[0])
        check_shares(self.target, columns[1])

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return expected_calibration_error(columns[0], columns[1], weights, bins=self.bins)


@dataclass(frozen=True)
class Perplexity(NamedRowMetric):
    """The perplexity, declared at the field of log-likelihoods: the exponential of their mean over units, negated.

    Args:
        units: the field with the number of units (tokens, words, bytes) of each row.
        name: the figure's name.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.
        unit: the unit to show; ``"%"`` for a figure from 0 to 1.

    Example:
        >>> import torch
        >>> from tensorclass.scores import PerplexityScoreData
        >>> scores = PerplexityScoreData(torch.tensor([-2.0, -4.0]), torch.tensor([1, 2]), batch_size=[2])
        >>> f"{scores.aggregate()['perplexity'].value:.4f}"
        '7.3891'
    """

    units: str
    name: str = "perplexity"
    cluster: str | None = None
    unit: str = ""

    def fields(self, field: str) -> tuple[str, str]:
        return field, self.units

    def check(self, field: str, columns: Sequence[_Numbers]) -> None:
        check_counts(self.units, columns[1])

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return perplexity(columns[0], columns[1], weights)


@dataclass(frozen=True)
class Quantile(RowMetric):
    """A quantile of all values of the field, such as the median or the 95th percentile of latencies.

    Args:
        share: the share of values below it: 0.5 for the median.
        name: the figure's name; by default the field's with the percentage, ``latency_p95``.
        unit: of the values; ``"%"`` for fractions 0..1.
        cluster: the field of clusters, as in :class:`~tensorclass.scores.Mean`.

    With few prompts there is no interval: in 35 % of cases, all values of ten prompts lie below the 90th percentile.

    Raises:
        ValueError: a ``share`` outside of 0 to 1.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Quantile
        >>> scores = ExactMatchScoreData(torch.tensor([0.1, 0.4, 0.9]), batch_size=[3])
        >>> report = scores.aggregate(metrics={"exact_match": [Quantile(0.5), Quantile(0.25)]})
        >>> {name: round(one.value.item(), 4) for name, one in report.items()}
        {'exact_match_p50': 0.4, 'exact_match_p25': 0.25}

    Source: David and Nagaraja, 2003, "Order Statistics", third edition, section 7.1.
    """

    share: float
    name: str | None = None
    unit: str = "%"
    cluster: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share: expected a fraction from 0 to 1 (0.5 for the median), got {self.share}")

    def fewest_prompts(self, confidence: float) -> int:
        # Below, the values don't enclose the quantile often enough (David and Nagaraja, 2003, section 7.1).
        rarer = min(self.share, 1 - self.share)
        if rarer == 0:
            return sys.maxsize
        prompts = 2
        while (1 - rarer) ** prompts + rarer**prompts > 1 - confidence:
            prompts += 1
        return prompts

    def named(self, field: str) -> str:
        return self.name or f"{field}_p{100 * self.share:g}"

    def fields(self, field: str) -> tuple[str]:
        return (field,)

    def figure(self, columns: Sequence[_Numbers], weights: _Numbers) -> _Numbers:
        return quantile(columns[0], weights, share=self.share)
