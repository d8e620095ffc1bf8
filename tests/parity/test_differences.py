"""Each difference that docs/differences.md lists is one, and there are no others in the list."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.parity.sides import OURS, PEER, described, outcome

pytestmark = pytest.mark.parity

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "differences.md"

Call = Callable[[Any], Any]


def error(cls: type[Exception]) -> Any:
    """What is compared when a call raises."""
    return described(cls())


def collection(library: Any, values: dict[str, Any], size: list[int] | None = None, **options: Any) -> Any:
    return library.TensorDict(values, batch_size=size or [], **options)


def named(library: Any) -> Any:
    return collection(library, {"a": torch.zeros(4, 3)}, [4, 3], names=["x", "y"])


def texts(library: Any, *values: str) -> Any:
    return collection(library, {"text": library.NonTensorStack(*values), "a": torch.zeros(len(values))}, [len(values)])


def assign(data: Any, index: Any, value: Any) -> Any:
    data[index] = value
    return data


def nested(library: Any, **options: Any) -> Any:
    return collection(library, {"n": {"a": torch.zeros(2)}}, [2], **options)


# the sentence in bold -> (a call, what it gives here, what it gives there)
DIFFERENCES: dict[str, list[tuple[Call, Any, Any]]] = {
    "Equal objects stay one.": [
        (lambda m: torch.stack([collection(m, {"text": "a"})] * 2)["text"], "a", ["a", "a"]),
    ],
    "Objects follow every operation.": [
        (lambda m: texts(m, "a", "b").view(1, 2)["text"], [["a", "b"]], error(RuntimeError)),
        (lambda m: texts(m, "a", "b").expand(0, 2)["text"], [], error(RuntimeError)),
        (
            lambda m: tuple(texts(m, "a", "b").unsqueeze(1).repeat(0, 2).get("text").batch_size),
            (0, 2),
            (0,),
        ),
    ],
    "A reduction keeps objects.": [
        (lambda m: texts(m, "a", "b").sum(0)["text"], "a", error(RuntimeError)),
    ],
    "Numbers are not written into objects.": [
        (
            lambda m: assign(collection(m, {"text": "a", "a": torch.zeros(2)}, [2]), 0, 1)["text"],
            "a",
            [torch.tensor(1), "a"],
        ),
    ],
    "Objects are compared position by position.": [
        (lambda m: m.NonTensorData("a", batch_size=[2]) == "a", torch.tensor([True, True]), False),
    ],
    "Objects are no leaves for `in`.": [
        (lambda m: "text" in texts(m, "a").keys(leaves_only=True), False, True),
    ],
    "Lists go as deep as the batch.": [
        (lambda m: collection(m, {"t": ["a", "b"]}, [2, 2])["t"], [["a", "a"], ["b", "b"]], error(RuntimeError)),
        (lambda m: collection(m, {"t": ["a", "b", "c"]}, [2])["t"], ["a", "b", "c"], error(RuntimeError)),
    ],
    "Dimensions are checked, also in a collection without tensors.": [
        (lambda m: tuple(collection(m, {"a": torch.zeros(4, 3)}, [4]).flatten(0, 1).shape), error(IndexError), (4,)),
        (lambda m: tuple(collection(m, {}, [4]).narrow(0, 0, 9).shape), error(RuntimeError), (9,)),
        (lambda m: tuple(collection(m, {}, [4]).flip((0, 0)).shape), error(RuntimeError), (4,)),
    ],
    "Names stay where the dimension stays.": [
        (lambda m: named(m).tile((2,)).names, ["x", "y"], [None, None]),
        (lambda m: named(m).broadcast_to((2, 4, 3)).names, [None, "x", "y"], [None, None, None]),
        (lambda m: (named(m) == 0).names, ["x", "y"], [None, None]),
        (lambda m: named(m).flatten(0, 0).names, ["x", "y"], [None, "y"]),
        (lambda m: named(m).unflatten(0, (2, 2)).names, [None, None, "y"], [None, "x", "y"]),
        (lambda m: named(m)[[[0, 1]]].names, [None, None, "y"], [None, "x", "y"]),
        (lambda m: named(m).new_zeros(2).names, [None], ["y"]),
    ],
    "`atleast_3d` puts dimensions where torch puts them.": [
        (lambda m: tuple(named(m).atleast_3d().shape), (4, 3, 1), (1, 4, 3)),
    ],
    "`permute` takes all batch dimensions.": [
        (lambda m: tuple(named(m).permute(0).shape), error(ValueError), (4, 3)),
    ],
    "`cat` needs the same number of batch dimensions.": [
        (
            lambda m: tuple(torch.cat([collection(m, {"a": torch.zeros(3, 2)}, size) for size in ([3, 2], [3])]).shape),
            error(RuntimeError),
            (6, 2),
        ),
    ],
    "`gather` needs an index with the dimensions of the batch.": [
        (lambda m: tuple(named(m).gather(0, torch.zeros(2, dtype=torch.long)).shape), error(RuntimeError), (2,)),
        (lambda m: tuple(named(m).gather(0, torch.zeros(0, 3, dtype=torch.long)).shape), (0, 3), error(RuntimeError)),
    ],
    "Rows with names can be written into an empty collection.": [
        (
            lambda m: list(assign(collection(m, {}, [2]), 0, collection(m, {"n": {"a": torch.zeros(3)}}, [3], names=["x"])).keys())
            if False
            else list(assign(collection(m, {}, [2, 4]), 0, collection(m, {"t": texts(m, "a")[0].get("text")}, [4], names=["x"])).keys()),
            ["t"],
            error(RuntimeError),
        ),
    ],
    "Their classes are those that torch raises on a tensor.": [
        (lambda m: named(m).unsqueeze(5), error(IndexError), error(RuntimeError)),
        (lambda m: named(m).flatten(2, 0), error(IndexError), error(ValueError)),
        (lambda m: named(m).split(0), error(RuntimeError), error(ValueError)),
        (lambda m: named(m).chunk(0), error(RuntimeError), error(ValueError)),
        (lambda m: named(m).tensor_split(0), error(RuntimeError), error(ValueError)),
        (lambda m: named(m)[..., 0, 0, 0], error(IndexError), error(RuntimeError)),
        (lambda m: named(m)[..., ...], error(IndexError), error(RuntimeError)),
        (
            lambda m: torch.cat([collection(m, {key: torch.zeros(2)}, [2]) for key in "ab"]),
            error(RuntimeError),
            error(KeyError),
        ),
    ],
    "A write that does not fit writes nothing.": [
        (
            lambda m: _written_before_the_error(m),
            0.0,
            1.0,
        ),
    ],
    "A row is not aligned from the right.": [
        (
            lambda m: assign(
                collection(m, {"a": torch.zeros(2, 2)}, [2]),
                slice(0, 2),
                collection(m, {"a": torch.tensor([1.0, 2.0])}, [2]),
            )["a"],
            error(RuntimeError),
            torch.tensor([[1.0, 2.0], [1.0, 2.0]]),
        ),
    ],
    "A part of a locked collection is unlocked with the whole.": [
        (lambda m: nested(m).lock_()["n"].unlock_().is_locked, error(RuntimeError), error(RuntimeError)),
    ],
    "What an operation gives is not locked.": [
        (lambda m: nested(m).lock_().reshape(1, 2).is_locked, False, True),
        (lambda m: nested(m).lock_().split(1)[0].is_locked, False, True),
        (lambda m: nested(m).lock_()[0].is_locked, False, False),
    ],
    "Values without tensors stay.": [
        (lambda m: list((collection(m, {"n": {}, "a": torch.zeros(2)}, [2]) + 1).keys()), ["n", "a"], ["a"]),
    ],
    "Below a leaf there is nothing.": [
        (lambda m: collection(m, {"leaf": "text"}).set(("leaf", "x"), 1)["leaf"], error(KeyError), "text"),
        (lambda m: collection(m, {"leaf": torch.zeros(1)}).get(("leaf", "x")), None, error(KeyError)),
        (lambda m: list(collection(m, {}).set_(("x", "y"), 1).keys()), error(KeyError), ["x"]),
    ],
    "Nested keys come behind their owner.": [
        (lambda m: list(nested(m).keys(True)), ["n", ("n", "a")], [("n", "a"), "n"]),
    ],
}


def _written_before_the_error(library: Any) -> float:
    target = collection(library, {"first": torch.zeros(2), "bad": torch.zeros(2, 3)}, [2])
    assert isinstance(outcome(lambda: assign(target, 0, collection(library, {"first": 1.0, "bad": torch.zeros(4)}))), Exception)
    return float(target["first"][0])


CASES = [(f"{sentence} {i}", *case) for sentence, cases in DIFFERENCES.items() for i, case in enumerate(cases, 1)]


@pytest.mark.parametrize("call, ours, peers", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_the_two_differ(call: Call, ours: Any, peers: Any) -> None:
    assert described(outcome(lambda: call(OURS))) == described(ours)
    assert described(outcome(lambda: call(PEER))) == described(peers)
