"""``tensorclass scores FILE... --report FILE``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main


@pytest.fixture
def logs(write: Callable[..., Path], log_row: Callable[..., dict[str, Any]]) -> list[str]:
    """Sample logs of two models."""
    return [
        str(
            write(
                f"{model}/samples_sums_2026-01-31T10-20-30.123456.jsonl",
                [log_row(number, {"acc": float(right)}) for number, right in enumerate(verdicts)],
            )
        )
        for model, verdicts in (("old", (0, 1, 1, 0)), ("new", (1, 1, 0, 1)))
    ]


def test_the_command_prints_and_writes_the_report(
    logs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.html"
    assert main(["scores", *logs, "--report", str(report), "--baseline", "old", "--correction", "bh"]) == 0
    assert "acc" in capsys.readouterr().out
    page = report.read_text(encoding="utf-8")
    assert "Benjamini and Hochberg" in page
    assert "baseline</span>" in page
    assert page.count("<pre") > 0


def test_without_text_the_report_holds_none(logs: list[str], tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    assert main(["scores", *logs, "--report", str(report), "--no-text"]) == 0
    page = report.read_text(encoding="utf-8")
    assert "<pre" not in page
    assert page.count("<li data-model=") == 3


def test_a_failed_gate_leaves_the_report_to_read(logs: list[str], tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    assert main(["scores", *logs, "--report", str(report), "--fail-under", "acc=0.9"]) == 1
    assert report.exists()


@pytest.mark.parametrize(
    "arguments,problem",
    [
        (["--no-text"], "--no-text is for --report FILE, which is not given"),
        (["--report", "."], "expected a file to write the report to, found a folder"),
        (["--report", "report.html", "--metric", "bleu"], "metric"),
        (["--report", "missing/report.html"], "missing/report.html: can't be written: No such file or directory"),
    ],
)
def test_errors_are_one_line_and_leave_no_report(
    arguments: list[str],
    problem: str,
    logs: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["scores", *logs, *arguments]) == 2
    printed = capsys.readouterr()
    assert problem in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""
    assert os.listdir(folder) == []


def test_models_whose_figures_have_different_units_are_on_one_page(tmp_path: Path) -> None:
    for name, scale in (("shares", 1), ("points", 10)):
        rows = "".join(f"{row},{scale * row / 40}\n" for row in range(40))
        (tmp_path / f"{name}.csv").write_text("id,quality\n" + rows)
    report = tmp_path / "report.html"
    files = [str(tmp_path / f"{name}.csv") for name in ("shares", "points")]
    assert main(["scores", *files, "--columns", "prompt=id,quality=quality", "--report", str(report)]) == 0
    assert "Leaderboard" in report.read_text(encoding="utf-8")
