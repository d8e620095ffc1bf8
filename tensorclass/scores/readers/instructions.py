"""Verdicts on prompts beside those on their instructions: a prompt is followed where all of its instructions are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from tensorclass.scores.limits import ROUNDING, contradiction
from tensorclass.scores.readers.growing_columns import Column, NumberColumn, RaggedColumn
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["check_levels", "levels", "levels_agree"]


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
        got = str(bool(every)).lower() if every in (0, 1) else f"{every:g}"
        problem = f"{name}: expected {expected} in {each_name}, got {got}"
        raise ScoreFileError(path, number, f"{problem}; a prompt is followed where all of its instructions are")


def levels_agree(every: Sequence[float | None], each: Sequence[Sequence[float]]) -> bool:
    """Return whether no verdict on a prompt contradicts those on its instructions; see :func:`check_levels`.

    Args:
        every: the verdict on each prompt; None where not scored.
        each: the verdicts on the instructions of each prompt.

    Example:
        >>> levels_agree([True, False, None], [[True, True], [True, False], [True]]), levels_agree([True], [[False]])
        (True, False)
    """
    lengths = np.array(list(map(len, each)), dtype=np.int64)
    counted = lengths > 0
    if not counted.any():
        return True
    flat = np.array(list(chain.from_iterable(each)), dtype=np.float64)
    starts = (np.cumsum(lengths) - lengths)[counted]
    least, total = np.minimum.reduceat(flat, starts), np.add.reduceat(flat, starts)
    fewest = np.maximum(0.0, total - (lengths[counted] - 1))
    whole = np.array(every, dtype=np.float64)[counted]
    return not ((whole > least + ROUNDING) | (whole < fewest - ROUNDING)).any()
