"""Distributions check their arguments here: torch switches that off for the whole process when it compiles one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from torch.distributions import Distribution


@pytest.fixture(autouse=True)
def checked_arguments() -> Iterator[None]:
    before = Distribution._validate_args  # type: ignore[attr-defined]
    Distribution.set_default_validate_args(True)
    yield
    Distribution.set_default_validate_args(before)
