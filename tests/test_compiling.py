"""Groups of compiled functions: a failure names the function."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.compiling import SIZE, groups, together


def test_every_name_is_in_one_group() -> None:
    names = [str(number) for number in range(2 * SIZE + 1)]
    assert [name for group in groups(names) for name in group.values[0]] == names
    assert groups(names)[-1].id == names[-1]


def test_the_functions_that_fail_are_named() -> None:
    def check(names: Sequence[str]) -> None:
        for name in names:
            assert name not in ("b", "c"), "wrong"

    together(check, ["a", "d"])
    with pytest.raises(AssertionError, match=r"(?s)^b: AssertionError: wrong.*\n\nc: AssertionError: wrong") as caught:
        together(check, ["a", "b", "c", "d"])
    assert "a: " not in str(caught.value)


def test_functions_that_fail_only_together_are_an_error() -> None:
    def check(names: Sequence[str]) -> None:
        assert len(names) == 1

    with pytest.raises(AssertionError, match="these fail in one graph, and none of them alone: a, b"):
        together(check, ["a", "b"])
