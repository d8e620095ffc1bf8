"""Results as rows of plain values, one figure a row: for data frames and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tensorclass.scores.document import ComparedRuns, ScoredRun
from tensorclass.scores.estimate import Difference
from tensorclass.scores.report import Comparison, Report, difference_dict, estimate_dict, positions
from tensorclass.support.extras import require

if TYPE_CHECKING:
    from tensorclass.scores.leaderboard import Leaderboard

__all__ = ["comparison_rows", "data_frame", "leaderboard_rows", "report_rows", "scored_rows", "to_csv"]

_Row = dict[str, Any]


def report_rows(report: Report) -> Iterator[_Row]:
    """A row for each figure, then for each group of it; of stacked runs also for each ``run``, its position.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> (row,) = report_rows(ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2]).aggregate())
        >>> row["metric"], row["group"], row["value"]
        ('exact_match', '', 0.5)
    """
    return _rows(report, estimate_dict)


def comparison_rows(comparison: Comparison) -> Iterator[_Row]:
    """A row for each figure, then for each group of it; of stacked pairs also for each ``run``, its position."""

    def flat(one: Difference) -> _Row:
        plain = difference_dict(one)
        test: _Row = plain.pop("mcnemar") or {}
        return {**plain, "only_a": test.get("only_a"), "only_b": test.get("only_b"), "mcnemar_p": test.get("p_value")}

    return _rows(comparison, flat)


def _rows(found: Report | Comparison, plain: Callable[[Any], _Row]) -> Iterator[_Row]:
    for run in positions(found.batch_size):
        first: _Row = {"run": str(list(run))} if run else {}
        for name, figure in found.figures.items():
            for group, one in [("", figure), *found.groups.get(name, {}).items()]:
                yield {**first, "metric": name, "group": group, **plain(one[run] if run else one)}


def scored_rows(runs: Sequence[ScoredRun], comparisons: Sequence[ComparedRuns] = ()) -> Iterator[_Row]:
    """Rows of several runs; of their comparisons, if there are any."""
    if comparisons:
        for compared in comparisons:
            for row in comparison_rows(compared.comparison):
                yield {"run_a": compared.a, "run_b": compared.b, **row}
        return
    for one in runs:
        for row in report_rows(one.report):
            yield {"run": one.run.name, "model": one.run.model, "task": one.run.task, **row}


def leaderboard_rows(board: Leaderboard) -> Iterator[_Row]:
    """A row for each model and task; the averages are the tasks ``macro`` and ``micro``."""
    for model in board.models:
        rank = board.ranks[model]
        first: _Row = {"model": model, "rank": rank.rank, "rank_low": rank.low, "rank_high": rank.high}
        first["letters"] = board.letters[model]
        figures = {"macro": board.macro[model], "micro": board.micro[model]}
        figures |= {task: board.figures[task][model] for task in board.tasks if model in board.figures[task]}
        for task, figure in figures.items():
            yield {**first, "task": task, "metric": board.metrics.get(task, ""), **estimate_dict(figure)}


def data_frame(rows: Iterator[_Row]) -> Any:
    """Rows as a data frame of pandas.

    Raises:
        ImportError: pandas is not installed; the extra ``pandas`` has it.
    """
    return require("pandas", "pandas", "to_pandas").DataFrame(list(rows))


def to_csv(rows: Iterator[_Row]) -> str:
    """Rows as CSV (RFC 4180), all digits of each number; an empty cell where there is none.

    Example:
        >>> to_csv(iter([{"run": "a", "value": 0.1}, {"run": "b, c", "low": None}]))
        'run,value,low\\r\\na,0.1,\\r\\n"b, c",,\\r\\n'
    """
    found = list(rows)
    file = io.StringIO()
    writer = csv.DictWriter(file, list(dict.fromkeys(name for row in found for name in row)), restval="")
    writer.writeheader()
    writer.writerows({name: "" if value is None else value for name, value in row.items()} for row in found)
    return file.getvalue()
