"""Intervals as inline SVG: a bar and a stroke on an axis that the rows of a table share.

Positions are percentages of the drawing's width, so that it is as wide as its column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, log10

from tensorclass.scores.estimate import Difference, Estimate
from tensorclass.scores.html_report.markup import Markup, element
from tensorclass.scores.score_sheets import common_unit

__all__ = ["Axis", "axis_of", "axis_of_figures"]

_INTERVALS = 4  # between ticks, at most
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_HEIGHT = 18  # pixels of a drawing
_EDGE = 6.0  # percent of the width left free on both sides, for labels


@dataclass(frozen=True)
class Axis:
    """The range of values that a column of drawings shows.

    Attributes:
        name: its id on the page.
        low: the value on the left.
        high: the value on the right.
        step: the distance of the ticks.
        unit: the unit of the values; ``"%"`` for fractions, whose ticks are in percent.
        zero: whether 0 gets a line of its own, for differences.

    Example:
        >>> axis = axis_of("scores", [0.52, 0.78], "%")
        >>> axis.low, axis.high, [f"{tick:.1f}" for tick in axis.ticks()]
        (0.5, 0.8, ['0.5', '0.6', '0.7', '0.8'])
    """

    name: str
    low: float
    high: float
    step: float
    unit: str
    zero: bool = False

    def ticks(self) -> list[float]:
        """The values of the ticks, rising."""
        first, last = ceil(self.low / self.step - 1e-9), floor(self.high / self.step + 1e-9)
        return [number * self.step for number in range(first, last + 1)]

    def scale(self) -> Markup:
        """The labels of the ticks, for the head of the column. Its lines are drawn behind each interval."""
        places = [(tick, self._place(tick)) for tick in self.ticks()]
        lines = [
            element("line", class_="zero" if self.zero and not tick else None, x1=place, x2=place, y1=0, y2=_HEIGHT)
            for tick, place in places
        ]
        labels = [element("text", self._label(tick), x=place, y=13, text_anchor="middle") for tick, place in places]
        return _drawing("scale", element("defs", element("g", *lines, id=self.name, class_="ticks")), *labels)

    def interval(self, value: float, low: float, high: float) -> Markup:
        """One figure with its interval. What is NaN is not drawn. The numbers must stand beside it as text."""
        marks = [element("use", href=f"#{self.name}")]
        if isfinite(low) and isfinite(high):
            middle, x1, x2 = _HEIGHT // 2, self._place(low), self._place(high)
            marks.append(element("line", class_="range", y1=middle, y2=middle, x1=x1, x2=x2))
        if isfinite(value):
            place = self._place(value)
            marks.append(element("line", class_="value", x1=place, x2=place, y1=2, y2=_HEIGHT - 2))
        return _drawing("interval", *marks)

    def _place(self, value: float) -> str:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return f"{_EDGE + (100 - 2 * _EDGE) * share:.1f}%"

    def _label(self, tick: float) -> str:
        plus = "+" if self.zero and tick > 0 else ""
        return f"{plus}{100 * tick if self.unit == '%' else tick:.6g}"


def axis_of(name: str, values: Iterable[float], unit: str, *, zero: bool = False) -> Axis:
    """The axis that holds all finite values, from one tick to another.

    Args:
        name: its id on the page.
        values: figures and ends of intervals; NaN is left out.
        unit: their unit.
        zero: whether 0 must be on the axis and gets a line.
    """
    held = [value for value in values if isfinite(value)]
    if zero or not held:
        held.append(0.0)
    low, high = min(held), max(held)
    if high - low < 1e-9 * max(1.0, abs(high)):
        margin = abs(high) / 10 or 0.1
        low, high = low - margin, high + margin
    step = _step((high - low) / _INTERVALS)
    low, high = floor(low / step + 1e-9) * step, ceil(high / step - 1e-9) * step
    return Axis(name, low, high, step, unit, zero)


def axis_of_figures(name: str, found: Sequence[Estimate] | Sequence[Difference], *, zero: bool = False) -> Axis | None:
    """The axis of figures or differences and their intervals; None where their units differ."""
    unit = common_unit(found)
    return None if unit is None else axis_of(name, ends_of(found), unit, zero=zero)


def ends_of(found: Sequence[Estimate] | Sequence[Difference]) -> list[float]:
    """The figures or differences and the ends of their intervals."""
    return [float(end) for one in found for end in (one.value, one.low, one.high)]


def _drawing(name: str, *marks: Markup) -> Markup:
    return element("svg", *marks, class_=name, height=_HEIGHT, aria_hidden="true", focusable="false")


def _step(least: float) -> float:
    """The smallest round number that is not below ``least``."""
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in _STEPS if factor * power >= least * (1 - 1e-9))
