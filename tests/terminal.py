"""A terminal that tests write to, as `sys.stderr` of a command is one."""

from __future__ import annotations

import os
import threading
from typing import TextIO

import pytest


class Terminal:
    """A pseudo-terminal: `file` is written to, `close()` returns all that was written."""

    def __init__(self) -> None:
        if not hasattr(os, "openpty"):
            pytest.skip("needs pseudo-terminals")
        self._leader, follower = os.openpty()
        self.file: TextIO = os.fdopen(follower, "w")
        self._shown = bytearray()
        # One read gives what has arrived, and a full terminal makes its writer wait: a thread reads to the end.
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while piece := os.read(self._leader, 2**16):
                self._shown += piece
        except OSError:  # no one has the other end any more
            pass

    def close(self) -> str:
        """Return what was written, once all of it has been read."""
        self.file.close()
        self._reader.join()
        os.close(self._leader)
        return self._shown.decode()
