"""Workers end with the process that started them, also if that is killed.

A process that is killed cannot end its workers. They notice it when they next wait for work, but one that sends a
result through a full pipe waits forever: other workers, and the worker itself, hold the reading end of the pipe. So do
processes of an executor, which hold the writing end of the pipe that they read.

Here a thread of the worker waits for the end of the parent, and then ends the worker. It waits for the parent itself:
the pipe that ``multiprocessing`` closes at the end of the parent stays open as long as any process forked later.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import util
from multiprocessing.connection import wait
from typing import Any

_GRACE = 3.0  #: seconds that a worker has to end by itself, so that what it writes may be completed
_POLL_SECONDS = 1.0  #: between two looks at the parent, on systems that cannot wait for it
_FOREVER = 3600.0
_START_SECONDS = 0.02  #: between two looks whether a process that is spawned has started
_LOADER = "torch.utils.data._utils.worker"  #: module of the function that workers of a ``DataLoader`` run
_open_process: Callable[[int], int] | None = getattr(os, "pidfd_open", None)  # Linux


class _Watch:
    """The watch of this process."""

    def __init__(self) -> None:
        self.is_on: bool = False
        self.parents_folder: str | None = None  #: for temporary files

    def begin(self) -> None:
        """Forget the watch of the process that this one was forked from; watch if this is a worker of a loader."""
        self.is_on = False
        self._begin()

    def begin_when_started(self) -> None:
        """Do the same in a process that is spawned, when it knows what it runs."""
        while multiprocessing.parent_process() is None:
            time.sleep(_START_SECONDS)
        self._begin()

    def _begin(self) -> None:
        self.parents_folder = _temporary_folder()
        target: Any = getattr(multiprocessing.current_process(), "_target", None)
        if getattr(target, "__module__", None) == _LOADER:
            end_with_parent()


_watch = _Watch()


def watch_workers() -> None:
    """Let the workers of a ``DataLoader`` end with their parent; called when the package is imported."""
    util.register_after_fork(_watch, _Watch.begin)  # called by fork and forkserver, and not after os.fork() alone
    if "--multiprocessing-fork" in sys.orig_argv and multiprocessing.parent_process() is None:  # spawn
        threading.Thread(target=_watch.begin_when_started, daemon=True).start()


def end_with_parent(*, if_daemon: bool = False) -> None:
    """End this process some seconds after its parent, without cleanup. Do nothing if it is watched already.

    Processes that ``multiprocessing`` did not start have no parent in this sense.

    Args:
        if_daemon: do nothing unless this process is a daemon, which ``multiprocessing`` ends with its parent.
    """
    if _watch.is_on:
        return
    parent = multiprocessing.parent_process()
    if parent is None or (if_daemon and not multiprocessing.current_process().daemon):
        return
    _watch.is_on = True
    with suppress(RuntimeError):  # no more threads: the worker works all the same
        threading.Thread(target=_end_after, args=(parent,), name="tensorclass-parent", daemon=True).start()


def _end_after(parent: Any) -> None:
    """Wait until a process is gone, then end this one."""
    _wait_for_end(parent)
    time.sleep(_GRACE)
    folder = _temporary_folder()  # of the sockets by which this process sends open files
    if folder is not None and folder != _watch.parents_folder:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _temporary_folder() -> str | None:
    """Return the folder for temporary files that ``multiprocessing`` made, in this process or in its parent."""
    config: dict[str, Any] = getattr(multiprocessing.current_process(), "_config", {})
    return config.get("tempdir")


def _wait_for_end(parent: Any) -> None:
    """Wait until a process is gone."""
    before, ends, seconds = os.getppid(), list[Any](), _POLL_SECONDS
    if parent.sentinel is not None:
        ends.append(parent.sentinel)
    if _open_process is not None:
        try:
            ends.append(_open_process(parent.pid))
            seconds = _FOREVER
        except ProcessLookupError:
            if before:  # else it is outside of the process namespace, where it has another number
                return
        except OSError:  # the system does not have the call, or forbids it
            pass
    while os.getppid() == before and not wait(ends, seconds):
        pass
