"""Reports as tables for people, with rich. They fit a terminal of 80 columns while run names are short."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from tensorclass.scores.document import ComparedRuns, ScoredRun
from tensorclass.scores.estimate import Difference, Estimate, show, show_interval
from tensorclass.scores.estimate import compared as compared_prompts
from tensorclass.scores.score_errors import require
from tensorclass.support.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

__all__ = ["tables"]


def tables(runs: Sequence[ScoredRun], comparisons: Sequence[ComparedRuns] = ()) -> Iterator[RenderableType]:
    """Lay out a few runs for people: tables and notes, one after another.

    Scores with their intervals, run by run below each metric; comparisons; then groups (instruction types): compared
    where two runs were, else the runs side by side.
    """
    families = list(dict.fromkeys(one.report.family for one in runs))
    by_family = [[one for one in runs if one.report.family == family] for family in families]
    for own in by_family:
        yield _scores(own)
    for compared in comparisons:
        yield _comparison(compared)
    if len(comparisons) == 1:
        yield from _compared_groups(comparisons[0])
    else:
        for own in by_family:
            yield from _groups(own)
    for one in runs:
        for note in (*one.run.notes, *one.report.notes):
            yield _text(printable(f"{one.run.name}: {note}"))


_METHODS = {
    "adjusted t": "t over prompts, two right and two wrong ones added,",
    "t": "t over prompts",
    "bootstrap": "bootstrap over prompts",
}


def _scores(runs: Sequence[ScoredRun]) -> Table:
    several, first = len(runs) > 1, runs[0]
    title = first.report.family if several else f"{first.run.name}, {first.report.family}"
    table = _Rows(
        title,
        left=["metric", "run"] if several else ["metric"],
        right=["score", _level(first.report.confidence), "counted", "prompts"],
    )
    by: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for one in runs for name in one.report):
        held = [one for one in runs if name in one.report]
        for place, one in enumerate(held):
            figure = one.report[name]
            table.add(
                name if place == 0 else "",
                *([one.run.name] if several else []),
                f"{_number(figure.value, figure.unit)} {figure.unit}",
                _interval(figure.low, figure.high, figure.unit),
                _whole(figure.count),
                _whole(figure.prompts),
                ends_section=several and place == len(held) - 1,
            )
            method = f"none ({figure.reason})" if figure.reason else _METHODS.get(figure.interval, figure.interval)
            if name not in by.setdefault(method, []):
                by[method].append(name)
    caption = "; ".join(f"{method} for {', '.join(names)}" for method, names in by.items())
    return table.drawn(caption=f"Intervals: {caption}." if by else "")


def _groups(runs: Sequence[ScoredRun]) -> Iterator[Table]:
    several = len(runs) > 1
    for name in dict.fromkeys(name for one in runs for name in one.report.groups):
        own = [one.report.groups.get(name, {}) for one in runs]
        columns = [one.run.name for one in runs] if several else ["score", _level(runs[0].report.confidence)]
        table = _Rows(f"{name} by type{_unit(own)}", left=["type"], right=["counted", *columns])
        for group in sorted({group for groups in own for group in groups}):
            held = [groups.get(group) for groups in own]
            counts = ["0" if one is None else _whole(one.count) for one in held]
            values = ["-" if one is None else _number(one.value, one.unit) for one in held]
            if not several:
                values += [_interval(one.low, one.high, one.unit) for one in held if one is not None]
            table.add(group, counts[0] if len(set(counts)) == 1 else " / ".join(counts), *values)
        yield table.drawn()


def _comparison(compared: ComparedRuns) -> Table:
    found = compared.comparison
    title = f"{compared.b} beside {compared.a}, on the {found.prompts} prompts that both hold"
    if found.only_a or found.only_b:
        title += f" ({found.only_a} + {found.only_b} left out)"
    difference = f"difference, {_level(found.confidence)}"
    table = _Rows(title, left=["metric"], right=["prompts", compared.a, compared.b, difference, "p"])
    without: dict[str, list[str]] = {}
    for name, one in found.items():
        table.add(
            name,
            compared_prompts(one),
            f"{_number(one.a, one.unit)} {one.unit}",
            f"{_number(one.b, one.unit)} {one.unit}",
            f"{_number(one.value, one.unit, sign=True)} {_interval(one.low, one.high, one.unit, sign=True)}",
            _p_value(float(one.p_value)),
            style=_side(one),
        )
        if one.only_a is not None and one.only_b is not None and one.mcnemar_p is not None:
            table.add(
                "  right in one run only",
                "",
                _whole(one.only_a),
                _whole(one.only_b),
                "McNemar's exact test",
                _p_value(float(one.mcnemar_p)),
                style="dim",
            )
        if one.reason:
            without.setdefault(one.reason, []).append(name)
    caption = "Intervals: t over prompts, of shares with two added for each run; p-values: sign-flip test."
    for reason, names in without.items():
        caption += f" No interval for {', '.join(names)}: {reason}."
    return table.drawn(caption=" ".join([caption, *(f"{note}." for note in found.notes)]))


def _compared_groups(compared: ComparedRuns) -> Iterator[Table]:
    for name, groups in compared.comparison.groups.items():
        table = _Rows(
            f"{name} by type{_unit([groups])}", left=["type"], right=["prompts", compared.a, compared.b, "difference"]
        )
        for group, one in groups.items():
            table.add(
                group,
                compared_prompts(one),
                _number(one.a, one.unit),
                _number(one.b, one.unit),
                _number(one.value, one.unit, sign=True),
                style=_side(one),
            )
        yield table.drawn()


class _Rows:
    """Rows of text, collected before they are drawn so that numbers keep their width and names give way."""

    def __init__(self, title: str, left: Sequence[str], right: Sequence[str]) -> None:
        self._title = printable(title)
        self._left, self._right = [*map(printable, left)], [*map(printable, right)]
        self._rows: list[tuple[tuple[str, ...], str, bool]] = []

    def add(self, *cells: str, style: str = "", ends_section: bool = False) -> None:
        """Add a row; the style is for its last but one cell."""
        self._rows.append((tuple(map(printable, cells)), style, ends_section))

    def drawn(self, caption: str = "") -> Table:
        box = require("rich.box", "printing a table")
        table = cast(
            "Table",
            require("rich.table", "printing a table").Table(
                title=_text(self._title, "bold"),
                title_justify="left",
                caption=_text(printable(caption), "dim") if caption else None,
                caption_justify="left",
                box=box.SIMPLE_HEAD,
                padding=(0, 1, 0, 0),
                show_edge=False,
                pad_edge=False,
            ),
        )
        for place, name in enumerate([*self._left, *self._right]):
            is_left = place < len(self._left)
            widest = max((len(cells[place]) for cells, _, _ in self._rows), default=0)
            table.add_column(
                _text(name if is_left else _broken(name)),
                justify="left" if is_left else "right",
                vertical="bottom",
                overflow="fold",
                min_width=min(widest, 12) if is_left else widest,
            )
        for cells, style, ends_section in self._rows:
            styled = [_text(cell, style if place == len(cells) - 2 else "") for place, cell in enumerate(cells)]
            table.add_row(*styled, end_section=ends_section)
        return table


def _text(text: str, style: str = "") -> Text:
    """Text as it is: names of files and types may hold what rich would take for markup."""
    return cast("Text", require("rich.text", "printing a table").Text(text, style=style))


def _side(one: Difference) -> str:
    """The colour of a difference: plain unless its interval lies on one side of 0."""
    return "green" if float(one.low) > 0 else "red" if float(one.high) < 0 else ""


def _broken(name: str) -> str:
    """A long heading in two lines, broken at the underscore or before the hyphen nearest to its middle."""
    places = [place for place, char in enumerate(name) if char in "_-"]
    if len(name) <= 14 or not places:
        return name
    middle = min(places, key=lambda place: abs(2 * place - len(name)))
    return f"{name[:middle]}\n{name[middle:]}"


def _level(confidence: float) -> str:
    return f"{100 * confidence:g} % interval"


def _unit(found: Sequence[Mapping[str, Estimate | Difference]]) -> str:
    """The unit of figures whose cells don't show it, to end a title with."""
    unit = next((one.unit for groups in found for one in groups.values()), "")
    return f", {unit}" if unit else ""


def _number(value: Any, unit: str, *, sign: bool = False) -> str:
    return show(float(value), unit, sign=sign)


def _interval(low: Any, high: Any, unit: str, *, sign: bool = False) -> str:
    return show_interval(float(low), float(high), unit, sign=sign)


def _whole(count: Any) -> str:
    return f"{float(count):.10g}"


def _p_value(p: float) -> str:
    return "-" if p != p else "<0.001" if p < 0.001 else f"{p:.3f}"
