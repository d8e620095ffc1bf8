"""The command ``tensorclass scores power``: which differences an evaluation can show."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Final

from tensorclass.scores.command.exit_codes import CommandError, exit_code
from tensorclass.scores.command.output import print_result
from tensorclass.scores.command.run_files import read_files
from tensorclass.scores.comparison import compare
from tensorclass.scores.estimate import show
from tensorclass.scores.power import PairedDesign
from tensorclass.scores.score_errors import ScoreFileError
from tensorclass.scores.sheet import Sheet, SheetColumn

__all__ = ["run"]

_PROMPTS: Final = (100, 300, 1000, 3000, 10_000)
_DIFFERENCES: Final = (0.01, 0.02, 0.05, 0.1)


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: as ``tensorclass scores power --help`` tells.

    Returns:
        The exit code: 0; 2 after one line on stderr.
    """
    return exit_code(lambda: _run(arguments), "tensorclass scores power")


def _run(arguments: Namespace) -> int:
    try:
        design, about, unit, own = _of_files(arguments) if arguments.files else _of_rates(arguments)
        chances = {"power": arguments.power, "level": arguments.level}
        numbers = sorted({*(arguments.prompts or (() if arguments.difference else _PROMPTS)), *own})
        differences = arguments.difference or (() if arguments.prompts or unit != "%" else _DIFFERENCES)
        shown = [(number, design.detectable(number, **chances)) for number in numbers]
        needed = [(difference, design.prompts_needed(difference, **chances)) for difference in differences]
    except ScoreFileError:
        raise
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from error
    rows = [
        *({"prompts": number, "difference": difference} for number, difference in shown),
        *({"prompts": number, "difference": difference} for difference, number in needed),
    ]
    print_result(
        arguments.format,
        _sheets(arguments, about, unit, shown, needed),
        rows=iter(rows),
        document={
            "schema": "tensorclass.scores.power/1",
            "about": about,
            "unit": unit,
            **chances,
            "variance": design.between,
            "detectable": rows[: len(shown)],
            "needed": rows[len(shown) :],
        },
    )
    return 0


def _of_files(arguments: Namespace) -> tuple[PairedDesign, str, str, list[int]]:
    """The design of the comparison of two runs, and its number of prompts."""
    if arguments.rate is not None or arguments.rate_b is not None:
        raise CommandError("expected files or --rate, got both")
    runs = read_files(arguments)
    if len(runs) != 2:
        raise CommandError(f"expected two runs, got {len(runs)}: {', '.join(run.name for run in runs)}")
    a, b = runs
    found = compare(a.scores, b.scores)
    name = arguments.metric if arguments.metric is not None else next(iter(found), None)
    if name is None or name not in found:
        raise CommandError(f"--metric {name}: expected one of {', '.join(found) or 'no metric'}")
    one = found[name]
    return PairedDesign.of_difference(one), f"{name} of {b.name} and {a.name}", one.unit, [int(one.prompts)]


def _of_rates(arguments: Namespace) -> tuple[PairedDesign, str, str, list[int]]:
    if arguments.rate is None:
        raise CommandError("expected the files of two runs, or --rate: the share of right answers of a model")
    design = PairedDesign.of_rates(arguments.rate, arguments.rate_b, correlation=arguments.correlation)
    rates = " and ".join(f"{100 * rate:g} %" for rate in (arguments.rate, arguments.rate_b) if rate is not None)
    return design, f"rates of {rates}, correlation {arguments.correlation:g}", "%", []


def _sheets(
    arguments: Namespace, about: str, unit: str, shown: list[tuple[int, float]], needed: list[tuple[float, int | None]]
) -> Iterator[Sheet | str]:
    after = f", {unit}" if unit else ""
    if shown:
        sheet = Sheet(
            f"The smallest difference that is shown{after}: {about}",
            [SheetColumn("prompts", is_label=True), SheetColumn("difference")],
        )
        for number, difference in shown:
            sheet.add(f"{number:,}", show(difference, unit))
        yield sheet
    if needed:
        sheet = Sheet(
            f"The prompts that a difference needs: {about}",
            [SheetColumn(f"difference{after}", is_label=True), SheetColumn("prompts")],
        )
        for difference, count in needed:
            sheet.add(show(difference, unit), "-" if count is None else f"{count:,}")
        yield sheet
    yield (
        f"Shown: significant at the level of {100 * arguments.level:g} % with a chance of {100 * arguments.power:g} %, "
        "if both models answer the same prompts."
    )
