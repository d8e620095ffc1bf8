"""Blocks that wait for the signals that come while they run."""

# ruff: noqa: PT012  # where in a block an interrupt comes is what is tested

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest

from tensorclass.support import interrupts
from tensorclass.support.interrupts import uninterrupted


@pytest.fixture(autouse=True)
def _handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in interrupts._SIGNALS]
    yield
    assert [signal.getsignal(number) for number in interrupts._SIGNALS] == before
    assert not interrupts._active


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_waits_for_the_end_of_the_block() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        interrupt()
        done.append(1)
    assert done == [1]


def test_several_signals_of_one_number_are_handled_once() -> None:
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        interrupt()
        interrupt()


def test_all_signals_reach_their_handlers_though_one_raises() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), uninterrupted():
            interrupt()
            signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM]


def test_a_handler_that_is_set_in_a_block_stays_and_gets_what_came() -> None:
    seen: list[int] = []
    before = signal.getsignal(signal.SIGTERM)

    def handler(number: int, frame: object) -> None:
        seen.append(number)

    try:
        with uninterrupted(), uninterrupted() as section:
            assert section.set_handler(signal.SIGTERM, handler) == before
            signal.raise_signal(signal.SIGTERM)
            assert seen == []
        assert seen == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is handler
        with uninterrupted() as section:
            with section.interruptible():
                pass
            assert section.set_handler(signal.SIGTERM, before) is handler
        assert signal.getsignal(signal.SIGTERM) == before
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interruptible_part_is_interrupted_at_once_and_what_cleans_up_is_not() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted() as section:
        try:
            with section.interruptible():
                interrupt()
                done.append("written")
        finally:
            interrupt()
            done.append("removed")
    assert done == ["removed"]


def test_what_came_before_an_interruptible_part_is_handled_at_its_begin() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted() as section:
        interrupt()
        done.append("opened")
        with section.interruptible():
            done.append("written")
    assert done == ["opened"]


def test_an_interruptible_part_in_a_block_of_another_block_waits_for_that() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        with uninterrupted() as inner, inner.interruptible():
            interrupt()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_a_handler_that_the_program_sets_meanwhile_is_kept() -> None:
    seen: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def own(number: int, frame: FrameType | None) -> None:
        seen.append(number)

    try:
        with uninterrupted() as section:
            with section.interruptible():
                signal.signal(signal.SIGINT, own)
            interrupt()
            assert seen == []
        assert seen == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with uninterrupted():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            interrupt()
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handlers_alone() -> None:
    seen: list[Any] = []

    def work() -> None:
        with uninterrupted() as section:
            seen.append(signal.getsignal(signal.SIGINT))
            with section.interruptible():
                seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)] * 2


def test_a_forked_process_has_the_handlers_of_the_program() -> None:
    with uninterrupted(), uninterrupted():
        pid = os.fork()
        if not pid:
            code = 1
            try:
                interrupt()
            except KeyboardInterrupt:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_interrupt_at_any_line_leaves_the_block_whole_and_the_handlers_as_they_were() -> None:
    before = signal.getsignal(signal.SIGINT)
    outcomes = set()
    for at in range(10_000):
        opened: list[str] = []
        lines = 0

        def trace(frame: FrameType, event: str, argument: Any, at: int = at) -> Any:
            nonlocal lines
            if frame.f_code.co_filename != interrupts.__file__:
                return None
            if event == "line":
                lines += 1
                if lines == at:
                    interrupt()
            return trace

        def work(opened: list[str] = opened) -> None:
            with uninterrupted() as section:
                opened.append("draft")
                try:
                    with section.interruptible():
                        pass
                finally:
                    opened.remove("draft")

        raised = False
        tracing = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
        except KeyboardInterrupt:
            raised = True
        finally:
            sys.settrace(tracing)
        assert opened == []
        assert signal.getsignal(signal.SIGINT) is before, at
        assert not interrupts._active
        outcomes.add(raised)
        if lines < at:
            break
    assert outcomes == {True, False}
    assert at > 50
