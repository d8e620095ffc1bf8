"""Battles of an arena: a row for each comparison of two models, as LMArena and MT-bench publish them.

A row has ``model_a``, ``model_b`` and ``winner``: ``model_a``, ``model_b``, ``tie``, ``tie (bothbad)``, ``both_bad`` or
the name of a model; or ``winner_model_a``, ``winner_model_b`` and ``winner_tie``, one of which is 1. The figures are
ratings of Bradley and Terry with a mean of 1,000. Source: Chiang et al., 2024, arXiv 2403.04132, and the cards of
https://huggingface.co/datasets/lmsys/chatbot_arena_conversations, ``lmsys/mt_bench_human_judgments`` and
``lmarena-ai/arena-human-preference-55k``.
"""

from __future__ import annotations

import torch

from tensorclass.scores.families import BattleScoreData
from tensorclass.scores.readers.file_head import FileHead
from tensorclass.scores.readers.growing_columns import prompt_id, shown
from tensorclass.scores.readers.lines import Row
from tensorclass.scores.readers.reader_registry import ReadOptions, refuse_options
from tensorclass.scores.readers.row_log import FieldError, RowReader, ScoredRow, needed, verdict
from tensorclass.scores.readers.run import Run, run_name
from tensorclass.scores.readers.tabular import ROLES, TableReader
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["READER", "ArenaReader"]
_FIRST, _SECOND = ("model_a", "model_A"), ("model_b", "model_B")
_ONE_HOT = {"winner_model_a": 1.0, "winner_model_b": 0.0, "winner_tie": 0.5}
_OUTCOMES = {"model_a": 1.0, "a": 1.0, "model_b": 0.0, "b": 0.0, "both_bad": 0.5, "bothbad": 0.5, "draw": 0.5}


class ArenaReader(RowReader):
    """Reads battles of an arena."""

    name = "arena"
    description = "battles of an arena (model_a, model_b, winner)"

    def is_row(self, row: Row) -> bool:
        models = any(one in row for one in _FIRST) and any(one in row for one in _SECOND)
        return models and ("winner" in row or _ONE_HOT.keys() <= row.keys())

    def scored(self, row: Row, head: FileHead) -> list[ScoredRow]:
        raise NotImplementedError  # a battle is no answer to be scored: read() makes the record

    def read(self, head: FileHead, options: ReadOptions) -> list[Run]:
        if any(role not in ROLES for role in options.columns):
            return TableReader(options.columns).read(head, options)
        refuse_options(head, options, self.name)
        codes: dict[str, int] = {}
        battles: list[tuple[int, int, float]] = []
        for line, row in self.rows(head, options.on_progress(head.path)):
            try:
                first, second = str(needed(row, *_FIRST)), str(needed(row, *_SECOND))
                outcome = _outcome(row, first, second)
            except FieldError as error:
                raise ScoreFileError(str(head.path), line, str(error)) from None
            one, other = (codes.setdefault(name, len(codes)) for name in (first, second))
            battles.append((one, other, outcome))
        columns = [torch.tensor(column, device="cpu") for column in zip(*battles, strict=True)]
        unjudged = int(columns[2].isnan().sum()) if columns else 0
        if unjudged == len(battles):
            raise ScoreFileError(str(head.path), None, f"{len(battles)} battles, none of them judged")
        scores = BattleScoreData(
            columns[0].to(torch.int32),
            columns[1].to(torch.int32),
            columns[2].to(torch.float32),
            models=tuple(codes),
            prompt_id=torch.tensor([prompt_id(f"battle {place}") for place in range(len(battles))], device="cpu"),
            batch_size=[len(battles)],
        )
        ties = int((columns[2] == 0.5).sum())
        return [
            Run(
                run_name(head.path),
                scores,
                files=(str(head.path),),
                format=self.name,
                task="arena",
                notes=(
                    f"{len(battles)} battles of {len(codes)} models, {ties} of them ties, {unjudged} without a verdict",
                    "ratings of Bradley and Terry, their mean is 1,000: leaderboards that fix one model are shifted",
                ),
                higher_is_better={"elo": True},
            )
        ]


READER = ArenaReader()


def _outcome(row: Row, first: str, second: str) -> float:
    """1 where the first model wins, 0 where the second one does, 0.5 for a tie; NaN without a verdict."""
    if "winner" not in row:
        won = [outcome for key, outcome in _ONE_HOT.items() if verdict(row[key], key)]
        if len(won) > 1:
            raise FieldError(f"winner_model_a: expected one of {', '.join(_ONE_HOT)} to be 1, got {len(won)}")
        return won[0] if won else float("nan")
    winner: object = row["winner"]
    if winner is None or winner == "":
        return float("nan")
    if isinstance(winner, str):
        if winner in (first, second):
            return float(winner == first)
        name = winner.strip().lower()
        if name.startswith("tie") or name in _OUTCOMES:
            return _OUTCOMES.get(name, 0.5)
    raise FieldError(f"winner: expected model_a, model_b, tie or the name of a model, got {shown(winner)}")
