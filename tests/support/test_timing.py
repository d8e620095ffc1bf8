"""Times by name, and the logger that prints them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tensorclass.utils import logger, timeit


@pytest.fixture(autouse=True)
def _nothing_measured() -> Iterator[None]:
    timeit.forget()
    yield
    timeit.forget()


def test_times_of_one_name_add_up() -> None:
    for _ in range(2):
        with timeit("sleep"):
            time.sleep(0.01)
    assert timeit.count("sleep") == 2
    total, mean = timeit.todict(percall=False)["sleep"], timeit.todict()["sleep"]
    assert total >= 0.02
    assert mean == pytest.approx(total / 2)


def test_a_function_is_measured_in_each_call_and_stays_itself() -> None:
    @timeit("fib")
    def fib(n: int) -> int:
        """A number."""
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    assert fib(5) == 5
    assert fib.__name__ == "fib"
    assert fib.__doc__ == "A number."
    assert timeit.count("fib") == 15


def test_a_block_that_raises_is_measured() -> None:
    with pytest.raises(ValueError), timeit("fails"):
        raise ValueError
    assert timeit.count("fails") == 1


def test_one_object_can_be_entered_within_itself() -> None:
    block = timeit("block")
    with block, block:
        pass
    assert timeit.count("block") == 2


def test_threads_lose_no_time() -> None:
    def work() -> None:
        for _ in range(500):
            with timeit("thread"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert timeit.count("thread") == 2000


def test_a_prefix_stands_in_front_of_names() -> None:
    with timeit("a"):
        pass
    assert list(timeit.todict(prefix="train")) == ["train/a"]


def test_print_logs_a_line_for_each_name(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("b", "a"):
        with timeit(name):
            pass
    timeit.print("all")
    first, second = capsys.readouterr().err.splitlines()
    assert "[tensorclass][INFO] all -- a took" in first
    assert "all -- b took" in second
    assert "msec (total = " in first


@pytest.mark.parity
def test_print_and_erase_do_what_those_of_the_peer_do() -> None:
    from tensordict.utils import logger as their_logger
    from tensordict.utils import timeit as theirs

    def lines(of: Any, written_by: logging.Logger, use: Callable[[], object]) -> list[str]:
        found: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: found.append(record.getMessage().split(" took")[0])  # type: ignore[method-assign]
        written_by.addHandler(handler)
        use()
        of.print()
        of.print("x")
        written_by.removeHandler(handler)
        return [line for line in found if "peer-test" in line]

    def used(of: Any) -> Callable[[], object]:
        def use() -> None:
            with of("peer-test/b"):
                pass
            of("peer-test/a")(len)([])
            of.erase()

        return use

    assert lines(timeit, logger, used(timeit)) == lines(theirs, their_logger, used(theirs)) != []
    assert set(timeit.todict().values()) == {0.0}


def test_the_logger_writes_information(capsys: pytest.CaptureFixture[str]) -> None:
    logger.info("said")
    logger.debug("not said")
    assert "said" in capsys.readouterr().err.splitlines()[0]
    assert logger.name == "tensorclass"
