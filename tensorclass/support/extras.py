"""Packages that only some features need."""

from __future__ import annotations

import importlib
from typing import Any


def require(package: str, extra: str, purpose: str) -> Any:
    """Import and return a module.

    Args:
        package: name of the module.
        extra: the extra of this package that installs it.
        purpose: what needs it, to begin the error with: ``"from_pandas"``.

    Raises:
        ImportError: the module is not installed.

    >>> require("json", "none", "an example").loads("[1]")
    [1]
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs {package.split('.')[0]}, which is not installed: pip install 'tensorclass[{extra}]'"
        ) from error
