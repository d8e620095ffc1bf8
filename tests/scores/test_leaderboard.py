from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tensorclass import field
from tensorclass.cli import main
from tensorclass.scores import (
    BattleScoreData,
    ExactMatchScoreData,
    Mean,
    Quantile,
    Run,
    ScoreData,
    compare,
    leaderboard,
    metric,
)


class TimedScoreData(ScoreData):
    acc: Tensor | None
    seconds: Tensor | None = field(default=None, metadata=metric(Mean(unit="s")))


def verdicts(right: int, of: int, shift: int = 0) -> Tensor:
    return torch.roll((torch.arange(of) < right).double(), shift)


def run(model: str, task: str | None, scores: Tensor | ScoreData, **changes: object) -> Run:
    if isinstance(scores, Tensor):
        ids = torch.arange(len(scores))
        scores = ExactMatchScoreData(scores, prompt_id=ids, batch_size=[len(scores)])
    return Run(f"{model}/{task}", scores, (f"{model}/{task}.jsonl",), "test", model=model, task=task, **changes)  # type: ignore[arg-type]


RIGHT = {"sums": {"old": 20, "new": 60, "newer": 65}, "words": {"old": 50, "new": 52, "newer": 60}}
OF = {"sums": 100, "words": 80}


def runs(right: Mapping[str, Mapping[str, int]] = RIGHT) -> list[Run]:
    return [run(model, task, verdicts(count, OF[task])) for task, own in right.items() for model, count in own.items()]


def test_models_are_ranked_by_the_mean_over_tasks() -> None:
    board = leaderboard(runs())
    assert board.models == ("newer", "new", "old")
    assert board.tasks == ("sums", "words")
    assert board.macro["newer"].value.item() == pytest.approx((0.65 + 60 / 80) / 2)
    assert board.micro["newer"].value.item() == pytest.approx(125 / 180)
    assert board.figures["sums"]["old"].value.item() == 0.2
    assert board.ranks["old"].rank == 3
    assert board.ranks["newer"].low == 1
    assert board.ranks["newer"].rank == 1
    assert not set(board.letters["old"]) & set(board.letters["newer"])


def test_figures_are_those_of_aggregate_and_differences_those_of_compare() -> None:
    given = runs()
    board = leaderboard(given, baseline="old", correction="none")
    scores = {(one.model, one.task): one.scores for one in given}
    for task in board.tasks:
        for model in board.models:
            expected = scores[model, task].aggregate()["exact_match"]
            found = board.figures[task][model]
            assert (found.low, found.high, found.stderr) == (expected.low, expected.high, expected.stderr)
    by_task = {(one.b, one.task): one for one in board.differences}
    assert set(by_task) == {(model, task) for model in ("new", "newer") for task in ("macro", "sums", "words")}
    for model in ("new", "newer"):
        for task in board.tasks:
            expected_difference = compare(scores["old", task], scores[model, task])["exact_match"]
            found_difference = by_task[model, task].difference
            assert found_difference.value == expected_difference.value
            assert found_difference.p_value == expected_difference.p_value
            assert found_difference.low == expected_difference.low
            assert by_task[model, task].p_adjusted == expected_difference.p_value


def test_one_task_is_its_own_average() -> None:
    board = leaderboard([one for one in runs() if one.task == "sums"])
    for model in board.models:
        assert board.macro[model].low == board.figures["sums"][model].low
        assert board.micro[model].high == board.figures["sums"][model].high
    macro, task = (
        [one for one in board.differences if (one.task == "macro") == is_macro] for is_macro in (True, False)
    )
    assert [one.difference.p_value.item() for one in macro] == [one.difference.p_value.item() for one in task]


def test_corrections_raise_p_values() -> None:
    adjusted = {
        correction: [one.p_adjusted for one in leaderboard(runs(), correction=correction).differences]
        for correction in ("none", "bh", "holm")
    }
    for plain, bh, holm in zip(*adjusted.values(), strict=True):
        assert plain <= bh <= holm
    assert adjusted["none"] != adjusted["holm"]


def test_the_order_of_runs_changes_no_figure() -> None:
    first, second = leaderboard(runs()).to_dict(), leaderboard(runs()[::-1]).to_dict()
    assert first["models"][0]["macro"] == second["models"][0]["macro"]
    assert [one["model"] for one in first["models"]] == [one["model"] for one in second["models"]]


def test_lower_can_be_better() -> None:
    def timed(model: str, seconds: float) -> Run:
        values = torch.full((30,), seconds).double() + torch.arange(30) / 100
        scores = TimedScoreData(None, values, prompt_id=torch.arange(30), batch_size=[30])
        return run(model, "speed", scores, higher_is_better={"seconds": False})

    board = leaderboard([timed("slow", 3.0), timed("fast", 1.0)])
    assert board.models == ("fast", "slow")
    assert board.higher_is_better == {"speed": False}
    assert [str(board.ranks[model]) for model in board.models] == ["1 [1, 1]", "2 [2, 2]"]


def test_averages_are_over_tasks_of_one_unit_that_all_models_have() -> None:
    given = runs()
    given.append(run("old", "rare", verdicts(3, 10)))
    for model in ("old", "new", "newer"):
        scores = TimedScoreData(None, torch.rand(9).double(), prompt_id=torch.arange(9), batch_size=[9])
        given.append(run(model, "speed", scores))
    board = leaderboard(given)
    assert board.tasks == ("sums", "words", "rare", "speed")
    assert board.averaged == ("sums", "words")
    assert set(board.figures["rare"]) == {"old"}
    assert board.notes == (
        "rare: not in the averages, since there is no run of new, newer",
        "speed: not in the averages, since its unit is 's' and not '%'",
    )


def test_the_metric_can_be_chosen() -> None:
    scores = {
        model: TimedScoreData(verdicts(n, 9), torch.full((9,), float(n)).double(), batch_size=[9])
        for model, n in (("a", 2), ("b", 7))
    }
    given = [run(model, "sums", one) for model, one in scores.items()]
    assert leaderboard(given).metrics == {"sums": "acc"}
    board = leaderboard(given, metric="seconds")
    assert board.metrics == {"sums": "seconds"}
    assert board.macro["b"].value.item() == 7.0


def test_a_task_without_the_metric_is_named() -> None:
    timed = [
        run(model, "speed", TimedScoreData(verdicts(4, 9), None, batch_size=[9])) for model in ("old", "new", "newer")
    ]
    board = leaderboard([*runs(), *timed], metric="exact_match")
    assert board.tasks == ("sums", "words")
    assert board.notes == ("speed: left out, since not all of its runs have exact_match",)
    with pytest.raises(ValueError, match="metric: expected 'f1', got a task without it: sums, words, speed"):
        leaderboard([*runs(), *timed], metric="f1")


def test_a_run_of_unknown_task_goes_with_its_family() -> None:
    known = run("old", "sums", verdicts(3, 10))
    unknown = run("new", None, verdicts(9, 10))
    assert leaderboard([known, unknown]).tasks == ("sums",)
    assert leaderboard([unknown]).tasks == ("ExactMatch",)


def test_different_prompts_are_said() -> None:
    board = leaderboard([run("old", "sums", verdicts(3, 10)), run("new", "sums", verdicts(9, 12))])
    assert board.notes == (
        "sums: figures are over 10 of 12 prompts, of which all models have a verdict; missing are 2 of old",
    )
    assert board.differences[0].difference.prompts == 10


def test_a_model_that_counts_nothing_is_last_and_differs_from_none() -> None:
    nothing = run("empty", "sums", torch.full((100,), float("nan")).double())
    board = leaderboard([nothing, *(one for one in runs() if one.task == "sums")])
    assert board.models[-1] == "empty"
    assert str(board.ranks["empty"]) == "4 [1, 4]"
    assert isnan(board.macro["empty"].value.item())
    assert isnan(next(one.p_adjusted for one in board.differences if "empty" in (one.a, one.b)))


@pytest.mark.parametrize(
    "given, options, message",
    [
        ([], {}, "runs: expected at least one run"),
        (runs() + runs()[:1], {}, "two of 'old' on 'sums': old/sums.jsonl and old/sums.jsonl"),
        (runs(), {"baseline": "other"}, "baseline: expected one of the models old, new, newer, got 'other'"),
        (runs(), {"correction": "bonferroni"}, "correction: expected 'holm', 'bh', 'none', got 'bonferroni'"),
        ([runs()[0], runs()[4]], {}, "expected a task that all models have, got none"),
    ],
)
def test_what_is_wrong_is_said(given: list[Run], options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leaderboard(given, **options)  # type: ignore[arg-type]


def test_runs_without_a_common_prompt_are_an_error() -> None:
    other = ExactMatchScoreData(verdicts(3, 5), prompt_id=torch.arange(100, 105), batch_size=[5])
    with pytest.raises(ValueError, match="sums: old and new: prompt_id: expected prompts that both runs hold"):
        leaderboard([run("old", "sums", verdicts(3, 10)), run("new", "sums", other)], baseline="old")


class LatencyScoreData(ScoreData):
    seconds: Tensor | None = field(default=None, metadata=metric(Quantile(0.5, unit="s")))


def latency(model: str, task: str, base: float) -> Run:
    values = base + torch.arange(40) / 100
    scores = LatencyScoreData(values.double(), prompt_id=torch.arange(40), batch_size=[40])
    return run(model, task, scores, higher_is_better={"seconds_p50": False})


def test_figures_that_are_no_ratio_of_sums_are_ranked_and_averaged() -> None:
    given = [latency(model, task, base) for model, base in (("slow", 3.0), ("fast", 1.0)) for task in ("a", "b")]
    board = leaderboard(given)
    assert board.models == ("fast", "slow")
    assert board.macro["fast"].value.item() == pytest.approx(1.195)
    assert board.macro["fast"].interval == "normal"
    (macro, *by_task) = board.differences
    assert macro.difference.value.item() == pytest.approx(2.0)
    assert macro.difference.prompts == 80
    assert (macro.difference.low < 2.0 < macro.difference.high) or macro.difference.stderr == 0
    assert len(by_task) == 2
    one = leaderboard([run for run in given if run.task == "a"])
    expected = given[2].scores.aggregate()["seconds_p50"]
    assert one.macro["fast"].low == expected.low


def test_battles_are_ranked_by_themselves() -> None:
    models = torch.tensor([0, 1, 1], dtype=torch.int32), torch.tensor([1, 0, 0], dtype=torch.int32)
    scores = BattleScoreData(*models, torch.tensor([1.0, 0.0, 0.5]), models=("a", "b"), batch_size=[3])
    with pytest.raises(ValueError, match="battles rate their models by themselves: leave the leaderboard out"):
        leaderboard([Run("arena", scores, (), "arena", task="arena")])


def test_a_report_of_battles_has_their_ratings(write: Callable[..., Path], tmp_path: Path) -> None:
    outcomes = ("model_a", "model_b", "tie", "model_a", "model_a")
    rows = [
        {"question_id": n, "model_a": "x", "model_b": "<y>", "winner": winner, "judge": "j", "turn": 1}
        for n, winner in enumerate(outcomes)
    ]
    page = tmp_path / "report.html"
    assert main(["scores", str(write("arena.jsonl", rows)), "--report", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert "elo" in text
    assert "&lt;y&gt;" in text
    assert "<y>" not in text
