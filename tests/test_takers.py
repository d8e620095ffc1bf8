"""Functions of other libraries give the right answer for our values, or raise: see :mod:`tests.takers`."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tensorclass import Column, NonTensorData, NonTensorStack, Ragged, TensorDict, Text, set_lazy_legacy
from tensorclass.td.collection import Collection
from tests import takers

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("library", ["more", *takers.LIBRARIES])
def test_answers_are_as_recorded(library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if library in ("more", "pandas") and int(pd.__version__.partition(".")[0]) < 3:
        pytest.skip("the answers are those of pandas 3")
    monkeypatch.chdir(tmp_path)  # some functions write files
    assert not list(takers.differences(library, sample=True))


def test_wrong_arguments_are_told_alike_once_the_legacy_mode_was_used() -> None:
    with set_lazy_legacy(False):  # puts a wrapper around the shape operations, for good
        assert takers.judge(takers.Taker("np.moveaxis(v, 0, 0)"), takers.VALUES["lazy stack"]) == "t"


def test_no_recorded_answer_is_wrong_but_those_that_are_known() -> None:
    wrong = {
        (source, name)
        for _, answers in takers.recorded().values()
        for source, codes in answers.items()
        for name, code in zip(takers.VALUES, codes, strict=True)
        if code not in f"{takers.RIGHT} e{''.join(takers.CODES.values())}{''.join(takers.CODES.values()).lower()}E"
    }
    assert wrong <= takers.KNOWN.keys()


LOSSES: dict[str, Callable[[Any], Any]] = {
    "an empty tensor": lambda v: torch.zeros(2, 0),
    "an empty list": lambda v: [],
    "an empty dict": lambda v: {},
    "nothing": lambda v: None,
    "zero": lambda v: 0,
    "the first row": lambda v: v[:1],
    "other numbers": lambda v: v + 1,
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["Ragged", "equal Ragged", "record", "lazy stack"])
def test_a_loss_is_found(loss: str, name: str) -> None:
    taker = takers.Taker("v")
    assert takers.judge(taker, takers.VALUES[name]) == takers.RIGHT
    taker.call = lambda v: LOSSES[loss](v) if isinstance(v, Collection) else v
    assert takers.judge(taker, takers.VALUES[name]) == takers.WRONG


def test_errors_of_arrays_say_what_to_do() -> None:
    for make in (torch.as_tensor, torch.tensor, torch.asarray, torch.zeros(1).new_tensor, np.asarray, np.array):
        with pytest.raises(TypeError, match=r"take one of them, data\['a'\], or all, .to_dict\(\) or .numpy\(\)"):
            make(TensorDict({"a": torch.zeros(2)}, [2]))
    for make in (torch.as_tensor, torch.tensor, torch.asarray, torch.zeros(1).new_tensor):
        assert make(Ragged([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]
        for rows in ([[1, 2], [3]], [[1], None]):
            with pytest.raises(ValueError, match=r"to_padded\(\) gives a tensor"):
                make(Ragged(rows))
    with pytest.raises(TypeError, match=r"take its content with .tensor\(\) or .tolist\(\)"):
        torch.tensor([Ragged([[1], [2]])[0]])
    with pytest.raises(TypeError, match=r"len\(data.keys\(\)\)"):
        len(TensorDict({"a": 1}))


def test_equal_rows_of_every_kind_are_one_tensor() -> None:
    for tensor in (torch.arange(12.0).reshape(2, 3, 2), torch.zeros(3, 0), torch.zeros(0, 0, dtype=torch.int64)):
        rows = Ragged(list(tensor)) if len(tensor) else Ragged([[1]])[:0]
        assert torch.as_tensor(rows).shape == tensor.shape
        assert torch.as_tensor(rows).equal(tensor.to(rows.dtype))
    nested = Ragged([[[1], [2]], [[3], [4]]])
    assert torch.as_tensor(nested).tolist() == nested.tolist()
    flipped = Ragged([[1, 2], [3, 4], [5, 6]])[[2, 0]]
    assert torch.as_tensor(flipped).tolist() == [[5, 6], [1, 2]]


def test_an_operand_of_ragged_rows_has_no_more_dimensions_than_they() -> None:
    with pytest.raises(RuntimeError, match="expected at most 0 dimensions, got the shape \\[2\\]"):
        Ragged([[3, 1], [2]])[0] + torch.ones(2)
    with pytest.raises(TypeError, match="unsupported operand"):
        operator.iadd(Ragged([[3, 1], [2]]), [1, 2])


@pytest.mark.parametrize("value", [Text(["a"]), Column([2, 5]), NonTensorData(3), NonTensorStack("a", "b")])
def test_arithmetic_of_what_has_no_numbers_raises(value: Any) -> None:
    for operation in (
        lambda v: v + 1,
        lambda v: 1 + v,
        abs,
        torch.sum,
        torch.any,
        torch.zeros_like,
        lambda v: v.mean(),
    ):
        with pytest.raises(TypeError, match=r"(is not defined|not supported) for a|compared with strings"):
            operation(value)
    x = torch.ones(value.batch_size, dtype=torch.int64)
    data = TensorDict({"x": x, "y": value, "n": {"y": value}}, value.batch_size)
    more = data.clone().set("z", x)
    results = [
        -data, ~data, data + 1, data.isnan(), 2**data, data & 1, data < data, data.masked_fill(x > 0, 0), data.sum(),
        torch.zeros_like(data), data.add(more, default=0), more.add(data, default=0),
        torch.cumsum(data, 0) if x.ndim else data,
    ]  # fmt: skip
    for equal in (data == data, data.eq(data), torch.eq(data, data)):
        assert equal["y"].dtype is equal["n", "y"].dtype is torch.bool
    for result in results:
        kept = value[0] if result.batch_size != value.batch_size else value
        for row in (result.get("y"), result.get(("n", "y"))):
            assert takers.plain(row) == takers.plain(kept)


def test_a_default_is_the_operand_of_ragged_rows() -> None:
    rows, x = Ragged([[1], [2, 3]]), torch.ones(2)
    one, two = TensorDict({"x": x}, [2]), TensorDict({"x": x, "rows": rows}, [2])
    for total in (one.add(two, default=5), two.add(one, default=5)):
        assert total["rows"].tolist() == [[6], [7, 8]]
    assert two.add(TensorDict({"rows": rows}, [2]), default=5)["rows"].tolist() == [[2], [4, 6]]
