"""Open files of this process, by what they lead to.

Tests look at the files they mean. The number of all descriptors also changes with queues, threads and garbage of other
tests, at any time.
"""

from __future__ import annotations

import os
from contextlib import suppress

import pytest

linux = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")


def open_files(begin: str | os.PathLike[str] = "/") -> list[str]:
    """Return the paths of open files, one for each descriptor.

    Args:
        begin: how the paths begin: a folder, by default the root, which leaves pipes and sockets out.
    """
    found: list[str] = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the listing itself, or a file that another thread has closed
            found.append(os.readlink(f"/proc/self/fd/{name}"))
    return sorted(path for path in found if path.startswith(os.fspath(begin)))


def open_segments() -> set[str]:
    """Return the segments of torch's shared memory that this process has open."""
    return set(open_files("/dev/shm/torch_"))
