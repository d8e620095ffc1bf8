"""Reading the files of a command: with progress, or on a cluster."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

from tensorclass.scores.command.exit_codes import CommandError
from tensorclass.scores.readers import Progress, Run, read_runs
from tensorclass.scores.readers.distinct_runs import OnError
from tensorclass.scores.readers.lines import OnProgress
from tensorclass.scores.readers.log_files import log_files
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError, require
from tensorclass.support.extras import require as require_extra
from tensorclass.support.printable import printable

__all__ = ["read_files"]

LONG_FILE = 16 * 1024 * 1024
"""Files of at least so many bytes show their progress, on a terminal."""


def read_files(arguments: Namespace, on_error: OnError | None = None, *, one_by_one: bool = False) -> list[Run]:
    """Read the runs that the arguments of a command name.

    Data files in folders that no reader recognises are named on stderr.

    Args:
        arguments: ``files``, ``filter``, ``results`` and ``columns``; with ``ray`` and ``ray_address`` the files are
            read on a cluster.
        on_error: called with the error of each file that can't be read; by default the first one is raised.
        one_by_one: read each file by itself, so that two files may hold the same rows of a model and task.
    """
    found = log_files(arguments.files, on_error=on_error)
    if found.unknown:
        names = ", ".join(map(str, found.unknown))
        sys.stderr.write(printable(f"tensorclass scores: left out, of unknown formats: {names}") + "\n")
    read = partial(
        read_runs,
        filter=_filters(arguments.filter),
        results=arguments.results,
        columns=_columns(arguments.columns),
        on_error=on_error,
        max_missing=arguments.max_missing if arguments.missing == "error" else None,
    )
    try:
        if getattr(arguments, "ray", False) or getattr(arguments, "ray_address", None) is not None:
            # Ray prints that a process died, or that memory is short, to stdout, where the result of the command goes
            with redirect_stdout(sys.stderr), _cluster(arguments.ray_address) as ray:
                return read(found.files, executor=ray)
        with _progress() as progress:
            if one_by_one:
                return _one_by_one(found.files, partial(read, progress=progress))
            return read(found.files, progress=progress)
    except ScoreFileError as error:
        others = len(found.files) - 1
        if not others or not hasattr(arguments, "keep_going"):
            raise
        hint = f"--keep-going goes on with the other {f'{others} files' if others > 1 else 'file'}"
        raise ScoreFileError(error.path, error.line, f"{error.problem}; {hint}") from error


def _one_by_one(files: Sequence[Path], read: Callable[[Sequence[Path]], list[Run]]) -> list[Run]:
    """Read each file that was not read with an earlier one."""
    runs: list[Run] = []
    held: set[Path] = set()
    for file in files:
        if file.absolute() not in held:
            own = read([file])
            held.update(Path(name).absolute() for run in own for name in run.files)
            runs += own
    return runs


def _columns(given: Sequence[Sequence[tuple[str, str]]]) -> dict[str, str]:
    """The column of each role."""
    columns: dict[str, str] = {}
    for role, column in chain.from_iterable(given):
        if role in columns:
            raise ScoreFileError(
                "--columns", None, f"{role}: expected one column, got {columns[role]!r} and {column!r}"
            )
        columns[role] = column
    return columns


def _filters(given: Sequence[str] | None) -> str | dict[str, str] | None:
    """The filter of all tasks, or of some."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    filters: dict[str, str] = {}
    for one in given:
        task, equals, name = one.partition("=")
        if not equals or not task or not name or task in filters:
            raise CommandError(f"--filter {one}: expected TASK=NAME, each task once, or one NAME for all tasks")
        filters[task] = name
    return filters


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
