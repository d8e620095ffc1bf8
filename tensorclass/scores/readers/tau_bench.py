"""Results of tau-bench and of tau2-bench: a row for each trial of a task, with its ``reward``.

tau-bench writes an array of ``task_id``, ``trial``, ``reward``, ``info`` and ``traj``; tau2-bench a document whose
``simulations`` have ``task_id``, ``trial`` and ``reward_info``. A trial is right if its reward is 1. Source:
https://github.com/sierra-research/tau-bench#readme, Yao et al., 2024, arXiv 2406.12045;
https://github.com/sierra-research/tau2-bench#readme.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from typing_extensions import TypedDict

from tensorclass.scores.families import PassHatKScoreData
from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.json_document import read_document
from tensorclass.scores.readers.lines import OnProgress, Row
from tensorclass.scores.readers.row_log import RowReader, ScoredRow, mapping, needed, number, text
from tensorclass.scores.score_data import ScoreData

__all__ = ["READER", "TauBenchReader"]

_DOMAIN: Final = re.compile(r"(?<![a-z])(airline|retail|telecom|mock)(?![a-z])")
_ROUNDING: Final = 1e-6  # as in tau-bench


class _Tau2(TypedDict, total=False):
    info: dict[str, object] | None
    simulations: list[dict[str, object]]


class TauBenchReader(RowReader):
    """Reads results of tau-bench."""

    name = "tau_bench"
    description = "results of tau-bench (task_id, trial, reward; or simulations)"
    family: type[ScoreData] | None = PassHatKScoreData
    counts_samples = True
    default_task = "tau-bench"

    def recognises(self, head: FileHead) -> bool:
        return super().recognises(head) or {"simulations", "tasks"} <= head.keys

    def is_row(self, row: Row) -> bool:
        return "task_id" in row and "reward" in row and ("trial" in row or "traj" in row or "info" in row)

    def rows(self, head: FileHead, on_progress: OnProgress | None = None) -> Iterator[tuple[int | None, Row]]:
        if "simulations" not in head.keys:
            yield from super().rows(head, on_progress)
            return
        document = read_document(head.location, _Tau2, str(head.path))
        info = mapping(document.get("info"))
        domain = mapping(info.get("environment_info")).get("domain_name")
        model = mapping(info.get("agent_info")).get("llm")
        for row in document.get("simulations", ()):
            yield None, {**row, "domain": domain, "model": model}

    def scored(self, row: Row, head: FileHead) -> Iterator[ScoredRow]:
        rewarded = mapping(row.get("reward_info"))
        reward = number(row.get("reward", rewarded.get("reward")), "reward")
        domain = row.get("domain") or next(iter(_DOMAIN.findall(head.name.lower())), None)
        told = mapping(mapping(row.get("info")).get("task")).get("instruction")
        yield ScoredRow(
            str(needed(row, "task_id")),
            {"passed": reward is not None and abs(reward - 1) <= _ROUNDING},
            model=text(row.get("model")),
            task=f"tau-bench/{domain}" if domain else None,
            prompt=text(told),
            response=text(row.get("messages", row.get("traj"))),
            # not `user_cost`, which is what the simulated user took
            usage={"cost": row.get("agent_cost"), "seconds": row.get("duration")},
            note="ended without a reward; counted as failed" if reward is None else None,
        )


READER = TauBenchReader()
