"""How ``-n 3 --dist loadgroup`` shares out the tests: one process collects them, and forks of it take them by files.

A worker of pytest-xdist would import all packages and collect all tests itself, a quarter of a minute of a core each.
A worker gets the tests of a file, or those of an ``xdist_group``, together, so that what they share is set up once:
groups of processes, the kills of :mod:`tests.storage.kills`. Those that take longest go first.

The worker whose process ends is replaced, and the test that ran in it fails. Where processes cannot be forked,
pytest-xdist does its work.
"""

from __future__ import annotations

import atexit
import mmap
import os
import signal
import struct
import sys
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import pytest
import torch

from tests import fresh_python

#: folders whose files start processes and take longest; what comes last fills up the time of the other worker
LONGEST_FIRST = ("typing", "parity", "storage", "distributed", "nn", "benchmarks", "site")

_NUMBER = struct.Struct("i")
_RUNNING = struct.Struct("ii")  # the test that a worker runs, and the one that it runs next, or -1
_NONE, _DONE = -1, -2  # in place of the test: the worker has not begun, or it has run all that it took
_PATIENCE = 10.0  #: seconds that a worker has to take down what its tests share, when the run is broken off


def order(nodeid: str) -> int:
    """The rank of the file of a test: smaller goes first."""
    parts = nodeid.partition("::")[0].split("/")
    folder = parts[1] if parts[0] == "tests" and len(parts) > 2 else ""
    return LONGEST_FIRST.index(folder) if folder in LONGEST_FIRST else len(LONGEST_FIRST)


def workers() -> int:
    """One more than there are cores, as some tests wait for processes that hang, start or end; more where others work.

    Two busy processes of others take as much of the machine as two workers, so that each two bring another worker.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return cores + 1 + min(cores, int(busy / 2))


def configure(config: pytest.Config) -> None:
    """Take the number of workers from pytest-xdist, which then leaves the tests to this process."""
    if config.getoption("dist", "no") != "loadgroup" or not config.option.tx or not hasattr(os, "fork"):
        return
    workers = Workers(config, len(config.option.tx))
    config.option.dist, config.option.tx = "no", []
    config.pluginmanager.register(workers, "workers")
    # They share the cores: a thread pool in each would only have them wait for one another.
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that a test starts
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # otherwise a fork cannot use CUDA once it is asked for


@dataclass
class Worker:
    """A process that runs tests, and the end of the pipe from which its reports are read."""

    number: int
    pid: int
    reports: Connection
    first: list[int]  #: the tests it began with; later ones are those of groups

    def ended(self) -> int | None:
        """The exit code, once the process has ended."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None

    def end(self) -> None:
        """Interrupt the process, and kill it where that does not help."""
        os.kill(self.pid, signal.SIGINT)
        begin = time.monotonic()
        while self.ended() is None:
            if time.monotonic() > begin + _PATIENCE:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            time.sleep(0.05)


class Workers:
    """The plugin that runs the tests in forks."""

    def __init__(self, config: pytest.Config, count: int) -> None:
        self.config = config
        self.count = count
        # Reports of what comes before a test and behind it tell nothing, if they say that it passed.
        self.all_reports = config.getoption("durations") is not None or config.getoption("xmlpath") is not None
        self.items: list[pytest.Item] = []
        self.groups: list[list[int]] = []
        self.outcomes: list[Any] = []

    def pytest_report_header(self) -> str:
        """Say how many processes run the tests."""
        return f"workers: {self.count}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Files that take long come first."""
        items.sort(key=lambda item: order(item.nodeid))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run the tests, and hand on their reports."""
        if session.testsfailed or self.config.option.collectonly:
            return None  # pytest says why there is nothing to run
        self.items = session.items
        groups: dict[str, list[int]] = {}
        for index, item in enumerate(self.items):
            groups.setdefault(_group(item), []).append(index)
        self.groups = list(groups.values())
        if terminal := self.config.pluginmanager.getplugin("terminalreporter"):
            terminal.showfspath = False  # files are mixed
        fresh_python.start()  # one for all workers
        # a worker takes the next group by reading its number
        self.queue, fill = os.pipe()
        os.write(fill, b"".join(map(_NUMBER.pack, range(len(self.groups)))))
        os.close(fill)
        self.running = mmap.mmap(-1, _RUNNING.size * self.count)
        workers: list[Worker] = []
        try:
            for number in range(min(self.count, len(self.groups))):
                workers.append(self._fork(number, []))  # noqa: PERF401  (each is ended where the next cannot be made)
            while workers:
                self._hand_on(session, workers)
        finally:
            for worker in workers:
                with suppress(ProcessLookupError, ChildProcessError):
                    worker.end()
            os.close(self.queue)
        return True

    # -- the process that has collected the tests --------------------------------------------------------------------

    def _hand_on(self, session: pytest.Session, workers: list[Worker]) -> None:
        """Hand on the reports that came, and replace workers that have ended before their time."""
        ready = wait([worker.reports for worker in workers], timeout=1.0)
        for worker in list(workers):
            code = None if worker.reports in ready else worker.ended()
            # what a process has written before it ended is still to be read
            while worker.reports in ready or (code is not None and worker.reports.poll()):
                try:
                    message = worker.reports.recv()
                except (EOFError, OSError):  # at the end of a message, or within one
                    code = os.waitstatus_to_exitcode(os.waitpid(worker.pid, 0)[1])
                    break
                self._received(message)
                if not worker.reports.poll():
                    break
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            if code is None:
                continue
            worker.reports.close()
            workers.remove(worker)
            index, following = _RUNNING.unpack_from(self.running, _RUNNING.size * worker.number)
            if index == _NONE:
                raise session.Interrupted(f"worker {worker.number} {_ended(code)} before its first test")
            if index != _DONE:  # whatever its exit code is
                workers.append(self._fork(worker.number, self._crashed(worker, code, index, following)))

    def _received(self, message: Any) -> None:
        if isinstance(message, str):
            self.items[0].session.shouldstop = message
            return
        if isinstance(message, dict):
            if "warning" in message:
                self.config.hook.pytest_warning_recorded.call_historic(kwargs=_unpacked(message))
                return
            report = self.config.hook.pytest_report_from_serializable(config=self.config, data=message)
        else:
            index, times = message
            item = self.items[index]
            report = pytest.TestReport(item.nodeid, item.location, {}, "passed", None, "call", **times)
        self.config.hook.pytest_runtest_logreport(report=report)

    def _crashed(self, worker: Worker, code: int, index: int, following: int) -> list[int]:
        """Report the test in which a worker ended; return those that it had taken and not run."""
        item = self.items[index]
        text = f"the process of worker {worker.number} {_ended(code)} in this test"
        report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
        self.config.hook.pytest_runtest_logreport(report=report)
        taken = worker.first if index in worker.first else self._group_of(index)
        left = taken[taken.index(index) + 1 :]
        return left if following == -1 or following in left else left + self._group_of(following)

    def _group_of(self, index: int) -> list[int]:
        return next(group for group in self.groups if index in group)

    def _fork(self, number: int, first: list[int]) -> Worker:
        """Start a worker; it begins with the tests of these numbers."""
        reading, writing = Pipe(duplex=False)
        _RUNNING.pack_into(self.running, _RUNNING.size * number, _NONE, -1)
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads of BLAS, which knows of forks
            pid = os.fork()
        if pid:
            writing.close()
            return Worker(number, pid, reading, first)
        code = 1
        try:
            reading.close()
            self._work(number, first, writing)
            code = 0
        except KeyboardInterrupt:  # the run is broken off
            pass
        except BaseException:  # an error of pytest: the test that runs is reported as failed
            sys.excepthook(*sys.exc_info())
        finally:
            with suppress(BaseException):
                atexit._run_exitfuncs()
            os._exit(code)

    # -- the workers -------------------------------------------------------------------------------------------------

    def _work(self, number: int, first: list[int], reports: Connection) -> None:
        os.environ["PYTEST_XDIST_WORKER"] = f"gw{number}"
        weakref.finalize._registry.clear()  # type: ignore[attr-defined]  # folders that the process removes which made them
        plugins = self.config.pluginmanager
        plugins.unregister(name="terminalreporter")
        plugins.unregister(self)
        reporter = Reporter(self.config, reports, self.all_reports)
        plugins.register(reporter, "reporter")
        if capture := plugins.getplugin("capturemanager"):  # in files of its own
            capture.stop_global_capturing()
            capture.start_global_capturing()
            capture.suspend_global_capture()
        factory = self.config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.getbasetemp() / f"worker{number}-{os.getpid()}"
        factory._basetemp.mkdir(mode=0o700)
        if stack := getattr(factory, "_exit_stack", None):  # of pytest 9
            stack.pop_all()  # that process removes folders of earlier runs, too
        session = self.items[0].session
        try:
            taken = self._taken(first)
            following = next(taken, -1)
            while following != -1 and not session.shouldfail and not session.shouldstop:
                index, following = following, next(taken, -1)
                _RUNNING.pack_into(self.running, _RUNNING.size * number, index, following)
                reporter.index = index
                item = self.items[index]
                nextitem = None if following == -1 else self.items[following]
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        finally:
            session._setupstate.teardown_exact(None)
        if session.shouldstop:
            reports.send(str(session.shouldstop))
        _RUNNING.pack_into(self.running, _RUNNING.size * number, _DONE, -1)

    def _taken(self, first: list[int]) -> Iterator[int]:
        """These tests, and those of groups that nobody else has taken."""
        yield from first
        while number := os.read(self.queue, _NUMBER.size):
            yield from self.groups[_NUMBER.unpack(number)[0]]


class Reporter:
    """The plugin that sends the reports of a worker."""

    def __init__(self, config: pytest.Config, reports: Connection, all_reports: bool) -> None:
        self.config = config
        self.reports = reports
        self.all_reports = all_reports
        self.index = -1  #: the test that runs

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send a report, in short where it says that all is well."""
        if report.passed and not self.all_reports and not report.sections and not report.user_properties:
            if report.when == "call":
                times = {name: getattr(report, name) for name in ("duration", "start", "stop")}
                self.reports.send((self.index, times))
            return
        self.reports.send(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def pytest_warning_recorded(self, warning_message: Any, when: str, nodeid: str, location: Any) -> None:
        """Send a warning that a test gave; a plugin that is registered gets all earlier ones at first."""
        if self.index == -1:
            return
        warning = str(warning_message.message), warning_message.filename, warning_message.lineno
        category = warning_message.category.__name__
        self.reports.send(
            {"warning": warning, "category": category, "when": when, "nodeid": nodeid, "location": location}
        )


def _ended(code: int) -> str:
    return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _unpacked(message: dict[str, Any]) -> dict[str, Any]:
    """The arguments of pytest's hook for a warning that was sent."""
    text, filename, line = message.pop("warning")
    category = type(message.pop("category"), (Warning,), {})
    return {"warning_message": warnings.WarningMessage(category(text), category, filename, line), **message}


def _group(item: pytest.Item) -> str:
    """The name of the tests that run in one process with this one: that of a file, or of a group of files."""
    groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
    return "_".join(groups) if groups else item.nodeid.partition("::")[0]
