"""Cost, tokens and time beside scores, and pictures of the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tensorclass.cli import main
from tensorclass.scores import leaderboard, read_runs
from tensorclass.scores.usage import usage_sheet
from tests.scores.log_samples import LOG_SAMPLES

Write = Callable[..., Path]


@pytest.fixture
def costs(write: Write) -> Path:
    """Results of two providers, one of which costs more."""
    document = LOG_SAMPLES["promptfoo"]()["output.json"]
    for result in document["results"]["results"]:
        result["cost"] = 0.004 if result["provider"]["id"] == "openai:b" else 0.001
    return write("output.json", json.dumps(document))


def test_a_leaderboard_has_the_cost_of_each_model(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = leaderboard(read_runs([costs]))
    assert {model: board.usage[model]["cost"] for model in board.models} == pytest.approx(
        {"openai:a": 0.001, "openai:b": 0.004}
    )
    assert board.to_dict()["models"][0]["usage"]["tokens"] == 20
    assert main(["scores", str(costs), "--leaderboard"]) == 0
    text = capsys.readouterr().out
    assert "US$ an answer" in text
    assert "0.004" in text


def test_figures_without_a_leaderboard_have_a_table_of_costs(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", str(costs)]) == 0
    assert "What an answer took, in the mean" in capsys.readouterr().out
    assert usage_sheet([("a", {}), ("b", {})]) is None
    sheet = usage_sheet([("a", {"tokens": 3.0}), ("b", {})])
    assert sheet is not None
    assert [row.cells for row in sheet.rows] == [("a", "3"), ("b", "-")]


def test_inspect_and_helm_say_tokens_and_time(write: Write) -> None:
    sample = {"id": 1, "epoch": 1, "scores": {"match": {"value": "C"}}, "total_time": 2.5,
              "model_usage": {"a": {"total_tokens": 30}, "b": {"total_tokens": 12}}}  # fmt: skip
    log = {"status": "success", "eval": {"task": "arc", "model": "m"}, "samples": [sample]}
    stats = [
        {"name": {"name": name, "split": "test"}, "count": 1, "sum": value}
        for name, value in (
            ("exact_match", 1), ("num_prompt_tokens", 30), ("num_output_tokens", 2), ("inference_runtime", 0.5)
        )
    ]  # fmt: skip
    inspect, helm = read_runs(
        [
            write("log.json", json.dumps(log)),
            write("helm/per_instance_stats.json", json.dumps([{"instance_id": "id1", "stats": stats}])),
        ]
    )
    assert inspect.usage == {"seconds": 2.5, "tokens": 42}
    assert helm.usage == {"seconds": 0.5, "tokens": 32}


@pytest.mark.parametrize("form, start", [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF-")])
def test_quality_is_drawn_against_cost(form: str, start: bytes, costs: Path, tmp_path: Path) -> None:
    picture = tmp_path / f"cost.{form}"
    assert main(["scores", str(costs), "--leaderboard", "--plot", str(picture)]) == 0
    assert picture.read_bytes().startswith(start)
    if form == "svg":
        assert "US$ an answer" in picture.read_text()


def test_ratings_are_drawn(write: Write, tmp_path: Path) -> None:
    path = write("battles.json", json.dumps(LOG_SAMPLES["arena"]()["battles.json"]))
    assert main(["scores", str(path), "--plot", str(tmp_path / "elo.svg")]) == 0
    assert "Ratings of Bradley and Terry" in (tmp_path / "elo.svg").read_text()


def test_scores_are_drawn_with_their_intervals(write: Write, tmp_path: Path) -> None:
    path = write("m.json", json.dumps(LOG_SAMPLES["mmlu_pro"]()["model_outputs.json"]))
    assert main(["scores", str(path), "--plot", str(tmp_path / "scores.svg")]) == 0
    assert "with 95 % intervals" in (tmp_path / "scores.svg").read_text()


def test_a_picture_of_another_format_is_an_error(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", str(costs), "--plot", "x.gif"]) == 2
    assert "--plot x.gif: expected a file that ends with .png, .svg, .pdf" in capsys.readouterr().err
