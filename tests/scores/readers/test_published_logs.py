"""The logs of other harnesses give the figures that their repositories publish, through the command."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from tensorclass.cli import main
from tensorclass.scores import ScoreFileError, read_runs


@pytest.fixture(scope="session")
def logs(data_dir: Path) -> Path:
    """The folder with logs of other harnesses; where it is absent, the test is skipped."""
    return data_dir / "logs"


def scored(path: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """The run of a file, as the command prints it, with its metrics by name."""
    assert main(["scores", "--json", str(path)]) == 0
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    return {**run, "metrics": {one["name"]: one for one in run["metrics"]}}


def test_inspect_ai_archive(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored(logs / "inspect" / "mmlu-no-summary-choices.eval", capsys)
    assert (run["format"], run["prompts"]) == ("inspect_ai", 1)
    assert run["metrics"]["choice"]["value"] == 0.0


def test_inspect_ai_document(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored(logs / "inspect" / "2025-05-12T20-28-26-04-00_security-guide.json", capsys)
    figure = run["metrics"]["model_graded_fact"]
    assert (run["prompts"], figure["value"], figure["stderr"]) == (3, 1.0, 0.0)


def test_inspect_ai_archive_that_nobody_scored(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (logs / "inspect").glob("*popularity*.eval")
    assert main(["scores", str(path)]) == 2
    assert "10 samples, none of them scored: there is nothing to aggregate" in capsys.readouterr().err


def test_helm(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored(logs / "helm" / "bbq-gpt-4o" / "per_instance_stats.json.gz", capsys)
    figure = run["metrics"]["quasi_exact_match"]
    assert (run["name"], run["prompts"], figure["value"]) == ("bbq-gpt-4o", 100, pytest.approx(0.95))
    assert figure["stderr"] == pytest.approx((0.95 * 0.05 / 99) ** 0.5)


def test_alpaca_eval(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored(logs / "alpaca" / "LMCocktail-10.7B-v1.annotations.json.gz", capsys)
    figure = run["metrics"]["win_rate"]
    assert (run["name"], run["prompts"], figure["count"]) == ("LMCocktail-10.7B-v1", 805, 803)
    assert 100 * figure["value"] == pytest.approx(92.21669, abs=1e-5)
    assert 100 * figure["stderr"] == pytest.approx(0.94396, abs=1e-5)
    assert "wins: 740, losses: 62, draws: 1, not judged: 2" in run["notes"]
    # The published 84.78 needs the difficulties of the instructions, fitted to the judgements on many models.
    assert "length_controlled_win_rate" not in run["metrics"]
    assert round(run["metrics"]["length_adjusted_win_rate"]["value"], 4) == 0.8361


@pytest.mark.parametrize("name", ["inspect/mmlu-no-summary-choices.eval", "helm/bbq-gpt-4o", "alpaca"])
def test_runs_are_handed_to_other_processes_whole(name: str, logs: Path) -> None:
    (run,) = read_runs([logs / name])
    again = pickle.loads(pickle.dumps(run))
    assert again.scores.aggregate().to_dict() == run.scores.aggregate().to_dict()
    assert (again.texts is None) == (run.texts is None)
    if again.texts is not None:
        assert [one.prompt_id for one in again.texts()] == run.scores.prompt_id.tolist()


def test_all_logs_of_other_harnesses_are_read_from_their_folders(logs: Path) -> None:
    failed: list[ScoreFileError] = []
    finished = sorted(file for file in (logs / "inspect").iterdir() if not file.name.startswith("partial"))
    runs = read_runs([*finished, logs / "helm", logs / "alpaca"], on_error=failed.append)
    assert [run.format for run in runs] == ["inspect_ai", "inspect_ai", "helm", "alpaca_eval"]
    assert [one.problem.partition(":")[0] for one in failed] == ["10 samples, none of them scored"]


def test_math_evaluation_harness(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored(logs / "others" / "rho-7b-gsm8k.jsonl.gz", capsys)
    figure = run["metrics"]["acc"]
    assert (run["format"], run["prompts"], round(100 * figure["value"], 1)) == ("math_harness", 1319, 66.8)
    assert run["left_out"] == ["rho-7b-gsm8k_metrics.json says acc 66.8 %, by the first answer to each problem"]


def test_mmlu_pro(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored(logs / "others" / "mmlu-pro-llama2-philosophy.json.gz", capsys)
    assert (run["format"], run["prompts"]) == ("mmlu_pro", 499)
    assert round(100 * run["metrics"]["acc"]["value"], 2) == 20.24


def test_tau_bench(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored(logs / "others" / "tau-bench-gpt-4o-airline.json.gz", capsys)
    assert (run["format"], run["task"], run["prompts"]) == ("tau_bench", "tau-bench/airline", 50)
    figures = {name: round(one["value"], 3) for name, one in run["metrics"].items()}
    assert figures == {"pass^1": 0.42, "pass^2": 0.273, "pass^3": 0.22, "pass^4": 0.2}


def test_wild_bench(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = scored(logs / "others" / "wildbench-tulu-330k.json.gz", capsys)
    assert (run["format"], run["model"], run["prompts"]) == ("wild_bench", "Magpie-Align/Llama-3-8B-Tulu-330K", 300)
    assert round(run["metrics"]["wb_score"]["value"], 4) == 6.7133


@pytest.mark.parametrize("name", ["rho-7b-gsm8k", "mmlu-pro-llama2", "tau-bench-gpt-4o", "wildbench-tulu"])
def test_texts_of_other_logs_are_those_of_their_rows(name: str, logs: Path) -> None:
    (path,) = (logs / "others").glob(f"{name}*.gz")
    (run,) = read_runs([path])
    assert run.texts is not None
    assert [one.prompt_id for one in run.texts()] == run.scores.prompt_id.tolist()
