"""Families of scores as sample logs of lm-evaluation-harness fill them, and the labels that a caller names."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tensorclass.scores.families import ExactMatchScoreData, MultipleChoiceScoreData
from tensorclass.scores.ifeval import IFEvalScoreData
from tensorclass.scores.logged_scores import NAMES_OF
from tensorclass.scores.metrics import Mean, declared_codes, declared_metrics
from tensorclass.scores.readers.growing_columns import AnyLabelColumn, LabelColumn, RaggedLabelColumn
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.lm_eval_rows import value_at
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError

__all__ = [
    "FAMILIES",
    "LABEL_ROLES",
    "DocumentLabels",
    "LoggedLabels",
    "is_share_of",
    "keys_of",
    "known_family",
    "labels_of",
    "required_fields",
]

FAMILIES: Final[tuple[type[ScoreData], ...]] = (IFEvalScoreData, MultipleChoiceScoreData, ExactMatchScoreData)
"""The families to recognise a log as: the first that has all its metrics. For other logs a family is made."""

LABEL_ROLES: Final = ("group", "cluster")
"""The roles that a key of the documents can have."""


@dataclass(frozen=True)
class LoggedLabels:
    """A field of codes: its names in the row, its column, and the field of its vocabulary."""

    field: str
    keys: tuple[str, ...]
    column: LabelColumn | RaggedLabelColumn
    names: str

    @property
    def type_of_values(self) -> object:
        """The type of the names in a row."""
        if isinstance(self.column, AnyLabelColumn):
            return str | bool | int | float | None
        return list[str] if isinstance(self.column, RaggedLabelColumn) else str


def known_family(keys: Sequence[str]) -> type[ScoreData] | None:
    """The family of this package that has all the metrics; IFEval's if any of its metrics is there."""
    for family in FAMILIES:
        held = set(keys_of(family)) & set(keys)
        if held and (family is IFEvalScoreData or len(held) == len(keys)):
            return family
    return None


def keys_of(family: type[ScoreData]) -> dict[str, str]:
    """The metrics of a family that are means: the name in the log, and the field."""
    found: dict[str, str] = {}
    for one in dataclasses.fields(family):
        declared = declared_metrics(one.metadata)
        means = [Mean()] if declared is None else [metric for metric in declared if isinstance(metric, Mean)]
        if means:
            found[means[0].key or one.name] = one.name
    return found


def labels_of(family: type[ScoreData], first: Row) -> list[LoggedLabels]:
    """The fields of codes that the first row has names for."""
    found: list[LoggedLabels] = []
    for one in dataclasses.fields(family):
        declared = declared_codes(one.metadata)
        if declared is None or not declared.logged:
            continue
        value = value_at(first, declared.logged)
        if value is not None:
            kind = RaggedLabelColumn if isinstance(value, list) else LabelColumn
            found.append(LoggedLabels(one.name, declared.logged, kind(declared.vocabulary), declared.names))
    return found


def is_share_of(family: type[ScoreData], field: str) -> bool:
    """Return whether the values of a field are fractions from 0 to 1."""
    (one,) = (one for one in dataclasses.fields(family) if one.name == field)
    declared = declared_metrics(one.metadata)
    return declared is None or any(isinstance(metric, Mean) and metric.unit == "%" for metric in declared)


def required_fields(family: type[ScoreData]) -> list[str]:
    """The fields without a default."""
    missing = dataclasses.MISSING
    return [one.name for one in dataclasses.fields(family) if one.default is missing and one.default_factory is missing]


class DocumentLabels:
    """The labels of a run.

    Args:
        roles: the key of the documents for ``group`` and for ``cluster``; none of both if there are no labels.
        first: the first row.
        path: the file, for errors.
        number: the line of the first row.

    Raises:
        ScoreFileError: the first document lacks a key.

    Attributes:
        columns: the column of each label, by key.
    """

    def __init__(self, roles: Mapping[str, str], first: Row, path: str, number: int) -> None:
        self._roles = roles
        doc: object = first.get("doc")
        held = list(cast("Row", doc)) if isinstance(doc, dict) else []
        for key in roles.values():
            if key not in held:
                known = ", ".join(map(str, held)) or "none"
                raise ScoreFileError(path, number, f"columns: expected a key of the documents ({known}), got {key!r}")
        self.columns: dict[str, AnyLabelColumn] = {key: AnyLabelColumn(()) for key in roles.values()}

    @property
    def declaration(self) -> tuple[tuple[str, ...], tuple[str, ...], str | None]:
        """The labels, groups and cluster of the family."""
        group = self._roles.get("group")
        return tuple(self.columns), () if group is None else (group,), self._roles.get("cluster")

    def values(self, fields: Mapping[str, str]) -> dict[str, Any]:
        """The fields of the record.

        Args:
            fields: the field of each label.
        """
        found: dict[str, Any] = {}
        for key, column in self.columns.items():
            found[fields[key]], found[NAMES_OF + fields[key]] = column.tensor(1), column.vocabulary
        return found
