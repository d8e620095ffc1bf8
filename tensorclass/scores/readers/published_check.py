"""Compare the figures that a results file says with those of the rows."""

from __future__ import annotations

from dataclasses import replace
from math import isclose
from typing import Final

from tensorclass.scores.identity import prompt_keys
from tensorclass.scores.readers.run import Run
from tensorclass.scores.score_arrays import RecordRows, tallies
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["check_published"]

_AGREEMENT: Final = 5e-5  # harnesses write four digits or more


def check_published(run: Run, *, where: str, may_differ: bool = False) -> Run:
    """Compare each published figure of a run with that of its rows.

    Args:
        run: the run.
        where: the file that publishes the figures.
        may_differ: the harness may compute figures otherwise than as means over rows: those that differ are noted.

    Returns:
        The run, with a note for each figure that differs.

    Raises:
        ScoreFileError: a figure differs; shows both.
    """
    if not run.published:
        return run
    (rows,) = RecordRows(run.scores, -1, prompt_keys(run.scores)).each()
    notes: list[str] = []
    for name, tally in tallies(rows).sums.items():
        said, count = run.published.get(name), tally.denominator.sum()
        if said is None or not count:
            continue
        own = float(tally.numerator.sum() / count)
        if isclose(own, said.value, rel_tol=_AGREEMENT, abs_tol=_AGREEMENT):
            continue
        if not may_differ:
            raise ScoreFileError(
                run.files[0],
                None,
                f"{name}: the rows give {own:.6g}, but {where} says {said.value:.6g}; these are files of different "
                "runs, or one of them was changed",
            )
        notes.append(f"{name}: the rows give {own:.6g}, but {where} says {said.value:.6g}")
    return replace(run, notes=(*run.notes, *notes)) if notes else run
