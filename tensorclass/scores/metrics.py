"""Metrics: rules by which a field of a record becomes one figure.

Every figure here is a ratio of sums over prompts, ``sum(numerator) / sum(denominator)``. A metric says what each prompt
adds above and below the line; its :class:`~tensorclass.scores.Tally`. From tallies follow the figure, its interval and
the comparison of two runs, without knowing the metric. A mean over prompts adds (score, 1); a mean pooled over
instructions adds (sum over the prompt's instructions, their number); precision adds (true positives, predicted
positives).

A family declares its metrics at its fields::

    class ToxicityScoreData(ScoreData):
        toxicity: Tensor | None  # no mark: the mean over prompts
        tokens: Tensor | None = field(default=None, metadata=metric(Mean(unit="tokens")))
        raters: Tensor | None = field(default=None, metadata=metric())  # not a metric

"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.labels import Vocabulary, merge
from tensorclass.scores.limits import check_counts, check_shares
from tensorclass.scores.tally import Sample, Tally

__all__ = ["Codes", "Mean", "Metric", "Ratio", "Rows", "codes", "metric"]

_METRICS = "tensorclass.scores.metrics"
_CODES = "tensorclass.scores.codes"


class Rows(Protocol):
    """The fields of one run, as a metric reads them: prompts in front."""

    def numbers(self, field: str) -> NDArray[np.float64] | None:
        """``[prompts, ...]`` as float64, or None where the record doesn't hold the field."""

    def codes(self, field: str) -> tuple[NDArray[np.int64], Vocabulary] | None:
        """``[prompts, ...]`` and the names of the codes, or None where the record doesn't hold the field."""

    def labels(self, field: str) -> NDArray[np.float64] | None:
        """``[prompts, ...]``, a number for each label, the same in every run; NaN where there is none."""

    def clusters(self, field: str) -> NDArray[np.int64]:
        """``[prompts]``, a number for the cluster of each prompt: for the same name or number in every run the same."""
        ...


class Metric(ABC):
    """Turns a field into figures. The subclasses here cover most; write another by implementing :meth:`tallies`.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Metric, Tally
        >>> class Best(Metric):
        ...     def tallies(self, field, rows):
        ...         values = rows.numbers(field)
        ...         is_best = (values == values.max()).astype(np.float64)
        ...         return [Tally("best", is_best, np.ones(len(values)))]
        >>> scores = ExactMatchScoreData(torch.tensor([0.2, 0.8]), batch_size=[2])
        >>> scores.aggregate(metrics={"exact_match": Best()})["best"].value.item()
        0.5
    """

    @abstractmethod
    def tallies(self, field: str, rows: Rows) -> Sequence[Tally]:
        """Return the contributions of each prompt, one tally per figure of this metric.

        Args:
            field: the name of the field.
            rows: the fields of one run.

        Returns:
            The tallies; empty if the record doesn't hold the field.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData, Mean
            >>> from tensorclass.scores.score_arrays import RecordRows
            >>> scores = ExactMatchScoreData(torch.tensor([1.0, 0.0, float("nan")]), batch_size=[3])
            >>> (rows,) = RecordRows(scores, -1).each()
            >>> (tally,) = Mean().tallies("exact_match", rows)
            >>> tally.numerator.tolist(), tally.denominator.tolist()
            ([1.0, 0.0, 0.0], [1.0, 1.0, 0.0])
        """

    def groups(self, field: str, rows: Rows) -> Mapping[str, Mapping[str, Tally]]:
        """Return the figures broken down by group, such as the accuracy of each subject.

        Args:
            field: the name of the field.
            rows: the fields of one run.

        Returns:
            Tallies by the name of the figure, then by the name of the group. Empty for a metric without groups.

        Example:
            >>> import torch
            >>> from tensorclass.scores import IFEvalScoreData, Mean
            >>> from tensorclass.scores.score_arrays import RecordRows
            >>> scores = IFEvalScoreData(
            ...     None,
            ...     torch.tensor([[1.0], [0.0]]),
            ...     None,
            ...     None,
            ...     instruction_id=torch.tensor([[0], [1]]),
            ...     instruction_types=("title", "no_comma"),
            ...     batch_size=[2],
            ... )
            >>> (rows,) = RecordRows(scores, -1).each()
            >>> groups = Mean(by="instruction_id").groups("inst_level_strict_acc", rows)
            >>> {name: tally.numerator.tolist() for name, tally in groups["inst_level_strict_acc"].items()}
            {'title': [1.0, 0.0], 'no_comma': [0.0, 0.0]}
        """
        return {}

    def samples(self, field: str, rows: Rows) -> Sequence[Sample]:
        """Return the figures that are no ratio of sums; see :class:`~tensorclass.scores.RowMetric`.

        Args:
            field: the name of the field.
            rows: the fields of one run.

        Returns:
            The samples; none for a metric of tallies.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData, Quantile
            >>> from tensorclass.scores.score_arrays import RecordRows
            >>> (rows,) = RecordRows(ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2]), -1).each()
            >>> [sample.name for sample in Quantile(0.9).samples("exact_match", rows)]
            ['exact_match_p90']
        """
        return ()

    def sample_groups(self, field: str, rows: Rows) -> Mapping[str, Mapping[str, Sample]]:
        """Return such figures by the name of the figure, then by the name of the group.

        Args:
            field: the name of the field.
            rows: the fields of one run.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData, Quantile
            >>> from tensorclass.scores.score_arrays import RecordRows
            >>> (rows,) = RecordRows(ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2]), -1).each()
            >>> Quantile(0.9).sample_groups("exact_match", rows)
            {}
        """
        return {}


@dataclass(frozen=True)
class Mean(Metric):
    """The mean of all values of the field, pooled: each value counts once, NaN never.

    For a field ``[prompts]`` it is the mean over prompts; for ``[prompts, instructions]``, padded with NaN, the mean
    over instructions (not a mean of the prompts' means).

    Args:
        by: an integer field that says to which group each value belongs, declared with :func:`codes`; the figure is
            then also given for each group. Its shape is the field's, or lacks trailing dimensions of it.
        name: the figure's name; by default ``key``, or else the field's name.
        unit: ``"%"`` for fractions 0..1, else the unit to show.
        cluster: an integer field with one number or code a prompt: prompts with the same one (questions on the same
            passage) are not independent, and intervals and tests are over clusters.
        separator: where names of groups have parents: with ``":"``, the group ``"keywords:existence"`` counts for the
            group ``"keywords"``, too.
        key: the name of the metric in sample logs, which need not be an identifier: ``"pass@1"``; by default the
            field's name.

    Example:
        >>> from tensorclass.scores import Mean
        >>> Mean(by="subject_id", cluster="passage")
        Mean(by='subject_id', name=None, unit='%', cluster='passage', separator=None, key=None)
    """

    by: str | None = None
    name: str | None = None
    unit: str = "%"
    cluster: str | None = None
    separator: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if self.name is None:
            object.__setattr__(self, "name", self.key)

    def tallies(self, field: str, rows: Rows) -> list[Tally]:
        values = rows.numbers(field)
        if values is None:
            return []
        if self.unit == "%":
            check_shares(field, values)
        missing = np.isnan(values)
        if missing.any():
            above, below = np.where(missing, 0.0, values), (~missing).astype(np.float64)
        else:  # without copies
            above, below = values, np.broadcast_to(1.0, values.shape)
        cluster = None if self.cluster is None else rows.clusters(self.cluster)
        counts = sum_of_prompt(below)
        lacking = (counts == 0).astype(np.float64) if missing.any() else None
        return [Tally(self.name or field, sum_of_prompt(above), counts, self.unit, cluster, lacking)]

    def groups(self, field: str, rows: Rows) -> dict[str, dict[str, Tally]]:
        values = rows.numbers(field)
        coded = None if self.by is None else rows.codes(self.by)
        if values is None or coded is None:
            return {}
        group, names = coded
        if group.shape != values.shape[: group.ndim]:
            raise ValueError(
                f"{self.by}: expected shape {list(values.shape)} or its leading dimensions, as {field} has, "
                f"got {list(group.shape)}"
            )
        group = np.broadcast_to(np.expand_dims(group, tuple(range(group.ndim, values.ndim))), values.shape)
        cluster = None if self.cluster is None else rows.clusters(self.cluster)
        levels = [(group, names)]
        if self.separator is not None:
            parents = {name: name.partition(self.separator)[0] for name in names if self.separator in name}
            above = merge([tuple(parents.values())])
            table = np.array([above.index(parents[name]) if name in parents else -1 for name in (*names, "")])
            levels.append((table[np.where(group < 0, len(names), group)], above))
        sums, lacking = (
            {name: own for codes, of in levels for name, own in sums_by_group(one, codes, of).items()}
            for one in (values, np.where(np.isnan(values), 1.0, np.nan))
        )
        figure = self.name or field
        return {
            figure: {
                name: Tally(f"{figure}/{name}", *own, self.unit, cluster, lacking[name][0] if name in lacking else None)
                for name, own in sums.items()
            }
        }


def sums_by_group(
    values: NDArray[np.float64], group: NDArray[np.int64], names: Vocabulary
) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The sum and the number of each prompt's values, by group.

    Args:
        values: ``[prompts, ...]``; NaN doesn't count.
        group: of the same shape, the group of each value; negative for none.
        names: of the groups.

    Returns:
        By the name of the group, ``[prompts]`` twice. Groups without a value are left out.

    Example:
        >>> sums_by_group(np.array([[1.0, 0.0], [1.0, np.nan]]), np.array([[0, 1], [1, 1]]), ("a", "b"))["b"]
        (array([0., 1.]), array([1., 1.]))
    """
    prompt = np.broadcast_to(np.expand_dims(np.arange(len(values)), tuple(range(1, values.ndim))), values.shape)
    counted = ~np.isnan(values) & (group >= 0)
    # Sorted by group, values of a prompt lie together; each run of equal (group, prompt) is one prompt's part.
    order = np.argsort(group[counted], kind="stable")
    flat, by_group, by_prompt = values[counted][order], group[counted][order], prompt[counted][order]
    if not len(flat):
        return {}
    starts = np.flatnonzero(np.diff(by_group, prepend=-1) | np.diff(by_prompt, prepend=-1))
    numerator = np.add.reduceat(flat, starts)
    denominator = np.diff(starts, append=len(flat)).astype(np.float64)
    owner, holder = by_group[starts], by_prompt[starts]
    found: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    for code in np.unique(owner):
        part = owner == code
        above, below = np.zeros(len(values)), np.zeros(len(values))
        above[holder[part]], below[holder[part]] = numerator[part], denominator[part]
        found[names[code]] = above, below
    return found


@dataclass(frozen=True)
class Ratio(Metric):
    """A ratio of sums of fields, each with a weight: ``Ratio("win_rate", {"wins": 1}, {"wins": 1, "losses": 1})``.

    Declared at the field without which there is no figure; of the others, one that the record doesn't hold counts as
    zeros. Where any of them is NaN, the value isn't counted.

    Args:
        name: the figure's name.
        over: fields above the line with their weights.
        under: fields below the line with their weights; weights of at least 0.
        unit: ``"%"`` for fractions 0..1, else the unit to show.

    Example:
        >>> from tensorclass.scores import Ratio
        >>> f1 = Ratio("f1", {"true_positive": 2}, {"true_positive": 2, "false_positive": 1, "false_negative": 1})
        >>> f1.name
        'f1'
    """

    name: str
    over: Mapping[str, float]
    under: Mapping[str, float]
    unit: str = "%"

    def tallies(self, field: str, rows: Rows) -> list[Tally]:
        here = rows.numbers(field)
        if here is None:
            return []
        parts = {name: rows.numbers(name) for name in {**self.over, **self.under}}
        if min((*self.over.values(), *self.under.values()), default=0) >= 0:  # else a difference may be below 0
            for name, part in parts.items():
                if part is not None:
                    check_counts(name, part)
        above, below = (
            sum((weight * part for name, weight in side.items() if (part := parts[name]) is not None), np.zeros(()))
            for side in (self.over, self.under)
        )
        counted = np.broadcast_to(~np.isnan(above + below), np.broadcast_shapes(here.shape, above.shape, below.shape))
        if below.size and np.nanmin(below, initial=0.0) < 0:
            raise ValueError(f"{self.name}: expected at least 0 below the line in each row, got {np.nanmin(below):g}")
        above, below = (sum_of_prompt(np.where(counted, side, 0.0)) for side in (above, below))
        lacking = None if counted.all() else (sum_of_prompt(counted * 1.0) == 0).astype(np.float64)
        return [Tally(self.name, above, below, self.unit, missing=lacking)]


@dataclass(frozen=True)
class Codes:
    """The declaration of an integer field of codes; made by :func:`codes`.

    Attributes:
        names: the plain field that holds the vocabulary.
        vocabulary: names that get the first codes, so that records read from different files agree.
        logged: where sample logs hold the names: keys from the row inwards, ``("doc", "instruction_id_list")``.
    """

    names: str
    vocabulary: Vocabulary = ()
    logged: tuple[str, ...] = field(default=())


def metric(*metrics: Metric) -> dict[str, Any]:
    """Return the metadata of a field that says how it aggregates. Without arguments, the field is not a metric.

    Example:
        >>> from dataclasses import dataclass, field
        >>> from tensorclass.scores import Mean, metric
        >>> from tensorclass.scores.metrics import declared_metrics
        >>> @dataclass
        ... class Scores:
        ...     accuracy: float = field(metadata=metric(Mean()))
        >>> declared_metrics(Scores.__dataclass_fields__["accuracy"].metadata)
        (Mean(by=None, name=None, unit='%', cluster=None, separator=None, key=None),)
    """
    return {_METRICS: check_metrics(metrics)}


def codes(names: str, *, vocabulary: Sequence[str] = (), logged: Sequence[str] = ()) -> dict[str, Any]:
    """Return the metadata of an integer field of codes, whose names are in the plain field ``names``.

    Args:
        names: the plain field (``tuple[str, ...] | None``) with the name of each code; negative codes are padding.
        vocabulary: names that get the first codes when files are read.
        logged: where sample logs hold the names: keys from the row inwards, ``("doc", "subject")``.

    Example:
        >>> from dataclasses import dataclass, field
        >>> from tensorclass.scores import codes
        >>> from tensorclass.scores.metrics import declared_codes
        >>> @dataclass
        ... class Scores:
        ...     subject_id: int = field(metadata=codes("subjects", logged=("doc", "subject")))
        >>> declared_codes(Scores.__dataclass_fields__["subject_id"].metadata).names
        'subjects'
    """
    return {_METRICS: (), _CODES: Codes(names, tuple(vocabulary), tuple(logged))}


def check_metrics(metrics: Iterable[Metric]) -> tuple[Metric, ...]:
    """The metrics, or an error where one of them is something else."""
    found = tuple(metrics)
    for one in found:
        if not isinstance(one, Metric):
            raise TypeError(f"metrics: expected metrics, such as Mean(), got {one!r}")
    return found


def declared_metrics(metadata: Mapping[Any, Any]) -> tuple[Metric, ...] | None:
    """The metrics declared in a field's metadata; None where nothing is declared."""
    return cast("tuple[Metric, ...] | None", metadata.get(_METRICS))


def declared_codes(metadata: Mapping[Any, Any]) -> Codes | None:
    """Return the :class:`Codes` declared in a field's metadata; None for other fields."""
    return cast("Codes | None", metadata.get(_CODES))


def sum_of_prompt(values: NDArray[Any]) -> NDArray[np.float64]:
    """The sum of each prompt's values, ``[prompts, ...]``."""
    if values.ndim == 1 and values.dtype == np.float64:
        return values
    total: NDArray[np.float64] = values.sum(axis=tuple(range(1, values.ndim)), dtype=np.float64)
    return total
