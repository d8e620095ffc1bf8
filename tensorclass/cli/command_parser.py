"""Parsers of the command and of its subcommands."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any, NoReturn

from tensorclass.support.printable import printable

__all__ = ["CommandParser", "add_command"]


class CommandParser(ArgumentParser):
    """A parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {printable(' '.join(message.split()))}; see {self.prog} --help\n")


def add_command(
    commands: Any, name: str, module: str, *, help: str, description: str, epilog: str | None = None
) -> ArgumentParser:
    """Add a subcommand, and return its parser.

    Args:
        commands: what ``ArgumentParser.add_subparsers`` gives.
        name: of the subcommand.
        module: whose function ``run`` is the subcommand.
        help: a line in the list of subcommands.
        description: above the options, in lines as they are.
        epilog: below the options, likewise.
    """
    parser: ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(module=module)
    return parser
