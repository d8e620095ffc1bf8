"""The command ``tensorclass stubs``: find modules, make their stubs, write or compare them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from tensorclass.support.atomic import whole_file
from tensorclass.support.interrupts import uninterrupted
from tensorclass.support.printable import printable
from tensorclass.support.regular_files import content_of

from .module_paths import SUFFIX, Module, NotFound, found_at, named, search_path
from .module_stub import HEADER, Neighbourhood, Syntax, decorated, stub

__all__ = ["run"]


def run(arguments: Namespace) -> int:
    """Run the command.

    Args:
        arguments: ``targets``, ``out``, ``check``, as ``tensorclass stubs --help`` tells.

    Returns:
        The exit code: 0; 1 where ``check`` finds a difference; 2 after one line on stderr.
    """
    out = Path(arguments.out)
    try:
        return _run(arguments.targets, out, arguments.check)
    except (NotFound, Syntax, _Taken) as error:
        return _failed(str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        return _failed(f"{place}{error.strerror or error}")


class _Taken(Exception):
    """A file stands where a stub should, which this command did not write, or two modules would have one stub."""


def _run(targets: Sequence[str], out: Path, check: bool) -> int:
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(20, "expected a folder for the stubs, found a file", str(out))
    looked = {module.path: module for target in targets for module in named(target, out)}
    neighbours = {module.root: Neighbourhood(module.root) for module in looked.values()}
    texts: dict[Path, str] = {}
    origins: dict[Path, Path] = {}
    for module in looked.values():
        source, names = content_of(module.path), neighbours[module.root].names
        if not decorated(source, module, names):
            continue
        path = module.stub_in(out)
        if path in texts:
            raise _Taken(f"{path}: {origins[path]} and {module.path} would both have this stub; name one of them")
        texts[path], origins[path] = stub(source, module, names), module.path
    for path in texts:
        if path.exists() and not _is_ours(path):
            raise _Taken(f"{path}: this file was not generated; move it away, or give another folder with --out")
    here = Path.cwd().resolve()
    everywhere = any(Path(target).is_dir() and Path(target).resolve() in (here, *here.parents) for target in targets)
    obsolete = _obsolete(out, list(looked.values()), texts, everywhere)
    if not texts and not obsolete:
        return _failed(f"{', '.join(targets)}: no class there is decorated with @tensorclass")
    for folder in {out / path.relative_to(out).parts[0] for path in texts}:
        if folder.name.endswith(SUFFIX):
            texts[folder / "py.typed"] = PARTIAL
    return compared(texts, obsolete) if check else written(texts, obsolete, out)


#: the content of py.typed in a package that has stubs for some modules only
PARTIAL = "partial\n"


def written(texts: dict[Path, str], obsolete: list[Path], out: Path) -> int:
    """Writes what differs, removes what is obsolete, and says so."""
    for path, text in sorted(texts.items()):
        if not _holds(path, text):
            path.parent.mkdir(parents=True, exist_ok=True)
            with uninterrupted() as section, whole_file(path) as file, section.interruptible():
                file.write(text.encode())
            print(printable(f"{path}: written"))
    for path in obsolete:
        path.unlink()
        print(printable(f"{path}: removed"))
        for folder in path.parents:
            if folder == out or any(folder.iterdir()):
                break
            folder.rmdir()
    return 0


def compared(texts: dict[Path, str], obsolete: list[Path]) -> int:
    """Says what differs; 1 where something does."""
    differing = [path for path, text in sorted(texts.items()) if not _holds(path, text)]
    lines = [f"{path}: {'stale' if path.exists() else 'missing'}" for path in differing]
    lines += [f"{path}: no longer needed" for path in obsolete]
    for line in lines:
        print(printable(line))
    if lines:
        print("run the command without --check to bring them up to date", file=sys.stderr)
    return 1 if lines else 0


def _obsolete(out: Path, looked: Sequence[Module], texts: dict[Path, str], everywhere: bool) -> list[Path]:
    """The generated stubs that nothing needs: of modules that have no decorated classes, or that are gone.

    Args:
        out: the folder of the stubs.
        looked: the modules that were looked at.
        texts: what is needed.
        everywhere: whether all below the working directory was looked at, so that what was not found there is gone.
    """
    names = {module.name for module in looked}
    packages = tuple(f"{module.name}." for module in looked if module.is_package)
    found: list[Path] = []
    for path in sorted(out.rglob("*.pyi")):
        if path in texts or not _is_ours(path):
            continue
        first, *rest = path.relative_to(out).with_suffix("").parts
        parts = [first.removesuffix(SUFFIX), *rest]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        gone = everywhere or name.startswith(packages)
        module = None if name.startswith(packages) else _on_search_path(name)
        if name in names or (gone if module is None else not _is_decorated(module)):
            found.append(path)
    for marker in sorted(out.glob(f"*{SUFFIX}/py.typed")):
        stubs = [path for path in {*marker.parent.rglob("*.pyi"), *texts} if marker.parent in path.parents]
        if stubs and all(path in found for path in stubs) and _read(marker) == PARTIAL:
            found.append(marker)
    return found


def _is_decorated(module: Module) -> bool:
    return decorated(content_of(module.path), module, Neighbourhood(module.root).names)


def _on_search_path(name: str) -> Module | None:
    modules = (found_at(root, name) for root in search_path())
    return next((module for module in modules if module is not None and module.path.is_file()), None)


def _is_ours(path: Path) -> bool:
    return _read(path).startswith(HEADER)


def _holds(path: Path, text: str) -> bool:
    return path.exists() and _read(path) == text


def _read(path: Path) -> str:
    # a pipe or a folder holds no stub
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _failed(message: str) -> int:
    print(f"tensorclass stubs: {printable(message)}", file=sys.stderr)
    return 2
