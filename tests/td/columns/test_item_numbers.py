"""The items of ragged rows as one tensor: operations, reductions, casts and gradients, also where items are ragged."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tensorclass import Ragged, TensorClass, TensorDict
from tensorclass.td.columns.item_numbers import ItemNumbers

ROWS: dict[str, Callable[[], Ragged[Any]]] = {
    "numbers": lambda: Ragged([[1.0, 2.0], [3.0], [4.0, 5.0, 6.0]]),
    "vectors": lambda: Ragged([torch.ones(2, 3), torch.zeros(1, 3), torch.ones(3, 3)]),
    "ragged items": lambda: Ragged.from_list([[[1.0], [2.0, 3.0]], [], [[4.0, 5.0]]], ragged_dims=2),
}


@pytest.mark.parametrize("name", ROWS)
def test_items_are_one_tensor(name: str) -> None:
    rows = ROWS[name]()[1:]
    assert isinstance(rows, ItemNumbers)
    doubled = (rows * 2).type(torch.float64)
    assert doubled.dtype is torch.float64
    assert doubled.item_shape == rows.item_shape
    assert doubled.ragged_dims == rows.ragged_dims
    assert torch.equal(doubled.lengths, rows.lengths)
    assert doubled._wrapped_tensor().tolist() == (rows + rows)._wrapped_tensor().tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ROWS)
def test_gradients_are_rows_of_the_same_lengths(name: str) -> None:
    rows = ROWS[name]().requires_grad_()
    assert rows.requires_grad
    assert not rows.detach().requires_grad
    (rows * 3)._wrapped_tensor().sum().backward()  # type: ignore[union-attr]
    gradient = rows.grad
    assert isinstance(gradient, Ragged)
    assert torch.equal(gradient.spans, rows.spans)
    assert {*gradient._wrapped_tensor().reshape(-1).tolist()} == {3.0}  # type: ignore[union-attr]


class Spectra(TensorClass):
    rows: Ragged
    total: torch.Tensor
    ids: Ragged


def test_a_record_casts_complex_items_as_complex_tensors_and_keeps_integers() -> None:
    record = Spectra(Ragged([[1j, 2], [3]]), torch.ones(2, dtype=torch.complex64), Ragged([[1], [2, 3]]))
    cast = record.to(torch.complex128)
    assert (cast.rows.dtype, cast.total.dtype) == (torch.complex128, torch.complex128)
    assert cast.ids.dtype is torch.int64


# -- reductions of collections that hold ragged rows, and operands ----------------------------------------------------

NUMBERS = [[1.0, 2.0, 4.0], [3.0, 5.0]]


def data() -> TensorDict:
    return TensorDict({"x": torch.rand(2, 3), "below": {"rows": Ragged(NUMBERS)}}, [2])


@pytest.mark.parametrize(
    "reduce",
    [
        *[
            lambda data, name=name: getattr(data, name)(0)
            for name in ("sum", "mean", "prod", "std", "amax", "max", "any", "logsumexp", "cummax", "cumsum", "softmax")
        ],
        lambda data: data.quantile(0.5, 0),
        lambda data: data.sum("feature", reduce=True),
    ],
)
def test_rows_that_differ_in_length_are_not_reduced_along_the_batch(reduce: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"^below\.rows: the rows of a Ragged differ in length") as caught:
        reduce(data())
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "std", "amax", "amin", "logsumexp"])
@pytest.mark.parametrize("item_shape", [(), (2,)], ids=str)
def test_features_of_a_collection_are_the_items_of_a_row(name: str, item_shape: tuple[int, ...]) -> None:
    rows = [torch.rand(length, *item_shape) for length in (3, 2)]
    data = TensorDict({"rows": Ragged(rows, names=["b"])}, [2], names=["b"])
    reduced = getattr(data, name)("feature")["rows"]
    one_by_one = [getattr(TensorDict({"row": row}), name)("feature")["row"] for row in rows]
    assert (reduced.lengths.tolist(), reduced.names) == ([1, 1], ["b"])
    torch.testing.assert_close(reduced.values, torch.stack(one_by_one))
    kept = getattr(data, name)("feature", keepdim=True)["rows"]
    assert (kept.item_shape, kept.lengths.tolist()) == ((1,) * len(item_shape), [1, 1])


def test_features_of_ragged_rows_of_rows_are_all_items() -> None:
    rows = Ragged.from_list([[[1, 2], [3]], [[4]]], ragged_dims=2)
    assert TensorDict({"rows": rows}, [2]).sum("feature")["rows"].tolist() == [[[6]], [[4]]]


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax"])
def test_a_reduction_of_everything_is_that_of_all_items(name: str) -> None:
    items = torch.tensor([item for row in NUMBERS for item in row])
    expected = getattr(TensorDict({"items": items}), name)()["items"]
    assert getattr(data(), name)()["below", "rows"].tolist() == [expected]
    assert getattr(data(), name)(keepdim=True)["below", "rows"].tolist() == [[expected]]
    last = getattr(data()[1:], name)()["below", "rows"]
    assert last.tolist() == [getattr(torch.tensor([3.0, 5.0]), name)()]


def test_a_reduction_of_the_features_of_no_rows() -> None:
    reduced = TensorDict({"rows": Ragged(NUMBERS)}, [2])[:0].std("feature")["rows"]
    assert (type(reduced), reduced.shape) == (Ragged, (0,))


def test_a_field_of_ragged_rows_stays_one_in_a_reduction(tmp_path: Path) -> None:
    class Sample(TensorClass):
        rows: Ragged

    Sample(NUMBERS).mean("feature").memmap(tmp_path)
    assert Sample.load_memmap(tmp_path).rows.values.tolist() == pytest.approx([7 / 3, 4.0])


def test_reductions_of_all_tensors_take_items() -> None:
    assert data()["below"].sum(reduce=True) == 15


def test_an_array_is_an_operand_of_rows() -> None:
    assert (Ragged([[1], [2, 3]]) + np.array([10, 20])).tolist() == [[11], [22, 23]]
