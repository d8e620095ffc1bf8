"""Which tests to run after a change to a module: ``python -m tests.which tensorclass/td/packing.py ...``.

The tests of ``x.py`` are those of ``test_x.py`` in the same folder of ``tests/``. Other modules have a line in
``tests/which_tests.txt``: up to three files that use most of it.
Examples in docstrings of the module are tests, too.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "tensorclass"
TABLE = ROOT / "tests" / "which_tests.txt"


def modules() -> list[str]:
    """Return the modules with code, relative to the package: no ``__init__.py`` that only imports names."""
    return [
        path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.stem != "__init__" or _defines(path)
    ]


def _defines(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) for node in ast.walk(tree))


def own(module: str) -> str | None:
    """Return the test file with the name of a module, relative to ``tests``."""
    path = Path(module)
    file = path.parent / f"test_{path.stem}.py"
    return file.as_posix() if (ROOT / "tests" / file).is_file() else None


def table(text: str | None = None) -> list[tuple[str, list[str]]]:
    """Return the lines of the table: a module, and its test files relative to ``tests``."""
    lines = (TABLE.read_text(encoding="utf-8") if text is None else text).splitlines()
    rows = [line.partition("#")[0].partition(":") for line in lines if line and not line.startswith("#")]
    return [(module.strip(), files.split()) for module, _, files in rows]


def files_of(module: str) -> list[str]:
    """Return the test files of a module.

    Args:
        module: its path in the repository or in the package, or its dotted name.

    Returns:
        Paths relative to the repository.

    Raises:
        ValueError: there is no such module, or no answer for it.
    """
    name = relative(module)
    files = [file] if (file := own(name)) else dict(table()).get(name, [])
    if not files:
        file = Path("tests", Path(name).parent, f"test_{Path(name).stem}.py")
        raise ValueError(f"{name}: add {file}, or a line to tests/which_tests.txt")
    return [f"tests/{file}" for file in files]


def relative(module: str) -> str:
    """Return the path of a module relative to the package."""
    path = module if module.endswith(".py") else module.replace(".", "/")
    path = Path(path).absolute().relative_to(PACKAGE).as_posix() if Path(path).is_absolute() else path
    path = path.removeprefix("./").removeprefix("tensorclass/")
    for name in (path, f"{path}.py", f"{path}/__init__.py"):
        if (PACKAGE / name).is_file():
            return name
    raise ValueError(f"{module}: there is no such module in tensorclass/")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="+", metavar="MODULE", help="path, or dotted name")
    try:
        print(*dict.fromkeys(file for module in parser.parse_args().modules for file in files_of(module)), sep="\n")
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
