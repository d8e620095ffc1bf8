"""The table of docs/differences.md says what compat does: its last column is compared with calls."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.sides import described, outcome
from tests.parity.test_differences import DIFFERENCES, DOCUMENT

#: what the last column of the table begins with
SAME, PEER, PART = "as without", "as `tensordict`", "in part"

#: whose examples say nothing about compat: they start a process without it, or need tensordict itself
NOT_COMPARED = {
    "Each process has its own objects.",
    "A folder is loaded into the requested class.",
    "Pickles need `allow_pickle=True`.",
}


def rows() -> dict[str, tuple[str, str, str]]:
    """The rows of the table: title, with anchor, reason and what compat does."""
    found = re.findall(r"^\| \[(.+)\]\(#([\w-]+)\) \| (.+) \| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    return {f"{title}.": (anchor, reason, compat) for title, anchor, reason, compat in found}


def test_the_table_has_a_row_for_each_difference() -> None:
    titles = re.findall(r'^<a id="([\w-]+)"></a>\n\*\*(.+?)\*\*', DOCUMENT.read_text(), re.MULTILINE)
    assert [(anchor, title) for title, (anchor, *_) in rows().items()] == titles
    for title, (_, reason, compat) in rows().items():
        assert reason.endswith("."), title
        assert compat.startswith((SAME, PEER, PART)), title
        assert (":" in compat) == compat.startswith(PART), title  # what the part is


def test_compat_does_what_the_table_says(stand_in: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("zarr", reason="some differences are of zarr")
    monkeypatch.chdir(tmp_path)
    told, done = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for title, cases in DIFFERENCES.items():
            if title not in NOT_COMPARED:
                torch.manual_seed(0)
                told[title] = next(what for what in (SAME, PEER, PART) if rows()[title][2].startswith(what))
                done[title] = verdict(stand_in, cases)
    assert {title: what for title, what in done.items() if what != told[title]} == {}


def verdict(library: Any, cases: list[Any]) -> str:
    """What the calls of one difference return with compat. A difference between processes has no calls."""
    seen: set[str] = set()
    for call, ours, peers in cases:
        result = described(outcome(lambda call=call: call(library)))
        if described(ours) != described(peers):
            seen.add(SAME if result == described(ours) else PEER if result == described(peers) else PART)
    return PART if len(seen) > 1 else next(iter(seen), SAME)
