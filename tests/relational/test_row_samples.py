"""The first rows, the last, and some at random."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tensorclass import TensorDict, Text, lazy_stack


def rows(count: int = 20) -> TensorDict:
    return TensorDict({"x": torch.arange(count), "t": Text([str(number) for number in range(count)])}, [count])


@pytest.mark.parametrize("n", [0, 1, 5, 20, 99])
def test_head_and_tail_are_the_ends(n: int) -> None:
    everything = list(range(20))
    assert rows().head(n)["x"].tolist() == everything[:n]
    assert rows().tail(n)["x"].tolist() == everything[max(20 - n, 0) :]


def test_five_rows_are_the_default() -> None:
    assert [len(rows().head()), len(rows().tail()), len(rows().sample())] == [5, 5, 5]


def test_samples_are_rows_drawn_once() -> None:
    drawn = rows().sample(20, generator=torch.Generator().manual_seed(1))
    assert drawn["x"].tolist() != list(range(20))
    assert sorted(drawn["x"].tolist()) == list(range(20))
    assert drawn["t"].tolist() == [str(number) for number in drawn["x"].tolist()]


def test_the_generator_says_which_rows() -> None:
    draws = [rows().sample(6, generator=torch.Generator().manual_seed(seed))["x"].tolist() for seed in (3, 3, 4)]
    assert draws[0] == draws[1] != draws[2]


def test_rows_can_be_drawn_again_with_replacement() -> None:
    assert len(rows(2).sample(50, replacement=True)) == 50
    with pytest.raises(ValueError, match="at most 2 rows, got n=50; replacement=True"):
        rows(2).sample(50)
    with pytest.raises(ValueError, match="got none"):
        rows(0).sample(1, replacement=True)


@pytest.mark.parametrize("what", ["head", "tail", "sample"])
def test_what_is_no_number_of_rows_is_an_error(what: str) -> None:
    for n in (-1, 2.5, True):
        with pytest.raises(ValueError, match=f"{what}: n: expected a number of rows"):
            getattr(rows(), what)(n)
    with pytest.raises(ValueError, match="at least one batch dimension"):
        getattr(TensorDict({"x": torch.zeros(3)}), what)(1)


def test_rows_of_files_and_lazy_stacks_are_taken(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    with rows().to_h5(tmp_path / "rows.h5") as held:
        assert held.tail(2)["t"].tolist() == ["18", "19"]
        assert len(held.sample(3)) == 3
    assert lazy_stack([rows()[0], rows()[1]]).head(1)["x"].tolist() == [0]
