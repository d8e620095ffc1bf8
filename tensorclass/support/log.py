"""The logger of the package."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from tensorclass.support.printable import printable


class _Stderr(logging.Handler):
    """Write to the current ``sys.stderr``, which tests and notebooks replace."""

    def emit(self, record: logging.LogRecord) -> None:
        stream: TextIO = sys.stderr
        stream.write(printable(self.format(record), lines=True) + "\n")
        stream.flush()


def _make_logger() -> logging.Logger:
    new = logging.getLogger("tensorclass")
    if not new.handlers:  # keep the setup of the program
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("%(asctime)s [%(name)s][%(levelname)s] %(message)s"))
        new.addHandler(handler)
        new.setLevel(logging.INFO)
        new.propagate = False
    return new


#: the logger ``"tensorclass"``: lines of level INFO and above go to stderr
logger: logging.Logger = _make_logger()
