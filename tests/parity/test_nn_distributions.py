"""Distributions, mappings and modules of parameters: the same seeds and arguments in both libraries."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import tensordict.nn
import tensordict.nn.distributions as peers
import torch
from torch import Tensor
from torch import distributions as d

import tensorclass
from tensorclass.nn import distributions as ours

pytestmark = pytest.mark.parity

Call = Callable[[Any], Any]
LOGITS = torch.tensor([[0.1, 2.0, -1.0], [0.0, 0.5, 0.0]])
X = torch.linspace(-4.0, 4.0, 12).reshape(2, 6)


@pytest.fixture(autouse=True)
def separate() -> Any:
    """The peer's mode at the start depends on what ran before."""
    with tensordict.nn.set_composite_lp_aggregate(False):
        yield


def equal(found: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert type(found) is type(expected)
        for one, other in zip(found, expected, strict=True):
            equal(one, other)
    elif isinstance(expected, tensordict.TensorDictBase):
        keys = {*expected.keys(True, True)}
        assert {*found.keys(True, True)} == keys
        assert found.batch_size == expected.batch_size
        for key in keys:
            equal(found[key], expected[key])
    elif isinstance(expected, Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    else:
        assert found == expected


def both(call: Call) -> None:
    torch.manual_seed(0)
    expected = call(peers)
    torch.manual_seed(0)
    equal(call(ours), expected)


def truncated(library: Any) -> Any:
    return library.TruncatedNormal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]), -1.0, 2.0)


INSIDE = torch.tensor([[-0.5, 0.0], [0.7, 1.9]])

CALLS: dict[str, Call] = {
    "truncated: mean": lambda m: truncated(m).mean,
    "truncated: variance": lambda m: truncated(m).variance,
    "truncated: stddev": lambda m: truncated(m).stddev,
    "truncated: entropy": lambda m: truncated(m).entropy(),
    "truncated: auc": lambda m: truncated(m).auc,
    "truncated: log_prob": lambda m: truncated(m).log_prob(INSIDE),
    "truncated: cdf": lambda m: truncated(m).cdf(INSIDE),
    "truncated: icdf": lambda m: truncated(m).icdf(torch.tensor([0.0, 1.0])),
    "truncated: icdf inside": lambda m: truncated(m).icdf(torch.tensor([0.2, 0.9])),
    "truncated: sample": lambda m: truncated(m).sample((3,)),
    "truncated: rsample": lambda m: truncated(m).rsample((3,)),
    "truncated: shapes": lambda m: (truncated(m).batch_shape, truncated(m).event_shape, truncated(m).has_rsample),
    "truncated: numbers": lambda m: m.TruncatedNormal(0, 1, -1, 1).batch_shape,
    "truncated: support": lambda m: (truncated(m).support.lower_bound, truncated(m).support.upper_bound),
    "one-hot: sample": lambda m: m.OneHotCategorical(logits=LOGITS).sample((5,)),
    "one-hot: log_prob": lambda m: m.OneHotCategorical(LOGITS).log_prob(torch.tensor([[1, 0, 0], [0, 0, 1]])),
    "one-hot: entropy": lambda m: m.OneHotCategorical(probs=LOGITS.softmax(-1)).entropy(),
    "one-hot: mode": lambda m: m.OneHotCategorical(LOGITS).mode,
    "one-hot: deterministic": lambda m: m.OneHotCategorical(LOGITS).deterministic_sample,
    "one-hot: logits": lambda m: m.OneHotCategorical(LOGITS).logits,
    "one-hot: probs": lambda m: m.OneHotCategorical(LOGITS).probs,
    "one-hot: param_shape": lambda m: m.OneHotCategorical(LOGITS).param_shape,
    "one-hot: num_params": lambda m: m.OneHotCategorical.num_params,
    "delta: shapes": lambda m: (m.Delta(X).batch_shape, m.Delta(X).event_shape),
    "delta: sample": lambda m: m.Delta(X).sample((2,)),
    "delta: log_prob": lambda m: m.Delta(X).log_prob(torch.stack([X, X + 1e-7, X + 1])),
    "delta: all of them": lambda m: (m.Delta(X).mean, m.Delta(X).mode, m.Delta(X).deterministic_sample),
    "delta: both shapes": lambda m: m.Delta(X, batch_shape=(2,), event_shape=(6,)).log_prob(X),
    "delta: a number": lambda m: m.Delta(torch.tensor(1.0)).log_prob(torch.tensor(1.0)),
    "extractor": lambda m: m.NormalParamExtractor()(X),
    "extractor: others": lambda m: m.NormalParamExtractor("exp", scale_lb=2.0)(X, torch.ones(2)),
    "extractor: state": lambda m: list(m.NormalParamExtractor().state_dict()),
    "scale": lambda m: m.AddStateIndependentNormalScale(6)(X),
    "scale: number": lambda m: m.AddStateIndependentNormalScale()(X, torch.ones(1)),
    "scale: arguments": lambda m: m.AddStateIndependentNormalScale(
        (2, 6), scale_mapping="softplus", scale_lb=0.8, init_value=0.5
    )(X),
    "scale: state": lambda m: list(m.AddStateIndependentNormalScale(6).state_dict()),
    "scale: buffer": lambda m: list(m.AddStateIndependentNormalScale(6, make_param=False).buffers()),
    **{
        f"mapping: {name}": lambda m, name=name: m.mappings(name)(X)
        for name in ("exp", "softplus", "relu", "expln", "none", "biased_softplus", "biased_softplus_0.5_0.2")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_the_two_agree(name: str) -> None:
    both(CALLS[name])


@pytest.mark.parametrize("bias, min_val", [(1.0, 0.01), (0.5, 0.1), (2.0, 0.0)])
def test_biased_softplus_agrees(bias: float, min_val: float) -> None:
    equal(tensorclass.nn.biased_softplus(bias, min_val)(X), tensordict.nn.biased_softplus(bias, min_val)(X))
    equal(tensorclass.nn.inv_softplus(torch.tensor(bias)), tensordict.nn.inv_softplus(torch.tensor(bias)))


def _params(library: Any, requires_grad: bool = False) -> Any:
    torch.manual_seed(3)
    loc, logits = torch.randn(3, 4), torch.randn(3, 5)
    values = {"speed": {"loc": loc, "scale": torch.rand(3, 4) + 1}, ("box", "gear", "logits"): logits}
    found = library.TensorDict(values, [3])
    return found.requires_grad_() if requires_grad else found


MAP = {"speed": d.Normal, ("box", "gear"): d.Categorical}

COMPOSITE: dict[str, Call] = {
    "sample": lambda c: c.sample(),
    "samples": lambda c: c.sample((2,)),
    "mode": lambda c: c.mode,
    "deterministic": lambda c: c.deterministic_sample,
    "keys": lambda c: list(c.keys()),
    "kinds": lambda c: [type(value) for value in c.values()],
    "shapes": lambda c: (c.batch_shape, c.event_shape),
    "log_prob": lambda c: c.log_prob(c.sample()),
    "log_prob of several": lambda c: c.log_prob(c.sample((2,))),
    "composite": lambda c: c.log_prob_composite(c.sample()),
    "composite with sum": lambda c: c.log_prob_composite(c.sample(), include_sum=True),
    "composite without": lambda c: c.log_prob_composite(c.sample(), include_sum=False),
    "entropy": lambda c: c.entropy(),
    "entropy composite": lambda c: c.entropy_composite(),
    "entropy with sum": lambda c: c.entropy_composite(include_sum=True),
    "together": lambda c: c.sample_and_log_prob((2,)),
    "key": lambda c: (c.log_prob_key, c.entropy_key),
}


@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("name", COMPOSITE)
def test_composite_distributions_agree(name: str, named: bool, aggregate: bool) -> None:
    found = []
    for library, nn in ((tensordict, tensordict.nn), (tensorclass, tensorclass.nn)):
        more: Any = {"name_map": {"speed": ("a", "b"), ("box", "gear"): "c"}, "log_prob_key": "lp"} if named else {}
        with nn.set_composite_lp_aggregate(aggregate):
            composite = nn.CompositeDistribution(_params(library), MAP, **more)
            torch.manual_seed(0)
            found.append(COMPOSITE[name](composite))
    equal(found[1], found[0])


def test_gradients_of_log_probabilities_agree() -> None:
    found = []
    for library, nn in ((tensordict, tensordict.nn), (tensorclass, tensorclass.nn)):
        params = _params(library, requires_grad=True)
        composite = nn.CompositeDistribution(params, MAP)
        torch.manual_seed(0)
        with nn.set_composite_lp_aggregate(True):
            composite.log_prob(composite.sample()).sum().backward()
        found.append({key: params[key].grad for key in params.keys(True, True)})
    for key, value in found[0].items():
        equal(found[1][key], value)


def test_distribution_functions_agree() -> None:
    found = []
    for library, nn in ((tensordict, tensordict.nn), (tensorclass, tensorclass.nn)):
        composite = nn.CompositeDistribution(_params(library).select("speed"), {"speed": d.Normal})
        torch.manual_seed(0)
        found.append([composite.icdf(composite.cdf(composite.sample())), composite.icdf(composite.sample())])
    equal(found[1], found[0])


@pytest.mark.parametrize("values", [torch.full((4, 3), 1 / 3), torch.eye(3)])
def test_random_one_hot_vectors_have_the_same_form(values: Tensor) -> None:
    mine, other = tensorclass.nn.rand_one_hot(values, False), tensordict.nn.rand_one_hot(values, False)
    assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
    assert torch.equal(mine.sum(-1), other.sum(-1))


@pytest.mark.parametrize("given", ["mode", "RANDOM", None, tensordict.nn.InteractionType.MEAN])
def test_interaction_types_agree(given: Any) -> None:
    with tensordict.nn.set_interaction_type(given), tensorclass.nn.set_interaction_type(given):
        assert tensorclass.nn.interaction_type() == tensordict.nn.interaction_type()
    assert tensorclass.nn.interaction_type() is tensordict.nn.interaction_type() is None


MISTAKES: dict[str, Call] = {
    "unknown mapping": lambda m: m.mappings("sigmoid"),
    "numbers of a mapping": lambda m: m.mappings("biased_softplus_x"),
    "too many numbers": lambda m: m.mappings("biased_softplus_1_2_3"),
    "interaction": lambda m: m.set_interaction_type("best"),
    "bounds": lambda m: m.TruncatedNormal(torch.zeros(2), torch.ones(2), 1.0, -1.0),
    "outside": lambda m: truncated(m).log_prob(torch.tensor(math.pi)),
    "no logits": lambda m: m.OneHotCategorical(),
    "scale shape": lambda m: m.AddStateIndependentNormalScale(3)(X),
    "no tensor": lambda m: m.NormalParamExtractor()(),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_errors_are_of_the_same_class(name: str) -> None:
    with pytest.raises(Exception) as expected:
        MISTAKES[name](peers)
    with pytest.raises(type(expected.value)):
        MISTAKES[name](ours)


@pytest.mark.parametrize(
    "made",
    [
        lambda nn, params: nn.CompositeDistribution(params, {"other": d.Normal}),
        lambda nn, params: nn.CompositeDistribution(params, {"speed": d.Categorical}),
    ],
    ids=["no parameters", "other parameters"],
)
def test_the_errors_of_composite_distributions_are_of_the_same_class(made: Any) -> None:
    with pytest.raises(Exception) as expected:
        made(tensordict.nn, _params(tensordict))
    with pytest.raises(type(expected.value)):
        made(tensorclass.nn, _params(tensorclass))
