"""Threads that read collections while others write them: a short run of :mod:`tests.td.native.threads`."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tensorclass import TensorDict
from tensorclass.td import native
from tests.td.native import threads
from tests.td.native.threads import READERS, SCENES, Wrong, check, fresh

MODES = [pytest.param(True, marks=pytest.mark.skipif(not native.ON, reason=native.WHY_OFF)), False]


@pytest.fixture(scope="module")
def runs() -> tuple[dict[tuple[str, bool], dict[str, Any]], str]:
    """What came of the scenes, and how their process ended if that was not well."""
    return threads.run_all_in_one_process(seconds=1.5, seed=1)


@pytest.mark.parametrize("on", MODES)
@pytest.mark.parametrize("scene", SCENES)
def test_readers_see_whole_states_or_errors(runs: tuple[dict[Any, Any], str], scene: str, on: bool) -> None:
    """``python -m tests.td.native.threads --seconds 600`` is the long run."""
    done, why = runs
    found = done.get((scene, on))
    assert found is not None, f"the process ended before this scene did: {why}"
    assert found["wrong"] == {}
    assert len(found["counts"]) > 1


def test_the_process_of_the_scenes_ends_well(runs: tuple[dict[Any, Any], str]) -> None:
    assert runs[1] == ""


def test_what_readers_expect_is_right() -> None:
    for name, (operation, expected) in READERS.items():
        check(name, operation(fresh()), expected)


def test_a_value_under_another_key_is_found() -> None:
    data = fresh()
    data["k3"] = data["k4"]
    with pytest.raises(Wrong, match="under 'k3'"):
        check("clone", data, lambda number: number)


def test_a_lost_key_is_found() -> None:
    with pytest.raises(Wrong, match="missing"):
        check("clone", fresh().exclude("k3"), lambda number: number)
    with pytest.raises(Wrong, match="missing"):
        check("clone", fresh().exclude(("inner", "k3")), lambda number: number)


def test_loops_of_another_thread_are_counted() -> None:
    tensor = torch.ones(2000, 2000).t()
    going_on = threads.loops_during(lambda: tensor.contiguous(), 0.2)
    standing_still = threads.loops_during(lambda: TensorDict({}, []), 0.2)
    assert standing_still < going_on / 10
