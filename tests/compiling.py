"""Compiles several functions in one graph, which takes half as long as one graph for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch

SIZE = 12  #: functions in a graph: the time for each falls no further with more


def groups(names: Iterable[str]) -> list[Any]:
    """Groups of names as values of a parameter; the id has all names, for ``-k``."""
    every = list(names)
    parts = [every[first : first + SIZE] for first in range(0, len(every), SIZE)]
    return [pytest.param(part, id=", ".join(part)) for part in parts]


def together(check: Callable[[Sequence[str]], None], names: Sequence[str]) -> None:
    """Check functions in one graph. If that fails, check each in a graph of its own.

    Args:
        check: compiles the functions of these names in one graph, and compares the results.
        names: names of functions.

    Raises:
        AssertionError: it names the functions that fail alone, or says that they fail only together.
    """
    try:
        check(names)
    except Exception as error:
        whole = error
    else:
        return
    failed: dict[str, Exception] = {}
    for name in names:
        torch._dynamo.reset()
        try:
            check([name])
        except Exception as error:
            failed[name] = error
    if not failed:
        raise AssertionError(f"these fail in one graph, and none of them alone: {', '.join(names)}") from whole
    shown = "\n\n".join(f"{name}: {type(error).__name__}: {error}" for name, error in failed.items())
    raise AssertionError(shown) from next(iter(failed.values()))
