"""Each torch function that the peer takes is taken here, and gives the same.

torch itself lists the functions that a class may answer, with the names of their arguments; they are called with what
such arguments usually are, and where the peer answers, its answer is compared.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.parity.sides import OURS, PEER, described, outcome

pytestmark = pytest.mark.parity

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    NAMED = {torch.overrides.resolve_name(f): f for f in torch.overrides.get_testing_overrides()}
    SIGNATURES = torch.overrides.get_testing_overrides()

#: what stands for an argument: a name of VALUES, or the value itself
USUAL: dict[str, list[Any]] = {
    "dim": [0],
    "dims": [(1, 0)],
    "dim0": [0],
    "dim1": [1],
    "axis0": [0],
    "axis1": [1],
    "size": [(2, 3)],
    "shape": [(3, 2)],
    "condition": ["mask"],
    "mask": ["mask"],
    "index": ["index"],
    "tensors": [["data", "data"]],
    "other": ["data", 2.0],
}
ANYTHING = ["data", 0, (0, 1), 0.5, "tensor", True]
VALUES: dict[str, Callable[[Any, torch.dtype], Any]] = {
    "data": lambda library, dtype: collection(library, dtype),
    "tensor": lambda library, dtype: torch.ones(2, 3, dtype=dtype),
    "index": lambda library, dtype: torch.zeros(2, 3, dtype=torch.long),
    "mask": lambda library, dtype: torch.tensor([[True, False, True], [False, False, True]]),
}
#: values that nobody can foresee, and a difference that docs/differences.md lists
LEFT_OUT = {"torch.rand_like", "torch.randn_like", "torch.randint_like", "torch.empty_like"}
LEFT_OUT |= {"torch.functional.atleast_3d"}


def collection(library: Any, dtype: torch.dtype) -> Any:
    a, c = torch.linspace(0.1, 2.9, 6).reshape(2, 3), torch.linspace(0.2, 3.1, 24).reshape(2, 3, 4)
    nested = library.TensorDict({"c": c.to(dtype)}, batch_size=[2, 3])
    return library.TensorDict({"a": a.to(dtype), "b": nested}, batch_size=[2, 3])


def made(template: Any, library: Any, dtype: torch.dtype) -> Any:
    if isinstance(template, list):
        return [made(part, library, dtype) for part in template]
    return VALUES[template](library, dtype) if isinstance(template, str) else template


def templates(function: Any) -> Any:
    parameters = inspect.signature(SIGNATURES[function]).parameters.values()
    names = [p.name for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    first = USUAL.get(names[0], ["data"]) if names else ["data"]
    return itertools.islice(itertools.product(first, *[USUAL.get(name, ANYTHING) for name in names[1:4]]), 100)


def answer(function: Any, template: Any, library: Any, dtype: torch.dtype) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return outcome(lambda: function(*[made(part, library, dtype) for part in template]))


def answered() -> list[tuple[str, Any, torch.dtype]]:
    """The calls that the peer answers, by the names of the functions."""
    found: list[tuple[str, Any, torch.dtype]] = []
    for name, function in NAMED.items():
        if not name or name in LEFT_OUT or "_foreach_" in name:
            continue
        for template, dtype in itertools.product(templates(function), (torch.float32, torch.int64, torch.bool)):
            result = answer(function, template, PEER, dtype)
            if isinstance(result, Exception):
                missing = isinstance(result, TypeError) and ("dispatch" in str(result) or "no impl" in str(result))
                if missing:
                    break
            elif result is not NotImplemented:
                found.append((name, template, dtype))
                break
    return found


def test_what_the_peer_takes_is_taken_here_with_the_same_result() -> None:
    calls = answered()
    assert len({name for name, *_ in calls}) > 80
    different = []
    for name, template, dtype in calls:
        ours, peers = (described(answer(NAMED[name], template, library, dtype)) for library in (OURS, PEER))
        if ours != peers:
            different.append((name, template, dtype, ours, peers))
    assert different == []
