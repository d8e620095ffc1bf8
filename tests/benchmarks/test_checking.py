"""What counts as an equal result."""

from typing import Any

import pytest
import torch

from benchmarks.checking import differences, normal

ONES = torch.ones(2)


def differ(one: Any, other: Any) -> bool:
    return bool(list(differences(normal(one), normal(other))))


@pytest.mark.parametrize(
    "one, other",
    [
        (({"a": ONES}, (2,)), ({"a": ONES * 2}, (2,))),
        (({"a": ONES}, (2,)), ({"a": ONES.double()}, (2,))),
        (({"a": ONES}, (2,)), ({"a": ONES}, ())),
        (({"a": ONES}, (2,)), ({"b": ONES}, (2,))),
        (({"a": {"b": ONES}}, (2,)), ({"a": {"b": ONES + 1}}, (2,))),
        ([ONES, ONES], [ONES]),
        (ONES, None),
        (["a", "b"], "a"),
        (["a", "b"], ["a", "c"]),
    ],
)
def test_results_that_differ_are_told_apart(one: Any, other: Any) -> None:
    assert differ(one, other)
    assert differ(other, one)


@pytest.mark.parametrize(
    "one, other",
    [
        (({"a": ONES}, (2,)), ({"a": ONES.clone()}, torch.Size([2]))),
        ([ONES, 3], (ONES, 3)),
        (["a", "a"], "a"),
        ([["a", "a"], ["b", "b"]], ["a", "b"]),
    ],
)
def test_equal_results_are_equal(one: Any, other: Any) -> None:
    assert not differ(one, other)
    assert not differ(other, one)
