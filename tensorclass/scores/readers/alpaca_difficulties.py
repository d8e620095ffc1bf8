"""Difficulties of AlpacaEval's instructions, estimated once from the annotations of models that are read together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch

from tensorclass.scores.families import AlpacaEvalScoreData
from tensorclass.scores.length_control import instruction_difficulties
from tensorclass.scores.readers.run import Run

__all__ = ["WITHOUT_DIFFICULTIES", "with_difficulties"]

_FEWEST: Final = 10
"""Models whose annotations tell difficulties. In simulations of 51 models, difficulties estimated from 10 of them move
the figure by 0.24 points in the mean, from 5 by 0.49, which is as much as leaving them out."""

WITHOUT_DIFFICULTIES: Final[str] = (
    "length_adjusted_win_rate is not AlpacaEval's length_controlled_winrate, which needs the difficulties of the "
    "instructions and may differ by several points: read the annotations of at least "
    f"{_FEWEST} models together, or name a key that holds them, --columns difficulty=KEY"
)


def with_difficulties(runs: Sequence[Run]) -> list[Run]:
    """Add difficulties to annotations of AlpacaEval, where enough models have the same baseline and judge.

    Args:
        runs: any runs.

    Returns:
        The runs; those with difficulties say so in a note, in place of the one that they lack them.
    """
    tasks: dict[str | None, dict[str | None, int]] = {}
    for place, run in enumerate(runs):
        scores = run.scores
        if isinstance(scores, AlpacaEvalScoreData) and scores.difficulty is None and scores.prompt_id is not None:
            tasks.setdefault(run.task, {}).setdefault(run.model, place)
    found = list(runs)
    for models in tasks.values():
        if len(models) >= _FEWEST:
            for place, run in zip(models.values(), _estimated([runs[place] for place in models.values()]), strict=True):
                found[place] = run
    return found


def _estimated(runs: Sequence[Run]) -> list[Run]:
    """The runs with the difficulties that their judgements tell."""
    ids = [np.asarray(run.scores.prompt_id) for run in runs]
    prompts, places = np.unique(np.concatenate(ids), return_inverse=True)
    columns = np.full((2, len(runs), len(prompts)), np.nan)
    parts = np.split(places, np.cumsum([len(one) for one in ids])[:-1])
    for row, (run, place) in enumerate(zip(runs, parts, strict=True)):
        assert isinstance(run.scores, AlpacaEvalScoreData)
        columns[0, row, place] = np.asarray(run.scores.preference)
        columns[1, row, place] = np.asarray(run.scores.length_difference)
    gamma = torch.tensor(instruction_difficulties(*columns), dtype=torch.float32, device="cpu")
    note = (
        "length_controlled_win_rate: the difficulties of the instructions are estimated from "
        f"{len(runs)} models that were read together, and fixed in the interval; AlpacaEval's leaderboard fits them to "
        "its own models"
    )
    return [
        replace(
            run,
            scores=run.scores.replace(difficulty=gamma[torch.tensor(place, device="cpu")]),
            notes=(*(one for one in run.notes if one != WITHOUT_DIFFICULTIES), note),
            higher_is_better={**run.higher_is_better, "length_controlled_win_rate": True},
        )
        for run, place in zip(runs, parts, strict=True)
    ]
