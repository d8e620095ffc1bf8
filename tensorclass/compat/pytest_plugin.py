"""``pytest -p tensorclass.compat.pytest_plugin``: run tests in which ``tensordict`` is this package."""

from __future__ import annotations

import pytest

from .import_hook import install


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Install before pytest imports anything of the tests."""
    install()


def pytest_configure() -> None:
    """Install, if a conftest names the plugin."""
    install()


def pytest_report_header() -> str:
    """Say in the header of pytest's report that ``tensordict`` is this package."""
    return "tensordict: tensorclass.compat"
