"""The columns to fill from the rows of a sample log of lm-evaluation-harness, chosen by the first row."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from operator import attrgetter
from types import GenericAlias
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.families import ExactMatchScoreData, MultipleChoiceScoreData
from tensorclass.scores.ifeval import IFEvalScoreData
from tensorclass.scores.logged_kinds import LOGGED_KINDS, fields_of_kind
from tensorclass.scores.logged_scores import LoggedMetric, family_of, field_names
from tensorclass.scores.metrics import Mean, declared_codes, declared_metrics
from tensorclass.scores.readers.document_labels import AnyLabelColumn, DocumentLabels
from tensorclass.scores.readers.growing_columns import (
    Column,
    LabelColumn,
    Misfit,
    NumberColumn,
    PromptColumn,
    RaggedColumn,
    RaggedLabelColumn,
    TaskColumn,
    shared_texts,
    shown,
)
from tensorclass.scores.readers.instructions import check_levels, levels, levels_agree
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.metric_units import is_named_as_share, unit_of
from tensorclass.scores.readers.pair_columns import PairColumn, pair_column
from tensorclass.scores.readers.projected_rows import Struct
from tensorclass.scores.readers.run import Published
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError, require

__all__ = ["FAMILIES", "LoggedColumns", "logged_metrics"]

FAMILIES: Final[tuple[type[ScoreData], ...]] = (IFEvalScoreData, MultipleChoiceScoreData, ExactMatchScoreData)
"""The families to recognise a log as: the first that has all its metrics. For other logs a family is made."""

_BOOKKEEPING: Final = frozenset(
    (
        "doc_id",
        "doc",
        "target",
        "arguments",
        "resps",
        "filtered_resps",
        "filter",
        "metrics",
        "doc_hash",
        "prompt_hash",
        "target_hash",
    )
)

_AGREEMENT: Final = 1e-6  # of a figure with that of the results file, whose sums are in another order

MetricColumn: TypeAlias = NumberColumn | RaggedColumn | PairColumn


def logged_metrics(row: Row) -> list[str]:
    """The names of the metrics of a row."""
    names = row.get("metrics")
    if isinstance(names, list):
        return [name for name in cast("list[object]", names) if isinstance(name, str)]
    return [name for name in row if name not in _BOOKKEEPING]


@dataclass(frozen=True)
class _Labels:
    """A field of codes: its names in the row, its column, and the field of its vocabulary."""

    field: str
    keys: tuple[str, ...]
    column: LabelColumn | RaggedLabelColumn
    names: str


class LoggedColumns:
    """The columns of a run.

    Args:
        first: the first row.
        path: the file, for errors.
        number: the line of the first row.
        family: the class of the scores; None finds one by the metrics of the first row.
        task: the task of the rows, if it is known.
        file: what stands for the task where rows have no more than a number.
        published: the figures that the results file says.
        roles: the key of the documents for ``group`` and for ``cluster``, if there are any.

    Raises:
        ScoreFileError: none of the metrics is a number, or one of the family; the documents have no such key.
    """

    def __init__(
        self,
        first: Row,
        path: str,
        number: int,
        family: type[ScoreData] | None,
        task: str | None,
        file: str,
        published: Mapping[str, Published],
        roles: Mapping[str, str],
    ) -> None:
        self.path = path
        self.logged = dict.fromkeys(logged_metrics(first))
        self._first_metrics = tuple(self.logged)
        self._left_out: dict[str, str] = {}  # why, by metric
        self._published = published
        self.rows = 0
        keys = self._computed(first, family)
        self._doc_labels = DocumentLabels(roles, first, path, number)
        self._family = _known_family(keys) if family is None else family
        if roles:  # a family is made that has the labels
            self._check_unlabelled(number, family)
            self._family = None
        if self._family is None:
            self._fields = {key: key for key in keys}  # the family is made once all values are known
        else:
            self._fields = {key: name for key, name in _keys_of(self._family).items() if key in first}
            named = family is None and self._family is not None
            for key in [key for key in keys if key not in self._fields] if named else ():
                self._left_out[key] = f"no field of {self._family.__name__} holds it"
        if not self._fields:
            raise ScoreFileError(path, number, self._nothing(family))
        self.metrics = {key: self._column_of(key, first[key], family) for key in self._fields}
        self._kinds: dict[str, str] = {}  # of metrics with pairs
        self._labels = [] if self._family is None else list(_labels(self._family, first))
        self._labels += [_Labels(key, ("doc", key), column, key) for key, column in self._doc_labels.columns.items()]
        self._ragged: list[tuple[str, RaggedColumn | RaggedLabelColumn]] = [
            (name, column)
            for name, column in [*self.metrics.items(), *((one.field, one.column) for one in self._labels)]
            if isinstance(column, (RaggedColumn, RaggedLabelColumn))
        ]
        by_instruction = self._family is not None and issubclass(self._family, IFEvalScoreData)
        self._levels = levels(cast("dict[str, Column]", self.metrics)) if by_instruction else []
        self._by_text = by_instruction  # as the other format of its results, which has no ids
        self._prompts = PromptColumn()
        self._task, self._file = task, file
        self._tasks = TaskColumn(() if task is None else (task,))
        self.keys = self._needed(first)

    @property
    def ignored(self) -> tuple[str, ...]:
        """The metrics that are logged and have no column."""
        return tuple(key for key in self.logged if key not in self.metrics)

    @property
    def left_out(self) -> tuple[str, ...]:
        """A sentence for each metric that can't be computed."""
        return tuple(f"{key}: {why}{_said(self._published.get(key))}" for key, why in self._left_out.items())

    def figure(self, key: str) -> float:
        """The figure of a metric, of the rows read so far; NaN where no row is scored."""
        column = self.metrics[key]
        if isinstance(column, PairColumn):
            return _figure(column, self._kinds.get(key, column.kinds[0]))
        numbers = column.numbers()
        counted = numbers[~np.isnan(numbers)]
        return float(counted.mean(dtype=np.float64)) if len(counted) else float("nan")

    def agrees(self, key: str, value: float) -> bool:
        """Return whether the figure of a metric is this value; pairs get the kind that gives it."""
        column = self.metrics[key]
        kinds = column.kinds if isinstance(column, PairColumn) else ("mean",)
        for kind in kinds:
            found = _figure(column, kind) if isinstance(column, PairColumn) else self.figure(key)
            if isclose(found, value, rel_tol=_AGREEMENT, abs_tol=_AGREEMENT):
                self._kinds[key] = kind
                return True
        return False

    def settle(self) -> list[str]:
        """Choose the kinds of pairs that no results file tells. Return notes on how figures of pairs are made."""
        for key, column in list(self.metrics.items()):
            if not isinstance(column, PairColumn) or key in self._kinds:
                continue
            if not column.is_certain:
                names = " or ".join(LOGGED_KINDS[kind].about for kind in column.kinds)
                self.leave_out(key, f"rows hold pairs, and without a results file it may be {names}")
            else:
                self._kinds[key] = column.kinds[0]
        return [f"{key}: {LOGGED_KINDS[kind].about}" for key, kind in self._kinds.items() if kind in LOGGED_KINDS]

    def add(self, row: Row, number: int) -> None:
        """Add a row.

        Raises:
            ScoreFileError: it lacks a key, or holds a value that doesn't fit.
        """
        path, key = self.path, ""  # what is being read, for errors
        try:
            for key, column in self.metrics.items():
                column.add(row[key])
            for one in self._labels:
                key = one.field
                one.column.add(_reach(row, one.keys))
            key = "doc_id"
            number_in_task = _number(row)
            key = "doc_hash"
            document = _document(row)
        except KeyError:
            raise ScoreFileError(
                path, number, f"{key}: expected in every row, as in the first one, but this row lacks it"
            ) from None
        except TypeError as error:
            raise ScoreFileError(path, number, f"{key}: expected {error}") from None
        task = self._task
        if document is None:  # a number identifies a document of a task; where nothing names it, the file stands for it
            task = self._file if task is None else task
            document = f"doc {number_in_task} of {task}"
        self._tasks.add(task)
        self._prompts.add(document, _text(row) if self._by_text else None)
        if len({column.lengths[-1] for _, column in self._ragged}) > 1:
            counts = ", ".join(f"{column.lengths[-1]} in {field}" for field, column in self._ragged)
            raise ScoreFileError(path, number, f"expected as many verdicts as instructions, got {counts}")
        for name, each_name, every, each in self._levels:
            check_levels(path, number, name, each_name, every.last(), each.last())
        for name in logged_metrics(row):
            self.logged.setdefault(name)
        self.rows += 1

    def add_all(self, structs: Sequence[Struct], *, is_narrow: bool) -> None:
        """Add rows that were decoded: all of them or, with an error, none.

        Args:
            structs: the rows.
            is_narrow: they were decoded by :meth:`narrow_keys` rather than by :attr:`keys`.

        Raises:
            Misfit: a row that has to be added by itself.
        """
        listed = [] if is_narrow or "metrics" not in (self.keys or ()) else self._column(structs, "metrics")
        if len(set(map(bytes, listed))) > 1:
            raise Misfit  # rows with metrics of their own
        columns = {key: self._column(structs, key) for key in (*self.metrics, "doc_hash")}
        adds = [column.checked(columns[key]) for key, column in self.metrics.items()]
        lists = [columns[key] for key, column in self.metrics.items() if isinstance(column, RaggedColumn)]
        for one in self._labels:
            values = self._column(structs, *one.keys)
            adds.append(one.column.checked(values))
            lists += [values] if isinstance(one.column, RaggedLabelColumn) else []
        lengths = [list(map(len, cast("list[list[object]]", values))) for values in lists]
        if any(other != lengths[0] for other in lengths[1:]):
            raise Misfit
        for name, each_name, _, _ in self._levels:
            if not levels_agree(columns[name], columns[each_name]):
                raise Misfit
        texts = self._column(structs, "doc", "prompt") if self._by_text else None
        if not all(columns["doc_hash"]) or not all(texts or ()):
            raise Misfit  # an empty text identifies nothing
        for add in adds:
            add()
        self._prompts.add_all(columns["doc_hash"], texts)
        self._tasks.repeat(self._task, len(structs))
        self.rows += len(structs)

    def leave_out(self, key: str, why: str) -> None:
        """Drop a metric whose mean is not the figure of the task.

        Raises:
            ScoreFileError: no other metric is left.
        """
        self._left_out[key] = why
        del self.metrics[key], self._fields[key]
        if not self.metrics:
            raise ScoreFileError(self.path, None, self._nothing(None))

    def unscored(self) -> list[str]:
        """The metrics that no row has a value of."""
        return [key for key in self.metrics if np.isnan(self.figure(key))]

    def shared_texts(self) -> list[str]:
        """A sentence on documents with the same text, if there are any."""
        return shared_texts(self._prompts)

    def prompt_ids(self) -> NDArray[np.int64]:
        """The id of the prompt of each row."""
        ids: NDArray[np.int64] = self._prompts.tensor(1).numpy()
        return ids

    def scores(self) -> ScoreData:
        """The record of all rows."""
        if self._family is None:
            kinds = {key: self._kinds.get(key, "mean") for key in self.metrics}
            declared: list[LoggedMetric] = [
                (key, self._unit(key)) if kind == "mean" else (key, LOGGED_KINDS[kind].unit, kind)
                for key, kind in kinds.items()
            ]
            labels, groups, cluster = self._doc_labels.declaration
            family: type[ScoreData] = family_of(tuple(declared), labels, groups, cluster)
            self._fields = field_names(
                [name for key, kind in kinds.items() for name in fields_of_kind(key, kind)], labels
            )
        else:
            family = self._family
        width = family.ragged_width
        values: dict[str, Any] = {one.name: None for one in dataclasses.fields(family) if _is_required(one)}
        for key, column in self.metrics.items():
            if isinstance(column, PairColumn):
                names = fields_of_kind(key, self._kinds[key])
                values.update(zip(map(self._fields.__getitem__, names), column.tensors(), strict=True))
            else:
                values[self._fields[key]] = column.tensor(width)
        if self._family is None:
            values.update(self._doc_labels.values(self._fields))
        else:
            for one in self._labels:
                values[one.field] = one.column.tensor(width)
                values[one.names] = one.column.vocabulary
        values["prompt_id"] = self._prompts.tensor(width)
        values["prompt_task"] = self._tasks.tensor(width)
        values["task_names"] = self._tasks.vocabulary
        return family(**values, batch_size=[self.rows])

    def _computed(self, first: Row, family: type[ScoreData] | None) -> list[str]:
        """The metrics whose values in the rows are what is averaged; the others are left out."""
        computed: list[str] = []
        for key in self.logged:
            value = first.get(key)
            is_list = isinstance(value, list)
            if (
                value is None
                or isinstance(value, (bool, int, float))
                or (is_list and key in _VERDICT_LISTS)
                or (family is None and pair_column(key, value) is not None)
            ):
                computed.append(key)
            elif family is None:
                self._left_out[key] = (
                    f"the rows hold {_shape_of(value)}, of which lm-evaluation-harness makes one figure for all rows"
                )
        return computed

    def _check_unlabelled(self, number: int, family: type[ScoreData] | None) -> None:
        """Raise if the class of the scores has groups of its own."""
        if family is not None:
            problem = f"columns: expected none with a family, got {family.__name__}; declare its groups there"
            raise ScoreFileError(self.path, number, problem)
        if self._family is IFEvalScoreData:
            problem = "columns: expected none for IFEval, whose figures are given by the types of instructions"
            raise ScoreFileError(self.path, number, problem)

    def _nothing(self, family: type[ScoreData] | None) -> str:
        if family is not None:
            keys = ", ".join(map(str, _keys_of(family)))
            return f"expected a metric of {family.__name__} ({keys}), got {', '.join(self.logged) or 'none'}"
        return (
            f"no metric can be computed from the rows: {'; '.join(self.left_out) or 'they name none'}; for values of "
            "your own, declare a family with fields of these names and read the file with read_scores(path, family=...)"
        )

    def _column_of(self, key: str, value: object, family: type[ScoreData] | None) -> MetricColumn:
        pairs = None if family is not None else pair_column(key, value)
        if pairs is not None:
            return pairs
        return (RaggedColumn if isinstance(value, list) else NumberColumn)(self._is_share(key))

    def _is_share(self, key: str) -> bool:
        if self._family is None:
            return is_named_as_share(key)
        return _declared_share({one.name: one for one in dataclasses.fields(self._family)}[self._fields[key]])

    def _unit(self, key: str) -> str:
        column = self.metrics[key]
        return "%" if isinstance(column, PairColumn) else unit_of(key, column.numbers())

    def _needed(self, first: Row) -> dict[str, Any] | None:
        """The keys to decode of any row, with their types; None if rows need all of their document."""
        if not isinstance(first.get("doc_hash"), str) or not first["doc_hash"]:
            return None
        number = bool | float | None
        msgspec = require("msgspec", "reading score files")
        keys: dict[str, Any] = {"filter": str | None | msgspec.UnsetType, "doc_id": int | str, "doc_hash": str}
        if "metrics" in first:
            keys["metrics"] = msgspec.Raw
        for key, column in self.metrics.items():
            keys[key] = list[bool | float] if isinstance(column, RaggedColumn) else number
            if isinstance(column, PairColumn):
                return None
        inner: dict[str, Any] = {"prompt": str} if self._by_text else {}
        for one in self._labels:
            if len(one.keys) != 2 or one.keys[0] != "doc":
                return None
            inner[one.keys[1]] = _label_type(one.column)
        if inner:
            keys["doc"] = inner
        return keys

    def narrow_keys(self, filter: str | None) -> dict[str, Any]:
        """The keys to decode, with types that only rows of a filter with the metrics of the first row have."""
        assert self.keys is not None
        keys = {**self.keys, "filter": Literal[filter]}
        if filter is None:
            keys["filter"] = None | require("msgspec", "reading score files").UnsetType
        if "metrics" in keys:
            keys["metrics"] = GenericAlias(tuple, tuple(Literal[name] for name in self._first_metrics))
        return keys

    def _column(self, structs: Sequence[Struct], key: str, inner: str | None = None) -> list[Any]:
        """The values of a key, or of a key of the document."""
        assert self.keys is not None
        name = f"v{list(self.keys).index(key)}"
        if inner is not None:
            name += f".v{list(self.keys[key]).index(inner)}"
        return list(map(attrgetter(name), structs))


_VERDICT_LISTS: Final = frozenset(one.name for one in dataclasses.fields(IFEvalScoreData))


def _label_type(column: LabelColumn | RaggedLabelColumn) -> object:
    if isinstance(column, AnyLabelColumn):
        return str | bool | int | float | None
    return list[str] if isinstance(column, RaggedLabelColumn) else str


def _known_family(keys: Sequence[str]) -> type[ScoreData] | None:
    """The family of this package that has all the metrics; IFEval's if any of its metrics is there."""
    for family in FAMILIES:
        held = set(_keys_of(family)) & set(keys)
        if held and (family is IFEvalScoreData or len(held) == len(keys)):
            return family
    return None


def _figure(column: PairColumn, kind: str) -> float:
    return float(LOGGED_KINDS[kind].figure(*column.arrays()))


def _keys_of(family: type[ScoreData]) -> dict[str, str]:
    """The metrics of a family that are means: the name in the log, and the field."""
    found: dict[str, str] = {}
    for one in dataclasses.fields(family):
        declared = declared_metrics(one.metadata)
        means = [Mean()] if declared is None else [metric for metric in declared if isinstance(metric, Mean)]
        if means:
            found[means[0].key or one.name] = one.name
    return found


def _labels(family: type[ScoreData], first: Row) -> list[_Labels]:
    found: list[_Labels] = []
    for one in dataclasses.fields(family):
        declared = declared_codes(one.metadata)
        if declared is None or not declared.logged:
            continue
        value = _reach(first, declared.logged)
        if value is not None:
            kind = RaggedLabelColumn if isinstance(value, list) else LabelColumn
            found.append(_Labels(one.name, declared.logged, kind(declared.vocabulary), declared.names))
    return found


def _shape_of(value: object) -> str:
    names: Mapping[type, str] = {str: "texts", dict: "objects", list: "lists"}
    return names.get(type(value), "values")


def _said(published: Published | None) -> str:
    return "" if published is None else f" (the results file says {published.value:.6g})"


def _declared_share(field: dataclasses.Field[Any]) -> bool:
    declared = declared_metrics(field.metadata)
    return declared is None or any(isinstance(one, Mean) and one.unit == "%" for one in declared)


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _reach(row: Row, keys: tuple[str, ...]) -> Any:
    value: Any = row
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = cast("Row", value).get(key)
    return value


def _text(row: Row) -> str | None:
    """The prompt's text, where the document holds it."""
    doc = row.get("doc")
    text = cast("Row", doc).get("prompt") if isinstance(doc, dict) else None
    return text if isinstance(text, str) else None


def _document(row: Row) -> str | None:
    """Return the identity of the row's document: its hash, else its number and content; None for a number alone."""
    digest = row.get("doc_hash")
    if isinstance(digest, str) and digest:
        return digest
    if digest is not None and not isinstance(digest, str):
        raise TypeError(f"the document's hash as text, got {shown(digest)}")
    doc = row.get("doc")
    if doc is None or doc in ({}, [], ""):
        return None
    try:
        return f"doc {_number(row)} {json.dumps(doc, sort_keys=True)}"
    except RecursionError:
        raise TypeError("a document that is nested less deeply, or doc_hash") from None


def _number(row: Row) -> str:
    """The document's number, or name, in its task."""
    number: object = row["doc_id"]
    if isinstance(number, bool) or not isinstance(number, (int, str)):
        raise TypeError(f"the document's number, got {shown(number)}")
    return str(number)
