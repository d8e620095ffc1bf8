"""Gates: conditions on figures, for continuous integration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from tensorclass.scores.command.exit_codes import CommandError
from tensorclass.scores.document import ScoredRun
from tensorclass.scores.estimate import Estimate, compared, show
from tensorclass.scores.leaderboard import MACRO, Leaderboard
from tensorclass.scores.paired import is_significant
from tensorclass.scores.run_grid import model_of

__all__ = ["Gate", "bound_gates", "worse_gates"]


@dataclass(frozen=True)
class Gate:
    """The outcome of a condition.

    Attributes:
        condition: as the command line says it.
        passed: whether it holds.
        reason: what was compared, in a sentence.
    """

    condition: str
    passed: bool
    reason: str

    def to_dict(self) -> dict[str, object]:
        """Return the outcome for JSON."""
        return asdict(self)


def bound_gates(
    runs: Sequence[ScoredRun],
    bounds: Sequence[tuple[str, float]],
    *,
    is_lower: bool,
    board: Leaderboard | None,
    without: str | None,
) -> list[Gate]:
    """Check that figures are not below (or above) their bounds.

    Args:
        runs: the runs.
        bounds: names of figures, with their bounds: ``acc``, ``arc/acc`` for that of one task, ``macro`` or ``micro``.
        is_lower: whether the bounds are lower ones.
        board: holds the averages.
        without: a model that is not checked: the baseline.

    Raises:
        CommandError: there is no such figure, or the bound of a share is no fraction.
    """
    gates: list[Gate] = []
    option, relation = ("--fail-under", "below") if is_lower else ("--fail-over", "above")
    for name, bound in bounds:
        found = {
            who: one
            for who, model, figures in _named_figures(runs, board)
            if model != without and (one := figures.get(name)) is not None
        }
        if not found:
            names = dict.fromkeys(name for _, _, figures in _named_figures(runs, board) for name in figures)
            more = "" if board is not None else "; macro and micro need --leaderboard"
            raise CommandError(f"{option} {name}: expected one of {', '.join(names) or 'no figure'}{more}")
        for who, one in found.items():
            if one.unit == "%" and not 0 <= bound <= 1:
                raise CommandError(
                    f"{option} {name}: expected a fraction from 0 to 1, since it is a share, got {bound:g}; "
                    f"write {bound / 100:g} or {bound:g}%"
                )
            value = float(one.value)
            passed = value >= bound if is_lower else value <= bound  # NaN fails
            shown = f"{show(value, one.unit)} {one.unit}".strip()
            verb = f"is {relation}" if not passed and value == value else "is not " + relation
            reason = f"{who}: {name} is {shown}, which {verb} {show(bound, one.unit)}"
            if value != value:
                reason = f"{who}: {name} counts nothing"
            gates.append(Gate(f"{option} {name}={bound:g}", passed, reason))
    return gates


def worse_gates(board: Leaderboard, margin: float | None) -> list[Gate]:
    """Check that no model is worse than the baseline of a leaderboard, on any task and in the average.

    Args:
        board: has the baseline.
        margin: how much worse a model may be; None: it may not be significantly worse.
    """
    condition = f"--fail-if-worse-than {board.baseline}" + ("" if margin is None else f" --margin {margin:g}")
    gates: list[Gate] = []
    for one in board.differences:
        if one.task == MACRO and len(board.tasks) == 1:
            continue
        task = board.averaged[0] if one.task == MACRO else one.task
        sign = 1.0 if board.higher_is_better[task] else -1.0
        difference = one.difference
        value, unit = float(difference.value), difference.unit
        worse = sign * value < 0
        passed = (
            not (worse and is_significant(one.p_adjusted, board.confidence))
            if margin is None
            else sign * value >= -margin
        )
        where = "macro average" if one.task == MACRO else f"{one.task}, {board.metrics[one.task]}"
        p_value = "-" if one.p_adjusted != one.p_adjusted else f"{one.p_adjusted:.2g}"
        reason = f"{one.b} beside {one.a}, {where}: {show(value, unit, sign=True)} {unit}".rstrip()
        reason += (
            f", p = {p_value}{' (corrected)' if board.correction != 'none' else ''}, {compared(difference)} prompts"
        )
        gates.append(Gate(condition, passed and value == value, reason))
    return gates


def _named_figures(
    runs: Sequence[ScoredRun], board: Leaderboard | None
) -> Iterator[tuple[str, str, Mapping[str, Estimate]]]:
    """Names of runs, their models and figures by the names that bounds may have."""
    for one in runs:
        figures = dict(one.report.figures)
        figures |= {f"{one.run.task}/{name}": figure for name, figure in figures.items()}
        yield one.run.name, model_of(one.run), figures
    if board is not None:
        for model in board.models:
            yield model, model, {"macro": board.macro[model], "micro": board.micro[model]}
