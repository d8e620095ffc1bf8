"""Writers that are killed leave one version whole, in all formats: a short run of :mod:`tests.storage.kills`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import fresh_python
from tests.storage.formats import FORMATS

KILLS = 5


@pytest.fixture(scope="module")
def results() -> dict[str, dict[str, Any]]:
    """By format, what came of kills; ``python -m tests.storage.kills --kills 1000 --readers 1`` is the long run."""
    command = ["-W", "ignore", "-m", "tests.storage.kills", "--kills", str(KILLS), "--readers", "1"]
    done = fresh_python.run(command)
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    return {result["format"]: result for result in found}


@pytest.mark.parametrize("form", FORMATS)
def test_a_writer_that_is_killed_leaves_one_version_whole(form: str, results: dict[str, dict[str, Any]]) -> None:
    assert results[form].get("new", 0) + results[form].get("old", 0) == KILLS
    assert results[form]["read"] > 0
