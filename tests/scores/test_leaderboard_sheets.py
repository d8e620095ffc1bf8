from __future__ import annotations

import torch

from tensorclass.scores import ExactMatchScoreData, Run, leaderboard
from tensorclass.scores.leaderboard_sheets import leaderboard_sheets
from tensorclass.scores.sheet import Sheet


def sheets(rights: dict[str, dict[str, int]], **options: str) -> list[Sheet | str]:
    runs = [
        Run(model, ExactMatchScoreData(torch.arange(60) < right, batch_size=[60]), (), "test", model=model, task=task)
        for task, own in rights.items()
        for model, right in own.items()
    ]
    return list(leaderboard_sheets(leaderboard(runs, **options)))  # type: ignore[arg-type]


def titled(found: list[Sheet | str], start: str) -> Sheet:
    return next(one for one in found if isinstance(one, Sheet) and one.title.startswith(start))


def test_all_pairs_are_told_from_the_better_side() -> None:
    pairs = titled(sheets({"sums": {"bad": 10, "good": 50, "best": 55}}), "Differences on sums")
    assert [row.cells[:3] for row in pairs.rows] == [
        ("best", "good", "+8.33"),
        ("best", "bad", "+75.00"),
        ("good", "bad", "+66.67"),
    ]


def test_only_significant_differences_are_coloured() -> None:
    found = sheets({"sums": {"old": 30, "same": 31, "worse": 5, "better": 55}}, baseline="old")
    styles = {row.cells[0]: row.styles[1] for row in titled(found, "Differences on sums to old").rows}
    assert styles == {"better": "good", "same": "", "worse": "bad"}


def test_the_best_model_of_a_task_stands_out() -> None:
    tasks = titled(sheets({"sums": {"a": 30, "b": 31}, "words": {"a": 9, "b": 9}}), "exact_match, task by task")
    assert [(row.cells[0], sorted(row.styles)) for row in tasks.rows] == [("sums", [1]), ("words", [1, 2])]


def test_many_pairs_are_counted_instead() -> None:
    found = sheets({"sums": {f"model-{place}": 20 + place for place in range(12)}})
    assert "66 differences on sums are not shown: --format json and --format csv have them" in found


def test_a_single_model_has_no_differences() -> None:
    assert len(sheets({"sums": {"a": 30}})) == 1
