from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
import torch

from tensorclass.scores import ExactMatchScoreData, Run, ScoreData, compare, read_runs
from tensorclass.scores.document import ComparedRuns, ScoredRun
from tensorclass.scores.plot import plot


def scored(name: str, scores: ScoreData) -> ScoredRun:
    return ScoredRun(Run(name, scores, (), "lm-eval"), scores.aggregate())


def texts(figure: object) -> str:
    from matplotlib.text import Text

    return "\n".join(found.get_text() for found in figure.findobj(Text))  # type: ignore[attr-defined]


def test_a_plot_names_runs_metrics_and_types(repository: Path) -> None:
    runs = [
        ScoredRun(run, run.scores.aggregate()) for run in read_runs(sorted((repository / "examples/data").iterdir()))
    ]
    comparison = compare(runs[0].run.scores, runs[1].run.scores)
    figure = plot(runs, ComparedRuns("synthetic-alpha", "synthetic-beta", comparison), title="Title", subtitle="Below")
    shown = texts(figure)
    for text in ("Title", "Below", "synthetic-alpha", "inst_level_loose_acc", "keywords:existence", "paired on 120"):
        assert text in shown
    buffer = BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize("count", [1, 2, 7])
def test_runs_without_types_are_drawn_too(count: int) -> None:
    runs = [scored(f"run {number}", ExactMatchScoreData(torch.ones(4), batch_size=[4])) for number in range(count)]
    figure = plot(runs)
    assert len(figure.axes) == 1
    figure.savefig(BytesIO(), format="png")


def records(*right: int) -> list[ExactMatchScoreData]:
    return [ExactMatchScoreData(torch.arange(9) < count, batch_size=[9]) for count in right]


def test_records_are_drawn_and_compared_by_name() -> None:
    shown = texts(plot(*records(3, 7), names=["before", "after"]))
    assert "after - before, points, paired on 9 prompts" in shown
    assert "before" in texts(plot(*records(3), names=["before"]))


def test_records_without_names_have_letters() -> None:
    assert "b - a, points" in texts(plot(*records(3, 7)))
    shown = texts(plot(*records(*range(9))))
    assert "points" not in shown
    assert "i" in shown.split()


def test_runs_as_they_are_read_keep_their_names(repository: Path) -> None:
    shown = texts(plot(*read_runs(sorted((repository / "examples/data").iterdir()))))
    assert "synthetic-beta - synthetic-alpha, points" in shown


def test_each_run_needs_a_name() -> None:
    with pytest.raises(ValueError, match="names: expected one for each of 2 runs, got 1: a"):
        plot(*records(3, 7), names=["a"])
    with pytest.raises(ValueError, match="runs: expected at least one, got none"):
        plot()


def test_names_of_runs_are_no_commands_and_no_formulas() -> None:
    figure = plot(*records(3, 7), names=["$a_", "b$\x1b[2J\u202e"])
    figure.savefig(BytesIO(), format="png")  # warns of characters that fonts do not have, and parses formulas
    assert "\\$a_" in texts(figure)
    assert "b\\$\\x1b[2J\\u202e" in texts(figure)
