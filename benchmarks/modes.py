"""With and without native code."""

from __future__ import annotations

import os
import subprocess
import sys

from tensorclass.td import native


def in_python(*arguments: str) -> str:
    """Run a module of this package in a process without native code, where methods do not ask for it; its output."""
    env = {**os.environ, native.native_library.VARIABLE: "0"}
    return subprocess.run(
        [sys.executable, "-m", *arguments], env=env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def native_line() -> str:
    """Say whether native code is on."""
    return "native code: on" if native.ON else f"native code: off ({native.WHY_OFF or 'for this run'})"
