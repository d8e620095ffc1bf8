"""Stages on many rows: batch by batch here, in processes, in threads."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tensorclass import Stage, TensorClass
from tests.checks import assert_equal


class Text(TensorClass, stack_objects=True):
    codes: Tensor
    name: str = ""


class Scores(TensorClass, stack_objects=True):
    value: Tensor
    name: str = ""


def text(rows: int = 7) -> Text:
    return Text(torch.arange(rows * 4).view(rows, 4), name=[f"row {n}" for n in range(rows)], batch_size=[rows])


@Stage
def double(given: Text) -> Text:
    return given.replace(codes=given.codes * 2)


@Stage
def fails(given: Text) -> Text:
    raise KeyError("no such row")


class Classify(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.sizes: list[int] = []

    def forward(self, given: Text) -> Scores:
        self.sizes.append(len(given))
        return Scores(self.linear(given.codes.float())[..., 0], name=given.name, batch_size=given.batch_size)


@pytest.mark.parametrize("batch_size, sizes", [(None, [7]), (3, [3, 3, 1]), (7, [7]), (100, [7])])
def test_batches_give_what_all_rows_give(batch_size: int | None, sizes: list[int]) -> None:
    classify = Classify()
    pipeline = double >> classify
    found = pipeline.run(text(), batch_size=batch_size)
    assert classify.sizes == sizes
    assert not found.value.requires_grad
    expected = pipeline(text())
    assert torch.allclose(found.value, expected.value)
    assert found.name == expected.name


def test_rows_can_be_left_out() -> None:
    kept = Stage[Text, Text](lambda given: given[given.codes[:, 0] > 8])
    assert_equal(kept.run(text(), batch_size=3), text()[3:])


def test_no_rows_and_no_batch_give_what_the_stage_gives() -> None:
    assert double.run(text()[:0], batch_size=2).batch_size == (0,)
    assert double.run(text()[0], batch_size=2).batch_size == ()


def test_processes_and_threads_do_the_batches() -> None:
    with ThreadPoolExecutor(2) as threads:
        for options in ({"num_workers": 2}, {"on": threads}):
            assert_equal(double.run(text(), batch_size=2, **options), double(text()))  # type: ignore[arg-type]


def test_an_error_elsewhere_names_the_batch() -> None:
    with (
        ThreadPoolExecutor(2) as threads,
        pytest.raises(KeyError, match=r"(?s)chunk \d of 4 \(rows \d to \d\).*no such"),
    ):
        fails.run(text(), on=threads, batch_size=2)


def test_what_elsewhere_tries_again_is_tried_again() -> None:
    calls = itertools.count()

    @Stage
    def once(given: Text) -> Text:
        if next(calls) == 1:
            raise KeyError("no such row")
        return given

    with ThreadPoolExecutor(1) as threads:
        assert_equal(once.run(text(), on=threads, batch_size=2, retries=1), text())


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"batch_size": 0}, ValueError, "batch_size: expected a number of rows, at least 1, got 0"),
        ({"batch_size": 2.0}, ValueError, "batch_size"),
        ({"timeout": 3.0}, ValueError, "timeout and retries need workers"),
        ({"retries": 1}, ValueError, "timeout and retries need workers"),
        ({"on": "there"}, TypeError, "expected an executor"),
        ({"num_workers": 0}, ValueError, "num_workers"),
    ],
    ids=["none", "float", "timeout", "retries", "on", "workers"],
)
def test_options_that_make_no_sense_are_errors(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        double.run(text(), **options)


def test_batches_without_rows_cannot_be_put_together() -> None:
    first = Stage[Text, Text](lambda given: given[0])
    with pytest.raises(RuntimeError, match="cannot concatenate the batches: expected results with a batch dimension"):
        first.run(text(), batch_size=2)
    assert first.run(text(), batch_size=7).batch_size == ()


def test_another_record_is_refused_before_anything_runs() -> None:
    scores: Any = Scores(torch.ones(2), batch_size=[2])
    with pytest.raises(TypeError, match="double: expected Text, got Scores; Scores lacks 'codes'"):
        double.run(scores, num_workers=2)
    with pytest.raises(ValueError, match="expected a batch dimension"):
        double.run(text()[0], num_workers=2)
