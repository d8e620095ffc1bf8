"""The arguments of a report."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReportOptions"]


@dataclass(frozen=True)
class ReportOptions:
    """The arguments of :func:`~tensorclass.scores.html_report.write_html_report`."""

    title: str = "Evaluation scores"
    metric: str | None = None
    baseline: str | None = None
    correction: str = "holm"
    confidence: float = 0.95
    seed: int = 0
    resamples: int | None = None
    cluster: str | None = None
    texts: bool = True
    prompts: int = 200
    characters: int = 2_000
