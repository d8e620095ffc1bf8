"""How pytest-xdist hands out the tests: whole files, those first that take long.

``--dist loadgroup`` hands out single tests, so that each worker sets up what a module shares: groups of processes, the
kills of :mod:`tests.storage.kills`. Here a worker gets the tests of a file, or those of a group, together.
"""

from __future__ import annotations

from typing import Any

from xdist.scheduler import LoadGroupScheduling

#: folders whose files start processes and take longest; what comes last fills up the time of the other worker
LONGEST_FIRST = ("typing", "parity", "storage", "distributed", "nn", "benchmarks", "site")


class FileScheduling(LoadGroupScheduling):
    """Hands out the tests of a file together; files of one ``xdist_group`` go to the same worker."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return scope if scope != nodeid else nodeid.split("::", 1)[0]


def order(path: str) -> int:
    """The rank of a test file, by its path below the repository: smaller goes first."""
    parts = path.split("/")
    folder = parts[1] if parts[0] == "tests" and len(parts) > 2 else ""
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


def make_scheduler(config: Any, log: Any) -> Any:
    """The scheduler of ``--dist loadgroup``."""
    if config.getvalue("dist") != "loadgroup":
        return None
    config.option.loadscopereorder = False  # by number of tests; the order is that of collection, see `order`
    return FileScheduling(config, log)
