"""A note about the first load of a library: a process that crashed in the middle of it is known to the next one.

Code in C++ can end a process, and no ``except`` is in the way. So the first import of the package with a new library
writes a note into the user's cache before it loads the library, and says in it, once the package is imported, that
all went well. A note that still says "loading" of a process that is gone tells that it crashed.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

#: after so many seconds nobody is still loading: the number of a process can be another one's by then
LONGEST = 600.0

_LOADED = "loaded"


class FirstLoad:
    """The note of a library.

    Args:
        library: its file. Another file at the same path, say, a new build, has a note of its own.
    """

    def __init__(self, library: Path) -> None:
        with suppress(OSError):  # loading it will say what is wrong with it
            status = library.stat()
            library = library.resolve().with_name(f"{library.name} {status.st_size} {status.st_mtime_ns}")
        identity = f"{library} {sys.version}"
        #: the file of the note
        self.file: Path = cache_folder() / f"native-{sha256(identity.encode()).hexdigest()[:16]}"
        self._loading: str = f"loading {os.getpid()}"

    def crashed(self) -> bool:
        """Return whether a process began to load the library, and ended before it said how that went."""
        try:
            words = self.file.read_text(encoding="ascii").split()
            age = time.time() - self.file.stat().st_mtime
        except (OSError, ValueError):
            return False
        return words[:1] == ["loading"] and (age > LONGEST or not _is_alive(words[1:]))

    def begin(self) -> None:
        """Write that this process is loading the library, unless it was loaded before.

        Where nothing can be written, there is no note, and a crash is not known later.
        """
        with suppress(OSError):
            if not self.crashed() and self.file.exists():
                return
            self.file.parent.mkdir(parents=True, exist_ok=True)
            atexit.register(self.forget)  # an error or an interrupt is no crash
            self.file.write_text(self._loading, encoding="ascii")

    def end(self) -> None:
        """Write that the library was loaded."""
        atexit.unregister(self.forget)
        with suppress(OSError):
            if self.file.read_text(encoding="ascii") == self._loading:
                self.file.write_text(_LOADED, encoding="ascii")

    def settle(self) -> None:
        """Write that the library works: it was tried in another process."""
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            self.file.write_text(_LOADED, encoding="ascii")

    def forget(self) -> None:
        """Remove the note, if it says that this process is loading the library."""
        with suppress(OSError):
            # empty: interrupted before the text was written
            if self.file.read_text(encoding="ascii") in (self._loading, ""):
                self.file.unlink()


def cache_folder() -> Path:
    """Return the folder for files of this package that can be made again: of the user, not of an environment."""
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~\\AppData\\Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base, "tensorclass")


def _is_alive(words: list[str]) -> bool:
    if not words or not words[0].isdecimal():
        return False
    if os.name == "nt":
        return True  # nothing tells: signal 0 would end the process
    try:
        os.kill(int(words[0]), 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
