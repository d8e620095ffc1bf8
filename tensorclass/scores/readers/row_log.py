"""Logs with a row for each scored answer: what their readers share.

A reader says which rows are its own, and what a row holds. Rows come from JSON Lines, a JSON array, Parquet or CSV.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from tensorclass.scores.families import PassAtKScoreData
from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.growing_columns import prompt_id, shown
from tensorclass.scores.readers.lines import OnProgress, Row
from tensorclass.scores.readers.reader_registry import Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Run
from tensorclass.scores.readers.tabular import ROLES, TableReader, table_names, table_rows
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["FieldError", "RowReader", "ScoredRow", "items", "mapping", "needed", "number", "text", "verdict"]

_Key: TypeAlias = tuple[str | None, str | None]

_VERDICTS: Final = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}


class FieldError(ValueError):
    """A field of a row is missing, or holds something else than expected; the error gets the file and the line."""


@dataclass(frozen=True)
class ScoredRow:
    """The content of a row.

    Attributes:
        document: what identifies the prompt in its task. Rows of the same document are its repeats.
        values: numbers or verdicts by metric, None where not scored; ``passed`` alone of a reader that counts samples.
        model: the model, if the row says it.
        task: the task.
        labels: what may group the rows.
        prompt: what the model was given.
        response: its answer.
        target: the expected answer.
        usage: what the answer took: ``cost`` (US dollars), ``tokens``, ``seconds``.
        note: what is to be said of such rows; rows with the same note are counted.
    """

    document: str
    values: Mapping[str, object]
    _: KW_ONLY
    model: str | None = None
    task: str | None = None
    labels: Mapping[str, object] = field(default_factory=dict[str, object])
    prompt: str | None = None
    response: str | None = None
    target: str | None = None
    usage: Mapping[str, object] = field(default_factory=dict[str, object])
    note: str | None = None


class RowReader(Reader):
    """Base class of readers whose logs have a row for each scored answer.

    Attributes:
        family: the class of the scores; None for one made for the metrics of the log.
        counts_samples: rows are samples of a problem, with the value ``passed``: the record has a row for each problem,
            with ``num_samples`` and ``num_correct``.
        default_task: the task of rows that name none; empty for none.
    """

    family: type[ScoreData] | None = None
    counts_samples: bool = False
    default_task: str = ""

    @abstractmethod
    def is_row(self, row: Row) -> bool:
        """Return whether the first row of a file is one of this format."""

    @abstractmethod
    def scored(self, row: Row, head: FileHead) -> Iterable[ScoredRow]:
        """Read a row: one answer, or several.

        Raises:
            FieldError: a field is missing, or holds something else than expected.
        """

    def rows(self, head: FileHead, on_progress: OnProgress | None = None) -> Iterator[tuple[int | None, Row]]:
        """The rows, each with its line for errors."""
        return iter(head.rows(on_progress)) if head.first_row is not None else table_rows(head)

    def about(self, head: FileHead, rows: Sequence[GatheredScores]) -> Mapping[str, Any]:
        """Fields of the run of a file with one run: figures that are published of it, and the like."""
        return {}

    def recognises(self, head: FileHead) -> bool:
        row = _first_row(head)
        return row is not None and self.is_row(row)

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        if any(role not in ROLES for role in options.columns):  # the caller says which columns hold the scores
            return TableReader(options.columns).read(head, options)
        refuse_options(head, options, self.name, roles=("group", "cluster"))
        wanted = {role: options.columns[role] for role in ("group", "cluster") if role in options.columns}
        tables: dict[_Key, GatheredScores] = {}
        notes: dict[_Key, Counter[str]] = {}
        samples: dict[_Key, dict[str, list[int]]] = {}
        for line, row, one in self._scored(head, options.on_progress(head.path)):
            key = self._key(one)
            table = tables.setdefault(key, GatheredScores(head))
            if one.note is not None:
                notes.setdefault(key, Counter())[one.note] += 1
            if self.counts_samples:
                _count(samples.setdefault(key, {}), one, head, line)
                table.use(one.usage)
                continue
            labels = {**one.labels, **{column: row.get(column) for column in wanted.values()}}
            table.add(one.document, one.values, labels=labels, task=key[1], line=line, usage=one.usage)
        for key, problems in samples.items():
            for problem, (count, passed) in problems.items():
                tables[key].add(problem, {"num_samples": count, "num_correct": passed}, task=key[1])
        if not tables:
            raise ScoreFileError(str(head.path), None, f"no scored rows; expected {self.description}")
        return [self._run(head, options, key, tables, notes.get(key, Counter()), wanted) for key in tables]

    def _run(
        self,
        head: FileHead,
        options: ReadOptions,
        key: _Key,
        tables: Mapping[_Key, GatheredScores],
        notes: Counter[str],
        wanted: Mapping[str, str],
    ) -> Run:
        table, (model, task) = tables[key], key
        if not table.metrics():
            problem = f"{table.rows} rows, none of them scored: there is nothing to aggregate"
            raise ScoreFileError(str(head.path), None, problem)
        own = "/".join(part for part in dict.fromkeys((model, task)) if part) if len(tables) > 1 else ""
        about = dict(self.about(head, list(tables.values()))) if len(tables) == 1 else {}
        family = options.family or self.family or (PassAtKScoreData if self.counts_samples else None)
        counted = [f"{count} of {table.rows} rows: {note}" for note, count in notes.items()]
        fields: dict[str, Any] = {
            "name": own or None,
            "model": model,
            "task": task,
            "groups": (wanted["group"],) if "group" in wanted else None,
            "cluster": wanted.get("cluster"),
            "texts": partial(_texts, self, head.path, key),
            **about,
            "notes": (*counted, *about.get("notes", ())),
        }
        return table.run(self.name, family, **fields)

    def _key(self, one: ScoredRow) -> _Key:
        """The model and the task of a row."""
        return one.model or None, one.task or self.default_task or None

    def _scored(
        self, head: FileHead, on_progress: OnProgress | None = None
    ) -> Iterator[tuple[int | None, Row, ScoredRow]]:
        for line, row in self.rows(head, on_progress):
            try:
                for one in self.scored(row, head):
                    yield line, row, one
            except FieldError as error:
                raise ScoreFileError(str(head.path), line, str(error)) from None


def needed(row: Mapping[str, Any], *keys: str) -> Any:
    """The value under the first of several keys that a row holds.

    Raises:
        FieldError: it holds none of them.

    Example:
        >>> needed({"task_id": 7}, "id", "task_id")
        7
    """
    for key in keys:
        if row.get(key) is not None:
            return row[key]
    raise FieldError(f"{keys[0]}: expected in each row, but this one lacks it")


def text(value: object) -> str | None:
    """A value as text: JSON for what is neither text nor a number; None for null.

    Example:
        >>> text("a"), text(7), text(["a"]), text(None)
        ('a', '7', '["a"]', None)
    """
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str, sort_keys=True)


def items(value: object) -> list[Any] | None:
    """A JSON array; None if the value is none."""
    found: Any = value  # an array of anything
    return found if isinstance(value, list) else None


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object, empty if the value is none."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def verdict(value: object, name: str) -> bool | None:
    """A verdict: true or false, 1 or 0, also as text; None for null and empty text.

    Raises:
        FieldError: the value is something else.

    Example:
        >>> verdict(True, "passed"), verdict(0, "passed"), verdict("true", "passed"), verdict(None, "passed")
        (True, False, True, None)
    """
    if value is None or value == "":
        return None
    found = _VERDICTS.get(str(value).strip().lower()) if isinstance(value, (bool, int, float, str)) else None
    if found is None:
        raise FieldError(f"{name}: expected true or false, got {shown(value)}")
    return found


def number(value: object, name: str) -> float | None:
    """A number, also as text; None for null and empty text.

    Raises:
        FieldError: the value is something else, or not finite.

    Example:
        >>> number("7", "score"), number(0.5, "score"), number("", "score")
        (7.0, 0.5, None)
    """
    if value is None or value == "":
        return None
    try:
        found = float(cast("Any", value)) if isinstance(value, (bool, int, float, str)) else float("nan")
    except (ValueError, OverflowError):
        found = float("nan")
    if not isfinite(found):
        raise FieldError(f"{name}: expected a finite number, got {shown(value)}")
    return found


def _count(problems: dict[str, list[int]], one: ScoredRow, head: FileHead, line: int | None) -> None:
    """Count a sample of a problem."""
    passed = one.values.get("passed")
    if passed is None:
        raise ScoreFileError(str(head.path), line, f"{one.document}: expected the verdict of each sample, got null")
    counts = problems.setdefault(one.document, [0, 0])
    counts[0] += 1
    counts[1] += bool(passed)


def _first_row(head: FileHead) -> Row | None:
    """The first row; of CSV, the names of its columns with no values."""
    if head.first_row is not None or not head.name.endswith((".csv", ".tsv")):
        return head.first_row
    names = table_names(head)
    return None if names is None else dict.fromkeys(names)


def _texts(reader: RowReader, path: Path, key: _Key) -> Iterator[PromptText]:
    """The texts of a run's rows, read again; of a reader that counts samples, the first of each problem."""
    held: set[str] = set()
    for _, _, one in reader._scored(FileHead.of(path)):
        if reader._key(one) != key or one.document in held:
            continue
        if reader.counts_samples:
            held.add(one.document)
        prompt = one.document if one.prompt is None else one.prompt
        yield PromptText(prompt_id(one.document), prompt, one.response, one.target)
