"""One rule for names, arguments and results of what reads and writes; docs/convert.md and docs/storage.md state it."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import tensorclass
from tensorclass import Stage, TensorDict
from tensorclass.storage import PersistentTensorDict

ROOT = Path(__file__).resolve().parent.parent


class Point(NamedTuple):
    x: Any


@dataclasses.dataclass
class Row:
    x: Any


def data() -> TensorDict:
    return TensorDict({"x": torch.arange(3.0)}, [3])


#: writers of the package's own storage, which have verbs as names; they give a collection on what was written
STAYS: dict[str, Callable[[Path], Any]] = {
    "memmap": lambda path: data().memmap(path),
    "memmap_": lambda path: data().memmap_(path),
    "memmap_like": lambda path: data().memmap_like(path),
    "save": lambda path: data().save(path),
    "dumps": lambda path: data().dumps(path),
    "consolidate": lambda path: data().consolidate(path),
    "to_h5": lambda path: data().to_h5(path),
    "to_zarr": lambda path: data().to_zarr(path),
}
#: writers of files that are closed when they return
WRITES: dict[str, Callable[[Path], Any]] = {
    "to_csv": lambda path: data().to_csv(path),
    "to_feather": lambda path: data().to_feather(path),
    "to_json": lambda path: data().to_json(path),
    "to_parquet": lambda path: data().to_parquet(path),
    "to_safetensors": lambda path: data().to_safetensors(path),
    "save_safetensors": lambda path: data().save_safetensors(path),
    "append_memmap": lambda path: TensorDict.append_memmap(data().memmap(path).saved_path, data()),
}
#: what makes an object of another library or of Python
MAKES: dict[str, Callable[[], Any]] = {
    "to_arrow": lambda: data().to_arrow(),
    "to_dataclass": lambda: data().to_dataclass(Row),
    "to_dict": lambda: data().to_dict(),
    "to_huggingface": lambda: data().to_huggingface(),
    "to_namedtuple": lambda: data().to_namedtuple(Point),
    "to_pandas": lambda: data().to_pandas(),
    "to_polars": lambda: data().to_polars(),
    "to_pytree": lambda: TensorDict.from_pytree([1]).to_pytree(),
    "to_struct_array": lambda: data().to_struct_array(),
    "to_tuple": lambda: data().to_tuple(),
    "to_pytorch_tensordict": lambda: data().to_pytorch_tensordict(),
}
#: the reader of what a writer wrote
READERS = {
    "memmap": "load_memmap",
    "save": "load",
    "dumps": "load",
    "consolidate": "from_consolidated",
    "save_safetensors": "load_safetensors",
}
#: methods of other subjects, whose names begin as those of converters do
OTHERS = {
    "from_any", "from_attrs", "from_pydantic", "from_ray_dataset", "to_attrs", "to_pydantic", "to_ray_dataset",
    "from_dict_instance", "from_list", "from_module", "from_modules", "from_remote_init", "from_schema", "from_store",
    "from_tensordict", "to_lazystack", "to_module", "to_padded_tensor", "to_tensordict", "load_state_dict",
    "iter_ray_dataset", "saved_path", "to_store", "to", "load_", "load_memmap_", "memmap_refresh_",
}  # fmt: skip
#: readers of tables
TABLES = {
    "arrow", "csv", "feather", "huggingface", "json", "pandas", "parquet", "polars", "ray_dataset", "struct_array",
}  # fmt: skip
_NAMES = re.compile(r"(to|from|iter|save|load|append|memmap|dumps|consolidate)(_|$)|memmap_|saved")


def _public() -> dict[str, Any]:
    """The public methods of collections and functions of the package, by name."""
    found = {name: getattr(TensorDict, name) for name in dir(TensorDict()) if not name.startswith("_")}
    found |= {name: getattr(tensorclass, name) for name in tensorclass.functions.__all__}
    return {name: value for name, value in found.items() if callable(value)} | {"Stage.run": Stage.run}


def test_each_name_is_in_a_table_and_has_its_inverse() -> None:
    known = {*STAYS, *WRITES, *MAKES}
    readers = {READERS.get(name, name.replace("to_", "from_", 1)) for name in known - {"append_memmap"}}
    readers -= {"memmap_", "memmap_like"}
    names = {name for name in dir(TensorDict()) if _NAMES.match(name)}
    batches = {name for name in names if name.startswith("iter_")}
    assert all(name.replace("iter_", "from_") in names for name in batches)
    assert names - OTHERS - batches == known | readers


@pytest.mark.parametrize("name", STAYS)
def test_where_the_collection_stays_a_writer_gives_the_collection_there(name: str, tmp_path: Path) -> None:
    made = STAYS[name](tmp_path / "a")
    assert isinstance(made, TensorDict if not name.startswith("to_") else PersistentTensorDict)
    made["x"][0] = 7.0 if not isinstance(made, PersistentTensorDict) else 0.0
    if isinstance(made, PersistentTensorDict):
        made[0] = TensorDict({"x": torch.tensor(7.0)})
        made.close()
    reader = READERS.get(name, "load_memmap" if name.startswith("memmap_") else name.replace("to_", "from_", 1))
    found = getattr(TensorDict, reader)(tmp_path / "a")
    assert isinstance(found, TensorDict | PersistentTensorDict)
    if name != "consolidate":  # its memory is private
        assert float(found["x"][0]) == 7
    if isinstance(found, PersistentTensorDict):
        found.close()


@pytest.mark.parametrize("name", WRITES)
def test_a_writer_of_a_file_gives_nothing_and_its_reader_a_collection(name: str, tmp_path: Path) -> None:
    assert WRITES[name](tmp_path / "a") is None
    reader = {"append_memmap": "load_memmap"}.get(name, READERS.get(name, name.replace("to_", "from_", 1)))
    assert isinstance(getattr(TensorDict, reader)(tmp_path / "a"), TensorDict)


@pytest.mark.parametrize("name", MAKES)
def test_a_converter_gives_the_object(name: str) -> None:
    if name == "to_huggingface":
        pytest.importorskip("datasets")
    made = MAKES[name]()
    assert made is not None
    assert not isinstance(made, TensorDict)
    assert isinstance(getattr(TensorDict, name.replace("to_", "from_", 1))(made), TensorDict)


def test_archives_give_their_path(tmp_path: Path) -> None:
    data().memmap(tmp_path / "a")
    packed = tensorclass.pack_memmap(tmp_path / "a", tmp_path / "a.tdz")
    assert packed == tmp_path / "a.tdz"
    assert tensorclass.unpack_memmap(packed, tmp_path / "b") == tmp_path / "b"


def test_a_progress_bar_is_progress_or_pbar_everywhere() -> None:
    found = 0
    for name, function in _public().items():
        arguments = inspect.signature(function).parameters
        assert ("progress" in arguments) == ("pbar" in arguments), name
        if "progress" in arguments:
            found += 1
            assert arguments["progress"].default is arguments["pbar"].default is None, name
            assert "pbar: another name of ``progress``" in (inspect.getdoc(function) or ""), name
    assert found >= 15


def test_both_names_of_an_argument_must_agree(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data().memmap(tmp_path / "a", pbar=True)
    assert "memmap" in capfd.readouterr().err
    data().memmap(tmp_path / "a", pbar=False, progress=False)
    assert not capfd.readouterr().err
    with pytest.raises(TypeError, match="memmap: got progress=True and pbar=False, two names of one argument"):
        data().memmap(tmp_path / "a", progress=True, pbar=False)


def test_readers_agree_on_their_arguments() -> None:
    for name, function in _public().items():
        if not name.startswith(("from_", "iter_", "load_")) or name in OTHERS - {
            "from_ray_dataset",
            "iter_ray_dataset",
        }:
            continue
        arguments = inspect.signature(function).parameters
        assert "strict" in arguments or name in ("from_attrs", "from_dataclass", "from_pydantic"), name
        assert "device" in arguments or name in ("from_attrs", "from_dataclass", "from_pydantic"), name
        assert ("rename" in arguments) == (name.partition("_")[2] in TABLES), name
        assert ("columns" in arguments) == (name.partition("_")[2] in TABLES - {"struct_array"}), name


@pytest.mark.parametrize("method", ["save", "memmap", "dumps", "memmap_", "memmap_like"])
@pytest.mark.parametrize(
    "suffix", [".pt", ".pth", ".safetensors", ".h5", ".zarr", ".parquet", ".csv", ".jsonl", ".zip"]
)
def test_a_folder_does_not_get_the_name_of_a_file_of_another_format(method: str, suffix: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"no {suffix} file. To write that, call \w+\.\w+\(.*'x{suffix}'"):
        getattr(data(), method)(tmp_path / f"x{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_such_a_name_that_is_there_is_replaced_and_dots_are_no_suffix(tmp_path: Path) -> None:
    data().memmap(tmp_path / "x")
    (tmp_path / "x").rename(tmp_path / "x.pt")
    assert (data() + 1).save(tmp_path / "x.pt")["x"].tolist() == [1, 2, 3]
    assert TensorDict.load(tmp_path / "x.pt")["x"].tolist() == [1, 2, 3]
    assert data().save(tmp_path / "run 1.2").is_memmap()
    assert data().save(tmp_path / "x.zip", archive=True)["x"].tolist() == [0, 1, 2]


def test_what_the_errors_tell_to_call_writes_that_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in (
        ".pt",
        ".safetensors",
        ".h5",
        ".zarr",
        ".parquet",
        ".feather",
        ".csv",
        ".json",
        ".npy",
        ".npz",
        ".zip",
    ):
        with pytest.raises(ValueError, match="To write that") as caught:
            data().save(f"x{suffix}")
        found = re.search(r"To write that, call (.*); for a folder", str(caught.value))
        assert found
        made = eval(found[1], {"torch": torch, "numpy": np, "data": data()})
        if isinstance(made, PersistentTensorDict):
            made.close()
        assert (tmp_path / f"x{suffix}").exists()


def test_arguments_in_the_wrong_order_are_told(tmp_path: Path) -> None:
    swapped: Any = tensorclass.save
    with pytest.raises(TypeError, match=r"memmap: expected a path, .*got TensorDict; the collection comes first"):
        swapped(str(tmp_path / "x"), data())


@pytest.mark.parametrize("page", ["convert.md", "storage.md"])
def test_the_pages_state_the_rule_with_all_names(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    rule = re.search(r"\n## Names and results\n(.*?)\n## ", text, re.S)
    assert rule
    names = {*STAYS, *WRITES} if page == "storage.md" else {"to_x", "from_x", "iter_x"}
    names -= {"to_csv", "to_feather", "to_json", "to_parquet"}
    assert [name for name in sorted(names) if f"`{name}" not in rule[1]] == []
