from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.scores import ExactMatchScoreData, ScoreFileError, read_run

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def log(write: Write, log_row: Make) -> Callable[..., Path]:
    """Write a sample log whose documents have passages (numbers) and subjects."""

    def make(**changes: Any) -> Path:
        rows = [
            log_row(
                place, {"acc": float(place % 2)}, doc={"passage": place // 2, "subject": "ab"[place % 2]}, **changes
            )
            for place in range(8)
        ]
        return write("samples_race_2025-01-01.jsonl", rows)

    return make


@pytest.mark.parametrize("changes", [{}, {"doc_hash": None}], ids=["chunks", "row by row"])
def test_keys_of_documents_are_clusters_and_groups(changes: dict[str, Any], log: Callable[..., Path]) -> None:
    report = read_run(log(**changes), columns={"cluster": "passage", "group": "subject"}).scores.aggregate()
    assert (report["acc"].clusters.item(), report["acc"].prompts.item(), report["acc"].unit) == (4, 8, "%")
    assert {name: one.value.item() for name, one in report.groups["acc"].items()} == {"a": 0.0, "b": 1.0}


def test_one_key_may_be_both(log: Callable[..., Path]) -> None:
    report = read_run(log(), columns={"cluster": "passage", "group": "passage"}).scores.aggregate()
    assert set(report.groups["acc"]) == {"0", "1", "2", "3"}


def test_a_document_without_the_key_has_no_label(write: Write, log_row: Make) -> None:
    rows = [log_row(place, {"acc": 1.0}, doc={"subject": "law"} if place else {"subject": "art"}) for place in range(3)]
    rows[2]["doc"] = {"other": 1}
    run = read_run(write("samples_race_2025-01-01.jsonl", rows), columns={"group": "subject"})
    assert {name: one.count.item() for name, one in run.scores.aggregate().groups["acc"].items()} == {
        "art": 1,
        "law": 1,
    }


def test_a_key_that_documents_lack_is_an_error(log: Callable[..., Path]) -> None:
    with pytest.raises(
        ScoreFileError, match=r"columns: expected a key of the documents \(passage, subject\), got 'topic'"
    ):
        read_run(log(), columns={"group": "topic"})


def test_a_label_is_a_name_or_a_number(write: Write, log_row: Make) -> None:
    rows = [log_row(place, {"acc": 1.0}, doc={"subject": ["law"] if place else "art"}) for place in range(2)]
    with pytest.raises(ScoreFileError, match=r":2: subject: expected a name or a number, got \['law'\]"):
        read_run(write("samples_race_2025-01-01.jsonl", rows), columns={"group": "subject"})


def test_a_family_declares_its_own_groups(log: Callable[..., Path], write: Write, ifeval_row: Make) -> None:
    with pytest.raises(ScoreFileError, match="columns: expected none with a family, got ExactMatchScoreData"):
        read_run(log(exact_match=1.0), family=ExactMatchScoreData, columns={"group": "subject"})
    with pytest.raises(ScoreFileError, match="columns: expected none for IFEval"):
        read_run(write("samples_ifeval_2025-01-01.jsonl", [ifeval_row(0, [True])]), columns={"group": "key"})
