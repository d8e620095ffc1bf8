"""Properties of single file formats: types, names, locations of mistakes, files of other libraries."""

from __future__ import annotations

import datetime
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from jaxtyping import Bool, Float, Float16, Int, Int32, UInt8
from torch import Tensor

from tensorclass import Column, ConversionError, NonTensorData, TensorClass, TensorDict, Text
from tests.convert.sides import both


def csv(text: str) -> io.BytesIO:
    return io.BytesIO(text.encode())


class Typed(TensorClass, stack_objects=True):
    label: Int[Tensor, ""]
    name: str
    score: Float[Tensor, ""]


# -- CSV --------------------------------------------------------------------------------------------------------------


def test_fields_say_how_text_is_read() -> None:
    class Sample(TensorClass, stack_objects=True):
        byte: UInt8[Tensor, ""]
        small: Float16[Tensor, ""]
        score: Float[Tensor, ""]
        name: str
        day: str
        flag: bool
        count: int

    data = Sample.from_csv(csv("byte,small,score,name,day,flag,count\n1,1.5,2,007,2020-01-01,true,3\n"))
    assert (data.byte.dtype, data.small.dtype, data.score.dtype) == (torch.uint8, torch.float16, torch.float64)
    assert (data[0].name, data[0].day, data[0].flag, data[0].count) == ("007", "2020-01-01", True, 3)


def test_columns_without_a_type_are_what_their_cells_are() -> None:
    data = TensorDict.from_csv(csv("a,b,c,day,t\n1,1.5,true,2020-01-01,x\n2,nan,false,2021-01-01,\n"))
    assert (data["a"].dtype, data["b"].dtype, data["c"].dtype) == (torch.int64, torch.float64, torch.bool)
    assert data["day"].tolist() == ["2020-01-01", "2021-01-01"]
    assert data["t"].tolist() == ["x", None]


def test_dates_behind_the_first_rows_are_text_too() -> None:
    lines = "a,b\n" + ",x\n" * 1000 + "2020-01-01,x\n"
    data = TensorDict.from_csv(csv(lines), block_size=100, nulls="fill")
    assert data["a"][-1] == "2020-01-01"


def test_an_empty_cell_is_a_null() -> None:
    class Sample(TensorClass, stack_objects=True):
        a: Tensor = torch.tensor(7)
        t: str | None = None

    data = Sample.from_csv(csv('a,t\n1,\n,""\n'))
    assert data.a.tolist() == [1, 7]
    assert data.t == [None, ""]
    with pytest.raises(ConversionError, match="a: expected"):
        TensorDict.from_csv(csv("a,b\n1,2\n,3\n"))
    assert TensorDict.from_csv(csv("a,b\n1,2\n,3\n"), nulls="fill")["a"].tolist() == [1, 0]


def test_names_of_pandas_lead_to_ours() -> None:
    with pytest.raises(TypeError, match="for sep use delimiter"):
        TensorDict.from_csv(csv("a;b\n1;2\n"), sep=";")
    assert TensorDict.from_csv(csv("a;b\n1;2\n"), delimiter=";")["b"].tolist() == [2]


def test_cells_that_do_not_fit_are_listed_with_their_lines(tmp_path: Path) -> None:
    lines = ["label,name,score", *[f"{i},n,0.5" for i in range(1000)], "x,n,1", "3,n,y", "z,n,1"]
    (tmp_path / "bad.csv").write_text("\n".join(lines) + "\n")
    for call in (Typed.from_csv, lambda path: list(Typed.iter_csv(path, batch_size=100))):
        with pytest.raises(ConversionError, match=r"bad\.csv") as caught:
            call(tmp_path / "bad.csv")
        found = {problem.path: problem.got for problem in caught.value.problems}
        assert "'x' in line 1002" in found[("label",)]
        assert "'y' in line 1003" in found[("score",)]


def test_a_line_with_too_many_cells_is_named(tmp_path: Path) -> None:
    (tmp_path / "ragged.csv").write_text('a,b\n1,2\n"x\ny",3\n4,5,6\n')
    with pytest.raises(ValueError, match=r"ragged\.csv: line 5: expected 2 cells, got 3"):
        TensorDict.from_csv(tmp_path / "ragged.csv")


def test_a_number_of_another_kind_behind_the_first_rows_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n" + "1\n" * 1000 + "2.5\n")
    assert TensorDict.from_csv(tmp_path / "a.csv")["a"].dtype == torch.float64
    with pytest.raises(ConversionError, match=r"'2.5' in line 1002.*column_types"):
        list(TensorDict.iter_csv(tmp_path / "a.csv", batch_size=10, block_size=64))


def test_all_values_that_a_cell_cannot_hold_are_listed(tmp_path: Path) -> None:
    data = TensorDict({"v": torch.zeros(2, 3), "n": {"x": torch.zeros(2)}, "ok": torch.zeros(2)}, [2])
    with pytest.raises(ConversionError) as caught:
        data.to_csv(tmp_path / "x.csv")
    assert [problem.path for problem in caught.value.problems] == [("v",), ("n",)]
    assert os.listdir(tmp_path) == []


def test_a_column_that_must_be_split_is_told_so() -> None:
    class Outer(TensorClass):
        n: Typed

    with pytest.raises(ConversionError, match=r"separator='\.' splits it"):
        Outer.from_csv(csv("n.label,n.name,n.score\n1,a,2\n"))


# -- JSON -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [True, False])
def test_objects_are_collections_and_lists_dimensions(lines: bool) -> None:
    text = '{"n": {"b": [[1, 2], [3, 4]]}, "day": "2020-01-01"}'
    data = TensorDict.from_json(csv(text if lines else f"[{text}]"), lines=lines)
    assert data["n", "b"].shape == (1, 2, 2)
    assert data[0]["day"] == "2020-01-01"


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.ndjson", "rows.jsonl.gz"])
def test_the_name_of_a_file_says_that_it_has_a_row_in_each_line(name: str, tmp_path: Path) -> None:
    data = TensorDict({"a": torch.tensor([1, 2])}, [2])
    data.to_json(tmp_path / name)
    for options in ({}, {"lines": True}):
        assert TensorDict.from_json(tmp_path / name, **options)["a"].tolist() == [1, 2]
    (batch,) = TensorDict.iter_json(str(tmp_path / name), batch_size=5)
    assert batch["a"].tolist() == [1, 2]
    with open(tmp_path / name, "rb") as file:  # by the name of an open file, too; it is compressed as it is
        if not name.endswith("gz"):
            assert TensorDict.from_json(file)["a"].tolist() == [1, 2]
    data.to_json(tmp_path / name, lines=False)
    assert TensorDict.from_json(tmp_path / name, lines=False)["a"].tolist() == [1, 2]


def test_names_that_say_both_are_an_error(tmp_path: Path) -> None:
    data = TensorDict({"a": torch.tensor([1, 2])}, [2])
    paths = [tmp_path / "a.json", tmp_path / "b.jsonl"]
    for path in paths:
        data.to_json(path)
    with pytest.raises(ValueError, match=r"all have a row in each line, or none, .*b\.jsonl.*; say lines="):
        TensorDict.from_json(paths)


class Dated(TensorClass, stack_objects=True):
    when: datetime.datetime
    day: datetime.date
    halves: Float16[Tensor, "2"] | None = None


@pytest.mark.parametrize("lines", [True, False])
def test_fields_of_dates_and_times_are_written_as_text_and_come_back(lines: bool, tmp_path: Path) -> None:
    days = [datetime.date(2020, 1, 1), datetime.date(1969, 12, 31)]
    for zone in (None, datetime.timezone(datetime.timedelta(hours=2))):
        times = [datetime.datetime(2020, 1, 1, 3, 4, 5, 6, zone), datetime.datetime(1900, 1, 2, tzinfo=zone)]
        data = Dated(times, days, torch.ones(2, 2, dtype=torch.float16), batch_size=[2])
        data.to_json(tmp_path / "d", lines=lines)
        (batch,) = Dated.iter_json(tmp_path / "d", batch_size=5, lines=lines)
        for back in (Dated.from_json(tmp_path / "d", lines=lines), batch):
            assert (list(back.when), list(back.day)) == (times, days)
            assert back.get("halves").dtype == torch.float16
    with pytest.raises(ConversionError, match=r"x: expected what JSON has: .* got complex"):
        TensorDict(x=NonTensorData(1j, [1]), batch_size=[1]).to_json(tmp_path / "d")


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("when", ['"noon"', "12345"])
def test_what_is_no_time_is_named(lines: bool, when: str) -> None:
    row = f'{{"when": {when}, "day": "2020-01-01"}}'
    with pytest.raises(
        ConversionError, match=r"when: expected timestamp\[us\], got \w+ '?(noon|12345)'? in (line 1|row 0)"
    ):
        Dated.from_json(csv(row if lines else f"[{row}]"), lines=lines)


def test_whole_numbers_above_those_with_a_sign_keep_their_value() -> None:
    assert TensorDict.from_json(csv(f'[{{"a": {2**64 - 1}}}]'))["a"].tolist() == [2**64 - 1]


def test_times_with_a_zone_come_back_from_csv(tmp_path: Path) -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    data = Dated([datetime.datetime(2020, 1, 1, 3, tzinfo=zone)], [datetime.date(2020, 1, 1)], batch_size=[1])
    data.to_csv(tmp_path / "d")
    (batch,) = Dated.iter_csv(tmp_path / "d", batch_size=5)
    assert list(Dated.from_csv(tmp_path / "d").when) == list(batch.when) == list(data.when)


def test_columns_as_pandas_writes_them_are_read() -> None:
    for text in ('{"a": [1, 2]}', '{"a": {"0": 1, "1": 2}}'):
        assert TensorDict.from_json(csv(text))["a"].tolist() == [1, 2]


@pytest.mark.parametrize("lines", [True, False])
def test_broken_json_is_named_with_line_and_column(lines: bool, tmp_path: Path) -> None:
    rows = ['{"a": 1}'] * 999 + ['{"a": oops}'] + ['{"a": 1}'] * 5
    (tmp_path / "bad").write_text("\n".join(rows) if lines else "[" + ",\n".join(rows) + "]")
    for call in (
        TensorDict.from_json,
        lambda path, lines: list(TensorDict.iter_json(path, lines=lines, batch_size=10)),
    ):
        with pytest.raises(ValueError, match=r"bad: line 1000, column 7"):
            call(tmp_path / "bad", lines=lines)


@pytest.mark.parametrize("lines", [True, False])
def test_values_of_a_wrong_type_are_listed_with_their_places(lines: bool, tmp_path: Path) -> None:
    rows = ['{"label": 1, "name": "a", "score": 1}'] * 10 + ['{"label": "x", "name": 3, "score": 1}']
    (tmp_path / "bad").write_text("\n".join(rows) if lines else "[" + ",\n".join(rows) + "]")
    with pytest.raises(ConversionError) as caught:
        Typed.from_json(tmp_path / "bad", lines=lines)
    assert {problem.path for problem in caught.value.problems} == {("label",), ("name",)}
    assert all(f"{11 if lines else 10} of " in problem.got for problem in caught.value.problems)


def test_all_values_that_json_does_not_have_are_listed() -> None:
    data = TensorDict({"a": torch.zeros(1), "o": [{1, 2}], "n": {"p": [object()]}}, [1])
    with pytest.raises(ConversionError) as caught:
        data.to_json(io.BytesIO())
    assert {problem.path for problem in caught.value.problems} == {("o",), ("n", "p")}


# -- Parquet ----------------------------------------------------------------------------------------------------------


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    data = TensorDict({"a": torch.zeros(2), "n": {"x": torch.zeros(2), "y": torch.ones(2)}}, [2])
    for kind in ("parquet", "feather"):
        getattr(data, f"to_{kind}")(tmp_path / kind)
        read: Any = getattr(TensorDict, f"from_{kind}")
        assert list(read(tmp_path / kind, columns=["a"]).keys()) == ["a"]
        assert list(read(tmp_path / kind, columns=["n.y"]).keys(True, True)) == [("n", "y")]
        with pytest.raises(ConversionError, match="q: expected one of the columns 'a', 'n'"):
            read(tmp_path / kind, columns=["q"])


def test_a_folder_of_parts_is_one_table_with_what_its_names_say(tmp_path: Path) -> None:
    table = pa.table({"year": [2020, 2020, 2021], "x": [1, 2, 3]})
    pq.write_to_dataset(table, tmp_path, partition_cols=["year"])
    data = TensorDict.from_parquet(tmp_path)
    assert data["x"].tolist() == [1, 2, 3]
    assert data["year"].tolist() == [2020, 2020, 2021]


def test_what_was_written_comes_back_with_shapes_and_dtypes(tmp_path: Path) -> None:
    data = TensorDict(
        {"v": torch.rand(3, 2, 4), "b": torch.tensor([True, False, True]), "h": torch.rand(3).half(),
         "u": torch.arange(3, dtype=torch.uint8), "t": ["a", "b", "c"], "n": {"w": torch.rand(3, 1)}},
        [3],
    )  # fmt: skip
    for kind in ("parquet", "feather"):
        getattr(data, f"to_{kind}")(tmp_path / kind)
        back = getattr(TensorDict, f"from_{kind}")(tmp_path / kind)
        assert bool((back == data).all())
        assert [back[key].dtype for key in "vbhu"] == [data[key].dtype for key in "vbhu"]
    two = TensorDict({"a": torch.rand(2, 3, 4)}, [2, 3])
    two.to_parquet(tmp_path / "two")
    assert TensorDict.from_parquet(tmp_path / "two").batch_size == torch.Size([2, 3])


def test_files_of_other_libraries_are_read(tmp_path: Path) -> None:
    frame = pd.DataFrame({"label": [1, 2], "name": ["a", "b"], "score": [0.5, 1.5]})
    polars = pl.from_pandas(frame)
    frame.to_parquet(tmp_path / "pandas.parquet")
    polars.write_parquet(tmp_path / "polars.parquet")
    frame.to_feather(tmp_path / "pandas.feather")
    polars.write_ipc(tmp_path / "polars.feather")
    polars.write_ipc_stream(tmp_path / "stream.feather")
    frame.to_csv(tmp_path / "pandas.csv", index=False)
    polars.write_csv(tmp_path / "polars.csv")
    frame.to_json(tmp_path / "pandas.json", orient="records")
    frame.to_json(tmp_path / "columns.json")
    polars.write_json(tmp_path / "polars.json")
    for path in sorted(tmp_path.iterdir()):
        data = getattr(Typed, f"from_{path.suffix[1:]}")(path)
        assert (data.label.tolist(), data.name, data.score.tolist()) == ([1, 2], ["a", "b"], [0.5, 1.5]), path
    frame.to_json(tmp_path / "lines", orient="records", lines=True)
    assert Typed.from_json(tmp_path / "lines", lines=True).name == ["a", "b"]


# -- Feather ----------------------------------------------------------------------------------------------------------


def test_a_mapped_file_is_not_copied_and_cannot_be_changed(tmp_path: Path) -> None:
    path = tmp_path / "big.feather"
    TensorDict({"x": torch.zeros(4_000_000)}, [4_000_000]).to_feather(path)
    data = TensorDict.from_feather(path)
    if os.path.exists("/proc/self/maps"):
        maps = [line for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line]
        spans = [tuple(int(end, 16) for end in line.split()[0].split("-")) for line in maps]
        assert any(low <= data["x"].data_ptr() < high for low, high in spans), "in memory that the file is mapped to"
    data["x"].fill_(1)
    assert float(data["x"].sum()) == 4_000_000
    assert float(TensorDict.from_feather(path)["x"].sum()) == 0
    assert torch.equal(TensorDict.from_feather(path, memory_map=False)["x"], torch.zeros(4_000_000))


# -- as the peer ------------------------------------------------------------------------------------------------------


@pytest.mark.parity
@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
@pytest.mark.parametrize(
    "options",
    [{}, {"separator": "."}, {"dtype": torch.float32}, {"batch_size": []}, {"auto_batch_size": True}],
    ids=str,
)
def test_the_options_do_what_they_do_in_the_peer(kind: str, options: dict[str, Any], tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "n.b": [0.5, np.pi], "flag": [True, False]})
    if kind == "parquet":
        frame.to_parquet(tmp_path / "f")
    elif kind == "csv":
        frame.to_csv(tmp_path / "f", index=False)
    else:
        frame.to_json(tmp_path / "f", orient="records")
    ours, peers = both(lambda m: getattr(m.TensorDict, f"from_{kind}")(str(tmp_path / "f"), **options))
    assert ours == peers


def test_integers_that_only_uint64_has_are_read_from_csv_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"a,b,c\n1,1.5,7\n{2**63 + 1},{2**63 + 1},1e30\n{2**64 - 1},2,3\n")
    data = TensorDict.from_csv(path)
    assert data["a"].dtype == torch.uint64
    assert data["a"].tolist() == [1, 2**63 + 1, 2**64 - 1]
    assert data["b"].dtype == data["c"].dtype == torch.float64
    assert TensorDict.from_csv(path, dtype=torch.float64)["a"].dtype == torch.float64
    for outside in (-1, 2**64):
        path.write_text(f"a\n{2**63}\n{outside}\n")
        with pytest.raises(ConversionError, match=r"(?s)a.*0 to 2\*\*64 - 1.*column_types"):
            TensorDict.from_csv(path)


def test_integers_that_only_uint64_has_are_read_from_lines_of_json_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"a": 1, "b": 1.5, "t": "x"}}\n{{"a": {2**63 + 1}, "b": {2**63 + 1}, "t": "2020-01-01"}}\n')
    data = TensorDict.from_json(path)
    assert data["a"].dtype == torch.uint64
    assert data["a"].tolist() == [1, 2**63 + 1]
    assert data["b"].dtype == torch.float64
    for outside in (-1, 2**64):
        path.write_text(f'{{"a": {2**63}}}\n{{"a": {outside}}}\n')
        with pytest.raises(ConversionError, match=r"(?s)a.*0 to 2\*\*64 - 1.*explicit_schema"):
            TensorDict.from_json(path)


class Answer(TensorClass):
    text: Text
    score: Tensor
    note: Text | None = None
    tags: Column[list[str]] | None = None


class Answered(TensorClass):
    answer: Answer | None = None


@pytest.mark.parametrize("lines", [False, True], ids=["array", "lines"])
def test_fields_of_nested_records_are_read_whose_type_is_not_declared(lines: bool) -> None:
    rows = [
        '{"answer": {"text": "a", "score": 1.5, "tags": []}}',
        '{"answer": {"text": "b", "score": 2, "tags": ["u"], "note": "n"}}',
    ]
    text = "\n".join(rows) if lines else f"[{','.join(rows)}]"
    answer = Answered.from_json(io.BytesIO(text.encode()), lines=lines).answer
    assert answer is not None
    assert answer.note is not None
    assert (answer.text.tolist(), answer.score.tolist(), answer.note.tolist()) == (["a", "b"], [1.5, 2.0], [None, "n"])


def test_a_nested_record_is_not_reported_for_what_is_wrong_below() -> None:
    with pytest.raises(ConversionError) as caught:
        Answered.from_json(io.BytesIO(b'[{"answer": null}, {"answer": {"text": "b", "score": 1}}]'))
    assert {problem.path for problem in caught.value.problems} == {("answer", "text"), ("answer", "score")}


@pytest.mark.parametrize("lines", [False, True], ids=["array", "lines"])
def test_text_that_is_not_unicode_is_located_in_the_file(lines: bool) -> None:
    class Sample(TensorClass):
        text: Text

    rows = [b'{"text": "a"}', rb'{"text": "\ud800"}']
    content = b"\n".join(rows) if lines else b"[" + b",".join(rows) + b"]"
    with pytest.raises(ConversionError, match=r"text: expected string, got str .* in (line 2|row 1) of"):
        Sample.from_json(io.BytesIO(content), lines=lines)
    if not lines:
        with pytest.raises(ValueError, match=r"TensorDict.from_json: <BytesIO>: .* surrogates not allowed"):
            TensorDict.from_json(io.BytesIO(content))


# --- text that is a time ---------------------------------------------------------------------------------------------


class Timed(TensorClass):
    exact: Int[Tensor, ""]
    free: Tensor
    seen: Column[datetime.datetime]
    maybe: Column[datetime.datetime | None] | None = None
    text: Text = ""


class Outer(TensorClass):
    timed: Timed


ZONES = {"": None, "Z": datetime.timezone.utc, "+02:00": datetime.timezone(datetime.timedelta(hours=2))}


def moment(row: int, zone: str) -> datetime.datetime:
    return datetime.datetime(2026, 1, 1 + row, 3, 4, 5, 250_000 * row, ZONES[zone])


def sources_of_times(zone: str) -> dict[str, Any]:
    """Readers of the same times: from text, and from tables whose columns are times."""
    times = [moment(row, zone) for row in range(2)]
    texts = [time.isoformat() if zone != "Z" else time.isoformat().replace("+00:00", "Z") for time in times]
    names = ("exact", "free", "seen", "maybe")
    rows = [dict.fromkeys(names, text) | {"text": text} for text in texts]
    table = pa.table({name: pa.array(times, pa.timestamp("us", "UTC" if zone else None)) for name in names})
    columns = json.dumps({name: [row[name] for row in rows] for name in rows[0]})
    lines = "\n".join(map(json.dumps, rows))
    cells = "\n".join([",".join(rows[0]), *[",".join(row.values()) for row in rows]])
    parquet = io.BytesIO()
    pq.write_table(table, parquet)
    parquet.seek(0)
    return {
        "csv": lambda: Timed.from_csv(csv(cells)),
        "iter_csv": lambda: torch.cat([*Timed.iter_csv(csv(cells), batch_size=1)]),
        "lines": lambda: Timed.from_json(csv(lines), lines=True),
        "iter_json": lambda: torch.cat([*Timed.iter_json(csv(lines), batch_size=1, lines=True)]),
        "array": lambda: Timed.from_json(csv(json.dumps(rows)), lines=False),
        "columns": lambda: Timed.from_json(csv(columns), lines=False),
        "nested lines": lambda: (
            Outer.from_json(csv("\n".join(json.dumps({"timed": row}) for row in rows)), lines=True).timed
        ),
        "arrow": lambda: Timed.from_arrow(table),
        "parquet": lambda: Timed.from_parquet(parquet),
        "pandas": lambda: Timed.from_pandas(table.to_pandas()),
    }


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("source", sources_of_times(""))
def test_times_are_the_same_from_text_and_from_tables(source: str, zone: str) -> None:
    times = [moment(row, zone) for row in range(2)]
    rows = sources_of_times(zone)[source]()
    utc = [time if time.tzinfo else time.replace(tzinfo=datetime.timezone.utc) for time in times]
    nanoseconds = [round(time.timestamp() * 1_000_000) * 1_000 for time in utc]
    assert rows.exact.tolist() == rows.free.tolist() == nanoseconds
    assert rows.seen.tolist() == rows.maybe.tolist() == times
    if source not in ("arrow", "parquet", "pandas"):
        assert rows.text[0].startswith("2026-01-01T03:04:05")


def test_dates_and_times_of_the_day_are_read_too() -> None:
    class Day(TensorClass):
        day: Int[Tensor, ""]
        date: Column[datetime.date]
        clock: Int[Tensor, ""]
        time: Column[datetime.time]

    cells = "day,date,clock,time\n2026-01-02,2026-01-02,00:00:01,12:30:00"
    row = {"day": "2026-01-02", "date": "2026-01-02", "clock": "00:00:01", "time": "12:30:00"}
    for rows in (Day.from_csv(csv(cells)), Day.from_json(csv(json.dumps(row)), lines=True)):
        assert rows.day.tolist() == [1767312000 * 10**9]
        assert rows.clock.tolist() == [10**9]
        assert (rows.date[0], rows.time[0]) == (datetime.date(2026, 1, 2), datetime.time(12, 30))


def test_text_stays_text_where_no_time_is_declared() -> None:
    assert TensorDict.from_csv(csv("a\n2026-01-01T00:00:00Z"))["a"].tolist() == ["2026-01-01T00:00:00Z"]

    class Small(TensorClass):
        a: Int32[Tensor, ""]

    with pytest.raises(ConversionError, match="a: expected int32, got '2026-01-01' in line 2"):
        Small.from_csv(csv("a\n2026-01-01"))


class Whole(TensorClass):
    a: Int[Tensor, ""]


def test_other_forms_of_times_are_read_as_the_error_says() -> None:
    cells = "a\n31/01/2026"
    with pytest.raises(ConversionError, match=r"got '31/01/2026'.*; timestamp_parsers=\['%d/%m/%Y'\] reads times"):
        Whole.from_csv(csv(cells))
    assert Whole.from_csv(csv(cells), timestamp_parsers=["%d/%m/%Y"]).a.tolist() == [1769817600 * 10**9]
    with pytest.raises(ConversionError, match="got 'noon' in line 3"):
        Whole.from_csv(csv("a\n2026-01-01\nnoon"))
    with pytest.raises(ConversionError, match=r"expected timestamp\[ns\], got str 'noon' in line 2"):
        Whole.from_json(csv('{"a": "2026-01-01"}\n{"a": "noon"}'), lines=True)


# --- what is wrong in a cell, with the options that were given -------------------------------------------------------


class Mixed(TensorClass):
    a: Float[Tensor, ""]
    b: Int[Tensor, ""]


class Truth(TensorClass):
    a: Bool[Tensor, ""]
    b: Int[Tensor, ""]


@pytest.mark.parametrize(
    "cls, cells, options",
    [
        (Mixed, "a,b\nNA,1\n2,x", {"null_values": ["NA"]}),
        (Mixed, "a;b\n1,5;1\n2;x", {"delimiter": ";", "decimal_point": ","}),
        (Truth, "a,b\nyes,1\nno,x", {"true_values": ["yes"], "false_values": ["no"]}),
    ],
)
def test_cells_that_read_well_are_not_reported(cls: Any, cells: str, options: Any) -> None:
    with pytest.raises(ConversionError) as caught:
        cls.from_csv(csv(cells), **options)
    assert [problem.path for problem in caught.value.problems] == [("b",)]
    assert "'x' in line 3" in str(caught.value)


def test_a_mark_of_missing_values_is_named() -> None:
    with pytest.raises(
        ConversionError, match=r"got 'NA' in line 2 of .*; null_values=\['', 'NA'\] reads it as no value"
    ):
        Mixed.from_csv(csv("a,b\nNA,1\n,2"))
    rows = Mixed.from_csv(csv("a,b\nNA,1\n,2"), null_values=["", "NA"], nulls="fill")
    assert rows.a.isnan().all()
