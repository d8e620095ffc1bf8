"""This package in place of tensordict, in the process of the tests: the package itself is put aside for the test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tensorclass import compat

#: programs, which import tensordict and torchrl
collect_ignore = ["client_cases", "peer_pickles_file.py"]


@pytest.fixture
def stand_in() -> Iterator[Any]:
    """The module `tensordict` that `compat.install()` gives."""
    if compat.is_installed():  # for the whole run, by the plugin
        yield __import__("tensordict")
        return
    aside = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "tensordict"}
    for name in aside:
        del sys.modules[name]
    compat.install()
    try:
        yield __import__("tensordict")
    finally:
        compat.uninstall()
        sys.modules.update(aside)
