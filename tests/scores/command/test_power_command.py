from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tensorclass.cli import main
from tensorclass.scores import PairedDesign


def run(*arguments: object) -> int:
    return main(["scores", "power", *map(str, arguments)])


def test_rates_tell_what_prompts_can_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--rate", "0.5", "--prompts", 1000) == 0
    out = capsys.readouterr().out
    assert re.search(r"^1,000 +6\.26$", out, re.MULTILINE)
    assert "needs" not in out
    assert run("--rate", "50%", "--difference", "5%", "--correlation", 0.5) == 0
    assert re.search(r"^5\.00 +785$", capsys.readouterr().out, re.MULTILINE)


def test_without_sizes_several_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--rate", "0.7", "--format", "json") == 0
    document = json.loads(capsys.readouterr().out)
    design = PairedDesign.of_rates(0.7)
    assert [one["prompts"] for one in document["detectable"]] == [100, 300, 1000, 3000, 10000]
    assert document["detectable"][2]["difference"] == design.detectable(1000)
    assert document["needed"][0] == {"prompts": design.prompts_needed(0.01), "difference": 0.01}


def test_the_spread_is_that_of_two_runs(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = repository / "examples/data"
    files = data / "synthetic-alpha.eval_results_strict.jsonl", data / "synthetic-beta.jsonl"
    assert run(*files, "--difference", 0.05) == 0
    out = capsys.readouterr().out
    assert "prompt_level_strict_acc of synthetic-beta and synthetic-alpha" in " ".join(out.split())
    assert re.search(r"^120 +\d+\.\d\d$", out, re.MULTILINE)
    assert re.search(r"^5\.00 +[\d,]+$", out, re.MULTILINE)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "expected the files of two runs, or --rate"),
        (["--rate", "0.5", "x.jsonl"], "expected files or --rate, got both"),
    ],
)
def test_what_is_missing_is_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert capsys.readouterr().err.startswith(f"tensorclass scores power: {message}")


@pytest.mark.parametrize(
    "arguments", [["--rate", "50"], ["--rate", "x"], ["--difference", "0"], ["--correlation", "2"], ["--power", "1"]]
)
def test_numbers_outside_of_their_range_are_wrong_usage(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
