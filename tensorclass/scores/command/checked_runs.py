"""The checks of runs that a command compares: other conditions, missing verdicts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from tensorclass.scores.command.exit_codes import CommandError
from tensorclass.scores.missing_verdicts import MissingVerdictsError, settle_missing
from tensorclass.scores.readers import Run
from tensorclass.scores.run_conditions import ConditionsDifferError, check_conditions

__all__ = ["checked_runs", "with_task_notes"]


def checked_runs(arguments: Namespace, runs: Sequence[Run], *, is_compared: bool) -> tuple[list[Run], list[str]]:
    """Check runs for other conditions and missing verdicts.

    Args:
        arguments: ``across``, ``missing``, ``max_missing`` and ``metric``.
        runs: the runs.
        is_compared: whether runs of a task are compared.

    Returns:
        The runs, with missing verdicts settled, and notes on conditions.

    Raises:
        CommandError: conditions differ, or verdicts are missing; the message has both.
    """
    problems: list[str] = []
    notes: list[str] = []
    settled: list[Run] = []
    try:
        notes = check_conditions(runs, arguments.across) if is_compared else []
    except ConditionsDifferError as error:
        problems.append(str(error))
    try:
        settled = settle_missing(
            runs, arguments.missing, arguments.max_missing, is_compared=is_compared, metric=arguments.metric
        )
    except MissingVerdictsError as error:
        problems.append(str(error))
    if problems:
        raise CommandError("; and ".join(problems))
    return settled, notes


def with_task_notes(runs: Sequence[Run], notes: Sequence[str]) -> list[Run]:
    """The runs, each with the notes that are about its task."""
    return [
        replace(run, notes=(*run.notes, *(note for note in notes if note.startswith(f"{run.task}: ")))) for run in runs
    ]
