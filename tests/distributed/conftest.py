"""Groups of processes, once a module."""

from collections.abc import Iterator

import pytest

from tests.distributed.processes import Group, group_of


@pytest.fixture(scope="module")
def pair() -> Iterator[Group]:
    """Two processes of one gloo group."""
    with group_of(2) as group:
        yield group


@pytest.fixture(scope="module")
def four() -> Iterator[Group]:
    """Four processes of one gloo group."""
    with group_of(4) as group:
        yield group
