"""`tensorclass inspect` tells what is in a file of each format; `tensorclass convert` writes it in another one."""

from __future__ import annotations

import json
import re
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pyarrow as pa
import pyarrow.feather
import pytest
import safetensors.torch
import torch
from torch import Tensor

import tensorclass as tc
from tensorclass import Ragged, TensorClass, TensorDict, Text
from tensorclass.cli import main
from tensorclass.inspection import describe_file
from tensorclass.inspection.convert_command import convert_file


class Row(TensorClass):
    x: Tensor
    text: Text
    tokens: Ragged
    inner: TensorDict


def rows(count: int = 5) -> Row:
    inner = TensorDict({"y": torch.arange(2.0 * count).reshape(count, 2)}, [count])
    tokens = [list(range(i % 3)) for i in range(count)]
    return Row(torch.arange(count), [f"é{i}" for i in range(count)], tokens, inner, batch_size=[count])


WRITE: dict[str, Callable[[Row, Path], Any]] = {
    "rows": lambda data, path: data.memmap(path),
    "rows.tdz": lambda data, path: data.memmap(path, archive=True),
    "rows.safetensors": lambda data, path: data.save_safetensors(path),
    "rows.td": lambda data, path: data.consolidate(filename=path),
    "rows.h5": lambda data, path: data.to_h5(path).close(),
    "rows.zarr": lambda data, path: data.to_zarr(path).close(),
    "rows.parquet": lambda data, path: data.to_parquet(path),
    "rows.feather": lambda data, path: data.to_feather(path),
    "rows.jsonl": lambda data, path: data.to_json(path),
}
NAMED = ("rows", "rows.tdz", "rows.safetensors", "rows.td", "rows.h5", "rows.zarr")
READ: dict[str, Callable[[Path], Any]] = {
    "rows": TensorDict.load_memmap,
    "rows.tdz": TensorDict.load_memmap,
    "rows.safetensors": TensorDict.load_safetensors,
    "rows.td": TensorDict.from_consolidated,
    "rows.h5": TensorDict.from_h5,
    "rows.zarr": TensorDict.from_zarr,
    "rows.parquet": TensorDict.from_parquet,
    "rows.feather": TensorDict.from_feather,
    "rows.jsonl": TensorDict.from_json,
}


@pytest.mark.parametrize("name", WRITE)
@pytest.mark.parametrize("verify", [False, True])
def test_inspect_tells_what_is_there(name: str, verify: bool, tmp_path: Path) -> None:
    WRITE[name](rows(), tmp_path / name)
    found = describe_file(tmp_path / name, rows=2, verify=verify)
    assert (found.rows, found.batch_size, found.verified) == (5, (5,), verify)
    fields = {one.name: one for one in found.fields}
    assert list(fields) == ["x", "text", "tokens", "inner.y"]
    assert (fields["x"].dtype, fields["x"].shape, fields["x"].bytes) == ("int64", (), 40)
    assert (fields["inner.y"].dtype.startswith("float"), fields["inner.y"].shape) == (True, (2,))
    assert (fields["text"].kind, fields["tokens"].kind, fields["tokens"].dtype) == ("text", "ragged", "int64")
    assert found.class_name == (f"{__name__}.Row" if name in NAMED else None)
    assert "'é0', 'é1'" in found.first
    assert "é2" not in found.first
    assert "5 rows" in str(found)
    assert json.loads(json.dumps(found.to_dict()))["format"] == found.format


@pytest.mark.parametrize("name", ["rows", "rows.safetensors", "rows.h5", "rows.zarr"])
def test_verify_finds_damage(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, path = TensorDict({"x": torch.full((1000,), 7.5)}, [1000]), tmp_path / name
    if name == "rows":
        data.memmap(path, checksum=True)
    elif name == "rows.safetensors":
        data.save_safetensors(path, checksum=True)
    elif name == "rows.h5":
        data.to_h5(path, checksum=True).close()
    else:
        data.to_zarr(path, checksum=True, compressors=None).close()
    assert main(["inspect", str(path), "--verify"]) == 0
    assert "with checksums, intact" in capsys.readouterr().out
    value = torch.tensor(7.5).numpy().tobytes()
    for file in [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]:
        content = file.read_bytes()
        if value * 100 in content:
            at = content.index(value * 100) + 200
            file.write_bytes(content[:at] + b"\x01" + content[at + 1 :])
    assert main(["inspect", str(path)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(path), "--verify"]) == 2
    assert "checksum" in capsys.readouterr().err


@pytest.mark.parametrize("source", WRITE)
@pytest.mark.parametrize("target", READ)
def test_convert_keeps_all_rows(source: str, target: str, tmp_path: Path) -> None:
    WRITE[source](rows(), tmp_path / source)
    (tmp_path / "new").mkdir()
    assert convert_file(tmp_path / source, tmp_path / "new" / target, rows=2) == 5
    assert [one.name for one in (tmp_path / "new").iterdir()] == [target]
    made = READ[target](tmp_path / "new" / target)
    data = rows()
    assert made["x"].tolist() == data.x.tolist()
    assert made["text"].tolist() == data.text.tolist()
    assert made["tokens"].tolist() == data.tokens.tolist()
    assert made["inner", "y"].tolist() == data.inner["y"].tolist()
    if hasattr(made, "close") and target in ("rows.h5", "rows.zarr"):
        made.close()


def test_files_of_other_programs(tmp_path: Path) -> None:
    safetensors.torch.save_file({"weight": torch.zeros(2, 3)}, tmp_path / "model.safetensors")
    found = describe_file(tmp_path / "model.safetensors")
    assert (found.rows, found.fields[0].shape, found.fields[0].bytes, found.class_name) == (None, (2, 3), 24, None)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["a"] = torch.zeros(4, 2).numpy()
    assert describe_file(tmp_path / "other.h5").rows == 4
    (tmp_path / "rows.csv").write_text('a,b\n1,"x\ny"\n2,z\n')
    assert describe_file(tmp_path / "rows.csv").rows == 2
    assert convert_file(tmp_path / "rows.csv", tmp_path / "again.csv", rows=1) == 2
    assert TensorDict.from_csv(tmp_path / "again.csv")["b"].tolist() == ["x\ny", "z"]
    torch.save({"w": torch.zeros(3)}, tmp_path / "state.pt")
    assert describe_file(tmp_path / "state.pt").fields[0].name == "w"
    pyarrow.feather.write_feather(pa.table({"a": [1, None]}), tmp_path / "rows.arrow")
    assert [one.name for one in describe_file(tmp_path / "rows.arrow").fields] == ["a", "_mask.a"]
    with pytest.raises(ValueError, match="a: expected no nulls, got 1 null"):
        convert_file(tmp_path / "rows.arrow", tmp_path / "nulls.h5")
    assert convert_file(tmp_path / "rows.arrow", tmp_path / "nulls.parquet", nulls="fill") == 2
    assert TensorDict.from_parquet(tmp_path / "nulls.parquet")["a"].tolist() == [1, 0]


def test_a_collection_without_rows_and_one_without_batch_dimensions(tmp_path: Path) -> None:
    rows(0).memmap(tmp_path / "none")
    assert convert_file(tmp_path / "none", tmp_path / "none.h5") == 0
    assert describe_file(tmp_path / "none.h5").rows == 0
    TensorDict({"w": torch.ones(2)}).memmap(tmp_path / "whole")
    assert convert_file(tmp_path / "whole", tmp_path / "whole.safetensors") is None
    assert tc.load_safetensors(tmp_path / "whole.safetensors")["w"].tolist() == [1, 1]


@pytest.mark.parametrize("name", ["stack", "stack.h5", "stack.zarr"])
def test_a_lazy_stack_is_described_and_verified(name: str, tmp_path: Path) -> None:
    stack = tc.lazy_stack([TensorDict({"w": torch.ones(2)}) for _ in range(3)])
    write = {"stack": stack.memmap, "stack.h5": stack.to_h5, "stack.zarr": stack.to_zarr}[name]
    write(tmp_path / name, checksum=True)
    found = describe_file(tmp_path / name, verify=True)
    assert (found.rows, found.fields[0].shape, found.verified) == (3, (2,), True)


@pytest.mark.parametrize("name", ["rows.parquet", "rows.td", "rows.h5", "rows.safetensors", "rows.tdz"])
def test_the_end_of_its_name_says_what_a_damaged_file_was(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("some text, and no rows")
    with pytest.raises(ValueError, match=name) as error:
        describe_file(tmp_path / name)
    assert "unknown format" not in str(error.value)


@pytest.mark.parametrize("folder", [False, True])
def test_a_file_that_is_there_stays_unless_told(
    folder: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "rows" if folder else "rows.parquet"
    WRITE[name](rows(3), tmp_path / name)
    WRITE["rows.jsonl"](rows(5), tmp_path / "rows.jsonl")
    command = ["convert", str(tmp_path / "rows.jsonl"), str(tmp_path / name)]
    assert main(command) == 2
    assert "there is a file of this name" in capsys.readouterr().err
    assert describe_file(tmp_path / name).rows == 3
    assert main([*command, "--overwrite"]) == 0
    assert "5 rows" in capsys.readouterr().out
    assert describe_file(tmp_path / name).rows == 5
    (tmp_path / "rows.jsonl").write_text('{"x": 1}\n{"x": ')
    assert main([*command, "--overwrite"]) == 2
    assert describe_file(tmp_path / name).rows == 5
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    "command, message",
    [
        (["inspect", "nothing"], "tensorclass inspect: nothing: no such file"),
        (["inspect", "empty"], "an unknown format; known are .*the file is empty"),
        (["inspect", "text"], "an unknown format"),
        (["convert", "nothing", "new.h5"], "tensorclass convert: nothing: no such file"),
        (["convert", "rows.csv", "new.xyz"], "the end of the name says no format; name it with --to"),
        (["convert", "rows.csv", "new", "--to", "xls"], "to: expected one of memmap"),
        (["convert", "rows.csv", "new", "--rows", "0"], "rows: expected at least 1"),
        (["inspect", "record.pt"], "weights_only=True"),
    ],
)
def test_mistakes_are_told(
    command: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("text").write_text("hello")
    Path("rows.csv").write_text("a\n1\n")
    torch.save(print, "record.pt")
    before = sorted(tmp_path.iterdir())
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert re.search(message, error), error
    assert sorted(tmp_path.iterdir()) == before


@pytest.fixture
def absent() -> type[TensorClass]:
    """A record class, with a nested one, of a module that is not imported where files are converted."""

    class Inner(TensorClass):
        y: Tensor
        note: Tensor | None = None

    class Sample(TensorClass):
        x: Tensor
        inner: Inner

    for cls in (Inner, Sample):
        cls.__module__, cls.__qualname__ = "samples_of_another_program", cls.__name__
    return Sample


@pytest.mark.parametrize("target", NAMED)
def test_names_of_classes_that_are_not_imported_are_kept(
    target: str, absent: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = absent._specs["inner"].target(absent)
    absent(torch.arange(5), inner(torch.arange(5), batch_size=[5]), batch_size=[5]).memmap(tmp_path / "source")
    convert_file(tmp_path / "source", tmp_path / target, rows=2)
    assert describe_file(tmp_path / target).class_name == "samples_of_another_program.Sample"
    convert_file(tmp_path / target, tmp_path / "back", rows=3)
    assert type(tc.load(tmp_path / "back")) is TensorDict
    module: Any = types.ModuleType(absent.__module__)
    module.Sample, module.Inner = absent, inner
    monkeypatch.setitem(sys.modules, absent.__module__, module)
    found = tc.load(tmp_path / "back")
    assert (type(found), type(found.inner), found.inner.note) == (absent, inner, None)
    assert found.x.tolist() == found.inner.y.tolist() == [0, 1, 2, 3, 4]


def test_tables_of_such_classes_can_be_written(absent: Any, tmp_path: Path) -> None:
    inner = absent._specs["inner"].target(absent)
    absent(torch.arange(5), inner(torch.arange(5), batch_size=[5]), batch_size=[5]).memmap(tmp_path / "source")
    assert convert_file(tmp_path / "source", tmp_path / "rows.parquet", rows=2) == 5
    assert TensorDict.from_parquet(tmp_path / "rows.parquet")["inner", "y"].tolist() == [0, 1, 2, 3, 4]
