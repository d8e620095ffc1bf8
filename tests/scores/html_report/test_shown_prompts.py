from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores import Run
from tensorclass.scores.html_report.shown_prompts import TaskPair, _shares, shown_prompts
from tests.scores.html_report.conftest import MadeTexts


def paired(a: Run, b: Run, higher_is_better: bool = True) -> TaskPair:
    assert a.task is not None
    assert a.model is not None
    assert b.model is not None
    return TaskPair(a.task, a, b, a.model, b.model, "exact_match", higher_is_better)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(0, 60), st.booleans())
def test_shares_add_up_and_none_is_more_than_there_are(counts: list[int], number: int, even: bool) -> None:
    shares = _shares(counts, number, even=even)
    assert sum(shares) == min(number, sum(counts))
    assert all(0 <= share <= count for share, count in zip(shares, counts, strict=True))


def test_texts_are_those_of_the_rows_that_changed(make_run: Callable[..., Run]) -> None:
    a, b = make_run("old", [0, 1, 1, 0]), make_run("new", [0, 0, 1, 1])
    found = shown_prompts([paired(a, b)], number=9, texts=True, characters=99)
    assert [(one.prompt, one.target, one.response_a, one.response_b, one.is_better) for one in found.prompts] == [
        ("question 1", "target 1", "answer 1 of old", "answer 1 of new", False),
        ("question 3", "target 3", "answer 3 of old", "answer 3 of new", True),
    ]
    (totals,) = found.totals
    assert (totals.compared, totals.better, totals.worse, totals.shown) == (4, 1, 1, 2)


def test_a_lower_figure_is_better_where_the_run_says_so(make_run: Callable[..., Run]) -> None:
    pair = paired(make_run("old", [0, 1, 1]), make_run("new", [1, 1, 1]), higher_is_better=False)
    found = shown_prompts([pair], number=9, texts=False, characters=99)
    assert [one.is_better for one in found.prompts] == [False]
    assert (found.totals[0].better, found.totals[0].worse) == (0, 1)


def test_as_many_are_shown_as_asked_for_in_turn_and_shared_by_pairs(make_run: Callable[..., Run]) -> None:
    a, b, c = make_run("a", [1] * 10 + [0] * 10), make_run("b", [0] * 10 + [1] * 10), make_run("c", [0] * 3 + [1] * 17)
    found = shown_prompts([paired(a, b), paired(a, c)], number=8, texts=False, characters=99)
    assert [one.shown for one in found.totals] == [4, 4]
    assert [one.is_better for one in found.prompts] == [True, False] * 4
    assert found.totals[0].better == 10


def test_no_log_is_read_without_texts_or_changes(make_run: Callable[..., Run]) -> None:
    def unread() -> None:
        raise AssertionError("read")

    a, b = (make_run(name, verdicts, texts=unread) for name, verdicts in (("a", [0, 1]), ("b", [1, 1])))
    shown_prompts([paired(a, b)], number=9, texts=False, characters=99)
    shown_prompts([paired(a, a)], number=9, texts=True, characters=99)
    shown_prompts([paired(a, b)], number=0, texts=True, characters=99)
    with pytest.raises(AssertionError, match="read"):
        shown_prompts([paired(a, b)], number=9, texts=True, characters=99)


def test_long_texts_lose_their_middle_and_are_counted(make_run: Callable[..., Run]) -> None:
    a = make_run("a", [0, 1], texts=MadeTexts("a", 2, prompt="x" * 500 + "y" * 500))
    found = shown_prompts([paired(a, make_run("b", [1, 1]))], number=9, texts=True, characters=100)
    (one,) = found.prompts
    assert one.prompt == "x" * 60 + "\n[... 902 characters left out ...]\n" + "y" * 38 + " 0"
    assert found.shortened == 1


def test_what_all_prompts_of_a_task_begin_with_is_shown_once(make_run: Callable[..., Run]) -> None:
    shots = "Q: 1 + 1\nA: 2\n" * 30
    a = make_run("a", [0, 1, 1], texts=MadeTexts("a", 3, beginning=shots, prompt="Q: number"))
    found = shown_prompts([paired(a, make_run("b", [1, 1, 1]))], number=9, texts=True, characters=1000)
    assert found.beginnings == {"sums": shots}
    assert [one.prompt for one in found.prompts] == ["Q: number 0"]


def test_files_without_texts_are_named(make_run: Callable[..., Run]) -> None:
    a, b = make_run("a", [0, 1]), make_run("b", [1, 1])
    without = Run("a", a.scores, a.files, "memory", model="a", task="sums")
    found = shown_prompts([paired(without, b)], number=9, texts=True, characters=99)
    assert found.without_texts == ("a/sums.jsonl",)
    (one,) = found.prompts
    assert (one.prompt, one.response_a, one.response_b) == ("question 0", None, "answer 0 of b")
