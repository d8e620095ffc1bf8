"""Compile the native operations for the installed torch."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from . import FOLDER, SOURCES, library_file, library_name


def build(*, verbose: bool = False) -> Path:
    """Compile the sources into the folder of the package. The file appears whole, or not at all.

    Args:
        verbose: show the commands and the output of the compiler. Default: ``False``.

    Returns:
        The path of the library.

    Raises:
        RuntimeError: there is no compiler for C++, no setuptools, or the compilation fails.
        PermissionError: the folder of the package cannot be written.
    """
    try:
        from setuptools import Distribution  # type: ignore[import-untyped]
        from torch.utils.cpp_extension import BuildExtension, CppExtension
    except ImportError as error:
        raise RuntimeError(
            f"native code is built with setuptools, which is missing ({error}): pip install setuptools"
        ) from None
    if not os.access(FOLDER, os.W_OK):
        raise PermissionError(f"{FOLDER} cannot be written: build as the user who installed the package")
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".build-") as folder:
        options = [] if os.name == "nt" else ["-O2", "-g0", "-fvisibility=hidden"]
        extension = CppExtension(  # type: ignore[no-untyped-call]
            library_name(), [str(SOURCES / "module.cpp")], extra_compile_args=options
        )
        distribution = Distribution({"name": "tensorclass-native", "ext_modules": [extension]})
        builder: Any = BuildExtension
        command = builder.with_options(use_ninja=False)(distribution)
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        command.run()
        built = next(Path(folder).rglob(library_file().name))
        target = library_file()
        os.replace(built, target)
    return target
