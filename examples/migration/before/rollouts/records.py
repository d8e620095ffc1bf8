"""The records of a rollout."""

import torch
from tensordict import TensorDictBase, tensorclass
from torch import Tensor


@tensorclass
class Observation:
    """What the policy sees: position and velocity, two numbers each."""

    position: Tensor
    velocity: Tensor

    def vector(self) -> Tensor:
        """Return one vector per item."""
        return torch.cat([self.position, self.velocity], -1)


@tensorclass
class Step:
    """One step of a rollout."""

    observation: Observation
    action: Tensor
    reward: Tensor
    done: Tensor
    task: str = "reach"

    def returns(self, discount: float) -> Tensor:
        """Return the discounted sum of later rewards, along the last batch dimension."""
        total = torch.zeros_like(self.reward[..., 0])
        sums = []
        for step in reversed(range(self.batch_size[-1])):
            total = self.reward[..., step] + discount * total * ~self.done[..., step]
            sums.append(total)
        return torch.stack(sums[::-1], -1)

    @classmethod
    def from_policy(cls, data: TensorDictBase, reward: Tensor, done: Tensor, task: str) -> "Step":
        """Make steps of what a policy has written."""
        observation = Observation(data["position"], data["velocity"], batch_size=data.batch_size)
        return cls(observation, data["action"], reward, done, task, batch_size=data.batch_size)
