"""What harnesses of faults stand on: each point is reached, and what is left is seen."""

from __future__ import annotations

import errno
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest

from tests import interrupting
from tests.interrupting import Held, calls, failing, interrupted, points

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts what Linux tells of a process")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module that counts as one of the package."""
    source = """
import os, pathlib

class Leaving:
    def __init__(self, left): self.left = left
    def __enter__(self): return self
    def __exit__(self, *error):
        self.left.append(1)

def opened(path, kept):
    handle = os.open(path, os.O_RDONLY)
    kept.append(handle)
    os.close(handle)
    kept.clear()

def left(count):
    with Leaving(count):
        len(count)
    return count

def swallows():
    try:
        len([])
        len([])
    except BaseException:
        pass

def made(path):
    pathlib.Path(path).mkdir()
"""
    (tmp_path / "faulty.py").write_text(source)
    monkeypatch.setattr(interrupting, "PACKAGE", str(tmp_path) + os.sep)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "faulty", raising=False)
    import faulty  # type: ignore[import-not-found]

    return faulty  # type: ignore[no-any-return]


def opened() -> set[int]:
    """The descriptors of this process, but for that of the list itself."""
    found = {int(name) for name in os.listdir("/proc/self/fd")}
    return {handle for handle in found if os.path.lexists(f"/proc/self/fd/{handle}")}


def test_each_line_is_interrupted_and_a_descriptor_that_stays_open_is_seen(package: ModuleType) -> None:
    leaks = []
    for at in range(1, 100):
        before, known = Held.now(), opened()
        outcome = interrupted(lambda: package.opened("/dev/null", []), at)
        if outcome.where is None:
            assert outcome.error is None
            break
        assert isinstance(outcome.error, KeyboardInterrupt)
        leaks.append(Held.now().beyond(before))
        for handle in opened() - known:
            os.close(handle)
        assert not Held.now().beyond(before)
    assert leaks == [[], ["open: /dev/null (1 more)"], ["open: /dev/null (1 more)"], []]
    assert outcome.count == 4


def test_no_line_lies_between_a_block_and_its_exit(package: ModuleType) -> None:
    """Python handles no signal there, a trace function would raise there."""
    for at in range(1, 100):
        count: list[int] = []
        outcome = interrupted(lambda count=count: package.left(count), at)
        if outcome.where is None:
            break
        entered = int(outcome.where.split(":")[1].split()[0]) > 21
        assert count or not entered or "__exit__" in outcome.where, outcome
    assert 5 < at < 20


def test_an_interrupt_that_is_swallowed_is_told(package: ModuleType) -> None:
    assert any(interrupted(package.swallows, at).is_lost for at in range(1, 5))


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the pathlib of Python 3.10 keeps functions of os to itself")
def test_calls_of_the_system_fail_one_after_the_other(package: ModuleType, tmp_path: Path) -> None:
    assert calls(lambda: package.opened("/dev/null", [])) == 2
    before = Held.now()
    outcome = failing(lambda: package.opened("/dev/null", []), 1, errno.EIO)
    assert isinstance(outcome.error, OSError)
    assert outcome.error.errno == errno.EIO
    assert outcome.error.filename == "/dev/null"
    assert outcome.where is not None
    assert outcome.where.startswith("os.open() at ")
    assert failing(lambda: package.opened("/dev/null", []), 3, errno.EIO).where is None
    failing(lambda: package.made(tmp_path / "a"), 1, errno.ENOSPC)
    assert not (tmp_path / "a").exists()
    assert not Held.now().beyond(before)


def test_calls_of_other_programs_do_not_fail() -> None:
    def elsewhere() -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "a").write_text("a")

    assert calls(elsewhere) == 0
    assert points(elsewhere) == 0


def test_a_changed_state_of_the_process_is_seen() -> None:
    before = Held.now()
    mask, handler = os.umask(0o11), signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        found = Held.now().beyond(before)
    finally:
        os.umask(mask)
        signal.signal(signal.SIGTERM, handler)
    assert [line.split(":")[0] for line in found] == ["changed"] * 2
    assert "0011" in found[0]
