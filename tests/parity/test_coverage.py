"""Every public name of the peer has a parity case, or a reason to have none."""

from __future__ import annotations

import pytest

from tests.parity.coverage import LIST, excused, public_names
from tests.parity.operations import CASES, name_of

pytestmark = pytest.mark.parity

COVERED = {name_of(case) for case in CASES}


@pytest.mark.parametrize("name", public_names())
def test_has_a_case(name: str) -> None:
    assert name in COVERED | excused(), f"no case in tests/parity/cases calls {name}"


@pytest.mark.skipif(not LIST.is_file(), reason=f"no list of names at {LIST}")
def test_names_without_a_case_are_names_of_the_peer() -> None:
    assert excused() - set(public_names()) == set()


def test_no_name_has_both_a_case_and_an_excuse() -> None:
    assert excused() & COVERED == set()
