"""The normal form of an index: tensors for sequences and masks, slices for an ellipsis, checked positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Size

from tensorclass.td.prepared_index import convert_ellipsis_to_idx, prepare_index


@pytest.mark.parametrize("dtype", [bool, np.uint8], ids=repr)
@pytest.mark.parametrize("mask", [np.ones, lambda size, dtype: torch.as_tensor(np.ones(size, dtype))], ids=["np", "pt"])
def test_an_ellipsis_beside_a_mask_stands_for_the_dimensions_that_the_mask_leaves(mask: Any, dtype: Any) -> None:
    index = mask((3, 4), dtype)
    rest = convert_ellipsis_to_idx((index, ...), (3, 4, 5))[1:]
    assert rest == (slice(None),)
    assert convert_ellipsis_to_idx((index, False, 0, ...), (3, 4, 5))[1:] == (False, 0)


def test_a_mask_becomes_the_positions_of_its_true_elements() -> None:
    mask = torch.tensor([[True, False, True], [False, False, True]])
    rows, columns = prepare_index(mask, Size([2, 3]))
    assert (rows.tolist(), columns.tolist()) == ([0, 0, 1], [0, 2, 2])
    assert prepare_index(mask, Size([2, 3]), keep_masks=True)[0] is mask


def test_an_ellipsis_stands_for_dimensions_of_the_batch() -> None:
    assert prepare_index((..., 0), Size([2, 3, 4])) == (slice(None), slice(None), 0)
    assert prepare_index((..., 0), Size([2])) == (0,)


def test_positions_are_checked_before_a_write() -> None:
    assert prepare_index(torch.tensor([7]), Size([2]))[0].tolist() == [7]
    with pytest.raises(IndexError, match="index 7 is out of bounds for batch dimension 0 with size 2"):
        prepare_index(torch.tensor([7]), Size([2]), writing=True)
