"""Comparison of text with other values."""

from __future__ import annotations

import pytest

from tensorclass import Text


@pytest.mark.parametrize("name", ["eq", "ne"])
def test_methods_of_comparison_name_what_cannot_be_compared(name: str) -> None:
    with pytest.raises(TypeError, match=r"expected a string, a Text, strings or None .* got a int"):
        getattr(Text(["a", "b"]), name)(3)


def test_operators_of_comparison_leave_other_objects_to_them() -> None:
    text = Text(["a", "b"])
    assert (text == 3) is False
    assert (text != 3) is True
