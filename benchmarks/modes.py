"""With and without native code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tensorclass.td import native


@contextmanager
def in_python() -> Iterator[None]:
    """Run operations in Python alone."""
    before = native.ON
    native.switch(False)
    try:
        yield
    finally:
        native.switch(before)


def native_line() -> str:
    """Say whether native code is on."""
    return "native code: on" if native.ON else f"native code: off ({native.WHY_OFF or 'for this run'})"
