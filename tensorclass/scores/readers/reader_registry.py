"""The registry of readers: one for each format of score files, found by looking at the file.

A reader says whether it recognises the head of a file, and reads the file's runs. Each reader of this package is a
module here, listed in :data:`MODULES`, and imported when the first file is looked at.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.lines import OnProgress
from tensorclass.scores.readers.run import Run
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.support.printable import type_name

__all__ = [
    "MODULES",
    "FileHead",
    "Progress",
    "ReadOptions",
    "Reader",
    "UnknownFormatError",
    "reader_of",
    "refuse_columns",
    "refuse_options",
    "register_reader",
    "registered",
]

Progress: TypeAlias = Callable[[str], OnProgress]
"""Called with each file before it is read; what it returns is called with the bytes read so far."""

MODULES: Final[tuple[str, ...]] = (
    "ifeval_reference",
    "lm_eval",
    "inspect_ai",
    "helm",
    "alpaca_eval",
    "evalplus",
    "human_eval",
    "lighteval",
    "promptfoo",
    "openai_evals",
    "tau_bench",
    "swe_bench",
    "live_code_bench",
    "math_harness",
    "mmlu_pro",
    "wild_bench",
    "arena",
    "stated_figures",
    "zip_archive",
)
"""The modules of the package's own readers, which look at a file in this order; each has a ``READER``."""


_MOST_COLUMNS: Final = 12  # named in an error
_PROMPTS: Final = re.compile(r"(.*_)?(id|idx|index|key|prompt|question|name)")
_SCORES: Final = re.compile(
    r"(.*_)?(acc|accuracy|correct|right|passed|pass|success|score|reward|f1|em|exact_match|is_.*)"
)


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading files, which each reader gets.

    Attributes:
        filter: of a sample log, the filter whose rows are taken; by default that of the first row. A mapping has the
            filter of each task.
        family: the class of the scores; by default the one that fits the metrics of the file.
        columns: of a table, the column of each role: ``{"prompt": "id", "accuracy": "correct"}``.
        results: the results file of the run; by default the one beside the log.
        progress: told of the bytes read.
        max_missing: the share of the rows of a run that may be missing from its log; None for any.

    Example:
        >>> from tensorclass.scores import ReadOptions
        >>> ReadOptions(filter="strict-match").filter
        'strict-match'
    """

    filter: str | Mapping[str, str] | None = None
    family: type[ScoreData] | None = None
    columns: Mapping[str, str] = field(default_factory=dict[str, str])
    results: Path | None = None
    progress: Progress | None = field(default=None, compare=False)
    max_missing: float | None = 0.01

    def filter_of(self, task: str | None) -> str | None:
        """Return the filter to take of the log of a task; None for that of the first row.

        Args:
            task: the task, if it is known.

        Example:
            >>> from tensorclass.scores import ReadOptions
            >>> options = ReadOptions(filter={"gsm8k": "strict-match"})
            >>> options.filter_of("gsm8k"), options.filter_of("arc")
            ('strict-match', None)
        """
        if isinstance(self.filter, Mapping):
            return None if task is None else self.filter.get(task)
        return self.filter

    def on_progress(self, path: str | Path) -> OnProgress | None:
        """Return the function to call with the bytes of a file that have been read; None if nobody asks.

        Args:
            path: the file.

        Example:
            >>> from tensorclass.scores import ReadOptions
            >>> ReadOptions().on_progress("log.jsonl") is None
            True
        """
        return None if self.progress is None else self.progress(str(path))


def refuse_options(head: FileHead, options: ReadOptions, name: str, *, roles: Collection[str] = ()) -> None:
    """Raise if an option is given that the format has no use for.

    Args:
        head: the file.
        options: how to read it.
        name: the format.
        roles: the roles of columns that the format knows.

    Raises:
        ScoreFileError: names the option.
    """
    path = str(head.path)
    if options.filter_of(None) is not None and "filter" not in roles:
        raise ScoreFileError(path, None, f"filter: expected none for {name}, got {options.filter!r}")
    if options.results is not None:
        raise ScoreFileError(path, None, f"results: expected none for {name}, got {str(options.results)!r}")
    refuse_columns(head, options, name, roles=[role for role in roles if role != "filter"])


def refuse_columns(head: FileHead, options: ReadOptions, name: str, *, roles: Collection[str] = ()) -> None:
    """Raise if a column is given for a role that the format doesn't know.

    Args:
        head: the file.
        options: how to read it.
        name: the format.
        roles: the roles that the format knows.

    Raises:
        ScoreFileError: names the role.
    """
    for role in options.columns:
        if role not in roles:
            known = ", ".join(roles) or "none"
            raise ScoreFileError(str(head.path), None, f"columns: expected roles of {name} ({known}), got {role!r}")


class Reader(ABC):
    """Reads the files of one format. Register your own with :func:`register_reader`.

    Attributes:
        name: the name of the format, which :attr:`Run.format` says.
        description: the format in a few words, for the error of an unknown format.
        companions: patterns of the names of files that stand beside these logs and hold no scores of their own
            (``"run_spec.json"``); a folder may hold them. Names are without ``.gz`` and the like.
        figures_only: the files hold figures without rows: in a folder they are left out where they are companions of
            logs.

    Example:
        >>> import pathlib, tempfile
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Reader, Run
        >>> class PlainReader(Reader):
        ...     name = "plain"
        ...
        ...     def recognises(self, head):
        ...         return head.start.startswith((b"right", b"wrong"))
        ...
        ...     def read(self, head, options):
        ...         words = head.path.read_text().split()
        ...         right = torch.tensor([word == "right" for word in words])
        ...         scores = ExactMatchScoreData(right, batch_size=[len(words)])
        ...         return [Run(head.path.stem, scores, files=(str(head.path),), format=self.name)]
        >>> PlainReader().name
        'plain'
    """

    name: str
    description: str = ""
    companions: Sequence[str] = ()
    figures_only: bool = False

    @abstractmethod
    def recognises(self, head: FileHead) -> bool:
        """Return whether a file is of this format.

        Args:
            head: the start of the file. Only what is cheap is read of it: leave the rest of the file alone.

        Example:
            >>> import pathlib
            >>> from tensorclass.scores import FileHead
            >>> from tensorclass.scores.readers.lm_eval import READER
            >>> READER.recognises(FileHead(pathlib.Path("notes.txt"), "notes.txt", b"some text"))
            False
        """

    @abstractmethod
    def read(self, head: FileHead, options: ReadOptions) -> Sequence[Run]:
        """Read the runs in a file that this reader recognises.

        Args:
            head: the start of the file.
            options: how to read it. Options that are not for the format are errors.

        Returns:
            The runs, one or several. The names of the files that were read are in :attr:`Run.files`: none of them is
            read again if it is among the files to read.

        Raises:
            ScoreFileError: the file can't be read.

        Example:
            >>> import json, pathlib, tempfile
            >>> from tensorclass.scores import FileHead, ReadOptions
            >>> from tensorclass.scores.readers.lm_eval import READER
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     file = pathlib.Path(folder, "samples_arc_2025-01-01.jsonl")
            ...     _ = file.write_text(json.dumps({"doc_id": 0, "metrics": ["acc"], "acc": 1.0}))
            ...     (run,) = READER.read(FileHead.of(file), ReadOptions())
            >>> run.task, run.scores.acc
            ('arc', tensor([1.]))
        """


class UnknownFormatError(ScoreFileError):
    """No reader recognises a file that is not broken."""


_registered: list[Reader] = []


def register_reader(reader: Reader) -> Reader:
    """Register a reader, so that its files are read by :func:`~tensorclass.scores.read_runs`.

    Registered readers look at a file before those of this package, the last one first. A reader that is registered
    again under its name takes the place of the former one.

    Args:
        reader: the reader.

    Returns:
        The reader.

    Raises:
        TypeError: it is no reader, or has no name.

    Example:
        >>> import pathlib, tempfile
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Reader, Run, read_scores, register_reader
        >>> class MarksReader(Reader):
        ...     name = "marks"
        ...
        ...     def recognises(self, head):
        ...         return head.name.endswith(".marks")
        ...
        ...     def read(self, head, options):
        ...         marks = torch.tensor([mark == "+" for mark in head.path.read_text().strip()])
        ...         scores = ExactMatchScoreData(marks, batch_size=[len(marks)])
        ...         return [Run(head.path.stem, scores, files=(str(head.path),), format=self.name)]
        >>> reader = register_reader(MarksReader())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "gpt.marks")
        ...     _ = file.write_text("++-+")
        ...     read_scores(file).aggregate()["exact_match"].value.item()
        0.75
    """
    if not isinstance(reader, Reader):
        raise TypeError(f"reader: expected an instance of a class derived from Reader, got {reader!r}")
    if not isinstance(getattr(reader, "name", None), str):
        raise TypeError(f"reader: expected a reader with a name, got {type_name(reader)} without one")
    _registered[:] = [one for one in _registered if one.name != reader.name]
    _registered.insert(0, reader)
    return reader


def registered() -> tuple[Reader, ...]:
    """The readers that were registered, the last one first."""
    return tuple(_registered)


def reader_of(head: FileHead, first: Iterable[Reader] | None = None, last: Iterable[Reader] = ()) -> Reader:
    """Find the reader of a file.

    Args:
        head: the start of the file.
        first: readers that look at it before those of this package; by default the registered ones.
        last: readers that look at it after them.

    Raises:
        ScoreFileError: the file is empty, or no reader recognises it.
    """
    readers = chain(registered() if first is None else first, map(_own_reader, MODULES), last)
    found = next((reader for reader in readers if reader.recognises(head)), None)
    if found is None:
        raise _unknown(head)
    return found


def _own_reader(module: str) -> Reader:
    reader: Reader = import_module(f"{__package__}.{module}").READER
    return reader


def _unknown(head: FileHead) -> ScoreFileError:
    """Say what is wrong with a file that no reader recognises. A line that is not JSON is the error of reading it."""
    path = str(head.path)
    known = f"formats that are read: {'; '.join(_own_reader(module).description for module in MODULES)}"
    if head.is_zip:
        return UnknownFormatError(path, None, f"unknown format: a zip archive without logs; {known}")
    if head.is_parquet:
        if head.first_row is None:
            next(head.rows(), None)  # says what is wrong with it
        got = "a Parquet file" if head.first_row is not None else "a Parquet file without rows"
        return UnknownFormatError(path, None, f"unknown format: {got} {_columns(head.first_row or {})}; {known}")
    if head.name.endswith((".csv", ".tsv")):
        names = head.start.decode("utf-8-sig", "replace").partition("\n")[0].strip()
        separator = max(",\t;|", key=names.count)
        cells = [cell.strip().strip('"') for cell in names.split(separator)]
        return UnknownFormatError(path, None, f"unknown format: a table {_columns(dict.fromkeys(cells))}; {known}")
    if head.name.endswith(".json") and head.first_row is None and head.start.strip():
        if head.keys:
            got = f"a JSON document with {', '.join(map(repr, sorted(head.keys)[:_MOST_COLUMNS]))}"
        else:
            got = "JSON over several lines, or no JSON"
        return UnknownFormatError(
            path,
            1,
            f"unknown format: {got}. A summary (results_*.json) stands for the sample logs of its date beside it: "
            f"there are none; {known}",
        )
    number, row = next(head.rows(), (1, None))
    if row is None:
        return ScoreFileError(path, 1, "the file is empty; expected one JSON object on each line")
    got = f"rows {_columns(row)}" if row else "an object with no keys"
    return UnknownFormatError(path, number, f"unknown format: {got}; {known}")


def _columns(row: Mapping[str, object]) -> str:
    """The columns of a table, and how to name their roles."""
    names = list(row)
    shown = ", ".join(map(repr, names[:_MOST_COLUMNS])) + (", ..." if len(names) > _MOST_COLUMNS else "")
    prompt = next((name for name in names if _PROMPTS.fullmatch(name.lower())), None)
    scores = [name for name in names if name != prompt and _SCORES.fullmatch(name.lower())]
    scores += [name for name, value in row.items() if name != prompt and isinstance(value, (bool, int, float))]
    roles = [f"prompt={prompt}"] * (prompt is not None) + [f"accuracy={scores[0] if scores else 'COLUMN'}"]
    return f"with the columns {shown}. If it is a table, say which holds what: --columns {','.join(roles)}"
