"""The modules that a user names, by a path or by a dotted name; found without importing anything."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SUFFIX", "Module", "NotFound", "found_at", "named"]


#: the suffix of a package that holds only stubs
SUFFIX = "-stubs"


class NotFound(Exception):
    """There is no such module, or no such file."""


@dataclass(frozen=True)
class Module:
    """A module that has not been imported.

    Attributes:
        name: the dotted name.
        path: the file.
        is_package: ``True`` if the file is the ``__init__.py`` of a package. Default: ``False``.

    Example:
        >>> from pathlib import Path
        >>> from tensorclass.typing.stubs import Module
        >>> Module("shapes.round", Path("src/shapes/round.py")).is_package
        False
    """

    name: str
    path: Path
    is_package: bool = False

    @property
    def root(self) -> Path:
        """The folder that the dotted name is relative to.

        Example:
            >>> from pathlib import Path
            >>> from tensorclass.typing.stubs import Module
            >>> Module("shapes.round", Path("src/shapes/round.py")).root.as_posix()
            'src'
        """
        return self.path.parents[self.name.count(".") + self.is_package]

    def stub_in(self, out: Path) -> Path:
        """Return the path of the module's stub in a folder of stubs.

        The stub lies beside the module if the module is in the folder, too. Otherwise modules of a package go to
        ``PACKAGE-stubs``: checkers look for modules without a stub in the package itself.

        Args:
            out: the folder of stubs.

        Example:
            >>> from pathlib import Path
            >>> from tensorclass.typing.stubs import Module
            >>> Module("shapes.round", Path("src/shapes/round.py")).stub_in(Path("typings")).as_posix()
            'typings/shapes-stubs/round.pyi'
        """
        parts = self.name.split(".")
        if not self.is_package:
            parts[-1] += ".pyi"
        else:
            parts.append("__init__.pyi")
        plain = out.joinpath(*parts)
        if len(parts) == 1 or plain.with_suffix(".py").absolute() == self.path:
            return plain
        return out.joinpath(f"{parts[0]}{SUFFIX}", *parts[1:])

    def absolute(self, statement: ast.ImportFrom) -> str:
        """Return the dotted name of the module that a ``from`` statement reads from.

        Leading dots stay if they lead out of the package, as in a script that is run by its path.

        Args:
            statement: the statement.

        Example:
            >>> import ast
            >>> from pathlib import Path
            >>> from tensorclass.typing.stubs import Module
            >>> (statement,) = ast.parse("from .base import Shape").body
            >>> Module("shapes.round", Path("src/shapes/round.py")).absolute(statement)
            'shapes.base'
        """
        module = statement.module or ""
        if not statement.level:
            return module
        package = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        up = statement.level - 1
        if up >= len(package):
            return "." * statement.level + module
        base = package[: len(package) - up]
        return ".".join([*base, *([module] if module else [])])


def of_file(path: Path) -> Module:
    """The module that a file is: packages are the folders above it that have an ``__init__.py``."""
    path = path.absolute()
    is_package = path.stem == "__init__"
    parts = [] if is_package else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name:
        parts.insert(0, folder.name)
        folder = folder.parent
    return Module(".".join(parts), path, is_package)


def named(target: str, out: Path, search: Sequence[str] | None = None) -> list[Module]:
    """The modules that a path or a dotted name stands for, in the order of their names.

    Args:
        target: a file, a folder (all modules below it) or the dotted name of a module or package (with all below it).
        out: the folder of the stubs, which holds no modules.
        search: the folders where dotted names begin; by default the working directory and ``sys.path``.

    Raises:
        NotFound: there is none.
    """
    path = Path(target)
    if path.is_file():
        if path.suffix != ".py":
            raise NotFound(f"{target}: expected a Python file (.py) or a folder")
        return [of_file(path)]
    if path.is_dir():
        return _below(path, out)
    if target.endswith(".py") or not all(part.isidentifier() for part in target.split(".")):
        raise NotFound(f"{target}: there is no such file, folder or module")
    for root in search_path(search):
        found = found_at(root, target)
        if found is not None:
            if not found.is_package and found.path.is_dir():
                return _below(found.path, out, target)
            return [found] if not found.is_package else _below(found.path.parent, out)
    raise NotFound(f"{target}: there is no such file, and no such module in the working directory or on sys.path")


def search_path(search: Sequence[str] | None = None) -> list[Path]:
    """The folders where dotted names begin."""
    return [Path(root or ".") for root in (["", *sys.path] if search is None else search) if Path(root or ".").is_dir()]


def found_at(root: Path, name: str) -> Module | None:
    """The module of a dotted name below a folder. A folder without ``__init__.py`` is given as its path."""
    *packages, last = name.split(".")
    folder = root.joinpath(*packages)
    if (folder / last / "__init__.py").is_file():
        return Module(name, (folder / last / "__init__.py").absolute(), True)
    if (folder / f"{last}.py").is_file():
        return Module(name, (folder / f"{last}.py").absolute())
    return Module(name, (folder / last).absolute()) if (folder / last).is_dir() else None


def _below(folder: Path, out: Path, namespace: str = "") -> list[Module]:
    found = [of_file(path) for path in _files(folder.absolute(), out.absolute())]
    if namespace:  # its modules have names that begin with that of the folder
        root = folder.absolute()
        found = [
            Module(".".join([namespace, *_dotted(module.path.relative_to(root))]), module.path, module.is_package)
            for module in found
        ]
    return sorted(found, key=lambda module: module.name)


def _dotted(path: Path) -> list[str]:
    parts = list(path.with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def _files(folder: Path, out: Path, above: tuple[Path, ...] = ()) -> Iterator[Path]:
    real = folder.resolve()
    if real in above:
        return  # a link to a folder around it
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.name.startswith(".") or path == out:
            continue
        if entry.is_dir():
            if entry.name not in _NO_SOURCES and not (path / "pyvenv.cfg").exists():
                yield from _files(path, out, (*above, real))
        elif path.suffix == ".py" and path.stem.isidentifier() and entry.is_file():
            yield path


_NO_SOURCES = ("__pycache__", "node_modules", "site-packages")
