"""Records through Arrow tables and back: declared fields, defaults for nulls, round trips."""

from __future__ import annotations

import datetime
import decimal
import enum
import gc
import io
import uuid
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as tc
from tensorclass import DType, Ragged, Shape, TensorClass, TensorDict, Text
from tensorclass.testing import records
from tests.convert.samples import values


class Color(enum.Enum):
    RED = 1
    BLUE = "blue"


class Point(TensorClass, stack_objects=True):
    x: Tensor = torch.tensor(7)
    name: str | None = None


class Drawn(TensorClass, stack_objects=True):
    """A field for each kind of value that survives a round trip."""

    value: Tensor
    image: Annotated[Tensor, Shape("3 h w"), DType("float32", "bfloat16", "complex64")]
    point: Point
    text: str
    maybe: Tensor | None
    color: Color = Color.RED
    small: bool = False
    raw: bytes = b""
    other: Point | None = None
    named: str | None = "default"


class Row(TensorClass, stack_objects=True):
    """A field for each kind of column."""

    a: Tensor
    pair: Tensor = torch.tensor([1, 2])
    text: str = "none"
    free: str | None = None
    point: Point | None = None
    color: Color = Color.RED
    count: int = 3
    anything: Any = None
    tags: tuple[int, ...] = ()
    when: Tensor | None = None
    time: datetime.datetime | None = None


def same(found: Any, expected: Any, uniform: bool = True) -> None:
    """Check that two collections are equal in class, batch size, keys, dtypes, shapes and values, also uniform ones."""
    assert type(found) is type(expected)
    assert found.batch_size == expected.batch_size
    assert sorted(found.keys()) == sorted(expected.keys())
    for key in sorted(expected.keys()):
        one, other = found.get(key), expected.get(key)
        if isinstance(other, Tensor):
            assert one.dtype == other.dtype
            assert torch.equal(one, other)
        elif other._is_tree():
            same(one, other, uniform)
        else:
            assert one.tolist() == other.tolist()
            assert not uniform or type(one) is type(other)


@given(data=st.data())
def test_a_record_comes_back_equal(data: st.DataObject) -> None:
    record = data.draw(records(Drawn, st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    table = record.to_arrow()
    assert table.num_rows == len(record)
    same(Drawn.from_arrow(table), record)


@given(data=st.data())
def test_rows_of_a_table_are_rows_of_the_record(data: st.DataObject) -> None:
    record = data.draw(records(Drawn, [data.draw(st.integers(2, 5))]))
    start = data.draw(st.integers(0, len(record) - 1))
    count = data.draw(st.integers(1, len(record) - start))
    same(Drawn.from_arrow(record.to_arrow().slice(start, count)), record[start : start + count], uniform=False)
    joined = pa.concat_tables([record.to_arrow(), record.to_arrow()])
    same(Drawn.from_arrow(joined), torch.cat([record, record]))  # type: ignore[call-overload]


def test_a_record_comes_back_from_a_file_of_parquet() -> None:
    record = Drawn(
        value=values(2, 3).bfloat16(), image=torch.zeros(2, 3, 4, 5, dtype=torch.complex64),
        point=Point(values(2), ["a", None], batch_size=[2]),  # type: ignore[arg-type]
        text="same", maybe=None, raw=b"x", named=None, batch_size=[2],
    )  # fmt: skip
    file = io.BytesIO()
    pq.write_table(record.to_arrow(), file)
    same(Drawn.from_arrow(pq.read_table(file)), record)


# -- fields -----------------------------------------------------------------------------------------------------------


def test_fields_get_what_they_declare() -> None:
    seconds = pa.array([1, 2], pa.timestamp("s"))
    table = pa.table(
        {"a": pa.array([1, 2], pa.uint16()), "point": [{"x": 1}, {"x": 2}], "color": ["BLUE", "blue"], "count": [1, 2],
         "anything": [{"k": 1}, {"k": 2}], "tags": [[1, 2], [3]], "when": seconds, "time": seconds}
    )  # fmt: skip
    row = Row.from_arrow(table)
    assert (row.a.dtype, type(row.point)) == (torch.uint16, Point)
    assert row.color == [Color.BLUE, Color.BLUE]
    assert (row.count, row.anything, row.tags) == ([1, 2], [{"k": 1}, {"k": 2}], [(1, 2), (3,)])
    assert row.when is not None
    assert row.when.tolist() == [10**9, 2 * 10**9]
    assert row.time == [datetime.datetime(1970, 1, 1, 0, 0, 1), datetime.datetime(1970, 1, 1, 0, 0, 2)]
    assert (row[0].text, row[0].free) == ("none", None)
    assert row.pair.tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize(
    "column, expected",
    [
        (pa.array([1, 2], pa.date32()), [86400 * 10**9, 2 * 86400 * 10**9]),
        (pa.array([1, 2], pa.time32("s")), [10**9, 2 * 10**9]),
        (pa.array([1, 2], pa.duration("ms")), [10**6, 2 * 10**6]),
        (pa.array([1, 2], pa.timestamp("us", "UTC")), [1000, 2000]),
        (pa.array([decimal.Decimal("1.5"), decimal.Decimal(2)]), [1.5, 2.0]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.timestamp("ns"))), [[1, 2], [3, 4]]),
        (pa.array([1.5, 1.5]).dictionary_encode(), [1.5, 1.5]),
        (pa.RunEndEncodedArray.from_arrays([2], [7]), [7, 7]),
        (pa.array([[1, 2], [3, 4]], pa.list_view(pa.int16())), [[1, 2], [3, 4]]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1], pa.int8())), [False, True]),
        (pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 5], pa.int8())), [False, True]),
        (pa.array([[[1], [2]], [[3], [4]]]), [[[1], [2]], [[3], [4]]]),
        (pa.array([[[]], [[]]], pa.list_(pa.list_(pa.int8()))), [[[]], [[]]]),
    ],
    ids=lambda column: str(getattr(column, "type", "")).replace(" ", ""),
)
def test_a_tensor_is_made_of_what_counts(column: Any, expected: list[Any]) -> None:
    assert Point.from_arrow(pa.table({"x": column})).x.tolist() == expected


def test_times_that_are_no_nanoseconds_of_64_bits_are_an_error() -> None:
    table = pa.table({"x": [datetime.datetime(9999, 1, 1)]})
    with pytest.raises(tc.ConversionError, match="x: expected times that are nanoseconds in 64 bits"):
        Point.from_arrow(table)


def test_lists_of_structs_are_a_record_with_more_dimensions() -> None:
    class Path(TensorClass):
        points: Point

    structs = [[{"x": 1, "name": "a"}, {"x": 2, "name": "b"}], [{"x": 3, "name": "c"}, {"x": 4, "name": "d"}]]
    path = Path.from_arrow(pa.table({"points": structs}))
    assert (path.points.x.tolist(), path.points.name) == ([[1, 2], [3, 4]], [["a", "b"], ["c", "d"]])
    with pytest.raises(tc.ConversionError, match="points: expected lists of one length, got lists of 1 to 2"):
        Path.from_arrow(pa.table({"points": [structs[0], structs[1][:1]]}))


def test_an_extension_type_gives_what_it_means() -> None:
    ids = [uuid.uuid4(), uuid.uuid4()]
    column = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes for one in ids], pa.binary(16)))
    assert tc.from_arrow(pa.table({"a": column}))["a"] == ids
    column = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", "1"]))
    assert tc.from_arrow(pa.table({"a": column}))["a"].tolist() == ["{}", "1"]


# -- nulls ------------------------------------------------------------------------------------------------------------


def test_nulls_are_the_defaults_of_fields() -> None:
    table = pa.table(
        {"a": [1, 2, 3], "pair": [[5, 6], None, [7, None]], "text": ["x", None, "x"], "free": [None, "y", None],
         "point": [{"x": 1, "name": "z"}, {"x": None, "name": None}, None], "color": [None, "BLUE", "RED"],
         "count": [None, 1, 2], "tags": [None, [1], []], "when": pa.nulls(3)}
    )  # fmt: skip
    row = Row.from_arrow(table)
    assert row.pair.tolist() == [[5, 6], [1, 2], [7, 2]]
    assert (row.text, row.free) == (["x", "none", "x"], [None, "y", None])
    assert row.point is not None
    assert (row.point.x.tolist(), row.point.name) == ([1, 7, 7], ["z", None, None])
    assert (row.color, row.count) == ([Color.RED, Color.BLUE, Color.RED], [3, 1, 2])
    assert (row.tags, row.when) == ([(), (1,), ()], None)
    assert Row.from_arrow(pa.table({"a": [1], "point": pa.array([None], pa.struct({"x": pa.int8()}))})).point is None


def test_ragged_lists_have_defaults_too() -> None:
    table = pa.table({"a": [1, 2, 3], "pair": [[5], None, [6, 7, 8]]})
    assert [row.tolist() for row in Row.from_arrow(table).pair.unbind()] == [[5], [1, 2], [6, 7, 8]]
    table = pa.table({"x": [[1, None], [2]]})
    assert [row.tolist() for row in Point.from_arrow(table).x.unbind()] == [[1, 7], [2]]
    with pytest.raises(tc.ConversionError, match="x: expected a list as default"):
        Point.from_arrow(pa.table({"x": [[1, 2], [2], None]}))


@pytest.mark.parametrize(
    "columns, message",
    [
        ({"a": [1, None]}, "a: expected no nulls, as it has no default, got 1 null"),
        ({"a": [1, 2], "pair": [[1, 2, 3], None]}, r"pair: expected a default that can be broadcast to \[3\]"),
        ({"a": [1, 2], "when": pa.array([1, None], pa.timestamp("s"))}, "when: expected a default that is a tensor"),
        ({"a": [1, 2], "pair": pa.array([[True, True], None])}, "pair: expected a default that is torch.bool"),
    ],
)
def test_a_null_for_which_nothing_stands_is_an_error(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(tc.ConversionError, match=message):
        Row.from_arrow(pa.table(columns))


def test_one_error_lists_every_column_that_does_not_fit() -> None:
    table = pa.table({"a": ["x", None], "text": [1, 2], "point": [1, 2], "count": [1.5, 2.5], "more": [1, 2]})
    with pytest.raises(tc.ConversionError) as caught:
        Row.from_arrow(table)
    assert {problem.path for problem in caught.value.problems} == {
        ("a",), ("text",), ("point",), ("count",), ("more",)
    }  # fmt: skip
    with pytest.raises(tc.ConversionError) as caught:
        tc.from_arrow(pa.table({"a": [1, None], "n": [{"x": 1}, {"x": None}]}))
    assert {problem.path for problem in caught.value.problems} == {("a",), ("n", "x")}


def test_columns_that_are_no_fields_are_left_out_where_that_is_asked_for() -> None:
    table = pa.table({"x": [1, 2], "more": [1, None]})
    with pytest.warns(UserWarning, match="left out what is no field: 'more'"):
        assert Point.from_arrow(table, strict=False).x.tolist() == [1, 2]
    assert Point.from_arrow(table, columns=["x"]).x.tolist() == [1, 2]
    with pytest.raises(tc.ConversionError, match="y: expected one of the columns"):
        Point.from_arrow(table, columns=["x", "y"])


# -- ragged lists, dimensions -----------------------------------------------------------------------------------------


def test_ragged_lists_are_rows_jagged_lazy_or_an_error() -> None:
    table = pa.table({"x": [[1], [2, 3]], "name": ["a", "b"]})
    assert isinstance(tc.from_arrow(table)["x"], Ragged)
    assert Point.from_arrow(table).x.is_nested  # a field of a tensor
    assert tc.from_arrow(table, ragged="jagged")["x"].is_nested
    lazy = Point.from_arrow(table, ragged="lazy")
    assert [(row.x.tolist(), row.name) for row in lazy.unbind(0)] == [([1], "a"), ([2, 3], "b")]
    with pytest.raises(tc.ConversionError, match="x: expected lists of one length, got lists of 1 to 2"):
        tc.from_arrow(table, ragged="raise")
    with pytest.raises(ValueError, match="expected ragged to be one of"):
        tc.from_arrow(table, ragged="no")  # type: ignore[arg-type]


def test_lists_in_lists_of_several_lengths_are_ragged_rows_of_a_lazy_stack_or_objects() -> None:
    table = pa.table({"x": [[[1], [2]], [[3, 4]], [[5], [6, 7]]]})
    assert tc.from_arrow(table)["x"].tolist() == [[[1], [2]], [[3, 4]], [[5], [6, 7]]]
    assert tc.from_arrow(table)["x"].ragged_dims == 2
    assert tc.from_arrow(table, ragged="jagged")["x"] == [[[1], [2]], [[3, 4]], [[5], [6, 7]]]
    rows = [row["x"] for row in tc.from_arrow(table, ragged="lazy").unbind(0)]
    assert [row.tolist() for row in rows[:2]] == [[[1], [2]], [[3, 4]]]
    assert [item.tolist() for item in rows[2].unbind()] == [[5], [6, 7]]
    with pytest.raises(tc.ConversionError, match="ragged='lazy' makes a lazy stack of rows"):
        Point.from_arrow(table)


def test_lists_are_dimensions_of_the_batch_where_that_is_asked_for() -> None:
    table = pa.table({"x": [[1, 2], [3, 4]], "name": [["a", "b"], ["c", "d"]]})
    for options in ({"auto_batch_size": True}, {"batch_size": [2, 2]}, {"batch_dims": 2}):
        data = Point.from_arrow(table, **options)  # type: ignore[arg-type]
        assert (data.batch_size, data[1, 0].x, data[1, 0].name) == ((2, 2), 3, "c")
    assert tc.from_arrow(table)["name"].tolist() == [["a", "b"], ["c", "d"]]
    assert tc.from_arrow(table).get("name").batch_size == (2,)
    whole = tc.from_arrow(table, batch_size=[2, 2])
    assert (type(whole["name"]), whole["name"][1, 0], whole["x"][1, 0]) == (Text, "c", 3)
    with pytest.raises(tc.ConversionError, match=r"x: expected batch dimensions \[2, 2\] in front"):
        tc.from_arrow(pa.table({"x": [1, 2]}), batch_size=[2, 2])


# -- text -------------------------------------------------------------------------------------------------------------


def test_text_that_repeats_is_made_once() -> None:
    for column in (pa.array(["a", "b"] * 100), pa.array(["a", "b"] * 100, pa.string_view()),
                   pa.array(["a", "b"] * 100).dictionary_encode()):  # fmt: skip
        held = tc.from_arrow(pa.table({"a": column})).get("a")
        assert held.tolist() == ["a", "b"] * 100
        assert len({*map(id, held.tolist())}) == 2


def test_dictionaries_with_nulls_and_of_several_chunks_are_read() -> None:
    first = pa.array(["a", None]).dictionary_encode()
    second = pa.DictionaryArray.from_arrays(pa.array([0, 1], first.type.index_type), pa.array(["z", None]))
    table = pa.table({"a": pa.chunked_array([first, second])})
    assert tc.from_arrow(table, nulls="fill")["a"].tolist() == ["a", None, "z", None]
    assert tc.from_arrow(table, nulls="mask")["_mask", "a"].tolist() == [True, False, True, False]


# -- out --------------------------------------------------------------------------------------------------------------


def test_a_schema_says_what_columns_are() -> None:
    data = TensorDict({"a": values(2), "m": values(2, 2), "t": ["x", None], "n": {"u": values(2)}}, [2])
    schema = pa.schema(
        [("t", pa.dictionary(pa.int8(), pa.string())), ("m", pa.large_list(pa.float64())),
         ("n", pa.struct({"u": pa.int64()})), ("a", pa.float32())]
    )  # fmt: skip
    table = data.to_arrow(schema=schema)
    assert table.schema == schema
    assert table.to_pylist()[1] == {"t": None, "m": [2.0, 3.0], "n": {"u": 1}, "a": 1.0}
    with pytest.raises(tc.ConversionError) as caught:
        data.to_arrow(schema=pa.schema({"a": pa.string(), "m": pa.list_(pa.int8(), 3), "t": pa.int8(), "x": pa.int8()}))
    assert {problem.path for problem in caught.value.problems} == {("m",), ("t",), ("x",), ("n",)}


def test_rows_of_different_shapes_are_lists_and_come_back() -> None:
    parts = [TensorDict({"a": values(n, 2), "b": values(n, n + 1), "c": values(2)}) for n in (1, 2)]
    lazy = tc.lazy_stack(parts)
    table = lazy.to_arrow()
    assert table["a"].to_pylist() == [[[0, 1]], [[0, 1], [2, 3]]]
    back = tc.from_arrow(table, ragged="lazy")
    for row, part in zip(back.unbind(0), parts, strict=True):
        assert all(torch.equal(row[key], part[key]) for key in ("a", "b", "c"))


@pytest.mark.parametrize("count", [0, 2])
def test_no_rows_and_no_columns_and_items_without_numbers_come_back(count: int) -> None:
    data = TensorDict({"a": values(count, 0), "b": values(count, 3, 0), "n": {}, "x": values(count, 2)}, [count])
    back = tc.from_arrow(data.to_arrow())
    assert {key: back[key].shape for key in "abnx"} == {key: data[key].shape for key in "abnx"}
    assert tc.from_arrow(TensorDict({}, [count]).to_arrow()).batch_size == (count,)


def test_a_tensor_for_all_rows_comes_back_as_one() -> None:
    data = TensorDict({"u": tc.UnbatchedTensor(values(3)), "x": values(2)}, [2])
    table = data.to_arrow()
    assert table["u"].to_pylist() == [[0, 1, 2]] * 2
    back = tc.from_arrow(table)
    assert type(back.get("u")).__name__ == "UnbatchedTensor"
    assert back["u"].tolist() == [0, 1, 2]


# -- what is read -----------------------------------------------------------------------------------------------------


class Stream:
    """Something that has columns of Arrow, and is none of its tables."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def test_streams_and_chunks_of_structs_are_read() -> None:
    table = pa.table({"x": [1, 2]})
    structs = pa.chunked_array([table.to_struct_array().chunk(0)] * 2)
    for source in (table.to_reader(), Stream(table)):
        assert Point.from_arrow(source).x.tolist() == [1, 2]
    assert Point.from_arrow(structs).x.tolist() == [1, 2, 1, 2]


def test_a_file_that_is_memory_mapped_is_not_copied(tmp_path: Any) -> None:
    table = pa.table({"x": np.arange(100.0), "m": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(200)), 2)})
    path = str(tmp_path / "a.arrow")
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.memory_map(path) as source:
        gc.collect()  # of what earlier tests left
        before = pa.total_allocated_bytes()
        data = tc.from_arrow(pa.ipc.open_file(source).read_all(), copy=False)
        assert pa.total_allocated_bytes() <= before
        assert data["x"].tolist() == list(range(100))
        assert data["m"].shape == (100, 2)
