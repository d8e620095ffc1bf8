"""The command ``tensorclass``. Only the standard library is needed here: modules of subcommands load when they run."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NoReturn

from tensorclass.cli.scores_options import SUBCOMMANDS, add_scores, missing_file
from tensorclass.support.printable import printable
from tensorclass.support.version import VERSION

__all__ = ["main"]


def main(argv: Sequence[str] | None = None, *, before: Callable[[], object] | None = None) -> int:
    """Run the command.

    Args:
        argv: the arguments after the program's name; by default those of this process.
        before: called before the module of the subcommand is imported, if the arguments are right.

    Returns:
        The exit code. Wrong usage exits with 2 and one line on stderr, ``--help`` with 0.

    Example:
        >>> from tensorclass.cli import main
        >>> main(["--version"])
        Traceback (most recent call last):
        SystemExit: 0
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["scores"] and given[1:2] and given[1] in SUBCOMMANDS:
        given = [" ".join(given[:2]), *given[2:]]
    arguments = _parser().parse_args(given)
    missing = missing_file(arguments)
    if missing is not None:
        sys.stderr.write(f"tensorclass scores: {printable(missing)}: no such file\n")
        return 2
    if before is not None:
        before()
    code: int = import_module(arguments.module).run(arguments)
    return code


class _Parser(ArgumentParser):
    """A parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(' '.join(message.split()))}; see {self.prog} --help\n")


def _parser() -> ArgumentParser:
    parser = _Parser(prog="tensorclass", description="Typed records of tensors for PyTorch.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"tensorclass {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_scores(commands)
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
