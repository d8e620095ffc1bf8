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
