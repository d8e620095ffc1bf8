"""Writers with faults at some points: a short run of :mod:`tests.storage.interrupts`, which takes all of them."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests import fresh_python

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")

#: those that take milliseconds a point; ``python -m tests.storage.interrupts --all`` has more, and all points
WRITERS = (
    "whole_folder", "swapped_folder", "folder", "archive", "safetensors", "consolidated", "mapped file", "append",
    "open h5", "new folder", "refresh", "checksums", "json", "scores --save",
)  # fmt: skip


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """By writer, what came of faults at some points of each kind."""
    command = ["-W", "ignore", "-m", "tests.storage.interrupts", "--samples", "3", "--fault", "SIGINT"]
    command += ["--fault", "EIO"]
    command += [word for name in WRITERS for word in ("--writer", name)]
    done = fresh_python.run(command)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return {result["writer"]: result for result in found}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_writer_with_a_fault_leaves_one_version_and_nothing_else(
    writer: str, results: dict[str, dict[str, Any]]
) -> None:
    assert results[writer]["SIGINT"] > 0
    assert results[writer]["EIO"] > 0
