"""The command ``tensorclass scores``: read, aggregate, compare, rank, check, print, save."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tensorclass.scores.command.checked_runs import checked_runs, with_task_notes
from tensorclass.scores.command.exit_codes import CommandError, exit_code
from tensorclass.scores.command.gates import Gate, bound_gates, worse_gates
from tensorclass.scores.command.history_command import run_history
from tensorclass.scores.command.output import print_result
from tensorclass.scores.command.plot_file import check_plot_file, write_plot
from tensorclass.scores.command.run_files import read_files
from tensorclass.scores.document import ComparedRuns, ScoredRun, document, to_json
from tensorclass.scores.html_report import write_html_report
from tensorclass.scores.leaderboard import Leaderboard, leaderboard
from tensorclass.scores.leaderboard_sheets import leaderboard_sheets
from tensorclass.scores.model_names import find_model, renamed, short_names, told_apart
from tensorclass.scores.readers import Run
from tensorclass.scores.repeat_passes import with_passes
from tensorclass.scores.run_figures import aggregate_run, compare_runs
from tensorclass.scores.run_grid import model_of, runs_by_task
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.scores.score_files import save_scores
from tensorclass.scores.score_rows import leaderboard_rows, scored_rows
from tensorclass.scores.score_sheets import run_notes, score_sheets
from tensorclass.scores.seeds import SEEDS, with_seeds
from tensorclass.scores.sheet import Sheet
from tensorclass.scores.usage import usage_sheet
from tensorclass.support.atomic import whole_folder
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable

__all__ = ["run"]


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: as ``tensorclass scores --help`` tells.

    Returns:
        The exit code: 0; 1 if a gate fails; 2 after one line on stderr.
    """
    return exit_code(lambda: _run(arguments))


@dataclass(frozen=True)
class _Results:
    """The results of the command."""

    runs: list[ScoredRun]
    comparisons: list[ComparedRuns]
    board: Leaderboard | None
    gates: list[Gate]


def _run(arguments: Namespace) -> int:
    if arguments.margin is not None and arguments.fail_if_worse_than is None:
        raise CommandError("--margin is for --fail-if-worse-than NAME, which is not given")
    for name in ("no_text", "transcripts"):
        if getattr(arguments, name) and arguments.report is None:
            raise CommandError(f"--{name.replace('_', '-')} is for --report FILE, which is not given")
    if arguments.report is not None and Path(arguments.report).is_dir():
        raise ScoreFileError(str(arguments.report), None, "expected a file to write the report to, found a folder")
    check_plot_file(arguments.plot)
    if arguments.save is not None and Path(arguments.save).exists() and not Path(arguments.save).is_dir():
        raise ScoreFileError(str(arguments.save), None, "expected a folder to save in, found a file")
    if arguments.history:
        return run_history(arguments)
    unread: list[ScoreFileError] = []
    try:
        runs = read_files(arguments, unread.append if arguments.keep_going else None)
        if not runs:
            return _said(unread)
        runs = _prepared(arguments, runs)
        found = _results(arguments, runs)
        if arguments.report is not None:
            _write_report(arguments, runs)
        if arguments.plot is not None:
            write_plot(arguments.plot, found.runs, found.comparisons, found.board)
    except ScoreFileError:
        raise
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from error
    text = document(found.runs, found.comparisons, found.board, [gate.to_dict() for gate in found.gates])
    if arguments.save is not None:
        _save(arguments.save, runs, to_json(text))
    rows = scored_rows(found.runs, found.comparisons) if found.board is None else leaderboard_rows(found.board)
    print_result(arguments.format, _sheets(found), rows=rows, document=text)
    failed = [gate for gate in found.gates if not gate.passed]
    for gate in failed:
        sys.stderr.write(f"tensorclass scores: {printable(f'{gate.condition}: {gate.reason}')}\n")
    return _said(unread) or (1 if failed else 0)


def _prepared(arguments: Namespace, runs: list[Run]) -> list[Run]:
    """The runs as models: checked for other conditions and missing verdicts, seeds joined, named."""
    asked = (arguments.baseline, arguments.fail_if_worse_than, arguments.report)
    is_compared = arguments.compare or arguments.leaderboard or any(one is not None for one in asked)
    runs, notes = checked_runs(arguments, runs, is_compared=is_compared)
    how, pattern = (arguments.seeds, None) if arguments.seeds in SEEDS else ("random", arguments.seeds)
    runs = told_apart(with_seeds(runs, how, pattern))
    if arguments.k is not None:
        runs = [with_passes(run, arguments.k) for run in runs]
    if arguments.names is not None:
        runs = renamed(runs, arguments.names, pooled=how == "pooled")
    return with_task_notes(runs, notes)


def _said(unread: Sequence[ScoreFileError]) -> int:
    """Name the files that could not be read, and return the exit code for them."""
    for error in unread:
        sys.stderr.write(f"tensorclass scores: {' '.join(str(error).split())}\n")
    return 2 if unread else 0


def _results(arguments: Namespace, runs: Sequence[Run]) -> _Results:
    settings = {"seed": arguments.seed, "confidence": arguments.confidence, "cluster": arguments.cluster}
    baseline, worse_than = (
        None if name is None else find_model(name, runs) for name in (arguments.baseline, arguments.fail_if_worse_than)
    )
    scored = [_scored(one, settings) for one in runs]
    ranking = {**settings, "metric": arguments.metric, "correction": arguments.correction}
    is_compared = arguments.compare or (baseline is not None and not arguments.leaderboard)
    comparisons = list(_comparisons(arguments, runs, baseline, settings)) if is_compared else []
    board = leaderboard(runs, baseline=baseline or worse_than, **ranking) if arguments.leaderboard else None
    gates = [
        gate
        for bounds, is_lower in ((arguments.fail_under, True), (arguments.fail_over, False))
        for gate in bound_gates(scored, bounds, is_lower=is_lower, board=board, without=worse_than or baseline)
    ]
    if worse_than is not None:
        checked = board if board is not None and board.baseline == worse_than else None
        gates += worse_gates(checked or leaderboard(runs, baseline=worse_than, **ranking), arguments.margin)
    return _Results(scored, comparisons, board, gates)


def _scored(run: Run, settings: dict[str, Any]) -> ScoredRun:
    try:
        return ScoredRun(run, aggregate_run(run, resamples=None, **settings))
    except ValueError as error:
        raise ScoreFileError(run.files[0], None, str(error)) from None


def _comparisons(
    arguments: Namespace, runs: Sequence[Run], baseline: str | None, settings: dict[str, Any]
) -> Iterator[ComparedRuns]:
    """Compare the runs of each task with the first of them, or with that of the baseline."""
    tasks = runs_by_task(runs)
    if all(len(own) < 2 for own in tasks.values()):
        problem = "--compare needs at least two runs of one task"
        if len(runs) == 1:
            seeds = len(runs[0].seeds)
            problem += f", got one run of {seeds} seeds; --seeds apart compares them" if seeds else ", got one run"
            if not seeds and len(arguments.files) > 1:
                problem += "; a file given twice is one run, and so are its strict and its loose file"
        else:
            problem += f", got {'; '.join(f'{task}: {own[0].name}' for task, own in tasks.items())}"
        raise ScoreFileError(runs[0].files[0], None, problem)
    for task, own in tasks.items():
        first = next((one for one in own if baseline is None or model_of(one) == baseline), None)
        if first is None:
            raise CommandError(f"--baseline {baseline}: there is no run of it on {task}")
        for one in own:
            if one is not first:
                yield _compared(first, one, settings)


def _compared(a: Run, b: Run, settings: dict[str, Any]) -> ComparedRuns:
    try:
        return ComparedRuns(a.name, b.name, compare_runs(a, b, resamples=None, **settings))
    except (TypeError, ValueError) as error:
        raise ScoreFileError(b.files[0], None, f"can't be compared with {a.files[0]}: {error}") from error


def _sheets(found: _Results) -> Iterator[Sheet | str]:
    models = {one.run.name: model_of(one.run) for one in found.runs}
    short = short_names(list(models.values()))
    names = {name: short[model] for name, model in models.items()}
    if found.board is not None:
        yield from leaderboard_sheets(found.board, short, run_notes(found.runs, names))
    else:
        # A model may have two runs of a task; then they go by their own names.
        is_model = len({(one.run.task, model_of(one.run)) for one in found.runs}) == len(found.runs)
        shown = names if is_model else short_names(list(models))
        yield from score_sheets(found.runs, found.comparisons, shown)
        several = len({one.run.task for one in found.runs}) > 1
        labels = [
            f"{shown[one.run.name]}, {one.run.task}" if several and is_model else shown[one.run.name]
            for one in found.runs
        ]
        taken = usage_sheet([(label, one.run.usage) for label, one in zip(labels, found.runs, strict=True)])
        if taken is not None:
            yield taken
    for gate in found.gates:
        yield printable(f"{'passed' if gate.passed else 'failed'}: {gate.condition}: {gate.reason}")


def _write_report(arguments: Namespace, runs: Sequence[Run]) -> None:
    write_html_report(
        arguments.report,
        runs,
        metric=arguments.metric,
        baseline=None if arguments.baseline is None else find_model(arguments.baseline, runs),
        correction=arguments.correction,
        confidence=arguments.confidence,
        seed=arguments.seed,
        cluster=arguments.cluster,
        texts=not arguments.no_text,
        transcripts=arguments.transcripts,
    )


def _save(folder: str, runs: Sequence[Run], text: str) -> None:
    with uninterrupted() as section, whole_folder(folder) as drafts, section.interruptible():
        for one, name in zip(runs, _file_names(runs), strict=True):
            save_scores(one.scores, drafts / name)
        (drafts / "scores.json").write_text(text, encoding="utf-8")


def _file_names(runs: Sequence[Run]) -> list[str]:
    """A file name for each run's record, distinct even where run names differ only in what a file name can't hold."""
    names: list[str] = []
    for one in runs:
        stem = "".join(char if char.isalnum() or char in "._-" else "_" for char in one.name)
        name, number = f"{stem}.pt", 2
        while name in names:
            name, number = f"{stem}-{number}.pt", number + 1
        names.append(name)
    return names
