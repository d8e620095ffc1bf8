"""Properties of table files in every format: round trips, batches, errors, leftovers."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader

from tensorclass import ConversionError, TensorClass, TensorDict
from tests.convert.files import FORMATS, Row, nothing_left, read, rows, same, stream, write

#: formats whose files tell how many rows they have; those of Arrow from pyarrow 25 or so on
KNOW_THEIR_ROWS = ("parquet", *(["feather"] if hasattr(pa.RecordBatchFileReader, "count_rows") else []))

each_format = pytest.mark.parametrize("kind", FORMATS)


# -- whole files ------------------------------------------------------------------------------------------------------


@each_format
def test_a_record_comes_back_as_it_was_written(kind: str, tmp_path: Path) -> None:
    data = rows()
    write(data, kind, tmp_path / "data")
    assert same(read(Row, kind, tmp_path / "data"), data)


@each_format
def test_files_are_closed_and_nothing_else_is_written(kind: str, tmp_path: Path) -> None:
    write(rows(), kind, tmp_path / "data")
    with nothing_left(tmp_path):
        write(rows(), kind, tmp_path / "data")
        back = read(Row, kind, tmp_path / "data")
        assert len(back) == 5


TEXT = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\0"), max_size=5)
DOUBLES = st.floats(width=64)


class Cell(TensorClass, stack_objects=True):
    number: Tensor
    whole: Tensor
    text: str
    maybe: str | None = None


@each_format
@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(DOUBLES, st.integers(-(2**63), 2**63 - 1), TEXT, st.none() | TEXT), min_size=1, max_size=5))
def test_numbers_and_text_come_back_exactly(kind: str, drawn: list[tuple[float, int, str, str | None]]) -> None:
    numbers, wholes, texts, maybe = (list(column) for column in zip(*drawn, strict=True))
    data = Cell(
        number=torch.tensor(numbers, dtype=torch.float64), whole=torch.tensor(wholes), text=texts, maybe=maybe,
        batch_size=[len(drawn)],
    )  # fmt: skip
    file = io.BytesIO()
    write(data, kind, file)
    file.seek(0)
    back = read(Cell, kind, file)
    assert back.text == texts
    assert back.maybe == (maybe if any(one is not None for one in maybe) else None)
    assert torch.equal(back.whole, data.whole)
    assert torch.equal(back.number.double().nan_to_num(0.5, 2, 3), data.number.nan_to_num(0.5, 2, 3))


@each_format
def test_an_open_file_is_read_from_where_it_stands_and_stays_open(kind: str) -> None:
    file = io.BytesIO()
    file.write(b"in front")
    write(rows(), kind, file)
    file.seek(8)
    if kind not in ("parquet", "feather"):  # those count their places from the beginning
        assert same(read(Row, kind, file), rows())
    file = io.BytesIO()
    write(rows(), kind, file)
    file.seek(0)
    assert same(read(Row, kind, file), rows())
    assert not file.closed


@each_format
def test_a_stream_without_places_is_read(kind: str, tmp_path: Path) -> None:
    write(rows(), kind, tmp_path / "data")
    out, into = os.pipe()
    os.write(into, (tmp_path / "data").read_bytes())
    os.close(into)
    with open(out, "rb") as pipe:
        assert same(read(Row, kind, pipe), rows())


@each_format
def test_several_files_are_one_table(kind: str, tmp_path: Path) -> None:
    data = rows(6)
    for part in range(3):
        write(data[2 * part : 2 * part + 2], kind, tmp_path / f"part-{part}")
    paths = [tmp_path / f"part-{part}" for part in range(3)]
    assert same(read(Row, kind, paths), data)
    assert same(read(Row, kind, f"{tmp_path}/part-*"), data)
    assert [len(batch) for batch in stream(Row, kind, paths, batch_size=4)] == [4, 2]


@each_format
def test_files_with_different_columns_are_no_table(kind: str, tmp_path: Path) -> None:
    write(TensorDict({"a": torch.zeros(2)}, [2]), kind, tmp_path / "one")
    write(TensorDict({"b": torch.zeros(2)}, [2]), kind, tmp_path / "other")
    with pytest.raises(ValueError):
        read(TensorDict, kind, [tmp_path / "one", tmp_path / "other"])


@each_format
def test_a_batch_size_can_be_asked_for(kind: str, tmp_path: Path) -> None:
    write(TensorDict({"a": torch.zeros(3), "b": torch.zeros(3)}, [3]), kind, tmp_path / "data")
    assert read(TensorDict, kind, tmp_path / "data", batch_size=[]).batch_size == torch.Size([])
    assert read(TensorDict, kind, tmp_path / "data", auto_batch_size=True).batch_size == torch.Size([3])
    assert read(TensorDict, kind, tmp_path / "data", batch_dims=0).batch_size == torch.Size([])
    with pytest.raises(TypeError, match="exclude each other"):
        read(TensorDict, kind, tmp_path / "data", batch_size=[3], auto_batch_size=True)


@each_format
def test_all_tensors_get_a_dtype_and_a_device(kind: str, tmp_path: Path) -> None:
    write(
        TensorDict({"a": torch.arange(3), "n": {"b": torch.zeros(3)}, "t": ["a", "b", "c"]}, [3]), kind, tmp_path / "f"
    )
    data = read(TensorDict, kind, tmp_path / "f", dtype=torch.float16, device="cpu")
    assert {data["a"].dtype, data["n", "b"].dtype} == {torch.float16}
    assert data.device == torch.device("cpu")
    assert data["t"].tolist() == ["a", "b", "c"]


@each_format
def test_no_rows_are_a_table_too(kind: str, tmp_path: Path) -> None:
    write(rows()[:0], kind, tmp_path / "data")
    if kind in ("json", "lines"):  # they say nothing about columns without rows
        with pytest.raises(ValueError):
            read(Row, kind, tmp_path / "data")
    else:
        assert read(Row, kind, tmp_path / "data").batch_size == torch.Size([0])
        assert list(stream(Row, kind, tmp_path / "data", batch_size=2)) == []


# -- what is no field -------------------------------------------------------------------------------------------------


class Few(TensorClass):
    label: Tensor
    missing: Tensor


@each_format
def test_one_error_lists_all_columns_that_do_not_fit(kind: str, tmp_path: Path) -> None:
    write(rows().select("label", "name", "score"), kind, tmp_path / "data")
    with pytest.raises(ConversionError) as caught:
        read(Few, kind, tmp_path / "data")
    assert {problem.path for problem in caught.value.problems} == {("name",), ("score",), ("missing",)}


class Label(TensorClass):
    label: Tensor


@each_format
def test_more_columns_are_left_out_with_one_warning(kind: str, tmp_path: Path) -> None:
    write(rows(), kind, tmp_path / "data")
    with pytest.warns(UserWarning, match="left out what is no field: 'name', ") as warned:
        data = read(Label, kind, tmp_path / "data", strict=False)
    assert list(data.keys()) == ["label"]
    assert len(warned) == 1
    with pytest.warns(UserWarning, match="left out what is no field"):
        (batch,) = stream(Label, kind, tmp_path / "data", strict=False, batch_size=10)
    assert torch.equal(batch.label, torch.arange(5))


@each_format
def test_an_option_that_does_not_exist_is_an_error_that_lists_those_that_do(kind: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"there are no options 'whatever'.*Those of .* are: "):
        read(TensorDict, kind, tmp_path / "data", whatever=1)
    with pytest.raises(TypeError, match=r"there are no options 'whatever'.*Those of .* are: "):
        write(rows(), kind, tmp_path / "data", whatever=1)
    assert os.listdir(tmp_path) == []


# -- bad files --------------------------------------------------------------------------------------------------------


@each_format
def test_a_file_that_is_not_there_is_named(kind: str, tmp_path: Path) -> None:
    for path in (tmp_path / "none", f"{tmp_path}/none-*"):
        for call in (read, stream):
            with pytest.raises(FileNotFoundError) as caught:
                call(TensorDict, kind, path, **({} if call is read else {"batch_size": 1}))
            assert caught.value.filename == str(path)


@each_format
def test_a_folder_is_no_file(kind: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="folder") as caught:
        read(TensorDict, kind, tmp_path)
    assert caught.value.filename == str(tmp_path)
    with pytest.raises(IsADirectoryError):
        write(rows(), kind, tmp_path)
    with pytest.raises(FileNotFoundError):
        write(rows(), kind, tmp_path / "none" / "data")


@each_format
@pytest.mark.parametrize("path", [3, None, b"bytes", io.StringIO("a"), []], ids=lambda path: type(path).__name__)
def test_what_is_no_path_is_an_error(kind: str, path: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"expected a (path|file)"):
        read(TensorDict, kind, path)


@each_format
@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02\xff" * 100, b"PAR1" * 10, b"ARROW1\0\0" * 10], ids=len)
def test_a_broken_file_is_named_and_closed(kind: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(content)
    with nothing_left(tmp_path):
        with pytest.raises(ValueError, match="broken"):
            read(Row, kind, tmp_path / "broken")
        if content or kind != "lines":  # no lines are no rows
            with pytest.raises(ValueError, match="broken"):
                list(stream(Row, kind, tmp_path / "broken", batch_size=2))


def test_an_error_behind_a_cell_that_python_does_not_read_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("t,n\n" + "a" * 200_000 + ",1\nb,x\n")
    with pytest.raises(ValueError, match=r"wide\.csv: .*invalid value 'x'"):
        TensorDict.from_csv(tmp_path / "wide.csv", column_types={"n": "int64"})


@pytest.mark.parametrize("kind", ["parquet", "feather", "json"])
@pytest.mark.parametrize("part", [0.3, 0.9, 0.99])
def test_a_part_of_a_file_is_an_error_that_names_it(kind: str, part: float, tmp_path: Path) -> None:
    write(rows(500), kind, tmp_path / "cut")
    content = (tmp_path / "cut").read_bytes()
    (tmp_path / "cut").write_bytes(content[: int(part * len(content))])
    with nothing_left(tmp_path), pytest.raises(ValueError, match="cut"):
        read(Row, kind, tmp_path / "cut")


class Unwritable:
    pass


@each_format
def test_a_file_that_cannot_be_written_leaves_the_old_one(kind: str, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("old")
    bad = TensorDict({"a": torch.zeros(2), "o": [Unwritable(), Unwritable()]}, [2])
    with nothing_left(tmp_path), pytest.raises(TypeError, match="o"):
        write(bad, kind, tmp_path / "data")
    assert (tmp_path / "data").read_text() == "old"


@each_format
def test_a_disk_that_fails_leaves_the_old_file(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with nothing_left(tmp_path), pytest.raises(OSError, match="No space left"):
        write(rows(), kind, tmp_path / "data")
    assert (tmp_path / "data").read_text() == "old"


@pytest.mark.parametrize("kind", ["csv", "json", "lines"])
def test_a_collection_has_one_batch_dimension(kind: str, tmp_path: Path) -> None:
    for size in ([], [2, 3]):
        with pytest.raises(ValueError, match="expected one batch dimension"):
            write(TensorDict({"a": torch.zeros(2, 3)}, size), kind, tmp_path / "data")


@pytest.mark.parametrize("kind", ["csv", "json", "lines"])
@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst", "lz4"])
def test_a_name_says_how_a_file_is_compressed(kind: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"data.{suffix}"
    write(rows(), kind, path)
    assert same(read(Row, kind, path), rows())
    assert sum(map(len, stream(Row, kind, path, batch_size=2))) == 5
    if suffix == "gz":
        assert b"007" in gzip.decompress(path.read_bytes())


# -- batches ----------------------------------------------------------------------------------------------------------


@each_format
@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_batches_have_the_rows_asked_for(kind: str, size: int, tmp_path: Path) -> None:
    data = rows(20)
    write(data, kind, tmp_path / "data", **({"row_group_size": 6} if kind == "parquet" else {}))
    batches = list(stream(Row, kind, tmp_path / "data", batch_size=size))
    assert all(type(batch) is Row for batch in batches)
    assert [len(batch) for batch in batches] == [len(part) for part in data.split(size)]
    assert same(torch.cat(batches), data)
    whole = list(stream(Row, kind, tmp_path / "data", batch_size=size, drop_last=True))
    assert [len(batch) for batch in whole] == [size] * (20 // size)


@each_format
def test_batches_are_made_anew_each_time(kind: str, tmp_path: Path) -> None:
    write(rows(7), kind, tmp_path / "data")
    batches = stream(Row, kind, tmp_path / "data", batch_size=3)
    first, second = iter(batches), iter(batches)
    assert torch.equal(next(first).label, next(second).label)
    assert [len(batch) for batch in batches] == [3, 3, 1]


@pytest.mark.parametrize("kind", FORMATS)
def test_files_that_know_their_rows_tell_how_many_batches_there_are(kind: str, tmp_path: Path) -> None:
    write(rows(7), kind, tmp_path / "data")
    batches = stream(Row, kind, tmp_path / "data", batch_size=3)
    if kind in KNOW_THEIR_ROWS:
        assert len(batches) == 3
        assert len(stream(Row, kind, tmp_path / "data", batch_size=3, drop_last=True)) == 2
    else:
        with pytest.raises(TypeError, match="known when all have been read"):
            len(batches)


@each_format
def test_a_loop_that_is_left_closes_the_file(kind: str, tmp_path: Path) -> None:
    write(rows(50), kind, tmp_path / "data")
    with nothing_left(tmp_path):
        for batch in stream(Row, kind, tmp_path / "data", batch_size=2):
            assert len(batch) == 2
            break
        iterator = iter(stream(Row, kind, tmp_path / "data", batch_size=2))
        next(iterator)
        del iterator, batch


class Strict(TensorClass, stack_objects=True):
    label: int
    name: str

    def __post_init__(self) -> None:
        if "name 7" in self.name:
            raise ValueError("not this one")


@each_format
def test_an_error_in_the_middle_closes_the_file(kind: str, tmp_path: Path) -> None:
    write(rows(50).select("label", "name"), kind, tmp_path / "data")
    with nothing_left(tmp_path), pytest.raises(ValueError, match="not this one"):
        list(stream(Strict, kind, tmp_path / "data", batch_size=2))


@each_format
@pytest.mark.parametrize("size", [0, -1, 2.5, True, None])
def test_a_batch_has_a_row_at_least(kind: str, size: Any, tmp_path: Path) -> None:
    write(rows(), kind, tmp_path / "data")
    with pytest.raises(ValueError, match="expected a batch_size of at least 1"):
        stream(Row, kind, tmp_path / "data", batch_size=size)


@each_format
def test_progress_is_shown_where_it_is_asked_for(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(rows(7), kind, tmp_path / "data")
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.delenv("COLUMNS", raising=False)  # tqdm cuts its bar there
    list(stream(Row, kind, tmp_path / "data", batch_size=3))
    assert shown.getvalue() == ""
    list(stream(Row, kind, tmp_path / "data", batch_size=3, progress=True))
    assert ("7/7" if kind in KNOW_THEIR_ROWS else "7.00row") in shown.getvalue()
    assert "data" in shown.getvalue()


@each_format
def test_batches_go_to_other_processes(kind: str, tmp_path: Path) -> None:
    write(rows(7), kind, tmp_path / "data")
    batches = pickle.loads(pickle.dumps(stream(Row, kind, tmp_path / "data", batch_size=3)))
    assert [len(batch) for batch in batches] == [3, 3, 1]
    file = io.BytesIO((tmp_path / "data").read_bytes())
    with pytest.raises(TypeError, match="an open file, which other processes do not have"):
        pickle.dumps(stream(Row, kind, file, batch_size=3))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_workers_share_the_batches_and_keep_their_order(kind: str, tmp_path: Path) -> None:
    write(rows(11), kind, tmp_path / "data")
    batches = stream(Row, kind, tmp_path / "data", batch_size=2)
    loaded = list(DataLoader(batches, batch_size=None, num_workers=2))
    assert [batch.label.tolist() for batch in loaded] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10]]


# -- some of the columns ----------------------------------------------------------------------------------------------


@each_format
def test_columns_are_chosen_by_name(kind: str, tmp_path: Path) -> None:
    data = TensorDict({"a": torch.arange(3), "b": torch.arange(3) + 0.5, "c": torch.ones(3)}, [3])
    write(data, kind, tmp_path / "data")
    found = read(TensorDict, kind, tmp_path / "data", columns=["b", "a"], rename={"a": "new"})
    assert ({*found.keys()}, found["b"].tolist(), found["new"].tolist()) == ({"b", "new"}, [0.5, 1.5, 2.5], [0, 1, 2])
    batches = [*stream(TensorDict, kind, tmp_path / "data", batch_size=2, columns=["c"])]
    assert [[*batch.keys()] for batch in batches] == [["c"], ["c"]]
    with pytest.raises(ConversionError, match=r"aa: expected one of the columns.*Did you mean: 'a'"):
        read(TensorDict, kind, tmp_path / "data", columns=["aa"])


class Chosen(TensorClass):
    a: Tensor


@each_format
def test_columns_that_are_not_chosen_need_no_field(kind: str, tmp_path: Path) -> None:
    write(TensorDict({"a": torch.arange(3), "b": torch.ones(3)}, [3]), kind, tmp_path / "data")
    assert read(Chosen, kind, tmp_path / "data", columns=["a"]).a.tolist() == [0, 1, 2]
