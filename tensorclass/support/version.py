"""The version of the package."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
