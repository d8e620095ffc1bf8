"""Forks of a process with torch loaded stand for fresh interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import fresh_python

ABOUT = """
import atexit, os, sys
atexit.register(print, "at exit")
print(__name__, sys.argv, os.getcwd(), sys.path[0], os.environ.get("SET"), sys.stdin.read())
print("tensorclass" in sys.modules, "torch" in sys.modules, "select" in globals())
"""


def test_a_program_is_what_the_interpreter_would_run(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(ABOUT)
    for arguments in (["-c", ABOUT, "x"], ["script.py", "x"], ["-m", "script", "x"]):
        given = {"input": "in", "env": {**os.environ, "SET": "1"}, "cwd": tmp_path, "text": True}
        ours = fresh_python.run(arguments, **given)
        theirs = subprocess.run([sys.executable, *arguments], capture_output=True, **given)  # type: ignore[call-overload]
        assert (ours.returncode, ours.stderr) == (0, "")
        assert ours.stdout == theirs.stdout.replace("False False False", "False True False")


def test_the_exit_code_is_that_of_the_interpreter() -> None:
    for code in ("import sys; sys.exit(3)", "import os; os.kill(os.getpid(), 9)", "1 / 0", "raise SystemExit('why')"):
        ours = fresh_python.run(["-c", code])
        theirs = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert ours.returncode == theirs.returncode
        assert ours.stderr.splitlines()[-1:] == theirs.stderr.splitlines()[-1:]


def test_a_program_that_takes_too_long_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        fresh_python.run(["-c", "import time; time.sleep(60)"], timeout=0.1)


def test_warnings_are_as_the_option_says() -> None:
    code = "import warnings; warnings.warn('seen')"
    assert "seen" in fresh_python.run(["-c", code]).stderr
    assert fresh_python.run(["-W", "ignore", "-c", code]).stderr == ""


def test_another_program_starts_one_by_its_command() -> None:
    done = subprocess.run([*fresh_python.command(), "-c", "import sys; sys.exit(len(input()))"], input=b"four")
    assert done.returncode == 4
