"""Environments, collectors and losses of TorchRL: specs, rollouts, batches, a training step with each loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from tensordict import TensorDict
from tensordict.nn import (
    CompositeDistribution,
    NormalParamExtractor,
    ProbabilisticTensorDictModule,
    ProbabilisticTensorDictSequential,
    TensorDictModule,
    TensorDictSequential,
)
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import Bounded, Categorical, Composite, LazyTensorStorage, OneHot, TensorDictReplayBuffer, Unbounded
from torchrl.envs import (
    Compose,
    DoubleToFloat,
    EnvBase,
    ObservationNorm,
    ParallelEnv,
    RewardSum,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    set_exploration_type,
)
from torchrl.envs.utils import ExplorationType, check_env_specs, step_mdp
from torchrl.modules import (
    MLP,
    EGreedyModule,
    OneHotCategorical,
    ProbabilisticActor,
    QValueActor,
    TanhNormal,
    ValueOperator,
)
from torchrl.objectives import (
    A2CLoss,
    ClipPPOLoss,
    CQLLoss,
    DDPGLoss,
    DiscreteSACLoss,
    DQNLoss,
    IQLLoss,
    KLPENPPOLoss,
    PPOLoss,
    ReinforceLoss,
    SACLoss,
    SoftUpdate,
    TD3Loss,
)
from torchrl.objectives.value import GAE, TD0Estimator, TD1Estimator, TDLambdaEstimator, VTrace

from .outcomes import Case

OBSERVED, ACTED = 4, 2


class Track(EnvBase):
    """A point on a line that the action pushes; ended after some steps."""

    batch_locked = False

    def __init__(self, discrete: bool = False, batch_size: tuple[int, ...] = (), seed: int = 0) -> None:
        super().__init__(device="cpu", batch_size=torch.Size(batch_size))
        size = tuple(batch_size)
        self.discrete = discrete
        self.observation_spec = Composite(
            observation=Unbounded((*size, OBSERVED)), steps=Unbounded((*size, 1), dtype=torch.int64), shape=size
        )
        self.action_spec = (
            OneHot(ACTED, shape=(*size, ACTED))
            if discrete
            else Bounded(-1, 1, shape=(*size, ACTED), dtype=torch.float32)
        )
        self.reward_spec = Unbounded((*size, 1))
        self.full_done_spec = Composite(
            done=Categorical(2, shape=(*size, 1), dtype=torch.bool),
            terminated=Categorical(2, shape=(*size, 1), dtype=torch.bool),
            shape=size,
        )
        self.rng = torch.Generator().manual_seed(seed)

    def _reset(self, tensordict: Any = None, **kwargs: Any) -> Any:
        size = self.batch_size if tensordict is None else tensordict.shape
        no = torch.zeros(*size, 1, dtype=torch.bool)
        seen = torch.randn(*size, OBSERVED, generator=self.rng)
        steps = torch.zeros(*size, 1, dtype=torch.int64)
        return TensorDict({"observation": seen, "steps": steps, "done": no, "terminated": no.clone()}, size)

    def _step(self, tensordict: Any) -> Any:
        action = tensordict["action"].float()
        seen = tensordict["observation"] * 0.9
        seen = seen + nn.functional.pad(action, (0, OBSERVED - ACTED))
        steps = tensordict["steps"] + 1
        done = steps >= 5
        reward = -seen.square().sum(-1, keepdim=True)
        return TensorDict(
            {"observation": seen, "steps": steps, "reward": reward, "done": done, "terminated": done.clone()},
            tensordict.shape,
        )

    def _set_seed(self, seed: int | None) -> None:
        self.rng = torch.Generator().manual_seed(seed or 0)


def mlp(inputs: int, outputs: int) -> Any:
    return MLP(in_features=inputs, out_features=outputs, num_cells=[8], activation_class=nn.Tanh)


def continuous_actor(env: Any = None) -> Any:
    net = nn.Sequential(mlp(OBSERVED, 2 * ACTED), NormalParamExtractor())
    return ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=None if env is None else env.action_spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -1, "high": 1},
        return_log_prob=True,
    )


def discrete_actor() -> Any:
    return ProbabilisticActor(
        TensorDictModule(mlp(OBSERVED, ACTED), in_keys=["observation"], out_keys=["logits"]),
        in_keys=["logits"],
        distribution_class=OneHotCategorical,
        return_log_prob=True,
    )


def value() -> Any:
    return ValueOperator(mlp(OBSERVED, 1), in_keys=["observation"])


def action_value() -> Any:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(OBSERVED + ACTED, 1)

        def forward(self, observation: Any, action: Any) -> Any:
            return self.net(torch.cat([observation, action], -1))

    return ValueOperator(Joined(), in_keys=["observation", "action"])


# -- environments -----------------------------------------------------------------------------------------------------


def batches(discrete: bool) -> dict[str, Callable[[], Any]]:
    """Return makers of environments."""
    return {
        "plain": partial(Track, discrete),
        "batched": partial(Track, discrete, (3,)),
        "counted": lambda: TransformedEnv(Track(discrete), Compose(StepCounter(max_steps=3), RewardSum())),
        "normed": lambda: TransformedEnv(
            Track(discrete), Compose(ObservationNorm(0.5, 2.0, in_keys=["observation"]), DoubleToFloat())
        ),
        "serial": lambda: SerialEnv(2, partial(Track, discrete)),
        "parallel": partial(ParallelEnv, 2, partial(Track, discrete)),
    }


def specs(make: Callable[[], Any]) -> Any:
    env = make()
    check_env_specs(env)
    return [
        env.observation_spec.zero(),
        env.fake_tensordict(),
        list(env.batch_size),
        sorted(map(str, env.specs.rand().keys(True, True))),
    ]


def rollout(make: Callable[[], Any], **options: Any) -> Any:
    env = make()
    env.set_seed(1)
    return env.rollout(7, **options)


def rollout_and_close(make: Callable[[], Any]) -> Any:
    env = make()
    try:
        return env.rollout(4)
    finally:
        env.close()


def rollout_by(make: Callable[[], Any], discrete: bool) -> Any:
    env = make()
    policy = discrete_actor() if discrete else continuous_actor()
    found = [env.rollout(7, policy)]
    with set_exploration_type(ExplorationType.DETERMINISTIC):
        found.append(env.rollout(4, policy))
    return found


def steps(make: Callable[[], Any]) -> Any:
    env = make()
    data = env.reset()
    found = []
    for _ in range(3):
        data = env.rand_step(data)
        found.append(data.clone())
        data = step_mdp(data)
    return found


def collected(make: Callable[[], Any], discrete: bool, policy: bool, **options: Any) -> Any:
    actor = (discrete_actor() if discrete else continuous_actor()) if policy else None
    collector = Collector(make, actor, frames_per_batch=12, total_frames=36, **options)
    collector.set_seed(0)
    found = [batch.clone() for batch in collector]
    collector.shutdown()
    return found


# -- losses -----------------------------------------------------------------------------------------------------------


def batch(discrete: bool) -> Any:
    """Return rows as an environment gives them."""
    env = Track(discrete, (3,))
    with torch.no_grad():
        return env.rollout(5, discrete_actor() if discrete else continuous_actor(), break_when_any_done=False)


def step(loss: Any, data: Any, estimate: bool = False, target: bool = False) -> Any:
    """Make a training step and return the losses, the gradients and the parameters after it."""
    if estimate:
        loss.make_value_estimator(gamma=0.9)
    updater = SoftUpdate(loss, eps=0.9) if target else None
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
    found = []
    for _ in range(2):
        losses = loss(data)
        total = sum(item for key, item in losses.items() if key.startswith("loss"))
        optimizer.zero_grad()
        total.backward()
        found.append([losses, {name: one.grad for name, one in loss.named_parameters()}])
        optimizer.step()
        if updater is not None:
            updater.step()
    return [found, dict(loss.named_parameters()), dict(loss.named_buffers()), sorted(loss.state_dict())]


def on_policy(kind: Any, discrete: bool, **options: Any) -> Any:
    actor, critic = discrete_actor() if discrete else continuous_actor(), value()
    data = batch(discrete)
    GAE(gamma=0.9, lmbda=0.95, value_network=critic)(data)
    return step(kind(actor, critic, **options), data)


def reinforce(discrete: bool) -> Any:
    return step(ReinforceLoss(discrete_actor() if discrete else continuous_actor(), value()), batch(discrete), True)


def sac(**options: Any) -> Any:
    return step(
        SACLoss(continuous_actor(), action_value(), action_spec=Track().action_spec, **options),
        batch(False).reshape(-1),
        True,
        True,
    )


def sac_discrete() -> Any:
    critic = TensorDictModule(mlp(OBSERVED, ACTED), in_keys=["observation"], out_keys=["action_value"])
    loss = DiscreteSACLoss(
        discrete_actor(), critic, action_space="one-hot", num_actions=ACTED, target_entropy_weight=0.5
    )
    return step(loss, batch(True).reshape(-1), True, True)


def dqn(delay_value: bool, double: bool = False) -> Any:
    actor = QValueActor(mlp(OBSERVED, ACTED), in_keys=["observation"], action_space="one-hot")
    loss = DQNLoss(actor, action_space="one-hot", delay_value=delay_value, double_dqn=double)
    return step(loss, batch(True).reshape(-1), True, delay_value)


def deterministic(kind: Any) -> Any:
    actor = TensorDictModule(nn.Sequential(mlp(OBSERVED, ACTED), nn.Tanh()), ["observation"], ["action"])
    options = {"bounds": (-1, 1)} if kind is TD3Loss else {}
    return step(kind(actor, action_value(), **options), batch(False).reshape(-1), True, True)


def conservative() -> Any:
    return step(
        CQLLoss(continuous_actor(), action_value(), action_spec=Track().action_spec),
        batch(False).reshape(-1),
        True,
        True,
    )


def implicit() -> Any:
    return step(IQLLoss(continuous_actor(), action_value(), value()), batch(False).reshape(-1), True, True)


def estimated(kind: Any, **options: Any) -> Any:
    data = batch(False)
    return kind(gamma=0.9, value_network=value(), **options)(data)


def vtrace() -> Any:
    return VTrace(gamma=0.9, actor_network=continuous_actor(), value_network=value())(batch(False))


# -- modules ----------------------------------------------------------------------------------------------------------


def explored() -> Any:
    actor = QValueActor(mlp(OBSERVED, ACTED), in_keys=["observation"], spec=OneHot(ACTED))
    policy = TensorDictSequential(actor, EGreedyModule(OneHot(ACTED), eps_init=0.5, annealing_num_steps=10))
    found = []
    for _ in range(3):
        found.append(policy(TensorDict({"observation": torch.randn(6, OBSERVED)}, [6])))
        policy[1].step()
    return found


def composite_policy() -> Any:
    net = TensorDictModule(mlp(OBSERVED, 4), ["observation"], ["raw"])
    split = TensorDictModule(
        lambda raw: (raw[..., :1], raw[..., 1:2].exp(), raw[..., 2:]),
        ["raw"],
        [("params", "push", "loc"), ("params", "push", "scale"), ("params", "turn", "logits")],
    )
    draw = ProbabilisticTensorDictModule(
        in_keys=["params"],
        out_keys=[("action", "push"), ("action", "turn")],
        distribution_class=CompositeDistribution,
        distribution_kwargs={
            "distribution_map": {"push": torch.distributions.Normal, "turn": torch.distributions.Categorical},
            "name_map": {"push": ("action", "push"), "turn": ("action", "turn")},
        },
        return_log_prob=True,
    )
    policy = ProbabilisticTensorDictSequential(net, split, draw)
    data = policy(TensorDict({"observation": torch.randn(3, OBSERVED)}, [3]))
    return [data, policy.get_dist(data).log_prob(data)]


def trained() -> Any:
    """Collect, keep, draw and train, round after round."""
    actor = QValueActor(mlp(OBSERVED, ACTED), in_keys=["observation"], spec=OneHot(ACTED))
    policy = TensorDictSequential(actor, EGreedyModule(OneHot(ACTED), eps_init=0.5, annealing_num_steps=50))
    collector = Collector(partial(Track, True), policy, frames_per_batch=10, total_frames=50)
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=8)
    loss = DQNLoss(actor, action_space="one-hot", delay_value=True)
    loss.make_value_estimator(gamma=0.9)
    updater = SoftUpdate(loss, eps=0.9)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)
    found = []
    for data in collector:
        buffer.extend(data.reshape(-1))
        for _ in range(2):
            rows = buffer.sample()
            error = loss(rows)["loss"]
            optimizer.zero_grad()
            error.backward()
            optimizer.step()
            updater.step()
            found.append(error.item())
        collector.update_policy_weights_()
    collector.shutdown()
    return [found, dict(loss.named_parameters())]


def cases() -> Iterator[tuple[str, Case]]:
    """Yield the name and the function of each case."""
    for discrete in (False, True):
        about = "discrete" if discrete else "continuous"
        for name, make in batches(discrete).items():
            if name == "parallel":  # starts processes: one case is enough
                if discrete:
                    yield "rollout in processes", partial(rollout_and_close, make)
                continue
            yield f"specs, {name}, {about}", partial(specs, make)
            yield f"rollout, {name}, {about}", partial(rollout, make)
            yield f"rollout on, {name}, {about}", partial(rollout, make, break_when_any_done=False)
            yield f"rollout by a policy, {name}, {about}", partial(rollout_by, make, discrete)
            yield f"steps, {name}, {about}", partial(steps, make)
            yield f"collected, {name}, {about}", partial(collected, make, discrete, False)
            yield f"collected by a policy, {name}, {about}", partial(collected, make, discrete, True)
            yield f"collected, split, {name}, {about}", partial(collected, make, discrete, False, split_trajs=True)
        for kind in (PPOLoss, ClipPPOLoss, KLPENPPOLoss, A2CLoss):
            yield f"{kind.__name__}, {about}", partial(on_policy, kind, discrete)
        yield f"reinforce, {about}", partial(reinforce, discrete)
    yield "sac", sac
    yield "sac, fixed alpha", partial(sac, fixed_alpha=True)
    yield "sac, two critics and delay", partial(sac, num_qvalue_nets=3, delay_qvalue=True)
    yield "sac, discrete", sac_discrete
    for delay, double in ((False, False), (True, False), (True, True)):
        yield f"dqn, {delay}, {double}", partial(dqn, delay, double)
    yield "ddpg", partial(deterministic, DDPGLoss)
    yield "td3", partial(deterministic, TD3Loss)
    yield "cql", conservative
    yield "iql", implicit
    for estimator, options in (
        (GAE, {"lmbda": 0.9}),
        (TD0Estimator, {}),
        (TD1Estimator, {}),
        (TDLambdaEstimator, {"lmbda": 0.9}),
    ):
        yield f"{estimator.__name__}", partial(estimated, estimator, **options)
    yield "vtrace", vtrace
    yield "explored", explored
    yield "composite policy", composite_policy
    yield "trained", trained
