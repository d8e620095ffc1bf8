"""Results of MMLU-Pro: a row for each question, with ``answer``, ``pred`` and ``category``, without a verdict.

An answer is right if ``pred`` is ``answer``. Where none was found in the response, ``pred`` is null: it is wrong here.
(MMLU-Pro's own summary guesses at random there.) Source: https://github.com/TIGER-AI-Lab/MMLU-Pro#readme.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.row_log import RowReader, ScoredRow, items, needed, text

__all__ = ["READER", "MmluProReader"]

_QUESTION = frozenset(("question_id", "options", "answer_index", "category"))


class MmluProReader(RowReader):
    """Reads results of MMLU-Pro."""

    name = "mmlu_pro"
    description = "results of MMLU-Pro (question_id, answer, pred)"
    default_task = "mmlu_pro"

    def is_row(self, row: Row) -> bool:
        return {"answer", "pred"} <= row.keys() and bool(_QUESTION & row.keys())

    def scored(self, row: Row, head: FileHead) -> Iterator[ScoredRow]:
        answer, pred = str(needed(row, "answer")).strip(), text(row.get("pred"))
        options, response = items(row.get("options")) or [], row.get("generated_text", row.get("model_outputs"))
        shown = [f"{chr(65 + place)}. {one}" for place, one in enumerate(options)]
        yield ScoredRow(
            text(row.get("question_id")) or str(needed(row, "question_id", "question")),
            {"acc": pred is not None and pred.strip() == answer},
            labels={"category": row.get("category")},
            prompt="\n".join([text(row.get("question")) or "", *shown]),
            response=text(pred if response is None else response),
            target=answer,
            note="no answer was found in the response; counted as wrong" if not pred else None,
        )


READER = MmluProReader()
