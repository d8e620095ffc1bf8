"""``python -m tensorclass.compat PROGRAM``: run a program in which ``import tensordict`` finds this package."""

from __future__ import annotations

import builtins
import os
import runpy
import sys
from typing import Final

from .import_hook import install

USAGE: Final[str] = """usage: python -m tensorclass.compat PROGRAM [ARGS...]
       python -m tensorclass.compat -m MODULE [ARGS...]
       python -m tensorclass.compat -c CODE [ARGS...]

Run a Python program in which `import tensordict` finds tensorclass."""


def main(arguments: list[str]) -> int:
    """Install the finder and run a program as Python itself would.

    Args:
        arguments: ``PROGRAM``, ``-m MODULE`` or ``-c CODE``, and the arguments of the program.

    Returns:
        2 if the arguments say nothing to run, else 0. The program itself can end the process with another code.
    """
    if not arguments or arguments[0] in ("-h", "--help") or (arguments[0] in ("-m", "-c") and len(arguments) < 2):
        asked = bool(arguments) and arguments[0] in ("-h", "--help")
        print(USAGE, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    install()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": builtins})
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.realpath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
