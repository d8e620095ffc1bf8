"""``DTensor`` leaves keep their placements, or the error says what cannot be done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from tensorclass import TensorClass, TensorDict, lazy_stack
from tests.distributed.processes import Group


class Weights(TensorClass):
    w: Tensor
    b: Tensor


def values() -> Weights:
    torch.manual_seed(0)
    return Weights(torch.randn(4, 6), torch.randn(4, 2), batch_size=[4])


def sharded(mesh: Any) -> Weights:
    """Rows of ``w`` on both ranks, and ``b`` whole on each."""
    found = values()
    w, b = distribute_tensor(found.w, mesh, [Shard(0)]), distribute_tensor(found.b, mesh, [Replicate()])
    return Weights(w.clone(), b.clone(), batch_size=[4])


#: what is done -> where the shards of ``w`` are then
KEPT: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "+": (lambda data: data + 1, Shard(0)),
    "*": (lambda data: data * data, Shard(0)),
    "-": (lambda data: -data, Shard(0)),
    "**": (lambda data: data**2, Shard(0)),
    ">": (lambda data: data > 0, Shard(0)),
    "exp": (lambda data: data.exp(), Shard(0)),
    "clamp": (lambda data: data.clamp(0, 1), Shard(0)),
    "lerp": (lambda data: data.lerp(data, 0.5), Shard(0)),
    "add_": (lambda data: data.add_(1), Shard(0)),
    "mul_": (lambda data: data.mul_(data), Shard(0)),
    "zero_": (lambda data: data.zero_(), Shard(0)),
    "copy_": (lambda data: data.copy_(data.clone()), Shard(0)),
    "apply": (lambda data: data.apply(lambda value: value * 3), Shard(0)),
    "clone": (lambda data: data.clone(), Shard(0)),
    "detach": (lambda data: data.detach(), Shard(0)),
    "to": (lambda data: data.to(torch.float64), Shard(0)),
    "zeros_like": (torch.zeros_like, Shard(0)),
    "to_tensordict": (lambda data: data.to_tensordict(), Shard(0)),
    "view": (lambda data: data.view(2, 2), Shard(0)),
    "unsqueeze": (lambda data: data.unsqueeze(0), Shard(1)),
    "expand": (lambda data: data.expand(3, 4), Shard(1)),
    "stack": (lambda data: torch.stack([data, data]), Shard(1)),
    "lazy_stack": (lambda data: lazy_stack([data, data]), Shard(1)),
    "[slice]": (lambda data: data[1:3], Replicate()),
    "[int]": (lambda data: data[2], Replicate()),
}


def placements_are_kept(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2,))
    for name, (function, placement) in KEPT.items():
        found, wanted = function(sharded(mesh)), function(values())
        assert type(found) is type(wanted), name
        assert found.batch_size == wanted.batch_size, name
        assert isinstance(found.get("w"), DTensor), name
        assert tuple(found.get("w").placements) == (placement,), name
        assert tuple(found.get("b").placements) == (Replicate(),), name
        assert all(torch.equal(found.get(key).full_tensor(), wanted.get(key)) for key in ("w", "b")), name
    for name, reduce in {"sum": lambda data: data.sum(0), "mean": lambda data: data.mean()}.items():  # noqa: B007
        found, wanted = reduce(sharded(mesh)), reduce(values())
        assert found.get("w").placements[0].is_partial()
        assert all(torch.allclose(found.get(key).full_tensor(), wanted.get(key)) for key in ("w", "b"))
    assert bool((sharded(mesh) == sharded(mesh)).all())


def what_cannot_be_done_is_said(rank: int, folder: str) -> None:
    mesh = init_device_mesh("cpu", (2,))
    data: Any = sharded(mesh)
    for call in (lambda: data.consolidate(), lambda: data.broadcast(1), lambda: data.all_gather()):
        with pytest.raises((TypeError, RuntimeError), match="DTensor, of which each process has a part"):
            call()
    with pytest.raises(TypeError, match="has different shards on the ranks"):
        data.all_reduce()
    whole = data.apply(lambda value: value.full_tensor())
    assert (whole.broadcast(0) == values()).all()
    for call in (lambda: data + torch.ones(4), lambda: data[torch.tensor([True, False, True, False])]):
        with pytest.raises(RuntimeError, match=r"mixed torch\.Tensor and DTensor"):
            call()
    with pytest.raises(RuntimeError, match="unbind along the sharded dimension"):
        data.unbind(0)


def what_is_the_same_on_all_ranks_is_reduced(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2,))
    for _ in range(3):
        data = TensorDict({"b": distribute_tensor(torch.ones(4), mesh, [Replicate()]).clone(), "c": torch.ones(1)})
        data.all_reduce()
        assert isinstance(data["b"], DTensor)
        assert data["b"].to_local().tolist() == [2.0] * 4
        assert data["c"].tolist() == [2.0]


def test_placements_are_kept(pair: Group) -> None:
    pair.run(placements_are_kept)


def test_what_cannot_be_done_with_shards_is_said(pair: Group, tmp_path: Any) -> None:
    pair.run(what_cannot_be_done_is_said, str(tmp_path))


def test_replicas_are_reduced(pair: Group) -> None:
    pair.run(what_is_the_same_on_all_ranks_is_reduced)


def shards_are_reduced_across_the_mesh(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    for _ in range(3):
        weights = distribute_tensor(torch.arange(8.0).view(4, 2), mesh["model"], [Shard(0)])
        data = TensorDict({"w": weights * (1 + mesh.get_local_rank("data"))})
        data.all_reduce(group=mesh.get_group("data"))
        assert data["w"].placements == (Shard(0),)
        assert torch.equal(data["w"].full_tensor(), 3 * torch.arange(8.0).view(4, 2))
        with pytest.raises(TypeError, match="different shards on the ranks"):
            data.all_reduce(group=mesh.get_group("model"))


def test_shards_are_reduced_with_those_of_other_replicas(four: Group) -> None:
    four.run(shards_are_reduced_across_the_mesh)
