"""Sheets of a leaderboard, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tensorclass.scores.estimate import Estimate, compared, show, show_interval
from tensorclass.scores.grouped_notes import grouped_notes
from tensorclass.scores.leaderboard import MACRO, Leaderboard, PairedRuns
from tensorclass.scores.paired import is_significant
from tensorclass.scores.score_sheets import common_unit, interval_heading, missed, numbers_of, shown_p_value
from tensorclass.scores.sheet import Sheet, SheetColumn
from tensorclass.scores.usage import USAGE, shown_usage, usage_names

__all__ = ["leaderboard_sheets"]

_CORRECTED = {"holm": "corrected by Holm's method", "bh": "corrected by Benjamini and Hochberg's method"}
_MOST_ROWS = 60


def leaderboard_sheets(
    board: Leaderboard, names: Mapping[str, str] | None = None, notes: Iterable[tuple[str, str]] = ()
) -> Iterator[Sheet | str]:
    """Lay out a leaderboard: ranks, figures task by task, differences; and notes as text.

    Args:
        board: the leaderboard.
        names: the names to show, by those of models.
        notes: on the runs, with their names.
    """
    shown = {model: (names or {}).get(model, model) for model in board.models}
    yield _ranks(board, shown)
    if len(board.tasks) > 1:
        yield _tasks(board, shown)
    macro = [one for one in board.differences if one.task == MACRO]
    by_task = [one for one in board.differences if one.task != MACRO]
    yield from _differences(board, macro, shown)
    if len(board.tasks) > 1 and board.baseline is not None:
        yield from _differences(board, by_task, shown)
    yield from grouped_notes([*(("", note) for note in board.notes), *notes])


def _ranks(board: Leaderboard, shown: Mapping[str, str]) -> Sheet:
    several = len(board.averaged) > 1
    first = board.averaged[0]
    unit = next(iter(board.macro.values())).unit
    metrics = ", ".join(dict.fromkeys(board.metrics[task] for task in board.averaged))
    about = f"macro average of {len(board.averaged)} tasks" if several else first
    level = interval_heading(board.confidence)
    headings = ["macro", level, "std. error", "micro"] if several else ["score", level, "std. error"]
    has_missing = any(map(missed, board.macro.values()))
    used = usage_names(board.usage.values())
    counts = ["prompts", *["missing"] * has_missing, *map(USAGE.__getitem__, used)]
    sheet = Sheet(
        f"Leaderboard: {about}, {metrics}, {unit}".removesuffix(", "),
        [SheetColumn("model", is_label=True), *numbers_of("rank", "ranks", *headings, "group", *counts)],
    )
    for model in board.models:
        rank, macro = board.ranks[model], board.macro[model]
        sheet.add(
            shown[model],
            str(rank.rank),
            f"{rank.low}" if rank.low == rank.high else f"{rank.low} to {rank.high}",
            show(macro.value, macro.unit),
            show_interval(macro.low, macro.high, macro.unit),
            show(macro.stderr, macro.unit),
            *[show(board.micro[model].value, macro.unit)] * several,
            board.letters[model],
            str(int(macro.prompts)),
            *[str(missed(macro))] * has_missing,
            *(shown_usage(board.usage.get(model, {}), name) for name in used),
        )
    sheet.caption = (
        "Models that share a letter can't be told apart; the ranks that the tests leave possible: all pairs, p-values "
        f"{_CORRECTED.get(board.correction, 'uncorrected')}, {100 * board.confidence:g} %."
    )
    return sheet


def _tasks(board: Leaderboard, shown: Mapping[str, str]) -> Sheet:
    unit = common_unit(one for figures in board.figures.values() for one in figures.values())
    metrics = set(board.metrics.values())
    title = "Task by task" if len(metrics) > 1 else f"{metrics.pop()}, task by task"
    sheet = Sheet(
        f"{title}, {unit}" if unit else title,
        [SheetColumn("task", is_label=True), *numbers_of(*(shown[model] for model in board.models))],
    )
    for task in board.tasks:
        figures = board.figures[task]
        label = task if len(set(board.metrics.values())) == 1 else f"{task}, {board.metrics[task]}"
        if unit is None:
            label += f", {next(iter(figures.values())).unit}"
        best = _best(figures, higher=board.higher_is_better[task])
        sheet.add(
            label,
            *(show(one.value, one.unit) if (one := figures.get(model)) is not None else "-" for model in board.models),
            styles={place + 1: "head" for place, model in enumerate(board.models) if model in best},
        )
    return sheet


def _differences(board: Leaderboard, found: Sequence[PairedRuns], shown: Mapping[str, str]) -> Iterator[Sheet | str]:
    if not found:
        return
    is_macro = found[0].task == MACRO
    several = len(board.averaged) > 1
    about = ("of macro averages" if several else f"on {board.averaged[0]}") if is_macro else "task by task"
    if len(found) > _MOST_ROWS:
        yield f"{len(found)} differences {about} are not shown: --format json and --format csv have them"
        return
    unit = common_unit(one.difference for one in found)
    to_baseline = board.baseline is not None
    title = f"Differences {about}" + (f" to {shown[board.baseline]}" if board.baseline is not None else "")
    labels = ["model"] if to_baseline else ["better", "than"]
    if not is_macro:
        labels = ["task", *labels]
    is_corrected = board.correction != "none" and len(found) > 1
    level = interval_heading(board.confidence)
    decision = ["corrected p", f"{level}, corrected"] if is_corrected else ["p", level]
    has_sections = len(found) > len({one.task for one in found})
    sheet = Sheet(
        f"{title}, {unit}" if unit else title,
        [
            *(SheetColumn(label, is_label=True, is_merged=label == "task" and has_sections) for label in labels),
            *numbers_of("difference", *decision, *["p"] * is_corrected, "detects", "prompts"),
        ],
    )
    order = {task: place for place, task in enumerate(board.tasks)}
    for one in sorted(found, key=lambda one: order.get(one.task, 0)):
        difference, higher = one.difference, board.higher_is_better[board.averaged[0] if is_macro else one.task]
        # All pairs are told from the better model's side.
        sign = 1.0 if to_baseline or (float(difference.value) >= 0) == higher else -1.0
        low, high = sorted((sign * one.low_adjusted, sign * one.high_adjusted))
        better, worse = (one.b, one.a) if sign > 0 else (one.a, one.b)
        place = len(labels)
        style = ""
        if is_significant(one.p_adjusted, board.confidence):
            style = "good" if (sign * float(difference.value) > 0) == higher else "bad"
        sheet.add(
            *[one.task] * (not is_macro),
            *([shown[one.b]] if to_baseline else [shown[better], shown[worse]]),
            show(sign * float(difference.value), difference.unit, sign=True),
            shown_p_value(one.p_adjusted),
            show_interval(low, high, difference.unit, sign=True),
            *[shown_p_value(float(difference.p_value))] * is_corrected,
            "-" if difference.detectable is None else show(difference.detectable, difference.unit),
            compared(difference),
            styles={place: style, place + 2: style},
        )
    if is_corrected:
        sheet.caption = (
            f"p-values and intervals, {_CORRECTED[board.correction]} for the {len(found)} rows; p is uncorrected."
        )
    yield sheet


def _best(figures: Mapping[str, Estimate], *, higher: bool) -> set[str]:
    values = {model: float(one.value) for model, one in figures.items() if float(one.value) == float(one.value)}
    if len(values) < 2:
        return set()
    best = max(values.values()) if higher else min(values.values())
    return {model for model, value in values.items() if value == best}
