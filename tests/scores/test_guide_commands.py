"""The commands that the guide shows run, on ten models and five tasks."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main

Make = Callable[..., dict[str, Any]]

TASKS = {"gsm8k": "exact_match", "arc_challenge": "acc", "hellaswag": "acc", "winogrande": "acc", "piqa": "acc"}
MODELS = ("Llama-3-8B", *(f"model-{number}" for number in range(8)), "Falcon-11B")


@pytest.fixture
def results(tmp_path: Path, log_row: Make, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as lm-evaluation-harness writes it; later models have more prompts right."""
    import orjson

    drawn = random.Random(3)
    hard = [drawn.random() for _ in range(40)]
    for place, model in enumerate(MODELS):
        for task, metric in TASKS.items():
            path = tmp_path / "results" / model / f"samples_{task}_2026-01-31T10-20-30.123456.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = (log_row(n, {metric: float(hard[n] < 0.5 + place / 25)}) for n in range(40))
            path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def commands(repository: Path, heading: str) -> list[list[str]]:
    """The commands of a section of the guide, without the name of the program."""
    text = (repository / "docs" / "scores.md").read_text()
    section = text.partition(f"{heading}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    found = [shlex.split(line)[1:] for line in re.findall(r"^    (tensorclass scores .*)$", section, re.MULTILINE)]
    assert found
    return found


def test_ten_models_and_five_tasks_take_three_commands(
    repository: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rank, report, gate = commands(repository, "## Ten models, five tasks, three commands")
    assert main(rank) == 0
    out = capsys.readouterr().out
    assert "Leaderboard: macro average of 5 tasks" in out
    for model in MODELS:
        assert re.search(rf"^{model} +\d+ ", out, re.MULTILINE)
    assert main(report) == 0
    page = Path("report.html").read_text()
    assert "Falcon-11B" in page
    assert main(gate) == 0
    assert "passed: --fail-under macro=0.45" in capsys.readouterr().out
    assert main([*gate[:-1], "Falcon-11B"]) == 1
    assert (
        "tensorclass scores: --fail-if-worse-than Falcon-11B --margin 0.02: Llama-3-8B beside Falcon-11B"
        in capsys.readouterr().err
    )


def test_other_commands_of_the_guide_run(repository: Path, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (diff,) = commands(repository, "### Which prompts changed sides")
    assert main(diff) == 0
    assert "arc_challenge, acc: Falcon-11B beside Llama-3-8B" in capsys.readouterr().out
    for power in commands(repository, "### How many prompts"):
        given = [str(next(Path().glob(one))) if "*" in one else one for one in power]
        assert main(given) == 0
        assert "The smallest difference that is shown" in (out := capsys.readouterr().out) or "needs" in out


def test_the_workflow_of_the_guide_compares_two_folders(
    repository: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / "docs" / "scores.md").read_text()
    (steps,) = re.findall(r"run: >\n((?: {14}.*\n)+)", text)
    *command, sign, _ = shlex.split(" ".join(steps.split()))
    assert command[0] == "tensorclass"
    assert sign == ">>"
    for folder, model in (("release", "Falcon-11B"), ("candidate", "Llama-3-8B")):
        target = Path(folder, "model")
        target.mkdir(parents=True)
        for task in ("gsm8k", "arc_challenge"):
            (log,) = (results / model).glob(f"samples_{task}_*")
            log.rename(target / log.name)
    assert main(command[1:]) == 1
    out, err = capsys.readouterr()
    assert "| release | 1 |" in out
    assert "candidate beside release, macro average" in err
    assert Path("report.html").exists()
