"""Nine files of three models and seeds, one unfinished and one of another n-shot, by the commands of the guide."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main

Make = Callable[..., dict[str, Any]]

RATES = {"A": 0.35, "B": 0.5, "C": 0.62}
NAME = "2026-01-31T10-20-30.123456"

COMMANDS = {
    "rank": ["--leaderboard"],
    "report": ["--report", "report.html"],
    "gate": ["--leaderboard", "--fail-under", "macro=0.2", "--fail-if-worse-than", "A", "--margin", "2%"],
}


@pytest.fixture
def results(tmp_path: Path, log_row: Make, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder; C is the best and B the second. C's last seed is unfinished, B's second one has no examples."""
    drawn = random.Random(1)
    hard = [drawn.random() - 0.5 for _ in range(300)]
    for model, rate in RATES.items():
        for seed in range(3):
            folder = tmp_path / "results" / model / f"seed{seed}"
            folder.mkdir(parents=True)
            is_cut, shots = (model, seed) == ("C", 2), 0 if (model, seed) == ("B", 1) else 5
            rows = [
                log_row(n, {"acc": float(drawn.random() < rate + 0.6 * hard[n])}, prompt_hash=f"{shots} {n}")
                for n in range(120 if is_cut else 300)
            ]
            (folder / f"samples_arc_{NAME}.jsonl").write_text("\n".join(map(json.dumps, rows)))
            if is_cut:  # the harness writes its results at the end
                continue
            figure = sum(row["acc"] for row in rows) / len(rows)
            of_run = {
                "results": {"arc": {"acc,none": figure, "acc_stderr,none": 0.03}},
                "model_name": model,
                "versions": {"arc": 1.0},
                "n-shot": {"arc": shots},
                "n-samples": {"arc": {"original": 300, "effective": 300}},
            }
            (folder / f"results_{NAME}.json").write_text(json.dumps(of_run))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


@pytest.mark.parametrize("options", COMMANDS.values(), ids=COMMANDS)
def test_the_commands_refuse_and_say_why(results: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert main(["scores", "results", *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "n_shot is 0 in B/seed1/arc and 5 in 7 runs" in err
    assert "--across n_shot" in err
    assert "C/seed2/arc, arc: 180 of 300 verdicts of acc are missing" in err
    assert "--missing wrong" in err
    assert "--missing drop" in err
    assert err.count("\n") == 1
    assert not Path("report.html").exists()


@pytest.mark.parametrize("options", COMMANDS.values(), ids=COMMANDS)
def test_one_option_alone_is_refused_for_the_other_reason(
    results: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["scores", "results", *options, "--across", "n_shot"]) == 2
    assert "n_shot" not in capsys.readouterr().err
    assert main(["scores", "results", *options, "--missing", "drop"]) == 2
    assert "missing" not in capsys.readouterr().err


def test_with_the_options_that_the_message_names_the_ranking_is_right(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    allowed = ["--across", "n_shot", "--missing", "drop"]
    assert main(["scores", "results", *COMMANDS["rank"], *allowed]) == 0
    out = capsys.readouterr().out
    ranks = re.findall(r"^([ABC]) +(\d) +(\d(?: to \d)?) +([\d.]+) ", out, re.MULTILINE)
    assert [(model, rank) for model, rank, _, _ in ranks] == [("C", "1"), ("B", "2"), ("A", "3")]
    assert [abs(float(figure) - 100 * RATES[model]) < 6 for model, _, _, figure in ranks] == [True] * 3
    assert "A, B, C: 3 seeds, compared with the seeds as random" in out
    assert "n_shot is 0 in B/seed1/arc" in out
    assert "180 of 300 verdicts of acc are missing" in out
    assert main(["scores", "results", *COMMANDS["report"], *allowed]) == 0
    assert re.search(r"<strong>C</strong> has the best acc", Path("report.html").read_text())
    assert main(["scores", "results", *COMMANDS["gate"], *allowed]) == 0
    worst = [*COMMANDS["gate"], *allowed]
    worst[worst.index("A")] = "C"
    assert main(["scores", "results", *worst]) == 1
    assert re.search(r"--fail-if-worse-than C --margin 0.02: A beside C, arc, acc: -\d", capsys.readouterr().err)


def test_leaving_the_two_files_out_ranks_without_a_word_of_them(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("B/seed1", "C/seed2"):
        for file in (results / name).iterdir():
            file.unlink()
    assert main(["scores", "results", "--leaderboard"]) == 0
    out = capsys.readouterr().out
    assert re.findall(r"^([ABC]) +\d ", out, re.MULTILINE)[:3] == ["C", "B", "A"]
    assert "conditions" not in out
    assert "missing" not in out
