"""The command ``tensorclass scores``: read, aggregate, compare, print, save."""

from __future__ import annotations

import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, cast

from tensorclass.distributed.worker_errors import WorkerError
from tensorclass.scores.comparison import compare
from tensorclass.scores.document import ComparedRuns, ScoredRun, document, to_json
from tensorclass.scores.readers import Progress, Run, read_runs
from tensorclass.scores.readers.lines import OnProgress
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError, require
from tensorclass.scores.score_files import save_scores
from tensorclass.scores.table import tables
from tensorclass.support.atomic import whole_folder
from tensorclass.support.extras import require as require_extra
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable

__all__ = ["run"]

LONG_FILE = 16 * 1024 * 1024
"""Files of at least so many bytes show their progress, on a terminal."""

_WIDE = 140  # columns where nobody says how wide the output is


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: ``files``, ``compare``, ``json``, ``save``, ``seed``, ``filter``, ``ray``, ``ray_address``, as
            ``tensorclass scores --help`` tells.

    Returns:
        The exit code: 0, or 2 after one line on stderr.
    """
    try:
        with _ended_by_signals():
            _run(arguments)
    except (ScoreFileError, MissingExtraError, WorkerError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        return _failed("interrupted") + 128  # 130, as shells have it
    except BrokenPipeError:
        # The reader of our output has gone (| head). Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _failed(f"{place}{error.strerror or error}")
    return 0


def _run(arguments: Namespace) -> None:
    if not arguments.json:
        require("rich", "printing a table")  # before hours of reading, not after
    if arguments.save is not None and Path(arguments.save).exists() and not Path(arguments.save).is_dir():
        raise ScoreFileError(str(arguments.save), None, "expected a folder to save in, found a file")
    runs = _read(arguments)
    if arguments.compare and len(runs) < 2:
        problem = "--compare needs at least two runs, got one"
        if len(arguments.files) > 1:
            problem += "; a file given twice is one run, and so are its strict and its loose file"
        raise ScoreFileError(runs[0].files[0], None, problem)
    scored = [ScoredRun(one, one.scores.aggregate(seed=arguments.seed)) for one in runs]
    compared = [_compared(runs[0], other, arguments.seed) for other in runs[1:]] if arguments.compare else []
    text = to_json(document(scored, compared))
    if arguments.save is not None:
        with uninterrupted() as section, whole_folder(arguments.save) as folder, section.interruptible():
            for one, name in zip(runs, _file_names(runs), strict=True):
                save_scores(one.scores, folder / name)
            (folder / "scores.json").write_text(text, encoding="utf-8")
    if arguments.json:
        sys.stdout.write(text)
    else:
        console = require("rich.console", "printing a table").Console(width=_width())
        console.on_broken_pipe = _raised_again  # rich would exit with 1
        for table in tables(scored, compared):
            console.print(table, "")
    sys.stdout.flush()


def _read(arguments: Namespace) -> list[Run]:
    if arguments.ray or arguments.ray_address is not None:
        with _cluster(arguments.ray_address) as ray:
            return read_runs(arguments.files, filter=arguments.filter, executor=ray)
    with _progress() as progress:
        return read_runs(arguments.files, filter=arguments.filter, progress=progress)


@contextmanager
def _cluster(address: str | None) -> Generator[Any, None, None]:
    """Ray, connected to a cluster; one that was started here ends with the block."""
    try:
        ray = require_extra("ray", "ray", "--ray")
    except ImportError as error:
        raise MissingExtraError(str(error), name="ray") from None
    if ray.is_initialized():
        yield ray
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # else the command would report to Ray's makers
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ScoreFileError(f"--ray-address {address}" if address else "--ray", None, str(error)) from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _ended_by_signals() -> Generator[None, None, None]:
    """Let a request to end unwind the command, so that drafts of what it was saving are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    with uninterrupted() as section:
        before = section.set_handler(signal.SIGTERM, end)
        try:
            with section.interruptible():
                yield
        finally:
            section.set_handler(signal.SIGTERM, before)


def _compared(a: Run, b: Run, seed: int) -> ComparedRuns:
    try:
        return ComparedRuns(a.name, b.name, compare(a.scores, b.scores, seed=seed))
    except (TypeError, ValueError) as error:
        raise ScoreFileError(b.files[0], None, f"can't be compared with {a.files[0]}: {error}") from error


def _file_names(runs: Sequence[Run]) -> list[str]:
    """A file name for each run's record, distinct even where run names differ only in what a file name can't hold."""
    names: list[str] = []
    for one in runs:
        stem = "".join(char if char.isalnum() or char in "._-" else "_" for char in one.name)
        name, number = f"{stem}.pt", 2
        while name in names:
            name, number = f"{stem}-{number}.pt", number + 1
        names.append(name)
    return names


def _raised_again() -> NoReturn:
    raise  # the BrokenPipeError that rich is handling


def _width() -> int | None:
    """The terminal's own width; where the output is no terminal and nobody says, wide enough for every table."""
    return None if sys.stdout.isatty() or "COLUMNS" in os.environ else _WIDE


@contextmanager
def _progress() -> Generator[Progress | None, None, None]:
    """A bar for each long file, on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    console = require("rich.console", "showing progress").Console(stderr=True)
    bars = require("rich.progress", "showing progress").Progress(console=console, transient=True)
    escape = require("rich.markup", "showing progress").escape  # brackets in a name are no markup

    def follow(path: str) -> OnProgress:
        try:
            size = os.path.getsize(path)
        except OSError:  # reading it will say so
            size = 0
        if size < LONG_FILE:
            return lambda done: None
        task = bars.add_task(escape(printable(Path(path).name)), total=size)
        return lambda done: cast("None", bars.update(task, completed=done))

    with bars:
        yield follow


def _failed(problem: str) -> int:
    sys.stderr.write(f"tensorclass scores: {printable(' '.join(problem.split()))}\n")
    return 2
