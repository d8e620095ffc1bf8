"""Trainers that are killed leave nothing: a short run of :mod:`tests.distributed.killed`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 300  #: that the run may take, where all cores are busy

QUICK = (
    "loader, fork: first",
    "loader, fork: full",
    "loader, polls for its parent: full",
    "loader, large batches, fork: full",
    "bucket loader, fork: full",
    "map: computing",
    "map on an executor, fork: full",
    "queue, fork: full",
    "files of workers, folder: anywhere",
    "files of the trainer: full",
)
#: whose workers import torch
SLOW = ("loader, spawn: first", "loader, forkserver: full", "map on an executor, spawn: full")


def _kill_session(session: int) -> None:
    """End all processes of a session."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):  # it has ended
                if int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[3]) == session:
                    os.kill(int(name), signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="the processes of a trainer are found on Linux only")
@pytest.mark.parametrize("cases", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["quick", "slow"])
def test_nothing_is_left_of_a_trainer_that_is_killed(cases: tuple[str, ...]) -> None:
    """Some phases of some works; ``python -m tests.distributed.killed`` takes all of all."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.distributed.killed", "--jobs", str(len(cases))]
    command += [part for case in cases for part in ("--case", case)]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        said, _ = process.communicate(timeout=SECONDS)
    finally:
        _kill_session(process.pid)
        process.communicate()
    assert process.returncode == 0, said
    assert f"{len(cases)} killed, 0 left something" in said
