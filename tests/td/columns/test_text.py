"""Text: comparison with other values, and errors."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable

import pytest
import torch

from tensorclass import TensorDict, Text


@pytest.mark.parametrize("name", ["eq", "ne"])
def test_methods_of_comparison_name_what_cannot_be_compared(name: str) -> None:
    with pytest.raises(TypeError, match=r"expected a string, a Text, strings or None .* got a int"):
        getattr(Text(["a", "b"]), name)(3)


def test_operators_of_comparison_leave_other_objects_to_them() -> None:
    text = Text(["a", "b"])
    assert (text == 3) is False
    assert (text != 3) is True


@pytest.mark.parametrize(
    "read",
    [
        lambda data: data.to_dict(),
        lambda data: data.numpy(),
        lambda data: data.to_struct_array(),
        lambda data: data.to_pandas(separator="."),
        lambda data: data.to_json(io.BytesIO()),
    ],
    ids=["to_dict", "numpy", "to_struct_array", "to_pandas", "to_json"],
)
def test_bytes_that_are_not_utf8_are_reported_with_key_and_row(read: Callable[[TensorDict], object]) -> None:
    broken = Text._of(torch.tensor([97, 195], dtype=torch.uint8), torch.tensor([[0, 1], [1, 1]]))
    with pytest.raises(ValueError, match=r"^inner\.text: row 1: the bytes are not UTF-8") as caught:
        read(TensorDict({"inner": {"text": broken}}, [2]))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(ValueError, match=r"^Text: row 1: the bytes are not UTF-8"):
        broken[1]
