"""Processes that start in milliseconds: forked from one that has torch and the package loaded, and nothing else done.

A process that is spawned imports torch first, which takes it two seconds of a core.
"""

from __future__ import annotations

import multiprocessing
import os
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
PRELOADED = [
    "torch", "torch.distributed.tensor", "tensorclass", "tensorclass.distributed", "tensorclass.nn",
    "pytest", "hypothesis",
]  # fmt: skip


def context() -> Any:
    """Return the ``forkserver`` context of :mod:`multiprocessing`. The first call starts the server."""
    multiprocessing.set_forkserver_preload(PRELOADED)
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(REPOSITORY), *filter(None, [path])])  # for `tests`
    try:
        forkserver.ensure_running()
    finally:
        if path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = path
    return multiprocessing.get_context("forkserver")


def context_of(method: str) -> Any:
    """Return the context of a start method: ``fork``, or ``forkserver``, which sends all as ``spawn`` does."""
    return context() if method == "forkserver" else multiprocessing.get_context(method)


def server() -> int | None:
    """The process id of the server, if it was started."""
    pid: int | None = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    return pid
