"""The results of ``aggregate`` and ``compare``: figures by name, and by group for metrics with groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import isfinite
from typing import Any, Generic, TypeVar, cast

from tensorclass.scores.estimate import Difference, Estimate, compared, counted, show, show_interval
from tensorclass.scores.score_arrays import plain_value
from tensorclass.support.printable import printable
from tensorclass.td.delegated.declaration import delegated

__all__ = ["Comparison", "Report", "difference_dict", "estimate_dict", "positions"]

_Result = TypeVar("_Result", Estimate, Difference)


@dataclass(frozen=True, eq=False, repr=False)
class _Results(Mapping[str, _Result], Generic[_Result]):
    """Results by the name of the figure: a read-only mapping. See the subclasses for the attributes."""

    figures: Mapping[str, _Result]
    groups: Mapping[str, Mapping[str, _Result]] = field(default_factory=dict[str, Mapping[str, _Result]])
    family: str = ""
    seed: int = 0
    resamples: int | None = None
    confidence: float = 0.95
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> _Result:
        try:
            return self.figures[name]
        except KeyError:
            raise KeyError(f"no figure {name!r}; there are {', '.join(self.figures) or 'none'}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def __repr__(self) -> str:
        return str(self)

    # A mapping compares its values, but records compare position by position.

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def _text(self, heading: str, where: str, runs: tuple[int, ...], line: Callable[[_Result], str]) -> str:
        """A line for each figure; of stacked runs, below a line with their position."""
        width = max(map(len, self.figures), default=0)
        lines = [heading, *self.notes]
        for run in positions(runs):
            if run:
                lines.append(f"{where} {list(run)}")
            lines += [f"{name:{width}}  {line(one[run] if run else one)}" for name, one in self.figures.items()]
        return "\n".join(map(printable, lines))

    def _document(self, plain: Callable[[_Result], dict[str, Any]], **more: int) -> dict[str, Any]:
        """Plain Python values."""
        return {
            "family": self.family,
            "confidence": self.confidence,
            "seed": self.seed,
            **more,
            "pooled": list(self.notes),
            "metrics": [{"name": name, **plain(figure)} for name, figure in self.figures.items()],
            "groups": {
                name: [{"name": group, **plain(figure)} for group, figure in groups.items()]
                for name, groups in self.groups.items()
            },
        }


@dataclass(frozen=True, eq=False, repr=False)
class Report(_Results[Estimate]):
    """The figures of one run, or of each of several stacked runs.

    A mapping from the figure's name to its :class:`~tensorclass.scores.Estimate`; ``print(report)`` shows them.

    Attributes:
        figures: the figures by name, in the order of the record's fields.
        groups: the figures that have groups, by name, then by the name of the group.
        family: the class of the scores.
        seed: the seed of the random draws.
        resamples: the number of draws asked for; None for the default number.
        confidence: the level of the intervals, 0.95 for 95 %.
        notes: notes on the prompts, such as rows of one prompt that were pooled.
        batch_size: the dimensions of the runs: empty for one run, ``(2,)`` for two stacked ones.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData
        >>> report = ExactMatchScoreData(torch.tensor([1.0, 1.0, 0.0, 1.0]), batch_size=[4]).aggregate()
        >>> print(report)
        ExactMatchScoreData, 95 % intervals
        exact_match  75.00 %  [18.84, 100.00]  4 prompts, adjusted t
        >>> report["exact_match"].value.item()
        0.75
    """

    batch_size: tuple[int, ...] = ()

    def __str__(self) -> str:
        heading = f"{self.family}, {100 * self.confidence:g} % intervals"
        return self._text(heading, "run", self.batch_size, _line)

    @delegated("tensorclass.scores.shown_results", "shown_as_frame")
    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with a row for each figure, and for each group of it.

        Of stacked runs, the column ``run`` has their position.

        Raises:
            ImportError: pandas is not installed.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData
            >>> report = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2]).aggregate()
            >>> report.to_pandas()[["metric", "value", "prompts"]].values.tolist()
            [['exact_match', 0.5, 2]]
        """

    @delegated("tensorclass.scores.shown_results", "shown_as_html")
    def _repr_html_(self) -> str: ...

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values that JSON can hold; None where a number is NaN.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData
            >>> plain = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2]).aggregate().to_dict()
            >>> plain["metrics"][0]["name"], plain["metrics"][0]["value"]
            ('exact_match', 0.5)
        """
        return self._document(estimate_dict)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(_Results[Difference]):
    """The differences between run a and run b, figure by figure, over the prompts that both hold.

    A mapping from the figure's name to its :class:`~tensorclass.scores.Difference`; ``print(comparison)`` shows them.

    Attributes:
        figures: the differences by name, in the order of the record's fields.
        groups: the differences of figures that have groups, by name, then by the name of the group.
        family: the class of the scores.
        seed: the seed of the random draws.
        resamples: the number of draws asked for; None for the default number.
        confidence: the level of the intervals, 0.95 for 95 %.
        notes: notes on the prompts, such as rows of one prompt that were pooled.
        prompts: the number of prompts that both hold.
        only_a: the number of prompts that only the first run holds; they are left out.
        only_b: the number of prompts that only the second run holds; they are left out.
        batch_size: the dimensions of the pairs of runs: empty for two runs. Of several pairs, ``prompts`` is the
            smallest number, ``only_a`` and ``only_b`` are the largest.

    Example:
        >>> import torch
        >>> from tensorclass.scores import ExactMatchScoreData, compare
        >>> a = ExactMatchScoreData(torch.tensor([1.0, 0.0, 0.0, 0.0]), batch_size=[4])
        >>> b = ExactMatchScoreData(torch.tensor([1.0, 1.0, 0.0, 0.0]), batch_size=[4])
        >>> comparison = compare(a, b)
        >>> list(comparison), comparison.prompts, comparison["exact_match"].value.item()
        (['exact_match'], 4, 0.25)
    """

    prompts: int = 0
    only_a: int = 0
    only_b: int = 0
    batch_size: tuple[int, ...] = ()

    def __str__(self) -> str:
        heading = f"{self.family}, b - a on {self.prompts} prompts, {100 * self.confidence:g} % intervals"
        return self._text(heading, "runs", self.batch_size, _difference_line)

    @delegated("tensorclass.scores.shown_results", "shown_as_frame")
    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with a row for each figure, and for each group of it.

        Of stacked pairs of runs, the column ``run`` has their position.

        Raises:
            ImportError: pandas is not installed.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData, compare
            >>> a = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
            >>> b = ExactMatchScoreData(torch.tensor([1.0, 1.0]), batch_size=[2])
            >>> compare(a, b).to_pandas()[["metric", "difference", "only_b"]].values.tolist()
            [['exact_match', 0.5, 1]]
        """

    @delegated("tensorclass.scores.shown_results", "shown_as_html")
    def _repr_html_(self) -> str: ...

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain Python values that JSON can hold; None where a number is NaN or doesn't apply.

        Example:
            >>> import torch
            >>> from tensorclass.scores import ExactMatchScoreData, compare
            >>> a = ExactMatchScoreData(torch.tensor([1.0, 0.0]), batch_size=[2])
            >>> b = ExactMatchScoreData(torch.tensor([1.0, 1.0]), batch_size=[2])
            >>> plain = compare(a, b).to_dict()
            >>> plain["prompts"], plain["metrics"][0]["name"], plain["metrics"][0]["difference"]
            (2, 'exact_match', 0.5)
        """
        return self._document(difference_dict, prompts=self.prompts, only_a=self.only_a, only_b=self.only_b)


def _line(one: Estimate) -> str:
    method = f"no interval: {one.reason}" if one.reason else one.interval
    value = f"{show(one.value, one.unit)} {one.unit}".rstrip()
    return f"{value}  {show_interval(one.low, one.high, one.unit)}  {counted(one)}, {method}"


def _difference_line(one: Difference) -> str:
    a, b, value = show(one.a, one.unit), show(one.b, one.unit), show(one.value, one.unit, sign=True)
    interval = show_interval(one.low, one.high, one.unit, sign=True)
    p_value = "-" if one.p_value.isnan() else f"{float(one.p_value):.2g}"
    line = f"{a} -> {b} {one.unit}".rstrip() + f"  {value} {interval}  p = {p_value}"
    if one.mcnemar_p is not None:
        line += f", McNemar p = {float(one.mcnemar_p):.2g}"
    line += f", {compared(one)} prompts"
    if one.clusters is not None:
        line += f" in {int(one.clusters)} clusters"
    return f"{line}, no interval: {one.reason}" if one.reason else line


def estimate_dict(one: Estimate) -> dict[str, Any]:
    """A figure as plain values; None where a number is NaN."""
    names = ("value", "low", "high", "stderr", "interval", "count", "prompts", "unit", "reason", "clusters", "missing")
    return {name: _plain(one, name) for name in names}


def difference_dict(one: Difference) -> dict[str, Any]:
    """A difference as plain values; None where a number is NaN or doesn't apply."""
    test = None
    if one.mcnemar_p is not None:
        test = {"only_a": _plain(one, "only_a"), "only_b": _plain(one, "only_b"), "p_value": _plain(one, "mcnemar_p")}
    before = ("low", "high", "stderr", "p_value", "prompts")
    after = ("unit", "prompts_a", "prompts_b", "interval", "test", "reason", "detectable", "clusters")
    missing = ("missing_a", "missing_b")
    return {
        "a": _plain(one, "a"),
        "b": _plain(one, "b"),
        "difference": _plain(one, "value"),
        **{name: _plain(one, name) for name in before},
        "mcnemar": test,
        **{name: _plain(one, name) for name in (*after, *missing)},
    }


def _plain(one: Estimate | Difference, name: str) -> object:
    """The value of a field, in nested lists if it has batch dimensions; None for NaN and for an empty ``reason``."""

    def plain(value: object) -> object:
        if isinstance(value, list):
            return [plain(part) for part in cast("list[object]", value)]
        if isinstance(value, float):
            if not isfinite(value):
                return None
            return int(value) if name == "count" and value.is_integer() else value
        return None if name == "reason" and not value else value

    return plain(plain_value(getattr(one, name)))


def positions(batch_size: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The position of each run of a report; one empty position for a single run."""
    return product(*map(range, batch_size))
