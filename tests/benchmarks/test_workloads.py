"""The benchmarks compare like with like."""

import pytest

from benchmarks.workloads import WORKLOADS, Workload

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_three_sides_of_a_workload_give_equal_results(workload: Workload) -> None:
    assert workload.differences() == []


def test_workloads_have_names_of_their_own() -> None:
    assert len({workload.name for workload in WORKLOADS}) == len(WORKLOADS)
