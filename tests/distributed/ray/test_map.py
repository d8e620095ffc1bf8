"""``map`` and pipelines on a Ray cluster: results, faults, retries, what is left."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import Stage, TensorClass
from tensorclass.distributed import WorkerDied, WorkerError, WorkerRaised, WorkerTimeout
from tests.checks import assert_equal
from tests.distributed.time_outs import with_time_outs

pytestmark = [pytest.mark.xdist_group("ray")]


class Text(TensorClass, stack_objects=True):
    codes: Tensor
    name: str = ""


class Scores(TensorClass, stack_objects=True):
    value: Tensor
    name: str = ""


def text(rows: int = 12) -> Text:
    return Text(torch.arange(rows * 4).view(rows, 4), name=[f"row {n}" for n in range(rows)], batch_size=[rows])


@Stage
def double(given: Text) -> Text:
    return given.replace(codes=given.codes * 2)


class Classify(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)

    def forward(self, given: Text) -> Scores:
        return Scores(self.linear(given.codes.float())[..., 0], name=given.name, batch_size=given.batch_size)


def again(path: Path, do: Callable[[], object]) -> Callable[[Text], Text]:
    """A function that does something the first time that it gets the rows from 4 on."""

    def function(given: Text) -> Text:
        if int(given.codes[0, 0]) == 16 and not path.exists():
            path.write_text(str(os.getpid()))
            do()
        return given.replace(codes=given.codes + 1)

    return function


def fail() -> None:
    raise KeyError("no such row")


EXPECTED = text().replace(codes=text().codes + 1)


def test_rows_come_back_in_order(cluster: Any) -> None:
    found = text().map(lambda given: given.replace(codes=given.codes + 1), chunksize=1, executor=cluster)
    assert type(found) is Text
    assert_equal(found, EXPECTED)


def test_records_of_another_class_and_one_by_one(cluster: Any) -> None:
    def total(given: Text) -> Scores:
        return Scores(given.codes.sum(-1), batch_size=given.batch_size)

    found = list(text().map_iter(total, chunksize=5, executor=cluster))
    assert [len(one) for one in found] == [5, 5, 2]
    assert torch.equal(torch.cat(found).value, text().codes.sum(-1))


def test_an_error_names_worker_chunk_and_traceback(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(
        WorkerRaised, match=r"(?s)chunk 1 of 3 \(rows 4 to 7\) failed in process \d+ on .*in fail"
    ) as info:
        text().map(again(tmp_path / "once", fail), chunksize=4, executor=cluster)
    assert isinstance(info.value, KeyError)
    assert info.value.chunk == 1
    assert "process" in info.value.worker


def test_a_process_that_hangs_is_ended_after_the_time_out(cluster: Any, tmp_path: Path) -> None:
    def check(seconds: float) -> None:
        once = tmp_path / f"once {seconds:g}"
        told = rf"chunk 1 of 3 \(rows 4 to 7\) did not come back from Ray within {seconds:g} s"
        with pytest.raises(WorkerTimeout, match=told):
            text().map(again(once, lambda: time.sleep(600)), chunksize=4, executor=cluster, timeout=seconds)
        gone(int(once.read_text()))

    with_time_outs(check, 5.0)  # a new process of Ray imports torch first


def test_a_process_that_dies_is_an_error(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(WorkerDied, match=r"(?s)map: Ray failed \(WorkerCrashedError.*with chunk 1 of 3"):
        text().map(again(tmp_path / "once", lambda: os._exit(3)), chunksize=4, executor=cluster)


@pytest.mark.parametrize("do", [fail, lambda: os._exit(3)], ids=["raises", "dies"])
def test_with_retries_results_are_as_without_the_fault(cluster: Any, tmp_path: Path, do: Any) -> None:
    found = text().map(again(tmp_path / "once", do), chunksize=4, executor=cluster, retries=1)
    assert_equal(found, EXPECTED)
    assert (tmp_path / "once").exists()


def gone(process: int) -> None:
    deadline = time.monotonic() + 120
    while Path(f"/proc/{process}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_results_that_are_not_asked_for_any_more_are_given_up(cluster: Any, tmp_path: Path) -> None:
    results = text().map_iter(again(tmp_path / "once", lambda: time.sleep(600)), chunksize=4, executor=cluster)
    next(results)
    deadline = time.monotonic() + 120
    while not (tmp_path / "once").exists() or not (tmp_path / "once").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    results.close()
    gone(int((tmp_path / "once").read_text()))


# -- pipelines --------------------------------------------------------------------------------------------------------


def test_a_pipeline_on_a_cluster_gives_what_it_gives_here(cluster: Any) -> None:
    pipeline = double >> Classify()
    expected = pipeline(text())
    for on in (None, cluster):
        found = pipeline.run(text(), on=on, batch_size=5)
        assert type(found) is Scores
        assert not found.value.requires_grad
        assert torch.allclose(found.value, expected.value)
        assert found.name == expected.name


def test_a_pipeline_of_the_program_runs_on_a_cluster(cluster: Any) -> None:
    class Length(TensorClass):
        value: Tensor

    @Stage
    def measure(given: Text) -> Length:
        return Length(given.codes.sum(-1), batch_size=given.batch_size)

    found = (double >> measure).run(text(), on=cluster, batch_size=4)
    assert type(found) is Length
    assert torch.equal(found.value, text().codes.sum(-1) * 2)


def test_what_a_stage_raises_on_a_cluster_is_of_its_class(cluster: Any) -> None:
    @Stage
    def wrong(given: Text) -> Text:
        raise ValueError("too long")

    with pytest.raises(ValueError, match=r"too long") as info:
        (double >> wrong).run(text(), on=cluster, batch_size=4)
    assert isinstance(info.value, WorkerError)


def test_errors_of_classes_of_the_program_are_of_them(cluster: Any) -> None:
    class Rotten(ValueError):
        pass

    def rotten(given: Text) -> Text:
        raise Rotten("row 3")

    with pytest.raises(Rotten, match="row 3") as info:
        text().map(rotten, executor=cluster)
    assert isinstance(info.value, WorkerRaised)


def test_threads_run_a_pipeline() -> None:
    with ThreadPoolExecutor(2) as threads:
        assert_equal(double.run(text(), on=threads, batch_size=5), double(text()))
