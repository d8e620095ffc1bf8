"""Modes of modules: what they take from distributions, and whether log-probabilities are added up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
import torch

from tensorclass.nn.distributions import InteractionType, composite_lp_aggregate, set_composite_lp_aggregate
from tensorclass.nn.interaction import interaction_type, set_interaction_type
from tests import fresh_python

T = TypeVar("T")


def in_another_thread(function: Callable[[], T]) -> T:
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def test_interaction_types_are_their_names() -> None:
    assert [str(kind) for kind in InteractionType] == ["mode", "median", "mean", "random", "deterministic"]
    assert InteractionType.MODE == "mode"
    assert InteractionType("RANDOM") is InteractionType.RANDOM
    assert f"{InteractionType.MEAN}" == "mean"
    for wrong in ("best", 3, True):
        with pytest.raises(ValueError, match="expected one of"):
            set_interaction_type(wrong)  # type: ignore[arg-type]


def test_a_block_sets_the_interaction_type_and_brings_the_old_one_back() -> None:
    assert interaction_type() is None
    block = set_interaction_type("random")
    with block:
        assert interaction_type() is InteractionType.RANDOM
        with set_interaction_type(), block:
            assert interaction_type() is InteractionType.RANDOM
        with set_interaction_type():
            assert interaction_type() is InteractionType.DETERMINISTIC
        with set_interaction_type(None):
            assert interaction_type() is None
        assert interaction_type() is InteractionType.RANDOM
    assert interaction_type() is None
    with pytest.raises(KeyError), block:
        raise KeyError
    assert interaction_type() is None


def test_a_block_holds_for_all_threads_or_for_one() -> None:
    with set_interaction_type("random"):
        assert in_another_thread(interaction_type) == "random"
        with set_interaction_type("mode", thread_local=True):
            assert (interaction_type(), in_another_thread(interaction_type)) == ("mode", "random")
    with set_interaction_type("random", thread_local=True):
        assert (interaction_type(), in_another_thread(interaction_type)) == ("random", None)
        with set_interaction_type("mode"):
            assert (interaction_type(), in_another_thread(interaction_type)) == ("mode", None)
    with pytest.raises(TypeError, match="thread_local"):
        set_interaction_type("mode", thread_local=1)  # type: ignore[arg-type]


def test_functions_and_coroutines_are_decorated() -> None:
    @set_interaction_type("mean")
    def read() -> Any:
        return interaction_type()

    @set_interaction_type("mode", thread_local=True)
    async def wait() -> Any:
        await asyncio.sleep(0)
        return interaction_type()

    assert (read(), read(), asyncio.run(wait()), interaction_type()) == ("mean", "mean", "mode", None)


def test_a_compiled_function_follows_the_mode() -> None:
    @torch.compile(fullgraph=True, backend="eager")
    def compiled(x: torch.Tensor) -> torch.Tensor:
        with set_composite_lp_aggregate(True):
            inside = composite_lp_aggregate()
        return x + 1 if inside and interaction_type() is InteractionType.RANDOM else x - 1

    x = torch.zeros(())
    assert compiled(x) == -1
    with set_interaction_type("random"):
        assert compiled(x) == 1
    assert compiled(x) == -1
    assert composite_lp_aggregate() is False


def test_log_probabilities_are_added_up_in_a_block_or_for_good() -> None:
    assert composite_lp_aggregate() is False
    with set_composite_lp_aggregate():
        assert in_another_thread(composite_lp_aggregate) is True
    with set_composite_lp_aggregate(thread_local=True):
        assert (composite_lp_aggregate(), in_another_thread(composite_lp_aggregate)) == (True, False)
    setting = set_composite_lp_aggregate(True)
    setting.set()
    try:
        assert composite_lp_aggregate() is True
    finally:
        setting.unset()
    assert composite_lp_aggregate() is False
    assert setting.clone().mode is True
    for wrong in (None, 1, "yes"):
        with pytest.raises(TypeError, match="True or False"):
            set_composite_lp_aggregate(wrong)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("given, expected", [("1", "True"), ("0", "False")])
def test_the_environment_says_it_at_the_start(given: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPOSITE_LP_AGGREGATE", given)
    code = "from tensorclass.nn.distributions import composite_lp_aggregate; print(composite_lp_aggregate())"
    assert fresh_python.run(["-c", code], check=True).stdout.strip() == expected
