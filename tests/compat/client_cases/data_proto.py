"""What verl's DataProto does with collections: batches of prompts that are split, joined, sent and extended."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from tensordict import NonTensorData, NonTensorStack, TensorDict, lazy_stack, stack

from .outcomes import Case

ROWS = 6


def padded() -> Any:
    """Prompts and answers of one length."""
    return TensorDict(
        {
            "prompts": torch.arange(ROWS * 4).view(ROWS, 4),
            "responses": torch.randint(100, (ROWS, 3)),
            "scores": torch.randn(ROWS),
        },
        batch_size=[ROWS],
    )


def rows_of(layout: torch.layout) -> Any:
    """Prompts of different length, as a nested tensor."""
    rows = [torch.arange(1 + i) for i in range(ROWS)]
    data = TensorDict({"mask": torch.ones(ROWS, 2)}, batch_size=[ROWS])
    data["prompts"] = torch.nested.nested_tensor(rows, layout=layout)
    return data


def with_objects() -> Any:
    data = padded()
    data["uid"] = NonTensorStack(*[NonTensorData(f"prompt {i}") for i in range(ROWS)])
    data.set_non_tensor("meta", {"temperature": 0.7})
    return data


def ragged() -> Any:
    return lazy_stack(
        [TensorDict({"prompts": torch.arange(1 + i), "score": torch.tensor(float(i))}) for i in range(ROWS)]
    )


DATA = {
    "padded": padded,
    "strided": partial(rows_of, torch.strided),
    "jagged": partial(rows_of, torch.jagged),
    "objects": with_objects,
    "ragged": ragged,
}


def chunked(data: Any) -> Any:
    return [[len(part), part] for part in data.chunk(3)]


def split(data: Any) -> Any:
    return list(data.split(4))


def joined(data: Any) -> Any:
    return torch.cat([data, data.clone()], 0)


def chunked_and_joined(data: Any) -> Any:
    return torch.cat(list(data.chunk(2)), 0)


def pickled(data: Any) -> Any:
    return pickle.loads(pickle.dumps(data))


def saved(data: Any) -> Any:
    file = io.BytesIO()
    torch.save(data, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def consolidated(data: Any) -> Any:
    return pickle.loads(pickle.dumps(data.contiguous().consolidate()))


def folded(data: Any) -> Any:
    """Two answers for each prompt: rows become groups, and rows again."""
    grouped = data.view(ROWS // 2, 2)
    return [grouped, grouped.reshape(-1), data.unflatten(0, (2, -1)).flatten(0, 1)]


def united(data: Any) -> Any:
    """Keys of another batch are added, those of both are the same."""
    other = TensorDict({"values": torch.ones(ROWS, 3), "advantages": torch.zeros(ROWS)}, batch_size=[ROWS])
    return [data.clone().update(other), data.select(*list(data.keys())[:1]).update(other)]


def repeated(data: Any) -> Any:
    return [data.repeat_interleave(2, dim=0), torch.cat([data] * 2, 0)]


def taken(data: Any) -> Any:
    """Rows by index, mask and slice, and keys by name."""
    return [data[torch.tensor([2, 0])], data[torch.arange(ROWS) > 2], data[1:4], data[0], data.exclude("prompts")]


def renamed(data: Any) -> Any:
    keys = list(data.keys())
    return [data.clone(False).rename_key_(keys[0], "input_ids"), data.pop(keys[0]), data]


def moved(data: Any) -> Any:
    return [data.to("cpu"), data.clone(), data.detach(), data.contiguous()]


def reordered(data: Any) -> Any:
    return data[torch.randperm(ROWS)]


def minibatches(data: Any) -> Any:
    order = torch.randperm(ROWS)
    return [data[part] for part in order.split(4)]


def stacked(data: Any) -> Any:
    return stack([data, data.clone()], 0)


USES = (
    chunked, split, joined, chunked_and_joined, pickled, saved, consolidated, folded, united, repeated, taken, renamed,
    moved, reordered, minibatches, stacked,
)  # fmt: skip


def cases() -> Iterator[tuple[str, Case]]:
    """Yield the name and the function of each case."""
    for name, make in DATA.items():
        for use in USES:
            yield f"{use.__name__}, {name}", lambda use=use, make=make: use(make())
