from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


@pytest.fixture
def logs(write: Write, log_row: Make) -> list[Path]:
    """Two models: the second lost document 1 and won documents 3 and 4."""
    right = {"old": [1, 1, 1, 0, 0, 0], "new": [1, 0, 1, 1, 1, 0]}
    return [
        write(
            f"{model}/samples_sums_2026-01-31T10-20-30.123456.jsonl",
            [
                log_row(
                    n,
                    {"exact_match": float(value)},
                    arguments={"gen_args_0": {"arg_0": f"What is {n} + {n}?\nThink " + "hard. " * 100}},
                    resps=[[f"{model} says {n}"]],
                    filtered_resps=[f"{model} says {n}"],
                )
                for n, value in enumerate(values)
            ],
        )
        for model, values in right.items()
    ]


def run(*arguments: object) -> int:
    return main(["scores", "diff", *map(str, arguments)])


def test_the_prompts_that_changed_sides_are_listed_with_texts(
    logs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*logs) == 0
    out = capsys.readouterr().out
    assert "sums, exact_match: new beside old" in out
    for line in ("counted in both       6", "higher in new         2", "lower in new          1"):
        assert line in out
    assert "1. 100.00 % -> 0.00 %   (row 2 of old, row 2 of new)" in out
    assert "old: old says 1" in out
    assert "new: new says 1" in out
    assert "prompt: What is 1 + 1? Think hard." in out
    assert "characters)" in out


def test_texts_are_printed_in_full_or_not_at_all(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--full-text") == 0
    out = capsys.readouterr().out
    assert "hard. " * 90 in " ".join(out.split())
    assert "characters)" not in out
    assert run(*logs, "--no-text") == 0
    out = capsys.readouterr().out
    assert "says" not in out
    assert "Texts are not shown" in out


def test_the_list_has_a_limit(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--limit", 1) == 0
    assert "2 more are not listed: --limit 0 lists all" in capsys.readouterr().out
    assert run(*logs, "--limit", 0, "--format", "csv") == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["row_a"], row["a"], row["b"], row["response_b"]) for row in rows] == [
        ("1", "1.0", "0.0", "new says 1"),
        ("3", "0.0", "1.0", "new says 3"),
        ("4", "0.0", "1.0", "new says 4"),
    ]


def test_json_has_each_task(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--format", "json") == 0
    (task,) = json.loads(capsys.readouterr().out)["tasks"]
    assert (task["task"], task["metric"], task["prompts"], task["higher"], task["lower"]) == (
        "sums",
        "exact_match",
        6,
        2,
        1,
    )
    assert len(task["changed"]) == 3


def test_one_run_alone_has_no_difference(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(logs[0], logs[0]) == 2
    assert capsys.readouterr().err == (
        "tensorclass scores diff: expected the runs of two models on a task, got sums: old\n"
    )


def test_an_unknown_metric_is_named(logs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*logs, "--metric", "f1") == 2
    assert "--metric: expected f1 in both runs, got old/sums: exact_match; new/sums: exact_match" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("given, lacking", [([], "A, B"), (["one"], "B")])
def test_a_run_that_is_not_given_is_named(given: list[str], lacking: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["scores", "diff", *given])
    assert exit.value.code == 2
    assert f"the following arguments are required: {lacking}" in capsys.readouterr().err
