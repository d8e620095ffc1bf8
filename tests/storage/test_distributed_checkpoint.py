"""``torch.distributed.checkpoint`` of collections and records: they have state dicts, which is all that it asks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.stateful import Stateful

from tensorclass import TensorClass, TensorDict, UnbatchedTensor, lazy_stack
from tests import forkserver

pytestmark = pytest.mark.filterwarnings("ignore")


class State(TensorClass):
    x: Tensor
    below: TensorDict
    text: str


def state(value: float) -> State:
    below = TensorDict({"y": torch.full((3, 2), int(value))}, [3])
    return State(x=torch.full((3,), value), below=below, text=str(value), batch_size=[3])


MADE: dict[str, Callable[[float], Any]] = {
    "record": state,
    "nested": lambda value: TensorDict({"a": torch.full((2,), value), "b": {"c.d": torch.full((2, 1), value)}}, [2]),
    "lazy stack": lambda value: lazy_stack([TensorDict({"a": torch.full((2,), value + at)}) for at in (0, 1)]),
    "unbatched": lambda value: TensorDict({"u": UnbatchedTensor(torch.full((2,), value))}, [3]),
    "locked": lambda value: state(value).lock_(),
}


@pytest.mark.parametrize("name", MADE)
def test_a_checkpoint_is_loaded_in_place(tmp_path: Path, name: str) -> None:
    written, into = MADE[name](1.0), MADE[name](0.0)
    assert isinstance(written, Stateful)
    dcp.save({"data": written}, checkpoint_id=tmp_path)
    dcp.load({"data": into}, checkpoint_id=tmp_path)
    for mine, other in zip(into._leaves(), written._leaves(), strict=True):
        assert torch.equal(mine, other)


def test_tensors_keep_their_memory_and_objects_stay(tmp_path: Path) -> None:
    into = state(0.0)
    x = into.x
    dcp.save({"data": state(1.0)}, checkpoint_id=tmp_path)
    dcp.load({"data": into}, checkpoint_id=tmp_path)
    assert into.x is x
    assert x.tolist() == [1.0] * 3
    assert into.text == "0.0"


def test_a_checkpoint_is_loaded_into_a_memory_map(tmp_path: Path) -> None:
    dcp.save({"data": state(1.0)}, checkpoint_id=tmp_path / "checkpoint")
    dcp.load({"data": state(0.0).memmap(tmp_path / "rows")}, checkpoint_id=tmp_path / "checkpoint")
    assert State.load_memmap(tmp_path / "rows").x.tolist() == [1.0] * 3


def test_another_shape_is_an_error(tmp_path: Path) -> None:
    dcp.save({"data": state(1.0)}, checkpoint_id=tmp_path)
    wrong = TensorDict({"x": torch.zeros(3, 7), "below": {"y": torch.zeros(3, 2, dtype=torch.int64)}}, [3])
    with pytest.raises(CheckpointException, match="Size mismatch"):
        dcp.load({"data": wrong}, checkpoint_id=tmp_path)


def _save_and_load(rank: int, place: str, outbox: Any) -> None:
    dist.init_process_group("gloo", init_method=f"file://{place}/meet", rank=rank, world_size=2)
    try:
        dcp.save({"shared": state(1.0), f"own{rank}": state(10.0 + rank)}, checkpoint_id=f"{place}/checkpoint")
        shared, own = state(0.0), state(0.0)
        dcp.load({"shared": shared, f"own{rank}": own}, checkpoint_id=f"{place}/checkpoint")
        outbox.put((rank, shared.x.tolist(), own.below["y"][:, 0].tolist()))
    finally:
        dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_gloo_available(), reason="torch was built without gloo")
def test_two_processes_save_and_load_together(tmp_path: Path) -> None:
    context = forkserver.context()
    outbox = context.Queue()
    processes = [
        context.Process(target=_save_and_load, args=(rank, str(tmp_path), outbox), daemon=True) for rank in (0, 1)
    ]
    for process in processes:
        process.start()
    found = sorted(outbox.get(timeout=240) for _ in processes)
    for process in processes:
        process.join(240)
    assert found == [(0, [1.0] * 3, [10] * 3), (1, [1.0] * 3, [11] * 3)]


@pytest.mark.skipif(not dist.is_gloo_available(), reason="torch was built without gloo")
def test_a_checkpoint_is_saved_in_the_background(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        written = state(1.0)
        future: Any = dcp.async_save({"data": written}, checkpoint_id=tmp_path / "checkpoint")
        written.x.fill_(7.0)  # what is saved was copied before
        getattr(future, "result", lambda: future.upload_completion.result())()
        into = state(0.0)
        dcp.load({"data": into}, checkpoint_id=tmp_path / "checkpoint")
        assert into.x.tolist() == [1.0] * 3
        assert into.below["y"].unique().tolist() == [1]
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("flatten", [True, False])
def test_a_state_dict_is_saved_and_loaded(tmp_path: Path, flatten: bool) -> None:
    dcp.save(state(1.0).state_dict(flatten=flatten), checkpoint_id=tmp_path)
    blank, into = state(0.0).state_dict(flatten=flatten), state(5.0)
    dcp.load(blank, checkpoint_id=tmp_path)
    into.load_state_dict(blank)
    assert into.x.tolist() == [1.0] * 3
    assert into.below["y"].unique().tolist() == [1]


def test_a_record_stands_beside_a_module_and_an_optimiser(tmp_path: Path) -> None:
    def parts(value: float) -> tuple[dict[str, Any], State]:
        module = torch.nn.Linear(2, 2)
        torch.nn.init.constant_(module.weight, value)
        kept = state(value)
        return {"module": module, "data": kept, "step": torch.tensor(value)}, kept

    dcp.save(parts(3.0)[0], checkpoint_id=tmp_path)
    into, kept = parts(0.0)
    dcp.load(into, checkpoint_id=tmp_path)
    assert kept.x.tolist() == [3.0] * 3
    assert into["module"].weight.unique().tolist() == [3.0]
    assert into["step"] == 3.0
