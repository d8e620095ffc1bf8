"""Tasks of a model over its runs: their order, their changes, and which drops are more than noise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass.cli import main
from tensorclass.scores import ExactMatchScoreData, Run
from tensorclass.scores.history import drops_in_words, history

Write = Callable[..., Path]
DATES = [f"2026-0{month}-01T10-00-00.000000" for month in (1, 2, 3)]


def run(name: str, right: int, *, model: str | None = "m", task: str = "sums", folder: str = "runs") -> Run:
    scores = ExactMatchScoreData(torch.arange(100) < right, prompt_id=torch.arange(100), batch_size=[100])
    return Run(name, scores, (f"{folder}/{name}.jsonl",), "memory", model=model, task=task)


def log(write: Write, folder: str, date: str, right: int) -> None:
    rows = [
        {"doc_id": n, "doc": {"q": n}, "filter": "none", "metrics": ["acc"], "acc": float(n < right)}
        for n in range(100)
    ]
    write(f"{folder}/org__m/samples_arc_{date}.jsonl", rows)


def test_runs_are_in_the_order_of_their_dates() -> None:
    found = history([run(f"samples_{date}", 50) for date in (DATES[2], DATES[0], DATES[1])])
    (task,) = found.tasks
    assert [point.label for point in task.points] == [f"2026-0{month}-01T10-00-00" for month in (1, 2, 3)]
    assert (task.task, task.model, task.metric) == ("sums", "m", "exact_match")


def test_checkpoints_are_in_the_order_of_their_numbers() -> None:
    names = ["step-1000", "step-200", "step-30"]
    (task,) = history([run(name, 50, model=name) for name in names]).tasks
    assert ([point.label for point in task.points], task.model) == (["step-30", "step-200", "step-1000"], "")


def test_a_drop_beyond_noise_is_told_from_noise() -> None:
    rights = [60, 59, 40, 62]
    found = history([run(f"samples_2026-01-0{day}", right) for day, right in enumerate(rights, 1)])
    (task,) = found.tasks
    assert [round(float(point.figure.value), 2) for point in task.points] == [0.6, 0.59, 0.4, 0.62]
    assert [found.is_real(point) for point in task.points] == [False, False, True, True]
    (sentence,) = drops_in_words(found)
    assert sentence.startswith("sums: 2026-01-03 is worse than 2026-01-02 by more than noise: -19.00 points [")
    quiet = history([run("samples_2026-01-01", 60), run("samples_2026-01-02", 59)])
    assert drops_in_words(quiet) == ("No run is worse than the one before by more than noise (95 %).",)


def test_p_values_are_corrected_for_all_changes() -> None:
    runs = [run(f"samples_2026-01-0{day}", right) for day, right in enumerate([60, 54, 60, 60], 1)]
    corrected, plain = history(runs), history(runs, correction="none")
    assert corrected.tasks[0].points[1].p_adjusted == pytest.approx(3 * plain.tasks[0].points[1].p_adjusted)
    assert plain.drops()
    assert not corrected.drops()


def test_intervals_of_changes_are_corrected_as_their_p_values_are() -> None:
    runs = [run(f"samples_2026-01-0{day}", right) for day, right in enumerate([60, 54, 60, 60], 1)]
    for correction in ("holm", "bh", "none"):
        found = history(runs, correction=correction)
        for point in found.tasks[0].points[1:]:
            assert point.change is not None
            assert found.is_real(point) == (point.low_adjusted > 0 or point.high_adjusted < 0)
            assert point.low_adjusted <= float(point.change.value) <= point.high_adjusted
    holm = history(runs).tasks[0].points[1]
    assert holm.change is not None
    assert holm.change.high < 0 < holm.high_adjusted
    rows = list(history(runs).rows())
    assert rows[0]["change_low_adjusted"] is None
    assert rows[1]["change_high_adjusted"] == holm.high_adjusted


def test_a_metric_of_which_less_is_better_drops_when_it_rises() -> None:
    runs = [run(f"samples_2026-01-0{day}", right) for day, right in ((1, 30), (2, 60))]
    for one in runs:
        object.__setattr__(one, "higher_is_better", {"exact_match": False})
    assert [point.label for _, point in history(runs).drops()] == ["2026-01-02"]


def test_a_model_with_one_run_is_named() -> None:
    found = history([run("samples_2026-01-01", 60), run("samples_2026-01-02", 60), run("b", 3, model="b")])
    assert [task.model for task in found.tasks] == ["m"]
    assert found.notes == ("sums: there is only one run of b",)
    with pytest.raises(ValueError, match="history: expected a task with at least two runs"):
        history([run("a", 1)])
    with pytest.raises(ValueError, match="correction: expected 'holm', 'bh', 'none', got 'x'"):
        history([run("a", 1)], correction="x")


def test_the_command_follows_the_runs_of_a_folder(
    tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    for date, right in zip(DATES, (60, 40, 60), strict=True):
        log(write, "runs", date, right)
    assert main(["scores", "--history", str(tmp_path / "runs"), "--report", str(tmp_path / "report.html")]) == 0
    assert "arc: 2026-02-01T10-00-00 is worse than 2026-01-01T10-00-00 by more than noise" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="history-table-0"' in page
    assert "more than noise" in page
    assert main(["scores", "--history", str(tmp_path / "runs"), "--json"]) == 0
    points: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["points"]
    assert [(point["run"][:7], point["value"], point["more_than_noise"]) for point in points] == [
        ("2026-01", 0.6, False),
        ("2026-02", 0.4, True),
        ("2026-03", 0.6, True),
    ]


@pytest.mark.parametrize(
    "option", [["--leaderboard"], ["--compare"], ["--fail-under", "acc=0.5"], ["--plot", "a.png"], ["--k", "1"]]
)
def test_other_views_are_not_of_a_history(
    option: list[str], tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    log(write, "runs", DATES[0], 50)
    assert main(["scores", "--history", str(tmp_path), *option]) == 2
    assert f"--history is of runs one after the other, without {option[0]}" in capsys.readouterr().err


def test_missing_verdicts_of_a_history_are_an_error(
    tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong answers that a grader lost hide a drop."""
    log(write, "runs", DATES[0], 60)
    rows = [
        {"doc_id": n, "doc": {"q": n}, "filter": "none", "metrics": ["acc"], "acc": 1.0 if n < 40 else None}
        for n in range(60)
    ] + [{"doc_id": n, "doc": {"q": n}, "filter": "none", "metrics": ["acc"], "acc": 0.0} for n in range(60, 100)]
    write(f"runs/org__m/samples_arc_{DATES[1]}.jsonl", rows)
    command = ["scores", "--history", str(tmp_path / "runs")]
    assert main(command) == 2
    assert "20 of 100 verdicts of acc are missing (20.00 %), more than --max-missing 1%" in capsys.readouterr().err
    assert main([*command, "--missing", "wrong", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [point["value"] for point in document["points"]] == [0.6, 0.4]
    assert "20 of 100 verdicts of acc are missing (20.00 %), and counted as wrong" in document["notes"][0]
    assert main([*command, "--missing", "drop"]) == 0
    assert "and left out" in capsys.readouterr().out


def test_other_conditions_in_a_history_are_an_error(
    tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    for date, shots, right in zip(DATES, (0, 0, 5), (50, 50, 70), strict=True):
        log(write, "runs", date, right)
        results = {
            "results": {"arc": {"acc,none": right / 100}},
            "model_name": "m",
            "n-shot": {"arc": shots},
            "config": {"torch_seed": right},
        }
        write(f"runs/org__m/results_{date}.json", json.dumps(results))
    command = ["scores", "--history", str(tmp_path / "runs")]
    assert main(command) == 2
    assert "n_shot is 5 in" in capsys.readouterr().err
    assert main([*command, "--across", "n_shot"]) == 0
    out = capsys.readouterr().out
    assert "arc: other conditions are compared: n_shot is 5 in" in out
    assert "m, arc: the runs have other seeds, whose differences are part of the changes" in out


def test_seeds_of_a_history_are_no_runs_of_it(tmp_path: Path, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    for month, right in ((1, 60), (2, 30)):
        for seed in range(3):
            rows = [
                {"doc_id": n, "doc": {"q": n}, "filter": "none", "metrics": ["acc"], "acc": float(n < right + seed)}
                for n in range(100)
            ]
            write(f"runs/2026-0{month}-01/m/seed{seed}/samples_arc_2026-03-0{seed + 1}T10-00-00.000000.jsonl", rows)
    assert main(["scores", "--history", str(tmp_path / "runs"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [point["value"] for point in document["points"]] == pytest.approx([0.61, 0.31])
    assert any("3 seeds, compared with the seeds as random" in note for note in document["notes"])
