"""The step of a build that compiles: one library for each torch, into the wheel.

The environment variable ``TENSORCLASS_TORCHES`` names folders of packages that hold a torch each, separated as in
``PATH``. Default: the torch that this Python imports.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path(__file__).resolve().parents[1] / "tensorclass" / "td" / "native"


class CompileLibraries(BuildHookInterface[Any]):
    """Compiles the sources for each torch, in a process with that torch."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the libraries into the wheel, and name the platform in its tag."""
        sys.path.insert(0, str(NATIVE))  # a module without imports of the package, which need not be installed
        from library_name import SOURCES, library_name  # type: ignore[import-not-found]

        folders = os.environ.get("TENSORCLASS_TORCHES") or os.path.dirname(sysconfig.get_path("purelib") + "/.")
        for number, folder in enumerate(folders.split(os.pathsep)):
            environment = {**os.environ, "PYTHONPATH": folder}
            found = subprocess.run(
                [sys.executable, "-c", "import torch; print(torch.__version__)"],
                env=environment, stdout=subprocess.PIPE, text=True, check=True,
            ).stdout.strip()  # fmt: skip
            target = Path(self.directory, "libraries", str(number)).resolve()
            made = _compiled(library_name(found), SOURCES / "module.cpp", target, environment)
            self.app.display_info(f"compiled for torch {found}: {made.name}")
            build_data["force_include"][str(made)] = f"tensorclass_native/{made.name}"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True


def _compiled(name: str, source: Path, target: Path, environment: dict[str, str]) -> Path:
    """Compile a library into a folder, and return its path."""
    script = [sys.executable, str(NATIVE / "compile_extension.py"), name, str(source), str(target)]
    # it ends with its standard input, and takes its session with it
    with subprocess.Popen(
        script, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        if process.wait() != 0:
            raise SystemExit(f"the compilation of {name} failed:\n{output}")
    return Path(output.splitlines()[-1])
