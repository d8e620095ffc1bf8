"""Collections of the package tensordict, and back, without copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tensorclass as tc
from tensorclass import ConversionError, NonTensorData, NonTensorStack, Ragged, TensorClass, TensorDict, Text
from tensorclass.compat import BridgedModule
from tensorclass.nn import TensorDictParams

peer = pytest.importorskip("tensordict")
pytest.importorskip("tensordict.nn")


class Inner(TensorClass):
    y: Tensor


class Sample(TensorClass):
    x: Tensor
    text: Text
    inner: Inner
    source: str = "web"
    weight: Tensor | None = None


def sample() -> Sample:
    return Sample(torch.zeros(2, 3), ["a", "bc"], Inner(torch.ones(2), batch_size=[2]), batch_size=[2])


@peer.tensorclass
class Theirs:
    x: Tensor
    source: str
    inner: Any = None


def theirs() -> Any:
    nested = peer.TensorDict({"y": torch.ones(2, 1)}, [2, 1])
    return peer.TensorDict({"x": torch.zeros(2), "nested": nested, "source": "web"}, [2], names=["rows"])


def same(ours: Any, other: Any) -> None:
    """Check that two collections have the same keys, batch sizes, names and tensors, the same objects."""
    assert list(ours.keys()) == list(other.keys())
    assert tuple(ours.batch_size) == tuple(other.batch_size)
    assert list(ours.names) == list(other.names)
    assert ours.is_locked == other.is_locked
    for key in ours.keys():  # noqa: SIM118 (a collection iterates over rows)
        value, held = ours.get(key), other.get(key)
        if type(value) is Tensor:
            assert value is held
        elif isinstance(value, TensorDict):
            same(value, held)


@pytest.mark.parametrize("locked", [False, True])
def test_a_nested_collection_shares_its_tensors(locked: bool) -> None:
    source = theirs().lock_() if locked else theirs()
    ours = TensorDict.from_any(source)
    assert type(ours) is TensorDict
    same(ours, source)
    assert ours["nested"].batch_size == (2, 1)
    assert ours["source"] == "web"
    ours["nested", "y"].add_(1)
    assert source["nested", "y"].eq(2).all()


@pytest.mark.parametrize("locked", [False, True])
def test_the_way_back_is_exact(locked: bool) -> None:
    ours = TensorDict({"x": torch.zeros(2), "nested": TensorDict({"y": torch.ones(2, 1)}, [2, 1])}, [2], names=["rows"])
    ours["source"] = "web"
    if locked:
        ours.lock_()
    made = ours.to_pytorch_tensordict()
    assert type(made) is peer.TensorDict
    same(ours, made)
    again = TensorDict.from_any(made)
    same(again, made)
    assert type(again.get("source")) is NonTensorData
    made["x"].fill_(3)
    assert ours["x"].eq(3).all()


@pytest.mark.parametrize("dim", [0, 1])
def test_lazy_stacks_stay_lazy(dim: int) -> None:
    source = peer.lazy_stack([theirs(), theirs()], dim)
    ours = TensorDict.from_any(source)
    assert type(ours) is tc.LazyStackedTensorDict
    assert ours.stack_dim == dim
    assert ours.tensordicts[1]["x"] is source.tensordicts[1]["x"]
    made = ours.to_pytorch_tensordict()
    assert type(made) is peer.LazyStackedTensorDict
    assert made.stack_dim == dim
    assert list(made.names) == list(source.names) == list(ours.names)


def test_stacks_of_objects() -> None:
    source = peer.TensorDict({"o": peer.NonTensorStack("a", {"b": 1})}, [2])
    ours = TensorDict.from_any(source)
    assert type(ours.get("o")) is NonTensorStack
    assert ours["o"] == ["a", {"b": 1}]
    made = ours.to_pytorch_tensordict()
    assert type(made.get("o")) is peer.NonTensorStack
    assert list(made["o"]) == ["a", {"b": 1}]


def test_stacks_of_objects_with_two_dimensions_and_without_rows() -> None:
    rows = NonTensorStack(NonTensorStack("a", "b"), NonTensorStack("c", "d"))
    made = TensorDict({"o": rows}, [2, 2]).to_pytorch_tensordict()
    assert [list(row) for row in made["o"]] == [["a", "b"], ["c", "d"]]
    empty = TensorDict({"t": Text.from_list(["a"])}, [1])[:0].to_pytorch_tensordict()
    assert empty.batch_size == (0,)


def test_metadata_and_unbatched_tensors() -> None:
    config = object()
    shared = torch.arange(7)
    source = peer.TensorDict({"m": peer.MetaData(config, batch_size=[2]), "u": peer.UnbatchedTensor(shared)}, [2])
    ours = TensorDict.from_any(source)
    assert type(ours.get("m")) is tc.MetaData
    assert ours["m"] is config
    assert type(ours.get("u")) is tc.UnbatchedTensor
    ours["u"][0] = 9
    assert shared[0] == 9
    made = ours.to_pytorch_tensordict()
    assert type(made.get("m")) is peer.MetaData
    assert isinstance(made.get("u"), peer.UnbatchedTensor)
    made.get("u").data[1] = 8
    assert shared[1] == 8


def test_memory_maps_keep_their_files(tmp_path: Path) -> None:
    source = peer.TensorDict({"x": torch.zeros(4)}, [4]).memmap(tmp_path / "theirs")
    ours = TensorDict.from_any(source)
    assert ours.is_memmap()
    assert ours.is_locked
    assert Path(ours["x"].filename) == tmp_path / "theirs" / "x.memmap"
    ours["x"][1] = 5
    assert source["x"].tolist() == [0, 5, 0, 0]
    own = TensorDict({"x": torch.zeros(4)}, [4]).memmap(tmp_path / "ours")
    made = own.to_pytorch_tensordict()
    assert isinstance(made["x"], peer.MemoryMappedTensor)
    made["x"][2] = 6
    assert own["x"].tolist() == [0, 0, 6, 0]
    part = own[1:3].to_pytorch_tensordict()
    assert part["x"].tolist() == [0, 6]
    part["x"][0] = 1
    assert own["x"].tolist() == [0, 1, 6, 0]


def test_parameters_stay_parameters() -> None:
    weight = nn.Parameter(torch.ones(2))
    source = peer.TensorDictParams(peer.TensorDict({"w": weight, "n": {"b": torch.zeros(1)}}))
    ours = TensorDict.from_any(source)
    assert type(ours) is TensorDictParams
    assert ours["w"] is weight
    assert dict(ours.named_parameters()).keys() == dict(source.named_parameters()).keys()
    made = ours.to_pytorch_tensordict()
    assert type(made) is peer.TensorDictParams
    assert made["w"] is weight


def test_records_of_each_class_of_the_other_package() -> None:
    source = Theirs(x=torch.zeros(2), source="web", batch_size=[2])
    ours: Any = TensorDict.from_any(source)
    assert isinstance(ours, TensorClass)
    assert type(ours).__name__ == "Theirs"
    assert ours.x is source.x
    assert ours.source == "web"
    assert ours.inner is None
    assert type(TensorDict.from_any(source)) is type(ours)
    made = ours.to_pytorch_tensordict()
    assert type(made) is Theirs
    assert made.x is source.x
    assert made.inner is None


def test_records_become_records_and_come_back() -> None:
    ours = sample()
    made = ours.to_pytorch_tensordict()
    assert peer.is_tensorclass(made)
    assert peer.is_tensorclass(made.inner)
    assert type(made).__name__ == "Sample"
    assert made.x is ours.x
    assert made.source == "web"
    assert made.weight is None
    assert list(made.text) == ["a", "bc"]
    assert type(sample().to_pytorch_tensordict()) is type(made)
    again = Sample.from_any(made)
    assert type(again) is Sample
    assert type(again.inner) is Inner
    assert again.x is ours.x
    assert again.inner.y is ours.inner.y
    assert again.text.tolist() == ["a", "bc"]
    assert type(TensorDict.from_any(made)) is Sample


def test_records_as_untyped_collections_take_more_keys() -> None:
    made = sample().to_pytorch_tensordict(untyped=True)
    assert type(made) is type(made["inner"]) is peer.TensorDict
    made["value"] = torch.zeros(2)
    assert type(Sample.from_any(made.exclude("value"))) is Sample
    with pytest.raises(ConversionError, match="value"):
        Sample.from_any(made)


def test_a_record_of_an_untyped_collection() -> None:
    source = peer.TensorDict(
        {"x": torch.zeros(2, 3), "text": peer.NonTensorStack("a", "b"), "inner": {"y": torch.ones(2)}}, [2]
    )
    ours = Sample.from_any(source)
    assert type(ours.inner) is Inner
    assert ours.x is source["x"]
    assert ours.text.tolist() == ["a", "b"]
    with pytest.raises(ConversionError, match="inner"):
        Sample.from_any(source.exclude("inner"))


def test_a_collection_of_the_other_package_below_a_dict() -> None:
    nested = peer.TensorDict({"y": torch.ones(2, 1)}, [2, 1])
    ours = TensorDict.from_any({"n": nested, "x": torch.zeros(2)}, batch_size=[2])
    assert ours["n"].batch_size == (2, 1)
    assert ours["n", "y"] is nested["y"]


def test_rows_of_different_lengths() -> None:
    ours = TensorDict({"r": Ragged.from_list([[1, 2], [3]])}, [2])
    made = ours.to_pytorch_tensordict()
    assert [row.tolist() for row in made["r"].unbind()] == [[1, 2], [3]]


def test_files_of_hdf5_are_opened_by_name(tmp_path: Path) -> None:
    source = peer.TensorDict({"x": torch.zeros(3)}, [3]).to_h5(str(tmp_path / "theirs.h5"))
    with pytest.raises(TypeError, match=r"open the file with tensorclass\.PersistentTensorDict"):
        TensorDict.from_any(source)
    source.close()
    with (
        TensorDict({"x": torch.zeros(3)}, [3]).to_h5(tmp_path / "ours.h5") as own,
        pytest.raises(TypeError, match=r"reads copies of its values.* call to_tensordict\(\) first"),
    ):
        own.to_pytorch_tensordict()


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a collection of the package tensordict, got a builtins\.dict"):
        TensorDict.from_pytorch_tensordict({"a": 1})


def test_a_module_of_the_other_package_takes_and_returns_records() -> None:
    class Scored(TensorClass):
        x: Tensor
        score: Tensor

    linear = nn.Linear(3, 1)
    hidden = peer.nn.TensorDictModule(linear, in_keys=["x"], out_keys=["hidden"])
    module = peer.nn.TensorDictSequential(hidden, peer.nn.TensorDictModule(torch.tanh, ["hidden"], ["score"]))
    stage = tc.Stage[Sample, Scored](BridgedModule(module, Scored))
    given = sample()
    scored = stage(given)
    assert type(scored) is Scored
    assert scored.x is given.x
    assert torch.equal(scored.score, torch.tanh(linear(given.x)))
    scored.score.sum().backward()
    assert linear.weight.grad is not None
    assert [id(one) for one in stage.parameters()] == [id(one) for one in linear.parameters()]
    every = BridgedModule(module, TensorDict)(TensorDict({"x": torch.zeros(2, 3)}, [2]))
    assert list(every.keys()) == ["x", "hidden", "score"]
    with pytest.raises(ConversionError, match="score"):
        BridgedModule(hidden, Scored)(given)
