"""``collate`` gives what it gives in the peer, and refuses what it refuses there."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.parity.sides import OURS, PEER, described, outcome

pytestmark = pytest.mark.parity


def even(library: Any) -> list[Any]:
    return [library.TensorDict({"a": torch.full((2,), float(i)), "n": {"b": torch.tensor(i)}}) for i in range(3)]


def ragged(library: Any) -> list[Any]:
    return [
        library.TensorDict({"a": torch.ones(i + 1, 2), "b": torch.ones(3), "n": {"c": torch.full((3 - i,), i)}})
        for i in range(3)
    ]


def uneven(library: Any) -> list[Any]:
    return [library.TensorDict({"a": torch.ones(i + 1, 3 - i)}) for i in range(2)]


def batched(library: Any) -> list[Any]:
    return [library.TensorDict({"a": torch.ones(2, i + 1)}, batch_size=[2]) for i in range(2)]


BOTH: dict[Any, float] = {"a": -1.0, ("n", "c"): 7}
CALLS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda m: m.collate(even(m)),
    "a batch": lambda m: m.collate(even(m)[0]),
    "a tuple is a batch": lambda m: m.collate((1, 2)),
    "nothing": lambda m: m.collate([]),
    "pairs": lambda m: m.collate([(row, i) for i, row in enumerate(even(m))]),
    "dicts": lambda m: m.collate([{"row": row, "y": 1.5} for row in even(m)]),
    "tensors": lambda m: m.collate([torch.ones(2), torch.zeros(2)]),
    "texts": lambda m: m.collate(["a", "b"]),
    "padded": lambda m: m.collate(ragged(m), pad_keys=BOTH),
    "with masks": lambda m: m.collate(ragged(m), pad_keys=BOTH, mask_key="mask"),
    "with nested masks": lambda m: m.collate(ragged(m), pad_keys={**BOTH, "b": 0}, mask_key=("m", "mask")),
    "even rows padded": lambda m: m.collate(even(m), pad_keys={"a": 0}),
    "padded in pairs": lambda m: m.collate([(row, 1) for row in ragged(m)], pad_keys=BOTH),
    "an unknown key": lambda m: m.collate(ragged(m), pad_keys={"z": 0}),
    "an unknown nested key": lambda m: m.collate(ragged(m), nested_keys=["z"]),
    "a key in both": lambda m: m.collate(ragged(m), pad_keys={"a": 0}, nested_keys=["a"]),
    "masks of nothing": lambda m: m.collate(ragged(m), mask_key="mask"),
    "a mask over a value": lambda m: m.collate(ragged(m), pad_keys=BOTH, mask_key="b"),
    "two dimensions that differ": lambda m: m.collate(uneven(m), pad_keys={"a": 0}),
    "a batch dimension": lambda m: m.collate(batched(m), pad_keys={"a": 0}),
    "numbers": lambda m: m.collate(even(m), pad_keys={("n", "b"): 0}),
}


@pytest.mark.parametrize("name", CALLS)
def test_collate_does_the_same_as_in_the_peer(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, peers = (outcome(lambda library=library: CALLS[name](library)) for library in (OURS, PEER))
    assert type(ours) is type(peers) or not isinstance(ours, (tuple, list))
    assert described(ours) == described(peers)


def test_nested_keys_give_the_same_rows() -> None:
    ours, peers = (library.collate(ragged(library), nested_keys=["a", ("n", "c")]) for library in (OURS, PEER))
    for key in ("a", ("n", "c")):
        assert ours[key].is_nested
        for a, b in zip(ours[key].unbind(), peers[key].unbind(), strict=True):
            assert torch.equal(a, b)
