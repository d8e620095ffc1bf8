"""Rows by the value of a key: compared with a search in plain Python."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import TensorClass, TensorDict, group_by
from tensorclass.utils import isin, remove_duplicates

numbers = st.lists(st.integers(0, 4), max_size=12)


class Sample(TensorClass):
    key: Tensor
    row: Tensor
    text: str = "a"


def sample(values: list[int]) -> Sample:
    count = len(values)
    return Sample(torch.tensor(values, dtype=torch.long), torch.arange(count), batch_size=[count])


@given(numbers)
def test_groups_hold_the_rows_of_each_value_in_their_order(values: list[int]) -> None:
    found, groups = group_by(sample(values), "key")
    assert isinstance(found, Tensor)
    assert found.tolist() == sorted(set(values))
    assert all(isinstance(group, Sample) for group in groups)
    expected = [[row for row, value in enumerate(values) if value == own] for own in sorted(set(values))]
    assert [group.row.tolist() for group in groups] == expected


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8))
def test_groups_by_text(values: list[str]) -> None:
    data = TensorDict({"t": values, "row": torch.arange(len(values))}, [len(values)])
    found, groups = group_by(data, "t")
    assert found == sorted(set(values))
    assert [group["row"].tolist() for group in groups] == [
        [row for row, value in enumerate(values) if value == own] for own in found
    ]


@given(numbers, numbers)
def test_isin_says_which_values_the_other_has(values: list[int], others: list[int]) -> None:
    assert isin(sample(values), sample(others), "key").tolist() == [value in others for value in values]


@given(numbers)
def test_of_rows_with_one_value_the_first_stays(values: list[int]) -> None:
    result, places = remove_duplicates(sample(values), "key", return_indices=True)
    assert result.key.tolist() == sorted(set(values))
    assert result.row.tolist() == [values.index(value) for value in sorted(set(values))]
    assert result.key[places].tolist() == values
