"""``tensorclass scores --history``: the tasks of a model over its runs."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tensorclass.scores.command.checked_runs import checked_runs
from tensorclass.scores.command.exit_codes import CommandError
from tensorclass.scores.command.output import print_result
from tensorclass.scores.command.run_files import read_files
from tensorclass.scores.estimate import show, show_interval
from tensorclass.scores.grouped_notes import grouped_notes
from tensorclass.scores.history import History, TaskHistory, drops_in_words, history
from tensorclass.scores.html_report import write_html_report
from tensorclass.scores.readers import Run
from tensorclass.scores.run_grid import model_of
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.scores.score_sheets import interval_heading, numbers_of, shown_p_value
from tensorclass.scores.seeds import SEEDS, with_seeds
from tensorclass.scores.sheet import Sheet, SheetColumn

__all__ = ["run_history"]

_OTHERS: Final = (
    "compare",
    "leaderboard",
    "baseline",
    "names",
    "fail_under",
    "fail_over",
    "fail_if_worse_than",
    "save",
    "plot",
    "k",
)


def run_history(arguments: Namespace) -> int:
    """Run the command with ``--history``.

    Args:
        arguments: as ``tensorclass scores --help`` tells.

    Returns:
        The exit code: 0; 2 if a file could not be read (``--keep-going``).
    """
    other = next((name for name in _OTHERS if getattr(arguments, name)), None)
    if other is not None:
        raise CommandError(f"--history is of runs one after the other, without --{other.replace('_', '-')}")
    unread: list[ScoreFileError] = []
    runs = read_files(arguments, unread.append if arguments.keep_going else None, one_by_one=True)
    notes: list[str] = []
    settings = {"confidence": arguments.confidence, "seed": arguments.seed, "cluster": arguments.cluster}
    try:
        runs, notes = _prepared(arguments, runs)
        found = history(runs, metric=arguments.metric, correction=arguments.correction, **settings)
        if arguments.report is not None:
            ranking = {"metric": arguments.metric, "correction": arguments.correction, **settings}
            write_html_report(
                arguments.report,
                found.runs(),
                history=found,
                texts=not arguments.no_text,
                transcripts=arguments.transcripts,
                **ranking,
            )
    except ScoreFileError:
        raise
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from error
    notes = [*notes, *found.notes]
    document = {"schema": "tensorclass.scores.history/1", "points": list(found.rows()), "notes": notes}
    print_result(arguments.format, history_sheets(found, notes), rows=iter(found.rows()), document=document)
    for one in unread:
        sys.stderr.write(f"tensorclass scores: {' '.join(str(one).split())}\n")
    return 2 if unread else 0


def _prepared(arguments: Namespace, runs: list[Run]) -> tuple[list[Run], list[str]]:
    """The runs, checked, their seeds joined, and notes on them.

    What tells runs of one model apart is time: seeds are those that folders are named for.
    """
    named = [replace(run, name=name) for run, name in zip(runs, _names(runs), strict=True)]
    checked, notes = checked_runs(arguments, named, is_compared=True)
    how, pattern = (arguments.seeds, None) if arguments.seeds in SEEDS else ("random", arguments.seeds)
    joined = with_seeds(checked, how, pattern, said=False)
    seeds: dict[str, set[str]] = {}
    for run in joined:
        if not run.seeds and "seed" in run.conditions:
            seeds.setdefault(f"{model_of(run)}, {run.task}", set()).add(run.conditions["seed"])
    notes += [
        f"{about}: the runs have other seeds, whose differences are part of the changes"
        for about, own in seeds.items()
        if len(own) > 1
    ]
    of_runs = ((run.name, note) for run in joined for note in run.notes)
    return joined, [*notes, *grouped_notes(of_runs)]


def _names(runs: Sequence[Run]) -> list[str]:
    """The names of the runs; files where names are the same."""
    count = Counter(run.name for run in runs)
    return [run.files[0] if count[run.name] > 1 else run.name for run in runs]


def history_sheets(found: History, notes: Sequence[str]) -> Iterator[Sheet | str]:
    """Lay out a history: a sheet for each task, then the drops that are more than noise, then notes."""
    for task in found.tasks:
        yield _sheet(found, task)
    yield from drops_in_words(found)
    yield from notes


def _sheet(found: History, task: TaskHistory) -> Sheet:
    unit = task.points[0].figure.unit
    about = ", ".join(part for part in (task.task, task.model, task.metric, unit) if part)
    level = interval_heading(found.confidence)
    columns = numbers_of("prompts", "score", level, "change", level, "p")
    sheet = Sheet(about, [SheetColumn("run", is_label=True), *columns])
    for point in task.points:
        one, change = point.figure, point.change
        style = ""
        if change is not None and found.is_real(point):
            style = "good" if (float(change.value) > 0) == task.higher_is_better else "bad"
        sheet.add(
            point.label,
            str(int(one.prompts)),
            show(one.value, one.unit),
            show_interval(one.low, one.high, one.unit),
            "-" if change is None else show(change.value, change.unit, sign=True),
            "-" if change is None else show_interval(point.low_adjusted, point.high_adjusted, change.unit, sign=True),
            "-" if change is None else shown_p_value(point.p_adjusted),
            styles={4: style, 5: style},
        )
    sheet.caption = (
        "Changes are from the run above, on the prompts that both hold; their intervals and p are corrected for all "
        "changes."
    )
    return sheet
