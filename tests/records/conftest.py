"""Fixtures of the tests of records: the ways to write a class, and to give its options."""

import pytest

from tests.forms import FORMS, OPTION_FORMS
from tests.records.classes import MakeForm


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> MakeForm:
    """The ways to write a class."""
    return FORMS[request.param]


@pytest.fixture(params=OPTION_FORMS)
def option_form(request: pytest.FixtureRequest) -> MakeForm:
    """The ways to give options."""
    return OPTION_FORMS[request.param]
