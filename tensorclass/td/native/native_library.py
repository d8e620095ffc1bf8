"""The file of the native code: its name, where it is looked for, whether it can be used, how it is loaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import torch

from . import library_name as names

FOLDER = Path(__file__).parent
SOURCES = names.SOURCES

#: the environment variable: ``0`` switches native code off, ``1`` makes it an error that it is missing
VARIABLE = "TENSORCLASS_NATIVE"

#: the environment variable that names a library to try before it is put in place; for processes that check a build
TRIED = "_TENSORCLASS_NATIVE_TRIED"

#: the package that brings libraries that are built already
PACKAGE = "tensorclass_native"

_SUFFIX = EXTENSION_SUFFIXES[0]


def torch_version() -> str:
    """Return the versions of torch that a library for this one serves."""
    return names.served_version(str(torch.__version__))


def library_name() -> str:
    """Return the name of the library made from the sources for this torch."""
    return names.library_name(str(torch.__version__), SOURCES)


def library_file() -> Path:
    """Return the file that a build makes for this torch and this Python, whether it is there or not."""
    return FOLDER / f"{library_name()}{_SUFFIX}"


def found_library() -> Path | None:
    """Return the library to use: built here, or of the package ``tensorclass-native``; ``None`` without one."""
    if tried := os.environ.get(TRIED):
        return Path(tried)
    name = library_file().name
    return next((file for folder in _folders() if (file := folder / name).is_file()), None)


def origin_of(file: Path) -> str:
    """Return where a library comes from, in words."""
    if file.parent == FOLDER:
        return "built here by `tensorclass native --build`"
    return "the package tensorclass-native" if file.parent in tuple(_folders()) else "a build that is tried"


def other_libraries() -> list[Path]:
    """Return the files built here for this Python, from other sources or for other versions of torch."""
    return sorted(set(FOLDER.glob(f"{names.PREFIX}*{_SUFFIX}")) - {library_file()})


def _folders() -> Iterator[Path]:
    yield FOLDER
    spec = find_spec(PACKAGE)
    yield from map(Path, (spec.submodule_search_locations if spec else None) or [])


def why_unusable() -> str:
    """Return why no library can be used; empty if there is one."""
    try:
        if found_library() is not None:
            return ""
        others = [file for folder in _folders() for file in sorted(folder.glob(f"{names.PREFIX}*{_SUFFIX}"))]
    except OSError as error:
        return f"cannot be read: {error}"
    versions = [file.name.removesuffix(_SUFFIX).removeprefix(names.PREFIX).rpartition("_")[0] for file in others]
    if names.in_a_name(torch_version()) in versions:
        return "made from other sources"
    named = ", ".join(dict.fromkeys([version.replace("_", ".") or "another one" for version in versions]))
    return f"not built for torch {torch_version()}, only for {named}" if named else "not built"


def why_not_wanted() -> str:
    """Return why the user does not want native code; empty if they do.

    Raises:
        ValueError: the environment variable is neither 0 nor 1.
    """
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"environment variable {VARIABLE}: expected 0 (off) or 1 (required), got {value!r}")
    return f"switched off by {VARIABLE}=0" if value == "0" else ""


def load_library(file: Path) -> ModuleType:
    """Load a library.

    Raises:
        ImportError: it is damaged, or made for another torch.
    """
    name = f"{__package__}.{library_name()}"
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    library = module_from_spec(spec)
    spec.loader.exec_module(library)
    sys.modules[name] = library
    return library
