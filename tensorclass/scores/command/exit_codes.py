"""The exit code of a command: what failed is said in one line on stderr."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from tensorclass.distributed.worker_errors import WorkerError
from tensorclass.scores.score_errors import MissingExtraError, ScoreFileError
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable

__all__ = ["CommandError", "exit_code"]


class CommandError(ValueError):
    """A command that can't be carried out on these runs."""


def exit_code(work: Callable[[], int], command: str = "tensorclass scores") -> int:
    """Run a command.

    Args:
        work: the command; returns its exit code.
        command: its name, to begin messages with.

    Returns:
        The exit code of the command; 2 after one line on stderr if it failed, 130 if it was interrupted.

    Example:
        >>> exit_code(lambda: 0)
        0
    """

    def failed(problem: str) -> int:
        sys.stderr.write(f"{command}: {printable(' '.join(problem.split()))}\n")
        return 2

    try:
        with _ended_by_signals():
            return work()
    except (ScoreFileError, MissingExtraError, WorkerError, CommandError) as error:
        return failed(str(error))
    except KeyboardInterrupt:
        return failed("interrupted") + 128  # 130, as shells have it
    except BrokenPipeError:
        # The reader of our output has gone (| head). Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return failed(f"{place}{error.strerror or error}")


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
