"""The columns to fill from the rows of a sample log of lm-evaluation-harness, chosen by the first row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import isclose
from operator import attrgetter
from types import GenericAlias
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tensorclass.scores.ifeval import IFEvalScoreData
from tensorclass.scores.logged_kinds import LOGGED_KINDS, fields_of_kind
from tensorclass.scores.logged_scores import LoggedMetric, family_of, field_names
from tensorclass.scores.readers.growing_columns import (
    Column,
    Misfit,
    NumberColumn,
    PromptColumn,
    RaggedColumn,
    RaggedLabelColumn,
    TaskColumn,
    prompt_id,
    shared_texts,
)
from tensorclass.scores.readers.instructions import check_levels, levels, levels_agree
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.lm_eval_families import (
    DocumentLabels,
    LoggedLabels,
    is_share_of,
    keys_of,
    known_family,
    labels_of,
    required_fields,
)
from tensorclass.scores.readers.lm_eval_rows import (
    BOOKKEEPING,
    document_of,
    logged_metrics,
    number_of,
    text_of,
    value_at,
)
from tensorclass.scores.readers.metric_units import is_named_as_share, unit_of
from tensorclass.scores.readers.pair_columns import PairColumn, pair_column
from tensorclass.scores.readers.projected_rows import Struct, is_key
from tensorclass.scores.readers.run import Published
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError, require
from tensorclass.support.printable import class_name

__all__ = ["LoggedColumns"]

_AGREEMENT: Final = 1e-6  # of a figure with that of the results file, whose sums are in another order

MetricColumn: TypeAlias = NumberColumn | RaggedColumn | PairColumn


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
        self.logged: dict[str, None] = dict.fromkeys(logged_metrics(first))
        self._first_metrics = tuple(self.logged)
        self._left_out: dict[str, str] = {}  # why, by metric
        self._published = published
        self.rows: int = 0
        keys = self._computed(first, family)
        self._doc_labels = DocumentLabels(roles, first, path, number)
        self._family = known_family(keys) if family is None else family
        if roles:  # a family is made that has the labels
            self._check_unlabelled(number, family)
            self._family = None
        if self._family is None:
            self._fields = {key: key for key in keys}  # the family is made once all values are known
        else:
            self._fields = {key: name for key, name in keys_of(self._family).items() if key in first}
            for key in keys:
                if family is None and key not in self._fields:
                    self._left_out[key] = f"no field of {class_name(self._family)} holds it"
        if not self._fields:
            raise ScoreFileError(path, number, self._nothing(family))
        self.metrics: dict[str, MetricColumn] = {key: self._column_of(key, first[key], family) for key in self._fields}
        self._kinds: dict[str, str] = {}  # of metrics with pairs
        self._labels = [] if self._family is None else list(labels_of(self._family, first))
        self._labels += [
            LoggedLabels(key, ("doc", key), column, key) for key, column in self._doc_labels.columns.items()
        ]
        self._ragged: list[tuple[str, RaggedColumn | RaggedLabelColumn]] = [
            (name, column)
            for name, column in [*self.metrics.items(), *((one.field, one.column) for one in self._labels)]
            if isinstance(column, (RaggedColumn, RaggedLabelColumn))
        ]
        by_instruction = self._family is not None and issubclass(self._family, IFEvalScoreData)
        self._levels = levels(cast("dict[str, Column]", self.metrics)) if by_instruction else []
        self._by_text = by_instruction  # as the other format of its results, which has no ids
        self._prompts = PromptColumn()
        self._prompt_texts = PromptColumn()  # known by the hashes that the harness logs
        self._task, self._file = task, file
        self._tasks = TaskColumn(() if task is None else (task,))
        self.keys: dict[str, Any] | None = self._needed(first)

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
        return _figure(self.metrics[key], self._kinds.get(key))

    def agrees(self, key: str, value: float) -> bool:
        """Return whether the figure of a metric is this value; pairs get the kind that gives it."""
        column = self.metrics[key]
        for kind in column.kinds if isinstance(column, PairColumn) else ("mean",):
            if isclose(_figure(column, kind), value, rel_tol=_AGREEMENT, abs_tol=_AGREEMENT):
                self._kinds[key] = kind
                return True
        return False

    def settle(self) -> list[str]:
        """Choose the kinds of pairs that no results file tells. Return notes on how figures of pairs are made."""
        for key, column in list(self.metrics.items()):
            if not isinstance(column, PairColumn) or key in self._kinds:
                continue
            if column.is_certain:
                self._kinds[key] = column.kinds[0]
            else:
                self.leave_out(key, f"rows hold pairs, and without a results file it may be {column.about_kinds}")
        return [f"{key}: {LOGGED_KINDS[kind].about}" for key, kind in self._kinds.items() if kind in LOGGED_KINDS]

    def add(self, row: Row, number: int) -> None:
        """Add a row.

        Raises:
            ScoreFileError: it lacks a key, or holds a value that doesn't fit.
        """
        path, key = self.path, ""  # the value being read, for errors
        try:
            for key, column in self.metrics.items():
                column.add(row[key])
            for one in self._labels:
                key = one.field
                one.column.add(value_at(row, one.keys))
            key = "doc_id"
            number_in_task = number_of(row)
            key = "doc_hash"
            document = document_of(row)
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
        self._prompt_texts.add(str(row.get("prompt_hash") or ""))
        self._prompts.add(document, text_of(row) if self._by_text else None)
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
        self._prompt_texts.add_all([one or "" for one in self._column(structs, "prompt_hash")])
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

    def prompt_hashes(self) -> NDArray[np.int64] | None:
        """A number for the text of each row's prompt; None if a row doesn't say it."""
        hashes: NDArray[np.int64] = self._prompt_texts.tensor(1).numpy()
        return None if (hashes == prompt_id("")).any() else hashes

    def scores(self) -> ScoreData:
        """The record of all rows."""
        if self._family is None:
            kinds = {key: self._kinds.get(key, "mean") for key in self.metrics}
            declared: list[LoggedMetric] = [
                (key, unit_of(key, column.numbers()))
                if not isinstance(column, PairColumn)
                else (key, LOGGED_KINDS[kinds[key]].unit, kinds[key])
                for key, column in self.metrics.items()
            ]
            labels, groups, cluster = self._doc_labels.declaration
            family: type[ScoreData] = family_of(tuple(declared), labels, groups, cluster)
            self._fields = field_names(
                [name for key, kind in kinds.items() for name in fields_of_kind(key, kind)], labels
            )
        else:
            family = self._family
        width = family.ragged_width
        values: dict[str, Any] = dict.fromkeys(required_fields(family))
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
            value: object = first.get(key)
            if key not in first:
                self._left_out[key] = "the first row names it among its metrics, but has no value of it"
            elif (
                value is None
                or isinstance(value, (bool, int, float))
                or (key in _VERDICT_LISTS and type(value) is list)
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
        problem = "columns: expected none for IFEval, whose figures are given by the types of instructions"
        if family is not None:
            problem = f"columns: expected none with a family, got {class_name(family)}; declare its groups there"
        if family is not None or self._family is IFEvalScoreData:
            raise ScoreFileError(self.path, number, problem)

    def _nothing(self, family: type[ScoreData] | None) -> str:
        if family is not None:
            keys = ", ".join(map(str, keys_of(family)))
            return f"expected a metric of {class_name(family)} ({keys}), got {', '.join(self.logged) or 'none'}"
        return (
            f"no metric can be computed from the rows: {'; '.join(self.left_out) or 'they name none'}; for values of "
            "your own, declare a family with fields of these names and read the file with read_scores(path, family=...)"
        )

    def _column_of(self, key: str, value: object, given: type[ScoreData] | None) -> MetricColumn:
        pairs = None if given is not None else pair_column(key, value)
        if pairs is not None:
            return pairs
        family = self._family
        is_share = is_named_as_share(key) if family is None else is_share_of(family, self._fields[key])
        return (RaggedColumn if isinstance(value, list) else NumberColumn)(is_share)

    def _needed(self, first: Row) -> dict[str, Any] | None:
        """The keys to decode of any row, with their types; None if rows need all of their document."""
        if not isinstance(first.get("doc_hash"), str) or not first["doc_hash"]:
            return None
        names = [*self.metrics, *self._first_metrics, *(name for one in self._labels for name in one.keys)]
        if not all(map(is_key, names)) or not BOOKKEEPING.isdisjoint(self.metrics):
            return None
        number = bool | float | None
        msgspec = require("msgspec", "reading score files")
        keys: dict[str, Any] = {"filter": str | None | msgspec.UnsetType, "doc_id": int | str, "doc_hash": str}
        keys["prompt_hash"] = str | None | msgspec.UnsetType
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
            inner[one.keys[1]] = one.type_of_values
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


def _figure(column: MetricColumn, kind: str | None) -> float:
    """The figure of a kind, by default of the first; the mean of single values, NaN where no row is scored."""
    if isinstance(column, PairColumn):
        return float(LOGGED_KINDS[kind or column.kinds[0]].figure(*column.arrays()))
    numbers = column.numbers()
    counted = numbers[~np.isnan(numbers)]
    return float(counted.mean(dtype=np.float64)) if len(counted) else float("nan")


def _shape_of(value: object) -> str:
    names: Mapping[type, str] = {str: "texts", dict: "objects", list: "lists"}
    return names.get(type(value), "values")


def _said(published: Published | None) -> str:
    return "" if published is None else f" (the results file says {published.value:.6g})"
