"""Intervals end where the scale of a metric does; figures with bins say how many."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tensorclass.scores import CalibrationScoreData, Estimate, Run, compare, leaderboard, write_html_report
from tensorclass.scores.document import ScoredRun
from tensorclass.scores.logged_scores import family_of, field_names
from tensorclass.scores.run_figures import aggregate_run
from tensorclass.scores.score_sheets import run_notes

LOW = [0.0, 0.0, 1.0]
HIGH = [100.0, 99.0, 60.0]


def run_of(name: str, values: list[float], task: str = "sums", unit: str = "") -> Run:
    family = family_of(((name, unit),))
    fields = {field_names([name])[name]: torch.tensor(values, dtype=torch.float64)}
    scores = family(**fields, prompt_id=torch.arange(len(values)), batch_size=[len(values)])
    return Run(f"m/{task}", scores, (), "memory", model="m", task=task)


def figure(name: str, values: list[float], unit: str = "") -> Estimate:
    return run_of(name, values, unit=unit).scores.aggregate()[name]


@pytest.mark.parametrize("name", ["rouge1", "rougeL", "bleu", "sacrebleu/bleu", "chrf", "wer", "tokens", "seconds"])
def test_intervals_of_what_is_never_negative_end_at_0(name: str) -> None:
    one = figure(name, LOW)
    assert (one.low.item(), one.interval) == (0.0, "t")
    assert one.high > one.value


@pytest.mark.parametrize("name", ["rouge1", "rougeL", "bleu", "sacrebleu/bleu", "chrf"])
def test_intervals_of_a_scale_end_at_its_top(name: str) -> None:
    assert figure(name, HIGH).high.item() == 100.0
    assert figure(name, [value / 100 for value in HIGH]).high.item() == 1.0


def test_a_metric_without_a_bound_has_the_t_interval() -> None:
    assert figure("reward", LOW).low < 0
    assert figure("rouge1_diff", [-1.0, 0.0, 2.0]).low < 0
    assert figure("wer", [1.0, 0.9, 0.2]).high > 1
    assert figure("tokens", HIGH).high > 100
    assert figure("bleu", [150.0, 99.0, 60.0]).high > 150


def test_a_share_ends_at_0_and_1() -> None:
    assert figure("quality", [0.0, 0.0, 0.1], "%").low.item() >= 0
    assert figure("quality", [1.0, 1.0, 0.9], "%").high.item() <= 1


def test_differences_have_no_such_bound() -> None:
    a, b = run_of("bleu", LOW).scores, run_of("bleu", [0.0, 1.0, 0.0]).scores
    assert compare(a, b)["bleu"].low < 0


def test_averages_and_seeds_end_there_as_well() -> None:
    tasks = [run_of("bleu", LOW, "sums"), run_of("bleu", LOW, "words")]
    assert leaderboard(tasks).macro["m"].low.item() == 0.0
    tasks = [run_of("bleu", HIGH, "sums"), run_of("bleu", HIGH, "words")]
    assert leaderboard(tasks).macro["m"].high.item() == 100.0
    seeds = replace(run_of("bleu", [*LOW, *LOW]), seeds=(("1", 3), ("2", 3)))
    seeds = replace(seeds, scores=seeds.scores.replace(prompt_id=torch.arange(6) % 3))
    one = aggregate_run(seeds, seed=0, resamples=None, confidence=0.95)["bleu"]
    assert (one.low.item(), one.interval) == (0.0, "crossed t")


# --- bins -----------------------------------------------------------------------------------------------------------


def test_reports_tables_and_pages_say_the_bins_of_a_calibration_error(tmp_path: Path) -> None:
    confidence, said = torch.arange(200) / 200, "ece: 15 bins of equal width"
    scores = CalibrationScoreData(
        confidence, (torch.arange(200) % 3 > 0).float(), prompt_id=torch.arange(200), batch_size=[200]
    )
    report = scores.aggregate()
    assert report.notes == (said,)
    assert said in str(report)
    run = Run("m", scores, (), "memory", model="m", task="sums")
    assert ("m", said) in list(run_notes([ScoredRun(run, report)], {"m": "m"}))
    write_html_report(tmp_path / "report.html", [run])
    assert said in (tmp_path / "report.html").read_text(encoding="utf-8")
