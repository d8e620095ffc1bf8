"""Nested tensors with the jagged layout as values: what torch can do with them, and rows, which torch cannot."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import TensorClass, TensorDict
from tests.checks import outcome

ROWS = [torch.arange(8.0).reshape(2, 4), torch.arange(12.0).reshape(3, 4), torch.arange(4.0).reshape(1, 4)]


def ragged(requires_grad: bool = False) -> Tensor:
    rows = [row.clone().requires_grad_(requires_grad) for row in ROWS]
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def collection() -> TensorDict:
    return TensorDict({"x": torch.arange(3), "n": {"tokens": ragged()}, "text": "t"}, [3], names=["row"])


def rows_of(data: Any) -> list[list[Any]]:
    return [row.tolist() for row in data["n", "tokens"].unbind()]


def wanted(positions: Any) -> list[Any]:
    return [ROWS[position].tolist() for position in positions]


@pytest.mark.parametrize(
    "index",
    [
        slice(0, 2),
        slice(None, None, 2),
        slice(0, 0),
        [2, 0],
        torch.tensor([1, 1, 2, 0]),
        torch.tensor([], dtype=torch.long),
        torch.tensor([True, False, True]),
        (slice(1, 3),),
        ...,
    ],
    ids=str,
)
def test_rows_are_chosen(index: Any) -> None:
    data = collection()
    result = data[index]
    positions = torch.arange(3)[index].tolist()
    assert result["n", "tokens"].is_nested
    assert rows_of(result) == wanted(positions)
    assert result["x"].tolist() == positions
    assert result.batch_size == result["n"].batch_size == (len(positions),)
    assert result.names == ["row"]


def test_a_row_is_a_tensor() -> None:
    for i in (0, 1, -1):
        assert torch.equal(collection()[i]["n", "tokens"], ROWS[i])
    assert [row["n", "tokens"].shape for row in collection()] == [row.shape for row in ROWS]
    assert [row["n", "tokens"].shape for row in collection().unbind(0)] == [row.shape for row in ROWS]


def test_collections_are_joined_and_cut() -> None:
    data = collection()
    assert rows_of(torch.cat([data, data[1:]])) == wanted([0, 1, 2, 1, 2])
    for parts, cuts in ((data.split(2), [[0, 1], [2]]), (data.split([0, 3]), [[], [0, 1, 2]])):
        assert [rows_of(part) for part in parts] == [wanted(cut) for cut in cuts]
    assert [rows_of(part) for part in data.chunk(3)] == [wanted([i]) for i in range(3)]


def test_gradients_go_through_rows() -> None:
    data = TensorDict({"tokens": ragged(requires_grad=True)}, [3])
    leaf = data["tokens"]
    chosen = torch.cat([data[[2, 0]], data[1:2]])["tokens"]
    (gradient,) = torch.autograd.grad(chosen.values().sum(), leaf)
    assert all(row.eq(1).all() for row in gradient.unbind())


SAME: dict[str, Callable[[Any], Any]] = {
    "+ 1": lambda d: d + 1,
    "+ itself": lambda d: d + d,
    "neg": lambda d: -d,
    "abs": lambda d: d.abs(),
    "mul_": lambda d: d.clone().mul_(2),
    "clone": lambda d: d.clone(),
    "detach": lambda d: d.detach(),
    "to": lambda d: d.to(torch.float64),
    "apply": lambda d: d.apply(lambda x: x * 2),
    "zeros_like": torch.zeros_like,
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "tree_map": lambda d: torch.utils._pytree.tree_map(lambda x: x + 1, d),
}


@pytest.mark.parametrize("name", SAME)
def test_an_operation_does_what_it_does_on_each_row(name: str) -> None:
    data = TensorDict({"n": {"tokens": ragged()}}, [3])
    result = SAME[name](data)
    assert result.batch_size == (3,)
    for i, row in enumerate(result["n", "tokens"].unbind()):
        expected = SAME[name](TensorDict({"n": {"tokens": ROWS[i]}}))
        assert torch.equal(row, expected["n", "tokens"])


def test_comparison_and_reduction() -> None:
    data = TensorDict({"tokens": ragged()}, [3])
    assert (data == data.clone()).all()
    torch.testing.assert_close(data.sum()["tokens"], sum(row.sum() for row in ROWS))


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d.reshape(3, 1),
        lambda d: d.unsqueeze(0),
        lambda d: d.expand(2, 3),
        lambda d: d.flip(0),
        lambda d: torch.stack([d, d]),
        lambda d: d[None],
        lambda d: d[torch.tensor([[0, 1], [1, 2]])],
    ],
)
def test_what_cannot_be_done_is_an_error_and_changes_nothing(call: Any) -> None:
    data = collection()
    assert isinstance(outcome(lambda: call(data)), RuntimeError)
    assert rows_of(data) == wanted([0, 1, 2])


def test_the_error_of_an_index_with_more_dimensions_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"has only one dimension of rows; .*to_padded_tensor"):
        collection()[torch.tensor([[0, 1], [1, 2]])]


def test_a_batch_size_that_reaches_into_the_rows_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="tokens: batch dimension mismatch"):
        TensorDict({"tokens": ragged()}, [3, 2])


def test_a_loader_gives_ragged_batches_of_a_record() -> None:
    class Sample(TensorClass):
        tokens: Tensor
        label: Tensor

    record = Sample(ragged(), torch.arange(3), batch_size=[3])
    first, second = DataLoader(record, batch_size=2)  # type: ignore[arg-type]
    assert (type(first), first.batch_size, second.batch_size) == (Sample, (2,), (1,))
    assert [row.tolist() for row in first.tokens.unbind()] == wanted([0, 1])


def with_holes() -> TensorDict:
    rows = torch.arange(10.0).view(2, 5)
    held: Any = torch.nested.narrow(rows, 1, torch.tensor([0, 1]), torch.tensor([2, 3]), layout=torch.jagged)
    return TensorDict({"j": held, "a": torch.ones(2)}, [2])


STORED: dict[str, Callable[[TensorDict, Path], TensorDict]] = {
    "buffer": lambda data, path: data.consolidate(),
    "buffer in a file": lambda data, path: (data.consolidate(path / "x"), TensorDict.from_consolidated(path / "x"))[1],
    "memory": lambda data, path: data.memmap(),
    "folder": lambda data, path: TensorDict.load_memmap(data.memmap(path / "x").saved_path),
    "archive": lambda data, path: data.memmap(path / "x.tdz"),
    "split": lambda data, path: torch.cat(list(data.split(1))),
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_rows_with_holes_between_them_are_stored_without(
    stored: Callable[[TensorDict, Path], TensorDict], tmp_path: Path
) -> None:
    result = stored(with_holes(), tmp_path)
    assert [row.tolist() for row in result["j"].unbind()] == [[0.0, 1.0], [6.0, 7.0, 8.0]]
    assert result["a"].tolist() == [1.0, 1.0]


def test_a_mapped_collection_can_hold_jagged_tensors() -> None:
    mapped = with_holes().memmap()
    assert mapped.is_memmap()
    like = mapped.memmap_like()
    assert [row.tolist() for row in like["j"].unbind()] == [[0.0, 0.0], [0.0, 0.0, 0.0]]
