"""The simulation of decisions runs, and small samples of it hold their promises."""

from __future__ import annotations

import pytest

from tests.scores.simulate_decisions import EQUAL, Outcome, main, outcomes, power


def test_every_scenario_holds_on_a_small_sample() -> None:
    found = list(outcomes(12, seed=1))
    assert len(found) == len(EQUAL) + 1
    for one in found:
        assert one.contradictions == 0, one
        assert one.holds, one
    refused = {one.name: one.refused for one in found}
    assert refused["missing if wrong, refused by default"] == 12
    assert refused["missing if wrong, counted as wrong"] == 0


def test_a_share_above_the_level_or_a_contradiction_fails() -> None:
    assert Outcome("a", 1000, 60, 0, 0).holds
    assert not Outcome("a", 1000, 90, 0, 0).holds
    assert not Outcome("a", 1000, 50, 0, 1).holds
    assert not Outcome("a", 1000, 700, 0, 0, expected=0.88).holds


def test_power_is_a_chance() -> None:
    assert 0.8 < power() < 0.95


def test_the_command_prints_a_line_for_each_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data-sets", "2", "--scenario", "ties"]) == 0
    assert capsys.readouterr().out.startswith("ties ")
