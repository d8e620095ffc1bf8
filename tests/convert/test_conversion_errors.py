"""Invalid input to any converter: one error that lists every offending field, and an unchanged source."""

from __future__ import annotations

import collections
import copy
import dataclasses
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass import ContractError, ConversionError, DType, Shape, TensorClass, TensorDict
from tensorclass.convert.conversion_errors import Problem, Problems
from tests.convert.samples import Inner, values


class Row(TensorClass, stack_objects=True):
    x: Tensor
    label: str


class Bounded(TensorClass, stack_objects=True):
    x: Annotated[Tensor, Shape("3"), DType("float")]
    y: Annotated[Tensor, Shape(""), DType("int")]
    tag: str = ""


class Outer(TensorClass, stack_objects=True):
    row: Row
    more: TensorDict
    note: str = ""


Columns = dict[str, list[Any]]


def of_dataclass(columns: Columns) -> Any:
    return dataclasses.make_dataclass("Source", list(columns))(**columns)


def of_namedtuple(columns: Columns) -> Any:
    return collections.namedtuple("Source", list(columns))(**columns)


def of_rows(columns: Columns) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def of_struct_array(columns: Columns) -> Any:
    arrays = {name: np.array(column) for name, column in columns.items()}
    result = np.empty(2, [(name, array.dtype) for name, array in arrays.items()])
    for name, array in arrays.items():
        result[name] = array
    return result


def of_pandas(columns: Columns) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


def of_arrow(columns: Columns) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


def of_attrs(columns: Columns) -> Any:
    return pytest.importorskip("attrs").make_class("Source", list(columns))(**columns)


def of_pydantic(columns: Columns) -> Any:
    fields: Any = dict.fromkeys(columns, (Any, ...))
    return pytest.importorskip("pydantic").create_model("Source", **fields)(**columns)


def of_polars(columns: Columns) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def of_huggingface(columns: Columns) -> Any:
    return pytest.importorskip("datasets").Dataset.from_dict(columns)


class File(io.BytesIO):
    """A file with its content in its repr."""

    def __repr__(self) -> str:
        return f"File({self.getvalue()!r})"


def of_file(kind: str) -> Callable[[Columns], File]:
    def made(columns: Columns) -> File:
        pytest.importorskip("pyarrow")
        file = File()
        getattr(TensorDict(columns, [2]), f"to_{kind}")(file)
        return File(file.getvalue())

    return made


#: method, its source from columns of two rows, and the prefix of keys in messages
FORMATS: list[tuple[str, Callable[[Columns], Any], str]] = [
    ("from_dict", dict, ""),
    ("from_any", dict, ""),
    ("from_dataclass", of_dataclass, ""),
    ("from_namedtuple", of_namedtuple, ""),
    ("from_list", of_rows, "[0]."),
    ("from_struct_array", of_struct_array, ""),
    ("from_pandas", of_pandas, ""),
    ("from_arrow", of_arrow, ""),
    ("from_attrs", of_attrs, ""),
    ("from_pydantic", of_pydantic, ""),
    ("from_polars", of_polars, ""),
    ("from_huggingface", of_huggingface, ""),
]

#: methods whose source does not give the number of rows
UNSIZED = ("from_dict", "from_any", "from_dataclass", "from_namedtuple", "from_attrs", "from_pydantic")

formats = pytest.mark.parametrize("method, make, front", FORMATS, ids=[name for name, _, _ in FORMATS])


def sized(method: str) -> dict[str, Any]:
    """Return the options that give two rows, for sources that do not."""
    return {"batch_size": [2]} if method in UNSIZED else {}


class Untouched:
    """Check that the block does not change the source."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __enter__(self) -> None:
        self.before = repr(copy.deepcopy(self.source))

    def __exit__(self, *_: object) -> None:
        assert repr(self.source) == self.before


def error_of(method: str, source: Any, cls: Any = Row, **options: Any) -> ConversionError:
    made = None
    with Untouched(source), pytest.raises(ConversionError) as raised:
        made = getattr(cls, method)(source, **options)
    assert made is None
    for kind in (TypeError, ValueError, RuntimeError):  # users catch any of these
        assert isinstance(raised.value, kind)
    return raised.value


@formats
def test_a_key_that_is_missing_is_named_with_what_it_takes(method: str, make: Any, front: str) -> None:
    error = error_of(method, make({"label": ["a", "b"]}))
    assert f"{front}x: expected Tensor, got nothing: there is no such key" in str(error)
    assert str(error).startswith(f"Row.{method}: ")


@formats
def test_a_key_that_is_no_field_is_named_with_the_fields(method: str, make: Any, front: str) -> None:
    error = error_of(method, make({"x": [0.0, 1.0], "label": ["a", "b"], "colour": ["r", "g"]}))
    assert f"{front}colour: expected one of the fields 'x', 'label', got a key that is none of them" in str(error)
    assert "strict=False leaves it out" in str(error)


@formats
def test_a_value_of_another_type_is_named_with_what_came(method: str, make: Any, front: str) -> None:
    options = sized(method)
    error = error_of(method, make({"x": [0.0, 1.0], "label": [1, 2]}), **options)
    assert f"{front}label: expected str, got " in str(error)
    error = error_of(method, make({"x": ["u", "v"], "label": ["a", "b"]}), **options)
    assert f"{front}x: expected Tensor, got " in str(error)


@formats
def test_several_problems_are_one_error_that_lists_all_of_them(method: str, make: Any, front: str) -> None:
    error = error_of(method, make({"label": [1.5, 2.5], "colour": ["r", "g"], "size": [1, 2]}))
    own = [problem for problem in error.problems if not front or problem.path[0] == "[0]"]
    assert sorted(problem.path[-1] for problem in own) == ["colour", "label", "size", "x"]
    assert f"Row.{method}: {len(error.problems)} problems; nothing was made" in str(error)


@formats
def test_strict_false_leaves_out_what_is_no_field_and_warns_once(method: str, make: Any, front: str) -> None:
    source = make({"x": [0.0, 1.0], "label": ["a", "b"], "colour": ["r", "g"], "size": [1, 2]})
    with Untouched(source), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        record = getattr(Row, method)(source, strict=False, **sized(method))
    assert (type(record), record.batch_size, record[1].label) == (Row, (2,), "b")
    assert [str(one.message) for one in caught] == [f"Row.{method}: left out what is no field: 'colour', 'size'"]
    assert (caught[0].category, caught[0].filename) == (UserWarning, __file__)


@formats
def test_strict_false_still_wants_what_is_missing_and_warns_of_nothing_then(method: str, make: Any, front: str) -> None:
    error = error_of(method, make({"label": ["a", "b"], "colour": ["r", "g"]}), strict=False, **sized(method))
    assert {problem.path[-1] for problem in error.problems} == {"x"}


@formats
def test_a_tensordict_takes_every_key_whatever_strict_says(method: str, make: Any, front: str) -> None:
    data = getattr(TensorDict, method)(make({"x": [0.0, 1.0], "colour": ["r", "g"]}), strict=False)
    assert set(data.keys()) == {"x", "colour"}


@pytest.mark.parametrize(
    "method, bad",
    [
        ("from_dict", 1),
        ("from_any", 1),
        ("from_dataclass", {"x": 1}),
        ("from_namedtuple", {"x": 1}),
        ("from_tuple", {"x": 1}),
        ("from_list", {"x": 1}),
        ("from_pytree", 1),
        ("from_struct_array", {"x": 1}),
        ("from_pandas", {"x": 1}),
        ("from_arrow", 1),
        ("from_attrs", {"x": 1}),
        ("from_pydantic", {"x": 1}),
        ("from_polars", {"x": 1}),
        ("from_huggingface", {"x": 1}),
        ("from_csv", {"x": 1}),
        ("from_json", 1),
        ("from_parquet", 1),
        ("from_feather", 1),
    ],
    ids=str,
)
def test_an_object_of_another_kind_is_a_type_error_that_says_what_is_expected(method: str, bad: Any) -> None:
    with Untouched(bad), pytest.raises(TypeError, match=rf"{method}.*: expected"):
        getattr(Row, method)(bad)


# -- files: which columns there are is looked at before any of them is read -------------------------------------------

files = pytest.mark.parametrize("kind", ["csv", "json", "parquet", "feather"])


@files
def test_columns_of_a_file_that_are_missing_or_no_fields_are_one_error(kind: str) -> None:
    error = error_of(f"from_{kind}", of_file(kind)({"colour": ["r", "g"], "size": [1, 2]}))
    assert sorted(problem.path[-1] for problem in error.problems) == ["colour", "label", "size", "x"]
    assert f"Row.from_{kind}: " in str(error)
    assert "<File>" in str(error)
    assert "4 problems; nothing was made" in str(error)
    assert "x: expected Tensor, got nothing: there is no such " in str(error)
    assert "colour: expected one of the fields 'x', 'label', got a " in str(error)


@files
def test_values_of_another_type_in_a_file_are_named(kind: str) -> None:
    error = error_of(f"from_{kind}", of_file(kind)({"x": ["u", "v"], "label": ["a", "b"]}))
    assert [problem.path for problem in error.problems] == [("x",)]
    assert "x: expected " in str(error)
    if kind != "csv":  # all is text there
        error = error_of(f"from_{kind}", of_file(kind)({"x": [0.0, 1.0], "label": [1, 2]}))
        assert [problem.path for problem in error.problems] == [("label",)]


@files
def test_strict_false_leaves_out_columns_of_a_file_and_warns_once(kind: str) -> None:
    source = of_file(kind)({"x": [0.0, 1.0], "label": ["a", "b"], "colour": ["r", "g"], "size": [1, 2]})
    with Untouched(source), pytest.warns(UserWarning, match="left out") as caught:
        record = getattr(Row, f"from_{kind}")(source, strict=False)
    assert (type(record), record.batch_size, record[1].label) == (Row, (2,), "b")
    said = f"Row.from_{kind}: <File>: left out what is no field: 'colour', 'size'"
    assert [(str(one.message), one.filename) for one in caught] == [(said, __file__)]
    data = getattr(TensorDict, f"from_{kind}")(File(source.getvalue()))
    assert set(data.keys()) == {"x", "label", "colour", "size"}


# -- shapes and dtypes ------------------------------------------------------------------------------------------------


def test_values_without_the_batch_size_are_all_named() -> None:
    source = {"a": values(3), "n": {"b": values(2), "c": values(4)}, "d": [1, 2, 3]}
    error = error_of("from_dict", source, TensorDict, batch_size=[2])
    assert [problem.path for problem in error.problems] == [("a",), ("n", "c"), ("d",)]
    assert "n.c: expected batch dimensions [2] in front, got shape [4]; give batch_size=" in str(error)


def test_broken_contracts_alone_are_a_contract_error() -> None:
    source = {"x": values(2, 4), "y": values(2)}
    with Untouched(source), pytest.raises(ContractError) as raised:
        Bounded.from_dict(source, batch_size=[2])
    assert [broken.path for broken in raised.value.broken] == [("x",), ("y",)]


def test_broken_contracts_are_listed_with_what_else_is_wrong() -> None:
    source = {"x": values(2, 4), "y": values(2), "tag": 3, "colour": 1}
    error = error_of("from_dict", source, Bounded, batch_size=[2])
    assert {problem.path for problem in error.problems} == {("x",), ("y",), ("tag",), ("colour",)}
    assert "the dtype float32 is not int" in str(error)


def test_contracts_that_rows_of_a_list_break_are_one_error() -> None:
    rows = [{"x": values(3), "y": torch.tensor(1)}, {"x": values(2), "y": torch.tensor(1)}, {"x": values(3), "y": 1.5}]
    with Untouched(rows), pytest.raises(ContractError) as raised:
        Bounded.from_list(rows, batch_size=[3])
    assert [broken.path for broken in raised.value.broken] == [("[1]", "x"), ("[2]", "y")]


def test_a_dtype_that_torch_lacks_is_named_beside_other_problems() -> None:
    array = np.zeros(2, [("x", np.longdouble), ("colour", "i4")])
    error = error_of("from_struct_array", array)
    assert [problem.path for problem in error.problems] == [("x",), ("label",), ("colour",)]
    assert "x: expected a dtype that torch has, got float128" in str(error)


def test_ragged_rows_are_an_error_where_a_rectangle_is_wanted() -> None:
    rows = [{"a": values(3)}, {"a": values(4)}]
    with Untouched(rows), pytest.raises(RuntimeError, match="a"):
        TensorDict.from_list(rows, lazy=False)


# -- nested records ---------------------------------------------------------------------------------------------------


def test_problems_below_nested_records_have_their_path() -> None:
    source = {"row": {"x": "text", "colour": 1}, "more": (1, 2), "note": 7}
    error = error_of("from_dict", source, Outer)
    paths = [problem.path for problem in error.problems]
    assert paths == [("row", "x"), ("row", "label"), ("row", "colour"), ("note",)]
    assert "row.x: expected Tensor, got str 'text'" in str(error)


def test_strict_false_holds_at_every_level() -> None:
    source = {"row": {"x": 1.0, "label": "a", "colour": 1}, "more": {"any": 1}, "size": 2}
    with (
        Untouched(source),
        pytest.warns(UserWarning, match=r"from_dict: left out what is no field: 'row\.colour', 'siz"),
    ):
        record = Outer.from_dict(source, strict=False)
    assert (record.row.label, record.more["any"]) == ("a", 1)


def test_strict_false_takes_a_collection_for_a_nested_record() -> None:
    data = TensorDict({"row": TensorDict({"x": values(2), "label": "a", "colour": "r"}, [2]), "more": {}}, [2])
    with pytest.warns(UserWarning, match=r"'row\.colour'"):
        record = Outer.from_any(data, strict=False)
    assert (type(record.row), record.row.x is data["row", "x"], "colour" in data["row"].keys()) == (Row, True, True)  # noqa: SIM118


def test_rows_below_a_record_have_their_path() -> None:
    class Table(TensorClass):
        rows: Row

    source = {"rows": [{"x": 1.0, "label": "a"}, {"x": 2.0, "label": 3}, {"x": 1.0}]}
    error = error_of("from_dict", source, Table)
    assert [problem.path for problem in error.problems] == [("rows", "[1]", "label"), ("rows", "[2]", "label")]


def test_from_dict_instance_names_records_below_a_collection() -> None:
    like = TensorDict({"r": Inner(values(3))})
    with pytest.raises(ConversionError, match=r"TensorDict\.from_dict_instance: r\.x: expected Tensor, got nothing"):
        like.from_dict_instance({"r": {"tag": "a"}})


# -- the error --------------------------------------------------------------------------------------------------------


def test_an_error_of_the_class_itself_stays_what_it_is() -> None:
    class Checked(TensorClass):
        x: Tensor

        def __post_init__(self) -> None:
            raise ValueError("never good")

    with pytest.raises(ValueError, match=r"^never good$") as raised:
        Checked.from_dict({"x": 1.0})
    assert not isinstance(raised.value, ConversionError)


def test_the_error_can_be_pickled() -> None:
    error = error_of("from_dict", {"label": 1})
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.problems) == (tc.ConversionError, str(error), error.problems)


def test_a_long_list_is_cut_in_the_message_and_whole_in_the_error() -> None:
    error = error_of("from_list", [{"x": 1.0}] * 30)
    assert len(error.problems) == 30
    assert "... and 10 more" in str(error)


def test_problems_cover_what_they_are_about() -> None:
    problems = Problems("what")
    problems.add(("a", "b"), "this", "that", "do so")
    assert (problems.covers(("a", "b")), problems.covers(("a",)), problems.covers(("b",))) == (True, True, False)
    assert str(problems.found[0]) == "a.b: expected this, got that; do so"
    assert problems.found == [Problem(("a", "b"), "this", "that", "do so")]


@pytest.mark.parametrize(
    "method, source, named",
    [
        ("from_pandas", lambda: of_arrow({"x": [1]}), "got a pyarrow.Table, which from_arrow takes"),
        ("from_arrow", lambda: "rows.parquet", "got a str; files are read by from_parquet, from_csv"),
        ("from_polars", lambda: of_pandas({"x": [1]}), "got a pandas.DataFrame, which from_pandas takes"),
        ("from_huggingface", lambda: [{"x": 1}], "got a list, which from_list takes"),
        ("from_dict", lambda: of_pandas({"x": [1]}), "got a pandas.DataFrame, which from_pandas takes"),
        ("from_any", lambda: "rows.csv", "got a str; files are read by from_parquet, from_csv"),
    ],
)
def test_an_object_for_another_converter_is_told_which(method: str, source: Callable[[], Any], named: str) -> None:
    with pytest.raises(TypeError) as info:
        getattr(Row, method)(source())
    assert named in str(info.value)


# -- no rows ----------------------------------------------------------------------------------------------------------


class Wide(TensorClass, stack_objects=True):
    v: Tensor
    s: str
    o: list | None = None


@pytest.mark.parametrize("kind", ["arrow", "struct_array", "parquet", "feather", "huggingface", "polars", "dict"])
def test_a_record_without_rows_comes_back(kind: str, tmp_path: Any) -> None:
    data = Wide(torch.zeros(0, 3, dtype=torch.int32), [], batch_size=[0])
    if kind in ("parquet", "feather"):
        getattr(data, f"to_{kind}")(tmp_path / "none")
        back = getattr(Wide, f"from_{kind}")(tmp_path / "none")
    else:
        options: dict[str, Any] = {"batch_size": [0]} if kind == "dict" else {}
        back = getattr(Wide, f"from_{kind}")(getattr(data, f"to_{kind}")(), **options)
    assert back.batch_size == (0,)
    assert (back.v.shape, back.v.dtype) == ((0, 3), torch.int32)
    assert torch.cat([back, Wide(torch.ones(1, 3, dtype=torch.int32), ["a"], batch_size=[1])])[0].s == "a"
