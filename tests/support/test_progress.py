"""Progress bars are shown where they are asked for, or where somebody looks."""

import io
import sys

import pytest

from tensorclass.support import progress
from tensorclass.support.progress import bar, bytes_of
from tests import fresh_python


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


Patch = pytest.MonkeyPatch


def stderr(monkeypatch: Patch, stream: io.StringIO) -> io.StringIO:
    monkeypatch.setattr(sys, "stderr", stream)  # in the test itself: pytest sets its own one after the fixtures
    return stream


def test_items_come_through(monkeypatch: Patch) -> None:
    pipe = stderr(monkeypatch, io.StringIO())
    assert list(bar("abc", progress=True)) == ["a", "b", "c"]
    assert "3/3" in pipe.getvalue()


def test_a_bar_is_shown_on_a_terminal(monkeypatch: Patch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    assert list(bar([1, 2], "reading", unit="row")) == [1, 2]
    assert "reading: 100%" in terminal.getvalue()
    assert "2/2" in terminal.getvalue()


def test_no_bar_is_shown_elsewhere(monkeypatch: Patch) -> None:
    pipe = stderr(monkeypatch, io.StringIO())
    assert list(bar([1, 2], "reading")) == [1, 2]
    assert pipe.getvalue() == ""


def test_no_bar_is_shown_where_there_is_no_stderr(monkeypatch: Patch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert list(bar([1, 2])) == [1, 2]


def test_none_is_shown_where_none_is_wanted(monkeypatch: Patch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    assert list(bar([1, 2], progress=False)) == [1, 2]
    assert terminal.getvalue() == ""


def test_what_is_counted_by_hand_is_shown(monkeypatch: Patch) -> None:
    pipe = stderr(monkeypatch, io.StringIO())
    with bar(10, "reading", unit="row", progress=True) as rows:
        rows.advance(4)
        rows.advance(6)
    assert "10/10" in pipe.getvalue()
    assert "row/s" in pipe.getvalue()


def test_a_bar_without_an_end_counts(monkeypatch: Patch) -> None:
    pipe = stderr(monkeypatch, io.StringIO())
    assert sum(bar((n for n in range(3)), progress=True)) == 3
    assert "3.00it" in pipe.getvalue()


def test_the_length_can_be_given(monkeypatch: Patch) -> None:
    pipe = stderr(monkeypatch, io.StringIO())
    assert sum(bar(iter([1, 2]), total=2, progress=True)) == 3
    assert "2/2" in pipe.getvalue()


def test_a_loop_that_is_left_closes_its_bar(monkeypatch: Patch) -> None:
    pipe = stderr(monkeypatch, io.StringIO())
    items = iter(bar([1, 2, 3], progress=True))
    next(items)
    del items
    assert pipe.getvalue().endswith("\n")


def test_without_tqdm_only_a_bar_that_was_asked_for_is_an_error(monkeypatch: Patch) -> None:
    stderr(monkeypatch, Terminal())
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert list(bar([1])) == [1]
    with pytest.raises(ImportError, match=r"progress=True needs tqdm, .*tensorclass\[progress\]"):
        bar([1], progress=True)


def test_nothing_is_imported_for_a_bar_that_is_not_shown() -> None:
    code = "import sys; from tensorclass.support.progress import bar; list(bar([1])); print('tqdm.auto' in sys.modules)"
    result = fresh_python.run(["-c", code], check=True)
    assert result.stdout.strip() == "False"


def test_short_work_shows_none_before_the_delay_is_over(monkeypatch: Patch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    assert list(bar([1, 2], "reading", delay=60.0)) == [1, 2]
    assert terminal.getvalue() == ""
    assert list(bar([1, 2], "reading", delay=60.0, progress=True)) == [1, 2]
    assert "2/2" in terminal.getvalue()


def test_few_bytes_show_none_where_none_is_asked_for(monkeypatch: Patch) -> None:
    terminal = stderr(monkeypatch, Terminal())
    monkeypatch.setattr(
        progress,
        "_tqdm_bar",
        lambda what, unit, total, progress, delay: None if progress is False else pytest.fail("a bar was made"),
    )
    with bytes_of(1000, "writing", None) as few:
        few.advance(1000)
    assert terminal.getvalue() == ""
