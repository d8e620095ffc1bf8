"""Results of LiveCodeBench: ``*_eval_all.json``, a row for each problem with the verdicts of its samples.

A row has ``question_id``, ``difficulty``, ``contest_date``, ``code_list`` and ``graded_list``. The file ``*_eval.json``
beside it holds figures only. Source: https://github.com/LiveCodeBench/LiveCodeBench#readme.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.row_log import FieldError, RowReader, ScoredRow, items, needed, text, verdict

__all__ = ["READER", "LiveCodeBenchReader"]


class LiveCodeBenchReader(RowReader):
    """Reads results of LiveCodeBench."""

    name = "live_code_bench"
    description = "results of LiveCodeBench (question_id, graded_list)"
    companions: Sequence[str] = ("*_eval.json", "Scenario.*.json")
    counts_samples = True
    default_task = "livecodebench"

    def is_row(self, row: Row) -> bool:
        return "graded_list" in row

    def scored(self, row: Row, head: FileHead) -> Iterator[ScoredRow]:
        graded = items(needed(row, "graded_list"))
        codes = items(row.get("code_list", row.get("pred_list", row.get("output_list")))) or []
        if not graded:
            raise FieldError("graded_list: expected the verdicts of the samples in a list")
        problem = "/".join(str(row[key]) for key in ("question_id", "id", "test_id") if row.get(key) is not None)
        for place, one in enumerate(graded):
            yield ScoredRow(
                problem or str(needed(row, "question_id", "question_title", "question_content")),
                {"passed": verdict(one, "graded_list")},
                prompt=text(row.get("question_content")),
                response=text(codes[place]) if place < len(codes) else None,
            )


READER = LiveCodeBenchReader()
