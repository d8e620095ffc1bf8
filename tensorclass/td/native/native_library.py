"""The file of the native code: its name, whether it can be used, how it is loaded."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import torch

FOLDER = Path(__file__).parent
SOURCES = FOLDER / "source"

#: the environment variable: ``0`` switches native code off, ``1`` makes it an error that it is missing
VARIABLE = "TENSORCLASS_NATIVE"

_PREFIX = "_native_torch_"
_SUFFIX = EXTENSION_SUFFIXES[0]


def library_name() -> str:
    """Return the name of the library for this torch: its C++ interface differs between versions."""
    version = "".join([character if character.isalnum() else "_" for character in str(torch.__version__)])
    return f"{_PREFIX}{version}"


def library_file() -> Path:
    """Return the file of the library for this torch and this Python, whether it is there or not."""
    return FOLDER / f"{library_name()}{_SUFFIX}"


def other_libraries() -> list[Path]:
    """Return the files of libraries for this Python and other versions of torch."""
    return sorted(set(FOLDER.glob(f"{_PREFIX}*{_SUFFIX}")) - {library_file()})


def source_time() -> int:
    """Return the time of the newest source, in nanoseconds.

    A library gets the same time, and is used only as long as it has it: after an update or a downgrade it has not.
    """
    return max([source.stat().st_mtime_ns for source in SOURCES.iterdir()])


def why_unusable() -> str:
    """Return why the library cannot be used; empty if it can."""
    try:
        built = library_file().stat().st_mtime_ns
    except FileNotFoundError:
        others = other_libraries()
        return (
            f"not built for torch {torch.__version__}, only {', '.join(map(_named, others))}" if others else "not built"
        )
    except OSError as error:
        return f"cannot be read: {error}"
    return "" if source_time() == built else "made from other sources"


def why_not_wanted() -> str:
    """Return why the user does not want native code; empty if they do.

    Raises:
        ValueError: the environment variable is neither 0 nor 1.
    """
    value = os.environ.get(VARIABLE, "")
    if value not in ("", "0", "1"):
        raise ValueError(f"environment variable {VARIABLE}: expected 0 (off) or 1 (required), got {value!r}")
    return f"switched off by {VARIABLE}=0" if value == "0" else ""


def load_library() -> ModuleType:
    """Load the library.

    Raises:
        ImportError: it is damaged, or made for another torch.
    """
    name = f"{__package__}.{library_name()}"
    spec = spec_from_file_location(name, library_file())
    assert spec is not None
    assert spec.loader is not None
    library = module_from_spec(spec)
    spec.loader.exec_module(library)
    sys.modules[name] = library
    return library


def _named(file: Path) -> str:
    return file.name.removesuffix(_SUFFIX).removeprefix(_PREFIX).replace("_", ".")
