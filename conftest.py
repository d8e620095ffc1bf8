"""Rules for the doctests of the package.

The package is imported before pytest collects the examples in its modules, which would run a module twice. Examples
that need a cluster of Ray or a second process run in ``tests/distributed``.
"""

import pytest

import tensorclass as tensorclass
from tests.docstring_examples import need_of


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the examples that tests of ``tests/distributed`` run."""
    elsewhere = [item for item in items if isinstance(item, pytest.DoctestItem) and need_of(item.dtest)]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]
