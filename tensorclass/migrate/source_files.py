"""The files below some paths, each read once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .counterparts import PEER

SUFFIXES = (".py", ".pyi")

#: files that name the packages a project needs, and notebooks: these are not rewritten
OTHERS = re.compile(r"(requirements.*\.txt|constraints.*\.txt|environment\.ya?ml|pyproject\.toml|setup\.cfg|.*\.ipynb)")

SKIPPED = frozenset(("__pycache__", "build", "dist", "node_modules", "site-packages"))


def files_below(paths: Iterable[str]) -> Iterator[Path]:
    """Yield source files, and files that may name the peer as a dependency, each once, in the order of their names.

    Hidden folders, virtual environments and links inside folders are left out.

    Args:
        paths: files, of any name, and folders.

    Raises:
        FileNotFoundError: there is no such path.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "a.py").write_text(""), Path(folder, "a.txt").write_text("")
        ...     [path.name for path in files_below([folder])]
        ['a.py']
    """
    seen: set[Path] = set()
    for given in paths:
        path = Path(given)
        if not path.exists():
            raise FileNotFoundError(2, "no such file or folder", given)
        for file in _below(path) if path.is_dir() else [path]:
            if file.resolve() not in seen:
                seen.add(file.resolve())
                yield file


def _below(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        here = Path(root)
        folders[:] = sorted(
            name
            for name in folders
            if not (name.startswith(".") or name in SKIPPED or (here / name / "pyvenv.cfg").exists())
        )
        for name in sorted(files):
            if (name.endswith(SUFFIXES) or OTHERS.fullmatch(name)) and not (here / name).is_symlink():
                yield here / name


def is_source(path: Path) -> bool:
    """Return whether a file holds Python: any but notebooks and files that list dependencies.

    Example:
        >>> is_source(Path("a.py")), is_source(Path("script")), is_source(Path("pyproject.toml"))
        (True, True, False)
    """
    return OTHERS.fullmatch(path.name) is None


def mentions(source: bytes, names: Iterable[str]) -> bool:
    """Return whether a source has one of some names in it.

    Example:
        >>> mentions(b"import tensordict", ["tensordict"]), mentions(b"import tensordicts", ["tensordict"])
        (True, False)
    """
    words = b"|".join(re.escape(name.encode()) for name in names)
    return re.search(rb"(?<!\w)(?:" + words + rb")(?!\w)", source) is not None


def dependency_lines(path: Path, source: bytes) -> list[int]:
    """Return the lines of a file that name the peer, if it is no source file.

    Example:
        >>> dependency_lines(Path("requirements.txt"), b"torch\\ntensordict>=0.8\\n")
        [2]
    """
    if is_source(path):
        return []
    return [number for number, line in enumerate(source.split(b"\n"), 1) if mentions(line, [PEER])]
