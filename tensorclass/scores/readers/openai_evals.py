"""Logs of OpenAI evals: JSON Lines with a ``spec``, an event for each step of a sample, and a ``final_report``.

Events of type ``match`` have ``data.correct``; those of type ``metrics`` have numbers and verdicts; those of type
``sampling`` the prompt and the response. Source: https://github.com/openai/evals/blob/main/docs/run-evals.md and
``evals/record.py``'s documented events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tensorclass.scores.limits import finite_number
from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.gathered_scores import GatheredScores
from tensorclass.scores.readers.lines import OnProgress, Row
from tensorclass.scores.readers.row_log import FieldError, RowReader, ScoredRow, items, mapping, text, verdict
from tensorclass.scores.readers.run import Published

__all__ = ["READER", "OpenaiEvalsReader"]

_SCORED: Final = ("match", "metrics")


class OpenaiEvalsReader(RowReader):
    """Reads logs of OpenAI evals."""

    name = "openai_evals"
    description = "a log of OpenAI evals (spec, final_report, events with sample_id)"

    def is_row(self, row: Row) -> bool:
        is_spec = {"eval_name", "base_eval", "completion_fns"} & mapping(row.get("spec")).keys()
        return bool(is_spec) or {"run_id", "event_id", "sample_id", "type", "data"} <= row.keys()

    def rows(self, head: FileHead, on_progress: OnProgress | None = None) -> Iterator[tuple[int | None, Row]]:
        """The events that score a sample, each with the spec and what was sampled for it."""
        spec: Mapping[str, Any] = {}
        sampled: dict[str, Mapping[str, Any]] = {}
        for line, row in super().rows(head, on_progress):
            spec = mapping(row.get("spec")) or spec
            if row.get("type") == "sampling":
                sampled[str(row.get("sample_id"))] = mapping(row.get("data"))
            elif row.get("type") in _SCORED:
                yield line, {**row, "spec": spec, "sampling": sampled.pop(str(row.get("sample_id")), {})}

    def scored(self, row: Row, head: FileHead) -> Iterator[ScoredRow]:
        data, spec, sampling = mapping(row.get("data")), mapping(row.get("spec")), mapping(row.get("sampling"))
        if row.get("sample_id") is None:
            raise FieldError("sample_id: expected in each event, but this one lacks it")
        values: dict[str, object] = {"accuracy": verdict(data["correct"], "correct")} if "correct" in data else {}
        if row["type"] == "metrics":
            values |= {name: one for name, one in data.items() if isinstance(one, (bool, int, float))}
        functions = items(spec.get("completion_fns"))
        response = data.get("sampled", sampling.get("sampled"))
        sampled = items(response) or []
        yield ScoredRow(
            str(row["sample_id"]),
            values,
            model=text(functions[0] if functions else None),
            task=text(spec.get("eval_name")),
            labels={name: one for name, one in data.items() if isinstance(one, str) and name == "choice"},
            prompt=_messages(data.get("prompt", sampling.get("prompt"))),
            response=text(sampled[0] if len(sampled) == 1 else response),
            target=text(data.get("expected")),
        )

    def about(self, head: FileHead, rows: Sequence[GatheredScores]) -> Mapping[str, Any]:
        report: Mapping[str, Any] = {}
        seed: object = None
        for _, row in head.rows():
            report = mapping(row.get("final_report")) or report
            seed = mapping(mapping(row.get("spec")).get("run_config")).get("seed", seed)
        figures = {name: found for name, one in report.items() if (found := finite_number(one)) is not None}
        held = rows[0].metrics()
        others = tuple(f"the final report states {name} {one:g}" for name, one in figures.items() if name not in held)
        return {
            "published": {name: Published(one) for name, one in figures.items() if name in held},
            "published_in": "the final report",
            "may_differ": True,
            "left_out": others,
            "conditions": {} if seed is None else {"seed": str(seed)},
            "notes": () if report else ("the log has no final_report: the run may not have ended",),
        }


READER = OpenaiEvalsReader()


def _messages(prompt: object) -> str | None:
    """The text of a prompt, which may be a list of messages."""
    messages = items(prompt)
    if messages is None:
        return text(prompt)
    return "\n\n".join(text(mapping(one).get("content", one)) or "" for one in messages)
