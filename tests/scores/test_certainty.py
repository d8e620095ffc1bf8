"""Comparisons take all prompts that both runs hold, repeats are one prompt, and no variance is not certainty."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import field
from tensorclass.cli import main
from tensorclass.scores import (
    Estimate,
    ExactMatchScoreData,
    IFEvalScoreData,
    Mean,
    PreferenceScoreData,
    Ratio,
    ScoreData,
    compare,
    metric,
    ragged,
)


class RetrievalScoreData(ScoreData):
    found: Tensor | None = field(metadata=metric(Ratio("precision", {"found": 1}, {"found": 1, "wrong": 1})))
    wrong: Tensor | None = field(metadata=metric())


class LengthScoreData(ScoreData):
    tokens: Tensor | None = field(metadata=metric(Mean(unit="tokens")))


def exact(values: Any, ids: Any = None) -> ExactMatchScoreData:
    values = torch.as_tensor(values, dtype=torch.float64)
    return ExactMatchScoreData(
        values, prompt_id=None if ids is None else torch.as_tensor(ids), batch_size=[len(values)]
    )


def same(one: Estimate, other: Estimate) -> bool:
    names = ("value", "low", "high")
    return all(getattr(one, name).item() == pytest.approx(getattr(other, name).item()) for name in names)


# --- the prompts that a comparison is about -------------------------------------------------------------------------


def retrieval() -> tuple[RetrievalScoreData, RetrievalScoreData]:
    """Both find ten things in 1,000 prompts; the second also finds 990 that are wrong."""
    found = (torch.arange(1000) < 10).double()
    return (
        RetrievalScoreData(found, torch.zeros(1000), batch_size=[1000]),
        RetrievalScoreData(found, 1 - found, batch_size=[1000]),
    )


def test_a_ratio_is_compared_on_the_prompts_that_either_run_counts() -> None:
    a, b = retrieval()
    found = compare(a, b)
    one = found["precision"]
    assert (one.a.item(), one.b.item()) == (1.0, pytest.approx(0.01))
    assert [int(count) for count in (one.prompts, one.prompts_a, one.prompts_b)] == [1000, 10, 1000]
    assert one.p_value < 1e-6
    assert one.high < -0.5
    assert "100.00 -> 1.00 %  -99.00" in str(found)
    assert str(found).splitlines()[1].endswith("10 / 1000 prompts")
    plain = found.to_dict()["metrics"][0]
    assert (plain["prompts"], plain["prompts_a"], plain["prompts_b"]) == (1000, 10, 1000)


def test_each_side_is_what_aggregate_gives_of_the_shared_prompts() -> None:
    generator = torch.Generator().manual_seed(0)

    def run(ids: Tensor) -> RetrievalScoreData:
        found, wrong = (torch.randint(0, 3, (len(ids),), generator=generator) for _ in range(2))
        return RetrievalScoreData(found, wrong, prompt_id=ids, batch_size=[len(ids)])

    a, b = run(torch.arange(40)), run(torch.randperm(50, generator=generator) + 15)
    one = compare(a, b)["precision"]
    for side, own in ((one.a, a), (one.b, b)):
        shared = own[(own.prompt_id >= 15) & (own.prompt_id < 40)]
        assert side.item() == pytest.approx(shared.aggregate()["precision"].value.item())


def test_a_difference_is_over_the_prompts_with_scores_in_both_runs() -> None:
    nan = float("nan")
    one = compare(exact([1.0, 1.0, 0.0, nan]), exact([nan, 0.0, 0.0, nan]))["exact_match"]
    assert (one.a.item(), one.b.item()) == (0.5, 0.0)
    assert [int(count) for count in (one.prompts, one.missing_a, one.missing_b)] == [2, 1, 2]
    assert one.mcnemar_p == 1


def test_a_figure_that_one_run_does_not_count_has_no_difference() -> None:
    a, _ = retrieval()
    empty = RetrievalScoreData(torch.zeros(1000), torch.zeros(1000), batch_size=[1000])
    found = compare(a, empty)
    assert found["precision"].value.isnan()
    assert "- -  p = -" in str(found)
    assert found.to_dict()["metrics"][0]["reason"] == "nothing was counted"
    assert found.to_dict()["metrics"][0]["p_value"] is None


def test_the_table_says_the_prompts_of_each_line(
    write: Callable[..., Path], log_row: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    first = [log_row(number, {"acc": float(number % 2), "acc_norm": 1.0}) for number in range(6)]
    second = [log_row(number, {"acc": 1.0, "acc_norm": None if number < 2 else 1.0}) for number in range(5)]
    logs = str(write("a.jsonl", first)), str(write("b.jsonl", second))
    assert main(["scores", *logs, "--compare", "--missing", "drop"]) == 0
    out = capsys.readouterr().out
    assert "on the 5 prompts that both hold (1 + 0 left out)" in out
    assert re.search(r"acc +5 +40\.00 +100\.00 ", out)
    assert re.search(r"acc_norm +3 \(0 \+ 2 missing\) +100\.00 +100\.00 ", out)


# --- no variance is not certainty -----------------------------------------------------------------------------------


def test_two_prompts_tell_little() -> None:
    one = compare(exact([0, 0]), exact([1, 1]))["exact_match"]
    assert (one.value.item(), one.p_value.item(), one.mcnemar_p.item()) == (1.0, 0.5, 0.5)
    assert one.low < 0 < one.high


def test_runs_that_agree_everywhere_may_differ_elsewhere() -> None:
    for values in ([1.0, 0.0, 1.0], [1.0] * 50, [0.5] * 10):
        one = compare(exact(values), exact(values))["exact_match"]
        assert (one.value.item(), one.p_value.item()) == (0.0, 1.0)
        assert one.low < -1 / len(values) < 1 / len(values) < one.high


def test_the_same_small_step_in_three_prompts_is_no_certainty() -> None:
    one = compare(exact([0.5] * 3), exact([0.6] * 3))["exact_match"]
    assert one.p_value.item() == pytest.approx(0.25)
    assert one.low < 0 < one.high


def test_ties_alone_leave_the_preference_open() -> None:
    zeros, ties = torch.zeros(10), torch.ones(10)
    report = PreferenceScoreData(zeros, ties, zeros, batch_size=[10]).aggregate()
    assert report["preference"].value.item() == 0.5
    assert report["preference"].low < 0.4 < 0.6 < report["preference"].high
    assert report["win_rate"].high > 0.25


def test_one_of_two_seeds_right_in_each_prompt_is_no_certainty() -> None:
    seeds = torch.stack([exact([1.0, 0.0, 1.0]), exact([0.0, 1.0, 0.0])])
    one = seeds.aggregate(dim=(0, 1))["exact_match"]
    assert one.value.item() == 0.5
    assert one.low < 0.3 < 0.7 < one.high


def test_figures_without_bounds_say_why_they_have_no_interval(capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (LengthScoreData(torch.full((4,), value), batch_size=[4]) for value in (100.0, 103.0))
    report, found = a.aggregate(), compare(a, b)
    assert "100 tokens  -  4 prompts, no interval: all prompts agree" in str(report)
    assert "+3 -  p = 0.12, 4 prompts, no interval: the runs differ by the same in all prompts" in str(found)
    for one in (*report.to_dict()["metrics"], *found.to_dict()["metrics"]):
        assert (one["low"], one["high"], one["interval"]) == (None, None, "none")
        assert "no variance to measure" in one["reason"]
    json.dumps(found.to_dict(), allow_nan=False)
    assert found["tokens"].p_value.item() == 0.125


def test_runs_that_are_stacked_each_have_their_reason() -> None:
    stacked = torch.stack(
        [LengthScoreData(torch.tensor(values), batch_size=[2]) for values in ([1.0, 1.0], [1.0, 2.0])]
    )
    (one,) = stacked.aggregate().to_dict()["metrics"]
    assert one["interval"] == ["none", "t"]
    assert one["reason"] == ["all prompts agree, which leaves no variance to measure", None]


# --- repeats of a prompt --------------------------------------------------------------------------------------------


def verdicts(ids: bool = True) -> IFEvalScoreData:
    generator = torch.Generator().manual_seed(3)
    rows = [torch.rand(int(width), generator=generator).round().tolist() for width in torch.arange(30) % 3 + 1]
    return IFEvalScoreData(
        torch.tensor([all(row) for row in rows]),
        ragged(rows),
        None,
        None,
        instruction_id=torch.arange(90).reshape(30, 3) % 2,
        instruction_types=("a", "b"),
        prompt_id=torch.arange(30) * 7 - 50 if ids else None,
        batch_size=[30],
    )


def test_a_run_five_times_over_has_the_intervals_of_one() -> None:
    scores = verdicts()
    once, often = scores.aggregate(), torch.cat([scores] * 5).aggregate()
    for name in once:
        assert same(once[name], often[name])
        assert (often[name].prompts.item(), often[name].count.item()) == (30, 5 * once[name].count.item())
    for group in once.groups["inst_level_strict_acc"]:
        assert same(once.groups["inst_level_strict_acc"][group], often.groups["inst_level_strict_acc"][group])
    note = "150 rows hold 30 prompts: rows of one prompt are its repeats, and pooled"
    assert often.notes == (note,)
    assert note in str(often)
    assert often.to_dict()["pooled"] == [note]
    assert once.notes == ()


def test_repeats_are_one_prompt_in_comparisons_too() -> None:
    generator = torch.Generator().manual_seed(0)
    scores, other = (exact(torch.rand(30, generator=generator).round(), range(30)) for _ in range(2))
    once = compare(scores, other)["exact_match"]
    often = compare(torch.cat([scores] * 5), torch.cat([other] * 3))
    one = often["exact_match"]
    assert (often.prompts, often.only_a, often.only_b) == (30, 0, 0)
    for name in ("a", "b", "value", "low", "high", "p_value"):
        assert getattr(one, name).item() == pytest.approx(getattr(once, name).item())
    assert [note[:23] for note in often.notes] == ["a: 150 rows hold 30 pro", "b: 90 rows hold 30 prom"]


def test_rows_without_ids_are_prompts_of_their_own() -> None:
    scores = verdicts(ids=False)
    often = torch.cat([scores] * 5).aggregate()
    assert often["prompt_level_strict_acc"].prompts.item() == 150
    assert often.notes == ()


def test_seeds_in_orders_of_their_own_are_pooled_by_prompt() -> None:
    first = exact([1.0, 1.0, 0.0, 0.0], [1, 2, 3, 4])
    second = exact([0.0, 1.0, 1.0, 0.0], [4, 1, 2, 3])
    aligned = torch.stack([first, exact([1.0, 1.0, 0.0, 0.0], [1, 2, 3, 4])]).aggregate(dim=(0, 1))["exact_match"]
    report = torch.stack([first, second]).aggregate(dim=(0, 1))
    assert same(report["exact_match"], aligned)
    assert report["exact_match"].prompts.item() == 4
    by_place = torch.stack([exact([1.0, 1.0, 0.0, 0.0]), exact([0.0, 1.0, 1.0, 0.0])]).aggregate(dim=(0, 1))
    assert by_place["exact_match"].high - by_place["exact_match"].low < aligned.high - aligned.low


def test_the_order_of_repeats_changes_no_bit() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = exact(torch.rand(60, generator=generator), torch.randint(0, 20, (60,), generator=generator))
    shuffled = scores[torch.randperm(60, generator=generator)]
    assert scores.aggregate().to_dict() == shuffled.aggregate().to_dict()


def test_each_of_several_stacked_runs_says_what_it_pooled() -> None:
    runs = torch.stack([exact([1.0, 0.0, 1.0], [1, 2, 3]), exact([1.0, 0.0, 1.0], [1, 2, 1])])
    report = runs.aggregate()
    assert report["exact_match"].prompts.tolist() == [3, 2]
    assert report.notes == ("run [1]: 3 rows hold 2 prompts: rows of one prompt are its repeats, and pooled",)


def test_the_command_says_that_rows_were_pooled(
    write: Callable[..., Path], log_row: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write("log.jsonl", [log_row(number % 4, {"acc": 1.0}) for number in range(8)])
    assert main(["scores", str(path)]) == 0
    assert "log: 8 rows hold 4 prompts: rows of one prompt are its repeats, and pooled" in capsys.readouterr().out
