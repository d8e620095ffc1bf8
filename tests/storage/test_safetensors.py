"""Collections in one file of the safetensors format."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tensorclass import TensorClass, TensorDict, lazy_stack
from tensorclass.storage import FileError
from tests.storage.memmap.test_memmap_folder import Inner, Sample, a_tree


def test_a_tree_comes_back_as_it_was_written(tmp_path: Path) -> None:
    data = a_tree()
    data.save_safetensors(tmp_path / "f")
    loaded = TensorDict.load_safetensors(tmp_path / "f")
    assert set(loaded.keys(True)) == set(data.keys(True))
    assert loaded.names == ["time"]
    for key in ("a", ("b", "c"), ("b", "d/e"), "one", "shape", "empty"):
        assert loaded[key].dtype == data[key].dtype
        assert torch.equal(loaded[key], data[key])
    assert loaded["text"] == "hello"
    assert loaded["rows"] == ["u", "v"]


def test_a_record_comes_back_as_one(tmp_path: Path) -> None:
    data = Sample(x=torch.rand(2, 3), text="t", inner=Inner(q=torch.ones(2), batch_size=[2]), batch_size=[2])
    data.save_safetensors(tmp_path / "f")
    loaded = Sample.load_safetensors(tmp_path / "f")
    assert type(loaded) is Sample
    assert type(loaded.inner) is Inner
    assert torch.equal(loaded.x, data.x)


def test_keys_with_dots_are_told_from_nested_ones(tmp_path: Path) -> None:
    data = TensorDict({"a.b": torch.zeros(1), "a": {"b": torch.ones(1)}, "a%2Eb": torch.ones(2)})
    data.save_safetensors(tmp_path / "f")
    loaded = TensorDict.load_safetensors(tmp_path / "f")
    assert (loaded["a.b"].item(), loaded["a", "b"].item(), loaded["a%2Eb"].tolist()) == (0.0, 1.0, [1.0, 1.0])


def test_another_tool_reads_the_tensors(tmp_path: Path) -> None:
    a_tree().save_safetensors(tmp_path / "f")
    assert torch.equal(load_file(tmp_path / "f")["b.c"], a_tree()["b", "c"])


def test_a_file_of_another_tool_is_a_flat_collection(tmp_path: Path) -> None:
    save_file({"layer.weight": torch.ones(2, 3), "bias": torch.zeros(2)}, tmp_path / "f")
    loaded = TensorDict.load_safetensors(tmp_path / "f")
    assert sorted(loaded.keys()) == ["bias", "layer.weight"]
    assert loaded["layer.weight"].shape == (2, 3)


def test_tensors_that_share_memory_or_are_not_contiguous_are_written(tmp_path: Path) -> None:
    x = torch.arange(6.0).view(2, 3)
    TensorDict(a=x, b=x, c=x.T, d=x[1]).save_safetensors(tmp_path / "f")
    loaded = TensorDict.load_safetensors(tmp_path / "f")
    assert torch.equal(loaded["b"], x)
    assert torch.equal(loaded["c"], x.T)
    assert torch.equal(loaded["d"], x[1])


def test_some_keys_are_read_alone(tmp_path: Path) -> None:
    a_tree().save_safetensors(tmp_path / "f")
    loaded = TensorDict.load_safetensors(tmp_path / "f", keys=["a", ("b", "c")])
    assert set(loaded.keys(True)) == {"a", "b", ("b", "c")}
    with pytest.raises(KeyError, match="nothing"):
        TensorDict.load_safetensors(tmp_path / "f", keys=["nothing"])


class Point(TensorClass):
    x: Tensor
    y: Tensor


def test_a_part_of_a_record_is_read_as_a_collection(tmp_path: Path) -> None:
    point = Point(x=torch.zeros(2), y=torch.ones(2), batch_size=[2])
    TensorDict({"p": point, "q": point}, [2]).save_safetensors(tmp_path / "f")
    point.save_safetensors(tmp_path / "point")
    loaded = TensorDict.load_safetensors(tmp_path / "f", keys=[("p", "x"), "q"])
    assert type(loaded["p"]) is TensorDict
    assert list(loaded["p"].keys()) == ["x"]
    assert type(loaded["q"]) is Point
    with pytest.raises(ValueError, match=r"missing.*\['y'\]"):
        Point.load_safetensors(tmp_path / "point", keys=["x"])


def test_an_object_that_json_lacks_is_refused_without_naming_an_argument_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"^save_safetensors: nothing was written; a: a builtins.object") as error:
        TensorDict(a=object()).save_safetensors(tmp_path / "f")
    assert "allow_pickle" not in str(error.value)


def test_a_lazy_stack_and_jagged_tensors_come_back(tmp_path: Path) -> None:
    rows = lazy_stack([TensorDict({"a": torch.zeros(3)}), TensorDict({"a": torch.ones(4)})])
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)], layout=torch.jagged)
    TensorDict({"rows": rows, "ragged": ragged}, [2]).save_safetensors(tmp_path / "f")
    loaded = TensorDict.load_safetensors(tmp_path / "f")
    assert loaded["rows"][1]["a"].tolist() == [1.0] * 4
    assert [row.tolist() for row in loaded["ragged"].unbind()] == [[0.0, 0.0], [1.0, 1.0, 1.0]]


def test_a_dtype_that_the_format_lacks_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"\['z'\]"):
        TensorDict(a=torch.ones(1), z=torch.ones(1, dtype=torch.complex128)).save_safetensors(tmp_path / "f")
    assert os.listdir(tmp_path) == []


def test_loaded_values_belong_to_the_process(tmp_path: Path) -> None:
    TensorDict(a=torch.zeros(3)).save_safetensors(tmp_path / "f")
    TensorDict.load_safetensors(tmp_path / "f")["a"].fill_(1.0)
    assert TensorDict.load_safetensors(tmp_path / "f")["a"].tolist() == [0.0] * 3


@pytest.mark.parametrize("keep", [0, 7, 100])
def test_a_cut_file_is_an_error_that_names_it(tmp_path: Path, keep: int) -> None:
    a_tree().save_safetensors(tmp_path / "f")
    os.truncate(tmp_path / "f", keep)
    with pytest.raises(FileError, match=str(tmp_path / "f")):
        TensorDict.load_safetensors(tmp_path / "f")


def test_metadata_that_does_not_fit_the_tensors_is_an_error(tmp_path: Path) -> None:
    TensorDict(a=torch.zeros(3)).save_safetensors(tmp_path / "f")
    with safe_open(tmp_path / "f", "pt") as file:
        metadata = file.metadata()
    known = json.loads(metadata["tensorclass"])
    for change in ({"shape": [4]}, {"dtype": "float64"}, {"dtype": "object"}, {"shape": [-1]}, {"type": "q"}):
        node = {**known["tree"], "entries": {"a": {**known["tree"]["entries"]["a"], **change}}}
        text = json.dumps({**known, "tree": node})
        save_file({"a": torch.zeros(3)}, tmp_path / "g", metadata={**metadata, "tensorclass": text})
        with pytest.raises(FileError, match="a: "):
            TensorDict.load_safetensors(tmp_path / "g")


def test_a_record_gets_defaults_for_fields_that_the_file_lacks(tmp_path: Path) -> None:
    class Grown(TensorClass):
        x: Tensor
        scale: float = 2.0

    TensorDict(x=torch.ones(2)).save_safetensors(tmp_path / "f")
    assert Grown.load_safetensors(tmp_path / "f").scale == 2.0


def test_a_file_whose_tree_is_lost_is_not_taken_for_one_from_elsewhere(tmp_path: Path) -> None:
    TensorDict({"a": {"b": torch.zeros(3)}}).save_safetensors(tmp_path / "f")
    text = (tmp_path / "f").read_bytes()
    (tmp_path / "f").write_bytes(text.replace(b'"tensorclass":', b'"tensorclasr":'))
    with pytest.raises(FileError, match="tensorclass_version"):
        TensorDict.load_safetensors(tmp_path / "f")
