"""Sample logs of lm-evaluation-harness: ``lm_eval --log_samples`` writes ``samples_<task>_<date>.jsonl``.

One JSON object a line with ``doc_id``, ``doc``, ``target``, ``arguments``, ``resps``, ``filtered_resps``, ``filter``,
``metrics`` (the names of the metrics), some hashes, and each metric under its own name; older versions wrote a JSON
array, without ``filter`` and ``metrics``. Source: the files of version 0.4.13. A document is logged once for each
filter (``strict-match``, ``flexible-extract``, ...), so the rows of one filter are the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from tensorclass.scores.readers.growing_columns import Misfit
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.lm_eval_columns import LoggedColumns
from tensorclass.scores.readers.lm_eval_families import LABEL_ROLES
from tensorclass.scores.readers.lm_eval_results import HarnessResults, results_beside
from tensorclass.scores.readers.lm_eval_rows import logged_texts
from tensorclass.scores.readers.pair_columns import PairColumn
from tensorclass.scores.readers.projected_rows import RowChunk, Struct, is_key, row_chunks, struct_of
from tensorclass.scores.readers.reader_registry import FileHead, Reader, ReadOptions, refuse_columns
from tensorclass.scores.readers.run import Published, Run, model_name, run_name, task_name
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "LmEvalReader"]

FORMAT: Final = "lm-eval"


class LmEvalReader(Reader):
    """Reads sample logs of lm-evaluation-harness."""

    name = FORMAT
    description = "a sample log of lm-evaluation-harness (doc_id, metrics, ...)"

    def recognises(self, head: FileHead) -> bool:
        row = head.first_row
        return row is not None and "doc_id" in row and ("metrics" in row or "filtered_resps" in row)

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        refuse_columns(head, options, self.name, roles=LABEL_ROLES)
        return [_LoggedRun(head, options).read()]


READER = LmEvalReader()


class _LoggedRun:
    """Reads the rows of one filter of a log."""

    def __init__(self, head: FileHead, options: ReadOptions) -> None:
        self._head = head
        self._options = options
        self._path = str(head.path)
        self._task = task_name(head.path)
        self._results = self._results_of_task()
        self._filters: Counter[str | None] = Counter()
        self._wanted: str | None = None
        self._published: dict[str, Published] = {}
        self._asked = options.filter_of(self._task)

    def read(self) -> Run:
        columns = self._columns()
        results, task = self._results, self._task
        notes: list[str] = []
        if len(self._filters) > 1:
            others = ", ".join(repr(own) for own in self._filters if own != self._wanted)
            notes.append(f"rows are logged once for each filter: took {self._wanted!r}, left out {others}")
        of_results: dict[str, Any] = {}
        if results is not None and task is not None:
            notes += self._checked(columns, results, task)
            of_results = {
                "published": self._published,
                "higher_is_better": results.higher_is_better(task),
                "groups": results.groups,
                "conditions": results.conditions(task),
                "expected": results.documents(task),
            }
        notes += columns.settle()
        unscored = columns.unscored()
        if len(unscored) == len(columns.metrics):
            problem = f"no row is scored: {', '.join(unscored)} is null or NaN in all {columns.rows} rows"
            raise ScoreFileError(self._path, None, problem)
        notes += [f"{key}: no row is scored, each is null or NaN" for key in unscored]
        notes += columns.shared_texts()
        texts = partial(logged_texts, self._head.path, self._wanted, columns.prompt_ids())
        return Run(
            name=run_name(self._head.path),
            scores=columns.scores(),
            files=(self._path,) if results is None else (self._path, str(results.path)),
            format=FORMAT,
            filter=self._wanted,
            filters={str(own): count for own, count in self._filters.items() if own is not None},
            ignored=columns.ignored,
            notes=tuple(notes),
            model=(None if results is None else results.model) or model_name(self._head.path),
            task=task,
            left_out=columns.left_out,
            texts=texts if self._head.can_be_read_again else None,
            prompt_hashes=columns.prompt_hashes(),
            **of_results,
        )

    def _columns(self) -> LoggedColumns:
        number, first = self._first_row()
        self._wanted = _filter_of(first, self._path, number)
        if self._results is not None and self._task is not None:
            self._published = self._results.figures(self._task, self._wanted)
        file = run_name(self._head.path).rpartition("/")[2]
        family, roles = self._options.family, self._options.columns
        columns = LoggedColumns(first, self._path, number, family, self._task, file, self._published, roles)
        on_progress = self._options.on_progress(self._head.path)
        if columns.keys is None or self._head.is_parquet:
            self._add(columns, self._head.rows(on_progress))
            return columns
        narrow = struct_of(columns.narrow_keys(self._wanted)) if is_key(self._wanted or "") else None
        structs = [*([] if narrow is None else [narrow]), struct_of(columns.keys)]
        for chunk in row_chunks(self._head, structs, on_progress):
            if not self._add_chunk(columns, chunk, is_narrow=chunk.struct is narrow):
                self._add(columns, chunk.rows())
        return columns

    def _add_chunk(self, columns: LoggedColumns, chunk: RowChunk, *, is_narrow: bool) -> bool:
        """Add the rows of a chunk at once. Return False if they have to be added one by one."""
        if chunk.structs is None:
            return False
        chosen: list[Struct] = chunk.structs
        counts = Counter({self._wanted: len(chosen)})
        if not is_narrow:
            of_rows = [row.v0 if isinstance(row.v0, str) else None for row in chunk.structs]
            counts = Counter(of_rows)
            chosen = [row for row, own in zip(chunk.structs, of_rows, strict=True) if own == self._wanted]
        try:
            columns.add_all(chosen, is_narrow=is_narrow)
        except Misfit:
            return False
        self._filters.update(counts)
        return True

    def _add(self, columns: LoggedColumns, rows: Iterator[tuple[int, Row]]) -> None:
        for number, row in rows:
            own = _filter_of(row, self._path, number)
            self._filters[own] += 1
            if "doc_id" not in row:
                problem = "expected a row of a sample log, with doc_id and metrics, as the first line has"
                raise ScoreFileError(self._path, number, problem)
            if own == self._wanted:
                columns.add(row, number)

    def _first_row(self) -> tuple[int, Row]:
        """The first row of the filter."""
        held: dict[str | None, None] = {}
        number = 1
        for number, row in self._head.rows():
            own = _filter_of(row, self._path, number)
            if self._asked is None or own == self._asked:
                return number, row
            held[own] = None
        problem = f"filter: expected rows of {self._asked!r}, got only rows of {', '.join(map(repr, held))}"
        raise ScoreFileError(self._path, number, problem)

    def _results_of_task(self) -> HarnessResults | None:
        """The results file with the task of the log: the given one, or one beside the log."""
        if self._task is None:
            return None
        if self._options.results is not None:
            given = HarnessResults(self._options.results)
            if self._task not in given.tasks:
                held = ", ".join(map(repr, given.tasks))
                problem = f"expected figures of the task {self._task!r}, got those of {held}"
                raise ScoreFileError(str(given.path), None, problem)
            return given
        beside = map(HarnessResults, results_beside(self._head.path))
        return next((found for found in beside if self._task in found.tasks), None)

    def _checked(self, columns: LoggedColumns, results: HarnessResults, task: str) -> list[str]:
        """Compare the figures of the rows with those of the results file. Return notes."""
        documents = results.documents(task)
        note = f"{columns.rows} rows, but {documents} documents in {results.path.name}"
        differs = documents is not None and documents != columns.rows
        for key, column in list(columns.metrics.items()):
            said = self._published.get(key)
            if said is not None and columns.agrees(key, said.value):
                continue
            if documents is not None and columns.rows < documents and results.is_mean(task, key):
                continue  # a part of the rows gives another figure
            figure = columns.figure(key)
            if isinstance(column, PairColumn):
                if said is not None:
                    columns.leave_out(key, f"the task makes its figure otherwise than as {column.about_kinds}")
            elif not results.is_mean(task, key):
                columns.leave_out(key, f"the task makes its figure otherwise than as the mean over rows ({figure:.6g})")
            elif said is not None:
                raise ScoreFileError(
                    self._path,
                    None,
                    f"{key}: the rows give {figure:.6g}, but {results.path} says {said.value:.6g}"
                    f"{f' ({note})' if differs else ''}; these are files of different runs, or one of them was changed",
                )
        return [note] if differs else []


def _filter_of(row: Row, path: str, number: int) -> str | None:
    own: object = row.get("filter")
    if own is not None and not isinstance(own, str):
        raise ScoreFileError(path, number, f"filter: expected a name, got {own!r}")
    return own
