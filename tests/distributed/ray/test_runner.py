"""Calls as tasks of Ray: what comes back, what went wrong, what is left."""

from __future__ import annotations

import os
import time
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import TensorClass, TensorDict
from tensorclass.distributed import ray as ours
from tensorclass.distributed.map.executors import runner_of
from tensorclass.distributed.ray import RayRunner

pytestmark = [pytest.mark.xdist_group("ray")]


class Sample(TensorClass):
    x: Tensor


def add(given: Sample, number: float) -> Sample:
    return given.replace(x=given.x + number)


def test_the_module_is_an_executor(cluster: Any) -> None:
    runner = runner_of(cluster)
    assert isinstance(runner, RayRunner)
    assert (runner.name, runner.workers, runner.place, runner.survives) == ("Ray", 2, "machines", True)


def test_a_call_gives_a_future_of_its_result(cluster: Any) -> None:
    data = Sample(torch.zeros(2**19), batch_size=[2**19])
    result = RayRunner().submit(add, data, 2.0).result(120)
    assert type(result) is Sample
    assert (result.x == 2).all()


def test_a_function_of_the_program_goes_along(cluster: Any) -> None:
    factor = 3
    assert RayRunner().submit(lambda given: given * factor, 2).result(120) == 6


def test_an_error_is_that_of_the_function(cluster: Any) -> None:
    def fail() -> None:
        raise KeyError("no such row")

    with pytest.raises(KeyError, match="no such row"):
        RayRunner().submit(fail).result(120)


def test_a_task_that_is_cancelled_ends(cluster: Any, tmp_path: Path) -> None:
    def hang(path: str) -> None:
        Path(path).write_text(str(os.getpid()))
        time.sleep(600)

    runner, path = RayRunner(), tmp_path / "process"
    future = runner.submit(hang, str(path))
    deadline = time.monotonic() + 120
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process = int(path.read_text())
    runner.cancel(future)
    with pytest.raises(cluster.exceptions.RayError):
        future.result(120)
    while Path(f"/proc/{process}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{process}").exists()


def test_calls_that_are_left_have_ended_when_the_next_ones_begin(cluster: Any, tmp_path: Path) -> None:
    def hang(path: str) -> None:
        Path(path).touch()
        time.sleep(600)

    runner = RayRunner()
    future = runner.submit(hang, str(tmp_path / "begun"))
    deadline = time.monotonic() + 120
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    runner.leave([future])
    assert wait([future], 120).done  # at once, but for a busy machine
    assert runner.submit(add, Sample(torch.zeros(2), batch_size=[2]), 2.0).result(120).x.tolist() == [2, 2]


def test_workers_are_as_many_as_there_is_room_for(cluster: Any) -> None:
    assert RayRunner(num_cpus=2).workers == 1
    assert RayRunner(num_cpus=0.5).workers == 4
    assert RayRunner(workers=7).workers == 7
    with pytest.raises(ValueError, match=r"a call needs 1 of CPU, 1 of GPU, and the cluster has 2 of CPU, 0 of GPU"):
        RayRunner(num_gpus=1)
    assert RayRunner(num_gpus=1, workers=2).workers == 2  # where the cluster grows


def test_calls_that_end_at_once_are_not_cancelled(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    cancelled: list[Any] = []
    monkeypatch.setattr(ours, "_LEAVE_SECONDS", 600.0)  # on a busy machine, too
    monkeypatch.setattr(RayRunner, "cancel", lambda runner, future: cancelled.append(future))
    with pytest.raises(KeyError):
        TensorDict({"a": torch.zeros(6)}, [6]).map(lambda row: row["b"], chunksize=1, executor=cluster)
    assert cancelled == []


def test_what_counts_retries_is_who_runs_the_calls(cluster: Any) -> None:
    with pytest.raises(TypeError, match="max_retries is not an option here"):
        RayRunner(max_retries=3)
