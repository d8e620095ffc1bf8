"""Reports as JSON for machines.

The document, version ``tensorclass.scores/1``; fractions lie in 0..1 where ``unit`` is ``"%"``, a number that there is
none of is null; ``reason`` says why there is no interval, null where there is one::

    schema        "tensorclass.scores/1"
    runs          a list, in the order of the files:
      name, model, task, files, format, prompts, filter, filters, ignored, notes, left_out
      seeds (rows by seed), conditions (as the log says), expected (rows that the log says there are)
      family, confidence, seed, pooled (notes on repeats of prompts)
      metrics     a list: name, value, low, high, stderr, interval, count, prompts, unit, reason,
                  clusters (null where prompts stand for themselves), missing (verdicts that are not there)
      groups      by metric, a list: name (of the group), and the same as a metric
    comparisons   a list, empty without --compare:
      a, b        the names of the runs
      family, confidence, seed, prompts, only_a, only_b, pooled
      metrics     a list: name, a, b, difference (b - a), low, high, stderr, p_value, prompts, unit, and
                  mcnemar: null, or only_a, only_b, p_value;
                  prompts_a, prompts_b (those that count in each run), interval, test, reason,
                  detectable (the smallest difference that the prompts show: power 80 %, level 5 %), clusters,
                  missing_a, missing_b (prompts left out, since a run has no verdict)
      groups      by metric, a list: name (of the group), and the same as a metric
    leaderboard   null without --leaderboard:
      confidence, seed, correction, baseline, notes
      averaged    the tasks that the averages are over
      tasks       a list: task, metric, higher_is_better
      models      a list, the best first: model, rank, rank_low, rank_high, letters, and
                  macro, micro, tasks (by task): as a metric of a run, without the name
      differences a list: a, b, task (or "macro"), p_adjusted, low_adjusted, high_adjusted (the interval, corrected
                  likewise), and the same as a metric of a comparison
    gates         a list: condition, passed, reason

Keys may be added within a version; none is removed or changes its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tensorclass.scores.leaderboard import Leaderboard
from tensorclass.scores.readers import Run
from tensorclass.scores.report import Comparison, Report

__all__ = ["SCHEMA", "ComparedRuns", "ScoredRun", "document", "to_json"]

SCHEMA = "tensorclass.scores/1"


@dataclass(frozen=True, eq=False)
class ScoredRun:
    """A run and its figures."""

    run: Run
    report: Report


@dataclass(frozen=True, eq=False)
class ComparedRuns:
    """Two runs, by name, and their differences."""

    a: str
    b: str
    comparison: Comparison


def document(
    runs: Sequence[ScoredRun],
    comparisons: Sequence[ComparedRuns] = (),
    board: Leaderboard | None = None,
    gates: Sequence[dict[str, object]] = (),
) -> dict[str, Any]:
    """The document of a few runs, as plain Python values.

    Args:
        runs: the runs with their figures.
        comparisons: of some of them.
        board: their leaderboard.
        gates: the outcomes of conditions on the figures.
    """
    return {
        "schema": SCHEMA,
        "runs": [
            {
                "name": one.run.name,
                "model": one.run.model,
                "task": one.run.task,
                "files": list(one.run.files),
                "format": one.run.format,
                "prompts": one.run.scores.batch_size[0],
                "seeds": dict(one.run.seeds),
                "conditions": dict(one.run.conditions),
                "expected": one.run.expected,
                "filter": one.run.filter,
                "filters": one.run.filters,
                "ignored": list(one.run.ignored),
                "notes": list(one.run.notes),
                "left_out": list(one.run.left_out),
                "usage": dict(one.run.usage),
                **one.report.to_dict(),
            }
            for one in runs
        ],
        "comparisons": [{"a": one.a, "b": one.b, **one.comparison.to_dict()} for one in comparisons],
        "leaderboard": None if board is None else board.to_dict(),
        "gates": list(gates),
    }


def to_json(value: dict[str, Any]) -> str:
    """Indented JSON (RFC 8259: no NaN) in ASCII, which every output can take, ending in a newline."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"
