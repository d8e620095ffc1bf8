"""The command ``tensorclass``. Only the standard library is needed here: modules of subcommands load when they run."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from tensorclass.cli.command_parser import CommandParser, add_command
from tensorclass.cli.scores_options import SUBCOMMANDS, add_scores, missing_file
from tensorclass.support.printable import printable
from tensorclass.support.project_links import DOCUMENTATION, guide
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


def _parser() -> ArgumentParser:
    parser = CommandParser(
        prog="tensorclass",
        description="Typed records of tensors for PyTorch.",
        epilog=f"documentation: {DOCUMENTATION}",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"tensorclass {VERSION}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in (add_scores, _add_inspect, _add_convert, _add_migrate, _add_stubs, _add_native):
        add(commands)
    return parser


def _add_inspect(commands: Any) -> None:
    parser = add_command(
        commands,
        "inspect",
        "tensorclass.inspection.inspect_command",
        help="show what is in a file: class, fields, rows, bytes, checksums, first rows",
        description=(
            "Show what is in files: the class that they name, fields with dtypes and shapes, rows, bytes,\n"
            "checksums and the first rows. Formats are found in the content: all that this package writes\n"
            "(memory maps, archives, safetensors, consolidated files, HDF5, zarr, torch.save), and Parquet,\n"
            "Arrow, CSV, JSON lines, safetensors, HDF5 and zarr of other programs. Nothing of a file is run, no\n"
            "class is imported."
        ),
        epilog=(
            "exit codes: 0; 2, with one line on stderr for each file that is missing, unknown or damaged.\n"
            f"formats: {guide('reference/file-formats')}"
        ),
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
    parser.add_argument("--rows", type=int, default=5, metavar="N", help="how many first rows to show (default: 5)")
    parser.add_argument("--verify", action="store_true", help="read all values, and compare them with the checksums")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_convert(commands: Any) -> None:
    parser = add_command(
        commands,
        "convert",
        "tensorclass.inspection.convert_command",
        help="write the rows of a file in another format",
        description=(
            "Write the rows of a file in another format, which the end of the new name says: .parquet, .feather,\n"
            ".csv, .jsonl, .h5, .zarr, .safetensors, .zip, .td; a name without an end is a folder of memory maps.\n"
            "Rows go through memory in pieces. The new file appears when it is complete."
        ),
        epilog=(
            "exit codes: 0; 2, with one line on stderr, where nothing was written.\n"
            f"formats: {guide('reference/file-formats')}"
        ),
    )
    parser.add_argument("source", metavar="SOURCE", help="a file or a folder, as tensorclass inspect takes it")
    parser.add_argument("target", metavar="TARGET", help="the new file or folder")
    parser.add_argument("--to", metavar="FORMAT", help="its format, if the end of its name does not say it")
    parser.add_argument("--rows", type=int, default=65_536, metavar="N", help="rows of a piece (default: 65536)")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")
    parser.add_argument(
        "--nulls",
        choices=["default", "fill", "mask"],
        default="default",
        help="what becomes of nulls of a table: 0, NaN or None (fill), with a mask beside them (mask); by default, "
        "nulls of integers are an error",
    )


def _add_migrate(commands: Any) -> None:
    parser = add_command(
        commands,
        "migrate",
        "tensorclass.migrate.migrate_command",
        help="rewrite sources that use tensordict for this package",
        description=(
            "Rewrite imports of PyTorch's tensordict, and what is spelled otherwise here, in place; and list the\n"
            "lines that behave differently, each with its entry of docs/differences.md. In folders, these are the\n"
            ".py and .pyi files. Nothing is imported or run, and a second run changes nothing."
        ),
        epilog=(
            "exit codes: 0; 1 with --check where a file would be rewritten; 2, with one line on stderr for each\n"
            "file that was skipped: a syntax error, or a file that cannot be read or written.\n"
            "needs: pip install 'tensorclass[migrate]'"
        ),
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
    parser.add_argument("--check", action="store_true", help="write nothing; list what would be rewritten")


def _add_stubs(commands: Any) -> None:
    parser = add_command(
        commands,
        "stubs",
        "tensorclass.typing.stubs.stubs_command",
        help="write type stubs for modules that hold classes decorated with @tensorclass",
        description=(
            "Write a stub (.pyi) for each module that holds classes decorated with @tensorclass, which type\n"
            "checkers cannot see through, and for the packages around it. No module is imported or run. Stubs\n"
            "that are no longer needed are removed; files that this command did not write are left alone."
        ),
        epilog=(
            "exit codes: 0; 1 with --check where a stub is missing, stale or no longer needed; 2, with one line\n"
            "on stderr, where there is no such file or module, no decorated class, or a syntax error.\n"
            f"how each type checker is pointed at the stubs: {guide('typing')}"
        ),
    )
    parser.add_argument(
        "targets", nargs="+", metavar="PATH|MODULE", help="a file, a folder, or the dotted name of a module or package"
    )
    parser.add_argument("--out", default="typings", metavar="DIR", help="the folder of the stubs (default: typings)")
    parser.add_argument("--check", action="store_true", help="write nothing; list the stubs that are not up to date")


def _add_native(commands: Any) -> None:
    parser = add_command(
        commands,
        "native",
        "tensorclass.td.native.native_command",
        help="say whether operations run in C++; build that code, or remove it",
        description=(
            "Say whether operations run in C++ in this environment, and if not, why. --build compiles that code\n"
            "for the installed PyTorch into the folder of this package, in some 15 seconds; a compiler for C++\n"
            "and setuptools are needed. Results are the same with and without it. The environment variable\n"
            "TENSORCLASS_NATIVE=0 switches it off; with TENSORCLASS_NATIVE=1 it is an error if it is missing."
        ),
        epilog=(
            "exit codes: 0; 2, with the error on stderr, where it could not be built or removed.\n"
            f"more: {guide('native')}"
        ),
    )
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument("--build", action="store_true", help="compile it for the installed PyTorch")
    actions.add_argument("--remove", action="store_true", help="remove the compiled files")
    parser.add_argument("--json", action="store_true", help="print the state as JSON")
