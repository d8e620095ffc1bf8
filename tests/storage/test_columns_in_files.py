"""Text and ragged rows in all formats, against lists of Python."""

from __future__ import annotations

import copy
import io
import json
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Int
from torch import Tensor

from tensorclass import (
    Column,
    NonTensorData,
    NonTensorStack,
    Ragged,
    TensorClass,
    TensorDict,
    Text,
    append_memmap,
    lazy_stack,
    load_memmap,
)
from tensorclass.storage.common import describe_collection, stored_objects
from tensorclass.storage.common.collection_tree import FileError
from tensorclass.storage.hdf5_zarr import group_loader
from tensorclass.td.memory.mapped_tensor import MemoryMappedTensor
from tests.storage.formats import FORMATS


class Question(TensorClass):
    prompt: Text
    tokens: Ragged[Int[Tensor, "n"]]
    tags: Column[list[str]]
    note: Text | None = None


strings = st.one_of(st.none(), st.text(st.characters(exclude_categories=("Cs",)), max_size=4))
numbers = st.one_of(st.none(), st.lists(st.integers(-9, 9), max_size=3))
deep = st.lists(st.lists(st.integers(-9, 9), max_size=2), max_size=2)


@st.composite
def columns(draw: Any) -> tuple[TensorDict, dict[str, list[Any]]]:
    """A collection with columns, some rows of a larger one in another order, and its rows as lists."""
    rows = draw(st.lists(st.tuples(strings, numbers, deep), max_size=5))
    count = len(rows)
    data = TensorDict(
        {
            "text": Text([row[0] for row in rows]),
            "tokens": Ragged.from_list([row[1] for row in rows], dtype=torch.int64),
            "below": {"deep": Ragged.from_list([row[2] for row in rows], dtype=torch.int16, ragged_dims=2)},
            "x": torch.arange(float(count)),
        },
        [count],
        names=draw(st.sampled_from([None, ["time"]])),
    )
    order = draw(st.lists(st.integers(0, count - 1), max_size=4)) if count else []
    if draw(st.booleans()):
        data, rows = data[torch.tensor(order, dtype=torch.int64)], [rows[at] for at in order]
    if draw(st.booleans()):
        data = data.unsqueeze(1).expand(-1, 2)
        rows = [row for row in rows for _ in range(2)]
    held = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return data, dict(zip(("text", "tokens", "deep"), held, strict=True))


def held(data: Any) -> dict[str, list[Any]]:
    """The rows of a collection of :func:`columns`, flat."""
    named = {"text": data["text"], "tokens": data["tokens"], "deep": data["below", "deep"]}
    return {key: value.reshape(-1).tolist() for key, value in named.items()}


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder) / "saved"


@pytest.mark.parametrize("name", FORMATS)
def test_rows_come_back_as_they_were_written(name: str) -> None:
    one = FORMATS[name]

    @settings(max_examples=10)
    @given(columns(), st.booleans())
    def check(drawn: tuple[TensorDict, dict[str, list[Any]]], checked: bool) -> None:
        data, rows = drawn
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "saved"
            save, load = (one.save_checked, one.load_checked) if checked else (None, None)
            (save or one.save)(data, path)
            loaded = (load or one.load)(path)
            assert held(loaded) == rows
            for key in ("text", "tokens", ("below", "deep")):
                value = loaded.get(key)
                assert type(value) is type(data.get(key))
                assert value.batch_size == data.batch_size
                assert value.names == data.get(key).names
            assert loaded["tokens"].dtype == torch.int64
            assert loaded["below", "deep"].dtype == torch.int16

    check()


@settings(max_examples=15)
@given(columns())
def test_pickles_shared_memory_and_state_dicts_keep_rows(drawn: tuple[TensorDict, dict[str, list[Any]]]) -> None:
    data, rows = drawn
    stream = io.BytesIO()
    torch.save(data, stream)
    stream.seek(0)
    assert held(torch.load(stream, weights_only=False)) == rows
    consolidated = data.consolidate()
    assert held(consolidated) == rows
    assert held(pickle.loads(pickle.dumps(consolidated))) == rows
    assert held(data.memmap()) == rows
    assert held(data.clone().share_memory_()) == rows
    for flatten in (True, False):
        state = data.state_dict(flatten=flatten)
        other = data.clone()
        other["text"] = Text("other").expand(other.batch_size)
        assert held(other.load_state_dict(state)) == rows
        assert held(TensorDict({**other.clone()}, other.batch_size).load_state_dict(state, assign=True)) == rows


def rows_of(number: int, count: int = 3) -> TensorDict:
    """Rows that differ with a number."""
    at = range(count)
    return TensorDict(
        {
            "text": Text([None if (row + number) % 3 == 0 else f"ä{number}" * row for row in at]),
            "tokens": Ragged.from_list([[number] * row for row in at], dtype=torch.int64),
            "below": {
                "deep": Ragged.from_list([[[number], [row] * row] for row in at], dtype=torch.int16, ragged_dims=2)
            },
            "strings": NonTensorStack(*[f"{number}.{row % 2}" for row in at]),
        },
        [count],
    )


@pytest.mark.parametrize("name", ["folder", "archive", "safetensors", "consolidated", "h5", "zarr"])
def test_a_few_rows_of_a_large_buffer_write_a_few_rows(name: str, path: Path) -> None:
    data = TensorDict({"text": Text(["x" * 1000] * 5000)}, [5000])[[7, 8, 4000]]
    FORMATS[name].save(data, path)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 40_000


def test_a_mapped_column_is_two_mapped_arrays(path: Path) -> None:
    rows_of(1).memmap(path)
    loaded = TensorDict.load_memmap(path)
    text = loaded["text"]
    assert type(text.values) is type(text.spans) is MemoryMappedTensor
    assert (path / "text" / "values.memmap").stat().st_size == text.byte_lengths.sum()
    assert (path / "text" / "spans.memmap").stat().st_size == 3 * 16
    assert loaded.lock_().is_memmap()
    assert loaded.saved_path == path


def test_rows_of_a_mapped_column_are_not_written_in_memory_alone(path: Path) -> None:
    mapped = rows_of(1).memmap(path)
    with pytest.raises(RuntimeError, match=r"cannot be written in place"):
        mapped["text"][0] = "other"
    with pytest.raises(RuntimeError, match=r"text: .*cannot be written in place"):
        mapped[0] = rows_of(2)[0]
    assert held(TensorDict.load_memmap(path)) == held(rows_of(1))


def test_a_column_alone_is_saved_in_a_folder(path: Path) -> None:
    Text(["a", None]).memmap(path)
    assert Text.load_memmap(path).tolist() == ["a", None]
    with pytest.raises(FileError, match="expected a collection, got 'column'"):
        TensorDict.load_memmap(path)


def test_without_values_there_are_shapes(path: Path) -> None:
    data = rows_of(1, 1200)  # strings in arrays are read nevertheless
    data.memmap(path)
    loaded = TensorDict.load_memmap(path, device="meta")
    assert loaded["text"].batch_size == torch.Size([1200])
    assert loaded["text"].spans.is_meta
    assert loaded["strings"][:3] == ["1.0", "1.1", "1.0"]


# ---------------------------------------------------------------------------------------------------------------------
# append


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("fewest", [1000, 4, 1])
def test_appended_rows_follow_the_others(path: Path, checked: bool, fewest: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(describe_collection, "ARRAYS_FROM", fewest)
    rows_of(1)[:2].memmap(path, checksum=checked)
    for number in (2, 3):
        TensorDict.append_memmap(path, rows_of(number)[[2, 0]])
    whole = torch.cat([rows_of(1)[:2], rows_of(2)[[2, 0]], rows_of(3)[[2, 0]]])
    loaded = TensorDict.load_memmap(path, verify=checked)
    assert held(loaded) == held(whole)
    assert loaded["strings"].tolist() == whole["strings"].tolist()
    other = rows_of(4)
    other["strings"] = NonTensorStack(1, "a", (2,))
    TensorDict.append_memmap(path, other)
    assert TensorDict.load_memmap(path)["strings"].tolist() == [*whole["strings"].tolist(), 1, "a", (2,)]


def test_rows_are_appended_to_an_empty_folder_like_them(path: Path) -> None:
    rows_of(1)[:0].memmap_like(path)
    append_memmap(path, rows_of(2))
    assert held(load_memmap(path)) == held(rows_of(2))
    assert rows_of(2).memmap_like(path)["text"].tolist() == ["", "", ""]


def test_lazy_stacks_grow_by_items(path: Path) -> None:
    lazy_stack([rows_of(1), rows_of(2)]).memmap(path)
    TensorDict.append_memmap(path, lazy_stack([rows_of(3)]))
    assert [held(part) for part in TensorDict.load_memmap(path)] == [held(rows_of(n)) for n in (1, 2, 3)]


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("text", Ragged([[1], [2], [3]]), "text: expected a Text, got Ragged"),
        ("tokens", Ragged([[1.0], [2.0], []]), r"tokens.values: expected torch.int64 .*got torch.float32"),
        ("tokens", rows_of(1)["below", "deep"], "tokens"),
        (("below", "deep"), Ragged([[1], [2], [3]]), "below.deep: expected rows of ragged rows"),
        ("text", torch.zeros(3), "text: expected a Text, got a tensor"),
    ],
)
def test_rows_of_another_kind_are_not_appended(path: Path, key: Any, value: Any, message: str) -> None:
    rows_of(1).memmap(path)
    other = rows_of(2)
    other[key] = value
    with pytest.raises(ValueError, match=message):
        TensorDict.append_memmap(path, other)
    assert held(TensorDict.load_memmap(path)) == held(rows_of(1))


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_files_are_extended(path: Path, backend: str) -> None:
    data = rows_of(1).exclude("strings")
    with getattr(data[:0], f"to_{backend}")(path, resizable=True, checksum=True) as file:
        file.extend(data)
        file.extend(rows_of(2).exclude("strings")[[2, 0]])
        with pytest.raises(RuntimeError, match=r"tokens: expected items of torch.int64, got torch.float32"):
            file.extend(rows_of(2).exclude("strings").set("tokens", Ragged([[1.0], [], []])))
    with getattr(TensorDict, f"from_{backend}")(path) as file:
        assert held(file) == held(torch.cat([rows_of(1), rows_of(2)[[2, 0]]]))


# ---------------------------------------------------------------------------------------------------------------------
# rows of HDF5 and zarr files


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_indexed_rows_of_a_file_are_those_of_memory(backend: str, path: Path) -> None:
    data = rows_of(1, 9).exclude("strings")
    file = getattr(data, f"to_{backend}")(path)

    @settings(max_examples=20)
    @given(st.one_of(st.integers(-9, 8), st.lists(st.integers(-9, 8), max_size=5), st.slices(9).filter(_rises)))
    def check(index: Any) -> None:
        found, expected = file[index], data[index]
        for key in ("text", "tokens", ("below", "deep")):
            one, other = found.get(key), expected.get(key)
            assert one.unsqueeze(0).tolist() == other.unsqueeze(0).tolist()
        assert file.get_at("tokens", index).unsqueeze(0).tolist() == data.get_at("tokens", index).unsqueeze(0).tolist()

    with file:
        check()
        file[1:3] = rows_of(5, 9).exclude("strings")[4:6]
        data[1:3] = rows_of(5, 9).exclude("strings")[4:6]
        assert held(file) == held(data)


def _rises(found: slice) -> bool:
    return found.step is None or found.step > 0


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_progress_counts_the_bytes_of_the_rows(backend: str, path: Path, monkeypatch: Any) -> None:
    totals: list[int] = []
    real = group_loader.bytes_of
    monkeypatch.setattr(group_loader, "bytes_of", lambda total, *more: (totals.append(total), real(total, *more))[1])
    data = TensorDict({"text": Text(["x" * 1000, "ab"]), "tokens": Ragged([[1], [2, 3]]), "x": torch.zeros(2)}, [2])
    getattr(data[1:], f"to_{backend}")(path).close()
    assert totals == [2 + 16 + 16 + 16 + 4]


def counted_reads(file: Any, patch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of bytes that the library of a file reads from now on."""
    library, counts = type(file._store.file.backend), []
    read = library.read

    def counted(self: Any, array: Any, box: Any) -> Any:
        values = read(self, array, box)
        counts.append(values.nbytes)
        return values

    patch.setattr(library, "read", counted)
    return counts


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_a_row_is_read_without_the_others(backend: str, path: Path, monkeypatch: Any) -> None:
    data = TensorDict({"text": Text(["x" * 10_000, "short", "y" * 10_000, "z" * 10_000])}, [4])
    with getattr(data, f"to_{backend}")(path) as file:
        counts = counted_reads(file, monkeypatch)
        assert file[1]["text"] == "short"
        assert sum(counts) == 16 + 5
        assert file.get_at("text", 1) == "short"
        assert "short" in repr(file[1:2])


@pytest.mark.parametrize("declared", [False, True], ids=["stack", "column"])
@pytest.mark.parametrize("objects", [["x" * 10, "é", "\0"], [["u"], [], ["v", "w"]], ["\ud800", "a", ""]], ids=str)
@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_some_of_many_objects_are_read_without_the_others(
    backend: str, objects: list[Any], declared: bool, path: Path, monkeypatch: Any
) -> None:
    many = [*objects, *(["z" * 100] * 1000 if isinstance(objects[0], str) else [["z" * 100]] * 1000)]

    class Sample(TensorClass):
        objects: Column[Any]

    data: Any = Sample(many) if declared else TensorDict({"objects": NonTensorStack(*many)}, [len(many)])
    with getattr(data, f"to_{backend}")(path) as file:
        counts = counted_reads(file, monkeypatch)
        assert file[1:3].get("objects").tolist() == objects[1:]
        assert repr(file[2].get("objects")) == repr(data[2].get("objects"))
        assert repr(file.get_at("objects", 1)) == repr(data.get_at("objects", 1))
        assert sum(counts) < 200
        assert file.get("objects").tolist() == many
        file[0] = data[1]
        assert file.get("objects").tolist() == [many[1], *many[1:]]


def test_rows_without_items_are_appended_whatever_their_dtype(path: Path) -> None:
    ints = TensorDict({"rows": Ragged([[1], [2, 3]])}, [2])
    empty = TensorDict({"rows": Ragged([[], []])}, [2])
    assert empty["rows"].dtype != ints["rows"].dtype
    empty.memmap(path)
    TensorDict.append_memmap(path, ints)
    TensorDict.append_memmap(path, empty)
    TensorDict.append_memmap(path, empty[:0])
    loaded = TensorDict.load_memmap(path)["rows"]
    assert (loaded.dtype, loaded.tolist()) == (torch.int64, [[], [], [1], [2, 3], [], []])
    with pytest.raises(ValueError, match=r"rows\.values: expected torch\.int64"):
        TensorDict.append_memmap(path, TensorDict({"rows": Ragged([[1.5]])}, [1]))


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_rows_without_items_extend_a_file_whatever_their_dtype(backend: str, path: Path) -> None:
    with getattr(TensorDict({"rows": Ragged([[1], [2, 3]])}, [2]), f"to_{backend}")(path, resizable=True) as file:
        file.extend(TensorDict({"rows": Ragged([[], []])}, [2]))
        assert file["rows"].tolist() == [[1], [2, 3], [], []]


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_many_objects_are_extended(backend: str, path: Path) -> None:
    data = TensorDict({"objects": NonTensorStack(*[{"at": at} for at in range(1000)])}, [1000])
    with getattr(data, f"to_{backend}")(path, resizable=True) as file:
        file.extend(data[:2])
        assert file["objects"][998:] == [{"at": 998}, {"at": 999}, {"at": 0}, {"at": 1}]


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_extending_many_objects_reads_none_of_the_others(backend: str, form: str, path: Path, monkeypatch: Any) -> None:
    many: list[Any] = [f"é{at}" if form == "text" else [f"é{at}"] for at in range(2000)]
    data = TensorDict({"objects": NonTensorStack(*many)}, [2000])
    with getattr(data[:1500], f"to_{backend}")(path, resizable=True, checksum=True) as file:
        with monkeypatch.context() as patch:
            counts = counted_reads(file, patch)
            file.extend(data[1500:1900])
            file.extend(data[1900:])
            file.extend(TensorDict({"objects": NonTensorData(many[0], batch_size=[2])}, [2]))
        assert sum(counts) < 1000
        assert file["objects"] == [*many, many[0], many[0]]
        file.extend(TensorDict({"objects": NonTensorStack((1,), "\ud800")}, [2]))  # text no more
        assert file["objects"][2000:] == [many[0], many[0], (1,), "\ud800"]
    with getattr(TensorDict, f"from_{backend}")(path) as file:
        assert file["objects"][1999:] == [many[1999], many[0], many[0], (1,), "\ud800"]


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_objects_in_arrays_of_text_of_older_files_are_read(backend: str, path: Path, monkeypatch: Any) -> None:
    many = [{"at": at} for at in range(1200)]
    with monkeypatch.context() as patch:
        patch.setattr(describe_collection, "ARRAYS_FROM", 10**9)
        getattr(TensorDict({"objects": NonTensorStack(*many)}, [1200]), f"to_{backend}")(path).close()
    with getattr(TensorDict, f"from_{backend}")(path) as file:
        assert file["objects"] == many
        assert file[7]["objects"] == {"at": 7}


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_a_row_of_a_stored_column_of_objects_is_a_column(backend: str, path: Path) -> None:
    class Sample(TensorClass):
        tags: Column[list[str]]

    with getattr(Sample([["u"], ["v"]]), f"to_{backend}")(path) as file:
        assert file[1].tags.item() == ["v"]


@pytest.mark.parametrize("damage", ["null", "{"], ids=["missing", "no JSON"])
def test_a_damaged_row_of_objects_is_an_error_that_names_it(damage: str, path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(describe_collection, "ARRAYS_FROM", 1)
    TensorDict({"objects": NonTensorStack(["a"], ["b"])}, [2]).to_h5(path).close()
    with h5py.File(path, "r+") as file:
        if damage == "{":
            file["objects"]["values"][0] = ord("{")
        else:
            file["objects"]["spans"][0, 1] = -1
    with TensorDict.from_h5(path) as file, pytest.raises(FileError, match="objects: "):
        file[0]


# ---------------------------------------------------------------------------------------------------------------------
# records


@pytest.mark.parametrize("name", FORMATS)
def test_records_come_back_with_their_columns(name: str, path: Path) -> None:
    made = Question(["a", "b"], [[1, 2], [3]], [["u"], ["v", "w"]], batch_size=[2])
    FORMATS[name].save(made, path)
    loader = {"h5": "from_h5", "zarr": "from_zarr", "safetensors": "load_safetensors"}
    method = loader.get(name.split("-")[0], "from_consolidated" if name == "consolidated" else "load_memmap")
    loaded = getattr(Question, method)(path)
    assert loaded.prompt.tolist() == ["a", "b"]
    assert loaded.tokens.tolist() == [[1, 2], [3]]
    assert type(loaded[:1].to_tensordict()["prompt"]) is Text
    assert type(loaded.tags) is Column
    assert loaded.tags.tolist() == [["u"], ["v", "w"]]
    if hasattr(loaded, "close"):
        loaded.close()


@pytest.mark.parametrize("name", ["load_memmap", "from_h5"])
def test_a_file_with_rows_that_a_field_does_not_allow_is_refused(name: str, path: Path) -> None:
    tags = Column([["u"], ["v"]])
    data = TensorDict({"prompt": Text(["a", None]), "tokens": Ragged([[1], []]), "tags": tags}, [2])
    FORMATS["h5" if name == "from_h5" else "folder"].save(data, path)
    with pytest.raises(FileError, match=r"prompt: (row 1|some rows)"):
        getattr(Question, name)(path)


# ---------------------------------------------------------------------------------------------------------------------
# damage


def _spans(path: Path, key: str, *rows: list[int]) -> None:
    (path / key / "spans.memmap").write_bytes(torch.tensor(rows).numpy().tobytes())


def _own(path: Path, **changes: Any) -> None:
    """Change the description of a column, without its seal."""
    file = path / "meta.json"
    meta = json.loads(file.read_text())
    meta["_tensorclass"].pop("crc32")
    meta["_tensorclass"]["column"].update(changes)
    file.write_text(json.dumps(meta))


def _entry(path: Path, key: str, **changes: Any) -> None:
    file = path / "meta.json"
    meta = json.loads(file.read_text())
    meta["_tensorclass"].pop("crc32")
    meta[key].update(changes)
    file.write_text(json.dumps(meta))


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda path: _spans(path, "text", [0, 1], [1, 99]), "text: .*row 1: expected items within the 3"),
        (lambda path: _spans(path, "text", [-1, 1], [1, 2]), "text: .*row 0: expected items within the 3"),
        (lambda path: _spans(path, "text", [0, 1], [1, -2]), "text: .*row 1"),
        (lambda path: _spans(path, "text", [0, 1], [2**62, 2**62]), "text: .*row 1"),
        (lambda path: _spans(path, "text", [0, 3], [0, 3]), "text: .*some are shared"),
        (lambda path: _spans(path, "text", [0, 1], [1, -1]), "text: row 1 has no value"),
        (lambda path: _own(path / "text", column="Other"), "text: .*description of a column"),
        (lambda path: _own(path / "text", missing=3), "text: .*description of a column"),
        (lambda path: _own(path / "text", names=["a", "b"]), "text"),
        (lambda path: _entry(path / "text", "values", dtype="torch.int8"), "text: expected the UTF-8 .*int8"),
        (lambda path: _entry(path / "text", "spans", dtype="torch.float64"), "text: .*spans of dtype int64"),
        (lambda path: _entry(path / "text", "spans", shape=[4]), r"text: .*\[\*batch, 2\]"),
        (lambda path: _entry(path / "text", "spans", shape=[1, 2]), r"text: .*batch size \[2\]"),
        (lambda path: shutil.rmtree(path / "text"), "text"),
        (lambda path: (path / "text" / "spans.memmap").unlink(), r"text/spans.memmap"),
    ],
)
def test_a_damaged_column_is_an_error_that_names_it(path: Path, damage: Any, message: str) -> None:
    TensorDict({"text": Text(["a", "bc"])}, [2]).memmap(path)
    damage(path)
    with pytest.raises(ValueError, match=message):
        TensorDict.load_memmap(path)


@pytest.mark.parametrize("name", ["folder", "archive", "safetensors", "h5", "zarr"])
def test_bytes_that_are_not_utf8_are_found_when_they_are_read_or_verified(name: str, path: Path) -> None:
    one, text = FORMATS[name], Text(["a", "bc"])
    wrong = Text._of(torch.tensor([97, 98, 255], dtype=torch.uint8), text.spans)
    assert one.save_checked is not None
    assert one.load_checked is not None
    one.save_checked(TensorDict({"text": wrong}, [2]), path)
    assert one.load(path)["text"][0] == "a"
    with pytest.raises(ValueError, match="row 1: the bytes are not UTF-8"):
        one.load(path)["text"].tolist()
    with pytest.raises(FileError, match=r"text: .*row 1: the bytes are not UTF-8"):
        one.load_checked(path)


@pytest.mark.parametrize("backend", ["h5", "zarr"])
def test_damaged_rows_of_a_file_are_errors(backend: str, path: Path) -> None:
    with getattr(TensorDict({"text": Text(["a", "bc"])}, [2]), f"to_{backend}")(path) as file:
        file._store.group["text"]["spans"][1] = [1, 99]
        assert file[0]["text"] == "a"
        for read in (lambda: file["text"], lambda: file[1]):
            with pytest.raises(FileError, match=r"text: .*: expected items within the 3"):
                read()


# ---------------------------------------------------------------------------------------------------------------------
# strings


@pytest.mark.parametrize("name", FORMATS)
def test_many_strings_come_back_as_they_were(name: str, path: Path) -> None:
    many = NonTensorStack(*[f"é{row % 7}" for row in range(1200)]).reshape(600, 2)
    FORMATS[name].save(TensorDict({"strings": many, "x": torch.zeros(600)}, [600]), path)
    loaded = FORMATS[name].load(path).get("strings")
    assert type(loaded) is NonTensorStack
    assert loaded.tolist() == many.tolist()
    if name == "folder":
        assert (path / "strings" / "values.memmap").stat().st_size == 3 * 1200
        assert (path / "strings" / "meta.json").stat().st_size < 1000


@pytest.mark.parametrize("name", ["folder", "safetensors", "consolidated"])
def test_many_strings_of_older_files_are_read(name: str, path: Path, monkeypatch: Any) -> None:
    many = [f"row {row}" for row in range(1200)]
    with monkeypatch.context() as patch:
        patch.setattr(describe_collection, "ARRAYS_FROM", 10**9)  # as older versions wrote all objects
        FORMATS[name].save(TensorDict({"strings": many}, [1200]), path)
    assert FORMATS[name].load(path)["strings"] == many
    if name == "folder":
        TensorDict.append_memmap(path, TensorDict({"strings": ["last"]}, [1]))
        assert FORMATS[name].load(path)["strings"] == [*many, "last"]
        assert (path / "strings" / "codes.memmap").is_file()


@pytest.mark.parametrize("other", [1, None, "\ud800"])
@pytest.mark.parametrize("name", FORMATS)
def test_many_objects_among_which_one_is_no_text_come_back_as_they_were(name: str, other: Any, path: Path) -> None:
    many = ["a"] * 1000 + [other]
    FORMATS[name].save(TensorDict({"mixed": NonTensorStack(*many)}, [1001]), path)
    assert FORMATS[name].load(path)["mixed"].tolist() == many


@pytest.mark.parametrize("codes", [[5, 0, 0], [-1, 0, 0]])
def test_codes_without_a_string_are_an_error(path: Path, codes: list[int], monkeypatch: Any) -> None:
    monkeypatch.setattr(describe_collection, "ARRAYS_FROM", 1)
    TensorDict({"strings": NonTensorStack("a", "b", "c")}, [3]).memmap(path)
    (path / "strings" / "codes.memmap").write_bytes(torch.tensor(codes).numpy().tobytes())
    loaded = TensorDict.load_memmap(path)
    with pytest.raises(FileError, match="strings: expected codes of its 3 objects"):
        loaded["strings"]


# ---------------------------------------------------------------------------------------------------------------------
# objects of a folder, which are read when they are asked for


class Tagged(TensorClass):
    tags: Column[list[str]]
    x: Tensor


def tagged(start: int, count: int) -> Tagged:
    return Tagged([[f"tag {row}"] for row in range(start, start + count)], torch.arange(start, start + count))


@pytest.fixture
def made(monkeypatch: Any) -> list[str]:
    """The texts of which objects were made."""
    found: list[str] = []
    real = stored_objects.parse_value
    monkeypatch.setattr(stored_objects, "parse_value", lambda text: (found.append(text), real(text))[1])
    return found


def test_an_append_of_objects_rewrites_none_of_the_others(path: Path, made: list[str]) -> None:
    tagged(0, 1500).memmap(path)
    files = [path / "tags" / f"{name}.memmap" for name in ("values", "spans", "codes")]
    inodes, described = [file.stat().st_ino for file in files], (path / "tags" / "meta.json").stat().st_size
    for start in (1500, 1520, 1540):
        before = [file.stat().st_size for file in files]
        Tagged.append_memmap(path, tagged(start, 20))
        assert [file.stat().st_size - size for file, size in zip(files, before, strict=True)] == [20 * 12, 320, 160]
        assert [file.stat().st_ino for file in files] == inodes
        assert abs((path / "tags" / "meta.json").stat().st_size - described) < 10
    assert made == []
    assert Tagged.load_memmap(path).tags.tolist() == tagged(0, 1560).tags.tolist()


@pytest.mark.parametrize("target", [Tagged, TensorDict])
@pytest.mark.parametrize("device", [None, "cpu", "meta"])
def test_opening_a_folder_makes_no_object(path: Path, made: list[str], target: Any, device: str | None) -> None:
    tagged(0, 3000).memmap(path)
    loaded = target.load_memmap(path, device=device)
    assert loaded.batch_size == torch.Size([3000])
    assert made == []
    assert loaded.get("tags")[7:9].tolist() == [["tag 7"], ["tag 8"]]
    assert len(made) == 2
    if device is None:
        assert (loaded[9].get("tags").data if target is TensorDict else loaded[9].tags.item()) == ["tag 9"]
        assert "tag 0" in repr(loaded)
        assert len(pickle.dumps(loaded[2900:2910].get("tags"))) < 2000
        assert len(made) < 30


def test_objects_of_a_folder_keep_changes_and_copies_are_apart(path: Path) -> None:
    tagged(0, 1200).memmap(path)
    loaded = Tagged.load_memmap(path)
    loaded.tags[3].append("more")
    copies = [loaded.clone(), copy.deepcopy(loaded)]
    loaded.tags[3].append("after")
    assert loaded.tags[3] is loaded[2:].tags[1]
    assert loaded.tags[3] == ["tag 3", "more", "after"] == loaded.tags.tolist()[3]
    for each in copies:
        assert each.tags[3] == ["tag 3", "more"]
        each.tags[4].append("here alone")
        assert each.tags.tolist()[3:5] == [["tag 3", "more"], ["tag 4", "here alone"]]
    assert loaded.tags[4] == ["tag 4"]


def test_an_object_of_a_folder_is_checked_when_it_is_read(path: Path) -> None:
    TensorDict({"tags": Column([["a"]] * 1100 + [[1]]), "x": torch.arange(1101)}, [1101]).memmap(path)
    loaded = Tagged.load_memmap(path)
    assert loaded.tags[:3].tolist() == [["a"]] * 3
    message = r"tags: Column\[list\[str\]\]: row 1100: expected list\[str\], got list \[1\]"
    for read in (lambda: loaded.tags[1100], lambda: loaded.tags.tolist(), lambda: loaded[1100].tags.item()):
        with pytest.raises(FileError, match=message):
            read()
    with pytest.raises(ValueError, match="checksums"):  # nothing was asked for
        Tagged.load_memmap(path, verify=True)

    class Named(TensorClass, stack_objects=True):
        tags: list
        x: Tensor

    TensorDict({"tags": NonTensorStack(*[["a"]] * 1100, 1), "x": torch.arange(1101)}, [1101]).memmap(path)
    other: Any = Named.load_memmap(path)
    assert other[5].tags == ["a"]
    with pytest.raises(FileError, match=r"tags: Named.tags: expected list, got int 1"):
        _ = other[1100].tags


@pytest.mark.parametrize(
    "name, at, value, message",
    [
        ("values", 0, ord("{"), r"tags: row 0: "),
        ("values", 2, 255, r"tags: row 0: the bytes are not UTF-8"),
        ("spans", 0, -1, r"tags: row 0: expected items within the \d+ of the buffer, got start -1"),
        ("spans", 1, 10**9, r"tags: row 0: expected items within"),
        ("spans", 1, -1, r"tags: row 0: "),
        ("codes", 0, 10**9, r"tags: expected codes of its 1200 objects"),
    ],
)
def test_a_damaged_object_of_a_folder_is_an_error_that_names_it(
    path: Path, name: str, at: int, value: int, message: str
) -> None:
    tagged(0, 1200).memmap(path, checksum=True)
    file = path / "tags" / f"{name}.memmap"
    stored = np.fromfile(file, np.uint8 if name == "values" else np.int64)
    stored[at] = value
    stored.tofile(file)
    loaded = Tagged.load_memmap(path)
    assert loaded.tags[1:3].tolist() == [["tag 1"], ["tag 2"]]
    with pytest.raises(FileError, match=message):
        _ = loaded.tags[0]
    with pytest.raises(FileError, match="tags: "):
        loaded.tags.tolist()
    with pytest.raises(FileError, match="tags"):
        Tagged.load_memmap(path, verify=True)


def test_texts_of_objects_that_share_bytes_are_refused(path: Path) -> None:
    tagged(0, 1200).memmap(path)
    size = (path / "tags" / "values.memmap").stat().st_size
    np.array([[0, size]] * 1200, np.int64).tofile(path / "tags" / "spans.memmap")
    with pytest.raises(FileError, match=r"tags: its rows have .* some are shared"):
        Tagged.load_memmap(path).tags.tolist()


def test_a_pickle_of_an_object_is_not_loaded_unless_that_is_allowed(path: Path) -> None:
    many = [slice(row) for row in range(1200)]
    TensorDict({"slices": Column(many)}, [1200]).memmap(path, allow_pickle=True)
    with pytest.raises(FileError, match=r"slices: row 0: .*pass allow_pickle=True"):
        TensorDict.load_memmap(path)["slices"]
    assert TensorDict.load_memmap(path, allow_pickle=True)["slices"] == many


@pytest.mark.parametrize("checked", [False, True])
def test_objects_of_older_folders_grow_in_arrays(path: Path, checked: bool, monkeypatch: Any) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(describe_collection, "ARRAYS_FROM", 10**9)  # as older versions wrote all objects
        tagged(0, 1200).memmap(path, checksum=checked)
        assert not (path / "tags" / "spans.memmap").exists()
        assert Tagged.load_memmap(path).tags[7] == ["tag 7"]
    for start in (1200, 1220):
        Tagged.append_memmap(path, tagged(start, 20))
        assert (path / "tags" / "spans.memmap").is_file()
    assert Tagged.load_memmap(path, verify=checked).tags.tolist() == tagged(0, 1240).tags.tolist()


def test_other_objects_are_appended_to_one_of_all_rows(path: Path) -> None:
    TensorDict({"of": NonTensorData(("all",), batch_size=[1500])}, [1500]).memmap(path)
    TensorDict.append_memmap(path, TensorDict({"of": NonTensorData(("all",), batch_size=[2])}, [2]))
    assert not (path / "of" / "codes.memmap").exists()
    TensorDict.append_memmap(path, TensorDict({"of": NonTensorStack(("one",), "two")}, [2]))
    assert TensorDict.load_memmap(path)["of"].tolist() == [("all",)] * 1502 + [("one",), "two"]
    assert (path / "of" / "values.memmap").stat().st_size < 100


# ---------------------------------------------------------------------------------------------------------------------
# the peer


def test_the_peer_reads_a_nested_collection_of_two_arrays(path: Path) -> None:
    peer: Any = pytest.importorskip("tensordict")
    data = rows_of(1).exclude("strings")
    data.memmap(path)
    for loaded in (peer.TensorDict.load_memmap(path),):
        assert bytes(loaded["text", "values"].tolist()).decode() == "".join(row or "" for row in held(data)["text"])
        assert loaded["text", "spans"].tolist() == data["text"].spans.tolist()
        assert loaded["below", "deep", "values", "values"].tolist() == data["below", "deep"].values.values.tolist()
    data.consolidate(path.with_suffix(".one"))
    loaded = peer.TensorDict.from_consolidated(path.with_suffix(".one"))
    assert loaded["text", "spans"].tolist() == data["text"].spans.tolist()


def test_parts_of_different_shapes_have_columns_without_items_in_a_folder_like_them(path: Path) -> None:
    parts = lazy_stack([TensorDict({"a": torch.ones(n), "text": Text("ab")}) for n in (1, 3)])
    made = TensorDict({"parts": parts, "objects": ["x", "y"]}, [2]).memmap_like(path)
    assert [str(part["text"]) for part in made.get("parts")] == ["", ""]
    assert [part["a"].shape[0] for part in made.get("parts")] == [1, 3]
    assert made["objects"] == ["x", "y"]
