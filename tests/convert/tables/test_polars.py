"""from_polars and to_polars."""

from __future__ import annotations

import datetime
import decimal
import io
from typing import Annotated, Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import tensorclass as tc
from tensorclass import DType, Shape, TensorClass, TensorDict
from tensorclass.testing import records
from tests.convert.samples import Inner, Sample, values
from tests.convert.tables.test_arrow_records import Color, same


class Clip(TensorClass, stack_objects=True):
    frames: Tensor
    label: str = "none"
    inner: Inner | None = None


class Drawn(TensorClass, stack_objects=True):
    """A field for each kind of value that survives a round trip."""

    value: Annotated[Tensor, DType("float16", "float32", "int8", "uint16", "int64", "bool")]
    image: Annotated[Tensor, Shape("3 h w"), DType("float32")]
    text: str
    color: Color = Color.RED
    small: bool = False
    raw: bytes = b""
    named: str | None = None


FRAME = pl.DataFrame({"frames": [[1, 2], [3, 4], [5, 6]], "label": ["a", None, "a"]})


def test_columns_of_every_dtype_are_read() -> None:
    day, time = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2, 3, 4, 5, 6)
    frame = pl.DataFrame(
        {"u": pl.Series([1, 2], dtype=pl.UInt16), "f": pl.Series([1.5, 2.5], dtype=pl.Float32), "b": [True, False],
         "array": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int8, 2)), "list": [[1], [2, 3]],
         "struct": [{"x": 1.0, "t": "p"}, {"x": 2.0, "t": "q"}], "text": ["p", "q"], "bytes": [b"p", b"q"],
         "category": pl.Series(["p", "q"], dtype=pl.Categorical),
         "enum": pl.Series(["p", "q"], dtype=pl.Enum(["q", "p"])),
         "day": [day, day], "time": [time, time], "decimal": [decimal.Decimal("1.5")] * 2,
         "object": pl.Series([{1}, {2}], dtype=pl.Object)}
    )  # fmt: skip
    data = tc.from_polars(frame)
    assert (data["u"].dtype, data["f"].dtype, data["b"].tolist()) == (torch.uint16, torch.float32, [True, False])
    assert data["array"].tolist() == [[1, 2], [3, 4]]
    assert [row.tolist() for row in data["list"].unbind()] == [[1], [2, 3]]
    assert data["struct"].to_dict(convert_tensors=True) == {"x": [1.0, 2.0], "t": ["p", "q"]}
    for name, expected in {
        "text": ["p", "q"], "bytes": [b"p", b"q"], "category": ["p", "q"], "enum": ["p", "q"], "day": [day, day],
        "time": [time, time], "decimal": [decimal.Decimal("1.5")] * 2, "object": [{1}, {2}],
    }.items():  # fmt: skip
        assert data.get(name).tolist() == expected


def test_nulls_are_defaults_of_fields_rows_without_text_and_errors_elsewhere() -> None:
    assert Clip.from_polars(FRAME).label == ["a", "none", "a"]
    assert tc.from_polars(FRAME)["label"].tolist() == ["a", None, "a"]
    with pytest.raises(tc.ConversionError, match="label: expected no nulls, got 1 null, the first in row 1"):
        tc.from_polars(FRAME, nulls="raise")
    with pytest.raises(tc.ConversionError, match="n: expected no nulls, got 1 null"):
        tc.from_polars(pl.DataFrame({"n": [1, None]}))
    assert tc.from_polars(FRAME, nulls="mask")["_mask", "label"].tolist() == [True, False, True]


def test_lazy_frames_and_series_of_structs_are_read() -> None:
    lazy = FRAME.lazy().with_columns(pl.col("label").fill_null("z")).filter(pl.col("label") == "a")
    assert Clip.from_polars(lazy).frames.tolist() == [[1, 2], [5, 6]]
    assert list(tc.from_polars(lazy, columns=["label"]).keys()) == ["label"]
    structs = FRAME.select(pl.struct("frames").alias("s"))["s"]
    assert tc.from_polars(structs)["frames"].tolist() == [[1, 2], [3, 4], [5, 6]]
    for bad in (pl.Series([1]), [1], None):
        with pytest.raises(TypeError, match=r"expected a polars\.DataFrame, a LazyFrame or a Series of structs"):
            tc.from_polars(bad)  # type: ignore[arg-type]


def test_one_error_lists_all_columns_that_do_not_fit() -> None:
    frame = pl.DataFrame({"frames": ["x"], "label": [1], "more": [1], "n": pl.Series([1], dtype=pl.Int128)})
    with pytest.raises(tc.ConversionError) as caught:
        Clip.from_polars(frame)
    assert {problem.path for problem in caught.value.problems} == {("frames",), ("label",), ("more",), ("n",)}
    with pytest.raises(tc.ConversionError, match="n: expected a dtype that Arrow has, got Int128"):
        tc.from_polars(frame)
    with pytest.warns(UserWarning, match="left out what is no field: 'n'"):
        assert len(Clip.from_polars(FRAME.with_columns(n=pl.lit(1, dtype=pl.Int128)), strict=False)) == 3
    assert tc.from_polars(frame, columns=["more"])["more"].tolist() == [1]


def test_names_with_a_separator_are_nested_keys() -> None:
    frame = pl.DataFrame({"x": [1.0, 2.0], "inner.x": [3.0, 4.0], "inner.tag": ["a", None]})
    record = Sample.from_polars(frame, separator=".")
    assert record.inner is not None
    assert (type(record.inner), record.inner.x.tolist(), record.inner.tag) == (Inner, [3.0, 4.0], ["a", None])


def test_numbers_share_memory_both_ways() -> None:
    frame = pl.DataFrame({"a": np.arange(6.0)})
    data = tc.from_polars(frame, copy=False)
    assert data["a"].data_ptr() == frame["a"].to_numpy().ctypes.data
    assert tc.from_polars(frame, copy=True)["a"].data_ptr() != data["a"].data_ptr()
    array = frame.select(pl.col("a").reshape((3, 2)))
    assert tc.from_polars(array, copy=False)["a"].shape == (3, 2)
    source = TensorDict({"a": values(4)}, [4])
    assert source.to_polars()["a"].to_numpy().ctypes.data == source["a"].data_ptr()


def test_chunks_with_other_categories_are_joined() -> None:
    parts = [pl.DataFrame({"a": [n], "c": pl.Series([text], dtype=pl.Categorical)}) for n, text in ((1, "u"), (2, "v"))]
    frame = pl.concat(parts, rechunk=False)
    assert tc.from_polars(frame).to_dict(convert_tensors=True) == {"a": [1, 2], "c": ["u", "v"]}


def test_a_frame_is_one_that_polars_writes_and_reads() -> None:
    data = TensorDict(
        {"x": values(2, 3, 4), "none": values(2, 0), "deep": values(2, 3, 0), "half": values(2).half(),
         "n": {"t": ["a", "b"]},
         "ragged": torch.nested.nested_tensor([values(1), values(2)], layout=torch.jagged), "e": {}},
        [2],
    )  # fmt: skip
    frame = data.to_polars()
    assert frame.schema["x"] == pl.Array(pl.Float32, (3, 4))
    file = io.BytesIO()
    frame.write_ipc(file)
    back = tc.from_polars(pl.read_ipc(io.BytesIO(file.getvalue())))
    assert {key: back[key].shape for key in ("x", "half")} == {"x": (2, 3, 4), "half": (2,)}
    # polars has no arrays of no items: these are lists
    assert (back["none"].tolist(), back["deep"].tolist()) == ([[], []], [[[]] * 3] * 2)
    assert torch.equal(back["x"], data["x"])
    assert back["n", "t"].tolist() == ["a", "b"]
    assert back["ragged"].lengths.tolist() == [1, 2]


def test_what_has_no_rows_or_no_dtype_is_an_error() -> None:
    with pytest.raises(ValueError, match="to_polars: expected a batch dimension"):
        TensorDict({"a": 1}).to_polars()
    with pytest.raises(
        tc.ConversionError, match=r"TensorDict\.to_polars: o: expected objects for which Arrow has a type"
    ):
        TensorDict({"o": [object(), object()]}, [2]).to_polars()


@given(data=st.data())
def test_a_record_comes_back_equal(data: st.DataObject) -> None:
    record: Any = data.draw(records(Drawn, st.lists(st.integers(1, 4), min_size=1, max_size=1)))
    same(Drawn.from_polars(record.to_polars()), record, uniform=False)
