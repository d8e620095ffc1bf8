"""Build the native code for the installed torch, and remove it."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

from tensorclass.support.atomic import whole_path
from tensorclass.support.extras import require
from tensorclass.support.interrupts import Uninterrupted, uninterrupted
from tensorclass.support.project_links import guide

from . import check_library, compile_extension
from .first_load import FirstLoad
from .native_library import FOLDER, SOURCES, VARIABLE, library_file, library_name, other_libraries

PAGE = guide("native")


class NotBuilt(RuntimeError):
    """The native code could not be built; the message says what is missing and what to do."""


def build_library() -> Path:
    """Compile the sources into the folder of the package, and remove libraries for other versions of torch.

    The file appears when it is complete, and a process has imported the package with it and found that operations give
    what they give in Python. An interrupt stops the compiler.

    Returns:
        The path of the library.

    Raises:
        NotBuilt: there is no compiler for C++, headers of Python are missing, the compilation fails, or what it made
            does not work.
        ImportError: setuptools is not installed.
        OSError: the folder of the package cannot be written.
    """
    _check_tools()
    target = library_file()
    with uninterrupted() as section, whole_path(target) as draft:
        made = _compiled(draft.parent / "build", section)
        _check(made, section)
        os.replace(made, draft)
        if os.name == "nt" and target.exists():
            _remove(target)  # an error that says what to do, if a process has loaded it
    FirstLoad(target).settle()
    for other in other_libraries():
        _remove(other)
    return target


def remove_libraries() -> list[Path]:
    """Remove the libraries for this Python, and return their paths.

    Raises:
        OSError: a file cannot be removed.
    """
    found = [file for file in (library_file(), *other_libraries()) if file.exists()]
    for file in found:
        _remove(file)
    return found


def compiler() -> str:
    """Return the compiler for C++ that setuptools calls, outside Windows: ``CXX``, or the one that made Python."""
    command = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "c++"
    return str(command).split()[0]


def _check_tools() -> None:
    """Raise if what a build needs is missing."""
    if not os.access(FOLDER, os.W_OK):
        raise PermissionError(
            errno.EACCES, "cannot be written; build as the user who installed the package", str(FOLDER)
        )
    require("setuptools", "compile", "tensorclass native --build")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise NotBuilt("native code needs the global interpreter lock, which this Python is built without")
    if os.name == "nt":
        return  # setuptools looks for the compiler, and says what to install
    if shutil.which(compiler()) is None:
        raise NotBuilt(
            f"there is no compiler for C++ ({compiler()}): install one (Debian: apt-get install g++; macOS: "
            f"xcode-select --install), or name yours in the environment variable CXX; see {PAGE}"
        )
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.exists():
        raise NotBuilt(
            f"there are no headers of Python ({header}): install them (Debian: apt-get install python3-dev); see {PAGE}"
        )


def _compiled(folder: Path, section: Uninterrupted) -> Path:
    """Compile into a folder, in a process of its own, and return the path of the library."""
    source = SOURCES / "module.cpp"
    code, output = _run([compile_extension.__file__, library_name(), str(source), str(folder)], section)
    if code != 0:
        raise NotBuilt(f"the compilation failed{_end(code)}; see {PAGE}; the output:\n{output}")
    return Path(output.splitlines()[-1])


def _check(made: Path, section: Uninterrupted) -> None:
    """Import the package with a library, in a process of its own, and compare its results with those of Python."""
    code, output = _run([check_library.__file__, str(made)], section)
    if code != 0:
        raise NotBuilt(
            f"the library was built, but does not work{_end(code)}, so it was not put in place; please report it "
            f"with the output, and see {PAGE}:\n{output}"
        )


def _run(command: list[str], section: Uninterrupted) -> tuple[int, str]:
    """Run a script of this folder. Return its exit code and its output. It ends with this process."""
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # the compiler ends with the process
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with section.interruptible():
            output = process.stdout.read().decode(errors="replace").strip()
            code = process.wait()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
    return code, output


def _end(code: int) -> str:
    return f" (signal {signal.Signals(-code).name})" if code < 0 else ""


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except PermissionError as error:
        raise PermissionError(
            error.errno,
            f"cannot be removed ({error.strerror}); on Windows: end the processes that use it, and set {VARIABLE}=0 "
            "for this command",
            str(file),
        ) from None
