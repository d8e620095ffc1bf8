"""Reading the files of a command: with progress, or on a cluster."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tensorclass.scores.readers import Progress, Run, read_runs
from tensorclass.scores.readers.lines import OnProgress
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError, require
from tensorclass.support.extras import require as require_extra
from tensorclass.support.printable import printable

__all__ = ["read_files"]

LONG_FILE = 16 * 1024 * 1024
"""Files of at least so many bytes show their progress, on a terminal."""


def read_files(arguments: Namespace) -> list[Run]:
    """Read the runs that the arguments of a command name.

    Args:
        arguments: ``files``, ``filter`` and ``columns``; with ``ray`` or ``ray_address`` they are read on a cluster.

    Raises:
        ScoreFileError: a role is given two columns, or a file can't be read.
    """
    columns: dict[str, str] = {}
    for role, column in (pair for pairs in arguments.columns for pair in pairs):
        if role in columns:
            raise ScoreFileError(
                "--columns", None, f"{role}: expected one column, got {columns[role]!r} and {column!r}"
            )
        columns[role] = column
    if getattr(arguments, "ray", False) or getattr(arguments, "ray_address", None) is not None:
        with _cluster(arguments.ray_address) as ray:
            return read_runs(arguments.files, filter=arguments.filter, columns=columns, executor=ray)
    with _progress() as progress:
        return read_runs(arguments.files, filter=arguments.filter, columns=columns, progress=progress)


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
