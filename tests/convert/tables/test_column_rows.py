"""Strings and rows of different length come out of every table and file as columns, and go back as they came."""

from __future__ import annotations

import dataclasses
import enum
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor

from tensorclass import Column, ConversionError, Ragged, TensorClass, TensorDict, Text

pa = pytest.importorskip("pyarrow.parquet") and pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
datasets = pytest.importorskip("datasets")


class Sample(TensorClass):
    text: Text | None
    tokens: Ragged[Int[Tensor, "n"]] | None
    scores: Ragged[Float[Tensor, "m"]]
    x: Float[Tensor, ""]


class Full(Sample):
    deep: Ragged[Ragged[Int[Tensor, "k"]]]
    tags: Column[list[str]]


class Line(TensorClass):
    """What a cell of a CSV file holds."""

    text: Text | None
    x: Float[Tensor, ""]


Trip = Callable[[Any, Any], Any]


def through_file(kind: str, suffix: str = "") -> Trip:
    def trip(cls: Any, data: Any) -> Any:
        file = io.BytesIO()
        options = {"lines": True} if suffix else {}
        getattr(data, f"to_{kind}")(file, **options)
        file.seek(0)
        return getattr(cls, f"from_{kind}")(file, **options)

    return trip


def through(kind: str) -> Trip:
    return lambda cls, data: getattr(cls, f"from_{kind}")(getattr(data, f"to_{kind}")())


TRIPS: dict[str, Trip] = {
    "pandas": through("pandas"),
    "arrow": through("arrow"),
    "polars": through("polars"),
    "huggingface": through("huggingface"),
    "struct_array": through("struct_array"),
    "parquet": through_file("parquet"),
    "feather": through_file("feather"),
    "json": through_file("json"),
    "lines": through_file("json", "lines"),
    "dict": lambda cls, data: cls.from_dict(data.to_dict(), batch_size=data.batch_size),
    "namedtuple": lambda cls, data: cls.from_namedtuple(data.to_namedtuple(), batch_size=data.batch_size),
}

words = st.text(st.sampled_from('ab é€😀,"\n'), max_size=4)
ints = st.lists(st.integers(-5, 5), max_size=4)
floats = st.lists(st.sampled_from([0.5, -1.25, 3.0]), max_size=4)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Rows by the name of their field: of a `Full`."""
    count = draw(st.integers(1, 6))

    def rows(strategy: Any) -> list[Any]:
        return draw(st.lists(strategy, min_size=count, max_size=count))

    return {
        "text": rows(st.one_of(st.none(), words)),
        "tokens": rows(st.one_of(st.none(), ints)),
        "scores": rows(floats),
        "x": [float(at) for at in range(count)],
        "deep": rows(st.lists(ints, max_size=3)),
        "tags": rows(st.lists(words, max_size=3)),
    }


def full(rows: dict[str, list[Any]]) -> Full:
    return Full(
        text=Text(rows["text"]),
        tokens=Ragged.from_list(rows["tokens"], dtype=torch.int64),
        scores=Ragged.from_list(rows["scores"], dtype=torch.float64),
        x=torch.tensor(rows["x"], dtype=torch.float64),
        deep=Ragged.from_list(rows["deep"], dtype=torch.int64, ragged_dims=2),
        tags=Column(rows["tags"], list[str]),
    )


@pytest.mark.parametrize("name", TRIPS)
@settings(max_examples=15)
@given(tables(), st.booleans())
def test_declared_rows_come_back_through_every_format(name: str, rows: dict[str, list[Any]], flipped: bool) -> None:
    data = full(rows)
    if flipped:  # rows that do not lie in order in their buffer
        data = data.flip(0)
        rows = {key: value[::-1] for key, value in rows.items()}
    back = TRIPS[name](Full, data)
    assert {key: back.get(key).tolist() for key in rows} == rows
    assert [type(back.get(key)) for key in ("text", "tokens", "deep", "tags")] == [Text, Ragged, Ragged, Column]
    assert (back.tokens.dtype, back.scores.dtype.is_floating_point, back.batch_size) == (
        torch.int64,
        True,
        data.batch_size,
    )


@pytest.mark.parametrize("name", [name for name in TRIPS if name not in ("dict", "namedtuple")])
@settings(max_examples=10)
@given(tables())
def test_rows_come_back_where_nothing_is_declared(name: str, rows: dict[str, list[Any]]) -> None:
    text = [None, *rows["text"], "é"]  # of a column of nulls nothing is known
    tokens = [[1], *rows["tokens"], [2, 3]]  # neither is the type of items where there are none, or the rows of one
    data = TensorDict({"text": Text(text), "tokens": Ragged.from_list(tokens, dtype=torch.int64)}, [len(text)])
    back = TRIPS[name](TensorDict, data)
    assert [type(back[key]) for key in ("text", "tokens")] == [Text, Ragged]
    assert (back["text"].tolist(), back["tokens"].tolist(), back["tokens"].dtype) == (text, tokens, torch.int64)


@settings(max_examples=15)
@given(st.lists(st.one_of(st.none(), words), min_size=1, max_size=5).filter(any))  # empty cells alone have no type
def test_cells_of_a_csv_file_are_text(text: list[Any]) -> None:
    x = torch.arange(len(text), dtype=torch.float64)
    for cls, data in ((Line, Line(text=Text(text), x=x)), (TensorDict, TensorDict({"text": Text(text), "x": x}))):
        data.auto_batch_size_(1)
        back = through_file("csv")(cls, data)
        assert (type(back.get("text")), back.get("text").tolist()) == (Text, text)


def test_digits_stay_text_where_the_field_says_so() -> None:
    assert Line.from_csv(io.BytesIO(b"text,x\n007,1.5\n")).text.tolist() == ["007"]
    with pytest.raises(ConversionError, match=r"text: expected string, got int 7 in line 2"):
        Line.from_json(io.BytesIO(b'{"text": "a", "x": 1.0}\n{"text": 7, "x": 2.0}\n'), lines=True)


def test_strings_of_all_layouts_share_a_buffer_where_arrow_has_one() -> None:
    strings = pa.array(["some", None, "text", "é"])
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        column = strings.cast(kind) if not pa.types.is_dictionary(kind) else strings.dictionary_encode()
        for array in (column, column.slice(1, 2)):
            text = TensorDict.from_arrow(pa.table({"t": array}))["t"]
            assert (type(text), text.tolist()) == (Text, array.to_pylist())
        if kind in (pa.string(), pa.large_string()):
            text = TensorDict.from_arrow(pa.table({"t": column}), copy=False)["t"]
            assert text.values.data_ptr() == column.buffers()[2].address
    codes = pa.array(["a" * 100, "b"] * 50).dictionary_encode()
    assert len(TensorDict.from_arrow(pa.table({"t": codes}))["t"].values) == 101  # the rows share two strings
    with pytest.raises(ConversionError, match="t: expected a column that can be read without a copy, got views"):
        TensorDict.from_arrow(pa.table({"t": strings.cast(pa.string_view())}), copy=False)
    copied = TensorDict.from_arrow(pa.table({"t": strings}), copy=True)["t"]
    assert copied.values.data_ptr() != strings.buffers()[2].address


def test_lists_of_all_layouts_are_ragged_and_share_their_items() -> None:
    lists = pa.array([[1, 2], None, [], [3]])
    views = pa.ListViewArray.from_arrays([1, 0, 0], [2, 0, 1], pa.array([1, 2, 3]))
    for array in (lists, lists.cast(pa.large_list(pa.int64())), lists.slice(1), views):
        rows = TensorDict.from_arrow(pa.table({"r": array}))["r"]
        assert (type(rows), rows.tolist()) == (Ragged, array.to_pylist())
    rows = TensorDict.from_arrow(pa.table({"r": lists}), copy=False)["r"]
    assert rows.values.data_ptr() == lists.values.buffers()[1].address
    fixed = pa.table({"r": pa.array([[1, 2], [3, 4]], pa.list_(pa.int64(), 2))})
    assert isinstance(TensorDict.from_arrow(fixed)["r"], Tensor)

    class Declared(TensorClass):
        r: Ragged[Int[Tensor, "n"]]

    class AsTensor(TensorClass):
        r: Tensor

    assert Declared.from_arrow(fixed).r.tolist() == [[1, 2], [3, 4]]
    assert AsTensor.from_arrow(pa.table({"r": [[1], [2, 3]]})).r.is_nested


def test_rows_without_a_value_are_kept_filled_or_an_error() -> None:
    table = pa.table({"text": ["a", None], "tokens": pa.array([None, [1]])})
    kept = TensorDict.from_arrow(table)
    assert (kept["text"].tolist(), kept["tokens"].tolist()) == (["a", None], [None, [1]])
    masked = TensorDict.from_arrow(table, nulls="mask")
    assert (masked["text"].tolist(), masked["tokens"].tolist()) == (["a", None], [[], [1]])
    assert masked["_mask"].to_dict(convert_tensors=True) == {"text": [True, False], "tokens": [False, True]}
    with pytest.raises(ConversionError, match=r"text: expected no nulls, got 1 null, the first in row 1"):
        TensorDict.from_arrow(table, nulls="raise")

    class Strict(TensorClass):
        text: Text
        tokens: Ragged[Int[Tensor, "n"]]

    with pytest.raises(ConversionError, match=r"tokens: .* no default, got 1 null, the first in row 0"):
        Strict.from_arrow(table)
    filled = Strict.from_arrow(table, nulls="fill")
    assert (filled.text.tolist(), filled.tokens.tolist()) == (["a", ""], [[], [1]])

    class WithDefaults(TensorClass):
        text: Text = "none"
        tokens: Ragged[Int[Tensor, "n"]] = dataclasses.field(default_factory=lambda: [7, 8])

    made = WithDefaults.from_arrow(table)
    assert (made.text.tolist(), made.tokens.tolist()) == (["a", "none"], [[7, 8], [1]])


def test_null_items_and_mixed_rows_name_column_and_row() -> None:
    table = pa.table({"tokens": [[1], [2, None]]})
    with pytest.raises(ConversionError, match=r"tokens: expected lists without null items, got a null item in row 1"):
        TensorDict.from_arrow(table)
    masked = TensorDict.from_arrow(table, nulls="mask")
    assert (masked["tokens"].tolist(), masked["_mask", "tokens"].tolist()) == ([[1], [2, 0]], [[True], [True, False]])

    class Sentence(TensorClass):
        text: Text

    with pytest.raises(ConversionError, match=r"text: expected Text, got .*row 1: expected a string or None, got 5"):
        Sentence.from_pandas(pd.DataFrame({"text": ["a", 5]}))
    with pytest.raises(ConversionError, match=r"text: expected Text, got a column of int64"):
        Sentence.from_arrow(pa.table({"text": [1]}))

    class Tagged(TensorClass):
        tags: Column[list[str]]

    with pytest.raises(ConversionError, match=r"tags: .*row 1: expected list\[str\], got list \[1\]"):
        Tagged.from_pandas(pd.DataFrame({"tags": [["a"], [1]]}))


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


class Objects(TensorClass):
    color: Column[Color]
    path: Column[Path]
    pair: Column[tuple[str, ...]]


@pytest.mark.parametrize("name", ["arrow", "parquet", "feather", "pandas", "polars"])
def test_objects_of_a_column_come_back_in_their_class(name: str) -> None:
    data = Objects(color=[Color.RED, Color.BLUE], path=[Path("a"), Path("b/c")], pair=[("x",), ()])
    back = TRIPS[name](Objects, data)
    assert [back.get(key).tolist() for key in ("color", "path", "pair")] == [
        [Color.RED, Color.BLUE], [Path("a"), Path("b/c")], [("x",), ()]
    ]  # fmt: skip


def test_columns_of_several_batch_dimensions_are_lists() -> None:
    text = Text([["a", None, "c"], ["d", "e", "f"]])
    rows = Ragged([[1], [2, 3], [4], [], [5], [6]]).reshape(2, 3)
    data = TensorDict({"t": text, "r": rows, "h": rows.to(torch.bfloat16)}, [2, 3])
    back = TensorDict.from_arrow(data.to_arrow())
    assert (back.batch_size, back["h"].dtype) == ((2, 3), torch.bfloat16)
    assert {key: back[key].tolist() for key in data.keys()} == {key: data[key].tolist() for key in data.keys()}  # noqa: SIM118


def test_a_schema_says_the_types_of_columns() -> None:
    data = TensorDict({"t": Text(["a", None, "a"]), "r": Ragged([[1], [2, 3], []])}, [3])
    assert [field.type for field in data.to_arrow().schema] == [pa.string(), pa.list_(pa.int64())]
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        lists = pa.large_list(pa.int16())
        table = data.to_arrow(schema=pa.schema({"t": kind, "r": lists}))
        assert [field.type for field in table.schema] == [kind, lists]
        assert table.to_pydict() == {"t": ["a", None, "a"], "r": [[1], [2, 3], []]}
    with pytest.raises(ValueError, match="r: expected a value for a column of string, got ragged rows"):
        data.to_arrow(schema=pa.schema({"t": pa.string(), "r": pa.string()}))


def test_batches_of_a_file_have_columns_of_one_class(tmp_path: Path) -> None:
    rows = {"text": ["a", "b", "c", None], "tokens": [[1, 2], [3, 4], [5], []]}
    pa.parquet.write_table(pa.table(rows), tmp_path / "rows.parquet")
    batches = list(TensorDict.iter_parquet(tmp_path / "rows.parquet", batch_size=2))
    assert [type(batch[key]) for batch in batches for key in ("text", "tokens")] == [Text, Ragged] * 2
    assert [row for batch in batches for row in batch["tokens"].tolist()] == rows["tokens"]
    assert [row for batch in batches for row in batch["text"].tolist()] == rows["text"]


@dataclasses.dataclass
class Plain:
    text: Any
    tokens: Any


class OfPlain(TensorClass):
    text: Text
    tokens: Ragged[Int[Tensor, "n"]]


def test_python_objects_give_and_take_columns() -> None:
    expected = (["a", "b"], [[1, 2], [3]])
    given = Plain(["a", "b"], [[1, 2], [3]])
    data = OfPlain.from_dataclass(given, batch_size=[2])
    made = {
        "dataclass": data,
        "dict": OfPlain.from_dict(vars(given), batch_size=[2]),
        "inferred": OfPlain.from_dict(vars(given), auto_batch_size=True),
        "list": OfPlain.from_list([{"text": "a", "tokens": [1, 2]}, {"text": "b", "tokens": [3]}]),
        "pytree": OfPlain.from_pytree(data.to_pytree(), batch_size=[2]),
        "back": OfPlain.from_dataclass(data.to_dataclass(Plain), batch_size=[2]),
    }
    for name, one in made.items():
        assert (type(one.text), type(one.tokens), one.batch_size) == (Text, Ragged, (2,)), name
        assert (one.text.tolist(), one.tokens.tolist()) == expected, name
    assert data.to_dict(convert_tensors=True) == dict(zip(("text", "tokens"), expected, strict=True))


@pytest.mark.parametrize(
    "factory", [list, lambda: Column([list[str]()], batch_size=())], ids=["object", "column without batch dimensions"]
)
def test_missing_rows_get_a_default_object_of_their_own(factory: Callable[[], Any]) -> None:
    class Tagged(TensorClass):
        tags: Column[list[str]] = dataclasses.field(default_factory=factory)

    table = pa.table({"tags": pa.array([None, ["u"], None], pa.list_(pa.string()))})
    tags = Tagged.from_arrow(table).tags
    assert tags.tolist() == [[], ["u"], []]
    assert tags[0] is not tags[2]
