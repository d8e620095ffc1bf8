"""Ctrl-C in work with other processes: a short run of :mod:`tests.distributed.interrupts`."""

from __future__ import annotations

import os
import random
import signal
import sys
import traceback

import pytest

from tests.distributed import interrupts
from tests.storage.kills import forked

SAMPLES = {"map": 2, "map on threads": 3, "map_iter that is left": 2, "share_memory_": 10, "in shared memory": 10}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")
@pytest.mark.parametrize("name", SAMPLES)
def test_an_interrupt_leaves_nothing(name: str) -> None:
    """Some lines; ``python -m tests.distributed.interrupts --all`` takes each."""

    def run() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            count, wrong = interrupts.tried(name, SAMPLES[name], random.Random(3))
            assert count
            assert wrong == []
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)

    _, status = os.waitpid(forked(run), 0)
    assert status == 0, "what was found is above"
