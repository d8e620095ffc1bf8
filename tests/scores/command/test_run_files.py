from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorclass.cli import main

Write = Callable[..., Path]

TABLE = "id,name,correct,passage\na,gpt,1,x\nb,gpt,0,x\na,llama,1,x\nb,llama,1,x\n"


def test_tables_are_read_by_the_roles_of_their_columns(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write("table.csv", TABLE))
    assert main(["scores", path, "--json", "--columns", "prompt=id,accuracy=correct", "--columns", "model=name"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [(run["name"], run["metrics"][0]["name"], run["metrics"][0]["value"]) for run in runs] == [
        ("gpt", "accuracy", 0.5),
        ("llama", "accuracy", 1.0),
    ]


def test_two_columns_for_a_role_are_an_error(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--columns", "accuracy=correct", "--columns", "accuracy=passage"]
    assert main(["scores", str(write("table.csv", TABLE)), *arguments]) == 2
    assert "--columns: accuracy: expected one column, got 'correct' and 'passage'" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_says_how_to_go_on(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    rows = '{"doc_id": 0, "doc_hash": "a", "metrics": ["acc"], "acc": 1.0, "filter": "none"}\n'
    write("runs/a/samples_arc_2026-01-01.jsonl", rows)
    write("runs/b/samples_arc_2026-01-01.jsonl", f"{rows}cut")
    folder = str(write("runs/c/samples_arc_2026-01-01.jsonl", rows).parent.parent)
    assert main(["scores", folder]) == 2
    err = capsys.readouterr().err
    assert "b/samples_arc_2026-01-01.jsonl:2: " in err
    assert err.endswith("; --keep-going goes on with the other 2 files\n")
    assert main(["scores", folder, "--leaderboard", "--keep-going"]) == 2
    out, err = capsys.readouterr()
    assert "Leaderboard: arc, acc" in out
    assert "b/samples_arc_2026-01-01.jsonl:2: " in err


def test_an_unfinished_log_is_read_if_what_is_missing_may_be_dropped(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluation = {"task": "arc", "model": "m"}
    samples = [{"id": 1, "epoch": 1, "scores": {"match": {"value": "I"}}}]
    results = {"total_samples": 79, "scores": []}
    log = {"version": 2, "status": "success", "eval": evaluation, "results": results, "samples": samples}
    path = str(write("partial.json", json.dumps(log)))
    assert main(["scores", path]) == 2
    assert "holds 1 of the 79 rows of its run: it is unfinished, or a part of the log" in capsys.readouterr().err
    assert main(["scores", path, "--missing", "drop"]) == 0
    assert "78 of 79 verdicts of match are missing, 78 of them whole prompts (98.73 %)" in capsys.readouterr().out
    assert main(["scores", path, "--missing", "wrong"]) == 2
    assert "78 prompts are missing, of which the other runs hold 0; use --missing drop" in capsys.readouterr().err
