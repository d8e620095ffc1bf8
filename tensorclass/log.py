"""What the package has to say while it runs."""

from __future__ import annotations

import logging
import sys
from typing import TextIO

from tensorclass.printable import printable


class _Stderr(logging.Handler):
    """Writes to the ``sys.stderr`` of the moment, which tests and notebooks exchange."""

    def emit(self, record: logging.LogRecord) -> None:
        stream: TextIO = sys.stderr
        stream.write(printable(self.format(record), lines=True) + "\n")
        stream.flush()


def _made() -> logging.Logger:
    made = logging.getLogger("tensorclass")
    if not made.handlers:  # a program that has set this logger up keeps it so
        handler = _Stderr()
        handler.setFormatter(logging.Formatter("%(asctime)s [%(name)s][%(levelname)s] %(message)s"))
        made.addHandler(handler)
        made.setLevel(logging.INFO)
        made.propagate = False
    return made


#: the logger ``"tensorclass"``: lines of level INFO and above go to stderr
logger: logging.Logger = _made()
