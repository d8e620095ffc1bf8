"""Families made for the metrics that a log holds, whatever their names are.

:func:`family_of` makes a class with a field for each metric. A name that Python can't take for a field is changed
(``pass@1`` becomes ``pass_1``); the figure keeps the name that the log gives it.
"""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from types import new_class
from typing import Any, ClassVar, Final, SupportsIndex, TypeAlias, cast

from torch import Tensor

from tensorclass import field
from tensorclass.scores.logged_kinds import LOGGED_KINDS, fields_of_kind
from tensorclass.scores.metrics import Mean, Metric, Rows, codes, metric
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.tally import Tally

__all__ = ["NAMES_OF", "LoggedMetric", "LoggedScoreData", "MeanByLabels", "declared_family", "family_of", "field_names"]

LoggedMetric: TypeAlias = tuple[str, str] | tuple[str, str, str]
"""The name and the unit of a metric, and its kind unless it is a mean."""

NAMES_OF: Final = "names_of_"
"""The beginning of the names of fields that name a label's codes."""


@dataclass(frozen=True)
class MeanByLabels(Mean):
    """The mean of a field, also by the groups of several labels.

    Args:
        labels: fields of codes; the figure is also given for each group of each of them.

    Example:
        >>> from tensorclass.scores.logged_scores import MeanByLabels
        >>> MeanByLabels(name="pass@1", labels=("subject", "level")).labels
        ('subject', 'level')
    """

    labels: tuple[str, ...] = ()

    def groups(self, field: str, rows: Rows) -> dict[str, dict[str, Tally]]:
        found: dict[str, dict[str, Tally]] = {}
        for label in self.labels:
            prefix = f"{label}: " if len(self.labels) > 1 else ""
            of_label = Mean(by=label, name=self.name, unit=self.unit, cluster=self.cluster, separator=self.separator)
            for name, tallies in of_label.groups(field, rows).items():
                found.setdefault(name, {}).update((prefix + group, tally) for group, tally in tallies.items())
        return found


class LoggedScoreData(ScoreData):
    """Scores under the names that a log gives them. :func:`family_of` makes its subclasses, which have the fields.

    Attributes:
        logged_metrics: for each metric its name in the log and its unit.
        logged_labels: the labels of the rows: fields of codes.
        grouped_by: the labels by whose groups the figures are given as well.
        clustered_by: the label of prompts that are not independent of each other; None if all are.

    Example:
        >>> import torch
        >>> from tensorclass.scores.logged_scores import LoggedScoreData, family_of
        >>> family = family_of((("pass@1", "%"), ("latency", "s")))
        >>> scores = family(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.7]), batch_size=[2])
        >>> isinstance(scores, LoggedScoreData), scores.pass_1
        (True, tensor([1., 0.]))
        >>> list(scores.aggregate())
        ['pass@1', 'latency']
    """

    logged_metrics: ClassVar[tuple[LoggedMetric, ...]] = ()
    logged_labels: ClassVar[tuple[str, ...]] = ()
    grouped_by: ClassVar[tuple[str, ...]] = ()
    clustered_by: ClassVar[str | None] = None

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        """Pickle the declaration of the class in place of its name, under which no other process finds it."""
        rebuild, (own, *arguments), *state = cast("tuple[Any, ...]", super().__reduce_ex__(protocol))
        declaration = own.logged_metrics, own.logged_labels, own.grouped_by, own.clustered_by
        return _rebuilt, (rebuild, declaration, arguments), *state


def family_of(
    metrics: tuple[LoggedMetric, ...],
    labels: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
    cluster: str | None = None,
) -> type[LoggedScoreData]:
    """Make a family for metrics of any names. The same arguments give the same class.

    Args:
        metrics: the name and the unit of each metric, ``("pass@1", "%")``; ``"%"`` for fractions 0..1. A metric that is
            no mean has a kind as well, ``("f1", "%", "macro_f1")``: one of
            :data:`~tensorclass.scores.logged_kinds.LOGGED_KINDS`, whose other fields follow its field.
        labels: names of labels that rows have. Each is a field of codes, whose names are in the field
            ``names_of_<label>``.
        groups: the labels among them by whose groups the figures are given as well.
        cluster: the label of prompts that are not independent, such as questions on one passage: intervals and tests
            are over its values.

    Returns:
        The class: a field for each metric and label, which :func:`field_names` maps to.

    Raises:
        ValueError: two metrics or labels of the same name, or a group or cluster that is no label.

    Example:
        >>> import torch
        >>> from tensorclass.scores.logged_scores import family_of
        >>> family = family_of((("f1", "%"),), labels=("subject",), groups=("subject",))
        >>> scores = family(torch.tensor([1.0, 0.5]), torch.tensor([0, 1]), ("law", "art"), batch_size=[2])
        >>> {name: one.value.item() for name, one in scores.aggregate().groups["f1"].items()}
        {'art': 0.5, 'law': 1.0}
    """
    return _made(metrics, labels, groups, cluster)


@cache
def _made(
    metrics: tuple[LoggedMetric, ...], labels: tuple[str, ...], groups: tuple[str, ...], cluster: str | None
) -> type[LoggedScoreData]:
    needed = (fields_of_kind(name, *kind or ("mean",)) for name, _, *kind in metrics)
    fields = field_names([*chain.from_iterable(needed)], labels)
    for argument, named in (("groups", groups), ("cluster", () if cluster is None else (cluster,))):
        for label in named:
            if label not in labels:
                raise ValueError(f"{argument}: expected labels ({', '.join(labels) or 'none'}), got {label!r}")
    by = tuple(fields[group] for group in groups)
    body: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": LoggedScoreData.__doc__,
        "logged_metrics": metrics,
        "logged_labels": labels,
        "grouped_by": groups,
        "clustered_by": cluster,
        "cluster_field": None if cluster is None else fields[cluster],
    }
    annotations: dict[str, object] = {}
    for name, unit, *kind in metrics:
        own, *others = (fields[one] for one in fields_of_kind(name, *kind or ("mean",)))
        made: Metric = MeanByLabels(name=name, unit=unit, labels=by)
        if kind:
            made = LOGGED_KINDS[kind[0]].metric(name, own, others)
        for one in (own, *others):
            annotations[one] = Tensor | None
            body[one] = field(default=None, metadata=metric(*(made,) * (one == own)))
    for label in labels:
        names = NAMES_OF + fields[label]
        annotations[fields[label]], annotations[names] = Tensor | None, tuple[str, ...] | None
        body[fields[label]] = field(default=None, metadata=codes(names))
        body[names] = field(default=None, metadata=metric())
    body["__annotations__"] = annotations
    family = new_class(
        LoggedScoreData.__name__, (LoggedScoreData,), {"stack_objects": True}, lambda members: members.update(body)
    )
    return cast("type[LoggedScoreData]", family)


def field_names(metrics: Sequence[str], labels: Sequence[str] = ()) -> dict[str, str]:
    """The field of each metric and label in a class that :func:`family_of` makes.

    Args:
        metrics: the names of the metrics.
        labels: the names of the labels.

    Raises:
        ValueError: two of them have the same name.

    Example:
        >>> from tensorclass.scores.logged_scores import field_names
        >>> field_names(["pass@1", "mean", "f1"])
        {'pass@1': 'pass_1', 'mean': 'mean_', 'f1': 'f1'}
    """
    fields: dict[str, str] = {}
    held: set[str] = set()
    for name in (*metrics, *labels):
        if name in fields:
            raise ValueError(f"{name}: expected a different name for each metric and label, got it twice")
        made = re.sub(r"\W+", "_", name).strip("_") or "metric"
        made = f"metric_{made}" if made[0].isdigit() else made
        while made in held or hasattr(ScoreData, made) or keyword.iskeyword(made) or made in _OWN:
            made += "_"
        held.update((made, NAMES_OF + made))
        fields[name] = made
    return fields


_OWN: Final = frozenset((*(one.name for one in dataclasses.fields(ScoreData)), *LoggedScoreData.__annotations__))


def declared_family(
    metrics: Iterable[Iterable[str]], labels: Iterable[str], groups: Iterable[str], cluster: str | None
) -> type[LoggedScoreData]:
    """The family of a declaration that was read from a file, in which tuples may be lists."""
    pairs = cast("tuple[LoggedMetric, ...]", tuple(map(tuple, metrics)))
    return family_of(pairs, tuple(labels), tuple(groups), cluster)


def _rebuilt(
    rebuild: Callable[..., LoggedScoreData], declaration: tuple[Any, Any, Any, Any], arguments: Sequence[Any]
) -> LoggedScoreData:
    return rebuild(declared_family(*declaration), *arguments)
