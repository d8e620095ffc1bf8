"""Results as data frames and as HTML."""

from __future__ import annotations

import sys

import pytest
import torch

from tensorclass.scores import (
    ExactMatchScoreData,
    IFEvalScoreData,
    Leaderboard,
    Run,
    compare,
    leaderboard,
    ragged,
)


def ifeval(strict: list[bool]) -> IFEvalScoreData:
    return IFEvalScoreData(
        torch.tensor(strict),
        ragged([[one] for one in strict]),
        instruction_id=torch.tensor([[0], [1], [0], [1]]),
        instruction_types=("keywords:existence", "<script>"),
        batch_size=[4],
    )


def board() -> Leaderboard:
    runs = [
        Run(model, ExactMatchScoreData(torch.arange(9) < right, batch_size=[9]), (), "test", model=model, task=task)
        for model, rights in {"<a>": (3, 4), "b": (8, 9)}.items()
        for task, right in zip(("sums", "words"), rights, strict=True)
    ]
    return leaderboard(runs)


def test_a_report_has_a_row_for_each_figure_and_group() -> None:
    frame = ifeval([True, False, True, True]).aggregate().to_pandas()
    whole = frame[frame["group"] == ""].set_index("metric")
    assert whole.loc["prompt_level_strict_acc", "value"] == 0.75
    one = frame[(frame["metric"] == "inst_level_strict_acc") & (frame["group"] == "keywords:existence")]
    assert one["value"].tolist() == [1.0]


def test_stacked_runs_have_rows_of_their_own() -> None:
    stacked = torch.stack([ExactMatchScoreData(torch.arange(4) < n, batch_size=[4]) for n in (1, 3)])
    report = stacked.aggregate()
    assert report.to_pandas()[["run", "value"]].values.tolist() == [["[0]", 0.25], ["[1]", 0.75]]
    assert report._repr_html_().count("<tr>") == 3


def test_a_comparison_has_a_row_for_each_figure_and_group() -> None:
    comparison = compare(ifeval([True, False, True, True]), ifeval([True, True, True, True]))
    frame = comparison.to_pandas()
    row = frame[frame["metric"] == "prompt_level_strict_acc"].iloc[0]
    assert (row["difference"], row["only_a"], row["only_b"], row["mcnemar_p"]) == (0.25, 0, 1, 1.0)
    assert set(frame["group"]) >= {"", "keywords:existence"}


def test_a_leaderboard_has_a_row_for_each_model_and_task() -> None:
    frame = board().to_pandas()
    assert frame["model"].tolist() == ["b"] * 4 + ["<a>"] * 4
    assert frame["task"].tolist() == ["macro", "micro", "sums", "words"] * 2


def test_results_are_tables_in_notebooks() -> None:
    report = ifeval([True, False, True, True]).aggregate()
    comparison = compare(ifeval([True, False, True, True]), ifeval([True, True, True, True]))
    for result in (report, comparison, board()):
        shown = result._repr_html_()
        assert shown.count("<table ") == shown.count("</table>") > 0
        assert "<script>" not in shown
        assert "<a>" not in shown


def test_a_leaderboard_prints_as_tables() -> None:
    shown = str(board())
    assert shown.startswith("Leaderboard: macro average of 2 tasks, exact_match, %")
    assert repr(board()) == shown


def test_the_extra_of_data_frames_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_pandas needs pandas.*tensorclass\[pandas\]"):
        board().to_pandas()
