"""What is measured in fresh processes."""

import sys

import pytest

from benchmarks.processes import measure_score_log


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's mark of a program's peak")
def test_a_short_score_log_is_measured() -> None:
    log = measure_score_log(rows=20)
    assert log.rows == 20
    assert min(log.seconds, log.megabytes, log.pandas_seconds, log.pandas_megabytes) > 0
