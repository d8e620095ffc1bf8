"""Results of promptfoo: ``promptfoo eval -o results.json``, or ``.jsonl`` with a result on each line.

``results.results`` (``results`` of older versions) has a result for each test, prompt and provider, with ``success``,
``score``, ``vars``, ``response``, ``latencyMs`` and ``cost``. Each provider is a model; prompts, if there are several,
are told apart by their labels. Source: https://www.promptfoo.dev/docs/configuration/reference/ (EvaluateSummary,
versions 2 and 3).
"""

from __future__ import annotations

from collections.abc import Iterator

from typing_extensions import TypedDict

from tensorclass.scores.limits import finite_number
from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.json_document import read_document
from tensorclass.scores.readers.lines import OnProgress, Row
from tensorclass.scores.readers.row_log import FieldError, RowReader, ScoredRow, mapping, number, text, verdict
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "PromptfooReader"]


class _Summary(TypedDict, total=False):
    results: list[dict[str, object]]


class _Nested(TypedDict, total=False):
    results: _Summary | list[dict[str, object]]


class PromptfooReader(RowReader):
    """Reads results of promptfoo."""

    name = "promptfoo"
    description = "results of promptfoo (results with success, score, provider)"
    default_task = "promptfoo"

    def recognises(self, head: FileHead) -> bool:
        document = "results" in head.keys and bool({"evalId", "shareableUrl", "stats", "table"} & head.keys)
        return document or super().recognises(head)

    def is_row(self, row: Row) -> bool:
        return "success" in row and "provider" in row and bool({"testIdx", "gradingResult", "vars"} & row.keys())

    def rows(self, head: FileHead, on_progress: OnProgress | None = None) -> Iterator[tuple[int | None, Row]]:
        if "results" not in head.keys:
            yield from super().rows(head, on_progress)
            return
        found = read_document(head.location, _Nested, str(head.path)).get("results", [])
        results = found if isinstance(found, list) else found.get("results", [])
        if not results:
            raise ScoreFileError(str(head.path), None, "results: expected the results of at least one test, got none")
        labels = {str(_prompt(row)) for row in results}
        for row in results:
            yield None, {**row, "_several": len(labels) > 1}

    def scored(self, row: Row, head: FileHead) -> Iterator[ScoredRow]:
        provider, response, test = row.get("provider"), mapping(row.get("response")), mapping(row.get("testCase"))
        passed = verdict(row.get("success"), "success")
        if passed is None:
            raise FieldError("success: expected true or false in each result, got null")
        usage = mapping(row.get("tokenUsage") or response.get("tokenUsage"))
        latency = finite_number(row.get("latencyMs"))
        variables: object = row.get("vars") or test.get("vars")
        described: list[object] = [test.get("description", row.get("description")), variables, test.get("assert")]
        model = text(mapping(provider).get("label") or mapping(provider).get("id") or provider)
        yield ScoredRow(
            text(described) or "",
            {"pass": passed, "score": number(row.get("score"), "score")},
            model=f"{model}, {_prompt(row)}" if row.get("_several") else model,
            prompt=text(mapping(row.get("prompt")).get("raw") or row.get("prompt")),
            response=text(response.get("output", response.get("error", row.get("error")))),
            usage={
                "cost": row.get("cost", response.get("cost")),
                "tokens": usage.get("total"),
                "seconds": None if latency is None else latency / 1000,
            },
            note=None if row.get("failureReason") != 2 else "ended with an error; counted as failed",
        )


READER = PromptfooReader()


def _prompt(row: Row) -> str:
    """The label of a result's prompt template."""
    prompt = mapping(row.get("prompt"))
    return text(row.get("promptIdx")) or text(prompt.get("label")) or text(row.get("promptId")) or ""
