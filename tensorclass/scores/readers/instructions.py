"""Verdicts on prompts beside those on their instructions: a prompt is followed where all of its instructions are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tensorclass.scores.limits import contradiction
from tensorclass.scores.readers.growing_columns import Column, NumberColumn, RaggedColumn
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["check_levels", "levels"]


def levels(columns: Mapping[str, Column]) -> list[tuple[str, str, NumberColumn, RaggedColumn]]:
    """The columns of IFEval that must agree: of prompts and of their instructions, with their names."""
    found: list[tuple[str, str, NumberColumn, RaggedColumn]] = []
    for level in ("strict", "loose"):
        names = f"prompt_level_{level}_acc", f"inst_level_{level}_acc"
        every, each = columns.get(names[0]), columns.get(names[1])
        if isinstance(every, NumberColumn) and isinstance(each, RaggedColumn):
            found.append((*names, every, each))
    return found


def check_levels(path: str, number: int, name: str, each_name: str, every: float, each: Sequence[float]) -> None:
    """Raise where the verdict on a prompt is another than those on its instructions give.

    Args:
        path: the file.
        number: the line.
        name: the field of the prompt's verdict.
        each_name: the field of the verdicts on the instructions.
        every: the prompt's verdict; NaN where not scored.
        each: the verdicts on its instructions.

    Raises:
        ScoreFileError: they contradict each other.
    """
    expected = contradiction(every, each)
    if expected is not None:
        raise ScoreFileError(
            path,
            number,
            f"{name}: expected {expected} in {each_name}, got {_verdict(every)}; a prompt is followed where all of its "
            "instructions are",
        )


def _verdict(value: float) -> str:
    return str(bool(value)).lower() if value in (0, 1) else f"{value:g}"
