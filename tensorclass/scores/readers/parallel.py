"""Read files in other processes, one file at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from tensorclass.distributed.map.executors import runner_of
from tensorclass.distributed.worker_errors import WorkerDied
from tensorclass.scores.readers.run import Run
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.support.printable import printable
from tensorclass.support.progress import bar

__all__ = ["read_spread"]


def read_spread(
    work: Sequence[Callable[[], Sequence[Run]]], files: Sequence[str], executor: Any, keep_going: bool
) -> list[Sequence[Run] | ScoreFileError]:
    """Read files in the processes of an executor.

    Args:
        work: functions that read the runs of one file each.
        files: the file of each function, for messages.
        executor: where the functions run.
        keep_going: return the error of a file that can't be read in place of its runs.

    Returns:
        The runs of each file, in the order of ``work``.

    Raises:
        Exception: the error of the first function that fails, as if it were called here.
        WorkerDied: the process of one of them ended.
    """
    runner = runner_of(executor)
    folder = os.getcwd()
    futures: list[Future[Any]] = []
    runs: list[Sequence[Run] | ScoreFileError] = []
    try:
        for one in work:
            futures.append(runner.submit(_attempted, one, folder))  # noqa: PERF401  what was submitted is cancelled
        with bar(len(work), "reading", unit="file", delay=2.0) as shown:
            for future, file in zip(futures, files, strict=True):
                found = _outcome(future, file, runner.name)
                if isinstance(found, Exception) and not (keep_going and isinstance(found, ScoreFileError)):
                    raise found
                runs.append(found)
                shown.advance()
    finally:
        runner.leave(futures[len(runs) :])
    return runs


def _outcome(future: Future[Any], file: str, where: str) -> Sequence[Run] | Exception:
    try:
        found: Sequence[Run] | Exception = future.result()
        return found
    except Exception as error:  # of the executor: all others come as results
        reason = str(error).strip() or type(error).__name__
        raise WorkerDied(
            printable(f"{file}: the process of {where} that read it did not come back: {reason}")
        ) from error


def _attempted(read: Callable[[], Sequence[Run]], folder: str) -> Sequence[Run] | Exception:
    """Call a function and return its runs or its error. A returned error reaches the caller's process unchanged."""
    before = os.getcwd()
    try:
        if folder != before:  # the names of files may begin at the folder where the command runs
            try:
                os.chdir(folder)
            except OSError:
                return ScoreFileError(folder, None, "this folder is not there on a machine that is to read files in it")
        return read()
    except Exception as error:
        return error
    finally:
        os.chdir(before)
