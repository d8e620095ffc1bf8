"""Which processes end with their parent, and which go on."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tensorclass.support import parent_process
from tensorclass.support.parent_process import end_with_parent
from tests.storage.kills import forked

LONG = 120.0  #: seconds that a process may take to start, where all cores are busy


def _child(folder: Path, if_daemon: bool) -> None:
    """Note the beginning, and the end of work that takes longer than the parent lives."""
    end_with_parent(if_daemon=if_daemon)
    (folder / "begun").write_text(str(os.getpid()))
    _wait_until(lambda: (folder / "killed").exists())
    time.sleep(parent_process._GRACE + 1.0)
    (folder / "ended").touch()


def _wait_until(is_so: Callable[[], bool]) -> bool:
    end = time.monotonic() + LONG
    while not is_so() and time.monotonic() < end:
        time.sleep(0.02)
    return is_so()


def _is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize(
    "is_daemon, if_daemon, goes_on",
    [(True, True, False), (False, False, False), (False, True, True)],
    ids=["a daemon", "a worker", "a process of the user's"],
)
def test_daemons_and_workers_end_with_a_killed_parent(
    tmp_path: Path, is_daemon: bool, if_daemon: bool, goes_on: bool
) -> None:
    def parent() -> None:
        context = multiprocessing.get_context("fork")
        context.Process(target=_child, args=(tmp_path, if_daemon), daemon=is_daemon).start()
        signal.pause()

    pid, child = forked(parent), 0
    try:
        assert _wait_until(lambda: (tmp_path / "begun").exists() and bool((tmp_path / "begun").read_text()))
        child = int((tmp_path / "begun").read_text())
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        (tmp_path / "killed").touch()
        assert _wait_until(lambda: _is_gone(child))
        assert (tmp_path / "ended").exists() == goes_on
    finally:
        for one in (pid, child):
            with suppress(ProcessLookupError, ChildProcessError):
                if one:
                    os.kill(one, signal.SIGKILL)
                    os.waitpid(one, 0)


def test_a_program_is_not_watched() -> None:
    end_with_parent()
    assert not parent_process._watch.is_on


class _Parent:
    """A parent that is gone, or whose number is that of nobody."""

    def __init__(self, sentinel: Any) -> None:
        self.pid, self.sentinel = 2**22 + 1, sentinel


@pytest.mark.skipif(sys.platform != "linux", reason="other systems ask the pipe of the parent")
def test_a_parent_that_is_gone_is_not_waited_for() -> None:
    begin = time.monotonic()
    parent_process._wait_for_end(_Parent(None))
    assert time.monotonic() - begin < LONG


def test_where_a_parent_cannot_be_waited_for_its_pipe_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(pid: int) -> int:
        raise PermissionError(pid)

    monkeypatch.setattr(parent_process, "_open_process", forbidden)
    here, there = multiprocessing.Pipe()
    there.close()
    with here:
        parent_process._wait_for_end(_Parent(here))
