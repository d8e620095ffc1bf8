"""from_pandas and to_pandas; without pandas or pyarrow, too."""

from __future__ import annotations

import datetime
import enum
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float32, Int
from torch import Tensor

from tensorclass import Column, ConversionError, Ragged, TensorClass, TensorDict, Text
from tensorclass.td.leaves.nontensor import NonTensorStack
from tensorclass.td.leaves.object_codes import Deferred
from tests import fresh_python
from tests.convert.samples import Inner, Sample, values
from tests.convert.sides import both


def numbers() -> Any:
    return pd.DataFrame({"a": [1, 2, 3], "b": [1.0, 2.0, 3.0], "flag": [True, False, True], "n.x": [1, 2, 3]})


def read(column: Any, **options: Any) -> Any:
    """Return the value that a column becomes in a collection without declared fields."""
    return TensorDict.from_pandas(pd.DataFrame({"c": column}), **options)["c"]


def same(made: Any, expected: Any) -> bool:
    return isinstance(made, Tensor) and made.dtype == expected.dtype and torch.equal(made, expected)


# -- as the peer ------------------------------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize(
    "options",
    [{}, {"separator": "."}, {"auto_batch_size": True}, {"batch_size": [3]}, {"batch_size": []}, {"batch_size": [2]},
     {"dtype": torch.float32}, {"auto_batch_size": True, "batch_dims": 1}, {"batch_size": [3], "auto_batch_size": True},
     {"device": "cpu"}],
    ids=str,
)  # fmt: skip
def test_the_options_do_what_they_do_in_the_peer(options: dict[str, Any]) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_pandas(numbers(), **options))
    assert ours == peers
    ours, peers = both(lambda m: m.from_pandas(numbers(), **options))
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize(
    "column",
    [
        *(pd.Series([1, 2], dtype=dtype) for dtype in ("int8", "uint16", "uint64", "float16", "complex64", ">i4")),
        pd.array([1, 2], dtype="Int64"),
        pd.array([1, None], dtype="Int64"),
        pd.array([1, None], dtype="UInt8"),
        pd.array([1.5, None], dtype="Float32"),
        pd.array([True, False], dtype="boolean"),
        pd.array([1, None], dtype="int64[pyarrow]"),
        pd.array([1.5, None], dtype="float[pyarrow]"),
        pd.array([True, False], dtype="bool[pyarrow]"),
        pd.arrays.SparseArray([0, 1]),
        pd.arrays.SparseArray([np.nan, 1]),
        [1.0, None],
        pd.date_range("2020", periods=2),
        pd.Series(pd.date_range("2020", periods=2)).astype("timestamp[us][pyarrow]"),
        pd.Series([], dtype="float64"),
    ],
    ids=lambda column: str(getattr(column, "dtype", column)),
)
def test_columns_become_what_they_become_in_the_peer(column: Any) -> None:
    ours, peers = both(lambda m: m.TensorDict.from_pandas(pd.DataFrame({"c": column})))
    assert repr(ours) == repr(peers)


@pytest.mark.parity
def test_a_table_is_that_of_the_peer() -> None:
    def table(m: Any) -> Any:
        data = m.TensorDict({"a": values(2), "s": ["x", "y"], "n": {"b": values(2).int()}, "one": "q", "no": None}, [2])
        frame = data.to_pandas(separator="/")
        return frame.to_dict("list"), [str(dtype) for dtype in frame.dtypes], list(frame.index)

    ours, peers = both(table)
    assert ours == peers


@pytest.mark.parity
@pytest.mark.parametrize("source, size", [({"a": 1}, []), ({"a": values(2, 3)}, [2, 3]), ({"n": {"a": [1]}}, [1])])
def test_what_is_no_table_is_an_error_as_in_the_peer(source: Any, size: list[int]) -> None:
    ours, peers = both(lambda m: m.TensorDict(source, size).to_pandas())
    assert ours is peers is ValueError


# -- in: what columns become ------------------------------------------------------------------------------------------


def test_text_is_text_and_objects_are_rows_of_objects() -> None:
    frame = pd.DataFrame(
        {
            "text": ["a", "b", None],
            "category": pd.Categorical(["u", "v", "u"]),
            "object": [1, "a", None],
            "flag": pd.array([True, None, False], dtype="boolean"),
            "words": [["a"], ["b", "c"], []],
            "date": [datetime.date(2020, 1, 1)] * 3,
        }
    )
    data = TensorDict.from_pandas(frame)
    assert [type(data.get(key)) for key in ("text", "category", "words")] == [Text, Text, Column]
    assert data["words"].item_type == list[str]
    assert {key: data.get(key).tolist() for key in data.keys()} == {  # noqa: SIM118
        "text": ["a", "b", None],
        "category": ["u", "v", "u"],
        "object": [1, "a", None],
        "flag": [True, None, False],
        "words": [["a"], ["b", "c"], []],
        "date": [datetime.date(2020, 1, 1)] * 3,
    }
    assert data["words"][1] == ["b", "c"]


@pytest.mark.parametrize(
    "rows, dtype",
    [([[1, 2], [3, 4]], torch.int64), ([np.zeros(2, "f4"), np.ones(2, "f4")], torch.float32),
     ([torch.zeros(2, 3), torch.ones(2, 3)], torch.float32), ([[[1.0], [2.0]], [[3.0], [4.0]]], torch.float64)],
    ids=["lists", "arrays", "tensors", "lists of lists"],
)  # fmt: skip
def test_rows_of_one_shape_are_further_dimensions(rows: list[Any], dtype: torch.dtype) -> None:
    assert same(read(rows), torch.stack([torch.as_tensor(row) for row in rows]).to(dtype))


@pytest.mark.parametrize(
    "rows", [[[1, 2], [3]], [[1], []], [np.zeros(1), np.zeros(2)], [torch.zeros(1, 4), torch.ones(3, 4)]], ids=str
)
def test_rows_of_different_lengths_are_ragged(rows: list[Any]) -> None:
    for row in rows:
        if isinstance(row, np.ndarray):
            row.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = read(rows)
    assert isinstance(made, Ragged)
    for row, expected in zip(made.tensors(), rows, strict=True):
        values = expected.copy() if isinstance(expected, np.ndarray) else expected  # one that is writable
        assert torch.equal(row, torch.as_tensor(values, dtype=made.dtype))


@pytest.mark.parametrize(
    "rows", [[[1, None], [2, 3]], [[1, "a"], [2, 3]], [np.zeros((1, 2)), np.zeros((2, 1))]], ids=str
)
def test_rows_that_do_not_fit_each_other_stay_objects(rows: list[Any]) -> None:
    assert all(one is other for one, other in zip(read(rows), rows, strict=True))


def test_arrow_backed_lists_and_structs_are_lists_and_dicts() -> None:
    pa = pytest.importorskip("pyarrow")
    lists = pd.Series([[1, 2], [3, 4]], dtype=pd.ArrowDtype(pa.list_(pa.int64())))
    assert (type(read(lists)), read(lists).tolist()) == (Ragged, [[1, 2], [3, 4]])
    structs = pd.Series([{"a": 1}, {"a": 2}], dtype=pd.ArrowDtype(pa.struct([("a", pa.int64())])))
    assert same(read(structs)["a"], torch.tensor([1, 2]))


def test_rows_of_dicts_with_the_same_keys_are_a_nested_collection() -> None:
    made = read([{"a": 1, "b": {"c": [1.0, 2.0]}}, {"a": 2, "b": {"c": [3.0, 4.0]}}])
    assert same(made["a"], torch.tensor([1, 2]))
    assert made["b", "c"].shape == (2, 2)
    rows = [{"a": 1}, {"b": 2}]
    assert read(rows) == rows


def test_categories_that_are_numbers_are_these() -> None:
    assert same(read(pd.Categorical([7, 9, 7])), torch.tensor([7, 9, 7]))
    made = read(pd.Categorical([7, None]))
    assert made[0] == 7
    assert made[1].isnan()


def test_times_are_nanoseconds_since_1970() -> None:
    times = pd.Series(pd.to_datetime(["1970-01-01 00:00:01"]))
    assert read(times.dt.as_unit("s")) == read(times.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")) == 10**9
    with pytest.raises(ConversionError, match="c: expected a value, got 1 missing times, the first in row 1"):
        read([pd.Timestamp("2020"), pd.NaT])
    with pytest.raises(ConversionError, match="a column of dtype datetime64"):
        read(np.array(["3000-01-01"], dtype="datetime64[s]"))


def test_numbers_that_nan_cannot_stand_beside_are_an_error() -> None:
    with pytest.raises(ConversionError, match=r"missing values beside numbers that a float .* cannot hold.*fillna"):
        read(pd.array([2**53 + 1, None], dtype="Int64"))


def test_a_dtype_that_torch_lacks_is_an_error_that_names_the_column() -> None:
    with pytest.raises(ConversionError, match=r"c: .* a column of dtype (float128|longdouble|float96)"):
        read(np.array([1.0, 2.0], dtype="longdouble"))


# -- in: labels -------------------------------------------------------------------------------------------------------


def test_labels_become_keys() -> None:
    assert list(TensorDict.from_pandas(pd.DataFrame({1: [1], 2.5: [2], None: [3]})).keys()) == ["1.0", "2.5", "nan"]
    levels = pd.DataFrame({("a", "b"): [1.0], ("a", 3): [2.0], ("i", ""): [3.0]})
    data = TensorDict.from_pandas(levels)
    assert data["a"].to_dict() == {"b": 1, "3": 2}
    assert data["i"] == 3
    both_ways = TensorDict.from_pandas(pd.DataFrame({("a", "b.c"): [1.0]}), separator=".")
    assert both_ways["a", "b", "c"] == 1


@pytest.mark.parametrize("labels", [["a", "a"], ["1", 1], ["a", "a.b"], ["a.b", "a"]], ids=str)
def test_columns_for_one_key_are_an_error(labels: list[Any]) -> None:
    with pytest.raises(ConversionError, match=r"expected one column, got (several|columns both at this key and below)"):
        TensorDict.from_pandas(pd.DataFrame([[1, 2]], columns=labels), separator=".")


def test_the_index_is_left_out() -> None:
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
    assert list(TensorDict.from_pandas(frame).keys()) == ["a"]
    assert list(TensorDict.from_pandas(frame.reset_index()).keys()) == ["key", "a"]


@pytest.mark.parametrize("bad", [1, {"a": [1]}, pd.Series([1])], ids=lambda bad: type(bad).__name__)
def test_other_objects_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match=rf"expected a pandas\.DataFrame, got a {type(bad).__name__}"):
        TensorDict.from_pandas(bad)


def test_a_series_is_told_how_it_becomes_a_table() -> None:
    with pytest.raises(TypeError, match=r"got a Series; \.to_frame\(\) makes a table of it"):
        TensorDict.from_pandas(pd.Series([1]))


# -- in: records ------------------------------------------------------------------------------------------------------


class Kind(enum.Enum):
    RED = 1


class Kept(TensorClass, stack_objects=True):
    x: Tensor
    name: str = "none"
    id: int | None = None
    tags: list[str] | None = None
    when: datetime.datetime | None = None
    inner: Inner | None = None


class Row(Kept):
    weight: Tensor = torch.tensor(1.5)
    count: Tensor = torch.tensor(7)


def test_a_record_takes_a_table_with_its_fields_and_gives_one() -> None:
    record = Sample.from_pandas(pd.DataFrame({"x": [1.0, 2.0], "label": ["a", "b"], "inner/x": [1, 2]}), separator="/")
    assert (type(record), type(record.inner), record[1].label) == (Sample, Inner, "b")
    assert list(record.to_pandas(separator="/").columns) == ["x", "label", "inner/x"]


def test_fields_that_hold_objects_get_them_row_by_row() -> None:
    frame = pd.DataFrame(
        {"x": [1, 2], "id": [3, 4], "tags": [["a"], np.array(["b", "c"], dtype=object)],
         "when": pd.date_range("2020", periods=2), "name": pd.Categorical(["u", "v"])}
    )  # fmt: skip
    row = Row.from_pandas(frame)[1]
    assert (row.id, row.tags, row.when, row.name) == (4, ["b", "c"], datetime.datetime(2020, 1, 2), "v")


def test_fields_that_hold_tensors_get_the_numbers_of_objects() -> None:
    frame = pd.DataFrame({"x": pd.Series([1, 2], dtype=object), "weight": pd.to_timedelta(["1s", "2s"])})
    row = Row.from_pandas(frame)
    assert same(row.x, torch.tensor([1, 2]))
    assert same(row.weight, torch.tensor([10**9, 2 * 10**9]))


def test_rows_of_dicts_are_the_records_of_a_field() -> None:
    row = Row.from_pandas(pd.DataFrame({"x": [1, 2], "inner": [{"x": [1.0, 2.0]}, {"x": [3.0, 4.0], "tag": "t"}]}))
    assert (type(row.inner), row.inner.x.shape, row.inner.tag) == (Inner, (2, 2), [None, "t"])
    with pytest.raises(
        ConversionError, match=r"inner: expected .*Inner.*, got a column of int; its rows must be dicts"
    ):
        Row.from_pandas(pd.DataFrame({"x": [1, 2], "inner": [1, 2]}))


def test_a_class_that_casts_takes_what_files_of_text_hold() -> None:
    class Cast(TensorClass, autocast=True, stack_objects=True):
        age: Float32[Tensor, ""]
        id: int

    made = Cast.from_pandas(pd.DataFrame({"age": [1, 2], "id": ["7", "8"]}))
    assert made.age.dtype == torch.float32
    assert made.id == [7, 8]


class Scene(TensorClass, stack_objects=True):
    boxes: Inner
    meta: dict[str, Any] | None = None
    kind: Kind | None = None


def test_rows_of_lists_of_dicts_are_records_with_a_further_dimension() -> None:
    boxes = [[{"x": [1, 2], "tag": "a"}, {"x": [3, 4], "tag": "b"}]] * 3
    scene = Scene.from_pandas(pd.DataFrame({"boxes": boxes}))
    assert scene.boxes.x.shape == (3, 2, 2)
    assert scene[0].boxes.tag == ["a", "b"]
    with pytest.raises(ConversionError, match="boxes: expected Inner, got a column with lists of 1 to 2 items"):
        Scene.from_pandas(pd.DataFrame({"boxes": [boxes[0], boxes[0][:1]]}))


def test_columns_below_a_field_of_dicts_are_a_dict_for_each_row() -> None:
    frame = pd.DataFrame({"boxes.x": [1, 2], "meta.a": [1, 2], "meta.b": ["u", None], "meta.c.d": [[1], [2]]})
    scene = Scene.from_pandas(frame, separator=".")
    assert scene[1].meta == {"a": 2, "b": None, "c": {"d": [2]}}


def test_members_of_an_enumeration_are_found_by_name() -> None:
    scene = Scene.from_pandas(pd.DataFrame({"boxes": [{"x": 1}] * 2, "kind": ["RED", None]}))
    assert scene.kind == [Kind.RED, None]
    with pytest.raises(ConversionError, match=r"kind: .* got str 'red' among its rows"):
        Scene.from_pandas(pd.DataFrame({"boxes": [{"x": 1}], "kind": ["red"]}))


def test_a_field_that_stands_in_the_index_is_an_error_that_says_so() -> None:
    frame = pd.DataFrame({"name": ["a"]}, index=pd.Index([1.0], name="x"))
    with pytest.raises(ConversionError, match=r"^Kept\.from_pandas: x: expected Tensor, got the index; .*reset_index"):
        Kept.from_pandas(frame)
    assert Kept.from_pandas(frame.reset_index()).x.tolist() == [1]


def test_one_error_names_all_columns_that_do_not_fit() -> None:
    frame = pd.DataFrame({"x": ["a", "b"], "name": [1, 2], "count": [[1, 2], "a"], "other": [1, 2]})
    with pytest.raises(ConversionError) as info:
        Row.from_pandas(frame)
    assert {problem.path for problem in info.value.problems} == {("x",), ("name",), ("count",), ("other",)}


def test_columns_that_are_no_fields_are_left_out_with_a_warning_unless_strict() -> None:
    frame = pd.DataFrame({"x": [1.0], "other": [1], "inner.x": [1.0], "inner.y": pd.to_datetime([None])})
    with pytest.raises(ConversionError, match=r"inner.y"):
        Row.from_pandas(frame, separator=".")
    with pytest.warns(UserWarning, match=r"'other'.*'inner\.y'"):
        row = Row.from_pandas(frame, separator=".", strict=False)
    assert row.inner is not None


# -- in: missing values -----------------------------------------------------------------------------------------------


def test_the_default_of_a_field_stands_for_missing_values() -> None:
    frame = pd.DataFrame(
        {"x": [1.0, 2.0], "weight": [0.5, None], "count": [1, None], "name": ["a", None], "id": [1, None],
         "tags": [["a"], None], "when": [pd.Timestamp("2020"), pd.NaT]}
    )  # fmt: skip
    row = Row.from_pandas(frame)
    assert same(row.weight, torch.tensor([0.5, 1.5], dtype=torch.float64))
    assert same(row.count, torch.tensor([1, 7]))
    assert (row.name, row.id, row.tags) == (["a", "none"], [1, None], [["a"], None])
    assert row[1].when is None


@pytest.mark.parametrize(
    "column",
    [pd.array([1.5, None], dtype="Float64"), pd.array([1, None], dtype="Int64"), [[1, 2], None], [True, None]],
    ids=str,
)
def test_missing_values_without_a_default_are_an_error_that_says_what_to_do(column: Any) -> None:
    frame = pd.DataFrame({"x": column})
    with pytest.raises(
        ConversionError, match=r"x: expected Tensor, got 1 missing values, the first in row 1; .*nulls="
    ):
        Row.from_pandas(frame)
    assert Row.from_pandas(frame, nulls="fill").x.shape[0] == 2


def test_nan_of_a_field_of_floats_is_kept_where_no_default_stands_for_it() -> None:
    class Floats(TensorClass, stack_objects=True):
        x: Tensor
        y: Float32[Tensor, "2"]
        score: float
        z: Tensor | None = None

    nan = float("nan")
    given = Floats(torch.tensor([1.0, nan]), torch.tensor([[nan, 1.0], [2.0, 3.0]]), [nan, 0.5],
                   torch.tensor([nan, nan]), batch_size=[2])  # fmt: skip
    back = Floats.from_pandas(given.to_pandas())
    for key in ("x", "y", "z"):
        torch.testing.assert_close(back.get(key), given.get(key), rtol=0, atol=0, equal_nan=True)
    assert str(list(back.score)) == "[nan, 0.5]"
    with pytest.raises(ConversionError, match=r"x: expected Tensor, got 1 missing values, the first in row 1"):
        Floats.from_pandas(given.to_pandas(), nulls="raise")


def test_nan_of_a_field_of_whole_numbers_is_a_missing_one() -> None:
    class Whole(TensorClass, stack_objects=True):
        n: Int[Tensor, ""]
        id: int

    with pytest.raises(ConversionError) as info:
        Whole.from_pandas(pd.DataFrame({"n": [1, None], "id": [1, None]}))
    assert [(problem.path, problem.got) for problem in info.value.problems] == [
        ((key,), "1 missing values, the first in row 1") for key in ("n", "id")
    ]


def test_a_field_is_none_where_no_row_has_a_value() -> None:
    class Optional(TensorClass):
        x: Tensor | None = None
        inner: Inner | None = None

    row = Optional.from_pandas(pd.DataFrame({"x": [None, None], "inner": [None, None]}))
    assert row.x is row.inner is None
    assert row.batch_size == (2,)


def test_rows_of_arrays_are_filled_with_the_default_broadcast() -> None:
    row = Row.from_pandas(pd.DataFrame({"x": [1, 2], "count": [[1, 2], None]}))
    assert same(row.count, torch.tensor([[1, 2], [7, 7]]))
    with pytest.raises(ConversionError, match=r"count: .* got 1 missing"):
        Row.from_pandas(pd.DataFrame({"x": [1, 2, 3], "count": [[1, 2], [1], None]}))


@pytest.mark.parametrize(
    "column, filled",
    [
        (pd.array([1, None], dtype="Int8"), torch.tensor([1, 0], dtype=torch.int8)),
        (pd.array([True, None], dtype="boolean"), torch.tensor([True, False])),
        (pd.array([1.5, None], dtype="Float32"), torch.tensor([1.5, float("nan")])),
        (np.array([1.5, np.nan]), torch.tensor([1.5, float("nan")], dtype=torch.float64)),
        (pd.to_datetime(["1970-01-02", None]), torch.tensor([86400 * 10**9, 0])),
        (pd.array([1, None], dtype="int64[pyarrow]"), torch.tensor([1, 0])),
    ],
    ids=lambda case: str(getattr(case, "dtype", "")),
)
def test_nulls_are_filled_masked_or_an_error_as_asked(column: Any, filled: Tensor) -> None:
    torch.testing.assert_close(read(column, nulls="fill"), filled, equal_nan=True)
    masked = TensorDict.from_pandas(pd.DataFrame({"c": column, "full": [1, 2]}), nulls="mask")
    assert masked["_mask"].to_dict().keys() == {"c"}
    assert masked["_mask", "c"].tolist() == [True, False]
    with pytest.raises(ConversionError, match=r"c: .*1 missing values"):
        read(column, nulls="raise")


def test_objects_that_are_missing_are_none_or_an_error_as_asked() -> None:
    data = TensorDict.from_pandas(pd.DataFrame({"c": ["a", None], "n.d": ["a", None]}), nulls="mask", separator=".",
                                  mask_key=("m", "given"))  # fmt: skip
    assert data["c"].tolist() == ["a", None]
    assert data["m", "given", "n", "d"].tolist() == [True, False]
    with pytest.raises(ConversionError, match=r"c: expected no nulls, got 1 null, the first in row 1"):
        read(["a", None], nulls="raise")


def test_masks_can_be_written_beside_columns_of_a_nested_collection() -> None:
    frame = pd.DataFrame({"m.x": [1.0, None], "m.y.z": [None, 1.0]})
    data = TensorDict.from_pandas(frame, nulls="mask", separator=".", mask_key="m")
    assert data["m", "m", "x"].tolist() == [True, False]
    assert data["m", "m", "y", "z"].tolist() == [False, True]
    assert data["m", "y", "z"][1] == 1


def test_options_for_nulls_are_checked() -> None:
    with pytest.raises(ValueError, match="expected nulls to be one of"):
        read([1], nulls="none")
    with pytest.raises(ValueError, match="mask_key='m' needs nulls='mask'"):
        read([1], mask_key="m")
    with pytest.raises(ConversionError, match=r"_mask: .* give mask_key="):
        TensorDict.from_pandas(pd.DataFrame({"_mask": [1.0, None]}), nulls="mask")


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column", [np.arange(3.0), pd.array([1, 2, 3], dtype="Int64"), pd.date_range("2020", periods=3)]
)
def test_tensors_have_memory_of_their_own_by_default(column: Any) -> None:
    frame = pd.DataFrame({"c": column})
    before = frame.copy()
    TensorDict.from_pandas(frame)["c"].zero_()
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("copy", [False, None])
def test_columns_share_the_memory_of_the_table_where_that_is_asked_for(copy: bool | None) -> None:
    frame = pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=["a", "b"])
    frame["nullable"] = pd.array([1, 2, 3], dtype="Int64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = TensorDict.from_pandas(frame, copy=copy)
    for key in ("a", "b", "nullable"):
        data[key].fill_(9)
        assert frame[key].tolist() == [9, 9, 9]


def test_a_column_that_needs_a_copy_is_an_error_only_where_none_is_allowed() -> None:
    frame = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": np.array([1, 2], dtype=">i4"), "t": ["x", "y"]})
    with pytest.raises(ConversionError) as info:
        TensorDict.from_pandas(frame, copy=False)
    assert [problem.path for problem in info.value.problems] == [("a",), ("b",)]
    assert same(TensorDict.from_pandas(frame, copy=None)["b"], torch.tensor([1, 2], dtype=torch.int32))


def test_a_table_has_memory_of_its_own_unless_asked() -> None:
    data = TensorDict({"a": values(3)}, [3])
    frame, shared = data.to_pandas(), data.to_pandas(copy=False)
    data["a"].fill_(9)
    assert frame["a"].tolist() == [0, 1, 2]
    assert shared["a"].tolist() == [9, 9, 9]


# -- out --------------------------------------------------------------------------------------------------------------


def test_further_dimensions_and_jagged_tensors_are_rows_of_arrays() -> None:
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.ones(1)], layout=torch.jagged)
    frame = TensorDict({"image": values(2, 2, 2), "ragged": ragged}, [2]).to_pandas()
    assert [type(row) for row in frame["image"]] == [np.ndarray] * 2
    np.testing.assert_array_equal(frame["image"][1], [[4, 5], [6, 7]])
    assert [row.tolist() for row in frame["ragged"]] == [[0, 0], [1]]


def test_numbers_beside_none_stay_what_they_are() -> None:
    frame = Kept(values(2), id=[2**60 + 1, None], batch_size=[2]).to_pandas()
    assert frame["id"].tolist() == [2**60 + 1, None]
    assert Kept.from_pandas(frame).id == [2**60 + 1, None]


def test_an_error_names_the_column() -> None:
    with pytest.raises(TypeError, match=r"'w' has the dtype torch\.bfloat16"):
        TensorDict({"w": values(2).bfloat16()}, [2]).to_pandas()
    with pytest.raises(TypeError, match=r"'w' is a tensor of the layout torch\.sparse_coo"):
        TensorDict({"w": torch.eye(2).to_sparse()}, [2]).to_pandas()
    with pytest.raises(ValueError, match=r"two values would become the column 'a\.b'"):
        TensorDict({"a.b": values(2), "a": {"b": values(2)}}, [2]).to_pandas(separator=".")


rows = st.integers(0, 4)


@given(data=st.data())
def test_a_table_comes_back_equal(data: st.DataObject) -> None:
    count = data.draw(rows)
    kinds = st.sampled_from(["int64", "float32", "bool", "uint8", "text", "object"])
    frame = pd.DataFrame(index=pd.RangeIndex(count))
    for name in data.draw(st.lists(st.sampled_from("abcd"), unique=True)):
        kind = data.draw(kinds)
        if kind == "text":
            frame[name] = pd.Series(data.draw(st.lists(st.text("xy"), min_size=count, max_size=count)), dtype="str")
        elif kind == "object":
            items = data.draw(st.lists(st.sampled_from([1, "a", (1,)]), min_size=count, max_size=count))
            frame[name] = pd.Series([*items], dtype=object)
        else:
            frame[name] = np.arange(count).astype(kind)
    back = TensorDict.from_pandas(frame).to_pandas()
    pd.testing.assert_frame_equal(back, frame, check_dtype=False)
    for name in frame:
        if frame[name].dtype.kind in "biuf":
            assert back[name].dtype == frame[name].dtype


@st.composite
def records(draw: st.DrawFn) -> Kept:
    count = draw(rows)

    def column(items: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | st.lists(items, min_size=count, max_size=count)) if count else None

    dtype = draw(st.sampled_from([torch.int8, torch.int64, torch.float32, torch.float64, torch.bool]))
    shape = draw(st.sampled_from([(), (2,), (2, 3)]))
    tensor = torch.arange(count * torch.Size(shape).numel()).reshape(count, *shape).to(dtype)
    return Kept(
        tensor,
        name=column(st.text("ab")) or "one",
        id=column(st.none() | st.integers(-(2**62), 2**62)),
        tags=column(st.none() | st.lists(st.text("ab"))),
        when=column(st.just(datetime.datetime(2020, 1, 1))),
        inner=draw(st.sampled_from([None, Inner(values(count, 2), batch_size=[count])])),
        batch_size=[count],
    )


@given(records())
def test_a_record_comes_back_equal(record: Kept) -> None:
    back = Kept.from_pandas(record.to_pandas(separator="."), separator=".")
    assert back.batch_size == record.batch_size
    for mine, other in zip(back, record, strict=True):
        assert same(mine.x, other.x)
        assert [mine.name, mine.id, mine.tags, mine.when] == [other.name, other.id, other.tags, other.when]
    assert (back.inner is None) == (record.inner is None)
    if len(record) and record.inner is not None:
        assert same(back.inner.x, record.inner.x)


def test_an_absent_package_is_an_error_that_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['pandas'] = sys.modules['pyarrow'] = None\n"
        "from tensorclass import TensorDict\n"
        "for call in (lambda: TensorDict.from_pandas(1), TensorDict({'a': [1]}, [1]).to_pandas,\n"
        "             lambda: TensorDict.from_arrow(1), TensorDict({'a': [1]}, [1]).to_arrow):\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
        "print(TensorDict.from_any({'a': [1]})['a'])\n"
    )
    shown = fresh_python.run(["-c", code], check=True).stdout.splitlines()
    assert shown == [
        "from_pandas needs pandas, which is not installed: pip install 'tensorclass[pandas]'",
        "to_pandas needs pandas, which is not installed: pip install 'tensorclass[pandas]'",
        "from_arrow needs pyarrow, which is not installed: pip install 'tensorclass[arrow]'",
        "to_arrow needs pyarrow, which is not installed: pip install 'tensorclass[arrow]'",
        "tensor([1])",
    ]


def test_conjugates_are_written_as_their_numbers_and_tensors_without_numbers_refused() -> None:
    frame = TensorDict({"c": torch.tensor([1j, 2]).conj()}, [2]).to_pandas()
    assert frame["c"].tolist() == [-1j, 2]
    with pytest.raises(TypeError, match=r"'c' is on the device meta .* torch.zeros_like"):
        TensorDict({"c": torch.zeros(2, device="meta")}, [2]).to_pandas()


# -- text -------------------------------------------------------------------------------------------------------------


class Titled(TensorClass, stack_objects=True):
    title: str


def test_text_that_arrow_holds_is_made_when_it_is_asked_for() -> None:
    table = pd.DataFrame({"title": pd.Series(["a", "b", "c"], dtype="string[pyarrow]")})
    made = Titled.from_pandas(table)
    held = made.get("title")
    assert isinstance(held, NonTensorStack)
    assert isinstance(held._objects, Deferred)
    text = TensorDict.from_pandas(table)
    table.loc[0, "title"] = "z"
    assert made.title == text["title"].tolist() == ["a", "b", "c"]
    with pytest.raises(ConversionError, match="1 missing values"):
        Titled.from_pandas(pd.DataFrame({"title": pd.Series(["a", None], dtype="string[pyarrow]")}))


@pytest.mark.parametrize("annotation, cells, expected", [
    (int | None, [4, None], [4, None]),
    (float | None, [4, None], [4.0, None]),
    (int | str | None, [-2.0, None], [-2, None]),
])  # fmt: skip
def test_integers_beside_missing_ones_are_what_the_column_declares(
    annotation: Any, cells: list[Any], expected: list[Any]
) -> None:
    class Leveled(TensorClass):
        level: Column[annotation]  # type: ignore[valid-type]

    made = Leveled.from_pandas(pd.DataFrame({"level": cells})).level.tolist()
    assert made == expected
    assert [type(one) for one in made] == [type(one) for one in expected]


@pytest.mark.parametrize("cells", [[4.5, None], [2.0**60, None]], ids=str)
def test_numbers_that_are_no_exact_integers_do_not_become_integers(cells: list[Any]) -> None:
    class Leveled(TensorClass):
        level: Column[int | None]

    with pytest.raises(ConversionError, match=r"level: .*row 0: expected int \| None, got float"):
        Leveled.from_pandas(pd.DataFrame({"level": cells}))


def test_columns_are_chosen_by_name() -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c": ["x", "y"]})
    found = TensorDict.from_pandas(frame, columns=["b", "a"], rename={"a": "new"})
    assert (found["b"].tolist(), found["new"].tolist(), len(found.keys())) == ([0.5, 1.5], [1, 2], 2)
    with pytest.raises(ConversionError, match="aa: expected one of the columns 'a', 'b', 'c'"):
        TensorDict.from_pandas(frame, columns=["aa"])
    with pytest.raises(TypeError, match="expected a list of columns, got the text 'a'"):
        TensorDict.from_pandas(frame, columns="a")
