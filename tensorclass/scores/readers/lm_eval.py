"""Sample logs of lm-evaluation-harness: ``lm_eval --log_samples`` writes ``samples_<task>_<date>.jsonl``.

One JSON object a line with ``doc_id``, ``doc``, ``target``, ``arguments``, ``resps``, ``filtered_resps``, ``filter``,
``metrics`` (the names of the metrics), some hashes, and each metric under its own name. Source: the files of version
0.4.13. A document is logged once for each filter (``strict-match``, ``flexible-extract``, ...), so the rows of one
filter are the run.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from tensorclass.scores.families import ExactMatchScoreData, MultipleChoiceScoreData
from tensorclass.scores.ifeval import IFEvalScoreData
from tensorclass.scores.metrics import Mean, declared_codes, declared_metrics
from tensorclass.scores.readers.growing_columns import (
    Column,
    LabelColumn,
    NumberColumn,
    PromptColumn,
    RaggedColumn,
    RaggedLabelColumn,
    TaskColumn,
    shared_texts,
    shown,
)
from tensorclass.scores.readers.instructions import check_levels, levels
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions
from tensorclass.scores.readers.run import Run
from tensorclass.scores.readers.run_names import run_name, task_name
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "LmEvalReader", "read_lm_eval"]

FORMAT = "lm-eval"

FAMILIES: tuple[type[ScoreData], ...] = (IFEvalScoreData, MultipleChoiceScoreData, ExactMatchScoreData)
"""The families to recognise a log as. The one with most of its metrics is taken, the first among equals."""

_BOOKKEEPING = frozenset(
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


class LmEvalReader(Reader):
    """Reads sample logs of lm-evaluation-harness."""

    name = FORMAT
    description = "a sample log of lm-evaluation-harness (doc_id, metrics, ...)"

    def recognises(self, head: FileHead) -> bool:
        return head.first_row is not None and _is_row(head.first_row)

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        rows = head.rows(options.on_progress(head.path))
        name = run_name(head.path)
        return [read_lm_eval(rows, str(head.path), name, filter=options.filter, family=options.family)]


READER = LmEvalReader()


def _is_row(row: Row) -> bool:
    return "doc_id" in row and ("metrics" in row or "filtered_resps" in row)


def read_lm_eval(
    rows: Iterable[tuple[int, Row]],
    path: str,
    name: str,
    *,
    filter: str | None = None,
    family: type[ScoreData] | None = None,
) -> Run:
    """The run in a sample log.

    Args:
        rows: the rows with their line numbers, at least one.
        path: the file, for errors.
        name: the run's name.
        filter: the filter whose rows are taken; by default that of the first row.
        family: the class of the scores; by default recognised by the metrics that the first row names.

    Raises:
        ScoreFileError: no row of that filter; no known metric; a row that lacks a metric of the first row, or holds
            something else than a number, true or false, or a list of them.
    """
    plan: _ColumnPlan | None = None
    filters: dict[str | None, int] = {}
    wanted = filter
    number = 1
    for number, row in rows:
        own = row.get("filter")
        if own is not None and not isinstance(own, str):
            raise ScoreFileError(path, number, f"filter: expected a name, got {own!r}")
        filters[own] = filters.get(own, 0) + 1
        if not _is_row(row):
            raise ScoreFileError(
                path, number, "expected a row of a sample log, with doc_id and metrics, as the first line has"
            )
        if wanted is None:
            wanted = own
        if own != wanted:
            continue
        if plan is None:
            plan = _ColumnPlan(row, path, number, family)
        plan.add(row, path, number)
    if plan is None:
        raise ScoreFileError(
            path, number, f"filter: expected rows of {filter!r}, got only rows of {', '.join(map(repr, filters))}"
        )
    notes: list[str] = []
    named = {str(own): count for own, count in filters.items() if own is not None}
    if len(filters) > 1:
        others = ", ".join(repr(own) for own in filters if own != wanted)
        notes.append(f"rows are logged once for each filter: took {wanted!r}, left out {others}")
    notes.extend(plan.notes())
    return Run(
        name=name,
        scores=plan.scores(filters[wanted]),
        files=(path,),
        format=FORMAT,
        filter=wanted,
        filters=named,
        ignored=plan.ignored,
        notes=tuple(notes),
        task=task_name(path),
    )


class _ColumnPlan:
    """The columns to fill from each row, chosen by the first row."""

    def __init__(self, first: Row, path: str, number: int, family: type[ScoreData] | None) -> None:
        logged = _logged_metrics(first)
        self.family = _recognised(logged, path, number) if family is None else family
        self.fields = {one.name: one for one in dataclasses.fields(self.family)}
        names = [name for name, one in self.fields.items() if name in first and _is_mean(one)]
        if not names:
            raise ScoreFileError(
                path,
                number,
                f"expected a metric of {self.family.__name__} ({', '.join(map(str, self.fields))}), "
                f"got {', '.join(logged) or 'none'}",
            )
        self.ignored = tuple(name for name in logged if name not in names)
        self.columns: dict[str, Column] = {
            name: (RaggedColumn if isinstance(first[name], list) else NumberColumn)(_is_share(self.fields[name]))
            for name in names
        }
        self._metrics = list(self.columns.items())
        self._levels = levels(self.columns) if issubclass(self.family, IFEvalScoreData) else []
        self._labels: list[tuple[str, tuple[str, ...], LabelColumn | RaggedLabelColumn, str]] = []
        for name, one in self.fields.items():
            declared = declared_codes(one.metadata)
            if declared is None or not declared.logged:
                continue
            value = _reach(first, declared.logged)
            if value is not None:
                kind = RaggedLabelColumn if isinstance(value, list) else LabelColumn
                column = kind(declared.vocabulary)
                self._labels.append((name, declared.logged, column, declared.names))
        self._ragged = [
            (name, column)
            for name, column in [*self._metrics, *((name, labels) for name, _, labels, _ in self._labels)]
            if isinstance(column, (RaggedColumn, RaggedLabelColumn))
        ]
        self._prompts = PromptColumn()
        self._by_text = issubclass(self.family, IFEvalScoreData)  # as the other format of its results, which has no ids
        self._task = task_name(path)
        self._file = run_name(path).rpartition("/")[2]
        self._tasks = TaskColumn(() if self._task is None else (self._task,))

    def add(self, row: Row, path: str, number: int) -> None:
        key = ""  # what is being read, for errors
        try:
            for key, column in self._metrics:
                column.add(row[key])
            for name, keys, labels, _ in self._labels:
                key = name
                labels.add(_reach(row, keys))
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
        if len(self._ragged) > 1:
            lengths = {column.lengths[-1] for _, column in self._ragged}
            if len(lengths) > 1:
                counts = ", ".join(f"{column.lengths[-1]} in {field}" for field, column in self._ragged)
                raise ScoreFileError(path, number, f"expected as many verdicts as instructions, got {counts}")
        for name, each_name, every, each in self._levels:
            check_levels(path, number, name, each_name, every.last(), each.last())

    def notes(self) -> list[str]:
        """Sentences on how prompts are known."""
        return shared_texts(self._prompts)

    def scores(self, rows: int) -> ScoreData:
        width = self.family.ragged_width
        values: dict[str, Any] = {name: None for name, one in self.fields.items() if _is_required(one)}
        values.update((name, column.tensor(width)) for name, column in self.columns.items())
        for name, _, labels, names in self._labels:
            values[name] = labels.tensor(width)
            values[names] = labels.vocabulary
        values["prompt_id"] = self._prompts.tensor(width)
        values["prompt_task"] = self._tasks.tensor(width)
        values["task_names"] = self._tasks.vocabulary
        return self.family(**values, batch_size=[rows])


def _logged_metrics(row: Row) -> list[str]:
    names = row.get("metrics")
    if isinstance(names, list):
        return [name for name in cast("list[object]", names) if isinstance(name, str)]
    return [name for name in row if name not in _BOOKKEEPING]


def _recognised(logged: Sequence[str], path: str, number: int) -> type[ScoreData]:
    held = [sum(one.name in logged for one in dataclasses.fields(family)) for family in FAMILIES]
    if not any(held):
        raise ScoreFileError(
            path,
            number,
            f"unknown metrics: {', '.join(logged) or 'none'}; expected those of "
            f"{', '.join(family.__name__ for family in FAMILIES)}; declare a family with fields of these names and "
            "read the file with read_scores(path, family=...)",
        )
    return FAMILIES[held.index(max(held))]


def _is_mean(field: dataclasses.Field[Any]) -> bool:
    declared = declared_metrics(field.metadata)
    return declared is None or any(isinstance(one, Mean) for one in declared)


def _is_share(field: dataclasses.Field[Any]) -> bool:
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
