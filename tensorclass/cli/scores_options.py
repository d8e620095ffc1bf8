"""The options of ``tensorclass scores``, ``tensorclass scores diff`` and ``tensorclass scores power``."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from glob import has_magic
from math import inf, nan
from os.path import lexists
from typing import Any

from tensorclass.cli.command_parser import add_command
from tensorclass.support.project_links import guide

__all__ = ["SUBCOMMANDS", "add_scores", "missing_file"]

SUBCOMMANDS = ("diff", "power")
"""Words after ``scores`` that are no files."""

FORMATS = ("table", "json", "csv", "markdown", "latex", "html")


def add_scores(commands: Any) -> None:
    """Add the commands to a parser.

    Args:
        commands: what ``ArgumentParser.add_subparsers`` gives.
    """
    _add_scores(commands)
    _add_diff(commands)
    _add_power(commands)


def missing_file(arguments: Namespace) -> str | None:
    """Return the first of the files that is not there; None if reading is to say what is wrong.

    Args:
        arguments: of any subcommand.

    Example:
        >>> from argparse import Namespace
        >>> [missing_file(Namespace(files=files, needs_files=True)) for files in (["nowhere.jsonl"], ["runs/*", "-"])]
        ['nowhere.jsonl', None]
    """
    if not getattr(arguments, "needs_files", False):
        return None
    elsewhere = getattr(arguments, "ray", False) or getattr(arguments, "ray_address", None) is not None
    if elsewhere or getattr(arguments, "keep_going", False):
        return None
    files: list[str] = getattr(arguments, "files", [])
    return next((file for file in files if file != "-" and not has_magic(file) and not lexists(file)), None)


def _add_scores(commands: Any) -> None:
    parser = add_command(
        commands,
        "scores",
        "tensorclass.scores.scores_command",
        help="aggregate, compare and rank the scores of language-model evaluations",
        description=(
            "Aggregate the scores in logs and results of evaluation harnesses: every metric with its count, its\n"
            "standard error and an interval. Compare runs prompt by prompt, rank models over tasks, and fail\n"
            f"where a figure is too low. Formats that are read, options and figures:\n{guide('scores')}"
        ),
        epilog=(
            "exit codes: 0; 1 where a gate fails (--fail-under, --fail-over, --fail-if-worse-than); 2, with one\n"
            "line on stderr, where a file is missing, empty, cut off, not JSON or of an unknown format, or holds\n"
            "scores that cannot be.\n"
            "more: tensorclass scores diff A B; tensorclass scores power (a file of such a name is ./diff).\n"
            "needs: pip install 'tensorclass[scores]'; with --ray 'tensorclass[scores,ray]'"
        ),
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a log or result file, compressed or not; a folder of them; a pattern; - for the standard input",
    )
    _flag(
        parser, "--keep-going", "report files that cannot be read at the end (exit code 2), and go on with the others"
    )
    several = parser.add_argument_group("several runs")
    _flag(several, "--compare", "compare the runs of each task with the first, prompt by prompt: intervals and tests")
    _flag(
        several,
        "--leaderboard",
        "rank the models over all tasks: averages, intervals of ranks, groups that cannot be told apart",
    )
    _flag(several, "--history", "follow the tasks of a model over its runs, and say which drops are more than noise")
    several.add_argument("--metric", metavar="NAME", help="the metric to rank by (default: the first of each task)")
    several.add_argument(
        "--baseline", metavar="NAME", help="the model that the others are compared with (default: the first; all pairs)"
    )
    several.add_argument(
        "--correction",
        choices=("holm", "bh", "none"),
        default="holm",
        help="of the p-values of a leaderboard and of gates: Holm's, Benjamini and Hochberg's, none (default: holm)",
    )
    several.add_argument(
        "--names",
        metavar="NAMES",
        help="names for the models, in the order of the files: A,B,...; or for some of them: OLD=NEW,...; "
        "models of one name are seeds of one",
    )
    several.add_argument(
        "--seeds",
        metavar="HOW",
        default="random",
        help="runs that differ in their seed alone (MODEL/seed1/, or as their logs say): random, a level of their own "
        "(default); pooled within their prompts; apart, as models; or a pattern of their folders, such as 'run*'",
    )
    several.add_argument(
        "--across",
        type=_names,
        action="extend",
        default=[],
        metavar="NAMES",
        help="conditions that may differ between runs that are compared: n_shot,version,..., or all",
    )
    figures = parser.add_argument_group("figures")
    figures.add_argument(
        "--confidence", type=_level, default=0.95, metavar="P", help="the level of intervals and tests (default: 0.95)"
    )
    figures.add_argument(
        "--k", type=_ks, metavar="K,...", help="add pass@k and pass^k of prompts with several rows of right or wrong"
    )
    figures.add_argument("--cluster", metavar="FIELD", help="the field whose values group prompts that belong together")
    _add_reading(figures)
    figures.add_argument(
        "--seed", type=_count, default=0, metavar="N", help="seed of what is drawn at random (default: 0)"
    )
    gates = parser.add_argument_group("gates (exit code 1)")
    bound: dict[str, Any] = {"type": _bound, "action": "append", "default": [], "metavar": "METRIC=VALUE"}
    below = "fail where a run's metric is below; TASK/METRIC=VALUE for one task, macro=VALUE for averages"
    gates.add_argument("--fail-under", help=below, **bound)
    above = "fail where a run's metric is above: for metrics of which less is better"
    gates.add_argument("--fail-over", help=above, **bound)
    gates.add_argument(
        "--fail-if-worse-than",
        metavar="NAME",
        help="fail where a model is significantly worse than this one, on a task or in the average",
    )
    gates.add_argument(
        "--margin",
        type=_margin,
        metavar="X",
        help="of --fail-if-worse-than: fail where it is worse by more than X, significantly or not; say it: without it "
        "a gate passes whatever few prompts can't show",
    )
    output = parser.add_argument_group("output")
    _add_format(output)
    output.add_argument("--json", action="store_const", const="json", dest="format", help="the same as --format json")
    output.add_argument("--report", metavar="FILE", help="write a report to this file, an HTML page without network")
    output.add_argument(
        "--plot", metavar="FILE", help="draw the scores, ratings or costs to this file (.png, .svg, .pdf)"
    )
    _flag(
        output,
        "--transcripts",
        "of --report: a page for each task, with prompts and both responses, in a folder beside",
    )
    _flag(output, "--no-text", "of --report: leave the texts of prompts in the logs")
    output.add_argument("--save", metavar="DIR", help="write scores.json and each run's record (.pt) to this folder")
    machines = parser.add_argument_group("reading on several machines")
    _flag(machines, "--ray", "read the files on a Ray cluster, several at a time")
    machines.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="the cluster; by default that of RAY_ADDRESS, or one on this machine that ends with the command",
    )
    parser.set_defaults(needs_files=True)


def _add_diff(commands: Any) -> None:
    parser = add_command(
        commands,
        "scores diff",
        "tensorclass.scores.command.diff_command",
        help="list the prompts that two runs score differently",
        description=(
            "List the prompts that run B scores differently from run A, first those that it scores lower, with\n"
            "the texts of the prompt and of the responses where the logs hold them. Files or folders of several\n"
            "tasks are listed task by task."
        ),
    )
    # Two arguments of one list: of one with nargs=2 and two names, argparse can't say that it lacks them.
    parser.add_argument("files", action="append", metavar="A", help="the files of the first run")
    parser.add_argument("files", action="append", metavar="B", help="those of the second run, on the same tasks")
    parser.add_argument("--metric", metavar="NAME", help="the metric to look at (default: the first that both have)")
    parser.add_argument(
        "--limit", type=_count, default=20, metavar="N", help="how many prompts to list (default: 20; 0 for all)"
    )
    _flag(parser, "--no-text", "leave the texts in the logs")
    _flag(parser, "--full-text", "print texts in full, not their first lines")
    _add_reading(parser)
    _add_format(parser, ("table", "json", "csv"))
    parser.set_defaults(needs_files=True)


def _add_power(commands: Any) -> None:
    parser = add_command(
        commands,
        "scores power",
        "tensorclass.scores.command.power_command",
        help="tell which differences an evaluation can show, and how many prompts are needed",
        description=(
            "Tell the smallest difference between two models that a paired comparison on so many prompts shows,\n"
            "or how many prompts a given difference needs. The spread is that of the runs in FILE..., or follows\n"
            "from the rates of right answers."
        ),
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="the files of two runs of one task")
    parser.add_argument("--metric", metavar="NAME", help="the metric of the runs (default: the first that both have)")
    parser.add_argument("--rate", type=_share, metavar="P", help="without files: the share of right answers of a model")
    parser.add_argument("--rate-b", type=_share, metavar="P", help="that of the other model (default: the same)")
    parser.add_argument(
        "--correlation",
        type=_correlation,
        default=0.0,
        metavar="R",
        help="of the models' verdicts on a prompt (default: 0, on the safe side; similar models have 0.3 to 0.7)",
    )
    parser.add_argument("--prompts", type=_count, action="append", default=[], metavar="N", help="how many prompts")
    parser.add_argument(
        "--difference", type=_positive, action="append", default=[], metavar="X", help="a difference to show"
    )
    parser.add_argument("--power", type=_level, default=0.8, metavar="P", help="the chance to show it (default: 0.8)")
    parser.add_argument("--level", type=_level, default=0.05, metavar="P", help="the level of the test (default: 0.05)")
    _add_reading(parser)
    _add_format(parser)


def _flag(group: Any, name: str, help: str) -> None:
    group.add_argument(name, action="store_true", help=help)


def _add_reading(group: Any) -> None:
    group.add_argument(
        "--filter",
        action="append",
        metavar="NAME|TASK=NAME",
        help="the filter to take of logs that hold each document once a filter (default: that of the first row); "
        "TASK=NAME for one task, and again for others",
    )
    group.add_argument(
        "--missing",
        choices=("error", "wrong", "drop"),
        default="error",
        help="missing verdicts, prompts that only other runs have, and unfinished logs: an error above --max-missing "
        "(default); wrong answers; or left out, of the runs that are compared with them as well",
    )
    group.add_argument(
        "--max-missing", type=_share, default=0.01, metavar="P", help="the share that may be missing (default: 1%%)"
    )
    group.add_argument(
        "--results",
        metavar="FILE",
        help="the results file that the logs of lm-evaluation-harness belong to (default: the one beside each log)",
    )
    group.add_argument(
        "--columns",
        type=_columns,
        action="append",
        default=[],
        metavar="ROLE=COLUMN,...",
        help="of a table: the columns of prompt, task, model, group, cluster, text, response, target, and of metrics; "
        "of a log: the keys of its documents for group and cluster",
    )


def _add_format(group: Any, formats: Sequence[str] = FORMATS) -> None:
    group.add_argument(
        "--format",
        choices=formats,
        default="table",
        help="of the output: tables as wide as the terminal, JSON (the guide has its schema), or others",
    )


def _count(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)


def _number(text: str, expected: str) -> float:
    try:
        return float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ArgumentTypeError(f"expected {expected}, got {text!r}") from None


def _number_type(expected: str, fits: Callable[[float], bool]) -> Callable[[str], float]:
    def parsed(text: str) -> float:
        value = _number(text, expected)
        if not fits(value):
            raise ArgumentTypeError(f"expected {expected}, got {text!r}")
        return value

    return parsed


_level = _number_type("a fraction between 0 and 1", lambda value: 0 < value < 1)
_share = _number_type("a fraction from 0 to 1", lambda value: 0 <= value <= 1)
_correlation = _number_type("a number from -1 to 1", lambda value: -1 <= value <= 1)
_positive = _number_type("a number above 0", lambda value: 0 < value < inf)
_margin = _number_type("a number of at least 0, such as 0.02 or 2%", lambda value: 0 <= value < inf)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _ks(text: str) -> list[int]:
    parts = text.split(",")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise ArgumentTypeError(f"expected whole numbers of at least 1, such as 1,4,8, got {text!r}")
    return sorted({int(part) for part in parts})


def _columns(text: str) -> list[tuple[str, str]]:
    pairs = [one.partition("=") for one in text.split(",")]
    for role, _, column in pairs:
        if not role or not column:
            raise ArgumentTypeError(f"expected ROLE=COLUMN,..., such as prompt=id,accuracy=correct, got {text!r}")
    return [(role, column) for role, _, column in pairs]


def _bound(text: str) -> tuple[str, float]:
    name, _, value = text.rpartition("=")
    expected = "METRIC=VALUE, such as acc=0.7"
    bound = _number(value, expected) if name else nan
    if bound != bound:
        raise ArgumentTypeError(f"expected {expected}, got {text!r}")
    return name, bound
