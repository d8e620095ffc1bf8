"""The command ``tensorclass``. Nothing heavy is imported here: the module of a subcommand loads when it runs."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from tensorclass import __version__
from tensorclass.support.printable import printable

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the program's name; by default those of this process.

    Returns:
        The exit code. Wrong usage exits with 2 and one line on stderr, ``--help`` with 0.

    Example:
        >>> from tensorclass.cli import main
        >>> main(["--version"])
        Traceback (most recent call last):
        SystemExit: 0
    """
    arguments = _parser().parse_args(argv)
    code: int = import_module(arguments.module).run(arguments)
    return code


class _Parser(ArgumentParser):
    """A parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(' '.join(message.split()))}; see {self.prog} --help\n")


def _parser() -> ArgumentParser:
    parser = _Parser(prog="tensorclass", description="Typed records of tensors for PyTorch.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"tensorclass {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_scores(
        commands.add_parser(
            "scores",
            help="aggregate and compare the scores of language-model evaluations",
            description=(
                "Aggregate the scores in sample logs of lm-evaluation-harness and in result files of IFEval's\n"
                "reference scorer: every metric with its count and a 95 % interval, and by instruction type where\n"
                "there are types. A strict and a loose file of the same run are read together, whichever of them\n"
                "is given."
            ),
            epilog=(
                "exit codes: 0; 2, with one line on stderr, where a file is missing, empty, cut off, not JSON or of\n"
                "an unknown format, holds scores that cannot be, or where strict and loose files disagree.\n"
                "needs: pip install 'tensorclass[scores]'; with --ray 'tensorclass[scores,ray]'"
            ),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    )
    _add_stubs(
        commands.add_parser(
            "stubs",
            help="write type stubs for modules that hold classes decorated with @tensorclass",
            description=(
                "Write a stub (.pyi) for each module that holds classes decorated with @tensorclass, which type\n"
                "checkers cannot see through, and for the packages around it. No module is imported or run. Stubs\n"
                "that are no longer needed are removed; files that this command did not write are left alone."
            ),
            epilog=(
                "exit codes: 0; 1 with --check where a stub is missing, stale or no longer needed; 2, with one line\n"
                "on stderr, where there is no such file or module, no decorated class, or a syntax error.\n"
                "docs/typing.md tells how each type checker is pointed at the stubs."
            ),
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
    )
    return parser


def _add_stubs(parser: ArgumentParser) -> None:
    parser.add_argument(
        "targets", nargs="+", metavar="PATH|MODULE", help="a file, a folder, or the dotted name of a module or package"
    )
    parser.add_argument("--out", default="typings", metavar="DIR", help="the folder of the stubs (default: typings)")
    parser.add_argument("--check", action="store_true", help="write nothing; list the stubs that are not up to date")
    parser.set_defaults(module="tensorclass.typing.stubs.stubs_command")


def _add_scores(parser: ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE", help="a log or result file, .jsonl or .jsonl.gz")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="compare each run with the first, prompt by prompt: intervals, sign-flip test, McNemar's test",
    )
    parser.add_argument("--json", action="store_true", help="print JSON (docs/scores.md has its schema), not tables")
    parser.add_argument("--save", metavar="DIR", help="write scores.json and each run's record (.pt) to this folder")
    parser.add_argument(
        "--seed", type=_seed, default=0, metavar="N", help="seed of what is drawn at random (default: 0)"
    )
    parser.add_argument(
        "--filter",
        metavar="NAME",
        help="the filter to take of logs that hold each document once a filter (default: that of the first row)",
    )
    parser.add_argument("--ray", action="store_true", help="read the files on a Ray cluster, several at a time")
    parser.add_argument(
        "--ray-address",
        metavar="ADDRESS",
        help="the cluster; by default that of RAY_ADDRESS, or one on this machine that ends with the command",
    )
    parser.set_defaults(module="tensorclass.scores.scores_command")


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"expected a whole number of at least 0, got {text!r}")
    return int(text)
