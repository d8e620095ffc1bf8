"""Replay buffers of TorchRL: what goes in, where it is kept, how it is drawn and what is done with it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import LazyStackedTensorDict, NonTensorData, TensorClass, TensorDict, lazy_stack, tensorclass
from torch import Tensor
from torchrl.data import (
    LazyMemmapStorage,
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    ReplayBuffer,
    ReplayBufferEnsemble,
    TensorDictReplayBuffer,
    TensorStorage,
)
from torchrl.data.replay_buffers.samplers import (
    RandomSampler,
    SamplerWithoutReplacement,
    SliceSampler,
    SliceSamplerWithoutReplacement,
)
from torchrl.data.replay_buffers.storages import CompressedListStorage
from torchrl.data.replay_buffers.writers import RoundRobinWriter, TensorDictMaxValueWriter, TensorDictRoundRobinWriter

from .outcomes import Case

ROWS = 12


class Step(TensorClass):
    """A record of fields that are given, and one that is not."""

    observation: Tensor
    action: Tensor
    text: str | None = None


@tensorclass
class Decorated:
    """A record by the decorator, with a nested collection."""

    observation: Tensor
    inner: TensorDict


def flat() -> Any:
    return TensorDict({"a": torch.randn(ROWS, 3), "i": torch.arange(ROWS), "done": torch.zeros(ROWS, 1).bool()}, [ROWS])


def nested() -> Any:
    inner = TensorDict({"reward": torch.randn(ROWS, 1), "deep": TensorDict({"x": torch.ones(ROWS, 2)}, [ROWS])}, [ROWS])
    return TensorDict({"obs": torch.randn(ROWS, 4), "next": inner}, [ROWS])


def trajectories() -> Any:
    done = torch.zeros(ROWS, 1, dtype=torch.bool)
    done[3::4] = True
    return TensorDict(
        {
            "obs": torch.arange(ROWS),
            "episode": torch.arange(ROWS) // 4,
            "next": TensorDict({"done": done, "terminated": done, "truncated": torch.zeros_like(done)}, [ROWS]),
        },
        [ROWS],
    )


def with_text() -> Any:
    return TensorDict({"a": torch.randn(ROWS), "text": NonTensorData("same", batch_size=[ROWS])}, [ROWS])


def with_texts() -> Any:
    data = TensorDict({"a": torch.randn(ROWS)}, [ROWS])
    data["text"] = [f"row {i}" for i in range(ROWS)]
    return data


def named() -> Any:
    return TensorDict({"a": torch.randn(ROWS, 2)}, [ROWS], names=["time"])


def two_dims() -> Any:
    return TensorDict({"a": torch.arange(ROWS * 2).view(2, ROWS), "b": torch.randn(2, ROWS, 3)}, [2, ROWS])


def record() -> Any:
    return Step(torch.randn(ROWS, 3), torch.randn(ROWS, 1), batch_size=[ROWS])


def record_with_text() -> Any:
    return Step(torch.randn(ROWS, 3), torch.randn(ROWS, 1), "same", batch_size=[ROWS])


def decorated() -> Any:
    return Decorated(torch.randn(ROWS, 3), TensorDict({"x": torch.randn(ROWS)}, [ROWS]), batch_size=[ROWS])


def ragged() -> Any:
    return lazy_stack([TensorDict({"a": torch.arange(i + 1), "b": torch.ones(())}) for i in range(ROWS)])


def lazy() -> Any:
    return LazyStackedTensorDict(*[TensorDict({"a": torch.full((2,), float(i))}) for i in range(ROWS)])


def tensor() -> Any:
    return torch.randn(ROWS, 3)


def tree() -> Any:
    return {"a": torch.randn(ROWS), "b": [torch.arange(ROWS), torch.ones(ROWS, 2)]}


DATA: dict[str, Callable[[], Any]] = {
    one.__name__: one
    for one in (
        flat, nested, trajectories, with_text, with_texts, named, two_dims, record, record_with_text, decorated, ragged,
        lazy, tensor, tree,
    )
}  # fmt: skip

STORAGES: dict[str, Callable[[], Any]] = {
    "list": partial(ListStorage, 20),
    "tensor": partial(LazyTensorStorage, 20),
    "tensor, small": partial(LazyTensorStorage, 8),
    "tensor, cpu": partial(LazyTensorStorage, 20, device="cpu"),
    "tensor, 2 dims": partial(LazyTensorStorage, 40, ndim=2),
    "memmap": partial(LazyMemmapStorage, 20),
    "lazy stack": partial(LazyStackStorage, 20),
    "compressed": partial(CompressedListStorage, 20),
}

SAMPLERS: dict[str, Callable[[], Any]] = {
    "random": RandomSampler,
    "without replacement": SamplerWithoutReplacement,
    "without replacement, in order": partial(SamplerWithoutReplacement, shuffle=False),
    "slices by end": partial(SliceSampler, num_slices=2, end_key=("next", "done")),
    "slices by episode": partial(SliceSampler, slice_len=2, traj_key="episode"),
    "slices, not strict": partial(SliceSampler, num_slices=2, traj_key="episode", strict_length=False),
    "slices without replacement": partial(SliceSamplerWithoutReplacement, num_slices=2, traj_key="episode"),
}

BUFFERS: dict[str, Any] = {"plain": ReplayBuffer, "of collections": TensorDictReplayBuffer}


def extended(data: str, storage: str, buffer: str = "plain", **options: Any) -> Any:
    """Return a buffer with the data, and the data."""
    made = BUFFERS[buffer](storage=STORAGES[storage](), batch_size=4, **options)
    rows = DATA[data]()
    made.extend(rows)
    return made, rows


def in_and_out(data: str, storage: str, buffer: str) -> Any:
    made, _ = extended(data, storage, buffer)
    return [len(made), made.sample(), made.sample(3), made[:], made[0], made[2:5], made[torch.tensor([1, 0])]]


def added_row_by_row(data: str, storage: str, buffer: str) -> Any:
    made = BUFFERS[buffer](storage=STORAGES[storage](), batch_size=2)
    rows = DATA[data]()
    found = [made.add(rows[i]) for i in range(3)]
    return [found, len(made), made[:], made.sample()]


def with_info(data: str, storage: str, buffer: str) -> Any:
    return extended(data, storage, buffer)[0].sample(return_info=True)


def filled_again(data: str, storage: str, buffer: str) -> Any:
    made, rows = extended(data, storage, buffer)
    return [made.extend(rows), len(made), made[:], made.write_count]


def emptied(data: str, storage: str, buffer: str) -> Any:
    made, rows = extended(data, storage, buffer)
    made.empty()
    before = len(made)
    made.extend(rows[:3])
    return [before, len(made), made[:]]


def state(data: str, storage: str, buffer: str) -> Any:
    made, _ = extended(data, storage, buffer)
    again = BUFFERS[buffer](storage=STORAGES[storage](), batch_size=4)
    again.load_state_dict(made.state_dict())
    return [len(again), again[:], again.sample()]


def files(data: str, storage: str, buffer: str) -> Any:
    made, rows = extended(data, storage, buffer)
    with tempfile.TemporaryDirectory() as folder:
        made.dumps(Path(folder) / "kept")
        again = BUFFERS[buffer](storage=STORAGES[storage](), batch_size=4)
        if storage not in ("list", "lazy stack", "compressed"):
            again.extend(rows)
        again.loads(Path(folder) / "kept")
        return [len(again), again[:], again.sample()]


def written_through(data: str, storage: str, buffer: str) -> Any:
    made, _ = extended(data, storage, buffer)
    index = torch.tensor([0, 3])
    made[index] = made[torch.tensor([4, 5])]
    return made[:5]


def transformed(data: str, storage: str, buffer: str) -> Any:
    made, _ = extended(data, storage, buffer)
    made.append_transform(lambda rows: rows.set("new", torch.ones(rows.shape)) if hasattr(rows, "set") else rows)
    return made.sample()


def iterated(data: str, storage: str, buffer: str) -> Any:
    made, _ = extended(data, storage, buffer, sampler=SamplerWithoutReplacement())
    return list(zip(range(4), made, strict=False))


def sampled_by(data: str, storage: str, sampler: str) -> Any:
    made, _ = extended(data, storage, "of collections", sampler=SAMPLERS[sampler]())
    return [made.sample() for _ in range(3)]


def sampled_by_after_more(data: str, storage: str, sampler: str) -> Any:
    made, rows = extended(data, storage, "of collections", sampler=SAMPLERS[sampler]())
    made.sample()
    made.extend(rows)
    made.empty()
    made.extend(rows)
    return [made.sample(), made.sampler.state_dict()]


def written_by(writer: str, data: str, storage: str) -> Any:
    made = TensorDictReplayBuffer(storage=STORAGES[storage](), batch_size=4, writer=WRITERS[writer]())
    rows = DATA[data]()
    return [made.extend(rows), made.extend(rows), made.add(rows[0]), len(made), made[:], made.sample()]


WRITERS: dict[str, Callable[[], Any]] = {
    "round robin": RoundRobinWriter,
    "round robin of collections": TensorDictRoundRobinWriter,
    "largest": partial(TensorDictMaxValueWriter, rank_key="i"),
    "largest sum": partial(TensorDictMaxValueWriter, rank_key=("a"), reduction="sum"),
}

USES = (
    in_and_out,
    added_row_by_row,
    with_info,
    filled_again,
    emptied,
    state,
    files,
    written_through,
    transformed,
    iterated,
)


def together() -> Any:
    """An ensemble of buffers."""
    parts = [extended("flat", storage)[0] for storage in ("tensor", "memmap")]
    made = ReplayBufferEnsemble(*parts, batch_size=6)
    return [made.sample(), made.sample(return_info=True)[0], len(made), made[0, 1], made[:]]


def made_of_a_collection() -> Any:
    """A storage that is given what it holds."""
    made: Any = ReplayBuffer(storage=TensorStorage(flat()), batch_size=4)
    return [len(made), made.sample(), made[3]]


def cases() -> Iterator[tuple[str, Case]]:
    """Yield the name and the function of each case."""
    for data in DATA:
        for storage in STORAGES:
            for buffer in BUFFERS:
                for use in USES:
                    yield f"{use.__name__}, {data}, {storage}, {buffer}", partial(use, data, storage, buffer)
    for data in ("flat", "nested", "trajectories", "two_dims", "record"):
        for storage in ("tensor", "memmap", "list", "tensor, 2 dims"):
            for sampler in SAMPLERS:
                for way in (sampled_by, sampled_by_after_more):
                    yield f"{way.__name__} {sampler}, {data}, {storage}", partial(way, data, storage, sampler)
    for writer in WRITERS:
        for data in ("flat", "nested", "record", "with_text"):
            for storage in ("tensor", "memmap", "list", "tensor, small"):
                yield f"written_by {writer}, {data}, {storage}", partial(written_by, writer, data, storage)
    yield "together", together
    yield "made_of_a_collection", made_of_a_collection
