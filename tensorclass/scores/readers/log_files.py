"""The files to read: those in folders and of patterns, and the logs that a results file stands for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from glob import glob, has_magic
from pathlib import Path
from typing import Final

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.lm_eval_results import logs_beside
from tensorclass.scores.readers.reader_registry import Reader, UnknownFormatError, reader_of
from tensorclass.scores.readers.unpacked_file import PACKED, STANDARD_INPUT
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["LogFiles", "log_files"]

_DATA: Final = (".jsonl", ".json", ".eval", ".parquet", ".csv", ".tsv")


@dataclass(frozen=True)
class LogFiles:
    """The files to read.

    Attributes:
        files: the files, each once, in the order in which they were given; those of a folder by name.
        unknown: data files in the folders that no reader recognises.
    """

    files: tuple[Path, ...]
    unknown: tuple[Path, ...]


def log_files(
    paths: Iterable[str | Path],
    *,
    last: Iterable[Reader] = (),
    on_error: Callable[[ScoreFileError], None] | None = None,
) -> LogFiles:
    """Find the files to read.

    Args:
        paths: files; ``-`` for the standard input; folders, of which the files that a reader recognises are taken, also
            those in folders within; patterns such as ``runs/*/samples_*.jsonl``; results files of
            lm-evaluation-harness, which stand for the sample logs beside them.
        last: readers that look at a file after the registered ones and those of this package.
        on_error: called with the error of a folder or pattern, in place of raising it.

    Raises:
        ScoreFileError: a folder without score files, or a pattern without files.
    """
    files: dict[Path, Path] = {}
    unknown: list[Path] = []
    after = tuple(last)
    for given in paths:
        try:
            for path in _matching(given):
                found = [path]
                if path.is_dir() and str(path) != STANDARD_INPUT:
                    found, others = _in_folder(path, after)
                    unknown += others
                for file in found:
                    for one in logs_beside(file) or [file]:
                        files.setdefault(one.absolute(), one)
        except ScoreFileError as error:
            if on_error is None:
                raise
            on_error(error)
    return LogFiles(tuple(files.values()), tuple(unknown))


def _matching(given: str | Path) -> list[Path]:
    """The files of a pattern; of anything else, itself."""
    text = str(given)
    if not has_magic(text) or os.path.lexists(text):
        return [Path(text)]
    found = sorted(glob(text, recursive=True))
    if not found:
        raise ScoreFileError(text, None, "no file has a name of this pattern")
    return list(map(Path, found))


def _in_folder(folder: Path, last: Iterable[Reader]) -> tuple[list[Path], list[Path]]:
    """The score files in a folder, and other data files. Files that are broken are score files: reading says why."""
    known: list[Path] = []
    unknown: list[Path] = []
    companions: set[str] = set()
    summaries: set[Path] = set()
    for path in _walked(folder):
        try:
            reader = reader_of(FileHead.of(path), last=last)
            companions.update(reader.companions)
            if reader.figures_only:
                summaries.add(path)
        except UnknownFormatError:
            if logs_beside(path):
                known.append(path)
            elif _is_data(path):
                unknown.append(path)
            continue
        except ScoreFileError:
            if not _is_data(path):
                continue
        known.append(path)
    beside = {path for path in (*summaries, *unknown) if any(fnmatch(_unpacked(path.name), one) for one in companions)}
    known = [path for path in known if path not in beside]
    if not known:
        raise ScoreFileError(str(folder), None, _nothing_in(unknown))
    return known, [path for path in unknown if path not in beside]


def _walked(folder: Path) -> Iterator[Path]:
    """The regular files in a folder and in those within, by name, without hidden ones."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _is_data(path: Path) -> bool:
    return _unpacked(path.name).endswith(_DATA)


def _unpacked(name: str) -> str:
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return name


def _nothing_in(others: list[Path]) -> str:
    if not others:
        return "expected score files in this folder, found none"
    shown = ", ".join(path.name for path in others[:3]) + (", ..." if len(others) > 3 else "")
    return f"expected score files in this folder, found only files of unknown formats: {shown}"
