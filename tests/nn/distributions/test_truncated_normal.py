"""The truncated normal distribution, beside scipy and integrals in many digits, and far in the tails."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from tensorclass.nn.distributions import TruncatedNormal
from tensorclass.nn.distributions.truncated_normal import _log_ndtr, _log_ndtri

INF = math.inf

#: lower bound, upper bound, loc, scale
CASES = [
    (-1.0, 2.0, 0.0, 1.0),
    (-1.0, 0.5, 0.25, 2.0),
    (8.0, 9.0, 0.0, 1.0),
    (20.0, 21.0, 0.0, 1.0),
    (-21.0, -20.0, 0.0, 1.0),
    (-50.0, -20.0, 0.0, 1.0),
    (-INF, INF, 1.0, 3.0),
    (0.0, INF, 0.0, 1.0),
    (-INF, 1.0, 0.5, 2.0),
    (-1.0, 1.0, 100.0, 1.0),
    (-1e-4, 1e-4, 0.0, 1.0),
    (5.0, 5.0001, 0.0, 1.0),
    (30.0, INF, 0.0, 1.0),
    (-INF, -60.0, 0.0, 1.0),
    (0.0, 3.0, 0.0, 1.0),
    (-3.0, 0.0, 0.0, 1.0),
]

TENSORS = {torch.float64: 1e-7, torch.float32: 1e-4}


def made(case: tuple[float, float, float, float], dtype: torch.dtype) -> TruncatedNormal:
    a, b, loc, scale = case
    return TruncatedNormal(torch.tensor(loc, dtype=dtype), torch.tensor(scale, dtype=dtype), a, b)


class Exact:
    """The formulas of the books in a thousand digits, where no cancellation matters."""

    def __init__(self, truncated: TruncatedNormal) -> None:
        self.loc, self.scale = mpmath.mpf(truncated.loc.item()), mpmath.mpf(truncated.scale.item())
        self.a, self.b = (self.standard(bound.item()) for bound in (truncated.a, truncated.b))
        self.z = self.below(self.b) - self.below(self.a)
        at = [mpmath.npdf(bound) if mpmath.isfinite(bound) else mpmath.mpf(0) for bound in (self.a, self.b)]
        weighted = [
            bound * value if value else mpmath.mpf(0) for bound, value in zip((self.a, self.b), at, strict=True)
        ]
        first, second = (at[0] - at[1]) / self.z, 1 + (weighted[0] - weighted[1]) / self.z
        self.mean = self.loc + self.scale * first
        self.variance = self.scale**2 * (second - first**2)
        self.entropy = mpmath.log(mpmath.sqrt(2 * mpmath.pi) * self.z * self.scale) + second / 2

    def standard(self, value: float) -> Any:
        return mpmath.mpf(value) if math.isinf(value) else (mpmath.mpf(value) - self.loc) / self.scale

    def below(self, z: Any) -> Any:
        return mpmath.erfc(-z / mpmath.sqrt(2)) / 2

    def log_prob(self, value: float) -> Any:
        return mpmath.log(mpmath.npdf(self.standard(value)) / self.z / self.scale)

    def cdf(self, value: float) -> Any:
        return (self.below(self.standard(value)) - self.below(self.a)) / self.z


@pytest.fixture(autouse=True)
def digits() -> Any:
    with mpmath.workdps(1200):
        yield


@pytest.mark.parametrize("dtype", list(TENSORS), ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_agrees_with_the_formulas_in_many_digits(
    case: tuple[float, float, float, float], dtype: torch.dtype
) -> None:
    truncated = made(case, dtype)
    exact = Exact(truncated)
    close = {"rel": 1e-6 if dtype is torch.float64 else 1e-5, "abs": 1e-12 if dtype is torch.float64 else 1e-5}
    assert truncated.mean.item() == pytest.approx(float(exact.mean), **close)
    assert truncated.variance.item() == pytest.approx(float(exact.variance), rel=1e-6)
    assert truncated.entropy().item() == pytest.approx(float(exact.entropy), **close)
    for probability in (0.01, 0.3, 0.8):
        value = truncated.icdf(torch.tensor(probability, dtype=dtype))
        below = float(exact.cdf(value.item()))
        assert below == pytest.approx(probability, abs=1e-11 if dtype is torch.float64 else 3e-3)
        assert truncated.cdf(value).item() == pytest.approx(below, abs=1e-12 if dtype is torch.float64 else 1e-6)
        assert truncated.log_prob(value).item() == pytest.approx(float(exact.log_prob(value.item())), **close)


@pytest.mark.parametrize("case", CASES[:9], ids=str)
def test_it_agrees_with_scipy(case: tuple[float, float, float, float]) -> None:
    a, b, loc, scale = case
    ours = made(case, torch.float64)
    theirs = stats.truncnorm((a - loc) / scale, (b - loc) / scale, loc, scale)
    values = torch.linspace(max(a, -30.0), min(b, 30.0), 9, dtype=torch.float64)
    torch.testing.assert_close(ours.log_prob(values), torch.from_numpy(theirs.logpdf(values.numpy())))
    torch.testing.assert_close(ours.cdf(values), torch.from_numpy(theirs.cdf(values.numpy())))
    probabilities = torch.linspace(0.0, 1.0, 9, dtype=torch.float64)
    torch.testing.assert_close(ours.icdf(probabilities), torch.from_numpy(theirs.ppf(probabilities.numpy())))
    assert ours.mean.item() == pytest.approx(theirs.mean())
    assert ours.stddev.item() == pytest.approx(theirs.std(), rel=1e-5)
    assert ours.median.item() == pytest.approx(theirs.median())


def test_the_density_integrates_to_one() -> None:
    truncated = TruncatedNormal(
        torch.tensor([0.0, 3.0, -9.0]).double(), torch.tensor([1.0, 2.0, 0.5]).double(), -1.0, 2.0
    )
    x = torch.linspace(-1.0, 2.0, 200_001).double()
    torch.testing.assert_close(torch.trapezoid(truncated.log_prob(x[:, None]).exp(), x, dim=0), torch.ones(3).double())


def test_the_auc_is_the_mass_between_the_bounds() -> None:
    truncated = TruncatedNormal(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 2.0]), -1.0, 2.0)
    normal = stats.norm([0.0, 1.0], [1.0, 2.0])
    np.testing.assert_allclose(truncated.auc, normal.cdf(2.0) - normal.cdf(-1.0), rtol=1e-6)


def test_samples_follow_the_distribution() -> None:
    torch.manual_seed(0)
    truncated = TruncatedNormal(torch.tensor([0.0, 9.0]), torch.tensor([1.0, 2.0]), -1.0, 2.0)
    samples = truncated.sample((20_000,))
    assert samples.shape == (20_000, 2)
    for column in range(2):
        a, b, loc, scale = (
            tensor[column].item() for tensor in (truncated.a, truncated.b, truncated.loc, truncated.scale)
        )
        law = stats.truncnorm((a - loc) / scale, (b - loc) / scale, loc, scale)
        assert stats.kstest(samples[:, column].numpy(), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_samples_stay_between_the_bounds(dtype: torch.dtype) -> None:
    truncated = TruncatedNormal(torch.tensor([0.0, 90.0, -90.0], dtype=dtype), 1.0, -1.0, 2.0)
    samples = truncated.rsample((500,))
    assert samples.dtype is dtype
    assert bool(((samples >= -1) & (samples <= 2)).all())


@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[2], CASES[3], CASES[4]], ids=str)
def test_gradients_are_right(case: tuple[float, float, float, float]) -> None:
    a, b, loc, scale = (torch.tensor(number, dtype=torch.float64, requires_grad=True) for number in case)
    point = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    value = (a + 0.4 * (b - a)).detach().requires_grad_()

    def of(name: str) -> Any:
        def function(loc: Tensor, scale: Tensor, a: Tensor, b: Tensor, x: Tensor) -> Tensor:
            found = getattr(TruncatedNormal(loc, scale, a, b, validate_args=False), name)
            if isinstance(found, Tensor):
                return found
            return found() if name == "entropy" else found(x)

        return function

    for name, x in [
        ("log_prob", value),
        ("cdf", value),
        ("icdf", point),
        ("mean", point),
        ("variance", point),
        ("entropy", point),
    ]:
        eps = 1e-6 if name != "variance" else 1e-4
        assert torch.autograd.gradcheck(of(name), (loc, scale, a, b, x), eps=eps, rtol=1e-2, atol=1e-4), name


def test_gradients_are_finite_where_there_is_no_bound() -> None:
    loc = torch.tensor([0.0, 40.0, -40.0, 2.0], requires_grad=True)
    scale = torch.ones(4, requires_grad=True)
    truncated = TruncatedNormal(loc, scale, torch.tensor([-INF, -INF, 0.0, -INF]), torch.tensor([INF, 0.0, INF, 9.0]))
    sample = truncated.rsample()
    total = sample + truncated.log_prob(sample.detach()) + truncated.mean + truncated.variance + truncated.entropy()
    total = total + truncated.cdf(sample.detach())
    total.sum().backward()
    assert loc.grad is not None
    assert scale.grad is not None
    assert bool(loc.grad.isfinite().all() & scale.grad.isfinite().all())


def test_gradients_flow_after_what_was_asked_for_without_them() -> None:
    loc = torch.tensor([0.1, 3.0], requires_grad=True)
    truncated = TruncatedNormal(loc, 1.0, -1.0, 2.0)
    value = truncated.sample()
    assert not value.requires_grad
    with torch.inference_mode():
        truncated.entropy()
    for found in (truncated.log_prob(value), truncated.entropy(), truncated.rsample(), truncated.mean):
        (gradient,) = torch.autograd.grad(found.sum(), loc, retain_graph=True)
        assert bool(gradient.ne(0).all())


def test_the_inverse_of_the_logarithm_holds_everywhere() -> None:
    z = torch.tensor([-1e6, -1e3, -60.0, -37.5, -36.0, -5.0, -1.0, 0.0, 1.0, 5.0], dtype=torch.float64)
    y = torch.special.log_ndtr(z)
    torch.testing.assert_close(_log_ndtri(y), z, rtol=1e-9, atol=1e-9)
    y = y[:-1].requires_grad_()
    assert torch.autograd.gradcheck(_log_ndtri, (y[2:],), rtol=1e-4)
    assert torch.autograd.gradgradcheck(_log_ndtri, (y[4:],), rtol=1e-3)
    assert _log_ndtri(torch.tensor(-INF)) == -INF


def test_the_gradient_is_right_where_two_formulas_meet() -> None:
    z = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(_log_ndtr(z).sum(), z)
    density = torch.exp(-0.5 * z.detach() ** 2) / (2 * torch.pi) ** 0.5
    torch.testing.assert_close(gradient, density / torch.special.ndtr(z.detach()))


def test_a_value_outside_has_no_density() -> None:
    checked = TruncatedNormal(torch.zeros(2), 1.0, -1.0, 1.0)
    with pytest.raises(ValueError, match="support"):
        checked.log_prob(torch.tensor(3.0))
    with pytest.raises(ValueError, match="between 0 and 1"):
        checked.icdf(torch.tensor(1.5))
    free = TruncatedNormal(torch.zeros(2), 1.0, -1.0, 1.0, validate_args=False)
    assert free.log_prob(torch.tensor(3.0)).tolist() == [-INF, -INF]
    assert free.cdf(torch.tensor([-3.0, 3.0])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((0.0, 1.0, 2.0, 1.0), "lower bound a must be below"),
        ((0.0, 1.0, 1.0, 1.0), "lower bound a must be below"),
        ((0.0, -1.0, 0.0, 1.0), "scale"),
        ((math.nan, 1.0, 0.0, 1.0), "loc"),
    ],
)
def test_parameters_that_make_no_distribution_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TruncatedNormal(*(torch.tensor(number) for number in arguments))


def test_the_mode_is_the_value_next_to_loc() -> None:
    assert TruncatedNormal(torch.tensor([0.0, 5.0, -5.0]), 1.0, -1.0, 2.0).mode.tolist() == [0.0, 2.0, -1.0]


def test_it_expands() -> None:
    truncated = TruncatedNormal(torch.zeros(3), 1.0, -1.0, 2.0).expand((4, 3))
    assert truncated.batch_shape == (4, 3)
    assert truncated.rsample((2,)).shape == (2, 4, 3)
    assert truncated.mean.shape == truncated.entropy().shape == (4, 3)
    with pytest.raises(ValueError, match="support"):
        truncated.log_prob(torch.tensor(3.0))


def _summed(loc: Tensor, scale: Tensor, x: Tensor) -> Tensor:
    truncated = TruncatedNormal(loc, scale, -1.0, 2.0, validate_args=False)
    return truncated.icdf(x) + truncated.log_prob(x) + truncated.mean + truncated.cdf(x)


def test_it_works_under_vmap_and_forward_mode() -> None:
    loc, scale, x = torch.linspace(-3, 3, 5), torch.linspace(0.5, 2, 5), torch.full((5,), 0.3)
    torch.testing.assert_close(torch.vmap(_summed)(loc, scale, x), _summed(loc, scale, x))
    by_row = torch.vmap(torch.func.grad(_summed))(loc, scale, x)
    _, forward = torch.func.jvp(lambda loc: _summed(loc, scale, x), (loc,), (torch.ones(5),))
    torch.testing.assert_close(by_row, forward)


def test_it_compiles_as_one_graph() -> None:
    loc, scale, x = torch.linspace(-3, 3, 5).requires_grad_(), torch.linspace(0.5, 2, 5), torch.full((5,), 0.3)
    compiled = torch.compile(_summed, fullgraph=True, backend="aot_eager")
    expected = _summed(loc, scale, x)
    torch.testing.assert_close(compiled(loc, scale, x), expected)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(loc, scale, x).sum(), loc), torch.autograd.grad(expected.sum(), loc)
    )
