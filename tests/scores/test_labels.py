from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores.labels import common_codes, merge, translate

names = st.lists(st.sampled_from("abcdef"), unique=True, min_size=1).map(tuple)


@given(names, names, st.data())
def test_translated_codes_name_the_same(old: tuple[str, ...], extra: tuple[str, ...], data: st.DataObject) -> None:
    new = merge([extra, old])
    codes = np.array(data.draw(st.lists(st.integers(-1, len(old) - 1))), dtype=np.int64)
    found = translate(codes, old, new)
    assert [new[code] if code >= 0 else None for code in found] == [old[code] if code >= 0 else None for code in codes]


def test_positions_with_their_own_vocabularies_get_a_common_one() -> None:
    codes = np.array([[[0, 1], [0, -1]], [[1, 1], [-1, 0]]])
    each = [[("a", "b"), ("b",)], [("a", "b"), ("c", "a")]]
    found, vocabulary = common_codes(codes, each, (2, 2))
    assert vocabulary == ("a", "b", "c")
    assert found.tolist() == [[[0, 1], [1, -1]], [[1, 1], [-1, 2]]]


def test_codes_without_names_are_named_by_their_number() -> None:
    found, vocabulary = common_codes(np.array([0, 2, -5]), None, (3,))
    assert vocabulary == ("0", "1", "2")
    assert found.tolist() == [0, 2, -1]


def test_a_code_without_a_name_is_an_error() -> None:
    with pytest.raises(ValueError, match="below 1, the number of names"):
        common_codes(np.array([0, 1]), ("a",), (2,))


def test_something_else_than_names_is_an_error() -> None:
    with pytest.raises(ValueError, match="expected a tuple of names"):
        common_codes(np.array([0, 1]), 5, (2,))
    with pytest.raises(ValueError, match="expected a tuple of names"):
        common_codes(np.array([0, 1]), [5, 6], (2,))
