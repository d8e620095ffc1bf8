"""Statistics of fields are those of pandas, and print as a table."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import (
    Column,
    NonTensorStack,
    Ragged,
    TensorClass,
    TensorDict,
    Text,
    UnbatchedTensor,
    lazy_stack,
    set_printoptions,
)

NAN = float("nan")
COLUMNS = ("key", "dtype", "count", "nulls", "unique", "mean", "std", "min", "q25", "median", "q75", "max")


class Point(TensorClass):
    x: Tensor
    summary: Text | None = None


def row(data: Any, key: str) -> dict[str, Any]:
    found = data.summary()
    place = found.key.tolist().index(key)
    return {name: value[place].item() for name, value in found._store.items() if isinstance(value, Tensor)}


@pytest.mark.parametrize(
    "values",
    [
        torch.randn(1000, generator=torch.Generator().manual_seed(0)),
        torch.tensor([1.0, NAN, 3.0, NAN, 7.5]),
        torch.tensor([3, 1, 1, 2, 9, 9, 9]),
        torch.tensor([4], dtype=torch.int16),
        torch.tensor([200, 7, 7, 255], dtype=torch.uint8),
        torch.tensor([-128, 127, 127, 0, -5], dtype=torch.int8),
        torch.tensor([-(2**15), 2**15 - 1, 3], dtype=torch.int16),
        torch.tensor([-(2**62), 2**62, 0]),
        torch.tensor([7, 8, 2**40 + 1]),
        torch.tensor([NAN, NAN]),
        torch.tensor([2**20, 3], dtype=torch.uint32),
        torch.tensor([0.5, 1.5], dtype=torch.bfloat16),
    ],
    ids=lambda values: f"{values.dtype} {len(values)}",
)
def test_numbers_have_the_statistics_of_pandas(values: Tensor) -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(values.to(torch.float64).numpy())
    theirs = series.describe()
    ours = row(TensorDict({"v": values}, [len(values)]), "v")
    names = {"mean": "mean", "std": "std", "min": "min", "q25": "25%", "median": "50%", "q75": "75%", "max": "max"}
    for name, their_name in names.items():
        assert ours[name] == pytest.approx(theirs[their_name], rel=1e-12, nan_ok=True), name
    assert (ours["count"], ours["nulls"]) == (theirs["count"], int(series.isna().sum()))
    assert ours["unique"] == series.nunique()


def test_booleans_count_as_0_and_1() -> None:
    found = row(TensorDict({"v": torch.tensor([True, False, True, True])}, [4]), "v")
    assert (found["mean"], found["min"], found["max"], found["unique"]) == (0.75, 0, 1, 2)


def test_all_numbers_of_a_row_count() -> None:
    found = row(TensorDict({"v": torch.arange(12.0).reshape(2, 3, 2)}, [2]), "v")
    assert (found["count"], found["mean"], found["unique"]) == (12, 5.5, 12)


def test_columns_and_objects_count_rows_and_nulls() -> None:
    data = TensorDict(
        {
            "text": Text(["a", None, "b", "a"]),
            "ragged": Ragged([[1, 2], None, [], [2]]),
            "column": Column([{"k": 1}, None, {}, {}]),
            "stack": NonTensorStack("p", "q", "q", None),
            "one": "object",
            "none": None,
            "shared": UnbatchedTensor(torch.tensor([1.0, 3.0])),
        },
        [4],
    )
    shown = {key: row(data, key) for key in data.keys()}  # noqa: SIM118
    assert {key: (one["count"], one["nulls"], one["unique"]) for key, one in shown.items()} == {
        "text": (3, 1, 2),
        "ragged": (3, 1, 2),
        "column": (3, 1, -1),
        "stack": (3, 1, 2),
        "one": (4, 0, 1),
        "none": (0, 4, 0),
        "shared": (2, 0, 2),
    }
    assert (shown["ragged"]["mean"], shown["shared"]["max"]) == (pytest.approx(5 / 3), 3.0)
    assert shown["text"]["mean"] != shown["text"]["mean"]


def test_nested_fields_have_dotted_names() -> None:
    data = TensorDict({"point": Point(torch.zeros(2), batch_size=[2]), "n": {"m": {"v": torch.ones(2)}}}, [2])
    assert data.summary().key.tolist() == ["point.x", "n.m.v"]


def test_files_and_lazy_stacks_have_statistics(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    data = TensorDict({"v": torch.arange(6.0), "t": Text(["a"] * 6)}, [6])
    with data.to_h5(tmp_path / "rows.h5") as held:
        assert repr(held.summary()) == repr(data.summary())
    assert repr(lazy_stack([data[:3], data[3:]]).summary()).split("\n")[1].split()[2] == "6"


def test_a_summary_prints_as_a_table_of_bounded_size() -> None:
    data = TensorDict({f"field_{'x' * 40}_{number}": torch.arange(5) / 8 for number in range(60)}, [5])
    lines = repr(data.summary()).split("\n")
    assert lines[0].split() == [*COLUMNS]
    assert (len(lines), lines[-1]) == (40, "... 22 more fields")
    assert max(map(len, lines)) <= 100
    assert repr(TensorDict({}, [3]).summary()).startswith("key  dtype  count")
    assert repr(data.summary()[0]).startswith("Summary(batch_size=[]")


def test_fields_have_different_names_in_the_table() -> None:
    position = {"lat": torch.rand(5), "lon": torch.rand(5), "altitude_above_the_ground": torch.rand(5)}
    data = TensorDict({"meta": {"position": position}, "other": {"position": {"lat": torch.rand(5)}}}, [5])
    names = [line.split()[0] for line in repr(data.summary()).split("\n")]
    assert names[1].endswith("lat")
    assert names[2].endswith("lon")
    assert len(set(names)) == 5


@given(st.sets(st.text("ab.", min_size=1, max_size=75).filter(lambda key: ".." not in key), min_size=1, max_size=8))
def test_any_names_of_fields_that_fit_in_a_line_are_different(keys: set[str]) -> None:
    lines = repr(TensorDict({key: torch.arange(3.0) for key in keys}, [3]).summary()).split("\n")
    assert max(map(len, lines)) <= 100
    names = Counter(line.split()[0] for line in lines)
    blocks = names.pop("key")
    assert [*names.values()] == [blocks] * len(keys)


def test_statistics_for_which_lines_have_no_room_stand_below() -> None:
    data = TensorDict({"row": torch.arange(100_000.0) * 1234.56789, "v": torch.rand(100_000)}, [100_000])
    lines = repr(data.summary()).split("\n")
    assert lines[0].split() + lines[3].split()[1:] == [*COLUMNS]
    assert [line.split()[0] for line in lines] == ["key", "row", "v"] * 2
    assert max(map(len, lines)) <= 100
    assert "..." not in "".join(lines)
    with set_printoptions(max_lines=5):
        assert [line.split()[0] for line in repr(data.summary()).split("\n")] == ["key", "row", "key", "row", "..."]


def test_a_tensor_without_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="summary: v: a tensor with values is expected"):
        TensorDict({"v": torch.zeros(2, device="meta")}, [2]).summary()


def test_a_field_can_be_called_summary() -> None:
    point = Point(torch.zeros(2), Text(["a", "b"]), batch_size=[2])
    assert point.summary is not None
    assert point.summary.tolist() == ["a", "b"]
    assert TensorDict({"p": point}, [2]).summary().key.tolist() == ["p.x", "p.summary"]
