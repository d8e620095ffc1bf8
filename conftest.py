"""Rules for all tests, also the doctests of the package.

A module of the package is imported before pytest collects the examples in it. Otherwise pytest would run the module a
second time, so that its classes exist twice, and put it in place of a function of the same name. Examples that need a
cluster of Ray or a second process run in ``tests/distributed``.
"""

import importlib
import os
import random
import signal
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import tensorclass
from tests.docstring_examples import need_of

PACKAGE = Path(tensorclass.__file__).parent

#: generated from the converters, whose examples run there
collect_ignore = [str(path) for path in PACKAGE.glob("td/delegated/*.py") if path.read_text().startswith("# Generated")]
if find_spec("mutmut") is None:  # which `make mutate` brings
    collect_ignore.append(str(PACKAGE.parent / "tests" / "mutants.py"))


def pytest_configure() -> None:
    """Let SIGINT interrupt, here and in the processes that tests start: shells ignore it for jobs in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Draw the same random numbers whichever tests ran before; ``TENSORCLASS_TEST_SEED=2`` draws others.

    Tests that are called after a package that the Python has not are skipped.
    """
    if "zarr" in item.name and find_spec("zarr") is None:  # there is none for Python 3.10
        pytest.skip("zarr is not installed")
    seed = int(os.environ.get("TENSORCLASS_TEST_SEED", "0"))
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  (the generator that code without one of its own uses)


@pytest.hookimpl(tryfirst=True)
def pytest_collect_file(file_path: Path) -> None:
    """Import the modules of the package as programs do."""
    if file_path.suffix == ".py" and file_path.name != "__main__.py" and file_path.is_relative_to(PACKAGE):
        parts = file_path.relative_to(PACKAGE.parent).with_suffix("").parts
        with suppress(Exception):  # pytest reports it
            importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the examples that tests of ``tests/distributed`` run."""
    elsewhere = [item for item in items if isinstance(item, pytest.DoctestItem) and need_of(item.dtest)]
    if elsewhere:
        config.hook.pytest_deselected(items=elsewhere)
        items[:] = [item for item in items if item not in elsewhere]
