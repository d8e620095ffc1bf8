from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tensorclass.scores import ragged
from tensorclass.scores.padded_verdicts import pad_rows

lists = st.lists(st.lists(st.booleans(), max_size=4), max_size=12)


@given(lists)
def test_rows_come_out_as_they_went_in(rows: list[list[bool]]) -> None:
    padded = ragged(rows)
    assert padded.dtype == torch.float32
    assert padded.shape == (len(rows), max(map(len, rows), default=0))
    assert [[bool(value) for value in row[~row.isnan()]] for row in padded] == rows


def test_width_and_dtype_are_as_asked() -> None:
    padded = ragged([[1.0], [0.5, 0.25]], width=3, dtype=torch.float64)
    assert padded.dtype == torch.float64
    assert padded.nan_to_num(-1).tolist() == [[1.0, -1.0, -1.0], [0.5, 0.25, -1.0]]


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_padded(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.tensor([1.0, 0.0]), torch.tensor([1.0])], layout=layout)
    assert ragged(nested, width=3).nan_to_num(-1).tolist() == [[1.0, 0.0, -1.0], [1.0, -1.0, -1.0]]


def test_what_cannot_be_padded_is_an_error() -> None:
    with pytest.raises(ValueError, match="width: expected at least the longest row, 2, got 1"):
        ragged([[1, 0]], width=1)
    with pytest.raises(ValueError, match=r"floating dtype.*torch\.bool"):
        ragged([[1]], dtype=torch.bool)
    with pytest.raises(TypeError, match="a list of verdicts for each prompt, got 0 for prompt 1"):
        ragged([[1], 0])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"got a tensor of shape \[2, 2\]"):
        ragged(torch.ones(2, 2))


def test_no_rows_are_padded_to_nothing() -> None:
    assert pad_rows([], [], 3).shape == (0, 3)
