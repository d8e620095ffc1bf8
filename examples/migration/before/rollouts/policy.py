"""The policy: a pipeline of modules that read and write keys."""

import tensordict.nn as tdnn
import torch
from tensordict import TensorDict
from tensordict.nn.distributions import NormalParamExtractor
from tensordict.nn.probabilistic import InteractionType, set_interaction_type
from torch import Tensor, nn
from torch.distributions import Normal


class Concatenate(nn.Module):
    """Join position and velocity."""

    def forward(self, position: Tensor, velocity: Tensor) -> Tensor:
        return torch.cat([position, velocity], -1)


def make_policy(hidden: int = 16) -> tdnn.ProbabilisticTensorDictSequential:
    """Return a policy from ``position`` and ``velocity`` to ``action``."""
    body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 4))
    return tdnn.ProbabilisticTensorDictSequential(
        tdnn.TensorDictModule(Concatenate(), in_keys=["position", "velocity"], out_keys=["vector"]),
        tdnn.TensorDictModule(body, in_keys=["vector"], out_keys=["parameters"]),
        tdnn.TensorDictModule(NormalParamExtractor(), in_keys=["parameters"], out_keys=["loc", "scale"]),
        tdnn.ProbabilisticTensorDictModule(in_keys=["loc", "scale"], out_keys=["action"], distribution_class=Normal),
    )


def make_critic(hidden: int = 16) -> tdnn.TensorDictSequential:
    """Return a value function from ``position`` and ``velocity`` to ``value``."""
    body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 1))
    return tdnn.TensorDictSequential(
        tdnn.TensorDictModule(Concatenate(), in_keys=["position", "velocity"], out_keys=["vector"]),
        tdnn.TensorDictModule(body, in_keys=["vector"], out_keys=["value"]),
    )


@torch.no_grad()
def act(policy: tdnn.ProbabilisticTensorDictSequential, tensordict: TensorDict, explore: bool = True) -> TensorDict:
    """Write actions: drawn ones to explore, the mean otherwise."""
    with set_interaction_type(InteractionType.RANDOM if explore else InteractionType.MEAN):
        return policy(tensordict)
