"""Results of WildBench: a row for each conversation, with the ``score`` from 1 to 10 that a judge gave the response.

The score is a number as text, also under ``parsed_result``; one that the judge did not give counts as missing. The
leaderboard shows scores as ``20 * (score - 5)``. Source: https://github.com/allenai/WildBench#readme.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.row_log import FieldError, RowReader, ScoredRow, mapping, needed, number, text

__all__ = ["READER", "WildBenchReader"]


class WildBenchReader(RowReader):
    """Reads results of WildBench."""

    name = "wild_bench"
    description = "results of WildBench (session_id, model_output, score)"
    default_task = "wildbench"

    def is_row(self, row: Row) -> bool:
        judged = "score" in row or "score" in mapping(row.get("parsed_result"))
        return judged and "session_id" in row and bool({"model_output", "model_test", "parsed_result"} & row.keys())

    def scored(self, row: Row, head: FileHead) -> Iterator[ScoredRow]:
        parsed = mapping(row.get("parsed_result"))
        note = None
        try:
            score = number(row.get("score", parsed.get("score")), "score")
        except FieldError:
            score, note = None, "the judge's score is no number"
        yield ScoredRow(
            str(needed(row, "session_id")),
            {"wb_score": score},
            model=text(row.get("model_test", row.get("generator", row.get("model")))),
            prompt=text(row.get("model_input", row.get("conversation_input"))),
            response=text(row.get("model_output")),
            note=note,
        )


READER = WildBenchReader()
