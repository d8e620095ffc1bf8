"""What the tests beside the peer share."""

from multiprocessing.pool import Pool

import pytest

from tests import pools


@pytest.fixture(autouse=True)
def _pools_end_without_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    """``map`` of the peer terminates a pool as soon as it has the last result."""
    monkeypatch.setattr(Pool, "terminate", pools.terminate)
