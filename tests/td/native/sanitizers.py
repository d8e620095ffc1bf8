"""Native code under AddressSanitizer, UndefinedBehaviorSanitizer and LeakSanitizer: ``make sanitize``.

``python -m tests.td.native.sanitizers`` copies the checkout to ``build/sanitized``, builds the library there with gcc's
sanitizers, and runs in the copy: the tests of native code, :mod:`tests.td.native.leaks`, and the searches
:mod:`tests.td.native.reentrancy` and :mod:`tests.td.native.threads`. The library in use stays as it is. Nothing may be
reported. ``--plant`` builds errors into the library instead, each of which must be reported.

The environment of all processes:

- Python takes its memory from ``malloc``, so that the sanitizer knows each object, and freed ones stay poisoned.
- Memory that modules allocate while they are imported is no leak: they keep it for ever, and numpy does not keep track
  of all of it. What else is reported and is not ours is in ``suppressions.txt``, each with the reason.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
TREE = ROOT / "build" / "sanitized"

#: what the tests of native code read
COPIED = ("tensorclass", "tests", "conftest.py", "pyproject.toml", "tensorclass_command.py")

SANITIZERS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
# -fno-wrapv: Python's own options define what becomes of an overflow, and nothing would be reported
OPTIONS = ["-O1", "-g", "-fno-omit-frame-pointer", "-fvisibility=hidden", "-fno-wrapv", *SANITIZERS]

#: builds the library; the compiler is not to run under the sanitizer, but loading the result is
BUILD = f"""
import os, sys
del os.environ["LD_PRELOAD"]
os.environ["LDFLAGS"] = {" ".join(SANITIZERS)!r}
from tensorclass.td.native import compile_extension, native_library
compile_extension.OPTIONS[:] = [*{OPTIONS!r}, *sys.argv[1:]]
made = compile_extension.compile_extension(
    native_library.library_name(), str(native_library.SOURCES / "module.cpp"), os.path.abspath("compiled"))
os.replace(made, native_library.library_file())
"""

#: runs at the start of every process: what imports allocate is no leak
AT_START = """
import ctypes
import importlib._bootstrap as bootstrap
library = ctypes.CDLL(None)
find_and_load = bootstrap._find_and_load
def without_leaks(*args):
    library.__lsan_disable()
    try:
        return find_and_load(*args)
    finally:
        library.__lsan_enable()
bootstrap._find_and_load = without_leaks
"""


def library(name: str) -> str:
    """Return the path of a library of gcc's.

    Raises:
        FileNotFoundError: it is not installed.
    """
    found = subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()
    if not os.path.isabs(found):
        raise FileNotFoundError(f"gcc has no {name}: install it (Debian: apt-get install gcc)")
    return os.path.realpath(found)


def environment(leaks: bool = True) -> dict[str, str]:
    """Return the environment of processes under the sanitizers."""
    options = {
        "detect_leaks": int(leaks),
        "handle_segv": 2,  # faulthandler, which pytest starts, does not get it
        "handle_sigbus": 2,
        "allocator_may_return_null": 1,  # tests ask for more than there is
        # frames of libraries that were compiled without frame pointers, as many as suppressions.txt needs
        "fast_unwind_on_malloc": 0,
        "malloc_context_size": 8,
        "exitcode": 99,
    }
    return {
        **os.environ,
        "PYTHONPATH": f"{TREE}{os.pathsep}{TREE / 'start'}",
        "PYTHONMALLOC": "malloc",
        "PYTHONDONTWRITEBYTECODE": "",
        "TENSORCLASS_NATIVE": "1",
        # the first of them is looked for before torch; exceptions of C++ need to be known to it
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')} {library('libstdc++.so')}",
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in options.items()),
        "LSAN_OPTIONS": f"suppressions={TREE / 'tests/td/native/suppressions.txt'}:print_suppressions=0",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def copy() -> None:
    """Copy the checkout, without the library in use."""
    shutil.rmtree(TREE, ignore_errors=True)
    (TREE / "start").mkdir(parents=True)
    (TREE / "start" / "sitecustomize.py").write_text(AT_START)
    ignored = shutil.ignore_patterns("_native_torch_*", "__pycache__")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, TREE / name, ignore=ignored)
        else:
            shutil.copy2(source, TREE / name)


def build(*options: str) -> None:
    """Build the library in the copy, with further options of the compiler.

    Raises:
        CalledProcessError: it cannot be built.
    """
    env = {**environment(leaks=False), "TENSORCLASS_NATIVE": ""}
    subprocess.run([sys.executable, "-c", BUILD, *options], cwd=TREE, env=env, check=True, stdout=subprocess.DEVNULL)


def run(*arguments: str) -> int:
    """Run Python in the copy under the sanitizers, and return its exit code."""
    print(f"== python {' '.join(arguments)}", flush=True)
    begin = time.monotonic()
    code = subprocess.run([sys.executable, *arguments], cwd=TREE, env=environment()).returncode
    print(f"== exit code {code} after {time.monotonic() - begin:.0f} s", flush=True)
    return code


# -- errors that must be found ----------------------------------------------------------------------------------------

#: a function of Python's that native code calls, with the error that the environment variable names
PLANTED = """
#include <Python.h>
#include <climits>
#include <cstdlib>
#include <string_view>
inline PyObject* planted_dict() {
    static const char* given = std::getenv("PLANTED");
    const std::string_view planted = given == nullptr ? "" : given;
    PyObject* made = PyDict_New();
    if (planted == "reference") Py_XINCREF(made);
    if (planted == "memory") *static_cast<volatile char*>(std::malloc(77)) = 1;
    if (planted == "overflow") {
        volatile int most = INT_MAX;
        most = most + 1;
    }
    if (planted == "freed" || planted == "beside") {
        volatile char* block = static_cast<char*>(std::malloc(8));
        block[planted == "beside" ? 8 : 0] = 1;
        std::free(const_cast<char*>(block));
        if (planted == "freed") block[0] = 1;
    }
    return made;
}
#define PyDict_New planted_dict
"""

#: what is said about each error
SAID = {
    "": '"wrong": 0',
    "reference": "objects and",
    "memory": "LeakSanitizer: detected memory leaks",
    "overflow": "runtime error: signed integer overflow",
    "freed": "AddressSanitizer: heap-use-after-free",
    "beside": "runtime error: store to address",
}


def missed() -> list[str]:
    """Build a library with errors, and return those that are not found."""
    header = TREE / "planted.h"
    header.write_text(PLANTED)
    build("-include", str(header))
    command = [sys.executable, "-m", "tests.td.native.leaks", "--repeats", "20", "--only", "clone of flat"]
    found: list[str] = []
    for name, said in SAID.items():
        env = {**environment(), "PLANTED": name}
        done = subprocess.run(command, cwd=TREE, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        right = said in done.stdout and (done.returncode != 0) == bool(name)
        print(
            f"{name or 'no error'}: {'found' if right else f'exit code {done.returncode}: {done.stdout}'}", flush=True
        )
        if not right:
            found.append(name)
    return found


# -- the command ------------------------------------------------------------------------------------------------------


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", default="20000", help="operations of the search with changes in between")
    parser.add_argument("--every", default="3", help="of how many operations one is looked at for leaks")
    parser.add_argument("--seconds", default="300", help="of the search with threads")
    parser.add_argument("--only", choices=("tests", "leaks", "reentrancy", "threads"), help="all by default")
    parser.add_argument("--plant", action="store_true", help="whether planted errors are found")
    parser.add_argument("--built", action="store_true", help="take the copy that there is")
    options = parser.parse_args()
    if not options.built:
        copy()
    if options.plant:
        try:
            return 1 if missed() else 0
        finally:
            shutil.rmtree(TREE)
    if not options.built:
        build()
    tests = ["-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "tests/td/native"]
    # they build a library of their own, or start the searches below
    tests += [f"--ignore=tests/td/native/test_{name}.py" for name in ("library_builder", "reentrancy", "threads")]
    tests += ["-k", "not library_that_crashed"]  # the crash is part of the test
    commands = {
        "tests": tests,
        "leaks": ["-m", "tests.td.native.leaks", "--repeats", "3", "--every", options.every],
        "reentrancy": ["-m", "tests.td.native.reentrancy", "--native", "1", "--count", options.count],
        "threads": ["-m", "tests.td.native.threads", "--native", "1", "--seconds", options.seconds],
    }
    failed = [name for name, command in commands.items() if options.only in (None, name) and run(*command)]
    print(f"failed: {', '.join(failed)}" if failed else "nothing is wrong", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
