"""Runs as one HTML page: leaderboard, tasks, comparison, breakdown, changed prompts, and what was read.

The page holds its style sheet and script and loads nothing. Text from logs is escaped, and a content security policy
keeps the browser from running any other script.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote

from tensorclass.scores.history import History
from tensorclass.scores.html_report.report_data import ReportOptions, report_data
from tensorclass.scores.html_report.report_page import report_page
from tensorclass.scores.html_report.transcript_pages import transcript_pages
from tensorclass.scores.readers import Run
from tensorclass.support.atomic import whole_file, whole_folder
from tensorclass.support.interrupts import uninterrupted

__all__ = ["write_html_report"]


def write_html_report(
    path: str | os.PathLike[str],
    runs: Iterable[Run],
    *,
    title: str = "Evaluation scores",
    metric: str | None = None,
    baseline: str | None = None,
    correction: str = "holm",
    confidence: float = 0.95,
    seed: int = 0,
    resamples: int | None = None,
    cluster: str | None = None,
    texts: bool = True,
    prompts: int = 200,
    characters: int = 2_000,
    history: History | None = None,
    transcripts: bool = False,
) -> None:
    """Write a report on runs as one HTML page, which needs no network.

    It shows the leaderboard with intervals, the figures by task and model, paired differences with p-values, all
    figures and their groups, the prompts that the models score differently with their texts, and what was read and
    left out. Tables sort and filter. The same runs give the same page.

    Args:
        path: the file to write. It appears when it is complete.
        runs: the runs, one for each model and task, as :func:`~tensorclass.scores.read_runs` reads them. If no task
            has runs of all models, the page shows their figures without a leaderboard.
        title: the heading.
        metric: the figure to rank by; by default the first one of each task.
        baseline: the model to compare the others with; by default all pairs are compared, and prompts with the best.
        correction: of p-values: ``"holm"``, ``"bh"`` or ``"none"``, as in :func:`~tensorclass.scores.leaderboard`.
        confidence: the level of the intervals.
        seed: the seed of the tests that draw.
        resamples: the number of draws; by default as in :meth:`~tensorclass.scores.ScoreData.aggregate`.
        cluster: the field whose values group prompts that aren't independent, as in ``aggregate``.
        texts: whether to show the texts of prompts and responses, which are read from the logs again.
        prompts: how many prompts that changed sides to show at most. The page says how many there are.
        characters: how long a text may be. Longer ones lose their middle, which the page says.
        transcripts: whether to write a page for each task as well, with up to 1,000 of its prompts and the responses of
            both models, into a folder beside the file: ``report_prompts`` for ``report.html``.
        history: tasks over runs, for a section of their own, as ``tensorclass.scores.history.history`` makes it.

    Raises:
        ValueError: as :func:`~tensorclass.scores.leaderboard`; ``prompts`` or ``characters`` is negative.
        OSError: the file can't be written.

    Example:
        >>> import pathlib, tempfile
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, Run, write_html_report
        >>> right = {"old": [0.0, 0, 0, 0, 1], "new": [1.0, 1, 1, 0, 1]}
        >>> runs = [
        ...     Run(model, ExactMatchScoreData(torch.tensor(one), batch_size=[5]), (), "memory", task="sums")
        ...     for model, one in right.items()
        ... ]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = pathlib.Path(folder, "report.html")
        ...     write_html_report(page, runs, title="Sums")
        ...     "<h1>Sums</h1>" in page.read_text(encoding="utf-8")
        True
    """
    for name, value in (("prompts", prompts), ("characters", characters)):
        if value < 0:
            raise ValueError(f"{name}: expected a number of at least 0, got {value}")
    folder = Path(path).with_name(f"{Path(path).stem}_prompts")
    options = ReportOptions(
        title=title,
        metric=metric,
        baseline=baseline,
        correction=correction,
        settings={"seed": seed, "resamples": resamples, "confidence": confidence},
        cluster=cluster,
        texts=texts,
        prompts=prompts,
        characters=characters,
        history=history,
        pages=quote(folder.name) if transcripts else None,
    )
    data = report_data(list(runs), options)
    content = report_page(data).encode("utf-8")
    pages = transcript_pages(data, f"../{quote(Path(path).name)}") if transcripts else {}
    if pages:
        with uninterrupted() as section, whole_folder(folder) as drafts, section.interruptible():
            for name, page in pages.items():
                (drafts / name).write_text(page, encoding="utf-8")
    with uninterrupted() as section, whole_file(path) as file, section.interruptible():
        file.write(content)
