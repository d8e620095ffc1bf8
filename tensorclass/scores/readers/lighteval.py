"""Details of lighteval: ``details/MODEL/DATE/details_TASK_DATE.parquet``, one row a document.

The columns are ``__doc__`` (the document), ``__model_response__`` and ``__metric__``, a structure with the value of
each metric. Older versions have ``metrics`` and the fields of the document as columns. Source:
https://huggingface.co/docs/lighteval/saving-and-reading-results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from typing_extensions import TypedDict

from tensorclass.scores.limits import finite_number
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.growing_columns import shown
from tensorclass.scores.readers.json_document import json_problem, python_json, read_document
from tensorclass.scores.readers.parquet_file import ParquetRows
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Published, Run, run_name
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError

__all__ = ["READER", "LightevalReader"]

_METRICS: Final = ("__metric__", "metric", "metrics")
_DOCUMENTS: Final = ("__doc__", "doc")
_RESPONSES: Final = ("__model_response__", "model_response")
_PROMPTS: Final = ("query", "full_prompt", "example")
_NAME: Final = re.compile(r"^details_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)$")


class _Results(TypedDict, total=False):
    results: dict[str, dict[str, object]]


class LightevalReader(Reader):
    """Reads details of lighteval."""

    name: str = "lighteval"
    description = "details of lighteval (Parquet with __metric__ or metrics)"
    companions: Sequence[str] = ("results_*.json",)

    def recognises(self, head: FileHead) -> bool:
        if not head.is_parquet:
            return False
        try:
            with ParquetRows.of(head.location, str(head.path)) as rows:
                return _Columns.of(rows) is not None
        except MissingExtraError:
            return _NAME.match(run_name(head.path)) is not None
        except ScoreFileError:  # reading it says what is wrong
            return head.name.startswith("details_")

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_options(head, options, self.name)
        return [_run(head, options)]


READER = LightevalReader()


@dataclass(frozen=True)
class _Columns:
    """The columns that hold what is read."""

    metrics: str
    prompt: str | None
    id: str | None
    response: str | None

    @classmethod
    def of(cls, rows: ParquetRows) -> _Columns | None:
        """Find the columns; None if the file is no file of details."""
        metrics = _first(_METRICS, rows.columns)
        document = _first(_DOCUMENTS, rows.columns)
        if metrics is None or (document is None and _first(_PROMPTS, rows.columns) is None):
            return None
        response = _first(_RESPONSES, rows.columns)
        if document is None:
            return cls(
                metrics, _first(_PROMPTS, rows.columns), None, "predictions" if "predictions" in rows.columns else None
            )
        fields = rows.fields(document)
        prompt = _first(_PROMPTS, fields)
        return cls(
            metrics,
            None if prompt is None else f"{document}.{prompt}",
            f"{document}.id" if "id" in fields else None,
            f"{response}.text" if response is not None and "text" in rows.fields(response) else None,
        )


def _run(head: FileHead, options: ReadOptions) -> Run:
    path = str(head.path)
    named = _NAME.match(run_name(head.path))
    task = None if named is None else named["task"]
    gathered = GatheredScores(head)
    others: dict[str, object] = {}
    with ParquetRows.of(head.location, str(head.path)) as rows:
        columns = _Columns.of(rows)
        if columns is None:
            raise ScoreFileError(path, None, "expected details of lighteval, with __metric__ and __doc__")
        for number, row in rows.rows([one for one in (columns.metrics, columns.prompt, columns.id) if one is not None]):
            values, rest = _split(_metrics(row[columns.metrics], path, number))
            others.update(rest)
            document, text = _identity(row, columns, number)
            gathered.add(document, values, task=task, text=text, line=number)
    metrics = gathered.metrics()
    if not metrics:
        names = ", ".join(others) or "none"
        raise ScoreFileError(path, None, f"no metric of the rows is a number (metrics: {names})")
    results, published = _results(head.path, task, metrics)
    return gathered.run(
        READER.name,
        options.family,
        name=task,
        beside=[] if results is None else [results],
        model=_model(head.path),
        task=task,
        published=published,
        published_in=str(results),
        may_differ=True,
        left_out=tuple(
            f"{name}: no number, but {shown(value)}" for name, value in others.items() if name not in metrics
        ),
        texts=partial(_texts, head.path),
    )


def _first(names: Sequence[str], held: Sequence[str]) -> str | None:
    return next((name for name in names if name in held), None)


def _metrics(value: object, path: str, number: int) -> Mapping[str, object]:
    """The metrics of a row, which may be written as JSON."""
    if isinstance(value, str):
        try:
            value = python_json(value)
        except (ValueError, RecursionError) as error:
            raise ScoreFileError(path, number, f"metrics: {json_problem(error)}, in {shown(value)}") from None
    if not isinstance(value, dict):
        raise ScoreFileError(path, number, f"metrics: expected the value of each metric, got {shown(value)}")
    return cast("dict[str, object]", value)


def _split(metrics: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Numbers, and values that are none."""
    numbers: dict[str, object] = {
        name: value for name, value in metrics.items() if value is None or isinstance(value, (bool, int, float))
    }
    return numbers, {name: value for name, value in metrics.items() if name not in numbers}


def _field(row: Mapping[str, object], column: str | None) -> object:
    """The value of a column, or of the field of a structure."""
    if column is None:
        return None
    outer, _, inner = column.partition(".")
    value = row.get(outer)
    if not inner:
        return value
    return cast("dict[str, object]", value).get(inner) if isinstance(value, dict) else None


def _identity(row: Mapping[str, object], columns: _Columns, number: int) -> tuple[str, str | None]:
    """The document of a row, and its text where nothing else identifies it."""
    own = _field(row, columns.id)
    if own not in (None, ""):
        return f"doc {own}", None
    text = _field(row, columns.prompt)
    return f"row {number}", text if isinstance(text, str) and text else None


def _model(path: Path) -> str | None:
    """The model: the folders between ``details`` and the date."""
    parts = path.absolute().parts[:-2]
    if "details" not in parts:
        return None
    last = len(parts) - 1 - parts[::-1].index("details")
    return "/".join(parts[last + 1 :]) or None


def _results(path: Path, task: str | None, metrics: Sequence[str]) -> tuple[Path | None, dict[str, Published]]:
    """The results file of the run, and its figures of the task."""
    model, named = _model(path), _NAME.match(run_name(path))
    if model is None or named is None:
        return None, {}
    root = path.absolute().parents[2 + model.count("/") + 1]
    file = root / "results" / model / f"results_{named['date']}.json"
    if not file.is_file():
        return None, {}
    held = read_document(file, _Results).get("results", {})
    nothing: dict[str, object] = {}
    figures = next((own for name, own in held.items() if task in (name, name.rpartition("|")[0])), nothing)
    published: dict[str, Published] = {}
    for metric in metrics:
        value = finite_number(figures.get(metric))
        if value is not None:
            published[metric] = Published(value, finite_number(figures.get(f"{metric}_stderr")))
    return file, published


def _texts(path: Path) -> Iterator[PromptText]:
    head = FileHead.of(path)
    ids = _run(head, ReadOptions()).scores.prompt_id
    assert ids is not None
    with ParquetRows.of(head.location, str(head.path)) as rows:
        columns = _Columns.of(rows)
        assert columns is not None
        wanted = [one for one in (columns.prompt, columns.response) if one is not None]
        for (_, row), own in zip(rows.rows(wanted), cast("list[int]", cast("Any", ids).tolist()), strict=True):
            response = _field(row, columns.response)
            if isinstance(response, list):  # one text a sample
                response = next(iter(cast("list[object]", response)), None)
            yield PromptText(own, str(_field(row, columns.prompt) or ""), None if response is None else str(response))
