"""The table, the geometric means and what they say about the targets."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.page import number, table

WIDTH = 46
SHOWN = 20
"""How many rows that miss a target are listed."""


@dataclass(frozen=True)
class Row:
    """A workload's figures, in `unit` ("us": microseconds a call; "B": bytes); no `hand` where nothing compares."""

    name: str
    ours: float
    peer: float
    hand: float | None
    unit: str = "us"
    python_over_hand: float | None = None
    """The same work here without native code, beside the hand-written code; None if that was not measured."""

    @property
    def peer_over_ours(self) -> float:
        return self.peer / self.ours

    @property
    def ours_over_hand(self) -> float | None:
        return None if self.hand is None else self.ours / self.hand

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "peer/ours": self.peer_over_ours, "ours/hand": self.ours_over_hand}


@dataclass(frozen=True)
class ScoreLog:
    """Aggregating a long sample log here, beside only reading it with pandas."""

    rows: int
    seconds: float
    megabytes: float
    """The peak of the process."""
    pandas_seconds: float
    pandas_megabytes: float


@dataclass
class Results:
    """All rows: `calls` make the geometric means; `beyond` (what a record does and a dict cannot) and `processes`
    (imports, definitions, memory) stand for themselves."""

    calls: list[Row] = field(default_factory=list)
    processes: list[Row] = field(default_factory=list)
    score_log: ScoreLog | None = None
    beyond: list[Row] = field(default_factory=list)

    @property
    def long_calls(self) -> list[Row]:
        """Those whose hand-written work takes over a microsecond: not only the cost of a call."""
        return [row for row in self.calls if row.hand is not None and row.hand > 1.0]

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": [row.as_json() for row in (*self.calls, *self.beyond, *self.processes)],
            "geometric_mean": {
                "peer/ours": peer_over_ours(self.calls),
                "ours/hand": ours_over_hand(self.calls),
                "ours in Python/hand": python_over_hand(self.calls),
            },
            "score_log": asdict(self.score_log) if self.score_log else None,
            "targets": [{"target": text, "verdict": verdict} for text, verdict in verdicts(self)],
        }


def peer_over_ours(rows: Sequence[Row]) -> float | None:
    """The geometric mean; None without rows."""
    return statistics.geometric_mean(row.peer_over_ours for row in rows) if rows else None


def ours_over_hand(rows: Sequence[Row]) -> float | None:
    """The geometric mean over the rows with a hand-written side; None without any."""
    ratios = [ratio for row in rows if (ratio := row.ours_over_hand) is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def python_over_hand(rows: Sequence[Row]) -> float | None:
    """The geometric mean without native code; None if that was not measured."""
    ratios = [row.python_over_hand for row in rows if row.python_over_hand is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def header() -> str:
    return f"{'workload':<{WIDTH}}{'ours, us':>12}{'peer/ours':>11}{'ours/hand':>11}"


def heading(title: str) -> str:
    return f"-- {title} ".ljust(len(header()), "-")


def line(row: Row) -> str:
    """A row of the table. Other units than microseconds are named beside the figure."""
    figure = f"{row.ours:.2f}" if row.ours < 1000 else f"{row.ours:,.0f}"
    unit = "" if row.unit == "us" else f" {row.unit}"
    shown = f"{row.name:<{WIDTH}}{figure + unit:>12}{_ratio(row.peer_over_ours)}{_ratio(row.ours_over_hand)}"
    return shown + _in_python(row.python_over_hand)


def means(results: Results) -> str:
    """The geometric means: of all rows, and of those where more than the cost of a call is at stake."""
    rules = (
        (f"geometric mean of {len(results.calls)}", results.calls),
        (f"  of the {len(results.long_calls)} that take over 1 us by hand", results.long_calls),
    )
    return "\n".join(
        f"{name:<{WIDTH}}{'':>12}{_ratio(peer_over_ours(rows))}{_ratio(ours_over_hand(rows))}"
        f"{_in_python(python_over_hand(rows))}"
        for name, rows in rules
    )


#: the workloads of docs/performance.md
ON_PAGE = (
    "construct (record)", "[int] (record)", "[slice] (record)", "[mask] (record)", "[index tensor] (record)",
    "[slice] = rows (record)", "reshape (record)", "x + y (record)", "stack of 8 (record)", "cat of 8 (record)",
    "clone (record)", "sum(dim=0) (record)", "apply (record)", "to_dict (record)", "[slice] (nested record)",
    "clone (nested record)", "pickle there and back (record)", "sequence of 5 (record)",
)  # fmt: skip


def page_table(results: Results) -> str:
    """Return the table of docs/performance.md: some workloads, and the geometric means of all.

    The last column, without native code, is there if that was measured.
    """
    both_modes = python_over_hand(results.calls) is not None
    rows = [[*_cells(row), _plain(row.python_over_hand)] for row in results.calls if row.name in ON_PAGE]
    long = results.long_calls
    for name, chosen in (
        (f"geometric mean of {len(results.calls)}", results.calls),
        (f"... of the {len(long)} that take over 1 us by hand", long),
    ):
        ratios = (ours_over_hand, peer_over_ours, python_over_hand)
        rows.append([name, "", *[_plain(ratio(chosen)) for ratio in ratios]])
    heads = ("workload", "us", "ours / by hand", "`tensordict` / ours", "in Python alone / by hand")
    columns = 5 if both_modes else 4
    return table(heads[:columns], [row[:columns] for row in rows])


def beyond_table(results: Results) -> str:
    """Return the table of what a record does and a dict cannot."""
    return table(("workload", "us", "ours / by hand", "`tensordict` / ours"), map(_cells, results.beyond))


def over_the_goals(results: Results) -> str:
    """Return the table of the rows that miss a goal, the worst beside hand-written code first."""
    rows = (*results.calls, *results.beyond, *results.processes)
    slow = {id(row) for row in results.long_calls if (row.ours_over_hand or 0.0) > 1.5}
    found = [row for row in rows if id(row) in slow or row.peer_over_ours < 1.0]
    found.sort(key=lambda row: row.ours_over_hand or 0.0, reverse=True)
    return table(("workload", "us", "ours / by hand", "`tensordict` / ours"), [_cells(row) for row in found])


def _cells(row: Row) -> list[str]:
    unit = "" if row.unit == "us" else f" {row.unit}"
    return [row.name, number(row.ours) + unit, _plain(row.ours_over_hand), _plain(row.peer_over_ours)]


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def score_log_lines(log: ScoreLog) -> str:
    return (
        f"aggregating a score log of {log.rows:,} rows: {log.seconds:.2f} s, {log.megabytes:.0f} MB; "
        f"reading it with pandas: {log.pandas_seconds:.2f} s, {log.pandas_megabytes:.0f} MB"
    )


def _ratio(value: float | None) -> str:
    return f"{'-' if value is None else f'{value:.2f}':>11}"


def _in_python(value: float | None) -> str:
    return "" if value is None else f"   in Python {value:.2f}"


def verdicts(results: Results) -> list[tuple[str, str]]:
    """Each target with "reached", the rows that miss it, or that nothing was measured for it."""
    return [(text, judge(results)) for text, judge in TARGETS]


def verdict_block(results: Results) -> str:
    return "\n".join(["targets", *(f"  {text}: {verdict}" for text, verdict in verdicts(results))])


NOT_MEASURED = "not measured"


def _mean(value: float | None, reached: Callable[[float], bool]) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{'reached' if reached(value) else 'MISSED'} ({value:.2f})"


def _offenders(rows: Sequence[Row], badness: Callable[[Row], float], tell: Callable[[Row], str]) -> str:
    """ "reached", or the rows whose badness is above 1, worst first."""
    if not rows:
        return NOT_MEASURED
    bad = sorted((row for row in rows if badness(row) > 1.0), key=badness, reverse=True)
    if not bad:
        return f"reached (all {len(rows)})"
    told = [f"{row.name}: {tell(row)}" for row in bad[:SHOWN]]
    if len(bad) > SHOWN:
        told.append(f"and {len(bad) - SHOWN} more")
    return "\n      ".join([f"MISSED by {len(bad)} of {len(rows)}", *told])


def _hand_mean(results: Results) -> str:
    return _mean(ours_over_hand(results.calls), lambda mean: mean <= 1.1)


def _peer_mean(results: Results) -> str:
    return _mean(peer_over_ours(results.calls), lambda mean: mean >= 2.6)


def _hand_worst(results: Results) -> str:
    return _offenders(
        results.long_calls,
        lambda row: (row.ours_over_hand or 0.0) / 1.5,
        lambda row: f"{row.ours:.2f} beside {row.hand:.2f} us, {row.ours_over_hand:.2f} times",
    )


def _peer_worst(results: Results) -> str:
    return _offenders(
        [*results.calls, *results.beyond, *results.processes],
        lambda row: 1.0 / row.peer_over_ours,
        lambda row: f"{row.ours:.2f} beside {row.peer:.2f} {row.unit}, {row.peer_over_ours:.2f} times",
    )


def _score_log(results: Results) -> str:
    log = results.score_log
    if log is None:
        return NOT_MEASURED
    verdict = "reached" if log.seconds < log.pandas_seconds and log.megabytes < 500 else "MISSED"
    return f"{verdict} ({log.pandas_seconds / log.seconds:.1f} times faster, {log.megabytes:.0f} MB)"


def _limit(prefix: str, limit_us: float) -> Callable[[Results], str]:
    """A limit in microseconds on the processes' rows whose names begin with `prefix`."""

    def judge(results: Results) -> str:
        rows = [row for row in results.processes if row.name.startswith(prefix)]
        slow = _offenders(rows, lambda row: row.ours / limit_us, lambda row: f"{row.ours:,.0f} us")
        return slow if slow.startswith("MISSED") or not rows else f"reached ({max(row.ours for row in rows):,.0f} us)"

    return judge


TARGETS: Sequence[tuple[str, Callable[[Results], str]]] = (
    ("ours/hand at most 1.1 in the geometric mean", _hand_mean),
    ("ours/hand at most 1.5 wherever the hand-written work takes over 1 us", _hand_worst),
    ("peer/ours at least 2.6 in the geometric mean", _peer_mean),
    ("the peer never faster", _peer_worst),
    ("import at most 0.10 s over torch's own", _limit("import", 100_000.0)),
    ("a class of three fields defined in at most 0.4 ms", _limit("define", 400.0)),
    ("a score log aggregated faster than pandas reads it, in less than 500 MB", _score_log),
)
