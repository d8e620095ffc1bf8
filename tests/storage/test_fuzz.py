"""Damage is seen in all formats: a short run of :mod:`tests.storage.fuzz`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.storage import fuzz
from tests.storage.formats import FORMATS


@pytest.mark.parametrize("form", FORMATS)
def test_mutated_files_are_seen(form: str) -> None:
    """100 files; ``python -m tests.storage.fuzz --files 100000`` is the long run."""
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = fuzz.Fuzzer(Path(folder), [form])
        found = [fuzzer.try_one(seed) for seed in range(100)]
    assert [what for kind, what in found if kind == "WRONG"] == []
    assert sum(kind == "error" for kind, _ in found) > 40
