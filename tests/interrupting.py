"""Faults at every line, for harnesses: Ctrl-C at the k-th line of the package, an error of the k-th call of the system.

A harness runs the same work again and again, each time with a fault at another point, and looks what is left::

    before = Held.now()
    outcome = interrupted(work, at)  # or failing(work, at, errno.EIO)
    assert not Held.now().beyond(before), outcome
    ...
    if outcome.where is None:  # the work ended before the point came
        break

The signal is a real one, so that blocks of :mod:`tensorclass.support.interrupts` defer it.
"""

from __future__ import annotations

import builtins
import dis
import fcntl
import functools
import io
import mmap
import os
import shutil
import signal
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import tensorclass

#: how the names of the files begin whose lines and calls count
PACKAGE: str | tuple[str, ...] = os.path.dirname(os.path.abspath(tensorclass.__file__)) + os.sep

#: modules of Python through which the package calls the system
_THROUGH = tuple(
    f"{os.sep}{name}"
    for name in ("pathlib.py", "shutil.py", "genericpath.py", "posixpath.py", "contextlib.py", "tempfile.py", "os.py")
)
_PATHLIB = f"{os.sep}pathlib{os.sep}"  # a package since Python 3.13

#: the functions that fail, by the module that they are seen in
CALLS: dict[Any, tuple[str, ...]] = {
    os: (
        "open", "close", "read", "write", "pread", "pwrite", "pwritev", "writev", "fsync", "fdatasync", "rename",
        "replace", "link", "symlink", "readlink", "unlink", "remove", "mkdir", "makedirs", "rmdir", "listdir",
        "scandir", "stat", "lstat", "fstat", "chmod", "fchmod", "chown", "fchown", "truncate", "ftruncate",
        "posix_fallocate", "lseek", "dup", "sendfile", "copy_file_range", "memfd_create", "pipe", "fork", "utime",
    ),
    shutil: ("rmtree", "copyfile", "copy", "copy2", "copytree", "move", "copymode", "copyfileobj", "disk_usage"),
    mmap: ("mmap",),
    fcntl: ("flock", "fcntl", "lockf", "ioctl"),
    builtins: ("open",),
    io: ("open",),
}  # fmt: skip


class Outcome(NamedTuple):
    """What came of work with a fault."""

    result: Any  #: what it returned
    error: BaseException | None  #: what it raised, without its traceback: that would keep files open
    where: str | None  #: the point at which the fault came; ``None`` where the work ended before
    count: int  #: how many points it passed
    noticed: tuple[str, ...] = ()  #: warnings, and errors that Python ignored, as one in ``__del__``

    @property
    def is_lost(self) -> bool:
        """Whether an interrupt came that the work swallowed."""
        return self.where is not None and self.error is None


def interrupted(
    work: Callable[[], Any], at: int, *, opcodes: bool = False, inside: str | tuple[str, ...] | None = None
) -> Outcome:
    """Run work in the main thread, and send SIGINT to this process before the ``at``-th line of the package.

    Args:
        work: the work.
        at: the line, from 1; with 0 none is interrupted, and they are counted.
        opcodes: count instructions, which takes longer. Some lie where Python itself never handles signals.
        inside: how the names of the files begin whose lines count; the package by default.
    """
    begins = PACKAGE if inside is None else inside
    count, where = 0, list[str]()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "call":
            if not frame.f_code.co_filename.startswith(begins):
                return None
            if opcodes:
                frame.f_trace_opcodes = True
                frame.f_trace_lines = False
            return trace
        if event in ("line", "opcode") and frame.f_lasti not in _exits(frame.f_code):
            count += 1
            if count == at:
                where.append(f"{_short(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}")
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()

    def traced() -> Any:
        sys.settrace(trace)
        try:
            return work()
        finally:
            sys.settrace(before)

    result, error, noticed = _run(traced)
    return Outcome(result, error, where[0] if where else None, count, noticed)


def failing(work: Callable[[], Any], at: int, number: int) -> Outcome:
    """Run work, of which the ``at``-th call of a function of the system raises an ``OSError`` of a number.

    Only calls of the package count, also those that it makes through ``pathlib`` and ``shutil``; in all threads, but
    not in processes that are forked meanwhile. A file that is closed with an error is closed: so does Linux.
    """
    count, where, guard, process = 0, list[str](), threading.Lock(), os.getpid()

    def fails(name: str, real: Callable[..., Any], *given: Any, **options: Any) -> Any:
        nonlocal count
        caller = _caller(sys._getframe(2))
        if caller is not None and os.getpid() == process:
            with guard:
                count += 1
                is_it = count == at
            if is_it:
                where.append(f"{name}() at {_short(caller.f_code.co_filename)}:{caller.f_lineno}")
                if name == "os.close":
                    real(*given, **options)
                path = given[0] if given and isinstance(given[0], (str, bytes, os.PathLike)) else None
                raise OSError(number, os.strerror(number), *([os.fspath(path)] if path is not None else []))
        return real(*given, **options)

    with _replaced(fails):
        result, error, noticed = _run(work)
    return Outcome(result, error, where[0] if where else None, count, noticed)


def points(work: Callable[[], Any], *, opcodes: bool = False) -> int:
    """The number of lines of the package that work executes."""
    outcome = interrupted(work, 0, opcodes=opcodes)
    if outcome.error is not None:
        raise outcome.error
    return outcome.count


def calls(work: Callable[[], Any]) -> int:
    """The number of calls of the system that work makes."""
    outcome = failing(work, 0, 0)
    if outcome.error is not None:
        raise outcome.error
    return outcome.count


class Held(NamedTuple):
    """What a process holds of the system, and what of its state a writer could leave changed."""

    files: Counter[str]  #: open descriptors, memory files included, by what they lead to
    mapped: Counter[str]  #: files that are mapped to memory
    segments: frozenset[str]  #: shared memory that has the number of this process in its name
    threads: frozenset[str]
    children: frozenset[str]
    state: tuple[str, ...]  #: umask, working directory, handlers of signals, deferred ones

    @staticmethod
    def now() -> Held:
        """What this process holds now."""
        from tensorclass.support import interrupts

        files = Counter[str]()
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # that of the list itself
                files[os.readlink(f"/proc/self/fd/{name}")] += 1
        mapped = Counter[str]()
        with open("/proc/self/maps") as maps:
            for line in maps:
                if "/" in line and " r-xp " not in line and ".so" not in line:
                    mapped[line.split(maxsplit=5)[-1].strip()] += 1
        shared = os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else []
        segments = frozenset(name for name in shared if f"_{os.getpid()}_" in name)
        children: set[str] = set()
        for task in os.listdir("/proc/self/task"):
            with suppress(OSError):
                children |= set(Path(f"/proc/self/task/{task}/children").read_text().split())
        with open("/proc/self/status") as status:
            umask = next((line.strip() for line in status if line.startswith("Umask")), "")
        handlers = [f"{signal.Signals(number).name}: {signal.getsignal(number)}" for number in interrupts._SIGNALS]
        deferred = f"deferred: {len(interrupts._active)}"
        return Held(
            files,
            mapped,
            segments,
            frozenset(  # the pool in which zarr calls its stores gets more of them when they are busy
                f"{thread.name} {thread.ident}"
                for thread in threading.enumerate()
                if not thread.name.startswith("asyncio_")
            ),
            frozenset(children),
            (umask, os.getcwd(), deferred, *handlers),
        )

    def beyond(self, before: Held) -> list[str]:
        """What is held now, and was not before: a line each."""
        found = [f"open: {name} ({n} more)" for name, n in (self.files - before.files).items()]
        found += [f"mapped: {name} ({n} more)" for name, n in (self.mapped - before.mapped).items()]
        found += [f"segment: {name}" for name in sorted(self.segments - before.segments)]
        found += [f"thread: {name}" for name in sorted(self.threads - before.threads)]
        found += [f"process: {name}" for name in sorted(self.children - before.children)]
        found += [f"changed: {old} -> {new}" for old, new in zip(before.state, self.state, strict=True) if old != new]
        return found


# -- inside -----------------------------------------------------------------------------------------------------------


def _run(work: Callable[[], Any]) -> tuple[Any, BaseException | None, tuple[str, ...]]:
    """The result of work, its error without what that keeps alive, and what was noticed on the way."""
    result: Any = None
    error: BaseException | None = None
    ignored: list[str] = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda told: ignored.append(f"ignored: {told.exc_value!r} in {told.object!r}")
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", ResourceWarning)
            try:
                result = work()
            except BaseException as raised:
                error = raised
                _forget(raised)
        ignored += [f"warned: {warning.message}" for warning in warned if warning.category is ResourceWarning]
    finally:
        sys.unraisablehook = hook
    return result, error, tuple(ignored)


def _forget(error: BaseException | None) -> None:
    """Drop the frames that an error, and those before it, keep alive."""
    seen: set[int] = set()
    todo = [error]
    while todo:
        one = todo.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            todo += [one.__cause__, one.__context__]


@functools.cache
def _exits(code: CodeType) -> frozenset[int]:
    """The instructions that call ``__exit__`` at the normal end of a ``with`` block.

    They are behind the block and before the call: an exception of a trace function would leave ``__exit__`` out, which
    a signal cannot, since Python handles none there. The first line of ``__exit__`` is the next point.
    """
    found: set[int] = set()
    shown = [one for one in dis.get_instructions(code) if one.opname not in ("CACHE", "NOP")]
    names = [one.opname for one in shown]
    for at, one in enumerate(shown):
        if one.opname == "WITH_EXCEPT_START":  # at the end by an exception
            found.add(one.offset)
            if names[at - 1] == "PUSH_EXC_INFO":
                found.add(shown[at - 1].offset)
        nothing = one.opname == "LOAD_CONST" and one.argval is None
        if not nothing or not (
            names[at + 1 : at + 3] == ["DUP_TOP"] * 2
            or [(two.opname, two.argval) for two in shown[at + 1 : at + 3]] == [("LOAD_CONST", None)] * 2
        ):
            continue
        if any(name.startswith("CALL") for name in names[at + 3 : at + 5]):
            begin = at
            while names[begin - 1] in ("POP_BLOCK", "SWAP", "ROT_TWO"):
                begin -= 1
            found |= {two.offset for two in shown[begin : at + 4]}
    return frozenset(found)


def _caller(frame: FrameType | None) -> FrameType | None:
    """The frame of the package that calls the system, by itself or through a module of Python."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return frame
        if not (name.endswith(_THROUGH) or _PATHLIB in name):
            return None
        frame = frame.f_back
    return None


@contextmanager
def _replaced(fails: Callable[..., Any]) -> Iterator[None]:
    """Functions of the system that ask first."""
    before = [
        (module, name, getattr(module, name))
        for module, names in CALLS.items()
        for name in names
        if hasattr(module, name)
    ]
    groups = (os.supports_dir_fd, os.supports_follow_symlinks, os.supports_fd)
    try:
        for module, name, real in before:
            made = _made(fails, f"{module.__name__}.{name}", real)
            for group in groups:
                if real in group:  # ``shutil.rmtree`` looks for its functions there
                    group.add(made)
            setattr(module, name, made)
        yield
    finally:
        for module, name, real in before:
            for group in groups:
                group.discard(getattr(module, name))
            setattr(module, name, real)


def _made(fails: Callable[..., Any], name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any, **options: Any) -> Any:
        return fails(name, real, *given, **options)

    return call


def _short(name: str) -> str:
    return os.path.join(os.path.basename(os.path.dirname(name)), os.path.basename(name))
