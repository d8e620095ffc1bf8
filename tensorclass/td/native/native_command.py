"""The command ``tensorclass native``: say whether operations run in C++, build and remove the native code."""

from __future__ import annotations

import json
import signal
import sys
from argparse import Namespace
from types import FrameType
from typing import NoReturn

import torch

from tensorclass.support.printable import printable

from . import ON, WHY_OFF
from .library_builder import NotBuilt, build_library, remove_libraries
from .native_library import (
    found_library,
    library_file,
    origin_of,
    other_libraries,
    why_not_wanted,
    why_unusable,
)

__all__ = ["run"]


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: ``build``, ``remove``, ``json``, as ``tensorclass native --help`` tells.

    Returns:
        The exit code: 0; 2, with the error on stderr, where something could not be built or removed.
    """
    signal.signal(signal.SIGTERM, _ended)
    try:
        if arguments.build:
            return _say(f"{build_library()}: built", arguments)
        if arguments.remove:
            removed = remove_libraries()
            return _say("\n".join([f"{file}: removed" for file in removed] or ["nothing to remove"]), arguments)
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}")
    except (NotBuilt, ImportError) as error:
        return _failed(str(error))
    return _say(_summary(), arguments)


def _say(text: str, arguments: Namespace) -> int:
    if arguments.json:
        text = json.dumps(_state(arguments.build or arguments.remove), indent=2)
    print(printable(text, lines=True))
    return 0


def _state(changed: bool) -> dict[str, object]:
    """Return the state of the native code: in this process, or, if a file was changed, in the next one."""
    file = found_library()
    reason = (why_not_wanted() or why_unusable()) if changed else WHY_OFF
    return {
        "on": not reason if changed else ON,
        "reason": reason or None,
        "torch": str(torch.__version__),
        "python": sys.version.split()[0],
        "file": str(file or library_file()),
        "built": library_file().exists(),
        "origin": None if file is None else origin_of(file),
        "others": [str(file) for file in other_libraries()],
    }


def _summary() -> str:
    file = found_library()
    lines = [
        f"native code: {'on' if ON else f'off: {WHY_OFF}'}",
        f"torch:       {torch.__version__}",
        f"file:        {file or library_file()}{'' if file else ' (missing)'}",
        *([f"origin:      {origin_of(file)}"] if file else []),
    ]
    if not ON and why_unusable():
        lines.append("to build it: tensorclass native --build")
    return "\n".join(lines)


def _failed(message: str) -> int:
    print(f"tensorclass native: {printable(message, lines=True)}", file=sys.stderr)
    return 2


def _ended(number: int, frame: FrameType | None) -> NoReturn:
    """End as after an interrupt, so that what was begun is removed."""
    raise SystemExit(128 + number)
