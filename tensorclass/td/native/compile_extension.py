"""Compile an extension module for torch with setuptools: ``python compile_extension.py NAME SOURCE FOLDER``.

This is run as a script, in a process of its own, so that the output of the compiler can be caught. The process ends,
with the compiler, when its standard input is closed: when the process that started it is interrupted or killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Thread
from typing import Any

OPTIONS = [] if os.name == "nt" else ["-O2", "-g0", "-fvisibility=hidden"]


def compile_extension(name: str, source: str, folder: str) -> Path:
    """Compile the source, load the result as a test, and return its path."""
    from setuptools import Distribution  # type: ignore[import-untyped]
    from torch.utils import cpp_extension

    torch_builds: Any = cpp_extension
    extension = torch_builds.CppExtension(name, [source], extra_compile_args=OPTIONS)
    distribution = Distribution({"name": "tensorclass-native", "ext_modules": [extension]})
    command = torch_builds.BuildExtension.with_options(use_ninja=False)(distribution)
    command.build_lib = command.build_temp = folder
    command.ensure_finalized()
    command.run()
    made = Path(command.get_ext_fullpath(name))
    spec = spec_from_file_location(name, made)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(module_from_spec(spec))
    return made


def _end_with_starter(folder: str) -> None:
    """Wait until standard input is closed; then remove what was made, and end the compiler and this process."""
    while os.read(0, 1):
        pass
    shutil.rmtree(folder, ignore_errors=True)
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGTERM)
    os._exit(1)


def _main(name: str, source: str, folder: str) -> None:
    Thread(target=_end_with_starter, args=[folder], daemon=True).start()
    try:
        print(compile_extension(name, source, folder))
    except Exception as error:  # of setuptools, or of loading: what the compiler said is above
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
