"""Several models and tasks through the command."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]

RIGHT = {"old": {"arc": 20, "piqa": 30}, "new": {"arc": 34, "piqa": 31}, "best": {"arc": 39, "piqa": 36}}


@pytest.fixture
def logs(write: Write, log_row: Make) -> list[Path]:
    """Three models on two tasks of 40 prompts."""
    return [
        write(
            f"runs/org__{model}/samples_{task}_2026-01-31T10-20-30.123456.jsonl",
            [log_row(n, {"acc": float(n < right)}) for n in range(40)],
        )
        for model, tasks in RIGHT.items()
        for task, right in tasks.items()
    ]


def run(*arguments: object) -> int:
    return main(["scores", *map(str, arguments)])


def test_a_leaderboard_ranks_the_models(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--leaderboard") == 0
    out = capsys.readouterr().out
    assert "Leaderboard: macro average of 2 tasks, acc, %" in out
    assert re.search(r"^best +1 +1 +93\.75 +\[.*\] +[\d.]+ +93\.75 +a +80$", out, re.MULTILINE)
    assert re.search(r"^old +3 +3 +62\.50 ", out, re.MULTILINE)
    assert re.search(r"^arc +97\.50 +85\.00 +50\.00$", out, re.MULTILINE)
    assert re.search(r"^best +new +\+12\.50 ", out, re.MULTILINE)


def test_differences_are_to_the_baseline(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--leaderboard", "--baseline", "old") == 0
    out = capsys.readouterr().out
    assert "Differences of macro averages to old, %" in out
    assert re.search(r"^arc +best +\+47\.50 ", out, re.MULTILINE)
    assert re.search(r"^piqa +best +\+15\.00 ", out, re.MULTILINE)


def test_json_holds_the_leaderboard(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--leaderboard", "--json", "--correction", "bh") == 0
    document = json.loads(capsys.readouterr().out)
    board = document["leaderboard"]
    assert board["correction"] == "bh"
    assert [one["model"] for one in board["models"]] == ["org/best", "org/new", "org/old"]
    assert board["models"][0]["tasks"]["arc"]["value"] == 0.975
    assert [(one["model"], one["task"]) for one in document["runs"]][:2] == [("org/old", "arc"), ("org/old", "piqa")]
    assert document["gates"] == []


def test_csv_holds_every_figure_with_all_digits(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--leaderboard", "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 3 * 4
    found = {(row["model"], row["task"]): row for row in rows}
    assert float(found["org/best", "macro"]["value"]) == 0.9375
    assert found["org/old", "arc"]["rank"] == "3"


@pytest.mark.parametrize(
    "form, expected",
    [
        ("markdown", "| best | 1 | 1 | 93.75 |"),
        ("latex", r"best & 1 & 1 & 93.75 &"),
        ("html", '<th scope="row" style="text-align: left">best</th>'),
    ],
)
def test_tables_come_in_other_formats(
    form: str, expected: str, logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*logs, "--leaderboard", "--format", form) == 0
    assert expected in capsys.readouterr().out


def test_a_comparison_is_within_each_task(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--compare", "--json") == 0
    found = [(one["a"], one["b"]) for one in json.loads(capsys.readouterr().out)["comparisons"]]
    assert found == [
        ("org__old/arc", "org__new/arc"),
        ("org__old/arc", "org__best/arc"),
        ("org__old/piqa", "org__new/piqa"),
        ("org__old/piqa", "org__best/piqa"),
    ]
    assert run(*logs, "--baseline", "best", "--json") == 0
    assert {one["a"] for one in json.loads(capsys.readouterr().out)["comparisons"]} == {
        "org__best/arc",
        "org__best/piqa",
    }


def test_names_are_shown_everywhere(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--leaderboard", "--names", "A,B,C", "--baseline", "A") == 0
    out = capsys.readouterr().out
    assert re.search(r"^C +1 ", out, re.MULTILINE)
    assert "org" not in out


def test_scores_of_several_tasks_are_one_table(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "MultipleChoiceScoreData, %"
    assert lines[1].split()[:4] == ["task", "metric", "run", "score"]
    assert [line.split()[:4] for line in lines[3:10]] == [
        ["arc", "acc", "old", "50.00"],
        ["new", "85.00", *lines[4].split()[2:4]],
        ["best", "97.50", *lines[5].split()[2:4]],
        [],
        ["piqa", "acc", "old", "75.00"],
        ["new", "77.50", *lines[8].split()[2:4]],
        ["best", "90.00", *lines[9].split()[2:4]],
    ]


def test_one_model_on_several_tasks_has_a_row_for_each(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs[:2]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "old, MultipleChoiceScoreData, %"
    assert [line.split()[:3] for line in lines[3:5]] == [["arc", "acc", "50.00"], ["piqa", "acc", "75.00"]]


def test_comparisons_name_their_tasks(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--compare") == 0
    out = capsys.readouterr().out
    assert "piqa: best beside old, on the 40 prompts that both hold, %" in out


def test_two_runs_of_a_model_are_both_shown(write: Write, log_row: Make, capsys: pytest.CaptureFixture[str]) -> None:
    logs = [
        write(
            f"gpt/samples_arc_2026-01-{day}T10-20-30.123456.jsonl",
            [log_row(n, {"acc": float(n < day)}, doc_hash=f"{n + 100 * day:064x}") for n in range(40)],
        )
        for day in (10, 20)
    ]
    assert run(*logs) == 0
    out = capsys.readouterr().out
    for day, score in ((10, "25.00"), (20, "50.00")):
        assert re.search(rf"{day}T10 +{score}", out)
    assert run(*logs, "--leaderboard") == 2
    assert "leave one out, or put them in folders of their own" in capsys.readouterr().err


@pytest.mark.parametrize(
    "gates, code, failing",
    [
        (["--fail-under", "acc=0.5"], 0, []),
        (["--fail-under", "acc=51%"], 1, ["org__old/arc: acc is 50.00 %, which is below 51.00"]),
        (["--fail-under", "piqa/acc=0.75"], 0, []),
        (["--fail-over", "acc=0.95"], 1, ["org__best/arc: acc is 97.50 %, which is above 95.00"]),
        (["--leaderboard", "--fail-under", "macro=0.7"], 1, ["org/old: macro is 62.50 %, which is below 70.00"]),
        (["--fail-if-worse-than", "old"], 0, []),
        (
            ["--fail-if-worse-than", "new"],
            1,
            [
                "org/old beside org/new, macro average: -18.75 %, p = 0.00012 (corrected)",
                "org/old beside org/new, arc, acc: -35.00 %, p = 0.00049 (corrected)",
            ],
        ),
        (["--fail-if-worse-than", "new", "--margin", "0.2"], 1, ["org/old beside org/new, arc, acc: -35.00 %"]),
        (["--fail-if-worse-than", "new", "--margin", "0.4"], 0, []),
    ],
)
def test_gates_decide_the_exit_code(
    gates: list[str], code: int, failing: list[str], logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*logs, *gates, "--json") == code
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert len(lines) == len(failing)
    for line, text in zip(lines, failing, strict=True):
        assert line.startswith(f"tensorclass scores: {gates[-4] if '--margin' in gates else gates[-2]}")
        assert text in line
    found = json.loads(out)["gates"]
    assert found
    assert sum(not gate["passed"] for gate in found) == len(failing)


def test_the_baseline_passes_bounds(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--baseline", "old", "--fail-under", "acc=0.6") == 0
    assert "passed: --fail-under acc=0.6: org__new/arc: acc is 85.00 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--fail-under", "f1=0.5"], "--fail-under f1: expected one of acc, arc/acc, piqa/acc; macro and micro need"),
        (["--fail-under", "acc=70"], "--fail-under acc: expected a fraction from 0 to 1, since it is a share, got 70;"),
        (["--baseline", "gpt"], "expected one of the models org/old, org/new, org/best, got 'gpt'"),
        (["--margin", "0.1"], "--margin is for --fail-if-worse-than NAME, which is not given"),
        (["--names", "A,B"], "names: expected one for each model (org/old, org/new, org/best), got 2: A,B"),
        (["--leaderboard", "--metric", "f1"], "metric: expected 'f1', got a task without it: arc, piqa"),
        (["--cluster", "passage"], "passage: expected a field of MultipleChoiceScoreData"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    arguments: list[str], message: str, logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*logs, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.startswith("tensorclass scores: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["--fail-under", "acc"], ["--fail-under", "acc=x"], ["--confidence", "95"], ["--format", "xml"]]
)
def test_wrong_options_are_said_in_one_line(
    arguments: list[str], logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*logs, *arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
