"""The command ``tensorclass scores diff``: the prompts that two runs score differently."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from tensorclass.scores.changed_prompts import ChangedPrompt, ChangedPrompts, changed_prompts, prompt_figures
from tensorclass.scores.command.exit_codes import CommandError, exit_code
from tensorclass.scores.command.output import print_result
from tensorclass.scores.command.run_files import read_files
from tensorclass.scores.estimate import show
from tensorclass.scores.model_names import short_names, told_apart
from tensorclass.scores.readers import PromptText, Run
from tensorclass.scores.run_grid import model_of, runs_by_task
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.scores.sheet import Sheet, SheetColumn
from tensorclass.support.printable import printable

__all__ = ["run"]

_FIRST_CHARACTERS = 300  # of a text, without --full-text


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: as ``tensorclass scores diff --help`` tells.

    Returns:
        The exit code: 0; 2 after one line on stderr.
    """
    return exit_code(lambda: _run(arguments), "tensorclass scores diff")


@dataclass(frozen=True)
class _TaskDiff:
    """The changed prompts of one task, those listed with their texts."""

    task: str
    a: Run
    b: Run
    changed: ChangedPrompts
    listed: list[tuple[ChangedPrompt, PromptText | None, PromptText | None]]


def _run(arguments: Namespace) -> int:
    try:
        pairs = _pairs(told_apart(read_files(arguments)))
        metrics = {task: _metric(arguments.metric, a, b) for task, (a, b) in pairs.items()}
        if not any(metrics.values()):
            runs = [run for pair in pairs.values() for run in pair]
            held = "; ".join(f"{run.name}: {', '.join(run.scores.aggregate())}" for run in runs)
            raise CommandError(f"--metric: expected {arguments.metric or 'a metric'} in both runs, got {held}")
        found = [_compared(arguments, task, *pairs[task], metric) for task, metric in metrics.items() if metric]
    except ScoreFileError:
        raise
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from error
    print_result(
        arguments.format,
        chain(
            (sheet for one in found for sheet in _sheets(one, is_full=arguments.full_text)),
            (f"{task}: left out, since it has no {arguments.metric}" for task, metric in metrics.items() if not metric),
        ),
        rows=(row for one in found for row in _rows(one)),
        document={"schema": "tensorclass.scores.diff/1", "tasks": [_document(one) for one in found]},
    )
    return 0


def _pairs(runs: Sequence[Run]) -> dict[str, tuple[Run, Run]]:
    """The two runs of each task that both models have."""
    models = list(dict.fromkeys(map(model_of, runs)))
    pairs = {task: (own[0], own[1]) for task, own in runs_by_task(runs).items() if len(own) == 2}
    if not pairs or len(models) > 2:
        held = "; ".join(f"{task}: {', '.join(map(model_of, own))}" for task, own in runs_by_task(runs).items())
        raise CommandError(f"expected the runs of two models on a task, got {held}")
    return pairs


def _metric(name: str | None, a: Run, b: Run) -> str | None:
    """The metric to look at: the first, or the given one, if it scores the prompts of both runs."""
    return next((one for one in prompt_figures(a.scores, b.scores) if name in (None, one)), None)


def _compared(arguments: Namespace, task: str, a: Run, b: Run, metric: str) -> _TaskDiff:
    changed = changed_prompts(a.scores, b.scores, metric)
    # the sort is stable: within losses and within gains the largest come first
    losses_first = sorted(changed, key=lambda one: one.b > one.a)
    listed = losses_first[: arguments.limit or None]
    texts_a, texts_b = {}, {}
    if not arguments.no_text:
        texts_a, texts_b = _texts(a, {one.row_a for one in listed}), _texts(b, {one.row_b for one in listed})
    return _TaskDiff(task, a, b, changed, [(one, texts_a.get(one.row_a), texts_b.get(one.row_b)) for one in listed])


def _texts(run: Run, rows: set[int]) -> dict[int, PromptText]:
    """The texts of some rows, read from the file."""
    if run.texts is None or not rows:
        return {}
    return {row: text for row, text in enumerate(islice(run.texts(), max(rows) + 1)) if row in rows}


def _sheets(found: _TaskDiff, *, is_full: bool) -> Iterator[Sheet | str]:
    names = short_names([model_of(found.a), model_of(found.b)])
    a, b = names[model_of(found.a)], names[model_of(found.b)]
    changed = found.changed
    summary = Sheet(
        f"{found.task}, {changed.figure}: {b} beside {a}",
        [SheetColumn("prompts", is_label=True), SheetColumn("number")],
    )
    summary.add("counted in both", str(changed.compared))
    summary.add(f"higher in {b}", str(changed.rises), styles={1: "good"})
    summary.add(f"lower in {b}", str(changed.falls), styles={1: "bad"})
    yield summary
    for number, (one, text_a, text_b) in enumerate(found.listed, start=1):
        scores = " -> ".join(f"{show(value, changed.unit)} {changed.unit}".strip() for value in (one.a, one.b))
        lines = [f"{number}. {scores}   (row {one.row_a + 1} of {a}, row {one.row_b + 1} of {b})"]
        prompt = next((text.prompt for text in (text_a, text_b) if text is not None), None)
        target = next((text.target for text in (text_a, text_b) if text is not None and text.target), None)
        for name, text in (
            ("prompt", prompt),
            ("target", target),
            (a, None if text_a is None else text_a.response),
            (b, None if text_b is None else text_b.response),
        ):
            if text is not None:
                lines.append(f"{name}: {_shown(text, is_full=is_full)}")
        yield "\n".join(lines)
    if len(found.listed) < len(changed):
        yield f"{len(changed) - len(found.listed)} more are not listed: --limit 0 lists all"
    if any(text_a is None and text_b is None for _, text_a, text_b in found.listed):
        yield "Texts are not shown: the logs hold none, or --no-text is given."


def _shown(text: str, *, is_full: bool) -> str:
    if not is_full:
        text = " ".join(text.split())
        if len(text) > _FIRST_CHARACTERS:
            text = f"{text[:_FIRST_CHARACTERS]} ... ({len(text)} characters)"
    return printable(text, lines=is_full)


def _rows(found: _TaskDiff) -> Iterator[dict[str, Any]]:
    for one, text_a, text_b in found.listed:
        text = text_a or text_b
        yield {
            "task": found.task,
            "metric": found.changed.figure,
            "row_a": one.row_a,
            "row_b": one.row_b,
            "a": one.a,
            "b": one.b,
            "prompt": None if text is None else text.prompt,
            "target": None if text is None else text.target,
            "response_a": None if text_a is None else text_a.response,
            "response_b": None if text_b is None else text_b.response,
        }


def _document(found: _TaskDiff) -> dict[str, Any]:
    return {
        "task": found.task,
        "metric": found.changed.figure,
        "unit": found.changed.unit,
        "a": model_of(found.a),
        "b": model_of(found.b),
        "prompts": found.changed.compared,
        "higher": found.changed.rises,
        "lower": found.changed.falls,
        "changed": list(_rows(found)),
    }
