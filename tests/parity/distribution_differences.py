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


def parameters(m: Any) -> Any:
    return m.TensorDict({"loc": torch.zeros(3), "scale": torch.ones(3)}, [3])


def point(m: Any, key: Any, **more: Any) -> Any:
    given: Any = {"in_keys": ["loc", "scale"], "distribution_class": d.Normal, **more}
    return m.nn.ProbabilisticTensorDictModule(out_keys=key, **given)


def both_laws(m: Any) -> Any:
    law = {"loc": torch.zeros(3), "scale": torch.ones(3)}
    return m.TensorDict({"p": {"x": law, "y": law}}, [3])


def several(m: Any, **more: Any) -> Any:
    return m.nn.ProbabilisticTensorDictModule(
        {"params": "p"},
        distribution_class=m.nn.CompositeDistribution,
        distribution_kwargs={"distribution_map": {"x": d.Normal, "y": d.Normal}},
        **more,
    )


def chain(m: Any, first: str = "deterministic", last: str = "deterministic", **more: Any) -> Any:
    """A sample ``y`` around a sample ``x``."""
    return m.nn.ProbabilisticTensorDictSequential(
        point(m, "x", default_interaction_type=first),
        point(m, "y", in_keys={"loc": "x", "scale": "scale"}, default_interaction_type=last),
        **more,
    )


def sampled(m: Any) -> Any:
    """``x`` is two standard deviations from its mean, and ``y`` from ``x``."""
    return parameters(m).update({"x": torch.full((3,), 2.0), "y": torch.zeros(3)})


def joint(m: Any) -> str:
    with m.nn.set_composite_lp_aggregate(False):
        found = chain(m).log_prob(sampled(m))
    return rounded((found["x_log_prob"] + found["y_log_prob"])[0])


def middle_is_certain(m: Any) -> bool:
    found = chain(m, "deterministic", "random", return_composite=False)(parameters(m))["x"]
    return not found.any()


def is_kept(m: Any) -> bool:
    module = m.nn.ProbabilisticTensorDictModule(["param"], "x", cache_dist=True)
    first, second = (module.get_dist(m.TensorDict({"param": torch.zeros(3)})) for _ in range(2))
    return first is second


#: for each sentence of docs/differences.md: a call, what is expected here, and what of the peer
DISTRIBUTIONS: dict[str, list[tuple[Call, Any, Any]]] = {
    "The tails of a truncated normal are exact.": [
        (lambda m: rounded(of(m).TruncatedNormal(*TAIL).mean), "8.12", "0.00"),
        (lambda m: rounded(of(m).TruncatedNormal(*TAIL).variance), "0.01", "1.00"),
        (lambda m: rounded(of(m).TruncatedNormal(*TAIL).icdf(torch.tensor(0.5))), "8.08", "8.00"),
    ],
    "The bounds of a truncated normal are its arguments.": [
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
    "The shapes of a Delta add up to the shape of its point.": [
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
    "The inverse softplus needs a positive number.": [
        (lambda m: m.nn.inv_softplus(0.0), error(ValueError), -13.815510749816895),
        (lambda m: m.nn.inv_softplus(100.0), 100.0, torch.inf),
        (lambda m: rounded(m.nn.biased_softplus(1.0, 1.0)(torch.zeros(()))), error(ValueError), "1.00"),
    ],
    "Location and scale need an even last dimension.": [
        (lambda m: m.nn.NormalParamExtractor()(torch.zeros(3))[0].shape, error(ValueError), torch.Size([2])),
        (
            lambda m: m.nn.AddStateIndependentNormalScale(3, scale_mapping="bad").scale_lb,
            error(NotImplementedError),
            1e-4,
        ),
    ],
    "Options for unknown variables are errors.": [
        (lambda m: len(composite(m, name_map={"x": "y", "other": "z"})), error(KeyError), 1),
        (lambda m: len(composite(m, extra_kwargs={"other": {}})), error(KeyError), 1),
    ],
    "Samples of several variables can have gradients.": [
        (lambda m: composite(m).has_rsample, True, False),
    ],
    "Entropies are summed on request.": [
        (entropy, True, False),
        (lambda m: m.nn.set_composite_lp_aggregate(1).mode, error(TypeError), True),
    ],
    "Existing samples are kept.": [
        (joint, "-5.84", "-3.84"),
    ],
    "Each module uses its own interaction type.": [
        (middle_is_certain, True, False),
    ],
    "Only `out_keys` are written.": [
        (lambda m: sorted(several(m, out_keys=["x"])(both_laws(m)).keys()), ["p", "x"], ["p", "x", "y"]),
        (lambda m: sorted(point(m, None)(parameters(m)).keys()), ["loc", "scale"], ["_", "loc", "scale"]),
    ],
    "A distribution has a median.": [
        (
            lambda m: point(m, "x", default_interaction_type="median")(parameters(m))["x"].tolist(),
            [0.0, 0.0, 0.0],
            error(NotImplementedError),
        ),
    ],
    "`cache_dist=True` keeps the distribution.": [
        (is_kept, True, False),
    ],
    "Contradictory arguments are refused.": [
        (lambda m: point(m, "x", log_prob_key="a", log_prob_keys=["b"]).log_prob_key, error(ValueError), "b"),
        (
            lambda m: point(m, "x", in_keys=[("a", "loc"), ("b", "loc")]).in_keys,
            error(TypeError),
            [("a", "loc"), ("b", "loc")],
        ),
    ],
    "Keys of probabilistic modules can be selected.": [
        (lambda m: point(m, "x", return_log_prob=True).select_out_keys("x").out_keys, ["x"], error(RuntimeError)),
    ],
    "`build_dist_from_params` returns the distribution of the sequence.": [
        (lambda m: type(chain(m).build_dist_from_params(sampled(m))).__name__, "CompositeDistribution", "Normal"),
    ],
}
