"""Cost, tokens and time of an answer, in the mean, beside scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tensorclass.scores.sheet import Sheet, SheetColumn

__all__ = ["USAGE", "mean_usage", "shown_usage", "usage_names", "usage_sheet"]

USAGE: Final[Mapping[str, str]] = {"cost": "US$ an answer", "tokens": "tokens", "seconds": "seconds"}
"""The heading of each amount by its name in :attr:`~tensorclass.scores.Run.usage`."""


def mean_usage(found: Sequence[Mapping[str, float]], weights: Sequence[int] | None = None) -> dict[str, float]:
    """The mean over tasks, or seeds, of the amounts that the logs of all of them say.

    Args:
        found: the amounts of each.
        weights: how much each counts; by default the same.

    Example:
        >>> mean_usage([{"tokens": 10.0, "cost": 0.5}, {"tokens": 30.0}])
        {'tokens': 20.0}
        >>> mean_usage([{"tokens": 10.0}, {"tokens": 30.0}], [3, 1])
        {'tokens': 15.0}
    """
    names = [name for name in found[0] if all(name in one for one in found)] if found else []
    of = [1] * len(found) if weights is None else weights
    return {name: sum(weight * one[name] for weight, one in zip(of, found, strict=True)) / sum(of) for name in names}


def usage_names(found: Iterable[Mapping[str, float]]) -> list[str]:
    """The amounts that at least one model or run has.

    Example:
        >>> usage_names([{"seconds": 1.0}, {"cost": 0.5}])
        ['cost', 'seconds']
    """
    held = {name for one in found for name in one}
    return [name for name in USAGE if name in held]


def shown_usage(usage: Mapping[str, float], name: str) -> str:
    """An amount as text; ``-`` where it isn't known.

    Example:
        >>> shown_usage({"cost": 0.00123}, "cost"), shown_usage({"tokens": 12345.6}, "tokens"), shown_usage({}, "cost")
        ('0.00123', '12,346', '-')
    """
    amount = usage.get(name)
    return "-" if amount is None else f"{amount:.3g}" if amount < 1000 else f"{amount:,.0f}"


def usage_sheet(runs: Sequence[tuple[str, Mapping[str, float]]]) -> Sheet | None:
    """A table of what an answer of each run took; None if no log says it.

    Args:
        runs: the name and the amounts of each run.
    """
    names = usage_names(usage for _, usage in runs)
    if not names:
        return None
    columns = [SheetColumn("run", is_label=True), *(SheetColumn(USAGE[name]) for name in names)]
    sheet = Sheet("What an answer took, in the mean", columns)
    for run, usage in runs:
        sheet.add(run, *(shown_usage(usage, name) for name in names))
    return sheet
