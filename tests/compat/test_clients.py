"""TorchRL on this package gives what it gives on tensordict, with the same seeds. `make clients` has torchrl.

The cases of each group run twice, in a process each: once with compat installed, once on tensordict itself.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("torchrl")
if __import__("tensordict").__spec__.origin == "tensorclass.compat":
    pytest.skip("tensordict is this package: there is nothing to compare with", allow_module_level=True)

from .client_cases.outcomes import differences

ROOT = Path(__file__).parents[2]

#: cases whose outcomes differ, and why
DIFFERENT = {
    r"state, (with_texts?|record_with_text), .*": "a state dict keeps objects; that of tensordict loses them",
    r"(chunked|split|chunked_and_joined|taken|minibatches|consolidated|reordered), strided": "works here, errors there",
    r"added_row_by_row, tensor, .*, of collections": "a tensor is no row of such a buffer: another class of error",
}


def outcomes(group: str, folder: Path, *module: str) -> dict[str, Any]:
    """Run the cases of a group in a new process."""
    file = folder / f"{'-'.join(module) or 'peer'}.pt"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RL_LOGGING_LEVEL": "ERROR", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-m", *module, "tests.compat.client_cases", group, str(file)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    found: dict[str, Any] = torch.load(file, weights_only=True)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("group, count", [("agents", 110), ("replay_buffers", 2586), ("data_proto", 80)])
def test_outcomes_are_those_on_tensordict(group: str, count: int, tmp_path: Path) -> None:
    theirs = outcomes(group, tmp_path)
    ours = outcomes(group, tmp_path, "tensorclass.compat", "-m")
    assert ours.keys() == theirs.keys()
    assert len(ours) >= count
    found = {name: differences(theirs[name], ours[name]) for name in theirs}
    known: Callable[[str], Any] = re.compile("|".join(DIFFERENT)).fullmatch
    assert {name: lines for name, lines in found.items() if lines and not known(name)} == {}
    if group == "agents":
        assert [name for name, found in ours.items() if isinstance(found, dict) and "error" in found] == []
