"""Results of EvalPlus and of HumanEval's scorer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tensorclass.scores import EvalPlusScoreData, PassAtKScoreData, Run, ScoreFileError, pass_at_k, read_run

Write = Callable[..., Path]


def figures(run: Run) -> dict[str, float]:
    return {name: round(one.value.item(), 6) for name, one in run.scores.aggregate().items()}


def evaluated(*statuses: tuple[str, str | None]) -> list[dict[str, Any]]:
    return [
        {
            "task_id": "?",
            "solution": f"solution {place}",
            "base_status": base,
            "plus_status": plus,
            "base_fail_tests": [],
        }
        for place, (base, plus) in enumerate(statuses)
    ]


def test_evalplus_counts_samples_that_pass_the_base_tests_and_the_added_ones(write: Write) -> None:
    results = {
        "date": "2024-01-01",
        "eval": {
            "HumanEval/0": evaluated(("pass", "pass"), ("pass", "fail")),
            "HumanEval/1": evaluated(("timeout", "pass"), ("fail", "fail")),
        },
        "pass_at_k": {"base": {"pass@1": 0.5}, "plus": {"pass@1": 0.25}},
    }
    run = read_run(write("model-a_eval_results.json", json.dumps(results)))
    assert isinstance(run.scores, EvalPlusScoreData)
    assert figures(run) == {"base/pass@1": 0.5, "plus/pass@1": 0.25}
    assert {name: one.value for name, one in run.published.items()} == figures(run)
    assert (run.name, run.task, run.format) == ("model-a", "HumanEval", "evalplus")


def test_evalplus_pass_at_k_is_the_estimator_of_the_paper(write: Write) -> None:
    problems = {f"Mbpp/{c}": evaluated(*[("pass", None)] * c, *[("fail", None)] * (10 - c)) for c in (0, 3, 10)}
    run = read_run(write("eval_results.json", json.dumps({"eval": problems})))
    assert figures(run) == {
        f"base/pass@{k}": pytest.approx(pass_at_k(10, [0, 3, 10], k).mean(), abs=1e-6) for k in (1, 5, 10)
    }


def test_files_of_older_versions_of_evalplus_are_read(write: Write) -> None:
    problems = {
        "HumanEval/0": {
            "nfiles": 2,
            "base": [["success", [1]], ["failed", [0]]],
            "plus": [["failed", [0]], ["failed", []]],
        }
    }
    run = read_run(write("eval_results.json", json.dumps({"eval": problems})))
    assert figures(run) == {"base/pass@1": 0.5, "plus/pass@1": 0.0}


def test_evalplus_holds_solutions(write: Write) -> None:
    run = read_run(write("eval_results.json", json.dumps({"eval": {"HumanEval/0": evaluated(("pass", "pass"))}})))
    assert run.texts is not None
    (text,) = run.texts()
    assert (text.prompt_id, text.prompt, text.response) == (
        run.scores.prompt_id.item(),
        "HumanEval/0",
        "solution 0",
    )


def test_a_sample_without_a_status_is_an_error(write: Write) -> None:
    path = write("eval_results.json", json.dumps({"eval": {"HumanEval/7": [{"solution": "x"}]}}))
    with pytest.raises(ScoreFileError, match="HumanEval/7: expected the status of a sample, such as 'pass', got None"):
        read_run(path)


def sample(problem: str, passed: object) -> dict[str, Any]:
    return {"task_id": problem, "completion": f"code of {problem}", "result": "passed", "passed": passed}


def test_human_eval_counts_samples_by_problem(write: Write) -> None:
    rows = [sample(f"HumanEval/{number}", number < passed) for passed in (1, 3) for number in range(4)]
    run = read_run(write("model-a.jsonl_results.jsonl", rows))
    assert isinstance(run.scores, PassAtKScoreData)
    assert run.scores.num_samples.tolist() == [2, 2, 2, 2]
    assert figures(run) == {"pass@1": 0.5}
    assert (run.name, run.task, run.format) == ("model-a", "HumanEval", "human_eval")
    assert run.texts is not None
    assert [text.response for text in run.texts()] == [f"code of HumanEval/{number}" for number in range(4)]


def test_a_verdict_of_human_eval_is_true_or_false(write: Write) -> None:
    path = write("results.jsonl", [sample("HumanEval/0", True), sample("HumanEval/1", "passed")])
    with pytest.raises(ScoreFileError, match=r"results\.jsonl:2: passed: expected true or false, got 'passed'"):
        read_run(path)
