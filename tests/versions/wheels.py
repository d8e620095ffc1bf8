"""Build what a release uploads: ``make wheels`` gives ``dist/`` an sdist and the wheels for what is on this machine.

The wheel of the package itself serves every Python. Those of ``tensorclass-native`` hold native code: one for each
Python, with a library for each PyTorch. They are built in environments of ``make versions``, or in the running one:

    make versions ARGS="--python 3.13 --torch 2.15 --only README"
    make wheels ARGS="--environment 3.13-torch-2.15 --environment 3.13-torch-2.14"
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.versions.environments import ROOT, folder


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        "make wheels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", type=Path, default=ROOT / "dist", metavar="FOLDER", help="default: dist")
    parser.add_argument(
        "--environment", action="append", metavar="NAME", help="of `make versions`; may be repeated (default: this one)"
    )
    parser.add_argument("--all", action="store_true", help="in all environments of `make versions` that are ready")
    options = parser.parse_args(arguments)
    try:
        for file in build(options.to.resolve(), pythons(options.environment or [], options.all)):
            print(file)
    except (LookupError, subprocess.CalledProcessError) as error:
        print(f"make wheels: {error}", file=sys.stderr)
        return 2
    return 0


def pythons(names: Sequence[str], every: bool = False) -> list[Path]:
    """Return the Pythons of environments by name, of all of them, or this one.

    Raises:
        LookupError: there is no such environment.
    """
    there = {
        file.parent.name: file.parent / "bin" / "python" for file in (folder() / "environments").glob("*/ready.json")
    }
    missing = [name for name in names if name not in there]
    if missing:
        raise LookupError(
            f"no environment {missing[0]!r} of `make versions`; there are: {', '.join(sorted(there)) or 'none'}"
        )
    return [*there.values()] if every else [there[name] for name in names] or [Path(sys.executable)]


def build(target: Path, environments: Sequence[Path]) -> list[Path]:
    """Build the sdist, the wheel of the package, and one of native code for each Python among environments.

    The files that are there from before are removed.

    Args:
        target: the folder.
        environments: Pythons of environments with a PyTorch.

    Returns:
        The files, in order.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    # hatchling alone, without an environment of its own: it is among the packages of development
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", target], cwd=ROOT, check=True, capture_output=True
    )
    by_version: defaultdict[str, list[Path]] = defaultdict(list)
    for python in environments:
        asked = [python, "-c", "import sys; print(*sys.version_info[:2])"]
        by_version[subprocess.run(asked, check=True, capture_output=True, text=True).stdout].append(python)
    for found in by_version.values():
        _build_native(target, found)
    return sorted(target.iterdir())


def _build_native(target: Path, environments: Sequence[Path]) -> None:
    """Build the wheel of native code for one Python, with the torch of each of its environments."""
    folders = [
        subprocess.run(
            [python, "-c", "import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()
        for python in environments
    ]  # fmt: skip
    pip = (environments[0], "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    subprocess.run(
        [*pip, "-w", target, ROOT / "native"],
        env={**os.environ, "TENSORCLASS_TORCHES": os.pathsep.join(folders)},
        check=True,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
