"""A Ray cluster on this machine, one for the tests of this folder."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

STORE = 200_000_000  #: bytes; /dev/shm is small on some machines


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    """The module ``ray``, connected to a cluster of two workers, of which nothing is left afterwards.

    The tests that use it are of one group, ``ray``, so that xdist has one process start one cluster.
    """
    ray: Any = pytest.importorskip("ray")
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # the paths of sockets must be short
    given = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # else one is put into ~/.ray
    before, shared = dict(os.environ), memory()
    os.environ.update(given)
    try:
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=STORE, _temp_dir=folder,
        )  # fmt: skip
        yield ray
    finally:
        ray.shutdown()
        for name in given:
            os.environ.pop(name)
            if name in before:
                os.environ[name] = before[name]
        left = waited(folder)
        shutil.rmtree(folder, ignore_errors=True)
    assert left == []
    assert memory() - shared == set()


def memory() -> set[str]:
    """Pieces of memory that processes share, those of Ray."""
    return {name for name in os.listdir("/dev/shm") if "plasma" in name or "ray" in name}


def waited(folder: str) -> list[str]:
    """The processes of a cluster that are still there after some seconds."""
    for _ in range(100):
        left = processes(folder)
        if not left:
            break
        time.sleep(0.1)
    return left


def processes(folder: str) -> list[str]:
    """The commands of the processes that have files of a cluster in their arguments."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if folder in command:
            found.append(command)
    return found
