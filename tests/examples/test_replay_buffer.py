"""The example that goes through TorchRL learns its task. `make clients` has an environment with torchrl."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

pytest.importorskip("torchrl")


def test_a_typed_batch_goes_through_the_replay_buffer_and_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    example = importlib.import_module("replay_buffer")
    share, batch = example.train(steps=1000, updates=150, seed=0)
    assert share > 0.9
    assert type(batch) is example.Transition
    assert type(batch.next) is example.Outcome
