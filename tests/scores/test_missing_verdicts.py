"""Missing verdicts: pairs are over prompts that both have; missing ones are counted, and refused by default."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tensorclass.cli import main
from tensorclass.scores import ExactMatchScoreData, MacroF1, Mean, Ratio, Run, ScoreData, compare, leaderboard, metric
from tensorclass.scores.missing_verdicts import MissingVerdictsError, settle_missing

Write = Callable[..., Path]

NAN = float("nan")


def run_of(name: str, verdicts: list[float], ids: list[int] | None = None) -> Run:
    numbers = torch.arange(len(verdicts)) if ids is None else torch.tensor(ids)
    scores = ExactMatchScoreData(torch.tensor(verdicts), prompt_id=numbers, batch_size=[len(verdicts)])
    return Run(name, scores, (), "memory", task="sums")


A = [1.0] * 50 + [0.0] * 50
B = [1.0] * 50 + [NAN] * 50
"""The models agree on every prompt that both scored."""


def test_a_difference_is_over_prompts_that_both_have() -> None:
    one = compare(run_of("a", A).scores, run_of("b", B).scores)["exact_match"]
    assert one.value.item() == 0
    assert one.p_value.item() == 1
    assert (one.prompts.item(), one.missing_a.item(), one.missing_b.item()) == (50, 0, 50)


def test_the_leaderboard_is_over_the_same_prompts_for_all() -> None:
    board = leaderboard([run_of("a", A), run_of("b", B)])
    assert {model: one.value.item() for model, one in board.macro.items()} == {"a": 1.0, "b": 1.0}
    assert {model: one.missing.item() for model, one in board.macro.items()} == {"a": 0, "b": 50}
    assert board.letters["a"] == board.letters["b"]
    assert board.notes == (
        "sums: figures are over 50 of 100 prompts, of which all models have a verdict; missing are 50 of b",
    )
    assert board.to_dict()["models"][1]["macro"]["missing"] == 50
    assert board.to_dict()["differences"][0]["missing_b"] == 50


def test_a_figure_counts_what_it_lacks() -> None:
    one = run_of("b", B).scores.aggregate()["exact_match"]
    assert (one.value.item(), one.prompts.item(), one.missing.item()) == (1.0, 50, 50)


def test_repeats_that_are_missing_are_counted_and_their_prompt_is_kept() -> None:
    scores = run_of("a", [1.0, NAN, 0.0, 1.0], [1, 1, 2, 2]).scores
    one = scores.aggregate()["exact_match"]
    assert (one.prompts.item(), one.count.item(), one.missing.item()) == (2, 3, 1)
    assert compare(scores, scores)["exact_match"].prompts.item() == 2


def test_groups_are_paired_as_well() -> None:
    from tensorclass import field
    from tensorclass.scores import codes

    class BySubject(ScoreData):
        acc: torch.Tensor | None = field(default=None, metadata=metric(Mean(by="subject")))
        subject: torch.Tensor | None = field(default=None, metadata=codes("subjects"))
        subjects: tuple[str, ...] | None = None

    def of(right: list[float]) -> BySubject:
        return BySubject(torch.tensor(right), torch.tensor([0, 0, 1, 1]), ("law", "art"), batch_size=[4])

    found = compare(of([1.0, 0.0, 1.0, 1.0]), of([1.0, NAN, 1.0, 0.0])).groups["acc"]
    assert (found["law"].value.item(), found["law"].prompts.item()) == (0.0, 1)
    assert found["art"].value.item() == -0.5


def test_figures_that_are_no_ratio_are_paired_as_well() -> None:
    from tensorclass import field

    class Classes(ScoreData):
        predicted: torch.Tensor | None = field(default=None, metadata=metric(MacroF1(target="target")))
        target: torch.Tensor | None = field(default=None, metadata=metric())

    target = torch.tensor([0.0, 1.0] * 10)
    wrong_at_the_end = torch.cat([target[:10], 1 - target[10:]])
    unscored = torch.cat([target[:10], torch.full((10,), NAN)])
    a, b = (Classes(one, target, batch_size=[20]) for one in (wrong_at_the_end, unscored))
    one = compare(a, b)["macro_f1"]
    assert (one.value.item(), one.prompts.item(), one.missing_b.item()) == (0.0, 10, 10)


def test_a_prompt_that_counts_nothing_by_its_nature_is_not_missing() -> None:
    from tensorclass import field

    class Found(ScoreData):
        found: torch.Tensor | None = field(default=None, metadata=metric(Ratio("precision", {"found": 1}, {"said": 1})))
        said: torch.Tensor | None = field(default=None, metadata=metric())

    a = Found(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 0.0]), batch_size=[2])
    b = Found(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0]), batch_size=[2])
    one = compare(a, b)["precision"]
    assert (one.a.item(), one.b.item(), one.prompts.item()) == (1.0, pytest.approx(2 / 3), 2)
    assert one.missing_a.item() == 0


# --- the rule -------------------------------------------------------------------------------------------------------


def test_more_than_one_percent_is_an_error_that_names_the_options() -> None:
    expected = re.escape("b, sums: 50 of 100 verdicts of exact_match are missing (50.00 %), more than --max-missing 1%")
    with pytest.raises(MissingVerdictsError, match=expected) as error:
        settle_missing([run_of("a", A), run_of("b", B)])
    assert "--missing wrong" in str(error.value)
    assert "--missing drop" in str(error.value)


def test_as_many_as_may_be_are_noted() -> None:
    (run,) = settle_missing([run_of("a", [1.0] * 99 + [NAN])])
    assert run.notes == ("1 of 100 verdicts of exact_match is missing (1.00 %), and left out",)


def test_wrong_counts_them_as_wrong() -> None:
    a, b = settle_missing([run_of("a", A), run_of("b", B)], "wrong")
    one = compare(a.scores, b.scores)["exact_match"]
    assert (one.value.item(), one.prompts.item(), one.missing_b.item()) == (0.0, 100, 0)
    assert b.scores.aggregate()["exact_match"].value.item() == 0.5


def test_wrong_is_1_where_less_is_better() -> None:
    run = replace(run_of("a", [0.0, NAN]), higher_is_better={"exact_match": False})
    (found,) = settle_missing([run], "wrong")
    assert found.scores.exact_match.tolist() == [0.0, 1.0]


def test_a_figure_that_is_no_share_has_no_wrong_answer() -> None:
    from tensorclass import field

    class Tokens(ScoreData):
        tokens: torch.Tensor | None = field(default=None, metadata=metric(Mean(unit="tokens")))

    run = Run("a", Tokens(torch.tensor([3.0, NAN]), batch_size=[2]), (), "memory")
    with pytest.raises(ValueError, match="tokens is no share of right answers; use drop"):
        settle_missing([run], "wrong")


def test_prompts_that_only_other_runs_have_are_missing() -> None:
    runs = [run_of("a", [1.0, 0.0, 1.0, 0.0]), run_of("b", [1.0, 1.0])]
    expected = r"b, sums: 2 of 4 verdicts of exact_match are missing, 2 of them whole prompts \(50.00 %\)"
    with pytest.raises(MissingVerdictsError, match=expected):
        settle_missing(runs)
    assert settle_missing(runs, is_compared=False)[1].notes == ()
    _, counted = settle_missing(runs, "wrong")
    assert sorted(zip(counted.scores.prompt_id.tolist(), counted.scores.exact_match.tolist(), strict=True)) == [
        (0, 1.0),
        (1, 1.0),
        (2, 0.0),
        (3, 0.0),
    ]


def test_prompts_of_runs_with_other_metrics_or_repeats_can_only_be_left_out() -> None:
    class Other(ScoreData):
        exact_match: torch.Tensor | None = None

    short = run_of("b", [1.0, 1.0])
    other = Run("a", Other(torch.ones(4), prompt_id=torch.arange(4), batch_size=[4]), (), "memory", task="sums")
    with pytest.raises(ValueError, match="--missing wrong: b and a have other metrics; use --missing drop"):
        settle_missing([other, short], "wrong")
    unfinished = replace(short, expected=10)
    with pytest.raises(ValueError, match="8 prompts are missing, of which the other runs hold 2; use --missing drop"):
        settle_missing([run_of("a", [1.0] * 4), unfinished], "wrong")
    assert [len(run.scores) for run in settle_missing([other, unfinished], "drop")] == [4, 2]


def test_models_without_a_prompt_that_all_answered_are_an_error() -> None:
    runs = settle_missing([run_of("a", [1.0, NAN]), run_of("b", [NAN, 1.0])], "drop")
    with pytest.raises(ValueError, match="sums: no prompt has a verdict of all models; leave some of the models out"):
        leaderboard(runs)


def test_one_value_for_all_repeats_of_a_prompt_is_not_missing_in_the_others() -> None:
    class Reduced(ScoreData):
        match: torch.Tensor | None = None
        at_least_one: torch.Tensor | None = None

    scores = Reduced(
        torch.tensor([1.0, 0.0, 0.0, 0.0]),
        torch.tensor([1.0, NAN, 0.0, NAN]),
        prompt_id=torch.tensor([1, 1, 2, 2]),
        batch_size=[4],
    )
    (run,) = settle_missing([Run("a", scores, (), "memory")])
    assert run.notes == ()


def test_an_unknown_rule_is_an_error() -> None:
    with pytest.raises(ValueError, match="missing: expected 'error', 'wrong', 'drop', got 'ignore'"):
        settle_missing([run_of("a", A)], "ignore")


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def unscored(write: Write, log_row: Callable[..., dict[str, Any]]) -> Path:
    """Logs of two models, of one of which 60 of 400 rows are null, the wrong ones."""
    for model in ("A", "B"):
        rows = [log_row(n, {"acc": float(n % 10 < 6)}) for n in range(400)]
        for row in rows[:150]:
            if model == "B" and row["acc"] == 0:
                row["acc"] = None
        path = write(f"runs/{model}/samples_arc_2026-01-31T10-20-30.123456.jsonl", rows)
    return path.parent.parent


def test_the_command_refuses_missing_verdicts(unscored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options in (["--leaderboard"], ["--compare"], [], ["--fail-if-worse-than", "A"], ["--report", "no.html"]):
        assert main(["scores", str(unscored), *options]) == 2
        err = capsys.readouterr().err
        assert "B/arc, arc: 60 of 400 verdicts of acc are missing (15.00 %), more than --max-missing 1%" in err
    assert not Path("no.html").exists()


@pytest.mark.parametrize("option, figure, missing", [("drop", "70.59", 60), ("wrong", "60.00", 0)])
def test_the_command_takes_the_options_that_the_message_names(
    unscored: Path, capsys: pytest.CaptureFixture[str], option: str, figure: str, missing: int
) -> None:
    assert main(["scores", str(unscored), "--leaderboard", "--missing", option]) == 0
    out = capsys.readouterr().out
    assert len(re.findall(rf"^[AB] +\d +1 to 2 +{figure} ", out, re.MULTILINE)) == 2
    assert (
        f"60 of 400 verdicts of acc are missing (15.00 %), and {'left out' if missing else 'counted as wrong'}" in out
    )
    assert main(["scores", str(unscored), "--compare", "--missing", option, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["comparisons"][0]["metrics"]
    assert (one["difference"], one["missing_b"]) == (0.0, missing)


def test_the_share_that_may_be_missing_is_an_option(unscored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scores", str(unscored), "--leaderboard", "--max-missing", "15%"]) == 0
    assert re.search(r"^B +\d .* 340 +60$", capsys.readouterr().out, re.MULTILINE)
