"""Runs of several files, each once: files that belong to one run, and files that hold the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TypeAlias

import numpy as np
from torch import Tensor

from tensorclass.scores.readers.run import Run, seed_path
from tensorclass.scores.score_errors import ScoreFileError

__all__ = ["OnError", "distinct_runs"]

OnError: TypeAlias = Callable[[ScoreFileError], None]
"""Called with the error of a file that can't be read."""


def distinct_runs(work: Iterable[tuple[Path, Callable[[], Sequence[Run]]]], on_error: OnError | None) -> list[Run]:
    """Read files one after the other.

    A file that an earlier run was read from, too, is not read again.

    Args:
        work: each file, and the function that reads its runs.
        on_error: called in place of raising the error of a file that can't be read, and of one that holds the same
            rows of the same model, task, filter and seed as an earlier one.

    Returns:
        The runs, in the order of the files.
    """
    runs: list[Run] = []
    held: set[Path] = set()
    by_identity: dict[tuple[str | None, ...], Run] = {}
    for path, read in work:
        if path.absolute() in held:
            continue
        try:
            for run in read():
                held.update(Path(file).absolute() for file in run.files)
                _check_distinct(run, by_identity)
                runs.append(run)
        except ScoreFileError as error:
            if on_error is None:
                raise  # the error itself: raised by a function, it would be held by that function's frame
            on_error(error)
    return runs


def _check_distinct(run: Run, earlier: dict[tuple[str | None, ...], Run]) -> None:
    """Raise a ScoreFileError if an earlier run of the same model, task and seed has the same rows."""
    if run.model is None or run.task is None:
        return
    named = seed_path(run.files[0])
    seed = run.conditions.get("seed") if named is None else named.seed
    same = earlier.setdefault((run.model, run.task, run.filter, seed), run)
    file, other = run.files[0], same.files[0]
    if file != other and _same_rows(run, same):
        raise ScoreFileError(file, None, f"holds the same run as {other}: the same model, task and rows; give one")


def _same_rows(a: Run, b: Run) -> bool:
    if type(a.scores) is not type(b.scores) or a.scores.batch_size != b.scores.batch_size:
        return False
    for field in fields(a.scores):
        one, other = getattr(a.scores, field.name), getattr(b.scores, field.name)
        if isinstance(one, Tensor) and isinstance(other, Tensor):
            if not np.array_equal(one.numpy(), other.numpy(), equal_nan=one.is_floating_point()):
                return False
        elif isinstance(one, Tensor) or isinstance(other, Tensor):
            return False
    return True
