"""The programs of `make bench ARGS=--programs` run, on little data, and give the same on all sides."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import pytest
import torch

from benchmarks import programs

pytestmark = pytest.mark.parity

SIZES = {"DQN, frames": 200, "PPO, frames": 200, "training, steps": 2, "text, rows": 100, "logs of 1,000 rows": 2}


def run(name: str, side: str) -> dict[str, float]:
    """Run a program here, or in a process of its own, as the command does, where it changes the process for good."""
    size = SIZES.get(name, 20)
    if programs.PROGRAMS[name].needs == "torchrl":
        return programs.in_a_process(name, side, size)
    threads = torch.get_num_threads()
    try:
        with warnings.catch_warnings():
            return programs.run(name, side, size)
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_all_sides_of_a_program_give_the_same(name: str) -> None:
    program = programs.PROGRAMS[name]
    if program.needs and find_spec(program.needs) is None:
        pytest.skip(f"needs {program.needs}")
    found = [run(name, side) for side in program.sides]
    assert len({one["result"] for one in found}) == 1
    assert all(one["seconds"] > 0 for one in found)


@pytest.mark.parametrize("side", ["ours", "in Python"])
def test_a_process_of_its_own_gives_the_same(side: str) -> None:
    found = programs.in_a_process("text, rows", side, SIZES["text, rows"])
    assert found["result"] == run("text, rows", "ours")["result"]
    assert found["seconds"] > 0


def test_python_alone_runs_without_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, str] | None] = []

    def run(command: list[str], **options: object) -> object:
        seen.append(options["env"])  # type: ignore[arg-type]
        raise SystemExit("not run")

    monkeypatch.setattr(programs.subprocess, "run", run)
    for side in ("in Python", "ours"):
        with pytest.raises(SystemExit):
            programs.in_a_process("text, rows", side, 1)
    assert seen[0] is not None
    assert seen[0]["TENSORCLASS_NATIVE"] == "0"
    assert seen[1] is None


def test_the_table_shows_the_others_beside_ours() -> None:
    text = programs.page_table({"a": {"ours": 2.0, "by hand": 3.0}, "b": {"ours": 1.0, "tensordict": 4.0}})
    assert text.splitlines()[2:] == ["| a | 2.00 | 1.50 |  |", "| b | 1.00 |  | 4.00 |"]
