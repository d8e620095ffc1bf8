"""Columns whose names are not those of the fields: ``field(name=...)`` and ``rename=``, in all tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tensorclass import (
    ConversionError,
    DataLoader,
    Ragged,
    RecordDataset,
    TensorClass,
    TensorDict,
    Text,
    field,
    lazy_stack,
)


class Point(TensorClass):
    lat: Tensor = field(name="latitude")
    lon: Tensor


class Sample(TensorClass):
    part: Text = field(name="split")
    x: Tensor
    at: Point = field(name="where")
    tokens: Ragged[Tensor] | None = field(default=None, name="ids")
    count: int = field(default=3, name="n")


class Older(TensorClass):
    """The same before its fields got names."""

    part: Text
    x: Tensor
    at: TensorDict
    tokens: Ragged[Tensor] | None = None
    count: int = 3


def sample() -> Sample:
    at = Point(torch.tensor([1.0, 2.0]), torch.zeros(2), batch_size=[2])
    return Sample(["a", "b"], torch.arange(2.0), at, count=5, batch_size=[2])


@dataclasses.dataclass(frozen=True)
class Table:
    """How a table is written (to a path, or as an object), read, and which columns it has."""

    write: Callable[[Any, Path], Any]
    read: Callable[..., Any]
    #: nested values are columns of their own
    flat: str | None = None


def _file(name: str, method: str, **options: Any) -> Table:
    def write(data: Any, folder: Path) -> Path:
        getattr(data, f"to_{method}")(folder / name, **options)
        return folder / name

    def read(cls: Any, path: Path, **more: Any) -> Any:
        return getattr(cls, f"from_{method}")(path, **options, **more)

    return Table(write, read, options.get("separator"))


def _batches(name: str, method: str, **options: Any) -> Table:
    def read(cls: Any, path: Path, **more: Any) -> Any:
        return next(iter(getattr(cls, f"iter_{method}")(path, batch_size=2, **options, **more)))

    return Table(_file(name, method, **options).write, read, options.get("separator"))


def _object(method: str, separator: str | None = None, **options: Any) -> Table:
    if separator is not None:
        options["separator"] = separator

    def write(data: Any, folder: Path) -> Any:
        return getattr(data, f"to_{method}")(**options)

    def read(cls: Any, table: Any, **more: Any) -> Any:
        return getattr(cls, f"from_{method}")(table, **options, **more)

    return Table(write, read, separator)


TABLES = {
    "arrow": _object("arrow"),
    "pandas": _object("pandas", "."),
    "polars": _object("polars"),
    "struct array": _object("struct_array"),
    "hugging face": _object("huggingface"),
    "hugging face, batches": Table(
        _object("huggingface").write, lambda cls, table, **more: next(cls.iter_huggingface(table, batch_size=2, **more))
    ),
    "parquet": _file("a.parquet", "parquet"),
    "parquet, flat": _file("a.parquet", "parquet", separator="/"),
    "parquet, batches": _batches("a.parquet", "parquet"),
    "feather": _file("a.feather", "feather"),
    "feather, batches": _batches("a.feather", "feather"),
    "json": _file("a.json", "json"),
    "json lines": _file("a.jsonl", "json"),
    "json lines, flat": _file("a.jsonl", "json", separator="/"),
    "json, batches": _batches("a.json", "json"),
    "csv": _file("a.csv", "csv", separator="/"),
    "csv, batches": _batches("a.csv", "csv", separator="/"),
}


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> Table:
    if "hugging" in request.param:
        pytest.importorskip("datasets")
    return TABLES[request.param]


def same(found: Any) -> bool:
    expected = sample()
    return (
        type(found) is Sample
        and type(found.at) is Point
        and found.part.tolist() == expected.part.tolist()
        and torch.equal(found.x, expected.x)
        and torch.equal(found.at.lat, expected.at.lat)
        and found["count"] in (5, [5, 5])
    )


def test_a_table_has_the_names_of_columns_and_a_record_those_of_its_fields(table: Table, tmp_path: Path) -> None:
    written = table.write(sample(), tmp_path)
    assert same(table.read(Sample, written))
    untyped = table.read(TensorDict, written)
    assert {"split", "x", "where", "n"} <= set(untyped.keys()) <= {"split", "x", "where", "n", "ids"}
    assert list(untyped["where"].keys()) == ["latitude", "lon"]


def test_tables_that_were_written_before_a_field_got_its_name_are_read(table: Table, tmp_path: Path) -> None:
    new = sample()
    old = Older(new.part, new.x, new.at.to_tensordict(), count=5, batch_size=[2])
    assert same(table.read(Sample, table.write(old, tmp_path)))


def test_columns_are_renamed_on_reading(table: Table, tmp_path: Path) -> None:
    given = TensorDict(sample()._store, [2])
    given["at"] = TensorDict(given["at"]._store, [2])
    given.rename_key_("part", "Part of it").rename_key_("x", "y")
    del given["count"]
    written = table.write(given, tmp_path)
    found = table.read(Sample, written, rename={"Part of it": "split", "y": "x"})
    assert found.part.tolist() == ["a", "b"]
    assert found.x.tolist() == [0, 1]
    assert table.read(TensorDict, written, rename={"y": "z"})["z"].tolist() == [0, 1]
    with pytest.raises(ConversionError, match=r"no: expected one of the columns \[.*'Part of it'.*got a name"):
        table.read(TensorDict, written, rename={"no": "x"})
    with pytest.raises(ConversionError, match=r"y: expected one column, got (two, 'Part of it' and 'y'|several)"):
        table.read(TensorDict, written, rename={"Part of it": "y"})
    with pytest.raises(TypeError, match="expected rename to be new names of columns"):
        table.read(TensorDict, written, rename=["y"])


def test_errors_have_both_names(table: Table, tmp_path: Path) -> None:
    new = sample()
    given = TensorDict({"x": new.x, "where": {"latitude": new.at.lat, "lon": new.at.lon}}, [2])
    with pytest.raises(
        ConversionError, match=r"part: expected Text, got nothing: there is no (key|column) 'split' or 'part'"
    ):
        table.read(Sample, table.write(given, tmp_path))
    both = given.copy()
    both["part"] = both["split"] = Text(["a", "b"])
    with pytest.raises(ConversionError, match=r"part: expected one column, got two, '(part|split)' and '(part|split)'"):
        table.read(Sample, table.write(both, tmp_path))
    given["splitt"] = Text(["a", "b"])
    with pytest.raises(ConversionError, match=r"one of the fields 'part' \(stored as 'split'\), 'x'"):
        table.read(Sample, table.write(given, tmp_path))


def test_a_column_of_another_type_is_told_with_both_names() -> None:
    pa = pytest.importorskip("pyarrow")
    table = sample().to_arrow().set_column(2, "where", pa.array([{"latitude": "a", "lon": 1.0}] * 2))
    with pytest.raises(ConversionError, match=r"at.lat \(column 'latitude'\): expected Tensor, got a column") as caught:
        Sample.from_arrow(table)
    assert [problem.column for problem in caught.value.problems] == ["latitude"]


def test_a_separator_that_leads_to_a_field_is_proposed(tmp_path: Path) -> None:
    sample().to_csv(tmp_path / "a.csv", separator="/")
    with pytest.raises(ConversionError, match="separator='/' splits it into the keys of a field"):
        Sample.from_csv(tmp_path / "a.csv")


def test_columns_are_chosen_by_the_names_in_the_table(tmp_path: Path) -> None:
    sample().to_parquet(tmp_path / "a.parquet")
    found = TensorDict.from_parquet(tmp_path / "a.parquet", columns=["split", "x"], rename={"split": "part"})
    assert sorted(found.keys()) == ["part", "x"]
    assert Sample.from_parquet(tmp_path / "a.parquet", columns=["split", "x", "where"]).count == 3


def test_rows_of_a_data_set_are_loaded_by_the_names_of_its_columns() -> None:
    rows = [{"split": "a", "x": 1.0, "where": {"latitude": 1.0, "lon": 2.0}}] * 2
    batch = next(iter(DataLoader(RecordDataset(Sample, rows), batch_size=2)))
    assert (batch.part.tolist(), batch.at.lat.tolist()) == (["a", "a"], [1, 1])


def test_lazy_stacks_have_the_names_of_columns() -> None:
    stacked = lazy_stack([sample()[0], sample()[1]])
    table = stacked.to_arrow()
    assert table.column_names[:3] == ["split", "x", "where"]
    assert same(Sample.from_arrow(table))


def test_types_of_json_follow_the_declaration_under_either_name(tmp_path: Path) -> None:
    class Day(TensorClass):
        when: str = field(name="date")

    for name in ("date", "when", "d"):
        path = tmp_path / f"{name}.jsonl"
        path.write_text('{"%s": "2026-01-02"}\n' % name)  # noqa: UP031
        rename = {"d": "date"} if name == "d" else None
        assert Day.from_json(path, rename=rename).when == "2026-01-02"
