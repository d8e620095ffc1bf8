r"""The normal distribution between two bounds, computed so that it holds far in the tails, too.

For a standard normal variable between :math:`\alpha` and :math:`\beta`, with :math:`\varphi` its density, :math:`\Phi`
its distribution function and :math:`Z = \Phi(\beta) - \Phi(\alpha)`:

- density :math:`\varphi(z) / Z`, distribution function :math:`(\Phi(z) - \Phi(\alpha)) / Z`;
- mean :math:`\mu = (\varphi(\alpha) - \varphi(\beta)) / Z`;
- second moment :math:`1 + (\alpha \varphi(\alpha) - \beta \varphi(\beta)) / Z`, and the variance is that less
  :math:`\mu^2`;
- entropy :math:`\log(\sqrt{2 \pi} Z) + E[z^2] / 2`.

Sources: N. L. Johnson, S. Kotz, N. Balakrishnan, Continuous Univariate Distributions, volume 1, 1994, section 13.10.1;
J. Burkardt, The Truncated Normal Distribution, 2014.

Both terms of :math:`Z` vanish in a tail. There everything is divided by :math:`\varphi(\beta)`, which leaves the scaled
complementary error function: for :math:`\alpha < \beta \le 0`, with :math:`\Delta = (\alpha^2 - \beta^2) / 2`,

.. math:: 2 e^{\beta^2 / 2} Z = \mathrm{erfcx}(-\beta / \sqrt 2) - \mathrm{erfcx}(-\alpha / \sqrt 2) e^{-\Delta}

(J. Fernandez-de-Cossio-Diaz, Moments of the univariate truncated normal distribution, 2017). An interval in the upper
tail is mirrored. Around 0 the two error functions have different signs, and nothing is lost. All of it is computed in
float64 where the device has that, whatever the dtype of the parameters is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Size, Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all
from typing_extensions import Self

_LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_SQRT_PI_OVER_2 = math.sqrt(math.pi / 2.0)
_SQRT_HALF = math.sqrt(0.5)
_LOG_HALF = -math.log(2.0)

#: below this logarithm of a probability, a first guess and Newton's method take the place of ``ndtri``
_FAR = -600.0

#: widths of intervals below which the variance is that of the series in the width
_NARROW = 1e-3


def _erfcx(x: Tensor) -> Tensor:
    special: Any = torch.special
    value: Tensor = special.erfcx(x)
    return value


def _log_ndtr(z: Tensor) -> Tensor:
    """``log Φ``; ``torch.special.log_ndtr`` knows no ``vmap``."""
    below = z.clamp_max(-1.0)
    tail = torch.log(0.5 * _erfcx(below * -_SQRT_HALF)) - 0.5 * below.square()
    return torch.where(z < -1.0, tail, torch.log1p(-0.5 * torch.erfc(z.clamp_min(-1.0) * _SQRT_HALF)))


def _hazard(z: Tensor) -> Tensor:
    """``Φ(z) / φ(z)``, which is the inverse of the derivative of ``log Φ``."""
    return _erfcx(z * -_SQRT_HALF) * _SQRT_PI_OVER_2


def _log_ndtri(y: Tensor) -> Tensor:
    """The inverse of ``log_ndtr``: the z at which ``log Φ`` is ``y``; with its first and second derivatives.

    ``ndtri`` gives it as far as ``exp(y)`` is a number. Below that ``log Φ(z)`` is about ``-z²/2 - log(-z √(2π))``
    (Mills' ratio), which gives a first guess, and as ``log Φ`` is concave, Newton's method finds the root from there:
    four steps reach the last digit.

    Two more steps are for the derivatives only. A step from a constant has the first derivative of the root, and one
    from that has the second, too.
    """
    special: Any = torch.special
    infinite = y == -torch.inf
    y = torch.where(infinite, _FAR, y)
    fixed = y.detach()
    near: Tensor = special.ndtri(fixed.clamp_min(_FAR).exp())
    far = fixed.clamp_max(_FAR)
    square = -2.0 * (far + _LOG_SQRT_2PI)
    z = -(square - square.log()).sqrt()
    for _ in range(4):
        z = z - (_log_ndtr(z) - far) * _hazard(z)
    z = torch.where(fixed < _FAR, z, near)
    for _ in range(2):
        z = z - (_log_ndtr(z) - y) * _hazard(z)
    return torch.where(infinite, -torch.inf, z)


class _Interval(NamedTuple):
    """The standardised interval, mirrored where it lies above 0, and what is known of it.

    What is not used for an element (``tail`` says which half is) is a harmless number, so that no derivative is nan.
    """

    mirrored: Tensor
    tail: Tensor  # the interval lies below 0
    lower: Tensor  # where there is no bound: any number
    upper: Tensor
    no_lower: Tensor
    no_upper: Tensor
    bracket: Tensor  # of the tail: 2 Z / φ(upper) / √(2π)
    decay: Tensor  # of the tail: φ(lower) / φ(upper)
    mass: Tensor  # of an interval around 0: 2 Z
    log_z: Tensor


def _scaled(lower: Tensor, upper: Tensor, no_lower: Tensor) -> tuple[Tensor, Tensor]:
    """For an interval below 0, ``2 exp(upper² / 2) Z`` and ``φ(lower) / φ(upper)``."""
    decay = torch.exp((upper - lower) * (upper + lower) * 0.5)
    decay = torch.where(no_lower, 0.0, decay)
    return _erfcx(upper * -_SQRT_HALF) - _erfcx(lower * -_SQRT_HALF) * decay, decay


def _mass(lower: Tensor, upper: Tensor, no_lower: Tensor, no_upper: Tensor) -> Tensor:
    """For an interval around 0, ``2 Z``."""
    above = torch.where(no_upper, 1.0, torch.erf(upper * _SQRT_HALF))
    return above - torch.where(no_lower, -1.0, torch.erf(lower * _SQRT_HALF))


def _interval(alpha: Tensor, beta: Tensor, no_alpha: Tensor, no_beta: Tensor) -> _Interval:
    mirrored = (alpha >= 0) & ~no_alpha
    lower, upper = torch.where(mirrored, -beta, alpha), torch.where(mirrored, -alpha, beta)
    no_lower, no_upper = torch.where(mirrored, no_beta, no_alpha), no_beta & ~mirrored
    tail = (upper <= 0) & ~no_upper
    bracket, decay = _scaled(
        torch.where(tail & ~no_lower, lower, torch.where(tail, upper - 1.0, -2.0)),
        torch.where(tail, upper, -1.0),
        no_lower,
    )
    mass = _mass(torch.where(tail, -1.0, lower), torch.where(tail, 1.0, upper), no_lower & ~tail, no_upper)
    log_z = torch.where(tail, bracket.log() - 0.5 * torch.where(tail, upper, 0.0).square(), mass.log()) + _LOG_HALF
    return _Interval(mirrored, tail, lower, upper, no_lower, no_upper, bracket, decay, mass, log_z)


class TruncatedNormal(Distribution):
    """The normal distribution, of which only what lies between two bounds is left.

    The formulas and their sources stand at the top of this module.

    >>> truncated = TruncatedNormal(torch.zeros(3), torch.ones(3), -1.0, 2.0)
    >>> truncated.mean
    tensor([0.2296, 0.2296, 0.2296])
    >>> truncated.log_prob(torch.tensor(0.0))
    tensor([-0.7188, -0.7188, -0.7188])

    Args:
        loc: the mean of the normal distribution before it is truncated.
        scale: its standard deviation; positive.
        a: the lower bound, ``-inf`` for none.
        b: the upper bound, ``inf`` for none.
        validate_args: check arguments and values; as torch's default says if it is ``None``.

    Raises:
        ValueError: a lower bound is not below its upper bound, a scale is not positive, a parameter is nan.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {  # pyright: ignore[reportIncompatibleMethodOverride]
        "loc": constraints.real,
        "scale": constraints.positive,
        "a": constraints.real,
        "b": constraints.real,
    }
    has_rsample = True

    loc: Tensor
    scale: Tensor
    a: Tensor
    b: Tensor
    #: the standardised interval, once it was asked for
    _interval: _Interval | None = None

    def __init__(
        self,
        loc: float | Tensor,
        scale: float | Tensor,
        a: float | Tensor,
        b: float | Tensor,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.a, self.b = broadcast_all(loc, scale, a, b)
        super().__init__(self.loc.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.a < self.b).all()):
            raise ValueError(
                "TruncatedNormal: each lower bound a must be below its upper bound b; "
                f"got a between {self.a.min().item()} and {self.a.max().item()}, "
                f"b between {self.b.min().item()} and {self.b.max().item()}"
            )

    def expand(self, batch_shape: Size | Sequence[int], _instance: Any = None) -> Self:
        """The same distribution for a larger batch."""
        size = Size(batch_shape)
        new: Self = object.__new__(type(self)) if _instance is None else _instance
        new.loc, new.scale, new.a, new.b = (tensor.expand(size) for tensor in (self.loc, self.scale, self.a, self.b))
        Distribution.__init__(new, size, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def support(self) -> Any:
        """What lies between the bounds."""
        interval: Any = constraints.interval
        return interval(self.a, self.b)

    # -- the standardised interval ------------------------------------------------------------------------------------

    def _standard(self, value: Tensor) -> Tensor:
        """A value, at most infinite, on the scale of the standard normal distribution, in the dtype of computations."""
        dtype = torch.float64 if value.device.type != "mps" else torch.float32
        return (value.to(dtype) - self.loc.to(dtype)) / self.scale.to(dtype)

    @property
    def _known(self) -> _Interval:
        """The interval; computed when it is first asked for, and kept."""
        known = self._interval
        if known is None:
            no_alpha, no_beta = self.a == -torch.inf, self.b == torch.inf
            alpha = self._standard(torch.where(no_alpha, 0.0, self.a))
            beta = self._standard(torch.where(no_beta, 0.0, self.b))
            known = self._interval = _interval(alpha, beta, no_alpha, no_beta)
        return known

    def _moments(self) -> tuple[Tensor, Tensor]:
        """The mean of the standardised, mirrored variable, and that of its square."""
        known = self._known
        tail, lower, upper, decay = known.tail, known.lower, known.upper, known.decay
        # of a tail: φ(upper) / Z = √(2/π) / bracket; of others: φ(z) / Z = √(2/π) exp(-z²/2) / mass
        factor = _SQRT_2_OVER_PI / torch.where(tail, known.bracket, known.mass)
        low = torch.where(tail | known.no_lower, 0.0, lower)
        high = torch.where(tail | known.no_upper, 0.0, upper)
        at_lower = torch.where(tail, decay, torch.where(known.no_lower, 0.0, torch.exp(-0.5 * low.square())))
        at_upper = torch.where(tail, 1.0, torch.where(known.no_upper, 0.0, torch.exp(-0.5 * high.square())))
        low = torch.where(known.no_lower, 0.0, lower)
        high = torch.where(known.no_upper, 0.0, upper)
        return (at_lower - at_upper) * factor, 1.0 + (low * at_lower - high * at_upper) * factor

    def _given(self, value: Tensor) -> Tensor:
        return value.to(self.loc.dtype)

    @property
    def auc(self) -> Tensor:
        """The probability that the normal distribution has between the bounds, :math:`Z`."""
        return self._given(self._known.log_z.exp())

    @property
    def eps(self) -> float:
        """The smallest probability from which samples are drawn."""
        return torch.finfo(self.loc.dtype).tiny

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        first, _ = self._moments()
        first = torch.where(self._known.mirrored, -first, first)
        return self._given(self.loc.to(first.dtype) + self.scale.to(first.dtype) * first).clamp(self.a, self.b)

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        known = self._known
        first, second = self._moments()
        variance = second - first.square()
        bounded = ~(known.no_lower | known.no_upper)
        lower, upper = torch.where(bounded, known.lower, -1.0), torch.where(bounded, known.upper, 1.0)
        middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
        narrow = bounded & (half * (1.0 + middle.abs()) < _NARROW)
        # the density exp(-m t - t²/2) for -h < t < h, to the fourth power of h
        series = half.square() * (1.0 / 3.0 - half.square() * (2.0 / 45.0 + middle.square() / 15.0))
        variance = torch.where(narrow, series, variance).clamp_min(0.0)
        return self._given(variance * self.scale.to(variance.dtype).square())

    @property
    def mode(self) -> Tensor:
        """The most probable value: ``loc``, or the bound that is next to it."""
        return self.loc.clamp(self.a, self.b)

    @property
    def median(self) -> Tensor:
        """The value with half of the probability below it."""
        return self.icdf(torch.full_like(self.loc, 0.5))

    def entropy(self) -> Tensor:
        """The differential entropy, in nats."""
        _, second = self._moments()
        log_scale = self.scale.to(second.dtype).log()
        return self._given(self._known.log_z + _LOG_SQRT_2PI + 0.5 * second + log_scale)

    # -- values -------------------------------------------------------------------------------------------------------

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density; ``-inf`` outside the bounds.

        Args:
            value: of a shape that broadcasts with the batch shape.

        Raises:
            ValueError: a value is outside the bounds (where arguments are checked).
        """
        if self._validate_args:
            self._validate_sample(value)
        z = self._standard(value)
        log_prob = -0.5 * z.square() - _LOG_SQRT_2PI - self._known.log_z - self.scale.to(z.dtype).log()
        outside = (value < self.a) | (value > self.b)
        return self._given(log_prob.masked_fill(outside, -torch.inf))

    def cdf(self, value: Tensor) -> Tensor:
        """The probability below each value: 0 below the lower bound, 1 above the upper one.

        Args:
            value: of a shape that broadcasts with the batch shape.

        Raises:
            ValueError: a value is outside the bounds (where arguments are checked).
        """
        if self._validate_args:
            self._validate_sample(value)
        known = self._known
        value = torch.minimum(torch.maximum(value, self.a), self.b)
        infinite = value.isinf()
        z = self._standard(torch.where(infinite, 0.0, value))
        mirrored = known.mirrored
        z = torch.where(mirrored, -z, z)
        tail = known.tail.expand(z.shape)
        # of a mirrored interval: from the value to its upper bound, which is what lies below the value
        lower = torch.where(mirrored, z, known.lower)
        upper = torch.where(mirrored, known.upper, z)
        no_lower = torch.where(mirrored, infinite, known.no_lower)
        no_upper = infinite & ~mirrored
        below, _ = _scaled(
            torch.where(tail & ~no_lower, lower, torch.where(tail, upper - 1.0, -2.0)),
            torch.where(tail & ~no_upper, upper, -1.0),
            no_lower,
        )
        # both scaled masses refer to their own upper end: that of a mirrored interval is the same
        shift = torch.where(tail & ~mirrored & ~no_upper, (known.upper - z) * (known.upper + z) * 0.5, 0.0)
        in_tail = below * torch.exp(shift) / known.bracket
        around = _mass(torch.where(tail, -1.0, lower), torch.where(tail, 1.0, upper), no_lower, no_upper) / known.mass
        # a value at minus infinity has nothing below it
        probability = torch.where(tail, in_tail, around)
        return self._given(torch.where(value == -torch.inf, 0.0, probability).clamp(0.0, 1.0))

    def icdf(self, value: Tensor) -> Tensor:
        """The value with the given probability below it.

        Args:
            value: probabilities, of a shape that broadcasts with the batch shape.

        Raises:
            ValueError: a probability is not between 0 and 1 (where arguments are checked).
        """
        if self._validate_args and not bool(((value >= 0) & (value <= 1)).all()):
            raise ValueError("TruncatedNormal.icdf: expected probabilities between 0 and 1")
        known = self._known
        log_z = known.log_z
        below = value.to(log_z.dtype)
        below, above = torch.where(known.mirrored, 1.0 - below, below), torch.where(known.mirrored, below, 1.0 - below)
        # log Φ(z), and for intervals around 0 also log Φ(-z); the smaller one has more digits
        log_below = torch.logaddexp(_masked_log_ndtr(known.lower, known.no_lower), log_z + below.log())
        lowest = torch.where(known.tail, 0.0, -known.upper)
        log_above = torch.logaddexp(_masked_log_ndtr(lowest, known.no_upper), log_z + above.log())
        from_above = (log_below > _LOG_HALF) & ~known.tail
        z = _log_ndtri(torch.where(from_above, log_above, log_below).clamp_max(0.0))
        z = torch.where(from_above != known.mirrored, -z, z)
        return self._given(self.loc.to(z.dtype) + self.scale.to(z.dtype) * z).clamp(self.a, self.b)

    def rsample(self, sample_shape: Size | Sequence[int] = torch.Size()) -> Tensor:  # noqa: B008
        """Random values of shape ``[*sample_shape, *batch_shape]``; gradients flow to all parameters.

        Uniform numbers go through :meth:`icdf` (inverse transform sampling).
        """
        shape = Size(sample_shape) + self._batch_shape
        dtype = self.loc.dtype if self.loc.dtype.itemsize >= 4 else torch.float32
        uniform = torch.rand(shape, dtype=dtype, device=self.loc.device).clamp_min(torch.finfo(dtype).tiny)
        return self.icdf(uniform)


def _masked_log_ndtr(z: Tensor, infinite: Tensor) -> Tensor:
    """``log Φ(z)``, and that of minus infinity where ``infinite`` says so."""
    return torch.where(infinite, -torch.inf, _log_ndtr(torch.where(infinite, 0.0, z)))
