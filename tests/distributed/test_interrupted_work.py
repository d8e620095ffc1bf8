"""Ctrl-C in work with other processes: a short run of :mod:`tests.distributed.interrupts`."""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback
from multiprocessing import forkserver

import pytest

from tests.distributed import interrupted_groups, interrupts
from tests.distributed.processes import group_of
from tests.storage.kills import forked

SAMPLES = {
    ("map", "SIGINT"): 2,
    ("map", "EIO"): 4,
    ("map on threads", "SIGINT"): 3,
    ("map_iter that is left", "SIGINT"): 2,
    ("share_memory_", "SIGINT"): 10,
    ("in shared memory", "SIGINT"): 10,
    ("a loader", "SIGINT"): 2,
}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
@pytest.mark.parametrize("name, fault", SAMPLES)
def test_an_interrupt_or_an_error_of_the_system_leaves_nothing(name: str, fault: str) -> None:
    """Some lines or calls; ``python -m tests.distributed.interrupts --all`` takes each."""

    def run() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        forkserver._forkserver._forkserver_pid = None  # type: ignore[attr-defined]  # one of another test is no child
        try:
            count, wrong = interrupts.tried(name, SAMPLES[name, fault], random.Random(3), fault)
            assert count
            assert wrong == []
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    _, status = os.waitpid(forked(run), 0)
    assert status == 0, "what was found is above"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
def test_a_rank_that_is_interrupted_leaves_nothing_and_the_other_has_an_error_or_its_result() -> None:
    """Some lines of one call; ``python -m tests.distributed.interrupted_groups --all`` takes each of all calls."""
    with group_of(2, 30.0) as group:
        count, wrong = interrupted_groups.tried(group, "broadcast", 2, random.Random(3))
    assert count == 2
    assert wrong == []
