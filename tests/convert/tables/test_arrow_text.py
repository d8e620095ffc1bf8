"""Arrow text, which becomes Python strings when it is read."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
import torch

import tensorclass as tc
from tensorclass import TensorClass, TensorDict
from tensorclass.convert.tables.arrow_text import ArrowText
from tensorclass.td.leaves.nontensor import NonTensorStack

ROWS = [f"row {i}" for i in range(200)]


class Named(TensorClass, stack_objects=True):
    name: str


class Short(TensorClass, stack_objects=True):
    name: Literal["a", "b"]


def made(column: Any = None, **options: Any) -> NonTensorStack:
    held = Named.from_arrow(pa.table({"name": pa.array(ROWS) if column is None else column}), **options).get("name")
    assert isinstance(held, NonTensorStack)
    return held


def text_of(held: NonTensorStack) -> Text:
    assert isinstance(held._objects, ArrowText)
    return held._objects


def is_made(held: NonTensorStack) -> bool:
    return text_of(held)._made is not None


def test_a_column_of_text_makes_no_strings_before_they_are_asked_for() -> None:
    held = made()
    rows = held[3:5]
    assert held[7].data == "row 7"
    assert rows.tolist() == ["row 3", "row 4"]
    assert not is_made(held)
    assert held.tolist() == ROWS
    assert is_made(held)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()])
def test_text_of_all_layouts_and_in_chunks_is_read(kind: Any) -> None:
    column = pa.chunked_array([pa.array(ROWS[:90], kind), pa.array([], kind), pa.array(ROWS[90:], kind)])
    assert made(column).tolist() == ROWS
    assert made(column)[95].data == "row 95"
    assert made(column)[-1].data == "row 199"
    many = pa.chunked_array([pa.array(["a", "b"] * 50, kind), pa.array(["b", "c"] * 50, kind)])
    assert made(many).tolist() == ["a", "b"] * 50 + ["b", "c"] * 50


def test_a_record_checks_the_class_of_text_and_makes_none() -> None:
    table = pa.table({"name": ROWS})
    data = Named.from_arrow(table)
    held = data.get("name")
    assert isinstance(held, NonTensorStack)
    assert not is_made(held)
    data[0] = Named("new", batch_size=[])
    assert data.name[:2] == ["new", "row 1"]
    with pytest.raises(tc.ConversionError, match="'a', 'b'"):
        Short.from_arrow(table)
    assert Short.from_arrow(pa.table({"name": ["a", "b"]})).name == ["a", "b"]


def test_parts_that_are_joined_again_stay_one_column() -> None:
    held = made()
    assert torch.cat([held[:100], held[100:]]).tolist() == ROWS  # type: ignore[call-overload]
    whole = torch.cat([held[:100], held[100:]])  # type: ignore[call-overload]
    assert whole._objects is held._objects
    both = torch.cat([held, made(pa.array(["a", "b"]))])  # type: ignore[call-overload]
    assert both.tolist() == [*ROWS, "a", "b"]


def test_text_is_pickled_as_text_and_copies_share_it() -> None:
    held = made()
    again = pickle.loads(pickle.dumps(held))
    assert type(again._objects) is tuple
    assert again.tolist() == ROWS
    row = pickle.loads(pickle.dumps(held[3:4]))
    assert row._objects == ("row 3",)
    held = made()
    assert held.clone()._objects is held._objects
    assert copy.deepcopy(held)._objects is held._objects
    assert not is_made(held)


def test_text_is_equal_to_the_tuple_of_its_strings() -> None:
    text = text_of(made())
    assert text == tuple(ROWS)
    assert tuple(ROWS) == text
    assert text == text_of(made())
    assert hash(text) == hash(tuple(ROWS))
    assert text != tuple(ROWS[:-1])
    assert text != ROWS
    assert text[1:3] == ("row 1", "row 2")
    assert (repr(text), len(text)) == (repr(tuple(ROWS)), 200)


def test_values_compare_position_by_position() -> None:
    held, other = made(), NonTensorStack(*ROWS[:-1], "other")
    assert (held == other).tolist() == [True] * 199 + [False]


def test_text_goes_back_to_arrow_without_strings(tmp_path: Path) -> None:
    data = Named.from_arrow(pa.table({"name": ROWS}))
    held = data.get("name")
    assert data.to_arrow()["name"].to_pylist() == ROWS
    assert data[10:12].to_arrow()["name"].to_pylist() == ROWS[10:12]
    assert not is_made(held)
    schema = pa.schema({"name": pa.large_string()})
    assert data.to_arrow(schema=schema)["name"].type == pa.large_string()
    assert data.to_arrow(schema=schema)["name"].to_pylist() == ROWS


def test_a_copy_does_not_need_the_memory_of_the_table() -> None:
    assert type(made(copy=True)._objects) is tuple


def test_structures_with_text_are_written() -> None:
    data = TensorDict({"name": made(pa.array(ROWS[:2])), "x": torch.tensor([1.0, 2.0])}, [2])
    leaves, spec = torch.utils._pytree.tree_flatten(data)
    written = torch.utils._pytree.treespec_dumps(spec)
    again = torch.utils._pytree.tree_unflatten(leaves, torch.utils._pytree.treespec_loads(written))
    assert again["name"] == ROWS[:2]
    assert torch.utils._pytree.tree_flatten(data.clone())[1] == spec
