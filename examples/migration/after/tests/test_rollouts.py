"""The tests of the project."""

from pathlib import Path

import pytest
import torch
from rollouts.dataset import batches, padded, read, write
from rollouts.policy import act, make_policy
from rollouts.records import Step
from rollouts.train import summary, train
from tensorclass import LazyStackedTensorDict, MemoryMappedTensor, TensorDict, is_tensor_collection


def some_steps(task: str = "reach") -> Step:
    torch.manual_seed(0)
    data = TensorDict({"position": torch.rand(8, 5, 2), "velocity": torch.rand(8, 5, 2)}, batch_size=[8, 5])
    act(make_policy(), data)
    return Step.from_policy(data, torch.rand(8, 5), torch.zeros(8, 5, dtype=torch.bool), task)


def test_a_step_is_indexed_and_reshaped_as_one() -> None:
    steps = some_steps()
    assert is_tensor_collection(steps)
    assert steps[2:4].observation.vector().shape == (2, 5, 4)
    assert steps.reshape(-1).action.shape == (40, 2)


def test_returns_are_discounted_up_to_the_end_of_an_episode() -> None:
    steps = some_steps()[:, :3]
    steps.reward = torch.ones(8, 3)
    steps.done[:, 1] = True
    assert steps.returns(0.5)[0].tolist() == [1.5, 1.0, 1.0]


def test_tasks_of_stacked_rollouts_are_kept() -> None:
    both = torch.stack([some_steps("reach")[0, 0], some_steps("push")[0, 0]])
    assert list(both.task) == ["reach", "push"]
    assert both[1].task == "push"


def test_without_exploring_the_policy_repeats_its_action() -> None:
    policy = make_policy()
    data = TensorDict({"position": torch.rand(3, 2), "velocity": torch.rand(3, 2)}, batch_size=[3])
    first = act(policy, data.clone(), explore=False)["action"]
    assert (act(policy, data.clone(), explore=False)["action"] == first).all()
    assert (act(policy, data.clone())["action"] != first).any()


def test_a_data_set_comes_back_from_its_folder(tmp_path: Path) -> None:
    steps = some_steps()
    assert write(steps, tmp_path / "steps").is_memmap()
    again = read(tmp_path / "steps")
    assert (again.action == steps.action).all()
    assert again.task == "reach"
    assert isinstance(again.action, MemoryMappedTensor)
    rows = batches(again, 3, torch.Generator())
    assert [batch.batch_size[0] for batch in rows] == [3, 3, 2]


def test_only_steps_are_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="expected Step, got TensorDict"):
        write(some_steps().to_tensordict(), tmp_path / "steps")


def test_episodes_are_padded() -> None:
    data = padded([TensorDict({"reward": torch.ones(size)}, batch_size=[size]) for size in (2, 3)])
    assert data["steps", "reward"].sum(1).tolist() == [2.0, 3.0]
    assert data["length"].tolist() == [2, 3]


def test_rows_of_a_lazy_stack_write_through() -> None:
    parts = [TensorDict({"a": torch.zeros(2)}, batch_size=[2]) for _ in range(3)]
    stacked = LazyStackedTensorDict(*parts, stack_dim=0)
    rows = stacked.get_sub_tensordict(1)
    rows.update_({"a": torch.ones(2)})
    assert parts[1]["a"].tolist() == [1.0, 1.0]


def test_training_lowers_the_loss_and_the_slow_copy_follows() -> None:
    losses, slow = train(some_steps(), epochs=8)
    assert losses[-1] < losses[0]
    assert slow > 0
    data = summary([{"loss": losses[0]}, {"loss": losses[-1]}])
    assert data["mean", "loss"] == pytest.approx((losses[0] + losses[-1]) / 2)
