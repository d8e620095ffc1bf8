"""Results of math-evaluation-harness: a row for each problem, with a list of answers and a list of verdicts.

A row has ``idx``, ``question``, ``gt``, ``code`` (the responses), ``pred`` (the answers found in them) and ``score``.
Several verdicts are repeats of the problem. ``X_metrics.json`` beside it has the accuracy in percent. Source:
https://github.com/ZubinGou/math-evaluation-harness#readme.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.json_document import document_beside
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.row_log import FieldError, RowReader, ScoredRow, items, needed, text, verdict

__all__ = ["READER", "MathHarnessReader"]


class _Metrics(TypedDict, total=False):
    acc: float


class MathHarnessReader(RowReader):
    """Reads results of math-evaluation-harness."""

    name = "math_harness"
    description = "results of math-evaluation-harness (idx, gt, pred, score)"
    companions: Sequence[str] = ("*_metrics.json",)

    def is_row(self, row: Row) -> bool:
        return (
            {"pred", "score"} <= row.keys() and bool({"gt", "answer"} & row.keys()) and items(row["score"]) is not None
        )

    def scored(self, row: Row, head: FileHead) -> Iterator[ScoredRow]:
        scores, answers = items(needed(row, "score")), row.get("code", row.get("pred"))
        if not scores:
            raise FieldError("score: expected the verdict of each answer in a list, got none")
        responses = items(answers)
        if responses is None or len(responses) != len(scores):
            responses = [answers] * len(scores)
        for score, response in zip(scores, responses, strict=True):
            yield ScoredRow(
                f"{needed(row, 'idx', 'question')}",
                {"acc": verdict(score, "score")},
                labels={key: row[key] for key in ("level", "type", "subject") if key in row},
                prompt=text(row.get("question")),
                response=text(response),
                target=text(row.get("gt", row.get("answer"))),
            )

    def about(self, head: FileHead, rows: Sequence[GatheredScores]) -> Mapping[str, Any]:
        stem = head.name.removesuffix(".jsonl").removesuffix(".json")
        found = document_beside(head.path, f"{stem}_metrics.json", _Metrics)
        if found is None or "acc" not in found[1]:
            return {}
        said = f"{found[0].name} says acc {found[1]['acc']:g} %, by the first answer to each problem"
        return {"beside": [found[0]], "left_out": (said,)}


READER = MathHarnessReader()
