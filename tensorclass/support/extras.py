"""Packages that only some features need."""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib import metadata
from typing import Any


def require(package: str, extra: str, purpose: str) -> Any:
    """Import and return a module.

    Args:
        package: name of the module.
        extra: the extra of this package that installs it.
        purpose: what needs it, to begin the error with: ``"from_pandas"``.

    Raises:
        ImportError: the module is not installed, or older than this package needs.

    >>> require("json", "none", "an example").loads("[1]")
    [1]
    """
    name = package.partition(".")[0]
    try:
        module = importlib.import_module(package)
    except ImportError as error:
        old = _too_old(name)
        if old:  # what is imported may not be there yet
            raise ImportError(f"{purpose}: {old}: pip install --upgrade 'tensorclass[{extra}]'") from error
        raise ImportError(
            f"{purpose} needs {name}, which is not installed: pip install 'tensorclass[{extra}]'"
        ) from error
    if old := _too_old(name):
        raise ImportError(f"{purpose}: {old}: pip install --upgrade 'tensorclass[{extra}]'")
    return module


@cache
def _too_old(name: str) -> str:
    """Return what is wrong with the version of an installed package; empty if nothing is known to be."""
    bound = _bounds().get(name.lower())
    if bound is None:
        return ""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
    return f"{name} {version} is too old, {bound} or later is needed" if _numbers(version) < _numbers(bound) else ""


@cache
def _bounds() -> dict[str, str]:
    """Return the lowest versions of other packages that the metadata of this package names."""
    try:
        lines = metadata.requires("tensorclass") or []
    except metadata.PackageNotFoundError:  # on the path, but not installed
        return {}
    found = [re.match(r"([\w.-]+)(?:\[.*?\])?>=([\d.]+)", line) for line in lines]
    return {one[1].lower(): one[2] for one in found if one}


def _numbers(version: str) -> list[int]:
    """Return the numbers of a version, without what follows those of the release: ``3.1.0rc1`` is ``[3, 1, 0]``."""
    release = re.match(r"[\d.]*", version)
    return [int(part) for part in (release[0] if release else "").split(".") if part]
