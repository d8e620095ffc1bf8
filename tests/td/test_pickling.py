"""Collections in pickles and in files of ``torch.save``."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tensorclass import NonTensorData, NonTensorStack, TensorClass, TensorDict
from tests import strategies as draw
from tests.checks import assert_consistent, assert_equal
from tests.samples import mixed, nested


class Record(TensorClass):
    """A record to be pickled."""

    x: Tensor
    text: str = "t"


def through_pickle(data: Any) -> Any:
    return pickle.loads(pickle.dumps(data))


def through_torch(data: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(data, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


through = pytest.mark.parametrize("through", [through_pickle, through_torch], ids=["pickle", "torch.save"])
Through = Callable[[Any], Any]


@through
def test_pickling_keeps_everything(through: Through) -> None:
    for data in (nested(device="cpu", names=["row"]), mixed()):
        result = through(data)
        assert_equal(result, data)
        assert result.device == data.device
        assert isinstance(result.batch_size, torch.Size)
        assert_consistent(result)


@through
def test_pickling_keeps_the_class_of_a_record(through: Through) -> None:
    data = TensorDict({"r": Record(torch.ones(3), "text", batch_size=[3])}, [3])
    result = through(data)
    assert type(result["r"]) is Record
    assert result["r"].text == "text"


@through
def test_pickling_keeps_what_is_shared_shared(through: Through) -> None:
    tensor, part = torch.zeros(3), TensorDict({"c": torch.zeros(3)}, [3])
    result = through(TensorDict({"a": tensor, "b": tensor, "p": part, "q": part}, [3]))
    assert result["a"] is result["b"]
    assert result["p"] is result["q"]


@through
def test_pickling_keeps_leaves_of_the_graph(through: Through) -> None:
    result = through(nested(requires_grad=True))
    assert all(leaf.requires_grad and leaf.is_leaf for leaf in result.values(True, True))


@through
@pytest.mark.parametrize(
    "value", [NonTensorData("text", batch_size=[2]), NonTensorStack("p", "q", "p"), NonTensorData({"a": [1]})], ids=repr
)
def test_non_tensor_data_is_pickled(through: Through, value: Any) -> None:
    result = through(value)
    assert type(result) is type(value)
    assert result.tolist() == value.tolist()
    assert result.batch_size == value.batch_size


@through
def test_a_loaded_collection_can_be_used(through: Through) -> None:
    result = through(mixed())
    result["new"] = torch.zeros(3)
    assert result[:2]["labels"] == ["p", "q"]
    assert (result.select("x") + 1)["x"][0, 0] == 1
    assert not result.is_locked


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_works(protocol: int) -> None:
    assert_equal(pickle.loads(pickle.dumps(mixed(), protocol)), mixed())


class Finder(pickle.Unpickler):
    """Remembers the modules that a pickle asks for."""

    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> Any:
        self.modules.add(module.split(".")[0])
        return super().find_class(module, name)


def test_a_pickle_asks_for_nothing_but_this_package_and_torch() -> None:
    finder = Finder(io.BytesIO(pickle.dumps(nested(device="cpu", names=["row"]))))
    finder.load()
    assert finder.modules <= {"tensorclass", "torch", "collections"}


@given(draw.trees(), draw.shapes(0, 2, min_size=1), st.data())
def test_any_collection_comes_back_from_a_pickle(tree: Any, batch_size: Any, data: st.DataObject) -> None:
    names = data.draw(draw.names_or_none(len(batch_size)))
    collection = tree.build(batch_size, names=names)
    assert_equal(through_pickle(collection), collection)
    assert_equal(copy.deepcopy(collection), collection)


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("data", [nested(), nested().consolidate()], ids=["separate tensors", "one buffer"])
def test_files_that_name_the_former_module_of_the_functions_are_read(data: Any, weights_only: bool) -> None:
    """Version 0.2.0 and earlier ones name ``tensorclass.td.state_dict``."""
    file = io.BytesIO()
    torch.save(data, file, _use_new_zipfile_serialization=False)  # uncompressed, without checksums
    content = file.getvalue()
    assert b"tensorclass.td.pickling" in content
    former = content.replace(b"tensorclass.td.pickling", b"tensorclass.td.state_dict")
    assert_equal(torch.load(io.BytesIO(former), weights_only=weights_only), data)
