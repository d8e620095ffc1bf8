"""Tables of scores: CSV, JSON Lines or Parquet, one row a prompt, whose columns the caller names by their role.

The roles ``prompt``, ``task``, ``model``, ``group``, ``cluster``, ``text``, ``response`` and ``target`` say what a
column is for; any other role is the name of a metric.
"""

from __future__ import annotations

import csv
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, Final, TextIO, TypeAlias, cast

from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.growing_columns import prompt_id, shown
from tensorclass.scores.readers.log_sizes import LONGEST_LINE, raised
from tensorclass.scores.readers.parquet_file import ParquetRows
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_options
from tensorclass.scores.readers.run import PromptText, Run
from tensorclass.scores.readers.unpacked_file import BROKEN, broken
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["ROLES", "TableReader", "table_names", "table_rows"]

ROLES: Final[tuple[str, ...]] = ("prompt", "task", "model", "group", "cluster", "text", "response", "target")
"""The roles of columns other than metrics."""

_EXAMPLE: Final = "--columns prompt=id,accuracy=correct"
_SEPARATORS: Final = ",\t;|"
_MISSING: Final = frozenset(("", "nan", "na", "n/a", "null", "none"))
_VERDICTS: Final = {"true": True, "false": False}

_TableRow: TypeAlias = Mapping[str, object]


class _Roles:
    """The cells of a row by their role.

    Args:
        columns: the column of each role.
    """

    def __init__(self, columns: Mapping[str, str]) -> None:
        self.columns = dict(columns)
        self.metrics = [(role, column) for role, column in columns.items() if role not in ROLES]
        self._labels = [columns[role] for role in ("group", "cluster") if role in columns]

    def run_of(self, row: _TableRow) -> tuple[str | None, str | None]:
        """The model and the task of a row."""
        return self.text(row, "model"), self.text(row, "task")

    def document(self, row: _TableRow, place: int) -> str:
        """The identity of a row: its prompt, or its position in the run."""
        prompt = self.text(row, "prompt")
        return f"row {place}" if prompt is None else f"prompt {prompt}"

    def labels(self, row: _TableRow) -> dict[str, str | None]:
        """The labels of a row by column."""
        return {column: _text(row[column]) for column in self._labels}

    def text(self, row: _TableRow, role: str) -> str | None:
        """The cell of a role as text; None if it is empty, or no column has the role."""
        column = self.columns.get(role)
        return None if column is None else _text(row[column])


class TableReader(Reader):
    """Reads a table by the roles of its columns.

    Args:
        columns: the column of each role. Without a role that is the name of a metric, no table is recognised.
    """

    name: str = "table"
    description = f"a table (CSV, JSON Lines, Parquet) whose columns are named: {_EXAMPLE}"

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._roles = _Roles(columns)

    def recognises(self, head: FileHead) -> bool:
        if head.is_zip or not self._roles.metrics:
            return False
        if head.is_parquet:
            return True
        names = head.first_row if head.first_row is not None else table_names(head)
        return names is not None and any(column in names for column in self._roles.columns.values())

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_options(head, options, self.name, roles=tuple(options.columns))
        roles, path = self._roles, str(head.path)
        tables: dict[tuple[str | None, str | None], GatheredScores] = {}
        with _opened(head, roles.columns.values()) as rows:
            for line, row in rows:
                key = roles.run_of(row)
                table = tables.get(key)
                if table is None:
                    table = tables[key] = GatheredScores(head)
                document = roles.document(row, table.rows)
                for cells in _repeats([row[column] for _, column in roles.metrics], path, line):
                    columns = zip(roles.metrics, cells, strict=True)
                    values = {metric: _number(cell, column, path, line) for (metric, column), cell in columns}
                    table.add(document, values, labels=roles.labels(row), task=key[1], line=line)
        if not tables:
            raise ScoreFileError(path, None, "a table without rows; expected one for each prompt")
        return [self._run(head, options, *key, table, len(tables)) for key, table in tables.items()]

    def _run(
        self,
        head: FileHead,
        options: ReadOptions,
        model: str | None,
        task: str | None,
        table: GatheredScores,
        tables: int,
    ) -> Run:
        columns = self._roles.columns
        group, cluster = columns.get("group"), columns.get("cluster")
        unscored = [metric for metric, _ in self._roles.metrics if metric not in table.metrics()]
        if len(unscored) == len(self._roles.metrics):
            raise ScoreFileError(str(head.path), None, f"{', '.join(unscored)}: no row has a value")
        name = "/".join(part for part in (model, task) if part) if tables > 1 else ""
        texts = partial(_texts, head.path, columns, model, task)
        return table.run(
            self.name,
            options.family,
            name=name or None,
            model=model,
            task=task,
            notes=tuple(f"{metric}: no row has a value" for metric in unscored),
            groups=() if group is None else (group,),
            cluster=cluster,
            texts=texts if {"text", "response"} & columns.keys() else None,
        )


def _texts(path: Path, columns: Mapping[str, str], model: str | None, task: str | None) -> Iterator[PromptText]:
    """Read the texts of a run's rows again."""
    roles, place = _Roles(columns), 0
    with _opened(FileHead.of(path), columns.values()) as rows:
        for _, row in rows:
            if roles.run_of(row) == (model, task):
                own = prompt_id(roles.document(row, place))
                place += 1
                response, target = roles.text(row, "response"), roles.text(row, "target")
                yield PromptText(own, roles.text(row, "text") or "", response, target)


def _repeats(cells: Sequence[object], path: str, line: int) -> Iterator[Sequence[object]]:
    """The cells of each repeat of a prompt: lists hold the values of several, or of one."""
    lengths = {len(cast("list[object]", cell)) for cell in cells if isinstance(cell, list)}
    if not lengths:
        yield cells
        return
    if len(lengths) > 1 or 0 in lengths:
        raise ScoreFileError(path, line, f"expected lists of the same length in a row, got {sorted(lengths)} values")
    for place in range(lengths.pop()):
        yield [cast("list[object]", cell)[place] if isinstance(cell, list) else cell for cell in cells]


def _text(value: object) -> str | None:
    """A cell as text; None if it is empty."""
    return None if value is None or value == "" else str(value)


def _number(value: object, column: str, path: str, line: int) -> object:
    """A number, verdict or None for a cell, which may be text.

    Raises:
        ScoreFileError: it is none of these.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        text = value.strip().lower()
        if text in _MISSING:
            return None
        if text in _VERDICTS:
            return _VERDICTS[text]
    try:
        return float(cast("Any", value))  # text, or a decimal number
    except (TypeError, ValueError):
        expected = f"{column}: expected a number or true or false, got {shown(value)}"
        raise ScoreFileError(path, line, expected) from None


@contextmanager
def _opened(head: FileHead, columns: Iterable[str]) -> Generator[Iterator[tuple[int, _TableRow]], None, None]:
    """The rows of a table with their line numbers, each with at least the columns.

    Raises:
        ScoreFileError: a column isn't there, or a row is broken.
    """
    wanted = list(dict.fromkeys(columns))
    if head.is_parquet:
        with ParquetRows.of(head.location, str(head.path)) as table:
            _check(head, wanted, table.columns)
            yield table.rows(wanted)
    elif head.first_row is not None:
        yield _json_rows(head, wanted)
    else:
        with head.open() as stream, TextIOWrapper(cast("IO[bytes]", stream), encoding="utf-8-sig", newline="") as text:
            yield _csv_rows(head, text, wanted)


def _json_rows(head: FileHead, wanted: list[str]) -> Iterator[tuple[int, _TableRow]]:
    for line, row in head.rows():
        _check(head, wanted, row, line)
        yield line, row


def table_rows(head: FileHead) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a CSV file by the names of its columns, each with its line; an empty cell is None.

    Args:
        head: the file.

    Raises:
        ScoreFileError: the file is not CSV.
    """
    with head.open() as stream, TextIOWrapper(cast("IO[bytes]", stream), encoding="utf-8-sig", newline="") as lines:
        for line, row in _csv_rows(head, lines, []):
            yield line, {name: cell or None for name, cell in row.items()}


def _csv_rows(head: FileHead, text: TextIO, wanted: list[str]) -> Iterator[tuple[int, _TableRow]]:
    path = str(head.path)
    names = table_names(head)
    assert names is not None
    _check(head, wanted, names, 1)
    rows = csv.reader(text, delimiter=_separator(head), strict=True)
    longest = csv.field_size_limit(raised(LONGEST_LINE))
    try:
        next(rows)
        for cells in rows:
            if not cells:
                continue
            if len(cells) != len(names):
                raise ScoreFileError(
                    path, rows.line_num, f"expected {len(names)} cells, as in the first line, got {len(cells)}"
                )
            yield rows.line_num, dict(zip(names, cells, strict=True))
    except BROKEN as error:
        raise broken(path, rows.line_num + 1, error) from None
    except csv.Error as error:
        raise ScoreFileError(path, rows.line_num, f"not CSV: {error}") from None
    except UnicodeDecodeError as error:
        raise ScoreFileError(path, None, f"not UTF-8: {error.reason}; save the table as UTF-8") from None
    finally:
        csv.field_size_limit(longest)


def table_names(head: FileHead) -> list[str] | None:
    """The names of the columns of a CSV file; None for what is no text."""
    line = head.start.splitlines()[0] if head.start.strip() else b""
    try:
        text = line.decode("utf-8-sig")
        return next(csv.reader([text], delimiter=_separator(head), strict=True), None)
    except (UnicodeDecodeError, csv.Error):
        return None


def _separator(head: FileHead) -> str:
    """The separator that occurs most often in the first line, a comma if none does."""
    line = head.start.splitlines()[0].decode("utf-8", "replace") if head.start.strip() else ""
    return max(_SEPARATORS, key=line.count)


def _check(head: FileHead, wanted: Sequence[str], names: Iterable[str], line: int | None = None) -> None:
    held = set(names)
    for column in wanted:
        if column not in held:
            raise ScoreFileError(str(head.path), line, f"{column}: expected a column of the table ({', '.join(names)})")
