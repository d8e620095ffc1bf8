"""Consolidated files that the peer wrote are read here, and the other way round."""

from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch

import tensorclass

pytestmark = pytest.mark.parity

VALUES: dict[str, Any] = {
    "a": torch.arange(6.0).view(2, 3),
    "b": {"c": torch.ones(2, dtype=torch.uint8), "d.e": torch.ones(2, 5, dtype=torch.int16)},
    "z": torch.arange(2, dtype=torch.float64),
    "empty": torch.zeros(2, 0),
    "text": "hello",
}


@pytest.mark.parametrize("writer, reader", [(tensordict, tensorclass), (tensorclass, tensordict)])
def test_a_file_of_one_is_read_by_the_other(tmp_path: Path, writer: Any, reader: Any) -> None:
    data = writer.TensorDict(VALUES, [2], names=["time"])
    packed = data.consolidate(tmp_path / "f")
    loaded = reader.TensorDict.from_consolidated(tmp_path / "f")
    assert packed.is_locked
    assert loaded.names == ["time"]
    assert loaded["text"] == "hello"
    for key in ("a", ("b", "c"), ("b", "d.e"), "z", "empty"):
        assert torch.equal(loaded[key], data[key])
        assert loaded[key].dtype == data[key].dtype


@pytest.mark.parametrize("writer, reader", [(tensordict, tensorclass), (tensorclass, tensordict)])
def test_lazy_stacks_of_one_are_read_by_the_other(tmp_path: Path, writer: Any, reader: Any) -> None:
    rows = [writer.TensorDict(a=torch.ones(2)), writer.TensorDict(a=torch.ones(3) * 2)]
    writer.TensorDict({"rows": writer.lazy_stack(rows)}, [2]).consolidate(tmp_path / "f")
    loaded = reader.TensorDict.from_consolidated(tmp_path / "f")
    assert loaded["rows"][1]["a"].tolist() == [2.0] * 3


def test_a_jagged_tensor_of_the_peer_is_read(tmp_path: Path) -> None:
    ragged = torch.nested.nested_tensor([torch.zeros(2), torch.ones(3)], layout=torch.jagged)
    tensordict.TensorDict({"r": ragged}, [2]).consolidate(tmp_path / "f")
    loaded = tensorclass.TensorDict.from_consolidated(tmp_path / "f")
    assert [row.tolist() for row in loaded["r"].unbind()] == [[0.0, 0.0], [1.0, 1.0, 1.0]]


def test_what_the_peer_has_no_form_for_is_an_error_to_it(tmp_path: Path) -> None:
    data = tensorclass.TensorDict({"a": torch.ones(2), "t": b"x"})
    data.consolidate(tmp_path / "f")
    assert tensorclass.TensorDict.from_consolidated(tmp_path / "f")["t"] == b"x"
    with pytest.raises(KeyError):
        tensordict.TensorDict.from_consolidated(tmp_path / "f")
