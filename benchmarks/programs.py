"""`make bench ARGS=--programs`, or `python -m benchmarks.programs`: whole programs.

- DQN on CartPole and PPO on Pendulum, by TorchRL with gymnasium: on `tensordict`, and the same file under `compat`.
  They need the environment of `make clients`.
- the training of examples/training_plain.py: on records, by hand, with `tensordict`;
- an actor that writes steps into a buffer, and a replay buffer: on records, by hand, with `tensordict`;
- an epoch over text in shuffled batches, padded: a `Text` column, or a list of strings;
- the mean scores of a folder of logs: with polars.

Each program runs in a process of its own, seeds fixed; sides take turns. It says its seconds of CPU, without imports
and preparation, and its result, which is the same on all sides, or the command fails. Speed is judged by these figures.
With native code our side runs once more in Python alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.page import fill, table

ROOT = Path(__file__).parent.parent

#: what a program does after its preparation; it returns a number that all sides agree on: a sum of losses, of what was
#: written or of scores; of the training, whose loaders shuffle in orders of their own, the number of rows
Work = Callable[[], float]


# -- reinforcement learning -------------------------------------------------------------------------------------------


def dqn(side: str, folder: Path, frames: int) -> Work:
    """TorchRL's DQN: a collector, a replay buffer, ten updates for each 100 frames."""
    import torch
    from tensordict.nn import TensorDictSequential
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
    from torchrl.envs import GymEnv, StepCounter, TransformedEnv
    from torchrl.modules import MLP, EGreedyModule, QValueActor
    from torchrl.objectives import DQNLoss, SoftUpdate

    torch.manual_seed(0)
    env: Any = TransformedEnv(GymEnv("CartPole-v1"), StepCounter())
    env.set_seed(0)
    network = MLP(in_features=4, out_features=env.action_spec.shape[-1], num_cells=[64, 64])
    policy = QValueActor(network, in_keys=["observation"], spec=env.action_spec)
    greedy = EGreedyModule(env.action_spec, annealing_num_steps=1000, eps_init=0.5)
    collector = Collector(
        env,
        TensorDictSequential(policy, greedy),
        frames_per_batch=100,
        total_frames=frames,
        init_random_frames=200,
    )
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(10_000), batch_size=64)
    loss = DQNLoss(policy, action_space=env.action_spec, delay_value=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)
    update = SoftUpdate(loss, eps=0.99)

    def work() -> float:
        total = 0.0
        for data in collector:
            greedy.step(data.numel())
            buffer.extend(data.reshape(-1))
            for _ in range(10):
                value = loss(buffer.sample())["loss"]
                value.backward()
                optimizer.step()
                optimizer.zero_grad()
                update.step()
                total += value.item()
        collector.shutdown()
        return total

    return work


def ppo(side: str, folder: Path, frames: int) -> Work:
    """TorchRL's PPO: a collector, advantages, and four passes over each 200 frames."""
    import torch
    from tensordict.nn import TensorDictModule
    from tensordict.nn.distributions import NormalParamExtractor
    from torch import nn
    from torchrl.collectors import Collector
    from torchrl.data import LazyTensorStorage, ReplayBuffer, SamplerWithoutReplacement
    from torchrl.envs import GymEnv, RewardSum, TransformedEnv
    from torchrl.modules import MLP, ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss
    from torchrl.objectives.value import GAE

    torch.manual_seed(0)
    env: Any = TransformedEnv(GymEnv("Pendulum-v1"), RewardSum())
    env.set_seed(0)
    network = nn.Sequential(MLP(in_features=3, out_features=2, num_cells=[64, 64]), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(network, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        spec=env.action_spec,
        distribution_class=TanhNormal,
        distribution_kwargs={"low": -2.0, "high": 2.0},
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(in_features=3, out_features=1, num_cells=[64, 64]), in_keys=["observation"])
    collector = Collector(env, actor, frames_per_batch=200, total_frames=frames)
    buffer = ReplayBuffer(storage=LazyTensorStorage(200), sampler=SamplerWithoutReplacement(), batch_size=50)
    advantage = GAE(gamma=0.9, lmbda=0.9, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(actor, critic)
    optimizer = torch.optim.Adam(loss.parameters(), lr=1e-3)

    def work() -> float:
        total = 0.0
        for data in collector:
            for _ in range(4):
                advantage(data)
                buffer.extend(data.reshape(-1))
                for _ in range(4):
                    values = loss(buffer.sample())
                    value = values["loss_objective"] + values["loss_critic"] + values["loss_entropy"]
                    value.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    total += value.item()
        collector.shutdown()
        return total

    return work


# -- data -------------------------------------------------------------------------------------------------------------


def training_steps(side: str, folder: Path, steps: int) -> Work:
    """Steps of a small network, on shuffled batches."""
    from benchmarks import training

    rows = steps * training.BATCH
    make: Any = {"ours": training.records, "by hand": training.by_hand, "tensordict": training.peer}[side]
    return make(rows, False)  # type: ignore[no-any-return]


def actor(side: str, folder: Path, steps: int) -> Work:
    """Steps that an actor writes into a preallocated buffer."""
    from benchmarks import real_work

    return real_work.actor(folder, steps)[side]  # type: ignore[return-value]


def replay(side: str, folder: Path, rounds: int) -> Work:
    """Rounds of a replay buffer: extended by 64, sampled for 256."""
    from benchmarks import real_work

    return real_work.replay(folder, rounds)[side]  # type: ignore[return-value]


def text(side: str, folder: Path, rows: int) -> Work:
    """An epoch over labelled text in shuffled batches of 64, padded bytes and their mask."""
    import torch

    from tensorclass import Ragged

    strings = [f"a prompt of some words, number {row}, {'and more of it ' * (row % 7)}" for row in range(rows)]
    label = torch.arange(rows)

    def on_column() -> float:
        total = 0
        for index in torch.randperm(rows).split(64):
            padded, mask = prompts[index].to_padded()
            total += int((padded * mask).sum()) + int(label[index].sum())
        return float(total)

    def by_hand() -> float:
        total = 0
        for index in torch.randperm(rows).split(64):
            encoded = [torch.frombuffer(bytearray(strings[row], "utf-8"), dtype=torch.uint8) for row in index.tolist()]
            lengths = torch.tensor([len(one) for one in encoded])
            padded = torch.nn.utils.rnn.pad_sequence(encoded, batch_first=True)
            mask = torch.arange(padded.shape[1]) < lengths[:, None]
            total += int((padded * mask).sum()) + int(label[index].sum())
        return float(total)

    prompts = Ragged.from_list([torch.tensor(list(string.encode()), dtype=torch.uint8) for string in strings])
    return on_column if side == "ours" else by_hand


def logs(side: str, folder: Path, count: int) -> Work:
    """The mean score of each of the logs."""
    from benchmarks import real_work

    work: Any = real_work.logs(folder, count)[side]
    if side == "ours":
        return lambda: round(sum([float(report["acc"].value) for report in work()]), 9)
    return lambda: round(sum([means["acc"][0] for means in work()]), 9)


@dataclass(frozen=True)
class Program:
    """A program of the table.

    Attributes:
        make: prepares it.
        size: of the work; a tenth of it with ``--quick``.
        sides: who runs it; ours first.
        needs: a package that it needs.
    """

    make: Callable[[str, Path, int], Work]
    size: int
    sides: tuple[str, ...]
    needs: str = ""


PROGRAMS = {
    "DQN, frames": Program(dqn, 3_000, ("ours", "tensordict"), "torchrl"),
    "PPO, frames": Program(ppo, 3_000, ("ours", "tensordict"), "torchrl"),
    "training, steps": Program(training_steps, 1_000, ("ours", "by hand", "tensordict")),
    "actor, steps": Program(actor, 50_000, ("ours", "by hand", "tensordict")),
    "replay buffer, rounds": Program(replay, 4_000, ("ours", "by hand", "tensordict")),
    "text, rows": Program(text, 100_000, ("ours", "by hand")),
    "logs of 1,000 rows": Program(logs, 100, ("ours", "polars")),
}


# -- in a process of its own ------------------------------------------------------------------------------------------


def run(name: str, side: str, size: int) -> dict[str, float]:
    """Run one program in this process. Return its seconds of CPU and its result."""
    program = PROGRAMS[name]
    warnings.simplefilter("ignore")
    if side == "ours" and program.needs == "torchrl":
        import tensorclass.compat

        tensorclass.compat.install()
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        work = program.make(side, Path(folder), size)
        start = time.process_time()
        result = work()
        return {"seconds": time.process_time() - start, "result": result}


def in_a_process(name: str, side: str, size: int) -> dict[str, float]:
    """:func:`run` in a process of its own; the side "in Python" is ours without native code."""
    alone = side == "in Python"
    call = ["-W", "ignore", "-m", "benchmarks.programs", "--run", json.dumps([name, "ours" if alone else side, size])]
    env = {**os.environ, "TENSORCLASS_NATIVE": "0"} if alone else None
    done = subprocess.run([sys.executable, *call], cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}, {side}: {done.stderr.strip()}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


# -- in turns ---------------------------------------------------------------------------------------------------------


def measure(name: str, rounds: int, quick: bool) -> dict[str, float]:
    """Return the smallest seconds of CPU of each side."""
    from tensorclass.td import native

    program = PROGRAMS[name]
    size = program.size // 10 if quick else program.size
    sides = (*program.sides, *(["in Python"] if native.ON else []))
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(rounds):
        for side in sides:
            found[side].append(in_a_process(name, side, size))
    results = {side: {one["result"] for one in runs} for side, runs in found.items()}
    if len(set.union(*results.values())) > 1:
        raise SystemExit(f"{name}: the sides do not agree: {results}")
    return {side: min(one["seconds"] for one in runs) for side, runs in found.items()}


def page_table(measured: dict[str, dict[str, float]]) -> str:
    """Return the table: seconds of our side, and those of the others as a ratio to it."""
    others = list(dict.fromkeys([side for best in measured.values() for side in best if side != "ours"]))
    rows = [
        [name, f"{best['ours']:.2f}", *[f"{best[side] / best['ours']:.2f}" if side in best else "" for side in others]]
        for name, best in measured.items()
    ]
    return table(("program", "s", *[f"{side} / ours" for side in others]), rows)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks.programs", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--filter", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    parser.add_argument("--page", action="store_true", help="write the table into docs/performance.md")
    parser.add_argument("--run", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        print(json.dumps(run(*options.run)))
        return 0
    from importlib.util import find_spec

    measured: dict[str, dict[str, float]] = {}
    for name, program in PROGRAMS.items():
        if not options.filter.search(name):
            continue
        if program.needs and find_spec(program.needs) is None:
            print(f"{name}: left out, as {program.needs} is not installed here; `make bench ARGS=--programs` has it")
            continue
        measured[name] = measure(name, options.rounds, options.quick)
        print(name, {side: round(seconds, 3) for side, seconds in measured[name].items()}, flush=True)
    print(page_table(measured))
    if options.page:
        fill("programs", page_table(measured))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
