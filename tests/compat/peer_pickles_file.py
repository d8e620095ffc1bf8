"""Write the pickles that test_peer_pickles.py reads, by tensordict: `python tests/compat/peer_pickles_file.py`.

The record class is that of the tests: pickles name it by its module, which both have.
"""

from __future__ import annotations

import base64
import json
import pickle
import sys
import types
from pathlib import Path

import torch
from tensordict import (
    LazyStackedTensorDict,
    MetaData,
    NonTensorData,
    NonTensorStack,
    TensorDict,
    UnbatchedTensor,
    tensorclass,
)
from tensordict.nn import TensorDictModule, TensorDictParams


class Step:
    x: torch.Tensor
    text: str | None = None


def main() -> None:
    """Write the file."""
    module = sys.modules["peer_pickle_records"] = types.ModuleType("peer_pickle_records")
    Step.__module__ = module.__name__
    module.Step = record = tensorclass(Step)
    data = TensorDict(x=torch.arange(2.0), nested=TensorDict(text="a"), batch_size=[2], names=["t"])
    values = {
        "data": data,
        "locked": data.clone().lock_(),
        "rows": data._get_sub_tensordict(torch.tensor([1])),
        "lazy": LazyStackedTensorDict(data, data.clone(), stack_dim=1),
        "record": record(torch.ones(2), "a", batch_size=[2]),
        "record with None": record(torch.ones(2), batch_size=[2]),
        "object": NonTensorData("a", batch_size=[2]),
        "objects": NonTensorStack("a", "b"),
        "metadata": MetaData(3),
        "parameters": TensorDictParams(TensorDict(w=torch.zeros(1))),
        "unbatched": UnbatchedTensor(torch.ones(2)),
        "consolidated": TensorDict(
            a=torch.arange(3.0), b=TensorDict(c="x", d=torch.ones(2, dtype=torch.bool))
        ).consolidate(),
        "module": TensorDictModule(torch.nn.Identity(), ["a"], ["b"]),
    }
    text = {key: base64.b64encode(pickle.dumps(value)).decode() for key, value in values.items()}
    Path(__file__).with_name("peer_pickles.json").write_text(json.dumps(text, indent=1) + "\n")


if __name__ == "__main__":
    main()
