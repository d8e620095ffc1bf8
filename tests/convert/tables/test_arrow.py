"""from_arrow and to_arrow."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float32
from torch import Tensor

import tensorclass as tc
from tensorclass import Ragged, TensorClass, TensorDict, lazy_stack
from tensorclass.convert.tables import arrow_columns
from tests.convert.samples import Inner, Sample, values
from tests.convert.sides import both

NULLS = {"a": [1, None, 3], "flag": [True, None, False], "f": [1.0, None, 2.0], "s": ["x", None, "z"]}


@pytest.mark.parity
@pytest.mark.parametrize(
    "columns",
    [
        {"a": [1, 2, 3], "b": [1.0, 2.0, 3.0]},
        {"s": ["a", "b", "a"]},
        {"s": pa.array(["x", "y", "x"]).dictionary_encode()},
        {"flag": [True, False]},
        {"bytes": [b"a", b"b"]},
        {"n": [{"x": 1, "y": "q"}, {"x": 2, "y": "r"}]},
        {"n": [{"x": {"y": 1.5}}]},
        {"fixed": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))},
        {"fixed": pa.array([[[1, 2]], [[3, 4]]], pa.list_(pa.list_(pa.int64(), 2), 1))},
        {"tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(24.0).reshape(2, 3, 4))},
        {"time": pa.array([1, 2], pa.timestamp("s")), "day": pa.array([1, 2], pa.date32())},
        {"half": pa.array(np.array([1, 2], "f2")), "u": pa.array([1, 2], pa.uint64())},
        {"number": pa.array([1, 2], pa.decimal128(5, 2))},
        {"a": pa.array([], pa.int64())},
        {"a.b": [1]},
        {},
    ],
    ids=lambda columns: "-".join([*columns, *(type(column).__name__ for column in columns.values())]),
)
def test_columns_become_what_they_become_in_the_peer(columns: Any) -> None:
    table = pa.table(columns)
    ours, peers = both(lambda m: m.from_arrow(table))
    assert ours == peers
    if table.num_columns:
        ours, peers = both(lambda m: m.from_arrow(table.to_batches()[0] if len(table) else table))
        assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("nulls", ["raise", "fill", "mask", "other"])
@pytest.mark.parametrize("mask_key", [None, "m", ("m", "q"), "a"], ids=str)
@pytest.mark.parametrize("name", [*NULLS, "struct", "none"])
def test_nulls_are_treated_as_in_the_peer(name: str, nulls: Any, mask_key: Any) -> None:
    columns: dict[str, Any] = {
        **NULLS,
        "struct": [{"x": 1, "y": "q"}, None, {"x": None, "y": "r"}],
        "none": pa.array([1, 2, None]),
    }
    table = pa.table({"a": columns[name]})
    ours, peers = both(lambda m: m.from_arrow(table, nulls=nulls, mask_key=mask_key))
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("nulls", ["raise", "fill", "mask"])
@pytest.mark.parametrize("rows", [[[1, 2], None, [3, 4]], [None, None, [3, 4]]], ids=str)
def test_lists_that_are_null_are_treated_as_in_the_peer(rows: Any, nulls: Any) -> None:
    fixed = pa.table({"a": pa.array(rows, pa.list_(pa.int64(), 2))})
    ours, peers = both(lambda m: m.from_arrow(fixed, nulls=nulls))
    assert ours == peers
    ragged = pa.table({"a": pa.array(rows)})
    ours, peers = both(lambda m: [row.tolist() for row in m.from_arrow(ragged, nulls=nulls)["a"].unbind()])
    assert ours == peers


def test_the_error_for_nulls_names_the_column() -> None:
    with pytest.raises(
        ValueError, match=r"n\.x: expected no nulls, got 1 null, the first in row 1; nulls='fill' fills them"
    ):
        tc.from_arrow(pa.table({"n": [{"x": 1}, {"x": None}]}))


def test_a_mask_says_where_a_value_was_missing_in_a_list() -> None:
    table = pa.table({"a": pa.array([[1, None], None, [3, 4]], pa.list_(pa.int64(), 2))})
    data = tc.from_arrow(table, nulls="mask")
    assert data["a"].tolist() == [[1, 0], [0, 0], [3, 4]]
    assert data["_mask", "a"].tolist() == [[True, False], [False, False], [True, True]]
    ragged = pa.table({"a": [[1, None], [3]]})
    masked = tc.from_arrow(ragged, nulls="mask")
    assert [row.tolist() for row in masked["a"].unbind()] == [[1, 0], [3]]
    assert [row.tolist() for row in masked["_mask", "a"].unbind()] == [[True, False], [True]]
    assert [row.tolist() for row in tc.from_arrow(ragged, nulls="fill")["a"].unbind()] == [[1, 0], [3]]


def test_floats_of_every_width_have_nan_where_they_are_null() -> None:
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        column = pa.array([np.float16(1), None], kind)
        assert torch.isnan(tc.from_arrow(pa.table({"a": column}), nulls="fill")["a"]).tolist() == [False, True]


# -- memory -----------------------------------------------------------------------------------------------------------


def shares(tensor: torch.Tensor, array: Any) -> bool:
    return bool(np.shares_memory(tensor.numpy(), array))


def test_numbers_share_memory_and_a_copy_does_not() -> None:
    source = np.arange(6.0)
    table = pa.table({"a": source, "l": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12)), 2)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = tc.from_arrow(table, copy=False)
    assert shares(data["a"], source)
    assert shares(data["l"], table["l"].chunk(0).flatten().to_numpy())
    assert shares(tc.from_arrow(table.slice(2, 3))["a"], source[2:5])
    assert tc.from_arrow(table.slice(2, 3))["l"].tolist() == [[4, 5], [6, 7], [8, 9]]
    assert not shares(tc.from_arrow(table, copy=True)["a"], source)


@pytest.mark.parametrize(
    "column", [[True, False], [1, None], pa.chunked_array([[1], [2]])], ids=["booleans", "nulls", "chunks"]
)
def test_what_must_be_copied_is_an_error_where_it_shall_not_be(column: Any) -> None:
    table = pa.table({"a": column})
    with pytest.raises(ValueError, match="a: expected a column that can be read without a copy"):
        tc.from_arrow(table, copy=False, nulls="fill")
    assert len(tc.from_arrow(table, nulls="fill")["a"]) == 2


def test_chunks_are_joined() -> None:
    table = pa.concat_tables([pa.table({"a": [1], "s": ["x"]}), pa.table({"a": [2], "s": ["y"]})])
    assert tc.from_arrow(table).to_dict(convert_tensors=True) == {"a": [1, 2], "s": ["x", "y"]}


# -- lists ------------------------------------------------------------------------------------------------------------


def test_lists_are_ragged_rows_and_lists_of_a_fixed_size_a_dimension() -> None:
    fixed = pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))
    table = pa.table({"fixed": fixed, "same": [[1, 2], [3, 4]], "ragged": [[1.5], [2.5, 3.5]]})
    data = tc.from_arrow(table)
    assert torch.equal(data["fixed"], torch.tensor([[1, 2], [3, 4]]))
    # the type says what a column is, not the rows that happen to be in a batch of it
    assert (type(data["same"]), data["same"].tolist()) == (Ragged, [[1, 2], [3, 4]])
    assert (type(data["ragged"]), data["ragged"].tolist()) == (Ragged, [[1.5], [2.5, 3.5]])
    sliced = tc.from_arrow(pa.table({"a": [[9], [1, 2], [3]]}).slice(1))
    assert [row.tolist() for row in sliced["a"].unbind()] == [[1, 2], [3]]


def test_lists_of_fixed_lists_keep_their_dimension() -> None:
    pairs = pa.array([[[1, 2]], [[3, 4], [5, 6]]], pa.list_(pa.list_(pa.int64(), 2)))
    data = tc.from_arrow(pa.table({"a": pairs}))
    assert [row.tolist() for row in data["a"].unbind()] == [[[1, 2]], [[3, 4], [5, 6]]]


def test_ragged_jagged_keeps_tensors() -> None:
    data = tc.from_arrow(pa.table({"same": [[1, 2], [3, 4]], "ragged": [[1.5], [2.5, 3.5]]}), ragged="jagged")
    assert data["same"].tolist() == [[1, 2], [3, 4]]
    assert data["ragged"].layout == torch.jagged
    assert [row.tolist() for row in data["ragged"].unbind()] == [[1.5], [2.5, 3.5]]


def test_lists_of_strings_are_a_column_of_lists_and_maps_are_objects() -> None:
    table = pa.table(
        {
            "t": [["x"], ["y", "z"]],
            "deep": [[[1], []], [[2]]],
            "map": pa.array([[("k", 1)], []], pa.map_("string", "int8")),
        }
    )
    data = tc.from_arrow(table)
    assert (data["t"].tolist(), data["t"].item_type) == ([["x"], ["y", "z"]], list[str])
    assert (type(data["deep"]), data["deep"].tolist()) == (Ragged, [[[1], []], [[2]]])
    assert data[0].to_dict()["map"] == [("k", 1)]


def test_a_permuted_tensor_column_is_read_in_the_order_that_it_means() -> None:
    kind = pa.fixed_shape_tensor(pa.int64(), [2, 3], permutation=[1, 0])
    storage = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12)), 6)
    column = pa.ExtensionArray.from_storage(kind, storage)
    assert tc.from_arrow(pa.table({"a": column}))["a"].shape == (2, 3, 2)
    assert tc.from_arrow(pa.table({"a": column}))["a"].tolist() == column.to_numpy_ndarray().tolist()


# -- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: pa.table({"a": [1, 2]}),
        lambda: pa.record_batch({"a": [1, 2]}),
        lambda: pa.array([{"a": 1}, {"a": 2}]),
        lambda: {"a": [1, 2]},
        lambda: pytest.importorskip("pandas").DataFrame({"a": [1, 2]}),
    ],
    ids=["table", "batch", "structs", "dict", "pandas"],
)
def test_all_that_has_columns_is_read(make: Callable[[], Any]) -> None:
    assert tc.from_arrow(make())["a"].tolist() == [1, 2]


@pytest.mark.parametrize("bad", [1, None, "text", [1], pa.array([1, 2])], ids=lambda bad: type(bad).__name__)
def test_other_objects_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="from_arrow: expected"):
        tc.from_arrow(bad)


def test_columns_of_one_name_are_an_error() -> None:
    table = pa.table([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match=r"several columns have the names \['a'\]"):
        tc.from_arrow(table)


def test_the_device_is_that_of_the_collection() -> None:
    data = tc.from_arrow(pa.table({"a": [1, 2], "s": ["x", "y"]}), device="meta")
    assert (data.device, data["a"].device.type) == (torch.device("meta"), "meta")


# -- out --------------------------------------------------------------------------------------------------------------


def many(m: Any) -> Any:
    inner = m.TensorDict({"q": values(2, 3).int()}, [2, 3])
    return m.TensorDict(
        {"a": values(2, 3), "b": values(2), "s": ["x", "yy"], "n": inner, "one": "abc", "flag": values(2) > 0,
         "half": values(2).half(), "d3": values(2, 3, 4), "e": {"deep": {"u": values(2).byte()}}},
        [2],
    )  # fmt: skip


@pytest.mark.parity
def test_a_table_is_that_of_the_peer() -> None:
    def table(m: Any) -> Any:
        made = m.to_arrow(many(m))
        return made.schema.names, [str(kind) for kind in made.schema.types], made.to_pylist()

    ours, peers = both(table)
    assert ours == peers


@pytest.mark.parity
def test_what_has_no_rows_is_an_error_as_in_the_peer() -> None:
    ours, peers = both(lambda m: m.to_arrow(m.TensorDict({"a": values(2, 3)}, [])))
    assert ours is peers is ValueError


def test_one_error_names_all_keys_that_cannot_be_columns() -> None:
    data = TensorDict({"n": {"o": [object(), object()]}, "s": values(2, 2).to_sparse(), "fine": values(2)}, [2])
    with pytest.raises(tc.ConversionError) as caught:
        data.to_arrow()
    assert caught.value.what == "TensorDict.to_arrow"
    assert {problem.path: problem.expected for problem in caught.value.problems} == {
        ("n", "o"): "objects for which Arrow has a type",
        ("s",): "a strided tensor",
    }
    with pytest.raises(TypeError, match="to_arrow: expected a collection, got a int"):
        tc.to_arrow(1)  # type: ignore[arg-type]


def test_a_table_shares_memory() -> None:
    data = TensorDict({"a": values(4), "m": values(4, 2)}, [4])
    table = data.to_arrow()
    assert shares(data["a"], table["a"].chunk(0).to_numpy())
    assert shares(data["m"].reshape(-1), table["m"].chunk(0).storage.flatten().to_numpy())


def test_ragged_tensors_become_lists_and_come_back() -> None:
    ragged = torch.nested.nested_tensor([values(2), values(3)], layout=torch.jagged)
    data = TensorDict({"a": ragged}, [2])
    assert data.to_arrow().to_pylist() == [{"a": [0, 1]}, {"a": [0, 1, 2]}]
    back = tc.from_arrow(data.to_arrow())["a"]
    assert [row.tolist() for row in back.unbind()] == [[0, 1], [0, 1, 2]]


def test_a_record_takes_a_table_with_its_fields_and_gives_one() -> None:
    record = Sample(values(2, 3), label=["a", "b"], inner=Inner(values(2), batch_size=[2]), batch_size=[2])  # type: ignore[arg-type]
    table = record.to_arrow()
    assert table.column_names == ["x", "label", "inner"]
    back = Sample.from_arrow(table)
    assert (type(back), type(back.inner), back[1].label) == (Sample, Inner, "b")
    with pytest.raises(ValueError, match=r"y: expected one of the fields"):
        Sample.from_arrow(pa.table({"x": [1.0], "y": [1]}))
    with pytest.raises(TypeError, match=r"label: expected str, got NoneType None among its rows"):
        Sample.from_arrow(pa.table({"x": [1.0, 2.0], "label": ["a", None]}), nulls="fill")


@given(data=st.data())
def test_a_collection_comes_back_equal(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 4))
    dtypes = [torch.bool, torch.uint8, torch.int16, torch.int64, torch.float16, torch.float32, torch.float64]

    def level(depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name in data.draw(st.lists(st.sampled_from("abc"), unique=True, min_size=1)):
            kind = data.draw(st.sampled_from(["tensor", "text", "nested"] if depth else ["tensor", "text"]))
            if kind == "tensor":
                shape = data.draw(st.lists(st.integers(1, 3), max_size=2))
                found[name] = values(count, *shape).to(data.draw(st.sampled_from(dtypes)))
            elif kind == "text":
                found[name] = data.draw(st.lists(st.text("xy"), min_size=count, max_size=count))
            else:
                found[name] = level(depth - 1)
        return found

    source = TensorDict(level(2), [count])
    back = tc.from_arrow(source.to_arrow())
    assert list(back.keys()) == list(source.keys())
    for key, value in source.items(True, True):
        assert back[key].dtype == value.dtype
        assert torch.equal(back[key], value)
    assert back.to_dict(convert_tensors=True) == source.to_dict(convert_tensors=True)


def test_times_come_back() -> None:
    times = [datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)]
    data = TensorDict.from_dict({"t": times}, batch_size=[2])
    assert tc.from_arrow(data.to_arrow())["t"] == times


def test_columns_that_are_not_there_are_the_defaults_of_their_fields_row_by_row() -> None:
    class Weighed(TensorClass, autocast=True):
        x: Float32[Tensor, ""]
        weight: Tensor = torch.tensor(2.0)

    data = Weighed.from_arrow(pa.table({"x": [1, 2]}))
    assert data.weight.tolist() == [2, 2]
    assert data.x.dtype == torch.float32


def test_tensors_without_values_are_an_error_that_names_their_keys() -> None:
    data = TensorDict({"a": torch.ones(2, device="meta"), "n": {"b": torch.ones(2, 3, device="meta")}}, [2])
    with pytest.raises(tc.ConversionError, match=r"(?s)device meta.*exclude") as caught:
        data.to_arrow()
    assert [problem.path for problem in caught.value.problems] == [("a",), ("n", "b")]


@pytest.mark.parametrize("kind", ["jagged", "stacked"])
def test_rows_with_many_items_are_large_lists(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_columns, "_NARROW", 4)  # as if 32-bit offsets reached four items
    rows = [torch.arange(2), torch.arange(3)]
    value: Any = torch.nested.nested_tensor(rows, layout=torch.jagged)
    data = TensorDict({"x": value}, [2]) if kind == "jagged" else lazy_stack([TensorDict({"x": row}) for row in rows])
    table = data.to_arrow()
    assert table.schema.field("x").type == pa.large_list(pa.int64())
    assert table.column("x").to_pylist() == [[0, 1], [0, 1, 2]]
