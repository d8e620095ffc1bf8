"""Delta, one-hot categories, mappings to positive numbers, and the modules that make parameters."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch import distributions as d

from tensorclass.nn.distributions import (
    AddStateIndependentNormalScale,
    Delta,
    NormalParamExtractor,
    OneHotCategorical,
    TruncatedNormal,
    add_custom_mapping,
    biased_softplus,
    deterministic_sample,
    expln,
    inv_softplus,
    mappings,
    rand_one_hot,
    scales,
)

LOGITS = torch.tensor([[0.1, 2.0, -1.0], [0.0, 0.5, 0.0]])


# -- Delta


def test_a_delta_is_at_its_point() -> None:
    param = torch.arange(6.0).reshape(2, 3).requires_grad_()
    point = Delta(param)
    assert (point.batch_shape, point.event_shape) == ((2,), (3,))
    for value in (point.sample(), point.rsample(), point.mean, point.mode, point.median, point.deterministic_sample):
        assert torch.equal(value, param)
        assert value.requires_grad
    assert point.rsample((4,)).shape == (4, 2, 3)
    assert point.variance.eq(0).all()
    assert point.stddev.eq(0).all()


@pytest.mark.parametrize(
    "given, batch, event",
    [
        ({}, (2,), (3,)),
        ({"batch_shape": (2,)}, (2,), (3,)),
        ({"batch_shape": (2, 3)}, (2, 3), ()),
        ({"event_shape": (3,)}, (2,), (3,)),
        ({"event_shape": ()}, (2, 3), ()),
        ({"event_shape": (2, 3)}, (), (2, 3)),
        ({"batch_shape": (), "event_shape": (2, 3)}, (), (2, 3)),
    ],
)
def test_the_shapes_of_a_delta_make_up_that_of_its_point(given: Any, batch: Any, event: Any) -> None:
    param = torch.arange(6.0).reshape(2, 3)
    point = Delta(param, **given)
    assert (point.batch_shape, point.event_shape) == (batch, event)
    near = param.clone()
    near[0, 0] += 1
    expected = torch.full(batch, math.inf)
    assert torch.equal(point.log_prob(param), expected)
    if batch:
        expected[(0,) * len(batch)] = -math.inf
    else:
        expected = torch.tensor(-math.inf)
    assert torch.equal(point.log_prob(near), expected)
    assert point.log_prob(param.expand(5, 2, 3)).shape == (5, *batch)


@pytest.mark.parametrize(
    "given", [{"batch_shape": (4, 2)}, {"event_shape": (7,)}, {"batch_shape": (2,), "event_shape": ()}]
)
def test_shapes_that_do_not_fit_a_delta_are_refused(given: Any) -> None:
    with pytest.raises(ValueError, match=r"must make up the shape of param, \[2, 3\]"):
        Delta(torch.zeros(2, 3), **given)


def test_a_delta_is_as_wide_as_its_tolerance() -> None:
    values = torch.tensor([[10.05], [10.2]])
    assert Delta(torch.tensor([10.0]), atol=0.1, rtol=0.0).log_prob(values).tolist() == [math.inf, -math.inf]
    assert Delta(torch.tensor([10.0]), atol=0.0, rtol=0.01).log_prob(values).tolist() == [math.inf, -math.inf]


@pytest.mark.parametrize("param", [torch.tensor([True, False]), torch.tensor([1, 2])], ids=["bool", "int"])
def test_a_delta_takes_what_is_no_float(param: Tensor) -> None:
    assert Delta(param).log_prob(param) == math.inf
    assert Delta(param).log_prob(param.roll(1)) == -math.inf


def test_a_delta_moves_and_expands() -> None:
    point = Delta(torch.zeros(3))
    point.update(torch.ones(3))
    assert point.mean.tolist() == [1.0, 1.0, 1.0]
    assert point.expand((4,)).log_prob(torch.ones(3)).tolist() == [math.inf] * 4
    point.update(torch.ones(5, 3))
    assert point.batch_shape == (5,)
    with pytest.raises(ValueError, match="must end with the event_shape"):
        point.update(torch.ones(2))
    with pytest.raises(TypeError, match="is a tensor, got float"):
        Delta(1.0)  # type: ignore[arg-type]


# -- one-hot categories


def test_one_hot_categories_agree_with_torch() -> None:
    ours, torchs = OneHotCategorical(logits=LOGITS), d.OneHotCategorical(logits=LOGITS)
    assert (ours.batch_shape, ours.event_shape) == ((2,), (3,))
    torch.manual_seed(0)
    sample = ours.sample((50,))
    torch.manual_seed(0)
    assert torch.equal(sample, torchs.sample((50,)).long())
    assert sample.dtype is torch.int64
    torch.testing.assert_close(ours.log_prob(sample), torchs.log_prob(sample.float()))
    torch.testing.assert_close(ours.log_prob(sample.bool()), torchs.log_prob(sample.float()))
    torch.testing.assert_close(ours.entropy(), torchs.entropy())
    torch.testing.assert_close(ours.mean, torchs.mean)
    assert ours.mode.tolist() == ours.deterministic_sample.tolist() == [[0, 1, 0], [0, 1, 0]]
    assert OneHotCategorical(probs=torch.tensor([1.0, 3.0])).probs.tolist() == [0.25, 0.75]


def test_the_gradient_of_one_hot_samples_is_that_of_the_probabilities() -> None:
    logits = LOGITS.clone().requires_grad_()
    torch.manual_seed(0)
    sample = OneHotCategorical(logits).rsample()
    assert bool(((sample - sample.round()).abs() < 1e-6).all())
    weights = torch.tensor([1.0, 2.0, 3.0])
    (found,) = torch.autograd.grad((sample * weights).sum(), logits)
    (expected,) = torch.autograd.grad((logits.softmax(-1) * weights).sum(), logits)
    torch.testing.assert_close(found, expected)


def test_one_hot_categories_expand() -> None:
    expanded = OneHotCategorical(logits=LOGITS).expand((4, 2))
    assert type(expanded) is OneHotCategorical
    assert expanded.sample().shape == (4, 2, 3)


@pytest.mark.parametrize("given", [{}, {"logits": LOGITS, "probs": LOGITS}], ids=["none", "both"])
def test_one_hot_categories_take_one_of_two_parameters(given: Any) -> None:
    with pytest.raises(ValueError, match="but not both"):
        OneHotCategorical(**given)


@pytest.mark.parametrize("do_softmax", [True, False])
def test_random_one_hot_vectors_have_the_given_probabilities(do_softmax: bool) -> None:
    torch.manual_seed(0)
    probs = torch.tensor([0.1, 0.6, 0.0, 0.3])
    values = (probs.log() if do_softmax else probs).expand(10_000, 4)
    counts = rand_one_hot(values, do_softmax).sum(0)
    assert counts[2] == 0
    kept = probs > 0
    assert stats.chisquare(counts[kept].numpy(), (probs[kept] * 10_000).double().numpy()).pvalue > 1e-3
    assert rand_one_hot(torch.zeros(2, 5, 3)).sum(-1).eq(1).all()


# -- one value for a distribution


@pytest.mark.parametrize(
    "distribution, expected",
    [
        (d.Normal(torch.tensor([2.0]), 1.0), [2.0]),
        (d.Bernoulli(torch.tensor([0.3, 0.7])), [0.0, 1.0]),
        (d.Categorical(logits=LOGITS), [1, 1]),
        (d.OneHotCategorical(logits=LOGITS), [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]),
        (d.OneHotCategoricalStraightThrough(logits=LOGITS), [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]),
        (d.RelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.3, 0.7])), [0.0, 1.0]),
        (d.RelaxedOneHotCategorical(torch.tensor(0.5), logits=LOGITS[0]), [0.0, 1.0, 0.0]),
        (d.Independent(d.Bernoulli(torch.tensor([0.3, 0.7])), 1), [0.0, 1.0]),
        (d.Uniform(torch.tensor(0.0), torch.tensor(4.0)), 2.0),
        (d.Poisson(torch.tensor(2.5)), 2.5),
        (d.Binomial(3, torch.tensor(0.3)), 1.0),
        (Delta(torch.tensor([1.0])), [1.0]),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, d.Distribution) else "",
)
def test_one_value_stands_for_a_distribution(distribution: d.Distribution, expected: Any) -> None:
    assert deterministic_sample(distribution).tolist() == expected


def test_the_value_of_a_logistic_normal_is_where_the_middle_goes() -> None:
    value = deterministic_sample(d.LogisticNormal(torch.zeros(2), torch.ones(2)))
    torch.testing.assert_close(value, torch.full((3,), 1 / 3))


def test_a_distribution_without_a_mean_has_no_such_value() -> None:
    with pytest.raises(NotImplementedError):
        deterministic_sample(d.TransformedDistribution(d.Normal(0.0, 1.0), [d.TanhTransform()]))


# -- mappings


def test_the_inverse_of_softplus_is_one() -> None:
    for number in (1e-12, 1e-3, 1.0, 20.0, 1e3):
        found = inv_softplus(number)
        assert math.log1p(math.exp(found)) == pytest.approx(number) if found < 700 else found == number
    numbers = torch.logspace(-6, 4, 20, dtype=torch.float64).requires_grad_()
    torch.testing.assert_close(torch.nn.functional.softplus(inv_softplus(numbers)), numbers)
    assert torch.autograd.gradcheck(inv_softplus, (numbers[4:15],))
    assert inv_softplus(torch.tensor(1)) == pytest.approx(inv_softplus(1.0))
    with pytest.raises(ValueError, match=r"no number whose softplus is 0\.0"):
        inv_softplus(0.0)


@pytest.mark.parametrize("bias, min_val", [(1.0, 0.01), (0.5, 0.1), (60.0, 0.0)])
def test_a_biased_softplus_is_its_bias_at_zero(bias: float, min_val: float) -> None:
    module = biased_softplus(bias, min_val)
    assert module(torch.zeros(())).item() == pytest.approx(bias)
    assert module(torch.tensor(-1e4)).item() == pytest.approx(min_val)
    assert not module.state_dict()
    with pytest.raises(ValueError, match="must be larger than min_val"):
        biased_softplus(0.01, 0.01)


def test_expln_is_smooth_and_slow() -> None:
    x = torch.tensor([-1e3, -1.0, 0.0, 1.0, 1e30], dtype=torch.float64, requires_grad=True)
    value = expln(x)
    torch.testing.assert_close(value[1:4], torch.tensor([math.exp(-1), 1.0, 1 + math.log(2)], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(value.sum(), x)
    assert gradient.isfinite().all()
    assert gradient[2] == 1.0
    assert torch.autograd.gradcheck(expln, (torch.linspace(-3, 3, 6, dtype=torch.float64).requires_grad_(),))


def test_mappings_have_names() -> None:
    x = torch.tensor([-1.0, 0.0, 2.0])
    assert torch.equal(mappings("exp")(x), x.exp())
    assert torch.equal(mappings("relu")(x), x.relu())
    assert torch.equal(mappings("none")(x), x)
    assert torch.equal(mappings("softplus")(x), torch.nn.functional.softplus(x))
    assert torch.equal(mappings("expln")(x), expln(x))
    for name, bias, min_val in [
        ("biased_softplus", 1.0, 0.01),
        ("biased_softplus_0.5", 0.5, 0.01),
        ("biased_softplus_2_0.1", 2.0, 0.1),
    ]:
        assert torch.equal(mappings(name)(x), biased_softplus(bias, min_val)(x))


@pytest.mark.parametrize(
    "name, kind, message",
    [
        ("sigmoid", NotImplementedError, "no mapping is called 'sigmoid'; there are .*'softplus'"),
        ("biased_softplus_1.0_0.1_3", ValueError, "takes a bias and a min_val"),
        ("biased_softplus_x", ValueError, "takes a bias and a min_val"),
        (3, TypeError, "the name of a mapping"),
    ],
)
def test_other_names_are_refused(name: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        mappings(name)


def test_mappings_can_be_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scales, "_MAPPINGS", dict(scales._MAPPINGS))
    add_custom_mapping("squared", torch.square)
    loc, scale = NormalParamExtractor("squared")(torch.tensor([1.0, 3.0]))
    assert (loc.item(), scale.item()) == (1.0, 9.0)
    with pytest.raises(TypeError, match="a name and a callable"):
        add_custom_mapping("bad", 3)  # type: ignore[arg-type]


# -- parameters


def test_the_last_dimension_becomes_location_and_scale() -> None:
    module = NormalParamExtractor("exp", scale_lb=0.5)
    loc, scale, other = module(torch.tensor([[1.0, 2.0, 0.0, -9.0]]), "other")  # type: ignore[arg-type]
    assert (loc.tolist(), scale.tolist(), other) == ([[1.0, 2.0]], [[1.0, 0.5]], "other")
    for shape in ([3], [2, 5], []):
        with pytest.raises(ValueError, match=r"must be even; got a tensor of shape"):
            module(torch.zeros(shape))
    with pytest.raises(ValueError, match="expected a tensor"):
        module()
    with pytest.raises(NotImplementedError, match="'bad'"):
        NormalParamExtractor("bad")


@pytest.mark.parametrize("make_param", [True, False])
@pytest.mark.parametrize("shape, size", [(3, (3,)), ((2, 3), (2, 3)), (None, ()), (torch.Size([3]), (3,))])
def test_a_scale_is_added_that_no_input_changes(shape: Any, size: Any, make_param: bool) -> None:
    module = AddStateIndependentNormalScale(shape, make_param=make_param, init_value=0.5)
    assert list(module.state_dict()) == ["state_independent_scale"]
    assert len(list(module.parameters())) == make_param
    found, scale, other = module(torch.zeros(4, 2, 3), torch.ones(1))
    assert found.shape == scale.shape == (4, 2, 3)
    torch.testing.assert_close(scale.detach(), torch.full((4, 2, 3), math.exp(0.5)))
    assert other.tolist() == [1.0]
    assert scale.requires_grad == make_param


def test_a_location_of_another_shape_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match=r"the shape \[3\], so the shape of the location must end with it; got \[4\]"
    ):
        AddStateIndependentNormalScale(3)(torch.zeros(4))
    with pytest.raises(NotImplementedError, match="'bad'"):
        AddStateIndependentNormalScale(3, scale_mapping="bad")


def test_parameters_compile_as_one_graph() -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = NormalParamExtractor()
            self.second = AddStateIndependentNormalScale(2)

        def forward(self, x: Tensor) -> Tensor:
            loc, scale = self.first(x)
            return d.Normal(*self.second(loc * scale), validate_args=False).log_prob(loc)

    module, x = Both(), torch.randn(3, 4)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), module(x))


@pytest.mark.parametrize(
    "distribution",
    [
        Delta(torch.ones(3)),
        OneHotCategorical(torch.zeros(3)),
        TruncatedNormal(torch.zeros(3), torch.ones(3), -1.0, 1.0),
    ],
    ids=lambda given: type(given).__name__,
)
def test_without_a_shape_one_sample_is_drawn(distribution: Any) -> None:
    assert distribution.sample(None).shape == (3,)
    assert distribution.rsample(None).shape == (3,)
    assert distribution.rsample([2]).shape == (2, 3)
