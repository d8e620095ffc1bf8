"""Reading score files: the format is found by looking at the file, rows stream by, a compact record stays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from tensorclass.scores.ifeval import IFEvalScoreData
from tensorclass.scores.readers.ifeval_reference import is_reference, level_of, other_level, read_reference
from tensorclass.scores.readers.lines import OnProgress, Row, json_rows
from tensorclass.scores.readers.lm_eval import is_lm_eval, read_lm_eval
from tensorclass.scores.readers.run import Run
from tensorclass.scores.readers.run_names import distinct_names
from tensorclass.scores.score_data import ScoreData
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["Run", "read_run", "read_runs", "read_scores"]

Progress: TypeAlias = Callable[[str], OnProgress]
"""Called with each file before it is read; what it returns is called with the bytes read so far."""


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
    (run,) = read_runs([path], filter=filter, family=family, progress=progress)
    return run


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
    files = _Files(filter, family, progress if executor is None else None)
    sources: dict[Path, _Source] = {}
    for given in map(Path, paths):
        other = other_level(given)
        if other is not None and other.absolute() in sources:
            sources[other.absolute()].other_is_asked = True
        else:
            sources.setdefault(given.absolute(), _Source(given, other))
    names = distinct_names([source.path for source in sources.values()])
    if executor is not None:
        from tensorclass.scores.readers.parallel import read_spread

        work = [partial(files.read, source, name) for source, name in zip(sources.values(), names, strict=True)]
        return read_spread(work, [str(source.path) for source in sources.values()], executor)
    return [files.read(source, name) for source, name in zip(sources.values(), names, strict=True)]


@dataclass
class _Source:
    """A file to read, and where the other level of the same run would be."""

    path: Path
    other: Path | None
    other_is_asked: bool = False


class _Files:
    """Reads runs with the same settings."""

    def __init__(self, filter: str | None, family: type[ScoreData] | None, progress: Progress | None) -> None:
        self._filter = filter
        self._family = family
        self._progress = progress

    def read(self, source: _Source, name: str) -> Run:
        path = source.path
        number, first, rows = self._opened(path)
        if is_reference(first):
            return self._read_reference(source, rows, name)
        if is_lm_eval(first):
            return read_lm_eval(rows, str(path), name, filter=self._filter, family=self._family)
        keys = ", ".join(map(repr, list(first)[:4]))
        raise ScoreFileError(
            str(path),
            number,
            "unknown format: expected a sample log of lm-evaluation-harness (doc_id, metrics, ...) or a result file of "
            f"IFEval's reference scorer (follow_all_instructions, ...), got an object with {keys or 'no keys'}",
        )

    def _read_reference(self, source: _Source, rows: Iterable[tuple[int, Row]], name: str) -> Run:
        path, other = source.path, source.other
        if self._filter is not None:
            raise ScoreFileError(str(path), 1, f"filter: expected none for this format, got {self._filter!r}")
        if self._family not in (None, IFEvalScoreData):
            raise TypeError(f"family: expected IFEvalScoreData for {path}, got {self._family.__name__}")
        level = level_of(path)
        if level is None or other is None:
            raise ScoreFileError(
                str(path),
                1,
                "a result file of IFEval's reference scorer doesn't say whether it is strict or loose, and neither "
                "does this file's name; name it *.eval_results_strict.jsonl or *.eval_results_loose.jsonl",
            )
        given = {level: (str(path), rows)}
        if source.other_is_asked or other.exists():
            number, first, other_rows = self._opened(other)
            if not is_reference(first):
                raise ScoreFileError(
                    str(other), number, f"expected a result file as {path.name} is, got another format"
                )
            given["strict" if level == "loose" else "loose"] = (str(other), other_rows)
        return read_reference(given.get("strict"), given.get("loose"), name)

    def _opened(self, path: Path) -> tuple[int, Row, Iterator[tuple[int, Row]]]:
        """The first row with its line number, and all rows."""
        rows = json_rows(path, None if self._progress is None else self._progress(str(path)))
        first = next(rows, None)
        if first is None:
            raise ScoreFileError(str(path), 1, "the file is empty; expected one JSON object on each line")
        return *first, chain([first], rows)
