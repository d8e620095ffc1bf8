"""No workload makes more calls than are stored: a slower operation shows without a clock."""

from __future__ import annotations

import gc

import pytest
import torch

from benchmarks import call_counts
from benchmarks.call_counts import Counts
from tests import fresh_python

pytestmark = pytest.mark.parity


def test_no_workload_makes_more_calls_than_are_stored() -> None:
    # other tests define classes and fill caches
    shown = fresh_python.run(("-m", "benchmarks.call_counts", "--check"))
    assert (shown.returncode, shown.stderr) == (0, ""), shown.stdout


def test_calls_of_python_and_of_torch_are_counted() -> None:
    def helper() -> torch.Tensor:
        return torch.zeros(3).clone()

    def work() -> None:
        helper().add_(1)
        helper()

    assert call_counts.count(work) == Counts(3, 5)


def test_counts_may_grow_by_a_tenth_and_two() -> None:
    assert not call_counts.growth("clone", Counts(20, 10), Counts(24, 13))
    assert call_counts.growth("clone", Counts(20, 10), Counts(25, 14)) == (
        "clone: calls of python 20 -> 25, of torch 10 -> 14"
    )


def test_a_collection_of_garbage_is_not_counted() -> None:
    was = gc.isenabled()
    seen: list[bool] = []
    call_counts.count(lambda: seen.append(gc.isenabled()))
    assert seen[-1] is False
    assert gc.isenabled() is was
