"""A Ray cluster on this machine, one for the tests of this folder."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass import TensorDict

STORE = 200_000_000  #: bytes; /dev/shm is small on some machines


_started: list[Any] = []


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Any:
    """The module ``ray``, connected to a cluster of two workers, of which nothing is left behind the last test here.

    The tests that use it are of one group, ``ray``, so that xdist has one process start one cluster.
    """
    if not _started:
        stack = ExitStack()
        _started.append(stack.enter_context(_cluster()))
        folder = request.node.getparent(pytest.Dir)  # as the scope of a package needs files that Python takes for "ray"
        folder.addfinalizer(stack.close)
    return _started[0]


@contextmanager
def _cluster() -> Iterator[Any]:
    ray: Any = pytest.importorskip("ray")
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # the paths of sockets must be short
    given = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),  # else one is put into ~/.ray
        "RAY_worker_niceness": "0",  # with Ray's 15 its processes wait minutes for a core beside those of the tests
    }
    patch = pytest.MonkeyPatch()
    # Ray prints that a process of an earlier test died, at any time, to what a later test looks at
    patch.setattr("ray._private.worker.print_to_stdstream", lambda *_, **__: None)
    before, shared, others = dict(os.environ), memory(), descendants(os.getpid())
    handler = signal.getsignal(signal.SIGTERM)  # Ray sets one, which processes that other tests fork must not have
    os.environ.update(given)
    try:
        ray.init(
            num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=STORE, _temp_dir=folder,
        )  # fmt: skip
        yield ray
        kept = ray.get(ray.put(TensorDict({"x": torch.arange(2**18)}, [2**18])))
    finally:
        started = descendants(os.getpid()) - others
        ray.shutdown()
        patch.undo()
        _started.clear()
        signal.signal(signal.SIGTERM, handler)
        for name in given:
            os.environ.pop(name)
            if name in before:
                os.environ[name] = before[name]
        left = waited(started)
        shutil.rmtree(folder, ignore_errors=True)
    assert kept["x"][-1] == 2**18 - 1  # a record outlives the cluster
    kept["x"].zero_()
    del kept
    assert left == set()
    assert memory() - shared == set()


def memory() -> set[str]:
    """Pieces of memory that processes share, those of Ray."""
    return {name for name in os.listdir("/dev/shm") if "plasma" in name or "ray" in name}


def waited(processes: set[int]) -> set[int]:
    """Those of some processes that are still there after a minute."""
    left = processes
    for _ in range(600):
        left = {process for process in left if _parent(process) is not None}
        if not left:
            break
        time.sleep(0.1)
    return left


def descendants(process: int) -> set[int]:
    """The processes that one has started, and those that these have."""
    parents = {int(path.name): _parent(int(path.name)) for path in Path("/proc").glob("[0-9]*")}
    found: set[int] = set()
    new = {process}
    while new:
        new = {one for one, parent in parents.items() if parent in new} - found
        found |= new
    return found


def _parent(process: int) -> int | None:
    """That of a process; ``None`` where it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[1])
