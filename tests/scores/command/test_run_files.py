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
