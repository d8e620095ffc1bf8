"""Other conditions are listed, and refused where they change the prompt or the metric."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass.cli import main
from tensorclass.scores import ExactMatchScoreData, Run, read_run
from tensorclass.scores.run_conditions import ConditionsDifferError, check_conditions

Write = Callable[..., Path]
Make = Callable[..., dict[str, Any]]


def run_of(name: str, **conditions: str) -> Run:
    scores = ExactMatchScoreData(torch.ones(3), prompt_id=torch.arange(3), batch_size=[3])
    return Run(name, scores, (), "lm-eval", task="arc", conditions=conditions)


@pytest.mark.parametrize("name", ["n_shot", "version", "system_prompt", "scorer", "task_args", "solver"])
def test_what_changes_the_prompt_or_the_metric_is_an_error(name: str) -> None:
    runs = [run_of("a", **{name: "0"}), run_of("b", **{name: "5"})]
    with pytest.raises(ConditionsDifferError, match=f"arc: {name} is 0 in a and 5 in b; .* --across {name}"):
        check_conditions(runs)
    for across in ([name], ["all"]):
        assert check_conditions(runs, across) == [f"arc: other conditions are compared: {name} is 0 in a and 5 in b"]


def test_all_that_differs_is_told_at_once() -> None:
    runs = [run_of("a", n_shot="0", version="2.0"), run_of("b", n_shot="8", version="3.0")]
    with pytest.raises(ConditionsDifferError, match="--across n_shot,version"):
        check_conditions(runs)


def test_what_changes_neither_is_listed() -> None:
    runs = [run_of("a", temperature="0.0"), run_of("b", temperature="1.0")]
    assert check_conditions(runs) == ["arc: other conditions are compared: temperature is 0.0 in a and 1.0 in b"]


def test_a_chat_template_and_none_are_other_prompts_but_two_templates_are_of_two_models() -> None:
    with pytest.raises(ConditionsDifferError, match="chat_template is none in a and chatml in b"):
        check_conditions([run_of("a", chat_template="none"), run_of("b", chat_template="chatml")])
    assert len(check_conditions([run_of("a", chat_template="llama"), run_of("b", chat_template="chatml")])) == 1


def test_many_runs_are_counted_and_a_log_that_says_nothing_does_not_differ() -> None:
    runs = [run_of("odd", n_shot="0"), *(run_of(f"m{n}", n_shot="5") for n in range(8)), run_of("silent")]
    with pytest.raises(ConditionsDifferError, match="n_shot is 0 in odd and 5 in 8 runs"):
        check_conditions(runs)


def logs(write: Write, log_row: Make, *, shot: int = 5, template: str | None = None, prompt: str = "p") -> Path:
    """Two logs with their results files; the conditions are those of the second."""
    for model, shots, chat, text in (("A", 5, None, "p"), ("B", shot, template, prompt)):
        name = "2026-01-31T10-20-30.123456"
        rows = [log_row(n, {"acc": float(n % 3 > 0)}, prompt_hash=f"{text}{n}") for n in range(30)]
        path = write(f"runs/{model}/samples_arc_{name}.jsonl", rows)
        results = {
            "results": {"arc": {"acc,none": 20 / 30, "acc_stderr,none": 0.09}},
            "model_name": model,
            "n-shot": {"arc": shots},
            "versions": {"arc": 1.0},
            "chat_template": chat,
            "n-samples": {"arc": {"effective": 30}},
        }
        path.with_name(f"results_{name}.json").write_text(json.dumps(results))
    return path.parent.parent


def test_logs_of_lm_eval_say_how_they_were_made(write: Write, log_row: Make) -> None:
    run = read_run(next((logs(write, log_row) / "B").glob("samples*")))
    assert run.conditions == {"version": "1.0", "n_shot": "5", "chat_template": "none"}
    assert run.expected == 30
    assert run.prompt_hashes is not None
    assert len(set(run.prompt_hashes.tolist())) == 30


@pytest.mark.parametrize(
    "changes, told, across",
    [
        ({"shot": 0}, "arc: n_shot is 5 in A/arc and 0 in B/arc", "n_shot"),
        ({"template": "chatml"}, "arc: chat_template is none in A/arc and chatml in B/arc", "chat_template"),
        ({"prompt": "q"}, "arc: prompt_hash: 30 of 30 prompts have another text in B/arc than in A/arc", "prompt_hash"),
    ],
)
def test_the_command_refuses_and_names_the_option(
    write: Write, log_row: Make, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], told: str, across: str
) -> None:
    folder = str(logs(write, log_row, **changes))
    for options in (["--compare"], ["--leaderboard"], ["--fail-if-worse-than", "A"]):
        assert main(["scores", folder, *options]) == 2
        err = capsys.readouterr().err
        assert told in err
        assert f"--across {across}" in err
        assert main(["scores", folder, *options, "--across", across]) == 0
        assert "other conditions are compared" in capsys.readouterr().out
    assert main(["scores", folder]) == 0


def test_runs_under_the_same_conditions_are_compared(
    write: Write, log_row: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scores", str(logs(write, log_row)), "--compare"]) == 0
    assert "conditions" not in capsys.readouterr().out
