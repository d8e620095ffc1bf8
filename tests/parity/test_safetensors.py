"""Files in the safetensors format that the peer wrote are read here, and the other way round."""

from pathlib import Path
from typing import Any

import pytest
import tensordict
import torch

import tensorclass

pytestmark = pytest.mark.parity


@pytest.mark.parametrize("ours", [True, False])
def test_a_file_of_one_is_read_by_the_other(tmp_path: Path, ours: bool) -> None:
    values: dict[str, Any] = {
        "a": torch.arange(6.0).view(2, 3),
        "b": {"c": torch.ones(2, dtype=torch.uint8), "d.e": torch.ones(2, 5, dtype=torch.int16)},
        "empty": torch.zeros(2, 0),
        "text": "hello",
    }
    if ours:
        tensorclass.TensorDict(values, [2], names=["time"]).to_safetensors(tmp_path / "f")
        loaded: Any = tensordict.from_safetensors(tmp_path / "f")
    else:
        tensordict.to_safetensors(tensordict.TensorDict(values, [2], names=["time"]), tmp_path / "f")
        loaded = tensorclass.TensorDict.from_safetensors(tmp_path / "f")
    assert loaded.names == ["time"]
    assert loaded["text"] == "hello"
    assert loaded.batch_size == (2,)
    assert torch.equal(loaded["a"], values["a"])
    assert loaded["empty"].shape == (2, 0)
    for key in ("c", "d.e"):
        assert torch.equal(loaded["b", key], values["b"][key])
        assert loaded["b", key].dtype == values["b"][key].dtype
