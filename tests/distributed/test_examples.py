"""The examples of several processes run, by themselves and under torchrun, and end with all their processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import fresh_python

FOLDER = Path(__file__).resolve().parents[2] / "examples"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(FOLDER.parent), "OMP_NUM_THREADS": "1"}


def shown(*command: str) -> str:
    shown: str = fresh_python.run(command, cwd=FOLDER, env=ENVIRONMENT, check=True).stdout
    return shown


def under(process: int) -> list[int]:
    """The processes that a process has started, and that are there."""
    try:
        return [int(found) for found in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except FileNotFoundError:
        return []


def check_training(text: str) -> None:
    many, one = re.findall(r"loss ([\d.]+ -> [\d.]+)", text)
    assert many == one
    first, last = map(float, one.split(" -> "))
    assert last < 0.9 * first


def check_server(text: str) -> None:
    weight, bias = re.findall(r"step 100: ([\d.]+) x ([-+\d.]+)", text)[0]
    assert float(weight) == pytest.approx(2, abs=0.05)
    assert float(bias) == pytest.approx(-1, abs=0.05)


def test_data_parallel_steps_give_the_numbers_of_one_process() -> None:
    check_training(shown("data_parallel.py"))


def test_a_parameter_server_finds_the_line() -> None:
    check_server(shown("parameter_server.py"))


@pytest.mark.slow
def test_the_examples_run_under_torchrun() -> None:
    run = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run += ("--no-python", *fresh_python.command())
    check_training(shown(*run, "data_parallel.py"))
    check_server(shown(*run, "parameter_server.py"))


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_processes_end_with_the_one_that_has_started_them(sent: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "parameter_server.py"], cwd=FOLDER, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True,
        stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 120
        started: list[int] = []
        while len(started) < 3 and time.monotonic() < end:  # two, and Python's own tracker of resources
            assert process.poll() is None
            time.sleep(0.02)
            started = under(process.pid)
        os.killpg(process.pid, sent)  # as the terminal does
        assert process.wait(120) in (130, 143)
        said = process.communicate()[1]
        assert "Traceback" not in said, said
        deadline = time.monotonic() + 60
        while any(Path(f"/proc/{found}").exists() for found in started) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(Path(f"/proc/{found}").exists() for found in started)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
