"""Where distributions and those of the peer differ, as tests/parity/test_differences.py lists it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensordict.nn.distributions  # noqa: F401
import torch
from torch import distributions as d

import tensorclass.nn  # noqa: F401
from tests.parity.sides import described

Call = Callable[[Any], Any]
X = torch.arange(6.0).reshape(2, 3)
TAIL = (torch.tensor(0.0), torch.tensor(1.0), 8.0, 9.0)


def error(cls: type[Exception]) -> Any:
    return described(cls())


def of(m: Any) -> Any:
    return m.nn.distributions


def rounded(value: torch.Tensor) -> str:
    return f"{value.item():.2f}"


def gradients_of_one_hot(m: Any) -> int:
    """How many different gradients there are, of samples of the same parameters."""
    found = set()
    for seed in range(6):
        torch.manual_seed(seed)
        logits = torch.zeros(3, requires_grad=True)
        (of(m).OneHotCategorical(logits).rsample() * torch.arange(1.0, 4.0)).sum().backward()
        assert logits.grad is not None
        found.add(tuple(round(number, 3) for number in logits.grad.tolist()))
    return len(found)


def law(m: Any) -> Any:
    return m.TensorDict({"x": {"loc": torch.zeros(3), "scale": torch.ones(3)}}, [3])


def composite(m: Any, **more: Any) -> Any:
    return m.nn.CompositeDistribution(law(m), {"x": d.Normal}, **more)


def entropy(m: Any) -> bool:
    return isinstance(composite(m).entropy(aggregate_probabilities=True), torch.Tensor)


#: for each sentence of docs/differences.md: a call, what is expected here, and what of the peer
DISTRIBUTIONS: dict[str, list[tuple[Call, Any, Any]]] = {
    "The tails of a truncated normal are exact.": [
        (lambda m: rounded(of(m).TruncatedNormal(*TAIL).mean), "8.12", "0.00"),
        (lambda m: rounded(of(m).TruncatedNormal(*TAIL).variance), "0.01", "1.00"),
        (lambda m: rounded(of(m).TruncatedNormal(*TAIL).icdf(torch.tensor(0.5))), "8.08", "8.00"),
    ],
    "The bounds of a truncated normal are those that were given.": [
        (lambda m: of(m).TruncatedNormal(torch.tensor(1.0), torch.tensor(2.0), -2.0, 2.0).a.item(), -2.0, -1.5),
        (lambda m: of(m).TruncatedNormal(torch.tensor(1.0), torch.tensor(2.0), -1.0, 2.0).b.item(), 2.0, 0.5),
        (lambda m: of(m).TruncatedNormal(*TAIL).mode.item(), 8.0, error(NotImplementedError)),
        (
            lambda m: of(m).TruncatedNormal(torch.zeros(3), 1.0, -1.0, 1.0).expand((4, 3)).batch_shape,
            torch.Size([4, 3]),
            error(NotImplementedError),
        ),
        (
            lambda m: of(m).TruncatedNormal(torch.tensor(0.0), torch.tensor(-1.0), -1.0, 1.0).batch_shape,
            error(ValueError),
            torch.Size([]),
        ),
    ],
    "The shapes of a Delta make up that of its point.": [
        (lambda m: of(m).Delta(X, batch_shape=(2,)).event_shape, torch.Size([3]), torch.Size([])),
        (lambda m: of(m).Delta(X, event_shape=(3,)).batch_shape, torch.Size([2]), torch.Size([])),
        (lambda m: of(m).Delta(X, event_shape=(7,)).event_shape, error(ValueError), (7,)),
    ],
    "A Delta is of any dtype.": [
        (
            lambda m: of(m).Delta(torch.tensor([1, 2])).log_prob(torch.tensor([1, 3])).item(),
            -torch.inf,
            error(RuntimeError),
        ),
        (lambda m: of(m).Delta(X).variance.any().item(), False, error(NotImplementedError)),
        (lambda m: of(m).Delta(X).expand((4, 2)).batch_shape, torch.Size([4, 2]), error(NotImplementedError)),
    ],
    "One-hot categories are vectors.": [
        (lambda m: of(m).OneHotCategorical(X).event_shape, torch.Size([3]), torch.Size([])),
        (lambda m: of(m).OneHotCategorical(X).mean.isnan().any().item(), False, True),
        (
            lambda m: of(m).OneHotCategorical(X).log_prob(torch.eye(3)[:2].bool()).shape,
            torch.Size([2]),
            error(RuntimeError),
        ),
        (
            lambda m: of(m).OneHotCategorical(X).expand((4, 2)).batch_shape,
            torch.Size([4, 2]),
            error(NotImplementedError),
        ),
        (gradients_of_one_hot, 1, 6),
    ],
    "What is not positive has no inverse softplus.": [
        (lambda m: m.nn.inv_softplus(0.0), error(ValueError), -13.815510749816895),
        (lambda m: m.nn.inv_softplus(100.0), 100.0, torch.inf),
        (lambda m: rounded(m.nn.biased_softplus(1.0, 1.0)(torch.zeros(()))), error(ValueError), "1.00"),
    ],
    "What cannot be halved is no location and scale.": [
        (lambda m: m.nn.NormalParamExtractor()(torch.zeros(3))[0].shape, error(ValueError), torch.Size([2])),
        (
            lambda m: m.nn.AddStateIndependentNormalScale(3, scale_mapping="bad").scale_lb,
            error(NotImplementedError),
            1e-4,
        ),
    ],
    "What is said of no variable is an error.": [
        (lambda m: len(composite(m, name_map={"x": "y", "other": "z"})), error(KeyError), 1),
        (lambda m: len(composite(m, extra_kwargs={"other": {}})), error(KeyError), 1),
    ],
    "Samples of several variables can have gradients.": [
        (lambda m: composite(m).has_rsample, True, False),
    ],
    "Entropies are added up where that is asked for.": [
        (entropy, True, False),
        (lambda m: m.nn.set_composite_lp_aggregate(1).mode, error(TypeError), True),
    ],
}
