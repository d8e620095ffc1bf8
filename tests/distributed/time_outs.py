"""Time-outs of tests: short, so that what hangs is soon found out, and longer ones if the machine was busy."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def with_time_outs(check: Callable[[float], None], seconds: float) -> None:
    """Run a check of a time-out. If it fails, run it again with longer ones.

    On a busy machine work that does not hang can take as long as a short time-out, so that it is reported in place of
    the work that hangs. An error of the package fails with any time-out.

    Args:
        check: gets the time-out in seconds; anything it waits for, or lets hang, depends on that.
        seconds: the first time-out.
    """
    for factor in (1, 6):
        try:
            check(factor * seconds)
        except (Exception, pytest.fail.Exception):
            continue
        return
    check(36 * seconds)
