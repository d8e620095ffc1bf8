"""Reading score files: the format is found by looking at the file, rows stream by, a compact record stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.reader_registry import (
    Progress,
    Reader,
    ReadOptions,
    reader_of,
    register_reader,
    registered,
)
from tensorclass.scores.readers.run import PromptText, Published, Run
from tensorclass.scores.readers.run_names import distinct_names
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


def read_scores(path: str | Path, *, filter: str | None = None, family: type[ScoreData] | None = None) -> ScoreData:
    """Read the scores in a file: a record with one row per prompt.

    The same as ``read_run(path).scores``.

    Args:
        path: the file; see :func:`read_run` for the formats.
        filter: of a sample log, the filter whose rows are taken; by default that of the first row.
        family: the class of the scores of a sample log; by default the one of this package that fits its metrics.

    Raises:
        ScoreFileError: the file cannot be read; see :func:`read_run`.
        MissingExtraError: orjson is not installed.

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
    return read_run(path, filter=filter, family=family).scores


def read_run(
    path: str | Path,
    *,
    filter: str | None = None,
    family: type[ScoreData] | None = None,
    progress: Progress | None = None,
) -> Run:
    """Read the run in a file, whose format is found by looking at its first row.

    Known are sample logs of lm-evaluation-harness, and the result files of IFEval's reference scorer; of these the
    strict and the loose file of a run are read together, whichever of them is given, if both are there. The file may be
    compressed with gzip. It is read row by row, and only scores are kept (about 100 bytes a row), so it may be larger
    than memory.

    Args:
        path: the file.
        filter: of a sample log, the filter whose rows are taken (``"strict-match"``); by default that of the first row.
        family: the class of the scores of a sample log, with fields named as its metrics; by default one of
            :class:`~tensorclass.scores.IFEvalScoreData`, :class:`~tensorclass.scores.MultipleChoiceScoreData` and
            :class:`~tensorclass.scores.ExactMatchScoreData`.
        progress: told of the bytes read.

    Raises:
        ScoreFileError: the file is missing, empty, cut off, not JSON or of an unknown format, holds scores that cannot
            be (a share above 1, verdicts that contradict each other), or the strict and loose files disagree; names the
            file and the line.
        MissingExtraError: orjson is not installed.

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
    runs = read_runs([path], filter=filter, family=family, progress=progress)
    if len(runs) != 1:
        names = ", ".join(repr(run.name) for run in runs) or "none"
        raise ScoreFileError(str(path), None, f"expected one run, got {len(runs)} ({names}); read them with read_runs")
    return runs[0]


def read_runs(
    paths: Sequence[str | Path],
    *,
    filter: str | None = None,
    family: type[ScoreData] | None = None,
    progress: Progress | None = None,
    executor: Any = None,
) -> list[Run]:
    """Read the runs in several files, in the order of the files; see :func:`read_run`.

    A strict and a loose file of the same run give one run, and so does a file given twice. Runs whose files have the
    same name are told apart by their folders.

    Args:
        paths: the files.
        filter: see :func:`read_run`, as for ``family``.
        family: see :func:`read_run`.
        progress: told of the bytes read; without an ``executor``.
        executor: where the files are read, a file at a time: an executor of ``concurrent.futures``, a client of
            ``dask.distributed``, or the module ``ray``. Its processes must see the files under the same paths.

    Raises:
        ScoreFileError: see :func:`read_run`; of several files that cannot be read the first one.
        WorkerError: the process that read a file ended before it was done.

    Example:
        >>> import json, pathlib, tempfile
        >>> from tensorclass.scores import read_runs
        >>> row = {"doc_id": 0, "metrics": ["acc"], "acc": 1.0}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = [pathlib.Path(folder, f"samples_{task}_2025-01-01.jsonl") for task in ("arc", "piqa")]
        ...     for file in files:
        ...         _ = file.write_text(json.dumps(row))
        ...     [run.name for run in read_runs(files)]
        ['samples_arc_2025-01-01', 'samples_piqa_2025-01-01']
    """
    if isinstance(paths, (str, Path)):
        raise TypeError(f"paths: expected a list of files, got {str(paths)!r}; one file is read with read_run")
    if family is not None and not (isinstance(family, type) and issubclass(family, ScoreData)):
        raise TypeError(f"family: expected a class derived from ScoreData, got {family!r}")
    work = _Reading(ReadOptions(filter, family, progress=progress if executor is None else None), registered())
    distinct = list({path.absolute(): path for path in map(Path, paths)}.values())
    if executor is not None:
        from tensorclass.scores.readers.parallel import read_spread

        each = read_spread([partial(work.read, path) for path in distinct], list(map(str, distinct)), executor)
        return _named(_merged(zip(distinct, each, strict=True)))
    return _named(_merged((path, partial(work.read, path)) for path in distinct))


def _merged(found: Iterable[tuple[Path, Sequence[Run] | Callable[[], Sequence[Run]]]]) -> list[Run]:
    """The runs of the files, without those of files that an earlier run was read from."""
    runs: list[Run] = []
    held: set[Path] = set()
    for path, read in found:
        if path.absolute() in held:
            continue
        own = read() if callable(read) else read
        held.update(Path(file).absolute() for run in own for file in run.files)
        runs.extend(own)
    return runs


def _named(runs: Sequence[Run]) -> list[Run]:
    """The runs under names that tell them apart."""
    names = distinct_names([Path(run.files[0]) for run in runs], [run.name for run in runs])
    return [run if run.name == name else replace(run, name=name) for run, name in zip(runs, names, strict=True)]


@dataclass(frozen=True)
class _Reading:
    """Reads files with the same options, also in another process: with the readers registered here."""

    options: ReadOptions
    readers: tuple[Reader, ...]

    def read(self, path: Path) -> Sequence[Run]:
        head = FileHead.of(path)
        return reader_of(head, self.readers).read(head, self.options)
