"""pass@k and pass^k of rows of one prompt."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tensorclass.cli import main
from tensorclass.scores import ExactMatchScoreData, Run
from tensorclass.scores.repeat_passes import with_passes


def run_of(verdicts: list[float], ids: list[int]) -> Run:
    scores = ExactMatchScoreData(torch.tensor(verdicts), prompt_id=torch.tensor(ids), batch_size=[len(ids)])
    return Run("a", scores, (), "memory", task="sums")


def test_the_number_of_rows_is_said_once() -> None:
    assert with_passes(run_of([1.0, 0.0], [1, 1]), [1]).notes == (
        "pass@k and pass^k of exact_match, from 2 rows of a prompt",
    )


def test_prompts_with_fewer_rows_do_not_count_for_a_k_and_a_k_that_none_reaches_is_noted() -> None:
    run = with_passes(run_of([1.0, 0.0, 1.0], [1, 1, 2]), [1, 2, 4])
    report = run.scores.aggregate()
    assert {name: (one.value.item(), one.prompts.item()) for name, one in report.items()} == {
        "pass@1": (0.75, 2),
        "pass^1": (0.75, 2),
        "pass@2": (1.0, 1),
        "pass^2": (0.0, 1),
    }
    assert run.notes == ("pass@k and pass^k of exact_match, from 1 to 2 rows of a prompt", "no prompt has 4 rows")


def test_verdicts_that_are_no_0_or_1_are_an_error() -> None:
    with pytest.raises(ValueError, match="expected verdicts of 0 or 1 with ids of prompts, got no figure"):
        with_passes(run_of([0.5, 1.0], [1, 1]), [1])
    with pytest.raises(ValueError, match="expected prompts with 3 rows, got at most 2"):
        with_passes(run_of([0.0, 1.0], [1, 1]), [3])


def test_the_command_gives_the_published_figures_of_tau_bench(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = data_dir / "logs" / "others" / "tau-bench-gpt-4o-airline.json.gz"
    if not log.exists():
        pytest.skip(f"no logs at {data_dir}")
    rows = [
        {"task_id": one["task_id"], "reward": one["reward"]} for one in json.loads(gzip.decompress(log.read_bytes()))
    ]
    file = tmp_path / "airline.json"
    file.write_text(json.dumps(rows))
    assert main(["scores", str(file), "--columns", "prompt=task_id,reward=reward", "--k", "1,2,3,4"]) == 0
    out = capsys.readouterr().out
    found = {k: float(value) for k, value in re.findall(r"pass\^(\d) +([\d.]+) ", out)}
    assert found == {"1": 42.0, "2": 27.33, "3": 22.0, "4": 20.0}


def test_k_is_a_list_of_numbers(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["scores", str(write("a.csv", "id,right\n1,1\n")), "--k", "1,two"])
    assert "expected whole numbers of at least 1, such as 1,4,8, got '1,two'" in capsys.readouterr().err
