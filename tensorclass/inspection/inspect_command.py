"""The command ``tensorclass inspect``."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from tensorclass.support.printable import printable

from .file_description import FileDescription, describe_file

__all__ = ["run"]


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: ``paths``, ``rows``, ``verify``, ``json``, as ``tensorclass inspect --help`` tells.

    Returns:
        The exit code: 0, or 2 after a line on stderr for each file that cannot be read.
    """
    code = 0
    found: list[FileDescription] = []
    for path in arguments.paths:
        try:
            found.append(describe_file(path, rows=arguments.rows, verify=arguments.verify))
        except (OSError, ValueError, ImportError) as error:
            message = f"{path}: no such file" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())
            sys.stderr.write(f"tensorclass inspect: {printable(message)}\n")
            code = 2
    if arguments.json:
        plain = [one.to_dict() for one in found]
        sys.stdout.write(json.dumps(plain[0] if len(arguments.paths) == 1 and plain else plain, indent=2) + "\n")
    elif found:
        sys.stdout.write("\n\n".join(map(str, found)) + "\n")
    return code
