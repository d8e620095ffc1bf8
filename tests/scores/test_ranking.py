from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores.ranking import RankInterval, compact_letters, rank_intervals


@st.composite
def symmetric(draw: st.DrawFn) -> np.ndarray:
    size = draw(st.integers(1, 9))
    bits = draw(st.lists(st.booleans(), min_size=size * size, max_size=size * size))
    upper = np.triu(np.array(bits, dtype=bool).reshape(size, size), 1)
    return upper | upper.T


@given(symmetric())
def test_models_share_a_letter_unless_they_differ(different: np.ndarray) -> None:
    letters = compact_letters(different)
    for first in range(len(different)):
        for second in range(len(different)):
            assert bool(set(letters[first]) & set(letters[second])) == (not different[first, second])


@given(symmetric())
def test_no_letter_can_be_left_out(different: np.ndarray) -> None:
    letters = compact_letters(different)
    groups = {
        letter: frozenset(place for place, own in enumerate(letters) if letter in own)
        for letter in set("".join(letters))
    }
    for letter, group in groups.items():
        assert not any(group <= other for name, other in groups.items() if name != letter)


def test_letters_begin_with_the_best_model() -> None:
    different = np.zeros((3, 3), dtype=bool)
    different[0, 2] = different[2, 0] = True
    assert compact_letters(different) == ["a", "ab", "b"]


def test_more_groups_than_letters_are_numbered() -> None:
    letters = compact_letters(~np.eye(54, dtype=bool))
    assert (letters[0], letters[25], letters[26], letters[51], letters[53]) == ("a", "z", "A", "Z", "(54)")


@pytest.mark.parametrize("matrix", [[[False, True]], [[False, True], [False, False]]])
def test_letters_need_a_symmetric_matrix(matrix: list[list[bool]]) -> None:
    with pytest.raises(ValueError, match="different: expected a"):
        compact_letters(matrix)


def test_ranks_stay_between_the_models_that_are_better_and_worse_by_test() -> None:
    ahead = np.zeros((4, 4), dtype=bool)
    ahead[0, 2] = ahead[0, 3] = ahead[1, 3] = True
    assert rank_intervals([0.9, 0.8, 0.7, 0.1], ahead) == [
        RankInterval(1, 1, 2),
        RankInterval(2, 1, 3),
        RankInterval(3, 2, 4),
        RankInterval(4, 3, 4),
    ]


def test_equal_figures_have_the_same_rank() -> None:
    assert [one.rank for one in rank_intervals([0.5, 0.7, 0.5], np.zeros((3, 3), dtype=bool))] == [2, 1, 2]
