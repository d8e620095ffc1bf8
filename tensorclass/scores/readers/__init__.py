"""Reading score files: the format is found by looking at the file, rows stream by, a compact record stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tensorclass.scores.readers.alpaca_difficulties import with_difficulties
from tensorclass.scores.readers.distinct_runs import OnError, distinct_runs
from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.log_files import log_files
from tensorclass.scores.readers.reader_registry import (
    Progress,
    Reader,
    ReadOptions,
    reader_of,
    register_reader,
    registered,
)
from tensorclass.scores.readers.run import PromptText, Published, Run, distinct_names
from tensorclass.scores.readers.tabular import TableReader
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError

__all__ = [
    "FileHead",
    "Progress",
    "PromptText",
    "Published",
    "ReadOptions",
    "Reader",
    "Run",
    "read_run",
    "read_runs",
    "read_scores",
    "register_reader",
]


def read_scores(
    path: str | Path,
    *,
    filter: str | Mapping[str, str] | None = None,
    family: type[ScoreData] | None = None,
    columns: Mapping[str, str] | None = None,
    results: str | Path | None = None,
) -> ScoreData:
    """Read the scores in a file: a record with one row per prompt.

    The same as ``read_run(path).scores``.

    Args:
        path: the file; see :func:`read_run` for the formats.
        filter: of a sample log, the filter whose rows are taken; see :func:`read_run`.
        family: the class of the scores; see :func:`read_run`.
        columns: of a table, the column of each role; see :func:`read_run`.
        results: of a sample log, the results file of its run; see :func:`read_run`.

    Raises:
        ScoreFileError: the file cannot be read; see :func:`read_run`.
        MissingExtraError: a package of the extra ``scores`` is not installed.

    Example:
        >>> import json, pathlib, tempfile
        >>> from tensorclass.scores import read_scores
        >>> rows = [{"doc_id": i, "metrics": ["acc"], "acc": float(i > 0)} for i in range(4)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "samples_arc_2025-01-01.jsonl")
        ...     _ = file.write_text("\\n".join(map(json.dumps, rows)))
        ...     read_scores(file).acc
        tensor([0., 1., 1., 1.])
    """
    return read_run(path, filter=filter, family=family, columns=columns, results=results).scores


def read_run(
    path: str | Path,
    *,
    filter: str | Mapping[str, str] | None = None,
    family: type[ScoreData] | None = None,
    columns: Mapping[str, str] | None = None,
    results: str | Path | None = None,
    progress: Progress | None = None,
    max_missing: float | None = 0.01,
) -> Run:
    """Read the run in a file, whose format is found by looking at the start of the file.

    The formats are listed at https://tensorclass.readthedocs.io/en/stable/scores.html#formats. Of the result files of
    IFEval's reference scorer, the strict and the loose file of a run are read together, whichever of them is given, if
    both are there. A sample log of lm-evaluation-harness is read together with the results file beside it. The file may
    be compressed with gzip, bzip2 or zstd. Logs are read in chunks, and only scores are kept (about 100 bytes a row),
    so they may be larger than memory. What unpacks to many times its size is refused; the environment variable
    ``TENSORCLASS_LARGEST_LOG`` raises this limit, and those of a line and of a document, to a number of bytes.

    Args:
        path: the file; ``"-"`` is the standard input.
        filter: of a sample log, the filter whose rows are taken (``"strict-match"``), or a mapping from tasks to
            filters; by default that of the first row.
        family: the class of the scores, with fields named as the metrics of the log; by default the class of this
            package that has all of them, or else one that is made for them.
        columns: of a table, the column of each role, ``{"prompt": "id", "accuracy": "correct"}``; of a sample log, the
            keys of its documents for ``group`` and ``cluster``.
        results: of a sample log, the results file of its run; by default the one of the same date in its folder.
        progress: told of the bytes read.
        max_missing: the share of a run's rows that its log may lack, which says how many there are; None for any. A log
            that lacks more is unfinished, or a part.

    Raises:
        ScoreFileError: the file is missing, empty, cut off, not JSON or of an unknown format, holds scores that cannot
            be (a share above 1, verdicts that contradict each other), the strict and loose files disagree, or the
            figures are others than in the results file; names the file and the line.
        MissingExtraError: a package of the extra ``scores`` is not installed.

    Example:
        >>> import json, pathlib, tempfile
        >>> from tensorclass.scores import read_run
        >>> rows = [{"doc_id": i, "metrics": ["acc"], "acc": float(i > 0)} for i in range(4)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "samples_arc_2025-01-01.jsonl")
        ...     _ = file.write_text("".join(json.dumps(row) + "\\n" for row in rows))
        ...     run = read_run(file)
        >>> run.name, run.format, run.scores.acc.tolist()
        ('samples_arc_2025-01-01', 'lm-eval', [0.0, 1.0, 1.0, 1.0])
    """
    runs = read_runs(
        [path],
        filter=filter,
        family=family,
        columns=columns,
        results=results,
        progress=progress,
        max_missing=max_missing,
    )
    if len(runs) != 1:
        names = ", ".join(repr(run.name) for run in runs)
        raise ScoreFileError(str(path), None, f"expected one run, got {len(runs)} ({names}); read them with read_runs")
    return runs[0]


def read_runs(
    paths: Sequence[str | Path],
    *,
    filter: str | Mapping[str, str] | None = None,
    family: type[ScoreData] | None = None,
    columns: Mapping[str, str] | None = None,
    results: str | Path | None = None,
    progress: Progress | None = None,
    executor: Any = None,
    on_error: OnError | None = None,
    max_missing: float | None = 0.01,
) -> list[Run]:
    """Read the runs in several files, in the order of the files; see :func:`read_run`.

    A strict and a loose file of the same run give one run, and so does a file given twice. Runs of the same name are
    told apart by their folders.

    Args:
        paths: files; folders, of which the files that a reader recognises are taken, also those in folders within;
            patterns (``"runs/*/samples_*.jsonl"``); results files of lm-evaluation-harness, which stand for the sample
            logs of the same date beside them.
        filter: see :func:`read_run`, as for ``family``, ``columns`` and ``results``.
        family: see :func:`read_run`.
        columns: see :func:`read_run`.
        results: see :func:`read_run`.
        progress: told of the bytes read; without an ``executor``.
        executor: where the files are read, a file at a time: an executor of ``concurrent.futures``, a client of
            ``dask.distributed``, or the module ``ray``. Its processes must see the files under the same paths.
        on_error: called with the error of each file that cannot be read, and the other files are read; by default the
            first error is raised.
        max_missing: see :func:`read_run`.

    Raises:
        ScoreFileError: see :func:`read_run`; a folder or a pattern without score files; two files that hold the same
            run.
        WorkerError: the process that read a file ended before it was done.

    Example:
        >>> import json, pathlib, tempfile
        >>> from tensorclass.scores import read_runs
        >>> row = {"doc_id": 0, "metrics": ["acc"], "acc": 1.0}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for task in ("arc", "piqa"):
        ...         _ = pathlib.Path(folder, f"samples_{task}_2025-01-01.jsonl").write_text(json.dumps(row))
        ...     [run.task for run in read_runs([folder])]
        ['arc', 'piqa']
    """
    if isinstance(paths, (str, Path)):
        raise TypeError(f"paths: expected a list of files, got {str(paths)!r}; one file is read with read_run")
    if family is not None and not (isinstance(family, type) and issubclass(family, ScoreData)):
        raise TypeError(f"family: expected a class derived from ScoreData, got {family!r}")
    options = ReadOptions(
        filter,
        family,
        {} if columns is None else columns,
        None if results is None else Path(results),
        progress if executor is None else None,
        max_missing,
    )
    tables = (TableReader(columns),) if columns else ()
    files = log_files(paths, last=tables, on_error=on_error).files
    work = [partial(_read_file, path, options, registered(), tables) for path in files]
    if executor is None:
        runs = distinct_runs(zip(files, work, strict=True), on_error)
    else:
        from tensorclass.scores.readers.parallel import read_spread

        found = read_spread(work, list(map(str, files)), executor, keep_going=on_error is not None)
        runs = distinct_runs(zip(files, (partial(_outcome, one) for one in found), strict=True), on_error)
    runs = with_difficulties(runs)
    names = distinct_names([Path(run.files[0]) for run in runs], [run.name for run in runs])
    return [run if run.name == name else replace(run, name=name) for run, name in zip(runs, names, strict=True)]


def _read_file(path: Path, options: ReadOptions, first: tuple[Reader, ...], last: tuple[Reader, ...]) -> Sequence[Run]:
    """Read a file, also in another process: with the readers registered in this one."""
    head = FileHead.of(path)
    runs = reader_of(head, first, last).read(head, options)
    for run in runs:
        rows = run.scores.batch_size.numel()
        lacking = 0 if run.expected is None else run.expected - rows
        if run.expected and options.max_missing is not None and lacking > options.max_missing * run.expected:
            raise ScoreFileError(
                str(path),
                None,
                f"holds {rows} of the {run.expected} rows of its run: it is unfinished, or a part of the log; "
                "--missing drop reads what is there (in Python max_missing=None)",
            )
    return runs


def _outcome(found: Sequence[Run] | ScoreFileError) -> Sequence[Run]:
    if isinstance(found, ScoreFileError):
        raise found
    return found
